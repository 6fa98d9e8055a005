"""Moves with arithmetic in one pass, in executed machine code: typical moves keep limits of instructions and sectors.

Parameters are those of pictures, so quick divisions are right and no element takes the long way.  Without arithmetic,
no text of the conversions reaches the machine code.
"""

import dataclasses
import functools
import math

import numpy as np
import pytest

from gpulayout.gpu.kernel_source import kernel_text, raw_text
from tests.kernels.test_one_pass import FAMILIES
from tests.support import nvrtc
from tests.support.convert_cases import ConvertCase
from tests.support.nvrtc import CompileError
from tests.support.sass.launches import run

pytestmark = pytest.mark.skipif(nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing()))
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
VALUES = {
    "cast": (),
    "scale and shift": ((0.017, 0.018, 0.019), (-2.1, -2.0, -1.8)),
    "normalise": (255, MEAN, DEVIATION),
}
OF_ARITHMETIC = {
    *(f"GPL_{name}" for name in ("SOURCE_TYPE", "TARGET_TYPE", "SATURATE", "STEPS", "CODE_BYTES", "COMPONENTS")),
    *("GPL_PARAMETERS", "GPL_VARIES", "GPL_WHOLE_ROWS"),
}
OPERATIONS = {"multiply": np.multiply, "add": np.add, "subtract": np.subtract, "divide": np.divide}


class PictureCase(ConvertCase):
    """A case with parameters of pictures, and floats that every type holds."""

    @functools.cached_property
    def parameters(self):
        return [np.array(values, np.float32).reshape(1, 1, -1) for values in VALUES[self.form]]

    @functools.cached_property
    def source_bytes(self):
        if not self.arithmetic.source.is_floating:
            return super().source_bytes
        values = np.random.default_rng(7).standard_normal(math.prod(self.dims), np.float32)
        return values.astype(self.arithmetic.source.dtype).view(np.uint8)

    def expected(self):
        """What NumPy makes of it, one rounded operation after the other."""
        found = self.codes_of(self.source_bytes, 0)[..., 0].view(self.arithmetic.source.dtype).astype(np.float32)
        for step in self.arithmetic.steps:
            found = OPERATIONS[step.operation](found, self.parameters[step.parameter])
        result = np.zeros(self.target_bytes, np.uint8)
        target = self.codes_of(result, 1)[..., 0]
        target[...] = found.astype(self.arithmetic.target.dtype).view(target.dtype)
        return result.tobytes()


def pixels(form, *per):
    return PictureCase("u8", "f32", form, (64, 128, 3), (2, 1, 0), (1, 0, 2), per)


def turned(source, target):
    return PictureCase(source, target, "cast", (128, 128), (1, 0), (0, 1))


# move -> kernel, case, instructions for an element at most
BUDGETS = {
    "u8 pixels to f32 planes, scale and shift": ("channels.cu", pixels("scale and shift", (2,), (2,)), 14),
    "u8 pixels to f32 planes, normalise": ("channels.cu", pixels("normalise", (), (2,), (2,)), 18),
    "f32 to bf16, turned": ("tile.cu", turned("f32", "bf16"), 10),
    "f32 to f8e4m3fn, turned": ("tile.cu", turned("f32", "f8e4m3fn"), 12),
    "bf16 to f32, rows": ("rows.cu", PictureCase("bf16", "f32", "cast", (64, 8, 128), (2, 1, 0), (2, 0, 1)), 5),
}
WITHOUT_F8 = ("sm_80",)  # has no instruction for f8, so one is put together from its bits


@functools.cache
def counted(name, architecture, text=None):
    """What a move took; its bytes are right."""
    found = run(BUDGETS[name][1].record(text), architecture)
    assert found.buffers[1] == BUDGETS[name][1].expected()
    return found.counted


def instructions(name, architecture="sm_90", text=None):
    return 32 * counted(name, architecture, text).issued / math.prod(BUDGETS[name][1].dims)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", BUDGETS)
def test_a_move_takes_no_more_instructions_than_its_budget(name):
    file, case, limit = BUDGETS[name]
    assert case.plan.file == file
    assert instructions(name) <= limit


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("architecture", ("sm_80", "sm_100"))
def test_other_architectures_take_about_as_many(architecture, name):
    lacks = "f8" in name and architecture in WITHOUT_F8
    assert instructions(name, architecture) <= (1.4 if lacks else 1.3) * BUDGETS[name][2]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_both_sides_are_accessed_in_whole_sectors(architecture, name):
    """Of the arrays alone: a move with parameters has the same accesses as one without, and those of parameters."""
    case = dataclasses.replace(BUDGETS[name][1], form="cast", per=())
    traffic = run(case.record(), architecture).counted.traffic
    for side, nbytes in (("read", case.source_bytes.size), ("write", case.target_bytes)):
        assert traffic[f"global {side}"].parts <= 1.1 * nbytes / 32, side


def test_a_division_of_its_own_for_each_element_is_seen():
    name, text = "u8 pixels to f32 planes, normalise", kernel_text("channels.cu")
    assert text.count("gpl_stepped<W, true>") == 1
    assert instructions(name, text=text.replace("gpl_stepped<W, true>", "gpl_stepped<W, false>")) > 18


class ScaledCase(ConvertCase):
    """A case whose scales and numbers are usual ones."""

    @functools.cached_property
    def parameters(self):
        return [np.abs(array) + np.float32(0.125) for array in super().parameters]

    @functools.cached_property
    def source_bytes(self):
        return np.random.default_rng(7).standard_normal(math.prod(self.dims), np.float32).view(np.uint8)


@pytest.mark.parametrize("per", [(), (0,), (1,)])
def test_a_scale_along_either_side_of_a_turn_costs_little(per):
    """Chunks of the source share a scale of their row, chunks of the target one of theirs, and its reciprocal."""
    case = ScaledCase("f32", "s8", "quantise", (128, 128), (1, 0), (0, 1), (per, per))
    found = run(case.record(), "sm_90")
    assert case.plan.file == "tile.cu" and case.is_right(np.frombuffer(found.buffers[1], np.uint8))
    assert 32 * found.counted.issued / math.prod(case.dims) <= 21


def test_narrow_elements_that_are_put_together_one_by_one_are_seen():
    """The words of 8 bytes in one register pair: bf16 are made one by one."""
    name, halves = "f32 to bf16, turned", "template <> struct GplHalves<8> { typedef uint2 type; };"
    text = kernel_text("tile.cu")
    assert text.count(halves) == 1
    assert instructions(name, text=text.replace(halves, "")) > instructions(name) + 1


@pytest.mark.parametrize("file", FAMILIES)
def test_without_arithmetic_no_text_of_the_conversions_reaches_the_machine_code(file):
    text, conversions = kernel_text(file), raw_text("convert.cuh")
    assert text.count(conversions) == 1
    broken = text.replace(conversions, '#error "the conversions are read"\n')
    changed = dict(FAMILIES[file].plan.macros)
    plain = {name: value for name, value in changed.items() if name not in OF_ARITHMETIC}
    assert nvrtc.compiled(text, "sm_90", plain).cubin == nvrtc.compiled(broken, "sm_90", plain).cubin
    with pytest.raises(CompileError, match="the conversions are read"):
        nvrtc.compiled(broken, "sm_90", changed)
