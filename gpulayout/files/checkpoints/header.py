"""The header of a safetensors file: read, checked against the file's size, and written as the format's library does.

    8 bytes     the length N of the header, little-endian
    N bytes     JSON: {"__metadata__":{...},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}
    the rest    the elements of the tensors in C order, one tensor after the other, without holes

A file may come from anywhere.  So nothing is trusted: the header is read only if it is small enough to be parsed in
bounded memory, and every tensor must lie where its type and its shape say.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from gpulayout.files.errors import FileError
from gpulayout.layout.checks import clipped, counted, shown, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import is_big

# Every type of the format, in its order: the library writes the last ones first, which aligns them all.
DTYPES: Mapping[str, ElementType | None] = {
    "BOOL": ElementType.PRED,
    "F4": ElementType.F4E2M1FN,  # two in a byte
    "F6_E2M3": None,  # four in three bytes: no layout has such elements
    "F6_E3M2": None,
    "U8": ElementType.U8,
    "I8": ElementType.S8,
    "F8_E5M2": ElementType.F8E5M2,
    "F8_E4M3": ElementType.F8E4M3FN,
    "F8_E8M0": ElementType.F8E8M0FNU,
    "F8_E4M3FNUZ": ElementType.F8E4M3FNUZ,
    "F8_E5M2FNUZ": ElementType.F8E5M2FNUZ,
    "I16": ElementType.S16,
    "U16": ElementType.U16,
    "F16": ElementType.F16,
    "BF16": ElementType.BF16,
    "I32": ElementType.S32,
    "U32": ElementType.U32,
    "F32": ElementType.F32,
    "C64": ElementType.C64,
    "F64": ElementType.F64,
    "I64": ElementType.S64,
    "U64": ElementType.U64,
}
_BITS = {name: 6 if each is None else 8 * each.itemsize for name, each in DTYPES.items()} | {"F4": 4}
_NUMBERS = {name: number for number, name in enumerate(DTYPES)}
METADATA = "__metadata__"
NOTE = "gpulayout:"  # then the name of a tensor: the key of what its bytes are, which the format has no words for
PLAIN = "gpulayout-plain:"  # then the name of a tensor with a note: the key of what the plain tensor is, for gl.torch
LENGTH_BYTES = 8
ALIGNMENT = 8  # bytes: the header is filled up with blanks to a multiple
MOST_HEADER = 100_000_000  # bytes: the limit of the format's library
MOST_MEMORY = 1 << 27  # bytes that a parsed header may take; 128 MiB are enough for 150,000 tensors
MOST_BYTES = 1 << 63
MOST_RANK = 64  # NumPy's limit


class ByteBlocks(NamedTuple):
    """How the bytes of a tensor lie that are not consecutive: `taken` of every `step` bytes."""

    taken: int
    step: int


class StoredTensor(NamedTuple):
    """One tensor of a file.

    dtype        the format's name, one of `DTYPES`; of a GGUF file it may be another one, whose elements nothing reads
    dimensions   major first, in elements
    begin, end   its bytes, counted from the first byte after the header
    blocks       which of these are its own; None where all are
    """

    name: str
    dtype: str
    dimensions: tuple[int, ...]
    begin: int
    end: int
    blocks: ByteBlocks | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all elements.

        >>> StoredTensor("codes", "I8", (64,), 2, 68, ByteBlocks(32, 34)).nbytes
        64
        """
        taken, step = self.blocks or (1, 1)
        return (self.end - self.begin + step - taken) // step * taken

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dimensions))}]"


@dataclass(frozen=True)
class Contents:
    """What a file holds.

    metadata   text by name, or None where the header has none
    tensors    in the order of their bytes
    start      where the elements begin in the file
    """

    metadata: Mapping[str, str] | None
    tensors: tuple[StoredTensor, ...]
    start: int


def tensor_text(name: str) -> str:
    """What messages call a tensor."""
    return f"tensor {value_text(clipped(name, 80))}"


