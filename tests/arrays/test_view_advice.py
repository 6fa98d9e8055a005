"""A buffer of another type is refused, and the error says the view whose bytes fit; bits of bool go through u1."""

import re
import sys

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl


def of_torch(values):
    return pytest.importorskip("torch", reason="torch is not installed").from_numpy(values.copy())


def of_jax(values):
    return pytest.importorskip("jax.numpy", reason="JAX is not installed").asarray(values)


KINDS = {"numpy": np.array, "torch": of_torch, "jax": of_jax}
CALLS = {
    "relayout": lambda b, s: gl.relayout(b, s, s),
    "unpack": gl.unpack,
    "Array": gl.Array,
    "plan": lambda b, s: gl.plan(s, s)(b),
    "relayout_many": lambda b, s: gl.relayout_many([(b, s, s)]),
    "view": gl.view,
}
FIT = (
    (np.arange(24, dtype=np.uint8), "f32[2,3]"), (np.arange(6, dtype=np.float32), "s32[2,3]"),
    (np.arange(6, dtype=np.float16), "bf16[2,3]"), (np.arange(3, dtype=np.float32), "s16[2,3]{0,1}"),
    (np.arange(6, dtype=np.float32).reshape(2, 3), "s32[2,3]"), (np.arange(12, dtype=np.int8), "u4[4,6]{1,0:E(4)}"),
    (np.arange(3, dtype=np.int32), "u4[4,6]{1,0:E(4)}"), (np.arange(8, dtype=np.uint8), "f32[1]{0:PD(2)}"),
)  # fmt: skip
NOT = (
    (np.arange(23, dtype=np.uint8), "f32[2,3]"), (np.arange(6.0), "f32[2,3]"),
    (np.arange(6, dtype=np.uint8), "f32[2,3]"), (np.arange(6).astype(">i4"), "f32[2,3]"),
    (np.arange(7, dtype=np.float32), "s32[2,3]"), (np.arange(25, dtype=np.uint8), "f32[2,3]"),
    (np.arange(24, dtype=np.uint8).reshape(2, 12), "f32[2,3]"), (np.arange(6, dtype=np.int32), "u4[4,6]{1,0:E(4)}"),
)  # fmt: skip


def refusal_of(call, *given):
    with pytest.raises(TypeError, match="^(job 0: )?buffer has dtype ") as caught:
        call(*given)
    return str(caught.value)


@pytest.mark.parametrize("library", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_the_view_of_the_error_works(name, library):
    for values, shape in FIT:
        if name == "view" and "E(4)" in shape:
            continue
        buffer = KINDS[library](values)
        message = refusal_of(CALLS[name], buffer, shape)
        advice = re.search(r"; (buffer\.view\(.+?\)) takes its bytes", message)
        assert advice, message
        names = {"buffer": buffer, "ml_dtypes": ml_dtypes, "torch": sys.modules.get("torch")}
        assert CALLS[name](eval(advice[1], names), shape) is not None, message


@pytest.mark.parametrize("library", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_there_is_no_such_advice_where_the_bytes_are_others(name, library):
    for values, shape in NOT:
        if name == "view" and "E(4)" in shape:
            continue
        if library != "numpy" and (values.dtype == np.float64 or not values.dtype.isnative):
            continue
        assert ".view(" not in refusal_of(CALLS[name], KINDS[library](values), shape)
    steps = np.zeros(48, np.uint8)[::2]
    assert ".view(" not in refusal_of(CALLS[name], steps, "f32[2,3]")


def test_arrays_and_outputs_get_no_such_advice():
    for call in (
        lambda: gl.pack(np.zeros((2, 3), np.float32), "s32[2,3]"),
        lambda: gl.relayout(np.zeros(6, np.int32), "s32[2,3]", "F", out=np.zeros(6, np.float32)),
    ):
        with pytest.raises(TypeError, match=r"has dtype") as caught:
            call()
        assert ".view(" not in str(caught.value)


def test_graphs_of_torch_say_the_same():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch._dynamo").reset()
    compiled = torch.compile(lambda b: gl.Array(b, "s32[2,3]").buffer, backend="eager")
    assert refusal_of(compiled, torch.zeros(6)) == refusal_of(gl.Array, torch.zeros(6), "s32[2,3]")
    torch._dynamo.reset()


def test_dask_gives_no_such_advice():
    da = pytest.importorskip("dask.array", reason="the extra `dask` is not installed")
    with pytest.raises(TypeError, match="^buffer has dtype uint8, but f32.* needs float32$"):
        gl.dask.unpack(da.zeros(24, dtype=np.uint8), "f32[2,3]")


# ---- bits of bool ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["{1,0:E(1)}", "{1,0:E(1,big)}"])
def test_bits_of_bool_are_packed_as_u1(layout, executor):
    bits = np.random.default_rng(0).random((3, 7)) < 0.5
    given = executor.array(bits)
    expected = np.packbits(bits.reshape(-1), bitorder="big" if "big" in layout else "little")
    for call in (lambda **o: gl.pack(given, layout, **o), lambda **o: gl.pack(given, f"u1[3,7]{layout}", **o)):
        with pytest.raises((gl.LayoutError, TypeError), match="dtype='u1'"):
            call()
        assert np.array_equal(executor.host(call(dtype="u1")), expected)
