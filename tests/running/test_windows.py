"""Boxes move in their windows: the right bytes in any order of calls, nothing planned for a box at another place."""

import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.moves.windows import window_of
from gpulayout.running import running
from gpulayout.running.request import kept_requests
from gpulayout.running.running import MOST_LATEST, latest, read_box, write_box
from tests.support.box_cases import can_hold, found, random_box, random_buffer, random_elements, same_elements, written
from tests.support.random_shapes import random_shapes

STACKS = [
    "f32[5,6,12]{2,1,0:T(4,8)}",
    "u4[5,6,16]{2,1,0:T(3,8)E(4)}",
    "u4[6,3,5]{2,1,0:E(4)}",  # every second expert begins inside a byte
    "u4[6,5,8]{1,2,0:E(4,big)}",
    "u8[5,6,12]{1,0,2:PD(5,8,12)PV(highest)}",
    "f16[7,4,6]{0,2,1:L(64)}",
    "u8[9,8,6]{2,1,0:T(2,4,6)(1,2,1)}",
    "bf16[4,7,10]{2,1,0:T(4,4)(2,1)}",
]


def interval(box):
    return tuple([(part.start, part.stop) for part in box])


def test_a_window_has_the_bytes_of_its_box_and_is_a_buffer_of_its_own():
    rng, count = np.random.default_rng(1), 0
    shapes = [shape for shape in random_shapes(1, 1500, tuples=False) if not shape.is_dynamic and can_hold(shape, 4000)]
    for shape in [*shapes, *map(gl.parse_shape, STACKS)]:
        for box in [random_box(rng, shape.dimensions) for _ in range(4)]:
            window = window_of(shape, interval(box))
            if window is None:
                continue
            buffer, sizes = random_buffer(rng, shape), [last - first for first, last in interval(box)]
            part, inner = random_elements(rng, shape, sizes), tuple([slice(*each) for each in window.box])
            expected = written(shape, buffer, part, box)
            there = buffer[window.first : window.last]
            there.view(np.uint8)[:] = written(window.shape, there, part, inner)
            assert buffer.tobytes() == expected.tobytes(), (shape, box)
            assert window.last - window.first < shape.buffer_length
            count += 1
    assert count > 300


class Buffer:
    """A buffer of a shape that boxes are written to and read from, as the model says."""

    def __init__(self, text, rng):
        self.shape, self.rng = gl.parse_shape(text), rng
        self.held = random_buffer(rng, self.shape)
        self.bytes = self.held.view(np.uint8).copy()

    def sizes(self):
        """Half of the boxes have the sizes of others."""
        few = [(1, 3, 4), (1, 2, 4), (2, 3, 4), (1, *self.shape.dimensions[1:])]
        return few[self.rng.integers(len(few))]

    def box(self):
        if self.rng.random() < 0.3:
            return random_box(self.rng, self.shape.dimensions)
        sizes = [min(pair) for pair in zip(self.sizes(), self.shape.dimensions)]
        firsts = [self.rng.integers(whole - size + 1) for size, whole in zip(sizes, self.shape.dimensions)]
        return tuple([slice(int(first), int(first) + size) for first, size in zip(firsts, sizes)])

    def elements(self, box):
        """An array of random elements, with other strides now and then."""
        part = random_elements(self.rng, self.shape, [last - first for first, last in interval(box)])
        return part if self.rng.random() < 0.7 else np.asfortranarray(part)

    def model(self, part, box):
        self.bytes = written(self.shape, self.bytes.view(self.shape.buffer_dtype), part, box)

    def check(self):
        assert self.held.view(np.uint8).tobytes() == self.bytes.tobytes(), self.shape


def turn(buffer, as_array):
    """One call, of any kind; `as_array` makes what is passed."""
    shape, box, rng = buffer.shape, buffer.box(), buffer.rng
    memory, kind = as_array(buffer.held), rng.integers(4)
    own = gl.Shape(shape.element_type, [last - first for first, last in interval(box)])
    if kind == 0:
        part = buffer.elements(box)
        gl.pack(as_array(part), shape, out=memory, at=box)
        buffer.model(part, box)
    elif kind == 1:
        part = np.ascontiguousarray(buffer.elements(box))
        write_box(as_array(part.reshape(-1)), own, memory, shape, box)
        buffer.model(part, box)
    elif kind == 2:
        read = np.asarray(gl.unpack(memory, shape, at=box)).view(shape.dtype)
        assert same_elements(shape, read, found(shape, buffer.held, box)), (shape, box)
    else:
        read = np.asarray(read_box(memory, shape, box, own)).view(shape.dtype)
        assert same_elements(shape, read, found(shape, buffer.held, box)), (shape, box)
    buffer.check()