def why_no_name(name: str) -> str | None:
    """Why no tensor of a file can have a name; None if one can.

    >>> why_no_name("__metadata__"), why_no_name("up.weight")
    ('the format keeps that name for itself', None)
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return "it has half a character"
    return "the format keeps that name for itself" if name == METADATA else None


def dtype_of(shape: Shape) -> str | None:
    """The format's name for elements that lie as `shape` has them, in C order; None where the format has none.

    >>> from gpulayout import parse_shape
    >>> [dtype_of(parse_shape(text)) for text in ("bf16[2]", "f4e2m1fn[2]{0:E(4)}", "f4e2m1fn[2]", "s4[2]{0:E(4)}")]
    ['BF16', 'F4', None, None]
    """
    for name, element_type in DTYPES.items():
        if element_type is shape.element_type and shape.is_packed == (name == "F4") and not is_big(shape):
            return name
    return None


def tensor_bytes(dtype: str, dimensions: Iterable[int]) -> int | None:
    """Bytes of a tensor; None if its last byte is not full, which the format forbids."""
    bits = math.prod(dimensions) * _BITS[dtype]
    return None if bits % 8 else bits // 8


# ---- reading -------------------------------------------------------------------------------------------------


def read_contents(name: str, stream: BinaryIO) -> Contents:
    """The checked header of an open file; `FileError` begins with `name` and says what is wrong."""
    size = os.fstat(stream.fileno()).st_size
    beginning = stream.read(LENGTH_BYTES)
    length = int.from_bytes(beginning, "little")
    if len(beginning) < LENGTH_BYTES or not 2 <= length <= min(size - LENGTH_BYTES, MOST_HEADER):
        raise FileError(
            f"{name}: not a safetensors file: its first 8 bytes say that the header has {length} bytes, but the file "
            f"has {counted(size, 'byte')}{f', and {MOST_HEADER} is the limit' if length > MOST_HEADER else ''}"
        )
    text = stream.read(length)
    if len(text) < length:
        raise FileError(f"{name}: the file has become shorter while it was read")
    entries = parsed_json(name, text, "its header")
    if not isinstance(entries, dict):
        raise FileError(f"{name}: its header is {_kind(entries)}, not a JSON object")
    metadata = _metadata(name, entries.pop(METADATA, None))
    tensors = sorted(
        (_tensor(name, key, entry) for key, entry in entries.items()),
        key=lambda tensor: (tensor.begin, tensor.end, tensor.name),
    )
    start = LENGTH_BYTES + length
    _check_offsets(name, tensors, size - start)
    return Contents(metadata, tuple(tensors), start)


def parsed_json(name: str, text: bytes, what: str) -> Any:
    """A JSON value; `FileError` for other text, for a name that stands twice, and for what would take too much memory.

    what   the part of the file, for messages
    """
    memory = parsed_bytes(text)
    if memory > MOST_MEMORY:
        raise FileError(
            f"{name}: {what} of {len(text)} bytes could take {memory} bytes of memory, more than {MOST_MEMORY}"
        )

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            twice = Counter(each for each, _ in pairs).most_common(1)[0][0]
            raise FileError(f"{name}: {what} has the name {value_text(twice)} twice")
        return values

    try:  # decoded here: for bytes json.loads takes UTF-16, UTF-32 and a mark of the byte order too
        return json.loads(text.decode(), object_pairs_hook=unique, parse_int=_whole, parse_constant=_whole)
    except FileError:
        raise
    except (ValueError, RecursionError) as error:  # also for text that is not UTF-8, and for numbers of 5,000 digits
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0][:200]
        raise FileError(f"{name}: {what} is not JSON: {reason}") from None


def _whole(text: str) -> int:
    """A whole number of JSON.  Python reads -0 and NaN as well, which the format's library refuses."""
    if text == "-0" or text[-1].isalpha():
        raise ValueError(f"{text} is not a number that it may have")
    return int(text)


def parsed_bytes(text: bytes) -> int:
    """About the most bytes that Python takes for a text and what it means: its characters, and the objects for them."""
    characters = len(text) * (1 if text.isascii() else 4)
    objects = 64 * text.count(b"[") + 300 * text.count(b"{") + 40 * text.count(b",") + 32 * text.count(b'"')
    return len(text) + 2 * characters + objects


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}.get(
        type(value), "a number"
    )


def _metadata(name: str, metadata: Any) -> dict[str, str] | None:
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        raise FileError(f"{name}: {METADATA} is {_kind(metadata)}, not an object of texts")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise FileError(f"{name}: {METADATA} has {_kind(value)} under {value_text(clipped(key, 60))}, not text")
        _check_text(name, key + value)
    return metadata


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FileError(f"{name}: its header has text with half a character, {ascii(text[error.start])}") from None


