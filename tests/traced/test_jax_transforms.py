"""Calls inside JAX's transformations: what they compute, what XLA is given, and what they say where they cannot run."""

import functools
import os
import random
import re
import subprocess
import sys

import numpy as np
import pytest

import gpulayout as gl
from tests.support.tiled_cases import TYPES, drawn_pair, expected_buffer, logical_array

jax = pytest.importorskip("jax")
jnp = jax.numpy
jax_test_util = pytest.importorskip("jax.test_util")

TILES = "f32[5,6]{0,1:T(8,4)}"
COUNT = int(os.environ.get("GPULAYOUT_TEST_PAIRS", "0")) // 10 or 50
ARRAY = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
STACK = np.stack([ARRAY, -ARRAY, 2 * ARRAY])
BUFFER = gl.pack(ARRAY, TILES)
CALLS = {
    "pack": (lambda x: gl.pack(x, TILES), ARRAY),
    "unpack": (lambda x: gl.unpack(x, TILES), BUFFER),
    "relayout": (lambda x: gl.relayout(x, TILES, "{1,0:T(2,4)}"), BUFFER),
    "plan": (gl.plan(TILES, "{1,0}"), BUFFER),
    "transpose": (lambda x: gl.transpose(x, "a (b c) -> b (c a)", b=2), ARRAY),
    "lowered": (gl.plan(TILES, "{1,0}").lower(), BUFFER),
}
each_call = pytest.mark.parametrize("name", CALLS)


def matrix_of(name):
    """What a linear call does to each element, as a 0-1 matrix, from the call on NumPy arrays."""
    call, given = CALLS[name]
    places = call(np.arange(1, given.size + 1, dtype=np.float32).reshape(given.shape)).reshape(-1).astype(int)
    return np.eye(given.size + 1)[places][:, 1:].reshape(*call(given).shape, *given.shape)


def bits(array):
    return np.asarray(array).tobytes()


@pytest.mark.one_in(2)
@each_call
def test_values_inside_jit_vmap_scan_cond_and_remat(name):
    call, given = CALLS[name]
    expected, stack = call(given), np.stack([given, -given, 2 * given])
    assert bits(jax.jit(call)(given)) == bits(expected)
    each = np.stack([call(part) for part in stack])
    assert bits(jax.vmap(call)(stack)) == bits(each)
    assert bits(jax.jit(jax.vmap(call, in_axes=1, out_axes=1))(np.moveaxis(stack, 0, 1))) == bits(
        np.moveaxis(each, 0, 1)
    )
    assert bits(jax.lax.scan(lambda carry, part: (carry, call(part)), 0, stack)[1]) == bits(each)
    both = jax.jit(lambda x, which: jax.lax.cond(which, call, lambda x: call(-x), x))
    assert bits(both(given, True)) == bits(expected) and bits(both(given, False)) == bits(call(-given))
    assert bits(jax.jit(jax.checkpoint(call))(given)) == bits(expected)


@pytest.mark.one_in(2)
@each_call
def test_derivatives_are_those_of_the_linear_map(name):
    call, given = CALLS[name]
    matrix, tangent = matrix_of(name), np.cos(given)
    for transform in (jax.jacfwd, jax.jacrev):
        np.testing.assert_array_equal(transform(call)(given), matrix)
        np.testing.assert_array_equal(jax.jit(transform(call))(given), matrix)
    value, moved = jax.jvp(call, (given,), (tangent,))
    assert bits(value) == bits(call(given))
    np.testing.assert_array_equal(
        moved, np.tensordot(matrix, tangent.astype(np.float64), given.ndim).astype(np.float32)
    )
    weights = np.sin(np.arange(call(given).size, dtype=np.float32)).reshape(call(given).shape)
    expected = np.tensordot(weights.astype(np.float64), matrix, weights.ndim).astype(np.float32)
    for transposed in (lambda f: jax.vjp(f, given)[1], lambda f: jax.linear_transpose(f, given)):
        np.testing.assert_array_equal(transposed(call)(weights)[0], expected)
    squares = jax.grad(jax.checkpoint(lambda x: (call(x) ** 2).sum()))(given)
    np.testing.assert_array_equal(squares, np.tensordot(2 * call(given), matrix, weights.ndim).astype(np.float32))


@pytest.mark.one_in(3)
@each_call
def test_gradients_of_second_order(name):
    call, given = CALLS[name]
    jax_test_util.check_grads(lambda x: call(jnp.sin(x)) ** 2, (given,), order=2, modes=("fwd", "rev"))


def test_random_pairs_in_jit_are_bit_for_bit_those_of_numpy():
    rng = random.Random(33)
    with jax.enable_x64(True):
        for number in range(COUNT):
            source, target = drawn_pair(rng, rng.choice(tuple(TYPES)))
            array = logical_array(source)
            buffer = expected_buffer(source)
            found = jax.jit(lambda x: (gl.relayout(x, source, target), gl.unpack(x, source)))(buffer)
            assert bits(found[0]) == bits(expected_buffer(target)), (number, source, target)
            assert bits(found[1]) == bits(array), (number, source)


