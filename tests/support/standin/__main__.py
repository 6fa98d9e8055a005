"""Runs a program, or with -m a module, as Python does, but with two devices.

Usage:
    python -m tests.support.standin [-m] PROGRAM [ARGUMENT ...]
"""

import runpy
import sys

from tests.support.standin import device


def main():
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    if not arguments[is_module:]:
        sys.exit(__doc__)
    device.install()
    sys.argv = arguments[is_module:]
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
