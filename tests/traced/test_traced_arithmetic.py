"""Arithmetic on the way on arrays that JAX and PyTorch trace: the values of calls on memory, and gradients."""

import itertools
import math
import random

import numpy as np
import pytest

import gpulayout as gl
from tests.support.effort import ALL

FLOATS = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)
PIXELS = np.random.default_rng(1).integers(0, 256, (2, 4, 5, 3), np.uint8)
TILES = "f32[8,6]{0,1:T(4,4)}"
BUFFER = gl.pack(FLOATS, TILES)
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CALLS = {
    "normalise": (lambda x: gl.transpose(x, "n h w c -> n c h w", dtype="f32", unit=True, mean=MEAN, std=STD), PIXELS),
    "joined": (lambda x: gl.transpose(x, "n h w (c d) -> n (w h c) d", d=3, dtype="f16", scale=0.3, shift=1.7), PIXELS),
    "pack": (lambda x: gl.pack(x, "{0,1:PV(one)T(4,4)}", dtype="bf16", scale=0.3, shift=[1.0, 2, 3, 4, 5, 6]), FLOATS),
    "blocks": (lambda x: gl.pack(x, "C", dtype="f8e4m3fn", scale=[[1.5, 0.2], [3, 4]], divide=True), FLOATS),
    "cut blocks": (lambda x: gl.transpose(x, dtype="f16", scale=[[1.5, 0.2], [3, 4]], block=[5, 4]), FLOATS),
    "unpack": (lambda x: gl.unpack(x, TILES, dtype="f16", scale=0.3), BUFFER),
    "relayout": (lambda x: gl.relayout(x, TILES, "{1,0:T(4,4)}", dtype="s8", scale=0.03, zero_point=3), BUFFER),
    "plan": (gl.plan(TILES, "{1,0:T(4,4)}", dtype="bf16", scale=[[2.5], [3.5]], shift=1), BUFFER),
    "cast": (lambda x: gl.transpose(x, dtype="s8"), FLOATS),
    "no change": (lambda x: gl.transpose(x, dtype="f32"), FLOATS),
}
FORMS = (
    {},
    {"saturate": False},
    {"scale": 0.37, "shift": 1.7},
    {"shift": -3},
    {"unit": True, "mean": 0.45, "std": 0.22},
    {"scale": 0.37, "zero_point": 3},
    {"scale": 1.3, "divide": True},
    {"scale": 1.3, "shift": 0.7, "divide": True},
)
each_call = pytest.mark.parametrize("name", CALLS)


def host(array):
    """An array of any library as one of NumPy."""
    if isinstance(array, np.ndarray) or not hasattr(array, "element_size"):
        return np.asarray(array)
    name, array = str(array.dtype).removeprefix("torch."), array.detach().contiguous()
    if hasattr(np, name):
        return array.numpy()
    return array.view(torch().uint8).numpy().view(gl.ElementType.of(name).dtype)


def torch():
    return pytest.importorskip("torch")


def tensor(array):
    if array.dtype.type.__module__ == "numpy":
        return torch().from_numpy(array.copy())
    return torch().from_numpy(array.view(np.uint8).copy()).view(getattr(torch(), array.dtype.name))


def assert_same(found, expected, about=""):
    """Equal bit for bit, but for the bits of nans."""
    found, expected = host(found), host(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), about
    codes = f"u{found.itemsize}" if found.dtype.kind != "c" else found.dtype
    differ = found.view(codes) != expected.view(codes)
    if gl.ElementType.of(found.dtype).is_floating or found.dtype.kind == "c":
        with np.errstate(all="ignore"):
            differ &= ~(np.isnan(found.astype(complex)) & np.isnan(expected.astype(complex)))
    assert not differ.any(), (about, found[differ][:3], expected[differ][:3])


