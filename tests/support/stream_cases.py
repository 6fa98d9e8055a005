"""`plan.stream` against the definition of both layouts, in every direction that an executor has."""

import numpy as np

import gpulayout as gl
from tests.support.block_cases import buffer_of, smallest_limit
from tests.support.executors import GUARD_BYTE, HostExecutor, guarded, guards_intact, source_buffer

HOST = HostExecutor("host", None)  # its arrays are NumPy's


def ways(executor):
    """Where a source and a target may live: on the host both, and with a GPU either there."""
    return [(HOST, HOST), (HOST, executor), (executor, HOST)] if executor.name == "cupy" else [(HOST, HOST)]


def check(executor, source, target, max_bytes, phase=0):
    """Stream the reference buffer of one shape into that of the other, between guards."""
    plan = gl.plan(source, target)
    for here, there in ways(executor):
        buffer = source_buffer(here, buffer_of(source), phase * source.itemsize)
        out, memory = guarded(there, np.uint8, target.nbytes, phase * target.itemsize, GUARD_BYTE)
        held = [side.view(_held(there if role else here, shape)) for role, side, shape in _sides(buffer, out, plan)]
        with gl.use_backend("cupy" if executor.name == "cupy" else "numpy"):
            assert plan.stream(held[0], out=held[1], max_bytes=max_bytes) is held[1]
        where = f"{source} to {target} in {max_bytes} bytes from {here.name} to {there.name}"
        assert there.host(out).tolist() == buffer_of(target).tolist(), where
        assert guards_intact(there, memory, phase * target.itemsize, target.nbytes), where
        assert here.host(buffer).tolist() == buffer_of(source).tolist(), where


def _sides(buffer, out, plan):
    return (0, buffer, plan.source), (1, out, plan.target)


def _held(executor, shape):
    """The dtype in which an executor holds the elements of a buffer."""
    dtype = shape.buffer_dtype
    return executor.backend.held(dtype) if executor.name == "cupy" else dtype


def limits_of(source, target, count):
    """The smallest limit for one lane, those around the smallest for two, and about `count` up to more than enough."""
    least, most = max(smallest_limit(source, target), 1, target.nbytes // 100), 2 * (source.nbytes + target.nbytes) + 32
    two = 2 * least + 32
    return sorted({least, two - 1, two, most, *range(least, most, max((most - least) // count, 1))})


def distinct_limits(source, target):
    """Every limit that cuts a relayout in another way than the one before, for one lane and for two."""
    plan, seen = gl.plan(source, target), set()
    least = max(smallest_limit(source, target), 1)
    for limit in range(least, 2 * (source.nbytes + target.nbytes) + 33):
        lanes = 2 if limit // 2 - 16 >= least else 1
        blocks = plan.blocks(limit // 2 - 16 if lanes == 2 else limit)
        key = lanes, len(blocks), blocks.block_bytes, *blocks[:1]
        if key not in seen:
            seen.add(key)
            yield limit
