"""Safetensors files for tests, and what their library and this one find in them."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpulayout.files.checkpoints.header import DTYPES, read_contents

# For modules whose tests all read results by the format's library: each test is left out, not the module.
NEEDS_SAFETENSORS = pytest.mark.skipif(
    importlib.util.find_spec("safetensors") is None, reason="could not import 'safetensors'"
)
SIZES = {name: 0.5 if name == "F4" else 0.75 if type is None else type.itemsize for name, type in DTYPES.items()}


def raw(header: object, elements: bytes = b"", *, length: int | None = None) -> bytes:
    """A file with a header that may be wrong: text, bytes, or a value that becomes JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + elements


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    """One tensor of a header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def model(tensors: dict[str, tuple[str, tuple[int, ...]]], metadata: dict[str, str] | None, seed: int = 0) -> bytes:
    """A file with tensors of random bytes, in the order given, which need not be the library's."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    place = 0
    for name, (dtype, shape) in tensors.items():
        size = int(np.prod(shape, dtype=np.int64) * SIZES[dtype])
        header[name] = entry(dtype, list(shape), place, place + size)
        place += size
    elements = np.random.default_rng(seed).integers(0, 256, place, np.uint8)
    if any(dtype == "BOOL" for dtype, _ in tensors.values()):
        elements &= 1
    return raw(header, elements.tobytes())


def contents(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Type, shape and bytes of every tensor, as this library reads them."""
    with open(path, "rb") as stream:
        found = read_contents(str(path), stream)
        data = path.read_bytes()[found.start :]
    return {each.name: (each.dtype, each.dimensions, data[each.begin : each.end]) for each in found.tensors}


def judged(data: bytes) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The same as the format's own library reads them."""
    import safetensors

    found = safetensors.deserialize(data)
    return {name: (each["dtype"], tuple(each["shape"]), bytes(each["data"])) for name, each in found}


def mutants(valid: bytes, count: int, seed: int) -> Iterator[bytes]:
    """A valid file with faults: bytes of its header that change, go or come, and lengths that are wrong."""
    random = np.random.default_rng(seed)
    length = int.from_bytes(valid[:8], "little")
    words = [
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"-1",
        b"0",
        b"1e9",
        b"9" * 30,
        b"null",
        b"true",
        b"\\ud800",
        b"\xff",
    ]
    words += [
        b'"U8"',
        b'"F32"',
        b'"BF16"',
        b'"F4"',
        b'"shape"',
        b'"dtype"',
        b'"data_offsets"',
        b'"__metadata__"',
        b"1" * 5000,
    ]
    words += [str(2**power + more).encode() for power in (31, 32, 53, 63, 64) for more in (-1, 0)]
    for _ in range(count):
        text = bytearray(valid[8 : 8 + length])
        for _ in range(int(random.integers(1, 4))):
            place, kind = int(random.integers(0, len(text) + 1)), int(random.integers(0, 5))
            if kind == 0:
                text[place : place + 1] = bytes([random.integers(0, 256)])
            elif kind == 1:
                text[place:place] = words[int(random.integers(0, len(words)))]
            elif kind == 2:
                del text[place : place + int(random.integers(1, 12))]
            elif kind == 3:
                end = place + int(random.integers(1, 60))
                text[end:end] = text[place:end]
            else:
                digits = [at for at, each in enumerate(text) if 48 <= each < 58]
                if digits:
                    text[digits[int(random.integers(0, len(digits)))]] = int(random.integers(48, 58))
        wrong = int(random.integers(0, 12))
        size = len(text) if wrong else (0, 1, 7, len(text) + 1, 2**31, 2**63, 2**64 - 1)[int(random.integers(0, 7))]
        rest = valid[8 + length :]
        yield raw(bytes(text), rest[: int(random.integers(0, len(rest) + 1))] if wrong == 1 else rest, length=size)
