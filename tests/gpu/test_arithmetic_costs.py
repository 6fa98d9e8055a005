"""The instructions that a plan says the arithmetic takes are about those that the machine code takes."""

import dataclasses
import math

import pytest

from gpulayout.gpu.kernel_costs import arithmetic_instructions
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic
from tests.support import nvrtc
from tests.support.convert_cases import ConvertCase
from tests.support.sass.launches import run

pytestmark = pytest.mark.skipif(
    nvrtc.missing() is not None or nvrtc.disassembler_missing() is not None,
    reason=str(nvrtc.missing() or nvrtc.disassembler_missing()),
)
CASES = [
    ("u8", "f32", "cast"),
    ("u8", "f32", "scale and shift"),
    ("s8", "bf16", "dequantise"),
    ("f32", "bf16", "cast"),
    ("f32", "f16", "cast"),
    ("bf16", "f32", "cast"),
    ("f32", "f8e4m3fn", "cast"),
    ("f32", "s8", "scale and shift"),
    ("f8e5m2", "f32", "cast"),
    ("s4", "f16", "cast"),
    ("f32", "f8e4m3fnuz", "cast"),
    ("f8e4m3fnuz", "f32", "cast"),
    ("f32", "f8e3m4", "cast"),
]


def executed(case):
    return 32 * run(case.record(), "sm_90", every=8).counted.issued * 8 / math.prod(case.dims)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source, target, form", CASES)
def test_an_estimate_is_near_the_executed_instructions(source, target, form):
    """Beside a copy in one of the two types, the narrower one, for which a thread has as many chunks."""
    count = {"cast": 0}.get(form, 2)
    case = ConvertCase(source, target, form, (1 << 16,), (0,), (0,), ((),) * count)
    plain = dataclasses.replace(
        case, source="f32", target="s32", form="cast", per=()
    )  # the same bytes, one instruction
    found = executed(case) - executed(plain) + 1
    assert abs(found - arithmetic_instructions(case.arithmetic)) <= 3, found


def test_wide_types_and_general_ones_take_more():
    few = arithmetic_instructions(Arithmetic(ElementType.F32, ElementType.BF16))
    assert few < arithmetic_instructions(Arithmetic(ElementType.F32, ElementType.F4E2M1FN))
    assert few < arithmetic_instructions(Arithmetic(ElementType.F64, ElementType.BF16))


def test_a_complex_number_is_cast_in_two_parts():
    parts, whole = (
        arithmetic_instructions(Arithmetic(ElementType(source), ElementType(target)))
        for source, target in (("f32", "f64"), ("c64", "c128"))
    )
    assert whole == 2 * parts
