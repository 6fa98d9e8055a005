"""The header of a GGUF file, which llama.cpp writes: read, checked against the file's size, and told as tensors.

    4 bytes       GGUF
    24 bytes      the version, the number of tensors, the number of keys, little-endian
    keys          a name, a type and a value each
    tensors       a name, sizes from the most minor one on, a type and an offset each
    the rest      the elements, every tensor at a multiple of `general.alignment`

Types such as Q8_0 are blocks, which have a scale before the codes of 32 elements.  Codes and scales become tensors that
take turns in the same bytes:

    up.weight  Q8_0[2,64]   up.weight        I8[2,64]   32 of every 34 bytes, from byte 2 on
                            up.weight_scale  F16[2,2]    2 of every 34 bytes

A file may come from anywhere.  So nothing is trusted, and nothing is kept of what may be long, such as the tokenizer.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from gpulayout.files.checkpoints.header import (
    DTYPES,
    MOST_BYTES,
    MOST_HEADER,
    NOTE,
    ByteBlocks,
    Contents,
    StoredTensor,
    tensor_text,
)
from gpulayout.files.errors import FileError
from gpulayout.layout.checks import clipped, counted, shown, value_text

GGUF_ENDING = ".gguf"
METADATA_PREFIX = "gguf."  # then a key: the metadata of the new file
MOST_ENTRIES = 1 << 17  # tensors, and keys
MOST_TEXT = 200  # characters of a text that becomes metadata
MOST_RANK = 4  # ggml's limit
USUAL_ALIGNMENT = 32
CHUNK = 1 << 20  # bytes that are read at a time
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE | re.DOTALL)

# Types of values by number, as `struct` has them.
_VALUES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_U32, _TEXT, _ARRAY = 4, 8, 9


class GgufType(NamedTuple):
    """A type of elements: its name, and the elements and the bytes of a block."""

    name: str
    elements: int = 1
    nbytes: int = 0


class BlockPart(NamedTuple):
    """A tensor that is a part of each block of another one.

    after      the name of the whole in its own name
    dtype      of its elements
    elements   how many are in a block, as its header says it
    begin      the first of its bytes in a block
    nbytes     of its bytes there
    entry      of the catalogue that says the order of the elements; None for plain arrays
    """

    after: str
    dtype: str
    elements: int
    begin: int
    nbytes: int
    entry: str | None = None


TYPES: Mapping[int, GgufType] = {
    number: GgufType(*facts)
    for number, facts in {
        0: ("F32", 1, 4),
        1: ("F16", 1, 2),
        2: ("Q4_0", 32, 18),
        3: ("Q4_1", 32, 20),
        6: ("Q5_0", 32, 22),
        7: ("Q5_1", 32, 24),
        8: ("Q8_0", 32, 34),
        9: ("Q8_1", 32, 40),
        10: ("Q2_K", 256, 84),
        11: ("Q3_K", 256, 110),
        12: ("Q4_K", 256, 144),
        13: ("Q5_K", 256, 176),
        14: ("Q6_K", 256, 210),
        15: ("Q8_K", 256, 292),
        16: ("IQ2_XXS", 256, 66),
        17: ("IQ2_XS", 256, 74),
        18: ("IQ3_XXS", 256, 98),
        19: ("IQ1_S", 256, 50),
        20: ("IQ4_NL", 32, 18),
        21: ("IQ3_S", 256, 110),
        22: ("IQ2_S", 256, 82),
        23: ("IQ4_XS", 256, 136),
        24: ("I8", 1, 1),
        25: ("I16", 1, 2),
        26: ("I32", 1, 4),
        27: ("I64", 1, 8),
        28: ("F64", 1, 8),
        29: ("IQ1_M", 256, 56),
        30: ("BF16", 1, 2),
        34: ("TQ1_0", 256, 54),
        35: ("TQ2_0", 256, 66),
        39: ("MXFP4", 32, 17),
        40: ("NVFP4", 64, 36),
        41: ("Q1_0", 128, 18),
    }.items()
}
_SCALE = BlockPart("_scale", "F16", 1, 0, 2)
PARTS: Mapping[str, tuple[BlockPart, ...]] = {
    "Q8_0": (_SCALE, BlockPart("", "I8", 32, 2, 32)),
    "Q4_0": (_SCALE, BlockPart("", "U8", 16, 2, 16, "gguf:q4_0")),
    "Q4_1": (
        BlockPart("_step", "F16", 1, 0, 2),
        BlockPart("_min", "F16", 1, 2, 2),
        BlockPart("", "U8", 16, 4, 16, "gguf:q4_0"),
    ),
    "MXFP4": (BlockPart("_scale", "F8_E8M0", 1, 0, 1), BlockPart("", "U8", 16, 1, 16, "gguf:mxfp4")),
}


@dataclass(frozen=True)
class GgufContents(Contents):
    """What a GGUF file holds.

    part, parts   which of how many files of one model it is, from 0 on
    keys          numbers, booleans and short texts of the header by name
    """

    part: int = 0
    parts: int = 1
    keys: Mapping[str, int | float | bool | str] = field(default_factory=dict)


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """True for the name of a GGUF file."""
    return os.fspath(path).lower().endswith(GGUF_ENDING)


# ---- a model in several files ----------------------------------------------------------------------------------------


def gguf_files(path: Path) -> list[Path]:
    """The files of a model: itself, or all parts of which it is the first; `FileError` for another part.

    >>> gguf_files(Path("llama.gguf"))
    [PosixPath('llama.gguf')]
    """
    found = _PART.fullmatch(path.name)
    if found is None:
        return [path]
    stem, number, count = found[1], int(found[2]), int(found[3])
    first = path.with_name(f"{stem}-00001-of-{found[3]}{found[4]}")
    if number != 1 or not count:
        raise FileError(f"{path}: this is part {number} of {count}: write the first one, {first.name}, to read all")
    parts = (path.with_name(f"{stem}-{each:05}-of-{found[3]}{found[4]}") for each in range(1, count + 1))
    files = [path, *itertools.takewhile(Path.exists, itertools.islice(parts, 1, None))]
    if len(files) < count:
        raise FileError(f"{path}: this is part 1 of {count}, and part {len(files) + 1} is not beside it")
    return files


def is_later_part(name: str) -> bool:
    """True for the name of a part of a model in several files that is not the first one.

    >>> [is_later_part(name) for name in ("m.gguf", "m-00001-of-00002.gguf", "m-00002-of-00002.gguf")]
    [False, False, True]
    """
    found = _PART.fullmatch(name)
    return found is not None and int(found[2]) != 1


def check_parts(files: Sequence[tuple[Path, Contents]]) -> None:
    """`FileError` unless the files of one model are what their headers say, and have each tensor once."""
    shard_of: dict[str, Path] = {}
    for number, (path, contents) in enumerate(files):
        if not isinstance(contents, GgufContents):
            continue
        if (contents.part, contents.parts) != (number, len(files)):
            raise FileError(
                f"{path}: its header says that it is part {contents.part + 1} of {contents.parts}, and its name part "
                f"{number + 1} of {len(files)}: parts are called NAME-00001-of-00002.gguf"
            )
        for each in contents.tensors if len(files) > 1 else ():
            if each.name in shard_of:
                raise FileError(f"{path}: {tensor_text(each.name)} is in {shard_of[each.name].name} too")
            shard_of[each.name] = path


# ---- reading ---------------------------------------------------------------------------------------------------------


class _HeaderBytes:
    """The bytes of a header, one after the other; `FileError` where the file ends before it does."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self.name, self._stream = name, stream
        self.size = os.fstat(stream.fileno()).st_size
        self._chunk, self._at, self._begin = b"", 0, stream.tell()

    @property
    def position(self) -> int:
        """Bytes before the next one."""
        return self._begin + self._at

    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self._at + count
        if end > len(self._chunk):
            self._check(count)
            self._begin, rest = self.position, self._chunk[self._at :]
            self._chunk = rest + self._stream.read(max(count - len(rest), CHUNK))
            self._at, end = 0, count
            if len(self._chunk) < count:
                raise FileError(f"{self.name}: the file has become shorter while it was read")
        taken = self._chunk[self._at : end]
        self._at = end
        return taken

    def skip(self, count: int) -> None:
        """Leave the next bytes out."""
        if self._at + count <= len(self._chunk):
            self._at += count
            return
        self._check(count)
        self._begin, self._at, self._chunk = self.position + count, 0, b""
        self._stream.seek(self._begin)

    def number(self, code: str) -> int:
        """The next whole number, of a type of `struct`."""
        value: int = struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]
        return value

    def text(self, what: str) -> str:
        """The next text, which must be UTF-8."""
        try:
            return self.take(self.number("Q")).decode()
        except UnicodeDecodeError as error:
            raise FileError(f"{self.name}: its header has {what} that is not UTF-8: {error.reason}") from None

    def counted(self, what: str, least: int) -> int:
        """The next number, of things of so many bytes at least, as many as the file and the limit have room for."""
        count = self.number("Q")
        if count > MOST_ENTRIES:
            raise FileError(f"{self.name}: its header says {count} {what}, and {MOST_ENTRIES} is the limit")
        self._check(count * least)
        return count

    def skip_array(self) -> None:
        """Leave an array out: its type, its length and its values."""
        kind, count = self.number("I"), self.number("Q")
        if kind in _VALUES:
            return self.skip(count * struct.calcsize(_VALUES[kind]))
        if kind != _TEXT:
            what = "arrays" if kind == _ARRAY else f"values of type {kind}, which is unknown"
            raise FileError(f"{self.name}: its header has an array of {what}")
        self._check(8 * count)
        while count:
            count -= self._skip_texts(count)

    def _skip_texts(self, most: int) -> int:
        """Leave out some texts, at least one, and say how many.  A tokenizer has hundreds of thousands."""
        number_at, chunk, at, done = struct.Struct("<Q").unpack_from, self._chunk, self._at, 0
        last = len(chunk) - 8
        while done < most and at <= last:
            size = number_at(chunk, at)[0]
            if at + 8 + size > len(chunk):
                break
            at += 8 + size
            done += 1
        self._at = at
        if not done:
            self.skip(self.number("Q"))
        return done or 1

    def _check(self, count: int) -> None:
        end = self.position + count
        if end > self.size:
            raise FileError(
                f"{self.name}: the file is cut off, or its header is wrong: at byte {self.position} the header says "
                f"{counted(count, 'byte')} more, and the file has {counted(self.size, 'byte')}"
            )
        if end > MOST_HEADER:
            raise FileError(f"{self.name}: its header has more than {MOST_HEADER} bytes")


