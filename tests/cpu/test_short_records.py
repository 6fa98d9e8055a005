"""Short records are split into planes, and planes joined to records, by shifts and negation: every bit arrives."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.cpu import short_records, strided_plan, thread_count
from gpulayout.cpu.choose_plan import as_json, describe
from gpulayout.moves.move import Move, pack_move, relayout_move, strided_move
from tests.cpu.test_plan import expected_bytes, random_array
from tests.support.kept import forget_transfers

GUARD = 0xA5


def lower_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every small record through arithmetic, in chunks of a few bytes."""
    for module, name, value in (
        (strided_plan, "SMALL_BYTES", 0),
        (strided_plan, "CHUNK_BYTES", 24),
        (strided_plan, "SHARE_TIME", 3.0),
        (strided_plan, "SHORT_RUN", 2),
        (short_records, "LEAST_SHIFTED", 2),
        (short_records, "LEAST_NEGATED", 2),
    ):
        monkeypatch.setattr(module, name, value)


def arithmetic(move: Move) -> str | None:
    return as_json(move)["arithmetic"]


def pack_at(array: np.ndarray, shape: gl.Shape, start: int) -> bytes:
    """What `pack` writes, when source and target begin `start` bytes above a multiple of 8.  It writes nothing else."""
    room = np.full((2, max(array.nbytes, shape.nbytes) + 40), GUARD, np.uint8)
    first, second = (-row.ctypes.data % 8 + 8 + start for row in room)
    source, buffer = room[0, first : first + array.nbytes], room[1, second : second + shape.nbytes]
    source[:] = np.frombuffer(array.tobytes(), np.uint8)
    gl.pack(source.view(array.dtype).reshape(array.shape), shape, out=buffer.view(shape.dtype))
    written = buffer.tobytes()
    buffer[:] = GUARD
    assert (room[1] == GUARD).all()
    return written


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("element_type", ["u8", "bf16"])
def test_every_small_record_on_either_side(element_type, threads, monkeypatch, plans_anew):
    """All sizes around those of integers and chunks, with padding and without, at odd addresses too."""
    lower_limits(monkeypatch)
    monkeypatch.setenv(thread_count.VARIABLE, str(threads))
    seen = set()
    sizes = itertools.product((1, 2), (1, 2, 3, 4, 5, 8, 9, 31, 33), range(1, 6), (None, 1, 2))
    for (images, pixels, channels, grown), joins in itertools.product(sizes, (False, True)):
        dimensions = (images, channels, pixels) if joins else (images, pixels, channels)
        widths = tuple(size + 2 * (dim == grown) for dim, size in enumerate(dimensions))
        shape = gl.Shape(
            element_type,
            dimensions,
            gl.Layout.from_major_to_minor((0, 2, 1), padded_dimensions=widths, padding_value=1),
        )
        array, start = random_array(shape), (pixels + channels) % 4
        assert pack_at(array, shape, start) == expected_bytes(array, shape), (shape, start)
        seen.add((joins, arithmetic(pack_move(array.strides, shape)), grown is not None))
    joined = ("shifts", "negation") if element_type == "u8" else ("negation",)
    assert seen >= {*itertools.product([False], ("shifts", "negation"), [False, True])}
    assert seen >= {*itertools.product([True], joined, [False, True])}


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
    element_type=st.sampled_from(["u8", "s8", "u16", "f16", "bf16", "f8e4m3fn"]),
    dimensions=st.tuples(st.integers(2, 300), st.integers(1, 3), st.integers(2, 9)),
    order=st.permutations(range(3)),
    grown=st.tuples(*[st.integers(0, 2)] * 3),
)
def test_strided_arrays_in_any_order(cut, element_type, dimensions, order, grown):
    with pytest.MonkeyPatch.context() as patch:
        lower_limits(patch)
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


@pytest.mark.parametrize("element_type", ["u8", "f16"])
@pytest.mark.parametrize("channels", [2, 3, 4, 8])
@pytest.mark.parametrize("grown", [(0, 0), (7, 0), (0, 1)], ids=["dense", "longer planes", "longer records"])
def test_large_images_to_planes_and_back(element_type, channels, grown):
    """In several chunks, the last one shorter."""
    dimensions = 400_001, channels
    widths = tuple(size + more for size, more in zip(dimensions, grown))
    shape = gl.Shape(element_type, dimensions, gl.Layout((0, 1), padded_dimensions=widths))
    array = random_array(shape)
    buffer = gl.pack(array, shape)
    assert buffer.tobytes() == expected_bytes(array, shape)
    assert gl.unpack(buffer, shape).tobytes() == array.tobytes()


