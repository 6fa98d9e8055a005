"""Pixels to planes and back: every number of channels, the cost of the exchange, and broken twins that misplace
channels.
"""

import itertools
import re

import pytest

from gpulayout.gpu.channels import MOST_CHANNELS, chunk_pixels, chunks_of, most_registers, registers, vector_bytes
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.kernel_source import kernel_text
from tests.kernels.test_nvrtc import ARCHITECTURES, check_budget, needs_disassembler, of_kind, opcodes
from tests.kernels.test_trace import traffic
from tests.support import nvrtc
from tests.support.effort import ALL
from tests.support.kernel_cases import SOME_CHANNELS, WIDTHS, Case, move_of, to_pixels, to_planes
from tests.support.kernel_runs import goes_wrong, written
from tests.support.simt import host_module, runner, toolchain

runs = [pytest.mark.simt, pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))]
compiles = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
TEXT = kernel_text("channels.cu")
MANY = 10**6  # pixels: rows long enough for all chunks


def channel_counts(width, bits=32):
    return [
        channels
        for channels in range(2, MOST_CHANNELS + 1)
        if registers(width, channels) <= most_registers(width, bits)
    ]


def all_chunks(width, channels):
    """The pixels of a complete span."""
    return chunks_of(width, channels, MANY) * chunk_pixels(width)


def both_ways(width, channels, pixels, **more):
    return to_planes(width, channels, pixels, **more), to_pixels(width, channels, pixels, **more)


# ---- bytes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
class TestBytes:
    pytestmark = runs

    @pytest.mark.one_in(3)
    def test_every_number_of_channels_is_right(self, width):
        """Whole spans, and a row whose last span is cut off; all channel counts for two element widths, else a few."""
        for number, channels in enumerate(channel_counts(width) if width in (1, 4) else SOME_CHANNELS[width]):
            bits = 32 if channels not in channel_counts(width, 64) else (32, 64)[number % 2]
            for case in both_ways(width, channels, 2 * all_chunks(width, channels) - 7, bits=bits):
                assert case.plan.file == "channels.cu"
                assert dict(case.plan.macros)["GPL_CHUNKS"] == chunks_of(width, channels, MANY, bits)
                for order in host_module.ORDERS:
                    assert written(case, order=order, seed=number) == case.expected(), (case.name, order)

    @pytest.mark.one_in(3)
    def test_every_padded_and_every_left_out_channel_is_right(self, width):
        channels, pixels = 4, 4 * chunk_pixels(width) + 3
        for planes, padded in itertools.product((2, 3, 4), (0, 1, 5)):
            for case in both_ways(width, channels, pixels, planes=planes, padded=padded):
                assert case.plan.file == "channels.cu" and dict(case.plan.macros)["GPL_PLANES"] == planes
                assert written(case, order=host_module.RANDOM, seed=planes) == case.expected(), case.name

    @pytest.mark.one_in(3)
    def test_every_phase_that_fits_is_right_and_others_go_elsewhere(self, width):
        channels = 6 if width < 16 else 3
        sizes = vector_bytes(width, channels), max(width, 4)
        for phase in range(0, 16, width):
            for case, (source, target) in zip(
                both_ways(width, channels, 4 * chunk_pixels(width)), (sizes, sizes[::-1])
            ):
                for phases, size in (((phase, 0), source), ((0, phase), target)):
                    moved = Case(case.name, case.move, *phases)
                    assert (moved.plan.file == "channels.cu") == (phase % size == 0), (case.name, phases)
                    assert written(moved, order=host_module.DESCENDING) == case.expected(), (case.name, phases)


