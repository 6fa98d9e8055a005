"""How NumPy carries out a packed move: chunks of the target that fit the cache, an element in each byte of a scratch array.

A chunk is a range of slots, a multiple of 8 long, so that no two chunks share a byte of the target.  In the axes of the move
such a range is a few stretches: 5 x 3 places from number 3 to 11 are 3..4 of row 0, row 1, and 0..1 of row 2.

NumPy reads bytes, not slots.  Along an axis whose stride is no whole number of bytes, neighbours lie at different bits, but
every second one, or fourth or eighth, at the same: a stretch is read in as many parts, each of one shift.
s4 rows of 3 slots: elements 0, 2 of rows 0, 2, 4, ... are bytes 0, 1, 3, 4, ... without a shift; 1 is byte 0 shifted by 4 bits.
Short odd axes make more parts than it is worth; then bytes are looked up by the number of each slot.
"""
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpulayout.cpu.cache_blocks import SCRATCH_BYTES
from gpulayout.moves.move import Slab
from gpulayout.moves.packed_move import PackedMove
from gpulayout.moves.packed_turn import Turn, turned

_CHUNK, _FAR_CHUNK, _LOOKED_UP_CHUNK = 1 << 18, 1 << 20, 1 << 16        # slots
_MOST_SLOTS = 3 << 19        # of the chunks of all threads: with what is made on the way, 4 MB
_LEAST_TURNED = 1 << 14      # slots: below, all the calls for a cache block take longer
_MOST_ROWS = 16              # of a block: more take more calls than they save
_TURNED_RUN, _TURNED_BYTES = 256, 1 << 19                               # blocks along the source, bytes of scratch for a cache block
_LEAST_PART = 2000           # elements: a part takes about as long as looking so many up


