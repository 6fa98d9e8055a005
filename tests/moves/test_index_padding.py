"""Places without an element, and numbers outside the buffer: one law for all index conversion, on every executor.

outside the buffer      an error, also with padding="mark"
padding                 an error, or -1 with padding="mark", for `delinearize` and `convert_linear`
convert_linear          delinearize, then linearize; -1 stays -1
"""

import itertools

import numpy as np
import pytest
from hypothesis import given

import gpulayout as gl
from tests.moves.test_index_conversion import shared_fixture, small_shapes
from tests.moves.test_index_tiled import TILES, grid
from tests.support import strategies
from tests.support.index_cases import numbers_of

PADDED = "f32[2,3]{0,1:PD(3,5)}"
SCALAR = "f32[]{:T(4)}"
WIDE = 2**16 + 1  # a 64-bit linear index that is split in two


def marked_places(source, target):
    """For every place of the source the element's place in the target, or -1, from the reference."""
    numbers, places = numbers_of(source), np.argsort(numbers_of(target), kind="stable")
    places = np.append(places[target.buffer_size - target.element_count :], -1)
    return places[numbers]  # number -1 is the last entry


def check_all_places(executor, source, target):
    every = executor.array(np.arange(source.buffer_size))
    expected = marked_places(source, target)
    found = gl.convert_linear(every, source, target, padding="mark")
    assert executor.host(found).tolist() == expected.tolist(), (source, target)
    if source.rank:
        index = executor.host(gl.delinearize(every, source, padding="mark"))
        inside = index[0] >= 0
        linear = np.full(source.buffer_size, -1)
        linear[inside] = executor.host(gl.linearize(executor.array(np.ascontiguousarray(index[:, inside])), target))
        assert linear.tolist() == expected.tolist(), (source, target)


def test_every_place_of_small_shapes_is_marked_or_converted(executor):
    for source in small_shapes():
        for order in itertools.islice(itertools.permutations(range(source.rank)), 3):
            check_all_places(executor, source, source.with_layout(gl.Layout(order)))


def test_every_place_of_tiled_shapes_is_marked_or_converted(executor):
    for number, source in enumerate(grid()):
        target = source.with_layout(gl.Layout(range(source.rank), tiles=TILES[number % len(TILES)]))
        check_all_places(executor, source, target)
        check_all_places(executor, source, source.with_layout(None))


@shared_fixture
@given(pair=strategies.pairs(max_elements=3000))
def test_every_place_of_random_shapes_is_marked_or_converted(executor, pair):
    check_all_places(executor, *pair)


def test_single_places_are_plain_ints():
    for source in (*map(gl.parse_shape, (PADDED, SCALAR, "u8[0]{0:PD(4)}")), *grid()):
        target = source.with_layout(None)
        for place, expected in enumerate(marked_places(source, target).tolist()):
            found = gl.convert_linear(place, source, target, padding="mark")
            assert type(found) is int and found == expected, (source, place)


@pytest.mark.parametrize("text", [PADDED, SCALAR, "u8[0]{0:PD(4)}", "u8[5,3]{1,0:T(2,2)}"])
def test_a_number_outside_the_buffer_stays_an_error(executor, text):
    shape = gl.parse_shape(text)
    message = f"is out of bounds for {shape}: its buffer has {shape.buffer_size} places"
    for outside in (-1, shape.buffer_size, 2**40, -(2**40)):
        for padding in ("raise", "mark"):
            with pytest.raises(IndexError) as caught:
                gl.convert_linear(outside, shape, shape.with_layout(None), padding=padding)
            assert str(caught.value) == f"linear index {outside} {message}"
        lines = np.append(np.arange(shape.buffer_size), outside)
        out = executor.array(np.full(len(lines), 99))
        with pytest.raises(IndexError) as caught:
            gl.convert_linear(executor.array(lines), shape, shape.with_layout(None), padding="mark", out=out)
        assert str(caught.value) == f"linear index {outside} at position {shape.buffer_size} {message}"
        assert executor.host(out).tolist() == [99] * len(lines)


