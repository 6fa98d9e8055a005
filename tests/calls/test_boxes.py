"""`at=`: a box of a buffer is written and read, and nothing else of it changes."""

import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.catalogue.names import entries
from gpulayout.moves import pieces
from gpulayout.moves.boxes import part_shape
from gpulayout.requests.index_keys import box_of
from tests.support.box_cases import (
    all_boxes,
    can_hold,
    found,
    random_box,
    random_buffer,
    random_elements,
    same_elements,
    written,
)
from tests.support.catalogue_cases import random_call
from tests.support.executors import guarded, guards_intact
from tests.support.random_shapes import random_shapes

SMALL = (
    "f32[4,5]{0,1}",
    "s16[3,5]{1,0:PD(4,7)PV(3)}",
    "u8[4,5]{1,0:T(2,4)L(64)}",
    "bf16[5,6]{0,1:T(3,2)(2,1)}",
    "u8[6,4]{1,0:T(3)(2)}",
    "u8[2,3,4]{2,0,1:T(*,5)}",
    "u4[4,5]{1,0:E(4)}",
    "u4[4,6]{0,1:E(4,big)}",
    "s4[3,5]{1,0:PD(3,7)PV(-1)E(4)}",
    "u2[5,6]{1,0:T(2,4)E(2)}",
    "u2[3,7]{0,1:L(16)E(2,big)}",
    "u1[4,9]{1,0:E(1,big)}",
    "u1[9,4]{1,0:T(3)E(1)}",
)


def check_box(shape, box, rng):
    """A random part in a random buffer, and the random elements of another."""
    sizes = np.empty(shape.dimensions, np.uint8)[box].shape
    buffer, part = random_buffer(rng, shape), random_elements(rng, shape, sizes)
    elements = found(shape, buffer, box)
    read = gl.unpack(buffer, shape, at=box)
    assert read.shape == sizes and same_elements(shape, read, elements), (shape, box)
    expected = written(shape, buffer, part, box)
    assert gl.pack(part, shape, out=buffer, at=box) is buffer
    assert buffer.view(np.uint8).tobytes() == expected.tobytes(), (shape, box)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", SMALL)
def test_every_box_of_small_arrays(text):
    rng, shape = np.random.default_rng(7), gl.parse_shape(text)
    for box in all_boxes(shape.dimensions):
        check_box(shape, box, rng)


def test_boxes_of_shapes_of_every_kind():
    rng = np.random.default_rng(8)
    shapes = [shape for shape in random_shapes(8, 4000, tuples=False) if can_hold(shape)]
    assert len(shapes) > 500
    for shape in shapes:
        check_box(shape, random_box(rng, shape.dimensions), rng)


@pytest.mark.parametrize("most", [0, 2])
def test_boxes_that_are_too_many_loops_for_one_pass(most, monkeypatch, plans_anew):
    """They go cell by cell.  Here a plan may have no loops, or 2: else only large arrays have too many."""
    monkeypatch.setattr(pieces, "LEAST_PIECES", most)
    monkeypatch.setattr(pieces, "MOST_PIECES", most)
    rng = np.random.default_rng(most)
    for shape in random_shapes(9 + most, 1000, tuples=False):
        if can_hold(shape, 2000):
            check_box(shape, random_box(rng, shape.dimensions), rng)


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_boxes_of_every_entry_of_the_catalogue(entry):
    rng, numbers = np.random.default_rng(11), random.Random(11)
    for _ in range(4):
        shape = random_call(entry, numbers)[3]
        for _ in range(3):
            check_box(shape, random_box(rng, shape.dimensions), rng)


@pytest.mark.parametrize(
    "text",
    ["f32[20,300]{1,0:T(8,128)}", "u4[18,70]{1,0:T(16,64)E(4)}", "u1[6,50]{0,1:E(1,big)}", "u8[7,9,11]{0,2,1}"],
)
def test_boxes_on_every_backend(executor, text):
    rng, shape = np.random.default_rng(5), gl.parse_shape(text)
    for phase in (0, 4):
        box = random_box(rng, shape.dimensions)
        values = random_buffer(rng, shape)
        part = random_elements(rng, shape, np.empty(shape.dimensions, bool)[box].shape)
        buffer, memory = guarded(executor, executor.array(values).dtype, values.size, phase)
        buffer[...] = executor.array(values)
        assert same_elements(shape, executor.host(gl.unpack(buffer, shape, at=box)), found(shape, values, box))
        gl.pack(executor.array(part), shape, out=buffer, at=box)
        assert executor.host(buffer).view(np.uint8).tobytes() == written(shape, values, part, box).tobytes()
        assert guards_intact(executor, memory, phase, values.nbytes)


