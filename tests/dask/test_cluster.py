"""On processes: a LocalCluster whose workers have too little memory for the array, or die."""

import os
import signal

import numpy as np
import pytest

import gpulayout as gl
from tests.support.waiting import HANG

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

MEGABYTES = int(os.environ.get("GPULAYOUT_TEST_DASK_MB", "0"))  # a long run: 4096, on 2 workers of 1 GB


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Two worker processes of 1 GB, reached over the loopback device."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit="1GB",
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            local_directory=str(tmp_path_factory.mktemp("workers")),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def numbered(rows, columns, chunks, slow=0.0):
    """A matrix of row * columns + column, made chunk by chunk on the workers."""

    def numbers(block_info=None):
        import time

        time.sleep(slow)
        (top, bottom), (left, right) = block_info[None]["array-location"]
        return np.arange(top, bottom, dtype="i4")[:, None] * np.int32(columns) + np.arange(left, right, dtype="i4")

    return da.map_blocks(
        numbers, chunks=da.core.normalize_chunks(chunks, (rows, columns)), dtype="i4", meta=np.zeros((0, 0), "i4")
    )


def places(rows, columns, chunk):
    """What a column-major buffer of it holds."""
    at = da.arange(rows * columns, chunks=chunk, dtype="i4")
    return at % rows * columns + at // rows


@pytest.fixture(params=["tasks", "p2p"])
def method(request):
    """Dask's two shuffles: it takes the second if the graph of the first were large."""
    with dask.config.set({"array.rechunk.method": request.param}):
        yield request.param


def test_processes_give_what_one_process_gives(client, method):
    matrix = numbered(1000, 700, (128, 700))
    buffer = gl.dask.pack(matrix, "{0,1}", chunk_size="400kB")
    assert any("p2p" in name for name in buffer.dask.layers) == (method == "p2p")
    assert bool((buffer == places(1000, 700, buffer.chunks)).all().compute())
    back = gl.dask.relayout(buffer, "s32[1000,700]{0,1}", "{1,0:T(8,128)}", chunk_size="400kB")
    assert bool((gl.dask.unpack(back, "s32[1000,700]{1,0:T(8,128)}") == matrix).all().compute())
    array = np.arange(1000 * 70).reshape(1000, 70).astype("bfloat16")
    half = gl.dask.pack(da.from_array(array, chunks=(50, 70)), "{0,1}", chunk_size="20kB")
    assert half.compute().tobytes() == array.T.tobytes()
    turned = gl.dask.transpose(buffer, "(w h) -> (h w)", h=1000)  # column-major to row-major, between named axes
    assert bool((turned == da.arange(700_000, chunks=turned.chunks)).all().compute())


def test_a_worker_that_is_killed_costs_only_time(client, method):
    matrix = numbered(1000, 700, (50, 700), slow=0.05)
    buffer = gl.dask.pack(matrix, "{0,1}", chunk_size="400kB")
    right = client.compute((buffer == places(1000, 700, buffer.chunks)).all())
    with pytest.raises(TimeoutError):
        distributed.wait(right, timeout=0.4)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert bool(right.result(timeout=HANG))
    client.wait_for_workers(2, timeout=HANG)  # the next test needs both


@pytest.mark.skipif(not MEGABYTES, reason="GPULAYOUT_TEST_DASK_MB is not set: 4096 takes minutes, and 4 GB of disk")
def test_an_array_larger_than_the_memory_of_all_workers(client):
    side = int((MEGABYTES * 2**18) ** 0.5) // 8 * 8
    shape = gl.Shape("s32", (side, side))
    buffer = gl.dask.pack(numbered(side, side, ((16 << 20) // (4 * side), side)), shape, chunk_size="16MiB")
    moved = gl.dask.relayout(buffer, shape, "{0,1}", chunk_size="16MiB")
    assert bool((moved == places(side, side, moved.chunks)).all().compute())
