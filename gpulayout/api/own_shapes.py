"""The shape that an `Array` brings to a call, beside the one that the call may also give."""

from __future__ import annotations

from gpulayout.api.array_types import TargetLike
from gpulayout.api.targets import as_target
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape


def own_shape(own: Shape, given: TargetLike | None, role: str) -> Shape:
    """The shape of an array; LayoutError if the shape or layout that is also given is another one."""
    if given is not None and given is not own:
        found = as_target(given, own, role)
        if found != own:
            raise LayoutError(
                f"{role} {found} is not the shape of the gl.Array, {own}: leave it out, or move the array with "
                ".to(layout)"
            )
    return own


def sides_of(own: Shape, source: TargetLike | None, target: TargetLike | None) -> tuple[Shape, TargetLike]:
    """The source and the target of a move: (array, target), or (array, source, target) with the array's own shape."""
    if target is None:
        source, target = None, source
    if target is None:
        raise TypeError("target is missing: write the layout that the gl.Array gets, such as '{0,1}'")
    return own_shape(own, source, "source"), target
