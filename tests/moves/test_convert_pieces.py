"""Moves with arithmetic as pieces: the elements, and the padding."""

import numpy as np
import pytest

import gpulayout as gl


@pytest.mark.parametrize(
    "target",
    [
        "s8[2,3]{1,0:PD(2,4)PV(lowest)}",
        "s8[2,3]{0,1:PD(3,5)PV(lowest)}",
        "s8[2,3]{1,0:PV(lowest)T(2,2)}",
        "f8e4m3fn[2,3]{1,0:PD(4,4)PV(highest)}",
        "bf16[2,3]{0,1:PD(3,3)PV(1)T(2,3)}",
        "s4[2,3]{1,0:PD(2,4)PV(lowest)E(4)}",
    ],
)
def test_padding_is_the_pad_value_of_the_target_whatever_the_steps_are(executor, target):
    shape = gl.parse_shape(target)
    numbers = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    given = executor.array(np.ascontiguousarray(numbers))
    found = executor.host(gl.pack(given, shape, dtype=shape.element_type))
    expected = gl.pack(numbers.astype(shape.dtype), shape)
    assert found.tobytes() == expected.tobytes()


def test_fills_read_nothing():
    plan = gl.plan("f32[2,3]", "s8[2,3]{0,1:PD(3,5)}", dtype="s8", scale=2)
    assert [piece.move.element_count for piece in plan.pieces] == [6, 0, 0]
    assert plan.bytes_read == 24 and plan.bytes_written == 15


@pytest.mark.parametrize("dimensions", [(), (1,), (1, 1)])
def test_one_element_changes_too(executor, dimensions):
    array = np.full(dimensions, 7.6, np.float32)
    found = executor.host(gl.transpose(executor.array(array), dtype="s16", scale=2))
    assert found.shape == dimensions and found.tolist() == np.full(dimensions, 15).tolist()
    out = executor.array(np.zeros(1, np.int16))
    shape = gl.Shape("f32", dimensions)
    gl.relayout(executor.array(array.reshape(1)), shape, shape.layout, dtype="s16", out=out)
    assert executor.host(out).tolist() == [8]
