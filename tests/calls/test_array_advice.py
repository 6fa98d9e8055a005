"""What an `Array` lacks, and keywords that calls lack: each works or is one error whose advice works."""

import operator
import re

import numpy as np
import pytest

import gpulayout as gl

LOGICAL = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def of_torch(values):
    return pytest.importorskip("torch", reason="torch is not installed").from_numpy(values.copy())


def of_jax(values):
    return pytest.importorskip("jax.numpy", reason="JAX is not installed").asarray(values)


KINDS = {"numpy": np.array, "torch": of_torch, "jax": of_jax}
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge")


def advice_of(call, error=TypeError):
    with pytest.raises(error, match="write ") as caught:
        call()
    return re.search("write (.+?)(?:;|, of|$)", str(caught.value))[1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("library", KINDS)
@pytest.mark.parametrize("name", BINARY)
def test_the_advice_of_arithmetic_works(name, library):
    work, logical = getattr(operator, name), KINDS[library](LOGICAL)
    array = gl.asarray(logical, "{1,0:T(2,2)}")
    cases = [(array, 2, work(logical, 2)), (2, array, work(2, logical)), (array, array, work(logical, logical))]
    for left, right, expected in cases:
        advice = advice_of(lambda: work(left, right))  # noqa: B023
        other = 2 if 2 in [each for each in (left, right) if each is not array] else array.logical()
        found = eval(advice, {"array": array, "other": other})
        # a comparison from the right is asked from the left
        assert np.array_equal(np.asarray(found), np.asarray(expected)) and type(found) is type(expected), advice


def test_the_advice_of_operators_with_one_side_works():
    array = gl.asarray(LOGICAL, "{1,0:T(2,2)}")
    for work in (operator.neg, operator.pos, abs):
        assert np.array_equal(eval(advice_of(lambda: work(array)), {"array": array}), work(LOGICAL))  # noqa: B023
    for work in (operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        assert "array.logical()" in advice_of(lambda: work(array, 3)) and advice_of(lambda: work(3, array))  # noqa: B023
    assert advice_of(lambda: ~array) == "~array.logical()"


def test_numpy_computes_where_one_side_is_its_array():
    array = gl.asarray(LOGICAL, "{1,0:T(2,2)}")
    for name in (*BINARY, "matmul"):
        work, other = getattr(operator, name), LOGICAL + 1 if name != "matmul" else LOGICAL.T
        assert np.array_equal(work(array, other), work(LOGICAL, other))
        assert np.array_equal(work(other, array), work(other, LOGICAL))


ATTRIBUTES = {
    "T": lambda x: x.T,
    "sum": lambda x: x.sum(),
    "reshape": lambda x: x.reshape(3, 2),
    "max": lambda x: x.max(),
}


@pytest.mark.parametrize("library", KINDS)
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_the_advice_of_attributes_works(name, library):
    logical = KINDS[library](LOGICAL)
    array = gl.asarray(logical, "{1,0:T(2,2)}")
    advice = advice_of(lambda: getattr(array, name), AttributeError)
    assert advice == f"array.logical().{name}" and not hasattr(array, name)
    found, expected = (ATTRIBUTES[name](each) for each in (array.logical(), logical))
    assert np.array_equal(np.asarray(found), np.asarray(expected))


def test_attributes_of_a_shape_and_others():
    array = gl.asarray(LOGICAL, "{0,1}")
    for name, advice in (
        ("layout", "array.layout_shape.layout"), ("rank", "array.layout_shape.rank"),
        ("dimensions", "array.layout_shape.dimensions"), ("strides", "array.layout_shape.strides"),
        ("astype", "array.to(dtype=...)"), ("view", "gl.view(array)"), ("numpy", "numpy.asarray(array)"),
    ):  # fmt: skip
        assert advice_of(lambda: getattr(array, name), AttributeError) == advice  # noqa: B023
    for name in ("nonsense", "_private", "__jax_array__", "logicall"):
        with pytest.raises(AttributeError, match=f"^'Array' object has no attribute '{name}'$") as caught:
            getattr(array, name)
        assert caught.value.name == name  # so Python finds the nearest name
    with pytest.raises(AttributeError, match="buffer"):
        object.__new__(gl.Array).buffer  # noqa: B018


def test_what_numpy_and_python_ask_of_arrays_works():
    array = gl.asarray(LOGICAL, "{1,0:T(2,2)}")
    assert array.shape[0] == len(array) == 2 and np.array_equal(np.asarray(array), LOGICAL)
    assert np.sum(array) == LOGICAL.sum() and np.array_equal(np.reshape(array, 6), LOGICAL.reshape(6))
    assert np.array_equal(np.transpose(array), LOGICAL.T)


# ---- keywords ------------------------------------------------------------------------------------------------------

X, LINE = LOGICAL, LOGICAL.reshape(-1)
KEYWORDS = {
    "pack target": (lambda: gl.pack(X, target="{0,1}"), "gl.pack(array, '{0,1}')"),
    "pack layout": (lambda: gl.pack(X, layout="{0,1}", dtype="f16"), "gl.pack(array, '{0,1}')"),
    "pack order": (lambda: gl.pack(X, order="F"), "gl.pack(array, 'F')"),
    "unpack source": (lambda: gl.unpack(LINE, source="f32[2,3]"), "gl.unpack(buffer, 'f32[2,3]')"),
    "relayout layout": (lambda: gl.relayout(LINE, "f32[2,3]", layout="F"), "gl.relayout(buffer, source, 'F')"),
    "relayout shape": (
        lambda: gl.relayout(LINE, shape="f32[2,3]", target="F"),
        "gl.relayout(buffer, 'f32[2,3]', target)",
    ),
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_a_layout_by_a_wrong_keyword_is_an_error_with_the_call(name):
    call, advice = KEYWORDS[name]
    assert advice_of(call) == advice
    names = {"gl": gl, "array": X, "buffer": LINE, "source": "f32[2,3]", "target": "F"}
    assert eval(advice, names).size == 6


def test_other_wrong_keywords():
    for word in ("pitch", "align"):
        for shape in ((), ("{1,0}",)):
            with pytest.raises(TypeError, match=rf"belongs to the shape, as in gl\.Shape\(.*, {word}=64\)"):
                gl.pack(X, *shape, **{word: 64})
    for call in (lambda: gl.pack(X, "F", target="F"), lambda: gl.asarray(X).to(layout="F")):
        with pytest.raises(TypeError, match="shapes and layouts come before the keywords, by position"):
            call()
    for call in (lambda: gl.pack(X), lambda: gl.pack(X, None), lambda: gl.pack(X, dtype="f16")):
        with pytest.raises(TypeError, match=r"^pack\(\) missing 1 required positional argument: 'shape'$"):
            call()
