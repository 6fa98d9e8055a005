"""The kernels of packed elements: right in every thread order, clean under sanitizers, and within every
architecture's budget.
"""

import itertools

import pytest

from gpulayout.gpu.bits import AXES, words_of_block
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.moves.packed_move import PackedMove
from tests.kernels.test_nvrtc import ARCHITECTURES, MOST_REGISTERS
from tests.support import nvrtc
from tests.support.bits_cases import (
    WIDTHS,
    BitsCase,
    drawn,
    gaps,
    groups,
    in_orders,
    odd_turns,
    packed_cases,
    rows,
    turns,
)
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


def in_groups(widths, index_bits=(32, 64)):
    """Those of `groups` that do not move as whole bytes."""
    found = [case for case in groups(widths) if type(case.move) is PackedMove and case.index_bits in index_bits]
    assert {case.plan.file for case in found} == {"bits.cu"} and len(found) >= 8
    return found


for_simt = [pytest.param(*widths, marks=needs_simt) for widths in WIDTHS]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("source_bits, target_bits", for_simt)
def test_every_pair_of_widths_is_right(source_bits, target_bits):
    seen = set()
    widths = source_bits, target_bits
    for number, case in enumerate([*rows(widths), *in_groups(widths), *packed_cases(widths, CASES)]):
        assert written(case, order=host_module.ORDERS[number % 3]).tolist() == case.expected.tolist(), case.name
        seen |= {("phase", case.phases[1] % 4), case.plan.kernel, case.plan.index_bits, case.move.is_padded}
    assert seen >= {("phase", 0), ("phase", 1), ("phase", 2), ("phase", 3), "gpl_bits", 32, 64, True, False}
    assert target_bits < 8 or "gpl_bits_any" in seen


