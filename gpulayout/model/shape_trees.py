"""What is asked of all arrays in a tuple together, and done to all of them; an array alone is taken too."""
from __future__ import annotations

from gpulayout.model.arguments import as_any_shape
from gpulayout.model.element_type import ElementType
from gpulayout.model.errors import LayoutError
from gpulayout.model.other_shapes import AnyShape, BufferShape, TupleShape
from gpulayout.model.shape import Shape
from gpulayout.model.subshapes import arrays, map_arrays


def validate_layouts(shape: AnyShape | str) -> None:
    """LayoutError when the layout of some array says what no memory can be; see `Shape.validate_layout`.

    XLA: `ValidateLayoutInShape`.  It also looks for orders that are none and for missing layouts: no `Shape` has either.
    """
    shape = as_any_shape(shape)
    for index, array in arrays(shape):
        try:
            array.validate_layout()
        except LayoutError as error:
            raise LayoutError(f"{error}; it stands at {index} of {shape}" if index else str(error)) from None


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
    """All arrays of types below a byte packed, or none; every other type in its own bytes.  XLA: `UpdateElementSizeInBits`.

    >>> print(update_element_size_in_bits("(s4[3], f32[2])", True), update_element_size_in_bits("s4[3]{0:E(4)}", False))
    (s4[3]{0:E(4)}, f32[2]{0}) s4[3]{0}
    """
    def sized(array: Shape) -> Shape:
        bits = array.element_type.bits if pack_subbyte_types and array.element_type.is_sub_byte else 0
        return array.with_layout(array.layout.replace(element_size_in_bits=bits))
    return map_arrays(sized, shape)


def copy_layout_between_shapes(source: AnyShape | str, target: AnyShape | str) -> AnyShape:
    """`target` with the layouts of `source`, whose element types and sizes may be others.  XLA: `CopyLayoutBetweenShapes`.

    LayoutError when the tuples differ in structure, or a layout does not fit the sizes that it comes to.

    >>> str(copy_layout_between_shapes("(f32[7,8]{0,1}, token[])", "(u8[2,3], token[])"))
    '(u8[2,3]{0,1}, token[])'
    """
    source, target = as_any_shape(source, "source"), as_any_shape(target, "target")

    def copied(one: AnyShape, other: AnyShape) -> AnyShape:
        if type(one) is not type(other) or (isinstance(one, TupleShape) and len(one) != len(other)):
            raise LayoutError(f"layouts of {source} cannot be copied to {target}: {one} has another structure than {other}")
        if isinstance(one, TupleShape):
            return TupleShape([copied(*pair) for pair in zip(one, other)])
        if isinstance(one, BufferShape):
            return BufferShape(copied(one.shape, other.shape))
        return other.with_layout(one.layout) if isinstance(one, Shape) else other

    return copied(source, target)
