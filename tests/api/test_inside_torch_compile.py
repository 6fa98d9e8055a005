"""Calls inside of functions that torch.compile compiles: they run as they are, between its graphs."""

import pytest

import gpulayout as gl

PLAN = gl.plan("f32[2,3]", "{0,1}")
SILENT = {
    "pack": lambda x: gl.pack(x * 2, "{0,1}") * 2,
    "transpose": lambda x: gl.transpose(x + 1, "a b -> b a") * 2,
    "plan": lambda x: PLAN(x + 1) * 2,
    "shape_of": lambda x: (x * 2).sum() + gl.shape_of(x).nbytes,
}
WITH_A_WARNING = {  # torch reports the cache of shapes' texts
    "relayout_many": lambda x: gl.relayout_many([((x + 1).reshape(-1), "f32[2,3]", "{0,1}")])[0] * 2,
    "view": lambda x: gl.view((x + 1).reshape(-1), "f32[2,3]{0,1}") * 2,
    "a layout for an N-d array": lambda x: gl.view(x + 1, "C") * 2,
    "linearize": lambda x: gl.linearize(x.long(), "f32[9,9]") + 1,
}


@pytest.fixture
def torch():
    module = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo").reset()
    yield module
    module._dynamo.reset()


@pytest.mark.parametrize("call", SILENT.values(), ids=SILENT)
def test_they_run_without_a_warning(torch, call):
    runs_between_graphs(torch, call)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="gpulayout works on the memory of plain tensors, outside"):
        torch.compile(call, backend="eager", fullgraph=True)(torch.zeros(2, 3))


@pytest.mark.parametrize("call", WITH_A_WARNING.values(), ids=WITH_A_WARNING)
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_they_run(torch, call):
    runs_between_graphs(torch, call)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(call, backend="eager", fullgraph=True)(torch.zeros(2, 3))


def runs_between_graphs(torch, call):
    tensor = torch.arange(6.0).reshape(2, 3)
    compiled = torch.compile(call, backend="eager")
    assert compiled(tensor).equal(call(tensor)) and compiled(tensor + 1).equal(call(tensor + 1))
    torch._dynamo.reset()
