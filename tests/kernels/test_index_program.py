"""The kernels of tiled index conversion: their struct, their machine code, and their runs under the sanitizers."""

import dataclasses
import itertools

import numpy as np
import pytest

from gpulayout.gpu.kernel_numbers import NO_DIVISION
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.parameters import index_program_struct, reciprocal
from gpulayout.moves.index_program import MOST_INSTRUCTIONS, MOST_TERMS, Instruction, Quotient, Term
from gpulayout.moves.index_program import MOST_REGISTERS as PROGRAM_REGISTERS
from tests.kernels.test_nvrtc import ARCHITECTURES, MOST_REGISTERS
from tests.kernels.test_struct import MOST_PARAMETER_BYTES, echoed
from tests.support import nvrtc
from tests.support.index_cases import tiled_index_cases
from tests.support.kernel_cases import FILES
from tests.support.simt import runner, toolchain
from tests.support.simt.record import FRESH

FILE = "index_program.cu"
needs_compiler = pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
needs_nvrtc = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
needs_sanitizers = pytest.mark.skipif(
    toolchain.sanitizers_missing() is not None, reason=str(toolchain.sanitizers_missing())
)

ECHO = """
extern "C" __global__ void echo(unsigned long long* to, const __grid_constant__ GplProgram program) {
  *to++ = sizeof program;
  *to++ = program.count, *to++ = program.size, *to++ = program.instructions, *to++ = program.mode;
  *to++ = program.padded;
  for (int i = 0; i < GPL_INSTRUCTIONS; ++i) {
    const GplInstruction& each = program.list.instruction[i];
    *to++ = each.bound, *to++ = each.row, *to++ = each.terms, *to++ = each.adds;
    *to++ = each.keep, *to++ = each.loads, *to++ = each.stores;
  }
  for (int t = 0; t < GPL_TERMS; ++t) {
    const GplTerm& term = program.list.term[t];
    *to++ = term.multiplier, *to++ = term.weight, *to++ = term.source, *to++ = term.shift;
  }
}
"""


def macros(bits=32, given=8, signed=1, result=8):
    return {"GPL_INDEX_BITS": bits, "GPL_IN_BYTES": given, "GPL_IN_SIGNED": signed, "GPL_OUT_BYTES": result}


@needs_compiler
@pytest.mark.simt
@pytest.mark.parametrize("bits", (32, 64))
def test_a_program_arrives_field_by_field(bits):
    instructions = (
        Instruction(2, (), 900, None, None, (Quotient(1, 5), Quotient(7, -9))),
        Instruction(None, (Term(None, 12, 3), Term(15, 1, -1)), None, 3, None, ()),
        Instruction(None, (Term(None, 1, 1),), 2 ** (bits - 2), None, 4, ()),
    )
    parameters = index_program_struct(bits, (2**40, 2**33, 3, True), instructions)
    expected = [
        len(parameters),
        2**40,
        2**33,
        3,
        3,
        1,
        900,
        2 * 2**40,
        0,
        2,
        0,
        1,
        0,
        2**64 - 1,
        0,
        2,
        0,
        4,
        0,
        0,
        2 ** (bits - 2),
        4 * 2**40,
        1,
        0,
        0,
        0,
        1,
        *[0] * 7 * (MOST_INSTRUCTIONS - 3),
    ]
    for source, step, weight in ((0, 1, 5), (0, 7, -9), (0, 12, 3), (16, 1, -1), (0, 1, 1)):
        _, multiplier, shift = reciprocal(step, bits)
        expected += [multiplier, weight % 2**bits, source, NO_DIVISION if step == 1 else shift]
    expected += [0] * 4 * (MOST_TERMS - 5)
    assert echoed(kernel_text(FILE) + ECHO, macros(bits), parameters, len(expected)) == expected
    assert len(parameters) + 24 <= MOST_PARAMETER_BYTES


# ---- machine code -------------------------------------------------------------------------------------------------


def check_budget(architecture, given):
    usage = nvrtc.compiled(kernel_text(FILE), architecture, given).usage
    assert set(usage) == set(FILES[FILE])
    for kernel, used in usage.items():
        # Only kept numbers have an address: 4 of each, in local memory, which the cache holds.
        assert (
            used.spill_bytes == 0 and used.stack_bytes <= 4 * PROGRAM_REGISTERS * given["GPL_INDEX_BITS"] // 8 + 64
        ), (kernel, architecture, used)
        assert used.registers <= MOST_REGISTERS and used.shared_bytes == 0, (kernel, architecture, used)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_fit_every_architecture(architecture):
    for bits in (32, 64):
        check_budget(architecture, macros(bits))


