"""`plan.stream` on a GPU: the order of its copies and launches, its memory, and what an error leaves.

On the stand-in of ci/real_cupy, work runs in every order that CUDA allows: late, early, or at random between.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.choices import backends
from tests.gpu.test_streams import keep_busy
from tests.support.device_arrays import host_buffer, on_gpu_alone, same_bytes, using
from tests.support.gpu_gate import needs_devices
from tests.support.orders import RANDOM, orders

PLAN = ("f32[300,410]", "{0,1:T(8,16)}")
LIMIT = 40_000  # 34 blocks in two lanes
DIRECTIONS = ("up", "down", "through")


def streamed(cp, plan, values, direction, **options):
    """The result of a stream, in the memory where it belongs."""
    up, down = direction != "down", direction != "up"
    buffer = values if up else cp.asarray(values)
    out = (np if down else cp).zeros(plan.target.buffer_length, values.dtype)
    with gl.use_backend("cupy"):
        assert plan.stream(buffer, out=out, **options) is out
    return out


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
    with gl.use_backend("cupy"), using(cp, pool.malloc):
        plan.stream(buffer, out=out, max_bytes=2 << 20)
        assert 1 << 20 < pool.total_bytes() <= (2 << 20) + 2048 and pool.used_bytes() == 0
    assert same_bytes(cp, cp.asarray(out), plan(values))


@on_gpu_alone
def test_without_a_limit_the_blocks_fit_the_pool(cp):
    plan = gl.plan("f32[1500,2000]", "{0,1}")
    values, out = host_buffer(plan.source), np.zeros(plan.target.buffer_length, np.float32)
    pool = cp.cuda.MemoryPool()
    pool.set_limit(5 << 20)
    with gl.use_backend("cupy"), using(cp, pool.malloc):
        plan.stream(values, out=out)
        assert 2 << 20 < pool.total_bytes() <= 5 << 20
    assert out.tobytes() == plan(values).tobytes()


@on_gpu_alone
def test_memory_that_cannot_be_had_is_an_error_before_a_byte_is_written(cp):
    plan = gl.plan("f32[1500,2000]", "{0,1}")
    values, out = host_buffer(plan.source), np.zeros(plan.target.buffer_length, np.float32)
    pool = cp.cuda.MemoryPool()
    with gl.use_backend("cupy"), using(cp, pool.malloc):
        for limit, room in ((None, 1 << 19), (4 << 20, 5 << 19)):  # with 2 MB of its own accord it would fit
            pool.set_limit(room)
            with pytest.raises(MemoryError) as error:
                plan.stream(values, out=out, max_bytes=limit)
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
            plan.stream(values, out=out, max_bytes=LIMIT)
        assert not out.any()
    finally:
        cp.cuda.set_pinned_memory_allocator(pool.malloc)


# ---- order ---------------------------------------------------------------------------------------------------------


def wrong_results(cp, direction, random=RANDOM):
    """Yield the orders of work in which something is wrong.

    The array on the device is written just before the call, the target on the device is read just before it, and the
    host writes its source just after it.
    """
    plan = gl.plan(*PLAN)
    old, new = (host_buffer(plan.source, seed) for seed in (1, 2))
    expected, up, down = plan(new), direction != "down", direction != "up"
    for order in orders(random):
        with cp.cuda.Stream(non_blocking=True) as stream:
            values, buffer, late = new.copy(), cp.asarray(old), cp.asarray(new)
            target = cp.ones(plan.target.buffer_length, np.float32)
            stream.synchronize()
            keep_busy(cp, 10_000_000)
            if not up:
                buffer[...] = late
            read = target * 2
            out = np.zeros(plan.target.buffer_length, np.float32) if down else target
            with gl.use_backend("cupy"):
                plan.stream(values if up else buffer, out=out, max_bytes=LIMIT)
            values[...] = buffer[...] = 0
            found = out.tobytes() if down else cp.asnumpy(out.copy()).tobytes()
            right = found == expected.tobytes() and bool((read == 2).all())
        if not right:
            yield order


@on_gpu_alone
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_in_every_order_of_copies_and_launches_the_result_is_the_same(cp, direction):
    assert list(wrong_results(cp, direction)) == []


@on_gpu_alone
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_after_the_call_no_other_stream_has_to_wait(cp, direction):
    plan = gl.plan(*PLAN)
    values = host_buffer(plan.source)
    for _ in orders():
        out = streamed(cp, plan, values, direction, max_bytes=LIMIT)
        with cp.cuda.Stream(non_blocking=True):
            assert same_bytes(cp, cp.asarray(out).copy(), plan(values))


@on_gpu_alone
@pytest.mark.parametrize("device", [0, 1])
def test_a_device_that_is_not_current(cp, device):
    count = cp.cuda.runtime.getDeviceCount()
    if count <= device:
        pytest.skip(needs_devices(2, count))
    plan = gl.plan(*PLAN)
    values = host_buffer(plan.source)
    with cp.cuda.Device(device):
        buffer, out = cp.asarray(values), cp.zeros(plan.target.buffer_length, np.float32)
    cp.cuda.Device(device).synchronize()
    down = plan.stream(buffer, out=np.zeros(plan.target.buffer_length, np.float32), max_bytes=LIMIT)
    plan.stream(values, out=out, max_bytes=LIMIT)
    assert cp.cuda.runtime.getDevice() == 0 and down.tobytes() == plan(values).tobytes()
    with cp.cuda.Device(device):
        assert same_bytes(cp, out, plan(values))


@on_gpu_alone
def test_threads_stream_at_the_same_time(cp):
    plan = gl.plan(*PLAN)

    def work(number):
        values = host_buffer(plan.source, number)
        with cp.cuda.Stream(non_blocking=True):
            for direction in DIRECTIONS:
                out = streamed(cp, plan, values, direction, max_bytes=LIMIT)
                if not same_bytes(cp, cp.asarray(out), plan(values)):
                    return direction
        return None

    for _ in orders([1, 2]):
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(4))) == [None] * 4


@on_gpu_alone
def test_a_graph_cannot_capture_it_and_is_not_disturbed(cp):
    plan, out = gl.plan(*PLAN), cp.zeros(gl.plan(*PLAN).target.buffer_length, np.float32)
    values = host_buffer(plan.source)
    with cp.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(RuntimeError, match="^plan.stream waits for copies: a graph cannot capture it$"):
            plan.stream(values, out=out, max_bytes=LIMIT)
        stream.end_capture()
    assert not out.any()


# ---- errors in between ---------------------------------------------------------------------------------------------


class Stop(Exception):
    """What a progress function raises."""


def stop_after(blocks, error=Stop):
    """A progress function that raises after so many blocks."""
    calls = []

    def progress(done, total):
        calls.append((done, total))
        if len(calls) == blocks:
            raise error

    return progress


@on_gpu_alone
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_an_error_leaves_nothing_under_way_and_says_what_is_written(cp, direction, error):
    assert list(unfinished(cp, direction, error)) == []


def unfinished(cp, direction, error=Stop, random=RANDOM):
    """Yield the orders of work in which something is written after a stream has failed, or the note is wrong."""
    plan = gl.plan(*PLAN)
    values, down = host_buffer(plan.source), direction != "up"
    blocks = plan.blocks(LIMIT // 2 - 16)
    expected = plan(values).view(np.uint8)
    for order in orders(random):
        out = (np if down else cp).zeros(plan.target.buffer_length, np.float32)
        buffer = cp.asarray(values) if direction == "down" else values
        cp.cuda.Device().synchronize()
        with gl.use_backend("cupy"), pytest.raises(error) as raised:
            plan.stream(buffer, out=out, max_bytes=LIMIT, progress=stop_after(5, error))
        with cp.cuda.Stream(non_blocking=True):
            before = cp.asnumpy(cp.asarray(out).copy()).tobytes()
        cp.cuda.Device().synchronize()  # whatever is under way ends here
        after = cp.asnumpy(out)
        complete = [
            (block.target_runs.of(after.view(np.uint8)) == block.target_runs.of(expected)).all() for block in blocks
        ]
        cut = f"{len(blocks)} blocks of plan.blocks({blocks.max_bytes})"
        note = f"plan.stream has written the first 5 of {cut}, and nothing is under way"
        said = raised.value.__notes__
        if before != after.tobytes() or not all(complete[:5]) or all(complete) or list(said) != [note]:
            yield order


@on_gpu_alone
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_launch_that_fails(cp, direction, monkeypatch, plans_anew):
    plan, values = gl.plan(*PLAN), host_buffer(gl.parse_shape(PLAN[0]))
    runtime, calls = backends.gpu_module(), []
    launch = runtime._launch_kernel

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 12:
            raise cp.cuda.driver.CUDADriverError(719)
        launch(*arguments)

    monkeypatch.setattr(runtime, "_launch_kernel", failing)
    with pytest.raises(cp.cuda.driver.CUDADriverError) as raised:
        streamed(cp, plan, values, direction, max_bytes=LIMIT)
    assert "plan.stream has written the first " in str(raised.value.__notes__)
    monkeypatch.undo()
    assert same_bytes(cp, cp.asarray(streamed(cp, plan, values, direction, max_bytes=LIMIT)), plan(values))


@on_gpu_alone
def test_the_first_error_counts_if_the_device_fails_too(cp, monkeypatch):
    lane, failed = backends.gpu_module().CupyLane, []
    wait = lane.wait

    def failing(self):
        wait(self)
        if failed:
            raise RuntimeError("the device failed")

    def stop(done, total):
        failed.append(True)
        raise Stop

    monkeypatch.setattr(lane, "wait", failing)
    with pytest.raises(Stop):
        streamed(cp, gl.plan(*PLAN), host_buffer(gl.parse_shape(PLAN[0])), "up", max_bytes=LIMIT, progress=stop)
    with pytest.raises(RuntimeError, match="^the device failed"):
        streamed(cp, gl.plan(*PLAN), host_buffer(gl.parse_shape(PLAN[0])), "up", max_bytes=LIMIT)
