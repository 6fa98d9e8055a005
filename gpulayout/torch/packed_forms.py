"""What a caller writes about a packed tensor, as a note: its plain form, its packed form, and what they are called."""

from __future__ import annotations

from typing import Any

import torch

from gpulayout.catalogue.names import Named, is_name, name_of, read_name, shape_of_tensor
from gpulayout.catalogue.tensors import tensor_of
from gpulayout.files.checkpoints.views import shape_of_words, sizes_of_words
from gpulayout.layout.checks import value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_from_strides
from gpulayout.layout.text import as_shape, is_only_layout
from gpulayout.moves.move import check_storable
from gpulayout.requests.shape_arguments import as_target
from gpulayout.torch.memory import described
from gpulayout.torch.notes import Form, Note, array_type, buffer_type, torch_type_of

_ELEMENT_TYPES = frozenset(map(str, ElementType))


def note_for(tensor: Any, layout: Any, source: Any) -> Note:
    """The note of a plain tensor that is packed: see `pack_` for the arguments."""
    pattern, layout = _split(layout)
    named = _named(layout)
    if source is None:
        shape = _array_shape(tensor, _codes(tensor, layout, named))
    else:
        shape = source_shape(tensor.dtype, tuple(tensor.shape), source)
        _check_width(shape.element_type, layout, named, source)
        if not tensor.is_contiguous():
            raise LayoutError(
                f"source {source_text(source)} is of a contiguous tensor, not of strides {tensor.stride()}"
            )
    plain = Form(shape, tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
    axes = _axes(pattern, shape)
    turned = Shape(shape.element_type, tuple(shape.dimensions[axis] for axis in axes))
    target = as_target(layout, turned, "layout")
    form = _packed_form(target, named)
    form = form._replace(shape=_with_axes_of_one(form.shape, axes, shape.rank))
    return Note(_name(target, layout, named), source_text(source), axes, plain, form)


def packed_note(shape: Any, source: Any) -> Note:
    """The note of memory for a packed shape: its plain tensor is the array in C order, or the words of `source`."""
    named = _named(shape)
    packed = as_shape(shape)
    check_storable(packed)
    form, array = _packed_form(packed, named), _row_major(packed)
    axes = tuple(range(packed.rank))
    return Note(_name(packed, shape, named), source_text(source), axes, plain_form(array, source), form)


def note_of_packed(tensor: Any, layout: Any, source: Any) -> Note:
    """The note of a tensor that is packed already: see `mark_packed_`."""
    sizes = tuple(tensor.shape)
    named, stored = _named(layout), ElementType.of(tensor.dtype)
    if named is not None and named.sizes is None:
        layout = name_of(named, shape_of_tensor(named, stored, sizes))
    elif isinstance(layout, Layout) or (isinstance(layout, str) and is_only_layout(layout)):
        raise LayoutError(f"layout {value_text(str(layout))} is no whole shape: write one, as 'f32[2,3]{{0,1}}'")
    note = packed_note(layout, source)
    form = note.packed
    if not tensor.is_contiguous() or form.nbytes != tensor.numel() * tensor.element_size():
        raise LayoutError(f"tensor {described(tensor)} is not {note.name}, which has {form.nbytes} bytes in a row")
    if (form.dtype, form.sizes) != (tensor.dtype, sizes) and not (
        len(sizes) == 1 and tensor.dtype in (torch.uint8, buffer_type(form.shape))
    ):
        raise LayoutError(f"tensor {described(tensor)} is not {note.name}, which is {form.dtype} of {form.sizes}")
    return note


def plain_form(array: Shape, source: Any, word: Any = torch.uint8) -> Form:
    """The plain tensor of an array: the array itself, or the words in which `source` holds it.

    word   the dtype of the words, where `source` leaves it open
    """
    if source is None:
        return Form(_row_major(array), array_type(array.element_type), array.dimensions, c_strides(array.dimensions))
    if is_element_type(source):
        return _words_form(array, ElementType(source), word)
    if isinstance(source, str) and is_name(source):
        named = read_name(source)
        choices: dict[str, Any] = {**named.choices, "dtype": array.element_type.value}
        return _packed_form(named.entry(*array.dimensions, **choices), named)
    return _packed_form(as_target(source, array, "source"), None)


def _words_form(array: Shape, element_type: ElementType, word: Any) -> Form:
    """The words of elements that follow each other along the last dimension."""
    if array.element_type is not element_type:
        raise LayoutError(f"source {element_type} is not what {array} has")
    words = ElementType.of(word)
    sizes = sizes_of_words(words, array.dimensions, element_type)
    return Form(shape_of_words(words, sizes, element_type), word, sizes, c_strides(sizes))


def is_element_type(source: Any) -> bool:
    """True for a source such as "u4": elements that follow each other along the last dimension of words."""
    return isinstance(source, str) and source in _ELEMENT_TYPES


def source_shape(dtype: Any, sizes: tuple[int, ...], source: Any) -> Shape:
    """The logical array in words of a checkpoint, and how it lies in them."""
    stored = ElementType.of(dtype)
    if is_element_type(source):
        return shape_of_words(stored, sizes, ElementType(source))
    if isinstance(source, str) and is_name(source):
        named = read_name(source)
        if named.sizes is None:
            return shape_of_tensor(named, stored, sizes)
    words = Shape(stored, sizes)
    shape = as_target(source, words, "source")
    if shape.nbytes != words.nbytes:
        raise LayoutError(f"source {shape} takes {shape.nbytes} bytes, but a tensor {words} has {words.nbytes}")
    return shape


def source_text(source: Any) -> str | None:
    """A source as text."""
    return source if source is None or isinstance(source, str) else str(source)


def _split(layout: Any) -> tuple[str | None, Any]:
    """A pattern and a layout, from "PATTERN; LAYOUT"."""
    if not isinstance(layout, str) or ";" not in layout:
        return None, layout
    pattern, _, rest = layout.partition(";")
    if "->" not in pattern or not rest.strip():
        raise LayoutError(
            f"layout {value_text(layout)} is no pattern and layout: write 'n k -> k n; marlin:weights(dtype=u4)'"
        )
    return pattern.strip(), rest.strip()


def _named(layout: Any) -> Named | None:
    return read_name(layout) if isinstance(layout, str) and is_name(layout) else None


def _codes(tensor: Any, layout: Any, named: Named | None) -> ElementType:
    """The element type of a plain tensor's elements: its dtype's; or one below a byte, of codes in uint8."""
    own = ElementType.of(tensor.dtype)
    if named is not None:
        said = named.choices.get("dtype", None if named.sizes is None else named.entry.types[0])
    elif isinstance(layout, Shape) or (isinstance(layout, str) and not is_only_layout(layout)):
        said = as_shape(layout, "layout").element_type
    else:
        return own
    asked = own if said is None else ElementType.of(said)
    if asked is own or own in code_types(asked):
        return asked
    kinds = [torch_type_of(kind) for kind in code_types(asked)] or [torch_type_of(asked)]
    needs = f"{' or '.join(map(str, kinds))}{', one code in a byte,' if asked.is_sub_byte else ''}"
    raise LayoutTypeError(
        f"tensor {described(tensor)} has elements of {own}, but layout {value_text(str(layout))} has {asked}: pass a "
        f"tensor of {needs} or source= for words of a checkpoint"
    )


def _check_width(held: ElementType, layout: Any, named: Named | None, source: Any) -> None:
    """LayoutTypeError for an entry of the catalogue that asks for wider or narrower elements than the words have."""
    asked = None if named is None else named.choices.get("dtype")
    if named is None or asked is None or ElementType.of(asked).bits == held.bits:
        return
    choices = {**named.choices, "dtype": held.value}
    right = f"{named.entry.name}({','.join(f'{name}={choice}' for name, choice in choices.items())})"
    raise LayoutTypeError(
        f"layout {value_text(str(layout))} has elements of {asked}, but the words of source {source_text(source)} hold "
        f"{held}: write {right}"
    )


def code_types(element_type: ElementType) -> tuple[ElementType, ...]:
    """The types of plain tensors for elements below a byte: their bits in uint8, or signed numbers in int8."""
    if not element_type.is_sub_byte:
        return ()
    return (ElementType.U8, ElementType.S8) if element_type.kind == "signed" else (ElementType.U8,)


def _array_shape(tensor: Any, element_type: ElementType) -> Shape:
    """The logical array of a plain tensor, with the order that its strides say."""
    sizes = tuple(tensor.shape)
    if tensor.is_contiguous():
        return Shape(element_type, sizes)
    itemsize = tensor.element_size()
    layout = layout_from_strides(sizes, [stride * itemsize for stride in tensor.stride()], itemsize=itemsize)
    shape = Shape(element_type, sizes, layout)
    if shape.buffer_size != shape.element_count:
        raise LayoutError(
            f"tensor {described(tensor)} of strides {tuple(tensor.stride())} has gaps: pack a contiguous tensor, "
            "as .contiguous() makes one"
        )
    return shape


def _axes(pattern: str | None, shape: Shape) -> tuple[int, ...]:
    """The plain array's axes in the order of the packed one: a pattern reorders them, and drops those of size 1."""
    if pattern is None:
        return tuple(range(shape.rank))
    groups = read_pattern(pattern, shape.rank).parts(shape.dimensions, {})
    if any(len(group) != 1 or group[0].size != shape.dimensions[group[0].dim] for group in groups):
        raise LayoutError(
            f"pattern {value_text(pattern)} splits or joins axes of {shape}: a layout is packed after a pattern that "
            "only reorders them"
        )
    return tuple(group[0].dim for group in groups)


def _with_axes_of_one(shape: Shape, axes: tuple[int, ...], rank: int) -> Shape:
    """The packed shape in the order of the plain array's axes; those that it lacks have one place, the most major.

    >>> print(_with_axes_of_one(Shape("f32", (4, 6), "{0,1:T(2)}"), (2, 0), 3))
    f32[6,1,4]{2,0,1:T(2)}
    """
    lacks = [axis for axis in range(rank) if axis not in axes]
    axes, layout = (*axes, *lacks), shape.layout
    more = range(shape.rank, rank)
    widths = layout.padded_dimensions
    layout = layout.replace(
        minor_to_major=(*layout.minor_to_major, *more),
        padded_dimensions=None if widths is None else (*widths, *(1 for _ in more)),
    )
    whole = Shape(shape.element_type, (*shape.dimensions, *(1 for _ in more)), layout)
    return whole.permute_dimensions(sorted(range(rank), key=axes.__getitem__))


def _packed_form(target: Shape, named: Named | None) -> Form:
    """The packed tensor: as the owner of the layout has it, or its buffer."""
    dtype = buffer_type(target)
    sizes: tuple[int, ...] = (target.buffer_length,)
    if named is not None:
        choices = {**named.choices, "dtype": target.element_type.value}
        owned = tensor_of(named.entry, target, choices)
        stored = None if owned is None else torch_type_of(owned.element_type)
        if owned is not None and stored is not None:
            dtype, sizes = stored, owned.dimensions
    return Form(target, dtype, sizes, c_strides(sizes))


def _name(target: Shape, layout: Any, named: Named | None) -> str:
    if named is None:
        return str(target)
    return name_of(named._replace(choices={**named.choices, "dtype": target.element_type.value}), target)


def _row_major(shape: Shape) -> Shape:
    return Shape(shape.element_type, shape.dimensions)


def c_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor."""
    strides, stride = [], 1
    for size in reversed(sizes):
        strides.append(stride)
        stride *= max(size, 1)
    return tuple(reversed(strides))
