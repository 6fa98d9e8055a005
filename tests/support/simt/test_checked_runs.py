"""Sanitizers and traces: silent on correct kernels, and each catches its broken twin."""

import pytest

from tests.support.simt import runner, toolchain
from tests.support.simt.controls import (
    TEXT,
    WITHOUT_FIRST_BARRIER,
    WITHOUT_SECOND_BARRIER,
    broken,
    matrix,
    transpose_record,
)
from tests.support.simt.host_module import ORDERS, RANDOM
from tests.support.simt.record import Buffer, Record

REASON = toolchain.sanitizers_missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def copy_record(text=TEXT, count=300, phase=0):
    return Record(text, {}, "copy_bytes", 2, 256, (Buffer(count, phase), Buffer(count, phase), count))


def own_part_record(overlap):
    return Record(TEXT, {"OVERLAP": overlap}, "own_part", 4, 32, (Buffer(4 * 32 * 4),))


def only_report(record, mode):
    result = runner.run(record, mode)
    assert len(result.reports) == 1, result.reports
    return result.reports[0]


@pytest.mark.parametrize("mode", runner.MODES)
def test_right_kernels_are_clean_and_right_in_every_mode(mode):
    numbers = bytes(4000) + (500).to_bytes(8, "little")
    records = [
        transpose_record(),
        transpose_record("transpose_loop", grid=2),
        copy_record(phase=3),
        Record(TEXT, {}, "intrinsics", 1, 80, (Buffer(80 * 32), Buffer(32, content=bytes(32))), order=RANDOM),
        Record(TEXT, {}, "sum_struct", 3, 256, (numbers, Buffer(3 * 256 * 8), 7)),
    ]
    results = runner.run(records, mode)
    assert [result.reports for result in results] == [()] * len(records)
    assert results[0].buffers[1] == results[1].buffers[1] == matrix(40, 70).T.tobytes()
    assert results[4].buffers[0] == (7).to_bytes(8, "little") * 3 * 256


# ---- races ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "kernel, text", [("transpose", WITHOUT_FIRST_BARRIER), ("transpose_loop", WITHOUT_SECOND_BARRIER)]
)
def test_tsan_names_the_shared_array_of_a_missing_barrier(kernel, text):
    report = only_report(transpose_record(kernel, text, grid=2 if kernel == "transpose_loop" else None), "tsan_block")
    assert "data race" in report and "kernel.cu:" in report and "tile" in report


@pytest.mark.parametrize("order", ORDERS)
def test_tsan_finds_a_race_in_orders_where_values_are_right(order):
    record = Record(TEXT, {}, "lucky_order", 1, 64, (Buffer(256), Buffer(256)), order=order)
    assert not runner.run(record, "tsan_block").clean


@pytest.mark.parametrize(
    "overlap, mode, is_clean",
    [
        (32, "tsan_grid", True),
        (31, "tsan_grid", False),
        (0, "tsan_grid", False),  # the same thread of different blocks writes one element, after a barrier
        (31, "tsan_block", True),  # no race inside a block; the other mode finds it
    ],
)
def test_tsan_grid_finds_two_blocks_that_write_one_element(overlap, mode, is_clean):
    assert runner.run(own_part_record(overlap), mode).clean == is_clean


def test_tsan_grid_ignores_what_blocks_reuse():
    text = """
    extern "C" __global__ void locals(unsigned* target, int count) {
      __shared__ unsigned shared[64];
      unsigned mine[16], *volatile there = mine;   // g++ watches only locals whose address is taken
      for (int i = 0; i < count; ++i) there[(i * 7 + threadIdx.x) % 16] = i;
      shared[threadIdx.x] = there[(count + blockIdx.x) % 16];
      __syncthreads();
      target[blockIdx.x * 64 + threadIdx.x] = shared[63 - threadIdx.x];
    }
    """
    assert runner.run(Record(text, {}, "locals", 8, 64, (Buffer(8 * 256), 16)), "tsan_grid").reports == ()


# ---- memory ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("phase", [0, 1, 8, 255])
def test_asan_finds_one_byte_past_the_end(phase):
    text = broken("if (i < count) target", "if (i <= count) target")
    report = only_report(copy_record(text, phase=phase), "asan_ubsan")
    assert "heap-buffer-overflow" in report and "READ of size 1" in report


def test_asan_finds_a_write_past_the_end():
    text = broken("target[i] = source[i];   // BOUND", "target[i + 1] = source[i];")
    assert "WRITE of size 1" in only_report(copy_record(text), "asan_ubsan")


def test_asan_finds_a_read_before_the_beginning():
    text = broken("target[i] = source[i];   // BOUND", "target[i] = source[i - 8];")
    assert "use-after-poison" in only_report(copy_record(text, phase=16), "asan_ubsan")


def test_an_index_past_a_shared_array_is_found():
    text = broken("= tile[threadIdx.x][threadIdx.y + j];", "= tile[threadIdx.x + 1][threadIdx.y + j];")
    assert "index 32 out of bounds" in only_report(transpose_record(text=text), "asan_ubsan")


