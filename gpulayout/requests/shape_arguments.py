"""Arguments that are shapes, layouts or text: what they mean for an array.

A target, the layout of a result, is one text language wherever a function or a command takes one:

    f32[2,3]{0,1}               a whole shape
    {0,1:T(8,128)}              a layout
    h w c -> c h w              a pattern: the layout of the transposed array in C order, for the array before it
    C, F, torch:channels_last, kCHW32, cute:(2,3):(1,2), named:NHWC:NCHW
                                a layout by name, see `interop.layout_names`
    cublas:block_scales         a layout of the catalogue, see `catalogue.names`

A layout without a shape is for the array of the source, which also gives a pattern and a name their dimensions.  A
pattern and a layout by name say an order, so elements that are packed in bytes stay packed; padding and tiles are not
kept.  The shape of a buffer that is given is a whole shape, a layout for an array that knows its sizes, or that of a
`gl.Array`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import ShapeLike, TargetLike
from gpulayout.arrays.libraries import library_of
from gpulayout.layout import checks
from gpulayout.layout.checks import value_text
from gpulayout.layout.digits import Digit, Digits
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import NamedAxis, Pattern, read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_of
from gpulayout.layout.text import as_shape, is_only_layout, parsed_layout, sizes_hint
from gpulayout.moves.backend import AnyArray
from gpulayout.moves.move import MAX_AXES, check_storable
from gpulayout.requests.arithmetic import Asked


def as_target(
    value: Shape | Layout | str,
    like: Shape,
    role: str = "target",
    asked: Asked | None = None,
    names: Sequence[str] = (),
) -> Shape:
    """A target as a shape; LayoutError for other text, TypeError for anything but a shape, a layout or text.

    like    the shape whose array the target describes
    asked   the arithmetic of the call, which may name the element type of the target
    names   what the caller calls the dimensions

    >>> images = Shape("u8", (8, 224, 224, 3))
    >>> str(as_target("n h w c -> n c h w", images)), str(as_target("F", Shape("f32", (2, 3))))
    ('u8[8,224,224,3]{2,1,3,0}', 'f32[2,3]{0,1}')
    """
    packed_as = like.layout
    if asked and is_only_layout(value):
        like = Shape(asked.target_type(like.element_type), like.dimensions)
    if isinstance(value, str) and is_only_layout(value):
        value = layout_for(value, like.bounds, role, like.element_type, packed_as, names)
    if isinstance(value, Layout):
        return like.with_layout(value)
    if isinstance(value, (Shape, str)):
        target = as_shape(value, role)
        if asked:
            asked.target_type(like.element_type, target)
        return target
    raise TypeError(f"{role} must be a Shape, a Layout or text, not {type(value).__name__}{_hint(value, like)}")


def layout_for(
    text: str,
    dimensions: Sequence[int],
    role: str = "target",
    element_type: ElementType | None = None,
    packed_as: Layout | None = None,
    names: Sequence[str] = (),
) -> Layout:
    """The layout that a text without a shape means for an array of these dimensions and of this element type.

    packed_as   a layout of the array, whose packing a pattern and a layout by name keep
    names       what the caller calls the dimensions
    """
    layout = _read_layout(text, len(dimensions), role, names)(dimensions, element_type)
    if packed_as is None or element_type is None or not element_type.is_sub_byte or not _says_order(text):
        return layout
    bits, bit_order = packed_as.element_size_in_bits, packed_as.bit_order
    return layout.replace(element_size_in_bits=bits, bit_order=bit_order)


def _says_order(text: str) -> bool:
    """True for a pattern and a layout by name; entries of the catalogue say themselves how elements are packed."""
    if "->" in text or not text[:1].isalpha():
        return "->" in text
    from gpulayout.catalogue.names import is_name

    return not is_name(text)


def check_layout_text(text: str, role: str = "target") -> None:
    """LayoutError for text that is no layout, pattern or name, whatever the dimensions are."""
    _read_layout(text, None, role)


def axis_names(target: object, rank: int) -> tuple[str, ...] | None:
    """The names that a target gives to the dimensions of the array, or None."""
    if isinstance(target, str) and "->" in target and is_only_layout(target):
        return read_pattern(target, rank, "target").labels()
    return None


def _read_layout(
    text: str, rank: int | None, role: str, names: Sequence[str] = ()
) -> Callable[[Sequence[int], ElementType | None], Layout]:
    """The layout that a text means, for dimensions and an element type; LayoutError for what is none.

    rank    the number of the dimensions, if known
    names   what they are called, if the caller says it
    """
    if "->" in text:
        pattern = read_pattern(text, rank, role)
        return lambda dimensions, _: _pattern_layout(pattern, dimensions)
    if not text[:1].isalpha():
        layout = parsed_layout(text)
        return lambda *_: layout
    # A name, or what was meant to be one.  Late: most programs use no names.
    from gpulayout.catalogue.names import entries, is_name, layout_of_name, read_name
    from gpulayout.interop.layout_names import layout_name

    if is_name(text):
        read_name(text)
        return lambda dimensions, element_type: layout_of_name(text, dimensions, element_type)
    return layout_name(text, lambda: [entry.name for entry in entries()], names)


def _pattern_layout(pattern: Pattern, dimensions: Sequence[int]) -> Layout:
    """The layout of the array before a transpose whose memory is that of the array after it, in C order."""
    parts = [part for group in pattern.parts(dimensions, {}) for part in group]
    if all(len(group) < 2 for group in pattern.before):
        position = {part.dim: number for number, part in enumerate(parts)}
        positions = [position.get(dim, -1) for dim in range(len(dimensions))]  # an axis `1` changes no position
        return Layout(sorted(range(len(positions)), key=lambda dim: (positions[dim], dim), reverse=True))
    digits = list(_digits(parts))
    if not digits or 0 in dimensions:
        return Layout.descending(len(dimensions))
    return layout_of(digits, dimensions, pattern.shown, "gl.transpose takes this pattern, for the N-d array")


def _digits(parts: Sequence[NamedAxis]) -> Iterator[Digit]:
    """The digits of an array whose memory has these parts in C order; neighbours that stay together are one digit."""
    last: Digit | None = None
    for digit in sorted(placed_digits([parts], [1]), key=lambda digit: (digit.dim, digit.step)):
        if last and last.dim == digit.dim and digit.stride == last.stride * last.extent:
            last = last._replace(extent=last.extent * digit.extent)
            continue
        if last:
            yield last
        last = digit
    if last:
        yield last


def placed_digits(groups: Sequence[Sequence[NamedAxis]], strides: Sequence[int]) -> Digits:
    """The digits of the dimensions of an array before a transpose, in a result whose axes have these strides."""
    digits = []
    for group, stride in zip(groups, strides):
        for _, size, dim, step in reversed(group):
            if size != 1:  # else another digit of the dimension may have the same step
                digits.append(Digit(dim, step, size, stride))
            stride *= size
    return tuple(digits)


def check_is_layout(target: object, shape: Shape) -> None:
    """TypeError for a device or an element type, which the `to` of other libraries takes."""
    name = (target if isinstance(target, str) else value_text(target)).removeprefix("torch.")
    kind = type(target).__name__
    if name.partition(":")[0] in ("cpu", "cuda", "gpu", "meta") or kind == "device":
        what, instead = "a device", "gl.Array(array.buffer.to(device), array.layout_shape)"
    elif name in ElementType.__members__.values() or isinstance(target, (np.dtype, type)) or kind == "dtype":
        what, instead = "an element type", f"to(dtype='{_type_name(target)}')"
    else:
        return
    raise TypeError(
        f"target {value_text(str(target))} is {what}, and to() changes the layout of {shape}: write {instead}"
    )


def _type_name(kind: Any) -> str:
    try:
        return ElementType.of(kind).value
    except TypeError:  # one that XLA lacks
        return "f32"


def _hint(value: object, like: Shape) -> str:
    """What to write instead of a value that is not a target, or nothing."""
    if isinstance(value, (tuple, list)) and checks.are_sizes(value):
        if sorted(value) == list(range(like.rank)):
            return f": write gl.Layout({checks.shown(value)})"
        if tuple(value) == like.dimensions:
            return sizes_hint(value, like.element_type)
    if hasattr(value, "__dlpack__"):
        return ": arrays come before shapes, and gl.shape_of(array) is the shape of one"
    if type(value).__name__ == "memory_format":
        return f": write '{str(value).replace('torch.', 'torch:')}'"
    return ""


# ---- of a buffer that is given ---------------------------------------------------------------------------------------


def given_shape(value: TargetLike, array: Any, role: str) -> Shape:
    """A whole shape that was given; a layout without a shape with the sizes and the element type of an N-d array.

    array   the buffer; it has to lie in memory as the layout says, which later checks find out
    LayoutError for a layout without a shape and a flat buffer.
    """
    if type(value) is Shape or not is_only_layout(value):
        return as_shape(value, role)  # type: ignore[arg-type]  # it is no Layout
    library = library_of(array)
    if library is None:
        return _shape_of_array(value, array, role)
    shape: Shape = library.disable_compiler(_shape_of_array)(value, library.described(array), role)
    return shape


def _shape_of_array(value: TargetLike, array: Any, role: str) -> Shape:
    opened = arrays.open_array(array, "buffer")[1]
    return shape_of_opened(value, arrays.label(array, opened), opened, role)


def shape_of_opened(value: TargetLike, label: np.dtype[Any], array: AnyArray, role: str) -> Shape:
    """The shape of a buffer that `open_array` returned, of element type `label`; its own strides do not matter."""
    if type(value) is Shape or not is_only_layout(value):
        return as_shape(value, role)  # type: ignore[arg-type]  # it is no Layout
    if array.ndim == 1:
        check_whole(value, role)
    return as_target(value, Shape(label, tuple(array.shape)), role)


def array_shape(shape: ShapeLike) -> Shape:
    """A shape whose buffer and whose logical array can exist; LayoutError past NumPy's 64 dimensions."""
    shape = as_shape(shape)
    check_storable(shape)
    _ = shape.buffer_length  # LayoutError for a shape without a size
    if shape.rank > MAX_AXES:
        raise LayoutError(
            f"dimensions of {shape.element_type} are {shape.rank}: a logical array has at most {MAX_AXES}"
        )
    return shape


