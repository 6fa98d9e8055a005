"""The parameter structs have the same bytes on the host and in C++: every field arrives with the value that was packed.

A small program, compiled from the kernels' own headers, prints sizes and offsets, and kernels echo every field.
"""

import math

import numpy as np
import pytest

from gpulayout.gpu.kernel_numbers import BOX_FACTORS, RUN_DIGITS
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.many import JOBS
from gpulayout.gpu.parameters import (
    AXES_VARIANTS,
    BoxFactor,
    BoxPart,
    BoxSide,
    ThreadSteps,
    axes_variant,
    box_struct,
    divisor,
    index_table_struct,
    job_struct,
    many_struct,
    move_struct,
    reciprocal,
    with_pointers,
    words_struct,
)
from tests.support.simt import host_module, toolchain

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
AXES = (1, 2, 3, 4, 8, 64)
MOST_PARAMETER_BYTES = 4096  # the limit of every CUDA version

ECHO_MOVE = """
__device__ void put(unsigned long long*& to, gpl_uint value) { *to++ = value; }
__device__ void put(unsigned long long*& to, const GplDivisor& by) {
  put(to, by.value), put(to, by.multiplier), put(to, by.shift);
}
extern "C" __global__ void echo(unsigned long long* to, const __grid_constant__ GplMove move) {
  *to++ = sizeof move;
  for (int i = 0; i < 4; ++i) *to++ = move.pad[i];
  put(to, move.total), put(to, move.head), put(to, move.pitch), put(to, move.low), put(to, move.high);
  put(to, move.count[0]), put(to, move.count[1]), put(to, move.tile[0]), put(to, move.tile[1]);
  for (int i = 0; i < GPL_AXES; ++i) {
    put(to, move.axis[i].extent), put(to, move.axis[i].bound);
    put(to, move.axis[i].source_stride), put(to, move.axis[i].target_stride);
  }
}
"""
ECHO_MANY = """
__device__ void put(unsigned long long*& to, gpl_uint value) { *to++ = value; }
extern "C" __global__ void echo(unsigned long long* to, const __grid_constant__ GplMany many) {
  *to++ = sizeof many;
  for (int j = 0; j < GPL_JOBS; ++j) put(to, many.first[j]);
  for (int j = 0; j < GPL_JOBS; ++j) {
    const GplJob& job = many.job[j];
    *to++ = (unsigned long long)job.source, *to++ = (unsigned long long)job.target;
    for (int i = 0; i < 4; ++i) *to++ = job.pad[i];
    put(to, job.total);
    for (int i = 0; i < GPL_AXES; ++i) {
      put(to, job.axis[i].extent.value), put(to, job.axis[i].extent.multiplier), put(to, job.axis[i].extent.shift);
      put(to, job.axis[i].bound), put(to, job.axis[i].source_stride), put(to, job.axis[i].target_stride);
    }
  }
}
"""
ECHO_TABLE = """
extern "C" __global__ void echo(unsigned long long* to, const __grid_constant__ GplIndexTable table) {
  *to++ = sizeof table;
  *to++ = table.count, *to++ = table.size, *to++ = table.rank, *to++ = table.mode;
  *to++ = table.padded, *to++ = table.low_digits;
  *to++ = table.minus_low, *to++ = table.multiplier, *to++ = table.shift;
  for (int i = 0; i < GPL_AXES; ++i) {
    *to++ = table.digit[i].minus_extent, *to++ = table.digit[i].multiplier, *to++ = table.digit[i].shift;
    *to++ = table.digit[i].bound, *to++ = table.digit[i].stride, *to++ = table.digit[i].row;
  }
}
"""
ECHO_BOX = """
__device__ void put(unsigned long long*& to, const GplEntry& entry) {
  *to++ = entry.offset, *to++ = entry.shared, *to++ = entry.check;
}
extern "C" __global__ void echo(unsigned long long* to, const __grid_constant__ GplBoxMove nd) {
  *to++ = sizeof nd, *to++ = nd.move.total;
  for (const GplSide& side : nd.side) {
    *to++ = side.lanes, *to++ = side.last_lanes, *to++ = side.full, *to++ = side.rows, *to++ = side.first;
    *to++ = side.checked;
    *to++ = side.limits, *to++ = side.guards, *to++ = side.scale[0], *to++ = side.scale[1];
  }
  for (const GplPart& part : nd.part) {
    *to++ = part.first, *to++ = part.low.value, *to++ = part.low.multiplier, *to++ = part.low.shift, *to++ = part.from;
  }
  for (int i = 0; i < 4; ++i) *to++ = nd.apart[i];
  *to++ = nd.entries, *to++ = nd.box, *to++ = nd.boxes, *to++ = nd.uneven;
  for (const GplStep& step : nd.step) *to++ = step.source, *to++ = step.target;
  for (const GplEntry& entry : nd.factor) put(to, entry);
}
"""
ECHO_WORDS = """
__device__ void put(unsigned long long*& to, const GplNumber& number) {
  *to++ = number.count, *to++ = number.digits;
  for (int i = 0; i < GPL_RUN_DIGITS; ++i) {
    const GplRunDigit& digit = number.digit[i];
    *to++ = digit.size.value, *to++ = digit.size.multiplier, *to++ = digit.size.shift;
    *to++ = digit.step, *to++ = digit.stride;
  }
}
extern "C" __global__ void echo(unsigned long long* to, const __grid_constant__ GplWordsMove nd) {
  *to++ = sizeof nd, *to++ = nd.move.total;
  for (int i = 0; i < 3; ++i) put(to, nd.number[i]);
  for (int side = 0; side < 2; ++side)
    for (const GplDivisor& count : {nd.rows[side].threads, nd.rows[side].count})
      *to++ = count.value, *to++ = count.multiplier, *to++ = count.shift;
  *to++ = nd.below[0], *to++ = nd.below[1], *to++ = nd.after, *to++ = nd.step, *to++ = nd.apart;
  *to++ = nd.length, *to++ = nd.turn, *to++ = nd.boxes;
  *to++ = nd.ends, *to++ = nd.table, *to++ = nd.places, *to++ = nd.box;
  for (int side = 0; side < 2; ++side)
    for (int i = 0; i < 2; ++i) *to++ = nd.per_place[side][i].elements, *to++ = nd.per_place[side][i].runs;
}
"""


