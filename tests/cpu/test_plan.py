"""Every plan that NumPy executes gives the bytes of the definition, block by block, and each place once.

`test_machines.py` compares bytes on 18 machines.
"""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.cpu import blocks, choose_plan
from gpulayout.cpu.blocks import block_sizes, boxes_of, strided_plan_of
from gpulayout.cpu.run import NumpyBackend
from gpulayout.moves.move import Axis
from gpulayout.moves.pieces import Piece
from tests.support.kept import forget_transfers
from tests.support.placed import pack_move, strided_move

ELEMENT_TYPES = ("u8", "f16", "bf16", "f32", "f64", "c128")
GUARD = 0xA5

# What makes blocks of a few elements, in several ways.
LIMITS = {
    "blocks": {"BLOCK_BYTES": 24, "TARGET_RUN": 2, "RECORD_BYTES": 0},
    "records": {"BLOCK_BYTES": 48, "TARGET_RUN": 3, "RECORD_BYTES": 12},
    "single elements": {"BLOCK_BYTES": 1, "TARGET_RUN": 1, "RECORD_BYTES": 0, "LONGEST_ELEMENT": 1},
}


@pytest.fixture(params=LIMITS)
def small_blocks(request, monkeypatch, plans_anew):
    """Each small array is cut into blocks, and each block justifies a thread."""
    monkeypatch.setattr(blocks, "SHARE_BYTES", 1)
    for name, value in LIMITS[request.param].items():
        monkeypatch.setattr(blocks, name, value)
    return request.param


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


# ---- blocks --------------------------------------------------------------------------------------


@given(
    extents=st.lists(st.integers(1, 300), min_size=1, max_size=5),
    along_target=st.integers(1, 400),
    more=st.integers(0, 3000),
    data=st.data(),
)
def test_a_block_is_no_larger_than_it_may_be_and_not_much_smaller(extents, along_target, more, data):
    strides = data.draw(st.permutations(range(len(extents))))
    most = along_target + more
    axes = [Axis(extent, extent, stride, 0) for extent, stride in zip(extents, strides)]
    block = block_sizes(axes, along_target, most)
    assert all(1 <= size <= extent for size, extent in zip(block, extents))
    assert math.prod(block) <= most
    parts = [axis for axis, size in enumerate(block) if size < extents[axis]]
    # An axis that is cut in half is at most four times as long as it may be: halves of places do not exist.
    assert not parts or math.prod(block) * 4 ** min(len(parts), 2) > most


@pytest.mark.parametrize("extents, block", [((7, 5), (3, 2)), ((4, 1, 6), (4, 1, 5)), ((), ()), ((3,), (3,))])
def test_blocks_cover_every_place_once_the_last_axis_first(extents, block):
    numbers = np.zeros(extents, int)
    for box in boxes_of(extents, block):
        assert all(
            part.stop <= extent and part.stop - part.start <= size for part, size, extent in zip(box, block, extents)
        )
        numbers[box] += 1
    assert (numbers == 1).all()
    corners = [[part.start for part in box] for box in boxes_of(extents, block)]
    assert corners == sorted(corners)


SHAPES = (4, 5, 3), (2, 3, 2, 4), (7, 5), (6,), (), (3, 0)


