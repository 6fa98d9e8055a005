"""Every plan that NumPy executes gives the bytes of the definition.

Which plan a move gets is stated for the processor `common`, unless a test takes another.  `test_machines.py` compares
bytes on 18 machines.
"""

import itertools
import math

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu import cache_blocks, choose_plan, strided_plan
from gpulayout.cpu.grids import grids_of
from gpulayout.cpu.run import NumpyBackend
from gpulayout.moves.kinds import Piece
from gpulayout.moves.move import pack_move, relayout_move, strided_move
from tests.support.kept import forget_transfers

pytestmark = pytest.mark.usefixtures("common")

ELEMENT_TYPES = ("u8", "f16", "bf16", "f32", "f64", "c128")


def random_array(shape: gl.Shape) -> np.ndarray:
    """The logical array with random bytes, which include NaNs with payloads."""
    data = np.random.default_rng(7).integers(0, 256, shape.element_count * shape.itemsize, np.uint8)
    return data.view(shape.dtype).reshape(shape.dimensions)


def expected_bytes(array: np.ndarray, shape: gl.Shape) -> bytes:
    """The buffer by NumPy: pad, transpose, flatten; on opaque records of the same width."""
    words = array.view(f"V{array.itemsize}")
    padded = np.full(shape.buffer_dimensions, np.frombuffer(shape.padding_bytes, words.dtype)[0])
    padded[tuple(slice(size) for size in shape.dimensions)] = words
    return padded.transpose(shape.layout.major_to_minor).tobytes()


def pack_and_back(array: np.ndarray, shape: gl.Shape) -> None:
    buffer = gl.pack(array, shape)
    assert buffer.tobytes() == expected_bytes(array, shape)
    assert gl.unpack(buffer, shape).tobytes() == array.tobytes()


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
@pytest.mark.parametrize(
    ("dimensions", "order", "widths"),
    [
        ((1500, 1415), (1, 0), None),  # cache blocks with edges on both sides
        ((1024, 1024), (1, 0), (1030, 1200)),  # cache blocks with padding around them
        ((3, 1200, 600), (0, 2, 1), None),  # a cache block covers parts of two axes
        ((12, 11, 13, 50, 18), (4, 3, 2, 1, 0), None),  # over several axes on both sides
        ((12, 11, 13, 50, 18), (2, 4, 0, 3, 1), (12, 12, 13, 51, 19)),
    ],
)
def test_moves_in_cache_blocks_give_the_bytes_of_the_definition(tiny, element_type, dimensions, order, widths):
    shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order, padded_dimensions=widths))
    array = random_array(shape)
    assert strided_plan.strided_plan_of(pack_move(array.strides, shape)).cache_block
    pack_and_back(array, shape)


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
@pytest.mark.parametrize(
    ("dimensions", "order", "widths"),
    [
        ((700, 64, 3), (1, 0, 2), None),  # runs of 3 elements
        ((256, 300, 5), (0, 1, 2), (256, 300, 6)),  # 5 channels in 6
        ((256, 300, 5), (0, 1, 2), (256, 300, 9)),  # with runs of padding
        ((300, 256, 4), (1, 0, 2), None),  # the run is a power of two
    ],
)
def test_short_contiguous_runs_move_as_one_element(element_type, dimensions, order, widths):
    shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order, padded_dimensions=widths))
    array = random_array(shape)
    run = dimensions[-1] * shape.itemsize
    if run > 8:  # shorter ones are no better than their elements
        assert strided_plan.strided_plan_of(pack_move(array.strides, shape)).itemsize == run
    pack_and_back(array, shape)


def by_channels(move) -> bool:
    """Whether a move is copied channel by channel."""
    return strided_plan.strided_plan_of(move).by_channels


def pixels_to_planes(element_type, dimensions, order):
    shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order))
    return relayout_move(shape.with_layout(None), shape)


@pytest.mark.parametrize("element_type", ("u8", "bf16", "f32", "f64"))
@pytest.mark.parametrize(
    ("dimensions", "order", "widths", "found"),
    [
        ((3, 300_001), (1, 0), None, False),  # without padding, cache blocks leave the channels out
        ((4, 2, 133_000), (2, 1, 0), None, False),
        ((4, 100, 3_000), (1, 2, 0), None, False),
        ((2, 130_001, 3), (0, 1, 2), (2, 130_001, 4), True),
        ((3, 200_001), (1, 0), (4, 200_005), True),
    ],
)
def test_moves_by_channels_give_the_bytes_of_the_definition(element_type, dimensions, order, widths, found):
    """Several chunks of each channel, the last one shorter, with padding and without."""
    shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order, padded_dimensions=widths))
    array = random_array(shape)
    assert by_channels(pack_move(array.strides, shape)) == (found and (element_type != "f64" or dimensions[-1] != 3))
    pack_and_back(array, shape)


