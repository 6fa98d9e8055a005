"""The source text of the CUDA kernels that ship with this package."""

from __future__ import annotations

import functools
import pathlib
import re

from gpulayout.gpu.kernel_numbers import defines

_PACKAGE = pathlib.Path(__file__).resolve().parent.parent
# In a wheel, then in a checkout or an editable install.  The search is for the *file*, since another project may
# install a folder of the same name.
_FOLDERS = (_PACKAGE / "kernels", _PACKAGE.parent / "kernels")


@functools.cache  # reading a file takes longer than planning a launch
def kernel_text(file_name: str) -> str:
    """A kernel file with the numbers of `kernel_numbers` in front and its own headers inlined.

    CuPy keys its disk cache by the source text and the options, so a change in a header on an include path would go
    unnoticed.
    """
    text = defines(file_name) + raw_text(file_name)
    return re.sub(r'^#include "([\w.]+)"$', lambda match: kernel_text(match[1]), text, flags=re.MULTILINE)


def raw_text(file_name: str) -> str:
    """A kernel file as it is."""
    for folder in _FOLDERS:
        if (folder / file_name).is_file():
            return (folder / file_name).read_text(encoding="utf-8")
    raise FileNotFoundError(
        f"kernel {file_name} is in neither {_FOLDERS[0]} nor {_FOLDERS[1]}: the installation is incomplete"
    )
