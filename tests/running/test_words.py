"""Words with strides, whose bytes in C order are a buffer: they move as that buffer does."""

import itertools
import math
import random
import tracemalloc

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.catalogue.names import layout_of_name
from gpulayout.choices.backends import host_backend
from gpulayout.moves import pieces
from gpulayout.moves.placement import Placement
from gpulayout.requests.index_keys import box_of
from gpulayout.running.request import request
from gpulayout.running.running import write_words
from tests.support.box_cases import can_hold, random_box, random_buffer, random_elements, written
from tests.support.effort import ALL
from tests.support.random_shapes import random_shapes

SHAPES = 4000 if ALL else 700


def random_sizes(rng, count):
    """Sizes of an array of so many words."""
    sizes = []
    while count > 1 and len(sizes) < 3 and rng.random() < 0.8:
        sizes.append(rng.choice([size for size in range(1, min(count, 64) + 1) if count % size == 0]))
        count //= sizes[-1]
    sizes.append(count)
    return rng.sample(sizes, len(sizes))


def random_view(rng, executor, words):
    """The same words in other memory: in any order, with steps and gaps, not from its beginning."""
    order = rng.sample(range(words.ndim), words.ndim)
    first, step, more = ([rng.choice(each) for _ in order] for each in ((0, 0, 1, 3), (1, 1, 2), (0, 0, 2)))
    widths = [begin + size * by + gap for begin, by, gap, size in zip(first, step, more, words.transpose(order).shape)]
    memory = executor.raw(math.prod(widths) * words.itemsize).view(words.dtype).reshape(widths)
    memory[...] = executor.array(np.full((), -1, np.int64).view("u8").astype(words.dtype))
    ends = [begin + size * by for begin, by, size in zip(first, step, words.transpose(order).shape)]
    view = memory[tuple(slice(*each) for each in zip(first, ends, step))].transpose(np.argsort(order).tolist())
    view[...] = executor.array(words)
    return view


def random_words(rng, executor, shape, buffer):
    """A buffer as words of a random width."""
    least = 1 if shape.is_packed else shape.itemsize
    widths = [width for width in (1, 2, 4, 8) if width >= least and shape.nbytes % width == 0]
    if not widths:  # elements of 16 bytes
        return None
    words = buffer.view(np.uint8).view(f"u{rng.choice(widths)}")
    return random_view(rng, executor, words.reshape(random_sizes(rng, words.size)))


def pairs(seed):
    """Shapes of one array in two layouts."""
    before = {}
    for shape in random_shapes(seed, SHAPES, tuples=False):
        if can_hold(shape, 3000):
            yield shape, before.get((shape.element_type, shape.dimensions), shape.with_layout(None))
            before[shape.element_type, shape.dimensions] = shape


@pytest.mark.one_in(2)
@pytest.mark.parametrize("most", [None, 1, 2])
def test_words_move_as_the_buffer_that_they_are(executor, most, monkeypatch, plans_anew):
    if most is not None:  # then places are looked up
        monkeypatch.setattr(pieces, "LEAST_PIECES", most)
        monkeypatch.setattr(pieces, "MOST_PIECES", most)
    rng, numbers, count = random.Random(1), np.random.default_rng(1), 0
    for source, target in pairs(1):
        for one, other in ((source, target), (target, source)):
            buffer = random_buffer(numbers, one)
            words = random_words(rng, executor, one, buffer)
            if words is None or not can_hold(other):
                continue
            expected = gl.relayout(buffer, one, other)
            out = executor.array(np.zeros_like(expected))
            assert write_words(words, one, out, other) is out
            assert executor.host(out).tobytes() == expected.tobytes(), (one, other, words.shape, words.strides)
            count += 1
    assert count > 50


@pytest.mark.one_in(2)
@pytest.mark.parametrize("most", [None, 1, 2])
def test_words_go_to_boxes(executor, most, monkeypatch, plans_anew):
    if most is not None:  # then most boxes go cell by cell
        monkeypatch.setattr(pieces, "LEAST_PIECES", most)
        monkeypatch.setattr(pieces, "MOST_PIECES", most)
    rng, numbers, count = random.Random(2), np.random.default_rng(2), 0
    for whole, other in pairs(2):
        box = random_box(numbers, whole.dimensions)
        sizes = tuple(part.stop - part.start for part in box)
        shape = gl.Shape(whole.element_type, sizes, other.layout.replace(padded_dimensions=None, split_configs=()))
        if not can_hold(shape, 300 if most else 3000):
            continue
        elements, buffer = random_elements(numbers, whole, sizes), random_buffer(numbers, whole)
        words = random_words(rng, executor, shape, gl.pack(elements, shape))
        if words is None:
            continue
        out = executor.array(buffer)
        write_words(words, shape, out, whole, box)
        expected = written(whole, buffer, elements, box)
        assert executor.host(out).tobytes() == expected.tobytes(), (shape, whole, box, words.shape, words.strides)
        count += 1
    assert count > 50