@pytest.mark.parametrize(
    ("element_type", "channels", "found"),
    [
        ("u8", 2, True),
        ("u8", 32, True),
        ("u8", 33, False),
        ("bf16", 16, True),
        ("bf16", 17, False),
        ("f32", 8, True),
        ("f32", 9, False),
        ("f64", 4, True),
        ("f64", 5, False),
        ("c128", 2, True),
        ("c128", 3, False),
    ],
)
def test_short_padded_records_are_written_channel_by_channel(element_type, channels, found):
    padded = gl.Shape(element_type, (channels, 100_000), gl.Layout((0, 1), padded_dimensions=(channels + 1, 100_000)))
    assert by_channels(relayout_move(padded.with_layout(None), padded)) == found
    assert not by_channels(relayout_move(padded, padded.with_layout(None)))


def test_channels_of_few_pixels_or_with_gaps_are_not_copied_by_channels():
    few, enough = (
        by_channels(strided_move(shape, shape.byte_strides, (16 * (pixels + 1), 4, 16), (1000, 4, pixels + 1)))
        for pixels in (63, 64)
        for shape in [gl.Shape("f32", (1000, 4, pixels))]
    )
    assert (few, enough) == (False, True)
    shape = gl.Shape("f32", (8, 4, 1024))
    dense, gaps = (
        by_channels(strided_move(shape, shape.byte_strides, (20480 * gap, 4 * gap, 20 * gap), (8, 5, 1024)))
        for gap in (1, 2)
    )
    assert (dense, gaps) == (True, False)


@pytest.mark.parametrize(
    ("channels", "element_type", "width", "found"),
    [
        (3, "u8", 4, True),
        (3, "bf16", 8, True),
        (3, "f32", 4, True),
        (3, "f64", 4, False),
        (2, "f32", 4, False),
        (4, "u8", 5, False),
    ],
)
def test_records_of_three_channels_are_copied_by_channels_into_longer_ones(channels, element_type, width, found):
    shape = gl.Shape(element_type, (300_000, channels), gl.Layout((1, 0), padded_dimensions=(300_000, width)))
    dense = shape.with_layout(None)
    assert by_channels(relayout_move(dense, shape)) == found
    assert not by_channels(relayout_move(shape, dense))  # nothing to fill between the channels


@pytest.mark.parametrize(
    "cut",
    [
        lambda a: a[::-1, :, ::-1],
        lambda a: a[:, ::2],
        lambda a: a[..., ::3],
        lambda a: a.transpose(2, 0, 1),
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: np.broadcast_to(a[..., :1], a.shape),
    ],
    ids=["negative", "every second", "every third", "transposed", "repeated major", "repeated minor"],
)
@pytest.mark.parametrize("element_type", ["u8", "bf16", "f64", "c128"])
def test_strided_arrays_are_packed_and_unpacked_into(cut, element_type):
    whole = random_array(gl.Shape(element_type, (40, 60, 150)))
    array = cut(whole)
    shape = gl.Shape(element_type, array.shape, gl.Layout((1, 0, 2)))
    buffer = gl.pack(array, shape)
    assert buffer.tobytes() == expected_bytes(np.ascontiguousarray(array), shape)
    if 0 not in array.strides:
        target = cut(np.zeros_like(whole))
        gl.unpack(buffer, shape, out=target)
        assert target.tobytes() == array.tobytes()


@pytest.mark.parametrize("way", ["whole", "blocks", "scratch"])
def test_every_small_move_in_tiny_cache_blocks_and_long_elements(way, monkeypatch, plans_anew):
    """Each way to copy sends all orders and paddings of a small array through tiny blocks and long elements."""
    monkeypatch.setattr(strided_plan, "SMALL_BYTES", 0)
    monkeypatch.setattr(strided_plan, "LONGEST_ELEMENT", 12)
    monkeypatch.setattr(strided_plan, "RECORD_BYTES", 0)
    monkeypatch.setattr(cache_blocks, "LEAST_BLOCKS", 1)
    monkeypatch.setattr(cache_blocks, "DIRECT", [cache_blocks.Recipe(2, 3), cache_blocks.Recipe(2, 3, 1)])
    monkeypatch.setattr(cache_blocks, "SCRATCH", [cache_blocks.Recipe(3, 2), cache_blocks.Recipe(2, 4)])
    seen = set()
    for dimensions, grown, choice in itertools.product(((4, 5, 3), (2, 3, 2, 4), (7, 5)), (0, 1, 2), range(3)):
        monkeypatch.setattr(cache_blocks, "copy_cost", cost_of_way(way, choice))
        forget_transfers()
        widths = tuple(size + grown * (dim % 2) for dim, size in enumerate(dimensions))
        for order in itertools.permutations(range(len(dimensions))):
            shape = gl.Shape("s32", dimensions, gl.Layout(order, padded_dimensions=widths, padding_value=-1))
            array = np.arange(math.prod(dimensions), dtype=np.int32).reshape(dimensions)
            move = strided_move(shape, array.strides, shape.byte_strides, widths)
            target = np.full(shape.buffer_size, -2, np.int32)
            NumpyBackend().prepare((Piece(move),)).execute(array, target)
            assert target.tobytes() == expected_bytes(array, shape), (dimensions, order, widths)
            plan = strided_plan.strided_plan_of(move)
            if way_of(plan) == way:
                seen.add((dimensions, order, plan.cache_block))
    assert len(seen) > 20