class PackedPlan(NamedTuple):
    """How large the chunks are, and whether slots are looked up one by one instead of read in parts.

    in_place    elements are spread where they belong, without a scratch array: a byte for each, without gaps
    turn    the move in blocks of whole words, if it is one: then a chunk is a cache block of them, so many along each of its axes
    """

    chunk: int
    looked_up: bool
    in_place: bool
    turn: Turn | None = None
    cache_block: tuple[int, ...] = ()

    def chunks(self, move: PackedMove) -> int:
        """How many pieces of work there are."""
        if self.turn:
            return math.prod(-(-axis.extent // size) for axis, size in zip(self.turn.axes, self.cache_block))
        return -(-move.slots // self.chunk)


class Stretch(NamedTuple):
    """A stretch of a chunk, `first` coordinates and `sizes` minor first, of which the `inside` sizes are elements.

    place    from the chunk's first slot
    source   of the first element, from the source's first slot
    """

    first: tuple[int, ...]
    sizes: tuple[int, ...]
    inside: tuple[int, ...]
    place: int
    source: int


class Part(NamedTuple):
    """Elements of a stretch that begin at the same bit of their bytes.

    shift      that bit
    source     bytes of the source, from its first one: `target_offset` and `target_strides` of the block are theirs
    elements   which of the stretch's coordinates, minor first
    """

    shift: int
    source: Slab
    elements: tuple[slice, ...]


@functools.lru_cache(maxsize=4096)
def packed_plan_of(move: PackedMove, threads: int = 1) -> PackedPlan:
    """The plan of a packed move for NumPy; the scratch arrays of so many threads together have 4 MB at most."""
    turn = next(filter(None, (turned(move, bits) for bits in (64, 32, 16, 8) if bits // move.bits <= _MOST_ROWS)), None)
    if turn and move.slots >= _LEAST_TURNED:
        block = _turned_cache_block(turn, threads)
        return PackedPlan(math.prod(block) * turn.side**2, False, False, turn, block)
    in_place = move.target_bits == 8 and move.is_dense
    chunk = _CHUNK if abs(move.axes[0].source_stride) == 1 else _FAR_CHUNK
    count = math.prod(min(period, axis.bound) for period, axis in zip(_periods(move), move.axes))
    if count > 4 and count * _LEAST_PART > min(move.element_count, chunk):
        return PackedPlan(_part(_LOOKED_UP_CHUNK, threads), True, in_place)
    return PackedPlan(_part(chunk, threads), False, in_place)


def _part(chunk: int, threads: int) -> int:
    """A chunk that all threads have room for, in whole bytes whatever the width of elements."""
    return max(min(chunk, _MOST_SLOTS // threads) // 8, 1) * 8


def _turned_cache_block(turn: Turn, threads: int) -> tuple[int, ...]:
    """Blocks of a cache block along each axis: in runs along the source first, then along the target."""
    most = max(min(_TURNED_BYTES, SCRATCH_BYTES // threads) // (turn.side + 1) // turn.unit_bytes, 1)
    minor, found, *others = (axis.extent for axis in turn.axes)
    along_source = min(found, _TURNED_RUN, most)
    along_target = min(minor, most // along_source)
    sizes = [along_target, min(found, most // along_target)]
    for extent in others:
        sizes.append(max(min(extent, most // math.prod(sizes)), 1))
    return tuple(sizes)


def stretches(move: PackedMove, begin: int, end: int) -> Iterator[Stretch]:
    """The stretches that make up the slots begin..end-1."""
    strides = move.steps, [axis.source_stride for axis in move.axes]
    for first, sizes in _ranges([axis.extent for axis in move.axes], begin, end):
        inside = tuple(max(min(size, axis.bound - start), 0) for size, start, axis in zip(sizes, first, move.axes))
        place, source = (sum(map(int.__mul__, first, steps)) for steps in strides)
        yield Stretch(first, sizes, inside, place - begin, move.start + source)


def written(move: PackedMove, begin: int, end: int) -> Iterator[Slab]:
    """The slabs of the target that take the bytes of the slots begin..end-1, in their order."""
    per = 8 // move.target_bits
    if move.is_dense:
        yield Slab((-(-(end - begin) // per),), (), begin // per, (1,))
        return
    minor, *others = move.axes
    extents = [minor.extent // per, *(axis.extent for axis in others)]
    strides = [1 if per > 1 else minor.target_stride, *(axis.target_stride // per for axis in others)]
    for first, sizes in _ranges(extents, begin // per, end // per):
        yield Slab(sizes[::-1], (), sum(map(int.__mul__, first, strides)), tuple(reversed(strides)))


def _ranges(extents: Sequence[int], begin: int, end: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(first coordinates, sizes), minor first, of the stretches that make up the places begin..end-1, in their order."""
    if begin >= end:
        return
    *below, _ = extents
    if not below:
        yield (begin,), (end - begin,)
        return
    inner = math.prod(below)
    row, start = divmod(begin, inner)
    if start or end - begin < inner:                     # up to the end of the row that it begins in
        for first, sizes in _ranges(below, start, min(inner, start + end - begin)):
            yield (*first, row), (*sizes, 1)
        yield from _ranges(extents, min((row + 1) * inner, end), end)
        return
    rows = (end - begin) // inner
    yield (*[0] * len(below), row), (*below, rows)
    yield from _ranges(extents, begin + rows * inner, end)


def whole_bytes(move: PackedMove, stretch: Stretch) -> Slab | None:
    """The bytes of the source that a stretch's elements are, whole and in their order; None where some are cut or turned."""
    per = 8 // move.source_bits
    minor, *others = move.axes
    if per == 1 or minor.source_stride != 1 or stretch.inside[0] % per or stretch.source % per or any(axis.source_stride % per for axis in others):
        return None
    shape = (*stretch.inside[:0:-1], stretch.inside[0] // per)
    return Slab(shape, (), stretch.source // per, (*(axis.source_stride // per for axis in reversed(others)), 1))


def parts(move: PackedMove, stretch: Stretch) -> Iterator[Part]:
    """The elements of a stretch in parts of one shift each."""
    per = 8 // move.source_bits
    periods = _periods(move)
    for residues in itertools.product(*(range(min(period, size)) for period, size in zip(periods, stretch.inside))):
        slot = stretch.source + sum(residue * axis.source_stride for residue, axis in zip(residues, move.axes))
        sizes = [-(-(size - residue) // period) for size, residue, period in zip(stretch.inside, residues, periods)]
        strides = [axis.source_stride * period // per for axis, period in zip(move.axes, periods)]
        slab = Slab(tuple(reversed(sizes)), (), slot // per, tuple(reversed(strides)))
        yield Part(slot % per * move.source_bits, slab, tuple(slice(residue, size, period) for residue, size, period in
                                                               zip(residues, stretch.inside, periods)))


def _periods(move: PackedMove) -> list[int]:
    """For every axis, after how many steps it stands at the same bit of a byte again."""
    per = 8 // move.source_bits
    return [per // math.gcd(axis.source_stride, per) for axis in move.axes]
