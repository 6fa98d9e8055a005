"""The native engine, compiled from kernels/cpu/: whether it runs here, and if not, why.

It runs all moves and converts indices; NumPy does where it is missing.  It also reads and writes many runs of a file
without Python's lock.  GPULAYOUT_NATIVE=0 turns it off.  No other file imports the extension.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

from gpulayout.layout.errors import shown_as

VARIABLE = "GPULAYOUT_NATIVE"
_EXTENSION = "gpulayout.cpu._native"
FOLDER = Path(__file__).parent
_choices: list[bool] = []  # of `chosen`, the innermost last


@shown_as(ValueError)
class BadNativeChoice(ValueError):
    """GPULAYOUT_NATIVE is neither 0 nor 1."""


def module() -> ModuleType | None:
    """The extension; None where it is turned off or cannot be used.  BadNativeChoice as `missing`."""
    extension = _turned_off() or loaded()
    return extension if isinstance(extension, ModuleType) else None


def missing() -> str:
    """Why the engine does not run, and what to do about it; empty if it runs.

    BadNativeChoice when GPULAYOUT_NATIVE counts and is neither 0 nor 1.
    """
    reason = _turned_off() or loaded()
    return reason if isinstance(reason, str) else ""


def engine() -> str:
    """Which engine runs on the CPU and why, in one line.  Raises as `missing`."""
    extension = module()
    if extension is None:
        return f"NumPy: {missing()}"
    return f"native, with {extension.instruction_sets()[-1]}"


@contextmanager
def chosen(wanted: bool) -> Iterator[None]:
    """Turn the engine on or off for all threads, whatever GPULAYOUT_NATIVE says, until the block ends.  For tests."""
    _choices.append(wanted)
    try:
        yield
    finally:
        _choices.pop()


def _turned_off() -> str:
    """Who turned the engine off, and how to turn it on; empty if nobody did."""
    if _choices:
        return "" if _choices[-1] else "native.chosen(False) turned the native engine off"
    wanted = os.environ.get(VARIABLE)
    if wanted not in (None, "", "0", "1"):
        raise BadNativeChoice(f"{VARIABLE} is {wanted[:40]!r}: it must be 0, which turns the native engine off, or 1")
    return f"{VARIABLE} is 0: unset it, and the native engine runs" if wanted == "0" else ""


@cache
def loaded() -> ModuleType | str:
    """The extension, or why it cannot be loaded.  Two threads that come first together get the same one."""
    if "t" in getattr(sys, "abiflags", ""):
        return "no free-threaded Python can load the native engine: use the usual build of Python, which has a GIL"
    try:
        return importlib.import_module(_EXTENSION)
    except ModuleNotFoundError:
        return f"the native engine was not built: {_reason()}"
    except ImportError as error:
        return f"this Python cannot load the native engine, so reinstall gpulayout for it: {error}"


def _reason() -> str:
    """What the build said, or that there was none, and what to do."""
    try:
        return (FOLDER / "native_build.txt").read_text(encoding="utf-8").strip()
    except OSError:
        root = FOLDER.parents[1]
        is_checkout = (root / "setup.py").exists()
        return f"run python setup.py build_ext --inplace in {root}" if is_checkout else "reinstall gpulayout"
