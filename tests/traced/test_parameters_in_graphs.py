"""Parameters of arithmetic inside functions that torch.compile compiles, in whatever form, and plans made there."""

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support.effort import ALL
from tests.support.graph_breaks import said

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo.testing")

X = torch.arange(6.0).reshape(2, 3) - 3
NUMBERS = np.array([0.1, 2.0, -0.0])
FORMS = {
    "a number": 0.3,
    "a list": [0.1, 2.0, 0.0],
    "an array of f64": NUMBERS,
    "an array of f32": NUMBERS.astype(np.float32),
    "an array of f16": NUMBERS.astype(np.float16),
    "an array of integers": np.array([[1], [-2]]),
    "an array of u8": np.array([1, 2, 255], np.uint8),
    "an array of u64": np.array([1, 2, 2**64 - 1], np.uint64),
    "an array of rank 0": np.array(0.3),
    "a number of NumPy": np.float32(0.3),
    "an integer of NumPy": np.int64(3),
    "a list of numbers of NumPy": [np.float32(0.1), np.int64(2), 0.3],
    "lists of lists": [[np.float64(0.1), 3, 2.5], (np.int8(1), 0.1, np.float16(7))],
}
CALLS = {
    "pack": lambda x, p: gl.pack(x, "{0,1:PD(2,4)}", shift=p),
    "pack to f8": lambda x, p: gl.pack(x, "{0,1}", dtype="f8e4m3fn", scale=p).float(),
    "unpack": lambda x, p: gl.unpack(x.reshape(-1), "f32[2,3]", scale=p, divide=True),
    "relayout": lambda x, p: gl.relayout(x.reshape(-1), "f32[2,3]", "{0,1}", scale=p, shift=p),
    "relayout_many": lambda x, p: gl.relayout_many([(x.reshape(-1), "f32[2,3]", "{0,1}")], scale=p)[0],
    "transpose": lambda x, p: gl.transpose(x, "a b -> b a", dtype="f16", mean=p, std=2),
    "a plan": lambda x, p: gl.plan("f32[2,3]", "{0,1}", scale=p)(x),
    "a plan with names": lambda x, p: gl.plan("f32[2,3]", "{0,1}", shift=p, dtype="bf16", names="ab")(x.reshape(-1)),
    "an Array": lambda x, p: gl.asarray(x).to("{0,1}", scale=p).buffer,
}


@pytest.fixture(autouse=True)
def _forget():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def same(found, expected):
    return torch.equal(found, expected) and torch.equal(found.signbit(), expected.signbit())


@pytest.mark.one_in(12)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLS)
def test_parameters_are_part_of_the_graph(name, form):
    call, parameter = CALLS[name], FORMS[form]
    if name == "pack to f8" and form == "an array of u8":
        parameter = parameter.astype(np.int64)  # else it may be codes of powers of two
    compiled = torch.compile(lambda x: call(x, parameter), fullgraph=True, backend="eager")
    assert same(compiled(X), call(X, parameter))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CALLS)
def test_an_array_may_change_between_calls(name):
    """It is an input of the graph, so its numbers of now count, and none compiles again."""
    call, parameter, graphs = CALLS[name], np.array([1.0, 2.0, 3.0]), []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(call, fullgraph=True, backend=backend)
    for numbers in ([1.0, 2.0, 3.0], [0.1, -2.0, 5.0], [7.0, 8.0, 9.0]):
        parameter[:] = numbers
        assert same(compiled(X, parameter), call(X, parameter))
    assert len(graphs) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_zero_points_in_arrays_are_checked_when_the_graph_runs(backend):
    call = lambda x, zero: gl.pack(x, "C", dtype="s8", scale=0.5, zero_point=zero)  # noqa: E731
    compiled = torch.compile(call, fullgraph=True, backend=backend)
    for zero in (np.array([1, -128, 127]), np.array([0, 0, 3])):
        assert torch.equal(compiled(X, zero), call(X, zero))
    for zero in (np.array([1, -129, 127]), np.array([0, 128, 3])):
        with pytest.raises(RuntimeError, match=r"zero_point is outside the range of s8, -128\.\.127"):
            compiled(X, zero)


