"""Pad values: their bytes in every element type, and values that a type cannot hold."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout import ElementType, Layout, LayoutError, PaddingValue, Shape

TYPES = list(ElementType)
WITH_INFINITY = ("f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3", "f8e3m4")
FLOATS = [element_type for element_type in TYPES if element_type.kind == "float"]
ORDERED = [element_type for element_type in TYPES if element_type.kind != "complex"]


def padded(element_type, value):
    """One element and one place of padding."""
    return Shape(element_type, (1,), Layout((0,), padded_dimensions=(2,), padding_value=value))


def number(element_type, value):
    """The padding element, as NumPy reads its bytes."""
    return np.frombuffer(padded(element_type, value).padding_bytes, element_type.dtype)[0]


def all_values(element_type):
    """Every value of a type of one byte or less."""
    codes = np.arange(64 if element_type.value.startswith("f6") else 2**element_type.bits, dtype=np.uint8)
    return codes[:2].view(bool) if element_type == "pred" else codes.view(element_type.dtype)


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", [element_type for element_type in TYPES if element_type != "s1"])
def test_zero_and_one_are_the_type_s_own(element_type):
    one = number(element_type, PaddingValue.ONE)
    assert one == 1 and one.tobytes() == np.ones(1, element_type.dtype).tobytes()
    if element_type != "f8e8m0fnu":
        assert padded(element_type, PaddingValue.ZERO).padding_bytes == bytes(element_type.itemsize)


def test_a_type_without_zero_or_one_refuses_it():
    with pytest.raises(LayoutError) as caught:
        padded("s1", PaddingValue.ONE)
    assert str(caught.value) == "padding_value ONE cannot be held by s1 for s1[1]{0:PD(2)PV(one)}: the range is -1..0"
    with pytest.raises(LayoutError) as caught:
        padded("f8e8m0fnu", PaddingValue.ZERO)
    assert str(caught.value) == (
        "padding_value ZERO cannot be held by f8e8m0fnu for f8e8m0fnu[1]{0:PD(2)PV(zero)}: "
        "the range is 5.8774718e-39..1.7014118e+38"
    )


@pytest.mark.parametrize("element_type", TYPES)
def test_none_and_unknown_are_zero_bytes(element_type):
    assert padded(element_type, None).padding_bytes == bytes(element_type.itemsize)
    assert padded(element_type, PaddingValue.UNKNOWN).padding_bytes == bytes(element_type.itemsize)


@pytest.mark.parametrize("element_type", FLOATS)
def test_floats_end_in_infinity_where_they_have_one(element_type):
    lowest, highest = (float(number(element_type, name)) for name in (PaddingValue.LOWEST, PaddingValue.HIGHEST))
    if element_type.value in WITH_INFINITY:
        assert (lowest, highest) == (-math.inf, math.inf)
    else:
        limits = ml_dtypes.finfo(element_type.dtype)
        assert (lowest, highest) == (float(limits.min), float(limits.max)) and math.isfinite(lowest - highest)


@pytest.mark.parametrize("element_type", [element_type for element_type in ORDERED if element_type.itemsize == 1])
def test_lowest_and_highest_are_identities_of_max_and_min_over_every_value(element_type):
    lowest, highest = (float(number(element_type, name)) for name in (PaddingValue.LOWEST, PaddingValue.HIGHEST))
    values = [value for value in all_values(element_type).astype(np.float64) if not math.isnan(value)]
    assert len(values) > 1
    assert all(lowest <= value <= highest for value in values)
    assert lowest == min(values) and highest == max(values)


@pytest.mark.parametrize("element_type", [ElementType.of(f"{sign}{bits}") for sign in "su" for bits in (8, 16, 32, 64)])
def test_integers_end_at_their_limits(element_type):
    limits = np.iinfo(element_type.dtype)
    assert number(element_type, PaddingValue.LOWEST) == limits.min == number(element_type, int(limits.min))
    assert number(element_type, PaddingValue.HIGHEST) == limits.max == number(element_type, int(limits.max))
    for outside in (int(limits.min) - 1, int(limits.max) + 1):
        with pytest.raises(LayoutError, match=rf": the range is {limits.min}\.\.{limits.max}$"):
            padded(element_type, outside)


@pytest.mark.parametrize("name", [PaddingValue.LOWEST, PaddingValue.HIGHEST])
@pytest.mark.parametrize("element_type", ["c64", "c128"])
def test_complex_numbers_have_no_order(element_type, name):
    with pytest.raises(LayoutError) as caught:
        padded(element_type, name)
    assert str(caught.value) == (
        f"padding_value {name.name} cannot be held by {element_type} for "
        f"{element_type}[1]{{0:PD(2)PV({name.text})}}: complex numbers have no order"
    )


# ---- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", [element_type for element_type in TYPES if element_type.itemsize == 1])
def test_every_value_of_a_byte_can_pad_and_keeps_its_bits(element_type):
    """Every nan becomes the same one; -0.0 keeps its sign."""
    for value in all_values(element_type):
        given = float(value) if element_type.kind == "float" else int(value)
        found = padded(element_type, given)
        if isinstance(given, float) and math.isnan(given):
            assert math.isnan(float(number(element_type, given)))
        else:
            assert found.padding_bytes == value.tobytes()
        assert gl.parse_shape(str(found)) == found


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("f32", 0.1, np.float32(0.1)),
        ("f64", 0.1, 0.1),
        ("bf16", 0.1, ml_dtypes.bfloat16(0.1)),
        ("f32", 3, 3.0),
        ("f32", 3.4028235e38, np.finfo(np.float32).max),  # the usual literal, slightly above the largest f32
        ("f16", 65519.0, 65504.0),
        ("f32", -0.0, -0.0),
        ("f32", 1e-60, 0.0),
        ("f64", 2**1023, 2.0**1023),
        ("s32", 7.0, 7),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("s64", -(2**63), -(2**63)),
        ("pred", True, True),
        ("pred", 0.0, False),
        ("c64", 1, 1 + 0j),
        ("c64", 2.5, 2.5 + 0j),
        ("c64", complex(-0.0, -1.5), complex(-0.0, -1.5)),
        ("c128", complex(math.inf, 0.25), complex(math.inf, 0.25)),
        ("f32", True, 1.0),
        ("u8", True, 1),
        ("f32", np.float64(0.5), 0.5),
        ("f32", ml_dtypes.bfloat16(1.5), 1.5),
        ("s8", np.int64(-3), -3),
        ("u8", np.bool_(True), 1),
        ("f64", np.longdouble(0.25), 0.25),
        ("c128", np.clongdouble(1 + 2j), 1 + 2j),
        ("f32", np.array(0.5), 0.5),
    ],
)
def test_numbers_are_encoded_as_numpy_does(name, value, expected):
    assert padded(name, value).padding_bytes == np.array(expected, ElementType.of(name).dtype).tobytes()


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64", "f8e4m3fn", "c64", "c128"])
def test_nan_has_one_form(name):
    other = np.frombuffer(np.uint32(0xFFC12345).tobytes(), np.float32)[0]  # a negative nan with payload
    forms = {padded(name, nan).padding_bytes for nan in (math.nan, -math.nan, float(other), other)}
    assert len(forms) == 1 and padded(name, math.nan) == padded(name, -math.nan)


@pytest.mark.parametrize(
    "name, value, reason",
    [
        ("u8", 300, "300 cannot be held by u8 for u8[1]{0:PD(2)PV(300)}: the range is 0..255"),
        ("u8", -1, "-1 cannot be held by u8 for u8[1]{0:PD(2)PV(-1)}: the range is 0..255"),
        ("pred", 2, "2 cannot be held by pred for pred[1]{0:PD(2)PV(2)}: the range is 0..1"),
        ("s32", 1.5, "1.5 cannot be held by s32 for s32[1]{0:PD(2)PV(1.5)}: it is not a whole number"),
        ("s32", math.nan, "nan cannot be held by s32 for s32[1]{0:PD(2)PV(nan)}: it is not a whole number"),
        ("s32", math.inf, "inf cannot be held by s32 for s32[1]{0:PD(2)PV(inf)}: it is not a whole number"),
        (
            "s64",
            2.0**63,
            "9.223372036854776e+18 cannot be held by s64 for s64[1]{0:PD(2)PV(9.223372036854776e+18)}: "
            "the range is -9223372036854775808..9223372036854775807",
        ),
        ("f32", 1j, "1j cannot be held by f32 for f32[1]{0:PD(2)PV(1j)}: it is complex"),
        (
            "f32",
            1e39,
            "1e+39 cannot be held by f32 for f32[1]{0:PD(2)PV(1e+39)}: the range is -3.4028235e+38..3.4028235e+38",
        ),
        ("f16", 65520.0, "65520.0 cannot be held by f16 for f16[1]{0:PD(2)PV(65520.0)}: the range is -65504..65504"),
        (
            "c64",
            1e39,
            "1e+39 cannot be held by c64 for c64[1]{0:PD(2)PV(1e+39)}: the range is -3.4028235e+38..3.4028235e+38",
        ),
        (
            "f8e4m3fn",
            math.inf,
            "inf cannot be held by f8e4m3fn for f8e4m3fn[1]{0:PD(2)PV(inf)}: the type has no infinity",
        ),
        (
            "f8e4m3fn",
            449.0,
            "449.0 cannot be held by f8e4m3fn for f8e4m3fn[1]{0:PD(2)PV(449.0)}: the range is -448..448",
        ),
        ("f6e2m3fn", math.nan, "nan cannot be held by f6e2m3fn for f6e2m3fn[1]{0:PD(2)PV(nan)}: the type has no nan"),
        (
            "f8e8m0fnu",
            -1.0,
            "-1.0 cannot be held by f8e8m0fnu for f8e8m0fnu[1]{0:PD(2)PV(-1.0)}: "
            "the range is 5.8774718e-39..1.7014118e+38",
        ),
        ("f64", 2**1024, "2^1024... is larger than any element type can hold"),
        pytest.param("f64", -(10**5000), "-2^16609... is larger than any element type can hold", id="f64-huge"),
    ],
)
def test_what_a_type_cannot_hold_is_refused_with_the_reason(name, value, reason):
    with pytest.raises(LayoutError) as caught:
        padded(name, value)
    assert str(caught.value) == f"padding_value {reason}"


@pytest.mark.parametrize(
    "value, message",
    [
        (
            "least",
            "padding_value 'least' is not a PaddingValue or a number: the names are zero, one, lowest, highest, "
            "unknown",
        ),
        (b"\0", "padding_value b'\\x00' is not a PaddingValue or a number: it is a bytes"),
        ([0], "padding_value [0] is not a PaddingValue or a number: it is a list"),
        (np.zeros(1), "padding_value array([0.]) is not a PaddingValue or a number: it is an ndarray"),
        (
            np.datetime64(0, "s"),
            "padding_value np.datetime64('1970-01-01T00:00:00') is not a PaddingValue or a number: it is a datetime64",
        ),
    ],
)
def test_a_pad_value_that_is_not_a_number_is_a_type_error(value, message):
    with pytest.raises(gl.LayoutTypeError) as caught:
        Layout((0,), padding_value=value)
    assert str(caught.value) == message


# ---- what equal means ----------------------------------------------------------------------------


def test_shapes_keep_the_shortest_number_with_the_same_bytes():
    assert str(padded("f32", 0.1)) == "f32[1]{0:PD(2)PV(0.1)}"
    assert str(padded("f32", 0.1 + 1e-12)) == "f32[1]{0:PD(2)PV(0.1)}"
    assert padded("f32", 0.1) == padded("f32", np.float32(0.1)) != padded("f32", 0.1000001)
    assert padded("f32", 3) == padded("f32", 3.0) and padded("s32", 3) == padded("s32", 3.0)
    assert padded("pred", True) == padded("pred", 1) == padded("pred", 1.0)
    assert padded("c64", 1) == padded("c64", 1 + 0j)
    assert (
        str(padded("bf16", 0.1)) == "bf16[1]{0:PD(2)PV(0.1)}" and str(padded("c64", 0.1)) == "c64[1]{0:PD(2)PV(0.1+0j)}"
    )
    assert str(padded("f16", 65504)) == "f16[1]{0:PD(2)PV(65504.0)}"
    assert str(padded("f32", np.finfo(np.float32).max)) == "f32[1]{0:PD(2)PV(3.4028235e+38)}"


def test_layouts_tell_numbers_apart_that_print_differently():
    def layout(value):
        return Layout((0,), padding_value=value)

    values = [
        None,
        0,
        1,
        0.0,
        -0.0,
        1.0,
        math.nan,
        0j,
        complex(0, -0.0),
        *(name for name in PaddingValue if name.value),
    ]
    for one, other in itertools.product(values, repeat=2):
        assert (layout(one) == layout(other)) == (one is other), (one, other)
    assert layout(True) == layout(1) and layout(math.nan) == layout(-math.nan)
    assert len({layout(value) for value in values}) == len({str(layout(value)) for value in values}) == len(values)


def test_unset_padding_value_is_invalid_in_the_proto():
    assert Layout((0,), padding_value=PaddingValue.INVALID) == Layout((0,))
    assert [name.value for name in PaddingValue] == [0, 1, 2, 3, 4, 5]


def test_the_names_of_a_shapes_text_are_taken():
    assert Layout((0,), padding_value="lowest") == Layout((0,), padding_value=PaddingValue.LOWEST)
