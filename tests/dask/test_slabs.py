"""Slabs: buffers of smaller shapes that follow one another in the buffer of the whole shape."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from tests import reference
from tests.support.random_shapes import random_shapes

pytest.importorskip("dask.array")
from gpulayout.dask.slabs import slabs_of_chunks, slabs_of_lengths, slabs_of_size  # noqa: E402


def numbered(shape):
    """A logical array whose elements are their own numbers, as far as the type can hold them."""
    numbers = reference.payload(shape.element_count, shape.itemsize) & (0xFF if shape.element_type.bits >= 8 else 1)
    return np.ascontiguousarray(numbers).reshape(-1).view(shape.dtype).reshape(shape.dimensions)


def parts(array, slabs):
    """The logical array of every slab."""
    for slab, block in zip(slabs.shapes, slabs.blocks):
        if block is None:
            yield np.zeros(slab.dimensions, array.dtype), slab
        else:
            ends = [(sum(sizes[:place]), sizes[place]) for sizes, place in zip(slabs.chunks, block)]
            yield array[tuple(slice(start, start + size) for start, size in ends)], slab


def check(shape, slabs):
    array = numbered(shape)
    packed = [gl.pack(part, slab) for part, slab in parts(array, slabs)]
    assert [len(part) for part in packed] == list(slabs.lengths)
    assert np.concatenate(packed).tobytes() == gl.pack(array, shape).tobytes()
    covered = sum(part.size for part, _ in parts(array, slabs))
    assert covered == shape.element_count


def storable(shape, limit=20_000):
    try:
        gl.zeros(shape) if gl.UNBOUNDED not in shape.dimensions and shape.nbytes <= limit else gl.zeros("f32[?]")
    except (gl.LayoutError, TypeError):
        return False
    return True


def test_slabs_of_random_shapes_follow_one_another_in_the_buffer():
    rng, cut = random.Random(1), 0
    for shape in filter(storable, random_shapes(2, 1000, tuples=False)):
        limit = 1 + shape.nbytes // rng.choice((1, 3, 10, 30))
        slabs = slabs_of_size(shape, limit)
        check(shape, slabs)
        cut += len(slabs.shapes) > 1
        if shape.element_count:  # their chunks are slabs again
            assert slabs_of_chunks(shape, slabs.chunks, limit).lengths == slabs.lengths
        again = slabs_of_lengths(shape, slabs.lengths)
        assert again is None or again.borders == slabs.borders
    assert cut > 60


@pytest.mark.parametrize(
    "text, limit, borders",
    [
        ("f32[100,60]", 60 * 4 * 7, (tuple(range(0, 100, 7)) + (100,), (0, 60))),
        ("f32[100,60]{0,1}", 60 * 4 * 7, ((0, 100), tuple(range(0, 60, 4)) + (60,))),
        ("f32[20,60]{1,0:T(8,128)}", 9000, ((0, 16, 20), (0, 60))),
        ("f32[2,1000,60]", 120_000, ((0, 1, 2), (0, 500, 1000), (0, 60))),
        ("f32[2,3]{0,1:PD(4,100)}", 160, ((0, 4), (0, 10, *range(20, 101, 10)))),
        ("u4[5,3]{0,1:E(4)}", 1, ((0, 5), (0, 2, 3))),  # a column is 2.5 bytes
        ("s4[4,6]{1,0:E(4)}", 1, ((0, 1, 2, 3, 4), (0, 2, 4, 6))),
        ("f32[4,6]{1,0:T(*,4)}", 1, ((0, 2, 4), (0, 6))),  # one row would end inside a tile
        ("f32[]", 1, ()),
        ("f32[0,5]", 1, ((0, 0), (0, 5))),
    ],
)
def test_cuts_are_whole_tiles_and_whole_bytes(text, limit, borders):
    shape = gl.parse_shape(text)
    slabs = slabs_of_size(shape, limit)
    assert slabs.borders == borders
    check(shape, slabs)


@given(st.data())
def test_chunks_are_kept_exactly_when_they_are_slabs(data):
    """Against the definition: the elements of every chunk are one run of the buffer, with whole units."""
    sizes = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3)))
    order = data.draw(st.permutations(range(3)))
    cuts = [sorted(data.draw(st.sets(st.integers(1, size), max_size=2)) | {size}) for size in sizes]
    chunks = tuple(tuple(end - start for start, end in zip([0, *ends], ends)) for ends in cuts)
    shape = gl.Shape("s32", sizes, gl.Layout(order))
    places = reference.numbers_in_places(sizes, tuple(order)).argsort().reshape(sizes)
    runs = True
    for block in np.ndindex(*map(len, chunks)):
        index = tuple(slice(sum(part[:at]), sum(part[: at + 1])) for part, at in zip(chunks, block))
        found = places[index]
        runs &= int(found.max() - found.min()) + 1 == found.size
    slabs = slabs_of_chunks(shape, chunks, 2**20)
    assert (slabs is not None) == runs
    if slabs:
        assert slabs.chunks == chunks
        check(shape, slabs)
    assert slabs_of_chunks(shape, ((0, sizes[0]), *chunks[1:]), 2**20) is None


@pytest.mark.parametrize(
    "text, lengths, borders",
    [
        ("f32[4,10]", (10, 30), ((0, 1, 4), (0, 10))),
        ("f32[4,10]", (15, 25), None),
        ("f32[4,10]", (10, 0, 30), None),
        ("f32[4,10]", (40,), ((0, 4), (0, 10))),
        ("f64[1,1]{1,0:L(2)}", (1, 1), None),  # the second would be only the tail
        ("u4[5,4]{1,0:E(4)}", (2, 8), ((0, 1, 5), (0, 4))),
        ("f32[]{:L(4)}", (1, 3), None),
    ],
)
def test_chunks_of_a_buffer_are_kept_if_they_are_slabs(text, lengths, borders):
    slabs = slabs_of_lengths(gl.parse_shape(text), lengths)
    assert slabs is None and borders is None or slabs.borders == borders and slabs.lengths == lengths


def test_padding_beyond_the_elements_is_cut_too_and_joins_the_last_slab_where_it_fits():
    shape = gl.parse_shape("f32[4,10]{1,0:PD(100,10)}")
    slabs = slabs_of_chunks(shape, ((2, 2), (10,)), 40 * 10)
    assert slabs.borders[0] == (0, 2, 12, *range(22, 100, 10), 100)
    assert slabs.blocks[:2] == ((0, 0), (1, 0)) and set(slabs.blocks[2:]) == {None}
    check(shape, slabs)


def test_slabs_of_the_same_sizes_share_one_shape():
    shapes = slabs_of_size(gl.parse_shape("f32[1000000,250]"), 1_000_000).shapes
    assert len(shapes) == 1000 and len({id(shape) for shape in shapes}) == 1
