"""Moves with arithmetic in one pass: the families' kernels, compiled for two element types.

Parameters arrive, the kernels are clean under sanitizers in every thread order, they fit every architecture, no
compiler fuses two steps or flushes subnormal numbers, and their machine code writes the model's bytes.
"""

import dataclasses
import re

import numpy as np
import pytest

from gpulayout.gpu.change import arithmetic_macros
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.kernel_numbers import MOST_PARAMETERS
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.parameters import ChangeWords, move_struct
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, ConvertMove, Step
from gpulayout.moves.move import Axis
from tests.kernels.test_nvrtc import ARCHITECTURES, check_budget
from tests.kernels.test_struct import MOST_PARAMETER_BYTES, echoed
from tests.support import nvrtc
from tests.support.cast_kernels import TYPES, arithmetic_of
from tests.support.convert_cases import CASES, ConvertCase
from tests.support.effort import ALL
from tests.support.executors import with_operands
from tests.support.kernel_cases import BLOCK, FILES, tile_macros
from tests.support.sass.launches import run
from tests.support.simt import host_module, runner, toolchain
from tests.support.simt.sparse import sparse_bytes

needs_simt = pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
needs_nvrtc = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
needs_sanitizers = pytest.mark.skipif(
    toolchain.sanitizers_missing() is not None, reason=str(toolchain.sanitizers_missing())
)
needs_disassembler = pytest.mark.skipif(
    nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing())
)

ECHO = """
extern "C" __global__ void echo(unsigned long long* to, const __grid_constant__ GplMove move) {
  *to++ = sizeof move, *to++ = (unsigned long long)move.parameters, *to++ = move.pad[0], *to++ = move.total;
  for (int i = 0; i < GPL_AXES; ++i) *to++ = move.axis[i].target_stride;
  for (int p = 0; p < GPL_PARAMETERS; ++p) *to++ = move.first.at[p], *to++ = move.step.at[p];
  for (int i = 0; i < GPL_AXES; ++i)
    for (int p = 0; p < GPL_PARAMETERS; ++p) *to++ = move.stride[i].at[p];
}
"""


def of_types(source, target, form="cast"):
    types = ElementType(source), ElementType(target)
    return Arithmetic(*types) if form == "cast" else arithmetic_of(form, *types)


def macros(arithmetic, bits=32, axes=2, varies=3, **others):
    """The macros of a kernel; all its parameters are of one kind."""
    count = sum(step.parameter is not None for step in arithmetic.steps)
    return {
        "GPL_ELEMENT_BYTES": max(arithmetic.source.itemsize, arithmetic.target.itemsize),
        "GPL_INDEX_BITS": bits,
        "GPL_AXES": axes,
        **dict(arithmetic_macros(arithmetic)),
        "GPL_PARAMETERS": count,
        "GPL_VARIES": sum(varies << 2 * place for place in range(count)),
        **{f"GPL_{name}": value for name, value in others.items()},
    }


@needs_simt
@pytest.mark.simt
@pytest.mark.parametrize("bits", (32, 64))
@pytest.mark.parametrize("parameters", range(1, MOST_PARAMETERS + 1))
def test_parameters_arrive_field_by_field(bits, parameters):
    mask, numbers = 2**bits - 1, range(parameters)
    first, step = tuple(2 ** (bits - 2) + p for p in numbers), tuple(-7 - p for p in numbers)
    strides = [tuple(-100 * i - p for p in numbers) for i in range(30)]
    loops = [(1000 + i, 1000 + i, -17, 2 ** (bits - 2) - i) for i in range(30)]
    given = ChangeWords(first, step, tuple(strides))
    found = move_struct(bits, b"\x01\x02\x03\x04", (2 ** (bits - 1) - 1, 0, 1, 0, 0), (1, 1), (1, 1), loops, given)
    found = with_operands(found, (0x123456789A,))
    filled = [*(loop[3] for loop in loops), 0, 0]
    expected = [len(found), 0x123456789A, 0x04030201, 2 ** (bits - 1) - 1, *filled]
    expected += [offset & mask for pair in zip(first, step) for offset in pair]
    expected += [stride & mask for row in (*strides, (0,) * parameters, (0,) * parameters) for stride in row]
    form = ("cast", "scale", "scale and shift", "normalise")[parameters]
    arithmetic = (
        of_types("u8", "f32", form)
        if form != "scale"
        else dataclasses.replace(of_types("u8", "f32"), steps=(Step("multiply", 0),))
    )
    assert echoed(kernel_text("gather.cu") + ECHO, macros(arithmetic, bits, 32), found, len(expected)) == expected
    assert len(found) + 16 <= MOST_PARAMETER_BYTES


