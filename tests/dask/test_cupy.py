"""CuPy chunks, with the threaded scheduler: they stay CuPy's on the way."""

import numpy as np
import pytest

import gpulayout as gl

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.gpu


@pytest.fixture
def cupy():
    from gpulayout.choices.backends import gpu_problem

    if problem := gpu_problem():
        pytest.skip(problem)
    import cupy

    with dask.config.set(scheduler="threads", num_workers=2):
        yield cupy


@pytest.mark.parametrize("layout", ["{0,1}", "{1,0:T(8,128)}", "{0,1:PD(40,70)PV(lowest)}"])
def test_cupy_chunks_stay_cupys(cupy, layout):
    array = np.arange(33 * 60, dtype=np.float32).reshape(33, 60)
    shape = gl.Shape("f32", (33, 60), layout)
    buffer = gl.dask.pack(da.from_array(cupy.asarray(array), chunks=(7, 60), asarray=False), shape, chunk_size=4000)
    moved = gl.dask.relayout(buffer, shape, "{1,0}", chunk_size=2000)
    back = gl.dask.unpack(moved, "f32[33,60]")
    for lazy, expected in ((buffer, gl.pack(array, shape)), (moved, array.ravel()), (back, array)):
        assert type(lazy._meta) is cupy.ndarray and lazy._meta.dtype == lazy.dtype == np.float32
        for block in np.ndindex(lazy.numblocks):
            assert type(lazy.blocks[block].compute()) is cupy.ndarray
        result = lazy.compute()
        assert type(result) is cupy.ndarray and (result.get() == expected).all()


def test_indices_of_cupy(cupy):
    index = da.from_array(cupy.asarray(np.indices((5, 6))), chunks=(1, 2, 6), asarray=False)
    lazy = gl.dask.linearize(index, "f32[5,6]{0,1}")
    assert type(lazy._meta) is cupy.ndarray and type(lazy.compute()) is cupy.ndarray
    assert (lazy.compute().get() == gl.linearize(np.indices((5, 6)), "f32[5,6]{0,1}")).all()


@pytest.mark.parametrize("pattern", ["h w -> w h", "(a b) w -> b (w a)"])
def test_transposes_of_cupy_chunks(cupy, pattern):
    array, sizes = np.arange(33 * 60, dtype=np.float32).reshape(33, 60), {"a": 3} if "a" in pattern else {}
    source = da.from_array(cupy.asarray(array), chunks=(7, 60), asarray=False)
    lazy = gl.dask.transpose(source, pattern, **sizes)
    assert type(lazy._meta) is cupy.ndarray and type(lazy.compute()) is cupy.ndarray
    assert (lazy.compute().get() == gl.transpose(array, pattern, **sizes)).all()