def echoed(text, macros, parameters, count):
    """`count` numbers: the size of the struct, then its fields in order, as a kernel reads them."""
    fields = np.zeros(count, np.uint64)
    host_module.load(text, ("echo",), macros).kernel("echo")(1, 1, (fields.ctypes.data, parameters))
    return fields.tolist()


@pytest.mark.parametrize("bits", (32, 64))
@pytest.mark.parametrize("axes", AXES)
def test_a_move_arrives_field_by_field(axes, bits):
    mask = 2**bits - 1
    loops = [(1000 + i, 900 + i, -(17 + i), 2 ** (bits - 2) - i) for i in range(axes)]
    parameters = move_struct(
        bits, b"\x01\x02\x03\x04", (2 ** (bits - 1) - 1, 12, 13, -14, 15), (1001, 7), (129, 3), loops
    )
    expected = [
        len(parameters),
        *[0x04030201] * 4,
        2 ** (bits - 1) - 1,
        12,
        13,
        -14 & mask,
        15,
        *divisor(1001, bits),
        *divisor(7, bits),
        *divisor(129, 32),
        *divisor(3, 32),
    ]
    for extent, bound, source_stride, target_stride in loops:
        expected += [*divisor(extent, bits), bound, source_stride & mask, target_stride]
    macros = {"GPL_ELEMENT_BYTES": 4, "GPL_INDEX_BITS": bits, "GPL_AXES": axes}
    assert echoed(kernel_text("move.cuh") + ECHO_MOVE, macros, parameters, len(expected)) == expected
    assert len(parameters) + 16 <= MOST_PARAMETER_BYTES


@pytest.mark.parametrize("bits", (32, 64))
def test_the_steps_of_a_thread_take_the_place_of_a_tile(bits):
    steps = ThreadSteps(2, 37, 35, 1, -7, 2 ** (bits - 2))
    parameters = move_struct(bits, b"\0", (1, 0, 1, 0, 1), (1001, 7), steps, [(2, 2, 3, 4)] * 3)
    text = kernel_text("move.cuh") + ECHO_MOVE
    echo = "".join(f"put(to, move.steps.{name}), " for name in ThreadSteps._fields)
    text = text.replace("put(to, move.tile[0]), put(to, move.tile[1]);", f"{echo[:-2]};")
    fields = echoed(text, {"GPL_ELEMENT_BYTES": 1, "GPL_INDEX_BITS": bits, "GPL_AXES": 3}, parameters, 22 + 6 * 3)
    assert fields[:1] + fields[16:22] == [len(parameters), *(step & 2**bits - 1 for step in steps)]
    assert fields[22:] == [*divisor(2, bits), 2, 3, 4] * 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize("bits", (32, 64))
