"""When two shapes hold the same bytes, so that going from one to the other moves nothing.

`same_buffer` has the law behind all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpulayout.layout import checks
from gpulayout.layout.arguments import takes_shapes
from gpulayout.layout.element_loops import element_loops
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.same_places import same_buffer
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table


@takes_shapes("source", "target")
def is_bitcast(source: Shape, target: Shape, *, ignore_element_type: bool = False) -> bool:
    """True when a buffer of `source` is, byte for byte, a buffer of `target` for the same logical array.

    Dimensions of size 1 are free: f32[1,3]{1,0} and f32[1,3]{0,1} are the same bytes, though not equal shapes.  So are
    tiles that change nothing.  The memory space does not count.

    >>> is_bitcast("f32[16,128]{1,0:T(8,128)}", "f32[16,128]"), is_bitcast("f32[16,256]{1,0:T(8,128)}", "f32[16,256]")
    (True, False)
    """
    return source.dimensions == target.dimensions and reshape_is_bitcast(
        source, target, ignore_element_type=ignore_element_type
    )


@takes_shapes("shape")
def is_untiled(shape: Shape) -> bool:
    """True when the tiles change nothing: without them the buffer is the same.  XLA: `IsUntiledLayout`.

    >>> is_untiled("f32[4,256]{1,0:T(1,128)}"), is_untiled("f32[4,256]{1,0:T(2,128)}")
    (True, False)
    """
    return is_bitcast(shape, shape.with_layout(shape.layout.replace(tiles=())))


@takes_shapes("source", "target")
def reshape_is_bitcast(source: Shape, target: Shape, *, ignore_element_type: bool = False) -> bool:
    """True when reshaping (in row-major logical order) from `source` to `target` moves no byte.

    False when the element counts, the buffer sizes or the pad values differ.  XLA: `ReshapeIsBitcast`.

    >>> reshape_is_bitcast("f32[17,3,1,16]{1,0,3,2}", "f32[51,16]{0,1}")
    True
    """
    return (ignore_element_type or source.element_type is target.element_type) and same_buffer(source, target)


@takes_shapes("source", "target")
def transpose_is_bitcast(
    source: Shape, target: Shape, permutation: Iterable[int], *, ignore_element_type: bool = False
) -> bool:
    """True when the logical transpose target[i] = source[permutation[i]] moves no byte.

    XLA: `TransposeIsBitcast`, which looks at the order alone and not at tiles, element size or tail.
    """
    return is_bitcast(source.permute_dimensions(permutation), target, ignore_element_type=ignore_element_type)


@takes_shapes("source", "target")
def deduce_transpose_dimensions_for_bitcast(source: Shape, target: Shape) -> tuple[int, ...] | None:
    """The permutation that makes a bitcast from `source` to `target` a transpose, or None when none does.

    XLA: `DeduceTransposeDimensionsForBitcast`, which finds none when dimensions of size 1 stand in other places of the
    two layouts; here they are free, as in `transpose_is_bitcast`.

    >>> deduce_transpose_dimensions_for_bitcast("f32[1,5]", "f32[5,1]")
    (1, 0)
    """
    if source.rank != target.rank:
        return None
    permutation = [0] * source.rank
    for from_dim, to_dim in zip(_by_place(source), _by_place(target)):
        permutation[to_dim] = from_dim
    found = tuple(permutation)
    return found if transpose_is_bitcast(source, target, found, ignore_element_type=True) else None


def _by_place(shape: Shape) -> list[int]:
    """Dimensions that have places, by the place of the element next to the first one along each, which no other
    dimension has; then the free ones, which any of their size can stand for.
    """
    has_place = [size > 1 and not shape.is_zero_element_array for size in shape.dimensions]
    dims = range(shape.rank)
    table = stride_table(shape)
    fixed = sorted(
        (dim for dim in dims if has_place[dim]), key=lambda dim: table.linear_of([int(other == dim) for other in dims])
    )
    return fixed + sorted((dim for dim in dims if not has_place[dim]), key=lambda dim: (shape.dimensions[dim], dim))


@takes_shapes("shape")
def with_descending_layout_and_same_physical_layout(shape: Shape) -> Shape:
    """The same buffer seen as a descending shape: the dimensions are renamed, no byte moves.

    XLA: `MakeShapeWithDescendingLayoutAndSamePhysicalLayout`.

    >>> str(with_descending_layout_and_same_physical_layout("f32[2,3]{0,1}"))
    'f32[3,2]{1,0}'
    """
    return shape.permute_dimensions(shape.layout.major_to_minor)


@takes_shapes("source", "target")
def decompose_bitcast(source: Shape, target: Shape) -> tuple[tuple[int, ...], Shape, Shape, tuple[int, ...]]:
    """A bitcast as transpose, reshape, transpose, each of which moves no byte.

    Returns (first permutation, its result, the reshaped result, second permutation).  Both shapes in the middle are
    descending, so the reshape between them is always free.  XLA: `DecomposeBitcastToTrt`.
    LayoutError when the two shapes do not have the same number of bytes, or are padded.
    """
    problem = _indecomposable(source, target)
    if problem is not None:
        raise LayoutError(problem)
    first = with_descending_layout_and_same_physical_layout(source)
    middle = with_descending_layout_and_same_physical_layout(target)
    return source.layout.major_to_minor, first, middle, checks.inverse(target.layout.major_to_minor)


def _indecomposable(source: Shape, target: Shape) -> str | None:
    """Why a bitcast cannot be decomposed, or None."""
    if source.nbytes != target.nbytes or source.element_count != target.element_count:
        return f"{source} of {source.nbytes} bytes cannot be a bitcast of {target} of {target.nbytes} bytes"
    for shape in (source, target):
        if shape.is_tiled:
            return (
                f"tiles {''.join(map(str, shape.layout.tiles))} of {shape} cannot be decomposed: "
                "tiled elements have no row-major order"
            )
        if shape.is_padded:
            return f"padded_dimensions {shape.buffer_dimensions} of {shape} cannot be decomposed: padding has no row-major order"
    return None


@takes_shapes("source", "target")
def is_decomposable_bitcast(source: Shape, target: Shape) -> bool:
    """True when `decompose_bitcast` finds a way.  XLA: `IsDecomposableBitcast`.

    >>> is_decomposable_bitcast("f32[6]{0}", "f32[2,3]{0,1}"), is_decomposable_bitcast("f32[6]", "f32[5]{0:PD(6)}")
    (True, False)
    """
    return _indecomposable(source, target) is None


@takes_shapes("source", "target")
def is_reshape_or_transpose_bitcast(source: Shape, target: Shape, *, ignore_element_type: bool = False) -> bool:
    """True when one reshape or one transpose from `source` to `target` moves no byte.  XLA:
    `IsReshapeOrTransposeBitcast`.

    >>> is_reshape_or_transpose_bitcast("f32[2,3]{0,1}", "f32[3,2]"), is_reshape_or_transpose_bitcast("f32[2,3]{0,1}", "f32[2,3]")
    (True, False)
    """
    return reshape_is_bitcast(source, target, ignore_element_type=ignore_element_type) or (
        (ignore_element_type or source.element_type is target.element_type)
        and deduce_transpose_dimensions_for_bitcast(source, target) is not None
    )


@takes_shapes("source", "target")
def bitcast_kind(source: Shape, target: Shape) -> str:
    """The simplest thing that a bitcast is: "reshape", "transpose" or "transpose, reshape, transpose".

    The permutation of the second is that of `deduce_transpose_dimensions_for_bitcast`, the steps of the third are those
    of `decompose_bitcast`; LayoutError when there are none.  The element type does not count.  XLA: `DecomposeBitcast`.

    >>> bitcast_kind("f32[2,3]", "f32[6]"), bitcast_kind("f32[2,3]{0,1}", "f32[3,2]")
    ('reshape', 'transpose')
    """
    if reshape_is_bitcast(source, target, ignore_element_type=True):
        return "reshape"
    if deduce_transpose_dimensions_for_bitcast(source, target) is not None:
        return "transpose"
    decompose_bitcast(source, target)
    return "transpose, reshape, transpose"


@takes_shapes("source")
def align_layouts(source: Shape, dimensions: Iterable[int]) -> Shape | None:
    """A shape of other dimensions whose reshape from `source` is a bitcast, or None when there is none.

    Dimensions of size 1 become the most major.  A padded, tiled or split shape has none but itself.  XLA:
    `AlignLayouts`.

    >>> str(align_layouts("f32[6,4]{0,1}", (2, 3, 4)))
    'f32[2,3,4]{1,0,2}'
    """
    dimensions = checks.sizes("dimensions", dimensions)
    if source.is_padded or source.is_tiled or source.layout.split_configs:
        return source if dimensions == source.dimensions else None
    if source.is_zero_element_array and 0 in dimensions:
        return _reordered(source, dimensions, range(len(dimensions) - 1, -1, -1))
    strides = _strides_after_reshape(source, dimensions)
    if strides is None:
        return None
    real = sorted((dim for dim, size in enumerate(dimensions) if size != 1), key=lambda dim: strides[dim])
    ones = [dim for dim, size in enumerate(dimensions) if size == 1]
    target = _reordered(source, dimensions, (*real, *reversed(ones)))
    return target if reshape_is_bitcast(source, target) else None


def _reordered(source: Shape, dimensions: Sequence[int], order: Iterable[int]) -> Shape:
    """Other dimensions in another order, all else of the layout kept."""
    return Shape(
        source.element_type, dimensions, source.layout.replace(minor_to_major=tuple(order), padded_dimensions=None)
    )


def _strides_after_reshape(source: Shape, dimensions: Sequence[int]) -> list[int] | None:
    """Split the walk of `source` at the boundaries of `dimensions`; None where a dimension straddles one."""
    parts = list(element_loops(source))
    strides = []
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
    """A transpose in as few dimensions as possible: (target dimensions, permutation).

    dimensions    of the source, row-major; target dimension i is source dimension permutation[i] Dimensions of size 1
    are dropped and those that stay neighbours are merged.  XLA: `GetNormalizedLogicalTransposeShape`.

    >>> normalized_transpose((50, 20, 30), (1, 2, 0))
    ((600, 50), (1, 0))
    """
    dimensions = checks.sizes("dimensions", dimensions)
    order = checks.permutation(
        "permutation", permutation, len(dimensions), f" for dimensions {checks.shown(dimensions)}", from_end=True
    )
    kept = [dim for dim in range(len(dimensions)) if dimensions[dim] != 1]
    groups: list[list[int]] = []
    for dim in (dim for dim in order if dim in kept):
        if groups and kept.index(dim) == kept.index(groups[-1][-1]) + 1:
            groups[-1].append(dim)
        else:
            groups.append([dim])
    in_source = sorted(groups)
    sizes = tuple(math.prod(dimensions[dim] for dim in group) for group in groups)
    return sizes, tuple(in_source.index(group) for group in groups)
