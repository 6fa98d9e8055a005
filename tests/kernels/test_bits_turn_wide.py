"""Packed elements turned in vectors: kernels/bits_turn_wide.cu is right for full and partial tiles in every thread
order, clean under sanitizers, and reads and writes whole sectors.
"""

import itertools

import pytest

from gpulayout.gpu.bits import TURN_AXES
from gpulayout.gpu.kernel_numbers import TURN_WORDS
from gpulayout.gpu.kernel_source import kernel_text
from tests.kernels.test_bits import check_budget, macros, needs_compiler, needs_sanitizers, needs_simt, written
from tests.kernels.test_nvrtc import ARCHITECTURES
from tests.support.bits_cases import BitsCase, in_orders, wide_turns
from tests.support.simt import host_module, runner

FILE = "bits_turn_wide.cu"
VARIANTS = [(bits, words) for bits in (2, 4) for words in (2, 4) if words <= TURN_WORDS[bits]]
for_bits = [pytest.param(bits, marks=needs_simt) for bits in (2, 4)]


def turned(bits, rows, columns, phases=(0, 0)):
    """A matrix of packed rows; the columns become rows."""
    axes = (rows, rows, columns, 1), (columns, columns, 1, rows)
    return BitsCase(f"u{bits}[{rows},{columns}] turned at {phases}", axes, rows * columns, 0, (bits, bits), phases)


@pytest.mark.parametrize("bits", for_bits)
def test_blocks_are_turned_right_in_vectors(bits):
    seen = set()
    for number, case in enumerate(in_orders(wide_turns(bits))):
        assert case.plan.file == FILE and case.plan.index_bits == case.index_bits, case.name
        assert written(case, order=host_module.ORDERS[number % 3]).tolist() == case.expected.tolist(), case.name
        seen.add((bits, case.plan.vector_bytes // 4))
    assert seen == {variant for variant in VARIANTS if variant[0] == bits}


def test_the_widest_vectors_that_addresses_and_strides_allow_are_chosen():
    def vector(*sizes, **more):
        plan = turned(4, *sizes, **more).plan
        return plan.vector_bytes if plan.file == FILE else plan.file

    assert vector(256, 256) == vector(1024, 512, phases=(0, 0)) == 16
    assert (
        vector(256, 272) == vector(272, 256) == vector(256, 256, phases=(8, 0)) == vector(256, 256, phases=(0, 8)) == 8
    )
    assert vector(256, 264) == vector(256, 256, phases=(4, 0)) == vector(256, 256, phases=(0, 4)) == "bits_turn.cu"
    assert vector(8, 4096) == vector(4096, 8) == vector(64, 64) == "bits_turn.cu"  # most lanes would be idle
    assert turned(2, 512, 512).plan.vector_bytes == 8 and turned(1, 1024, 1024).plan.file == "bits_turn.cu"


@pytest.mark.parametrize("bits", for_bits)
def test_whole_sectors_are_read_and_written(bits):
    case = turned(bits, 2048 // bits, 1024 // bits)
    (result,) = runner.run([case.record()], "trace")
    assert result.buffers[1] == case.expected.tobytes()
    assert all(result.traffic[f"global {way}"].sectors_per_ideal == 1 for way in ("read", "write"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=needs_sanitizers) for mode in ("asan_ubsan", "tsan_block", "tsan_grid")]
)
def test_the_kernel_is_clean(mode):
    chosen = [case for case in wide_turns(4) if case.index_bits == 32]
    for case, result in zip(chosen, runner.run([case.record(order=n % 3) for n, case in enumerate(chosen)], mode)):
        assert result.reports == (), case.name
        assert result.buffers[1] == case.expected.tobytes(), case.name


@pytest.mark.parametrize(
    "right, wrong",
    [
        pytest.param(*twin, marks=needs_simt)
        for twin in (
            ("p * move.source_step", "p * move.target_step"),
            ("t * move.target_step", "t * move.source_step"),
            ("if (exists && place.inside && b", "if (exists && b"),
            ("b < move.axis[0].bound && ", ""),
            (" && a < move.axis[1].bound", ""),
            ("  if (!exists) return;\n", ""),
            ("upper ? word[p] : word[p + step]", "upper ? word[p + step] : word[p]"),
            ("step < GPL_WORDS; step", "2 * step < GPL_WORDS; step"),
            ("own * move.target_step", "own"),
            ("(b - own)", "b"),
            ("= gpl_from_source(word[i][p])", "= word[i][p]"),
            ("= gpl_to_target(word[i][q])", "= word[i][q]"),
        )
    ],
)
def test_a_broken_twin_is_wrong(right, wrong):
    text = kernel_text(FILE)
    assert right in text
    assert not all(
        is_right(case, text.replace(right, wrong)) for case in in_orders(wide_turns(4)) if case.index_bits == 32
    )


def is_right(case, text):
    try:
        return written(case, text).tolist() == case.expected.tolist()
    except (AssertionError, host_module.LaunchError) as error:
        assert any(fault in str(error) for fault in ("written outside", "invalid memory access", "misaligned access"))
        return False


@pytest.mark.one_in(4)
@needs_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("bits, words", VARIANTS)
def test_the_kernel_fits_every_architecture(architecture, bits, words):
    for index_bits, axes in itertools.product((32, 64), TURN_AXES):
        more = {"GPL_ELEMENT_BYTES": 4, "GPL_WORDS": words}
        check_budget(FILE, architecture, macros(bits, bits, index_bits, axes) | more)