# ---- arithmetic on the way -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["{1,0:E(4)}", "{0,1:E(4,big)}", "{1,0:T(4,8)E(4)}", "{1,0:T(8,4)}"])
def test_a_part_is_quantised_on_the_way_and_back(layout, executor):
    """The parameters are those of the part: the same codes as without a box, in the same places."""
    rng = np.random.default_rng(6)
    shape, box = gl.Shape("u4", (16, 24), layout), (slice(3, 14), slice(5, 22))
    part = rng.normal(size=(11, 17)).astype(np.float32)
    options = {"scale": rng.uniform(0.1, 0.4, (3, 17)).astype(np.float32), "zero_point": 7, "block": 4}
    codes = gl.pack(part, gl.Shape("u4", (11, 17)), **options).reshape(11, 17)
    values = random_buffer(rng, shape)
    buffer = executor.array(values)
    gl.pack(executor.array(part), shape, out=buffer, at=box, **options)
    assert executor.host(buffer).view(np.uint8).tobytes() == written(shape, values, codes, box).tobytes()
    back = executor.host(gl.unpack(buffer, shape, at=box, dtype="f32", **options))
    assert (back == (codes.astype(np.float32) - 7) * np.repeat(options["scale"], 4, 0)[:11]).all()


def test_arrays_of_the_other_byte_order_are_swapped():
    shape, box = gl.parse_shape("s16[6,5]{0,1}"), (slice(1, 4), slice(2, 5))
    rng = np.random.default_rng(3)
    values, part = random_buffer(rng, shape), random_elements(rng, shape, (3, 3))
    buffer = values.copy()
    gl.pack(part.astype(">i2"), shape, out=buffer, at=box)
    assert buffer.view(np.uint8).tobytes() == written(shape, values, part, box).tobytes()


# ---- which boxes are one pass ----------------------------------------------------------------------------------------


def pieces_of(shape, box):
    """The moves that write a box, as they are planned."""
    from gpulayout.moves.placement import Placement

    write = Placement.part_of(shape, box_of(box, shape))
    return pieces.pieces(write.dense, write)


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("bf16[8,64,256]{2,1,0:T(8,128)(2,1)}", (slice(3, 4),)),  # an expert of a stack
        ("bf16[64,256]{1,0:T(8,128)(2,1)}", (slice(0, 32),)),  # the first rows
        ("u4[8,64,128]{1,2,0:E(4)}", (slice(2, 5),)),
        ("f32[64,512]{1,0:T(8,128)}", (slice(16, 48), slice(128, 384))),  # tiles within
    ],
)
def test_a_box_of_whole_tiles_moves_as_a_buffer_of_its_own(text, box):
    """In one move with the same number of loops, or one more for the gaps between rows of tiles."""
    shape = gl.parse_shape(text)
    part = gl.plan(gl.Shape(shape.element_type, shape.dimensions), shape).part(box)
    [(move, _, offset)] = pieces_of(shape, box)
    assert (move == part.move) or len(move.axes) <= len(part.move.axes) + 1
    assert offset == gl.plan(shape, shape).part((slice(0, box[0].start), ...)).target.nbytes or len(box) == 2


def test_a_box_without_tiles_is_cut_where_the_tiles_end():
    assert len(pieces_of(gl.parse_shape("f32[64,512]{1,0:T(8,128)}"), (slice(3, 60), slice(5, 500)))) == 9


def test_the_whole_as_a_box_is_the_call_without():
    shape = gl.parse_shape("f32[6,5]{0,1}")
    array = np.arange(30, dtype=np.float32).reshape(6, 5)
    buffer = gl.pack(array, shape, out=np.empty(30, np.float32), at=...)
    assert (buffer == gl.pack(array, shape)).all() and (gl.unpack(buffer, shape, at=...) == array).all()
    padded = gl.parse_shape("f32[6,5]{0,1:PD(8,8)}")
    kept = gl.pack(array, padded, out=np.full(64, 9, np.float32), at=...)
    assert (kept == 9).sum() == 34 + 1 and (gl.unpack(kept, padded) == array).all()


# ---- kinds of arrays, and errors -------------------------------------------------------------------------------------


