"""Tuples of shapes as trees: walking them, replacing parts of them, and what holds for all of their arrays.

An index names a shape in the tree: the element numbers on the way to it, outermost first.

    ((f32[2], s8[3]), token[])        () is the whole, (0,) the inner tuple, (0, 1) is s8[3], (1,) is the token

A leaf is any shape that is not a tuple.  A buffer is a leaf: the array that it holds has no index of its own.  A tree
may be a single leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, overload

from gpulayout.layout import checks
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.other_shapes import AnyShape, BufferShape, TupleShape
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_any_shape

Index = tuple[int, ...]
AnyShapeT = TypeVar("AnyShapeT", bound=AnyShape)


def subshapes(shape: AnyShape | str, *, post_order: bool = False) -> Iterator[tuple[Index, AnyShape]]:
    """Every shape in a tree, with its index.  XLA: `ForEachSubshape`, `ForEachSubshapePostOrder` and the like.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
    post_order : bool, optional
        Yield a tuple after its elements instead of before them.

    Yields
    ------
    (index, shape) : tuple of int, shape
        The whole tree has index ().

    Examples
    --------
    >>> [index for index, _ in subshapes("((f32[2], s8[3]), token[])")]
    [(), (0,), (0, 0), (0, 1), (1,)]
    """
    return _visit(as_any_shape(shape), post_order)


def _visit(shape: AnyShape, post_order: bool) -> Iterator[tuple[Index, AnyShape]]:
    if not post_order:
        yield (), shape
    if isinstance(shape, TupleShape):
        for entry, part in enumerate(shape):
            for index, inner in _visit(part, post_order):
                yield (entry, *index), inner
    if post_order:
        yield (), shape


def leaf_shapes(shape: AnyShape | str) -> list[tuple[Index, AnyShape]]:
    """Every shape in a tree that is not a tuple, with its index.

    XLA: `GetLeafShapes`; the length of the result is `GetLeafCount`.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str

    Examples
    --------
    >>> [(index, str(leaf)) for index, leaf in leaf_shapes("((f32[2], ()), token[])")]
    [((0, 0), 'f32[2]{0}'), ((1,), 'token[]')]
    """
    return [(index, leaf) for index, leaf in subshapes(shape) if not isinstance(leaf, TupleShape)]


def arrays(shape: AnyShape) -> list[Shape]:
    """The arrays in a tree, also those in buffers."""
    leaves = shape.leaves() if isinstance(shape, TupleShape) else [shape]
    held = (leaf.shape if isinstance(leaf, BufferShape) else leaf for leaf in leaves)
    return [array for array in held if isinstance(array, Shape)]


def subshape(shape: AnyShape | str, index: Iterable[int]) -> AnyShape:
    """The shape at an index of a tree.  XLA: `GetSubshape`, `TryGetSubshape`.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
    index : iterable of int
        Element numbers, outermost first.  Negative numbers do not count from the end.

    Raises
    ------
    IndexError
        If the index leads nowhere; the message names the first bad number.

    Examples
    --------
    >>> str(subshape("((f32[2], s8[3]), token[])", (0, 1)))
    's8[3]{0}'
    """
    shape = as_any_shape(shape)
    index = checks.whole_numbers("index", index, f" for {shape}")
    node = shape
    for depth, entry in enumerate(index):
        if not isinstance(node, TupleShape):
            raise IndexError(
                f"index {checks.shown(index)} leads nowhere in {shape}: {node} at {checks.shown(index[:depth])} "
                "is not a tuple"
            )
        if not 0 <= entry < len(node):
            raise IndexError(
                f"index {checks.shown(index)} leads nowhere in {shape}: the tuple at {checks.shown(index[:depth])} has "
                f"{checks.counted(len(node), 'element')} and no number {checks.number_text(entry)}"
            )
        node = node[entry]
    return node


def index_is_valid(shape: AnyShape | str, index: Iterable[int]) -> bool:
    """True when a tree has a shape at an index.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
    index : iterable of int
        Element numbers, outermost first.

    Examples
    --------
    >>> index_is_valid("(f32[2], s8[3])", (1,)), index_is_valid("(f32[2], s8[3])", (1, 0))
    (True, False)
    """
    try:
        subshape(shape, index)
    except IndexError:
        return False
    return True


def is_leaf_index(shape: AnyShape | str, index: Iterable[int]) -> bool:
    """True when the shape at an index is not a tuple.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
    index : iterable of int
        Element numbers, outermost first.

    Examples
    --------
    >>> is_leaf_index("(f32[2], (s8[3]))", (0,)), is_leaf_index("(f32[2], (s8[3]))", (1,))
    (True, False)
    """
    return not isinstance(subshape(shape, index), TupleShape)


def is_prefix(prefix: Iterable[int], index: Iterable[int]) -> bool:
    """True when an index begins with another: the shape at `index` is the shape at `prefix`, or lies inside it.

    Parameters
    ----------
    prefix, index : iterable of int
        Indices of one tree.

    Examples
    --------
    >>> is_prefix((0,), (0, 1)), is_prefix((0, 1), (0,)), is_prefix((), (3,))
    (True, False, True)
    """
    prefix, index = checks.whole_numbers("prefix", prefix), checks.whole_numbers("index", index)
    return index[: len(prefix)] == prefix


def with_subshape(shape: AnyShape | str, index: Iterable[int], new: AnyShape | str) -> AnyShape:
    """A tree with another shape at an index.  XLA: `UpdateTupleShape`, `GetMutableSubshape`.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
    index : iterable of int
        Element numbers, outermost first; () replaces the whole.
    new : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        The shape to put there.

    Examples
    --------
    >>> str(with_subshape("((f32[2], s8[3]), token[])", (0, 1), "u8[]"))
    '((f32[2]{0}, u8[]), token[])'
    """
    shape, new = as_any_shape(shape), as_any_shape(new, "new")
    index = checks.whole_numbers("index", index, f" for {shape}")
    subshape(shape, index)
    return _with_subshape(shape, index, new)


def _with_subshape(shape: AnyShape, index: Index, new: AnyShape) -> AnyShape:
    if not (index and isinstance(shape, TupleShape)):
        return new
    first, *rest = index
    inner = _with_subshape(shape.shapes[first], tuple(rest), new)
    return TupleShape((*shape.shapes[:first], inner, *shape.shapes[first + 1 :]))


def maybe_tuple_shape(shapes: Iterable[AnyShape | str]) -> AnyShape:
    """The tuple of several shapes, or a single shape itself.  XLA: `MakeMaybeTupleShape`.

    Parameters
    ----------
    shapes : iterable of shapes or str
        Shapes of any kind or their texts.

    Raises
    ------
    TypeError
        If an entry is not a shape, or `shapes` is one text.

    Examples
    --------
    >>> str(maybe_tuple_shape(["f32[2]"])), str(maybe_tuple_shape([]))
    ('f32[2]{0}', '()')
    """
    if isinstance(shapes, str):
        raise LayoutTypeError(f"shapes {checks.value_text(shapes)} is one text: give a sequence of shapes")
    parts = tuple(as_any_shape(shape, f"shapes entry {entry}") for entry, shape in enumerate(shapes))
    return parts[0] if len(parts) == 1 else TupleShape(parts)


@overload
def map_arrays(function: Callable[[Shape], Shape], shape: AnyShapeT) -> AnyShapeT: ...
@overload
def map_arrays(function: Callable[[Shape], Shape], shape: str) -> AnyShape: ...
def map_arrays(function: Callable[[Shape], Shape], shape: AnyShape | str) -> AnyShape:
    """A tree, of the same class as `shape`, with a function applied to every array, also to those in buffers.

    XLA's functions that change the arrays of a tuple are this with one method of `Shape`.

    Parameters
    ----------
    function : callable
        From `Shape` to `Shape`.
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str

    Examples
    --------
    >>> from gpulayout import Shape
    >>> str(map_arrays(Shape.with_default_order, "(f32[2,3]{0,1}, token[])"))
    '(f32[2,3]{1,0}, token[])'
    """
    shape = as_any_shape(shape)
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map_arrays(function, part) for part in shape))
    if isinstance(shape, BufferShape):
        return BufferShape(function(shape.shape))
    return function(shape) if isinstance(shape, Shape) else shape


def validate_layouts(shape: AnyShape | str) -> None:
    """Raise an error when no buffer can have the layout of one of the arrays.

    XLA: `ValidateLayoutInShape`, which also checks for bad orders and missing layouts: no `Shape` has either.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str

    Raises
    ------
    LayoutError
        For the first such array, with its index; see `Shape.validate_layout`.

    Examples
    --------
    >>> validate_layouts("(f32[2], token[])")
    """
    shape = as_any_shape(shape)
    for index, leaf in leaf_shapes(shape):
        for array in arrays(leaf):
            try:
                array.validate_layout()
            except LayoutError as error:
                raise LayoutError(f"{error}; it is at {index} of {shape}" if index else str(error)) from None


def has_element_type(shape: AnyShape | str, element_type: object) -> bool:
    """True when an array has the given element type.  XLA: `HasPrimitiveType`.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
    element_type : str or dtype-like
        An XLA name such as "f32", or what `ElementType.of` takes.

    Examples
    --------
    >>> has_element_type("(f32[2], (s8[3]))", "s8")
    True
    """
    wanted = ElementType.of(element_type)
    return any(array.element_type is wanted for array in arrays(as_any_shape(shape)))


def has_custom_element_size_in_bits(shape: AnyShape | str) -> bool:
    """True when the layout of an array sets the number of bits of an element.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str

    Examples
    --------
    >>> has_custom_element_size_in_bits("(f32[2], s4[3]{0:E(4)})"), has_custom_element_size_in_bits("s4[3]")
    (True, False)
    """
    return any(array.layout.element_size_in_bits for array in arrays(as_any_shape(shape)))


@overload
def update_element_size_in_bits(shape: AnyShapeT, pack_subbyte_types: bool) -> AnyShapeT: ...
@overload
def update_element_size_in_bits(shape: str, pack_subbyte_types: bool) -> AnyShape: ...
def update_element_size_in_bits(shape: AnyShape | str, pack_subbyte_types: bool) -> AnyShape:
    """A tree with all sub-byte arrays packed, or none.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
    pack_subbyte_types : bool
        Whether types smaller than a byte take only their bits, such as `E(4)`.  All other elements take whole bytes.

    Examples
    --------
    >>> print(update_element_size_in_bits("(s4[3], f32[2])", True), update_element_size_in_bits("s4[3]{0:E(4)}", False))
    (s4[3]{0:E(4)}, f32[2]{0}) s4[3]{0}
    """

    def sized(array: Shape) -> Shape:
        bits = array.element_type.bits if pack_subbyte_types and array.element_type.is_sub_byte else 0
        order = array.layout.bit_order if bits else "little"
        return array.with_layout(array.layout.replace(element_size_in_bits=bits, bit_order=order))

    return map_arrays(sized, shape)


@overload
def copy_layout_between_shapes(source: AnyShape | str, target: AnyShapeT) -> AnyShapeT: ...
@overload
def copy_layout_between_shapes(source: AnyShape | str, target: str) -> AnyShape: ...
def copy_layout_between_shapes(source: AnyShape | str, target: AnyShape | str) -> AnyShape:
    """The shape `target` with the layouts of `source`.

    XLA: `CopyLayoutBetweenShapes`, which changes its argument.

    Parameters
    ----------
    source, target : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        With the same structure.  Element types and sizes may differ.

    Raises
    ------
    LayoutError
        If the structures differ, or a layout does not fit the sizes of its new array.

    Examples
    --------
    >>> str(copy_layout_between_shapes("(f32[7,8]{0,1}, token[])", "(u8[2,3], token[])"))
    '(u8[2,3]{0,1}, token[])'
    """
    source, target = as_any_shape(source, "source"), as_any_shape(target, "target")

    def copied(one: AnyShape, other: AnyShape) -> AnyShape:
        if isinstance(one, TupleShape) and isinstance(other, TupleShape) and len(one) == len(other):
            return TupleShape(tuple(copied(*pair) for pair in zip(one, other)))
        if isinstance(one, BufferShape) and isinstance(other, BufferShape):
            return BufferShape(other.shape.with_layout(one.shape.layout))
        if isinstance(one, Shape) and isinstance(other, Shape):
            return other.with_layout(one.layout)
        if isinstance(one, TupleShape) or type(one) is not type(other):
            raise LayoutError(
                f"layouts of {source} cannot be copied to {target}: {one} has a different structure from {other}"
            )
        return other

    return copied(source, target)
