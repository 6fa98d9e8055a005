"""For tests on the imitation of CuPy: a prepared plan with its arrays, and the operations that reached the device."""

import numpy as np

import gpulayout as gl
from tests.support import fake_cuda

LAUNCH = "launch"


def kinds():
    """The kinds of operations that reached the device since the list was cleared."""
    return [call[0] for call in fake_cuda.calls]


def numbers(cupy, count, dtype=np.float32, first=0):
    return cupy.asarray((np.arange(count) + first).astype(dtype))


def prepared(cupy, source="f32[12,20]", target="{0,1}"):
    """(plan, buffer, out) after a first call, with nothing listed."""
    plan = gl.plan(source, target)
    buffer, out = (
        numbers(cupy, plan.source.buffer_size, plan.source.dtype),
        cupy.empty(plan.target.buffer_size, plan.source.dtype),
    )
    plan(buffer, out=out)
    fake_cuda.calls.clear()
    return plan, buffer, out


def expected(plan, buffer):
    return plan(np.array(buffer.view(np.ndarray))).tolist()
