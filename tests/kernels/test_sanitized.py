"""The kernels under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer: clean and right on buffers of
exact length.

Every gate has broken twins, made by changing one place of the text, that it must catch.
"""

import dataclasses

import numpy as np
import pytest

from gpulayout.gpu.kernel_source import kernel_text
from tests.support.effort import ALL
from tests.support.index_cases import index_cases
from tests.support.kernel_cases import FAMILIES, WIDTHS, cases, move_files
from tests.support.random_moves import AIMS
from tests.support.simt import runner, toolchain

REASON = toolchain.sanitizers_missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
MODES = ("asan_ubsan", "tsan_block", "tsan_grid")
INDEX_TYPES = (
    (np.int8, np.int16, 64),
    (np.uint8, np.int32, 32),
    (np.int16, np.int64, 64),
    (np.uint16, np.int16, 32),
    (np.int32, np.int64, 32),
    (np.uint32, np.int32, 64),
    (np.int64, np.int64, 64),
    (np.uint64, np.int64, 32),
)


# 64-bit offsets change addresses, not which thread writes what: one width shows the addresses, and a long run all.
WITH_64_BITS = [(width, mode, 64) for width in WIDTHS for mode in MODES] if ALL else [(8, "asan_ubsan", 64)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "width, mode, bits", [*((width, mode, 32) for width in WIDTHS for mode in MODES), *WITH_64_BITS]
)
def test_every_family_is_clean_and_right(width, mode, bits):
    chosen = cases(width, bits=bits)
    if bits == 64:  # differs only in the type of offsets, so each element size takes another half of the cases
        chosen = chosen[width.bit_length() // 2 % 2 :: 2]
    for case, result in zip(
        chosen, runner.run([case.record(order=number % 3) for number, case in enumerate(chosen)], mode)
    ):
        assert result.reports == (), (case.name, case.plan.macros)
        assert result.buffers[1] == case.expected(), (case.name, case.plan.macros)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mode", MODES)
def test_index_kernels_are_clean_and_right_for_all_types(mode):
    chosen = [case for number, types in enumerate(INDEX_TYPES) for case in index_cases(*types, low_digits=number % 3)]
    for case, result in zip(chosen, runner.run([case.record() for case in chosen], mode)):
        assert result.reports == (), (case.direction, case.launch.macros)
        assert case.is_right(result.buffers), (case.direction, case.launch.macros)


# ---- broken twins -----------------------------------------------------------------------------------------------

# (mode, family, right, wrong, what the sanitizer calls it)
TWINS = [
    ("tsan_block", "tile", "  __syncthreads();", "", "data race"),
    ("tsan_block", "odd tile", "  __syncthreads();", "", "data race"),
    ("tsan_grid", "copy", "(GPL_THREADS * GPL_ITEMS)", "(GPL_THREADS * GPL_ITEMS - 1)", "data race"),
    ("tsan_grid", "rows", "gpl_block() * GPL_THREADS", "gpl_block() * (GPL_THREADS - 1)", "data race"),
    ("tsan_grid", "gather", "(GPL_THREADS * GPL_PLACES)", "(GPL_THREADS * GPL_PLACES - 1)", "data race"),
    (
        "tsan_grid",
        "tile",
        "third : second) * GPL_TILE_A",
        "third : second) * (GPL_TILE_A - GPL_N)",
        "data race",
    ),
    ("tsan_grid", "odd tile", "* move.tile[0].value;", "* (move.tile[0].value - 1);", "data race"),
    ("asan_ubsan", "copy", "if (tail < move.total)", "if (tail <= move.total)", "heap-buffer-overflow"),
    (
        "asan_ubsan",
        "copy",
        "(move.total - head) / GPL_PER_CHUNK",
        "(move.total - head + GPL_PER_CHUNK - 1) / GPL_PER_CHUNK",
        "heap-buffer-overflow",
    ),
    (
        "asan_ubsan",
        "copy",
        "vectors + 2 * GPL_SOURCE_PART(BYTES) <= (const unsigned char*)gpl_at(source, move.high)",
        "true",
        "heap-buffer-overflow",
    ),
    ("asan_ubsan", "copy", "from + number * GPL_PER_CHUNK,", "from + number * GPL_PER_CHUNK + 1,", ""),
    (
        "asan_ubsan",
        "rows",
        "vectors + 2 * GPL_SOURCE_PART(BYTES) <= (const unsigned char*)gpl_at(source, move.high)",
        "true",
        "heap-buffer-overflow",
    ),
    (
        "asan_ubsan",
        "rows",
        "if (start < bound && bound - start >= elements) {",
        "if (start < bound) {",
        "heap-buffer-overflow",
    ),
    ("asan_ubsan", "rows", "start < extent && extent - start >= elements", "start < extent", "heap-buffer-overflow"),
    ("asan_ubsan", "rows", "(gpl_uint)((unsigned long long)target / GPL_TARGET_BYTES)", "0", "misaligned address"),
    ("asan_ubsan", "tile", "tile.a + GPL_TILE_A <= move.axis[1].bound", "true", "heap-buffer-overflow"),
    ("asan_ubsan", "tile", "down < below && ", "", "heap-buffer-overflow"),
    ("asan_ubsan", "tile", "right + GPL_N <= beside", "right < beside", "heap-buffer-overflow"),
    ("asan_ubsan", "tile", "&& a + GPL_N <= move.axis[1].bound", "", "heap-buffer-overflow"),
    ("asan_ubsan", "tile", "if (rest > (COUNT / STEP - 1) * EACH)", "if (rest > 0)", "heap-buffer-overflow"),
    ("asan_ubsan", "tile", "if (a < bound) element", "if (a < bound + GPL_N) element", "heap-buffer-overflow"),
    ("asan_ubsan", "tile", "[GPL_ROWS * GPL_CHUNKS]", "[GPL_ROWS * GPL_CHUNKS - 1]", ""),
    (
        "asan_ubsan",
        "odd tile",
        "gpl_part(elements / E, thread, 8)",
        "gpl_part((elements + E) / E, thread, 8)",
        "heap-buffer-overflow",
    ),
    (
        "asan_ubsan",
        "odd tile",
        "gpl_part(wide * side.high / E, thread, 8)",
        "gpl_part((wide * side.high + E) / E, thread, 8)",
        "heap-buffer-overflow",
    ),
    ("asan_ubsan", "odd tile", "column < pieces ? ", "true ? ", "heap-buffer-overflow"),
    ("asan_ubsan", "odd tile", "GPL_SHARED_BYTES 17408", "GPL_SHARED_BYTES 12288", ""),
    ("tsan_block", "words", "  __syncthreads();", "", "data race"),
    (
        "tsan_grid",
        "words",
        "const int left = gpl_words_before(gpl_low(row + turn * (long long)step)), back",
        "const int left = tile.b ? gpl_words_before(gpl_low(row + turn * (long long)step)) : 0, back",
        "data race",
    ),
    (
        "tsan_grid",
        "words",
        "move.count[1].value) * move.tile[1].value",
        "move.count[1].value) * (move.tile[1].value - 1)",
        "data race",
    ),
    (
        "asan_ubsan",
        "words",
        "(GPL_WRITE_PASSES - GPL_PERIOD) * GPL_WARPS <=",
        "0 * GPL_WARPS <=",
        "heap-buffer-overflow",
    ),
    ("asan_ubsan", "words", "end > row ? end - row : 0", "GPL_ROWS - row", "heap-buffer-overflow"),
    (
        "asan_ubsan",
        "words",
        "some && gpl_in_memory(",
        "some || gpl_in_memory(",
        "heap-buffer-overflow",
    ),
    ("asan_ubsan", "words", "p = gpl_phase(gpl_low(row))", "p = 0", "misaligned address"),
    ("asan_ubsan", "words", "start < extent && extent - start >= GPL_E", "start < extent", "heap-buffer-overflow"),
    ("asan_ubsan", "words", "q = gpl_phase(gpl_low(first))", "q = 0", "misaligned address"),
    ("asan_ubsan", "words", "[GPL_WORD_AT(GPL_ROWS - 1) + GPL_LANES]", "[GPL_WORD_AT(GPL_ROWS - 1)]", ""),
    (
        "asan_ubsan",
        "many axes",
        "  __syncthreads();                                                // the table",
        "  // ",
        "",
    ),
    (
        "tsan_block",
        "many axes",
        "    __syncthreads();                                              // the box is complete",
        "  // ",
        "data race",
    ),
    (
        "tsan_block",
        "many axes",
        "    __syncthreads();                                              // the box is free",
        "  // ",
        "data race",
    ),
    (
        "tsan_block",
        "many axes",
        "entry < nd.entries; entry += GPL_THREADS - GPL_LANES",
        "entry < nd.entries; entry += GPL_THREADS - 2 * GPL_LANES",
        "data race",
    ),
    (
        "tsan_grid",
        "many axes",
        "move.count[1].value) * move.tile[1].value",
        "move.count[1].value) * (move.tile[1].value - 1)",
        "data race",
    ),
    ("asan_ubsan", "many axes", "whole = whole && left >= tile;", "", ""),
    ("asan_ubsan", "many axes", "(unsigned)min(left, tile) - 1", "(unsigned)min(left, tile)", ""),
    ("asan_ubsan", "many axes", "(rows + GPL_WARPS - 1 - threadIdx", "(rows + GPL_WARPS - threadIdx", ""),
    ("asan_ubsan", "many axes", "(GPL_SHARED_BYTES + (GPL_ROOMS - 1) * GPL_APART)", "8192", ""),
    ("asan_ubsan", "gather", "if (place.inside)", "if (true)", ""),
    ("asan_ubsan", "gather", "(gpl_int)offset", "offset", ""),
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("mode, family, right, wrong, finding", TWINS)
def test_a_broken_twin_is_caught(mode, family, right, wrong, finding):
    chosen = [case for case in cases(1, (family,)) if case.plan.element_bytes == 1]
    if family in AIMS:  # not those that another kernel moves
        chosen = [case for case in chosen if case.plan.file == AIMS[family].file]
    assert any(right in kernel_text(case.plan.file) for case in chosen), f"{right!r} is in none of the files"
    twins = (case.record(kernel_text(case.plan.file).replace(right, wrong)) for case in reversed(chosen))
    found = (runner.run(twin, mode).reports for twin in twins)
    assert any(finding in report for reports in found for report in reports), f"nothing called {finding!r} was found"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "mode, right, wrong",
    [
        ("asan_ubsan", "((k) * GPL_THREADS < left)", "((k) * GPL_THREADS <= left)"),
        ("asan_ubsan", "index + table.digit[d].row", "index + table.digit[d].row + table.count"),
        ("tsan_grid", "blockIdx.x) * (GPL_THREADS * GPL_ITEMS)", "blockIdx.x) * (GPL_THREADS * GPL_ITEMS - 1)"),
        ("tsan_grid", "atomicMin(offender, first + k * GPL_THREADS)", "*offender = first + k * GPL_THREADS"),
    ],
)
def test_a_broken_index_kernel_is_caught(mode, right, wrong):
    text = kernel_text("index.cu")
    assert right in text
    chosen = list(index_cases())
    if wrong.startswith("*"):  # a race needs two blocks that find an offender
        chosen = [dataclasses.replace(case, given=np.full_like(case.given, 99999)) for case in chosen]
    assert any(
        result.reports for result in runner.run([case.record(text.replace(right, wrong)) for case in chosen], mode)
    )


def test_the_cases_reach_all_files_and_sizes():
    seen = {(case.plan.file, case.plan.element_bytes) for width in WIDTHS for case in cases(width, tuple(FAMILIES))}
    assert seen == {(file, width) for width in WIDTHS for file in move_files(width)}
