"""Transfers: what pack, unpack and relayout have in common.

A side is a buffer in a layout or a logical array with strides.  The three operations differ only in their sides.  What
does not need the arrays themselves is computed once and kept here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.backends import host_backend
from gpulayout.api.libraries import library_of
from gpulayout.api.same_kind import Maker, Result, again_of, same_kind
from gpulayout.api.sides import BufferSide, Side
from gpulayout.moves.backend import Again, AnyArray, Backend, Prepared
from gpulayout.moves.kinds import Pieces

SEPARATE = "separate memory, because only gl.relayout and plans work in place"  # the rule for an `out` that overlaps


class Transfer:
    """A transfer from one side to another.

    sides      the source and the target
    pieces     moves between parts of both
    prepared   the pieces as prepared by each backend
    """

    __slots__ = ("sides", "pieces", "prepared", "_latest", "_latest_into", "_keeps_dtype", "_call")

    def __init__(self, source: Side, target: Side, pieces: Pieces):
        self.sides, self.pieces = (source, target), pieces
        self.prepared: dict[Backend, Prepared] = {}
        # The latest call that passed all checks, into new memory and into `out`, by the type of its arrays; NumPy's by
        # their backend, which tests replace.  None: the first one.
        self._latest: dict[Backend | type[Any], Again | None] = {}
        self._latest_into: dict[Backend | type[Any], Again | None] = {}
        self._keeps_dtype = source.is_packed == target.is_packed
        self._call = "relayout" if isinstance(target, BufferSide) else "unpack", source.shape, target.shape

    def __call__(self, buffer: Any, out: Any = None) -> AnyArray:
        """Move `buffer` into `out`, or into a new array where `buffer` lives; returns that array."""
        kind = type(buffer)
        key = host_backend() if kind is np.ndarray else kind
        latest = self._latest if out is None else self._latest_into
        again = latest.get(key)
        if again is not None and (out is None or type(out) is kind):
            found = again(buffer, out)
            if found is not None:
                return found
        role, library, backend = self.sides[0].role, library_of(buffer), host_backend()
        if library is not None:
            done = same_kind(library, buffer, role, out, self.run, self.traced_call())
        elif kind is np.ndarray:
            done = self.run(backend, buffer, out)
        else:
            backend, array = arrays.open_array(buffer, role)
            done = self.run(backend, array, out)
            if array is not buffer:
                return done
        prepared = self.prepared.get(backend)
        is_second = key in latest  # many transfers run once
        again = again_of(library, prepared, buffer, done, is_new=out is None) if is_second else None
        if again is None and library is None and prepared is not None:
            again = prepared.again
        latest[key] = again
        return done

    def traced_call(self) -> tuple[Any, ...]:
        """The fields of the `TracedCall` that has these sides, for an array that is no memory."""
        return self._call

    def run(self, backend: Backend, array: AnyArray, out: Any, result: Result | None = None) -> AnyArray:
        """The same for an array that `open_array` returned, with every check; `result` makes new memory, if given."""
        source = self.sides[0]
        array = source.memory(backend, array, source.role)
        if out is not None:
            return self.move_into(backend, array, out, self.target_memory(backend, array, out))
        made = self.empty(result or backend, backend, array)
        prepared = self.prepared.get(backend) or self.prepared_by(backend)
        prepared.execute(array, made, is_new=True)
        return made

    def move_into(self, backend: Backend, array: AnyArray, out: Any, target: AnyArray) -> AnyArray:
        """Move into `out`, which is open as `target`; both arrays passed every check but the one for overlap."""
        if arrays.may_overlap(backend, array, target):
            self.move_into_itself(backend, array, out, target)
            return out
        prepared = self.prepared.get(backend) or self.prepared_by(backend)
        if out is not target:
            arrays.will_be_written(out)
        prepared.execute(array, target)
        return out

    def move_into_itself(self, backend: Backend, array: AnyArray, out: Any, target: AnyArray) -> None:
        """The same for arrays that share memory: BufferError."""
        arrays.check_no_overlap(backend, array, target, (self.sides[0].role, "out"), rule=SEPARATE)

    def source_memory(self, backend: Backend, array: AnyArray) -> AnyArray:
        """An array that `open_array` returned, as the pieces read it, with every check."""
        source = self.sides[0]
        return source.memory(backend, array, source.role)

    def prepared_by(self, backend: Backend) -> Prepared:
        """The pieces, prepared by a backend."""
        return self.prepared.get(backend) or self.prepared.setdefault(backend, backend.prepare(self.pieces))

    def empty(self, maker: Maker, backend: Backend, array: AnyArray) -> AnyArray:
        """New memory for the target, on the device of `array`."""
        target = self.sides[1]
        return maker.empty(target.dimensions, array.dtype if self._keeps_dtype else target.dtype_on(backend), array)

    def opened_out(self, backend: Backend, array: AnyArray, out: Any) -> AnyArray:
        """`out` as an array of its backend, with every check."""
        result = self.target_memory(backend, array, out)
        arrays.check_no_overlap(backend, array, result, (self.sides[0].role, "out"), rule=SEPARATE)
        return result

    def target_memory(self, backend: Backend, array: AnyArray, out: Any) -> AnyArray:
        """`out` as an array of its backend, with every check but the one for overlap."""
        out_backend, result = arrays.open_array(out, "out", writing=True)
        result = self.sides[1].memory(out_backend, result, "out")
        if backend is not out_backend or type(array) is not np.ndarray:
            arrays.check_same_device(backend, array, out_backend, result, (self.sides[0].role, "out"))
        return result


def opened(side: Side, given: Any, role: str) -> tuple[Backend, AnyArray]:
    """The backend of an array, and the array with every check of its side; `out` will be written."""
    backend, array = arrays.open_array(given, role, writing=role == "out")
    return backend, side.memory(backend, array, role)
