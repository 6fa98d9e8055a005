"""Tiles of many axes through shared memory, for moves whose minor axes are short on both sides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from gpulayout.gpu.change import Change
from gpulayout.gpu.element_width import MoveWork
from gpulayout.gpu.kernel_numbers import BOX_ALONG_TARGET, BOX_STEPS, FAR_BOXES, WORD
from gpulayout.gpu.launch import MAX_STRUCT_BYTES, KernelPlan, bits_of, tile_kernel
from gpulayout.gpu.many_axes.bank_spacing import Walks, box_walks
from gpulayout.gpu.many_axes.neighbours import neighbours
from gpulayout.gpu.many_axes.shared_box import RunAccess, SharedBox, box_launch, box_loops, boxes, runs
from gpulayout.gpu.many_axes.warp_lanes import box_side
from gpulayout.gpu.many_axes.word_runs import words_plan
from gpulayout.gpu.parameters import box_struct
from gpulayout.moves.move import Axis

_RUN_BYTES = 64  # two sectors; if runs are shorter, a tile of many axes is tried
_FEW_PLACES = 512  # or if a tile has fewer, not two per thread: what a thread does once then costs more than its places
_FEW_BYTES = 4096  # unless they are this large
_TRIES = 4  # boxes to try
_WORTH = 1.1  # a box may cost this much more if it has no bank conflicts
BLOCKS = 640  # a block moves several boxes if at least this many remain, about as many as an H100 holds at once
_MOST_AXES = 32  # of the move, as many as the struct has room for; with more, a move has at least 2^33 places
_TILE_ND = tile_kernel("tile_nd.cu", "gpl_tile_nd")


def many_axes_plan(work: MoveWork, of_two: KernelPlan | None) -> KernelPlan | None:
    """A tile of more axes, if that makes longer runs; else `of_two`, the tile of two axes or None."""
    shortest, fills = 0, True
    if of_two and of_two.tile:
        sizes = [min(size, axis.extent) for size, axis in zip(of_two.tile, of_two.axes)]
        shortest = min(runs(of_two.axes, [*sizes, *[1] * (len(of_two.axes) - 2)])) * work.width
        fills = math.prod(sizes) >= _FEW_PLACES or math.prod(sizes) * work.width >= _FEW_BYTES
        places = math.prod(axis.extent for axis in of_two.axes)
        if len(of_two.tile) > 2 and 8 * places < 5 * math.prod((*of_two.grid, *of_two.tile)):
            shortest, fills = 0, False  # a stack of matrices of which much is idle: any box is better
    if shortest >= _RUN_BYTES and fills or len(work.axes) > _MOST_AXES:
        return of_two
    walks = best_box(work.axes, work.width, work.phases, shortest, work.change)
    if not walks:
        return of_two
    short = f"a tile of two axes would have runs of {shortest} bytes"
    why = short if of_two and fills else "two axes do not fill a tile"
    plan = words_plan(work, why) if walks.is_single and not work.change else None
    plan = plan or _box_plan(work, walks, why)
    return plan if len(plan.parameters) <= MAX_STRUCT_BYTES else of_two


def best_box(
    axes: Sequence[Axis], width: int, phases: tuple[int, int], shortest: int = 0, change: Change | None = None
) -> Walks | None:
    """The walks over the box that moves the fewest bytes, or over a slightly costlier one without bank conflicts that
    moves small elements in words; None if none pays off.

    shortest   bytes of the runs without a box; those of the box must be longer by half
    change     the arithmetic on the way
    """
    chosen: Walks | None = None
    best = (False, False)
    for box in itertools.islice(boxes(axes, width), _TRIES):
        if (
            2 * min(box.source_run, box.target_run) * width < 3 * shortest
            or chosen
            and box.cost > _WORTH * chosen.box.cost
        ):
            break
        operands = box_operands(axes, box, change)
        if operands is None:
            continue
        walks = box_walks(axes, box, width, phases, operands)
        if walks is None:
            continue
        rank = walks.has_few_conflicts, width >= WORD or not walks.is_single
        if chosen is None or rank > best:
            chosen, best = walks, rank
        if all(rank):
            break
    return chosen


def box_operands(axes: Sequence[Axis], box: SharedBox, change: Change | None) -> tuple[int, ...] | None:
    """For each axis, the stride that all parameters with several values share inside a box.

    () if there are none; None if they have different strides, or reach further than 16 bits.
    """
    if change is None or not change.varies:
        return ()
    inside = [change.strides_of(axis) if size > 1 else () for axis, size in zip(axes, box.sizes)]
    several = [number for number, column in enumerate(zip(*change.strides)) if any(column)]
    shared = {tuple(strides[number] if strides else 0 for strides in inside) for number in several}
    operands = shared.pop()
    reach = sum((size - 1) * abs(stride) for size, stride in zip(box.sizes, operands))
    return None if shared or reach >= 1 << 15 else operands


def _box_plan(work: MoveWork, walks: Walks, why: str) -> KernelPlan:
    """The plan.  The struct lists the two axes that may be cut, then the outer ones; only the walks have whole axes."""
    width, box, both = work.width, walks.box, (walks.read, walks.write)
    loops, steps = box_loops(work.axes, box), [(0, 0)]
    if not work.varies:  # else parameters may change from box to box
        if BOX_ALONG_TARGET:
            loops, steps = neighbours(loops, loops.boxes // BLOCKS)
        else:
            outer, steps = boxes_of_a_block(loops.outer, loops.boxes)
            loops = loops._replace(outer=outer)
    read, write = (
        RunAccess(run, len(walk.apart) * width, run, walk.lane_count)
        for run, walk in zip((box.source_run, box.target_run), both)
    )
    tables = box_struct(
        bits_of(work),
        [box_side(walk, loops.tile, width) for walk in both],
        [place * width for place in walks.write.apart],
        steps,
        any(walk.full < walk.row_count for walk in both),
    )
    variant = ("GPL_READ_BYTES", read.nbytes), ("GPL_WRITE_BYTES", write.nbytes)
    return box_launch(work, _TILE_ND, loops, (read, write), tables, why=why, variant=variant)


def boxes_of_a_block(outer: Sequence[Axis], total: int) -> tuple[list[Axis], list[tuple[int, int]]]:
    """The outer axes that are left when a block moves several boxes, and the offsets of these from the first.

    A block builds its table once, and reads a box while it writes the one before.  Their offsets are those of some
    coordinates of a few outer axes without padding.  If FAR_BOXES, these are the outermost axes and their coordinates
    lie far apart: then blocks that run together move neighbours, and complete each other's sectors.
    """
    left, steps = list(outer), [(0, 0)]
    numbers = range(len(outer))
    for k in reversed(numbers) if FAR_BOXES else numbers:
        extent, bound, source, target = axis = outer[k]
        count = next(
            (
                count
                for count in range(BOX_STEPS // len(steps), 1, -1)
                if not axis.is_padded and extent % count == 0 and total >= count * len(steps) * BLOCKS
            ),
            1,
        )
        rest = extent // count
        one, other = (1, rest) if FAR_BOXES else (count, 1)  # steps of the launch, and inside a block
        steps = [(a + i * other * source, b + i * other * target) for i in range(count) for a, b in steps]
        left[k] = Axis(rest, bound // count, one * source, one * target)
    left = [axis for axis, whole in zip(left, outer) if axis.extent > 1 or whole.extent == 1]
    return left, steps
