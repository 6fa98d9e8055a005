"""Parameters of arithmetic that PyTorch and JAX trace: the values of calls on memory, also of other numbers."""

import functools
import pickle
import shutil

import numpy as np
import pytest

import gpulayout as gl
from tests.support.effort import ALL
from tests.support.graph_breaks import said
from tests.traced.test_traced_arithmetic import assert_same, host, tensor

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),  # by torch itself, in jvp
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),  # by torch itself, in export
]
RNG = np.random.default_rng(5)
FLOATS = RNG.standard_normal((8, 6)).astype(np.float32)
FLOATS[0, :4] = -0.0, 3e38, np.inf, np.nan
BYTES = RNG.integers(-128, 128, (8, 6)).astype(np.int8)
BACKEND = "inductor" if ALL and shutil.which("g++") else "aot_eager"
TILES = "f32[8,6]{0,1:T(4,4)}"
PACKED = gl.pack(FLOATS, TILES)


def numbers(*sizes, low=0.1, kind=np.float32):
    """Three times as many numbers: the parameters of three calls."""
    return [RNG.uniform(low, 3, sizes).astype(kind) for _ in range(3)]


def whole(*sizes):
    return [RNG.integers(-9, 9, sizes).astype(np.int32) for _ in range(3)]


# The call, its array, and the parameters of three calls.
CALLS = {
    "pack": (lambda x, s, t: gl.pack(x, TILES, scale=s, shift=t), FLOATS, numbers(6), numbers(8, 1, low=-3)),
    "pack, divided": (lambda x, s: gl.pack(x, "C", dtype="f8e4m3fn", scale=s, divide=True), FLOATS, numbers(6)),
    "pack, cut blocks": (
        lambda x, s: gl.pack(x, "{0,1:T(4,4)}", dtype="f16", scale=s, block=(5, 4)),
        FLOATS,
        numbers(2, 2),
    ),
    "pack, blocks": (lambda x, s: gl.pack(x, "{0,1:T(4,4)}", dtype="bf16", scale=s), FLOATS, numbers(4, 2)),
    "quantise": (
        lambda x, s, z: gl.pack(x, "{0,1}", dtype="s8", scale=s, zero_point=z),
        FLOATS,
        numbers(8, 1),
        whole(6),
    ),
    "dequantise": (
        lambda x, s, z: gl.transpose(x, dtype="f32", scale=s, zero_point=z),
        BYTES,
        numbers(),
        whole(8, 1),
    ),
    "unpack": (lambda x, m, s: gl.unpack(x, TILES, mean=m, std=s), PACKED, numbers(6), numbers(8, 1)),
    "relayout": (lambda x, s: gl.relayout(x, TILES, "{1,0:T(2,4)}", scale=s, shift=s), PACKED, numbers(1, 6)),
    "transpose": (lambda x, s: gl.transpose(x, "a (b c) -> c a b", c=2, scale=s, shift=0), FLOATS, numbers(6)),
    "a plan": (lambda x, s: gl.plan(TILES, "{1,0}", scale=s, dtype="f16")(x), PACKED, numbers(6)),
    "an Array": (lambda x, s: gl.Array(x, TILES).to("C", scale=s).buffer, PACKED, numbers(6)),
    "many": (lambda x, s: gl.relayout_many([(x, TILES, "C")], scale=s)[0], PACKED, numbers(8, 1)),
    "a list": (lambda x, s: gl.pack(x, "C", scale=[s, 2.0, s, 0.1, 3, s]), FLOATS, numbers()),
}
each_call = pytest.mark.parametrize("name", CALLS)


@pytest.fixture(name="torch")
def _torch():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo.testing")
    torch._dynamo.reset()
    yield torch
    torch._dynamo.reset()


@pytest.fixture(name="jax")
def _jax():
    return pytest.importorskip("jax")


def rounds(name, made=np.asarray):
    """The call, its array, and (arguments, expected) for each of three calls."""
    call, array, *parameters = CALLS[name]
    with np.errstate(all="ignore"):
        return call, array, [([made(each) for each in given], call(array, *given)) for given in zip(*parameters)]


# ---- PyTorch -------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@each_call
def test_a_tensor_is_an_input_of_the_graph(torch, name):
    """Its numbers may be others in the next call: nothing compiles again."""
    call, array, cases = rounds(name, tensor)
    count = torch._dynamo.testing.CompileCounterWithBackend(BACKEND)
    compiled, given = torch.compile(call, fullgraph=True, backend=count), tensor(array)
    for parameters, expected in cases:
        assert_same(compiled(given, *parameters), expected)
        assert_same(call(given, *parameters), expected)
    assert count.frame_count == 1


