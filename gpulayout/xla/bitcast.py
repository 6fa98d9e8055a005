"""When two shapes describe the same bytes, so that going from one to the other moves nothing.

`gpulayout.layout.same_places` states the law behind these functions.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpulayout.layout.checks import inverse
from gpulayout.layout.padding import PaddingValue, scalar_key
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.layout.text import as_shape
from gpulayout.xla.compare import TypePart, ignored_parts

_ELEMENT_TYPE = ("element_type",)


def is_bitcast(source: Shape | str, target: Shape | str, *, ignore: TypePart | Iterable[TypePart] = ()) -> bool:
    """True when a buffer of `source` is, byte for byte, a buffer of `target` for the same logical array.

    False when dimensions, buffer sizes or pad values differ.

    Parameters
    ----------
    source, target : Shape or str
    ignore : "element_type", optional
        Compare only the places of the elements, counted in elements: types and their widths are ignored.

    See Also
    --------
    gpulayout.xla.reshape_is_bitcast : For arrays of different dimensions.
    gpulayout.xla.transpose_is_bitcast : For arrays whose dimensions are permuted.
    gpulayout.xla.shapes_equal : Whether two shapes have equal fields.

    Notes
    -----
    Dimensions of size 1 may have any position: f32[1,3]{1,0} and f32[1,3]{0,1} are the same bytes, though not equal
    shapes.  Tiles may differ if the places do not.  The memory space is ignored.

    Examples
    --------
    >>> is_bitcast("f32[16,128]{1,0:T(8,128)}", "f32[16,128]"), is_bitcast("f32[16,256]{1,0:T(8,128)}", "f32[16,256]")
    (True, False)
    """
    source, target = as_shape(source, "source"), as_shape(target, "target")
    ignored = ignored_parts("is_bitcast", _ELEMENT_TYPE, ignore)
    return source.dimensions == target.dimensions and _same_places(source, target, ignored)


def _same_places(source: Shape, target: Shape, ignored: frozenset[str]) -> bool:
    """True when the elements, in row-major logical order, have the same places, and padding the same value."""
    if not ignored:
        return source.element_type is target.element_type and same_buffer(source, target)
    if source.bits_per_element == target.bits_per_element:
        return same_buffer(source, target)
    # Pad values of different widths have no bytes to compare.
    is_padded = source.buffer_size != source.element_count
    return (not is_padded or _pad_key(source) == _pad_key(target)) and same_buffer(_as_u8(source), _as_u8(target))


def _pad_key(shape: Shape) -> object:
    value = shape.layout.padding_value
    return scalar_key(PaddingValue.ZERO if value is None else value)


def _as_u8(shape: Shape) -> Shape:
    """Elements of one byte at the same places; a byte could not hold every pad value."""
    layout = shape.layout.replace(padding_value=None, element_size_in_bits=0, bit_order="little")
    return shape.replace(element_type="u8", layout=layout)


def is_untiled(shape: Shape | str) -> bool:
    """True when the tiles change nothing: without them every element has the same place.  XLA: `IsUntiledLayout`.

    Parameters
    ----------
    shape : Shape or str

    Examples
    --------
    >>> is_untiled("f32[4,256]{1,0:T(1,128)}"), is_untiled("f32[4,256]{1,0:T(2,128)}")
    (True, False)
    """
    shape = as_shape(shape)
    return same_buffer(shape, shape.with_layout(shape.layout.replace(tiles=())))


def reshape_is_bitcast(source: Shape | str, target: Shape | str, *, ignore: TypePart | Iterable[TypePart] = ()) -> bool:
    """True when reshaping `source` to `target`, in row-major logical order, moves no byte.

    False when element counts, buffer sizes or pad values differ.

    Parameters
    ----------
    source, target : Shape or str
    ignore : "element_type", optional
        Compare only the places of the elements, counted in elements: types and their widths are ignored.

    Examples
    --------
    >>> reshape_is_bitcast("f32[17,3,1,16]{1,0,3,2}", "f32[51,16]{0,1}")
    True
    """
    ignored = ignored_parts("reshape_is_bitcast", _ELEMENT_TYPE, ignore)
    return _same_places(as_shape(source, "source"), as_shape(target, "target"), ignored)


def transpose_is_bitcast(
    source: Shape | str, target: Shape | str, permutation: Iterable[int], *, ignore: TypePart | Iterable[TypePart] = ()
) -> bool:
    """True when the logical transpose of `source` to `target` moves no byte.

    XLA: `TransposeIsBitcast`, which compares only the order of the dimensions, not tiles, element size or tail.

    Parameters
    ----------
    source, target : Shape or str
    permutation : iterable of int
        Dimension i of `target` is dimension permutation[i] of `source`, as in `numpy.transpose`.
    ignore : "element_type", optional
        Compare only the places of the elements, counted in elements: types and their widths are ignored.

    Examples
    --------
    >>> transpose_is_bitcast("f32[10,5]{1,0}", "f32[5,10]{0,1}", (1, 0))
    True
    >>> transpose_is_bitcast("f32[10,5]{1,0}", "f16[5,10]{0,1}", (1, 0), ignore="element_type")
    True
    """
    source, target = as_shape(source, "source"), as_shape(target, "target")
    ignored = ignored_parts("transpose_is_bitcast", _ELEMENT_TYPE, ignore)
    return _turns_in_place(source, target, permutation, ignored)


def _turns_in_place(source: Shape, target: Shape, permutation: Iterable[int], ignored: frozenset[str]) -> bool:
    turned = source.permute_dimensions(permutation)
    return turned.dimensions == target.dimensions and _same_places(turned, target, ignored)


def deduce_transpose_dimensions_for_bitcast(source: Shape | str, target: Shape | str) -> tuple[int, ...] | None:
    """The permutation that makes a bitcast from `source` to `target` a transpose, or None.

    XLA: `DeduceTransposeDimensionsForBitcast`, which finds none when a dimension of size 1 has different positions in
    the two layouts.  Here such a dimension may have any position, as in `transpose_is_bitcast`.

    Parameters
    ----------
    source, target : Shape or str
        Element types and their widths are ignored.

    Returns
    -------
    tuple of int, or None
        Dimension i of `target` is dimension permutation[i] of `source`.  None when the bitcast is not a transpose.

    Examples
    --------
    >>> deduce_transpose_dimensions_for_bitcast("f32[1,5]", "f32[5,1]")
    (1, 0)
    """
    source, target = as_shape(source, "source"), as_shape(target, "target")
    if source.rank != target.rank:
        return None
    by_step = _by_step(source)
    permutation = tuple(by_step[step] for step in inverse(_by_step(target)))
    return permutation if _turns_in_place(source, target, permutation, frozenset({"element_type"})) else None


def _by_step(shape: Shape) -> list[int]:
    """The dimensions in the order of their smallest step in memory.

    A step of 1 along a dimension leads to a place that no other dimension's step leads to.  Dimensions of size 1, and
    those of arrays without elements, have no step.  They come last, by size: those of equal size are interchangeable.
    """
    dims = range(shape.rank)

    def step_or_size(dim: int) -> tuple[bool, int]:
        if shape.bounds[dim] > 1 and not shape.is_zero_element_array:
            return False, int(stride_table(shape).linear_of([int(other == dim) for other in dims]))
        return True, shape.bounds[dim]

    return sorted(dims, key=step_or_size)


def is_reshape_or_transpose_bitcast(
    source: Shape | str, target: Shape | str, *, ignore: TypePart | Iterable[TypePart] = ()
) -> bool:
    """True when one reshape or one transpose from `source` to `target` moves no byte.

    Parameters
    ----------
    source, target : Shape or str
    ignore : "element_type", optional
        Compare only the places of the elements, counted in elements: types and their widths are ignored.

    Examples
    --------
    >>> [is_reshape_or_transpose_bitcast("f32[2,3]{0,1}", target) for target in ("f32[3,2]", "f32[2,3]")]
    [True, False]
    """
    source, target = as_shape(source, "source"), as_shape(target, "target")
    ignored = ignored_parts("is_reshape_or_transpose_bitcast", _ELEMENT_TYPE, ignore)
    return _same_places(source, target, ignored) or (
        (bool(ignored) or source.element_type is target.element_type)
        and deduce_transpose_dimensions_for_bitcast(source, target) is not None
    )
