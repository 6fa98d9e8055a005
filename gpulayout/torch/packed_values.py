"""Values on their way into a packed tensor and out of it: all of them, or a box."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Unpack

import torch

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.calls.packing import pack, unpack
from gpulayout.calls.relayout import relayout
from gpulayout.calls.transpose import transpose
from gpulayout.catalogue.names import is_name, read_name
from gpulayout.layout.checks import shown
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.shape import Shape
from gpulayout.moves.placement import dense_shape
from gpulayout.requests.index_keys import box_of
from gpulayout.running.running import read_box, write_box, write_words
from gpulayout.torch.codes import check_codes, with_signs
from gpulayout.torch.memory import check_memory, described, first_byte, plainly, written
from gpulayout.torch.misfits import ARE_PACKED, holds_floats
from gpulayout.torch.notes import (
    Form,
    Note,
    Space,
    alone,
    buffer_type,
    lock_of,
    space_of,
    torch_type_of,
    touched,
    whole_space,
)
from gpulayout.torch.packed_forms import code_types, is_element_type, plain_form, source_shape
from gpulayout.torch.packed_tensor import PackedTensor, guard, plain, unguard


@plainly
def copy_(tensor: Any, value: Any, *, at: Any = None, **options: Unpack[ArithmeticOptions]) -> Any:
    """Copy plain values into a packed tensor, in one pass: new weights of a checkpoint, or a part of them.

    Parameters
    ----------
    tensor : torch.Tensor
        A packed tensor, which keeps its layout and its address.  A plain one gets the values as they are.
    value : torch.Tensor
        Of the sizes of the plain tensor, or of the box, with any strides; words, if the tensor was packed with
        ``source=``.  Or a packed tensor of the same array in any layout.
    at : slice, Ellipsis or a tuple of them, optional
        A box of the array, in elements, also where the checkpoint has words: ``(slice(0, 512), ...)`` for a shard of
        512 rows.  Slices alone, so that `value` keeps every dimension.  Everything else stays as it is.
    **options
        ``scale=``, ``shift=`` and more change the elements on the way: see `gpulayout.ArithmeticOptions`.  Floats
        become other floats without any; to become codes or ``f8e8m0fnu``, they need them, or ``dtype=``.  ``scale=``
        with ``zero_point=`` quantises: ``value / scale + zero_point``, rounded.

    Returns
    -------
    torch.Tensor
        `tensor`.

    Raises
    ------
    LayoutError
        For values of other sizes.
    TypeError
        For values of a type that the layout does not hold, and no arithmetic.

    See Also
    --------
    read : The way back.

    Examples
    --------
    >>> import torch
    >>> from gpulayout.torch import pack_
    >>> weight = pack_(torch.zeros(4, 2), "{0,1}")
    >>> _ = copy_(weight, torch.ones(2, 2), at=(slice(2, 4), ...))
    >>> read(weight)[:, 0]
    tensor([0., 0., 1., 1.])
    """
    check_memory(tensor.detach() if type(tensor) is PackedTensor else tensor, "tensor")
    check_memory(value, "value")
    first, second = sorted((lock_of(tensor), lock_of(value)), key=id)  # in one order, or two threads may wait for ever
    with first, second:
        space = _space_to_fill(tensor)
        if space is None:
            _copy_to_plain(tensor, value, at, options)
        else:
            guard(tensor)  # it may be another tensor over the memory than that which was packed
            _copy_to_packed(tensor, space, value, at, options)
    return tensor


@plainly
@alone
def read(tensor: Any, *, at: Any = None) -> Any:
    """Copy the plain tensor, or a box of it, out of a packed one.

    Parameters
    ----------
    tensor : torch.Tensor
        A packed tensor; of a plain one the result is a copy.
    at : slice, Ellipsis or a tuple of them, optional
        A box of the plain tensor, as `copy_` takes it.

    Returns
    -------
    torch.Tensor
        A new, contiguous tensor on the same device: what ``plain_tensor[at]`` holds.  Words, if the tensor was packed
        with ``source=``.

    Raises
    ------
    LayoutError
        For a part of packed memory, and for a box that words cannot hold.

    Examples
    --------
    >>> import torch
    >>> from gpulayout.torch import pack_
    >>> read(pack_(torch.arange(6.0).reshape(2, 3), "{0,1}"), at=(slice(1, 2), slice(0, 2)))
    tensor([[3., 4.]])
    """
    check_memory(tensor, "tensor")
    space = space_of(tensor)
    given = plain(tensor)
    if space is None:
        return given[_box_key(given, at)].clone(memory_format=torch.contiguous_format)
    note, buffer = space.held, space.held.packed.buffer_of(given)
    if note.source is None:
        values = unpack(buffer, note.packed.shape, at=at).view(note.plain.dtype)
        return with_signs(values, note.plain.shape, note.packed.shape)
    form, shape = note.plain, note.packed.shape
    if at is None:
        return form.tensor(relayout(buffer, shape, form.shape).view(torch.uint8))
    form = _words_of_box(shape.element_type, _box_sizes(at, shape), note.source, form.dtype)
    return form.tensor(read_box(buffer, shape, at, form.shape).view(torch.uint8))


class Values(NamedTuple):
    """Values on their way into a tensor: a logical array or words with any strides, or a buffer; and their shape."""

    array: Any
    words: Any
    buffer: Any
    shape: Shape


def _space_to_fill(tensor: Any) -> Space | None:
    """The packed space that a tensor is; None for a plain tensor, and for one that is to become plain again."""
    space = touched(tensor)
    if space is None:
        return None
    if space.moving is None or space.first != first_byte(tensor):
        return whole_space(tensor, space)
    return space if space.note is not None else None


def _copy_to_packed(tensor: Any, space: Space, value: Any, at: Any, options: Any) -> None:
    """Values into packed memory.  The caller has its lock: boxes may share bytes."""
    note = space.held
    shape = note.packed.shape
    if space.moving is not None and at is not None:
        raise LayoutError(f"tensor {described(tensor)} {space.trouble}")
    sizes = shape.dimensions if at is None else _box_sizes(at, shape)
    values = _values(value, note, sizes, tensor.device)
    options = _conversion(values.shape.element_type, shape.element_type, options, value)
    is_whole = space.moving is None
    buffer = note.packed.buffer_of(tensor.detach()) if is_whole else space.buffer(tensor)
    if values.array is not None:
        pack(values.array, shape, out=buffer, **(options if at is None else options | {"at": at}))
    elif values.words is not None:
        write_words(values.words, values.shape, buffer, shape, at, options)
    elif at is None:
        relayout(values.buffer, values.shape, shape, out=buffer, **options)
    else:
        write_box(values.buffer, values.shape, buffer, shape, at, options)
    if not is_whole:  # else torch counts a write to the buffer as one to the tensor
        written(tensor)
    space.moving = None


def _values(value: Any, note: Note, sizes: tuple[int, ...], device: Any) -> Values:
    """The values that a caller gives; LayoutError unless they are an array of these sizes."""
    given = space_of(value, "value")
    value = value.detach()
    if value.device != device:
        value = value.to(device)
    if given is not None:
        packed = given.held.packed
        values = Values(None, None, packed.buffer_of(value), packed.shape)
    elif note.source is not None:
        words = _words(value, note, sizes)
        if value.element_size() < words.itemsize:  # several words hold an element
            value = value.contiguous().view(-1).view(torch.uint8).view(buffer_type(words))
        values = Values(None, value, None, words)
    else:
        own, element_type = _element_type(value.dtype), note.packed.shape.element_type
        is_codes = own in code_types(element_type)
        shape = dense_shape(element_type if is_codes else own, tuple(value.shape))
        if is_codes:
            check_codes(value, shape, "value")
            value = value.view(torch.uint8)
        values = Values(value, None, None, shape)
    if values.shape.dimensions != sizes:
        holds = "has the sizes" if values.array is not None else "holds an array of"
        what = "tensor" if sizes == note.packed.shape.dimensions else "box"
        raise LayoutError(
            f"value {described(value)} {holds} {shown(values.shape.dimensions)}, but the {what} has {shown(sizes)}: it "
            f"goes into {note.name}{_size_hint(value, note, sizes)}"
        )
    return values


def _size_hint(value: Any, note: Note, sizes: tuple[int, ...]) -> str:
    """What the sizes of a value tell of a usual mistake."""
    if tuple(value.shape) == note.packed.sizes and value.dtype == note.packed.dtype:
        return ARE_PACKED
    if note.source is not None:
        return "; at= counts elements, not words" if tuple(value.shape) == sizes else ""
    codes = code_types(note.packed.shape.element_type)
    is_words = codes and value.dtype.itemsize > 1 and not value.dtype.is_floating_point
    return "; it was packed without source=, so it takes no words, but a code in each byte" if is_words else ""


_element_type = functools.cache(ElementType.of)  # of torch's dtypes, by their names
_source_shape = functools.lru_cache(maxsize=1024)(source_shape)  # to read a name takes longer than a small copy


@functools.lru_cache(maxsize=1024)
def _words_of_box(element_type: ElementType, sizes: tuple[int, ...], source: str, word: Any) -> Form:
    """The words of a checkpoint for a box of these sizes."""
    return plain_form(Shape(element_type, sizes), source, word)


def _words(value: Any, note: Note, sizes: tuple[int, ...]) -> Shape:
    """The array in words of a checkpoint; LayoutError for a tensor that is no words of the tensor's source."""
    source, own = note.source, note.plain
    assert source is not None
    try:
        return _source_shape(value.dtype, tuple(value.shape), source)
    except LayoutError as error:
        problem = str(error).partition("; ")[0]
    if value.dtype != own.dtype:
        problem = (
            f"pass {own.dtype}; codes, and floats with scale= and zero_point=, go into a tensor that was packed "
            "without source="
        )
    elif sizes != note.packed.shape.dimensions:
        is_free = is_element_type(source) or (is_name(source) and read_name(source).sizes is None)
        problem += "; the rule holds for a box too" if is_free else "; at= needs a source without sizes"
    raise LayoutError(
        f"value {described(value)} does not hold words of {source}, as the tensor takes them, which was packed from "
        f"{own.dtype} of {shown(own.sizes)}: {problem}"
    )


