"""One transfer for pack, unpack and relayout: two sides, the pieces between them, and what backends made of those.

A side is a buffer in some layout or a logical array with strides; all that the three operations differ in is which
sides they have.  Everything that can be worked out before the arrays are there is worked out once and kept here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.sides import Side
from gpulayout.moves.backend import Array, Backend, Prepared
from gpulayout.moves.kinds import Pieces


class Transfer:
    """From one side to another.

    sides      what is read, and what is written
    pieces     moves between parts of both
    prepared   what carries the pieces out: by backend, and by the type of CuPy's arrays, which all have one backend
    """

    __slots__ = ("sides", "pieces", "prepared", "_keeps_dtype")

    def __init__(self, source: Side, target: Side, pieces: Pieces):
        self.sides, self.pieces = (source, target), pieces
        self.prepared: dict[Backend | type, Prepared] = {}
        self._keeps_dtype = source.is_packed == target.is_packed

    def __call__(self, buffer: Any, out: Any = None) -> Array:
        """`out`, or a new array where `buffer` lives, with what was moved into it."""
        kind = type(buffer)
        if kind is np.ndarray:
            return self.run(arrays.host_backend(), buffer, out)
        prepared = self.prepared.get(kind)
        if prepared is not None and (out is None or type(out) is kind):
            found = prepared.again(buffer, out)
            if found is not None:
                return found
        backend, array = arrays.open_array(buffer, self.sides[0].role)
        if array is buffer:
            self.prepared[kind] = self.prepared_by(backend)
        return self.run(backend, array, out)

    def run(self, backend: Backend, array: Array, out: Any) -> Array:
        """The same with every check, for an array that was opened."""
        source = self.sides[0]
        source.check(array, source.role)
        prepared = self.prepared.get(backend) or self.prepared_by(backend)
        if out is None:
            result = self.empty(backend, array)
            prepared.carry_out(array, result, is_new=True)
            return result
        prepared.carry_out(array, self.opened_out(backend, array, out))
        return out

    def prepared_by(self, backend: Backend) -> Prepared:
        """What carries the pieces out on a backend."""
        return self.prepared.get(backend) or self.prepared.setdefault(backend, backend.prepare(self.pieces))

    def empty(self, backend: Backend, array: Array) -> Array:
        """New memory for what is moved out of `array`."""
        target = self.sides[1]
        return backend.empty(target.dimensions, array.dtype if self._keeps_dtype else target.dtype_on(backend), array)

    def opened_out(self, backend: Backend, array: Array, out: Any) -> Array:
        """The array that `out` is, after every check of it."""
        out_backend, result = arrays.open_array(out, "out", writing=True)
        roles = self.sides[0].role, "out"
        self.sides[1].check(result, "out")
        if backend is not out_backend or type(array) is not np.ndarray:
            arrays.check_same_device(backend, array, out_backend, result, roles)
        arrays.check_no_overlap(backend, array, result, roles)
        return result
