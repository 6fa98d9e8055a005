"""Arrays without elements have no strides to compare: every call gives its empty result, for every kind of array."""

import itertools

import numpy as np
import pytest

import gpulayout as gl
from tests.support.foreign import Producer

WIDER = 2  # places of padding in every dimension


def sizes():
    """Dimensions of rank 0 to 4 with a size 0; rank 0 has an element, and is the control."""
    yield ()
    for rank in range(1, 5):
        for found in itertools.product((0, 1, 3) if rank < 4 else (0, 2), repeat=rank):
            if 0 in found:
                yield found


def layouts(dimensions):
    """All orders, without and with padding.  With padding, the buffer of an empty array is not empty."""
    for order in itertools.permutations(range(len(dimensions))):
        yield gl.Layout(order)
        if dimensions:
            yield gl.Layout(order, padded_dimensions=[size + WIDER for size in dimensions], padding_value="one")


def cases():
    for dimensions in sizes():
        for layout in layouts(dimensions):
            yield gl.Shape("f32", dimensions, layout)


def strides_of_all_kinds(dimensions):
    """Arrays of these sizes: in both orders, and with strides that no buffer has."""
    yield np.zeros(dimensions, np.float32)
    yield np.zeros(dimensions, np.float32, order="F")
    yield np.ones([size + 1 for size in dimensions], np.float32)[tuple(slice(size) for size in dimensions)]
    if 0 in dimensions:
        for strides in ([0] * len(dimensions), [-7] * len(dimensions), [1 << 40] * len(dimensions)):
            yield np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), dimensions, strides)


def is_buffer(array, shape):
    """True where the calls take an array for a 1-D buffer, which has the padding too."""
    return array.ndim != 1 or array.size >= shape.buffer_length


class Numpy:
    writes = True

    def array(self, values):
        return values

    def host(self, array):
        assert type(array) is np.ndarray
        return array


class Torch(Numpy):
    def __init__(self):
        self.module = pytest.importorskip("torch")

    def array(self, values):
        try:
            return self.module.from_numpy(values)
        except ValueError:  # torch has no negative strides, and none below an element
            return self.module.empty(values.shape)

    def host(self, array):
        assert type(array) is self.module.Tensor
        return array.numpy()


class Jax(Numpy):
    writes = False

    def __init__(self):
        self.module = pytest.importorskip("jax")

    def array(self, values):
        return self.module.device_put(values)

    def host(self, array):
        assert isinstance(array, self.module.Array)
        return np.asarray(array)


@pytest.fixture(params=[Numpy, Torch, Jax])
def kind(request):
    return request.param()


def buffers_of(kind, shape):
    """What the calls take for the buffer of an empty shape: the N-d array, and the 1-D buffer with its padding."""
    arrays = list(strides_of_all_kinds(shape.dimensions))[: None if kind.writes else 1]
    for array in (*arrays, np.zeros(shape.buffer_length, np.float32)):
        if is_buffer(array, shape) and shape.rank:
            yield kind.array(array)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", range(4))
def test_every_reading_call_gives_its_result(kind, part):
    for shape in itertools.islice(cases(), part, None, 4):
        plain = shape.with_layout(None)
        empty = np.zeros(shape.dimensions, np.float32)
        for given in buffers_of(kind, shape):
            for source, target in ((shape, plain), (shape, shape)):
                expected = gl.pack(empty, target).tolist()
                found = (
                    gl.relayout(given, source, target),
                    gl.plan(source, target)(given),
                    *gl.relayout_many([(given, source, target)]),
                )
                assert [kind.host(each).tolist() for each in found] == [expected] * 3, (source, target)
            assert kind.host(gl.unpack(given, shape)).shape == shape.dimensions
            assert kind.host(gl.view(given, shape)).shape == shape.dimensions
        logical = kind.array(empty)
        assert kind.host(gl.pack(logical, shape)).tolist() == gl.pack(empty, shape).tolist()
        assert kind.host(gl.transpose(logical)).shape == shape.dimensions[::-1]
        assert gl.shape_of(logical).dimensions == shape.dimensions


