"""Puts the stand-in for CUDA beneath CuPy in every Python process that finds this folder on its path.

Python imports a module of this name when it starts.  CuPy is not imported yet then, and most processes never do: so
this waits for the first import.
"""

import pathlib
import sys

ROOT = str(pathlib.Path(__file__).resolve().parents[3])


class _Install:
    """Installs the stand-in at the first import of CuPy."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cupy", "cupy_backends") and self in sys.meta_path:
            sys.meta_path.remove(self)
            if ROOT not in sys.path:
                sys.path.append(ROOT)
            from tests.support.standin import device

            device.install()
        return None


sys.meta_path.insert(0, _Install())
