"""Index conversion on the fake CuPy: a call of a known kind starts at once, and any other call is checked first."""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.arrays import arrays
from gpulayout.gpu.index_launch import IndexLaunches
from gpulayout.indices import index_conversion
from tests.support import executors, fake_cuda
from tests.support.prepared import LAUNCH, kinds

pytestmark = [
    pytest.mark.simt,
    pytest.mark.skipif(executors.simt_missing() is not None, reason=str(executors.simt_missing())),
]
SHAPES = ("f32[5,7]{0,1:PD(6,7)}", "f32[5,7]{1,0:T(3,4)}")


@pytest.fixture(autouse=True)
def _anew():
    index_conversion.conversion.cache_clear()
    yield
    index_conversion.conversion.cache_clear()


def indices(cupy, count=35, seed=0):
    """Coordinates, mostly out of bounds."""
    return cupy.asarray(np.random.default_rng(seed).integers(-20, 20, (2, count)))


def wrapped(shape, index):
    return [gl.linearize(point, shape, mode="wrap") for point in index.get().T.tolist()]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_repeated_call_is_one_launch_and_checks_nothing(cupy, shape, monkeypatch):
    out = cupy.empty(35, np.int64)
    gl.linearize(indices(cupy), shape, mode="wrap", out=out)
    for name in ("check_shape", "check_same_device", "check_no_overlap"):
        monkeypatch.delattr(arrays, name)
    for seed in (1, 2):
        index, out = indices(cupy, seed=seed), cupy.empty(35, np.int64)
        fake_cuda.calls.clear()
        assert gl.linearize(index, shape, mode="wrap", out=out) is out and kinds() == [LAUNCH]
        assert out.tolist() == wrapped(shape, index)
    with pytest.raises(AttributeError):  # another mode is a call of another kind
        gl.linearize(index, shape, mode="clip", out=out)


def test_calls_of_other_kinds_are_checked_as_ever(cupy):
    shape, index, memory = SHAPES[0], indices(cupy), cupy.empty(200, np.int64)
    room = cupy.empty(100, np.int64)
    for _ in range(2):  # the second call is of a known kind
        gl.linearize(index, shape, mode="wrap", out=room[:35])
    with cupy.cuda.Device(1):
        elsewhere = cupy.empty(35, np.int64)
    for out, error, message in (
        (room[:34], BufferError, "^out has shape"),
        (room[:70:2], BufferError, "is not C-contiguous$"),
        (cupy.empty(35, np.float64), TypeError, "^out has dtype float64"),
        (elsewhere, BufferError, "on cuda:1"),
        (cupy.empty(35, np.int32).view(np.uint8)[:35], BufferError, None),
    ):
        if message is None:  # a dtype that can hold every place of the buffer is accepted
            assert gl.linearize(index, shape, mode="wrap", out=out).tolist() == wrapped(shape, index)
            continue
        with pytest.raises(error, match=message):
            gl.linearize(index, shape, mode="wrap", out=out)
    with pytest.raises(IndexError, match="must be 2"):
        gl.linearize(indices(cupy)[:1], shape, mode="wrap", out=room[:35])
    turned = cupy.asarray(np.ascontiguousarray(index.get().T)).T  # the same shape, and not contiguous
    gl.linearize(turned, shape, mode="wrap", out=room[:35])
    assert room[:35].tolist() == wrapped(shape, turned)
    memory[:70] = index.reshape(-1)
    inside = memory[:70].reshape(2, 35)
    gl.linearize(inside, shape, mode="wrap", out=memory[100:135])
    with pytest.raises(BufferError, match="^index and out overlap"):
        gl.linearize(inside, shape, mode="wrap", out=memory[60:95])
    assert memory[:70].tolist() == index.reshape(-1).tolist()


def test_addresses_that_are_not_aligned_are_refused_after_calls_that_were(cupy):
    shape, index, memory = SHAPES[0], indices(cupy), cupy.empty(35 * 8 + 8, np.uint8)
    for _ in range(2):
        gl.linearize(index, shape, mode="wrap", out=memory[:280].view(np.int64))
    with pytest.raises(
        BufferError, match="^out address is 4 past a multiple of 8: indices of 8 bytes must be aligned to 8$"
    ):
        gl.linearize(index, shape, mode="wrap", out=memory[4:284].view(np.int64))


@pytest.mark.parametrize("shape", SHAPES)
def test_indices_that_may_be_refused_are_looked_at_in_every_call(cupy, shape):
    good, bad, out = (
        cupy.asarray(np.array([[1, 2], [3, 4]])),
        cupy.asarray(np.array([[1, 5], [3, 4]])),
        cupy.empty(2, np.int64),
    )
    for _ in range(2):
        gl.linearize(good, shape, out=out)
    expected = out.tolist()
    with pytest.raises(IndexError, match=r"^index \(5, 4\) at position 1 is out of bounds"):
        gl.linearize(bad, shape, out=out)
    assert out.tolist() == expected


def test_not_every_length_is_remembered(cupy):
    backend = gl.choices.backends.gpu_backend()
    for count in range(1, 3 * IndexLaunches.MOST):
        index, out = indices(cupy, count), cupy.empty(count, np.int64)
        assert gl.linearize(index, SHAPES[0], mode="clip", out=out) is out
    kept = index_conversion.conversion("linearize", gl.parse_shape(SHAPES[0])).prepared[backend]
    assert 0 < len(kept.kinds) <= IndexLaunches.MOST


# ---- one index array per dimension ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_index_arrays_that_broadcast_are_checked_before_out_is_written(cupy, shape):
    rows, columns = cupy.asarray(np.arange(5)[:, None]), cupy.asarray(np.arange(7))
    expected = [[gl.linearize((row, column), shape) for column in range(7)] for row in range(5)]
    out = cupy.asarray(np.full((5, 7), 99))
    with pytest.raises(IndexError, match=r"^index \(0, 7\) at position \(0, 6\) is out of bounds"):
        gl.linearize((rows, columns + 1), shape, out=out)
    assert out.tolist() == [[99] * 7] * 5
    for mode in ("raise", "wrap"):
        out[...] = 99
        assert gl.linearize((rows, columns), shape, mode=mode, out=out) is out and out.tolist() == expected
        assert gl.linearize((rows, columns), shape, mode=mode).tolist() == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_an_index_array_that_overlaps_out_is_read_completely_first(cupy, shape):
    """The index array and `out` share memory, so rows would be overwritten before they are read."""
    memory = cupy.asarray(np.arange(48).reshape(8, 6) % 5)
    rows, columns = memory[:6], cupy.asarray(np.arange(6))
    expected = [[gl.linearize((row, column), shape) for column, row in enumerate(line)] for line in rows.tolist()]
    assert gl.linearize((rows, columns), shape, mode="wrap", out=memory[1:7]).tolist() == expected


def test_no_index_array_can_be_brought_into_a_shape_without_elements(cupy):
    rows, columns = cupy.asarray(np.arange(2)[:, None]), cupy.asarray(np.arange(3))
    for out in (None, cupy.asarray(np.full((2, 3), 99))):
        with pytest.raises(IndexError, match="^index cannot be brought into f32\\[2,0\\]"):
            gl.linearize((rows, columns), "f32[2,0]", mode="clip", out=out)
