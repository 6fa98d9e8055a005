"""The box of axes that a many-axes tile moves at once: how it is chosen, and the launch of either kernel that moves it.

A box has one size per axis of the move, in elements of `width` bytes; an axis of size 1 is not part of it.  An order
is a sequence of axis numbers, minor first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpulayout.gpu.element_width import SOURCE, TARGET, MoveWork, at_a_time
from gpulayout.gpu.kernel_numbers import BOX_ENTRY_BYTES, BOX_SHARED_BYTES, LANES, SECTOR, THREADS
from gpulayout.gpu.launch import Access, Kernel, KernelPlan, MoveFields, planned
from gpulayout.gpu.runtime import Macros
from gpulayout.moves.move import Axis

MAX_BOX_AXES = 13  # 2^14 elements do not fit beside a table
_ROW = 24  # elements; a row of lanes nearly always has at least as many
_SMALLEST = THREADS  # elements: one for each thread of a block
_RUN_BYTES = 128  # the run to aim for: four sectors
# Writing part of a sector also reads it.  With 4.5, two moves of a dozen got other boxes on an H100, and were slower.
_WRITE_WEIGHT = 1.25


class SharedBox(NamedTuple):
    """A box.

    read, write              its axes in the order of the source and of the target
    source_run, target_run   contiguous elements
    cost                     roughly how many times its bytes are moved
    """

    sizes: tuple[int, ...]
    read: tuple[int, ...]
    write: tuple[int, ...]
    source_run: int
    target_run: int
    cost: float

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)


class _RunSide(NamedTuple):
    """One side of a move: absolute strides, the axes of its runs, and the elements of a sector."""

    strides: tuple[int, ...]
    order: tuple[int, ...]
    sector: int


class _CutRun(NamedTuple):
    """Sizes of some minor axes of a side, the elements of the run they make, and its cost."""

    sizes: dict[int, int]
    length: int
    cost: float


def boxes(axes: Sequence[Axis], width: int, most: int = 0) -> Iterator[SharedBox]:
    """Boxes large enough for a block; those that touch the fewest unneeded sectors come first.

    most   elements of a box; by default as many as kernels/tile_nd.cu has room for

    A reversal of 2^10 elements of 4 bytes fits one box, whose runs are the whole memory:

    >>> axes = [Axis(2, 2, 2**(9 - k), 2**k) for k in range(10)]
    >>> next(boxes(axes, 4))[:3] == ((2,) * 10, tuple(range(9, -1, -1)), tuple(range(10)))
    True
    """
    sides = [_side(axes, side, width) for side in (SOURCE, TARGET)]
    if not all(side.order for side in sides):
        return
    most = most or _most_elements(axes, sides, width)
    reads, writes = (_runs(axes, side, width, most) for side in sides)
    costs: dict[tuple[tuple[int, int], ...], float] = {}
    for read, write in itertools.product(reads, writes):
        sizes = read.sizes | {k: max(size, read.sizes.get(k, 1)) for k, size in write.sizes.items()}
        elements = math.prod(sizes.values())
        if not _SMALLEST <= elements <= most or len(sizes) > MAX_BOX_AXES:
            continue
        key = tuple(sorted(sizes.items()))
        if key not in costs:
            costs[key] = _cost(axes, sizes, elements, (read, write), sides)
    for key in sorted(costs, key=costs.__getitem__):
        yield _box(axes, dict(key), sides, costs[key])


def runs(axes: Sequence[Axis], sizes: Sequence[int]) -> tuple[int, int]:
    """The contiguous elements in the source and in the target, in a box of these sizes.

    >>> runs([Axis(100, 100, 3, 1), Axis(3, 3, 1, 100)], (50, 3))
    (150, 50)
    """
    numbered = dict(enumerate(sizes))
    source, target = (_run_length(axes, numbered, _side(axes, side, 1).order) for side in (SOURCE, TARGET))
    return source, target


def cut_axes(axes: Sequence[Axis], box: SharedBox) -> list[int]:
    """The two axes that may be cut: those that are cut, then outer ones."""
    sizes = box.sizes
    return sorted(
        range(len(axes)), key=lambda k: (sizes[k] == axes[k].extent, sizes[k] == 1, abs(axes[k].target_stride))
    )[:2]


def _most_elements(axes: Sequence[Axis], sides: Sequence[_RunSide], width: int) -> int:
    """How many elements fit in shared memory beside the table of both sides' rows, such as 4320 of 4 bytes."""
    word, rows = max(4 // width, 1), 0.0
    for side in sides:
        short = math.prod([axis.extent for axis, stride in zip(axes, side.strides) if stride % word])
        rows += 1 / (word if short % word == 0 else 1)  # a lane moves a word where it can
    return int((BOX_SHARED_BYTES - 2 * LANES * BOX_ENTRY_BYTES) / (width + BOX_ENTRY_BYTES * (rows / _ROW)))


def _side(axes: Sequence[Axis], side: int, width: int) -> _RunSide:
    """A side; runs end at the first gap that is longer than what it separates."""
    strides, order, covered = tuple([abs(axis[2 + side]) for axis in axes]), [], 0.5
    moving = [(strides[k], axis.extent, k) for k, axis in enumerate(axes) if axis.extent > 1 and strides[k]]
    for stride, extent, k in sorted(moving):
        if stride > 2 * covered:
            break
        order.append(k)
        covered = stride * (axes[k].bound if side == SOURCE else extent)
    return _RunSide(strides, tuple(order), max(SECTOR // width, 1))


def _box(axes: Sequence[Axis], sizes: dict[int, int], sides: Sequence[_RunSide], cost: float) -> SharedBox:
    read, write = (  # axes of stride 0 come last
        tuple(sorted(sizes, key=lambda k: (side.strides[k] or math.inf, axes[k].extent))) for side in sides
    )
    source_run, target_run = (_run_length(axes, sizes, side.order) for side in sides)
    return SharedBox(tuple([sizes.get(k, 1) for k in range(len(axes))]), read, write, source_run, target_run, cost)


def _run_length(axes: Sequence[Axis], sizes: dict[int, int], order: Sequence[int]) -> int:
    length = 1
    for k in order:
        size = sizes.get(k, 1)
        length *= size
        if size < axes[k].extent:
            break
    return length


def _runs(axes: Sequence[Axis], side: _RunSide, width: int, most: int) -> list[_CutRun]:
    """The sizes whose runs come closest to `_RUN_BYTES`, and those that fill a box on their own."""
    cuts = sorted(_cuts(axes, side.order, most), key=lambda cut: cut[1])
    short = sum(length * width < _RUN_BYTES for _, length in cuts)
    kept = [*cuts[max(short - 4, 0) : short + 6], *cuts[short + 6 :][-3:]]
    return [_CutRun(sizes, length, _sectors(axes, sizes, length, side)) for sizes, length in kept]


def _cuts(axes: Sequence[Axis], order: Sequence[int], most: int) -> Iterator[tuple[dict[int, int], int]]:
    """Boxes of up to `most` elements: a side's minor axes whole and the next one cut, evenly or to a power of two."""
    sizes: dict[int, int] = {}
    length = 1
    for k in order:
        extent, room = axes[k].extent, most // length
        even = {-(-extent // pieces) for pieces in range(2, 9)}
        for size in even | {2**power for power in range(1, 9)}:
            if 1 < size < extent and size <= room:
                yield {**sizes, k: size}, length * size
        if extent > room:
            return
        sizes[k], length = extent, length * extent
        yield dict(sizes), length


def _cost(
    axes: Sequence[Axis],
    sizes: dict[int, int],
    elements: int,
    cut_runs: tuple[_CutRun, _CutRun],
    sides: Sequence[_RunSide],
) -> float:
    """Roughly how many times the bytes of a box are moved, 2.25 at best.

    The cost model cannot rank boxes: it needs a launch with finished walks, and here hundreds of boxes are compared to
    find the few that walks are planned for.
    """
    # at most two axes are cut, one in the run of each side
    idle = math.prod([-(-axes[k].extent // size) * size / axes[k].extent for k, size in sizes.items()])
    costs = []
    for run, side in zip(cut_runs, sides):
        length = _run_length(axes, sizes, side.order)  # longer if the other side takes more of these axes
        costs.append(run.cost if length == run.length else _sectors(axes, sizes, length, side))
    return idle * (costs[0] + _WRITE_WEIGHT * costs[1]) + 96 / elements


def _sectors(axes: Sequence[Axis], sizes: dict[int, int], length: int, side: _RunSide) -> float:
    """Sectors that a run touches, relative to the fewest possible: one more if runs do not begin and end at sectors."""
    aligned = length % side.sector == 0 and _begin_at_sectors(axes, sizes, side)
    return 1 + (side.sector / 8 if aligned else side.sector) / length


def _begin_at_sectors(axes: Sequence[Axis], sizes: dict[int, int], side: _RunSide) -> bool:
    """True when all runs of a side begin at sectors, because all steps outside a run are whole sectors."""
    steps = dict(enumerate(side.strides))
    for k in side.order:
        step = steps.pop(k) * sizes.get(k, 1)
        if sizes.get(k, 1) < axes[k].extent:
            steps[k] = step
            break
    return all(step % side.sector == 0 for step in steps.values())


# ---- launches --------------------------------------------------------------------------------------------


class BoxLoops(NamedTuple):
    """The loops of the parameter struct, which count boxes.

    box        what they count
    cut        the two axes that may be cut, or outer ones if fewer are; extent 1 for one that is whole in every box
    counts     pieces along these
    tile       places of a piece along these; 1 for an axis that is whole
    outer      the axes outside the box
    together   boxes of these loops that a block moves
    """

    box: SharedBox
    cut: list[Axis]
    counts: tuple[int, int]
    tile: tuple[int, int]
    outer: list[Axis]
    together: int = 1

    @property
    def boxes(self) -> int:
        """How many they count."""
        return math.prod(self.counts) * math.prod(axis.extent for axis in self.outer)


class RunAccess(NamedTuple):
    """How the lanes of a warp access one side of a box.

    in_box   elements of the box's runs; for the reason
    nbytes   what a lane accesses at once
    run      contiguous elements that a row of lanes accesses
    lanes    of such a row
    """

    in_box: int
    nbytes: int
    run: int
    lanes: int


def box_loops(axes: Sequence[Axis], box: SharedBox) -> BoxLoops:
    """The loops over the boxes of a move.

    A box of 50 x 3 x 1 places: 2 pieces of axis 0, the whole axis 1.  Axis 2 is outside, but no other axis is cut, so
    its places are the pieces of the second one.
    >>> axes = [Axis(100, 100, 3, 1), Axis(3, 3, 1, 100), Axis(7, 7, 300, 300)]
    >>> loops = box_loops(axes, SharedBox((50, 3, 1), (1, 0), (0, 1), 150, 50, 1))
    >>> loops.counts, loops.tile, loops.outer, loops.boxes
    ((2, 7), (50, 1), [], 14)
    """
    numbers = cut_axes(axes, box)
    loops, counts, tile = [], [], []
    for k in numbers:
        axis, size = axes[k], box.sizes[k]
        is_cut = size < axis.extent
        loops.append(axis if is_cut else Axis(1, 1, 0, 0))
        counts.append(math.ceil(axis.extent / size))
        tile.append(size if is_cut else 1)
    outer = [axis for k, axis in enumerate(axes) if k not in numbers and box.sizes[k] == 1 < axis.extent]
    return BoxLoops(box, loops, (counts[0], counts[1]), (tile[0], tile[1]), outer)


def box_launch(
    work: MoveWork,
    kernel: Kernel,
    loops: BoxLoops,
    accesses: tuple[RunAccess, RunAccess],
    tables: bytes,
    *,
    why: str,
    variant: Macros = (),
    reach: int = 0,
) -> KernelPlan:
    """The plan of a launch that moves boxes.

    accesses   reading and writing
    tables     the bytes of the parameter struct after its `GplMove`
    why        why a tile of two axes is not enough
    """
    box, (read, write) = loops.box, accesses
    source, target = read.in_box * work.width, write.in_box * work.width
    work = work.because(
        f"{why}, so a box over {len(box.write)} axes is moved: its runs are of {source} bytes in the source, of "
        f"{target} in the target, and {at_a_time(read.nbytes, write.nbytes)}"
    )
    plan = planned(
        work,
        kernel,
        write.nbytes,
        math.ceil(loops.boxes / loops.together),
        MoveFields(loops.boxes, loops.counts, loops.tile, looped=[*loops.cut, *loops.outer]),
        variant=variant,
        reach=reach,
    )
    return replace(
        plan,
        parameters=plan.parameters + tables,
        tile=tuple(box.sizes[k] for k in box.write),
        reads=Access(read.nbytes),
        runs=(read.run, write.run),
        lanes=(read.lanes, write.lanes),
    )