def _tensor(file: str, name: str, entry: Any) -> StoredTensor:
    """One tensor of the header, each field checked by itself and its length against its shape."""
    _check_text(file, name)
    who = f"{file}: {tensor_text(name)}"
    if not isinstance(entry, dict):
        raise FileError(f"{who}: its entry is {_kind(entry)}, not an object with dtype, shape and data_offsets")
    if missing := [key for key in ("dtype", "shape", "data_offsets") if key not in entry]:
        raise FileError(f"{who}: its entry has no {' and no '.join(missing)}")
    dtype, dimensions, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise FileError(f"{who}: dtype {value_text(dtype)} is not one of {', '.join(DTYPES)}")
    if not _are_sizes(dimensions) or len(dimensions) > MOST_RANK:
        raise FileError(
            f"{who}: shape {value_text(dimensions)} is not a list of at most {MOST_RANK} sizes of 0 or more"
        )
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise FileError(f"{who}: data_offsets {value_text(offsets)} are not a beginning and an end")
    needed = _needed(dtype, dimensions)
    if needed is None:
        raise FileError(f"{who}: {dtype} of shape {shown(dimensions)} does not end with a full byte")
    if needed >= MOST_BYTES:
        raise FileError(f"{who}: {dtype} of shape {shown(dimensions)} needs 2^63 bytes or more")
    if offsets[1] - offsets[0] != needed:
        raise FileError(
            f"{who}: data_offsets {value_text(offsets)} hold {counted(offsets[1] - offsets[0], 'byte')}, but {dtype} "
            f"of shape {shown(dimensions)} needs {needed}"
        )
    return StoredTensor(name, dtype, tuple(dimensions), *offsets)


def _needed(dtype: str, dimensions: list[int]) -> int | None:
    """`tensor_bytes`, or 2^63 as soon as the sizes before a size of 0 multiply to that much: the format's library
    refuses them too."""
    count = 1
    for size in dimensions:
        count *= size
        if count >= MOST_BYTES:
            return MOST_BYTES
    return tensor_bytes(dtype, (count,))


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(each) is int and 0 <= each < MOST_BYTES for each in values)


def _check_offsets(name: str, tensors: list[StoredTensor], size: int) -> None:
    """Check that tensors follow one another without a hole, and end where the file ends."""
    end, before = 0, "the header"
    for each in tensors:
        who = tensor_text(each.name)
        if each.begin != end:
            what = "overlaps" if each.begin < end else "leaves a hole behind"
            raise FileError(f"{name}: {who} begins at byte {each.begin} and {what} {before}, which ends at byte {end}")
        end, before = each.end, who
    if end != size:
        what = "is cut off" if end > size else "has bytes that belong to no tensor"
        raise FileError(
            f"{name}: the file {what}: its tensors take {counted(end, 'byte')}, and {size} follow the header"
        )


# ---- writing -------------------------------------------------------------------------------------------------


def arranged(tensors: Iterable[tuple[str, str, tuple[int, ...]]]) -> tuple[StoredTensor, ...]:
    """Tensors, each a name, a dtype and dimensions, at the offsets that the format's library gives them.

    >>> tensors = arranged([("b", "BF16", (3,)), ("a", "BF16", (1,)), ("c", "F32", (2,))])
    >>> [f"{each.name} {each.begin}" for each in tensors]
    ['c 0', 'a 8', 'b 10']
    """
    end, stored = 0, []
    for name, dtype, dimensions in sorted(tensors, key=lambda each: (-_NUMBERS[each[1]], each[0])):
        nbytes = tensor_bytes(dtype, dimensions)
        assert nbytes is not None
        stored.append(StoredTensor(name, dtype, dimensions, end, end + nbytes))
        end += nbytes
    return tuple(stored)


def header_text(metadata: Mapping[str, str] | None, tensors: Iterable[StoredTensor]) -> bytes:
    """The header with its length before it, byte for byte as the format's library writes it.

    >>> header_text(None, arranged([("a", "U8", (2,))]))[8:]
    b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   '
    """
    entries: dict[str, Any] = {} if metadata is None else {METADATA: dict(metadata)}
    for each in tensors:
        entries[each.name] = {
            "dtype": each.dtype,
            "shape": list(each.dimensions),
            "data_offsets": [each.begin, each.end],
        }
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


# ---- notes -------------------------------------------------------------------------------------------------------


def is_note_key(key: str) -> bool:
    """True for a key of the metadata that says something of a tensor with a note."""
    return key.startswith((NOTE, PLAIN))


def notes_of(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The notes of a file by the names of their tensors."""
    return {key.removeprefix(NOTE): text for key, text in (metadata or {}).items() if key.startswith(NOTE)}


def plain_sides_of(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """What a file says of plain tensors, by the names of the packed ones."""
    return {key.removeprefix(PLAIN): text for key, text in (metadata or {}).items() if key.startswith(PLAIN)}


def metadata_with(
    metadata: Mapping[str, str] | None, more: Mapping[str, str], notes: Mapping[str, str], sides: Mapping[str, str]
) -> dict[str, str] | None:
    """The metadata of a new file: all that the old one had, what rules add, and what is said of its own tensors.

    notes   of those that are packed
    sides   what their plain tensors are
    """
    kept = {key: text for key, text in (metadata or {}).items() if not is_note_key(key)}
    new = kept | dict(more) | {NOTE + name: text for name, text in notes.items()}
    new |= {PLAIN + name: text for name, text in sides.items()}
    return new if new or metadata is not None else None
