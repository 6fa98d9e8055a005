"""A relayout in place: steps that need only a workspace, each of them ordinary moves.

Without padding a relayout permutes the digits of a mixed-radix number.  Four kinds of steps do that:

    slabs    consecutive bytes that fit the workspace: read into it, and written back in another order
    swaps    parts of a transposition of equal extents, exchanged in pairs, each transposed on the way
    chains   slabs that move to the place of the one before, each put in another order on the way
    blocks   equal blocks of consecutive bytes, moved along the cycles of their permutation

Slabs or swaps are the whole relayout if the workspace, or the extents, allow it.  Else both sides are cut into slabs,
and the blocks are what a slab of the source and a slab of the target have in common:

    f32[1000,600]{1,0} to {0,1} in 240 KB
    10 slabs of 100 rows      each becomes 10 blocks of 100 rows and 60 columns, transposed
    10 x 10 blocks            block (i, j) moves to (j, i)
    10 slabs of 60 columns    each is 10 blocks, which become whole columns

If slabs do not divide the array, what is left over waits in the workspace.  The first chain closes the gaps, and the
last one opens them again: f32[8191,8193] can be 40 slabs of 204 rows and 31 rows more, to 40 slabs of 204 columns and
33 more.

Slabs before and after the blocks stand for the row and column passes of Catanzaro, Keller and Garland, "A decomposition
for in-place matrix transposition" (2014).  Blocks that follow cycles are those of Gustavson, Karlsson and Kagstrom,
"Parallel and cache-efficient in-place matrix storage format conversion" (2012).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpulayout.layout.checks import counted
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.move import Axis, Move, coalesce
from gpulayout.moves.pieces import Pieces
from gpulayout.moves.steps import (
    BlockCycles,
    Chain,
    Leftover,
    SlabReorders,
    Steps,
    Swaps,
    move_of,
    resized,
    through_workspace,
)

SMALL_BYTES = 1 << 18  # a transposition of equal extents of up to this size moves faster whole than in pairs of parts
MOST_TRIED = 1024  # sizes of a slab
MOST_DIVISORS = 1 << 20  # numbers tried: all divisors of an extent up to 2^40 are found


def move_in_place(source: Shape, target: Shape, pieces: Pieces) -> Move:
    """The only move of a relayout that permutes whole bytes; LayoutError with the reason for others."""
    move = permutation(source, target, pieces)
    if move is None:
        raise LayoutError(f"{source} to {target} cannot be moved in place: {why_no_permutation(source, target)}")
    return move


def permutation(source: Shape, target: Shape, pieces: Pieces) -> Move | None:
    """The only move of a relayout that permutes whole bytes; None for others."""
    move = pieces[0].move
    return move if isinstance(move, Move) and move.bytes_read == source.nbytes == target.nbytes else None


def why_no_permutation(source: Shape, target: Shape) -> str:
    """Why a relayout does not permute whole bytes."""
    padding = source.nbytes * 8 - source.element_count * source.bits_per_element
    if source.nbytes != target.nbytes:
        return f"the source takes {counted(source.nbytes, 'byte')}, and the target {target.nbytes}"
    if source.bits_per_element != 8 * source.itemsize:
        return f"elements of {counted(source.bits_per_element, 'bit')} share bytes, which are not moved whole"
    if padding:
        return f"{padding // 8} of {counted(source.nbytes, 'byte')} are padding"
    return "tiles of one side do not divide those of the other"


def steps_in_place(move: Move, workspace: int, enough: int, at_once: int) -> Steps:
    """The steps of a move without padding within one buffer, in `workspace` bytes, at least those of one element.

    enough   bytes of a slab or a part that stays where it is, or changes places with another: larger ones gain nothing
    at_once  the most of them that the workspace has room for, if it can
    """
    axes, size = move.axes, move.itemsize
    if not move.element_count or all(axis.source_stride == axis.target_stride for axis in axes):
        return ()
    major = axes[-1]
    fixed = major.source_stride == major.target_stride
    inner = major.target_stride if fixed else move.bytes_read
    partners = _partners(axes)
    if partners is not None and inner > min(workspace, SMALL_BYTES):
        swaps = Swaps(axes, _sizes(axes, partners, min(workspace, enough) // size), partners, size)
        return (replace(swaps, at_once=min(workspace // swaps.part_bytes, at_once)),)
    if inner <= workspace:
        return _by_slabs(axes if fixed else (*axes, Axis(1, 1, inner, inner)), size, workspace, enough, at_once)
    return _by_blocks(axes, size, workspace)


# ---- one step ------------------------------------------------------------------------------------------------------


def _by_slabs(axes: Sequence[Axis], itemsize: int, workspace: int, enough: int, at_once: int) -> Steps:
    """Slabs of several coordinates along the most major axis, which has equal strides and fits the workspace."""
    *minor, major = axes
    inner = major.source_stride
    size = min(max(min(workspace, enough) // inner, 1), major.extent)
    count, rest = divmod(major.extent, size)
    at_once = min(workspace // (size * inner), count, at_once)
    slabs = SlabReorders(count, *through_workspace([*minor, resized(major, size)], itemsize), at_once=at_once)
    if not rest:
        return (slabs,)
    return slabs, SlabReorders(1, *through_workspace([*minor, resized(major, rest)], itemsize), count * size * inner)


def _partners(axes: Sequence[Axis]) -> tuple[int, ...] | None:
    """For every axis the number of the one with its strides exchanged; None if there is not always one."""
    numbers = {axis: number for number, axis in enumerate(axes)}
    partners = [
        numbers.get(axis._replace(source_stride=axis.target_stride, target_stride=axis.source_stride)) for axis in axes
    ]
    return None if None in partners else tuple(number for number in partners if number is not None)


def _sizes(axes: Sequence[Axis], partners: Sequence[int], elements: int) -> tuple[int, ...]:
    """Sizes of a part of at most so many elements, equal for partners, and as long as possible in the source."""
    sizes = [1] * len(axes)
    for number in sorted(range(len(axes)), key=lambda number: axes[number].source_stride):
        left = elements // math.prod(sizes)
        if sizes[number] == 1:
            most = left if partners[number] == number else math.isqrt(left)
            sizes[number] = sizes[partners[number]] = min(axes[number].extent, most)
    return tuple(sizes)


# ---- slabs, blocks, slabs ------------------------------------------------------------------------------------------
#
# Both sides are cut into slabs, so that every axis is one digit or two.  f32[1000,600]{1,0} to {0,1} in 240 KB, with
# slabs of 100 rows in the source and of 60 columns in the target:
#
#     digit            inside a slab of the source    inside a slab of the target
#     row // 100       no: counts the slabs           yes
#     row % 100        yes                            yes                            } these two
#     column // 60     yes                            no: counts the slabs
#     column % 60      yes                            yes                            } make a block
#
# The three steps put these digits in another order.  Most major first, with the digits of a block in brackets:
#
#     source           row // 100     row % 100      column // 60   column % 60
#       first chain    within each slab of the source
#     before           row // 100     column // 60   [column % 60   row % 100]
#       blocks         from place to place, unchanged
#     after            column // 60   row // 100     [column % 60   row % 100]
#       last chain     within each slab of the target
#     target           column // 60   column % 60    row // 100     row % 100
#
# The order inside a block is that of the target or of the source: that which makes a chain superfluous, if one does.


@dataclass(frozen=True)
class SlabCut:
    """How both sides are cut into slabs that fit the workspace.

    axes    of the whole array
    ends    the numbers of the axes that slabs of the source and of the target have a part of
    sizes   coordinates of a slab along these axes
    """

    axes: tuple[Axis, ...]
    ends: tuple[int, int]
    sizes: Mapping[int, int]

    def rest(self, number: int) -> int:
        """Coordinates of an axis that are left over."""
        return self.axes[number].extent % self.sizes[number] if number in self.sizes else 0

    def whole(self, number: int) -> Axis:
        """An axis without what is left over."""
        axis = self.axes[number]
        return resized(axis, axis.extent - self.rest(number))

    def digits(self) -> list[SlabDigit]:
        """The digits of what is not left over, without those that are always 0."""
        below = [  # for each side, the axes that a slab has all of
            {number for number, axis in enumerate(self.axes) if _stride(axis, side) < _stride(self.axes[end], side)}
            for side, end in enumerate(self.ends)
        ]
        digits = []
        for number in range(len(self.axes)):
            axis, size = self.whole(number), self.sizes.get(number, 1)
            outer = Axis(axis.extent // size, axis.bound // size, axis.source_stride * size, axis.target_stride * size)
            digits.append(SlabDigit(outer, *(number in inside for inside in below)))
            if number in self.sizes:
                is_inside = (number in inside or number == end for inside, end in zip(below, self.ends))
                digits.append(SlabDigit(resized(axis, size), *is_inside))
        return [digit for digit in digits if digit.axis.extent > 1]

    def leftovers(self, itemsize: int, above: int) -> Iterator[tuple[Leftover, Leftover]]:
        """What is left over, on its way to the workspace, behind its first `above` bytes, and back."""
        whole = list(self.axes)
        for number in self.sizes:
            rest = self.rest(number)
            if rest:
                part = list(whole)
                part[number] = resized(self.axes[number], rest)
                whole[number] = axis = self.whole(number)
                there, back = through_workspace(part, itemsize)
                yield (
                    Leftover(there, False, axis.extent * axis.source_stride, above),
                    Leftover(back, True, axis.extent * axis.target_stride, above),
                )
                above += there.bytes_read


class SlabDigit(NamedTuple):
    """A digit of the array: an axis, or what lies inside the slabs that it is cut into, or what counts them.

    in_source, in_target   whether it lies inside the slabs of that side
    """

    axis: Axis
    in_source: bool
    in_target: bool

    @property
    def in_block(self) -> bool:
        return self.in_source and self.in_target


def _stride(axis: Axis, side: int) -> int:
    """The stride of an axis in the source, side 0, or in the target, side 1."""
    return axis.target_stride if side else axis.source_stride


def _by_blocks(axes: tuple[Axis, ...], itemsize: int, workspace: int) -> Steps:
    """Slabs of the source, blocks, slabs of the target.

    Of two ways to cut, that with the larger blocks: slabs as large as the workspace that leave nothing over, or half as
    large, and what they leave over fits the other half.
    """
    half = max(workspace // 2, itemsize)
    cuts = _slab_cut(axes, itemsize, workspace, 0), _slab_cut(axes, itemsize, half, (workspace - half) // 2)
    cut = max(cuts, key=lambda cut: math.prod(digit.axis.extent for digit in cut.digits() if digit.in_block))
    digits, is_whole = cut.digits(), not any(map(cut.rest, cut.sizes))
    steps = min((_steps(digits, itemsize, by_target, is_whole) for by_target in (True, False)), key=len)
    leftovers = list(cut.leftovers(itemsize, max(step.workspace for step in steps)))
    return (*(there for there, _ in leftovers), *steps, *(back for _, back in leftovers))


def _steps(digits: Sequence[SlabDigit], itemsize: int, by_target: bool, is_whole: bool) -> Steps:
    """The steps of what is not left over: see above.

    by_target   elements of a block are in the order of the target, else in that of the source
    is_whole    nothing is left over
    """
    source, target = (sorted(digits, key=lambda digit: _stride(digit.axis, side)) for side in (0, 1))
    block = [digit for digit in (target if by_target else source) if digit.in_block]
    # Minor first: the digits of a block, the others of a slab, those that count the slabs.
    before = sorted(source, key=lambda digit: (not digit.in_block, not digit.in_source))
    after = sorted(target, key=lambda digit: (not digit.in_block, not digit.in_target))
    before[: len(block)] = after[: len(block)] = block
    strides_before, strides_after = _strides(before, itemsize), _strides(after, itemsize)

    # What is left over makes a gap, which the first chain closes and the last one opens again.
    chains: list[Chain | None] = [None, None]
    if before != source or not is_whole:
        axes = [(digit.axis._replace(target_stride=strides_before[digit]), digit.in_source) for digit in source]
        chains[0] = _chain(axes, itemsize, False)
    if after != target or not is_whole:
        axes = [(digit.axis._replace(source_stride=strides_after[digit]), digit.in_target) for digit in target]
        chains[1] = _chain(axes, itemsize, True)

    elements = math.prod(digit.axis.extent for digit in block)
    moved = [
        digit.axis._replace(source_stride=strides_before[digit], target_stride=strides_after[digit])
        for digit in after
        if not digit.in_block
    ]
    before_blocks, after_blocks = (chain.part_bytes // (elements * itemsize) if chain else 0 for chain in chains)
    blocks = BlockCycles(
        coalesce(moved)[0],
        move_of([Axis(elements, elements, itemsize, itemsize)], itemsize),
        (before_blocks, after_blocks),
    )
    return tuple(step for step in (chains[0], blocks, chains[1]) if step)


def _chain(axes: Sequence[tuple[Axis, bool]], itemsize: int, backwards: bool) -> Chain:
    """The slabs that consist of the axes marked True; the others, minor first, count them."""
    slab = [axis for axis, is_inside in axes if is_inside]
    loops = [(axis.extent, *axis[2:]) for axis, is_inside in reversed(axes) if not is_inside]
    return Chain(tuple(loops), move_of(slab, itemsize), *through_workspace(slab, itemsize), backwards)


def _strides(order: Iterable[SlabDigit], itemsize: int) -> dict[SlabDigit, int]:
    """Strides of digits that follow one another without gaps, minor first."""
    strides, stride = {}, itemsize
    for digit in order:
        strides[digit] = stride
        stride *= digit.axis.extent
    return strides


def _slab_cut(axes: tuple[Axis, ...], itemsize: int, limit: int, spare: int) -> SlabCut:
    """Slabs of at most `limit` bytes on both sides, so that each of the two cuts leaves over at most `spare` bytes."""
    (source_end, source_most), (target_end, target_most) = (_end(axes, itemsize, limit, side) for side in (0, 1))
    most = {source_end: source_most, target_end: target_most}
    if source_end == target_end:
        most = {source_end: min(source_most, target_most)}
    whole = math.prod(axis.extent for axis in axes) * itemsize
    sizes = {
        number: _size(axes[number].extent, coordinates, spare * axes[number].extent // whole)
        for number, coordinates in most.items()
    }
    return SlabCut(axes, (source_end, target_end), sizes)


def _end(axes: tuple[Axis, ...], itemsize: int, limit: int, side: int) -> tuple[int, int]:
    """The first axis of a side that a slab of `limit` bytes has only a part of, and the most coordinates of it."""
    order = sorted(range(len(axes)), key=lambda number: _stride(axes[number], side))
    steps = itertools.accumulate((axes[number].extent for number in order), operator.mul, initial=itemsize)
    return next((number, limit // step) for number, step in zip(order, steps) if step * axes[number].extent > limit)


def _size(extent: int, most: int, spare: int) -> int:
    """The largest size up to `most` that leaves over at most `spare` coordinates."""
    parts = -(-extent // most)
    tried = {extent // count for count in range(parts, min(parts + MOST_TRIED, extent) + 1)}
    tried.update(range(max(most - MOST_TRIED, 1), most + 1))
    fits = [size for size in tried if extent % size <= spare and size <= most]
    return max(fits, default=0) or _largest_divisor(extent, most)


def _largest_divisor(number: int, most: int) -> int:
    """The largest divisor up to `most`, of those that are at most MOST_DIVISORS or an extent divided by one of them."""
    small = [divisor for divisor in range(1, min(math.isqrt(number), MOST_DIVISORS) + 1) if number % divisor == 0]
    return max(divisor for low in small for divisor in (low, number // low) if divisor <= most)
