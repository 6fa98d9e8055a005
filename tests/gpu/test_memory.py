"""The library with memory from every allocator of CuPy: pools, none, managed memory, and stream-ordered memory."""

import ctypes

import numpy as np
import pytest

import gpulayout as gl
from tests.support.device_arrays import host_buffer, on_gpu_alone, same_bytes, using

PLAN = ("f32[61,130]", "{0,1:PD(64,131)PV(7)}")


def counted(calls, allocate):
    """An allocator that records the requested sizes."""

    def recorded(size):
        calls.append(size)
        return allocate(size)

    return recorded


def allocators(cp):
    memory = cp.cuda.memory
    return {
        "none": memory._malloc,
        "pool": memory.MemoryPool().malloc,
        "managed": memory.malloc_managed,
        "pool of managed": memory.MemoryPool(memory.malloc_managed).malloc,
        "stream-ordered": memory.malloc_async,
        "stream-ordered pool": memory.MemoryAsyncPool().malloc,
    }


@on_gpu_alone
@pytest.mark.parametrize(
    "name", ["none", "pool", "managed", "pool of managed", "stream-ordered", "stream-ordered pool"]
)
def test_moves_and_indices_in_memory_of_any_allocator(cp, name):
    plan, calls = gl.plan(*PLAN), []
    given = [host_buffer(plan.source, seed) for seed in range(4)]
    with using(cp, counted(calls, allocators(cp)[name])):
        for stream in (cp.cuda.Stream.null, cp.cuda.Stream(non_blocking=True)):
            with stream:
                results = [plan(cp.asarray(values)) for values in given]  # each input is dropped at once
                assert all(same_bytes(cp, result, plan(values)) for values, result in zip(given, results))
                linear = gl.linearize(cp.asarray(np.indices((61, 130)).reshape(2, -1)), plan.target)
                assert (
                    cp.asnumpy(linear).tolist()
                    == gl.linearize(np.indices((61, 130)).reshape(2, -1), plan.target).tolist()
                )
                del results, linear
    assert len(calls) >= 2 * (2 * len(given) + 3)


@on_gpu_alone
def test_managed_memory_is_written_where_the_host_reads_it(cp):
    plan = gl.plan(*PLAN)
    values = host_buffer(plan.source)
    source, target = (cp.cuda.malloc_managed(shape.nbytes) for shape in (plan.source, plan.target))
    ctypes.memmove(source.ptr, values.ctypes.data, values.nbytes)
    buffer, out = (
        cp.ndarray((shape.buffer_size,), np.float32, memory)
        for shape, memory in ((plan.source, source), (plan.target, target))
    )
    assert plan(buffer, out=out) is out
    cp.cuda.Device().synchronize()
    assert ctypes.string_at(target.ptr, plan.target.nbytes) == plan(values).tobytes()


@on_gpu_alone
def test_an_out_in_pinned_host_memory_is_the_hosts(cp):
    plan = gl.plan(*PLAN)
    values, memory = host_buffer(plan.source), cp.cuda.alloc_pinned_memory(plan.target.nbytes)
    out = np.frombuffer(memory, np.float32, plan.target.buffer_size)
    assert plan(values, out=out) is out and out.tobytes() == plan(values).tobytes()
    with pytest.raises(BufferError, match="^buffer is on cuda:0 and out is on cpu: nothing is copied between devices$"):
        plan(cp.asarray(values), out=out)


@on_gpu_alone
def test_memory_that_a_device_does_not_have_is_refused_and_nothing_is_lost(cp):
    _, total = cp.cuda.runtime.memGetInfo()
    too_large = gl.Shape("u8", (2 * total,))
    with gl.use_backend("cupy"), pytest.raises(MemoryError):
        gl.zeros(too_large)
    values = host_buffer(gl.parse_shape("f32[6]"))
    assert same_bytes(
        cp, gl.relayout(cp.asarray(values), "f32[2,3]", "{0,1}"), gl.relayout(values, "f32[2,3]", "{0,1}")
    )
