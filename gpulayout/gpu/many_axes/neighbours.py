"""Boxes of a block that follow each other in the target."""

from __future__ import annotations

from gpulayout.gpu.kernel_numbers import BOX_STEPS
from gpulayout.gpu.many_axes.shared_box import BoxLoops
from gpulayout.moves.move import Axis


def neighbours(loops: BoxLoops, most: int) -> tuple[BoxLoops, list[tuple[int, int]]]:
    """The loops that are left when a block moves up to `most` boxes, and the offsets of these from the first.

    The block takes boxes along loops that have no padding and divide evenly, starting with the loop whose boxes are
    closest together in the target: where a box ends inside a sector, the same block writes the rest of it.  Example:
    boxes write runs of 168 bytes, one after the other.  A block of 3 boxes cuts 2 sectors per 504 bytes instead of 6.
    """
    cut, counts, tile, outer = [*loops.cut], [*loops.counts], [*loops.tile], [*loops.outer]
    nearest = [(k, axis) for k, axis in enumerate(outer, len(cut)) if not axis.is_padded]
    nearest += [  # pieces of a cut axis are as good as coordinates of others, if all are whole
        (k, Axis(count, count, size * axis.source_stride, size * axis.target_stride))
        for k, (axis, count, size) in enumerate(zip(cut, counts, tile))
        if not axis.is_padded and axis.extent % size == 0
    ]
    steps = [(0, 0)]
    for k, (extent, _, source, target) in sorted(nearest, key=lambda found: abs(found[1].target_stride)):
        room = min(BOX_STEPS, most) // len(steps)
        count = next((count for count in range(room, 1, -1) if extent % count == 0), 1)
        if count == 1:
            continue
        steps = [(a + i * source, b + i * target) for i in range(count) for a, b in steps]
        left = Axis(extent // count, extent // count, count * source, count * target)
        if k < len(cut):
            cut[k], counts[k], tile[k] = left, left.extent, 1
        else:
            outer[k - len(cut)] = left
    outer = [axis for axis in outer if axis.extent > 1]
    return BoxLoops(loops.box, cut, (counts[0], counts[1]), (tile[0], tile[1]), outer), steps