# ---- sanitizers ------------------------------------------------------------------------------------------------------

FAMILIES = {case.plan.file: case for case in sorted(CASES, key=lambda case: case.plan.operands)}
CHECKED = {case.name: case for case in CASES} if ALL else FAMILIES


def test_every_family_has_a_case():
    wanted = {"copy.cu", "rows.cu", "channels.cu", "tile.cu", "tile_any.cu", "tile_nd.cu", "gather.cu"}
    assert set(FAMILIES) == wanted


@pytest.mark.one_in(4)
@needs_sanitizers
@pytest.mark.simt
@pytest.mark.parametrize("mode", ("asan_ubsan", "tsan_grid"))
@pytest.mark.parametrize("name", CHECKED)
def test_the_kernels_are_clean(name, mode):
    result = runner.run(CHECKED[name].record(order=list(CHECKED).index(name) % 3), mode)
    assert result.reports == () and CHECKED[name].is_right(np.frombuffer(result.buffers[1], np.uint8))


@needs_sanitizers
@pytest.mark.simt
def test_parameters_of_places_outside_a_row_are_not_read():
    """Rows that begin inside a chunk: elements before the row have no parameters."""
    case = ConvertCase("u8", "f32", "scale and shift", (5, 70), (1, 0), (1, 0), ((1,), (1,)), (1, 3), (3, 4))
    text, right = kernel_text("rows.cu"), "extent == GPL_NO_END || first + begin + i < extent ? first + begin + i : 0"
    assert case.plan.file == "rows.cu" and right in text
    assert runner.run(case.record(), "asan_ubsan").clean
    assert runner.run(case.record(text.replace(right, "first + begin + i")), "asan_ubsan").reports


