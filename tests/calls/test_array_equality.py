"""`==` of `Array`: one bool for two of them, whatever their libraries and layouts are, else an error."""

import functools
import itertools
import operator
import re

import numpy as np
import pytest

import gpulayout as gl

# The bits of a byte that carry the value.  XLA counts 8 for floats of 6 bits, whose upper two bits mean nothing.
COUNTED = {"pred": 1, "s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "f4e2m1fn": 4, "f6e2m3fn": 6, "f6e3m2fn": 6}
CODES = np.arange(256, dtype=np.uint8)
NARROW = [kind for kind in gl.ElementType if kind.bits < 8 or kind.value in COUNTED]


def torch_bytes(codes, kind):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return torch.from_numpy(codes).view(torch.bool if kind == "pred" else torch.uint8)


def jax_bytes(codes, kind):
    jnp = pytest.importorskip("jax.numpy", reason="JAX is not installed")
    if kind == "pred":
        pytest.skip("JAX has no way to put another byte than 0 and 1 into a bool")
    return jnp.asarray(codes)


HOLDERS = {
    "uint8": lambda codes, kind: codes.view(bool) if kind == "pred" else codes,
    "ml_dtypes": lambda codes, kind: codes.view(gl.ElementType(kind).dtype),
    "torch": torch_bytes,
    "jax": jax_bytes,
}


def values_of(kind):
    """The value of every code, from the bits that count alone."""
    if kind == "pred":
        return (CODES != 0).astype(np.float32)
    return (CODES & (2 ** COUNTED[kind] - 1)).astype(np.uint8).view(gl.ElementType(kind).dtype).astype(np.float32)


@functools.cache
def classes_of(kind):
    """One code of every value."""
    return tuple(np.unique(values_of(kind), return_index=True)[1].tolist())


@pytest.mark.one_in(10)
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_codes_are_equal_where_the_bits_that_count_are(kind, holder):
    new, values = HOLDERS[holder], values_of(kind)

    def array(codes, layout="{0}"):
        return gl.Array(new(np.ascontiguousarray(codes, np.uint8), kind), f"{kind}[{len(codes)}]{layout}")

    # Every code against all that are equal to it, as it lies and in another layout ...
    layouts = ["{0:T(4)}"] + [f"{{0:E({kind.bits})}}"] * kind.is_sub_byte
    for code in range(256):
        equal = CODES[values == values[code]]
        one, others = array(np.full(len(equal), code)), array(equal)
        assert one == others and not one != others, code
        for layout in layouts:
            moved = array(np.resize(equal, 4)).to(layout)
            assert array(np.full(4, code)) == moved and moved == array(np.full(4, code)), (code, layout)
    # ... so a code of each value stands for all others.
    singles = [array([code]) for code in classes_of(kind)]
    packed = [single.to(layouts[-1]) for single in singles]
    for (at, one), (other_at, other) in itertools.combinations_with_replacement(enumerate(singles), 2):
        expected = bool(values[classes_of(kind)[at]] == values[classes_of(kind)[other_at]])
        assert (one == other) is expected and (one != packed[other_at]) is not expected, (kind, at, other_at)


@pytest.mark.parametrize("kind", gl.ElementType, ids=str)
def test_every_type_on_every_executor(kind, executor):
    codes = np.resize(CODES, 2 * kind.itemsize * 256)
    elements = codes.view(kind.dtype)
    elements = elements[elements == elements]
    shape = gl.Shape(kind, (len(elements),))
    array = gl.Array(executor.array(elements.view(kind.carrier) if kind.is_extended else elements), shape)
    assert array == array.to("{0:T(4)}") and array.to("{0:T(4)}") == array
    other = elements.copy()
    other[-1] = 0 if elements[-1] != 0 else 1
    changed = gl.Array(executor.array(other.view(kind.carrier) if kind.is_extended else other), shape)
    assert array != changed and changed.to("{0:T(4)}") != array


@pytest.mark.parametrize("kind", [kind for kind in gl.ElementType if kind.is_floating or kind.is_complex], ids=str)
def test_zeros_are_equal_and_nan_differs_from_nan(kind, executor):
    def array(number):
        numbers = np.array([number], kind.dtype)
        return gl.Array(executor.array(numbers.view(kind.carrier) if kind.is_extended else numbers), f"{kind}[1]")

    if kind.component.holds(-0.0):
        assert array(0.0) == array(-0.0) == array(0.0).to("{0:T(1)}")
    if kind.component.holds(np.nan):
        assert array(np.nan) != array(np.nan) and not array(np.nan) == array(np.nan)


# ---- beside what is no Array -----------------------------------------------------------------------------------------

LOGICAL = np.arange(6, dtype=np.float32).reshape(2, 3)


def of_torch(values):
    return pytest.importorskip("torch", reason="torch is not installed").from_numpy(values.copy())


def of_jax(values):
    return pytest.importorskip("jax.numpy", reason="JAX is not installed").asarray(values)


def of_dask(values):
    return pytest.importorskip("dask.array", reason="Dask is not installed").from_array(values)


LIBRARIES = {"numpy": np.array, "torch": of_torch, "jax": of_jax}
# What may stand beside an Array: a function that makes it, and what the advice of the error then gives.
OTHERS = {
    "ndarray": (lambda: LOGICAL.copy(), True),
    "turned": (lambda: LOGICAL.T, False),
    "subclass": (lambda: LOGICAL.view(np.matrix), True),
    "0-d": (lambda: np.array(1, np.float32), False),
    "tensor": (lambda: of_torch(LOGICAL), True),
    "parameter": (lambda: pytest.importorskip("torch").nn.Parameter(of_torch(LOGICAL)), True),
    "jax": (lambda: of_jax(LOGICAL), True),
    "dask": (lambda: of_dask(LOGICAL), True),
    "int": (lambda: 3, [[False, False, False], [True, False, False]]),
    "bool": (lambda: True, [[False, True, False], [False, False, False]]),
    "float": (lambda: 2.0, [[False, False, True], [False, False, False]]),
    "complex": (lambda: 2j, [[False] * 3] * 2),
    "list": (lambda: LOGICAL.tolist(), True),
    "tuple": (lambda: (), False),
    "text": (lambda: "f32[2,3]{1,0:T(2,2)}", True),
    "numpy.str_": (lambda: np.str_("f32"), False),
    "shape": (lambda: gl.Shape("f32", (2, 3)), False),
    "layout": (lambda: gl.parse_layout("{1,0:T(2,2)}"), True),
    "dict": (dict, None),
    "set": (lambda: {1}, None),
    "object": (object, None),
    "class": (lambda: gl.Array, None),
    "not implemented": (lambda: NotImplemented, None),
}


def words_of(call):
    """The message of the TypeError that a call has to raise."""
    with pytest.raises(TypeError, match=r"a gl\.Array compares with another gl\.Array, not with ") as caught:
        call()
    return str(caught.value)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", OTHERS)
def test_beside_anything_else_it_is_an_error_whose_advice_works(name, library):
    array = gl.asarray(LIBRARIES[library](LOGICAL), "{1,0:T(2,2)}")
    make, expected = OTHERS[name]
    other = make()
    words = {words_of(lambda: compare(array, other)) for compare in (operator.eq, operator.ne)}
    assert {words_of(lambda: compare(other, array)) for compare in (operator.eq, operator.ne)} == words
    assert words == {words_of(lambda: other in [array]), words_of(lambda: array in [other])}
    (message,) = words
    if isinstance(other, (int, float, complex)):
        assert repr(other) in message
    advice = re.search(r"write (.+?)( for one bool|, which| for a bool|$)", message)
    assert (advice is None) == (expected is None), message
    if advice is not None:
        found = eval(advice[1], {"array": array, "other": other, "numpy": np, "gl": gl})
        assert np.array_equal(np.asarray(found), expected) and (type(found) is bool or expected is not True), message


def test_beside_arrays_of_every_executor_it_is_an_error(executor):
    plain = executor.array(LOGICAL.copy())
    array = gl.asarray(plain, "{1,0:T(2,2)}")
    for call in (
        lambda: plain == array,
        lambda: array == plain,
        lambda: plain != array,
        lambda: np.float32(1) == array,
    ):
        assert "gl.asarray(other)" in words_of(call)
    assert (array == gl.asarray(plain)) is True


@pytest.mark.parametrize("library", LIBRARIES)
def test_none_and_two_arrays_give_one_bool(library):
    array = gl.asarray(LIBRARIES[library](LOGICAL), "{1,0:T(2,2)}")
    assert (array == None) is False and (None == array) is False and (array != None) is True  # noqa: E711
    others = [
        gl.asarray(LIBRARIES[name](LOGICAL), layout) for name in LIBRARIES for layout in ("{0,1}", "{1,0:T(2,2)}")
    ]
    for other in others:
        assert (array == other) is True and (array != other) is False and array in [None, other]
    for other in (array.to("C", dtype="f64"), gl.asarray(LOGICAL.T), gl.asarray(LOGICAL + 1)):
        assert (array == other) is False and (array != other) is True and array not in [None, other]


def test_other_functions_of_numpy_take_one_as_the_logical_array():
    array = gl.asarray(LOGICAL, "{1,0:T(2,2)}")
    for call in (
        lambda a: np.sum(a), lambda a: a + LOGICAL, lambda a: LOGICAL + a, lambda a: LOGICAL - a, np.exp,
        lambda a: np.add.reduce(a, axis=0), lambda a: np.multiply.outer(a, [1, 2]), lambda a: np.less(a, 3),
        lambda a: np.equal(a, a), lambda a: np.array_equal(a, LOGICAL), lambda a: np.modf(a)[1],
        lambda a: np.add(1, 2, out=np.zeros((2, 3)), where=np.less(a, 3)),
    ):  # fmt: skip
        assert np.array_equal(call(array), call(LOGICAL)) and type(call(array)) is type(call(LOGICAL))
    total = LOGICAL.copy()
    total += array
    assert np.array_equal(total, 2 * LOGICAL)
    for call in (lambda: np.add(LOGICAL, 1, out=array), lambda: np.add.at(array, 0, 1)):
        with pytest.raises(TypeError, match="out is an Array: pass its memory"):
            call()
    assert np.array_equal(array.logical(), np.arange(6).reshape(2, 3))