def _conversion(own: ElementType, wanted: ElementType, options: Any, value: Any) -> Any:
    """The keywords of a copy; LayoutTypeError where elements cannot become others without arithmetic."""
    options = {name: option for name, option in options.items() if option is not None}  # scale=None is no arithmetic
    if options:
        return {"dtype": wanted.value, **options}
    if own is wanted:
        return {}
    if own.is_floating and holds_floats(wanted):
        return {"dtype": wanted.value}
    raise LayoutTypeError(
        f"value {described(value)} has elements of {own}, and the tensor has {wanted}: {_type_hint(own, wanted)}"
    )


def _type_hint(own: ElementType, wanted: ElementType) -> str:
    """What to write for a value of another type than the tensor's."""
    as_number = f"dtype={wanted.value!r} converts numbers"
    if own.is_floating and wanted.is_floating:
        powers = "f8e8m0fnu holds powers of two alone, so name the dtype where the memory is made; "
        return f"{'' if wanted.is_sub_byte else powers}{as_number}, scale= scales them"
    if own.is_integral and (codes := code_types(wanted)):
        half, kind = 2 ** (wanted.bits - 1), torch_type_of(codes[-1])
        hint = f"value.to({kind}) makes codes of it"
        if kind == torch.uint8 and wanted.is_integral:
            hint += f", (value + {half}).to({kind}) of those from {-half} to {half - 1}"
        return f"{hint}; {as_number}, and saturates"
    is_alike = own.bits == wanted.bits == 8 * wanted.itemsize and (own.is_integral or own.bits == 8)
    hint = f"value.view({torch_type_of(wanted)}) takes them as its bits; " if is_alike else ""
    way = "quantise" if own.is_floating else "dequantise"
    also = f", scale= and zero_point= {way}" if own.is_floating or wanted.is_floating else ""
    return f"{hint}{as_number}{also}"


def _copy_to_plain(tensor: Any, value: Any, at: Any, options: Any) -> None:
    given, broken = plain(tensor), touched(tensor)
    if broken is not None and at is not None:
        raise LayoutError(f"tensor {described(tensor)} {broken.trouble}")
    part = given[_box_key(given, at)]
    space = space_of(value, "value")
    value = (plain(value) if space is None else read(value)).to(tensor.device)
    if value.shape != part.shape:
        raise LayoutError(f"value {described(value)} is not of the sizes {tuple(part.shape)} of the tensor or the box")
    options = _conversion(ElementType.of(value.dtype), ElementType.of(part.dtype), options, value)
    transpose(value, tuple(range(value.dim())), out=part, **options)
    written(tensor)
    if broken is not None:
        broken.moving = None
        unguard(tensor)


def _box_sizes(at: Any, shape: Shape) -> tuple[int, ...]:
    return tuple(last - first for first, last in box_of(at, shape))


def _box_key(tensor: Any, at: Any) -> Any:
    """A box of a plain tensor, as a key."""
    if at is None:
        return ...
    shape = Shape(ElementType.of(tensor.dtype), tuple(tensor.shape))
    return tuple(slice(first, last) for first, last in box_of(at, shape))
