"""Functions of all arrays in a tree of shapes.  A tree may be a single array."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, overload

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.other_shapes import AnyShape, BufferShape, TupleShape
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_any_shape
from gpulayout.xla.trees import Index, subshapes

AnyShapeT = TypeVar("AnyShapeT", bound=AnyShape)


def arrays(shape: AnyShape | str) -> list[tuple[Index, Shape]]:
    """(index, shape) of every array, also of those in buffers.

    >>> [index for index, _ in arrays("(f32[2], token[], b(u8[3]))")]
    [(0,), (2,)]
    """
    held = ((index, found.shape if isinstance(found, BufferShape) else found) for index, found in subshapes(shape))
    return [(index, found) for index, found in held if isinstance(found, Shape)]


@overload
def map_arrays(function: Callable[[Shape], Shape], shape: AnyShapeT) -> AnyShapeT: ...


@overload
def map_arrays(function: Callable[[Shape], Shape], shape: str) -> AnyShape: ...


def map_arrays(function: Callable[[Shape], Shape], shape: AnyShape | str) -> AnyShape:
    """A tree with a function applied to every array, also to those in buffers.

    Parameters
    ----------
    function : callable
        From `Shape` to `Shape`.
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.

    Returns
    -------
    Shape, TupleShape, TokenShape, OpaqueShape or BufferShape
        A new tree, of the same class as `shape`.

    Notes
    -----
    XLA's functions that change the arrays of a tuple are this with one method of `Shape`.

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

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.

    Raises
    ------
    LayoutError
        For the first such array, with its index; see `Shape.validate_layout`.

    Notes
    -----
    XLA: `ValidateLayoutInShape`, which also checks for bad orders and missing layouts: no `Shape` has either.

    Examples
    --------
    >>> validate_layouts("(f32[2], token[])")
    """
    shape = as_any_shape(shape)
    for index, array in arrays(shape):
        try:
            array.validate_layout()
        except LayoutError as error:
            raise LayoutError(f"{error}; it is at {index} of {shape}" if index else str(error)) from None


def has_element_type(shape: AnyShape | str, element_type: object) -> bool:
    """True when an array has the given element type.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.
    element_type : str or dtype-like
        An XLA name such as "f32", or what `ElementType.of` takes.

    Returns
    -------
    bool

    Notes
    -----
    XLA: `HasPrimitiveType`.

    Examples
    --------
    >>> has_element_type("(f32[2], (s8[3]))", "s8")
    True
    """
    wanted = ElementType.of(element_type)
    return any(array.element_type is wanted for _, array in arrays(shape))


def has_custom_element_size_in_bits(shape: AnyShape | str) -> bool:
    """True when the layout of an array sets the number of bits of an element.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.

    Returns
    -------
    bool

    Notes
    -----
    XLA: `HasCustomElementSizeInBits`.

    Examples
    --------
    >>> has_custom_element_size_in_bits("(f32[2], s4[3]{0:E(4)})"), has_custom_element_size_in_bits("s4[3]")
    (True, False)
    """
    return any(array.layout.element_size_in_bits for _, array in arrays(shape))


@overload
def update_element_size_in_bits(shape: AnyShapeT, pack_subbyte_types: bool) -> AnyShapeT: ...


@overload
def update_element_size_in_bits(shape: str, pack_subbyte_types: bool) -> AnyShape: ...


def update_element_size_in_bits(shape: AnyShape | str, pack_subbyte_types: bool) -> AnyShape:
    """A tree with all sub-byte arrays packed, or none.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.
    pack_subbyte_types : bool
        Whether types smaller than a byte take only their bits, such as `E(4)`.  All other elements take whole bytes.

    Returns
    -------
    Shape, TupleShape, TokenShape, OpaqueShape or BufferShape
        A new tree.

    Notes
    -----
    XLA: `UpdateElementSizeInBits`.

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

    Parameters
    ----------
    source, target : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        Shapes of any kind or their text, with the same structure.  Element types and sizes may differ.

    Returns
    -------
    Shape, TupleShape, TokenShape, OpaqueShape or BufferShape
        A new tree.

    Raises
    ------
    LayoutError
        If the structures differ, or a layout does not fit the sizes of its new array.

    Notes
    -----
    XLA: `CopyLayoutBetweenShapes`, which changes its argument.

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
