"""The kernels of packed elements: right in every thread order, clean under sanitizers, and within every
architecture's budget.
"""

import itertools

import pytest

from gpulayout.gpu.bits_turn import AXES
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.moves.packed_move import PackedMove
from tests.kernels.test_nvrtc import ARCHITECTURES, MOST_REGISTERS
from tests.support import nvrtc
from tests.support.bits_cases import WIDTHS, BitsCase, drawn, packed_cases, rows, turns
from tests.support.kernel_cases import BITS_FILES, BLOCK, FILES
from tests.support.kernel_runs import content, source_memory, target_memory
from tests.support.simt import host_module, runner, toolchain

MISSING, SANITIZERS_MISSING = toolchain.missing(), toolchain.sanitizers_missing()
needs_simt = [pytest.mark.simt, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]
needs_sanitizers = [
    pytest.mark.simt,
    pytest.mark.skipif(SANITIZERS_MISSING is not None, reason=str(SANITIZERS_MISSING)),
]
needs_compiler = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
CASES = 120  # of each pair of widths


def written(case, text=None, order=host_module.ASCENDING):
    """The target's bytes after a launch; AssertionError if bytes around it changed."""
    plan = case.plan
    source, first = source_memory(case.source, case.phases[0] - case.source_offset)
    target, place = target_memory(case.expected.size, case.phases[1])
    addresses = source.ctypes.data + first + case.source_offset, target.ctypes.data + place
    kernel = host_module.load(text or kernel_text(plan.file), FILES[plan.file], dict(plan.macros)).kernel(plan.kernel)
    kernel(plan.grid, BLOCK, (*addresses, plan.parameters), order, 1)
    return content(target, place, case.expected.size, case.name)


def some_cases(file, count):
    """Of the first `count` cases of 4 bits, those that a file moves with 32-bit offsets."""
    return [case for case in packed_cases((4, 4), count) if case.index_bits == 32 and case.plan.file == file]


for_simt = [pytest.param(*widths, marks=needs_simt) for widths in WIDTHS]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("source_bits, target_bits", for_simt)
def test_every_pair_of_widths_is_right(source_bits, target_bits):
    seen = set()
    widths = source_bits, target_bits
    for number, case in enumerate([*rows(widths), *packed_cases(widths, CASES)]):
        assert written(case, order=host_module.ORDERS[number % 3]).tolist() == case.expected.tolist(), case.name
        seen |= {("phase", case.phases[1] % 4), case.plan.kernel, case.plan.index_bits, case.move.is_padded}
    assert seen >= {("phase", 0), ("phase", 1), ("phase", 2), ("phase", 3), "gpl_bits", 32, 64, True, False}
    assert target_bits < 8 or "gpl_bits_any" in seen


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bits", [pytest.param(bits, marks=needs_simt) for bits in (1, 2, 4)])
def test_blocks_are_turned_right(bits):
    for number, case in enumerate(turns(bits)):
        assert case.plan.file == "bits_turn.cu" and case.plan.index_bits == case.index_bits, case.name
        assert written(case, order=host_module.ORDERS[number % 3]).tolist() == case.expected.tolist(), case.name
    apart = BitsCase("odd address", case.axes, case.slots, 0, (bits, bits), (4, 2))
    assert apart.plan.file == "bits_turn_any.cu" and written(apart).tolist() == apart.expected.tolist()


@pytest.mark.simt
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_blocks_are_written_in_whole_sectors_and_read_in_halves():
    """Eight lanes write a sector of 32 bytes; four read half of one; the next warp reads the rest from the cache."""
    case = BitsCase("u4[256,512] turned", ((256, 256, 512, 1), (512, 512, 1, 256)), 256 * 512, 0, (4, 4))
    (result,) = runner.run([case.record()], "trace")
    assert result.buffers[1] == case.expected.tobytes()
    assert (
        result.traffic["global write"].sectors_per_ideal == 1 and result.traffic["global read"].sectors_per_ideal == 2
    )


