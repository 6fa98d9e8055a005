"""User code with PyTorch and JAX: type checkers read it, with the types of the real libraries, and it runs.

As in `test_user_code`, `assert_type` states the static type of a result and checks the value when it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_origin

import numpy as np
import pytest

import gpulayout as gl

if TYPE_CHECKING:
    from typing import assert_type

    import jax
    import torch
else:
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")

    def assert_type(value, kind):
        """The value, which must be an instance of the type."""
        assert kind is Any or isinstance(value, get_origin(kind) or kind), (value, kind)
        return value


def test_tensors_in_tensors_out() -> None:
    matrix, line = torch.arange(6.0).reshape(2, 3), torch.arange(6.0)
    assert_type(gl.pack(matrix, "f32[2,3]{0,1}"), torch.Tensor)
    assert_type(gl.unpack(line, "f32[2,3]"), torch.Tensor)
    assert_type(gl.relayout(line, "f32[2,3]", "{0,1}"), torch.Tensor)
    assert_type(gl.plan("f32[2,3]", "{0,1}")(line), torch.Tensor)
    assert_type(gl.view(line, "f32[2,3]"), torch.Tensor)
    assert_type(gl.transpose(matrix, "a b -> b a"), torch.Tensor)
    assert_type(gl.pack(matrix, "f32[2,3]", out=line), torch.Tensor)
    host = np.empty(6, np.float32)
    assert gl.pack(matrix, "f32[2,3]", out=host).dtype == np.float32
    for found in gl.relayout_many([(line, "f32[2,3]", "{0,1}")]):
        assert_type(found, torch.Tensor)
    for found in gl.transpose_many([(matrix, "a b -> b a"), (matrix, "b a -> a b")]):
        assert_type(found, torch.Tensor)
    places = torch.arange(2)
    assert_type(gl.linearize((places, places), "f32[2,3]"), torch.Tensor)
    assert_type(gl.linearize(torch.zeros(2, 4, dtype=torch.int64), "f32[2,3]"), torch.Tensor)
    assert_type(gl.delinearize(places, "f32[2,3]"), torch.Tensor)
    assert_type(gl.convert_linear(places, "f32[2,3]", "{0,1}"), torch.Tensor)
    assert_type(gl.shape_of(matrix), gl.Shape)
    assert_type(gl.interop.from_torch_stride(matrix.stride(), matrix.shape, matrix.dtype), gl.Shape)
    assert_type(gl.interop.from_cute("(2,3):(1,2)", torch.bfloat16), gl.Shape)


def test_arrays_that_know_their_shape() -> None:
    array: gl.Array[torch.Tensor] = gl.asarray(torch.arange(6.0).reshape(2, 3))
    assert_type(array, gl.Array[torch.Tensor])
    assert_type(array.to("F").buffer, torch.Tensor)
    anything: gl.Array = array
    assert_type(anything.buffer, Any)
    tensors: gl.Array[torch.Tensor] = anything
    assert_type(tensors.logical(), torch.Tensor)
    assert_type(gl.asarray(jax.numpy.zeros((2, 3))).buffer, jax.Array)


def test_arithmetic_on_the_way_gives_tensors() -> None:
    matrix, line = torch.arange(6.0).reshape(2, 3), torch.arange(6.0)
    assert_type(gl.transpose(matrix, "a b -> b a", dtype=torch.bfloat16, scale=torch.tensor([1, 2, 3])), torch.Tensor)
    assert_type(gl.pack(matrix, "F", dtype="f16"), torch.Tensor)
    assert_type(gl.unpack(line, "f32[2,3]", dtype=torch.int8, scale=0.5, zero_point=1), torch.Tensor)
    assert_type(gl.relayout(line, "f32[2,3]", "F", mean=1.0, std=2.0), torch.Tensor)
    assert_type(gl.plan("f32[2,3]", "F", dtype="bf16")(line), torch.Tensor)
    assert_type(gl.transpose(jax.numpy.zeros((2, 3)), dtype=jax.numpy.bfloat16, shift=1), jax.Array)


def test_a_parameter_gives_a_tensor() -> None:
    parameter = torch.nn.Parameter(torch.arange(6.0), requires_grad=False)
    assert_type(gl.relayout(parameter, "f32[2,3]", "{0,1}"), torch.Tensor)


def test_arrays_of_jax_in_and_out() -> None:
    matrix, line = jax.numpy.zeros((2, 3)), jax.numpy.zeros(6)
    assert_type(gl.pack(matrix, "f32[2,3]{0,1}"), jax.Array)
    assert_type(gl.unpack(line, "f32[2,3]"), jax.Array)
    assert_type(gl.relayout(line, "f32[2,3]", "{0,1}"), jax.Array)
    assert_type(gl.view(line, "f32[2,3]"), jax.Array)
    assert_type(gl.transpose(matrix), jax.Array)
    assert_type(gl.delinearize(jax.numpy.arange(2), "f32[2,3]"), jax.Array)


def test_element_types_of_torch() -> None:
    assert_type(gl.Shape(torch.bfloat16, (2, 3)), gl.Shape)
    assert_type(gl.ElementType.of(torch.float8_e5m2), gl.ElementType)