@needs_simt
@pytest.mark.simt
def test_offsets_beyond_2_to_the_32_are_right():
    """Three elements, 8 GB apart on both sides and in a parameter; the last one is at the end of the memory.

    The only value of another parameter is there, too.
    """
    steps = Step("multiply", 0), Step("add", 1)
    apart, arithmetic = 2**33, Arithmetic(ElementType.U8, ElementType.F32, True, steps)
    plan = kernel_plan(ConvertMove((Axis(3, 3, apart, apart),), arithmetic, ((apart // 4,), (0,)), (0, apart // 2)))
    assert plan.index_bits == 64
    source, target, scale = (sparse_bytes(2 * apart + size, ends=True) for size in (1, 4, 4))
    source[::apart] = 1, 2, 3
    for number in range(3):
        scale[number * apart :][:4] = np.array([number - 1.5], np.float32).view(np.uint8)
    kernel = host_module.load(kernel_text(plan.file), FILES[plan.file], dict(plan.macros)).kernel(plan.kernel)
    parameters = with_operands(plan.parameters, (scale.ctypes.data,))
    kernel(plan.grid, BLOCK, (source.ctypes.data, target.ctypes.data, parameters))
    found = [target[number * apart :][:4].view(np.float32).item() for number in range(3)]
    assert found == [-1.5 + 0.5, -1.0 + 0.5, 1.5 + 0.5]


# ---- machine code ----------------------------------------------------------------------------------------------------

PAIRS = [
    of_types("u8", "f32", "normalise"),
    of_types("f32", "s8", "quantise"),
    of_types("f32", "bf16"),
    of_types("s4", "f16", "dequantise"),
    of_types("f32", "f8e4m3fn"),
    of_types("s64", "f64", "normalise"),
]
VARIANTS = {
    "copy.cu": {"LOAD_BYTES": 4, "axes": 1},
    "rows.cu": {"VECTOR_BYTES": 16, "LOAD_BYTES": 4, "WHOLE_ROWS": 0},
    "channels.cu": {"CHANNELS": 3, "PLANES": 3, "CHUNKS": 4, "TO_PLANES": 1},
    "tile.cu": {},
    "tile_any.cu": {"axes": 4},
    "tile_nd.cu": {"axes": 4},
    "gather.cu": {"axes": 8},
}


def fitting(file, arithmetic, bits):
    """The macros of a file for a pair of types, with accesses that a plan for them could have."""
    others = dict(VARIANTS[file])
    narrow_tile = file == "tile.cu" and max(arithmetic.source.itemsize, arithmetic.target.itemsize) < 4
    given = macros(arithmetic, bits, others.pop("axes", 2), 1 if narrow_tile else 3, **others)
    width = given["GPL_ELEMENT_BYTES"]
    if "GPL_LOAD_BYTES" in given:
        given["GPL_LOAD_BYTES"] = max(4, width)
    if file == "tile.cu":
        given |= tile_macros(width)[0]
    if file in ("tile_any.cu", "tile_nd.cu"):
        given |= {"GPL_READ_BYTES": max(width, 4), "GPL_WRITE_BYTES": width}
    if file == "tile_any.cu":
        given["GPL_ALIGN"] = 1
    if file == "rows.cu":  # with parameters of their own, four elements at most
        given["GPL_VECTOR_BYTES"] = min(16, 4 * width) if arithmetic.steps else 16
        given["GPL_LOAD_BYTES"] = min(given["GPL_LOAD_BYTES"], given["GPL_VECTOR_BYTES"])
    if file == "channels.cu":
        given["GPL_CHUNKS"] = 1 if bits == 64 else 4
    return given


@pytest.mark.one_in(3)
@needs_nvrtc
@pytest.mark.parametrize("file", VARIANTS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_fit_every_architecture(architecture, file):
    """All pairs on Hopper, every other one on the oldest and every other one on the newest architecture."""
    every, first = (1, 0) if ALL or architecture == "sm_90" else (2, ARCHITECTURES.index(architecture) // 2)
    for number, arithmetic in enumerate(PAIRS[first::every]):
        check_budget(file, architecture, fitting(file, arithmetic, (32, 64)[number % 2]))


@pytest.mark.one_in(4)
@needs_nvrtc
@pytest.mark.parametrize("share", range(8))
def test_the_kernels_fit_for_every_type(share):
    """Each type is a source and a target once, with the most registers: 64-bit offsets and three parameters.

    In both files with `ci/test --all`; otherwise these alternate.
    """
    files = ("rows.cu", "tile_any.cu")
    for number in range(share, len(TYPES), 8):
        arithmetic = of_types(TYPES[number], TYPES[(number + 11) % len(TYPES)], "normalise")
        for file in files if ALL else (files[share % 2],):
            check_budget(file, "sm_90", fitting(file, arithmetic, 64))


def instructions(architecture, arithmetic, text=None):
    """The machine instructions of floats."""
    cubin = nvrtc.compiled(text or kernel_text("gather.cu"), architecture, macros(arithmetic)).cubin
    return [found for found in nvrtc.instructions(cubin, "gpl_gather") if re.match("[FD](MUL|ADD|FMA)", found)]


def steps_as_written(found):
    """Whether products and sums are instructions of their own, and none flushes subnormal numbers."""
    kinds = {instruction.split()[0].split(".")[0][1:] for instruction in found}
    return kinds == {"MUL", "ADD"} and not any(".FTZ" in instruction for instruction in found)


@pytest.mark.one_in(4)
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
    text = kernel_text("gather.cu")
    assert text.count(wrong[0]) == 1
    found = instructions("sm_90", of_types("u8", "f32", "scale and shift"), text.replace(*wrong))
    assert found and not steps_as_written(found)


@pytest.mark.one_in(3)
@needs_disassembler
@pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES)
def test_the_machine_code_writes_what_the_model_says(case):
    assert case.is_right(np.frombuffer(run(case.record(), "sm_90").buffers[1], np.uint8))
