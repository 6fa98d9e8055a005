"""The header of safetensors: as the format's library writes it, and nothing trusted that a file says."""

import json

import numpy as np
import pytest

from gpulayout.files.checkpoints import header
from gpulayout.files.checkpoints.header import DTYPES, arranged, header_text, read_contents
from gpulayout.files.errors import FileError
from tests.support.effort import ALL
from tests.support.model_files import contents, entry, judged, model, mutants, raw

VALID = model(
    {"a.weight": ("F32", (2, 3)), "b": ("BF16", (4,)), "é": ("U8", ()), "empty": ("I64", (0, 5)), "f4": ("F4", (2, 2))},
    {"format": "pt", "note": 'a "b" \\ \n'},
)


def read(tmp_path, data):
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    return contents(path)


def refused(tmp_path, data):
    """The message about a file, without its name."""
    with pytest.raises(FileError) as caught:
        read(tmp_path, data)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 800 and text.startswith(str(tmp_path / "m.safetensors"))
    return text.removeprefix(str(tmp_path / "m.safetensors")).removeprefix(": ")


def test_the_library_and_this_one_read_the_same(tmp_path):
    judge = pytest.importorskip("safetensors")
    assert judge and read(tmp_path, VALID) == judged(VALID)


@pytest.mark.parametrize("seed", range(60))
def test_headers_are_written_byte_for_byte_as_the_library_writes_them(seed):
    safetensors = pytest.importorskip("safetensors")
    random = np.random.default_rng(seed)
    names = [name for name, each in DTYPES.items() if each is not None]
    given, keep = {}, []
    for number in range(int(random.integers(1, 9))):
        dtype = names[int(random.integers(0, len(names)))]
        shape = tuple(int(size) for size in random.integers(0, 4, int(random.integers(0, 4))))
        if dtype == "F4" and np.prod(shape) % 2:
            shape = (*shape, 2)
        name = f"{'abxé'[int(random.integers(0, 4))]}.{int(random.integers(0, 100))}{chr(10) * (number == 3)}"
        given[name] = (dtype, shape)
    metadata = None if seed % 3 else {"format": "pt"}
    places = arranged((name, *each) for name, each in given.items())
    specs = {}
    for each in places:
        memory = np.zeros(max(each.nbytes, 1), np.uint8)
        keep.append(memory)
        shape = [*each.dimensions[:-1], each.dimensions[-1] // 2] if each.dtype == "F4" else list(each.dimensions)
        if each.dtype == "F4" and each.dimensions[-1] % 2:
            pytest.skip("the library takes F4 in pairs of the last dimension")
        kind = {"BOOL": "bool", "F4": "float4_e2m1fn_x2", "BF16": "bfloat16"}.get(
            each.dtype, DTYPES[each.dtype].dtype.name
        )
        specs[each.name] = safetensors.TensorSpec(
            dtype=kind, shape=shape, data_ptr=memory.ctypes.data, data_len=each.nbytes
        )
    assert safetensors.serialize(specs, metadata) == header_text(metadata, places) + bytes(places[-1].end)


def test_types_are_in_the_order_of_the_library(tmp_path):
    """The library names its types in its error for an unknown one."""
    safetensors = pytest.importorskip("safetensors")
    with pytest.raises(safetensors.SafetensorError) as caught:
        safetensors.deserialize(raw({"x": entry("X", [1], 0, 1)}, b"0"))
    found = str(caught.value).partition("expected one of ")[2].split(" at line")[0]
    assert [each.strip(" `") for each in found.split(",")] == list(DTYPES)


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_headers_are_read_as_the_library_reads_them_or_refused_in_one_line(tmp_path, seed):
    safetensors = pytest.importorskip("safetensors")
    accepted = 0
    for data in mutants(VALID, 50_000 if ALL else 1_000, seed):
        try:
            found = read(tmp_path, data)
        except FileError as error:
            assert "\n" not in str(error) and len(str(error)) < 800
            continue
        accepted += 1
        try:
            assert found == judged(data)
        except safetensors.SafetensorError as error:
            pytest.fail(f"the library refuses {data!r}: {error}")
    assert accepted > 10


def test_what_the_library_reads_is_refused_only_for_a_reason(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    reasons = (
        "twice",
        "half a character",
        "sizes of 0 or more",
        "not JSON",
        "no dtype, shape and data_offsets",
        "2^63",
    )
    for data in mutants(VALID, 20_000 if ALL else 500, 3):
        try:
            judged(data)
        except safetensors.SafetensorError:
            continue
        try:
            read(tmp_path, data)
        except FileError as error:
            assert any(reason in str(error) for reason in reasons), (str(error), data)


def headers_around(text):
    """A header with all kinds of bytes before and behind it, in other encodings, and with other words of JSON."""
    for before in (b"", b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe", b" ", b"\n", b"\t", b"\0", b"\xc2\xa0", b"x"):
        for behind in (
            b"",
            b" ",
            b"\n",
            b"\t\r ",
            b"\0",
            b"\0\0 ",
            b"\x0b",
            b"\x0c",
            b"\xc2\xa0",
            b"\xef\xbb\xbf",
            b"x",
        ):
            yield before + text + behind
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig"):
        yield text.decode().encode(encoding)
    for word in (
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"-0",
        b"-1",
        b"1.0",
        b"1e0",
        b"9" * 5000,
        b"null",
        b"true",
        b"'a'",
    ):
        yield text[:-2] + b',"more":' + word + b"}}"
        yield text.replace(b"[0,2]", b"[" + word + b",2]")
        yield b'{"__metadata__":' + word + b"," + text[1:]


def test_no_header_is_read_that_the_library_refuses(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    text = json.dumps({"a": A}, separators=(",", ":")).encode()
    both = 0
    for header_bytes in headers_around(text):
        data = raw(header_bytes, b"00")
        try:
            found = read(tmp_path, data)
        except FileError:
            continue
        try:
            assert found == judged(data)
        except safetensors.SafetensorError as error:
            pytest.fail(f"the library refuses {header_bytes!r}: {error}")
        both += 1
    assert both >= 16  # blanks and new lines around it


A = entry("U8", [2], 0, 2)
HOSTILE = [
    (b"", "not a safetensors file: its first 8 bytes say that the header has 0 bytes, but the file has 0 bytes"),
    (b"\1\0\0", "not a safetensors file"),
    (raw(b"", b""), "the header has 0 bytes"),
    (raw(b"{}", length=3), "the header has 3 bytes, but the file has 10 bytes"),
    (raw(b"{}", length=2**63), "has 9223372036854775808 bytes, but the file has 10 bytes, and 100000000 is the limit"),
    (raw(b"[]"), "its header is a list, not a JSON object"),
    (raw(b"{]"), "its header is not JSON: "),
    (raw(b"\xff{}"), "its header is not JSON: "),
    (raw(b"[" * 100_000 + b"]" * 100_000), "its header is not JSON: it is nested too deeply"),
    (raw(b'{"a":' + b"1" * 5000 + b"}"), "its header is not JSON: "),
    (raw(b'{"a":1,"a":1}'), "its header has the name 'a' twice"),
    (raw(b'{"a":{"dtype":"U8","dtype":"I8"}}'), "its header has the name 'dtype' twice"),
    (raw({"a": 1}), "tensor 'a': its entry is a number, not an object with dtype, shape and data_offsets"),
    (raw({"a": {"shape": 1}}), "tensor 'a': its entry has no dtype and no data_offsets"),
    (raw({"a": {**A, "dtype": "U3"}}), "tensor 'a': dtype 'U3' is not one of BOOL, F4,"),
    (raw({"a": {**A, "dtype": ["U8"]}}), "tensor 'a': dtype ['U8'] is not one of"),
    (raw({"a": {**A, "shape": [-2]}}), "tensor 'a': shape [-2] is not a list of at most 64 sizes of 0 or more"),
    (raw({"a": {**A, "shape": [2.0]}}), "shape [2.0] is not a list"),
    (raw({"a": {**A, "shape": [True, 2]}}), "shape [True, 2] is not a list"),
    (raw({"a": {**A, "shape": [1] * 65}}), "is not a list of at most 64 sizes"),
    (raw({"a": {**A, "shape": [2**63]}}), "is not a list of at most 64 sizes"),
    (raw({"a": {**A, "shape": [2**32, 2**31]}}), "U8 of shape (4294967296, 2147483648) needs 2^63 bytes or more"),
    (raw({"a": {**A, "shape": [2**62, 4, 0]}}), "needs 2^63 bytes or more"),
    (raw({"a": entry("F4", [3], 0, 2)}, b"00"), "F4 of shape (3,) does not end with a full byte"),
    (raw({"a": {**A, "data_offsets": [2, 0]}}), "data_offsets [2, 0] are not a beginning and an end"),
    (raw({"a": {**A, "data_offsets": [0, 2, 4]}}), "data_offsets [0, 2, 4] are not a beginning and an end"),
    (raw({"a": {**A, "data_offsets": [0, 3]}}), "data_offsets [0, 3] hold 3 bytes, but U8 of shape (2,) needs 2"),
    (raw({"a": entry("U8", [2], 1, 3)}, b"000"), "tensor 'a' begins at byte 1 and leaves a hole behind the header"),
    (raw({"a": A, "b": entry("U8", [2], 1, 3)}, b"00"), "'b' begins at byte 1 and overlaps tensor 'a', which ends"),
    (raw({"a": A, "b": entry("U8", [1], 3, 4)}, b"0000"), "'b' begins at byte 3 and leaves a hole behind tensor 'a'"),
    (raw({"a": A}, b"0"), "the file is cut off: its tensors take 2 bytes, and 1 follow the header"),
    (raw({"a": A}, b"000"), "bytes that belong to no tensor: its tensors take 2 bytes, and 3 follow the header"),
    (raw({"__metadata__": [], "a": A}, b"00"), "__metadata__ is a list, not an object of texts"),
    (raw({"__metadata__": {"k": 1}, "a": A}, b"00"), "__metadata__ has a number under 'k', not text"),
    (raw(b'{"\\ud800":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"00"), "text with half a character"),
]  # fmt: skip


@pytest.mark.parametrize("data, message", HOSTILE, ids=lambda value: value[:40] if isinstance(value, str) else "")
def test_hostile_headers_are_refused(tmp_path, data, message):
    assert message in refused(tmp_path, data)


def test_a_header_that_would_take_much_memory_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(json, "loads", None)
    for text in (b"[" * 3_000_000, b'"' * 5_000_000, b"{" * 1_000_000, "ü".encode() * 20_000_000, b" " * 80_000_000):
        assert "could take" in refused(tmp_path, raw(text))


def test_the_estimate_of_memory_is_above_what_parsing_takes():
    import tracemalloc

    texts = [b"[" + b"[]," * 50_000 + b"0]", b"[" + b"{}," * 50_000 + b"0]", b"[" + b'"ab",' * 50_000 + b"0]"]
    texts += [b"[" + b"1.5," * 50_000 + b"0]", ('["' + "ü" * 100_000 + '"]').encode()]
    texts += [json.dumps({f"layer.{n}.weight": entry("F32", [3, 4], n, n + 48) for n in range(5000)}).encode()]
    for text in texts:
        tracemalloc.start()
        found = header.parsed_json("m", text, "its header")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found and most <= header.parsed_bytes(text), (most, header.parsed_bytes(text), text[:20])


def test_metadata_of_null_and_none_are_kept_apart_from_an_empty_one(tmp_path):
    for given, found in ((None, None), ({}, {}), ({"a": "b"}, {"a": "b"})):
        path = tmp_path / "m.safetensors"
        path.write_bytes(header_text(given, ()))
        with open(path, "rb") as stream:
            assert read_contents("m", stream).metadata == found
