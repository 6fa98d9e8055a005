"""Axes in reverse order, as those of the kernels of Flax's transposed convolutions.

No layout can express it.  The axes come first on one side of the move, so a tensor there is a row of equal parts, which
stand in reverse order.  A kernel of 3 x 3 of Flax, (h, w, in, out), has 9:

    tap        (0,0) (0,1) (0,2) (1,0) ... (2,2)
    is read as (2,2) (2,1) (2,0) (1,2) ... (0,0)

So bytes are read from other offsets of the file, or written to them.  The move itself knows nothing of it, and takes
the memory that it takes without.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpulayout.files.checkpoints.rules import Rule
from gpulayout.files.checkpoints.views import array_like
from gpulayout.layout.checks import value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.patterns import Groups, Pattern
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape
from gpulayout.plans.plan import Plan


class Flip(NamedTuple):
    """How many parts stand in reverse order before a move, and after it: 1 where none do."""

    before: int = 1
    after: int = 1


NO_FLIP = Flip()


def flip_of_move(source: Shape, rule: Rule, pattern: Pattern, move: Plan, result: Shape) -> Flip:
    """The flip of a rule for a tensor; `result` is what the bytes of the move's target are.

    A source that is read in reverse order reaches the plan reversed, so numbers along its flipped axes would apply to
    the wrong parts.
    """
    flip = flip_of(pattern, rule.flip, source.dimensions)
    if max(flip) < 2:
        return NO_FLIP
    flipped_shape = result if flip.after > 1 else source
    in_order = same_buffer(flipped_shape, array_like(flipped_shape, flipped_shape.dimensions))
    if not in_order or flipped_shape.element_count * flipped_shape.bits_per_element % (8 * max(flip)):
        raise LayoutError(f"flip is for arrays in C order whose parts are whole bytes, and {flipped_shape} is none")
    flipped = [dim for dim, group in enumerate(pattern.before) if {*group} & {*rule.flip}]
    for parameter in () if move.change is None or flip.after > 1 else move.change.parameters:
        if any(parameter.blocks[dim] for dim in flipped):
            raise LayoutError(
                f"{parameter.name} has several numbers along an axis of flip {value_text(' '.join(rule.flip))}: change "
                "the elements in one relayout, and flip in another"
            )
    return flip


def flip_of(pattern: Pattern, axes: tuple[str, ...], dimensions: tuple[int, ...]) -> Flip:
    """The flip of those axes that occur in a pattern.

    `LayoutError` if they come first on neither side.

    >>> from gpulayout.layout.patterns import read_pattern
    >>> flip_of(read_pattern("i o h w -> h w i o", 4), ("d", "h", "w"), (4, 5, 3, 3))
    Flip(before=1, after=9)
    """
    sizes = pattern.axis_sizes(dimensions, {})
    flipped = {axis for axis in axes if axis in sizes}
    parts = math.prod(sizes[axis] for axis in flipped)
    if _come_first(pattern.after, flipped):
        return Flip(after=parts)
    if _come_first(pattern.before, flipped):
        return Flip(before=parts)
    raise LayoutError(
        f"flip {value_text(' '.join(axes))} is for axes that come first on one side, and in {pattern.shown} they do on "
        "neither"
    )


def _come_first(groups: Groups, axes: set[str]) -> bool:
    names = [name for group in groups for name in group]
    return {*names[: len(axes)]} == axes
