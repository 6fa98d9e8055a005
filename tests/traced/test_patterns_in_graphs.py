"""A pattern that does not fit: calls in graphs and in traced functions say what calls on memory say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpulayout as gl

WRONG: dict[str, tuple[Any, dict[str, Any]]] = {
    "a split that leaves a rest": ("a b (c d) -> c b a d", {"c": 3}),
    "both parts of a split": ("a b (c d) -> c b a d", {"c": 3, "d": 5}),
    "the size of a whole axis": ("a b c -> c b a", {"a": 7}),
    "an axis that is not 1": ("1 b c -> c b", {}),
    "two open sizes": ("a b (c d) -> c b a d", {}),
    "too few axes": ("a b -> b a", {}),
    "an order that repeats": ((0, 1, 1), {}),
    "a size without an axis": ("a b c -> c b a", {"x": 3}),
    "a size beside numbers": ((2, 1, 0), {"x": 3}),
    "a size beside None": (None, {"x": 3}),
    "a size that is a bool": ("a b c -> c b a", {"a": True}),
    "a size that is a float": ("a b c -> c b a", {"a": 2.0}),
    "a size that is text": ("a b c -> c b a", {"a": "2"}),
    "a layout": (gl.Layout((2, 1, 0)), {}),
    "a shape": (gl.Shape("f32", (2, 3, 4)), {}),
    "one number": (1, {}),
    "too many axes": (f"a b c -> {'1 ' * 62}a b c", {}),
}
ERRORS = (gl.LayoutError, TypeError)


@pytest.fixture(params=WRONG.values(), ids=WRONG)
def wrong(request):
    """A call, and what it says of an array in memory."""
    axes, sizes = request.param
    with pytest.raises(ERRORS) as caught:
        gl.transpose(np.zeros((2, 3, 4), np.float32), axes, **sizes)
    return lambda array: gl.transpose(array, axes, **sizes), str(caught.value)


def test_in_jax(wrong):
    jax = pytest.importorskip("jax")
    call, message = wrong
    with pytest.raises(ERRORS) as caught:
        jax.jit(call)(jax.numpy.zeros((2, 3, 4)))
    assert same(str(caught.value), message)


@pytest.mark.one_in(5)
def test_in_a_graph_of_torch_compile(wrong):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()
    call, message = wrong
    with pytest.raises(ERRORS) as caught:  # the graph breaks, and the call runs on memory
        torch.compile(call, backend="eager")(torch.zeros(2, 3, 4))
    assert str(caught.value) == message
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported) as refused:
        torch.compile(call, backend="eager", fullgraph=True)(torch.zeros(2, 3, 4))
    assert message.partition(" for an array of")[0] in str(refused.value)
    torch._dynamo.reset()


def test_numbers_of_axes_are_constants_of_a_graph():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()
    array = torch.arange(24).reshape(2, 3, 4)
    compiled = torch.compile(lambda x, axis: gl.transpose(x, [axis, 1, 2 - axis]), backend="eager", fullgraph=True)
    for axis in (0, 2, 0):  # the second one makes a variable of the number
        assert compiled(array, axis).equal(array.permute(axis, 1, 2 - axis))
    torch._dynamo.reset()


def test_in_a_graph_with_open_sizes():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()
    compiled = torch.compile(lambda x: gl.transpose(x, "a (b c) -> b a c", b=3), backend="eager", dynamic=True)
    assert compiled(torch.zeros(2, 6)).shape == (3, 2, 2)
    with pytest.raises(gl.LayoutError, match=r"the array's shape \(2, 7\): axis 1 of size 7 is not 3 x c"):
        compiled(torch.zeros(2, 7))
    torch._dynamo.reset()


@pytest.mark.parametrize("options", [{"dtype": "bf16"}, {"scale": 2}], ids=str)
def test_with_arithmetic_in_a_graph(options):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()
    with pytest.raises(gl.LayoutError, match="has no c on the right"):
        torch.compile(lambda x: gl.transpose(x, "a b c -> b a", **options), backend="eager")(torch.zeros(2, 3, 4))
    torch._dynamo.reset()


def same(found, message):
    """Whether two messages are the same; where an order is wrong, a traced call names the rank instead of the shape."""
    return found.partition(" for an array of")[0] == message.partition(" for an array of")[0]