def small_moves(gap):
    """(move, array, shape) of small arrays in all orders, with padding and without, into places `gap` bytes apart."""
    shapes = SHAPES[: len(SHAPES) - (gap > 2)]  # an array without elements has no strides
    for dimensions, grown in itertools.product(shapes, itertools.product((0, 1), (0, 5))):
        widths = tuple(size + grown[dim % 2] for dim, size in enumerate(dimensions))
        for order in itertools.permutations(range(len(dimensions))):
            shape = gl.Shape("s16", dimensions, gl.Layout(order, padded_dimensions=widths, padding_value=-1))
            array = np.arange(math.prod(dimensions), dtype=np.int16).reshape(dimensions)
            strides = [stride // 2 * gap for stride in shape.byte_strides]
            yield strided_move(shape, array.strides, strides, widths), array, shape


@pytest.mark.parametrize("gap", [2, 6])
def test_the_blocks_of_a_move_write_each_place_once_and_no_gap(gap, small_blocks, monkeypatch):
    """So threads, which share blocks, never write the same place."""
    calls = []
    monkeypatch.setattr(blocks, "share", lambda work, count, least, threads: calls.append((work, count)))
    counts = set()
    for move, array, shape in small_moves(gap):
        target = np.empty(shape.buffer_size * gap, np.uint8)
        calls.clear()
        strided_plan_of(move).execute(array, 0, target, 0)
        writes = np.zeros(target.shape, int)
        for work, count in calls:
            for block in range(count):
                found = np.zeros(target.shape, bool)
                for guard in (GUARD, GUARD ^ 0xFF):
                    target[:] = guard
                    work(block, block + 1)
                    found |= target != guard
                writes += found
            counts.add(count)
        if calls:
            places = np.arange(target.size) % gap < 2
            assert (writes == places).all(), (shape, gap)
    assert len(counts) > 8 and max(counts) > 20


@pytest.mark.parametrize("threads", [1, 3])
def test_every_small_move_in_small_blocks(threads, small_blocks):
    for gap in (2, 6):
        for move, array, shape in small_moves(gap):
            target = np.full(shape.buffer_size * gap + 16, GUARD, np.uint8)
            NumpyBackend().prepare((Piece(move, 0, 8),)).execute(array, target, threads=threads)
            room = target[8:-8].reshape(-1, gap)
            assert room[:, :2].tobytes() == expected_bytes(array, shape), (shape, gap)
            assert (room[:, 2:] == GUARD).all() and (target[:8] == GUARD).all() and (target[-8:] == GUARD).all()


def test_small_moves_go_through_pack_and_unpack_in_small_blocks(small_blocks, three_threads):
    for _, array, shape in small_moves(2):
        pack_and_back(array, shape)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
@pytest.mark.parametrize(
    ("dimensions", "order", "widths"),
    [
        ((1500, 1415), (1, 0), None),  # edges on both sides
        ((1024, 1024), (1, 0), (1030, 1200)),  # padding around the elements
        ((3, 1200, 600), (0, 2, 1), None),  # a block covers parts of two axes
        ((12, 11, 13, 50, 18), (4, 3, 2, 1, 0), None),  # over several axes on both sides
        ((12, 11, 13, 50, 18), (2, 4, 0, 3, 1), (12, 12, 13, 51, 19)),
        ((3, 300_001), (1, 0), None),  # a few channels
        ((4, 2, 133_000), (2, 1, 0), None),
        ((2, 130_001, 3), (0, 1, 2), (2, 130_001, 4)),
        ((3, 200_001), (1, 0), (4, 200_005)),
        ((400_001, 3), (1, 0), (400_008, 3)),  # and back
    ],
)
def test_large_moves_give_the_bytes_of_the_definition(element_type, dimensions, order, widths):
    shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order, padded_dimensions=widths))
    array = random_array(shape)
    plan = strided_plan_of(pack_move(array.strides, shape))
    assert plan.block_count > 1
    pack_and_back(array, shape)


def test_no_temporary_is_as_large_as_an_array():
    """Not even where most of the target is padding."""
    for text, target in (
        ("f32[1500,1415]", "{0,1}"),
        ("u8[1000,3]", "{1,0:PD(1000,4000)}"),
        ("f32[3,500000]", "{0,1}"),
    ):
        plan = gl.plan(text, target)
        source, out = (
            np.zeros(plan.source.buffer_size, plan.source.dtype),
            plan(np.zeros(plan.source.buffer_size, plan.source.dtype)),
        )
        tracemalloc.start()
        try:
            plan(source, out=out)
            assert tracemalloc.get_traced_memory()[1] < 1 << 18
        finally:
            tracemalloc.stop()


