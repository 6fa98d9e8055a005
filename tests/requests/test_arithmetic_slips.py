"""What calls say about likely slips in the keywords of arithmetic."""

import re

import numpy as np
import pytest

import gpulayout as gl

PIXELS = np.zeros((2, 4, 5, 3), np.uint8)
NUMBERS = np.zeros((4, 5), np.float32)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: gl.transpose(PIXELS, "n h w c -> n c h w", unit=True, mean=0.5, std=0.25),
            TypeError,
            "mean, std and unit of u8 elements give numbers that would be rounded to u8: write dtype, such as "
            "dtype='f32'",
        ),
        (
            lambda: gl.pack(PIXELS, "C", scale=2),
            TypeError,
            "scale of u8 elements gives numbers that would be rounded to u8: write dtype, such as dtype='f32', or "
            "dtype='u8' if you mean that",
        ),
        (
            lambda: gl.pack(NUMBERS, "C", scale=2, zero_point=0),
            TypeError,
            "scale and zero_point quantise to dtype, or dequantise to it: write dtype, such as dtype='s8'",
        ),
        (
            lambda: gl.transpose(PIXELS, "n h w c -> n c h w", dtype="f32", mean=np.zeros((3, 1, 1))),
            gl.LayoutError,
            "mean of shape (3, 1, 1) does not fit an array of shape (2, 4, 5, 3): its size 3 is not the size 4 of "
            "dimension 1, and a parameter broadcasts as in NumPy, against the array before the move; "
            "for a number for each index of dimension 3, reshape it to (3,)",
        ),
        (
            lambda: gl.pack(np.zeros((2, 3, 4, 5), np.float32), "C", mean=np.zeros(3)),
            gl.LayoutError,
            "mean of shape (3,) does not fit an array of shape (2, 3, 4, 5): its size 3 is not the size 5 of "
            "dimension 3, and a parameter broadcasts as in NumPy, against the array before the move; "
            "for a number for each index of dimension 1, reshape it to (3, 1, 1)",
        ),
        (
            lambda: gl.pack(np.zeros((3, 3, 4, 5), np.float32), "C", mean=np.zeros(3)),
            gl.LayoutError,
            "mean of shape (3,) does not fit an array of shape (3, 3, 4, 5): its size 3 is not the size 5 of "
            "dimension 3, and a parameter broadcasts as in NumPy, against the array before the move",
        ),
        (
            lambda: gl.pack(PIXELS, "C", dtype="s8", scale=1, zero_point=128),
            TypeError,
            "scale and zero_point quantise a float type, or dequantise an integer type to a float type: u8 to s8 is "
            "neither; write scale and shift",
        ),
        (
            lambda: gl.transpose(NUMBERS, sacle=2),
            TypeError,
            "'sacle' is neither a keyword of this call nor an axis: did you mean scale?",
        ),
        (
            lambda: gl.transpose(NUMBERS, "a b -> b a", dtpye="f16"),
            TypeError,
            "'dtpye' is neither a keyword of this call nor an axis: did you mean dtype?",
        ),
        (
            lambda: gl.transpose(NUMBERS, (1, 0), bias=2),
            TypeError,
            "'bias' is neither a keyword of this call nor an axis: did you mean shift?",
        ),
        (
            lambda: gl.pack(NUMBERS, "C", scale=2, group_size=128),
            TypeError,
            "'group_size' is not a keyword of this call: did you mean block?",
        ),
        (
            lambda: gl.unpack(NUMBERS, "{1,0}", bitorder="big"),
            TypeError,
            "'bitorder' is not a keyword of this call: layouts say it, E(4,big) in text, or gl.Layout(..., "
            "bit_order='big')",
        ),
        (
            lambda: gl.pack(NUMBERS, "C", zero_pont=2),
            TypeError,
            "'zero_pont' is not a keyword of this call: did you mean zero_point?",
        ),
        (
            lambda: gl.pack(NUMBERS.astype(np.complex64), "C", scale=2),
            TypeError,
            "no arithmetic from c64 to c64: complex numbers can only be cast",
        ),
        (lambda: gl.pack(NUMBERS, "C", scale="2"), TypeError, "scale is '2', not a number or an array of numbers"),
        (
            lambda: gl.pack(NUMBERS, "C", scale=2, mean=1, std=3),
            TypeError,
            "scale, mean and std do not go together: write scale and shift; or mean, std and unit; or scale and "
            "zero_point",
        ),
        (
            lambda: gl.pack(NUMBERS, "C", dtype="s8", scale=2, zero_point="0"),
            TypeError,
            "zero_point is '0', not a number or an array of numbers",
        ),
        (
            lambda: gl.pack(NUMBERS, "C", dtype="s8", scale=2, zero_point=np.ma.array([0], mask=[True])),
            TypeError,
            "zero_point is a masked array: its mask would be lost, pass .filled() or .data",
        ),
        (
            lambda: gl.pack(NUMBERS, "C", dtype="s8", scale=2, zero_point=float("nan")),
            TypeError,
            "zero_point holds f64 elements: it must hold integers, of the range of s8",
        ),
        (
            lambda: gl.pack(gl.pack(NUMBERS, "C", dtype="f8e4m3fn"), "C", dtype="f32", scale=2, zero_point=0),
            TypeError,
            "zero_point is an integer that stands for 0, and f8e4m3fn and f32 are float types: write divide=True for x "
            "/ scale, or scale alone for x * scale",
        ),
        (
            lambda: gl.transpose(NUMBERS, "(scale b) c -> scale b c", scale=2),
            gl.LayoutError,
            "axes '(scale b) c -> scale b c' has an axis called scale, and scale= is arithmetic: write the size of the "
            "axis in the pattern, as in (scale=2 n), or call it something else",
        ),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_slips_are_answered(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


def test_an_axis_may_be_called_nearly_as_a_keyword():
    assert gl.transpose(NUMBERS, "(scales b) c -> scales b c", scales=2).shape == (2, 2, 5)


def test_a_zero_point_is_readable():
    with pytest.raises(TypeError, match="^zero_point cannot be read as an array: setting an array element"):
        gl.pack(NUMBERS, "C", dtype="s8", scale=2, zero_point=[[0], [0, 0]])


def test_parameters_are_not_computed_by_dask():
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"^scale\[0\] is a Dask array, which may be larger than memory"):
        gl.transpose(NUMBERS, scale=[dask_array.ones(4)])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_array_of_any_strides_is_not_packed_in_place(order):
    """Its strides are not those of a buffer, which elements could leave one after the other."""
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    with pytest.raises(BufferError, match="^array and out overlap in memory: out must be separate memory, because"):
        gl.pack(square.transpose(order), "C", dtype="s32", out=square.view(np.int32).reshape(-1))
    assert (square.reshape(-1) == np.arange(16)).all()
