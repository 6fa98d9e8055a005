"""The steps that a bitcast is made of, and the shapes that a transpose or a reshape reaches without moving a byte."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.same_places import element_loops, same_buffer
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape
from gpulayout.xla.bitcast import deduce_transpose_dimensions_for_bitcast

BitcastKind = Literal["reshape", "transpose", "transpose, reshape, transpose"]


def with_descending_layout_and_same_physical_layout(shape: Shape | str) -> Shape:
    """The same buffer as an array in descending order: dimensions are renamed and no byte moves.

    The result has the dimensions of `shape`, most major first.  Tiles and padding stay.  XLA:
    `MakeShapeWithDescendingLayoutAndSamePhysicalLayout`.

    Parameters
    ----------
    shape : Shape or str

    Examples
    --------
    >>> str(with_descending_layout_and_same_physical_layout("f32[2,3]{0,1}"))
    'f32[3,2]{1,0}'
    """
    shape = as_shape(shape)
    return shape.permute_dimensions(shape.layout.major_to_minor)


def decompose_bitcast(
    source: Shape | str, target: Shape | str
) -> tuple[tuple[int, ...], Shape, Shape, tuple[int, ...]]:
    """A bitcast as transpose, reshape, transpose, each of which moves no byte.  XLA: `DecomposeBitcastToTrt`.

    Parameters
    ----------
    source, target : Shape or str
        Element types are ignored.

    Returns
    -------
    first : tuple of int
        The permutation of the first transpose.
    transposed : Shape
        Its result, descending.
    reshaped : Shape
        The result of the reshape, descending.  Between two descending shapes a reshape moves no byte.
    second : tuple of int
        The permutation of the second transpose, whose result is `target`.

    Raises
    ------
    LayoutError
        If the shapes differ in bytes or in elements, or one of them is padded or tiled.

    Examples
    --------
    >>> first, transposed, reshaped, second = decompose_bitcast("f32[2,3]{0,1}", "f32[6]")
    >>> first, str(transposed), str(reshaped), second
    ((1, 0), 'f32[3,2]{1,0}', 'f32[6]{0}', (0,))
    """
    source, target = as_shape(source, "source"), as_shape(target, "target")
    problem = _indecomposable(source, target)
    if problem is not None:
        raise LayoutError(problem)
    first = with_descending_layout_and_same_physical_layout(source)
    middle = with_descending_layout_and_same_physical_layout(target)
    return source.layout.major_to_minor, first, middle, checks.inverse(target.layout.major_to_minor)


def _indecomposable(source: Shape, target: Shape) -> str | None:
    """Why a bitcast cannot be decomposed, or None."""
    if not _same_size(source, target):
        return f"{source} of {source.nbytes} bytes cannot be a bitcast of {target} of {target.nbytes} bytes"
    if source.layout.bit_order != target.layout.bit_order:
        return f"{source} to {target} cannot be decomposed: the bit orders within a byte differ"
    for shape in (source, target):
        if shape.is_tiled:
            return (
                f"tiles {''.join(map(str, shape.layout.tiles))} of {shape} cannot be decomposed: "
                "tiled elements have no row-major order"
            )
        if shape.is_padded:
            return (
                f"padded_dimensions {shape.buffer_dimensions} of {shape} cannot be decomposed: "
                "padding has no row-major order"
            )
    return None


def _same_size(source: Shape, target: Shape) -> bool:
    return source.nbytes == target.nbytes and source.element_count == target.element_count


def is_decomposable_bitcast(source: Shape | str, target: Shape | str) -> bool:
    """True when `decompose_bitcast` finds a decomposition.

    Parameters
    ----------
    source, target : Shape or str

    Examples
    --------
    >>> is_decomposable_bitcast("f32[6]{0}", "f32[2,3]{0,1}"), is_decomposable_bitcast("f32[6]", "f32[5]{0:PD(6)}")
    (True, False)
    """
    return _indecomposable(as_shape(source, "source"), as_shape(target, "target")) is None


def bitcast_kind(source: Shape | str, target: Shape | str) -> BitcastKind:
    """The simplest form of a bitcast.  XLA: `DecomposeBitcast`.

    Parameters
    ----------
    source, target : Shape or str
        With the same number of bytes and of elements.  Element types are ignored.

    Returns
    -------
    str
        "reshape"; "transpose", with the permutation that `deduce_transpose_dimensions_for_bitcast` returns; or
        "transpose, reshape, transpose", with the steps that `decompose_bitcast` returns.

    Raises
    ------
    LayoutError
        If the bitcast has none of these forms.

    Examples
    --------
    >>> bitcast_kind("f32[2,3]", "f32[6]"), bitcast_kind("f32[2,3]{0,1}", "f32[3,2]")
    ('reshape', 'transpose')
    """
    source, target = as_shape(source, "source"), as_shape(target, "target")
    if _same_size(source, target):
        if same_buffer(source, target):
            return "reshape"
        if deduce_transpose_dimensions_for_bitcast(source, target) is not None:
            return "transpose"
    decompose_bitcast(source, target)
    return "transpose, reshape, transpose"


def align_layouts(source: Shape | str, dimensions: Iterable[int]) -> Shape | None:
    """The shape of other dimensions to which a reshape of `source` moves no byte.

    Parameters
    ----------
    source : Shape or str
    dimensions : iterable of int
        Sizes of the result.

    Returns
    -------
    Shape or None
        Dimensions of size 1 become the most major.  None when no order of the dimensions fits; a padded, tiled or split
        shape aligns only with itself.

    Examples
    --------
    >>> str(align_layouts("f32[6,4]{0,1}", (2, 3, 4)))
    'f32[2,3,4]{1,0,2}'
    """
    source, sizes = as_shape(source, "source"), checks.sizes("dimensions", dimensions)
    if source.is_padded or source.is_tiled or source.layout.split_configs:
        return source if sizes == source.dimensions else None
    if source.is_zero_element_array and 0 in sizes:
        return _reordered(source, sizes, range(len(sizes) - 1, -1, -1))
    strides = _strides_after_reshape(source, sizes)
    if strides is None:
        return None
    real = sorted((dim for dim, size in enumerate(sizes) if size != 1), key=strides.__getitem__)
    ones = [dim for dim, size in enumerate(sizes) if size == 1]
    target = _reordered(source, sizes, (*real, *reversed(ones)))
    return target if same_buffer(source, target) else None


def _reordered(source: Shape, dimensions: Sequence[int], order: Iterable[int]) -> Shape:
    """Other dimensions in another order; the rest of the layout stays."""
    return Shape(
        source.element_type, dimensions, source.layout.replace(minor_to_major=tuple(order), padded_dimensions=None)
    )


def _strides_after_reshape(source: Shape, dimensions: Sequence[int]) -> list[int] | None:
    """The stride of each of `dimensions` in an untiled buffer of `source`, or None.

    The loops over the elements of `source` are split at the boundaries of `dimensions`; no loop may straddle one.
    """
    parts = list(element_loops(source) or ())
    strides: list[int] = []
    for size in reversed(dimensions):
        if size == 1:
            strides.append(0)
            continue
        extent, stride = parts.pop() if parts else (1, 0)
        if size == 0 or extent % size:
            return None
        strides.append(stride)
        if extent > size:
            parts.append((extent // size, stride * size))
    return strides[::-1] if not parts else None


def normalized_transpose(
    dimensions: Iterable[int], permutation: Iterable[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A row-major transpose in as few dimensions as possible.  XLA: `GetNormalizedLogicalTransposeShape`.

    Parameters
    ----------
    dimensions : iterable of int
        Sizes of the source, major first.
    permutation : iterable of int
        Dimension i of the target is dimension permutation[i] of the source.

    Returns
    -------
    dimensions : tuple of int
        Sizes of the target: dimensions of size 1 are dropped, and dimensions that stay neighbours are merged.
    permutation : tuple of int
        The permutation between the merged dimensions.

    Examples
    --------
    >>> normalized_transpose((50, 20, 30), (1, 2, 0))
    ((600, 50), (1, 0))
    """
    source = checks.sizes("dimensions", dimensions)
    order = checks.permutation(
        "permutation", permutation, len(source), f" for dimensions {checks.shown(source)}", from_end=True
    )
    kept = [dim for dim in range(len(source)) if source[dim] != 1]
    groups: list[list[int]] = []
    for dim in (dim for dim in order if dim in kept):
        if groups and kept.index(dim) == kept.index(groups[-1][-1]) + 1:
            groups[-1].append(dim)
        else:
            groups.append([dim])
    in_source = sorted(groups)
    sizes = tuple(math.prod(source[dim] for dim in group) for group in groups)
    return sizes, tuple(in_source.index(group) for group in groups)
