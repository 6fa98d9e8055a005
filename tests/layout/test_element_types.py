"""Relations between element types, checked with every value of the small types."""

import itertools

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import ElementType

SMALL = [member for member in ElementType if member.itemsize <= 2]


def values(element_type):
    """Every value of a type of one or two bytes, as float64."""
    if element_type is ElementType.PRED:
        return np.array([0.0, 1.0])
    if element_type.is_integral:
        bits = element_type.bits
        return (
            np.arange(-(1 << bits - 1), 1 << bits - 1, dtype=np.float64)
            if element_type.is_signed
            else np.arange(1 << bits) * 1.0
        )
    bits = np.arange(1 << {"f4": 4, "f6": 6}.get(element_type.value[:2], 8 * element_type.itemsize), dtype=np.uint32)
    with np.errstate(all="ignore"):
        return bits.astype(element_type.carrier).view(element_type.dtype).astype(np.float64)


def holds_all(target, found):
    """True when every float64 number comes back unchanged from the target type, the sign of zero included."""
    if target is ElementType.PRED:
        return False
    part = target.component
    if part.is_integral:
        known = set(values(part).tolist()) if part.itemsize <= 2 else None
        return all(
            repr(value) != "-0.0"
            and value == value
            and abs(value) < 2**17
            and value == int(value)
            and (value in known if known else part.is_signed or value >= 0)
            for value in found.tolist()
        )
    with np.errstate(all="ignore"):
        back = found.astype(part.dtype).astype(np.float64)
    same = (back == found) & (np.signbit(back) == np.signbit(found)) | np.isnan(back) & np.isnan(found)
    return bool(same.all())


@pytest.mark.parametrize("source", SMALL, ids=str)
def test_a_type_can_be_upcast_exactly_when_all_its_values_are_values_of_the_other(source):
    found = values(source)
    for target in ElementType:
        expected = source is target or (
            not (source.is_floating and not (target.is_floating or target.is_complex)) and holds_all(target, found)
        )
        assert gl.xla.can_upcast(source, target) == expected, (source, target)


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ("s32", "f32", False),
        ("s32", "f64", True),
        ("u32", "s64", True),
        ("u32", "s32", False),
        ("s64", "f64", False),
        ("s32", "c128", True),
        ("f32", "f64", True),
        ("f64", "f32", False),
        ("f32", "c64", True),
        ("f64", "c64", False),
        ("c64", "c128", True),
        ("c64", "f64", False),
        ("u64", "s64", False),
        ("s64", "s64", True),
        ("f32", "s64", False),
    ],
)
def test_wide_types(source, target, expected):
    assert gl.xla.can_upcast(source, target) == expected


def test_a_type_that_holds_another_has_the_higher_precision():
    ties = []
    for first, second in itertools.combinations(ElementType, 2):
        try:
            higher = gl.xla.higher_precision_element_type(first, second)
        except gl.LayoutError:
            ties.append((str(first), str(second)))
            assert not (gl.xla.can_upcast(second, first) and first.is_floating)
            continue
        assert higher in (first, second) and higher is gl.xla.higher_precision_element_type(second, first)
        for lower, upper in ((first, second), (second, first)):
            if gl.xla.can_upcast(lower, upper):
                assert higher is upper
    assert ties == [("pred", "u1"), ("f8e5m2", "f8e5m2fnuz"), ("f8e4m3", "f8e4m3fnuz")]
    assert all(gl.xla.higher_precision_element_type(member, member) is member for member in ElementType)


def test_types_of_equal_precision_have_no_higher_one():
    with pytest.raises(gl.LayoutError) as caught:
        gl.xla.higher_precision_element_type("pred", "u1")
    assert str(caught.value) == "element types pred and u1 have the same precision: neither is the higher one"


@pytest.mark.parametrize(
    "first, second, higher",
    [
        ("f16", "bf16", "bf16"),
        ("s64", "f16", "f16"),
        ("c64", "f64", "c64"),
        ("u8", "s8", "s8"),
        ("u16", "s8", "u16"),
        ("f8e4m3fn", "f8e5m2", "f8e5m2"),
        ("c64", "c128", "c128"),
    ],
)
def test_the_higher_precision_is_that_of_xla(first, second, higher):
    assert gl.xla.higher_precision_element_type(first, second) == higher


def test_kinds_of_types():
    def named(question):
        return {member.value for member in ElementType if getattr(member, question)}

    integers = {f"{sign}{bits}" for sign in "su" for bits in (1, 2, 4, 8, 16, 32, 64)}
    assert named("is_integral") == integers and named("is_complex") == {"c64", "c128"}
    assert named("is_floating") == {member.value for member in ElementType} - integers - {"c64", "c128", "pred"}
    assert named("is_signed") == {member.value for member in ElementType} - {
        name for name in integers if name[0] == "u"
    } - {"pred"}
    assert {member.value: str(member.component) for member in ElementType if member.component is not member} == {
        "c64": "f32",
        "c128": "f64",
    }
