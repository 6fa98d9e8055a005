"""Calls inside of functions that torch.compile compiles: in its graphs, or as they are, between its graphs."""

import sys

import numpy as np
import pytest

import gpulayout as gl
from tests.support.graph_breaks import said

PLAN = gl.plan("f32[2,3]", "{0,1}")
IN_THE_GRAPH = {
    "pack": lambda x: gl.pack(x * 2, "{0,1}") * 2,
    "unpack": lambda x: gl.unpack((x + 1).reshape(-1), "f32[3,2]{0,1}") * 2,
    "relayout": lambda x: gl.relayout((x + 1).reshape(-1), "f32[2,3]", "{0,1:PD(2,4)}") * 2,
    "transpose": lambda x: gl.transpose(x + 1, "a b -> b a") * 2,
    "plan": lambda x: PLAN((x + 1).reshape(-1)) * 2,
    "plan of an array": lambda x: PLAN(x + 1) * 2,
    "relayout_many": lambda x: gl.relayout_many([((x + 1).reshape(-1), "f32[2,3]", "{0,1}"), (x, "C", "F")])[1] * 2,
    "relayout_many with arithmetic": lambda x: gl.relayout_many([(x.reshape(-1), PLAN.source, "F")], scale=3)[0] * 2,
}
SILENT = {
    "shape_of": lambda x: (x * 2).sum() + gl.shape_of(x).nbytes,
}


def torch_axes(*axes):
    return sys.modules["torch"].tensor(axes)


# Calls that need memory, on six numbers: they run between graphs; with fullgraph=True an error says what to call.
BETWEEN = {
    "packed elements": (lambda x: gl.pack(x.byte(), "u4[6]{0:E(4)}"), "2 elements share a byte, and array libraries"),
    "a packed buffer": (lambda x: gl.unpack(x.byte(), "u4[12]{0:E(4)}"), "cannot be lowered: 2 elements share a byte"),
    "a packed plan": (lambda x: gl.plan("u4[6]", "{0:E(4)}")(x.byte()), "cannot be lowered: 2 elements share a byte"),
    "axes that are traced": (
        lambda x: gl.transpose(x.reshape(1, 2, 3), torch_axes(2, 0, 1)),
        "axes holds an array or a number of one, which torch.compile traces: write plain numbers",
    ),
    "axes of NumPy": (lambda x: gl.transpose(x.reshape(2, 3), np.array([1, 0])), "axes holds an array or a number"),
    "an axis of NumPy": (lambda x: gl.transpose(x.reshape(2, 3), [np.int64(1), 0]), "axes holds an array or a number"),
    "a size of NumPy": (lambda x: gl.transpose(x, "(a b) -> b a", b=np.int64(3)), "b holds an array or a number of"),
    "a list": (lambda x: x + gl.pack([1, 2], "f32[2]")[1].item(), "takes tensors inside of graphs"),
    "a block of NumPy": (lambda x: gl.pack(x, "{0}", scale=[1, 2], block=np.int64(3)), "block is a NumPy array inside"),
    "a type without arithmetic": (lambda x: gl.transpose(x, dtype="f8e8m0fnu"), "because PyTorch does not: call"),
    "a NumPy array": (
        lambda x: x + gl.relayout(np.ones(6), "f64[6]", "{0}")[0].item(),
        "takes tensors inside of graphs",
    ),
    "out of NumPy": (lambda x: x + gl.pack(x, "{0}", out=OUT)[0].item(), "takes tensors inside of graphs"),
    "view": (lambda x: gl.view(x, "f32[2,3]{0,1}") * 2, "gl.view is about memory: call gl.unpack or gl.transpose"),
    "view of an N-d array": (lambda x: gl.view(x.reshape(2, 3), "C") * 2, "gl.view is about memory: call gl.unpack"),
    "view by a pattern": (lambda x: gl.view(x.reshape(2, 3), "a b -> b a"), "gl.view is about memory: call gl.unpack"),
    "linearize": (lambda x: gl.linearize(x.long()[:2, None], "f32[9,9]") + 1, "gpulayout converts indices outside"),
    "linearize, clipped": (lambda x: gl.linearize(x.long()[:2], "f32[9,9]", mode="clip"), "indices outside of graphs"),
    "delinearize": (lambda x: gl.delinearize(x.long(), "f32[3,3]{0,1}"), "indices outside of graphs: call it before"),
    "convert_linear": (lambda x: gl.convert_linear(x.long(), "f32[3,3]", "F"), "indices outside of graphs: call it"),
    "many packed jobs": (
        lambda x: gl.relayout_many([(x, "f32[6]", "{0}"), (x.byte(), "u4[12]{0:E(4)}", "{0}")])[1],
        "job 1: element_size_in_bits 4 of u4[12]{0:E(4)} cannot be lowered",
    ),
    "many outputs": (
        lambda x: gl.relayout_many([(x, "f32[6]", "{0}")], out=[x.clone()])[0],
        "leave out= out, and use the results",
    ),
    "in place": (
        lambda x: gl.relayout(x, "f32[6]", "{0}", out=x, max_bytes=1 << 20),
        "leave max_bytes out, and",
    ),
}
WRONG = {
    "another type": (lambda x: gl.pack(x, "s32[6]"), TypeError, "array has dtype float32, but s32"),
    "another rank": (lambda x: gl.pack(x, "{1,0}"), gl.LayoutError, "minor_to_major (1, 0) has 2 entries"),
    "a short buffer": (lambda x: gl.unpack(x, "f32[7]"), BufferError, "buffer has 6 elements, but f32[7]{0} needs 7"),
    "text": (lambda x: gl.relayout(x, "f32[6", "{0}"), gl.LayoutError, "f32[6"),
    "a tuple as a layout": (lambda x: gl.pack(x, (0,)), TypeError, "not tuple: write gl.Layout((0,))"),
    "an empty tuple as a shape": (lambda x: gl.unpack(x, ()), TypeError, "not tuple: write gl.Shape('f32', ())"),
    "a job of another type": (
        lambda x: gl.relayout_many([(x, "f32[6]", "{0}"), (x, "s32[6]", "{0}")]),
        TypeError,
        "job 1: buffer has dtype float32, but s32",
    ),
    "a job of two parts": (
        lambda x: gl.relayout_many([(x, "f32[6]")]),
        TypeError,
        "it must be (buffer, source, target)",
    ),
    "a job whose scale does not fit": (
        lambda x: gl.relayout_many([(x, "f32[6]", "{0}")], scale=[1, 2, 3, 4, 5, 6, 7]),
        gl.LayoutError,
        "job 0: scale",
    ),
    "out of another type": (lambda x: gl.pack(x, "{0}", out=x.int()), TypeError, "out has dtype"),
    "out of other sizes": (lambda x: gl.pack(x, "{0}", out=x[1:].clone()), BufferError, "out has"),
}
OUT = np.zeros(6, np.float32)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_what_needs_memory_runs_between_graphs(torch, name):
    call, reason = BETWEEN[name]
    found = torch.compile(lambda x: call(x + 1), backend="eager")(torch.arange(6.0))
    assert found.equal(call(torch.arange(6.0) + 1))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(lambda x: call(x + 1), backend="eager", fullgraph=True)(torch.arange(6.0))
    assert reason in said(caught.value)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_errors_are_those_of_the_call(torch, name):
    call, error, text = WRONG[name]
    for run in (call, torch.compile(lambda x: call(x), backend="eager")):
        with pytest.raises(error) as caught:
            run(torch.arange(6.0))
        assert text in str(caught.value)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(lambda x: call(x), backend="eager", fullgraph=True)(torch.arange(6.0))
    assert text in said(caught.value)


