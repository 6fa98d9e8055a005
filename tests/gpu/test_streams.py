"""Launches ordered on streams, from several threads, for other devices, and with arrays dropped early; compared with
NumPy's results.

Tests that need no real stream also run on the fake CuPy.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpulayout as gl
from tests.support import fake_cupy
from tests.support.device_arrays import host_buffer, on_gpu_alone, same_bytes
from tests.support.gpu_gate import needs_devices
from tests.support.waiting import HANG

SPIN = """extern "C" __global__ void spin(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
}"""


def keep_busy(cp, cycles=1_000_000_000):
    """About half a second of work on the current stream."""
    cp.RawKernel(SPIN, "spin")((1,), (1,), (np.int64(cycles),))


@on_gpu_alone
@pytest.mark.parametrize("kind", ["null", "blocking", "non-blocking"])
def test_a_call_waits_its_turn_on_the_current_stream_and_the_host_does_not(cp, kind):
    stream = {
        "null": cp.cuda.Stream.null,
        "blocking": cp.cuda.Stream(),
        "non-blocking": cp.cuda.Stream(non_blocking=True),
    }[kind]
    plan = gl.plan("f32[500,700]", "{0,1}")
    old, new = (host_buffer(plan.source, seed) for seed in (1, 2))
    with stream:
        buffer, early, late = (cp.asarray(values) for values in (old, old, new))
        out, result = (cp.zeros(plan.target.buffer_size, np.float32) for _ in range(2))
        for cycles in (1, 1_000_000_000):  # the first round compiles and loads the kernels
            buffer[...] = early
            stream.synchronize()
            keep_busy(cp, cycles)
            buffer[...] = late  # runs when the stream is free again,
            plan(buffer, out=out)  # as does this;
            result[...] = out
            out[...] = 0  # this comes last
            running = not stream.done
        assert running, "the host waited for the stream"
        stream.synchronize()
    assert same_bytes(cp, result, plan(new))


def test_threads_with_streams_of_their_own_share_a_plan(cp):
    plan = gl.plan("f32[40,70]", "{0,1:PD(41,70)PV(3)}")
    barrier = threading.Barrier(4, timeout=HANG)

    def work(number):
        wrong = []
        with cp.cuda.Stream(non_blocking=True) as stream:
            given = [host_buffer(plan.source, 100 * number + turn) for turn in range(20)]
            buffers = [cp.asarray(values) for values in given]
            outs = [cp.zeros(plan.target.buffer_size, np.float32) for _ in given]
            stream.synchronize()
            barrier.wait()
            for buffer, out in zip(buffers, outs):
                plan(buffer, out=out)
            stream.synchronize()
            wrong = [
                turn for turn, (values, out) in enumerate(zip(given, outs)) if not same_bytes(cp, out, plan(values))
            ]
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [[]] * 4


@pytest.mark.parametrize("stream_kind", ["null", "non-blocking"])
def test_arrays_may_be_dropped_right_after_the_call(cp, stream_kind):
    """Their memory returns to the pool of the current stream, and its next use there comes after the launch."""
    plan = gl.plan("f32[300,410]", "{0,1}")
    given = [host_buffer(plan.source, seed) for seed in range(12)]
    with cp.cuda.Stream.null if stream_kind == "null" else cp.cuda.Stream(non_blocking=True) as stream:
        sources = [cp.asarray(values) for values in given]
        plan(sources[0].copy(), out=cp.zeros(plan.target.buffer_size, np.float32))
        stream.synchronize()
        if cp.__version__ != fake_cupy.VERSION:
            keep_busy(cp)  # so that everything below waits together
        results = []
        for number, source in enumerate(sources):
            buffer = source.copy()
            if number % 2:
                results.append(plan(buffer))
            else:
                out = cp.empty(plan.target.buffer_size, np.float32)
                plan(buffer, out=out)
                results.append(out.copy())
                del out
            del buffer
            cp.full(plan.source.buffer_size, 0, np.float32)
        stream.synchronize()
        assert [
            number
            for number, (values, result) in enumerate(zip(given, results))
            if not same_bytes(cp, result, plan(values))
        ] == []


@pytest.mark.parametrize("device", [0, 1])
def test_a_thread_that_never_used_a_device_launches_there(cp, device):
    """A driver call needs a context that is current in its thread; a new thread has none."""
    count = cp.cuda.runtime.getDeviceCount()
    if count <= device:
        pytest.skip(needs_devices(2, count))
    plan = gl.plan("f32[40,70]", "{0,1:PD(41,70)PV(3)}")
    values = host_buffer(plan.source)
    with cp.cuda.Device(device):
        buffer, out = cp.asarray(values), cp.zeros(plan.target.buffer_size, np.float32)
        plan(buffer, out=out)  # this thread compiles and loads the kernels
        out[...] = 0
        cp.cuda.get_current_stream().synchronize()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(plan, buffer, out=out).result() is out
        assert pool.submit(cp.cuda.runtime.getDevice).result() == 0
    with cp.cuda.Device(device):
        assert same_bytes(cp, out, plan(values))


def test_arrays_of_a_device_that_is_not_current(cp):
    count = cp.cuda.runtime.getDeviceCount()
    if count < 2:
        pytest.skip(needs_devices(2, count))
    plan = gl.plan("f32[40,70]", "{0,1:PD(41,70)PV(3)}")
    given = [host_buffer(plan.source, seed) for seed in range(2)]
    outs = []
    for device, values in enumerate(given):
        with cp.cuda.Device(device):
            outs.append((cp.asarray(values), cp.zeros(plan.target.buffer_size, np.float32)))
            cp.cuda.get_current_stream().synchronize()
    for _ in range(2):
        for buffer, out in outs:
            plan(buffer, out=out)
            assert cp.cuda.runtime.getDevice() == 0
    fresh = plan(outs[1][0])
    assert fresh.device.id == 1 and cp.cuda.runtime.getDevice() == 0
    for device, (values, (_, out)) in enumerate(zip(given, outs)):
        with cp.cuda.Device(device):
            assert same_bytes(cp, out, plan(values))
    with cp.cuda.Device(1):
        assert same_bytes(cp, fresh, plan(given[1]))
