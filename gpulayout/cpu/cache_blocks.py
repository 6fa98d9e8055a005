"""Which of a few ways to copy is fastest: whole, in cache blocks, or in cache blocks through a scratch array.  Lists of
axes are minor first in the target.

When the minor axes of source and target differ, each element of a target run comes from a different run of the source.
A line of the source is read again, for its next element, only after a whole run of other places.  Cache blocks make
that run short enough for the caches.  The ways differ in what a block is:

- It takes some places along the target, and then as many along the source as are worth a call of NumPy.
- It leaves out the minor axes of the target, if these are short.  NumPy's innermost loop then runs along the next axis:
  planes to RGB go channel by channel.
- It goes through a scratch array, which is read along the source and written along the target.  That is a second copy,
  but within the second-level cache, and its rows fall into different sets of the first-level cache.

`copy_cost` says which is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpulayout.cpu.caches import LINE_BYTES, machine_caches
from gpulayout.cpu.copy_cost import copy_cost, share_of, touched
from gpulayout.moves.move import Axis

SCRATCH_BYTES = 4 << 20  # of all threads together
SMALL_SCRATCH = 96 << 10  # for small moves: malloc gives memory from 128 KB on back to the system, each time
SMALL_MOVE = 1 << 20
LEAST_BLOCKS = 8  # so that threads can share them
MOST_BLOCKS = 1 << 16  # their list would take longer to make than a copy without blocks
UNSURE = 1.1  # estimates for blocks without a scratch array are the least exact, and one that is too low costs most
MOST_LEFT_OUT = 64  # places of the minor axes that a block leaves out
# Rows of a scratch array shorter than this many bytes, or twice as many when they are one run, are not spaced out.
LEAST_ROW = 256


class Way(NamedTuple):
    """A way to copy.

    itemsize   bytes of an element as NumPy moves it
    axes       the axes of these elements
    block      sizes of a cache block
    scratch    strides of its scratch array in bytes; () copies without one
    """

    itemsize: int
    axes: Sequence[Axis]
    block: tuple[int, ...]
    scratch: tuple[int, ...]

    @property
    def risk(self) -> float:
        """What the estimate of its time is multiplied with."""
        return 1.0 if self.scratch or self.is_whole else UNSURE

    @property
    def is_whole(self) -> bool:
        """Whether everything is copied at once."""
        return all(size == axis.bound for size, axis in zip(self.block, self.axes))


class Recipe(NamedTuple):
    """Sizes of a block: elements along the target, then along the source; and the minor axes that it leaves out."""

    along_target: int
    along_source: int
    left_out: int = 0

    def smaller(self) -> Recipe:
        """The same way, with half as many elements along the longer side."""
        if self.along_source >= self.along_target:
            return self._replace(along_source=max(self.along_source // 2, 1))
        return self._replace(along_target=self.along_target // 2)


# Of some 60 ways, these and the whole copy together lose least on random relayouts.
DIRECT = Recipe(32, 16384), Recipe(256, 1 << 16, 1), Recipe(256, 16384, 2)
SCRATCH = Recipe(128, 1024), Recipe(64, 4096), Recipe(256, 256)


def best_way(elements: Sequence[tuple[int, Sequence[Axis]]], threads: int) -> tuple[Way, float]:
    """The fastest way to copy, and the nanoseconds it takes with one thread.

    elements   (bytes of an element, axes) of each size of element in which NumPy can move the same bytes
    """
    caches, best, least = machine_caches(), None, math.inf
    for itemsize, axes in elements:
        for way in ways_to_copy(itemsize, axes, threads):
            cost = copy_cost(*way, caches, least / way.risk) * way.risk
            if best is None or cost < least:
                best, least = way, cost
    assert best is not None, "there is always the whole copy"
    return best, least


def ways_to_copy(itemsize: int, axes: Sequence[Axis], threads: int) -> Iterator[Way]:
    """The ways to copy elements of one size."""
    whole = tuple([axis.bound for axis in axes])
    yield Way(itemsize, axes, whole, ())
    source_order = sorted(range(len(axes)), key=lambda k: abs(axes[k].source_stride))
    elements = math.prod(whole)
    for recipe in DIRECT:
        if recipe.left_out < len(axes) and math.prod(whole[: recipe.left_out]) <= MOST_LEFT_OUT:
            block = block_sizes(axes, source_order, recipe)
            while math.prod(block) * LEAST_BLOCKS > elements and recipe.along_source > 1:
                recipe = recipe.smaller()
                block = block_sizes(axes, source_order, recipe)
            if elements <= MOST_BLOCKS * math.prod(block):
                yield Way(itemsize, axes, block, ())
    if itemsize > 16 or source_order[0] == 0:
        return
    room = SMALL_SCRATCH if elements * itemsize <= SMALL_MOVE else SCRATCH_BYTES // max(threads, 2)
    for recipe in SCRATCH:
        while True:
            block = block_sizes(axes, source_order, recipe)
            scratch = scratch_strides(itemsize, axes, source_order, block)
            fits = scratch_bytes(itemsize, block, scratch) <= room and math.prod(block) * LEAST_BLOCKS <= elements
            if fits or recipe == (1, 1, 0):
                break
            recipe = recipe.smaller()
        if elements <= MOST_BLOCKS * math.prod(block):
            yield Way(itemsize, axes, block, scratch)


def block_sizes(axes: Sequence[Axis], source_order: Sequence[int], recipe: Recipe) -> tuple[int, ...]:
    """The sizes of a block of about `recipe`, over several axes where they are short.

    3 planes of 1000 x 1000 to pixels, in blocks of about 32 x 16384 elements: a block takes all 3 channels, and 11
    columns for 33 elements along the target.  All 1000 columns of 17 rows then make it 17000 along the source.

    Blocks along an axis are equally long: 264 places in blocks of about 256 are one block, and 400 are two of 200.
    """
    block = [1] * len(axes)
    for order, wanted in ((range(len(axes)), recipe.along_target), (source_order, recipe.along_source)):
        covered = 1
        for k in order:
            if covered >= wanted:
                break
            if k >= recipe.left_out:
                block[k] = max(block[k], min(axes[k].bound, -(-wanted // covered)))
                covered *= block[k]
    return tuple([-(-axis.bound // max(round(axis.bound / size), 1)) for axis, size in zip(axes, block)])


def scratch_strides(
    itemsize: int, axes: Sequence[Axis], source_order: Sequence[int], block: Sequence[int]
) -> tuple[int, ...]:
    """Bytes between neighbours in the scratch array: dense in the order of the source, except that the first rows of
    LEAST_ROW bytes begin an odd number of lines apart.  Rows a power of two apart would share few sets of the cache.

    f32 cache blocks of 256 rows of 1024: rows are 4096 bytes, and begin 65 lines = 4160 bytes apart.

    Rows that are one run in the source, and share no sets, stay dense: the run is then copied as a whole.
    """
    strides, step, whole = [0] * len(axes), itemsize, True
    for k, above in zip(source_order, [*source_order[1:], None]):
        strides[k] = step
        step *= block[k]
        chained = _continues(axes, k, above, block)
        if whole and step >= LEAST_ROW * (2 if chained else 1):
            whole = False
            if not (chained and _are_spread(itemsize, source_order, block)):
                step = (-(-step // LINE_BYTES) | 1) * LINE_BYTES
    return tuple(strides)


def _are_spread(itemsize: int, source_order: Sequence[int], block: Sequence[int]) -> bool:
    """Whether a run along the target of a dense scratch array stays in the first-level cache."""
    dense, step = [0] * len(block), itemsize
    for k in source_order:
        dense[k] = step
        step *= block[k]
    run = sorted((each, size) for each, size in zip(dense, block[: source_order[0]]) if size > 1)
    return share_of(touched(run, itemsize), machine_caches().first) <= 1


def _continues(axes: Sequence[Axis], k: int, above: int | None, block: Sequence[int]) -> bool:
    """Whether axis `k` of the block is whole and ends where the next place of axis `above` begins."""
    whole = block[k] == axes[k].bound
    return whole and above is not None and axes[above].source_stride == axes[k].source_stride * axes[k].bound


def scratch_bytes(itemsize: int, block: Sequence[int], strides: Sequence[int]) -> int:
    """Bytes of a scratch array of these extents and strides.

    >>> scratch_bytes(4, (3, 5), (4, 16))
    76
    """
    return sum((size - 1) * stride for size, stride in zip(block, strides)) + itemsize