@pytest.mark.parametrize("threads", [1, 2])
def test_boxes_in_any_order_are_those_of_the_model(threads, plans_anew):
    rng, order = np.random.default_rng(threads), random.Random(threads)
    buffers = [Buffer(text, rng) for text in STACKS]
    with gl.use_threads(threads):
        for _ in range(300):
            turn(order.choice(buffers), lambda array: array)


def test_boxes_of_tensors_in_any_order(plans_anew):
    torch = pytest.importorskip("torch")
    rng, order = np.random.default_rng(5), random.Random(5)
    buffers = [Buffer(text, rng) for text in STACKS if text[:2] in ("f3", "u8", "f1")]
    for _ in range(200):
        turn(order.choice(buffers), torch.from_numpy)


def test_arithmetic_of_a_box_is_that_of_this_call(plans_anew):
    """The same box with other numbers, other types and none at all, in turns."""
    shape, rng = gl.parse_shape("s8[6,4,8]{2,1,0:T(2,4)}"), np.random.default_rng(3)
    buffer = np.zeros(shape.buffer_length, np.int8)
    for number in range(120):
        first, scale = int(rng.integers(6)), [None, 0.5, 0.25][number % 3]
        part, box = rng.integers(-9, 9, (1, 4, 8)), np.s_[first : first + 1]
        if scale is None:
            gl.pack(part.astype(np.int8), shape, out=buffer, at=box)
        else:
            gl.pack((part / scale).astype([np.float32, np.float64][number % 2]), shape, out=buffer, at=box, scale=scale)
        assert (gl.unpack(buffer, shape)[box] == part).all()
        assert (gl.unpack(buffer, shape, at=box, dtype="f32", scale=0.5) == part * np.float32(0.5)).all()


def expert(number):
    return slice(number, number + 1), slice(16, 24), ...


def test_a_box_at_another_place_plans_nothing_and_is_remembered_once(plans_anew):
    shape = gl.parse_shape("f32[300,32,16]{2,1,0:T(8,8)}")
    buffer, part = np.zeros(shape.buffer_length, np.float32), np.ones((1, 8, 16), np.float32)
    for number in range(3):
        gl.pack(part, shape, out=buffer, at=expert(number))
    requests, calls, remembered = kept_requests.keys(), running.kept_calls.keys(), [*latest]
    for number in range(3, 300):
        gl.pack(part, shape, out=buffer, at=expert(number))
    assert (kept_requests.keys(), running.kept_calls.keys(), [*latest]) == (requests, calls, remembered)
    assert len(latest) < MOST_LATEST
    assert buffer.sum() == 300 * 8 * 16 and (gl.unpack(buffer, shape)[:, 16:24] == 1).all()


def test_a_box_that_begins_inside_of_a_buffer_runs_again_without_checks(monkeypatch, plans_anew):
    """Of tensors too: its plan begins at a byte of the window."""
    torch = pytest.importorskip("torch")
    shape = gl.parse_shape("f32[16,32]{0,1}")  # rows are no window
    buffer, part, box = torch.zeros(512), torch.ones(4, 32), np.s_[4:8]
    for _ in range(3):
        gl.pack(part, shape, out=buffer, at=box)
    with monkeypatch.context() as patched:
        patched.setattr(running, "known_request", None)
        gl.pack(part * 2, shape, out=buffer, at=box)
    assert (gl.unpack(buffer.numpy(), shape)[box] == 2).all() and float(buffer.sum()) == 2 * 4 * 32


