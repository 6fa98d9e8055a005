"""What calls with arithmetic refuse, by the full text of each message; no byte is written before."""

import fractions
import re

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import LayoutError

PIXELS = np.arange(6, dtype=np.uint8).reshape(2, 3)
FLOATS = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
COMPLEX = FLOATS.astype(np.complex64)
FITS = ", and a parameter broadcasts as in NumPy, against the array before the move"
SHARED = "block=2 says how many elements share a number of a parameter"
WHOLE = " for an array of shape (2, 3)"
NUMBER = ": it must be a number, such as a float, or an array of numbers"
PAIRS = "write scale and shift; or mean, std and unit; or scale and zero_point"
KINDS = "only booleans, integers, floats and complex numbers have one"


def rounded(names, kind, verb="gives", either=""):
    return (
        f"{names} of {kind} elements {verb} numbers that would be rounded to {kind}: write dtype, such as "
        f"dtype='f32'{either}"
    )


MESSAGES = [  # array, keywords, type of the error, text
    (PIXELS, {"scale": 2}, TypeError, rounded("scale", "u8", either=", or dtype='u8' if you mean that")),
    (PIXELS, {"mean": 2, "std": 3}, TypeError, rounded("mean and std", "u8", "give")),
    (PIXELS, {"unit": True}, TypeError, rounded("unit", "u8")),
    # dtype
    (
        PIXELS,
        {"dtype": "fp32"},
        TypeError,
        "dtype: element type 'fp32' is neither an XLA name nor the name of a NumPy dtype (did you mean 'f32'?)",
    ),
    (PIXELS, {"dtype": object}, TypeError, f"dtype: element type dtype('O') has no XLA counterpart: {KINDS}"),
    (PIXELS, {"dtype": True}, TypeError, "dtype: element type True is neither an XLA name nor a NumPy dtype"),
    # complex numbers
    (
        COMPLEX,
        {"dtype": "f32"},
        TypeError,
        "no cast from c64 to f32: complex numbers become complex numbers, and only these do; pass .real or .imag",
    ),
    (
        FLOATS,
        {"dtype": "c64"},
        TypeError,
        "no cast from f32 to c64: complex numbers become complex numbers, and only these do; pass an array "
        "of complex numbers",
    ),
    (
        COMPLEX,
        {"scale": 2, "shift": 1},
        TypeError,
        "no arithmetic from c64 to c64: complex numbers can only be cast",
    ),
    # which keywords go together
    (
        FLOATS,
        {"dtype": "u8", "zero_point": 3},
        TypeError,
        "zero_point is part of a quantisation, which needs scale too",
    ),
    (FLOATS, {"mean": 1, "scale": 2}, TypeError, f"scale and mean do not go together: {PAIRS}"),
    (
        FLOATS,
        {"zero_point": 1, "scale": 2, "shift": 3},
        TypeError,
        f"scale, shift and zero_point do not go together: {PAIRS}",
    ),
    (
        PIXELS,
        {"dtype": "u8", "mean": 1},
        TypeError,
        "normalised elements are fractions, not u8: write dtype='f32', 'f16' or 'bf16'",
    ),
    (FLOATS, {"unit": True}, TypeError, "unit divides by 255, which suits u8 and not f32"),
    (PIXELS, {"dtype": "f32", "unit": 1}, TypeError, "unit is 1: it must be True or False"),
    # saturate
    (FLOATS, {"dtype": "u8", "saturate": "yes"}, TypeError, "saturate is 'yes': it must be True or False"),
    (
        FLOATS,
        {"dtype": "u8", "saturate": False},
        TypeError,
        "saturate=False for u8: u8 has no nan, so numbers out of range saturate",
    ),
    (
        FLOATS,
        {"dtype": "f4e2m1fn", "saturate": False},
        TypeError,
        "saturate=False for f4e2m1fn: f4e2m1fn has no nan, so numbers out of range saturate",
    ),
    # zero_point
    (
        FLOATS,
        {"dtype": "u8", "scale": 1, "zero_point": 300},
        LayoutError,
        "zero_point 300 is outside the range of u8, 0..255",
    ),
    (
        FLOATS,
        {"dtype": "s4", "scale": 1, "zero_point": [0, -9, 7]},
        LayoutError,
        "zero_point -9 is outside the range of s4, -8..7",
    ),
    (
        PIXELS,
        {"dtype": "f32", "scale": 1, "zero_point": -1},
        LayoutError,
        "zero_point -1 is outside the range of u8, 0..255",
    ),
    (
        FLOATS,
        {"dtype": "u8", "scale": 1, "zero_point": 0.5},
        TypeError,
        "zero_point holds f64 elements: it must hold integers, of the range of u8",
    ),
    (
        FLOATS,
        {"scale": 1, "zero_point": 1},
        TypeError,
        "scale and zero_point quantise to dtype, or dequantise to it: write dtype, such as dtype='s8'",
    ),
    (
        FLOATS,
        {"dtype": "bf16", "scale": 1, "zero_point": 1},
        TypeError,
        "zero_point is an integer that stands for 0, and f32 and bf16 are float types: write divide=True for x / "
        "scale, or scale alone for x * scale",
    ),
    (
        PIXELS,
        {"dtype": "s8", "scale": 1, "zero_point": 1},
        TypeError,
        "scale and zero_point quantise a float type, or dequantise an integer type to a float type: u8 to s8 "
        "is neither; write scale and shift",
    ),
    # parameters
    (FLOATS, {"scale": "2"}, TypeError, "scale is '2', not a number or an array of numbers"),
    (FLOATS, {"shift": fractions.Fraction(1, 2)}, TypeError, f"shift is a Fraction{NUMBER}"),
    (FLOATS, {"mean": range(3)}, TypeError, f"mean is a range{NUMBER}"),
    (FLOATS, {"scale": True}, TypeError, "scale holds pred elements: it must hold real numbers"),
    (FLOATS, {"std": 1j}, TypeError, "std holds c128 elements: it must hold real numbers"),
    (
        FLOATS,
        {"scale": ["a"]},
        TypeError,
        "scale is a list, not a number or an array of numbers: element type dtype('<U1') has no XLA "
        f"counterpart: {KINDS}",
    ),
    (
        FLOATS,
        {"scale": np.ma.array([1, 2, 3])},
        TypeError,
        "scale is a masked array: its mask would be lost, pass .filled() or .data",
    ),
    (
        FLOATS,
        {"scale": [1, 2]},
        LayoutError,
        "scale of shape (2,) does not fit an array of shape (2, 3): its size 2 is not the size 3 of "
        f"dimension 1{FITS}; for a number for each index of dimension 0, reshape it to (2, 1)",
    ),
    (
        FLOATS,
        {"shift": np.ones((3, 2, 3))},
        LayoutError,
        "shift of shape (3, 2, 3) does not fit an array of shape (2, 3), which has 2 dimensions",
    ),
    (
        FLOATS,
        {"std": np.ones((0, 3))},
        LayoutError,
        f"std of shape (0, 3) does not fit an array of shape (2, 3): its size 0 is not the size 2 of dimension 0{FITS}",
    ),
    # divide and block
    (FLOATS, {"scale": 2, "divide": 1}, TypeError, "divide is 1: it must be True or False"),
    (FLOATS, {"shift": 2, "divide": True}, TypeError, "divide=True is about scale, x / scale: give scale too"),
    (
        FLOATS,
        {"dtype": "s8", "divide": True},
        TypeError,
        "divide=True is about scale, x / scale: give scale too",
    ),
    (
        FLOATS,
        {"dtype": "s8", "scale": 2, "zero_point": 0, "divide": False},
        TypeError,
        "divide=False with zero_point: from f32 to s8 they quantise, rint(x / scale) + zero_point, which divides; "
        "leave divide out",
    ),
    (
        PIXELS,
        {"dtype": "f32", "scale": 2, "zero_point": 0, "divide": True},
        TypeError,
        "divide=True with zero_point: from u8 to f32 they dequantise, (x - zero_point) * scale, which multiplies; "
        "leave divide out",
    ),
    *(
        (array, given, TypeError, f"{SHARED}, such as scale: give one too")
        for array, given in (
            (FLOATS, {"dtype": "f16", "block": 2}),
            (PIXELS, {"dtype": "f32", "unit": True, "block": 2}),
        )
    ),
    (FLOATS, {"scale": 2, "block": 1.5}, TypeError, f"block 1.5 is not an integer{WHOLE}: it is a float"),
    (FLOATS, {"scale": 2, "block": "2"}, TypeError, f"block '2' is not an integer{WHOLE}: it is a str"),
    (FLOATS, {"scale": 2, "block": True}, TypeError, f"block True is not an integer{WHOLE}: it is a bool"),
    (FLOATS, {"scale": 2, "block": 0}, LayoutError, f"block 0 has 0 for dimension 0{WHOLE}: at least 1 element"),
    (
        FLOATS,
        {"scale": 2, "block": (1, -1)},
        LayoutError,
        f"block (1, -1) has -1 for dimension 1{WHOLE}: at least 1 element",
    ),
    (
        FLOATS,
        {"scale": 2, "block": (2,)},
        LayoutError,
        f"block (2,) has 1 number{WHOLE}: it takes one for each of its 2 dimensions, or one number for all",
    ),
    (
        FLOATS,
        {"scale": [[1], [2]], "shift": [1, 2, 3, 4], "block": 2},
        LayoutError,
        "shift of shape (4,) does not fit an array of shape (2, 3): dimension 1 has 3 elements, 2 blocks of 2, and "
        "shift has 4 numbers",
    ),
]


