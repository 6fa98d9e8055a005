"""The kernel of moves with arithmetic: its parameters arrive, it is clean under sanitizers in every thread order, it
fits every architecture, and no compiler fuses two steps or flushes subnormal numbers.
"""

import dataclasses
import itertools
import re

import numpy as np
import pytest

from gpulayout.gpu.convert import MOST_AXES, arithmetic_macros, convert_plan
from gpulayout.gpu.division import divisor
from gpulayout.gpu.kernel_numbers import MOST_PARAMETERS
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.parameters import convert_struct
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, Step
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.move import Axis
from tests.kernels.test_nvrtc import ARCHITECTURES, check_budget
from tests.kernels.test_struct import MOST_PARAMETER_BYTES, echoed
from tests.support import nvrtc
from tests.support.cast_kernels import TYPES, arithmetic_of
from tests.support.convert_cases import CASES
from tests.support.effort import ALL
from tests.support.kernel_cases import BLOCK, FILES
from tests.support.simt import host_module, runner, toolchain
from tests.support.simt.sparse import sparse_bytes

FILE = "convert.cu"
needs_simt = pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
needs_nvrtc = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
needs_sanitizers = pytest.mark.skipif(
    toolchain.sanitizers_missing() is not None, reason=str(toolchain.sanitizers_missing())
)
needs_disassembler = pytest.mark.skipif(
    nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing())
)

ECHO = """
extern "C" __global__ void echo(unsigned long long* to, const __grid_constant__ GplConvert move) {
  *to++ = sizeof move, *to++ = move.total;
  for (int p = 0; p < GPL_PARAMETERS; ++p) *to++ = move.along[p];
  for (int i = 0; i < GPL_AXES; ++i) {
    const GplConvertAxis& axis = move.axis[i];
    *to++ = axis.extent.value, *to++ = axis.extent.multiplier, *to++ = axis.extent.shift;
    *to++ = axis.source_stride, *to++ = axis.target_stride;
    for (int p = 0; p < GPL_PARAMETERS; ++p) *to++ = axis.parameter_stride[p];
  }
}
"""


def macros(arithmetic, vector=1, bits=32, axes=2):
    return {
        "GPL_ELEMENT_BYTES": arithmetic.target.itemsize,
        "GPL_INDEX_BITS": bits,
        "GPL_AXES": axes,
        **dict(arithmetic_macros(arithmetic)),
        "GPL_VECTOR": vector,
    }


def of_types(source, target, form="cast"):
    types = ElementType(source), ElementType(target)
    return Arithmetic(*types) if form == "cast" else arithmetic_of(form, *types)


@needs_simt
@pytest.mark.simt
@pytest.mark.parametrize("bits", (32, 64))
@pytest.mark.parametrize("parameters", range(MOST_PARAMETERS + 1))
def test_a_move_with_arithmetic_arrives_field_by_field(bits, parameters):
    mask, along = 2**bits - 1, list(range(71, 71 + parameters))
    unused = [0] * (MOST_PARAMETERS - parameters)
    loops = [(1000 + i, -(17 + i), 2 ** (bits - 2) - i, *(-i - p for p in range(parameters))) for i in range(3)]
    found = convert_struct(bits, 2 ** (bits - 1) - 1, along, loops, MOST_AXES)
    expected = [len(found), 2 ** (bits - 1) - 1, *along, *unused]
    for extent, *strides in loops:
        expected += [*divisor(extent, bits), *(stride & mask for stride in strides), *unused]
    expected += [*divisor(1, bits), *[0] * (2 + MOST_PARAMETERS)] * (MOST_AXES - 3)
    given = macros(of_types("u8", "f32"), 1, bits, MOST_AXES)
    assert echoed(kernel_text(FILE) + ECHO, given, found, len(expected)) == expected
    assert len(found) + 8 * (2 + MOST_PARAMETERS) <= MOST_PARAMETER_BYTES


# ---- sanitizers ------------------------------------------------------------------------------------------------------

CHECKED = CASES if ALL else [CASES[number] for number in (1, 3, 5)]


@needs_sanitizers
@pytest.mark.simt
@pytest.mark.parametrize("mode", ("asan_ubsan", "tsan_grid"))
def test_the_kernel_is_clean(mode):
    records = [case.record(order=number % 3) for number, case in enumerate(CHECKED)]
    for case, result in zip(CHECKED, runner.run(records, mode)):
        assert result.reports == (), case.name
        assert case.is_right(np.frombuffer(result.buffers[1], np.uint8)), case.name


