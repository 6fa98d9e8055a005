"""What a form that knows nothing but an order of dimensions can say of a layout.

`"F"`, `torch.channels_last` and zarr's `transpose` are such forms.  A layout with tiles, a pad value or any other field
would come back without it, so it is refused, and the error names the field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_array_shape


def said_in_full(value: Shape | Layout | str, form: str, says: Collection[str] = ()) -> Layout:
    """The layout of a shape, a layout or the text of either, if another library's form says all of it.

    form    the name of the form, for the error
    says    the fields, beside the order, that the form has; others must have their default

    Padded dimensions that are those of the shape pad nothing, and are left out.

    >>> said_in_full("f32[2,3]{0,1:PD(2,3)}", "a NumPy order")
    Layout((0, 1))
    """
    if isinstance(value, str):
        value = parse_array_shape(value) if "[" in value else parse_layout(value)
    if isinstance(value, Shape):
        layout = value.layout
        if layout.padded_dimensions == value.dimensions:
            layout = layout.replace(padded_dimensions=None)
    elif isinstance(value, Layout):
        layout = value
    else:
        raise LayoutTypeError(f"layout must be a Shape, a Layout or the text of one, not {type(value).__name__}")
    for field in dataclasses.fields(layout):
        own = getattr(layout, field.name)
        if field.name not in ("minor_to_major", *says) and own != field.default:
            text = "".join(map(str, own)) if field.name == "tiles" else own
            raise LayoutError(f"{field.name} {text} of {value} cannot be expressed as {form}")
    return layout