@needs_nvrtc
def test_the_kernels_fit_for_all_types():
    for given, signed in itertools.product((1, 2, 4), (0, 1)):
        check_budget("sm_90", macros(32, given, signed, given))


@pytest.mark.skipif(nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing()))
@pytest.mark.parametrize("bits", (32, 64))
def test_only_wrapped_coordinates_are_divided_by_a_routine(bits):
    cubin = nvrtc.compiled(kernel_text(FILE), "sm_90", macros(bits)).cubin
    for kernel in FILES[FILE]:
        found = {instruction.split()[0].split(".")[0] for instruction in nvrtc.instructions(cubin, kernel)}
        assert ("CALL" in found) == (kernel == "gpl_linearize_program"), kernel


# ---- runs -----------------------------------------------------------------------------------------------------------

TYPES = ((np.int8, np.int8, 32), (np.uint16, np.int32, 64), (np.int64, np.int64, 64), (np.uint32, np.int64, 32))


@pytest.mark.one_in(2)
@needs_sanitizers
@pytest.mark.simt
@pytest.mark.parametrize("mode", ("asan_ubsan", "tsan_grid"))
def test_the_kernels_are_clean_and_right(mode):
    chosen = [case for types in TYPES for case in tiled_index_cases(*types)]
    assert {case.launch.file for case in chosen} == {FILE} and max(case.program.registers for case in chosen) > 0
    for case, result in zip(chosen, runner.run([case.record() for case in chosen], mode)):
        assert result.reports == (), (case.direction, case.launch.macros)
        assert case.is_right(result.buffers), (case.direction, case.launch.macros)


@needs_sanitizers
@pytest.mark.simt
def test_nothing_is_written_for_a_bad_index_among_good_ones():
    """The first thread has four indices, and the first of them is bad."""
    turned = [dataclasses.replace(case, given=np.roll(case.given, 1, axis=-1)) for case in tiled_index_cases()]
    for case, result in zip(turned, runner.run([case.record() for case in turned], "asan_ubsan")):
        got = np.frombuffer(result.buffers[1], case.expected.dtype).reshape(-1, case.given.shape[-1])
        assert got.shape[1] > 1024 and np.array_equal(got[:, 1:], case.expected), case.direction
        assert got[:, :1].tobytes() == bytes([FRESH]) * got[:, :1].nbytes and not any(result.buffers[2]), case.direction


@pytest.mark.one_in(3)
@needs_sanitizers
@pytest.mark.simt
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("((k) * GPL_THREADS < left)", "((k) * GPL_THREADS <= left)"),
        ("index + instruction.row", "index + instruction.row + program.count"),
        ("kept[term[t].source - 1]", "kept[term[t].source + 15]"),
    ],
)
def test_accesses_out_of_bounds_are_caught(right, wrong):
    text = kernel_text(FILE)
    assert right in text
    assert any(
        result.reports
        for result in runner.run(
            [case.record(text.replace(right, wrong)) for case in tiled_index_cases()], "asan_ubsan"
        )
    )


@needs_sanitizers
@pytest.mark.simt
@pytest.mark.parametrize(
    "right, wrong, direction",
    [
        (
            "<< k;\n  return outside;\n}\n\n__device__ __forceinline__ void gpl_keep",
            "<< k;\n  return 0;\n}\n\n__device__ __forceinline__ void gpl_keep",
            "delinearize",
        ),
        ("if (term.shift == GPL_NO_DIVISION)", "if (true)", "linearize"),
        ("term += instruction.adds;", "", "convert_linear"),
        ("if (!instruction.keep) return;", "return;", "convert_linear"),
        ("outside |= (unsigned)(coordinate >= bound) << k;", "", "linearize"),
    ],
)
def test_a_kernel_that_converts_wrong_is_seen(right, wrong, direction):
    text = kernel_text(FILE)
    assert right in text
    chosen = [case for case in tiled_index_cases() if case.direction == direction]
    results = runner.run([case.record(text.replace(right, wrong)) for case in chosen], "asan_ubsan")
    assert not all(case.is_right(result.buffers) for case, result in zip(chosen, results))
