"""Shapes in tuples: their places in the tree, and the tree with some of them changed.

The place of a shape is an index: the numbers of the elements on the way to it, from the outside in.

    ((f32[2], s8[3]), token[])        () is the whole, (0,) the inner tuple, (0, 1) is s8[3], (1,) is the token

A leaf is whatever is not a tuple; a buffer is one, the array that it holds has no index of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gpulayout.layout import checks
from gpulayout.layout.arguments import as_any_shape
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.other_shapes import AnyShape, BufferShape, TupleShape
from gpulayout.layout.shape import Shape

Index = tuple[int, ...]


def subshapes(shape: AnyShape | str, *, post_order: bool = False) -> Iterator[tuple[Index, AnyShape]]:
    """(index, shape) of every shape in the tree, itself among them: a tuple before its elements, or after them.

    XLA: `ForEachSubshape`, `ForEachSubshapePostOrder` and their kin.

    >>> [index for index, _ in subshapes("((f32[2], s8[3]), token[])")]
    [(), (0,), (0, 0), (0, 1), (1,)]
    """
    return _visit(as_any_shape(shape), post_order)


def _visit(shape: AnyShape, post_order: bool) -> Iterator[tuple[Index, AnyShape]]:
    if not post_order:
        yield (), shape
    if isinstance(shape, TupleShape):
        for entry, part in enumerate(shape):
            for index, found in _visit(part, post_order):
                yield (entry, *index), found
    if post_order:
        yield (), shape


def leaf_shapes(shape: AnyShape | str) -> list[tuple[Index, AnyShape]]:
    """(index, shape) of every leaf, in order.  XLA: `GetLeafShapes`; its length is `GetLeafCount`.

    >>> [(index, str(leaf)) for index, leaf in leaf_shapes("((f32[2], ()), token[])")]
    [((0, 0), 'f32[2]{0}'), ((1,), 'token[]')]
    """
    return [(index, found) for index, found in subshapes(shape) if not isinstance(found, TupleShape)]


def subshape(shape: AnyShape | str, index: Iterable[int]) -> AnyShape:
    """The shape at an index.  XLA: `GetSubshape`, `TryGetSubshape`.

    IndexError names the first number that leads nowhere; negative ones do not count from the end.

    >>> str(subshape("((f32[2], s8[3]), token[])", (0, 1)))
    's8[3]{0}'
    """
    shape = as_any_shape(shape)
    index = checks.whole_numbers("index", index, f" for {shape}")
    found = shape
    for depth, entry in enumerate(index):
        if not isinstance(found, TupleShape):
            raise IndexError(
                f"index {checks.shown(index)} leads nowhere in {shape}: {found} at {checks.shown(index[:depth])} "
                "is not a tuple"
            )
        if not 0 <= entry < len(found):
            raise IndexError(
                f"index {checks.shown(index)} leads nowhere in {shape}: the tuple at {checks.shown(index[:depth])} has "
                f"{checks.counted(len(found), 'element')}, not a number {checks.number_text(entry)}"
            )
        found = found[entry]
    return found


def index_is_valid(shape: AnyShape | str, index: Iterable[int]) -> bool:
    """True when there is a shape at an index.  XLA: `IndexIsValid`.

    >>> index_is_valid("(f32[2], s8[3])", (1,)), index_is_valid("(f32[2], s8[3])", (1, 0))
    (True, False)
    """
    try:
        subshape(shape, index)
    except IndexError:
        return False
    return True


def is_leaf_index(shape: AnyShape | str, index: Iterable[int]) -> bool:
    """True when the shape at an index is no tuple; IndexError when there is none.  XLA: `IsLeafIndex`."""
    return not isinstance(subshape(shape, index), TupleShape)


def is_prefix(prefix: Iterable[int], index: Iterable[int]) -> bool:
    """True when one index leads to the other or into it: its numbers are the first of the other's.  XLA: `IsPrefix`.

    >>> is_prefix((0,), (0, 1)), is_prefix((0, 1), (0,)), is_prefix((), (3,))
    (True, False, True)
    """
    prefix, index = checks.whole_numbers("prefix", prefix), checks.whole_numbers("index", index)
    return index[: len(prefix)] == prefix


def with_subshape(shape: AnyShape | str, index: Iterable[int], new: AnyShape | str) -> AnyShape:
    """The tree with another shape at an index.  XLA: `UpdateTupleShape`, `GetMutableSubshape`.

    >>> str(with_subshape("((f32[2], s8[3]), token[])", (0, 1), "u8[]"))
    '((f32[2]{0}, u8[]), token[])'
    """
    shape, new = as_any_shape(shape), as_any_shape(new, "new")
    index = checks.whole_numbers("index", index, f" for {shape}")
    subshape(shape, index)
    if not index:
        return new
    inner = with_subshape(shape[index[0]], index[1:], new)
    return TupleShape((*shape.shapes[: index[0]], inner, *shape.shapes[index[0] + 1 :]))


def map_arrays(function: Callable[[Shape], Shape], shape: AnyShape | str) -> AnyShape:
    """The tree with `function` applied to every array, those in buffers too: what XLA's functions do that take tuples.

    >>> from gpulayout import Shape
    >>> str(map_arrays(Shape.with_default_order, "(f32[2,3]{0,1}, token[])"))
    '(f32[2,3]{1,0}, token[])'
    """
    shape = as_any_shape(shape)
    if isinstance(shape, TupleShape):
        return TupleShape([map_arrays(function, part) for part in shape])
    if isinstance(shape, BufferShape):
        return BufferShape(function(shape.shape))
    return function(shape) if isinstance(shape, Shape) else shape


def arrays(shape: AnyShape | str) -> list[tuple[Index, Shape]]:
    """(index, shape) of every array, those in buffers too.

    >>> [index for index, _ in arrays("(f32[2], token[], b(u8[3]))")]
    [(0,), (2,)]
    """
    held = ((index, found.shape if isinstance(found, BufferShape) else found) for index, found in subshapes(shape))
    return [(index, found) for index, found in held if isinstance(found, Shape)]


def maybe_tuple_shape(shapes: Iterable[AnyShape | str]) -> AnyShape:
    """The tuple of some shapes, or a single one itself.  XLA: `MakeMaybeTupleShape`.

    >>> str(maybe_tuple_shape(["f32[2]"])), str(maybe_tuple_shape([]))
    ('f32[2]{0}', '()')
    """
    if isinstance(shapes, str):
        raise LayoutTypeError(f"shapes {shapes!r} is one text: give a sequence of shapes")
    found = [as_any_shape(shape, f"shapes entry {entry}") for entry, shape in enumerate(shapes)]
    return found[0] if len(found) == 1 else TupleShape(found)


# ---- all arrays in a tuple together; an array alone is taken too ------------------------------------


def validate_layouts(shape: AnyShape | str) -> None:
    """LayoutError when the layout of some array says what no memory can be; see `Shape.validate_layout`.

    XLA: `ValidateLayoutInShape`.  It also looks for orders that are none and for missing layouts: no `Shape` has
    either.
    """
    shape = as_any_shape(shape)
    for index, array in arrays(shape):
        try:
            array.validate_layout()
        except LayoutError as error:
            raise LayoutError(f"{error}; it is at {index} of {shape}" if index else str(error)) from None


def has_element_type(shape: AnyShape | str, element_type: object) -> bool:
    """True when some array has this element type.  XLA: `HasPrimitiveType`.

    >>> has_element_type("(f32[2], (s8[3]))", "s8")
    True
    """
    wanted = ElementType.of(element_type)
    return any(array.element_type is wanted for _, array in arrays(shape))


def has_custom_element_size_in_bits(shape: AnyShape | str) -> bool:
    """True when the layout of some array gives the bits of an element.  XLA: `HasCustomElementSizeInBits`.

    >>> has_custom_element_size_in_bits("(f32[2], s4[3]{0:E(4)})"), has_custom_element_size_in_bits("s4[3]")
    (True, False)
    """
    return any(array.layout.element_size_in_bits for _, array in arrays(shape))


def update_element_size_in_bits(shape: AnyShape | str, pack_subbyte_types: bool) -> AnyShape:
    """All arrays of types below a byte packed, or none; every other type in its own bytes.  XLA:
    `UpdateElementSizeInBits`.

    >>> print(update_element_size_in_bits("(s4[3], f32[2])", True), update_element_size_in_bits("s4[3]{0:E(4)}", False))
    (s4[3]{0:E(4)}, f32[2]{0}) s4[3]{0}
    """

    def sized(array: Shape) -> Shape:
        bits = array.element_type.bits if pack_subbyte_types and array.element_type.is_sub_byte else 0
        return array.with_layout(array.layout.replace(element_size_in_bits=bits))

    return map_arrays(sized, shape)


def copy_layout_between_shapes(source: AnyShape | str, target: AnyShape | str) -> AnyShape:
    """`target` with the layouts of `source`, whose element types and sizes may be others.  XLA:
    `CopyLayoutBetweenShapes`.

    LayoutError when the tuples differ in structure, or a layout does not fit the sizes that it comes to.

    >>> str(copy_layout_between_shapes("(f32[7,8]{0,1}, token[])", "(u8[2,3], token[])"))
    '(u8[2,3]{0,1}, token[])'
    """
    source, target = as_any_shape(source, "source"), as_any_shape(target, "target")

    def copied(one: AnyShape, other: AnyShape) -> AnyShape:
        if type(one) is not type(other) or (isinstance(one, TupleShape) and len(one) != len(other)):
            raise LayoutError(
                f"layouts of {source} cannot be copied to {target}: {one} has a different structure from {other}"
            )
        if isinstance(one, TupleShape):
            return TupleShape([copied(*pair) for pair in zip(one, other)])
        if isinstance(one, BufferShape):
            return BufferShape(copied(one.shape, other.shape))
        return other.with_layout(one.layout) if isinstance(one, Shape) else other

    return copied(source, target)
