"""The launches of one transfer, each prepared once per kind of call."""

from __future__ import annotations

import operator
from typing import Any, Protocol

import numpy as np

from gpulayout.gpu.runtime import Runtime, Start
from gpulayout.moves.move import span
from gpulayout.moves.pieces import AnyMove, Pieces

Kind = tuple[Any, ...]  # calls of one kind share a prepared launch


class Launching(Protocol):
    """What launches need of the backend."""

    runtime: Runtime

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: Any = None) -> Any: ...
    def start_of_move(self, move: AnyMove, source_phase: int, target_phase: int, device: int) -> Start: ...
    def start_of_pieces(self, pieces: Pieces, source_phase: int, target_phase: int, device: int) -> Start: ...


class MoveLaunches:
    """The launches of the pieces of one transfer: the GPU's `Prepared`.

    A call that passed every check is remembered by its kind: dtypes, shapes, strides, devices and alignments of both
    arrays.  In later calls of that kind everything that the checks and the launch depend on is the same, except whether
    the arrays overlap, which every call checks.
    """

    MOST = 64  # kinds that are kept, about 2 KB each, 6 KB for kernels of 64 axes; when full, all are dropped

    def __init__(self, backend: Launching, pieces: Pieces) -> None:
        self.pieces, self._backend, self._place = pieces, backend, backend.runtime.place
        self._starts: dict[Kind, tuple[Start, int, int]] = {}
        # keyed by the source only: shape and dtype of the new target, and the start
        self._made: dict[Kind, tuple[tuple[int, ...], np.dtype, Start]] = {}

    @property
    def kinds_kept(self) -> int:
        """How many kinds of calls have a prepared launch."""
        return len(self._starts)

    def execute(self, source: Any, target: Any, *, is_new: bool = False) -> None:
        """See `Prepared.execute`.  A single piece takes one launch, or none if the target has no places."""
        kind, from_address, to_address = self._kind(source, target)
        start, _, _ = self._starts.get(kind) or self._remember(kind, source, target, from_address, to_address)
        if is_new and not to_address & 15:  # aligned, as allocators return it
            self._made[from_address & 15, kind[2], _form(source)] = target.shape, target.dtype, start
        start(from_address, to_address)

    def start_between(self, source: Any, target: Any) -> Start:
        """The start of the move between two arrays that passed every check, for `relayout_many`."""
        kind, *addresses = self._kind(source, target)
        return (self._starts.get(kind) or self._remember(kind, source, target, *addresses))[0]

    def again(self, source: Any, target: Any) -> Any:
        """See `Prepared.again`."""
        if target is None:
            return self._again_anew(source)
        (from_address, from_device), (to_address, to_device) = self._place(source), self._place(target)
        # As in `_kind`, without calling it: this is the path of every repeated call.
        found = self._starts.get(
            (from_address & 15, to_address & 15, from_device, to_device, _form(source), _form(target))
        )
        if found is None:
            return None
        start, below, above = found
        if below < to_address - from_address < above:
            return None
        start(from_address, to_address)
        return target

    def _again_anew(self, source: Any) -> Any:
        """As `again`, into new memory, which passes every check and overlaps nothing."""
        from_address, device = self._place(source)
        made = self._made.get((from_address & 15, device, _form(source)))
        if made is None:
            return None
        shape, dtype, start = made
        target = self._backend.empty(shape, dtype, source)
        to_address, _ = self._place(target)
        if to_address & 15:
            self.execute(source, target)
        else:
            start(from_address, to_address)
        return target

    def _kind(self, source: Any, target: Any) -> tuple[Kind, int, int]:
        """The kind of a call, and both addresses."""
        (from_address, from_device), (to_address, to_device) = self._place(source), self._place(target)
        return (
            (from_address & 15, to_address & 15, from_device, to_device, _form(source), _form(target)),
            from_address,
            to_address,
        )

    def _remember(
        self, kind: Kind, source: Any, target: Any, from_address: int, to_address: int
    ) -> tuple[Start, int, int]:
        """Prepare and keep the launch for a new kind of call."""
        start = self._start(from_address, to_address, kind[3])
        if len(self._starts) >= self.MOST:
            self._starts.clear()
            self._made.clear()
        found = self._starts[kind] = start, *_overlapping(source, target)
        return found

    def _start(self, from_address: int, to_address: int, device: int) -> Start:
        """The start of all pieces, between addresses that are these modulo 16."""
        if len(self.pieces) == 1:  # a single piece begins where the arrays begin
            move = self.pieces[0].move
            return self._backend.start_of_move(move, *phases(move, from_address, to_address), device)
        return self._backend.start_of_pieces(self.pieces, from_address & 15, to_address & 15, device)


def _overlapping(source: Any, target: Any) -> tuple[int, int]:
    """Such arrays overlap if the distance from the source's address to the target's is between these bounds.

    Strided arrays span gaps too, and negative strides reach below the address.  8 elements of 4 bytes, 8 bytes apart,
    span 60 bytes: two such arrays overlap if their distance is between -60 and 60.
    """
    (source_low, source_high), (target_low, target_high) = (
        span(list(zip(array.shape, array.strides)), array.itemsize) for array in (source, target)
    )
    return source_low - target_high, source_high - target_low


_form = operator.attrgetter("dtype", "shape", "strides")


def phases(move: AnyMove, from_address: int, to_address: int) -> tuple[int, int]:
    """Both addresses modulo 16; 0 for an empty source, which may have no address."""
    return from_address % 16 if move.element_count else 0, to_address % 16
