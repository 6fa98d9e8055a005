"""Arrays of libraries as they are installed: pyarrow by DLPack, and what array-api-compat says of results."""

import numpy as np
import pytest

import gpulayout as gl

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_arrow_arrays_are_read_where_they_are():
    pyarrow = pytest.importorskip("pyarrow")
    array = pyarrow.array(VALUES.ravel())
    found = gl.relayout(array, "f32[2,3]", "{0,1}")
    assert type(found) is np.ndarray and found.tolist() == [0, 3, 1, 4, 2, 5]
    assert gl.shape_of(array) == gl.Shape("f32", (6,))
    seen = gl.view(array, "f32[2,3]")
    assert seen.tolist() == VALUES.tolist()
    assert seen.__array_interface__["data"][0] == array.buffers()[1].address
    assert seen.flags.writeable is not says_read_only(pyarrow)


def test_arrow_tensors_keep_their_strides():
    pyarrow = pytest.importorskip("pyarrow")
    tensor = pyarrow.Tensor.from_numpy(VALUES.T)
    assert str(gl.shape_of(tensor)) == "f32[3,2]{0,1}"
    assert gl.pack(tensor, "{1,0}").tolist() == VALUES.T.ravel().tolist()


def says_read_only(pyarrow):
    """Whether its arrays say that their memory is read-only: before 26 they use a DLPack that has no word for it."""
    return int(pyarrow.__version__.split(".")[0]) >= 26


def test_arrow_memory_is_never_written_and_nulls_are_refused():
    pyarrow = pytest.importorskip("pyarrow")
    if not says_read_only(pyarrow):
        pytest.skip("pyarrow before 26 does not say that its arrays are read-only")
    array = pyarrow.array(VALUES.ravel())
    with pytest.raises(BufferError, match="^out is read-only: it cannot be written to$"):
        gl.relayout(VALUES.ravel(), "f32[2,3]", "{0,1}", out=array)
    assert array.to_pylist() == VALUES.ravel().tolist()
    with pytest.raises(BufferError, match="^array .* cannot be used without a copy: .*nulls"):
        gl.pack(pyarrow.array([1, None, 3]), "s64[3]")


@pytest.mark.parametrize("library", ["numpy", "torch", "jax.numpy"])
def test_results_are_of_the_namespace_of_the_array(library):
    namespace_of = pytest.importorskip("array_api_compat").array_namespace
    array = pytest.importorskip(library).asarray(VALUES)
    namespace = namespace_of(array)
    for result in (
        gl.pack(array, "{0,1}"),
        gl.transpose(array),
        gl.relayout(array, "f32[2,3]", "{0,1}"),
        gl.unpack(gl.pack(array, "{0,1}"), "f32[2,3]{0,1}"),
        gl.relayout_many([(array, "f32[2,3]", "{0,1}")])[0],
    ):
        assert namespace_of(result) is namespace and result.dtype == array.dtype
