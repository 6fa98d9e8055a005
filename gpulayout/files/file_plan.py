"""What moves from one file to another: the two shapes and the header of the new file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from gpulayout.api.arithmetic import Asked
from gpulayout.api.array_types import ArithmeticOptions
from gpulayout.api.plan import Plan, plan
from gpulayout.api.targets import axis_names, layout_for
from gpulayout.files.elements import Elements
from gpulayout.files.file_shapes import array_shape, buffer_shape, changing_shape, npy_order
from gpulayout.files.npy import Header, is_npy_name
from gpulayout.files.standard_streams import File, output_name
from gpulayout.layout.arguments import as_shape, is_only_layout
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape


@dataclass(frozen=True)
class FilePlan:
    """A move from an open file to a new one.

    relayout   the plan between the shapes of the two files; a buffer's bytes are those of a file's elements
    header     of the new file
    plain      True when the new file is its elements alone, without a header
    is_array   True when its header says all about it: an N-d array; False for a buffer, which is 1-D
    """

    source: Elements
    relayout: Plan
    header: Header
    plain: bool
    is_array: bool


def file_plan(
    source: Elements,
    target: File,
    from_: Shape | None,
    to: Shape | Layout | str | None,
    *,
    raw: bool = False,
    flat: bool = False,
    **options: Unpack[ArithmeticOptions],
) -> FilePlan:
    """The move of a buffer of the shape `from_`, or else of the N-d array that the file describes.

    to     what the new file gets, as `api.targets` reads it; None for an N-d array in C order
    raw    a buffer gets no header, whatever the name of the new file is
    flat   a buffer is 1-D, also where a .npy file could keep the dimensions
    **options change the elements on the way
    """
    names = axis_names(to, len((from_ or source.header).dimensions))
    if isinstance(to, str):
        known = from_ or source.header
        to = (
            layout_for(to, known.dimensions, element_type=_type_of_result(source.header, from_, Asked(options)))
            if is_only_layout(to)
            else as_shape(to, "target")
        )
    if from_ is not None:
        shape = buffer_shape(source.header, from_)
    else:
        shape = changing_shape(source.header, to) if Asked(options) else array_shape(source.header, to)
    relayout = plan(shape, Layout.descending(shape.rank) if to is None else to, names=names, **options)
    plain = (raw and to is not None) or not is_npy_name(target)
    order = None if plain or flat else npy_order(relayout.target)
    dimensions = (relayout.target.buffer_length,) if order is None else relayout.target.dimensions
    keeps = relayout.change is None and not relayout.target.is_packed
    dtype = source.header.dtype if keeps else relayout.target.buffer_dtype
    header = Header(output_name(target), dtype, dimensions, order == "F")
    return FilePlan(source, relayout, header, plain, order is not None)


def _type_of_result(header: Header, from_: Shape | None, asked: Asked) -> ElementType | None:
    """The element type of the new file, on which a layout by name may depend; None if its elements are opaque."""
    if asked.dtype is not None:
        return asked.dtype
    if from_ is not None:
        return from_.element_type
    return None if header.dtype.kind == "V" else array_shape(header, None).element_type