def relayout_of(text: str, target: str) -> Move:
    source = gl.parse_shape(text)
    return relayout_move(source, gl.plan(source, target).target)


@pytest.mark.parametrize(
    ("text", "target", "found"),
    [
        # to planes: records of 2 and 4 elements and up to 4 bytes are integers
        ("u8[1080,1920,2]", "{1,0,2}", "shifts"),
        ("u8[1080,1920,3]", "{1,0,2}", "negation"),
        ("u8[1080,1920,4]", "{1,0,2}", "shifts"),
        ("f16[1080,1920,2]", "{1,0,2}", "shifts"),
        ("f16[1080,1920,3]", "{1,0,2}", "negation"),
        ("f16[1080,1920,4]", "{1,0,2}", "negation"),
        ("f32[1080,1920,2]", "{1,0,2}", None),
        # to records: those of 2 bytes are
        ("u8[2,1080,1920]", "{0,2,1}", "shifts"),
        ("u8[3,1080,1920]", "{0,2,1}", "negation"),
        ("f16[2,1080,1920]", "{0,2,1}", "negation"),
        ("f32[2,1080,1920]", "{0,2,1}", None),
        # records longer than 8 bytes
        ("u8[20000,8]", "{0,1}", "negation"),
        ("u8[20000,9]", "{0,1}", None),
        ("u8[8,20000]", "{0,1}", "negation"),
        ("u8[9,20000]", "{0,1}", None),
        # few bytes, and short runs of pixels
        ("u8[32768,2]", "{0,1}", None),
        ("u8[32769,2]", "{0,1}", "shifts"),
        ("u8[64,128,128,3]", "{2,1,3,0}", "negation"),
        ("u8[64,128,127,3]", "{2,1,3,0}", None),
        ("u8[9000,64,2]", "{1,2,0}", "shifts"),
        ("u8[9000,63,2]", "{1,2,0}", None),
        # the records' own padding: it is skipped, but never negated
        ("u8[90000,3]{1,0:PD(90000,4)}", "{0,1}", "negation"),
        ("u8[90000,2]{1,0:PD(90000,4)}", "{0,1}", "negation"),
        ("u8[3,90000]", "{0,1:PD(4,90000)}", None),
        ("u8[3,90000]", "{0,1:PD(3,90009)}", "negation"),
    ],
)
def test_the_arithmetic_depends_on_the_records_and_their_number(text, target, found):
    assert arithmetic(relayout_of(text, target)) == found


PIXELS = 50_000


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ((3, 1), (1, PIXELS), "negation"),
        ((-3, 1), (1, PIXELS), None),  # backwards
        ((1, 1), (1, PIXELS), None),  # windows, whose pixels are contiguous
        ((3, 1), (2, 2 * PIXELS), None),  # every second pixel of planes
        ((1, PIXELS), (2, 1), "shifts"),
        ((2, 2 * PIXELS), (2, 1), "negation"),
    ],
)
def test_one_side_has_records_and_the_other_planes(source, target, found):
    """Byte strides of pixels and of channels on both sides, for 3 channels to planes or 2 to records."""
    shape = gl.Shape("u8", (PIXELS, 2 if target[1] == 1 else 3))
    assert arithmetic(strided_move(shape, source, target, shape.dimensions)) == found


@pytest.mark.parametrize("images, pixels, channels", [(1, 30_000, 3), (1, 200_000, 4), (3, 100_000, 4), (1, 10**6, 3)])
def test_arithmetic_copies_whole_records_in_chunks(images, pixels, channels, monkeypatch):
    """Up to the size of a chunk, and above it; of one image and of three that are shorter than a chunk."""
    parts = []

    def copy(self, source, target):
        parts.append((source.size, source.shape[self.axis]))

    monkeypatch.setattr(short_records.ShortRecords, "copy", copy)
    move = relayout_of(f"u8[{images},{pixels},{channels}]", "{1,2,0}")
    strided_plan.strided_plan_of(move).execute(
        np.zeros(move.bytes_read, np.uint8), 0, np.zeros(move.bytes_written, np.uint8), 0
    )
    sizes, found = zip(*parts)
    assert sum(sizes) == move.element_count and max(sizes) <= strided_plan.CHUNK_BYTES and {*found} == {channels}


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("u8[100000,4]", "{0,1}", "4 channels by shifts of whole records, over 2 axes"),
        ("u8[100000,3]", "{0,1}", "3 channels one after the other, negated twice, over 2 axes"),
        ("u8[2,100000]", "{0,1}", "2 channels by shifts of whole records, over 2 axes"),
    ],
)
def test_plans_say_which_arithmetic_they_use(text, target, words):
    assert describe(relayout_of(text, target)) == words
