"""The shape of a buffer that is given: a whole shape, a layout for an array that knows its sizes, or a `gl.Array`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.array_types import ShapeLike, TargetLike
from gpulayout.api.libraries import library_of
from gpulayout.api.targets import as_target, check_layout_text
from gpulayout.layout.checks import value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape, is_only_layout
from gpulayout.moves.backend import AnyArray
from gpulayout.moves.move import MAX_AXES, check_storable


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


def _shape_of_array(value: TargetLike, array: Any, role: str) -> Shape:
    found = arrays.open_array(array, "buffer")[1]
    return shape_of_given(value, arrays.label(array, found), found, role)


def shape_of_given(value: TargetLike, label: np.dtype[Any], array: AnyArray, role: str) -> Shape:
    """The shape of a buffer that `open_array` returned, of element type `label`; its own strides do not matter."""
    if type(value) is Shape or not is_only_layout(value):
        return as_shape(value, role)  # type: ignore[arg-type]  # it is no Layout
    if array.ndim == 1:
        check_whole(value, role)
    return as_target(value, Shape(label, tuple(array.shape)), role)


def array_shape(shape: ShapeLike) -> Shape:
    """A shape whose buffer and whose logical array can exist; LayoutError past NumPy's 64 dimensions."""
    shape = as_shape(shape)
    check_storable(shape)
    _ = shape.buffer_length  # LayoutError for a shape without a size
    if shape.rank > MAX_AXES:
        raise LayoutError(
            f"dimensions of {shape.element_type} are {shape.rank}: a logical array has at most {MAX_AXES}"
        )
    return shape


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