@pytest.mark.parametrize("count, is_clean", [(40, True), (41, False)])
def test_a_pointer_past_a_shared_array_is_found(count, is_clean):
    text = """
    extern "C" __global__ void fill(int count) {
      __shared__ unsigned first[40], second[40];
      unsigned *volatile a = first, *volatile b = second;   // what they point to is no longer known
      for (int i = 0; i < count; ++i) a[i] = b[i] = 1;
    }
    """
    result = runner.run(Record(text, {}, "fill", 1, 1, (count,)), "asan_ubsan")
    assert result.clean == is_clean
    assert is_clean or "global-buffer-overflow" in result.reports[0]


@pytest.mark.parametrize("phase", [0, 8])
def test_ubsan_finds_a_16_byte_access_at_a_multiple_of_8(phase):
    record = Record(TEXT, {}, "copy_vectors", 1, 32, (Buffer(512), Buffer(512, phase), 32))
    result = runner.run(record, "asan_ubsan")
    assert result.clean == (phase == 0)
    assert result.clean or "which requires 16 byte alignment" in result.reports[0]


@pytest.mark.parametrize("factor, is_clean", [(32767, True), (32768, False)])
def test_ubsan_finds_signed_overflow(factor, is_clean):
    result = runner.run(Record(TEXT, {}, "signed_product", 1, 32, (Buffer(128), factor)), "asan_ubsan")
    assert result.clean == is_clean
    assert is_clean or "signed integer overflow" in result.reports[0]


def test_a_changed_read_only_buffer_is_reported():
    record = Record(TEXT, {}, "own_part", 1, 32, (Buffer(128, writable=False),))
    assert only_report(record, "asan_ubsan") == "buffer 0 of own_part is read-only but was written"


# ---- traffic --------------------------------------------------------------------------------------
def traffic(record):
    result = runner.run(record, "trace")
    assert result.clean
    return result.traffic


def test_a_tiled_transpose_is_coalesced_and_free_of_conflicts():
    seen = traffic(transpose_record(rows=128, columns=128))
    for access in ("global read", "global write"):
        assert (seen[access].requests, seen[access].sectors_per_request, seen[access].sectors_per_ideal) == (512, 4, 1)
    for access in ("shared read", "shared write"):
        assert (seen[access].requests, seen[access].mean_degree, seen[access].worst_degree) == (512, 1, 1)


def test_a_naive_transpose_writes_32_sectors_per_request():
    seen = traffic(transpose_record("transpose_naive", rows=128, columns=128, grid=(4, 16)))
    assert (seen["global read"].sectors_per_request, seen["global write"].sectors_per_request) == (4, 32)
    assert (seen["global read"].sectors_per_ideal, seen["global write"].sectors_per_ideal) == (1, 8)
    assert seen["shared read"].requests == 0


def test_a_tile_of_32_columns_has_32_way_bank_conflicts():
    seen = traffic(transpose_record(rows=128, columns=128, TILE_COLUMNS=32))
    assert (seen["shared read"].mean_degree, seen["shared read"].worst_degree) == (32, 32)
    assert seen["shared write"].worst_degree == 1


@pytest.mark.parametrize("stride, degree", [(0, 1), (1, 1), (2, 2), (4, 4)])
def test_wide_shared_accesses_are_served_in_half_and_quarter_warps(stride, degree):
    """8 bytes x 16 lanes and 16 bytes x 8 lanes fill the 128 bytes of all banks: no conflict at stride 1."""
    record = Record(TEXT, {}, "shared_vectors", 1, 32, (Buffer(256), Buffer(512), stride))
    seen = traffic(record)["shared read"]
    assert (seen.requests, seen.phases, seen.mean_degree, seen.worst_degree) == (2, 2 + 4, degree, degree)


def test_a_16_byte_access_is_one_request():
    record = Record(TEXT, {}, "copy_vectors", 1, 32, (Buffer(512), Buffer(512), 32))
    seen = traffic(record)
    assert (seen["global read"].requests, seen["global read"].sectors) == (1, 16)
    assert (seen["global write"].requests, seen["global write"].sectors) == (1, 16)


def test_a_phase_of_4_bytes_costs_a_fifth_sector():
    record = Record(TEXT, {}, "copy_bytes", 1, 128, (Buffer(128, 4), Buffer(128), 128))
    seen = traffic(record)
    assert seen["global read"].sectors == 4 * 2 and seen["global write"].sectors == 4 * 1


# ---- the runner itself ----------------------------------------------------------------------------
def test_a_finding_belongs_to_its_own_record():
    good, bad = (Record(TEXT, {}, "copy_vectors", 1, 32, (Buffer(512), Buffer(512, phase), 32)) for phase in (0, 8))
    assert [result.clean for result in runner.run([good, bad, good], "asan_ubsan")] == [True, False, True]


def test_a_failed_launch_is_a_report():
    record = Record(TEXT, {}, "two_barriers", 1, 32, (Buffer(128), 16))
    assert only_report(record, "tsan_block").startswith("LAUNCH FAILED: two_barriers: divergent barrier")


@pytest.mark.parametrize("arguments", [(Buffer(128),), (Buffer(128), b"abc"), (Buffer(128), Buffer(128))])
def test_a_record_with_wrong_arguments_is_an_error_and_not_a_finding(arguments):
    with pytest.raises(runner.RunnerError, match="two_barriers"):
        runner.run(Record(TEXT, {}, "two_barriers", 1, 32, arguments), "asan_ubsan")
