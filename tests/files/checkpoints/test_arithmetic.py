"""Rules with every form of arithmetic, as text and as keys: the law is the call for the tensor in memory."""

import numpy as np
import pytest

import gpulayout as gl
from tests.support.model_files import contents, entry, raw

CASES = [  # of the tensor, parts of a rule, and the keywords that say the same
    ("U8", "dtype=f16; unit; mean=0.4,0.5,1; std=2", {"dtype": "f16", "unit": True, "mean": [0.4, 0.5, 1], "std": 2}),
    ("F32", "dtype=s8; scale=0.7; zero_point=3,-4,5", {"dtype": "s8", "scale": 0.7, "zero_point": [3, -4, 5]}),
    ("I16", "dtype=bf16; scale=9; zero_point=7", {"dtype": "bf16", "scale": 9, "zero_point": 7}),
    ("F32", "dtype=f8e4m3fn; scale=90; saturate=false", {"dtype": "f8e4m3fn", "scale": 90, "saturate": False}),
    ("F32", "dtype=f8e4m3fn; scale=90; saturate=true", {"dtype": "f8e4m3fn", "scale": 90}),
    ("F32", "scale=3; divide; shift=1,2; block=2", {"scale": 3, "divide": True, "shift": [1, 2], "block": 2}),
]  # fmt: skip
DTYPES = {"U8": "u1", "I8": "i1", "I16": "i2", "F32": "f4"}


def saved(path, **tensors):
    """A model of these arrays."""
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        header[name] = entry(dtype, list(array.shape), len(data), len(data) + array.nbytes)
        data += array.tobytes()
    path.write_bytes(raw(header, data))
    return path


@pytest.mark.parametrize("dtype, text, keywords", CASES)
def test_every_form(tmp_path, dtype, text, keywords):
    array = np.random.default_rng(1).integers(0, 100, (4, 3)).astype(DTYPES[dtype])
    model, new = saved(tmp_path / "a.safetensors", w=(dtype, array)), tmp_path / "b.safetensors"
    wanted = gl.pack(array, "o i -> i o", **keywords).tobytes()
    for rule in (f"o i -> i o; {text}", {"to": "o i -> i o", **keywords}):
        gl.relayout_file(model, new, tensors={"w": rule}, overwrite=True)
        assert contents(new)["w"][2] == wanted


def test_saturate_is_true_or_false(tmp_path):
    model = saved(tmp_path / "a.safetensors", w=("U8", np.zeros(3, "u1")))
    with pytest.raises(gl.LayoutError, match="the rule 'w': saturate is 'maybe': it must be true or false"):
        gl.relayout_file(model, tmp_path / "b.safetensors", tensors={"w": "dtype=f32; saturate=maybe"})


def test_a_zero_point_of_one_signed_bit_is_a_tensor(tmp_path):
    """Its range is -1 to 0, also for what stands in its place before it is read."""
    bits, zeros = np.array([0b10110010], "u1"), np.array([-1], "i1")
    model = saved(tmp_path / "a.safetensors", w=("U8", bits), z=("I8", zeros))
    rule = {"w": "from=s1; dtype=f32; scale=2; zero_point=z"}
    gl.relayout_file(model, tmp_path / "b.safetensors", tensors=rule)
    signed = -np.unpackbits(bits, bitorder="little").astype("i1")
    found = np.frombuffer(contents(tmp_path / "b.safetensors")["w"][2], "f4")
    assert found.tolist() == ((signed + 1) * 2.0).tolist()


def test_a_range_is_checked_when_the_zero_point_is_read(tmp_path):
    model = saved(tmp_path / "a.safetensors", w=("F32", np.zeros(3, "f4")), z=("I16", np.array([300], "i2")))
    with pytest.raises(gl.LayoutError, match="zero_point 300 is outside the range of s8, -128..127"):
        gl.relayout_file(model, tmp_path / "b.safetensors", tensors={"w": "dtype=s8; scale=2; zero_point=z"})
    assert [each.name for each in tmp_path.iterdir()] == ["a.safetensors"]