def test_tensors_lists_and_longer_buffers():
    shape, box = "u4[4,6]{1,0:E(4)}", (slice(1, 3), slice(1, 4))
    buffer = gl.pack([[1, 2, 3], [4, 5, 6]], shape, out=np.full(14, 0x77, np.uint8), at=box, strict=False)
    assert buffer.tolist() == [0x77] * 3 + [0x17, 0x32, 0x77, 0x47, 0x65, 0x77] + [0x77] * 5
    assert gl.unpack(buffer, shape, at=box, strict=False).tolist() == [[1, 2, 3], [4, 5, 6]]
    array = gl.asarray(np.arange(6, dtype=np.float32).reshape(2, 3), "{0,1}")
    assert gl.unpack(array, at=(..., slice(1, 3))).tolist() == [[1, 2], [4, 5]]


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    shape, box = gl.parse_shape("bf16[8,6]{0,1:T(4)}"), (slice(3, 8), slice(1, 5))
    part = torch.arange(20.0, dtype=torch.bfloat16).reshape(5, 4)
    buffer = torch.zeros(shape.buffer_length, dtype=torch.bfloat16)
    before = buffer._version
    assert gl.pack(part, shape, out=buffer, at=box) is buffer and buffer._version > before
    assert torch.equal(gl.unpack(buffer, shape, at=box), part)
    assert torch.count_nonzero(gl.unpack(buffer, shape)) == 19
    with pytest.raises(BufferError, match=r"at= is for memory.*requires a gradient"):
        gl.unpack(buffer.float().requires_grad_(), shape.with_element_type("f32"), at=box)
    with pytest.raises(BufferError, match="at= is for memory"):
        torch.func.vmap(lambda each: gl.unpack(each, shape, at=box))(buffer[None])


def test_torch_compile_runs_boxes_between_its_graphs():
    torch = pytest.importorskip("torch")
    compiled = torch.compile(
        lambda part, buffer: gl.pack(part + 1, "f32[4]", out=buffer, at=slice(1, 3)), backend="eager"
    )
    assert compiled(torch.ones(2), torch.zeros(4)).tolist() == [0, 2, 2, 0]


def test_arrays_of_jax_are_read_and_never_written():
    jax = pytest.importorskip("jax")
    shape, box = "f32[4,6]{0,1}", (slice(1, 3), slice(1, 4))
    buffer = jax.numpy.arange(24, dtype=jax.numpy.float32)
    read = gl.unpack(buffer, shape, at=box)
    assert isinstance(read, jax.Array) and (read == buffer.reshape(6, 4).T[box]).all()
    with pytest.raises(BufferError, match="read-only|never change"):
        gl.pack(read, shape, out=buffer, at=box)
    with pytest.raises(BufferError, match="at= is for memory"):
        jax.jit(lambda each: gl.unpack(each, shape, at=box))(buffer)


BUFFER = np.zeros(12, np.uint8)
PART = np.ones((2, 2), np.uint8)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gl.pack(PART, "u8[3,4]", at=...), TypeError, "pass out=buffer too"),
        (lambda: gl.pack(PART, "{0,1}", out=BUFFER, at=...), gl.LayoutError, "only a layout.*write the whole shape"),
        (lambda: gl.pack(PART, "u8[3,4]", out=BUFFER, at=(0, ...)), gl.LayoutError, "box has the number 0"),
        (lambda: gl.pack(PART, "u8[3,4]", out=BUFFER, at=(slice(0, 3),) * 2), BufferError, r"\[0:3, 0:3\].*\(3, 3\)"),
        (lambda: gl.pack(PART, "u8[3,4]", out=BUFFER[:9], at=(slice(0, 2),) * 2), BufferError, "9 elements"),
        (lambda: gl.pack(PART, "u8[3,3]", out=BUFFER, at=(slice(0, 2),) * 2), BufferError, "12 elements"),
        (lambda: gl.pack(PART, "s8[3,4]", out=BUFFER, at=(slice(0, 2),) * 2), TypeError, "uint8"),
        (lambda: gl.pack(BUFFER[:4].reshape(2, 2), "u8[3,4]", out=BUFFER, at=(slice(0, 2),) * 2), BufferError, "mem"),
        (lambda: gl.unpack(BUFFER, "u8[3,4]", at=(slice(0, 2),) * 3), IndexError, "3 axes"),
        (lambda: gl.unpack(BUFFER, "u8[3,4]", at=..., out=np.empty((2, 2), np.uint8)), BufferError, r"\(2, 2\)"),
    ],
)
def test_what_is_wrong_is_said_before_a_byte_is_written(call, error, words):
    with pytest.raises(error, match=words):
        call()
    assert not BUFFER.any() and PART.all()


def test_parts_are_shapes_of_their_own():
    """The part that a message names."""
    shape = gl.parse_shape("f32[6,5]{1,0:PD(8,8)}")
    assert str(part_shape(shape, ((2, 6), (0, 4)))) == "f32[4,4]{1,0:PD(6,4)}"