def patterns_of(element_type):
    """Every code of a narrow type, or random bytes: nans with payloads and negative zeros among them."""
    dtype, count = element_type.dtype, 24 * 32
    if dtype.itemsize == 1:
        codes = np.arange(count) % (2 if element_type is gl.ElementType.PRED else 1 << element_type.bits)
        return codes.astype(np.uint8).view(dtype).reshape(24, 32)
    found = np.random.default_rng(1).integers(0, 256, count * dtype.itemsize, np.uint8)
    found[-dtype.itemsize * 400 :].view(f"u{min(dtype.itemsize, 8)}")[:] |= 0x7F81 << 8 * (min(dtype.itemsize, 8) - 2)
    return found.view(dtype).reshape(24, 32)


def jax_lacks(element_type):
    """XLA has no f6; u1 and s1 have no transpose in it."""
    return element_type.value[:2] == "f6" or element_type.bits == 1 and element_type is not gl.ElementType.PRED


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", [kind for kind in gl.ElementType if not jax_lacks(kind)], ids=str)
def test_every_bit_of_every_type_survives_jit(kind):
    array = patterns_of(kind)
    target = "{0,1:T(8,8)}" if kind is gl.ElementType.BF16 else "{0,1:T(7,5)}"  # XLA's CPU compiler: no pads of bf16
    with jax.enable_x64(True):
        given = jax.device_put(array)
        assert bits(jax.jit(gl.transpose)(given)) == bits(array.T.copy())
        packed = jax.jit(lambda x: gl.pack(x, target))(given)
        assert bits(packed) == bits(gl.pack(array, target))
        assert bits(jax.jit(lambda x: gl.unpack(x, f"{kind}[24,32]{target}"))(packed)) == bits(array)
        assert bits(jax.vmap(gl.transpose)(given[None])) == bits(array.T.copy())


def test_narrow_floats_have_derivatives():
    target = "{0,1:PV(one)T(8,4)}"  # the derivative of what fills is 0
    for dtype in (jnp.float8_e5m2, jnp.float8_e4m3fn, jnp.bfloat16):
        given = jnp.asarray(ARRAY, dtype)
        call = lambda x: gl.pack(x, target)  # noqa: E731
        value, tangent = jax.jit(lambda x: jax.jvp(call, (x,), (x,)))(given)
        assert bits(value) == bits(call(given))
        assert bits(tangent) == bits(gl.pack(given, "{0,1:T(8,4)}"))
        back = jax.grad(lambda x: (call(x).astype(jnp.float32) * np.arange(64)).sum())(given)
        assert bits(back) == bits(gl.unpack(jnp.arange(64).astype(dtype), f"{gl.ElementType.of(dtype)}{TILES[3:]}"))
        twice = jax.jit(jax.hessian(lambda x: (call(x.astype(dtype)).astype(jnp.float32) ** 2).sum()))(ARRAY)
        np.testing.assert_array_equal(twice.reshape(30, 30), 2 * np.eye(30))


# ---- what XLA is given -----------------------------------------------------------------------------------------


def operations(function, *arguments):
    """The StableHLO operations of a function before XLA optimises it, in order; constants are no operations."""
    text = jax.jit(function).lower(*arguments).as_text()
    return [name for name in re.findall(r"= \"?stablehlo\.(\w+)", text) if name != "constant"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "bool", "complex64"])
def test_a_transpose_is_one_transpose(dtype):
    array = jnp.zeros((2, 3, 4), dtype)
    assert operations(gl.transpose, array) == ["transpose"]
    assert operations(lambda x: gl.transpose(x, "b h w -> w b h"), array) == ["transpose"]
    assert operations(lambda x: gl.pack(x, "{0,2,1}"), array) == ["transpose", "reshape"]
    assert operations(lambda x: gl.transpose(x, "a b c -> a b c"), array) == []


def test_a_relayout_is_reshapes_transposes_pads_and_slices():
    assert operations(lambda x: gl.relayout(x, "f32[16,256]{1,0:T(8,128)}", "{0,1}"), jnp.zeros(4096)) == [
        "reshape",
        "transpose",
        "reshape",
    ]
    found = operations(lambda x: gl.relayout(x, "f32[5,6]{0,1:T(4,4)}", "{1,0:T(8,16)}"), jnp.zeros(64))
    assert set(found) == {"reshape", "transpose", "pad", "slice"} and len(found) < 9
    float8 = operations(lambda x: gl.pack(x, "{0,1:T(8,16)}"), jnp.zeros((16, 16), jnp.float8_e4m3fn))
    assert set(float8) == {"reshape", "transpose", "bitcast_convert"}


