"""Grids of cache blocks over several arrays with the same axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Box = tuple[int, tuple[int, ...]]  # the number of a grid, and of one of its blocks along each axis


class Grid(NamedTuple):
    """Cache blocks of one size, as arrays whose first axes number the blocks.  To index these with a tuple of integers
    takes half as long as to slice.

    arrays   the elements: axes `counts`, then those of a block
    counts   blocks along each axis on which there are several
    sizes    elements of a block along each axis
    """

    arrays: tuple[np.ndarray, ...]
    counts: tuple[int, ...]
    sizes: tuple[int, ...]


def grids_of(arrays: Sequence[np.ndarray], block: Sequence[int]) -> list[Grid]:
    """The grid of whole blocks, then those of the blocks that an axis ends early.  All arrays have the same shape."""
    spans = []
    for size, step in zip(arrays[0].shape, block):
        whole, rest = size // step, size % step
        spans.append([(0, whole, step)] * (whole > 0) + [(size - rest, 1, rest)] * (rest > 0))
    found = []
    for corner in itertools.product(*spans):
        part = tuple(slice(start, start + count * size) for start, count, size in corner)
        counts = tuple(count for _, count, _ in corner if count > 1)
        # (whether it numbers blocks, length) of each new axis.  An axis with one block stays one: NumPy takes 64.
        split = [pair for _, count, size in corner for pair in [(True, count)] * (count > 1) + [(False, size)]]
        order = sorted(range(len(split)), key=lambda k: not split[k][0])
        shape = tuple(length for _, length in split)
        found.append(
            Grid(
                tuple([array[part].reshape(shape).transpose(order) for array in arrays]),
                counts,
                tuple(size for *_, size in corner),
            )
        )
    return found


def boxes_of(grids: Sequence[Grid]) -> list[Box]:
    """All blocks of all grids."""
    return [(k, at) for k, grid in enumerate(grids) for at in itertools.product(*map(range, grid.counts))]
