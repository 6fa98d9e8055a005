"""`plan.stream` on a GPU: the order of its copies and launches, its memory, and what an error leaves.

On the stand-in of ci/real_cupy, work runs in every order that CUDA allows: late, early, or at random between.
"""

import contextlib

import numpy as np
import pytest

import gpulayout as gl
from tests.gpu.test_streams import keep_busy
from tests.support.device_arrays import host_buffer, on_gpu_alone, same_bytes

PLAN = ("f32[300,410]", "{0,1:T(8,16)}")
LIMIT = 40_000  # 34 blocks in two lanes
DIRECTIONS = ("up", "down", "through")


def streamed(cp, plan, values, direction, **options):
    """The result of a stream, in the memory where it belongs."""
    up, down = direction != "down", direction != "up"
    buffer = values if up else cp.asarray(values)
    out = (np if down else cp).zeros(plan.target.buffer_length, values.dtype)
    with gl.use_backend("cupy"):
        assert plan.stream(buffer, out, **options) is out
    return out


@contextlib.contextmanager
def allocator(cp, allocate):
    """Within the block, CuPy uses this allocator."""
    before = cp.cuda.get_allocator()
    cp.cuda.set_allocator(allocate)
    try:
        yield
    finally:
        cp.cuda.Device().synchronize()
        cp.cuda.set_allocator(before)


# ---- memory --------------------------------------------------------------------------------------------------------


@on_gpu_alone
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_an_array_several_times_larger_than_the_pool(cp, direction):
    """The array has 12 MB on each side, and blocks may take 2 MB.  An array on the device has memory of its own."""
    plan = gl.plan("f32[1500,2000]", "{0,1}")
    values = host_buffer(plan.source)
    pool = cp.cuda.MemoryPool()
    pool.set_limit(3 << 20)
    buffer = values if direction != "down" else cp.asarray(values)
    out = (cp if direction == "up" else np).zeros(plan.target.buffer_length, np.float32)
    with gl.use_backend("cupy"), allocator(cp, pool.malloc):
        plan.stream(buffer, out, max_bytes=2 << 20)
        assert 1 << 20 < pool.total_bytes() <= (2 << 20) + 2048 and pool.used_bytes() == 0
    assert same_bytes(cp, cp.asarray(out), plan(values))


@on_gpu_alone
def test_without_a_limit_the_blocks_fit_the_pool(cp):
    plan = gl.plan("f32[1500,2000]", "{0,1}")
    values, out = host_buffer(plan.source), np.zeros(plan.target.buffer_length, np.float32)
    pool = cp.cuda.MemoryPool()
    pool.set_limit(5 << 20)
    with gl.use_backend("cupy"), allocator(cp, pool.malloc):
        plan.stream(values, out)
        assert 2 << 20 < pool.total_bytes() <= 5 << 20
    assert out.tobytes() == plan(values).tobytes()


@on_gpu_alone
def test_memory_that_cannot_be_had_is_an_error_before_a_byte_is_written(cp):
    plan = gl.plan("f32[1500,2000]", "{0,1}")
    values, out = host_buffer(plan.source), np.zeros(plan.target.buffer_length, np.float32)
    pool = cp.cuda.MemoryPool()
    pool.set_limit(1 << 19)
    with gl.use_backend("cupy"), allocator(cp, pool.malloc):
        for limit in (None, 2 << 20):
            with pytest.raises(MemoryError) as error:
                plan.stream(values, out, max_bytes=limit)
            assert not hasattr(error.value, "__notes__")
    assert not out.any() and pool.used_bytes() == 0


@on_gpu_alone
def test_page_locked_memory_is_bounded_and_its_lack_is_a_memory_error(cp):
    plan = gl.plan(*PLAN)
    values, asked = host_buffer(plan.source), []

    def allocate(nbytes):
        asked.append(nbytes)
        return cp.cuda.pinned_memory._malloc(nbytes)

    def refuse(nbytes):
        raise cp.cuda.runtime.CUDARuntimeError(2)  # cudaErrorMemoryAllocation

    pool = cp.cuda.PinnedMemoryPool()
    try:
        for direction in DIRECTIONS:
            asked.clear()
            cp.cuda.set_pinned_memory_allocator(allocate)
            streamed(cp, plan, values, direction, max_bytes=LIMIT)
            lanes = asked if direction != "down" else asked[1:]  # the first one carries the array up, in this test
            assert 0 < sum(lanes) <= LIMIT * (1 if direction == "through" else 0.6), (direction, asked)
        cp.cuda.set_pinned_memory_allocator(refuse)
        out = np.zeros(plan.target.buffer_length, np.float32)
        with gl.use_backend("cupy"), pytest.raises(MemoryError, match="bytes of page-locked memory: "):
            plan.stream(values, out, max_bytes=LIMIT)
        assert not out.any()
    finally:
        cp.cuda.set_pinned_memory_allocator(pool.malloc)


# ---- order ---------------------------------------------------------------------------------------------------------


@on_gpu_alone
@pytest.mark.parametrize("kind", ["null", "non-blocking"])
def test_a_stream_waits_for_what_was_queued_before(cp, kind):
    """The array on the device is written just before, and the target was read just before."""
    plan = gl.plan(*PLAN)
    old, new = (host_buffer(plan.source, seed) for seed in (1, 2))
    with cp.cuda.Stream.null if kind == "null" else cp.cuda.Stream(non_blocking=True):
        buffer, late = cp.asarray(old), cp.asarray(new)
        out = np.zeros(plan.target.buffer_length, np.float32)
        keep_busy(cp)
        buffer[...] = late
        plan.stream(buffer, out, max_bytes=LIMIT)
        assert out.tobytes() == plan(new).tobytes()
        target = cp.zeros(plan.target.buffer_length, np.float32)
        keep_busy(cp)
        kept = target.copy()
        plan.stream(new, target, max_bytes=LIMIT)
        assert not kept.any() and same_bytes(cp, target, plan(new))


@on_gpu_alone
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_host_may_write_its_arrays_as_soon_as_the_call_returns(cp, direction):
    plan = gl.plan(*PLAN)
    values = host_buffer(plan.source)
    expected = plan(values)
    out = streamed(cp, plan, values, direction, max_bytes=LIMIT)
    values[...] = 0
    assert same_bytes(cp, cp.asarray(out), expected)
    with cp.cuda.Stream(non_blocking=True):  # no other stream has to wait
        assert same_bytes(cp, cp.asarray(out).copy(), expected)