def test_no_memory_for_the_list_of_blocks_leaves_the_target(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(blocks, "boxes_of", full)
    target = np.full(1000 * 1001, 7, np.float32)
    with pytest.raises(MemoryError):
        gl.relayout(np.zeros(1000 * 1000, np.float32), "f32[1000,1000]", "{0,1:PD(1001,1000)}", out=target)
    assert (target == 7).all()


# ---- elements ------------------------------------------------------------------------------------


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
    assert strided_plan_of(pack_move(array.strides, shape)).itemsize == dimensions[-1] * shape.itemsize
    pack_and_back(array, shape)


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


CUTS = {
    "everything": lambda a: a,
    "pixels backwards": lambda a: a[::-1],
    "channels backwards": lambda a: a[..., ::-1],
    "every second pixel": lambda a: a[::2],
    "every second channel": lambda a: a[..., ::2],
    "all but the first pixel": lambda a: a[1:],
    "all but the first channel": lambda a: a[..., 1:],
    "one pixel again and again": lambda a: np.broadcast_to(a[:1], a.shape),
}


@given(
    cut=st.sampled_from(sorted(CUTS)),
    limits=st.sampled_from(sorted(LIMITS)),
    element_type=st.sampled_from(["u8", "u16", "bf16", "f32", "c128"]),
    dimensions=st.tuples(st.integers(2, 60), st.integers(1, 3), st.integers(2, 9)),
    order=st.permutations(range(3)),
    grown=st.tuples(*[st.integers(0, 2)] * 3),
)
def test_strided_arrays_in_any_order(cut, limits, element_type, dimensions, order, grown):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SHARE_BYTES", 1)
        for name, value in LIMITS[limits].items():
            patch.setattr(blocks, name, value)
        forget_transfers()
        whole = random_array(gl.Shape(element_type, dimensions))
        array = CUTS[cut](whole)
        widths = tuple(size + more for size, more in zip(array.shape, grown))
        shape = gl.Shape(element_type, array.shape, gl.Layout.from_major_to_minor(order, padded_dimensions=widths))
        buffer = gl.pack(array, shape)
        assert buffer.tobytes() == expected_bytes(np.ascontiguousarray(array), shape)
        if 0 not in array.strides:
            target = CUTS[cut](np.zeros_like(whole))
            gl.unpack(buffer, shape, out=target)
            assert target.tobytes() == array.tobytes()
    forget_transfers()


@pytest.mark.parametrize("start", range(1, 8))
def test_moves_begin_at_any_address(start):
    """Elements of 2 to 16 bytes, and runs of them, `start` bytes above a multiple of 16."""
    for element_type, dimensions, order, width in itertools.product(
        ("u8", "bf16", "f32", "c128"), ((30, 7, 4), (300, 50, 6)), ((1, 0, 2), (2, 1, 0)), (0, 1)
    ):
        widths = (*dimensions[:2], dimensions[2] + width)
        shape = gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order, padded_dimensions=widths))
        array = random_array(shape)
        room = np.full((2, max(array.nbytes, shape.nbytes) + 48), GUARD, np.uint8)
        first, second = (-row.ctypes.data % 16 + 16 + start for row in room)
        source, buffer = room[0, first : first + array.nbytes], room[1, second : second + shape.nbytes]
        source[:] = np.frombuffer(array.tobytes(), np.uint8)
        strided_plan_of(pack_move(array.strides, shape)).execute(source, 0, buffer, 0)
        assert buffer.tobytes() == expected_bytes(array, shape), shape
        buffer[:] = GUARD
        assert (room[1] == GUARD).all()


# ---- which plan ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, target, itemsize, block",
    [
        # the same minor axis: along the target, or along the source where its rows are short
        ("f32[3000,3000]", "{1,0}", 4, (32728,)),
        ("f32[512,256,256]", "{2,0,1}", 4, (128, 1, 256)),
        ("f32[1000,1000]", "{1,0:PD(1000,1100)}", 4, (29, 1100)),
        # other axes: 16 elements along the target, then along the source
        ("f32[8192,8192]", "{0,1}", 4, (2048, 16)),
        ("u8[8192,8192]", "{0,1}", 1, (8192, 16)),
        ("c128[1000,1000]", "{0,1}", 16, (500, 16)),
        ("f32[32,32,32,32,32]", "{0,1,2,3,4}", 4, (32, 32, 2, 1, 16)),
        # runs, in the order of the target or not
        ("f32[2000,2000,3]", "{2,1,0}", 4, (32698,)),
        ("f32[2000,2000,3]", "{2,1,0:PD(2000,2000,4)}", 12, (8180, 4)),
        ("f32[1024,512,16]", "{2,0,1}", 64, (128, 16, 16)),
        ("f32[300,300,128]", "{2,0,1}", 512, (16, 16, 128)),
        ("f32[300,300,129]", "{2,0,1}", 4, (150, 1, 129)),
        # records of up to 32 bytes are written channel by channel, longer ones are not
        ("u8[3,1000,1000]", "{0,2,1}", 1, (43479, 1)),
        ("u8[32,100000]", "{0,1}", 1, (4000, 1)),
        ("u8[33,100000]", "{0,1}", 1, (7693, 11)),
        ("u8[3,1000,1000]", "{0,2,1:PD(4,1000,1000)}", 1, (32259, 1)),
        ("u8[3,1000,1000]", "{0,1,2}", 1, (1000, 42, 1)),  # the rows and columns of channels are turned
        # axes of one element are no minor ones
        ("f32[1000,1000,1]", "{2,0,1:PD(1000,1000,9)}", 4, (1000, 3, 9)),
        # small moves stay whole
        ("f32[128,256]", "{0,1}", 4, (256, 128)),
        ("f32[129,256]", "{0,1}", 4, (256, 65)),
        ("u8[8,16000]", "{0,1}", 1, (16000, 8)),
    ],
)
def test_moves_are_cut_by_these_rules(text, target, itemsize, block):
    plan = strided_plan_of(gl.plan(text, target).move)
    assert (plan.itemsize, plan.block) == (itemsize, block)


