"""Index conversion of empty lists and empty arrays, on every executor, in every mode and for every dtype."""

import numpy as np
import pytest

import gpulayout as gl

SHAPES = (
    "f32[]",
    "f32[5]",
    "f32[2,3]{0,1:PD(3,5)}",
    "f32[0,3]",
    "f32[6]{0:T(3)(2)}",
    "bf16[16,256]{1,0:T(8,128)(2,1)}",
)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
NO_INTEGERS = ("bool", "complex64", "S3", "datetime64[s]")


@pytest.fixture(autouse=True)
def lists_go_to(executor):
    """Lists become arrays of the executor, even on a machine with a GPU."""
    with gl.use_backend("cupy" if executor.name == "cupy" else "numpy"):
        yield


def is_empty(executor, result, shape, dtype="int64"):
    """True for an empty array of the executor with this shape and dtype."""
    return type(result) is type(executor.array(np.zeros(0))) and (result.shape, result.dtype, result.size) == (
        shape,
        np.dtype(dtype),
        0,
    )


@pytest.mark.parametrize("text", SHAPES)
def test_empty_lists_give_empty_results(executor, text):
    shape = gl.parse_shape(text)
    for padding in ("raise", "mark"):
        assert is_empty(executor, gl.delinearize([], shape, padding=padding), (shape.rank, 0))
        assert is_empty(executor, gl.delinearize([[], []], shape, padding=padding), (shape.rank, 2, 0))
        assert is_empty(executor, gl.delinearize((), shape, padding=padding), (shape.rank, 0))
    assert is_empty(executor, gl.convert_linear([], shape, "{}" if not shape.rank else shape.with_layout(None)), (0,))
    assert is_empty(executor, gl.convert_linear([[]], shape, shape), (1, 0))
    for mode in ("raise", "wrap", "clip"):
        if shape.rank:
            assert is_empty(executor, gl.linearize([[]] * shape.rank, shape, mode=mode), (0,))
            assert is_empty(executor, gl.linearize([[[], []]] * shape.rank, shape, mode=mode), (2, 0))
        else:
            assert gl.linearize([], shape, mode=mode) == 0  # the only index of a scalar has no coordinates


@pytest.mark.parametrize("mode", ("raise", "wrap", "clip"))
def test_empty_lists_with_arrays_and_numbers(executor, mode):
    none = executor.array(np.zeros(0, np.int8))
    for operands in ((none, []), ([], none), ([], 1), (2, []), (none, none)):
        assert is_empty(executor, gl.linearize(operands, "f32[2,3]{0,1:PD(3,5)}", mode=mode), (0,))
    column = executor.array(np.zeros((4, 1), np.int32))
    assert is_empty(executor, gl.linearize((column, []), "f32[2,3]", mode=mode), (4, 0))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_empty_arrays_and_outputs_of_every_integer_dtype(executor, dtype):
    def none(*shape):
        return executor.array(np.zeros(shape, dtype))

    for text in ("f32[2,3]{0,1:PD(3,5)}", "f32[2,3]{0,1:T(2)(3)}"):
        assert is_empty(executor, gl.linearize(none(2, 0), text), (0,)) and is_empty(
            executor, gl.delinearize(none(0), text), (2, 0)
        )
        for mode in ("raise", "wrap", "clip"):
            out = none(0)
            assert (
                gl.linearize([[], []], text, mode=mode, out=out) is out
                and gl.linearize(([], 1), text, mode=mode, out=out) is out
            )
        out, flat = none(2, 0), none(0)
        assert gl.delinearize([], text, out=out) is out and gl.convert_linear([], text, "f32[2,3]", out=flat) is flat
        if dtype.startswith("u"):
            with pytest.raises(TypeError, match=f"out has dtype {dtype}, which cannot hold -1"):
                gl.delinearize([], text, padding="mark", out=none(2, 0))
        else:
            assert gl.delinearize([], text, padding="mark", out=out) is out


def test_wrong_outputs_are_refused_even_without_an_index(executor):
    floats, small = executor.array(np.zeros(0, np.float32)), executor.array(np.zeros((2, 0), np.int8))
    with pytest.raises(TypeError, match="out has dtype float32: linear and logical indices are native integers"):
        gl.linearize([[], []], "f32[2,3]", out=floats)
    with pytest.raises(TypeError, match="out has dtype int8, which cannot hold 299"):
        gl.delinearize([], "f32[300,2]", out=small)
    for wrong in ((1,), (0, 1), ()):
        with pytest.raises(BufferError, match="out has shape"):
            gl.convert_linear([], "f32[2,3]", "f32[2,3]", out=executor.array(np.zeros(wrong, np.int64)))


@pytest.mark.parametrize(
    "convert",
    [
        lambda given: gl.delinearize(given, "f32[6]"),
        lambda given: gl.convert_linear(given, "f32[6]", "f32[6]"),
        lambda given: gl.linearize(given[None] if hasattr(given, "dtype") else [given], "f32[6]"),
    ],
    ids=("delinearize", "convert_linear", "linearize"),
)
def test_floats_are_refused_unless_there_are_none(executor, convert):
    """NumPy makes floats of an empty list, so empty floats are accepted; other floats are not."""
    assert convert([]).shape[-1] == convert(executor.array(np.zeros(0, np.float32))).shape[-1] == 0
    for given in ([0.0], [0.0, 1.0], executor.array(np.zeros(1)), executor.array(np.zeros(3, np.float32))):
        with pytest.raises(TypeError, match="has dtype float"):
            convert(given)


@pytest.mark.parametrize("dtype", NO_INTEGERS)
def test_empty_arrays_of_other_dtypes_are_refused(executor, dtype):
    given = np.zeros(0, dtype)
    if given.dtype.kind not in "SM":  # CuPy has no strings and no dates: these stay NumPy arrays
        given = executor.array(given)
    with pytest.raises(TypeError, match="indices must be integers"):
        gl.delinearize(given, "f32[6]")


def test_an_empty_list_does_not_index_an_array_with_dimensions(executor):
    with pytest.raises(IndexError, match=r"index has 0 coordinates, but f32\[2,3\]\{1,0\} has 2 dimensions"):
        gl.linearize([], "f32[2,3]")
    with pytest.raises(IndexError, match=r"index has shape \(0,\), but f32\[2,3\]\{1,0\} has 2 dimensions"):
        gl.linearize(executor.array(np.zeros(0, np.int64)), "f32[2,3]")
