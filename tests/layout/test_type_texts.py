"""What a text says about an element type, in every call: one type, or an error that says what to write."""

import os
import re

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import failure, refusal

NUMPY_NAMES = [np.dtype(kind).name for kind in "?bhiqBHIQefdFD"]
ML_NAMES = [member.dtype.name for member in gl.ElementType if member.is_extended]
CODES = [f"{letter}{size}" for letter in "iufcb" for size in (1, 2, 4, 8, 16)]
WORDS = """float int uint long ulong complex double half single intp uintp longlong short byte ubyte csingle cdouble
bool_ int_ float_ torch.float32 np.int8 fp16 fp8 F32 FLOAT nonsense"""
REFUSED = [code for code in [*CODES, *"?bBhHiIlLqQefdFDpP", *WORDS.split()] if code not in list(gl.ElementType)]


@pytest.mark.parametrize("name", gl.ElementType)
def test_a_name_of_xla_is_that_type(name):
    assert gl.ElementType.of(str(name)) is name


@pytest.mark.parametrize("name", [*NUMPY_NAMES, *ML_NAMES])
def test_a_full_name_of_numpy_or_ml_dtypes_is_that_dtype(name):
    expected = getattr(ml_dtypes, name, None) or np.dtype(name)
    assert gl.ElementType.of(name).dtype == np.dtype(expected) and np.dtype(expected).name == name


