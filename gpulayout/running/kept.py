"""The caches between calls: a call with known shapes plans nothing."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import LONGEST_KEPT

Made = TypeVar("Made")
KEY_TYPES = frozenset((str, Shape, Layout, type(None)))  # types of shape arguments whose values may be part of a key


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
        more = self.ENTRY_BYTES + self.PIECE_BYTES * pieces
        for part in key:
            if type(part) is str and len(part) > LONGEST_KEPT:
                return
            if type(part) is tuple and part and type(part[-1]) is bytes:  # numbers, which the request keeps too
                more += 2 * len(part[-1])
        if key in self._found:
            return
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


MOST_NUMBERS, MOST_LISTED = 1024, 64  # of an array, and of a list, that are part of a key


def _of_float(value: float) -> str | bytes:
    """What tells a float from others: -0.0 is not 0.0, and the bits of a nan are those of results."""
    return repr(value) if value == value else struct.pack("d", value)


def with_values(key: tuple[object, ...], options: Mapping[str, Any]) -> tuple[object, ...] | None:
    """A key with the values of keywords, as they are now; None if one is of a kind whose values this does not read."""
    parts = list(key)
    for name, value in options.items():
        kind = type(value)
        if value is None or kind in (int, str, bool, type, ElementType) or isinstance(value, np.dtype):
            parts.append((name, kind, value))  # 1 is not True here
        elif kind is float:
            parts.append((name, _of_float(value)))
        elif kind in (list, tuple) and len(value) <= MOST_LISTED and {*map(type, value)} <= {float, int}:
            parts.append((name, kind, *[_of_float(each) if type(each) is float else each for each in value]))
        elif kind is np.ndarray and value.size <= MOST_NUMBERS and value.dtype.kind in "fiu":
            parts.append((name, value.dtype, value.shape, value.tobytes()))
        elif kind.__name__ == "dtype" and kind.__module__ == "torch":
            parts.append((name, value))
        else:
            return None
    return tuple(parts)
