"""The way of a relayout in place: steps that change its bytes within one buffer, from the source to the target.

    a permutation of whole bytes                the steps of `in_place`
    blocks in the same order on both sides      one step of `streamed_in_place`
    others                                      through layouts between, each a step of the kinds above

There are two ways through others.  By rounded sizes, tiles hold whole dimensions, and so permute whole bytes:

        u4[100,60]{1,0:E(4)}             the source
        u4[100,60]{1,0}                  unpacked
        u4[100,60]{1,0:PD(128,64)}       its dimensions rounded as those of the target
        u4[128,64]{0,1:T(64,32)}         in its tiles: a permutation
        u4[100,60]{0,1:T(64,32)E(4)}     packed

By bricks, elements stay packed.  A brick is what a byte of either side holds, along the minor dimensions of both:

        u4[100,60]{1,0:E(4)}             the source
        u4[100,60]{1,0:T(2,2)E(4)}       in bricks, of 2 bytes here
        u4[100,60]{0,1:T(2,2)(2,1)E(4)}  the same bricks in the order of the target: a permutation
        u4[100,60]{0,1:T(64,32)E(4)}     the target

All shapes between fit the memory of the longer side.  The way that moves fewer bytes is taken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from gpulayout.layout.checks import counted
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.boxes import line_shape
from gpulayout.moves.in_place import permutation, steps_in_place, why_no_permutation
from gpulayout.moves.pieces import Pieces, relayout_pieces
from gpulayout.moves.steps import Steps
from gpulayout.moves.streamed_in_place import streamed


def ways_steps(source: Shape, target: Shape, moved: Pieces, limit: int, enough: int, at_once: int) -> Steps:
    """The steps of a relayout within one buffer, as long as the longer side, in a workspace of `limit` bytes.

    moved             its pieces, between two buffers
    enough, at_once   see `steps_in_place`

    LayoutError with the least limit if there are none.
    """
    work = _Workspace(limit, enough, at_once)
    steps, least = _directly(source, target, moved, work)
    if steps is not None:
        return steps
    if permutation(source, target, moved):
        raise LayoutError(f"max_bytes {limit} is less than an element of {source}: it takes {counted(least, 'byte')}")
    steps, through = _through_others(source, target, work)
    if steps is not None:
        return steps
    raise LayoutError(
        f"{source} to {target} cannot be moved in place in a workspace of {counted(limit, 'byte')}: "
        f"{why_no_permutation(source, target)}; max_bytes={min(least, through)} is enough"
    )


class _Workspace(NamedTuple):
    """What there is to work with: see `steps_in_place`."""

    limit: int
    enough: int
    at_once: int


def _directly(source: Shape, target: Shape, moved: Pieces, work: _Workspace) -> tuple[Steps | None, int]:
    """The steps without layouts between, None if they need more than there is; and the least limit."""
    move = permutation(source, target, moved)
    if move is not None:
        return (steps_in_place(move, *work) if move.itemsize <= work.limit else None), move.itemsize
    step, least = streamed(source, target, *work)
    return (None if step is None else (step,)), least


# ---- through layouts between -----------------------------------------------------------------------------------------


def _through_others(source: Shape, target: Shape, work: _Workspace) -> tuple[Steps | None, int]:
    """The steps through other layouts, and the least limit; the whole of the shorter side if there are none."""
    ways = [_by_bricks(source, target)]
    read, written = _rounded(source), _rounded(target)
    if read is not None and written is not None:
        ways.append([*_by_rounded_sizes(read, written)])
    most, least = max(source.nbytes, target.nbytes), min(source.nbytes, target.nbytes)
    found: list[Steps] = []
    for stages in ways:
        if stages and max(side.nbytes for stage in stages for side in stage) <= most:
            parts, needs = zip(*(_directly(*stage, relayout_pieces(*stage), work) for stage in stages))
            least = min(least, max(needs))
            if None not in parts:
                found.append(tuple(itertools.chain(*parts)))
    return min(found, key=lambda steps: sum(step.bytes_moved for step in steps), default=None), least


Stage = tuple[Shape, Shape]


def _by_bricks(source: Shape, target: Shape) -> list[Stage]:
    """The pairs of layouts on the way by bricks; of elements that take whole bytes, each is a brick."""
    bits = min(source.bits_per_element, target.bits_per_element)
    per = max(8 // bits, 1)
    orders = source.layout.minor_to_major, target.layout.minor_to_major
    sizes = list(source.dimensions)
    ends = {order[0] for order in orders if order}
    for dim in ends:
        sizes[dim] = -(-sizes[dim] // per) * per
    bricks = [_in_bricks(order, ends, per if len(ends) > 1 else 1, number) for number, order in enumerate(orders)]
    bricks = [layout.replace(element_size_in_bits=bits if per > 1 else 0) for layout in bricks]
    kind, dimensions = source.element_type, source.dimensions
    whole = [Shape(kind, sizes, layout) for layout in bricks]
    padded = whole
    if whole[0].dimensions != dimensions:
        padded = [Shape(kind, dimensions, layout.replace(padded_dimensions=sizes)) for layout in bricks]
    stages = [(source, padded[0]), (whole[0], whole[1]), (padded[1], target)]
    return [(before, after) for before, after in stages if before != after]


def _in_bricks(order: tuple[int, ...], ends: set[int], per: int, turned: int) -> Layout:
    """A layout with bricks of `per` elements along each of two dimensions, one of them the minor one.

    turned   the order inside a brick is not that of the dimensions around it
    """
    if per == 1:
        return Layout(order)
    physical = order[::-1]
    first = min(map(physical.index, ends))
    tiles = [[per if dim in ends else 1 for dim in physical[first:]]]
    if turned:
        tiles.append([per] + [1] * (len(tiles[0]) - 1))
    return Layout(order, tiles=tiles)


class _Rounded(NamedTuple):
    """A side of a relayout whose tiles hold whole dimensions.

    shape   the side
    whole   the same places, one in a byte or more, as elements of an array without padding: without the tail
    """

    shape: Shape
    whole: Shape

    @property
    def order(self) -> tuple[int, ...]:
        return self.shape.layout.minor_to_major

    def lines(self) -> tuple[Shape, Shape]:
        """All places as a line: as the side stores them, with its tail, and one in a byte or more."""
        size = self.whole.buffer_size
        return line_shape(self.shape, size, self.shape.buffer_size), Shape(self.shape.element_type, (size,))


def _rounded(shape: Shape) -> _Rounded | None:
    """The side with its dimensions rounded up to its tiles; None if tiles join dimensions, or round twice."""
    layout = shape.layout
    table = stride_table(shape.with_layout(layout.replace(tail_padding_alignment=1, split_configs=())))
    sizes = shape.dimensions
    is_full = table.buffer_size == shape.element_count
    if not is_full:
        sizes = tuple(
            [math.prod(digit.extent for digit in table.digits if digit.dim == dim) for dim in range(len(sizes))]
        )
    whole = Shape(shape.element_type, sizes, Layout(layout.minor_to_major, tiles=layout.tiles))
    alike = stride_table(whole)
    is_same = alike.digits == table.digits and alike.buffer_size == whole.element_count
    return _Rounded(shape, whole) if is_full or is_same else None


def _by_rounded_sizes(read: _Rounded, written: _Rounded) -> Iterator[Stage]:
    """The pairs of layouts on the way by rounded sizes."""
    kind, dimensions = read.shape.element_type, read.shape.dimensions
    order = written.order if read.shape.is_tiled else read.order
    untiled = [Shape(kind, side.whole.dimensions, Layout(order)) for side in (read, written)]
    if read.shape.is_packed:
        yield read.lines()
    if read.whole != untiled[0]:
        yield read.whole, untiled[0]
    if not dimensions == read.whole.dimensions == written.whole.dimensions:
        layout = Layout(order, padding_value=written.shape.layout.padding_value, padded_dimensions=dimensions)
        before, after = (
            Shape(kind, dimensions, layout.replace(padded_dimensions=side.whole.dimensions)) for side in (read, written)
        )
        yield before, after
    if written.whole != untiled[1]:
        yield untiled[1], written.whole
    if written.shape.is_packed or written.shape.buffer_size > written.whole.buffer_size:
        yield written.lines()[::-1]