@pytest.mark.one_in(4)
@pytest.mark.parametrize("source_bits, target_bits", for_simt)
def test_every_bit_order_is_right(source_bits, target_bits):
    """In all ways that slots are read and written: by groups, runs, words that end outside a buffer, and slots."""
    widths, seen = (source_bits, target_bits), set()
    chosen = [*rows(widths), *in_groups(widths, (32,)), *packed_cases(widths, CASES), *gaps(widths)]
    for case in in_orders(case for case in chosen if case.index_bits == 32):
        assert written(case).tolist() == case.expected.tolist(), case.name
        seen.add((case.plan.file, case.big))
    orders = 4 if source_bits == target_bits else 2
    assert all(sum(file == each for each, _ in seen) == orders for file in ("bits.cu", "bits_any.cu"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bits", [pytest.param(bits, marks=needs_simt) for bits in (1, 2, 4)])
def test_blocks_of_every_bit_order_are_turned_right(bits):
    whole, any_rows = list(turns(bits)), list(odd_turns(bits))
    for case in in_orders(case for case in [*whole, *any_rows] if case.index_bits == 32):
        assert case.plan.file in ("bits_turn.cu", "bits_turn_wide.cu", "bits_turn_any.cu")
        assert written(case).tolist() == case.expected.tolist(), case.name


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bits", [pytest.param(bits, marks=needs_simt) for bits in (1, 2, 4)])
def test_blocks_are_turned_right(bits):
    for number, case in enumerate(turns(bits)):
        assert case.plan.file == "bits_turn.cu" and case.plan.index_bits == case.index_bits, case.name
        assert written(case, order=host_module.ORDERS[number % 3]).tolist() == case.expected.tolist(), case.name
    whole = next(iter(turns(bits)))
    apart = BitsCase("odd address", whole.axes, whole.slots, 0, (bits, bits), (4, 2))
    assert apart.plan.file == "bits_turn_any.cu" and written(apart).tolist() == apart.expected.tolist()


@pytest.mark.simt
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_blocks_are_written_in_whole_sectors_and_read_in_halves():
    """Eight lanes write a sector of 32 bytes; four read half of one; the next warp reads the rest from the cache."""
    case = BitsCase("u1[512,512] turned", ((512, 512, 512, 1), (512, 512, 1, 512)), 512 * 512, 0, (1, 1))
    assert case.plan.file == "bits_turn.cu"
    (result,) = runner.run([case.record()], "trace")
    assert result.buffers[1] == case.expected.tobytes()
    assert (
        result.traffic["global write"].sectors_per_ideal == 1 and result.traffic["global read"].sectors_per_ideal == 2
    )


@pytest.mark.parametrize("bits", [pytest.param(bits, marks=needs_simt) for bits in (1, 2, 4)])
def test_blocks_that_are_runs_are_written_in_whole_sectors(bits):
    """Two lanes write the halves of a sector at once; of what a lane reads at once, the cache keeps the rest."""
    side = 32 // bits
    long = 64 * side
    into = ((side, side, long, 1), (long, long, 1, side))
    out_of = ((long, long, side, 1), (side, side, 1, long))
    one, other = (BitsCase(f"runs of {bits} bits", axes, long * side, 0, (bits, bits)) for axes in (into, out_of))
    by_words = kernel_text("bits_turn.cu").replace("move.target_step == 1 &&", "false &&")
    found = runner.run([one.record(), other.record(), one.record(by_words)], "trace")
    assert all(result.buffers[1] == case.expected.tobytes() for case, result in zip((one, other, one), found))
    excess = [[each.traffic[f"global {way}"].sectors_per_ideal for way in ("read", "write")] for each in found]
    assert excess == [[1, 1], [2, 1], [1, 8]] and found[0].traffic["global write"].sectors_per_request == 16


@pytest.mark.parametrize(
    "source_bits, target_bits", [pytest.param(*widths, marks=needs_simt) for widths in ((4, 4), (1, 8), (8, 2))]
)
def test_no_word_is_read_or_written_that_a_buffer_holds_in_part(source_bits, target_bits):
    """The sanitizer does not watch the bytes of the source's first word that are before the source."""
    chosen = [
        *rows((source_bits, target_bits)),
        *in_groups((source_bits, target_bits), (32,)),
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
            ("if (exists && block.inside) {", "if (exists) {"),
            ("~0u / ((1u << shift) + 1)", "~0u >> shift"),
            ("q * move.target_step", "q * move.source_step"),
            ("move.source_step != 1 || ", ""),
            ("move.target_step == 1 && ", ""),
            ("half = 4 * odd", "half = 0"),
            ("odd ? given : lower", "odd ? lower : given"),
            ("if ((number | 1) < move.total)", "if (number < move.total)"),
            ("if ((number | 1) < move.total)", "if (true)"),
            (" || !GPL_IS_ALIGNED(from)", ""),
            ("!exists || GPL_IS_ALIGNED(to)", "true"),
        )
    ],
)
def test_a_broken_turn_is_wrong(right, wrong):
    text = kernel_text("bits_turn.cu")
    assert right in text
    assert not all(_is_right(case, text.replace(right, wrong)) for case in turns(4) if case.index_bits == 32)


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
        for case in [*rows(widths), *in_groups(widths), *packed_cases(widths, 40)]
        if case.index_bits == 32
    ]
    chosen += [case for case in turns(2) if case.index_bits == 32]
    records = [case.record(order=number % 3) for number, case in enumerate(chosen)]
    for case, result in zip(chosen, runner.run(records, mode)):
        assert result.reports == (), case.name
        assert result.buffers[1] == case.expected.tobytes(), case.name


