"""Which box of axes the many-axes tile moves at a time, and where its elements lie in shared memory.

Sizes and steps are in elements of `width` bytes, one per axis of the move; an axis of size 1 is not part of the box.
An order is a sequence of axis numbers, minor first.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpulayout.planning.move import Axis

MAX_BOX_AXES = 16            # these four are limits of kernels/tile_nd.cu
MAX_OFFSET = 2**47           # elements: offsets have 48 bits and a sign is one of them
_TABLE_ENTRIES = 256         # of one side
_SHARED_BYTES = 10240
_BOX_BYTES = 9216            # of elements; what is left is for the steps between them
_SMALLEST = 256              # elements: one per thread of a block
_RUN_BYTES = 128             # a run worth aiming at: four sectors
_SECTOR = 32                 # bytes that memory moves at once
_WRITE_WEIGHT = 1.25         # a sector that is written in part is read as well


class Box(NamedTuple):
    """A box, how it is walked on both sides, and its runs: elements that follow one another in memory.

    read, write   the box's axes in the order of the source, of the target
    steps         what one coordinate of each axis moves in shared memory
    """

    sizes: tuple[int, ...]
    read: tuple[int, ...]
    write: tuple[int, ...]
    steps: tuple[int, ...]
    source_run: int
    target_run: int

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)


def best_box(axes: Sequence[Axis], width: int) -> Box | None:
    """The box that touches fewest sectors in vain, or None when no box is worth a block.

    2^10 elements of 4 bytes reversed, of which 1024 fit a box: it is whole, and its runs are all of memory:

    >>> axes = [Axis(2, 2, 2**(9 - k), 2**k) for k in range(10)]
    >>> best_box(axes, 4)[:3] == ((2,) * 10, tuple(range(9, -1, -1)), tuple(range(10)))
    True
    """
    orders = _run_order(axes, "source"), _run_order(axes, "target")
    if not all(orders):
        return None
    best, least = None, math.inf
    for source in _runs(axes, orders[0], width):
        for target in _runs(axes, orders[1], width):
            sizes = tuple(max(pair) for pair in zip(source, target))
            cost = _cost(axes, sizes, orders, width)
            if cost < least:
                best, least = sizes, cost
    if not best:
        return None
    read, write = _walk(axes, best, "source"), _walk(axes, best, "target")
    return Box(best, read, write, _steps(best, orders[0], read, write, width), *runs(axes, best))


def runs(axes: Sequence[Axis], sizes: Sequence[int]) -> tuple[int, int]:
    """Elements that follow one another in the source and in the target, in a box of these sizes.

    >>> runs([Axis(100, 100, 3, 1), Axis(3, 3, 1, 100)], (50, 3))
    (150, 50)
    """
    return _run_length(axes, sizes, _run_order(axes, "source")), _run_length(axes, sizes, _run_order(axes, "target"))


def split(sizes: Sequence[int]) -> int:
    """How many of an order's minor axes go into the low table: those with which both tables together are smallest.

    >>> split((8, 4, 8, 4)), split((2,) * 11), split((900,))
    (2, 5, 1)
    """
    return min(range(1, len(sizes) + 1), key=lambda low: _entries(sizes, low))


def table_entries(sizes: Sequence[int]) -> int:
    """Entries of both tables of an order."""
    return _entries(sizes, split(sizes))


def _entries(sizes: Sequence[int], low: int) -> int:
    return math.prod(sizes[:low]) + math.prod(sizes[low:])


# ---- runs ------------------------------------------------------------------------------------------------

def _stride(axis: Axis, side: str) -> int:
    return abs(axis.source_stride if side == "source" else axis.target_stride)


def _run_order(axes: Sequence[Axis], side: str) -> tuple[int, ...]:
    """The axes that follow one another in a side's memory, from the contiguous one on, as long as gaps are no longer
    than what they part."""
    order, covered = [], 0.5
    moving = [k for k, axis in enumerate(axes) if axis.extent > 1 and _stride(axis, side)]
    for k in sorted(moving, key=lambda k: (_stride(axes[k], side), axes[k].extent)):
        if _stride(axes[k], side) > 2 * covered:
            break
        order.append(k)
        covered = _stride(axes[k], side) * (axes[k].bound if side == "source" else axes[k].extent)
    return tuple(order)


def _walk(axes: Sequence[Axis], sizes: Sequence[int], side: str) -> tuple[int, ...]:
    """All axes of a box in the order of a side; those that stay where they are come last."""
    return tuple(sorted((k for k, size in enumerate(sizes) if size > 1),
                        key=lambda k: (_stride(axes[k], side) or math.inf, axes[k].extent)))


def _run_length(axes: Sequence[Axis], sizes: Sequence[int], order: Sequence[int]) -> int:
    length = 1
    for k in order:
        length *= sizes[k]
        if sizes[k] < axes[k].extent:
            break
    return length


def _runs(axes: Sequence[Axis], order: Sequence[int], width: int) -> list[tuple[int, ...]]:
    """Sizes that make runs about as long as what is aimed at, and those that alone fill a box."""
    found = sorted((math.prod(sizes), sizes) for sizes in _cuts(axes, order, _BOX_BYTES // width))
    short = sum(length < _RUN_BYTES // width for length, _ in found)
    kept = [*found[max(short - 4, 0):short + 8], *found[short + 8:][-4:]]
    return [sizes for _, sizes in kept]


def _cuts(axes: Sequence[Axis], order: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Boxes of up to `most` elements: a side's minor axes whole and the next one cut, evenly or to a power of two."""
    sizes, length = [1] * len(axes), 1
    for k in order:
        extent, room = axes[k].extent, most // length
        even = {-(-extent // pieces) for pieces in range(2, 9)}
        for size in even | {2**power for power in range(1, 9)}:
            if 1 < size < extent and size <= room:
                yield (*sizes[:k], size, *sizes[k + 1:])
        if extent > room:
            return
        sizes[k], length = extent, length * extent
        yield tuple(sizes)


def _cost(axes: Sequence[Axis], sizes: Sequence[int], orders: Sequence[Sequence[int]], width: int) -> float:
    """About how many times the bytes of a box are moved, 2.25 being the least; infinite for a box that cannot be."""
    elements, taken = math.prod(sizes), [k for k, size in enumerate(sizes) if size > 1]
    cut = [k for k in taken if sizes[k] < axes[k].extent]
    if not _SMALLEST <= elements <= _BOX_BYTES // width or len(cut) > 2 or len(taken) > MAX_BOX_AXES:
        return math.inf
    entries = [table_entries([sizes[k] for k in _walk(axes, sizes, side)]) for side in ("source", "target")]
    if max(entries) > _TABLE_ENTRIES:
        return math.inf
    idle = math.prod(-(-axes[k].extent // sizes[k]) * sizes[k] / axes[k].extent for k in cut)
    read, write = (_sectors(axes, sizes, order, side, width) for order, side in zip(orders, ("source", "target")))
    return idle * (read + _WRITE_WEIGHT * write) + 0.5 * sum(entries) / elements + 64 / elements


def _sectors(axes: Sequence[Axis], sizes: Sequence[int], order: Sequence[int], side: str, width: int) -> float:
    """Sectors that a run touches, as a multiple of the least: one more when runs do not begin and end with them."""
    length, whole = 1, set()
    for k in order:
        length *= sizes[k]
        if sizes[k] < axes[k].extent:
            break
        whole.add(k)
    steps = [_stride(axis, side) * sizes[k] for k, axis in enumerate(axes) if k not in whole]
    return 1 + (_SECTOR if any(step * width % _SECTOR for step in [length, *steps]) else 4) / (length * width)


# ---- shared memory -------------------------------------------------------------------------------------------

def _steps(sizes: Sequence[int], run: Sequence[int], read: Sequence[int], write: Sequence[int], width: int) -> tuple[int, ...]:
    """Steps in shared memory: the source's run as it is, then the other axes in the order of the target.

    One gap is left where it keeps lanes in different banks, on both sides; the most minor place and the smallest gap win.
    """
    minor = [k for k in run if sizes[k] > 1]
    order = [*minor, *(k for k in write if k not in minor)]
    unit, last = max(4 // width, 1), max(len(minor), 1)
    best, least = None, math.inf
    for position in (last, *(p for p in range(1, len(order)) if p != last)):
        for gap in range(0, 33 * unit, unit):
            steps = _stepped(sizes, order, position, gap)
            if 1 + sum((sizes[k] - 1) * steps[k] for k in order) > _SHARED_BYTES // width:
                break
            cost = _conflicts(sizes, read, steps, width) + _conflicts(sizes, write, steps, width)
            if cost < least:
                best, least = steps, cost
        if least <= 3:
            break
    return best


def _stepped(sizes: Sequence[int], order: Sequence[int], position: int, gap: int) -> tuple[int, ...]:
    steps, step = [0] * len(sizes), 1
    for number, k in enumerate(order):
        step += gap if number == position else 0
        steps[k], step = step, step * sizes[k]
    return tuple(steps)


def _conflicts(sizes: Sequence[int], walk: Sequence[int], steps: Sequence[int], width: int) -> int:
    """The most lanes of a warp that want different words of one bank, in the first lanes that are served together."""
    lanes, word = 128 // max(width, 4), max(4 // width, 1)             # lanes that fill all banks, elements of a bank
    places = [0]
    for k in walk:                                   # the places of the first lanes, minor axis fastest
        if len(places) >= lanes:
            break
        places = [place + coordinate * steps[k] for coordinate in range(sizes[k]) for place in places]
    words = {place // word for place in places[:lanes]}
    banks = [number % lanes for number in words]
    return max(banks.count(bank) for bank in set(banks))
