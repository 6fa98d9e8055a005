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
            "mean of shape (3, 1, 1) does not fit an array of shape (2, 4, 5, 3): its size 3 does not divide the size "
            "4 of dimension 1.  Its sizes, last one first, must equal those of the array before the move, be 1, or "
            "divide them: for a number for each index of dimension 3, reshape it to (3,)",
        ),
        (
            lambda: gl.pack(np.zeros((2, 3, 4, 5), np.float32), "C", mean=np.zeros(3)),
            gl.LayoutError,
            "mean of shape (3,) does not fit an array of shape (2, 3, 4, 5): its size 3 does not divide the size "
            "5 of dimension 3.  Its sizes, last one first, must equal those of the array before the move, be 1, or "
            "divide them: for a number for each index of dimension 1, reshape it to (3, 1, 1)",
        ),
        (
            lambda: gl.pack(np.zeros((3, 3, 4, 5), np.float32), "C", mean=np.zeros(3)),
            gl.LayoutError,
            "mean of shape (3,) does not fit an array of shape (3, 3, 4, 5): its size 3 does not divide the size "
            "5 of dimension 3.  Its sizes, last one first, must equal those of the array before the move, be 1, or "
            "divide them",
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