@pytest.mark.one_in(6)
@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "mode, widths, right, wrong",
    [
        pytest.param(*twin, marks=needs_sanitizers)
        for twin in (
            ("asan_ubsan", (4, 4), "size - aligned.place >= BYTES * count", "size - aligned.place >= BYTES"),
            ("asan_ubsan", (4, 4), "if (!gpl_holds(aligned, words + 1, move)) return false;", ""),
            ("asan_ubsan", (8, 4), "if (!gpl_holds(aligned, vectors + 1, move)) return false;", ""),
            ("asan_ubsan", (8, 1), "if (!gpl_holds(aligned, words + 1, move)) {", "if (false) {"),
            ("asan_ubsan", (4, 4), "word + 8 <= high", "word <= high"),
            ("asan_ubsan", (4, 4), "if (from + i < high)", "if (from + i <= high)"),
            ("asan_ubsan", (4, 4), "if (first == 0 && last == GPL_WORD_SLOTS) {", "if (true) {"),
            ("asan_ubsan", (4, 8), "if (whole) *(GplWord", "if (true) *(GplWord"),
            ("tsan_grid", (4, 4), "gpl_block() * GPL_THREADS", "gpl_block() * (GPL_THREADS - 1)"),
        )
    ],
)
def test_a_broken_twin_is_seen_by_a_sanitizer(mode, widths, right, wrong):
    text = kernel_text("bits.cu")
    assert right in text
    chosen = [*rows(widths), *in_groups(widths, (32,)), *packed_cases(widths, 30)]
    chosen = [case for case in chosen if case.index_bits == 32 and case.plan.file == "bits.cu"]
    results = runner.run([case.record(text.replace(right, wrong)) for case in chosen], mode)
    assert any(result.reports or result.buffers[1] != case.expected.tobytes() for case, result in zip(chosen, results))


@pytest.mark.parametrize(
    "widths, right, wrong",
    [
        pytest.param(*twin, marks=needs_simt)
        for twin in (
            # high nibble first
            (
                (4, 4),
                "(unsigned)slot % GPL_SLOTS * GPL_SOURCE_BITS",
                "(GPL_SLOTS - 1 - (unsigned)slot % GPL_SLOTS) * GPL_SOURCE_BITS",
            ),
            ((4, 4), "<< (begin + i) * GPL_VALUE_BITS;", "<< ((begin + i) ^ 1) * GPL_VALUE_BITS;"),
            ((4, 4), "return move.pad[0] & GPL_VALUE_MASK;", "return 0;"),
            ((8, 2), "const unsigned pad = (move.pad[0] & GPL_VALUE_MASK) *", "const unsigned pad = move.pad[0] *"),
            ((4, 4), "      value[i] = 0;\n", "      value[i] = move.pad[0] & GPL_VALUE_MASK;\n"),
            ((4, 4), "gpl_place<1, GPL_AXES - 1>(++walk.rest, move)", "gpl_place<1, GPL_AXES - 1>(walk.rest, move)"),
            ((4, 4), "if (!walk.outer.inside || walk.minor >= bound) return 0;", "if (!walk.outer.inside) return 0;"),
            ((4, 4), "if (!walk.outer.inside || walk.minor >= bound) return 0;", "if (walk.minor >= bound) return 0;"),
            ((4, 4), "(unsigned)(bound - walk.minor) : most;", "(unsigned)(bound - walk.minor + 1) : most;"),
            ((4, 4), "== GPL_GROUP_SLOTS &&\n", ">= GPL_GROUP_SLOTS - 1 &&\n"),
            ((4, 4), "|| walk.minor >= move.axis[0].bound", ""),
            ((4, 4), "8 * phase + shift);", "8 * phase);"),
            ((4, 4), "aligned.word[i + 1]), aligned.shift);", "aligned.word[i + 1]), aligned.shift & ~7u);"),
            ((4, 4), "(run & gpl_lowest_slots(count))", "run"),
            ((4, 4), "& gpl_lowest_slots(elements);", "& gpl_lowest_slots(count);"),
            ((4, 4), "count < GPL_NARROW_SLOTS ?", "count <= GPL_NARROW_SLOTS ?"),
            ((4, 4), "slots.word[i - 1] = slots.word[i];", ""),
            ((4, 8), "slots.word[i - 1] = slots.word[i];", ""),
            ((4, 8), "word[i] &= GPL_VALUE_MASK * GPL_EACH_BYTE;", "word[i] &= (GPL_VALUE_MASK >> 1) * GPL_EACH_BYTE;"),
            ((1, 8), "width >= GPL_VALUE_BITS; width /= 2", "width > GPL_VALUE_BITS; width /= 2"),
            ((2, 8), "lower, upper, 0x7362);", "upper, lower, 0x7362);"),
            ((8, 1), "(odd << width & ~lower)", "(odd << width)"),
            ((8, 2), "(even & lower) |", "even |"),
            ((8, 4), "aligned.shift & 32 * half ?", "aligned.shift & 16 * half ?"),
            ((8, 4), "i < words + half) word[i]", "i < words) word[i]"),
            ((8, 4), "    if (!aligned.shift) {", "    if (true) {"),
            ((8, 2), "i < words ? aligned.word[i + 1] : 0;", "i + 1 < words ? aligned.word[i + 1] : 0;"),
            ((8, 2), "i < elements; ++i) part |=", "i + 1 < elements; ++i) part |="),
            ((4, 8), "steps = move.axis[0].source_stride != 1;", "steps = false;"),
        )
    ],
)
def test_a_broken_twin_is_wrong(widths, right, wrong):
    text = kernel_text("bits.cu")
    assert right in text
    chosen = [*rows(widths), *in_groups(widths, (32,)), *packed_cases(widths, CASES)]
    chosen = [case for case in chosen if case.index_bits == 32 and case.plan.file == "bits.cu"]
    assert not all(_is_right(case, text.replace(right, wrong)) for case in chosen)


