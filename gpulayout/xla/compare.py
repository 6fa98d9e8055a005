"""Equality of shapes and layouts except for named parts.  `==` compares every part; `bitcast` compares bytes.

`LayoutPart`, `ShapePart` and the like are the names that `ignore` takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Literal, get_args

from gpulayout.layout.checks import type_text, value_text
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.other_shapes import AnyShape, BufferShape, TupleShape
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_any_shape, as_shape

LayoutPart = Literal[
    "layout_except_minor_to_major",
    "padded_dimensions",
    "padding_value",
    "tiles",
    "tail_padding_alignment",
    "element_size_in_bits",
    "bit_order",
    "memory_space",
    "split_configs",
    "dynamic_shape_metadata_prefix_bytes",
    "index_type",
    "pointer_type",
]
ShapePart = Literal[
    "layout", "element_type", "float_precision", "dynamic_dimensions", "dimensions", "buffer", LayoutPart
]
TypePart = Literal["element_type"]
PrecisionPart = Literal["float_precision"]

_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Layout)}
_LAYOUT_PARTS, _SHAPE_PARTS, _PRECISION_PARTS = get_args(LayoutPart), get_args(ShapePart), get_args(PrecisionPart)
_COMPATIBLE = frozenset({"layout", "dynamic_dimensions"})
_COMPATIBLE_KIND = _COMPATIBLE | {"element_type", "dimensions"}
_LAYOUTS_ONLY = frozenset({"element_type", "dimensions", "dynamic_dimensions"})


def ignored_parts(function: str, parts: Collection[str], ignore: str | Iterable[str]) -> frozenset[str]:
    """The names in `ignore`, checked against the parts that a public function can leave out."""
    if not isinstance(ignore, Iterable):
        raise LayoutTypeError(
            f"ignore {value_text(ignore)} is neither a name nor an iterable of names: it is {type_text(ignore)}"
        )
    names = [ignore] if isinstance(ignore, str) and ignore else list(ignore)
    for name in names:
        if name not in parts:
            raise LayoutError(f"ignore {value_text(name)} of {function} is not one of {', '.join(map(repr, parts))}")
    return frozenset(names)


def layouts_equal(first: Layout | str, second: Layout | str, *, ignore: LayoutPart | Iterable[LayoutPart] = ()) -> bool:
    """True when two layouts are equal in every field that is not ignored.  XLA: `Layout::Equal` and its options.

    Parameters
    ----------
    first, second : Layout or str
    ignore : str or iterable of str, optional
        Names of fields of `Layout`, such as "tiles" or "memory_space", or "layout_except_minor_to_major", which
        compares only the order of the dimensions.

    See Also
    --------
    layouts_in_shapes_equal : The same for all arrays of two shapes.

    Examples
    --------
    >>> layouts_equal("{0,1:T(8,128)S(1)}", "{0,1:T(8,128)}", ignore="memory_space")
    True
    """
    one, other = _as_layout(first, "first"), _as_layout(second, "second")
    return _layouts_equal(one, other, ignored_parts("layouts_equal", _LAYOUT_PARTS, ignore))


def _as_layout(value: Layout | str, role: str) -> Layout:
    if isinstance(value, str):
        return parse_layout(value)
    if isinstance(value, Layout):
        return value
    raise LayoutTypeError(f"{role} {value_text(value)} is not a Layout or its text: it is {type_text(value)}")


def _layouts_equal(first: Layout, second: Layout, ignored: frozenset[str]) -> bool:
    if "layout_except_minor_to_major" in ignored:
        return first.minor_to_major == second.minor_to_major
    if "element_size_in_bits" in ignored:  # without it there is no bit order
        ignored |= {"bit_order"}
    defaults = {name: _DEFAULTS[name] for name in ignored if name in _DEFAULTS}
    return first.replace(**defaults) == second.replace(**defaults) if defaults else first == second


def shapes_equal(
    first: AnyShape | str, second: AnyShape | str, *, ignore: ShapePart | Iterable[ShapePart] = ()
) -> bool:
    """True when two shapes are equal in every part that is not ignored.  XLA: `Shape::Equal` and its options.

    Parameters
    ----------
    first, second : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        Tuples are equal when their elements are.
    ignore : str or iterable of str, optional
        Names of parts to leave out:

        =============================== ==================================================================
        "layout"                        the whole layout
        "layout_except_minor_to_major"  all of the layout except the order of the dimensions
        "tiles", "memory_space", ...    one field of the layout, by its name in `Layout`
        "element_type"                  the element types and their widths
        "float_precision"               differences between real floating-point types
        "dynamic_dimensions"            whether a size is dynamic: <=5 equals 5
        "dimensions"                    the sizes; the ranks are still compared
        "buffer"                        whether an array is held by a buffer
        =============================== ==================================================================

    See Also
    --------
    shapes_compatible : Ignores the layout and whether sizes are dynamic.
    gpulayout.xla.is_bitcast : Whether two shapes are the same bytes.

    Examples
    --------
    >>> shapes_equal("f32[2,3]", "bf16[2,3]", ignore="float_precision")
    True
    >>> shapes_equal("f32[2,3]{0,1:S(1)}", "s8[2,3]{0,1}", ignore=("element_type", "memory_space"))
    True
    """
    one, other = as_any_shape(first, "first"), as_any_shape(second, "second")
    return _equal(one, other, ignored_parts("shapes_equal", _SHAPE_PARTS, ignore))


def _equal(first: AnyShape, second: AnyShape, ignored: frozenset[str]) -> bool:
    if "buffer" in ignored or (isinstance(first, BufferShape) and isinstance(second, BufferShape)):
        first, second = (shape.shape if isinstance(shape, BufferShape) else shape for shape in (first, second))
    if isinstance(first, Shape) and isinstance(second, Shape):
        return _arrays_equal(first, second, ignored)
    if isinstance(first, TupleShape) and isinstance(second, TupleShape):
        return len(first) == len(second) and all(_equal(*pair, ignored) for pair in zip(first, second))
    return type(first) is type(second)


def _arrays_equal(first: Shape, second: Shape, ignored: frozenset[str]) -> bool:
    if not (first.rank == second.rank if "dimensions" in ignored else first.dimensions == second.dimensions):
        return False
    if not ("dynamic_dimensions" in ignored or first.dynamic_dimensions == second.dynamic_dimensions):
        return False
    if not _same_type(first, second, ignored):
        return False
    return "layout" in ignored or _layouts_equal(first.layout, second.layout, ignored)


def shapes_compatible(
    first: AnyShape | str, second: AnyShape | str, *, ignore: ShapePart | Iterable[ShapePart] = ()
) -> bool:
    """True when two shapes describe the same logical arrays, each in its own layout.

    XLA: `Compatible`, `CompatibleIgnoringElementType`, `CompatibleIgnoringFpPrecision`.

    Parameters
    ----------
    first, second : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        Layouts are ignored, and <=5 equals 5.
    ignore : str or iterable of str, optional
        Further parts to leave out, by the names of `shapes_equal`.

    Examples
    --------
    >>> shapes_compatible("f32[3,2]{0,1}", "f32[3,2]"), shapes_compatible("f32[3]", "s8[3]", ignore="element_type")
    (True, True)
    """
    one, other = as_any_shape(first, "first"), as_any_shape(second, "second")
    return _equal(one, other, _COMPATIBLE | ignored_parts("shapes_compatible", _SHAPE_PARTS, ignore))


def shapes_compatible_kind(
    first: AnyShape | str, second: AnyShape | str, *, ignore: ShapePart | Iterable[ShapePart] = ()
) -> bool:
    """True when two shapes have the same structure of tuples, with arrays of the same rank at the same indices.

    XLA: `CompatibleKind`.

    Parameters
    ----------
    first, second : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        Sizes, element types and layouts are ignored.
    ignore : str or iterable of str, optional
        Further parts to leave out, by the names of `shapes_equal`; only "buffer" makes a difference.

    Examples
    --------
    >>> shapes_compatible_kind("(f32[2,3], token[])", "(u8[7,8]{0,1}, token[])")
    True
    >>> shapes_compatible_kind("f32[2]", "f32[]")
    False
    """
    one, other = as_any_shape(first, "first"), as_any_shape(second, "second")
    return _equal(one, other, _COMPATIBLE_KIND | ignored_parts("shapes_compatible_kind", _SHAPE_PARTS, ignore))


def layouts_in_shapes_equal(
    first: AnyShape | str, second: AnyShape | str, *, ignore: LayoutPart | Iterable[LayoutPart] = ()
) -> bool:
    """True when the layouts of all arrays are equal, whatever their element types and sizes.

    XLA: `LayoutsInShapesEqual`, which forgets its options inside tuples.

    Parameters
    ----------
    first, second : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        Tuples must have the same structure.
    ignore : str or iterable of str, optional
        Parts of the layout to leave out, by the names of `layouts_equal`.

    Examples
    --------
    >>> one, other = "(f32[2]{0:S(1)})", "(u8[3])"
    >>> layouts_in_shapes_equal(one, other), layouts_in_shapes_equal(one, other, ignore="memory_space")
    (False, True)
    """
    one, other = as_any_shape(first, "first"), as_any_shape(second, "second")
    return _equal(one, other, _LAYOUTS_ONLY | ignored_parts("layouts_in_shapes_equal", _LAYOUT_PARTS, ignore))


def same_dimensions(first: Shape | str, second: Shape | str) -> bool:
    """True when two arrays have the same sizes, whatever their element types and layouts.

    Parameters
    ----------
    first, second : Shape or str
        A size without a bound equals any size.

    Examples
    --------
    >>> [same_dimensions("f32[2,3]{0,1}", other) for other in ("u8[2,3]", "f32[?,3]", "f32[2,3,1]")]
    [True, True, False]
    """
    first, second = as_shape(first, "first"), as_shape(second, "second")
    return first.rank == second.rank and all(
        one == other or UNBOUNDED in (one, other) for one, other in zip(first.dimensions, second.dimensions)
    )


def same_rank(first: Shape | str, second: Shape | str) -> bool:
    """True when two arrays have the same number of dimensions.

    Parameters
    ----------
    first, second : Shape or str

    Examples
    --------
    >>> same_rank("f32[2,3]", "u8[1,1]")
    True
    """
    return as_shape(first, "first").rank == as_shape(second, "second").rank


def same_element_type(
    first: Shape | str, second: Shape | str, *, ignore: PrecisionPart | Iterable[PrecisionPart] = ()
) -> bool:
    """True when two arrays have the same element type.  XLA: `SameElementType`, `SameElementTypeIgnoringFpPrecision`.

    Parameters
    ----------
    first, second : Shape or str
    ignore : "float_precision", optional
        Treat all real floating-point types as equal.

    Examples
    --------
    >>> same_element_type("f32[2]", "bf16[3]"), same_element_type("f32[2]", "bf16[3]", ignore="float_precision")
    (False, True)
    """
    first, second = as_shape(first, "first"), as_shape(second, "second")
    return _same_type(first, second, ignored_parts("same_element_type", _PRECISION_PARTS, ignore))


def equal_structure(first: AnyShape | str, second: AnyShape | str) -> bool:
    """True when two shapes nest tuples in the same way, whatever the tuples hold.

    Parameters
    ----------
    first, second : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str

    Examples
    --------
    >>> equal_structure("(f32[], (f32[2], s8[]))", "(token[], (s8[7], u8[]))")
    True
    >>> equal_structure("(f32[], ())", "((), f32[])")
    False
    """
    first, second = as_any_shape(first, "first"), as_any_shape(second, "second")
    if not (isinstance(first, TupleShape) and isinstance(second, TupleShape)):
        return isinstance(first, TupleShape) == isinstance(second, TupleShape)
    return len(first) == len(second) and all(map(equal_structure, first, second))


def _same_type(first: Shape, second: Shape, ignored: frozenset[str]) -> bool:
    if first.element_type is second.element_type or "element_type" in ignored:
        return True
    return "float_precision" in ignored and first.element_type.kind == second.element_type.kind == "float"
