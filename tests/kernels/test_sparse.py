"""Beyond 2^32 elements: the first and the last blocks of huge moves and conversions, in sparse memory.

Pages exist only once they are touched, so a launch of a few chosen blocks needs a few megabytes.
"""

import dataclasses
import itertools
import math
from unittest import mock

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.index_launch import index_launch
from gpulayout.gpu.kernel_numbers import ITEMS
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.many_axes import plan as many_axes_plan
from gpulayout.gpu.many_axes import word_runs
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, ConvertMove, Step
from gpulayout.moves.index_program import convert_program, delinearize_program, linearize_program
from gpulayout.moves.move import Axis
from tests.support.executors import with_operands
from tests.support.kernel_cases import BLOCK, FILES, Case, backwards, forced_bits, move_of, transposed
from tests.support.lookup_cases import few_pieces
from tests.support.placed import relayout_pieces, unpack_pieces
from tests.support.simt import host_module, toolchain
from tests.support.simt.sparse import sparse_bytes

REASON = toolchain.missing()
pytestmark = [pytest.mark.simt, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
BIG = 2**32

# Every axis reaches past 2^32 in one of the cases; elements are single bytes, so places are addresses.
CASES = {
    "copy": Case("copy", move_of(1, [(BIG + 5001, BIG + 5001, 1, 1)])),
    "copy, phases differ": Case("copy", move_of(1, [(BIG + 5001, BIG + 5001, 1, 1)]), 1, 2),
    "rows": Case("rows", move_of(1, [(4097, 4097, 1, 1), (2**20 + 128, 2**20 + 128, 4099, 4101)])),
    "rows, padded": Case("rows", move_of(1, [(4096, 4000, 1, 1), (2**20 + 3, 2**20 + 2, 4096, 4096)])),
    "rows, longer than 2^32": Case(
        "rows", move_of(1, [(BIG + 5001, BIG + 5000, 1, 1), (3, 3, BIG + 5003, BIG + 5007)])
    ),
    "tile": Case("tile", move_of(1, [(65552, 65552, 65568, 1), (65568, 65568, 1, 65552)])),
    "tile, padded": Case("tile", move_of(1, [(65552, 65540, 65568, 1), (65568, 65561, 1, 65552)])),
    "tile, rows of the target longer than 2^32": Case(
        "tile", move_of(1, [(BIG + 4112, BIG + 4112, 128, 1), (128, 128, 1, BIG + 4112)])
    ),
    "tile, rows of the source longer than 2^32": Case(
        "tile", move_of(1, [(128, 128, BIG + 4112, 1), (BIG + 4112, BIG + 4112, 1, 128)])
    ),
    "words": Case("words", move_of(1, [(65539, 65539, 65555, 1), (65555, 65555, 1, 65539)])),
    "words, rows of the target longer than 2^32": Case(
        "words", move_of(1, [(BIG + 77, BIG + 76, 145, 1), (145, 145, 1, BIG + 79)])
    ),
    "words, rows of the source longer than 2^32": Case(
        "words", move_of(1, [(145, 145, BIG + 79, 1), (BIG + 77, BIG + 76, 1, 145)])
    ),
    "odd tile, rows of the target longer than 2^32": Case(
        "odd tile", move_of(1, [(BIG + 1077, BIG + 1076, 20, 1), (19, 19, 1, BIG + 1077)])
    ),
    "odd tile, rows of the source longer than 2^32": Case(
        "odd tile", move_of(1, [(19, 19, BIG + 1077, 1), (BIG + 1077, BIG + 1076, 1, 20)])
    ),
    "odd tile": Case("odd tile", move_of(1, [(2**27 + 3, 2**27 + 3, 67, 1), (49, 49, 1, 2**27 + 3)])),
    "dense tile": Case("dense tile", move_of(1, [(BIG // 16 + 4, BIG // 16 + 4, 17, 1), (17, 17, 1, BIG // 16 + 4)])),
    "stack": Case(
        "stack", move_of(1, [(33, 33, 31, 1), (31, 31, 1, 33), (BIG // 1023 + 9, BIG // 1023 + 9, 1023, 1023)])
    ),
    "channels": Case("channels", move_of(1, [(BIG // 2 + 4, BIG // 2 + 4, 3, 1), (3, 3, 1, BIG // 2 + 4)])),
    "channels, planes longer than 2^32": Case(
        "channels", move_of(1, [(BIG + 132, BIG + 4, 3, 1), (4, 3, 1, BIG + 144)])
    ),
    "channels of planes": Case("channels", move_of(1, [(3, 3, BIG // 2 + 4, 1), (BIG // 2 + 4, BIG // 2 + 4, 1, 3)])),
    "many axes": Case("many axes", transposed(1, (8,) * 11, backwards(11))),
    "many axes, padded": Case(
        "many axes",
        move_of(
            1,
            [(3, 2, 11 * 2**20, 1), (11, 11, 2**20, 3), (2**20, 2**20, 1, 33), (130, 129, 22 * 2**20, 33 * 2**20 + 3)],
        ),
    ),
    "word boxes": Case("word boxes", transposed(1, (3,) * 21, backwards(21))),
    "word boxes, padded": Case(
        "word boxes",
        move_of(1, [(5, 5, 49, 1), (49, 49, 1, 5), (20, 20, 245, 245), (BIG // 4900, BIG // 4900 - 1, -4903, 4900)]),
        target_phase=3,
    ),
    "many axes, one of them up to 2^32": Case(
        "many axes", move_of(1, [(5, 4, 5, 1), (30, 29, 25, 5), (5, 4, 1, 150), (BIG + 3, BIG, 0, 750)])
    ),
    "gather": Case("gather", move_of(1, [(BIG // 2 + 77, BIG // 2 + 77, 2, 3)])),
    "rows, source backwards": Case(
        "rows", move_of(1, [(BIG + 5001, BIG + 5000, 1, 1), (3, 3, -BIG - 5003, BIG + 5007)])
    ),
    # More than 2^32 rows, tiles, chunks or places, and for the smallest ones more than 2^32 blocks: a target of
    # terabytes whose parts all come from one place.
    "copy, more than 2^32 chunks": Case("copy", move_of(1, [(16 * BIG + 5001, 16 * BIG + 5001, 1, 1)])),
    "rows, more than 2^32": Case("rows", move_of(1, [(32, 31, 1, 1), (BIG + 3, BIG + 3, 0, 32)])),
    "rows, more than 2^32 threads": Case("rows", move_of(1, [(32, 31, 1, 1), (8 * BIG + 3, 8 * BIG + 3, 0, 32)])),
    "tile, more than 2^32": Case(
        "tile", move_of(1, [(64, 64, 64, 1), (64, 64, 1, 64), (BIG + 3, BIG + 3, 0, 64 * 64)])
    ),
    "words, more than 2^32": Case(
        "words", move_of(1, [(67, 67, 69, 1), (67, 67, 1, 67), (BIG + 3, BIG + 3, 0, 67 * 67)])
    ),
    "odd tile, more than 2^32": Case(
        "odd tile", move_of(1, [(17, 17, 18, 1), (19, 19, 1, 17), (BIG + 3, BIG + 3, 0, 17 * 19)])
    ),
    "channels, more than 2^32": Case(
        "channels", move_of(1, [(128, 128, 2, 1), (2, 2, 1, 128), (BIG + 3, BIG + 3, 0, 256)])
    ),
    "many axes, more than 2^32": Case(
        "many axes",
        move_of(
            1, [(5, 4, 35, 1), (7, 7, 5, 5), (5, 5, 1, 35), (BIG + 3, BIG + 3, 0, 175), (20, 20, 0, 175 * (BIG + 3))]
        ),
    ),
    "word boxes, more than 2^32": Case(
        "word boxes",
        move_of(
            1, [(5, 5, 35, 1), (7, 7, 5, 5), (5, 5, 1, 35), (BIG + 3, BIG + 3, 0, 175), (20, 20, 0, 175 * (BIG + 3))]
        ),
    ),
    "gather, more than 2^32 places of a row": Case("gather", move_of(1, [(2, 2, 1, 3), (BIG + 3, BIG + 3, 2, 7)])),
    "gather, more than 2^32 blocks": Case("gather", move_of(1, [(1024 * BIG + 3000, 1024 * BIG + 3000, 0, 1)])),
}


def place_of(move, number):
    """(source place or None, target place) of place `number`, minor axis fastest."""
    source = target = 0
    inside = True
    for axis in move.axes:
        number, coordinate = divmod(number, axis.extent)
        inside = inside and coordinate < axis.bound
        source, target = source + coordinate * axis.source_stride, target + coordinate * axis.target_stride
    return (source if inside else None), target


def corner(case, far):
    """Numbers of places at the beginning or the end of every axis: 48 along the minor axis, 16 lines of a tile."""
    most = (48, 16 if "tile" in case.plan.kernel else 1)  # as far as the launched blocks reach
    ranges = []
    for axis, size in zip(case.move.axes, itertools.chain(most, itertools.repeat(1))):
        size = min(axis.extent, size)
        ranges.append(range(axis.extent - size, axis.extent) if far else range(size))
    for coordinates in itertools.product(*ranges):
        number, step = 0, 1
        for coordinate, axis in zip(coordinates, case.move.axes):
            number, step = number + coordinate * step, step * axis.extent
        yield number


def block_ranges(plan):
    """The first blocks, the last blocks with work, and the last block of the grid, whose last row may reach past it."""
    blocks = plan.grid[0] * plan.grid[1]
    total = int.from_bytes(plan.parameters[16:24], "little")  # behind the pad
    busy = blocks if plan.grid[1] == 1 else -(-total // (BLOCK * ITEMS)) if plan.file == "gather.cu" else total
    return [(0, 4), (busy - 4, busy), (blocks - 4, blocks)]


def corner_is_right(case, far, text=None, bits=64):
    """Launch the first or the last blocks and check the corner that they fill.  The source holds data there and around
    its ends.
    """
    case = dataclasses.replace(case, bits=bits)
    source = sparse_bytes(case.source_phase + case.move.source_span[1] - case.move.source_span[0] + 64)
    source[: case.source_phase] = source[-64:] = 0xEE
    return _corner_is_right(case, far, source, case.source_phase, text)


def _corner_is_right(case, far, source, begin, text=None):
    """As `corner_is_right`, in the caller's memory, where the source begins at `begin`."""
    plan, move = case.plan, case.move
    target = sparse_bytes(move.target_span[1] - move.target_span[0] + 64)
    places = [place_of(move, number) for number in corner(case, far)]
    origin = begin - move.source_span[0]
    for place, _ in places:
        if place is not None:
            source[origin + place] = place * 7 % 251 + 1
    kernel = host_module.load(text or kernel_text(plan.file), FILES[plan.file], dict(plan.macros)).kernel(plan.kernel)
    for first, last in block_ranges(plan)[: 3 if far else 1]:  # the first block of a copy writes its tail too
        addresses = source.ctypes.data + origin, target.ctypes.data + case.target_phase
        kernel(plan.grid, BLOCK, (*addresses, plan.parameters), first=first, last=last)
    wanted = [move.pad[0] if place is None else place * 7 % 251 + 1 for place, _ in places]
    is_clean = not target[: case.target_phase].any() and not target[case.target_phase + move.target_span[1] :].any()
    return is_clean and [int(target[case.target_phase + place]) for _, place in places] == wanted


@pytest.mark.parametrize("far", (False, True), ids=("first", "last"))
@pytest.mark.parametrize("name", CASES)
def test_the_ends_of_a_huge_move_are_right(name, far):
    case = dataclasses.replace(CASES[name])
    # if boxes of a block are far apart, others than the last blocks move the last boxes
    near = int(not far)
    with mock.patch.object(word_runs, "FAR_BOXES", near), mock.patch.object(many_axes_plan, "FAR_BOXES", near):
        plan = dataclasses.replace(case, bits=64).plan
        assert corner_is_right(case, far)
    assert max(span[1] - span[0] for span in (case.move.source_span, case.move.target_span)) > BIG
    files = {
        "copy": "copy.cu",
        "rows": "rows.cu",
        "channels": "channels.cu",
        "channels of planes": "channels.cu",
        "tile": "tile.cu",
        "words": "tile_words.cu",
        "many axes": "tile_nd.cu",
        "word boxes": "box_words.cu",
        "gather": "gather.cu",
    }
    assert plan.file == files.get(name.split(",")[0], "tile_any.cu")


@pytest.mark.parametrize(
    "name",
    [
        "copy",
        "rows, longer than 2^32",
        "words",
        "words, rows of the target longer than 2^32",
        "words, rows of the source longer than 2^32",
        "odd tile, rows of the source longer than 2^32",
    ],
)
def test_nothing_is_read_past_a_huge_source(name):
    """The source ends where a page ends, and the next page cannot be accessed."""
    source = sparse_bytes(CASES[name].move.source_span[1], ends=True)
    case = dataclasses.replace(CASES[name], source_phase=source.ctypes.data % 16, bits=64)
    assert case.plan.file == dataclasses.replace(CASES[name], bits=64).plan.file
    assert _corner_is_right(case, True, source, 0)


@pytest.mark.parametrize("minor", ["word boxes, padded", "words", "odd tile", "rows", "gather"])
def test_a_source_may_reach_2_to_the_31_both_ways(minor):
    """Every offset fits 31 bits, but the two ends of the source are nearly 2^32 apart."""
    small = {
        "word boxes, padded": [(5, 5, 49, 1), (49, 49, 1, 5), (20, 20, 245, 245)],
        "words": [(67, 67, 69, 1), (67, 67, 1, 67)],
        "odd tile": [(33, 33, 35, 1), (35, 35, 1, 33)],
        "rows": [(67, 67, 1, 1), (5, 5, 67, 67)],
        "gather": [(5, 5, 2, 1), (7, 7, 10, 5)],
    }[minor]
    places, far = math.prod(axis[0] for axis in small), 2**31 - 10_000
    move = move_of(1, [*small, (2, 2, -far, places), (2, 2, far, 2 * places)])
    plan = kernel_plan(move)
    assert plan.file == CASES[minor].plan.file
    source, target = sparse_bytes(move.source_span[1] - move.source_span[0] + 16), np.zeros(4 * places + 16, np.uint8)
    begin = (move.source_span[0] - source.ctypes.data) % 16 - move.source_span[0]
    read, written = np.array([place_of(move, number) for number in range(4 * places)]).T
    source[begin + read] = read * 7 % 251 + 1
    kernel = host_module.load(kernel_text(plan.file), FILES[plan.file], dict(plan.macros)).kernel(plan.kernel)
    origin = -target.ctypes.data % 16
    kernel(plan.grid, BLOCK, (source.ctypes.data + begin, target.ctypes.data + origin, plan.parameters))
    assert np.array_equal(target[origin + written], read * 7 % 251 + 1)


def test_places_of_rows_in_huge_parameters_are_right():
    """Three rows of two elements, whose scales are 8 GB apart; the last one is at the end of the memory."""
    apart, arithmetic = 2**31, Arithmetic(ElementType.U8, ElementType.F32, True, (Step("multiply", 0),))
    plan = kernel_plan(ConvertMove((Axis(2, 2, 1, 4), Axis(3, 3, 3, 8)), arithmetic, ((0, apart),), (0,)))
    source, target = np.arange(8, dtype=np.uint8), np.zeros(6, np.float32)
    scale = sparse_bytes(4 * (2 * apart + 1), ends=True)
    for number in range(3):
        scale[4 * number * apart :][:4] = np.array([number - 1.5], np.float32).view(np.uint8)
    kernel = host_module.load(kernel_text(plan.file), FILES[plan.file], dict(plan.macros)).kernel(plan.kernel)
    kernel(plan.grid, BLOCK, (source, target, with_operands(plan.parameters, (scale.ctypes.data,))))
    assert target.tolist() == [0, -1.5, -1.5, -2, 3, 3.5]


IN_MEMORY = """
extern "C" __global__ void in_memory(unsigned char* to, unsigned long long word, unsigned long long b,
                                     const __grid_constant__ GplMove move) {
  GplWords tile;
  tile.b = b;
  to[0] = gpl_in_memory(word, tile, move);
}
"""


@pytest.mark.parametrize("name", ["words", "words, rows of the source longer than 2^32"])
def test_words_at_both_ends_of_a_huge_source_are_known(name):
    """Words are aligned, so one that begins in the source and ends after it is on the same page: no launch shows it."""
    plan, move = dataclasses.replace(CASES[name], bits=64).plan, CASES[name].move
    kernel = host_module.load(kernel_text(plan.file) + IN_MEMORY, ("in_memory",), dict(plan.macros)).kernel("in_memory")
    bound, stride, end, found = (
        move.axes[0].bound,
        move.axes[0].source_stride,
        move.source_span[1],
        np.zeros(1, np.uint8),
    )
    for past, (b, word, is_inside) in itertools.product(
        range(-5, 6),
        ((bound - 10, end - 4 - (bound - 1) * stride, lambda past: past <= 0), (0, 0, lambda past: past >= 0)),
    ):
        kernel(1, 1, (found, (word + past) % 2**64, b, plan.parameters))
        assert found[0] == is_inside(past), (b, past)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_32_bit_offsets_fail_there(name):
    """The struct is packed and read with 64 bits, but every offset of an element is cut to 32."""
    case = CASES[name]
    text = kernel_text(dataclasses.replace(case, bits=64).plan.file)
    for offset in ("offset", "(offset", "(first", "tile.first.target"):
        text = text.replace(f"+ (gpl_int){offset}", f"+ (int){offset}")
    text = text.replace("(long long)(gpl_int)offset", "(long long)(int)offset")
    text = text.replace("from + number * GPL_PER_CHUNK", "from + (unsigned)(number * GPL_PER_CHUNK)")
    text = text.replace("target + to[i]", "target + (unsigned)to[i]").replace(
        "source + word", "source + (unsigned)word"
    )
    try:
        assert not corner_is_right(case, True, text)
    except host_module.LaunchError as error:
        assert "invalid memory access" in str(error)


# ---- index conversion -------------------------------------------------------------------------------------------

SHAPE = gl.Shape("u8", (70001, 70003), gl.Layout((1, 0), padded_dimensions=(70001, 70017)))
TURNED = gl.Shape("u8", (70001, 70003), gl.Layout((0, 1)))


def conversions():
    """(direction, plan, given, expected) for the last 3000 elements."""
    row = np.full(3000, 70000)
    column = np.arange(70003 - 3000, 70003)
    place, turned = row * 70017 + column, column * 70001 + row
    assert place.min() > BIG
    yield "linearize", linearize_program(SHAPE), np.stack([row, column]), place[None]
    yield "delinearize", delinearize_program(SHAPE), place, np.stack([row, column])
    yield "convert_linear", convert_program(SHAPE, TURNED), place, turned[None]


def converted(program, given, rows, mode="raise", count=None, dtype=np.int64):
    """The result of a conversion; only the last four blocks run if the arrays are longer than the given part."""
    count, width = count or given.shape[-1], np.dtype(dtype).itemsize
    source = sparse_bytes(width * count * (given.size // given.shape[-1])).view(dtype).reshape(*given.shape[:-1], count)
    source[..., -given.shape[-1] :] = given
    result, offender = (
        sparse_bytes(width * count * rows).view(dtype).reshape(rows, count),
        np.array([2**64 - 1], np.uint64),
    )
    launch = index_launch(program, count, mode, (width, True), width)
    kernel = host_module.load(kernel_text(launch.file), FILES[launch.file], dict(launch.macros)).kernel(launch.kernel)
    blocks = -(-count // (BLOCK * ITEMS))
    kernel(
        launch.grid,
        BLOCK,
        (source.ctypes.data, result.ctypes.data, offender.ctypes.data, launch.parameters),
        first=max(blocks - 4, 0),
        last=blocks,
    )
    return result[:, -given.shape[-1] :], int(offender[0])


@pytest.mark.parametrize("bits, is_right", [(64, True), (32, False)])
def test_indices_of_huge_buffers_are_converted(bits, is_right):
    with forced_bits(bits):
        for direction, program, given, expected in conversions():
            result, offender = converted(program, given, len(expected))
            assert (np.array_equal(result, expected) and offender == 2**64 - 1) == is_right, direction


@pytest.mark.parametrize(
    "count, dtype, sizes",
    [(2**32 + 1234, np.int64, (40, 50)), (2**42 + 1234, np.int8, (4, 5))],
    ids=("indices", "blocks"),
)
def test_more_than_2_to_the_32_indices_are_converted(count, dtype, sizes):
    shape = gl.Shape("u8", sizes, gl.Layout((0, 1)))
    logical = np.indices(shape.dimensions).reshape(2, -1)
    places = logical[0] + sizes[0] * logical[1]
    for direction, program, given, expected in (
        ("linearize", linearize_program(shape), logical, places[None]),
        ("delinearize", delinearize_program(shape), places, logical),
    ):
        assert program.index_bits == 32
        result, offender = converted(program, given, len(expected), count=count, dtype=dtype)
        assert np.array_equal(result, expected) and offender == 2**64 - 1, direction
        broken, offender = converted(
            program, given + (2000 if dtype == np.int64 else 100), len(expected), count=count, dtype=dtype
        )
        assert offender == count - given.shape[-1], direction


# ---- places that are looked up ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits, is_right", [(64, True), (32, False)])
def test_places_beyond_2_to_the_32_are_looked_up(bits, is_right):
    source, target = (
        gl.Shape("u8", (70001, 70003), gl.Layout((1, 0), tiles=[tile], padding_value=9)) for tile in ((7, 11), (8, 13))
    )
    with few_pieces(), forced_bits(bits):
        (piece,) = relayout_pieces(source, target)
        plan = kernel_plan.__wrapped__(piece.move)
    assert plan.index_bits == bits
    numbers = np.arange(target.buffer_size - 3000, target.buffer_size)
    index = gl.delinearize(numbers, target, padding="mark")
    inside = index[0] >= 0
    places = gl.linearize(index[:, inside], source)
    assert places.min() > BIG and 0 < inside.sum() < 3000
    given, result = sparse_bytes(source.nbytes + 32), sparse_bytes(target.nbytes + 32)
    given[places] = places % 200 + 10
    kernel = host_module.load(kernel_text(plan.file), FILES[plan.file], dict(plan.macros)).kernel(plan.kernel)
    try:
        kernel(plan.grid, BLOCK, (given.ctypes.data, result.ctypes.data, plan.parameters), first=plan.grid[0] - 4)
    except host_module.LaunchError as error:
        assert not is_right and "invalid memory access" in str(error)
        return
    wanted = np.full(3000, 9)
    wanted[inside] = places % 200 + 10
    assert np.array_equal(result[numbers], wanted) == is_right


@pytest.mark.parametrize("strides", [(BIG + 5000, 1), (-BIG - 5000, -1), (1, BIG // 2000)])
def test_places_are_looked_up_for_an_array_with_strides_beyond_2_to_the_32(strides):
    shape = gl.Shape("u8", (3, 3000), gl.Layout((1, 0), tiles=[(2, 7)]))
    with few_pieces():
        (piece,) = unpack_pieces(shape, strides)
        plan = kernel_plan.__wrapped__(piece.move)
    assert plan.file == "lookup.cu" and plan.index_bits == 64
    given = (np.arange(shape.buffer_size) * 7 % 251 + 1).astype(np.uint8)
    reaches = [(size - 1) * stride for size, stride in zip(shape.dimensions, strides)]
    begin = -sum(min(reach, 0) for reach in reaches)
    result = sparse_bytes(begin + sum(max(reach, 0) for reach in reaches) + 1)
    kernel = host_module.load(kernel_text(plan.file), FILES[plan.file], dict(plan.macros)).kernel(plan.kernel)
    kernel(plan.grid, BLOCK, (given.ctypes.data, result.ctypes.data + begin, plan.parameters))
    found = result[begin + np.einsum("i,i...", strides, np.indices(shape.dimensions))]
    assert np.array_equal(found, gl.unpack(given, shape))