@pytest.mark.parametrize("axes", (1, 2, 8, 32))
def test_a_box_arrives_field_by_field(axes, bits):
    counts = iter(range(1, 1000))
    parts = [
        BoxPart(low, tuple(BoxFactor(-next(counts), next(counts), next(counts)) for _ in range(low + 2)))
        for low in (4, 7, 8, 3)
    ]
    sides = [BoxSide(30, 20, 50, 60, True, 2**31 + 7, 5, (1, 64)), BoxSide(32, 32, 77, 77, False, 2**31, 0, (0, 8))]
    steps = [(0, 0), (5, -6), (-10, 2 ** (bits - 2))]
    parameters = move_struct(bits, b"\x01", (77, 0, 1, 0, 9), (1, 1), (1, 1), [(2, 2, 3, 4)] * axes)
    parameters += box_struct(
        bits, [(sides[0], parts[0], parts[2]), (sides[1], parts[1], parts[3])], (0, 40, 80, 120), steps, True
    )
    expected, mask, factors = [len(parameters), 77], 2**bits - 1, []
    for first, (*numbers, limits, guards, scales) in zip((64, 64 + 60), sides):
        expected += [*numbers[:4], first, numbers[4], limits, guards, *scales]
    for first, part in zip((0, 32, 64, 64 + 60), parts):
        expected += [first, *divisor(part.low, 32), len(factors) // 3]
        for offset, *rest in part.factors:
            factors += [offset & mask, *rest]
    expected += [0, 40, 80, 120, 64 + 60 + 77, (64 + 60 + 77) * 16, 3, 1]
    expected += [0, 0, 5, -6 & mask, -15 & mask, 2 ** (bits - 2) + 6, 0, 0, 0, 0]
    expected += factors + [0] * (3 * BOX_FACTORS - len(factors))
    macros = {
        "GPL_ELEMENT_BYTES": 1,
        "GPL_INDEX_BITS": bits,
        "GPL_AXES": axes,
        "GPL_READ_BYTES": 1,
        "GPL_WRITE_BYTES": 1,
    }
    assert echoed(kernel_text("tile_nd.cu") + ECHO_BOX, macros, parameters, len(expected)) == expected
    assert len(parameters) + 16 <= MOST_PARAMETER_BYTES


@pytest.mark.parametrize("bits", (32, 64))
@pytest.mark.parametrize("axes", [axes for axes in AXES if axes <= 32])
def test_a_box_of_words_arrives_field_by_field(axes, bits):
    digits = [(2 + i, 10 - i, -7 - i) for i in range(5)]
    numbers = [(81, digits), (90, digits[:2]), (245, digits[3:])]
    parameters = move_struct(bits, b"\x01", (77, 0, 1, 0, 9), (1, 1), (1, 1), [(2, 2, 3, 4)] * axes)
    rows, offsets = (34, 7, 31, 8), (8, 12, 2 ** (bits - 2), 1, 77)
    parameters += words_struct(bits, numbers, rows, offsets, range(100, 115))
    expected, mask = [len(parameters), 77], 2**bits - 1
    for count, chosen in numbers:
        expected += [count, len(chosen)]
        for size, step, stride in [*chosen, *[(1, 0, 0)] * (RUN_DIGITS - len(chosen))]:
            expected += [*divisor(size, 32), step, stride & mask]
    expected += [number for count in rows for number in divisor(count, 32)]
    expected += [*offsets, *range(100, 115)]
    macros = {"GPL_ELEMENT_BYTES": 1, "GPL_INDEX_BITS": bits, "GPL_AXES": axes}
    assert echoed(kernel_text("box_words.cu") + ECHO_WORDS, macros, parameters, len(expected)) == expected
    assert len(parameters) + 16 <= MOST_PARAMETER_BYTES


@pytest.mark.one_in(3)
@pytest.mark.parametrize("index_bits, digit_bits", [(32, 32), (64, 32), (64, 64)])
@pytest.mark.parametrize("axes", AXES)
def test_an_index_table_arrives_field_by_field(axes, index_bits, digit_bits):
    digits = [(1000 + i, 900 + i, 2 ** (index_bits - 2) - i, 5 + i) for i in range(axes)]
    parameters = index_table_struct(digit_bits, (2**40, 2**33, 3), min(axes, 2), digits)
    low = math.prod(extent for extent, _, _, _ in digits[:2])
    expected = [len(parameters), 2**40, 2**33, axes, 3, 1, min(axes, 2), 2**64 - low, *reciprocal(low, 64)[1:]]
    for extent, bound, stride, dim in digits:
        expected += [2**digit_bits - extent, *reciprocal(extent, digit_bits)[1:], bound, stride, dim * 2**40]
    macros = {
        "GPL_INDEX_BITS": index_bits,
        "GPL_DIGIT_BITS": digit_bits,
        "GPL_AXES": axes,
        "GPL_IN_BYTES": 8,
        "GPL_IN_SIGNED": 1,
        "GPL_OUT_BYTES": 8,
    }
    assert echoed(kernel_text("index.cu") + ECHO_TABLE, macros, parameters, len(expected)) == expected
    assert len(parameters) + 24 <= MOST_PARAMETER_BYTES


@pytest.mark.parametrize("used", (1, 2, None))
@pytest.mark.parametrize("variant", JOBS)
def test_many_moves_arrive_field_by_field(variant, used):
    capacity = JOBS[variant]
    used = used or capacity
    loops = [[(1000 + j, 900 + i, -(17 + i), 2**30 - j) for i in range(1 + j % variant)] for j in range(used)]
    jobs = [job_struct(bytes([1, 2, 3, j]), 2**20 + j, axes, variant) for j, axes in enumerate(loops)]
    pointers = [(2**48 + 16 * j, 2**63 + 32 * j) for j in range(used)]
    parameters = with_pointers(many_struct([5 * j for j in range(used)], jobs, capacity), capacity, pointers)
    expected = [len(parameters), *[5 * j for j in range(used)], *[2**31 - 1] * (capacity - used)]
    for j, axes in enumerate(loops):
        expected += [*pointers[j], *[0x030201 + (j << 24)] * 4, 2**20 + j]
        for extent, bound, source_stride, target_stride in [*axes, *[(1, 1, 0, 0)] * (variant - len(axes))]:
            expected += [*divisor(extent, 32), bound, source_stride & 2**32 - 1, target_stride]
    expected += [0] * (capacity - used) * (7 + 6 * variant)
    macros = {"GPL_ELEMENT_BYTES": 4, "GPL_INDEX_BITS": 32, "GPL_AXES": variant, "GPL_JOBS": capacity}
    assert echoed(kernel_text("many.cu") + ECHO_MANY, macros, parameters, len(expected)) == expected
    assert (
        MOST_PARAMETER_BYTES - len(parameters[capacity * 4 :]) // capacity - 4 < len(parameters) <= MOST_PARAMETER_BYTES
    )


@pytest.mark.parametrize("count", (1, 5, 7, 9, 33))
def test_unused_axes_are_loops_of_one_with_stride_0(count):
    variant = axes_variant(count)
    parameters = move_struct(32, b"\0", (1, 0, 1, 0, 1), (1, 1), (1, 1), [(2, 2, 3, 4)] * count)
    macros = {"GPL_ELEMENT_BYTES": 1, "GPL_INDEX_BITS": 32, "GPL_AXES": variant}
    fields = echoed(kernel_text("move.cuh") + ECHO_MOVE, macros, parameters, 22 + 6 * variant)
    assert fields[22 + 6 * count :] == [*divisor(1, 32), 1, 0, 0] * (variant - count)
    assert variant in AXES_VARIANTS


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("gpl_uint bound, source_stride, target_stride;", "gpl_uint source_stride, bound, target_stride;"),
        ("  GplDivisor count[2];", "  gpl_uint forgotten; GplDivisor count[2];"),
        ("unsigned int pad[4];", "unsigned int pad[5];"),
    ],
)
def test_a_changed_struct_is_seen(right, wrong):
    text = kernel_text("move.cuh")
    assert right in text
    parameters = move_struct(32, b"\0", (1, 0, 1, 0, 1), (1, 1), (1, 1), [(2, 3, 4, 5)])
    macros = {"GPL_ELEMENT_BYTES": 1, "GPL_INDEX_BITS": 32, "GPL_AXES": 1}
    expected = echoed(text + ECHO_MOVE, macros, parameters, 28)
    try:
        assert echoed(text.replace(right, wrong) + ECHO_MOVE, macros, parameters, 28) != expected
    except ValueError as error:
        assert "the kernel's struct has" in str(error)