@pytest.mark.parametrize("width", WIDTHS)
def test_reasons_tell_why_pixels_are_not_exchanged(width):
    def reasons(axes, *phases):
        return "; ".join(kernel_plan(move_of(width, axes), *phases).reasons)

    few = max(chunk_pixels(width) // 2, 17)
    channels = 4 if width < 16 else 2
    minor, other = (few, few, channels, 1), (channels, channels, 1, few)
    ending = ", so a warp does not exchange channels between its registers"
    assert f"rows of {few} pixels would leave more than a fifth of all lanes idle{ending}" in reasons([minor, other])
    rows = (1024, 1024, 4, 1), (4, 4, 1, 1024)
    if width < 16:
        assert f"the source address is {width} past a multiple of 16, not a multiple of" in reasons(rows, width, 0)
    if width < 4:
        odd = [(1024, 1024, 4, 1), (4, 4, 1, 1025)]
        why = f"the target steps by {1025 * width} bytes, not a multiple of 4"
        assert f"{why}{ending}" in reasons(odd)
    if width == 16:
        assert f"9 channels of 16 bytes do not fit the registers{ending}" in reasons(
            [(1024, 1024, 9, 1), (9, 9, 1, 1024)]
        )


def test_a_few_of_many_channels_are_not_read_with_all_others():
    half, fewer = ([(4096, 4096, 16, 1), (planes, planes, 1, 4096)] for planes in (8, 7))
    assert [kernel_plan(move_of(4, axes)).file for axes in (half, fewer)] == ["channels.cu", "tile_any.cu"]


# ---- traffic --------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.simt
@pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
@pytest.mark.parametrize("width", WIDTHS)
def test_pixels_of_every_kind_are_read_and_written_in_whole_sectors(width):
    """Also pixels of more than 16 bytes, which several lanes read together.  The table of traces has 2, 3, 4 and 16."""
    for channels in sorted({5, 6, 8, 12} & {*channel_counts(width)}):
        pixels = 3 * all_chunks(width, channels)
        axes = (pixels, pixels, channels, 1), (channels, channels, 1, pixels)
        cases = (
            Case("to planes", move_of(width, axes)),
            Case("to pixels", move_of(width, [(e, b, t, s) for e, b, s, t in reversed(axes)])),
        )
        for name, row in traffic(cases).items():
            assert row["file"] == "channels.cu"
            assert max(row["global read"][1], row["global write"][1]) <= 1.05, (channels, name, row)


# ---- machine code -----------------------------------------------------------------------------------------------


def macros_of(width, channels, into_planes, bits=32, axes=4):
    return {
        "GPL_ELEMENT_BYTES": width,
        "GPL_INDEX_BITS": bits,
        "GPL_AXES": axes,
        "GPL_CHANNELS": channels,
        "GPL_PLANES": channels,
        "GPL_CHUNKS": chunks_of(width, channels, MANY, bits),
        "GPL_TO_PLANES": into_planes,
    }


@pytest.mark.one_in(3)
@compiles
@pytest.mark.parametrize("width", WIDTHS)
def test_every_number_of_channels_fits_the_registers(width):
    """Architectures, directions and offset widths alternate."""
    for number, channels in enumerate(channel_counts(width, 64)):
        check_budget(
            "channels.cu",
            ARCHITECTURES[number % len(ARCHITECTURES)],
            macros_of(width, channels, number % 2, (32, 64)[number // 2 % 2]),
        )


@pytest.mark.one_in(4)
@compiles
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_pixels_of_most_registers_fit_every_architecture(architecture):
    for (width, channels, bits), into_planes in itertools.product(
        ((1, 13, 32), (1, 12, 64), (4, 16, 32), (8, 16, 32), (8, 14, 64)), (0, 1)
    ):
        check_budget("channels.cu", architecture, macros_of(width, channels, into_planes, bits))


def text_of_whole_spans():
    """The path of whole spans, which nearly every warp runs, without the loop over planes of pad."""
    text = re.sub(r"#pragma unroll 1\n  do {\n.*?;\n(?=}\n)", "", TEXT, flags=re.DOTALL)
    text = re.sub(r"  GplChunk<GPL_WORD_BYTES> pad;\n.*?(?=\n}\n)", "", text, count=1, flags=re.DOTALL)
    assert "<false" not in text and "gpl_pad(move, pad.word)" not in text
    return text


def whole_span(width, channels, into_planes, architecture):
    """The instructions of whole spans."""
    macros = macros_of(width, channels, into_planes, axes=2)
    found = opcodes("channels.cu", macros, architecture, text_of_whole_spans())
    return [kind for kind in found if kind not in ("NOP", "BRA")]


# All instructions of a thread per element.  Odd channel counts from 9 on rotate in four steps; 16 registers or more
# exchange squares of 4 lanes, and larger elements have two or four of those.
MOST_INSTRUCTIONS = {1: 4, 2: 6, 4: 8, 8: 14, 16: 32}
MOST_OF_MANY = {1: 4, 2: 7, 4: 10, 8: 18.5, 16: 32}


@pytest.mark.one_in(3)
@needs_disassembler
@pytest.mark.parametrize("architecture", ("sm_90", *("sm_75", "sm_120") * ALL))
@pytest.mark.parametrize("width", WIDTHS)
def test_whole_spans_are_few_instructions(width, architecture):
    some = {2, 3, 4, 7, 8, 15, 16} if architecture == "sm_90" else {3, 8}
    kinds = [*itertools.product(sorted(some & {*channel_counts(width)}), (0, 1))]
    text, given = text_of_whole_spans(), [macros_of(width, *kind, axes=2) for kind in kinds]
    nvrtc.disassemble([nvrtc.compiled(text, architecture, macros).cubin for macros in given])
    for channels, into_planes in kinds:
        found, chunks = whole_span(width, channels, into_planes, architecture), chunks_of(width, channels, MANY)
        words, vectors = chunks * channels, chunks * registers(width, channels) * 4 // vector_bytes(width, channels)
        assert (len(of_kind(found, "LDG")), len(of_kind(found, "STG"))) == (
            (vectors, words) if into_planes else (words, vectors)
        )
        assert (
            not of_kind(found, "LDS")
            + of_kind(found, "STS")
            + of_kind(found, "LDL")
            + of_kind(found, "STL")
            + of_kind(found, "BAR")
        )
        most = MOST_INSTRUCTIONS if channels <= 8 else MOST_OF_MANY
        assert len(found) / (words * max(4 // width, 1)) <= most[width], (channels, into_planes)


@needs_disassembler
@pytest.mark.parametrize("into_planes", (0, 1))
def test_all_reads_are_under_way_before_the_first_is_used(into_planes):
    kinds = [opcode.split(".")[0] for opcode in whole_span(4, 3, into_planes, "sm_90")]
    assert max(i for i, kind in enumerate(kinds) if kind == "LDG") < min(kinds.index("SHFL"), kinds.index("STG"))


# ---- broken twins -----------------------------------------------------------------------------------------------

# (right, wrong, channels of 1 byte that expose the fault)
TWINS = [
    ("GPL_ODD * lane + i / GPL_EVEN)", "GPL_ODD * lane + i / GPL_EVEN + 1)", 3),
    ("#define GPL_INVERSE (GPL_ODD * GPL_ODD % 32 * GPL_ODD", "#define GPL_INVERSE (GPL_ODD * GPL_ODD % 32", 3),
    ("gpl_rotate(offered, gpl_residue(lane))", "gpl_rotate(offered, gpl_residue(lane + 1))", 5),
    ("gpl_residue(32 * GPL_ODD - lane)", "gpl_residue(32 * GPL_ODD + lane)", 5),
    ("(65536 / GPL_ODD + 1)", "(32768 / GPL_ODD + 1)", 7),
    ("upper ? low : high, apart)", "upper ? high : low, apart)", 16),
    ("0x0040 + GPL_SPOT(j, 0)", "0x0040 + GPL_SPOT(j, 1)", 3),
    ("0x10 * GPL_SPOT(j, 3)", "0x10 * GPL_SPOT(j, 2)", 3),
    ("low, high, 0x5410", "low, high, 0x5140", 4),
    ("(k) % GPL_PIECES)", "(k) / GPL_PIECES)", 16),
    ("(span.bound >= needed)", "(span.bound + 1 >= needed)", 4),
    ("WHOLE ? GPL_PER_VECTOR : bound, move", "WHOLE ? GPL_PER_VECTOR : bound + 1, move", 4),
    ("WHOLE ? GPL_E : span.bound, move", "WHOLE ? GPL_E : span.bound + 1, move", 4),
    ("row.inside ? ", "true ? ", 4),
    ("c < move.axis[1].extent.value", "c + 1 < move.axis[1].extent.value", 4),
    ("span.extent * GPL_CHANNELS", "span.extent * GPL_CHANNELS - 1", 4),
    ("WHOLE ? GPL_E : span.extent,", "WHOLE ? GPL_E : span.extent - 1,", 4),
    ("span.bound -= min", "span.bound -= 0 * min", 4),
]


@pytest.mark.one_in(4)
@pytest.mark.simt
@pytest.mark.skipif(toolchain.missing() is not None, reason=str(toolchain.missing()))
@pytest.mark.parametrize("right, wrong, channels", TWINS)
def test_a_channel_in_the_wrong_place_is_seen(right, wrong, channels):
    assert right in TEXT
    long = 2 * all_chunks(1, channels)
    chosen = (
        case
        for pixels, padded in ((long, 0), (long - 1, 0), (long - 9, 3))
        for case in both_ways(1, channels, pixels, padded=padded, planes=channels - bool(padded))
    )
    assert any(goes_wrong(case, TEXT.replace(right, wrong)) for case in chosen)


@pytest.mark.one_in(4)
@pytest.mark.simt
@pytest.mark.skipif(toolchain.sanitizers_missing() is not None, reason=str(toolchain.sanitizers_missing()))
@pytest.mark.parametrize(
    "mode, make, right, wrong, finding",
    [
        ("asan_ubsan", to_planes, "(GPL_TO_PLANES && GPL_PLANES < GPL_CHANNELS)", "0", "heap-buffer-overflow"),
        (
            "asan_ubsan",
            to_planes,
            "(span.bound - 1) * GPL_CHANNELS + GPL_PLANES",
            "span.bound * GPL_CHANNELS",
            "heap-buffer-overflow",
        ),
        ("asan_ubsan", to_planes, "(span.bound >= needed)", "(true)", "heap-buffer-overflow"),
        ("asan_ubsan", to_pixels, "(span.bound >= needed)", "(true)", "heap-buffer-overflow"),
        (
            "asan_ubsan",
            to_pixels,
            "span.extent * GPL_CHANNELS",
            "(span.extent + 1) * GPL_CHANNELS",
            "heap-buffer-overflow",
        ),
        ("tsan_grid", to_planes, "if (number >= move.total) return;", "", "data race"),
        ("tsan_grid", to_planes, "* (GPL_CHUNKS * GPL_PIXELS);", "* ((GPL_CHUNKS - 1) * GPL_PIXELS);", "data race"),
        ("tsan_grid", to_pixels, "* (GPL_CHUNKS * GPL_PIXELS);", "* ((GPL_CHUNKS - 1) * GPL_PIXELS);", "data race"),
    ],
)
def test_a_broken_twin_is_caught(mode, make, right, wrong, finding):
    """Rows long enough for two blocks; the source ends with the last plane of the last pixel."""
    assert right in TEXT
    span = 8 * chunk_pixels(4)
    axes = (
        [(16 * span, 16 * span, 4, 1), (4, 3, 1, 16 * span)]
        if make is to_planes
        else [(4, 3, 16 * span - 9, 1), (16 * span - 9,) * 2 + (1, 4)]
    )
    cases = [Case("exact", move_of(4, axes)), make(4, 4, 9 * span - 9, planes=3)]
    reports = [report for case in cases for report in runner.run(case.record(TEXT.replace(right, wrong)), mode).reports]
    assert any(finding in report for report in reports), f"nothing called {finding!r} was found"
