"""When two shapes or layouts are equal but for something.  `==` compares everything; `bitcast` compares bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from gpulayout.layout.arguments import as_any_shape, takes_shapes
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.other_shapes import AnyShape, BufferShape, TupleShape
from gpulayout.layout.shape import Shape

LAYOUT_FIELDS = tuple(field.name for field in dataclasses.fields(Layout))


def layouts_equal(
    first: Layout | str, second: Layout | str, *, ignore: Iterable[str] = (), minor_to_major_only: bool = False
) -> bool:
    """True when two layouts are equal in every field but those to be ignored.  XLA: `Layout::Equal` and its options.

    ignore                  names of fields: "tiles", "memory_space", ...
    minor_to_major_only     compare the order alone

    >>> layouts_equal("{0,1:T(8,128)S(1)}", "{0,1:T(8,128)}", ignore=("memory_space",))
    True
    """
    first, second = (parse_layout(value) if isinstance(value, str) else value for value in (first, second))
    ignored = _layout_fields(ignore)
    if minor_to_major_only:
        return first.minor_to_major == second.minor_to_major
    defaults = {field.name: field.default for field in dataclasses.fields(Layout) if field.name in ignored}
    return first.replace(**defaults) == second.replace(**defaults) if defaults else first == second


def shapes_equal(
    first: AnyShape | str,
    second: AnyShape | str,
    *,
    ignore_layout: bool = False,
    minor_to_major_only: bool = False,
    ignore_layout_fields: Iterable[str] = (),
    ignore_element_type: bool = False,
    ignore_float_precision: bool = False,
    ignore_dynamic_dimensions: bool = False,
    ignore_dimensions: bool = False,
    ignore_buffer: bool = False,
) -> bool:
    """True when two shapes are equal in everything that is not to be ignored.  XLA: `Shape::Equal` and its options.

    ignore_layout               nothing of the layout
    minor_to_major_only         of the layout, the order alone
    ignore_layout_fields        of the layout, all but the fields of these names: "tiles", "memory_space", ...
    ignore_element_type         any type will do
    ignore_float_precision      all real floating-point types count as one
    ignore_dynamic_dimensions   <=5 counts as 5
    ignore_dimensions           any sizes will do; the number of dimensions still counts
    ignore_buffer               a buffer counts as the array that it holds

    Tuples are equal when their elements are.

    >>> shapes_equal("f32[2,3]", "bf16[2,3]", ignore_float_precision=True)
    True
    """
    first, second = as_any_shape(first, "first"), as_any_shape(second, "second")
    ignored = _layout_fields(ignore_layout_fields)

    def equal(one: AnyShape, other: AnyShape) -> bool:
        if ignore_buffer:
            one, other = (shape.shape if isinstance(shape, BufferShape) else shape for shape in (one, other))
        if type(one) is not type(other):
            return False
        if isinstance(one, TupleShape):
            return len(one) == len(other) and all(map(equal, one, other))
        if isinstance(one, BufferShape):
            return equal(one.shape, other.shape)
        if not isinstance(one, Shape):
            return True
        same_sizes = one.rank == other.rank if ignore_dimensions else one.dimensions == other.dimensions
        same_dynamic = ignore_dynamic_dimensions or one.dynamic_dimensions == other.dynamic_dimensions
        if not (same_sizes and same_dynamic and _same_type(one, other, ignore_element_type, ignore_float_precision)):
            return False
        return ignore_layout or layouts_equal(
            one.layout, other.layout, ignore=ignored, minor_to_major_only=minor_to_major_only
        )

    return equal(first, second)


def shapes_compatible(
    first: AnyShape | str,
    second: AnyShape | str,
    *,
    ignore_element_type: bool = False,
    ignore_float_precision: bool = False,
) -> bool:
    """True when both describe the same logical arrays, each in its own layout; <=5 counts as 5.

    XLA: `Compatible`, `CompatibleIgnoringElementType`, `CompatibleIgnoringFpPrecision`.

    >>> shapes_compatible("f32[3,2]{0,1}", "f32[3,2]")
    True
    """
    return shapes_equal(
        first,
        second,
        ignore_layout=True,
        ignore_dynamic_dimensions=True,
        ignore_element_type=ignore_element_type,
        ignore_float_precision=ignore_float_precision,
    )


def shapes_compatible_kind(first: AnyShape | str, second: AnyShape | str, *, ignore_buffer: bool = False) -> bool:
    """True when tuples have the same structure, and what stands in one place is of one kind: arrays of as many
    dimensions.

    ignore_buffer   a buffer counts as the array that it holds.  XLA: `CompatibleKind`

    >>> shapes_compatible_kind("(f32[2,3], token[])", "(u8[7,8]{0,1}, token[])"), shapes_compatible_kind("f32[2]", "f32[]")
    (True, False)
    """
    return shapes_equal(
        first,
        second,
        ignore_layout=True,
        ignore_dynamic_dimensions=True,
        ignore_element_type=True,
        ignore_dimensions=True,
        ignore_buffer=ignore_buffer,
    )


def layouts_in_shapes_equal(
    first: AnyShape | str, second: AnyShape | str, *, ignore: Iterable[str] = (), minor_to_major_only: bool = False
) -> bool:
    """True when the layouts of all arrays are equal, whatever their types and sizes; options as of `layouts_equal`.

    XLA: `LayoutsInShapesEqual`, which forgets its options inside of tuples.

    >>> layouts_in_shapes_equal("(f32[2]{0:S(1)})", "(u8[3])"), layouts_in_shapes_equal("(f32[2]{0:S(1)})", "(u8[3])", ignore="memory_space")
    (False, True)
    """
    return shapes_equal(
        first,
        second,
        ignore_element_type=True,
        ignore_dimensions=True,
        ignore_dynamic_dimensions=True,
        ignore_layout_fields=ignore,
        minor_to_major_only=minor_to_major_only,
    )


@takes_shapes("first", "second")
def same_dimensions(first: Shape, second: Shape) -> bool:
    """True when two arrays have the same sizes, whatever their types; a size without a bound is the same as any.

    XLA: `SameDimensions`.

    >>> same_dimensions("f32[2,3]{0,1}", "u8[2,3]"), same_dimensions("f32[?,3]", "f32[2,3]"), same_dimensions("f32[2]", "f32[2,1]")
    (True, True, False)
    """
    return first.rank == second.rank and all(
        one == other or UNBOUNDED in (one, other) for one, other in zip(first.dimensions, second.dimensions)
    )


@takes_shapes("first", "second")
def same_rank(first: Shape, second: Shape) -> bool:
    """True when two arrays have as many dimensions.  XLA: `SameRank`.

    >>> same_rank("f32[2,3]", "u8[1,1]")
    True
    """
    return first.rank == second.rank


@takes_shapes("first", "second")
def same_element_type(first: Shape, second: Shape, *, ignore_float_precision: bool = False) -> bool:
    """True when two arrays have one element type; on demand all real floating-point types count as one.

    XLA: `SameElementType`, `SameElementTypeIgnoringFpPrecision`.

    >>> same_element_type("f32[2]", "bf16[3]"), same_element_type("f32[2]", "bf16[3]", ignore_float_precision=True)
    (False, True)
    """
    return _same_type(first, second, False, ignore_float_precision)


def equal_structure(first: AnyShape | str, second: AnyShape | str) -> bool:
    """True when tuples stand in one another alike, whatever is in them.  XLA: `EqualStructure`.

    >>> equal_structure("(f32[], (f32[2], s8[]))", "(token[], (s8[7], u8[]))"), equal_structure("(f32[], ())", "((), f32[])")
    (True, False)
    """
    first, second = as_any_shape(first, "first"), as_any_shape(second, "second")
    if not (isinstance(first, TupleShape) and isinstance(second, TupleShape)):
        return isinstance(first, TupleShape) == isinstance(second, TupleShape)
    return len(first) == len(second) and all(map(equal_structure, first, second))


def _same_type(first: Shape, second: Shape, ignore_element_type: bool, ignore_float_precision: bool) -> bool:
    both_float = first.element_type.kind == second.element_type.kind == "float"
    return first.element_type is second.element_type or ignore_element_type or (ignore_float_precision and both_float)


def _layout_fields(names: Iterable[str]) -> frozenset[str]:
    """Names of fields of a layout; LayoutError for one that there is not, or that is the order itself."""
    found = frozenset((names,) if isinstance(names, str) else names)
    unknown = sorted(found - set(LAYOUT_FIELDS[1:]))
    if unknown:
        raise LayoutError(f"ignored layout field {unknown[0]!r} is not one of {', '.join(LAYOUT_FIELDS[1:])}")
    return found
