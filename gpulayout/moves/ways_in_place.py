"""The way of a relayout in place: steps that change its bytes within one buffer, from the source to the target.

    a permutation of whole bytes                the steps of `in_place`
    blocks in the same order on both sides      one step of `streamed_in_place`
    a workspace as long as the shorter side     all of it as one block
    other padding, other packed elements        through layouts between, each a step of the kinds above:

        the source                              u4[100,60]{1,0:E(4)}           two elements in a byte
          unpacked                                                             one in each byte
          its dimensions rounded to its tiles   u4[100,60]{1,0}
          those of the target                   u4[100,60]{1,0:PD(128,64)}     padding filled
          its tiles, which divide them          u4[128,64]{0,1:T(32,64)}       a permutation
        the target, packed                      u4[100,60]{0,1:T(32,64)E(4)}

The shapes between fit the memory of the longer side, or this way is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from gpulayout.layout.checks import counted
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.in_place import permutation, steps_in_place, why_no_permutation
from gpulayout.moves.pieces import Pieces, pieces
from gpulayout.moves.placement import Placement
from gpulayout.moves.steps import Steps
from gpulayout.moves.streamed_in_place import streamed, whole


def ways_steps(source: Shape, target: Shape, moved: Pieces, limit: int, enough: int, at_once: int) -> Steps:
    """The steps of a relayout within one buffer, as long as the longer side, in a workspace of `limit` bytes.

    moved             its pieces, between two buffers
    enough, at_once   see `steps_in_place`

    LayoutError with the least limit if there are none.
    """
    work = _Workspace(limit, enough, at_once)
    move = permutation(source, target, moved)
    if move is not None:
        if limit < move.itemsize:
            raise LayoutError(
                f"max_bytes {limit} is less than an element of {source}: it takes {counted(move.itemsize, 'byte')}"
            )
        return steps_in_place(move, *work)
    step, least = streamed(source, target, *work)
    if step is not None:
        return (step,)
    copied = min(source.nbytes, target.nbytes)
    if copied <= limit:
        return (whole(source, target, moved),)
    steps, through = _through_others(source, target, work)
    if steps is not None:
        return steps
    raise LayoutError(
        f"{source} to {target} cannot be moved in place in a workspace of {counted(limit, 'byte')}: "
        f"{why_no_permutation(source, target)}; max_bytes={min(least, copied, through)} is enough"
    )


class _Workspace(NamedTuple):
    """What there is to work with: see `steps_in_place`."""

    limit: int
    enough: int
    at_once: int


# ---- through layouts between -----------------------------------------------------------------------------------------


def _through_others(source: Shape, target: Shape, work: _Workspace) -> tuple[Steps | None, int]:
    """The steps through other layouts, and the least limit; the whole of the shorter side if there are none."""
    never = min(source.nbytes, target.nbytes)
    read, written = _rounded(source), _rounded(target)
    if read is None or written is None:
        return None, never
    steps: Steps = ()
    least = 0
    for before, after in _stages(read, written):
        if max(before.nbytes, after.nbytes) > max(source.nbytes, target.nbytes):
            return None, never
        found, needs = _stage(before, after, work)
        least = max(least, needs)
        steps += found or ()
    return (steps if least <= work.limit else None), least


def _stage(before: Shape, after: Shape, work: _Workspace) -> tuple[Steps | None, int]:
    """The steps between two of the layouts, and the least limit."""
    moved = pieces(Placement.buffer(before), Placement.buffer(after))
    move = permutation(before, after, moved)
    if move is not None:
        return (steps_in_place(move, *work) if move.itemsize <= work.limit else None), move.itemsize
    step, least = streamed(before, after, *work)
    return (None if step is None else (step,)), least


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

    def line(self, *, stored: bool) -> Shape:
        """All places as a line: as the side stores them, with its tail, or one in a byte or more."""
        layout = self.shape.layout
        line = Layout((0,))
        if stored:
            line = Layout(
                (0,),
                padded_dimensions=(self.shape.buffer_size,),
                padding_value=layout.padding_value,
                element_size_in_bits=layout.element_size_in_bits,
                bit_order=layout.bit_order,
            )
        return Shape(self.shape.element_type, (self.whole.buffer_size,), line)


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


def _stages(read: _Rounded, written: _Rounded) -> Iterator[tuple[Shape, Shape]]:
    """The pairs of layouts on the way."""
    kind, dimensions = read.shape.element_type, read.shape.dimensions
    order = written.order if read.shape.is_tiled else read.order
    untiled = [Shape(kind, side.whole.dimensions, Layout(order)) for side in (read, written)]
    if read.shape.is_packed:
        yield read.line(stored=True), read.line(stored=False)
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
        yield written.line(stored=False), written.line(stored=True)
