"""Headers of GGUF files, which may come from anywhere: each that is wrong is one error that says what is wrong."""

import io
import json
import os
import random
import re
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.files.checkpoints import gguf as gguf_header
from gpulayout.files.checkpoints.gguf import TYPES, read_gguf
from gpulayout.files.errors import FileError
from tests.support.command_line import failure, run
from tests.support.gguf_files import NUMBERS, gguf_bytes, gguf_model, info, key, text, u32, words

HUGE = (1 << 63) - 32
FOUR = [info("a", [4], "F32", 0)]
WRONG = {
    "empty": (b"", "not a GGUF file: it begins with b''"),
    "three bytes": (b"GGU", "not a GGUF file"),
    "magic": (gguf_bytes(FOUR, data=bytes(16), magic=b"GGML"), "not a GGUF file: it begins with b'GGML'"),
    "magic alone": (b"GGUF", "at byte 4 the header says 4 bytes more, and the file has 4 bytes"),
    "big-endian": (gguf_bytes(version=3 << 24), "a big-endian GGUF file"),
    "version 0": (gguf_bytes(version=0), "version 0 of GGUF: gpulayout reads 2 and 3"),
    "version 1": (gguf_bytes(version=1), "version 1 of GGUF"),
    "version 4": (gguf_bytes(version=4), "version 4 of GGUF"),
    "no numbers": (b"GGUF" + struct.pack("<IQ", 3, 0), "at byte 16 the header says 8 bytes more, and the file has 16"),
    "2^64 tensors": (gguf_bytes(count=(1 << 64) - 1), "says 18446744073709551615 tensors, and 131072 is the limit"),
    "too many tensors": (
        gguf_bytes(count=1 << 18, data=bytes(24 << 18)),
        "says 262144 tensors, and 131072 is the limit",
    ),
    "2^64 keys": (gguf_bytes(key_count=(1 << 64) - 1), "says 18446744073709551615 keys, and 131072 is"),
    "one tensor less": (gguf_bytes(FOUR, count=2), "at byte [0-9]+ the header says 24 bytes more|has type|is cut off"),
    "long key": (
        gguf_bytes(keys=[struct.pack("<Q", 1 << 62) + bytes(20)]),
        "the header says 4611686018427387904 bytes",
    ),
    "key is no text": (gguf_bytes(keys=[key(b"\xff", 4, bytes(4))]), "a key that is not UTF-8"),
    "key twice": (gguf_bytes(keys=[u32("a", 1), u32("a", 1)]), "has the key 'a' twice"),
    "type of a value": (gguf_bytes(keys=[key("a", 13, bytes(8))]), "the key 'a' has type 13, which is unknown"),
    "long text": (gguf_bytes(keys=[key("a", 8, struct.pack("<Q", HUGE))]), f"the header says {HUGE} bytes more"),
    "long array": (gguf_bytes(keys=[key("a", 9, struct.pack("<IQ", 0, HUGE))]), f"the header says {HUGE} bytes more"),
    "longer array": (gguf_bytes(keys=[key("a", 9, struct.pack("<IQ", 12, (1 << 64) - 1))]), "bytes more"),
    "array of texts": (gguf_bytes(keys=[key("a", 9, struct.pack("<IQ", 8, HUGE))]), "bytes more"),
    "a text of an array": (gguf_bytes(keys=[key("a", 9, struct.pack("<IQQ", 8, 1, HUGE))]), f"says {HUGE} bytes more"),
    "array of arrays": (gguf_bytes(keys=[key("a", 9, struct.pack("<IQ", 9, 1) + bytes(24))]), "an array of arrays"),
    "type of an array": (gguf_bytes(keys=[key("a", 9, struct.pack("<IQ", 99, 1))]), "an array of values of type 99"),
    "alignment 0": (gguf_bytes(FOUR, [u32("general.alignment", 0)], bytes(16)), "general.alignment 0 is not a power"),
    "alignment 48": (
        gguf_bytes(FOUR, [u32("general.alignment", 48)], bytes(16)),
        "general.alignment 48 is not a power",
    ),
    "alignment": (
        gguf_bytes(FOUR, [words("general.alignment", "32")], bytes(16)),
        "general.alignment '32' is not a pow",
    ),
    "huge alignment": (
        gguf_bytes(FOUR, [u32("general.alignment", 1 << 31)], bytes(16)),
        "ends at byte 16, and 0 follow",
    ),
    "part": (gguf_bytes(keys=[words("split.no", "x")]), "split.no and split.count are 'x' and 1, no numbers"),
    "name": (gguf_bytes([info(b"\xff", [1], "F32", 0)], data=bytes(4)), "the name of a tensor that is not UTF-8"),
    "names": (
        gguf_bytes([info("a", [1], "F32", 0), info("a", [1], "F32", 32)], data=bytes(64)),
        "'a' is in the file twi",
    ),
    "scales": (
        gguf_bytes([info("a", [32], "Q8_0", 0), info("a_scale", [1], "F16", 64)], data=bytes(66)),
        "tensor 'a_scale' is in the file, and a part of tensor 'a', Q8_0, would be called so too",
    ),
    "rank 5": (
        gguf_bytes([info("a", [1] * 5, "F32", 0)], data=bytes(4)),
        "tensor 'a' has 5 dimensions, and 4 are the mo",
    ),
    "rank 2^32-1": (gguf_bytes([info("a", [1], "F32", 0, rank=(1 << 32) - 1)]), "tensor 'a' has 4294967295 dimensions"),
    "type": (
        gguf_bytes([info("a", [1], 31, 0)], data=bytes(4)),
        "tensor 'a' has type 31, which is unknown: F32, F16, ",
    ),
    "2^64 - 1": (gguf_bytes([info("a", [(1 << 64) - 1], "I8", 0)], data=bytes(4)), "needs 2\\^63 bytes or more"),
    "product": (gguf_bytes([info("a", [1 << 32] * 4, "F32", 0)], data=bytes(4)), "needs 2\\^63 bytes or more"),
    "product with 0": (
        gguf_bytes([info("a", [1 << 62, 0, 2, 2], "F32", 0)], data=bytes(4)),
        "needs 2\\^63 bytes or more",
    ),
    "2^62 bytes": (
        gguf_bytes([info("a", [1 << 60], "F32", 0)], data=bytes(4)),
        "the file is cut off: tensor 'a' ends at",
    ),
    "offset": (
        gguf_bytes([info("a", [1], "F32", HUGE + 31)], data=bytes(4)),
        "at byte 9223372036854775807, which is no",
    ),
    "offset 2^64": (gguf_bytes([info("a", [1], "F32", (1 << 64) - 32)], data=bytes(4)), "needs 2\\^63 bytes or more"),
    "behind the end": (gguf_bytes([info("a", [1], "F32", HUGE)], data=bytes(4)), "cut off: tensor 'a' ends at byte"),
    "empty behind the end": (gguf_bytes([info("a", [0], "F32", 64)], data=bytes(4)), "ends at byte 64, and 4 follow"),
    "not aligned": (
        gguf_bytes([info("a", [1], "F32", 4)], data=bytes(8)),
        "begins at byte 4, which is no multiple of 32",
    ),
    "half a block": (gguf_bytes([info("a", [48, 2], "Q8_0", 0)], data=bytes(102)), "no whole blocks of 32 elements"),
    "no row": (gguf_bytes([info("a", [], "Q4_0", 0)], data=bytes(18)), "no whole blocks of 32 elements"),
    "overlap": (
        gguf_bytes([info("a", [9], "F32", 32), info("b", [9], "F32", 0)], data=bytes(99)),
        "tensor 'a' begins at byte 32 and overlaps tensor 'b', which ends at byte 36",
    ),
    "overlap of a byte": (
        gguf_bytes([info("a", [33], "I8", 0), info("b", [1], "I8", 32)], data=bytes(99)),
        "tensor 'b' begins at byte 32 and overlaps tensor 'a', which ends at byte 33",
    ),
    "same place": (
        gguf_bytes([info("a", [9], "F32", 0), info("b", [9], "F32", 0)], data=bytes(99)),
        "overlaps tensor 'a'",
    ),
    "one byte short": (
        gguf_bytes(FOUR, data=bytes(15)),
        "cut off: tensor 'a' ends at byte 16, and 15 follow the header",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_headers(tmp_path, case):
    data, problem = WRONG[case]
    (tmp_path / "a.gguf").write_bytes(data)
    with pytest.raises(FileError, match=problem) as caught:
        gl.relayout_file(tmp_path / "a.gguf", tmp_path / "b.safetensors", tensors={})
    assert str(caught.value).startswith(f"{tmp_path / 'a.gguf'}: ") and "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 600
    assert failure("show", str(tmp_path / "a.gguf")).startswith(str(tmp_path / "a.gguf"))
    assert os.listdir(tmp_path) == ["a.gguf"]


def usual():
    keys = [
        words("general.architecture", "llama"),
        key("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 3) + text("a") + text("b" * 300) + text(b"\xff")),
        key("tokenizer.ggml.scores", 9, struct.pack("<IQ3f", 6, 3, 1, 2, 3)),
        key("bool", 7, b"\1"),
        key("f64", 12, struct.pack("<d", 0.1)),
        key("i64", 11, struct.pack("<q", -5)),
    ]
    tensors = {"a": ("F32", (2, 3), bytes(24)), "b": ("Q4_0", (2, 64), bytes(72)), "c": ("Q6_K", (256,), b"\1" * 210)}
    return gguf_model(tensors, keys, alignment=64)


def test_every_shorter_file_is_refused(tmp_path):
    whole = usual()
    end = whole.rindex(b"\1") + 1  # without the padding behind the last tensor
    for size in (*range(0, end, 3), end - 1):
        (tmp_path / "a.gguf").write_bytes(whole[:size])
        with open(tmp_path / "a.gguf", "rb") as stream, pytest.raises(FileError, match="^a"):
            read_gguf("a", stream)


@settings(deadline=None, max_examples=200)
@given(places=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_give_a_model_or_an_error(tmp_path_factory, places):
    data = bytearray(usual())
    for place, value in places:
        data[place] = value
    path = tmp_path_factory.mktemp("changed") / "a.gguf"
    path.write_bytes(data)
    with open(path, "rb") as stream:
        try:
            found = read_gguf("a", stream)
        except FileError as error:
            assert "\n" not in str(error)
            return
    for each in found.tensors:
        assert 0 <= each.begin <= each.end <= len(data) - found.start


def test_a_header_takes_little_memory(tmp_path):
    """Many tokens, and numbers that promise 2^60 of them."""
    tokens = struct.pack("<IQ", 8, 50_000) + text("token") * 50_000
    for value in (tokens, struct.pack("<IQ", 8, 1 << 60) + text("token") * 50_000):
        (tmp_path / "a.gguf").write_bytes(gguf_bytes(keys=[key("tokenizer.ggml.tokens", 9, value)]))
        with open(tmp_path / "a.gguf", "rb") as stream:
            tracemalloc.start()
            try:
                read_gguf("a", stream)
            except FileError as error:
                assert "bytes more" in str(error)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 5 << 20


@pytest.mark.parametrize("seed", range(4))
def test_long_arrays_of_texts_and_numbers(tmp_path, seed):
    """More than is read at a time, with texts across its borders, and one that is longer than it."""
    rng = random.Random(seed)
    texts = [bytes(rng.choice([0, 1, 7, 300, 70_000])) for _ in range(200)]
    texts.insert(rng.randrange(200), bytes(3 << 20))
    keys = [
        key("texts", 9, struct.pack("<IQ", 8, len(texts)) + b"".join(map(text, texts))),
        key("numbers", 9, struct.pack("<IQ", 5, 1 << 19) + bytes(1 << 21)),
        key("none", 9, struct.pack("<IQ", 8, 0)),
        u32("last", 7),
    ]
    (tmp_path / "a.gguf").write_bytes(gguf_model({"a": ("F32", (1,), b"1234")}, keys))
    with open(tmp_path / "a.gguf", "rb") as stream:
        found = read_gguf("a", stream)
    data = (tmp_path / "a.gguf").read_bytes()
    assert found.keys == {"last": 7} and data[found.start :][:4] == b"1234"


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 64])
def test_a_header_is_read_in_pieces_of_any_size(tmp_path, monkeypatch, size):
    (tmp_path / "a.gguf").write_bytes(usual())
    with open(tmp_path / "a.gguf", "rb") as stream:
        whole = read_gguf("a", stream)
    monkeypatch.setattr(gguf_header, "CHUNK", size)
    for begin in range(40):
        texts = [bytes(each % 11) for each in range(begin, 90)]
        keys = [key("x", 9, struct.pack("<IQ", 8, len(texts)) + b"".join(map(text, texts))), u32("last", begin)]
        (tmp_path / "b.gguf").write_bytes(gguf_model({"a": ("F32", (1,), b"1234")}, keys))
        with open(tmp_path / "b.gguf", "rb") as stream:
            found = read_gguf("b", stream)
        data = (tmp_path / "b.gguf").read_bytes()
        assert found.keys == {"last": begin} and data[found.start :][:4] == b"1234"
    with open(tmp_path / "a.gguf", "rb") as stream:
        assert read_gguf("a", stream) == whole


def test_types_are_those_of_the_package_gguf():
    gguf = pytest.importorskip("gguf")
    known = {
        number: each for number, each in TYPES.items() if number in {each.value for each in gguf.GGMLQuantizationType}
    }
    for number, each in known.items():
        kind = gguf.GGMLQuantizationType(number)
        assert (each.name, (each.elements, each.nbytes)) == (kind.name, gguf.GGML_QUANT_SIZES[kind])
    assert {*TYPES} >= {each.value for each in gguf.GGMLQuantizationType}
    assert all(TYPES[number].name == name for name, number in NUMBERS.items())


@pytest.mark.parametrize("seed", range(4))
def test_headers_are_read_as_the_package_gguf_reads_them(tmp_path, seed):
    gguf = pytest.importorskip("gguf")
    rng = random.Random(seed)
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_custom_alignment(rng.choice([32, 128]))
    for kind in gguf.GGUFValueType:
        value = {"STRING": "text", "BOOL": True, "ARRAY": [1, 2]}.get(kind.name, 0.1 if "FLOAT" in kind.name else 7)
        writer.add_key_value(f"key.{kind.name}", value, kind, sub_type=gguf.GGUFValueType.INT32)
    for number, kind in enumerate(rng.sample([*gguf.GGMLQuantizationType], 12)):
        elements, nbytes = gguf.GGML_QUANT_SIZES[kind]
        sizes = [rng.randint(1, 3) for _ in range(rng.randint(0, 3))] + [rng.randint(1, 3)]
        data = np.zeros((*sizes[:-1], sizes[-1] * nbytes), np.uint8)
        writer.add_tensor(f"tensor.{number}", data, raw_dtype=kind)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    reader = gguf.GGUFReader(tmp_path / "a.gguf")
    with open(tmp_path / "a.gguf", "rb") as stream:
        found = read_gguf("a", stream)
    tensors = {each.name: each for each in found.tensors}
    for each in reader.tensors:
        own = tensors[each.name]
        sizes = tuple(map(int, each.shape[::-1]))
        taken = {"Q8_0": 2, "Q4_0": 2, "Q4_1": 4, "MXFP4": 1}.get(each.tensor_type.name, 0)
        assert found.start + own.begin - taken == each.data_offset
        if not taken:
            assert (own.dtype, own.dimensions, own.nbytes) == (each.tensor_type.name, sizes, each.n_bytes)
    scalars = [kind.name for kind in gguf.GGUFValueType if kind.name != "ARRAY"]
    for name in scalars:
        field = reader.get_field(f"key.{name}").contents()
        assert found.metadata[f"gguf.key.{name}"] == (str(np.float32(0.1)) if name == "FLOAT32" else str(field))


def test_show_lists_all_types(tmp_path):
    (tmp_path / "a.gguf").write_bytes(usual())
    shown = run("show", str(tmp_path / "a.gguf")).output
    for line in (
        r"a .* F32\[2,3\]",
        r"b .* U8\[2,32\] +1 +64  gguf:q4_0\[2,64\]",
        r"b_scale +F16\[2,2\] +1 +8 ",
        r"c +Q6_K\[256\] +1 +210 ",
        "metadata  gguf.general.architecture: llama",
        "Q6_K: 1 tensor, 256 elements, 210 bytes",
    ):
        assert re.search(line, shown), (line, shown)
    (found,) = [
        each
        for each in json.loads(run("show", str(tmp_path / "a.gguf"), "--json").output)["tensors"]
        if each["name"] == "b"
    ]
    data = (tmp_path / "a.gguf").read_bytes()
    assert found["blocks"] == {"taken": 16, "step": 18} and data[found["offset"] :][:16] == bytes(16)


def test_a_file_that_becomes_shorter(tmp_path):
    """As when another process writes it: the size is that of the beginning."""

    class Shorter(io.FileIO):
        def read(self, size=-1):
            return b""

    (tmp_path / "a.gguf").write_bytes(usual())
    with Shorter(tmp_path / "a.gguf") as stream, pytest.raises(FileError, match="has become shorter"):
        read_gguf("a", stream)