def test_axes_that_repeat_the_source_are_not_its_minor_ones():
    shape = gl.Shape("f32", (200, 300, 40), gl.Layout((1, 2, 0)))
    repeated = strided_move(shape, (0, 160, 4), shape.byte_strides, shape.dimensions)
    dense = strided_move(shape, (48000, 160, 4), shape.byte_strides, shape.dimensions)
    assert strided_plan_of(repeated).block == strided_plan_of(dense).block == (2, 40, 300)
    rows = gl.Shape("f32", (30, 300, 200))
    assert strided_plan_of(strided_move(rows, (800, 0, 4), rows.byte_strides, rows.dimensions)).block == (30, 5, 200)
    pixels = gl.Shape("f32", (200_000, 3))  # channels or pixels backwards: one side runs along them like the other
    for strides in ((12, -4), (-12, 4)):
        assert strided_plan_of(strided_move(pixels, strides, pixels.byte_strides, pixels.dimensions)).block[1] == 3


def test_threads_are_worth_a_megabyte_each_and_no_more_than_the_limit():
    moves = [gl.plan(*pair).move for pair in (("u8[3000000,1000]", "{0,1}"), ("f32[500,500]", "{0,1}"))]
    assert [strided_plan_of(move).most_threads for move in moves] == [1024, 1]
    square, padded, narrowed = (
        gl.plan("f32[1024,1024]", "{0,1}"),
        gl.plan("f32[1,1024]", "{1,0:PD(1024,1024)}"),  # of the side with more bytes
        gl.plan("f32[1024,1024]", "{0,1}", dtype="s8"),
    )
    assert [choose_plan.plan_of(plan.move).most_threads for plan in (square, padded, narrowed)] == [4, 4, 4]


@pytest.mark.parametrize(
    "source, target, text, fields",
    [
        ("f32[4,5]", "{0,1}", "one np.copyto over 2 axes", {"element_bytes": 4, "cache_block": None, "threads": 1}),
        ("f32[4,5]", "{0,1:PD(6,5)}", "one np.copyto over 2 axes, padding filled first", {"cache_block": None}),
        (
            "f32[1024,512,16]",
            "{2,0,1}",
            "cache blocks of 128 x 16 x 16 elements (minor in the target last), runs of 64 bytes as one element; "
            "worth up to 32 threads",
            {"element_bytes": 64, "cache_block": (16, 16, 128), "threads": 32},
        ),
        (
            "f32[1000,200]",
            "{0,1:PD(1000,300)}",
            "cache blocks of 300 x 100 elements (minor in the target last), padding filled first",
            {
                "axes": [
                    {"extent": 1000, "source_stride": 800, "target_stride": 4},
                    {"extent": 200, "source_stride": 4, "target_stride": 4000},
                ]
            },
        ),
        (
            "s4[5,7]{1,0:E(4)}",
            "{1,0}",
            "chunks of up to 35 elements, unpacked to bytes",
            {"chunk": 32768},
        ),
        ("s4[5,7]{1,0}", "{0,1:E(4)}", "chunks of up to 35 elements, copied, then packed", {"chunk": 32768}),
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
    assert choose_plan.describe(fill) == "one fill of 6 places" and choose_plan.as_json(fill)["threads"] == 1
