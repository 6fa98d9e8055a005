"""Memory traffic of the kernels, counted on the CPU: 32-byte sectors per warp access, and bank conflicts in shared
memory.

The table tests/data/kernel_traces.json holds the counts; when it changes, a kernel uses memory differently.
After an intended change, write it again:

    python -m tests.kernels.test_trace
"""

import functools
import json
import pathlib

import pytest

import gpulayout as gl
from gpulayout.gpu.kernel_source import kernel_text
from tests.support.kernel_cases import WIDTHS, Case, backwards, move_of, transposed
from tests.support.placed import relayout_pieces
from tests.support.simt import runner, toolchain

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
TABLE = pathlib.Path(__file__).resolve().parents[1] / "data" / "kernel_traces.json"
GLOBAL, SHARED = ("global read", "global write"), ("shared read", "shared write")


def aligned_cases(width):
    """Moves whose two sides can be accessed in whole sectors; the sizes give every block a full tile."""
    a, b = 256, 256
    yield Case("copy", move_of(width, [(20000, 20000, 1, 1)]))
    yield Case("rows", move_of(width, [(1024, 1024, 1, 1), (5, 5, 7 * 1024, 3 * 1024), (3, 3, 1024, 1024)]))
    yield Case("rows padded", move_of(width, [(1024, 992, 1, 1), (4, 3, 1024, 1024), (3, 3, 4096, 4096)]))
    yield Case("tile", move_of(width, [(b, b, a, 1), (a, a, 1, b)]))
    yield Case("tile padded", move_of(width, [(b, 3 * b // 4, a, 1), (a, a, 1, b), (2, 2, a * b, a * b)]))


def awkward_cases(width):
    """Odd extents, short runs and other phases, which cannot be perfect."""
    yield Case("copy, phases differ", move_of(width, [(20000, 20000, 1, 1)]), width % 16, 0)
    yield Case("rows odd", move_of(width, [(1021, 1021, 1, 1), (7, 7, 1021, 1023)]))
    yield Case("rows of 12 elements", move_of(width, [(12, 12, 1, 1), (300, 300, 13, 12), (2, 2, 13 * 300, 12 * 300)]))
    odd = 511 if width < 4 else 255  # tiles of small elements are larger, and edges should be few
    yield Case("tile odd", move_of(width, [(odd, odd, odd, 1), (odd, odd, 1, odd)]))
    yield Case("tile odd, whole words", move_of(width, [(252, 252, 260, 1), (252, 252, 1, 252)]))
    for channels in (2, 3, 4, 16):
        pixels = 16384
        minor, major = (pixels, pixels, channels, 1), (channels, channels, 1, pixels)
        yield Case(f"{channels} channels to planes", move_of(width, [minor, major]))
        minor, major = (channels, channels, pixels, 1), (pixels, pixels, 1, channels)
        yield Case(f"planes to {channels} channels", move_of(width, [minor, major]))
    yield from three_channels(width, "odd words", max(width, 4))
    if width < 4:
        yield from three_channels(width, "odd addresses", width)
    for extent, rank in ((2, 14), (3, 9), (8, 4)):
        yield Case(f"{extent}^{rank} reversed", transposed(width, (extent,) * rank, backwards(rank)))
    yield Case("5 images of 7 x 7", transposed(width, (40, 5, 7, 7), (0, 2, 3, 1)))
    yield Case("gather backwards", move_of(width, [(4096, 4096, -1, 1)]))


def three_channels(width, name, phase):
    """Planes of 16384 pixels plus `phase` bytes, the first at `phase`; for up to 8 bytes, none begins at a sector."""
    pixels = 16384 + phase // width
    to_planes = move_of(width, [(pixels, pixels, 3, 1), (3, 3, 1, pixels)])
    to_pixels = move_of(width, [(3, 3, pixels, 1), (pixels, pixels, 1, 3)])
    yield Case(f"3 channels to planes, {name}", to_planes, 0, phase % 16)
    yield Case(f"planes to 3 channels, {name}", to_pixels, phase % 16, 0)


def traffic(chosen, *changes):
    """The counts per case: class of access -> [per request, per ideal], or [mean degree, worst degree]."""
    texts = [
        functools.reduce(lambda text, change: text.replace(*change), changes, kernel_text(case.plan.file))
        for case in chosen
    ]
    results = runner.run([case.record(text) for case, text in zip(chosen, texts)], "trace")
    found = {}
    for case, result in zip(chosen, results):
        assert result.buffers[1] == case.expected() or changes, case.name
        seen = result.traffic
        assert not seen["outside access"].requests, case.name
        found[f"{case.move.itemsize} bytes, {case.name}"] = {
            "file": case.plan.file,
            **{
                name: [round(seen[name].sectors_per_request, 3), round(seen[name].sectors_per_ideal, 3)]
                for name in GLOBAL
            },
            **{
                name: [round(seen[name].mean_degree, 3), seen[name].worst_degree]
                for name in SHARED
                if seen[name].requests
            },
        }
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("width", WIDTHS)
def test_traffic_is_what_the_table_says(width):
    table = {name: row for name, row in json.loads(TABLE.read_text()).items() if name.startswith(f"{width} bytes, ")}
    assert traffic([*aligned_cases(width), *awkward_cases(width)]) == table


@pytest.mark.parametrize("width", WIDTHS)
def test_aligned_moves_touch_no_sector_in_vain(width):
    for name, row in traffic(list(aligned_cases(width))).items():
        assert max(row["global read"][1], row["global write"][1]) <= 1.05, (name, row)
        for access in SHARED:
            assert row.get(access, [1])[0] <= 1.10, (name, row)


@pytest.mark.parametrize("width", WIDTHS)
def test_runs_at_any_address_are_read_and_written_in_whole_sectors(width):
    """Copies between different phases, odd rows, and rows of 12 elements that are closer together on one side."""
    for name, row in traffic(
        [case for case in awkward_cases(width) if "copy" in case.name or "rows" in case.name]
    ).items():
        assert max(row["global read"][1], row["global write"][1]) <= (1.05 if "copy" in name else 1.30), (name, row)


@pytest.mark.parametrize("width", (1, 2, 4, 8))
def test_reads_as_narrow_as_the_alignment_are_seen(width):
    case = next(case for case in awkward_cases(width) if case.name == "copy, phases differ")
    (row,) = traffic([case], ("LOAD < BYTES) {", "LOAD < BYTES && false) {")).values()
    assert row["global read"][1] >= 1.9, row


@pytest.mark.parametrize("width", WIDTHS)
def test_planes_of_pixels_are_read_and_written_in_whole_sectors(width):
    """NHWC to NCHW and back, with 2 to 16 channels; no shared memory."""
    for name, row in traffic(
        [case for case in awkward_cases(width) if "channels" in case.name and "odd" not in case.name]
    ).items():
        assert max(row["global read"][1], row["global write"][1]) <= 1.05, (name, row)
        too_large = width == 16 and "16 channels" in name
        assert row["file"] == ("tile.cu" if too_large else "channels.cu") and too_large == bool(
            set(SHARED) & set(row)
        ), (name, row)


# Measured bounds: 128 bytes of a plane at any phase are 5 sectors instead of 4; if words do not fit, 32 lanes request
# 32 or 64 bytes, 2 sectors instead of 1 or 3 instead of 2.
@pytest.mark.parametrize(
    "width, words, addresses", [(1, 1.25, 2.02), (2, 1.25, 1.52), (4, 1.25, 1), (8, 1.125, 1), (16, 1.03, 1)]
)
def test_odd_planes_touch_a_sector_more_per_request_and_pixels_none(width, words, addresses):
    for name, row in traffic(
        [case for case in awkward_cases(width) if "channels" in case.name and "odd" in case.name]
    ).items():
        planes, pixels = GLOBAL[::-1] if "to planes" in name else GLOBAL
        fits = "words" in name
        assert row["file"] == ("channels.cu" if fits else "tile_any.cu"), name
        assert row[pixels][1] <= 1.001 and row[planes][1] <= (words if fits else addresses), (name, row)
        assert max(row.get(access, [1, 0])[1] for access in SHARED) == (0 if fits else 2), (name, row)


@pytest.mark.parametrize("dense, tiles", [("f32[64,1024]", "T(8,128)"), ("bf16[128,1024]", "T(8,128)(2,1)")])
def test_whole_tiles_are_read_and_written_in_whole_sectors(dense, tiles):
    shape = gl.parse_shape(dense)
    tiled = gl.parse_shape(f"{dense}{{1,0:{tiles}}}")
    cases = [Case(f"{a} to {b}", relayout_pieces(a, b)[0].move) for a, b in ((shape, tiled), (tiled, shape))]
    for name, row in traffic(cases).items():
        assert max(row["global read"][1], row["global write"][1]) <= 1.05, (name, row)
        assert row["file"] in ("rows.cu", "channels.cu") and not set(SHARED) & set(row), (name, row)


# Measured bounds: a run of 128 bytes at any phase takes 5 sectors instead of 4.  Single elements of 1 and 2 bytes at
# the ends of rows share requests, which then touch a sector for each row; those of 1 byte may meet in a bank.
@pytest.mark.parametrize("width, most", [(1, 1.33), (2, 1.32), (4, 1.25), (8, 1.125), (16, 1.13)])
def test_odd_tiles_touch_a_sector_more_per_run_and_have_no_bank_conflicts(width, most):
    (row,) = traffic([case for case in awkward_cases(width) if case.name == "tile odd"]).values()
    assert max(row["global read"][1], row["global write"][1]) <= most
    assert max(row[access][0] for access in SHARED) <= (1.30 if width == 1 else 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_without_the_xor_lanes_meet_in_one_bank(width):
    changes = (
        ("(row * GPL_CHUNKS + c) ^ (row / GPL_N & 7)", "row * GPL_CHUNKS + c"),
        ("[(chunks.position ^ (place *", "[(chunks.position + 0 * (place *"),
        ("(position ^ step ^ (i *", "(position + step + (i *"),
        ("(number * GPL_WORD_BYTES / 16 ^ (column & 7))", "(number * GPL_WORD_BYTES / 16)"),
        (" ^ (GPL_COLUMN_STEP(k) & 7)", ""),
    )
    assert all(right in kernel_text("tile.cu") for right, _ in changes)
    tile = next(case for case in aligned_cases(width) if case.name == "tile")
    (row,) = traffic([tile], *changes).values()
    assert row["shared read"][0] >= 8, row


@pytest.mark.parametrize("width", WIDTHS)
def test_many_short_axes_are_read_and_written_in_runs(width):
    """A gather would read a sector for each element, 8 of 4 bytes.  Runs of odd lengths share their sectors."""
    for name, row in traffic(
        [case for case in awkward_cases(width) if "reversed" in case.name or "7 x 7" in case.name]
    ).items():
        odd = "3^9" in name or "7 x 7" in name
        words = odd and width <= 2
        stacked = width == 16 and "8^4" in name  # rows of 128 bytes
        assert row["file"] == ("box_words.cu" if words else "tile.cu" if stacked else "tile_nd.cu"), name
        most = {1: 1.35, 2: 1.2, 4: 1.2, 8: 1.1, 16: 1.05}[width] if odd else 1
        # words: the single elements at both ends of a run have requests of their own, and warps share rows
        assert row["global read"][1] + row["global write"][1] <= (2.5 if words else 2) * most, (name, row)
        assert max(row[access][0] for access in SHARED) <= (1.6 if words else 1), (name, row)


def test_lanes_that_read_in_the_same_order_meet_in_one_bank():
    """2 bytes, 3^9: words are 170 banks apart, which is 10, so lane 16 meets lane 0 unless it takes another element."""
    (case,) = (case for case in awkward_cases(2) if "3^9" in case.name)
    right, wrong = "return (unit >> nd.turn) * GPL_ELEMENT_BYTES % GPL_E;", "return unit & 0 & nd.turn;"
    assert right in kernel_text("box_words.cu")
    (row,) = traffic([case], (right, wrong)).values()
    assert row["shared read"][0] > 1.1, row


def test_an_even_pitch_is_seen():
    tile = next(case for case in awkward_cases(4) if case.name == "tile odd")
    (row,) = traffic([tile], ("GPL_FULL_PITCH (GPL_FULL_A + 1)", "GPL_FULL_PITCH GPL_FULL_A")).values()
    assert row["shared read"][0] > 8, row


def test_columns_read_without_a_tile_are_seen():
    """As a gather, the same transpose fetches a sector per element."""
    case = Case("gather", move_of(4, [(256, 256, 256, 1), (256, 256, 1, 256)]))
    tile_free = Case("gather", move_of(4, [(256, 256, 512, 1), (256, 256, 2, 256)]))
    assert tile_free.plan.file == "gather.cu" and case.plan.file == "tile.cu"
    (row,) = traffic([tile_free]).values()
    assert row["global read"] == [32, 8]


if __name__ == "__main__":
    rows = {}
    for size in WIDTHS:
        rows |= traffic([*aligned_cases(size), *awkward_cases(size)])
    TABLE.write_text(
        "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()) + "\n}\n"
    )
