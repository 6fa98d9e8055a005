"""What a call says is read once, and whatever it says counts: a call that differs in one thing is another call."""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.choices.backends import replace_host_backend
from gpulayout.cpu.run import NumpyBackend
from tests.support.kept import forget_transfers

ORDERS = "aabbab", "babbaa", "abab"  # of two calls: each comes first, runs again, and comes after the other


def values(*shape, dtype="f4"):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def pattern(text, joined, order, **sizes):
    """A transpose by a pattern that splits the first axis, and NumPy's words for it."""
    return (
        lambda array, out: gl.transpose(array, text, out=out, **sizes),
        lambda array: array.reshape(*joined, array.shape[-1]).transpose(order),
    )


SPLIT = values(6, 4)
# name: the array, then two calls, each with what NumPy says of it
PAIRS = {
    "a size of an axis": (
        SPLIT,
        pattern("(a b) c -> b a c", (2, 3), (1, 0, 2), a=2),
        pattern("(a b) c -> b a c", (3, 2), (1, 0, 2), a=3),
    ),
    "the name of a size": (
        SPLIT,
        pattern("(a b) c -> b a c", (2, 3), (1, 0, 2), a=2),
        pattern("(a b) c -> b a c", (3, 2), (1, 0, 2), b=2),
    ),
    "whose size it is": (
        values(12, 4),
        pattern("(a b d) c -> b a d c", (2, 3, 2), (1, 0, 2, 3), a=2, b=3),
        pattern("(a b d) c -> b a d c", (3, 2, 2), (1, 0, 2, 3), a=3, b=2),
    ),
    "axes": (
        values(3, 3, 3),
        (lambda array, out: gl.transpose(array, (2, 0, 1), out=out), lambda array: array.transpose(2, 0, 1)),
        (lambda array, out: gl.transpose(array, (1, 2, 0), out=out), lambda array: array.transpose(1, 2, 0)),
    ),
    "a number of arithmetic": (
        values(2, 3),
        (lambda array, out: gl.transpose(array, "a b -> b a", scale=2.0, out=out), lambda array: array.T * 2),
        (lambda array, out: gl.transpose(array, "a b -> b a", scale=3.0, out=out), lambda array: array.T * 3),
    ),
}


def tensor(array):
    return pytest.importorskip("torch").from_numpy(np.array(array))


@pytest.fixture(autouse=True)
def nothing_known():
    forget_transfers()
    yield
    forget_transfers()