@pytest.mark.parametrize("kind", ["torch", "NumPy"])
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_axes_in_an_array_may_change_between_calls(torch, kind):
    """torch.compile would make a constant of those of the first call."""
    compiled = torch.compile(lambda x, axes: gl.transpose(x, axes), backend="eager")
    given = torch.arange(24.0).reshape(2, 3, 4)
    for axes in ((2, 0, 1), (1, 0, 2), (0, 2, 1)):
        found = compiled(given, torch.tensor(axes) if kind == "torch" else np.array(axes))
        assert found.equal(given.permute(axes))


def test_out_may_be_a_longer_buffer(torch):
    def written(x, out):
        assert gl.pack(x, "{0:T(4)}", out=out, strict=False) is out
        return gl.relayout(out, "f32[6]{0:T(4)}", "{0}", strict=False) * 2

    outs = torch.full((2, 11), 7.0)
    results = [
        run(torch.arange(6.0), out)
        for run, out in zip((written, torch.compile(written, backend="eager", fullgraph=True)), outs)
    ]
    assert outs[0].equal(outs[1]) and results[0].equal(results[1]) and results[0].tolist() == [0, 2, 4, 6, 8, 10]


@pytest.fixture
def torch():
    module = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()
    yield module
    module._dynamo.reset()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("call", IN_THE_GRAPH.values(), ids=IN_THE_GRAPH)
def test_they_are_part_of_the_graph(torch, call):
    tensor = torch.arange(6.0).reshape(2, 3)
    compiled = torch.compile(call, backend="eager", fullgraph=True)
    assert compiled(tensor).equal(call(tensor)) and compiled(tensor + 1).equal(call(tensor + 1))


@pytest.mark.parametrize("call", SILENT.values(), ids=SILENT)
def test_they_run_without_a_warning(torch, call):
    runs_between_graphs(torch, call)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="gpulayout needs the memory of tensors: call it outside"):
        torch.compile(call, backend="eager", fullgraph=True)(torch.zeros(2, 3))


def runs_between_graphs(torch, call):
    tensor = torch.arange(6.0).reshape(2, 3)
    compiled = torch.compile(call, backend="eager")
    assert compiled(tensor).equal(call(tensor)) and compiled(tensor + 1).equal(call(tensor + 1))
    torch._dynamo.reset()
