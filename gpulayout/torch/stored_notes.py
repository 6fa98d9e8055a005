"""Notes in a model file: the packed layout, which every reader of the package knows, and beside it the plain tensor.

    "gpulayout:up.weight": "marlin:weights[4096,4096]"
    "gpulayout-plain:up.weight": '{"dtype":"int32","sizes":[512,4096],"source":"gptq:qweight(dtype=u4)"}'

Nothing that a file says is taken as it is: the note is made anew from what it says, as `pack_` makes it.
"""

from __future__ import annotations

import json
import math
from typing import Any

import torch

from gpulayout.files.checkpoints.header import (
    DTYPES,
    MOST_BYTES,
    MOST_RANK,
    PLAIN,
    StoredTensor,
    dtype_of,
    parsed_json,
    tensor_text,
)
from gpulayout.files.checkpoints.stored import BYTES, Stored, stored_shape
from gpulayout.files.checkpoints.views import in_c_order, noted_shape
from gpulayout.files.errors import FileError
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.text import parse_array_shape
from gpulayout.torch.misfits import array_text, form_text
from gpulayout.torch.notes import Note, torch_type, torch_type_of
from gpulayout.torch.packed_forms import c_strides, note_for, packed_note

_FIELDS = {"dtype", "sizes", "strides", "axes", "source"}


def stored_packed(note: Note) -> Stored:
    """How a packed tensor lies in a file: as its owner stores it, or as bytes."""
    stored = stored_shape(parse_array_shape(note.name), note.name)
    return stored if stored.note is not None else Stored(BYTES, (note.packed.nbytes,), note.name)


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
    plain, source = note.plain, note.source
    said: dict[str, Any] = {"dtype": str(plain.dtype).removeprefix("torch."), "sizes": [*plain.sizes]}
    if plain.strides != c_strides(plain.sizes):
        said["strides"] = [*plain.strides]
    if note.axes != (*range(note.plain.shape.rank),):
        said["axes"] = [*note.axes]
    if source is not None:
        said["source"] = source
    return json.dumps(said, separators=(",", ":"))


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
        note = packed_note(text, None) if plain is None else _note_of(text, parsed_json(file, plain.encode(), PLAIN))
    except FileError as error:
        raise FileError(f"{who}: {str(error).removeprefix(f'{file}: ')}") from None
    except (ValueError, TypeError, AttributeError, RuntimeError, KeyError) as error:
        raise FileError(f"{who} is {text}, and what the file says of its plain tensor does not fit: {error}") from None
    return note


def _note_of(text: str, said: Any) -> Note:
    """The note that `pack_` would make of such a plain tensor."""
    if not isinstance(said, dict) or not {"dtype", "sizes"} <= {*said} <= _FIELDS:
        raise ValueError(f"{said!r:.80} has not the fields dtype and sizes, and perhaps {', '.join(sorted(_FIELDS))}")
    sizes = _numbers(said["sizes"])
    strides = _numbers(said["strides"]) if "strides" in said else c_strides(sizes)
    source = said.get("source")
    if not isinstance(said["dtype"], str) or not isinstance(source, (str, type(None))):
        raise ValueError("dtype and source must be texts")
    tensor = _tensor_like(torch_type(said["dtype"]), sizes, strides)
    axes, pattern = _numbers(said["axes"]) if "axes" in said else None, ""
    if axes is not None:
        rank = len(sizes) if source is None else parse_array_shape(text).rank
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


def _numbers(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(each) is int and 0 <= each < 1 << 63 for each in values):
        raise ValueError(f"{values!r:.80} is not a list of numbers")
    return tuple(values)