@pytest.mark.parametrize("text", [PADDED, "f32[2,3]{0,1:T(2)(3)}"])
def test_padding_is_an_error_unless_it_is_marked(executor, text):
    lines, out = executor.array(np.array([0, 2, 1, 5])), executor.array(np.full(4, 99))
    with pytest.raises(IndexError) as caught:
        gl.convert_linear(lines, text, "f32[2,3]", out=out)
    assert str(caught.value).startswith(f"linear index 2 at position 1 is padding of {text}: ")
    assert executor.host(out).tolist() == [99] * 4
    assert gl.convert_linear(lines, text, "f32[2,3]", padding="mark", out=out) is out
    assert (
        executor.host(out).tolist()
        == marked_places(gl.parse_shape(text), gl.parse_shape("f32[2,3]"))[[0, 2, 1, 5]].tolist()
    )


@pytest.mark.parametrize("dtype", ("int8", "int16", "int32", "int64"))
@pytest.mark.parametrize("text", [PADDED, "f32[2,3]{0,1:T(2)(3)}"])
def test_every_signed_dtype_holds_the_mark(executor, dtype, text):
    source = gl.parse_shape(text)
    expected = marked_places(source, source.with_layout(None)).tolist()
    for given_dtype in (dtype, f"u{dtype}"):
        lines = executor.array(np.arange(source.buffer_size).astype(given_dtype))
        out = executor.array(np.full(source.buffer_size, 99, dtype))
        assert gl.convert_linear(lines, source, "{1,0}", padding="mark", out=out) is out
        assert out.dtype == dtype and executor.host(out).tolist() == expected


def test_unsigned_outputs_are_refused(executor):
    for lines in (np.zeros(3, int), np.zeros(0, int)):
        out = executor.array(np.full(len(lines), 99, np.uint32))
        with pytest.raises(TypeError) as caught:
            gl.convert_linear(executor.array(lines), PADDED, "f32[2,3]", padding="mark", out=out)
        assert str(caught.value) == "out has dtype uint32, which cannot hold -1, the mark of padding"
        assert executor.host(out).tolist() == [99] * len(lines)


def test_indices_keep_their_shape_and_may_be_empty(executor):
    lines = executor.array(np.arange(15).reshape(3, 5))
    found = gl.convert_linear(lines, PADDED, "{1,0}", padding="mark")
    assert executor.host(found).tolist() == [[0, 3, -1, 1, 4], [-1, 2, 5, -1, -1], [-1] * 5]
    for shape in ((0,), (2, 0)):
        assert gl.convert_linear(executor.array(np.zeros(shape, int)), PADDED, "{1,0}", padding="mark").shape == shape


def test_many_indices_cross_every_block_boundary(executor):
    for layout in (gl.Layout((1, 2, 0), padded_dimensions=(101, 8, 44)), gl.Layout((1, 2, 0), tiles=[(3, 4)])):
        source = gl.Shape("f32", (100, 7, 41), layout)
        found = gl.convert_linear(executor.array(np.arange(source.buffer_size)), source, "{2,1,0}", padding="mark")
        assert (executor.host(found) == numbers_of(source)).all()


def test_places_of_huge_buffers_are_marked(executor):
    """The buffer has 2^32 places and more; the last one of each row is padding."""
    source = gl.Shape("u8", (WIDE, WIDE - 1), gl.Layout((1, 0), padded_dimensions=(WIDE, WIDE)))
    lines = [0, WIDE - 2, WIDE - 1, WIDE, WIDE * WIDE - 2, WIDE * WIDE - 1]
    expected = [0, (WIDE - 2) * WIDE, -1, 1, (WIDE - 2) * WIDE + WIDE - 1, -1]
    found = gl.convert_linear(executor.array(np.array(lines)), source, "{0,1}", padding="mark")
    assert executor.host(found).tolist() == expected


def test_other_words_are_refused():
    for linear in (0, np.zeros(3, int)):
        with pytest.raises(ValueError, match="^padding 'wrap' is not one of 'raise', 'mark'$"):
            gl.convert_linear(linear, PADDED, "f32[2,3]", padding="wrap")


def test_arrays_of_other_libraries_come_back_as_their_own():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    for made in (torch.arange(6), jax.numpy.arange(6)):
        found = gl.convert_linear(made, PADDED, "f32[2,3]", padding="mark")
        assert type(found) is type(made) and found.tolist() == [0, 3, -1, 1, 4, -1]
    out = torch.zeros(6, dtype=torch.int16)
    assert gl.convert_linear(torch.arange(6), PADDED, "{1,0}", padding="mark", out=out) is out
    assert out.tolist() == [0, 3, -1, 1, 4, -1]