def _is_right(case, text):
    try:
        return written(case, text).tolist() == case.expected.tolist()
    except (AssertionError, host_module.LaunchError) as error:
        assert any(fault in str(error) for fault in ("written outside", "invalid memory access", "misaligned access"))
        return False


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
            {
                "GPL_ELEMENT_BYTES": 4,
                "GPL_INDEX_BITS": 64,
                "GPL_AXES": 4,
                "GPL_SOURCE_BITS": bits,
                "GPL_TARGET_BITS": bits,
            },
        )


@pytest.mark.one_in(4)
@needs_compiler
@pytest.mark.parametrize("axes, index_bits", [(AXES[0], 32), (AXES[1], 64), (AXES[2], 64)])
def test_every_pair_of_widths_fits(axes, index_bits):
    for file, widths in itertools.product(BITS_FILES, WIDTHS):
        if file == "bits.cu" or (widths[1] == 8) == (file == "bits_any.cu"):
            check_budget(file, "sm_90", macros(*widths, index_bits, axes))


@pytest.mark.one_in(3)
@needs_compiler
@pytest.mark.parametrize("bits", (1, 2, 4))
def test_the_kernels_of_big_sides_fit(bits):
    big = {"GPL_SOURCE_BIG": 1, "GPL_TARGET_BIG": 1}
    for file, widths in (("bits.cu", (bits, bits)), ("bits.cu", (8, bits)), ("bits_any.cu", (bits, 8))):
        check_budget(file, "sm_90", macros(*widths, 64, 8) | big)
    check_budget("bits_turn.cu", "sm_90", macros(bits, bits, 64, 4) | big | {"GPL_ELEMENT_BYTES": 4})
    rows = {"GPL_WORDS": words_of_block(bits, 64), "GPL_SKIP": 8}
    check_budget("bits_turn_any.cu", "sm_90", macros(bits, bits, 64, 4) | big | rows, shared_bytes=10 << 10)


def check_budget(file, architecture, values, shared_bytes=0, spill_bytes=0):
    for usage in nvrtc.compiled(kernel_text(file), architecture, values).usage.values():
        assert max(usage.spill_bytes, usage.stack_bytes) <= spill_bytes, (file, values, usage)
        assert usage.registers <= MOST_REGISTERS and usage.shared_bytes <= shared_bytes, (file, values, usage)


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