@pytest.mark.parametrize(
    "source_bits, target_bits", [pytest.param(*widths, marks=needs_simt) for widths in ((4, 4), (1, 8), (8, 2))]
)
def test_no_word_is_read_or_written_that_a_buffer_holds_in_part(source_bits, target_bits):
    """The sanitizer does not watch the bytes of the source's first word that are before the source."""
    chosen = [
        *rows((source_bits, target_bits)),
        *(case for case in packed_cases((source_bits, target_bits), 40) if case.index_bits == 32),
    ]
    for case, result in zip(chosen, runner.run([case.record() for case in chosen], "trace")):
        assert result.traffic["outside access"].requests == 0, case.name


@pytest.mark.parametrize(
    "right, wrong",
    [
        pytest.param(*twin, marks=needs_simt)
        for twin in (
            ("p * move.source_step", "p * move.target_step"),
            ("half > 0", "half > 1"),
            ("if (block.inside) {", "if (true) {"),
            ("~0u / ((1u << shift) + 1)", "~0u >> shift"),
            ("q * move.target_step", "q * move.source_step"),
        )
    ],
)
def test_a_broken_turn_is_wrong(right, wrong):
    text = kernel_text("bits_turn.cu")
    assert right in text
    try:
        assert any(
            written(case, text.replace(right, wrong)).tolist() != case.expected.tolist()
            for case in turns(4)
            if case.index_bits == 32
        )
    except (AssertionError, host_module.LaunchError) as error:
        assert "written outside" in str(error) or "invalid memory access" in str(error)


@pytest.mark.parametrize(
    "source_bits, target_bits, rank",
    [
        pytest.param(4, 4, 6, marks=needs_simt),
        pytest.param(2, 8, 7, marks=needs_simt),
        pytest.param(8, 1, 9, marks=needs_simt),
    ],
)
def test_many_axes_are_right(source_bits, target_bits, rank):
    variants = set()
    for case in packed_cases((source_bits, target_bits), 12, rank):
        assert written(case).tolist() == case.expected.tolist(), case.name
        variants.add(dict(case.plan.macros)["GPL_AXES"])
    assert max(variants) == min(count for count in AXES if count >= rank)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=needs_sanitizers) for mode in ("asan_ubsan", "tsan_block", "tsan_grid")]
)
def test_the_kernels_are_clean(mode):
    chosen = [
        case
        for widths in ((4, 4), (8, 1), (2, 8))
        for case in [*rows(widths), *packed_cases(widths, 40)]
        if case.index_bits == 32
    ]
    chosen += [case for case in turns(2) if case.index_bits == 32]
    records = [case.record(order=number % 3) for number, case in enumerate(chosen)]
    for case, result in zip(chosen, runner.run(records, mode)):
        assert result.reports == (), case.name
        assert result.buffers[1] == case.expected.tobytes(), case.name


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "mode, right, wrong",
    [
        pytest.param(*twin, marks=needs_sanitizers)
        for twin in (
            ("asan_ubsan", "word + 8 <= high", "word <= high"),
            ("asan_ubsan", "if (from + i < high)", "if (from + i <= high)"),
            ("asan_ubsan", "if (begin + i < first || begin + i >= last) continue;", "if (begin + i < first) continue;"),
            ("asan_ubsan", "  if (whole) {", "  if (true) {"),
            ("tsan_grid", "gpl_block() * GPL_THREADS", "gpl_block() * (GPL_THREADS - 1)"),
        )
    ],
)
def test_a_broken_twin_is_seen_by_a_sanitizer(mode, right, wrong):
    text = kernel_text("bits.cu")
    assert right in text
    chosen = [*rows((4, 4)), *some_cases("bits.cu", 30)]
    results = runner.run([case.record(text.replace(right, wrong)) for case in chosen], mode)
    assert any(result.reports or result.buffers[1] != case.expected.tobytes() for case, result in zip(chosen, results))


