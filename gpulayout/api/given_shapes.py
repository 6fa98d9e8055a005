"""The shape of a buffer that is given: a whole shape, or a layout for an array that says the sizes itself."""

from __future__ import annotations

from typing import Any

from gpulayout.api import arrays
from gpulayout.api.array_types import ShapeLike, TargetLike
from gpulayout.api.libraries import library_of
from gpulayout.api.targets import as_target, check_layout_text
from gpulayout.layout.arguments import is_only_layout
from gpulayout.layout.checks import value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape


def given_shape(value: TargetLike, array: Any, role: str) -> ShapeLike:
    """A whole shape as it was given; a layout without a shape with the sizes and the element type of an N-d array.

    array   the buffer; it has to lie in memory as the layout says, which later checks find out
    LayoutError for a layout without a shape and a flat buffer.
    """
    if type(value) is Shape or not is_only_layout(value):
        return value  # type: ignore[return-value]  # it is no Layout
    library = library_of(array)
    if library is None:
        return _shape_of_array(value, array, role)
    found: Shape = library.untraced(_shape_of_array)(value, library.described(array), role)
    return found


def check_whole(value: TargetLike, role: str) -> None:
    """LayoutError for a layout without a shape, where a flat buffer is given."""
    if not is_only_layout(value):
        return
    text, is_layout = str(value), True
    if isinstance(value, str):
        check_layout_text(value, role)
        is_layout = value.lstrip().startswith("{")
    shown = value_text(text)
    example = "'f32[2,3]{0,1}'" if is_layout else f"gl.plan('f32[2,3]', {shown}).target"
    raise LayoutError(
        f"{role} {shown} is only a layout, and a flat buffer does not say the sizes: write the whole shape, such as "
        f"{example}"
    )


def _shape_of_array(value: TargetLike, array: Any, role: str) -> Shape:
    """The shape of an array in this layout; the array's own strides do not matter."""
    found = arrays.open_array(array, "buffer")[1]
    if found.ndim == 1:
        check_whole(value, role)
    return as_target(value, Shape(arrays.label(array, found), tuple(found.shape)), role)