def calls(array, keywords):
    """The calls that take these keywords, each with an `out` for f32 and the prefix of its messages."""
    out = np.full(6, 0x5C, np.uint8).repeat(16)
    source = gl.shape_of(array)
    plain = np.ascontiguousarray(array).reshape(-1)
    yield out, "", lambda: gl.transpose(array, out=out[:24].view("f4").reshape(3, 2), **keywords)
    yield out, "", lambda: gl.pack(array, "{0,1}", out=out[:24].view("f4"), **keywords)
    yield out, "", lambda: gl.unpack(plain, source, out=out[:24].view("f4").reshape(2, 3), **keywords)
    yield out, "", lambda: gl.relayout(plain, source, "{0,1}", out=out[:24].view("f4"), **keywords)
    yield out, "", lambda: gl.plan(source, "{0,1}", **keywords)
    jobs, outs = [(plain, source, "{0,1}")] * 2, [out[:24].view("f4"), out[24:48].view("f4")]
    yield out, "job 0: ", lambda: gl.relayout_many(jobs, out=outs, **keywords)


@pytest.mark.parametrize("array, keywords, error, text", MESSAGES, ids=[f"{m[0].dtype} {m[1]}" for m in MESSAGES])
def test_every_call_says_what_is_wrong_and_writes_nothing(array, keywords, error, text):
    for out, prefix, call in calls(array, keywords):
        with pytest.raises(error, match=f"^{re.escape(prefix + text)}$"):
            call()
        assert (out == 0x5C).all()