def test_cache_blocks_of_more_axes_than_half_of_numpys_limit():
    """48 axes of 2 places, whose 2^48 elements share their memory here: blocks of the 32 minor axes."""
    source, target = (np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (2,) * 48, (0,) * 48) for _ in range(2))
    (grid,) = grids_of((source, target), (1,) * 16 + (2,) * 32)
    for array in grid.arrays:
        assert array[(0,) * 16].shape == (1,) * 16 + (2,) * 32
    assert grid.counts == (2,) * 16
    assert grid.sizes == (1,) * 16 + (2,) * 32
    assert np.may_share_memory(grid.arrays[1], target)


def cost_of_way(way, choice):
    """A cost that makes the planner choose one kind of way, and different ones of a kind in turn."""
    turns = itertools.count(choice)

    def cost(itemsize, axes, block, scratch, caches, limit):
        whole = all(size == axis.bound for size, axis in zip(block, axes))
        found = "scratch" if scratch else "whole" if whole else "blocks"
        return 1e9 * (found != way) + 1e8 + 1000 * (next(turns) % 3)

    return cost


def way_of(plan):
    return "scratch" if plan.scratch else "blocks" if plan.cache_block else "whole"


@pytest.mark.parametrize("threads", [1, 3])
def test_every_small_padding_in_pieces_of_one_place(threads, monkeypatch, plans_anew):
    """Slabs, fills of everything and channels, cut along every possible axis, in shares of every size."""
    for name, value in (("SMALL_BYTES", 0), ("CHUNK_BYTES", 24), ("SHARE_TIME", 30 * strided_plan.FILL_TIME)):
        monkeypatch.setattr(strided_plan, name, value)
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", str(threads))
    seen = set()
    for whole, dimensions, grown in itertools.product(
        (0, 1024), ((3, 200), (200, 3), (4, 5, 6), (2, 200, 3), (0, 5)), itertools.product((0, 1, 5), repeat=2)
    ):
        monkeypatch.setattr(strided_plan, "FILL_WHOLE_BYTES", whole)
        forget_transfers()
        widths = tuple(size + grown[dim % 2] for dim, size in enumerate(dimensions))
        for order in itertools.permutations(range(len(dimensions))):
            shape = gl.Shape("s16", dimensions, gl.Layout(order, padded_dimensions=widths, padding_value=-1))
            array = np.arange(math.prod(dimensions), dtype=np.int16).reshape(dimensions)
            guarded = np.full(shape.buffer_size + 8, -2, np.int16)
            gl.pack(array, shape, out=guarded[4:-4])
            assert guarded[4:-4].tobytes() == expected_bytes(array, shape), (dimensions, order, widths, whole)
            assert (guarded[:4] == -2).all() and (guarded[-4:] == -2).all()
            plan = strided_plan.strided_plan_of(pack_move(array.strides, shape))
            seen.add((plan.by_channels, bool(plan.chunk), plan.fills_first, bool(plan.fills), plan.share > 0))
    assert {
        (True, True, True, True, True),
        (True, True, False, True, True),
        (False, True, True, True, True),
        (False, True, False, True, True),
    } <= seen


def relayout_plan(text, order):
    source = gl.parse_shape(text)
    return strided_plan.strided_plan_of(relayout_move(source, source.with_layout(gl.Layout.from_major_to_minor(order))))


def test_the_scratch_array_of_a_small_move_is_smaller_than_what_malloc_returns_to_the_system(each_processor):
    for text in ("f32[256,256]", "f64[256,256]", "u8[64,4096]", "c128[128,256]"):
        plan = relayout_plan(text, (1, 0))
        assert 0 < cache_blocks.scratch_bytes(plan.itemsize, plan.cache_block, plan.scratch) < 128 << 10, text


