"""The kernel that looks up every place: right in every thread order, clean under sanitizers, and within every
architecture's budget.
"""

import itertools

import pytest

from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.parameters import lookup_struct, reciprocal
from gpulayout.moves.index_program import MOST_REGISTERS as PROGRAM_REGISTERS
from gpulayout.moves.index_program import Instruction, Quotient, Term
from tests.kernels.test_nvrtc import ARCHITECTURES, MOST_REGISTERS
from tests.kernels.test_struct import MOST_PARAMETER_BYTES, echoed
from tests.support import nvrtc
from tests.support.kernel_cases import BLOCK, FILES
from tests.support.kernel_runs import content, source_memory, target_memory
from tests.support.lookup_cases import PACKED, UNPACKED, cases, of_width
from tests.support.simt import host_module, runner, toolchain

FILE = "lookup.cu"
needs_simt = pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
needs_nvrtc = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
needs_sanitizers = pytest.mark.skipif(
    toolchain.sanitizers_missing() is not None, reason=str(toolchain.sanitizers_missing())
)

ECHO = """
extern "C" __global__ void echo(unsigned long long* to, const __grid_constant__ GplLookup lookup) {
  *to++ = sizeof lookup;
  for (int i = 0; i < 4; ++i) *to++ = lookup.pad[i];
  *to++ = lookup.total, *to++ = lookup.head, *to++ = lookup.apart, *to++ = lookup.instructions;
  *to++ = lookup.list.instruction[1].row, *to++ = lookup.list.instruction[1].stores;
  *to++ = lookup.list.instruction[0].adds;
  *to++ = lookup.list.term[1].multiplier, *to++ = lookup.list.term[1].weight, *to++ = lookup.list.term[2].source;
}
"""


def macros(width, bits, source=8, target=8):
    return {"GPL_ELEMENT_BYTES": width, "GPL_INDEX_BITS": bits, "GPL_SOURCE_BITS": source, "GPL_TARGET_BITS": target}


@needs_simt
@pytest.mark.simt
@pytest.mark.parametrize("bits", (32, 64))
def test_a_lookup_arrives_field_by_field(bits):
    instructions = (
        Instruction(None, (Term(None, 12, 3),), 7, 2, None, (Quotient(7, -9),)),
        Instruction(None, (Term(2, 1, 1),), None, None, -24, ()),
    )
    parameters = lookup_struct(bits, b"\1\2\3\4", (2**40 + 5, 3, True), instructions)
    expected = [
        len(parameters),
        *[0x04030201] * 4,
        2**40 + 5,
        3,
        1,
        2,
        2**64 - 24,
        1,
        1,
        reciprocal(7, bits)[1],
        2**bits - 9,
        3,
    ]
    assert echoed(kernel_text(FILE) + ECHO, macros(4, bits), parameters, len(expected)) == expected
    assert len(parameters) + 16 <= MOST_PARAMETER_BYTES


def written(case, text=None, order=host_module.ASCENDING):
    """The target's bytes after a launch; AssertionError if bytes around it changed."""
    plan = case.plan
    assert plan.file == FILE and plan.index_bits == case.index_bits
    source, first = source_memory(case.source, case.phases[0])
    target, place = target_memory(case.expected.size, case.phases[1])
    kernel = host_module.load(text or kernel_text(FILE), FILES[FILE], dict(plan.macros)).kernel(plan.kernel)
    kernel(plan.grid, BLOCK, (source.ctypes.data + first, target.ctypes.data + place, plan.parameters), order, 1)
    return content(target, place, case.expected.size, case.name)


@needs_simt
@pytest.mark.simt
def test_packed_and_unpacked_are_right():
    for number, case in enumerate([*cases(PACKED), *cases(UNPACKED)]):
        assert written(case, order=host_module.ORDERS[number % 3]).tolist() == case.expected.tolist(), case.name


@needs_simt
@pytest.mark.simt
@pytest.mark.parametrize("name", ("u8", "u16", "s64", "c128"))
def test_elements_of_all_widths_are_right(name):
    for case in cases(of_width(name, UNPACKED[1:3]), (32,)):
        assert written(case).tolist() == case.expected.tolist(), case.name


@needs_simt
@pytest.mark.simt
@pytest.mark.parametrize(
    "right, wrong, texts",
    [
        ("begin + k < to.last ? to.slot + begin + k", "begin + k < to.last ? to.slot + k", PACKED),
        ("<< (begin + k) * GPL_TARGET_BITS", "<< k * GPL_TARGET_BITS", PACKED),
        ("outside >> k & 1 ? lookup.pad[0] & GPL_VALUE_MASK :", "", PACKED),
        ("if (outside >> k & 1) gpl_pad(lookup, value[k]);\n    else", "", UNPACKED),
        ("term += instruction.adds;", "", UNPACKED),
        ("gpl_keep(instruction, number, kept);\n#pragma", "#pragma", UNPACKED),
    ],
)
def test_a_broken_twin_is_wrong(right, wrong, texts):
    text = kernel_text(FILE)
    assert right in text
    try:
        assert any(
            written(case, text.replace(right, wrong)).tolist() != case.expected.tolist() for case in cases(texts, (32,))
        )
    except host_module.LaunchError as error:
        assert "invalid memory access" in str(error)


@needs_sanitizers
@pytest.mark.simt
@pytest.mark.parametrize("mode", ("asan_ubsan", "tsan_grid"))
def test_the_kernel_is_clean(mode):
    chosen = [*cases(PACKED, (32,)), *cases(UNPACKED, (32,))]
    for case, result in zip(
        chosen, runner.run([case.record(order=number % 3) for number, case in enumerate(chosen)], mode)
    ):
        assert result.reports == (), case.name
        assert result.buffers[1] == case.expected.tobytes(), case.name


@pytest.mark.one_in(3)
@needs_sanitizers
@pytest.mark.simt
@pytest.mark.parametrize(
    "mode, right, wrong, texts",
    [
        ("asan_ubsan", "(k) * GPL_THREADS < lookup.total", "(k) * GPL_THREADS <= lookup.total", UNPACKED),
        ("asan_ubsan", "if (outside >> k & 1) gpl_pad(lookup, value[k]);\n    else value[k]", "value[k]", UNPACKED),
        ("tsan_grid", "gpl_block() * (GPL_THREADS * GPL_ITEMS)", "gpl_block() * GPL_THREADS", UNPACKED),
    ],
)
def test_a_broken_twin_is_seen_by_a_sanitizer(mode, right, wrong, texts):
    text = kernel_text(FILE)
    assert right in text
    results = runner.run([case.record(text.replace(right, wrong)) for case in cases(texts, (32,))], mode)
    assert any(result.reports for result in results)


def check_budget(architecture, given):
    used = nvrtc.compiled(kernel_text(FILE), architecture, given).usage["gpl_lookup"]
    assert used.spill_bytes == 0 and used.stack_bytes <= 4 * PROGRAM_REGISTERS * given["GPL_INDEX_BITS"] // 8 + 64, (
        architecture,
        given,
        used,
    )
    assert used.registers <= MOST_REGISTERS and used.shared_bytes == 0, (architecture, given, used)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernel_fits_every_architecture(architecture):
    check_budget(architecture, macros(4, 64))
    check_budget(architecture, macros(1, 64, 4, 4))


@needs_nvrtc
def test_the_kernel_fits_for_all_widths():
    for width, bits in itertools.product((1, 2, 8, 16), (32, 64)):
        check_budget("sm_90", macros(width, bits))
    for source, target in ((1, 1), (2, 2), (8, 1), (4, 8)):
        check_budget("sm_90", macros(1, 32, source, target))