@pytest.mark.parametrize("kind", [np.array, tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("order", ORDERS)
def test_calls_that_differ_in_one_thing_have_their_own_results(kind, name, order):
    array, *calls = PAIRS[name]
    for each in order:
        call, meant = calls[each == "b"]
        wanted = meant(array)
        out = kind(np.full(wanted.shape, -1, wanted.dtype))
        for found in (call(kind(array), None), call(kind(array), out)):
            assert tuple(found.shape) == wanted.shape and np.array_equal(np.asarray(found), wanted)
        assert found is out


def test_arrays_of_two_libraries_take_turns():
    """Each result is an array of the library whose array was given, and each output is the one that was given."""
    plan = gl.plan("f32[6,4]", "{0,1}")
    calls = {
        "transpose": lambda array, out: gl.transpose(array, (1, 0), out=out),
        "pattern": lambda array, out: gl.transpose(array, "a b -> b a", out=out),
        "plan": lambda array, out: plan(array.reshape(-1), out=None if out is None else out.reshape(-1)),
    }
    kinds = (np.array, tensor)
    for call in calls.values():
        for number, (kind, other) in enumerate([(a, b) for _ in range(3) for a in kinds for b in (*kinds, None)]):
            array = values(6, 4) + number
            out = None if other is None else other(np.zeros((4, 6), "f4"))
            found = call(kind(array), out)
            assert type(found) is type(kind(array) if out is None else out)
            for each in (found, found if out is None else out):
                assert np.asarray(each).ravel().tolist() == array.T.ravel().tolist()


def test_elements_that_come_as_unsigned_integers_leave_as_such():
    """From each kind of side to each; only packed elements have another type on one side."""
    codes = np.arange(6, dtype=np.uint16).reshape(2, 3)
    for found in (
        gl.pack(codes, "bf16[2,3]{0,1}"),
        gl.unpack(codes.reshape(-1), "bf16[2,3]{0,1}"),
        gl.relayout(codes.reshape(-1), "bf16[2,3]", "{0,1}"),
        gl.transpose(codes),
    ):
        assert found.dtype == np.uint16 and sorted(found.ravel().tolist()) == [0, 1, 2, 3, 4, 5]


# ---- outputs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.array, tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("verb", ["unpack", "transpose", "scaled"])
def test_an_output_of_another_shape_is_refused_though_its_strides_are_known(kind, verb):
    """It would be written beyond its end."""
    calls = {
        "unpack": lambda out: gl.unpack(kind(values(24)), "f32[4,6]", out=out),
        "transpose": lambda out: gl.transpose(kind(values(6, 4)), out=out),
        "scaled": lambda out: gl.transpose(kind(values(6, 4)), scale=2.0, out=out),
    }
    for _ in range(3):
        memory = kind(np.full((8, 10), -1, np.float32))
        for rows, columns in ((3, 6), (4, 5), (5, 6), (4, 7), (1, 6)):
            for _ in range(2):
                with pytest.raises(BufferError, match=rf"^out has shape \({rows}, {columns}\), but"):
                    calls[verb](memory[:rows, :columns])
        assert (np.asarray(memory) == -1).all()
        calls[verb](memory[:4, :6])
        assert (np.asarray(memory)[:4, :6] >= 0).all() and (np.asarray(memory)[4:] == -1).all()


@pytest.mark.parametrize("kind", [np.array, tensor], ids=["array", "tensor"])
def test_a_call_with_a_workspace_is_in_place_though_one_without_is_known(kind):
    plan = gl.plan("f32[6,4]", "{0,1}")
    calls = (plan, lambda buffer, **rest: gl.relayout(buffer, "f32[6,4]", "{0,1}", **rest))
    for call in calls:
        buffer, out = kind(values(24)), kind(np.full(24, -1, np.float32))
        for _ in range(3):
            assert call(buffer, out=out) is out
        out[:] = -1
        with pytest.raises(BufferError, match="needs out=buffer"):
            call(buffer, out=out, max_bytes=64)
        assert (np.asarray(out) == -1).all()
        assert call(buffer, out=buffer, max_bytes=64) is buffer
        assert np.asarray(buffer).tolist() == values(6, 4).T.ravel().tolist()


def test_a_call_with_a_workspace_needs_memory_though_one_without_is_known():
    torch = pytest.importorskip("torch")
    plan = gl.plan("f32[6,4]", "{0,1}")
    calls = (plan, lambda buffer, **rest: gl.relayout(buffer, "f32[6,4]", "{0,1}", **rest))
    for call in calls:
        batch = torch.arange(48.0).reshape(2, 24)
        wanted = batch.reshape(2, 6, 4).transpose(1, 2).flatten(1)
        for _ in range(2):
            assert torch.equal(torch.func.vmap(lambda buffer, call=call: call(buffer))(batch), wanted)
        with pytest.raises(TypeError, match="without memory of its own"):
            torch.func.vmap(lambda buffer, call=call: call(buffer, out=buffer, max_bytes=64))(batch)
        assert torch.equal(batch, torch.arange(48.0).reshape(2, 24))


# ---- backends ------------------------------------------------------------------------------------------------------


class Counted(NumpyBackend):
    """Counts what it prepares."""

    def __init__(self):
        super().__init__()
        self.prepared = 0

    def prepare(self, pieces):
        self.prepared += 1
        return super().prepare(pieces)


def test_a_new_backend_of_numpy_s_arrays_runs_calls_that_the_one_before_knows():
    plan = gl.plan("f32[6,4]", "{0,1}")
    calls = (lambda array: plan(array.reshape(-1)).reshape(4, 6), gl.transpose)
    for call in calls:
        for _ in range(3):
            call(values(6, 4))
        backend = Counted()
        before = replace_host_backend(backend)
        try:
            for first in range(3):
                assert (call(values(6, 4) + first) == (values(6, 4) + first).T).all()
        finally:
            replace_host_backend(before)
        assert backend.prepared == 1
