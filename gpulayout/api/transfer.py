"""One transfer for pack, unpack and relayout: two sides, the pieces between them, and what backends made of those.

A side is a buffer in some layout or a logical array with strides; all that the three operations differ in is which sides they
have.  Everything that can be worked out before the arrays are there is worked out once and kept here.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpulayout.api import arrays
from gpulayout.layout.arguments import LONGEST_KEPT
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import Array, Backend, Prepared
from gpulayout.moves.move import Pieces


class BufferSide(NamedTuple):
    """A 1-D buffer of a shape."""

    shape: Shape
    role = "buffer"                      # what it is called where it is read

    @property
    def is_packed(self) -> bool:
        """Whether elements share bytes."""
        return self.shape.is_packed

    def check(self, array: Array, role: str) -> None:
        """TypeError or BufferError for what cannot be this side."""
        arrays.check_buffer(array, self.shape, role)

    def empty(self, backend: Backend, dtype: np.dtype | None, like: Array) -> Array:
        """New memory for this side; its own dtype when none is given."""
        return backend.empty((self.shape.buffer_length,), dtype or backend.dtype_for(self.shape), like)


class ArraySide(NamedTuple):
    """A logical array of a shape's dimensions, with byte strides; elements that a buffer packs take a byte each."""

    shape: Shape
    strides: tuple[int, ...]
    role = "array"
    is_packed = False

    def check(self, array: Array, role: str) -> None:
        """As `BufferSide.check`."""
        arrays.check_logical(array, self.shape, role)
        if role == "out":
            arrays.check_no_self_overlap(array, role)

    def empty(self, backend: Backend, dtype: np.dtype | None, like: Array) -> Array:
        """As `BufferSide.empty`, in C order."""
        return backend.empty(self.shape.dimensions, dtype or backend.dtype_for(self.shape.with_layout(None)), like)


Side = BufferSide | ArraySide


class Transfer:
    """From one side to another.

    pieces     moves between parts of both sides
    prepared   what carries them out, by backend
    """

    __slots__ = ("source", "target", "pieces", "prepared")

    def __init__(self, source: Side, target: Side, pieces: Pieces):
        self.source, self.target, self.pieces = source, target, pieces
        self.prepared: dict[Backend, Prepared] = {}

    def __call__(self, given: Any, out: Any) -> Array:
        """`out`, or a new array where `given` lives, with what was moved into it."""
        if type(given) is np.ndarray:
            return self.run(arrays.host_backend(), given, out)
        return self.run(*arrays.open_array(given, self.source.role), out)

    def run(self, backend: Backend, array: Array, out: Any, opened: tuple[Backend, Array] | None = None) -> Array:
        """The same for an array that was opened; `opened` is what `open_array` found `out` to be, where that is known."""
        prepared = self.prepared.get(backend) or self.prepared_by(backend)
        if type(array) is not np.ndarray and (out is None or type(out) is type(array)):
            found = prepared.again(array, out)
            if found is not None:
                return found
        self.source.check(array, self.source.role)
        if out is None:
            result = self.empty(backend, array)
            prepared.carry_out(array, result, is_new=True)
            return result
        prepared.carry_out(array, self.opened_out(backend, array, out, opened))
        return out

    def prepared_by(self, backend: Backend) -> Prepared:
        """What carries the pieces out on a backend."""
        return self.prepared.setdefault(backend, backend.prepare(self.pieces))

    def empty(self, backend: Backend, array: Array) -> Array:
        """New memory for what is moved out of `array`."""
        return self.target.empty(backend, array.dtype if self.source.is_packed == self.target.is_packed else None, array)

    def opened_out(self, backend: Backend, array: Array, out: Any, opened: tuple[Backend, Array] | None = None) -> Array:
        """The array that `out` is, after every check but whether it overlaps other arrays than `array`."""
        out_backend, result = opened or arrays.open_array(out, "out", writing=True)
        roles = self.source.role, "out"
        self.target.check(result, "out")
        arrays.check_same_device(backend, array, out_backend, result, roles)
        arrays.check_no_overlap(backend, array, result, roles)
        return result


KEYS = frozenset((str, Shape, Layout))           # types that shapes are given as, and whose values may be part of a key


class Kept:
    """What was made of arguments, so that asking again costs a look-up: a bounded dictionary that begins anew when it is full.

    It has no lock, which a forked child could find taken and a signal's handler could wait for; each step is one atomic operation.
    Where two threads keep something at once, one of them may go uncounted until it begins anew.
    """

    # Saves the planning, 40 to 400 us a call.  An entry takes some 6 KB and a piece some 500 bytes of its own, NumPy's plan included;
    # one transfer has 65,536 pieces at most.  So a full one has 4,000 entries of one piece each, or two of the most pieces: 64 MB.
    MOST, ENTRY = 1 << 17, 32

    def __init__(self) -> None:
        self._found: dict[tuple, Any] = {}
        self._weight = 0
        self.get = self._found.get

    def keep(self, key: tuple, made: Any, pieces: int) -> None:
        """Keep what was made for a key of hashable values, unless there is a long text among them."""
        if any(isinstance(part, str) and len(part) > LONGEST_KEPT for part in key):
            return
        weight = self.ENTRY + pieces
        if self._weight + weight > self.MOST:
            self.clear()
        self._weight += weight
        self._found[key] = made

    def clear(self) -> None:
        """Forget everything."""
        self._found.clear()
        self._weight = 0