CHECKPOINTS = {"gptq:qweight(dtype=u4)": (-8, 1), "awq:qweight": (1, -8), "gptq:qweight(dtype=u8)": (-4, 1)}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_words_of_a_checkpoint_move_in_as_few_pieces_as_their_buffer(name):
    """Rows with gaps, and turned words."""
    kind = "u8" if "u8" in name else "u4"
    words = gl.Shape(kind, (64, 192)).with_layout(layout_of_name(name, (64, 192), gl.ElementType.of(kind)))
    kernel = gl.Shape(kind, (64, 192))
    kernel = kernel.with_layout(layout_of_name(f"marlin:weights(dtype={kind})", (64, 192), kernel.element_type))
    sizes = tuple(size // -by if by < 0 else size for size, by in zip((64, 192), CHECKPOINTS[name]))
    for strides in ((sizes[1] * 4, 4), (sizes[1] * 12, 4), (4, sizes[0] * 4), (sizes[1] * 24, 8)):
        read = Placement.in_words(words, sizes, strides, 4)
        moved, plain = (request(side, Placement.buffer(kernel)).pieces for side in (read, Placement.buffer(words)))
        assert len(moved) == len(plain) == 1
        assert strides != (sizes[1] * 4, 4) or moved == plain


@pytest.mark.parametrize("text", ["u4[16,24]{1,0:T(8,1)E(4)}", "f32[16,24]{1,0:T(4,8)}"])
def test_words_with_arithmetic(executor, text):
    """Packed elements become floats through a dense array, and whole ones at once."""
    rng, numbers = random.Random(3), np.random.default_rng(3)
    shape, target = gl.parse_shape(text), gl.parse_shape("f32[16,24]{0,1:T(8,4)}")
    elements = numbers.integers(0, 16, (16, 24))
    buffer = gl.pack(elements.astype(np.float32), shape, dtype=shape.element_type.value)
    words = random_words(rng, executor, shape, buffer)
    out = executor.array(np.zeros(target.buffer_length, np.float32))
    write_words(words, shape, out, target, None, {"dtype": "f32", "scale": 0.5})
    expected = gl.pack(elements.astype(np.float32) / 2, target)
    assert executor.host(out).tobytes() == expected.tobytes()
    whole = gl.parse_shape("f32[20,26]{0,1:T(8,4)}")
    out, box = executor.array(np.zeros(whole.buffer_length, np.float32)), np.s_[3:19, 1:25]
    write_words(words, shape, out, whole, box, {"dtype": "f32", "scale": 0.5})
    expected = written(whole, np.zeros(whole.buffer_length, np.float32), elements.astype(np.float32) / 2, box)
    assert executor.host(out).tobytes() == expected.tobytes()


def test_a_box_of_words_takes_a_bounded_workspace():
    """Also where elements share bytes with others, so that words are read cell by cell."""
    rng, whole = np.random.default_rng(4), gl.parse_shape("u4[512,1025]{1,0:E(4)}")
    box, shape, limit = np.s_[8:504, 3:963], gl.parse_shape("u4[496,960]{1,0:T(8,1)E(4)}"), 1 << 15
    words = rng.integers(0, 2**32, (62, 2000), np.uint32)[:, 5 : 5 + 960]
    out, elements = random_buffer(rng, whole), gl.unpack(np.ascontiguousarray(words).reshape(-1).view(np.uint8), shape)
    expected = written(whole, out, elements, box)
    read = Placement.in_words(shape, words.shape, words.strides, 4)
    moves = request(read, Placement.part_of(whole, box_of(box, whole))).limited(limit).prepared_by(host_backend())
    moves.execute(words, out.copy())  # which plans
    tracemalloc.start()
    moves.execute(words, out)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert out.tobytes() == expected.tobytes()
    assert most < 1.5 * limit < words.nbytes / 4, most


@pytest.mark.parametrize("executor", ["numpy", "native"], indirect=True)
@pytest.mark.parametrize("most", [None, 1])
def test_words_may_lie_backwards(executor, most, monkeypatch, plans_anew):
    """Also where places are looked up, which then lie before the first word."""
    if most is not None:
        monkeypatch.setattr(pieces, "LEAST_PIECES", most)
        monkeypatch.setattr(pieces, "MOST_PIECES", most)
    rng, numbers, count = random.Random(6), np.random.default_rng(6), 0
    for source, target in itertools.islice(pairs(6), 120):
        words = random_words(rng, executor, source, random_buffer(numbers, source))
        if words is None or not can_hold(target):
            continue
        words = words[tuple(slice(None, None, rng.choice((1, -1))) for _ in words.shape)]
        buffer = np.ascontiguousarray(executor.host(words)).reshape(-1).view(source.buffer_dtype)
        expected = gl.relayout(buffer, source, target)
        out = executor.array(np.zeros_like(expected))
        write_words(words, source, out, target)
        assert executor.host(out).tobytes() == expected.tobytes(), (source, target, words.shape, words.strides)
        count += 1
    assert count > 50


def fields(count):
    """Words of 4 bytes, 5 bytes apart."""
    return np.zeros(count, [("word", np.uint32), ("byte", np.uint8)])["word"]


@pytest.mark.parametrize(
    "words, text",
    [
        (np.zeros(7, np.uint32), "u4[64]{0:E(4)}"),
        (np.zeros(9, np.uint32), "u4[64]{0:E(4)}"),
        (np.zeros(32, np.uint8), "u32[8]"),
        (fields(8), "u16[16]"),
    ],
)
def test_what_is_no_words_of_a_shape_is_refused(words, text):
    shape = gl.parse_shape(text)
    out = np.zeros(shape.buffer_length, shape.buffer_dtype)
    with pytest.raises(BufferError, match="no words of u"):
        write_words(words, shape, out, shape)


def test_words_may_lie_apart_by_any_elements():
    words = fields(8)
    words[:] = range(8)
    out = np.zeros(32, np.uint8)
    write_words(words, "u8[32]", out, "u8[32]")
    assert (out.view(np.uint32) == range(8)).all()


def test_words_that_are_written_to_themselves_are_refused():
    memory = np.arange(16, dtype=np.uint32).reshape(4, 4)
    with pytest.raises(BufferError, match="separate memory"):
        write_words(memory[:, :2], "u4[8,8]{1,0:E(4)}", memory.reshape(-1).view(np.uint8)[:32], "u4[8,8]{0,1:E(4)}")
    assert (memory.reshape(-1) == range(16)).all()
