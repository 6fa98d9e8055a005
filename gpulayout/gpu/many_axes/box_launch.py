"""What the launches of both kernels for boxes of many axes have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gpulayout.gpu.element_width import MoveWork, at_a_time
from gpulayout.gpu.launch import Access, Kernel, KernelPlan, MoveFields, planned
from gpulayout.gpu.many_axes.shared_box import SharedBox, cut_axes
from gpulayout.gpu.runtime import Macros
from gpulayout.moves.move import Axis


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
    >>> found = box_loops(axes, SharedBox((50, 3, 1), (1, 0), (0, 1), 150, 50, 1))
    >>> found.counts, found.tile, found.outer, found.boxes
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
    sides: tuple[RunAccess, RunAccess],
    tables: bytes,
    *,
    why: str,
    variant: Macros = (),
    reach: int = 0,
) -> KernelPlan:
    """The plan of a launch that moves boxes.

    sides    reading and writing
    tables   the bytes of the parameter struct after its `GplMove`
    why      why a tile of two axes is not enough
    """
    box, (read, write) = loops.box, sides
    source, target = (side.in_box * work.width for side in sides)
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
