"""Lowering: a relayout, pack or unpack as operations that every array library has.

    reshape, permute, pad and slice

A compiler can fuse, transform and differentiate these; it cannot look into a kernel.  The steps follow the law of tiles
in `layout.digits`, one level after the other.  From a logical array to a buffer:

    permute    the dimensions into physical order, most major first
    pad        each to its padded size
    then for every tile
      reshape  join the sizes that `*` joins
      pad      each size that the tile cuts to a multiple of the tile
      reshape  cut it in two
      permute  the parts within the tile to the end
    reshape    to one dimension
    pad        to the tail's alignment

f32[20,256]{1,0:T(8,128)}, for example: pad to (24, 256), reshape to (3, 8, 2, 128), permute (0, 2, 1, 3), reshape to
(6144,).  The way from a buffer to a logical array is the same backwards, with a slice for every pad.  `merged` joins
the steps of both ways.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.tile import COMBINE, Tile
from gpulayout.moves.lowered import Lowered, Pad, Permute, Reshape, Sizes, Slice, Step, Steps, sizes_after
from gpulayout.moves.move import MAX_AXES, check_same_array, check_storable


class _Steps:
    """Collects the steps from a logical array to its buffer."""

    def __init__(self, sizes: Sizes, fill: bytes):
        self.sizes, self.fill = sizes, fill
        self.steps: list[Step] = []

    def add(self, step: Step) -> None:
        """One step more; those that change nothing are left out."""
        after = sizes_after(step, self.sizes)
        is_idle = step.axes == tuple(range(len(after))) if isinstance(step, Permute) else after == self.sizes
        if not is_idle:
            self.steps.append(step)
            self.sizes = after

    def cut(self, tile: Tile) -> None:
        """The steps of one tile."""
        self.add(Reshape((1,) * (len(tile) - len(self.sizes)) + self.sizes))
        kept = self.sizes[: len(self.sizes) - len(tile)]
        joined, sizes, product = [], [], 1
        for size, cut in zip(self.sizes[len(kept) :], tile):
            product *= size
            if cut is not COMBINE:
                joined.append(product)
                sizes.append(cut)
                product = 1
        self.add(Reshape((*kept, *joined)))
        counts = [-(-size // cut) for size, cut in zip(joined, sizes)]
        self.add(Pad((*kept, *(count * cut for count, cut in zip(counts, sizes))), self.fill))
        self.add(Reshape((*kept, *(part for both in zip(counts, sizes) for part in both))))
        first, last = len(kept), len(kept) + 2 * len(sizes)
        self.add(Permute((*range(first), *range(first, last, 2), *range(first + 1, last, 2))))


def _to_buffer(shape: Shape) -> list[Step]:
    """The steps from a logical array to a buffer of `shape`, as the law of tiles says them."""
    check_lowered(shape)
    steps = _Steps(shape.dimensions, shape.padding_bytes)
    order = shape.layout.major_to_minor
    steps.add(Permute(order))
    steps.add(Pad(tuple([shape.buffer_dimensions[dim] for dim in order]), steps.fill))
    for tile in shape.layout.tiles:
        steps.cut(tile)
    steps.add(Reshape((math.prod(steps.sizes),)))
    steps.add(Pad((shape.buffer_size,), steps.fill))
    return steps.steps


def check_lowered(shape: Shape) -> None:
    """LayoutError unless the buffers of a shape can be made by reshape, permute, pad and slice."""
    check_storable(shape)
    if shape.is_packed:
        raise LayoutError(
            f"element_size_in_bits {shape.bits_per_element} of {shape} cannot be lowered: "
            f"{8 // shape.bits_per_element} elements share a byte, and array libraries move whole elements; call "
            "gl.unpack outside of the traced function, on an array in memory"
        )


def lowered_pack(shape: Shape) -> Lowered:
    """From a logical array to a buffer of `shape`."""
    return _lowered(shape, shape.dimensions, _to_buffer(shape))


def lowered_unpack(shape: Shape, length: int | None = None) -> Lowered:
    """From a buffer of `shape`, with as many elements as given, to a logical array."""
    return _lowered(shape, (shape.buffer_size if length is None else length,), _from_buffer(shape))


def lowered_relayout(source: Shape, target: Shape, length: int | None = None) -> Lowered:
    """From a buffer of `source`, with as many elements as given, to a buffer of `target`: the same logical array."""
    check_same_array(source, target)
    steps = [*_from_buffer(source), *_to_buffer(target)]
    return _lowered(target, (source.buffer_size if length is None else length,), steps)


def _from_buffer(shape: Shape) -> list[Step]:
    """The steps from a buffer that may be longer than `shape` needs."""
    back: list[Step] = []
    sizes = shape.dimensions
    for step in _to_buffer(shape):
        if isinstance(step, Permute):
            back.append(Permute(tuple(sorted(range(len(step.axes)), key=step.axes.__getitem__))))
        else:
            back.append(Slice(sizes) if isinstance(step, Pad) else Reshape(sizes))
        sizes = sizes_after(step, sizes)
    return [Slice((shape.buffer_size,)), *reversed(back)]


def _lowered(shape: Shape, sizes: Sizes, steps: Sequence[Step]) -> Lowered:
    """The fewest steps from an array of these sizes; LayoutError if one of them has too many axes."""
    lowered = Lowered(shape.element_type, sizes, merged(steps, sizes))
    for step in lowered.steps:
        sizes = sizes_after(step, sizes)
        if len(sizes) > MAX_AXES:
            raise LayoutError(f"{shape} cannot be lowered: a step has {len(sizes)} axes, and {MAX_AXES} is the limit")
    return lowered


# ---- merging ---------------------------------------------------------------------------------------------------


def merged(steps: Sequence[Step], sizes: Sizes) -> Steps:
    """The same in fewer steps, for an array of these sizes.

    A permute goes in front of a slice, so that it meets the permute before.  Two of a kind become one.  Two permutes
    around a reshape become one if the sizes on both sides of the reshape have a common refinement: (2, 12) and (6, 4)
    are both (2, 3, 4) in other words.

    >>> steps = [Reshape((2, 3, 4)), Permute((1, 0, 2)), Permute((1, 0, 2)), Reshape((24,))]
    >>> merged(steps, (24,))
    ()
    """
    fewer: list[Step] | None = list(steps)
    while fewer is not None:
        steps, fewer = fewer, _merged_once(fewer, sizes)
    return tuple(steps)


def _merged_once(steps: list[Step], sizes: Sizes) -> list[Step] | None:
    """The steps after the first rule that applies; None if none does."""
    before = sizes
    for at, step in enumerate(steps):
        after = sizes_after(step, before)
        for width, rule in ((1, _simpler), (2, _pair), (3, _triple)):
            window = steps[at : at + width]
            fewer = rule(window, before) if len(window) == width else None
            if fewer is not None:
                return [*steps[:at], *fewer, *steps[at + width :]]
        before = after
    return None


def _simpler(window: Sequence[Step], sizes: Sizes) -> list[Step] | None:
    """A step that changes nothing is left out; a permute that moves only axes of one coordinate is a reshape."""
    (step,) = window
    if isinstance(step, Permute):
        if step.axes == tuple(range(len(step.axes))):
            return []
        moved = [axis for axis in step.axes if sizes[axis] != 1]
        return [Reshape(sizes_after(step, sizes))] if moved == sorted(moved) else None
    return [] if step.sizes == sizes else None


def _pair(window: Sequence[Step], sizes: Sizes) -> list[Step] | None:
    """Two of a kind are one; a permute goes in front of a slice, and behind nothing else."""
    one, other = window
    if isinstance(one, Permute) and isinstance(other, Permute):
        return [Permute(tuple([one.axes[axis] for axis in other.axes]))]
    if isinstance(one, Slice) and isinstance(other, Permute):
        return [other, Slice(sizes_after(other, one.sizes))]
    if type(one) is not type(other) or (isinstance(one, Pad) and isinstance(other, Pad) and one.fill != other.fill):
        return None
    return [other]


def _triple(window: Sequence[Step], sizes: Sizes) -> list[Step] | None:
    """Permutes around a reshape become one; axes that stay together between two reshapes become one."""
    one, middle, other = window
    if isinstance(one, Permute) and isinstance(middle, Reshape) and isinstance(other, Permute):
        return _joined_permutes(one, middle, other, sizes)
    if isinstance(one, Reshape) and isinstance(middle, Permute) and isinstance(other, Reshape):
        return _with_fewer_axes(one, middle, other)
    return None


def _joined_permutes(one: Permute, middle: Reshape, other: Permute, sizes: Sizes) -> list[Step] | None:
    """Both permutes act on the common refinement of the sizes between them."""
    between = sizes_after(one, sizes)
    parts = common_refinement(between, middle.sizes)
    if parts is None:
        return None
    fine, of_one, of_other = parts
    # The parts of each axis, in the order before the first permute and in that after the second.
    before = [part for axis in range(len(sizes)) for part in of_one[one.axes.index(axis)]]
    after = [part for axis in other.axes for part in of_other[axis]]
    result = sizes_after(other, middle.sizes)
    axes = tuple([before.index(part) for part in after])
    return [Reshape(tuple([fine[part] for part in before])), Permute(axes), Reshape(result)]


def common_refinement(one: Sizes, other: Sizes) -> tuple[Sizes, list[list[int]], list[list[int]]] | None:
    """Sizes of which both lists are products of neighbours, and the numbers of those that make up each entry.

    None if there are none, as for (2, 3) and (3, 2), and for arrays without elements.

    >>> common_refinement((2, 12), (6, 4))
    ((2, 3, 4), [[0], [1, 2]], [[0, 1], [2]])
    """
    if 0 in one:
        return None
    # The product of all sizes, then the stride of each axis in C order, down to 1: [24, 12, 1] for (2, 12).
    steps = [list(itertools.accumulate(reversed(sizes), operator.mul, initial=1))[::-1] for sizes in (one, other)]
    bounds = sorted({bound for strides in steps for bound in strides})
    if any(upper % lower for lower, upper in zip(bounds, bounds[1:])):
        return None
    fine = tuple([upper // lower for lower, upper in zip(bounds, bounds[1:])][::-1])
    number = {bound: len(fine) - position for position, bound in enumerate(bounds)}
    of_one, of_other = (
        [list(range(number[upper], number[lower])) for upper, lower in zip(strides, strides[1:])] for strides in steps
    )
    return fine, of_one, of_other


def _with_fewer_axes(one: Reshape, middle: Permute, other: Reshape) -> list[Step] | None:
    """Axes that follow each other before and after the permute as one axis; those of one coordinate are left out."""
    groups: list[list[int]] = []
    for axis in middle.axes:
        if one.sizes[axis] == 1:
            continue
        last = groups[-1][-1] if groups else axis
        if last < axis and all(one.sizes[between] == 1 for between in range(last + 1, axis)):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) == len(middle.axes):
        return None
    order = sorted(groups)
    sizes = tuple([math.prod([one.sizes[axis] for axis in group]) for group in order])
    return [Reshape(sizes), Permute(tuple([order.index(group) for group in groups])), other]