def values_of(kind, count=512):
    """Numbers of a type: ties, signed zeros, infinities, nans and numbers that are too large among them.

    No subnormal ones of 16 bits and more, which XLA takes as zeros on CPUs.
    """
    dtype = kind.dtype
    if dtype.itemsize == 1:
        codes = np.arange(count) % (2 if kind is gl.ElementType.PRED else 1 << kind.bits)
        if kind is gl.ElementType.F8E8M0FNU:
            codes[codes == 0] = 1  # 2^-127 is subnormal in f32
        return codes.astype(np.uint8).view(dtype)
    rng = np.random.default_rng(2)
    if not (kind.is_floating or kind.is_complex):
        found = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype).copy()
        found[::2] = rng.integers(0, 300, count // 2).astype(dtype)
        return found
    numbers = rng.standard_normal(count) * np.exp2(rng.uniform(-12, 12, count))
    numbers[::3] = np.round(numbers[::3] * 2) / 2
    numbers[:12] = 0, -0.0, math.inf, -math.inf, math.nan, 448, 464, 465, 65519, 65520, 2.0**31, 1.5
    with np.errstate(all="ignore"):
        return numbers.astype(dtype)


def cases(lacking):
    """(source, target, options, array, expected) for all pairs of types that both sides have."""
    for source, target, options in itertools.product(gl.ElementType, gl.ElementType, FORMS):
        if {source, target} & lacking or target is gl.ElementType.F8E8M0FNU:
            continue
        array = values_of(source)
        try:
            expected = gl.pack(array, "C", dtype=target, **options)
        except (TypeError, gl.LayoutError):  # a form that does not suit the types
            continue
        if kept(target, expected):
            yield source, target, options, array, expected


def kept(target, expected):
    """Whether XLA's compiler for CPUs does not take results as zeros."""
    if target.bits < 16 or not target.is_floating:
        return True
    with np.errstate(all="ignore"):
        numbers = np.abs(expected.astype(np.float64))
    least = 2.0**-1022 if target is gl.ElementType.F64 else 2.0**-126
    return not ((0 < numbers) & (numbers < least)).any()


def kinds(*names):
    return {kind for kind in gl.ElementType if kind.value in names or kind.value[:2] == "f6"}


def test_every_pair_of_types_in_torch():
    lacking = kinds("u64", "s1", "s2", "s4", "u1", "u2", "u4", "f4e2m1fn", "f8e4m3", "f8e3m4", "f8e4m3b11fnuz")
    count = 0
    for source, target, options, array, expected in cases(lacking):
        found = torch().vmap(lambda x: gl.pack(x, "C", dtype=target, **options))(tensor(array)[None])[0]
        assert_same(found, expected, f"{source} {target} {options}")
        count += 1
    assert count > 600


@pytest.mark.parametrize("jit", [True, False])
def test_pairs_of_types_in_jax(jit):
    jax = pytest.importorskip("jax")
    found = list(cases(kinds("s1", "u1")))
    assert len(found) > 1500
    with jax.enable_x64(True):
        for source, target, options, array, expected in random.Random(5).sample(found, 150 if ALL else 5):
            call = lambda x: gl.pack(x, "C", dtype=target, **options)  # noqa: E731
            result = jax.jit(call)(array) if jit else jax.vmap(call)(jax.device_put(array)[None])[0]
            assert_same(result, expected, f"{source} {target} {options}")


@pytest.mark.one_in(2)
@each_call
def test_calls_in_jax(name):
    jax = pytest.importorskip("jax")
    call, given = CALLS[name]
    assert_same(jax.jit(call)(given), call(given))
    assert_same(jax.jit(jax.vmap(call))(given[None])[0], call(given))


@pytest.mark.one_in(2)
@each_call
def test_calls_in_torch_compile(name):
    call, given = CALLS[name]
    torch().compiler.reset()
    assert_same(torch().compile(call, fullgraph=True, backend="eager")(tensor(given)), call(given))
    assert_same(torch().vmap(call)(tensor(given)[None])[0], call(given))
    with torch()._subclasses.FakeTensorMode() as mode:
        fake = call(mode.from_tensor(tensor(given)))
    assert (tuple(fake.shape), fake.dtype) == (call(given).shape, call(tensor(given)).dtype)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("target", ["u32", "s64"])
@pytest.mark.parametrize("source", ["f32", "f16", "bf16", "f64", "f8e5m2"])
def test_casts_to_wide_integers_are_one_graph(source, target):
    """The highest integer is none of the float type's numbers."""
    numbers = np.array([1.5, -3, 5e9, 3e19, math.nan, math.inf, -math.inf, 4294967040], np.float64)
    with np.errstate(over="ignore"):
        given = numbers.astype(gl.ElementType.of(source).dtype)
    call = lambda x: gl.transpose(x, (0,), dtype=target)  # noqa: E731
    torch().compiler.reset()
    assert_same(torch().compile(call, fullgraph=True, backend="eager")(tensor(given)), call(given))


def rounding(x, pixels):
    """What a compiler changes that fuses a product and a sum, or divides by multiplying."""
    return (
        gl.pack(x, "C", scale=0.37, shift=1.7),
        gl.pack(x, "C", dtype="f8e4m3fn", scale=0.37, divide=True),
        gl.pack(pixels, "C", dtype="f32", unit=True, mean=0.45, std=0.22),
        gl.pack(pixels, "C", dtype="f32", scale=0.37, shift=1.7),
    )


ROUNDED = np.random.default_rng(3).standard_normal(4096).astype(np.float32), np.arange(256, dtype=np.uint8)


def test_xla_rounds_each_step_once():
    for found, expected in zip(pytest.importorskip("jax").jit(rounding)(*ROUNDED), rounding(*ROUNDED)):
        assert_same(found, expected)


@pytest.mark.skipif(not ALL, reason="compiles C++; GPULAYOUT_TEST_ALL=1 runs it")
@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # of PyTorch's own imports
def test_inductor_rounds_each_step_once():
    torch().compiler.reset()
    compiled = torch().compile(rounding, fullgraph=True)
    for found, expected in zip(compiled(*map(tensor, ROUNDED)), rounding(*ROUNDED)):
        assert_same(found, expected)


def test_sizes_of_a_transpose_stay_open():
    torch().compiler.reset()
    call, graphs = CALLS["normalise"][0], []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch().compile(call, fullgraph=True, backend=backend, dynamic=True)
    for count in (2, 3, 5, 7, 9):
        batch = np.repeat(PIXELS, count, axis=0)
        assert_same(compiled(tensor(batch)), call(batch))
    assert len(graphs) <= 2


# ---- gradients -------------------------------------------------------------------------------------------------


def gradient(library, call, given, weights):
    """The gradient of the sum of a call's results times weights."""
    if library == "jax":
        jax = pytest.importorskip("jax")
        return np.asarray(jax.grad(lambda x: (call(x).astype("float32") * weights).sum())(given))
    return torch().func.grad(lambda x: (call(x).float() * tensor(weights)).sum())(tensor(given)).numpy()


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_gradients_are_scaled_and_cast_back(library):
    weights = np.arange(48, dtype=np.float32)
    factors = np.repeat(np.array([[2.0], [4]], np.float32), 4, 0)
    for target in ("f32", "bf16", "f16"):  # which hold the weights
        found = gradient(
            library, lambda x: gl.pack(x, "{0,1}", dtype=target, scale=[[2], [4]], shift=3), FLOATS, weights
        )  # noqa: B023
        assert_same(found, weights.reshape(6, 8).T * factors)
    found = gradient(library, lambda x: gl.pack(x, "{0,1}", mean=3, std=[[2], [4]], block=4), FLOATS, weights)
    assert_same(found, weights.reshape(6, 8).T / factors)
    found = gradient(
        library, lambda x: gl.relayout(x, TILES, "{1,0:PD(9,6)}", scale=2), BUFFER, np.arange(54.0, dtype="f4")
    )
    assert_same(found, gl.pack(2 * weights.reshape(8, 6), TILES))  # none comes from the padding
    found = gradient(library, lambda x: gl.transpose(x, dtype="f8e4m3fn"), 400 * FLOATS, np.ones((6, 8), np.float32))
    assert_same(found, np.ones((8, 6), np.float32))  # also where a number saturates


def test_integers_have_no_gradient():
    jax = pytest.importorskip("jax")
    found = jax.vjp(lambda x: gl.pack(x, "C", dtype="s8"), FLOATS)[1](np.zeros(48, jax.dtypes.float0))[0]
    assert not np.asarray(found).any()
    tracked = tensor(FLOATS).requires_grad_()
    compiled = torch().compile(lambda x: gl.pack(x, "C", dtype="s8"), fullgraph=True, backend="eager")
    assert not compiled(tracked).requires_grad


def test_derivatives_of_second_order():
    jax = pytest.importorskip("jax")
    check = pytest.importorskip("jax.test_util").check_grads
    check(lambda x: gl.pack(jax.numpy.sin(x), "{0,1:T(4,4)}", scale=[[2], [4]], shift=3) ** 2, (FLOATS,), order=2)


# ---- what stays refused ----------------------------------------------------------------------------------------


def test_types_that_the_libraries_lack_are_refused():
    jax = pytest.importorskip("jax")
    with pytest.raises(
        gl.LayoutError, match="f8e8m0fnu elements cannot be computed inside a traced function, because XLA"
    ):
        jax.jit(lambda x: gl.pack(x, "C", dtype="f8e8m0fnu"))(FLOATS)
    with pytest.raises(
        gl.LayoutError, match="s4 elements cannot be computed .* because PyTorch does not: call gpulayout"
    ):
        torch().vmap(lambda x: gl.pack(x, "C", dtype="s4"))(tensor(FLOATS)[None])
    with pytest.raises(gl.LayoutError, match="computes in float64, which JAX has only with jax_enable_x64"):
        jax.jit(lambda x: gl.pack(x, "C", dtype="f32", scale=2))(np.arange(4, dtype=np.int32))
    with pytest.raises(gl.LayoutError, match="packed|share a byte"):
        jax.jit(lambda x: gl.pack(x, "s4[8,6]{1,0:E(4)}", scale=2))(FLOATS)
    with pytest.raises(BufferError, match=r"array has shape \(8, 6\), but f32\[6,8\]"):
        jax.jit(lambda x: gl.pack(x, "f32[6,8]", scale=2))(FLOATS)
    with pytest.raises(gl.LayoutError, match="scale of shape .* does not fit"):
        jax.jit(lambda x: gl.transpose(x, scale=[1, 2, 3, 4, 5]))(FLOATS)


def test_a_call_that_breaks_a_graph_keeps_its_arithmetic():
    """It runs on memory: an output of NumPy's is none of a graph."""
    torch = pytest.importorskip("torch")
    array, out = torch.arange(6.0).reshape(2, 3), np.zeros((3, 2), np.float32)
    calls = (
        lambda array: gl.transpose(array, scale=3.0, out=out),
        lambda array: gl.pack(array, "{0,1}", scale=3.0, out=out.reshape(-1)).reshape(3, 2),
    )
    for call in calls:
        out[:] = -1
        found = torch.compile(call, backend="eager")(array)
        assert out.tolist() == np.asarray(found).tolist() == (3 * array.T).tolist()
