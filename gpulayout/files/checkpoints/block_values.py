"""Numbers of a parameter, one for each block of a tensor's elements, that follow the tensor when it is cut and joined.

    f8[576,256], scale of (5, 2), blocks of 128     rows 512..575 have the numbers scale[4]
    its rows 64..191                                scale of (2, 2), blocks of (64, 128)
    two such, joined along rows                     scale of (18, 2), blocks of (64, 128)

The law: cutting after the arithmetic gives what cutting before it gives, with the numbers of the part.  Blocks become
smaller where a border falls inside one, down to a number for each element, and only along the axis that is cut or
joined.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpulayout.arrays.array_types import HostArray
from gpulayout.requests.parameters import block_sizes, fitted_blocks


@dataclass(frozen=True, eq=False)
class BlockValues:
    """The numbers of a parameter for a tensor of certain dimensions.

    values       one dimension for each of the tensor's, or size 1 where a number is for all
    dimensions   of the tensor
    blocks       for each dimension how many elements share a number, 0 for all.  The last block may be cut
    """

    values: HostArray
    dimensions: tuple[int, ...]
    blocks: tuple[int, ...]

    def part(self, axis: int, indices: range) -> BlockValues:
        """The numbers of a part of the tensor: these indices along an axis, which rise.

        >>> scale = block_values("scale", np.arange(3), (6,))
        >>> [scale.part(0, each).values.tolist() for each in (range(2, 6), range(1, 4), range(0, 6, 2))]
        [[1, 2], [0, 1, 1], [0, 1, 2]]
        """
        block, count, first, step = self.blocks[axis], len(indices), indices.start, indices.step
        values, new = self.values, block
        if block and block % step:
            values, new = np.take(values, np.array(indices, np.intp) // block, axis), 1
        elif block:
            first, block = first // step, block // step
            new = math.gcd(first, block)
            numbers = np.arange(first, first + count, new) // block
            if count and numbers[0] == numbers[-1]:
                numbers, new = numbers[:1], 0
            values = np.take(values, numbers, axis)
        return BlockValues(values, _with(self.dimensions, axis, count), _with(self.blocks, axis, new))

    def at(self, axis: int, index: int) -> BlockValues:
        """The numbers of the tensor at one index of an axis, which goes."""
        one = self.part(axis, range(index, index + 1))
        return BlockValues(one.values.squeeze(axis), _with(self.dimensions, axis), _with(self.blocks, axis))

    def split(self, axis: int, sizes: Sequence[int]) -> BlockValues:
        """The numbers of the tensor with an axis as several of these sizes, the first one most major.

        >>> scale = block_values("scale", np.arange(3), (6,)).split(0, (2, 3))
        >>> scale.values.tolist(), scale.blocks
        ([[0, 0, 1], [1, 2, 2]], (1, 1))
        """
        result = self
        for number in range(len(sizes) - 1, 0, -1):
            result = result._in_two(axis, math.prod(sizes[:number]), sizes[number])
        return result

    def _in_two(self, axis: int, outer: int, inner: int) -> BlockValues:
        block, values = self.blocks[axis], self.values
        if not block or (inner and block % inner == 0):  # blocks of whole rows
            values, blocks = np.expand_dims(values, axis + 1), (block // inner if block else 0, 0)
        else:
            blocks = (1, math.gcd(block, inner))
            values = self._refined(_with(self.blocks, axis, blocks[1])).values
            values = values.reshape(_with(values.shape, axis, outer, inner // blocks[1]))
        return BlockValues(values, _with(self.dimensions, axis, outer, inner), _with(self.blocks, axis, *blocks))

    def merged(self, axis: int, count: int = 2) -> BlockValues:
        """The numbers of the tensor with several neighbouring axes as one: the way back of `split`."""
        result = self
        for _ in range(count - 1):
            result = result._as_one(axis)
        return result

    def _as_one(self, axis: int) -> BlockValues:
        outer, inner = self.dimensions[axis : axis + 2]
        above, below = self.blocks[axis : axis + 2]
        if not below and (inner or not above):  # a number for whole rows, or for all
            values, block = self.values.squeeze(axis + 1), above * inner
        else:
            block = math.gcd(below, inner) or 1
            steps = [*self.blocks[:axis], 1, block, *self.blocks[axis + 2 :]]
            values = self._refined(steps).values
            values = values.reshape(*values.shape[:axis], outer * (inner // block), *values.shape[axis + 2 :])
        dimensions = (*self.dimensions[:axis], outer * inner, *self.dimensions[axis + 2 :])
        return BlockValues(values, dimensions, (*self.blocks[:axis], block, *self.blocks[axis + 2 :]))

    def transposed(self, order: Sequence[int]) -> BlockValues:
        """The numbers of the tensor with its axes in another order."""
        dimensions, blocks = (tuple([each[axis] for axis in order]) for each in (self.dimensions, self.blocks))
        return BlockValues(self.values.transpose(order), dimensions, blocks)

    def _refined(self, steps: Sequence[int]) -> BlockValues:
        """The same numbers for smaller blocks, which divide those that there are; 0 only where it is 0 already."""
        values = self.values
        for axis, (own, block, step) in enumerate(zip(self.dimensions, self.blocks, steps)):
            if step != block:
                values = np.take(values, np.arange(0, own, step) // (block or max(own, 1)), axis)
        return BlockValues(values, self.dimensions, tuple(steps))


def _with(sizes: tuple[int, ...], axis: int, *new: int) -> tuple[int, ...]:
    """Sizes of which one gives way to others."""
    return (*sizes[:axis], *new, *sizes[axis + 1 :])


def block_values(name: str, values: Any, dimensions: tuple[int, ...], block: Any = None) -> BlockValues:
    """A parameter of a tensor, read as all calls read it; `LayoutError` for sizes that do not fit.

    name    the keyword: "scale"
    block   as in a call

    >>> block_values("scale", np.ones((5, 2)), (576, 256), 128).blocks, block_values("scale", 2.5, (4, 6)).blocks
    ((128, 128), (0, 0))
    """
    array = np.asarray(values)
    sizes = None if block is None else block_sizes(block, dimensions)
    blocks = fitted_blocks(name, array.shape, dimensions, sizes)
    array = array.reshape([-(-own // each) if each else 1 for own, each in zip(dimensions, blocks)])
    return BlockValues(array, dimensions, blocks)


def keywords(parameters: dict[str, BlockValues]) -> dict[str, Any]:
    """What a call for the tensor gets: each parameter by its name, and one `block` for all if they need it.

    >>> keywords({"scale": block_values("scale", np.ones((5, 2)), (576, 256), 128)})["block"]
    (128, 128)
    """
    several = [{*blocks} - {0, 1} for blocks in zip(*(each.blocks for each in parameters.values()))]
    block = tuple([math.gcd(*each) or 1 for each in several])
    options: dict[str, Any] = {
        name: each._refined([own and min(own, most) for own, most in zip(each.blocks, block)]).values
        for name, each in parameters.items()
    }
    return options | {"block": block} if max(block, default=1) > 1 else options


# ---- several tensors as one ------------------------------------------------------------------------------------------


def joined(parts: Sequence[BlockValues], axis: int) -> BlockValues:
    """The numbers of tensors that are joined along an axis; their other sizes are the same.

    >>> one, other = block_values("scale", 3, (2,)), block_values("scale", [4, 5], (8,), 4)
    >>> joined([one, other], 0).values.tolist(), joined([one, other], 0).blocks
    ([3, 4, 4, 5, 5], (2,))
    """
    parts = [each for each in parts if each.dimensions[axis]] or [*parts[:1]]  # those without elements have no say
    sizes = [each.dimensions[axis] for each in parts]
    steps, ends = _common_blocks(parts), [*itertools.accumulate(sizes)]
    steps[axis] = math.gcd(steps[axis], *ends[:-1])
    values = np.concatenate(_refined_values(parts, steps), axis)
    return BlockValues(values, _with(parts[0].dimensions, axis, ends[-1]), tuple(steps))


def interleaved(parts: Sequence[BlockValues], axis: int) -> BlockValues:
    """The numbers of tensors of the same sizes whose indices along an axis take turns."""
    stack = stacked(parts)
    rank = len(stack.dimensions)
    return stack.transposed([*range(1, axis + 2), 0, *range(axis + 2, rank)]).merged(axis)


def stacked(parts: Sequence[BlockValues]) -> BlockValues:
    """The numbers of tensors of the same sizes along a new first axis."""
    steps = _common_blocks(parts)
    return BlockValues(np.stack(_refined_values(parts, steps)), (len(parts), *parts[0].dimensions), (1, *steps))


def _common_blocks(parts: Sequence[BlockValues]) -> list[int]:
    """For each axis the largest block that divides those of all parts."""
    return [math.gcd(*blocks) for blocks in zip(*(each.blocks for each in parts))]


def _refined_values(parts: Sequence[BlockValues], steps: Sequence[int]) -> list[HostArray]:
    """The numbers of all parts in these blocks, as arrays of one type."""
    arrays = [each._refined(steps).values for each in parts]
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) == 1:
        return arrays
    # A common type of NumPy's own types.  That of s8 and f8e8m0fnu would be f8e8m0fnu, which has no 3.
    dtype = np.result_type(*dtypes) if all(each.isbuiltin == 1 for each in dtypes) else np.dtype(np.float64)
    return [array.astype(dtype) for array in arrays]