REFUSED = {
    "other sizes": (lambda x: gl.pack(x, "C", scale=np.ones(2)), gl.LayoutError, "scale of shape (2,) does not fit"),
    "of truth values": (lambda x: gl.pack(x, "C", scale=np.ones(3, bool)), TypeError, "scale holds pred elements"),
    "codes": (
        lambda x: gl.pack(x, "C", dtype="f8e4m3fn", scale=np.ones(3, np.uint8)),
        TypeError,
        "scale holds u8 elements beside f8e4m3fn",
    ),
    "a zero point of floats": (
        lambda x: gl.pack(x, "C", dtype="s8", scale=2, zero_point=np.ones(3)),
        TypeError,
        "zero_point holds f64 elements: it must hold integers",
    ),
    "a plan of other rank": (lambda x: gl.plan("f32[2,3]", "{0,1,2}")(x), gl.LayoutError, "has 3 entries for f32[2,3]"),
    "a plan of other sizes": (
        lambda x: gl.plan("f32[2,3]", "{0,1}", scale=[1.0, 2.0])(x),
        gl.LayoutError,
        "scale of shape (2,) does not fit",
    ),
    "a plan of no form": (
        lambda x: gl.plan("f32[2,3]", "{0,1}", scale=2.0, mean=3)(x),
        TypeError,
        "scale and mean do not go together",
    ),
    "a plan of no keyword": (lambda x: gl.plan("f32[2,3]", "{0,1}", scal=2.0)(x), TypeError, "did you mean scale?"),
    "a plan of other names": (lambda x: gl.plan("f32[2,3]", "{0,1}", names="abc")(x), gl.LayoutError, "has 3 names"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_says_so_in_a_graph_and_between_graphs(name):
    call, error, text = REFUSED[name]
    with pytest.raises(error) as caught:
        torch.compile(call, backend="eager")(X)
    assert text in str(caught.value)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(call, fullgraph=True, backend="eager")(X)
    assert text in said(caught.value)


def test_a_refused_call_spoils_no_later_one():
    call = lambda x, scale: gl.pack(x, "{0,1}", scale=scale)  # noqa: E731
    compiled = torch.compile(call, backend="eager", dynamic=True)
    with pytest.raises(gl.LayoutError):
        compiled(X, [1.0, 2.0])
    for scale in (torch.tensor(2.0), [1.0, 2.0, 3.0], 2.0, np.array(3.0)):
        assert same(compiled(X, scale), call(X, scale))


def test_a_plan_with_arithmetic_that_a_graph_made_is_whole_outside():
    def call(x, scale):
        plan = gl.plan("f32[2,3]", "a b -> b a", dtype="bf16", scale=scale)
        return plan(x), plan

    for scale in (2.0, [1.0, 2.0, 3.0], np.array([[1.0], [2.0]])):
        result, made = torch.compile(call, backend="eager")(X, scale)
        known = call(X, scale)[1]
        assert made == known and hash(made) == hash(known) and repr(made) == repr(known)
        assert torch.equal(made(X), result) and made.names == ("a", "b") and made.bytes_read == known.bytes_read


@pytest.mark.parametrize("scale", [np.ones(3), np.ones(3, np.float32), [1.0, 1.0, 1.0]], ids=["f64", "f32", "a list"])
def test_a_plan_keeps_its_numbers(scale):
    def call(x, scale):
        plan = gl.plan("f32[2,3]", "{0,1}", scale=scale)
        scale[0] = 100.0
        return plan(x), plan

    result, plan = torch.compile(call, backend="eager")(X, scale)
    assert torch.equal(result, X.T.reshape(-1)) and torch.equal(plan(X), result)
    scale[0] = 1.0
    made = torch.compile(lambda x, scale: gl.plan("f32[2,3]", "{0,1}", scale=scale), backend="eager")(X, scale)
    scale[0] = 100.0
    assert torch.equal(made(X), result)


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_program_keeps_the_numbers_of_arrays_or_is_an_error(strict):
    """torch itself exports an array that it traces as one without its numbers."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return gl.pack(x, "C", scale=NUMBERS)

    if strict:
        with pytest.raises(torch._dynamo.exc.Unsupported, match="scale is a NumPy array inside torch.export"):
            torch.export.export(Model(), (X,), strict=True)
    else:
        assert torch.equal(torch.export.export(Model(), (X,)).module()(X), gl.pack(X, "C", scale=NUMBERS))


UNTRACED = {
    "steps below 0": np.array([3.0, 2.0, 1.0])[::-1],
    "a recarray": np.array([1.0, 2.0, 3.0]).view(np.recarray),
    "f8": np.array([1, 2, 3], ml_dtypes.float8_e4m3fn),
    "powers of two": np.array([1, 2, 4], ml_dtypes.float8_e8m0fnu),
    "bf16": np.array([1, 2, 3], ml_dtypes.bfloat16),
}


@pytest.mark.skipif(not ALL, reason="torch compiles all that such a call runs, for 15 s; GPULAYOUT_TEST_ALL=1 runs it")
@pytest.mark.parametrize("form", UNTRACED)
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_arrays_that_torch_cannot_hold_run_between_graphs(form):
    scale = UNTRACED[form]
    assert same(torch.compile(lambda x: gl.pack(x, "C", scale=scale), backend="eager")(X), gl.pack(X, "C", scale=scale))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("options", [{"dtype": "f32"}, {"saturate": False, "dtype": "f32"}, {}])
@pytest.mark.parametrize("verb", ["unpack", "pack", "relayout", "transpose"])
def test_a_result_is_new_memory_where_nothing_changes(verb, options):
    calls = {
        "unpack": lambda x: gl.unpack(x, "f32[2,3]", **options),
        "pack": lambda x: gl.pack(x, "C", **options),
        "relayout": lambda x: gl.relayout(x, "f32[2,3]", "C", **options),
        "transpose": lambda x: gl.transpose(x, (0, 1), **options),
    }
    given = X.clone()
    torch.compile(lambda x: calls[verb](x).mul_(2), backend="eager", fullgraph=True)(given)
    assert torch.equal(given, X)
