"""The caches between calls: a call with known shapes plans nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from gpulayout.layout.arguments import LONGEST_KEPT
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape

Made = TypeVar("Made")
KEYS = frozenset((str, Shape, Layout))  # types of shape arguments whose values may be part of a key


class Kept(Generic[Made]):
    """A bounded cache: a dictionary that is cleared when it is full.

    It has no lock: a forked child could inherit a lock that is held, and a signal handler could wait for one.  Each
    step is one atomic operation.  When two threads keep something at once, one entry may not be counted until
    the next clear.
    """

    # Planning costs more than a small move, with tiles many times as much, and grows with the number of pieces.  An
    # entry takes 4.5 KB, and for each piece 1 KB with what NumPy prepares, or 2.1 KB with the native engine.  At 1.4 KB
    # 64 MB hold 11,000 entries of one piece.
    # A transfer of more than 64 MB (65,536 pieces make 92 MB) has the cache to itself.
    MOST_BYTES, ENTRY_BYTES, PIECE_BYTES = 1 << 26, 4500, 1400

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Made] = {}
        self._bytes = 0
        self.get = self._found.get

    def keep(self, key: tuple[Any, ...], made: Made, pieces: int = 0) -> None:
        """Keep a value under a key of hashable parts, unless a part is a long text."""
        if any(isinstance(part, str) and len(part) > LONGEST_KEPT for part in key):
            return
        if key in self._found:
            return
        more = self.ENTRY_BYTES + self.PIECE_BYTES * pieces
        if self._bytes + more > self.MOST_BYTES:
            self.clear()
        self._bytes += more
        self._found[key] = made

    def keys(self) -> list[tuple[Any, ...]]:
        """All keys, oldest first."""
        return list(self._found)

    def clear(self) -> None:
        """Forget everything."""
        self._found.clear()
        self._bytes = 0


MOST_NUMBERS = 64  # of an array that is part of a key


def with_values(key: tuple[object, ...], asked: Sequence[Any]) -> tuple[object, ...] | None:
    """A key with the values of arguments, as they are now; None if one is of a kind whose values this does not read."""
    found = list(key)
    for value in asked:
        kind = type(value)
        if value is None or kind in (int, str, bool, type, ElementType) or isinstance(value, np.dtype):
            found.append((kind, value))  # 1 is not True here
        elif kind is float:
            found.append(repr(value))  # -0.0 is not 0.0 here
        elif kind in (list, tuple) and {*map(type, value)} <= {float, int}:
            found.append((kind, *[repr(each) if type(each) is float else each for each in value]))
        elif kind is np.ndarray and value.size <= MOST_NUMBERS and value.dtype.kind in "fiu":
            found.append((value.dtype, value.shape, value.tobytes()))
        elif kind.__name__ == "dtype":  # torch's
            found.append(value)
        else:
            return None
    return tuple(found)