@needs_sanitizers
@pytest.mark.simt
@pytest.mark.parametrize(
    "mode, right, wrong",
    [
        ("asan_ubsan", "(gpl_int)place[k].source", "(gpl_int)place[k].source + 4"),
        ("tsan_grid", "gpl_block() * (GPL_THREADS * GPL_ITEMS)", "gpl_block() * GPL_THREADS"),
    ],
)
def test_a_broken_twin_is_seen_by_a_sanitizer(mode, right, wrong):
    text = kernel_text(FILE)
    assert right in text
    case = dataclasses.replace(CASES[0], dims=(1201,))  # three blocks, the last one with threads to spare
    assert runner.run(case.record(text.replace(right, wrong)), mode).reports


@needs_simt
@pytest.mark.simt
def test_offsets_beyond_2_to_the_32_are_right():
    """Three elements, 8 GB apart on both sides and in a parameter; the last one is at the end of the memory."""
    apart, arithmetic = 2**33, Arithmetic(ElementType.U8, ElementType.F32, True, (Step("multiply", 0),))
    plan = convert_plan(ConvertMove((Axis(3, 3, apart, apart),), arithmetic, ((apart // 4,),), (0,)))
    assert plan.index_bits == 64
    source, target, scale = (sparse_bytes(2 * apart + size, ends=True) for size in (1, 4, 4))
    source[::apart] = 1, 2, 3
    for number in range(3):
        scale[number * apart :][:4] = np.array([number - 1.5], np.float32).view(np.uint8)
    kernel = host_module.load(kernel_text(FILE), FILES[FILE], dict(plan.macros)).kernel(plan.kernel)
    kernel(plan.grid, BLOCK, (source.ctypes.data, target.ctypes.data, scale.ctypes.data, 0, 0, plan.parameters))
    found = [target[number * apart :][:4].view(np.float32).item() for number in range(3)]
    assert found == [-1.5, -1.0, 1.5]


# ---- machine code ----------------------------------------------------------------------------------------------------

COMMON = [
    (of_types("u8", "f32", "normalise"), 4),
    (of_types("f32", "s8", "quantise"), 4),
    (of_types("f32", "bf16"), 4),
    (of_types("s4", "f16", "dequantise"), 4),
    (of_types("f32", "f8e4m3fn"), 4),
    (of_types("s64", "f64", "normalise"), 2),
]


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernel_fits_every_architecture(architecture):
    for (arithmetic, vector), (bits, axes) in zip(COMMON, itertools.cycle(((64, 8), (32, 2), (64, 56)))):
        check_budget(FILE, architecture, macros(arithmetic, vector, bits, axes))


@needs_nvrtc
def test_the_kernel_fits_for_every_type():
    """Each type is a source and a target once, with the most registers: 64-bit offsets and three parameters."""
    for number, source in enumerate(TYPES):
        target = TYPES[(number + 11) % len(TYPES)]
        check_budget(FILE, "sm_90", macros(of_types(source, target, "normalise"), 1, 64, 8))


def instructions(architecture, arithmetic, text=None):
    """The machine instructions of floats."""
    cubin = nvrtc.compiled(text or kernel_text(FILE), architecture, macros(arithmetic), FILE).cubin
    return [found for found in nvrtc.instructions(cubin, "gpl_convert") if re.match("[FD](MUL|ADD|FMA)", found)]


def steps_as_written(found):
    """Whether products and sums are instructions of their own, and none flushes subnormal numbers."""
    kinds = {instruction.split()[0].split(".")[0][1:] for instruction in found}
    return kinds == {"MUL", "ADD"} and not any(".FTZ" in instruction for instruction in found)


@needs_disassembler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pair", [("u8", "f32"), ("f32", "f16"), ("s32", "f64")])
def test_no_step_is_fused_and_subnormal_numbers_stay(architecture, pair):
    assert steps_as_written(instructions(architecture, of_types(*pair, "scale and shift")))


OPERATORS = ("#ifdef __CUDACC__", "#define __fmul_rn(x, y) ((x) * (y))\n#define __fadd_rn(x, y) ((x) + (y))\n#if 0")


@needs_disassembler
@pytest.mark.parametrize("wrong", [("#ifdef __CUDACC__", "#if 0"), OPERATORS])
def test_steps_that_are_fused_or_flush_are_seen(wrong):
    """Intrinsics flush subnormal numbers with CuPy's options; operators are fused, too."""
    text = kernel_text(FILE)
    assert text.count(wrong[0]) == 1
    found = instructions("sm_90", of_types("u8", "f32", "scale and shift"), text.replace(*wrong))
    assert found and not steps_as_written(found)
