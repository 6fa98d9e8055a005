"""Arithmetic on arrays of every kind, and with parameters of every kind: the values that NumPy's arrays get."""

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from gpulayout import ElementType
from gpulayout.arrays.libraries import library_of
from tests.running.test_same_kind import Jax, Torch, same

VALUES = np.array([[-3.0, 0.25, 1.5], [2.5, 100.0, 300.0]], np.float32)
PIXELS = np.array([[0, 1, 127], [128, 254, 255]], np.uint8)
COLUMNS = "{0,1:PD(3,3)}"
SCALE, SHIFT = np.array([0.5, 2.0, -1.25]), 0.25
NUMBERS = [kind for kind in ElementType if not kind.is_complex]
LACKED = {  # by the libraries, which get bytes
    Jax: {"f6e3m2fn", "f6e2m3fn"},
    Torch: {
        "f6e3m2fn",
        "f6e2m3fn",
        "f8e4m3",
        "f8e3m4",
        "f8e4m3b11fnuz",
        *(kind for kind in NUMBERS if kind.is_sub_byte),
    },
}


@pytest.fixture(params=[Torch, Jax])
def library(request):
    return request.param()


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


CALLS = {
    "transpose": lambda array, dtype: gl.transpose(array, dtype=dtype, scale=SCALE, shift=SHIFT),
    "pack": lambda array, dtype: gl.pack(array, COLUMNS, dtype=dtype, scale=SCALE, shift=SHIFT),
    "unpack": lambda array, dtype: gl.unpack(array, "{1,0}", dtype=dtype, scale=SCALE),
    "relayout": lambda array, dtype: gl.relayout(array, "{1,0}", COLUMNS, dtype=dtype, scale=SCALE),
    "plan": lambda array, dtype: gl.plan(gl.shape_of(array), "{0,1}", dtype=dtype)(array),
    "many": lambda array, dtype: gl.relayout_many([(array, "{1,0}", "{0,1:T(2,2)}")] * 2, dtype=dtype)[1],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", NUMBERS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_of_the_same_kind(library, name, target):
    lacked = LACKED[type(library)]
    if isinstance(library, Jax) and not hasattr(library.module.numpy, "int1"):
        lacked = lacked | {"s1", "u1"}  # JAX 0.8
    for given in (VALUES, PIXELS, VALUES.astype(ml_dtypes.bfloat16), VALUES.astype(ml_dtypes.float8_e5m2)):
        expected = CALLS[name](given, target)
        found = CALLS[name](library.array(given), target)
        if target in lacked:
            expected = expected.view(np.uint8)
        assert same(library, found, expected), (given.dtype, target)


def test_jax_without_integers_of_one_bit_gets_their_bytes(monkeypatch):
    """JAX 0.8."""
    jax = Jax()
    monkeypatch.delattr(jax.module.numpy, "uint1", raising=False)
    found = gl.pack(jax.array(PIXELS), "{1,0}", dtype="u1")
    assert found.dtype == np.uint8 and np.array_equal(found, gl.pack(PIXELS, "{1,0}", dtype="u1").view(np.uint8))


def test_complex_results_are_of_the_same_kind(library):
    given = (VALUES + 2j * VALUES).astype(np.complex64)
    for call in (CALLS["plan"], CALLS["many"]):
        assert same(library, call(library.array(given), "c128"), call(given, "c128"))


def test_results_of_64_bits_without_x64():
    """JAX's indices have 32 bits then, but an element type that a call asks for is what it says."""
    jax = Jax()
    assert not jax.module.config.jax_enable_x64
    for target in ("s64", "u64", "f64"):
        found = gl.pack(jax.array(PIXELS), "{0,1}", dtype=target)
        assert np.asarray(found).tolist() == PIXELS.T.ravel().tolist() and found.dtype == ElementType(target).dtype


@pytest.mark.parametrize("target", ["bf16", "f8e4m3fn", "s8", "f64", "pred"])
def test_outs_of_torch(torch, target):
    library = Torch()
    expected = gl.transpose(VALUES, dtype=target, scale=SCALE)
    room = library.array(np.zeros((3, 4), ElementType(target).dtype))
    out = room[:, ::2]
    assert gl.transpose(library.array(VALUES), dtype=target, scale=SCALE, out=out) is out
    assert library.host(out.contiguous()).tobytes() == expected.tobytes()
    assert not library.host(room[:, 1::2].contiguous()).astype(bool).any()


def test_gradients_follow_and_inference_has_none(torch):
    given = torch.tensor(VALUES, requires_grad=True)
    for call in (gl.transpose, lambda array, **options: gl.pack(array, "{0,1}", **options)):
        found = call(given, dtype="bf16")
        assert found.requires_grad and found.dtype is torch.bfloat16
    with torch.no_grad():
        assert gl.transpose(given, dtype="bf16").dtype is torch.bfloat16
    with torch.inference_mode():
        inferred = given * 1
        found = gl.transpose(inferred, scale=2, out=torch.empty(3, 2))
    assert found.tolist() == (VALUES.T * 2).tolist()
    assert gl.transpose(inferred, dtype="s64").tolist() == np.rint(VALUES.T).tolist()


def test_an_out_of_torch_counts_as_written(torch):
    out = torch.zeros(3, 2)
    before = out._version
    gl.transpose(torch.tensor(VALUES), scale=2, out=out)
    assert out._version > before


class HoldsIntegers:
    """What a backend says that holds the types of ml_dtypes as integers, as CuPy does."""

    def held(self, dtype):
        return dtype if dtype.type.__module__ == "numpy" else np.dtype(f"u{dtype.itemsize}")

    def empty(self, shape, dtype, like):
        return np.empty(shape, dtype)


@pytest.mark.parametrize("given, label", [("bf16", "u16"), ("u16", "bf16"), ("f32", "bf16"), ("bf16", None)])
def test_where_two_types_are_the_same_integers_a_result_has_the_asked_one(library, given, label):
    array = library.array(np.zeros(3, ElementType(given).dtype))
    asked = None if label is None else ElementType(label).dtype
    adapter = library_of(array)
    made = adapter.empty(array, HoldsIntegers(), (3,), np.dtype(np.uint16), None, asked)[0]
    expected = ElementType(label or given)
    assert ElementType.of(made.dtype if isinstance(library, Torch) else made[1]) is expected


def test_an_out_of_jax_is_refused():
    jax = Jax()
    with pytest.raises(BufferError, match="^out is read-only: JAX arrays never change$"):
        gl.transpose(jax.array(PIXELS), dtype="f32", out=jax.array(np.zeros((3, 2), np.float32)))


# ---- NumPy's and Python's --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["bf16", "f8e4m3fn", "s4", "f6e3m2fn"])
def test_types_of_ml_dtypes_and_their_carriers_are_the_same(target):
    kind = ElementType(target)
    given = gl.pack(VALUES, "{1,0}", dtype=kind)
    assert given.dtype == kind.dtype
    plan = gl.plan(gl.Shape(kind, (2, 3)), "{0,1}", dtype="f32", scale=SCALE)
    expected = plan(given)
    assert (expected.reshape(3, 2).T == given.reshape(2, 3).astype(np.float32) * SCALE.astype(np.float32)).all()
    assert plan(given.view(kind.carrier)).tolist() == expected.tolist()
    for dtype in (kind.dtype, kind.carrier):
        out = np.zeros(6, dtype)
        assert gl.pack(VALUES, "{1,0}", dtype=kind, out=out) is out and out.tobytes() == given.tobytes()


def test_lists_numbers_and_scalars_can_be_packed():
    assert gl.pack([[1, 2], [3, 4]], "{0,1}", dtype="f32").tolist() == [1, 3, 2, 4]
    assert gl.pack([[1, 2], [3, 4]], "f32[2,2]{0,1}", scale=[0.5, 2]).tolist() == [0.5, 1.5, 4, 8]
    for number in (3, 3.0, np.uint8(3), np.float64(3), np.array(3, np.int16)):
        found = gl.pack(number, "f32[]", scale=0.5)
        assert found.tolist() == [1.5] and found.dtype == np.float32
    assert gl.pack(True, "f32[]", shift=0.5).tolist() == [1.5]
    assert gl.transpose(np.array(3, np.uint8), dtype="f32", scale=0.5) == 1.5


def test_inputs_may_be_read_only_and_in_any_order():
    given = np.asfortranarray(PIXELS)
    given.setflags(write=False)
    scale = SCALE[::-1][::-1]
    scale.setflags(write=False)
    expected = (PIXELS * SCALE.astype(np.float32)).astype(np.float32)
    assert gl.transpose(given, dtype="f32", scale=scale).tolist() == expected.T.tolist()
    assert gl.unpack(given, "{0,1}", dtype="f32", scale=scale).tolist() == expected.tolist()
    assert (
        gl.transpose(given[::-1, ::-2], dtype="f32", scale=scale[::2]) == given[::-1, ::-2].T * scale[::2, None]
    ).all()


# ---- parameters ------------------------------------------------------------------------------------------------------


def kinds_of_three(values):
    """Parameters with the same three numbers."""
    torch, jax = Torch(), Jax()
    array = np.array(values)
    yield from (
        list(values),
        tuple(values),
        array,
        np.repeat(array, 2)[::2],
        array[::-1].copy()[::-1],
        array[None, None],
    )
    yield from (
        array.astype(kind) for kind in (np.float16, np.float32, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2)
    )
    yield from (torch.array(array.astype(kind)) for kind in (np.float64, np.float32, ml_dtypes.bfloat16, np.int64))
    yield from (jax.array(array.astype(kind)) for kind in (np.float32, ml_dtypes.bfloat16, np.int32))


def test_an_array_of_numbers_may_be_of_any_kind():
    values = [1.0, 2.0, -3.0]
    expected = (PIXELS * np.array(values, np.float32)).T.tolist()
    for scale in kinds_of_three(values):
        assert gl.transpose(PIXELS, dtype="f32", scale=scale).tolist() == expected, type(scale)


def test_a_number_may_be_of_any_kind():
    torch, jax = Torch(), Jax()
    two = np.array(2.0)
    for scale in (2, 2.0, two, two[None], [2], [[2.0]], np.float64(2), np.float32(2), np.int8(2), torch.array(two)):
        assert gl.transpose(PIXELS, dtype="f32", scale=scale).tolist() == (PIXELS.T * 2.0).tolist(), type(scale)
    assert gl.transpose(PIXELS, dtype="f32", scale=jax.array(np.float32(2))).tolist() == (PIXELS.T * 2.0).tolist()
    assert gl.transpose(PIXELS, dtype="f64", scale=2**70).tolist() == (PIXELS.T * 2.0**70).tolist()


def test_zero_points_may_be_of_any_integer_type():
    expected = np.clip(np.rint(VALUES) + 3, -128, 127).T.tolist()
    kinds = [kind.dtype for kind in NUMBERS if kind.is_integral and kind.bits > 2]
    for zero_point in (3, [3], np.int8(3), Torch().array(np.array(3)), *(np.array(3).astype(kind) for kind in kinds)):
        assert gl.transpose(VALUES, dtype="s8", scale=1, zero_point=zero_point).tolist() == expected, zero_point


def test_numbers_are_rounded_once_to_the_type_of_the_steps():
    tenth, exact = 0.1, np.array([3], np.float32)
    assert gl.pack(exact, "{0}", scale=tenth)[0] == np.float32(3) * np.float32(0.1)
    assert gl.pack(exact, "{0}", dtype="f64", scale=tenth)[0] == 3 * 0.1
    assert gl.pack(exact, "{0}", dtype="f64", scale=np.float32(0.1))[0] == 3 * float(np.float32(0.1))
    assert gl.pack(np.array([1], np.int64), "{0}", shift=2**53 + 1, dtype="s64")[0] == 2**53


def test_a_plan_keeps_the_numbers():
    for scale in (np.array([1.0, 2.0, 3.0], np.float32), np.array([1.0, 2.0, 3.0])):
        plan = gl.plan("u8[2,3]", "f32[2,3]{0,1}", scale=scale)
        expected = plan(PIXELS.reshape(-1)).tolist()
        scale[:] = 7
        assert plan(PIXELS.reshape(-1)).tolist() == expected
        assert gl.plan("u8[2,3]", "f32[2,3]{0,1}", scale=scale) != plan


@pytest.mark.simt
def test_plain_numbers_stay_on_the_host(cupy):
    """Also where the default backend is a GPU's."""
    with gl.use_backend("cupy"):
        given = cupy.asarray(PIXELS)
        assert (
            gl.transpose(given, dtype="f32", scale=[1, 2, 3], shift=1).get().tolist()
            == (PIXELS * [1, 2, 3] + 1).T.tolist()
        )
        assert gl.transpose(PIXELS, dtype="f32", scale=2).tolist() == (PIXELS.T * 2.0).tolist()
        message = "^scale is on cuda:0: parameters are read on the host, pass a NumPy array$"
        with pytest.raises(BufferError, match=message):
            gl.transpose(PIXELS, dtype="f32", scale=cupy.asarray(np.ones(3, np.float32)))