@pytest.mark.parametrize("block", [-(10**5000), (1, -(10**5000))], ids=["number", "numbers"])
def test_a_block_of_more_digits_than_python_prints(block):
    with pytest.raises(LayoutError, match=r"^block .* for an array of shape \(2, 3\): at least 1 element$"):
        gl.pack(FLOATS, "F", scale=2, block=block)


@pytest.mark.parametrize(
    "name, meant",
    [("dtpye", "dtype"), ("zeropoint", "zero_point"), ("std_dev", "std"), ("scales", "scale"), ("where", "")],
)
def test_a_keyword_that_does_not_exist(name, meant):
    hint = f": did you mean {meant}?" if meant else ""
    for value in (1, None):
        for call in (
            lambda **given: gl.pack(FLOATS, "{0,1}", **given),
            lambda **given: gl.unpack(FLOATS, "{1,0}", **given),
            lambda **given: gl.relayout(FLOATS, "{1,0}", "{0,1}", **given),
            lambda **given: gl.plan("f32[2,3]", "{0,1}", **given),
            lambda **given: gl.relayout_many([(FLOATS, "{1,0}", "{0,1}")], **given),
        ):
            with pytest.raises(TypeError, match=f"^'{name}' is not a keyword of this call{re.escape(hint)}$"):
                call(**{name: value})


def test_an_axis_with_the_name_of_a_keyword():
    text = (
        "axes '(scale n) b -> b n scale' has an axis called scale, and scale= is arithmetic: write the size "
        "of the axis in "
        "the pattern, as in (scale=2 n), or call it something else"
    )
    with pytest.raises(LayoutError, match=f"^{re.escape(text)}$"):
        gl.transpose(PIXELS, "(scale n) b -> b n scale", scale=2)
    found = gl.transpose(PIXELS, "(scale=2 n) b -> b n scale", dtype="f32")
    assert found.tolist() == PIXELS.astype(float).reshape(2, 1, 3).transpose(2, 1, 0).tolist()


