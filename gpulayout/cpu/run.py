"""The CPU backend: the same plans with NumPy alone."""
from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gpulayout.cpu.cache_blocks import scratch_bytes
from gpulayout.cpu.index import HostConversion
from gpulayout.cpu.lookup import move_lookup
from gpulayout.cpu.packed_run import move_packed
from gpulayout.cpu.plan import Fill, HostPlan, host_pieces, host_plan
from gpulayout.cpu.threads import share, thread_count, wanted_threads
from gpulayout.cpu.views import strided_view, word_of
from gpulayout.layout.shape import Shape
from gpulayout.memory import dlpack
from gpulayout.memory.foreign_memory import ForeignMemory
from gpulayout.moves.backend import Job
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Move, Pieces
from gpulayout.moves.packed_move import PackedMove


class _Described:
    """Foreign memory as NumPy takes it, elements as opaque bytes; arrays over it keep this object alive, and with it the owner."""

    def __init__(self, memory: ForeignMemory):
        self.owner = memory.owner
        self.__array_interface__ = {"version": 3, "shape": memory.shape, "strides": memory.strides,
                                    "typestr": f"|V{memory.dtype.itemsize}", "data": (memory.address, memory.read_only)}


class NumpyBackend:
    """Carries out moves with `np.copyto` on strided views, and index conversion in cache-sized blocks."""

    name = "numpy"

    def foreign_memory(self, given: object) -> ForeignMemory:
        return dlpack.dlpack_memory(given, (dlpack.CPU, dlpack.PINNED))

    def adopt(self, memory: ForeignMemory) -> np.ndarray:
        if not memory.size:                      # it may have no address
            return np.empty(memory.shape, memory.dtype)
        return np.asarray(_Described(memory)).view(memory.dtype)

    def array(self, values: object, dtype: np.dtype | None, order: str | None = None) -> np.ndarray:
        return np.array(values, dtype, order=order)

    def dtype_for(self, shape: Shape) -> np.dtype:
        return shape.buffer_dtype

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: object = None) -> np.ndarray:
        return np.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.zeros(shape, dtype)

    def device(self, array: np.ndarray) -> str:
        return "cpu"

    def address(self, array: np.ndarray) -> int:
        return array.__array_interface__["data"][0]

    def strided(self, array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=array.flags.writeable)

    def contiguous(self, array: np.ndarray) -> np.ndarray:
        return array                             # indices are read wherever they lie

    max_operands, linearize_broadcast = 0, None          # index arrays that broadcast are stacked first

    def move(self, pieces: Pieces, source: np.ndarray, target: np.ndarray) -> None:
        if len(pieces) > 1:
            wanted_threads()                     # a wrong number is refused before the first piece writes
        for move, source_offset, target_offset in pieces if len(pieces) == 1 else host_pieces(pieces):
            if type(move) is PackedMove:
                move_packed(move, source_offset, target_offset, source, target)
                continue
            if type(move) is LookupMove:
                move_lookup(move, source, target)
                continue
            plan = host_plan(move)
            if plan.share:
                plan = host_plan(move, thread_count())
            word, slab = word_of(plan.itemsize), plan.slab
            reading = strided_view(source, word, slab.shape, source_offset, slab.source_strides)
            writing = strided_view(target, word, slab.shape, target_offset, slab.target_strides)
            fills = _fills(move, plan, target, target_offset) if plan.fills else ()
            if plan.cache_block:
                _copy_blocked(reading, writing, plan, fills)
            elif plan.chunk or plan.share:
                share(functools.partial(_copy_part, reading, writing, plan, fills), plan.count, plan.share)
            else:
                _copy_whole(reading, writing, plan, fills)

    def prepare(self, jobs: Sequence[Job]) -> Callable[[], None]:
        wanted_threads()                         # a wrong number is refused before the first job writes
        def carry_out() -> None:
            for job in jobs:
                self.move(job.pieces, job.source, job.target)
        return carry_out

    prepare_conversion = HostConversion


class _Padding(NamedTuple):
    """Places of the target, and the element they get."""

    places: np.ndarray
    pad: np.generic
    fill: Fill


def _fills(move: Move, plan: HostPlan, target: np.ndarray, offset: int) -> list[_Padding]:
    word = word_of(move.itemsize)
    pad = np.frombuffer(move.pad, word)[0]
    return [_Padding(strided_view(target, word, fill.slab.shape, offset + fill.slab.target_offset, fill.slab.target_strides), pad, fill)
            for fill in plan.fills]


def _copy_whole(source: np.ndarray, target: np.ndarray, plan: HostPlan, fills: Sequence[_Padding]) -> None:
    if plan.fills_first:
        for places, pad, _ in fills:
            places[...] = pad
    if not plan.by_channels:
        target[...] = source                     # np.copyto without its dispatch, which would be a tenth of a small move
    else:
        for channel in range(source.shape[-1]):
            target[..., channel] = source[..., channel]
    if not plan.fills_first:
        for places, pad, _ in fills:
            places[...] = pad


def _copy_part(source: np.ndarray, target: np.ndarray, plan: HostPlan, fills: Sequence[_Padding], first: int, last: int) -> None:
    """What lies between two coordinates of the axis that threads share, chunk by chunk."""
    before, fill_before = (slice(None),) * plan.cut, (slice(None),) * plan.fill_cut
    for start in range(first, last, plan.chunk or last - first):
        stop = min(start + (plan.chunk or last), last)
        part = (*before, slice(start, stop))
        padding = [_Padding(places[(*fill_before, slice(start, stop))], pad, fill) for places, pad, fill in fills]
        _copy_whole(source[part], target[part], plan, padding)


def _copy_blocked(source: np.ndarray, target: np.ndarray, plan: HostPlan, fills: Sequence[_Padding]) -> None:
    """Cache blocks that threads share, and padding before or after all of them."""
    copy = functools.partial(share, functools.partial(_copy_blocks, source, target, plan), plan.count, plan.share)
    fill = [functools.partial(share, functools.partial(_fill_part, places, pad), len(places), fill.share) for places, pad, fill in fills]
    for work in (*fill, copy) if plan.fills_first else (copy, *fill):
        work()


def _fill_part(places: np.ndarray, pad: np.generic, first: int, last: int) -> None:
    places[first:last] = pad


def _copy_blocks(source: np.ndarray, target: np.ndarray, plan: HostPlan, first: int, last: int) -> None:
    """Some of the cache blocks, each in runs of the source into a scratch array and in runs of the target out of it."""
    corners = itertools.product(*(range(0, size, step) for size, step in zip(source.shape, plan.cache_block)))
    memory = np.empty(scratch_bytes(plan.itemsize, plan.cache_block, plan.scratch), np.uint8)
    scratch = np.ndarray(plan.cache_block, source.dtype, memory, 0, plan.scratch)
    for corner in itertools.islice(corners, first, last):
        box = tuple([slice(start, start + step) for start, step in zip(corner, plan.cache_block)])
        part = source[box]
        kept = scratch[tuple([slice(size) for size in part.shape])]
        kept[...] = part
        target[box] = kept