def check_whole(value: TargetLike, role: str) -> None:
    """LayoutError for a layout without a shape, where a flat buffer is given."""
    if not is_only_layout(value):
        return
    if isinstance(value, str):
        check_layout_text(value, role)
    is_layout = str(value).lstrip().startswith("{")
    shown = value_text(str(value))
    example = "'f32[2,3]{0,1}'" if is_layout else f"gl.plan({_fitting(value, role)}, {shown}).target"
    raise LayoutError(
        f"{role} {shown} is only a layout, and a flat buffer does not say the sizes: write the whole shape, such as "
        f"{example}"
    )


def _fitting(layout: TargetLike, role: str) -> str:
    """The text of an example of a shape that can have a layout, or the word `shape`."""
    for text in ("f32[2,3]", "f32[1,3,224,224]", "f32[3,224,224]", "f32[1,3,16,224,224]"):
        try:
            as_target(layout, as_shape(text), role)
            return repr(text)
        except LayoutError:
            continue
    return "shape"


def own_shape(own: Shape, given: TargetLike | None, role: str) -> Shape:
    """The shape of an array; LayoutError if the shape or layout that is also given is another one."""
    if given is not None and given is not own:
        shape = as_target(given, own, role)
        if shape != own:
            raise LayoutError(
                f"{role} {shape} is not the shape of the gl.Array, {own}: leave it out, or move the array with "
                ".to(layout)"
            )
    return own


def check_planned(shape: Shape, source: Shape) -> None:
    """LayoutError unless an array has the shape that a plan moves."""
    if shape != source:
        raise LayoutError(f"buffer is a gl.Array of {shape}, but the plan moves {source}")


def sides_of(
    own: Shape, source: TargetLike | None, target: TargetLike | None, options: Mapping[str, Any]
) -> tuple[Shape, TargetLike]:
    """The source and the target of a move: (array, target), or (array, source, target) with the array's own shape.

    A call that only changes elements, such as (array, dtype="f16"), keeps the layout.
    """
    if target is None:
        source, target = None, source
    if target is None:
        asked = Asked(options)
        if not asked:
            raise TypeError(
                "target is missing: write the layout that the gl.Array gets, such as '{0,1}', or dtype= to keep its own"
            )
        target = own.with_element_type(asked.target_type(own.element_type))
    return own_shape(own, source, "source"), target