def test_equal_sizes_are_traced_once_and_shapes_are_static_arguments():
    traced = []

    def counted(x, shape):
        traced.append(shape)
        return gl.pack(x, shape)

    function = jax.jit(counted, static_argnums=1)
    for _ in range(3):
        assert bits(function(ARRAY, gl.parse_shape(TILES))) == bits(BUFFER)
    function(ARRAY, gl.parse_shape("f32[5,6]{0,1}"))
    assert len(traced) == 2
    own = functools.partial(gl.pack)  # JAX 0.8 shares one cache among all jit(gl.pack)
    by_text = jax.jit(own, static_argnames="shape")
    assert bits(by_text(ARRAY, shape=TILES)) == bits(by_text(ARRAY, shape=TILES)) == bits(BUFFER)
    assert by_text._cache_size() == 1


def test_export():
    export = pytest.importorskip("jax.export")
    kept = export.export(jax.jit(lambda x: gl.unpack(gl.pack(x, TILES), TILES)))(
        jax.ShapeDtypeStruct((5, 6), jnp.float32)
    )
    assert bits(kept.call(ARRAY)) == bits(ARRAY)
    pytest.importorskip("flatbuffers")  # JAX's format of files
    assert bits(export.deserialize(kept.serialize()).call(ARRAY)) == bits(ARRAY)


def test_export_of_open_sizes():
    pytest.importorskip("jax.export")
    (size,) = jax.export.symbolic_shape("n")
    open_array = jax.ShapeDtypeStruct((2 * size, 6), jnp.float32)
    for call in (gl.transpose, lambda x: gl.transpose(x, "(a b) (c d) -> d (b a) c", a=2, c=3)):
        kept = jax.export.export(jax.jit(call))(open_array)
        for given in (ARRAY[:4], ARRAY[:2]):
            assert bits(kept.call(given)) == bits(call(given))
    with pytest.raises(gl.LayoutError, match=r"shape \(2\*n, 6\), and a layout has fixed sizes: .* call gl.transpose"):
        jax.export.export(jax.jit(lambda x: gl.pack(x, "{0,1}")))(open_array)


SHARDED = """
import importlib, jax, numpy as np, gpulayout as gl
from jax.sharding import PartitionSpec as P, NamedSharding
mesh = jax.make_mesh((4,), ("x",))
array = np.random.default_rng(0).standard_normal((8, 5, 6)).astype(np.float32)
call = lambda x: gl.pack(x, "{0,2,1:T(8,4)}")
parts = np.stack([call(part) for part in array.reshape(4, 2, 5, 6)]).reshape(-1)
shard_map = getattr(jax, "shard_map", None) or importlib.import_module("jax.experimental.shard_map").shard_map
mapped = jax.jit(shard_map(call, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
given = jax.device_put(array, NamedSharding(mesh, P("x")))
found = mapped(given)
assert len(found.sharding.device_set) == 4 and np.asarray(found).tobytes() == parts.tobytes()
weights = np.arange(parts.size, dtype=np.float32)
back = jax.jit(jax.grad(lambda x: (mapped(x) * weights).sum()))(given)
expected = [gl.unpack(part, "f32[2,5,6]{0,2,1:T(8,4)}") for part in weights.reshape(4, -1)]
assert np.asarray(back).tobytes() == np.stack(expected).tobytes()
whole = jax.jit(lambda x: gl.transpose(x, "b h w -> w b h"))(given)
assert np.asarray(whole).tobytes() == array.transpose(2, 0, 1).tobytes() and "x" in str(whole.sharding.spec)
print("fine")
"""


def test_shard_map_on_four_devices():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    found = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True)
    assert (found.stdout, found.returncode) == ("fine\n", 0), found.stderr


# ---- what stays refused ----------------------------------------------------------------------------------------


REFUSED = {
    "packed elements": (
        lambda x: gl.pack(x.astype("int4"), "s4[5,6]{1,0:E(4)}"),
        gl.LayoutError,
        "call gl.unpack outside",
    ),
    "an array to write to": (lambda x: gl.pack(x, TILES, out=x), BufferError, "use the result of the call"),
    "another type": (lambda x: gl.pack(x, "s32[5,6]"), TypeError, "s32"),
    "other sizes": (lambda x: gl.pack(x, "f32[6,5]"), BufferError, r"dimensions \(6, 5\)"),
    "a list as a layout": (
        lambda x: gl.pack(x, [5, 6]),
        TypeError,
        "shape must be a Shape, a Layout or text, not list",
    ),
    "a view": (
        lambda x: gl.view(x.reshape(-1), "f32[5,6]"),
        TypeError,
        "or call gl.unpack in place of gl.view",
    ),
    "a view by a pattern": (lambda x: gl.view(x, "a b -> b a"), TypeError, "or call gl.transpose in place of gl.view"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("jit", [True, False])
def test_what_is_refused(name, jit):
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        jax.jit(call)(ARRAY) if jit else jax.vmap(call)(ARRAY[None])