def test_scratch_arrays_of_all_threads_fit_into_4_megabytes(each_processor):
    for text in (
        "u8[8192,8192]",
        "f32[8192,8192]",
        "c128[4096,4096]",
        "c128[4095,4097]",
        "f32[32,32,32,32,32]",
        "f64[7,7,7,7,7,7,7,7]",
    ):
        source = gl.parse_shape(text)
        move = relayout_move(source, source.with_layout(gl.Layout.ascending(source.rank)))
        for threads in (1, 2, 4, 16):
            plan = strided_plan.strided_plan_of(move, threads)
            reach = cache_blocks.scratch_bytes(plan.itemsize, plan.cache_block, plan.scratch)
            assert reach * threads <= 4 << 20, (text, threads)


def test_short_rows_far_apart_leave_scratch_arrays_small_enough(each_processor):
    """Rows of 336 bytes begin 448 apart, and they are not contiguous in the source."""
    through_scratch = 0
    for element_type, run in (("u8", 321), ("u16", 161), ("f32", 81), ("f64", 41), ("c128", 21)):
        shape = gl.Shape(element_type, (run, 1600, 600))
        itemsize = shape.itemsize
        for threads, order in itertools.product((2, 7, 16, 64), ((0, 1, 2), (1, 0, 2))):
            source = [itemsize, itemsize * (run + 1), itemsize * (run + 1) * 1600]
            target = gl.Layout(tuple(reversed(order)))
            plan = strided_plan.strided_plan_of(
                strided_move(shape, source, shape.with_layout(target).byte_strides, shape.dimensions), threads
            )
            if plan.scratch:
                size = cache_blocks.scratch_bytes(itemsize, plan.cache_block, plan.scratch)
                assert size * threads <= 4 << 20, (element_type, order, threads)
                through_scratch += 1
    assert through_scratch > 20


def test_rows_of_the_scratch_array_lie_an_odd_number_of_lines_apart(each_processor):
    for text in ("f32[4096,4096]", "f64[8192,8192]", "u8[8192,8192]"):
        source = gl.parse_shape(text)
        plan = strided_plan.strided_plan_of(relayout_move(source, source.with_layout(gl.Layout.ascending(2))))
        assert plan.scratch[1] % 128 == 64, text  # the minor axis of the target


def test_only_scattered_padding_is_filled_with_everything_else(each_processor):
    scattered = gl.parse_shape("f32[300,160,160]{2,1,0:PD(304,192,192)}")
    gathered = gl.parse_shape("f32[2880,2881]{1,0:PD(2880,3072)}")
    single = gl.parse_shape("f32[80000,100]{1,0:PD(80000,101)}")
    records = gl.parse_shape("f32[80000,3]{1,0:PD(80000,4)}")
    plans = [
        strided_plan.strided_plan_of(pack_move(shape.with_layout(None).byte_strides, shape))
        for shape in (scattered, gathered, single, records)
    ]
    assert [plan.fills_first for plan in plans] == [True, False, False, True]
    assert [plan.by_channels for plan in plans] == [False, False, False, True]
    assert all(plan.chunk for plan in plans[:3])


def test_no_plan_is_worth_more_threads_than_the_limit(each_processor):
    plans = [strided_plan.strided_plan_of(gl.plan(text, "{0,1}").move) for text in ("u8[3000000,1000]", "f32[300,200]")]
    assert [plan.most_threads for plan in plans] == [1024, 1]


@pytest.mark.parametrize(
    "source, target, text, fields",
    [
        ("f32[4,5]", "{0,1}", "one np.copyto over 2 axes", {"element_bytes": 4, "cache_block": None, "fills": []}),
        ("f32[4,5]", "{0,1:PD(6,5)}", "one np.copyto over 2 axes and 1 fill of padding", {"fills": [30]}),
        (
            "s4[5,7]{1,0:E(4)}",
            "{1,0}",
            "chunks of up to 35 elements, unpacked to bytes by shifts",
            {"chunk": 1048576, "blocks": None, "cache_block": None},
        ),
        (
            "s4[256,512]{1,0:E(4)}",
            "{0,1:E(4)}",
            "16 x 16 blocks transposed in cache blocks of up to 131072 elements",
            {"blocks": 16, "cache_block": (16, 32)},
        ),
        ("s4[4,6]{1,0:E(4)}", "{1,0:T(2,3)E(4)}", "24 places looked up one by one, then packed", {"looked_up": True}),
    ],
)
def test_each_kind_of_plan_describes_itself(source, target, text, fields):
    move = gl.plan(source, target).move
    assert choose_plan.describe(move) == text
    values = choose_plan.as_json(move)
    assert {name: values[name] for name in fields} == fields


def test_moves_without_elements_say_so():
    empty, fill = gl.plan("f32[0,3]", "{0,1}").move, gl.plan("f32[0,3]", "{1,0:PD(2,3)}").move
    assert (choose_plan.describe(empty), choose_plan.as_json(empty)) == ("nothing to do", None)
    assert choose_plan.describe(fill) == "one fill of 6 places" and choose_plan.as_json(fill)["fills"] == [6]
