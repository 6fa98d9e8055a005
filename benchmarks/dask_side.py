"""A relayout on two worker processes beside Dask's own transposition of the same data; and a larger one, simulated.

    python -m benchmarks.dask_side --megabytes 1024 --write benchmarks/results/dask-NAME.json

Both sides start from the same chunks on the workers and end in chunks of the same bytes, which are compared first.
Dask's is `x.transpose().rechunk(...)`; its chunks are made C-ordered, as a buffer's are.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import threading
import time

import dask
import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks
from distributed import Client, LocalCluster, wait

import gpulayout as gl
from benchmarks.machine import machine


def matrix(side, chunk_bytes):
    """Rows of numbers, made on the workers."""

    def numbers(block_info=None):
        (top, bottom), (left, right) = block_info[None]["array-location"]
        return np.arange(top, bottom, dtype="f4")[:, None] * np.float32(0.5) + np.arange(left, right, dtype="f4")

    chunks = normalize_chunks((chunk_bytes // (4 * side), side), (side, side))
    return da.map_blocks(numbers, chunks=chunks, dtype="f4", meta=np.zeros((0, 0), "f4"))


def by_dask(x, columns):
    return x.transpose().rechunk((columns, x.shape[0])).map_blocks(np.ascontiguousarray, dtype=x.dtype)


def by_gpulayout(x, columns):
    return gl.dask.pack(x, "{0,1}", chunk_size=columns * x.shape[0] * 4)


class Peak:
    """The largest resident memory of each worker, sampled every 50 ms by the worker itself."""

    def __init__(self, client):
        self.client = client
        client.run(self._start)

    @staticmethod
    def _start(dask_worker):
        def watch():
            while not dask_worker.gpulayout_stop.wait(0.05):
                with open("/proc/self/statm") as file:
                    dask_worker.gpulayout_peak = max(dask_worker.gpulayout_peak, int(file.read().split()[1]) * 4096)

        dask_worker.gpulayout_peak, dask_worker.gpulayout_stop = 0, threading.Event()
        threading.Thread(target=watch, daemon=True).start()

    @staticmethod
    def _stop(dask_worker):
        dask_worker.gpulayout_stop.set()
        return dask_worker.gpulayout_peak

    def stop(self):
        return max(self.client.run(self._stop).values())


def measured(megabytes, rounds, chunk_bytes):
    """Seconds and peak bytes of both sides, in turn."""
    side = math.isqrt(megabytes << 18) // 8 * 8
    columns = chunk_bytes // (4 * side)
    sides = {"gpulayout": by_gpulayout, "dask": by_dask}
    seconds, peaks = {name: [] for name in sides}, dict.fromkeys(sides, 0)
    for number in range(rounds):
        for name, move in list(sides.items())[:: -1 if number % 2 else 1]:  # each side is first in every second round
            with (
                LocalCluster(
                    n_workers=2,
                    threads_per_worker=1,
                    memory_limit="4GB",
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                ) as cluster,
                Client(cluster) as client,
            ):
                x = matrix(side, chunk_bytes).persist()
                wait(x)
                peak, start = Peak(client), time.perf_counter()
                moved = move(x, columns).persist()
                wait(moved)
                seconds[name].append(time.perf_counter() - start)
                peaks[name] = max(peaks[name], peak.stop())
                expected = matrix(side, chunk_bytes).transpose().rechunk((columns, side))
                got = moved if moved.ndim == 2 else gl.dask.unpack(moved, gl.Shape("f32", (side, side)))
                assert bool((got == expected).all().compute())
    return {
        "side": side,
        "bytes": 4 * side * side,
        "chunk_bytes": chunk_bytes,
        "rounds": rounds,
        "seconds": {name: statistics.median(found) for name, found in seconds.items()},
        "all_seconds": seconds,
        "peak_bytes_per_worker": peaks,
    }


def simulated(terabytes, workers, chunk_bytes):
    """The graph of a transposition that nothing runs: its tasks, and the bytes that have to change workers.

    Chunks of the source lie on the workers in equal, consecutive parts, and so do those of the target.  The shuffle
    sends every piece of a source chunk once, to the worker that holds the piece's target chunk.  The least possible
    puts each target chunk on the worker that has most of it.
    """
    side = math.isqrt(int(terabytes * 10**12) // 4) // 1024 * 1024
    shape, rows = gl.Shape("f32", (side, side)), chunk_bytes // (4 * side)
    buffer = da.zeros(side * side, chunks=rows * side, dtype="f4")
    with dask.config.set({"array.rechunk.method": "p2p"}):
        start = time.perf_counter()
        moved = gl.dask.relayout(buffer, shape, "{0,1}", chunk_size=chunk_bytes)
        tasks = len(moved.dask)
        built = time.perf_counter() - start
    (_, old), (new, _) = next(  # the shuffle sees the transposed array
        (layer.chunks_input, layer.chunks) for layer in moved.dask.layers.values() if hasattr(layer, "chunks_input")
    )
    held = [owned(sizes, workers) for sizes in (old, new)]  # rows of the source, columns of the target, per worker
    stays = sum(4 * mine * yours for mine, yours in zip(*held))
    most = max(held[0])
    return {
        "bytes": shape.nbytes,
        "workers": workers,
        "chunk_bytes": chunk_bytes,
        "chunks": [len(old), len(new)],
        "tasks": tasks,
        "tasks_per_gigabyte": tasks / (shape.nbytes / 10**9),
        "seconds_to_build_the_graph": built,
        "network_bytes": shape.nbytes - stays,
        "least_network_bytes": shape.nbytes - 4 * side * most,
        "pieces": len(old) * len(new),
        "bytes_of_a_piece": 4 * max(old) * max(new),
    }


def owned(sizes, workers):
    """What each worker holds of chunks that are dealt out in equal, consecutive parts."""
    found = [0] * workers
    for number, size in enumerate(sizes):
        found[number * workers // len(sizes)] += size
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunk-megabytes", type=int, default=32)
    parser.add_argument("--terabytes", type=float, default=10, help="of the simulated array")
    parser.add_argument("--write", help="the JSON file")
    given = parser.parse_args(arguments)
    found = {
        "machine": machine("numpy", peers=False),
        "dask": dask.__version__,
        "measured": measured(given.megabytes, given.rounds, given.chunk_megabytes << 20),
        "simulated": [simulated(given.terabytes, 100, size << 20) for size in (128, 1024)],
    }
    text = json.dumps(found, indent=1)
    print(text)
    if given.write:
        with open(given.write, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