@pytest.mark.parametrize(
    "right, wrong",
    [
        pytest.param(*twin, marks=needs_simt)
        for twin in (
            # high nibble first
            (
                "(unsigned)slot % GPL_SLOTS * GPL_SOURCE_BITS",
                "(GPL_SLOTS - 1 - (unsigned)slot % GPL_SLOTS) * GPL_SOURCE_BITS",
            ),
            (
                "<< (begin + i) * GPL_TARGET_BITS;\n  }\n  return word;",
                "<< ((begin + i) ^ 1) * GPL_TARGET_BITS;\n  }\n  return word;",
            ),
            ("return move.pad[0] & GPL_VALUE_MASK;", "return 0;"),
            ("      value[i] = 0;\n", "      value[i] = move.pad[0] & GPL_VALUE_MASK;\n"),
            (
                "if (++walk.minor < move.axis[0].extent.value) return;",
                "if (++walk.minor <= move.axis[0].extent.value) return;",
            ),
            ("walk.minor < move.axis[0].bound &&", ""),
            ("|| walk.minor >= move.axis[0].bound", ""),
            ("8 * phase + shift);", "8 * phase);"),
        )
    ],
)
def test_a_broken_twin_is_wrong(right, wrong):
    text = kernel_text("bits.cu")
    assert right in text
    chosen = [*rows((4, 4)), *some_cases("bits.cu", CASES)]
    assert any(written(case, text.replace(right, wrong)).tolist() != case.expected.tolist() for case in chosen)


def macros(source_bits, target_bits, index_bits, axes):
    return {
        "GPL_ELEMENT_BYTES": 1,
        "GPL_INDEX_BITS": index_bits,
        "GPL_AXES": axes,
        "GPL_SOURCE_BITS": source_bits,
        "GPL_TARGET_BITS": target_bits,
    }


@pytest.mark.one_in(4)
@needs_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_kernels_fit_every_architecture(architecture):
    for file, widths in (("bits.cu", (4, 4)), ("bits.cu", (8, 1)), ("bits_any.cu", (2, 8))):
        check_budget(file, architecture, macros(*widths, 64, 8))
    for bits in (1, 4):
        check_budget(
            "bits_turn.cu",
            architecture,
            {"GPL_ELEMENT_BYTES": 4, "GPL_INDEX_BITS": 64, "GPL_AXES": 4, "GPL_SOURCE_BITS": bits},
        )


@pytest.mark.one_in(4)
@needs_compiler
@pytest.mark.parametrize("axes, index_bits", [(AXES[0], 32), (AXES[1], 64), (AXES[2], 64)])
def test_every_pair_of_widths_fits(axes, index_bits):
    for file, widths in itertools.product(BITS_FILES, WIDTHS):
        if file == "bits.cu" or (widths[1] == 8) == (file == "bits_any.cu"):
            check_budget(file, "sm_90", macros(*widths, index_bits, axes))


def check_budget(file, architecture, values, shared_bytes=0):
    for usage in nvrtc.compiled(kernel_text(file), architecture, values).usage.values():
        assert usage.spill_bytes == usage.stack_bytes == 0 and usage.registers <= MOST_REGISTERS, (file, values, usage)
        assert usage.shared_bytes <= shared_bytes, (file, values, usage)


def test_plans_ask_for_these_variants_only():
    for widths, rank in itertools.product(WIDTHS, (None, 6)):
        for case in packed_cases(widths, 20, rank):
            found = dict(case.plan.macros)
            assert found == macros(*widths, found["GPL_INDEX_BITS"], found["GPL_AXES"]) and found["GPL_AXES"] in AXES


def test_whole_bytes_are_moved_as_bytes():
    """The bytes of such a move also follow the definition."""
    seen = 0
    for number in range(2000):
        case = drawn((4, 4), number)
        if type(case.move) is not PackedMove:
            assert case.move.itemsize == 1 and case.move.bytes_written == case.expected.size
            seen += 1
    assert seen >= 60