@pytest.mark.one_in(2)
@each_call
def test_parameters_that_a_transform_follows(torch, name):
    call, array, cases = rounds(name, tensor)
    given = tensor(array)
    stacks = [torch.stack(each) for each in zip(*[parameters for parameters, _ in cases])]
    found = torch.vmap(functools.partial(call, given))(*stacks)
    for each, (_, expected) in zip(found, cases):
        assert_same(each, expected)


KINDS = ("float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu", "int64", "int16", "uint8")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_every_type_of_parameter_is_rounded_as_on_memory(torch, kind):
    call = lambda x, s: gl.pack(x, "C", shift=s)  # noqa: E731
    given, scale = tensor(FLOATS), torch.tensor([1 / 3, 2.0, 5.7, 100.1, 3.0, 77.0]).to(getattr(torch, kind))
    if kind == "int64":
        scale = scale + (1 << 40) + 1
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert_same(compiled(given, scale), call(given, scale))


def model(torch, call, **buffers):
    """A module whose forward is the call on its buffers."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, value in buffers.items():
                self.register_buffer(name, value.clone())

        def forward(self, x):
            return call(x, *[getattr(self, name) for name in buffers])

    return Model()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", ["pack", "quantise", "transpose"])
def test_an_exported_program_keeps_its_buffers(torch, name, strict):
    call, array, cases = rounds(name, tensor)
    given, names = tensor(array), "ab"[: len(cases[0][0])]
    program = torch.export.export(model(torch, call, **dict(zip(names, cases[0][0]))), (given,), strict=strict)
    assert not [node for node in program.graph.nodes if "gpulayout" in str(node.target)]
    for run in (program.module(), program.run_decompositions().module()):
        for parameters, expected in cases:
            run.load_state_dict(dict(zip(names, parameters)))
            assert_same(run(given), expected)


def test_an_exported_transpose_with_an_open_batch(torch):
    call = lambda x, s: gl.transpose(x, "n a b -> n b a", dtype="f16", scale=s)  # noqa: E731
    batch = {"x": {0: torch.export.Dim("batch")}}
    stack, scale = tensor(np.stack([FLOATS, -FLOATS])), tensor(numbers(6)[0])
    program = torch.export.export(model(torch, call, s=scale), (stack,), dynamic_shapes=batch)
    longer = torch.cat([stack, 2 * stack])
    assert_same(program.module()(longer), call(longer, scale))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_zero_points_are_checked_when_the_graph_runs(torch, backend):
    call = lambda x, zero: gl.pack(x, "C", dtype="s8", scale=0.5, zero_point=zero)  # noqa: E731
    compiled, given = torch.compile(call, fullgraph=True, backend=backend), tensor(FLOATS)
    assert_same(compiled(given, torch.tensor(-128)), call(given, torch.tensor(-128)))
    for zero in (-129, 128):
        with pytest.raises(RuntimeError, match=r"zero_point is outside the range of s8, -128\.\.127"):
            compiled(given, torch.tensor(zero))


REFUSED = {
    "other sizes": ("scale", [1.0, 2.0], gl.LayoutError, "scale of shape (2,) does not fit"),
    "truth values": ("shift", [True] * 6, TypeError, "shift holds pred elements"),
    "complex numbers": ("std", [1j] * 6, TypeError, "std holds c64 elements"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_tensor_says_of_itself_is_checked_by_the_graph(torch, name):
    keyword, values, error, text = REFUSED[name]
    call = lambda x, given: gl.pack(x, "C", **{keyword: given})  # noqa: E731
    given, parameter = tensor(FLOATS), torch.tensor(values)
    for run in (call, torch.compile(call, backend="eager")):
        with pytest.raises(error) as caught:
            run(given, parameter)
        assert text in str(caught.value)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(call, fullgraph=True, backend="eager")(given, parameter)
    assert text in said(caught.value)


def test_codes_of_powers_of_two_are_told_in_the_words_of_torch(torch):
    compiled = torch.compile(lambda x, s: gl.pack(x, "C", dtype="f8e4m3fn", scale=s), fullgraph=True, backend="eager")
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"write scale.view\(torch.float8_e8m0fnu\) if these are"):
        compiled(tensor(FLOATS), torch.ones(6, dtype=torch.uint8))


# ---- gradients of PyTorch ------------------------------------------------------------------------------------------

# Of two parameters each, on six numbers of f64.
FOLLOWED = {
    "scale and shift": lambda x, s, t: gl.pack(x, "{0,1:PD(3,3)PV(one)}", scale=s, shift=t),
    "divided": lambda x, s, t: gl.transpose(x, "a b -> b a", scale=s, shift=t, divide=True),
    "normalise": lambda x, s, t: gl.unpack(x.reshape(-1), "f64[2,3]", mean=t, std=s),
    "blocks": lambda x, s, t: gl.relayout(x.reshape(-1), "f64[2,3]", "F", scale=s[:2], shift=t, block=2),
    "dequantise": lambda x, s, t: gl.pack((x > 0).to(x.device).byte(), "C", dtype="f64", scale=s, zero_point=1) + t[0],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_followed", [False, True], ids=["x is not", "x too"])
@pytest.mark.parametrize("name", FOLLOWED)
def test_gradients_to_parameters(torch, name, is_followed):
    """On memory, in a graph and in torch.func."""
    call = FOLLOWED[name]
    x = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    s = torch.tensor([0.5, 2.0, 1.25], dtype=torch.float64).requires_grad_()
    t = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64).requires_grad_()
    given = (x.requires_grad_() if is_followed and name != "dequantise" else x, s, t)
    assert call(*given).equal(call(*[each.detach() for each in given]))
    assert torch.autograd.gradcheck(call, given, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, given, fast_mode=True)
    expected = torch.autograd.grad(call(*given).square().sum(), (s, t))
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*given).square().sum(), (s, t))
    plain = [each.detach() for each in given]
    transformed = torch.func.grad(lambda *each: call(*each).square().sum(), (1, 2))(*plain)
    for one, other, third in zip(expected, found, transformed):
        assert torch.allclose(one, other, rtol=1e-14) and torch.allclose(one, third, rtol=1e-14)


def test_the_gradient_of_a_parameter_is_that_of_torch_s_own_product(torch):
    """Also where the cast saturates, which passes gradients on."""
    x, weights = tensor(FLOATS[1:]), torch.rand(7, 6)
    mine, own = (tensor(np.float32([1, 1e6, 3, 4, 5, 6])).requires_grad_() for _ in range(2))
    found = gl.transpose(x, (0, 1), dtype="f16", scale=mine)
    found.backward(weights.half())
    (x * own).backward(weights.half().float())
    assert found.dtype == torch.float16 and mine.grad.equal(own.grad)


def test_a_parameter_is_read_as_it_is_where_no_gradient_is_recorded(torch):
    scale = torch.ones(6, requires_grad=True)
    with torch.no_grad():
        assert not gl.pack(tensor(FLOATS), "C", scale=scale).requires_grad
    assert not gl.pack(tensor(FLOATS), "C", dtype="s8", scale=scale).requires_grad


UNFOLLOWED = {
    "a NumPy array": lambda s: gl.pack(FLOATS, "C", scale=s),
    "out": lambda s: gl.pack(tensor(FLOATS), "C", scale=s, out=OUT),
    "a plan": lambda s: gl.plan(TILES, "C", scale=s),
    "in place": lambda s: gl.relayout(OUT, "f32[8,6]", "F", scale=s, out=OUT, max_bytes=1 << 20),
    "a list": lambda s: gl.pack(FLOATS, "C", scale=[s[0], 2.0, 3, 4, 5, 6]),
    "numbers": lambda s: gl.pack([1.0] * 6, "f32[6]", scale=s),
}
OUT = None


@pytest.mark.parametrize("name", UNFOLLOWED)
def test_where_a_gradient_would_be_lost_is_an_error(torch, name):
    global OUT
    OUT, scale = torch.full((48,), 7.0), torch.ones(6, requires_grad=True)
    with pytest.raises(BufferError) as caught:
        UNFOLLOWED[name](scale)
    assert str(caught.value) == (
        "scale requires a gradient or has a tangent, which would not follow it into this call: tensors take it in "
        "gl.transpose, pack, unpack and relayout without out=; else pass scale.detach()"
    )
    assert OUT.tolist() == [7] * 48 and repr(pickle.loads(pickle.dumps(caught.value))).startswith("BufferError(")


# ---- modules -------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["a tensor", "a parameter"])
@pytest.mark.parametrize("name", ["Pack", "Unpack", "Relayout", "Transpose"])
def test_modules_with_tensors(torch, name, kind):
    scale = torch.tensor([1.0, 2.0, 3.0])
    if kind == "a parameter":
        scale = torch.nn.Parameter(scale)
    given = torch.arange(6.0) if name in ("Unpack", "Relayout") else torch.arange(6.0).reshape(2, 3)
    made = {
        "Pack": lambda: gl.torch.Pack("{0,1}", scale=scale),
        "Unpack": lambda: gl.torch.Unpack("f32[2,3]", scale=scale),
        "Relayout": lambda: gl.torch.Relayout("f32[2,3]", "{0,1}", scale=scale),
        "Transpose": lambda: gl.torch.Transpose("a b -> b a", scale=scale),
    }[name]()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    exported = torch.export.export(made, (given,)).module()
    results = [run(given) for run in (made, compiled, exported)]
    assert results[0].equal(results[1]) and results[0].equal(results[2]) and results[0].sum() == 34
    assert [*made.state_dict()] == (["scale"] if kind == "a parameter" else [])
    if kind == "a parameter":
        assert "scale=Parameter(3,)" in repr(made) or name == "Relayout"
        for run in (made, compiled):
            scale.grad = None
            run(given).sum().backward()
            assert scale.grad.tolist() == [3, 5, 7]
        with torch.no_grad():
            scale.mul_(2)
        assert made(given).sum() == compiled(given).sum() == 68


# ---- JAX -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@each_call
def test_a_tracer_is_an_input_of_the_jaxpr(jax, name):
    call, array, cases = rounds(name)
    traces = []

    def counted(*given):
        traces.append(given)
        return call(*given)

    for jitted in (jax.jit(counted), jax.jit(functools.partial(counted, array))):
        traces.clear()
        for parameters, expected in cases:
            given = (array, *parameters) if jitted.__wrapped__ is counted else parameters
            assert_same(jitted(*given), expected)
        assert len(traces) == 1
    jaxpr = jax.make_jaxpr(call)(array, *cases[0][0])
    assert len(jaxpr.jaxpr.invars) == 1 + len(cases[0][0])
    assert_same(jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, array, *cases[2][0])[0], cases[2][1])


@pytest.mark.one_in(3)
@each_call
def test_tracers_of_vmap_and_scan(jax, name):
    call, array, cases = rounds(name)
    stacks = [np.stack(each) for each in zip(*[parameters for parameters, _ in cases])]
    mapped = jax.vmap(functools.partial(call, array))(*stacks)
    scanned = jax.lax.scan(lambda carry, each: (carry, call(array, *each)), 0, tuple(stacks))[1]
    for number, (_, expected) in enumerate(cases):
        assert_same(mapped[number], expected)
        assert_same(scanned[number], expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["scale and shift", "divided", "normalise", "blocks"])
def test_gradients_of_jax_to_parameters(jax, name):
    check = pytest.importorskip("jax.test_util").check_grads
    call, given = FOLLOWED[name], (np.random.default_rng(1).standard_normal((2, 3)), [0.5, 2, 1.25], [1.0, -2, 3])
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(each, float) for each in given]
        check(lambda *each: call(*each) ** 2, arrays, order=2)
        alone = jax.jit(jax.grad(lambda s: call(arrays[0], s, arrays[2]).sum()))(arrays[1])
        both = jax.grad(lambda x, s: call(x, s, arrays[2]).sum(), 1)(*arrays[:2])
        np.testing.assert_allclose(alone, both, rtol=1e-14)


def test_steps_with_constants_made_in_the_graph_keep_their_rounding(jax, torch):
    """Compilers drop a sum with 0, which makes 0 of -0, and multiply by the reciprocal of a constant divisor."""
    x = np.linspace(-3, 3, 97, dtype=np.float32)
    x[0] = -0.0
    for call, value in ((lambda x, s: gl.pack(x, "C", shift=s), 0), (lambda x, s: gl.pack(x, "C", std=s), 0.3)):
        expected = call(x, np.float32(value))
        assert_same(jax.jit(lambda x: call(x, jax.numpy.full((), value)))(x), expected)  # noqa: B023
        compiled = torch.compile(lambda x: call(x, torch.full((), value)), fullgraph=True, backend=BACKEND)  # noqa: B023
        assert_same(compiled(tensor(x)), expected)


def test_what_jax_cannot_take_is_an_error(jax, torch):
    call = lambda x: jax.jit(lambda s: gl.pack(x, "C", scale=s))(np.float32(2))  # noqa: E731
    with pytest.raises(TypeError, match="array has dtype float64, which JAX has only with jax_enable_x64"):
        call(FLOATS.astype(np.float64))
    for array in (tensor(FLOATS), [1.0]):
        with pytest.raises(BufferError, match=r"scale is an array without memory \(\w+Tracer\), whose numbers are not"):
            jax.jit(lambda s: gl.pack(array, "f32[1]", scale=s))(np.float32(2))  # noqa: B023
    with pytest.raises(gl.LayoutError, match=r"scale of shape \(5,\) does not fit an array of shape \(8, 6\)"):
        jax.jit(lambda s: gl.plan(TILES, "C", scale=s)(PACKED))(np.ones(5, np.float32))


def test_a_zero_point_out_of_range_saturates_in_jax(jax):
    """Nothing can raise an error for a number that nobody knows yet."""
    found = jax.jit(lambda z: gl.pack(np.float32([1, -50]), "C", dtype="s8", scale=1.0, zero_point=z))(200)
    assert found.tolist() == [127, 127]
    assert host(found).dtype == np.int8