OUTS = [
    (
        lambda out: gl.transpose(PIXELS, dtype="f32", out=out.reshape(3, 2)),
        "f8",
        "out has dtype float64, but f32[3,2]{1,0} needs float32",
    ),
    (
        lambda out: gl.transpose(PIXELS, out=out.reshape(3, 2)),
        "f4",
        "out has dtype float32, but array has uint8: dtype=out.dtype converts the elements on the way",
    ),
    (
        lambda out: gl.transpose(PIXELS, dtype="f32", out=out.reshape(2, 3)),
        "f4",
        "out has shape (2, 3), but the result has shape (3, 2)",
    ),
    (
        lambda out: gl.pack(PIXELS, "{0,1}", dtype="f32", out=out),
        "f8",
        "out has dtype float64, but f32[2,3]{0,1} needs float32",
    ),
    (
        lambda out: gl.pack(PIXELS, "{0,1}", dtype="f32", out=out[:5]),
        "f4",
        "out has 5 elements, but f32[2,3]{0,1} needs 6",
    ),
    (
        lambda out: gl.unpack(PIXELS, "{1,0}", dtype="bf16", out=out.reshape(2, 3)),
        "f4",
        "out has dtype float32, but bf16[2,3]{1,0} needs bfloat16 (or uint16)",
    ),
    (
        lambda out: gl.relayout(PIXELS, "{1,0}", "{0,1}", dtype="f32", out=out),
        "f8",
        "out has dtype float64, but f32[2,3]{0,1} needs float32",
    ),
    (
        lambda out: gl.plan("f32[2,3]", "{0,1}", dtype="s8")(PIXELS, out=out),
        "i1",
        "buffer has dtype uint8, but f32[2,3]{1,0} needs float32",
    ),
]


@pytest.mark.parametrize("call, dtype, text", OUTS, ids=[f"{entry[1]} {entry[2]}" for entry in OUTS])
def test_an_out_that_does_not_fit(call, dtype, text):
    out = np.ones(6, dtype)
    with pytest.raises((TypeError, BufferError), match=f"^{re.escape(text)}$"):
        call(out)
    assert (out == 1).all()


def test_types_and_sizes_of_both_sides():
    same = "target {} is not the same logical array as source u8[2,3]{{1,0}}: "
    for call, text in {
        lambda: gl.plan("u8[2,3]", "f32[3,2]", dtype="f32"): same.format("f32[3,2]{1,0}") + "dimension 0 is 3, not 2",
        lambda: gl.plan("u8[2,3]", "f32[3,2]", scale=2): same.format("f32[3,2]{1,0}") + "dimension 0 is 3, not 2",
        lambda: gl.relayout(PIXELS.reshape(-1), "u8[2,3]", "f32[3,2]", dtype="f32"): (
            same.format("f32[3,2]{1,0}") + "dimension 0 is 3, not 2"
        ),
        lambda: gl.relayout(PIXELS.reshape(-1), "u8[2,3]", "f32[2,2]", scale=2): (
            same.format("f32[2,2]{1,0}") + "dimension 1 is 2, not 3"
        ),
        lambda: gl.relayout(PIXELS.reshape(-1), "u8[2,3]", "f32[6]", dtype="f32"): (
            same.format("f32[6]{0}") + "it has 1 dimension, not 2"
        ),
        lambda: gl.plan("u8[2,3]", "f32[2,3]"): same.format("f32[2,3]{1,0}")
        + "the element type is f32, not u8; dtype='f32' converts the elements on the way",
        lambda: gl.plan("u8[2,3]", "f32[2,3]{0,1}", dtype="bf16"): (
            "dtype is bf16, but the target f32[2,3]{0,1} has elements of f32"
        ),
    }.items():
        with pytest.raises(LayoutError, match=f"^{re.escape(text)}$"):
            call()
    with pytest.raises(BufferError, match=r"^array has shape \(2, 3\), but f32\[3,2\]\{1,0\} has dimensions \(3, 2\)$"):
        gl.pack(PIXELS, "f32[3,2]", dtype="f32")
    with pytest.raises(BufferError, match=r"^out has shape \(3, 2\), but u8\[2,3\]\{0,1\} has dimensions \(2, 3\)$"):
        gl.unpack(PIXELS.reshape(-1), "u8[2,3]{0,1}", dtype="u8", out=np.zeros((3, 2), np.uint8))


@pytest.mark.parametrize("many", ["source", "target"])
def test_a_side_of_too_many_tile_sizes(many):
    tiled = "f32[2]{0:T(2)" + "(1)" * 200 + "}"
    sides = (tiled, "f32[2]") if many == "source" else ("f32[2]", tiled)
    for options in ({}, {"scale": 2.0}):
        with pytest.raises(LayoutError, match="tile sizes: 128 is the limit for a move$"):
            gl.relayout(np.ones(2, np.float32), *sides, **options)


def test_steps_in_place_cannot_be_planned():
    text = (
        "no steps in place for f32[2,3]{1,0} with cast: call the plan with out=buffer, whose elements then "
        "change after "
        "they have moved"
    )
    with pytest.raises(LayoutError, match=f"^{re.escape(text)}$"):
        gl.plan("f32[2,3]", "{0,1}", dtype="s32").in_place()


def test_names_of_pythons_and_numpys_types():
    for name, kind in ((float, "f64"), (int, "s64"), (bool, "pred"), ("bfloat16", "bf16")):
        assert gl.transpose(PIXELS, dtype=name).dtype == gl.ElementType(kind).dtype