SHAPE, SPLIT = gl.parse_shape("f32[5,4,8]"), gl.parse_shape("f32[5,4,8]{2,1,0:SC(0:2)}")
ONE = np.ones((1, 1, 1), np.float32)
ERRORS = [
    (lambda: gl.pack(np.ones((1, 3, 8), "f4"), SHAPE, out=np.zeros(160, "f4"), at=np.s_[2:3]), BufferError),
    (lambda: gl.pack(np.ones((1, 4, 8), "f8"), SHAPE, out=np.zeros(160, "f4"), at=np.s_[2:3]), TypeError),
    (lambda: gl.pack(np.ones((1, 4, 8), "f4"), SHAPE, out=np.zeros(161, "f4"), at=np.s_[2:3]), BufferError),
    (lambda: gl.unpack(np.zeros(160, "u4"), SHAPE, at=np.s_[2:3]), TypeError),
    (lambda: gl.unpack(np.zeros(159, "f4"), SHAPE, at=np.s_[2:3]), BufferError),
    # A window of one element is contiguous, whatever the steps of its buffer are.
    (lambda: gl.unpack(np.zeros(320, "f4")[::2], SHAPE, at=np.s_[2:3, 1:2, 1:2]), BufferError),
    (lambda: gl.unpack(np.zeros(160, "f4")[::-1], SHAPE, at=np.s_[2:3, 1:2, 1:2]), BufferError),
    (lambda: gl.pack(ONE, SHAPE, out=np.zeros(320, "f4")[::2], at=np.s_[2:3, 1:2, 1:2]), BufferError),
    (lambda: gl.unpack(np.zeros(160, "f4"), SPLIT, at=np.s_[2:3]), gl.LayoutError),
    (lambda: gl.unpack("5,4,8", SHAPE, at=np.s_[..., ...]), TypeError),
]


@pytest.mark.parametrize("call, kind", ERRORS)
def test_errors_are_those_of_the_whole(call, kind):
    with pytest.raises(kind, match=r"5,4,8|2:3|160|1,4,8|is a str") as caught:
        call()
    assert "\n" not in str(caught.value)


def test_an_array_over_another_part_of_the_buffer_is_refused():
    shape = gl.parse_shape("f32[5,4,8]")
    buffer = np.zeros(160, np.float32)
    for _ in range(4):
        with pytest.raises(BufferError, match="overlap"):
            gl.pack(buffer[:32].reshape(1, 4, 8), shape, out=buffer, at=np.s_[2:3])


def test_a_map_of_another_part_of_the_same_file_is_refused(tmp_path):
    np.zeros(160, np.float32).tofile(tmp_path / "buffer")
    buffer, other = (np.asarray(np.memmap(tmp_path / "buffer", np.float32, "r+")) for _ in range(2))
    with pytest.raises(BufferError, match="overlap in the file"):
        gl.pack(other[:32].reshape(1, 4, 8), SHAPE, out=buffer, at=np.s_[2:3])


@pytest.fixture
def zeros():
    """Makes tensors."""
    return pytest.importorskip("torch").zeros


@pytest.mark.parametrize("place", [0, 64])
def test_tensors_of_two_storages_over_the_same_memory_are_refused(place):
    torch, memory = pytest.importorskip("torch"), np.zeros(160, np.float32)
    buffer, part = torch.from_numpy(memory), torch.from_numpy(memory[place : place + 32])
    box, turned = np.s_[2:3], gl.parse_shape("f32[1,4,8]{1,2,0}")
    for call in (
        lambda: gl.pack(part.view(1, 4, 8), SHAPE, out=buffer, at=box),
        lambda: gl.unpack(buffer, SHAPE, out=part.view(1, 4, 8), at=box),
        lambda: write_box(part, turned, buffer, SHAPE, box),
        lambda: read_box(buffer, SHAPE, box, turned, part),
    ):
        with pytest.raises(BufferError, match="overlap"):
            call()


@pytest.mark.parametrize("kind", ["sparse", "meta", "mkldnn"])
def test_tensors_that_are_no_memory_have_the_errors_of_the_whole(zeros, kind):
    part = zeros(1, 4, 8).to("meta") if kind == "meta" else getattr(zeros(1, 4, 8), f"to_{kind}")()
    for call in (
        lambda: gl.pack(part, SHAPE, out=zeros(160), at=np.s_[2:3]),
        lambda: gl.unpack(zeros(160), SHAPE, out=part, at=np.s_[2:3]),
    ):
        with pytest.raises(BufferError, match="memory"):
            call()


def test_a_tensor_whose_storage_is_too_small_is_refused_for_boxes_that_it_has_too(zeros):
    buffer = zeros(160)
    buffer.untyped_storage().resize_(400)
    with pytest.raises(BufferError, match="400 bytes"):
        gl.unpack(buffer, SHAPE, at=np.s_[:1])
    with pytest.raises(BufferError, match="400 bytes"):
        gl.pack(np.ones((1, 4, 8), np.float32), SHAPE, out=buffer, at=np.s_[:1])


def test_a_buffer_of_steps_is_refused_as_a_tensor_too(zeros):
    with pytest.raises(BufferError, match="steps by 8"):
        gl.unpack(zeros(320)[::2], SHAPE, at=np.s_[2:3, 1:2, 1:2])