def test_every_writing_call_takes_them(kind):
    if not kind.writes:
        pytest.skip("arrays of this kind are never written to")
    for shape in cases():
        if shape.is_padded or not 1 <= shape.rank <= 3:
            continue
        plain, back = shape.with_layout(None), list(reversed(range(shape.rank)))
        for out in buffers_of(kind, plain):
            given = kind.array(np.zeros(shape.dimensions, np.float32))
            assert gl.relayout(given, shape, plain, out=out) is out
            assert gl.relayout(out, shape, plain, out=out) is out  # in place
            assert gl.relayout(out, shape, plain, out=out, max_bytes=64) is out
            assert gl.plan(shape, plain).in_place()(out) is out
            assert gl.plan(shape, plain).stream(given, out=out) is out
            assert gl.relayout_many([(given, shape, plain)], out=[out]) == [out]
            assert gl.pack(given, plain, out=out) is out
            if tuple(out.shape) == shape.dimensions:
                assert gl.unpack(given, shape, out=out) is out
                turned = kind.array(np.zeros(shape.dimensions[::-1], np.float32))
                assert gl.transpose(turned, back, out=out) is out


def test_padding_is_written_all_the_same():
    """f32[0,3]{1,0:PD(2,4)} has no elements and 8 places: a result has them, and an `out` needs room for them."""
    padded, empty = "f32[0,3]{1,0:PD(2,4)PV(one)}", np.zeros((0, 3), np.float32)
    assert gl.relayout(empty, "f32[0,3]", padded).tolist() == [1] * 8
    out = np.zeros(8, np.float32)
    gl.relayout(empty, "f32[0,3]", padded, out=out)
    assert out.tolist() == [1] * 8
    for write in (
        lambda: gl.relayout(empty, "f32[0,3]", padded, out=empty.copy()),
        lambda: gl.pack(empty, padded, out=empty.copy()),
    ):
        with pytest.raises(BufferError) as caught:
            write()
        assert str(caught.value) == (
            "out has shape (0, 3), without the padding of f32[0,3]{1,0:PD(2,4)PV(one)}: pass its whole buffer, of 8 "
            "elements"
        )


def test_a_1d_array_is_always_a_buffer():
    """So the padding of a shape of rank 1 has to be there, with and without elements."""
    for size in (0, 3):
        with pytest.raises(BufferError, match=f"^buffer has {size} elements, but f32.* needs 5$"):
            gl.relayout(np.zeros(size, np.float32), f"f32[{size}]{{0:PD(5)}}", "{0}")


def test_tiles_and_packed_elements_too():
    for shape, dtype in (
        ("f32[0,3]{1,0:T(8,128)}", np.float32),
        ("f32[3,0]{0,1:T(2,2)(2,1)}", np.float32),
        ("s4[0,3]{1,0:E(4)}", np.uint8),
        ("u1[5,0,2]{0,2,1:E(1)}", np.uint8),
    ):
        shape = gl.parse_shape(shape)
        given = np.zeros(shape.dimensions, dtype)
        assert gl.relayout(given, shape, "{" + str(shape.layout)[1:]).size == 0
        assert gl.relayout(given, shape, shape.with_layout(None)).size == 0
        assert gl.unpack(given, shape).shape == shape.dimensions


def test_other_dimensions_are_still_refused():
    with pytest.raises(BufferError, match=r"^buffer has shape \(3, 0\) .* not a buffer of f32\[0,3\]\{1,0\}"):
        gl.relayout(np.zeros((3, 0), np.float32), "f32[0,3]", "{0,1}")
    with pytest.raises(TypeError, match="^buffer has dtype float64"):
        gl.relayout(np.zeros((0, 3)), "f32[0,3]", "{0,1}")


def test_on_every_executor(executor):
    for dimensions in ((0, 3), (3, 0), (2, 0, 5), (0, 0, 0, 1)):
        for layout in layouts(dimensions):
            shape = gl.Shape("s16", dimensions, layout)
            given = executor.array(np.zeros(dimensions, np.int16))
            expected = np.ones(shape.buffer_length).tolist()
            assert executor.host(gl.relayout(given, gl.shape_of(given), shape)).tolist() == expected
            assert executor.host(gl.unpack(given, shape)).shape == dimensions
            assert gl.view(given, shape).shape == dimensions


def test_on_cupy_and_numpy(place):
    """Arrays of CuPy, and those that come through DLPack."""
    for dimensions in ((0, 3), (3, 0)):
        shape, target = gl.Shape("s16", dimensions), "{0,1:PD(4,4)PV(one)}"
        given = place.array(np.zeros(dimensions, np.int16))
        for array in (given, Producer(given)):
            assert place.host(gl.relayout(array, shape, target)).tolist() == [1] * 16
            assert place.host(gl.unpack(array, shape)).shape == dimensions
            assert gl.view(array, shape).shape == dimensions
        out = place.array(np.zeros(dimensions, np.int16))
        assert gl.relayout(given, shape, "{0,1}", out=out) is out
        assert gl.relayout(out, shape, "{0,1}", out=out) is out
