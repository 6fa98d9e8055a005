"""Notes in a model file: the packed layout, which every reader of the package knows, and beside it the plain tensor.

    "gpulayout:up.weight": "marlin:weights[4096,4096]"
    "gpulayout-plain:up.weight": '{"dtype":"int32","sizes":[512,4096],"source":"gptq:qweight(dtype=u4)"}'

Nothing that a file says is taken as it is: the note is made anew from what it says, as `pack_` makes it.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from gpulayout.files.checkpoints.header import (
    DTYPES,
    MOST_BYTES,
    MOST_RANK,
    StoredTensor,
    dtype_of,
    tensor_text,
)
from gpulayout.files.checkpoints.plain_sides import PlainSide, read_plain_side
from gpulayout.files.checkpoints.stored import BYTES, Stored, stored_shape
from gpulayout.files.checkpoints.views import in_c_order, noted_shape
from gpulayout.files.errors import FileError
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.text import parse_array_shape
from gpulayout.torch.misfits import array_text, form_text
from gpulayout.torch.notes import Note, torch_type, torch_type_of
from gpulayout.torch.packed_forms import c_strides, note_for, packed_note, source_shape


def stored_packed(note: Note) -> Stored:
    """How a packed tensor lies in a file: as its owner stores it, or as bytes."""
    form, usual = note.packed, packed_note(note.name, None).packed
    if (form.dtype, form.sizes) != (usual.dtype, usual.sizes):  # as the file had it that it comes from
        dtype = dtype_of(in_c_order(ElementType.of(form.dtype), form.sizes))
        if dtype is not None:
            return Stored(dtype, form.sizes, note.name)
    stored = stored_shape(parse_array_shape(note.name), note.name)
    return stored if stored.note is not None else Stored(BYTES, (form.nbytes,), note.name)


def stored_plain(tensor: Any) -> Stored:
    """How a plain tensor lies in a file; TypeError for elements that the format lacks."""
    if str(tensor.dtype) == "torch.float4_e2m1fn_x2":
        raise TypeError(f"the file would have {form_text(tensor.dtype, tensor.shape)}: save tensor.view(torch.uint8)")
    dtype = dtype_of(in_c_order(ElementType.of(tensor.dtype), tuple(tensor.shape)))
    if dtype is None:
        raise TypeError(f"safetensors files have no elements of {tensor.dtype}")
    return Stored(dtype, tuple(tensor.shape), None)


def stored_type(tensor: StoredTensor) -> Any:
    """torch's dtype of a plain tensor in a file; TypeError for one that torch lacks."""
    element_type = DTYPES[tensor.dtype]
    dtype = None if element_type is None else torch_type_of(element_type)
    if dtype is None:
        raise TypeError(f"the file has {tensor}, and torch has no such elements")
    return dtype


def plain_text(note: Note) -> str:
    """What a file says of the plain tensor."""
    plain, dtype = note.plain, str(note.plain.dtype).removeprefix("torch.")
    strides = None if plain.strides == c_strides(plain.sizes) else plain.strides
    axes = None if note.axes == (*range(plain.shape.rank),) else note.axes
    return PlainSide(dtype, plain.sizes, strides, axes, note.source).text


def note_in_file(file: str, tensor: StoredTensor, text: str, plain: str | None) -> Note:
    """The note of a tensor in a file; `FileError` where what the file says is not so.

    text    of the packed layout
    plain   what the file says of the plain tensor; without it, that is the array in C order
    """
    who = f"{file}: {tensor_text(tensor.name)}"
    try:
        noted_shape(tensor, text)
    except FileError as error:
        raise FileError(f"{file}: {error}") from None
    try:
        note = packed_note(text, None) if plain is None else _note_of(text, read_plain_side(file, plain))
    except FileError as error:
        raise FileError(f"{who}: {str(error).removeprefix(f'{file}: ')}") from None
    except (ValueError, TypeError, AttributeError, RuntimeError, KeyError) as error:
        raise FileError(f"{who} is {text}, and what the file says of its plain tensor does not fit: {error}") from None
    return _as_header_says(note, tensor)


def _as_header_says(note: Note, tensor: StoredTensor) -> Note:
    """The note with the packed tensor as the header of its file has it, where that is an array: `as=` chooses it."""
    element_type = DTYPES[tensor.dtype]
    dtype = None if element_type is None else torch_type_of(element_type)
    if dtype is None or (tensor.dtype == BYTES and len(tensor.dimensions) == 1):
        return note
    sizes = tensor.dimensions
    return note._replace(packed=note.packed._replace(dtype=dtype, sizes=sizes, strides=c_strides(sizes)))


def _note_of(text: str, side: PlainSide) -> Note:
    """The note that `pack_` would make of such a plain tensor."""
    sizes, axes, source, pattern = side.sizes, side.axes, side.source, ""
    strides = c_strides(sizes) if side.strides is None else side.strides
    tensor = _tensor_like(torch_type(side.dtype), sizes, strides)
    if axes is not None:
        rank = len(sizes) if source is None else source_shape(tensor.dtype, sizes, source).rank
        if len({*axes}) < len(axes) or any(axis >= rank for axis in axes):
            raise ValueError(f"axes {axes!s:.80} are no order of axes")
        names = [f"a{axis}" if axis in axes else "1" for axis in range(rank)]
        pattern = f"{' '.join(names)} -> {' '.join(names[axis] for axis in axes)}; "
    note = note_for(tensor, pattern + text, source)
    array, packed = note.plain.shape, note.packed.shape
    if (array.element_type, array.dimensions) != (packed.element_type, packed.dimensions):
        raise ValueError(f"it has {array_text(array)}, and the layout {array_text(packed)}")
    return note


def _tensor_like(dtype: Any, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """A tensor without memory; ValueError for one that torch cannot have, whose own errors have many lines."""
    if not len(sizes) == len(strides) <= MOST_RANK:
        raise ValueError(f"{len(sizes)} sizes and {len(strides)} strides are not as many, and at most {MOST_RANK}")
    _ = ElementType.of(dtype)  # TypeError for quantised ones
    count = math.prod(size for size in sizes if size)
    if max(count, *strides, 1) * dtype.itemsize >= MOST_BYTES:
        raise ValueError(f"sizes {sizes!s:.80} with strides {strides!s:.80} need 2^63 bytes or more")
    return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
