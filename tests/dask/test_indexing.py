"""Index conversion of Dask arrays gives what it gives of the whole array."""

import numpy as np
import pytest

import gpulayout as gl

da = pytest.importorskip("dask.array")

SHAPES = ["f32[6,10]", "f32[6,10]{0,1:PD(7,12)}", "f32[6,10]{1,0:T(4,4)}", "f32[6,10]{1,0:T(3)(2)}"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chunks", [(2, 4, 5), (1, 6, 10), ((1, 1), (1, 5), (3, 7))])
def test_indices_and_places_in_any_chunks(shape, chunks):
    whole = np.indices((6, 10))
    places = gl.linearize(whole, shape)
    index = da.from_array(whole, chunks=chunks)
    lazy = gl.dask.linearize(index, shape)
    assert (lazy.shape, lazy.dtype, lazy.chunks) == (places.shape, np.int64, index.chunks[1:])
    assert (lazy.compute() == places).all()
    assert (gl.dask.linearize(list(index), shape).compute() == places).all()
    back = gl.dask.delinearize(lazy, shape)
    assert (back.shape, back.dtype, back.chunks) == (whole.shape, np.int64, ((2,), *lazy.chunks))
    assert (back.compute() == whole).all()
    assert (gl.dask.convert_linear(lazy, shape, "{0,1}").compute() == gl.linearize(whole, "f32[6,10]{0,1}")).all()


def test_coordinates_broadcast_and_wrap():
    rows, columns = da.arange(8, chunks=3)[:, None], da.arange(10, chunks=4)
    lazy = gl.dask.linearize((rows, columns), "f32[6,10]", mode="wrap")
    assert (lazy.compute() == (np.arange(8)[:, None] % 6) * 10 + np.arange(10)).all()


def test_padding_can_be_marked():
    lazy = gl.dask.delinearize(da.arange(84, chunks=10), "f32[6,10]{0,1:PD(7,12)}", padding="mark")
    assert (lazy.compute() == gl.delinearize(np.arange(84), "f32[6,10]{0,1:PD(7,12)}", padding="mark")).all()
    lazy = gl.dask.convert_linear(da.arange(84, chunks=10), "f32[6,10]{0,1:PD(7,12)}", "{1,0}", padding="mark")
    expected = gl.convert_linear(np.arange(84), "f32[6,10]{0,1:PD(7,12)}", "{1,0}", padding="mark")
    assert (lazy.compute() == expected).all() and -1 in expected


def test_an_index_out_of_bounds_raises_when_it_is_computed():
    lazy = gl.dask.linearize(da.full((2, 5), 7, chunks=2), "f32[6,10]")
    with pytest.raises(IndexError, match="7"):
        lazy.compute(scheduler="synchronous")


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: gl.dask.linearize(da.zeros((3, 4), dtype=int), "f32[6,10]"),
            IndexError,
            "index has 3 coordinates, but f32",
        ),
        (lambda: gl.dask.linearize((), "f32[6,10]"), IndexError, "index has 0 coordinates, but f32"),
        (lambda: gl.dask.linearize(da.zeros((2, 4)), "f32[6,10]"), TypeError, "index has dtype float64: indices are"),
        (lambda: gl.dask.linearize(np.zeros((2, 4), int), "f32[6,10]"), TypeError, "not a Dask array: gl.linearize"),
        (
            lambda: gl.dask.linearize(da.zeros((2, 4), dtype=int), "f32[6,10]", mode="no"),
            ValueError,
            "mode 'no' is not one",
        ),
        (
            lambda: gl.dask.delinearize(da.zeros(4, dtype=int), "f32[6]", padding="no"),
            ValueError,
            "padding 'no' is not one",
        ),
        (
            lambda: gl.dask.convert_linear(da.zeros(4, dtype=int), "f32[6]", "{0}", padding="no"),
            ValueError,
            "padding 'no' is not one of",
        ),
        (lambda: gl.dask.delinearize(da.zeros(4), "f32[6]"), TypeError, "linear has dtype float64"),
        (
            lambda: gl.dask.convert_linear(da.zeros(4, dtype=int), "f32[6]", "f32[7]"),
            gl.LayoutError,
            "not the same logical",
        ),
    ],
)
def test_mistakes_are_errors_at_once(call, error, message):
    with pytest.raises(error, match=message):
        call()