class _Key(NamedTuple):
    """A key's value: its type and itself."""

    kind: int
    value: int | float | bool | str


class _TensorInfo(NamedTuple):
    """A tensor as the header has it, but its sizes are the most major first."""

    name: str
    dimensions: tuple[int, ...]
    kind: GgufType
    begin: int
    end: int


def read_gguf(name: str, stream: BinaryIO) -> GgufContents:
    """The checked header of an open file; `FileError` begins with `name` and says what is wrong."""
    reader = _HeaderBytes(name, stream)
    count, keys = _begun(reader)
    values = dict(_keys(reader, keys))
    alignment = _alignment(name, values)
    found = [_tensor(reader, alignment) for _ in range(count)]
    start = -(-reader.position // alignment) * alignment
    _check_places(name, found, reader.size - start)
    _check_names(name, found)
    tensors = [part for each in found for part in _told(each)]
    notes = {
        NOTE + each.name: f"{part.entry}[{','.join(map(str, each.dimensions))}]"
        for each in found
        for part in PARTS.get(each.kind.name, ())
        if part.entry is not None
    }
    tensors.sort(key=lambda each: (each.begin, each.end, each.name))
    part, parts = (values.get(f"split.{key}", _Key(_U32, usual)).value for key, usual in (("no", 0), ("count", 1)))
    if not (isinstance(part, int) and isinstance(parts, int)):
        raise FileError(f"{name}: split.no and split.count are {value_text(part)} and {value_text(parts)}, no numbers")
    plain = {key: value for key, (_, value) in values.items()}
    return GgufContents(_metadata(values) | notes, tuple(tensors), start, part, parts or 1, plain)


def _begun(reader: _HeaderBytes) -> tuple[int, int]:
    """The numbers of tensors and of keys; `FileError` for other files, and for versions that nobody writes any more."""
    name = reader.name
    beginning = reader.take(4) if reader.size >= 4 else b""
    if beginning != b"GGUF":
        raise FileError(f"{name}: not a GGUF file: it begins with {beginning!r}")
    version = reader.number("I")
    if version and not version & 0xFFFF:
        raise FileError(f"{name}: a big-endian GGUF file: gguf_convert_endian.py of the package gguf turns it")
    if version not in (2, 3):
        raise FileError(f"{name}: version {version} of GGUF: gpulayout reads 2 and 3")
    return reader.counted("tensors", 24), reader.counted("keys", 13)


def _keys(reader: _HeaderBytes, count: int) -> Iterator[tuple[str, _Key]]:
    """The keys whose values are no arrays; a text that is not UTF-8 is left out."""
    seen = set()
    for _ in range(count):
        key = reader.text("a key")
        if key in seen:
            raise FileError(f"{reader.name}: its header has the key {value_text(clipped(key, 80))} twice")
        seen.add(key)
        kind = reader.number("I")
        if kind == _ARRAY:
            reader.skip_array()
        elif kind == _TEXT:
            text = reader.take(reader.number("Q"))
            if len(text) <= 4 * MOST_TEXT:
                yield key, _Key(kind, text.decode(errors="replace"))
        elif kind in _VALUES:
            yield key, _Key(kind, reader.number(_VALUES[kind]))
        else:
            raise FileError(f"{reader.name}: the key {value_text(clipped(key, 80))} has type {kind}, which is unknown")


def _alignment(name: str, values: Mapping[str, _Key]) -> int:
    kind, alignment = values.get("general.alignment", _Key(_U32, USUAL_ALIGNMENT))
    if kind != _U32 or not isinstance(alignment, int) or alignment.bit_count() != 1:
        raise FileError(f"{name}: general.alignment {value_text(alignment)} is not a power of two of type uint32")
    return alignment


def _tensor(reader: _HeaderBytes, alignment: int) -> _TensorInfo:
    """One tensor, each field checked by itself."""
    name = reader.text("the name of a tensor")
    who = f"{reader.name}: {tensor_text(name)}"
    rank = reader.number("I")
    if rank > MOST_RANK:
        raise FileError(f"{who} has {rank} dimensions, and {MOST_RANK} are the most of GGUF")
    dimensions = tuple(reader.number("Q") for _ in range(rank))[::-1]
    number, begin = reader.number("I"), reader.number("Q")
    kind = TYPES.get(number)
    if kind is None:
        raise FileError(f"{who} has type {number}, which is unknown: {', '.join(each.name for each in TYPES.values())}")
    count = math.prod(size for size in dimensions if size)
    if max(count * kind.nbytes, begin) >= MOST_BYTES:
        raise FileError(f"{who}: {kind.name} of shape {shown(dimensions)} at byte {begin} needs 2^63 bytes or more")
    if (dimensions[-1] if dimensions else 1) % kind.elements:
        raise FileError(
            f"{who}: {kind.name} of shape {shown(dimensions)}: its rows are no whole blocks of {kind.elements} elements"
        )
    if begin % alignment:
        raise FileError(f"{who} begins at byte {begin}, which is no multiple of {alignment}, the alignment of the file")
    end = begin + math.prod(dimensions) // kind.elements * kind.nbytes
    return _TensorInfo(name, dimensions, kind, begin, end)


def _check_places(name: str, found: Iterable[_TensorInfo], room: int) -> None:
    """Check that tensors do not overlap, and end before the file does.  Holes are allowed: they align."""
    end, before = 0, "the header"
    for each in sorted(found, key=lambda each: (each.begin, each.end)):
        who = tensor_text(each.name)
        if each.begin < end:
            raise FileError(
                f"{name}: {who} begins at byte {each.begin} and overlaps {before}, which ends at byte {end}"
            )
        end, before = each.end, who
        if end > max(room, 0):
            raise FileError(
                f"{name}: the file is cut off: {who} ends at byte {end}, and {max(room, 0)} follow the header"
            )


def _told(found: _TensorInfo) -> Iterator[StoredTensor]:
    """A tensor of the file as tensors: one, or the parts of its blocks."""
    name, dimensions, kind, begin, end = found
    if kind.name not in PARTS:
        yield StoredTensor(name, kind.name, dimensions, begin, end)
        return
    *others, last = dimensions
    for part in PARTS[kind.name]:
        first = begin + part.begin
        last_end = end - kind.nbytes + part.begin + part.nbytes if end > begin else first
        own = (*others, last // kind.elements * part.elements)
        yield StoredTensor(name + part.after, part.dtype, own, first, last_end, ByteBlocks(part.nbytes, kind.nbytes))


def _check_names(file: str, found: Sequence[_TensorInfo]) -> None:
    """Check that no two tensors have one name, nor a tensor that of a part of another one."""
    seen: set[str] = set()
    for each in found:
        if each.name in seen:
            raise FileError(f"{file}: {tensor_text(each.name)} is in the file twice")
        seen.add(each.name)
    for each in found:
        for part in PARTS.get(each.kind.name, ()):
            if part.after and each.name + part.after in seen:
                raise FileError(
                    f"{file}: {tensor_text(each.name + part.after)} is in the file, and a part of "
                    f"{tensor_text(each.name)}, {each.kind.name}, would be called so too"
                )


def _metadata(values: Mapping[str, _Key]) -> dict[str, str]:
    """What the new file keeps of the keys: numbers, booleans and short texts, without the tokenizer's."""
    kept = {}
    for key, (kind, value) in values.items():
        if key.startswith(("tokenizer.", "split.")) or (isinstance(value, str) and len(value) > MOST_TEXT):
            continue
        kept[METADATA_PREFIX + key] = str(np.float32(value)) if _VALUES.get(kind) == "f" else str(value)
    return kept


def why_opaque(tensor: StoredTensor) -> str | None:
    """Why the elements of a tensor cannot be read, and what to write; None where they can.

    >>> why_opaque(StoredTensor("up.weight", "F32", (2,), 0, 8))
    """
    if tensor.dtype in DTYPES:
        return None
    return (
        f"{tensor_text(tensor.name)} is {tensor}, blocks that gpulayout cannot read: leave it out, "
        f"'{re.escape(clipped(tensor.name, 80))}=drop', or let gguf make arrays of all: safetensors.numpy.save_file("
        "{t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(FILE).tensors}, "
        "'model.safetensors')"
    )
