"""Splits a range of slots of a packed move into stretches along its axes, and finds their bytes on both sides.

Along the axes of a move, a range of slots is a few stretches: slots 3 to 11 of 3 rows of 5 are 3..4 of row 0, all of
row 1, and 0..1 of row 2.

NumPy reads bytes, not slots.  Along an axis whose stride is not a whole number of bytes, neighbours begin at different
bits, but every second, fourth or eighth element at the same bit.  So a stretch is read in parts of one shift each.
s4 rows of 3 slots: elements 0, 2 of rows 0, 2, 4, ... are bytes 0, 1, 3, 4, ... without a shift; element 1 is byte 0
shifted by 4 bits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpulayout.moves.move import StridedPlaces
from gpulayout.moves.packed_move import PackedMove


class Stretch(NamedTuple):
    """A box of slots in a chunk; sizes are minor first.

    first    coordinates of its first slot
    sizes    its sizes
    inside   its sizes without padding
    place    its first slot, relative to the chunk's
    source   the slot of its first element, relative to the source's
    """

    first: tuple[int, ...]
    sizes: tuple[int, ...]
    inside: tuple[int, ...]
    place: int
    source: int


class SameBitElements(NamedTuple):
    """Elements of a stretch that begin at the same bit of their bytes.

    shift      that bit
    source     their bytes: `target_offset` and `target_strides` are relative to the first byte of the source
    elements   their coordinates in the stretch, minor first
    """

    shift: int
    source: StridedPlaces
    elements: tuple[slice, ...]


def stretches(move: PackedMove, begin: int, end: int) -> Iterator[Stretch]:
    """The stretches that make up the slots begin..end-1."""
    strides = move.steps, [axis.source_stride for axis in move.axes]
    for first, sizes in _ranges([axis.extent for axis in move.axes], begin, end):
        inside = tuple(max(min(size, axis.bound - start), 0) for size, start, axis in zip(sizes, first, move.axes))
        place, source = (sum(map(int.__mul__, first, steps)) for steps in strides)
        yield Stretch(first, sizes, inside, place - begin, move.start + source)


def written(move: PackedMove, begin: int, end: int) -> Iterator[StridedPlaces]:
    """The places in the target of the bytes of the slots begin..end-1, in order."""
    per = 8 // move.target_bits
    if move.is_dense:
        yield StridedPlaces((-(-(end - begin) // per),), (), begin // per, (1,))
        return
    minor, *others = move.axes
    extents = [minor.extent // per, *(axis.extent for axis in others)]
    strides = [1 if per > 1 else minor.target_stride, *(axis.target_stride // per for axis in others)]
    for first, sizes in _ranges(extents, begin // per, end // per):
        yield StridedPlaces(sizes[::-1], (), sum(map(int.__mul__, first, strides)), tuple(reversed(strides)))


def _ranges(extents: Sequence[int], begin: int, end: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(first coordinates, sizes), minor first, of the stretches that make up the places begin..end-1, in order."""
    if begin >= end:
        return
    *below, _ = extents
    if not below:
        yield (begin,), (end - begin,)
        return
    inner = math.prod(below)
    row, start = divmod(begin, inner)
    if start or end - begin < inner:  # the rest of the first row
        for first, sizes in _ranges(below, start, min(inner, start + end - begin)):
            yield (*first, row), (*sizes, 1)
        yield from _ranges(extents, min((row + 1) * inner, end), end)
        return
    rows = (end - begin) // inner
    yield (*[0] * len(below), row), (*below, rows)
    yield from _ranges(extents, begin + rows * inner, end)


def whole_bytes(move: PackedMove, stretch: Stretch) -> StridedPlaces | None:
    """The source bytes of a stretch; None unless its elements are whole bytes, in order."""
    per = 8 // move.source_bits
    minor, *others = move.axes
    if (
        per == 1
        or minor.source_stride != 1
        or stretch.inside[0] % per
        or stretch.source % per
        or any(axis.source_stride % per for axis in others)
    ):
        return None
    shape = (*stretch.inside[:0:-1], stretch.inside[0] // per)
    return StridedPlaces(
        shape, (), stretch.source // per, (*(axis.source_stride // per for axis in reversed(others)), 1)
    )


def parts(move: PackedMove, stretch: Stretch) -> Iterator[SameBitElements]:
    """The elements of a stretch in parts of one shift each."""
    per = 8 // move.source_bits
    period_of = periods(move)
    for residues in itertools.product(*(range(min(period, size)) for period, size in zip(period_of, stretch.inside))):
        slot = stretch.source + sum(residue * axis.source_stride for residue, axis in zip(residues, move.axes))
        sizes = [-(-(size - residue) // period) for size, residue, period in zip(stretch.inside, residues, period_of)]
        strides = [axis.source_stride * period // per for axis, period in zip(move.axes, period_of)]
        places = StridedPlaces(tuple(reversed(sizes)), (), slot // per, tuple(reversed(strides)))
        yield SameBitElements(
            slot % per * move.source_bits,
            places,
            tuple(slice(residue, size, period) for residue, size, period in zip(residues, stretch.inside, period_of)),
        )


def periods(move: PackedMove) -> list[int]:
    """For every axis, the number of steps after which it is at the same bit of a byte again."""
    per = 8 // move.source_bits
    return [per // math.gcd(axis.source_stride, per) for axis in move.axes]