@pytest.mark.parametrize("order", "<=|")
@pytest.mark.parametrize("code", ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_a_code_with_a_byte_order_counts_bytes(order, code):
    assert gl.ElementType.of(order + code).dtype == np.dtype(code)


@pytest.mark.parametrize("code", [">i2", ">u4", ">f8", ">c16"])
def test_a_big_endian_code_is_refused_as_before(code):
    with pytest.raises(TypeError, match="is big-endian: convert the array"):
        gl.ElementType.of(code)


@pytest.mark.parametrize(
    "kind", [float, int, bool, complex, np.float32, np.int8, np.dtype("i8"), np.dtype("<f4"), ml_dtypes.bfloat16]
)
def test_objects_are_what_numpy_says(kind):
    assert gl.ElementType.of(kind).dtype == np.dtype(kind)


@pytest.mark.parametrize("value", [b"i8", b"float32", ("i8", ()), ("float32", ())])
def test_text_inside_of_another_object_is_no_way_around(value):
    with pytest.raises(TypeError, match=r"^element type .* is a (bytes|tuple), not text or a dtype$"):
        gl.ElementType.of(value)


@pytest.mark.parametrize("text", REFUSED)
def test_other_words_are_refused_with_what_to_write(text):
    """Each suggestion works, and where NumPy or MLIR would read the word, that reading is among them."""
    with pytest.raises(TypeError) as caught:
        gl.ElementType.of(text)
    message = str(caught.value)
    assert message.startswith(f"element type {text!r} ")
    try:
        numpys = gl.ElementType.of(np.dtype(text))
    except TypeError:
        return
    meant = re.findall(r"'(\w+)'", message.rpartition(": write" if "two meanings" in message else "(did you mean")[2])
    assert meant and all(gl.ElementType(one) for one in meant)
    assert numpys in meant or text.lower().rstrip("_") in ("l", "long", "ulong", "p", "intp", "uintp"), message


@pytest.mark.parametrize(
    "text, message",
    [
        ("i8", "has two meanings: s8 has 8 bits, as MLIR writes it, and s64 has 8 bytes, as NumPy writes it: "
         "write 's8' or 's64'"),
        ("i1", "has two meanings: s1 has 1 bit, as MLIR writes it, and s8 has 1 byte, as NumPy writes it: "
         "write 's1' or 's8'"),
        ("f4", "has two meanings: f4e2m1fn has 4 bits, as MLIR writes it, and f32 has 4 bytes, as NumPy writes it: "
         "write 'f4e2m1fn' or 'f32'"),
        ("float", "has two meanings: f32, as in C, and f64, as in NumPy: write 'f32' or 'f64'"),
        ("long", "has two meanings: s32, as in C on Windows, and s64, as in C on Linux: write 's32' or 's64'"),
        ("double", "is neither an XLA name nor the name of a NumPy dtype (did you mean 'f64'?)"),
        ("half", "is neither an XLA name nor the name of a NumPy dtype (did you mean 'f16'?)"),
        ("torch.float32", "is neither an XLA name nor the name of a NumPy dtype (did you mean 'f32'?)"),
        ("<d", "is neither an XLA name nor the name of a NumPy dtype (did you mean 'f64'?)"),
        ("<l", "has two meanings: s32, as in C on Windows, and s64, as in C on Linux: write 's32' or 's64'"),
    ],
)  # fmt: skip
def test_both_readings_are_named(text, message):
    with pytest.raises(TypeError) as caught:
        gl.ElementType.of(text)
    assert str(caught.value) == f"element type {text!r} {message}"


X, LINE = np.ones((2, 3), np.float32), np.ones(6, np.float32)


def of_dask(text):
    array = pytest.importorskip("dask.array").ones((2, 3), dtype=np.float32)
    return gl.dask.pack(array, "F", dtype=text)


def of_torch(text):
    pytest.importorskip("torch")
    return gl.torch.Pack("{0,1}", dtype=text)


DOORS = {
    "ElementType": gl.ElementType,
    "Shape": lambda text: gl.Shape(text, (2, 3)),
    "with_element_type": lambda text: gl.Shape("f32", (2, 3)).with_element_type(text),
    "replace": lambda text: gl.Shape("f32", (2, 3)).replace(element_type=text),
    "parse_shape": lambda text: gl.parse_shape(f"{text}[2,3]"),
    "as a target": lambda text: gl.pack(X, f"{text}[2,3]"),
    "of a sparse layout": lambda text: gl.Layout((0,), index_type=text),
    "pack": lambda text: gl.pack(X, "F", dtype=text),
    "unpack": lambda text: gl.unpack(LINE, "f32[2,3]", dtype=text),
    "relayout": lambda text: gl.relayout(LINE, "f32[2,3]", "F", dtype=text),
    "relayout_many": lambda text: gl.relayout_many([(LINE, "f32[2,3]", "F")], dtype=text),
    "transpose": lambda text: gl.transpose(X, "a b -> b a", dtype=text),
    "plan": lambda text: gl.plan("f32[2,3]", "F", dtype=text),
    "view": lambda text: gl.view(LINE, f"{text}[2,3]"),
    "zeros": lambda text: gl.zeros(f"{text}[2,3]"),
    "code": lambda text: gl.code(f"{text}[2,3]"),
    "Array": lambda text: gl.Array(LINE, f"{text}[2,3]"),
    "from_numpy_strides": lambda text: gl.interop.from_numpy_strides((12, 4), (2, 3), text),
    "can_upcast": lambda text: gl.xla.can_upcast(text, "f32"),
    "an entry of the catalogue": lambda text: gl.catalogue.cublas.block_scales(200, 10, dtype=text),
    "a name of the catalogue": lambda text: gl.parse_shape(f"cublas:block_scales(dtype={text})[200,10]"),
    "gl.torch": of_torch,
    "gl.dask": of_dask,
}


@pytest.mark.parametrize("text", ["i8", "f4", "float", "double", "d", "long"])
@pytest.mark.parametrize("door", DOORS)
def test_every_call_refuses_the_same_words(door, text):
    with pytest.raises((TypeError, ValueError), match=r"has two meanings: .* write|\(did you mean '\w+'\?\)"):
        DOORS[door](text)


@pytest.mark.parametrize("text", ["i8", "f4", "float", "double", "d", "long"])
def test_files_and_the_command_line_refuse_the_same_words(tmp_path, text):
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.bin").write_bytes(LINE.tobytes())
    (tmp_path / "map.toml").write_text(f"[[tensor]]\nmatch = '.*'\nto = 'F'\ndtype = '{text}'\n")
    (tmp_path / "a.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}")
    before = sorted(os.listdir(tmp_path))
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    said = [
        refusal("relayout", a, b, "--to", "F", "--dtype", text),
        refusal("relayout", tmp_path / "a.bin", b, "--from", f"{text}[2,3]", "--to", "F"),
        refusal("show", f"{text}[2,3]"),
        failure("relayout", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--map", tmp_path / "map.toml"),
    ]
    for call in (
        lambda: gl.relayout_file(a, b, target="F", dtype=text),
        lambda: gl.relayout_file(tmp_path / "a.bin", b, source=f"{text}[2,3]", target="F"),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        said.append(str(caught.value))
    for message in said:
        assert re.search(r"has two meanings: .* write|\(did you mean '\w+'\?\)", message), message
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("code", ["<i8", "|u1", "=f4", "<f8"])
def test_codes_with_a_byte_order_work_in_calls(code):
    assert gl.Shape(code, (2, 3)).element_type == gl.ElementType.of(np.dtype(code))
    assert gl.pack(X, "F", dtype=code).dtype == np.dtype(code)


@pytest.mark.parametrize(
    "text, written",
    [
        ("F8_E4M3", "'f8e4m3fn' or 'f8e4m3'"),  # of safetensors, whose type is f8e4m3fn
        ("fp8_e4m3", "'f8e4m3fn' or 'f8e4m3'"),
        ("e4m3", "'f8e4m3fn' or 'f8e4m3'"),
        ("e5m2", "'f8e5m2'"),
        ("F8_E8M0", "'f8e8m0fnu'"),
        ("e2m1", "'f4e2m1fn'"),
        ("nvfp4", "'f4e2m1fn'"),
        ("U8", "'u8'"),
        ("boolean", "'pred'"),
    ],
)
def test_words_of_other_libraries_have_a_hint(text, written):
    with pytest.raises(TypeError, match=rf"^dtype: element type '{text}' is neither .* \(did you mean {written}\?\)$"):
        gl.pack(X, "F", dtype=text)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", ["a", "a5", "A8", "S3", "U4", "V2", "O", "M8", "m8"])
def test_codes_of_no_number_are_refused_without_a_word_of_numpy_s(text):
    with pytest.raises(TypeError, match=f"^element type '{text}' is neither an XLA name nor the name of a NumPy dtype"):
        gl.ElementType.of(text)
