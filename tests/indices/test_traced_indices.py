"""Index conversion of arrays that JAX and PyTorch trace: the numbers of calls on memory, and what cannot be traced."""

import random

import numpy as np
import pytest

import gpulayout as gl
from tests.support.tiled_cases import drawn_pair

TILES = "f32[5,6]{0,1:T(8,4)}"


class Jax:
    def __init__(self):
        self.jax = pytest.importorskip("jax")
        self.dtype = np.int32

    def run(self, call, *arrays):
        return np.asarray(self.jax.jit(call)(*arrays))


class Torch:
    """Inside of vmap, over a batch of one."""

    def __init__(self):
        self.torch = pytest.importorskip("torch")
        self.dtype = np.int64

    def run(self, call, *arrays):
        return self.torch.vmap(call)(*(self.torch.from_numpy(np.asarray(array))[None] for array in arrays))[0].numpy()


@pytest.fixture(params=[Jax, Torch])
def library(request):
    return request.param()


def assert_same(library, found, expected):
    assert found.dtype == library.dtype
    np.testing.assert_array_equal(found, expected)


def test_random_pairs(library):
    rng = random.Random(7)
    for _ in range(8):
        source, target = drawn_pair(rng, 4)
        if source.is_zero_element_array or not source.rank:
            continue
        places = np.arange(source.buffer_size)
        for call in (
            lambda x: gl.delinearize(x, source, padding="mark"),  # noqa: B023
            lambda x: gl.convert_linear(x, source, target, padding="mark"),  # noqa: B023
        ):
            assert_same(library, library.run(call, places), call(places))
        index = np.random.default_rng(1).integers(-20, 20, (source.rank, 9))
        for mode in ("wrap", "clip"):
            call = lambda x: gl.linearize(x, target, mode=mode)  # noqa: B023, E731
            assert_same(library, library.run(call, index), call(index))


def test_one_array_for_each_dimension(library):
    rows, columns = np.arange(3).reshape(3, 1), np.arange(4, dtype=np.uint8)
    both = lambda x, y: gl.linearize((x, y), TILES, mode="clip")  # noqa: E731
    assert_same(library, library.run(lambda x: both(x, 2), rows), both(rows, 2))
    assert_same(library, library.run(lambda x: both(2, x), columns), both(2, columns))
    assert_same(library, library.run(both, rows, columns), both(rows, columns))


def test_large_unsigned_indices_of_jax():
    library = Jax()
    index = np.array([[2**32 - 1, 7], [3, 2**31]], np.uint32)
    for mode in ("wrap", "clip"):
        call = lambda x: gl.linearize(x, TILES, mode=mode)  # noqa: B023, E731
        assert_same(library, library.run(call, index), call(index))
    row, column = gl.delinearize(7, TILES)
    assert_same(
        library, library.run(lambda x: gl.delinearize(x, TILES, padding="mark"), index[0]), [[-1, row], [-1, column]]
    )


def test_places_outside_the_buffer_are_marked(library):
    places = np.array([-1, 0, 63, 64, 10**6])
    assert gl.parse_shape(TILES).buffer_size == 64
    found = library.run(lambda x: gl.convert_linear(x, TILES, "{1,0}", padding="mark"), places)
    assert_same(library, found, [-1, 0, -1, -1, -1])


def test_what_cannot_be_traced_is_refused(library):
    index = np.zeros((2, 3), int)
    refused = (
        (lambda x: gl.linearize(x, TILES), TypeError, "linearize cannot raise .* pass mode='clip' or mode='wrap'"),
        (lambda x: gl.delinearize(x, TILES), TypeError, "delinearize cannot raise .* pass padding='mark', which marks"),
        (lambda x: gl.convert_linear(x, TILES, "C"), TypeError, "convert_linear cannot raise .* pass padding='mark'"),
        (
            lambda x: gl.linearize(x, TILES, mode="clip", out=np.zeros(3, int)),
            BufferError,
            "use the result of the call",
        ),
        (lambda x: gl.linearize(x, "f32[5,6,7]", mode="clip"), IndexError, r"the first axis must be 3"),
        (lambda x: gl.linearize(x, "f32[5,0]", mode="clip"), IndexError, r"it has no elements"),
        (
            lambda x: gl.linearize(x * 0.5, TILES, mode="clip"),
            TypeError,
            r"index\[0\] has dtype .*float",
        ),
    )
    for call, error, text in refused:
        with pytest.raises(error, match=text):
            library.run(call, index)
    if isinstance(library, Jax):
        with pytest.raises(TypeError, match="places, more than int32 counts: set jax_enable_x64"):
            library.run(lambda x: gl.linearize(x, "u8[65536,65536]", mode="clip"), index)
