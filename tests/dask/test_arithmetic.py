"""Dask arrays whose elements change on the way: the law is the call for the whole array in memory."""

import numpy as np
import pytest

import gpulayout as gl

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


DTYPES = [
    ("u1", {"dtype": "f32", "scale": 0.3, "shift": -1}),
    ("u1", {"dtype": "bf16", "scale": [1, 2, 3]}),
    ("f4", {"dtype": "f8e4m3fn"}),
    ("f4", {"dtype": "s8", "scale": np.arange(4)[:, None, None], "shift": np.arange(10)[:, None]}),
    ("f4", {"scale": 2, "shift": np.arange(3)}),
    ("f4", {"scale": np.arange(1, 9).reshape(2, 4, 1), "block": (5, 3, 1)}),
    ("f4", {"dtype": "f8e4m3fn", "scale": np.arange(1, 13).reshape(4, 1, 3), "divide": True}),
    ("f4", {"dtype": "f32"}),
    ("u1", {"dtype": "f16", "unit": True, "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4]}),
    ("f4", {"mean": np.arange(1, 9).reshape(2, 4, 1), "std": np.arange(1, 4), "block": (5, 3, 1)}),
    ("f4", {"dtype": "s8", "scale": 0.7, "zero_point": [3, -4, 5]}),
    ("f8", {"dtype": "u4", "scale": 9.5, "zero_point": np.arange(8).reshape(2, 4, 1), "block": (5, 3, 1)}),
    ("i2", {"dtype": "bf16", "scale": np.arange(1, 11)[:, None], "zero_point": 7}),
    ("f4", {"dtype": "f8e4m3fn", "scale": 90, "saturate": False}),
    ("f8", {"dtype": "u64", "scale": 1, "zero_point": 2**63}),
    ("f8", {"dtype": "u64", "scale": 1, "zero_point": 2**64 - 1}),
    ("f8", {"dtype": "s64", "scale": -1, "zero_point": [2**63 - 1, -(2**63), 0]}),
]
CHUNKS = [(8, 10, 3), (3, 4, 2), (1, 10, 3)]
every = [pytest.mark.parametrize("dtype, options", DTYPES), pytest.mark.parametrize("chunks", CHUNKS)]


def arrays(dtype, chunks):
    array = np.random.default_rng(3).integers(0, 100, (8, 10, 3)).astype(dtype)
    return array, da.from_array(array, chunks=chunks)


def check(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert np.asarray(found.compute()).tobytes() == wanted.tobytes()


@pytest.mark.one_in(3)
@every[0]
@every[1]
@pytest.mark.parametrize("chunk_size", [None, 400])
@pytest.mark.parametrize("target", ["C", "F", "{0,1,2:PD(20,10,4)}", "{2,1,0:T(8,4)}", "h w c -> c h w"])
def test_pack(dtype, options, chunks, chunk_size, target):
    array, lazy = arrays(dtype, chunks)
    check(gl.dask.pack(lazy, target, chunk_size=chunk_size, **options), gl.pack(array, target, **options))


@pytest.mark.one_in(3)
@every[0]
@pytest.mark.parametrize("chunk", [7, 30, 240])
@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}"])
def test_unpack_and_relayout(dtype, options, chunk, layout):
    array, _ = arrays(dtype, CHUNKS[0])
    shape = gl.Shape(array.dtype, array.shape, layout)
    buffer = gl.pack(array, shape)
    lazy = da.from_array(buffer, chunks=chunk)
    check(gl.dask.unpack(lazy, shape, **options), gl.unpack(buffer, shape, **options))
    for target in ("{2,1,0}", "{1,2,0:PD(9,10,3)}", "{0,1,2:PD(90,10,3)}"):
        for size in (None, 300):
            found = gl.dask.relayout(lazy, shape, target, chunk_size=size, **options)
            check(found, gl.relayout(buffer, shape, target, **options))


@every[0]
@every[1]
@pytest.mark.parametrize("axes, sizes", [("h w c -> c h w", {}), ((1, 0, 2), {}), ("(a b) w c -> w c (b a)", {"a": 2})])
def test_transpose(dtype, options, chunks, axes, sizes):
    array, lazy = arrays(dtype, chunks)
    check(gl.dask.transpose(lazy, axes, **sizes, **options), gl.transpose(array, axes, **sizes, **options))


def test_calls_that_differ_in_numbers_have_other_names():
    _, lazy = arrays("u1", CHUNKS[0])
    calls = [gl.dask.pack(lazy, "F", dtype="f32", scale=scale) for scale in (1, 2, 2)]
    assert calls[0].name != calls[1].name == calls[2].name
    saturated, not_saturated = (gl.dask.pack(lazy, "F", dtype="f8e4m3fn", saturate=each) for each in (True, False))
    assert saturated.name != not_saturated.name


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"dtype": "s8", "mean": 3}, TypeError, "normalised elements are fractions, not s8"),
        ({"dtype": "f32", "zero_point": 300, "scale": 1}, gl.LayoutError, "zero_point 300 is outside the range of u8"),
        ({"scale": 3}, TypeError, "scale of u8 elements gives numbers that would be rounded"),
        ({"dtype": "f32", "scale": [1, 2]}, gl.LayoutError, "its size 2 is not the size 3 of dimension 2"),
    ],
)
def test_errors_come_before_anything_is_computed(options, error, message):
    _, lazy = arrays("u1", CHUNKS[0])
    shape = "u8[8,10,3]"
    for call in (
        lambda: gl.dask.pack(lazy, "F", **options),
        lambda: gl.dask.transpose(lazy, "h w c -> c h w", **options),
        lambda: gl.dask.unpack(lazy.reshape(-1), shape, **options),
        lambda: gl.dask.relayout(lazy.reshape(-1), shape, "F", **options),
    ):
        with pytest.raises(error, match=message):
            call()
