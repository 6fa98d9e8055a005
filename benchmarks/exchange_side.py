"""Exchanges between processes of gloo beside DTensor.redistribute and Dask's rechunk, and lists of a million runs.

    python -m benchmarks.exchange_side --megabytes 512 --write benchmarks/results/exchange-NAME.json

Every side starts from the same rows on each rank and ends with the same bytes there, which are compared first.  Ranks
are processes with one thread.  A plain copy of what a rank ends with is the ceiling.  Sides take turns, and the slowest
rank ends a round.  Memory is what a process holds at most, beyond what it held before.  Linux only.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import pathlib
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import gpulayout as gl
from benchmarks.machine import machine
from benchmarks.run_lists import measured_lists

HANG = 600  # seconds


class Work(NamedTuple):
    """What an array of rows becomes on every rank."""

    name: str
    spec: tuple[str | None, ...]  # of the target, as Sharding.by_mesh takes it
    layout: str = "{1,0}"
    more: int = 0  # rows and columns beyond a multiple of the ranks


WORKS = (
    Work("rows to columns", (None, "r")),
    Work("rows to columns, uneven", (None, "r"), more=1),
    Work("rows to columns that lie one by one", (None, "r"), "{0,1}"),
    Work("rows to all of it on every rank", (None, None)),
)


def sides(megabytes: int, ranks: int, work: Work) -> int:
    """Rows and columns of a square array of f32."""
    return math.isqrt(megabytes << 18) // ranks * ranks + work.more


def numbers(rows: slice, columns: slice) -> Any:
    """A part of the array, every element of which says where it is."""
    return np.arange(rows.start, rows.stop, dtype="f4")[:, None] * np.float32(0.5) + np.arange(
        columns.start, columns.stop, dtype="f4"
    )


def exchange_of(work: Work, side: int, ranks: int) -> gl.Exchange:
    shape, mesh = gl.Shape("f32", (side, side)), {"r": ranks}
    target = gl.Sharding.by_mesh(shape, mesh, work.spec, layouts=work.layout)
    return gl.exchange(gl.Sharding.by_mesh(shape, mesh, ("r", None)), target)


def box_of(sharding: gl.Sharding, rank: int) -> tuple[slice, ...]:
    box = sharding.boxes[rank]
    assert box is not None  # every rank holds a part
    return tuple(slice(*each) for each in box)


# ---- on each rank ----------------------------------------------------------------------------------------------------


def contenders(work: Work, side: int, ranks: int, rank: int) -> tuple[dict[str, Callable[[], Any]], Any]:
    """What moves this rank's rows, by name, and the buffer that each of them gives."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    exchange = exchange_of(work, side, ranks)
    rows = torch.from_numpy(numbers(*box_of(exchange.source, rank)))
    expected = numbers(*box_of(exchange.target, rank))
    expected = np.ascontiguousarray(expected.T if work.layout == "{0,1}" else expected).reshape(-1)
    out, ready = torch.empty(expected.size), torch.from_numpy(expected)
    mesh = init_device_mesh("cpu", (ranks,))
    placement = Replicate() if work.spec == (None, None) else Shard(1)
    tensor = DTensor.from_local(
        rows, mesh, [Shard(0)], run_check=False, shape=torch.Size([side, side]), stride=(side, 1)
    )

    def by_dtensor() -> Any:
        local = tensor.redistribute(mesh, [placement]).to_local()
        return (local.t() if work.layout == "{0,1}" else local).contiguous()

    def by_hand() -> Any:
        """The columns of each rank together, and one call: what arrives are the rows of the result."""
        packed = rows.reshape(-1, ranks, side // ranks).transpose(0, 1).contiguous()
        result = torch.empty(side, side // ranks)
        dist.all_to_all_single(result, packed.reshape(side, -1))
        return result

    flat = rows.reshape(-1)
    calls = {
        "exchange": lambda: exchange.run(flat),
        "exchange, out=": lambda: exchange.run(flat, out=out),
        "dtensor": by_dtensor,
        "copy": ready.clone,
    }
    if work == WORKS[0]:
        calls["all_to_all_single by hand"] = by_hand
    return calls, expected


def timed_on_a_rank(work: Work, side: int, ranks: int, rank: int, rounds: int) -> dict[str, Any]:
    """Seconds of each round and the most memory, by the name of the contender, after one round that is compared."""
    import torch.distributed as dist

    calls, expected = contenders(work, side, ranks, rank)
    for name, call in calls.items():
        found = call().numpy().reshape(-1)
        assert np.array_equal(found, expected), f"{name}: {work.name} gives other bytes on rank {rank}"
        del found
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    peaks = dict.fromkeys(calls, 0)
    for number in range(rounds):
        for name, call in list(calls.items())[:: -1 if number % 2 else 1]:
            before = reset_peak()
            dist.barrier()
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
            peaks[name] = max(peaks[name], peak() - before)
            dist.barrier()
    return {"seconds": seconds, "peaks": peaks}


def reset_peak() -> int:
    """Forget how much this process held at most; the bytes that it holds."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _rank(rank: int, ranks: int, store: str, plans: list[tuple[Work, int]], rounds: int, answer: Any) -> None:
    """A process: all works, one after the other."""
    import torch
    import torch.distributed as dist

    try:
        torch.set_num_threads(1)
        gl.use_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
        answer.send([timed_on_a_rank(work, side, ranks, rank, rounds) for work, side in plans])
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        answer.send(traceback.format_exc())


# ---- all ranks -------------------------------------------------------------------------------------------------------


def by_gloo(
    plans: list[tuple[Work, int]], ranks: int, rounds: int
) -> Iterator[tuple[dict[str, list[float]], dict[str, int]]]:
    """For each work the seconds of its rounds, those of the slowest rank, and the most memory of a rank."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [spawn.Pipe(duplex=False) for _ in range(ranks)]
        processes = [
            spawn.Process(target=_rank, args=(rank, ranks, f"{folder}/store", plans, rounds, pipe[1]), daemon=True)
            for rank, pipe in enumerate(pipes)
        ]
        for process in processes:
            process.start()
        answers = []
        for answer, _ in pipes:
            if not answer.poll(HANG):
                raise TimeoutError(f"a rank gave no answer in {HANG} seconds")
            answers.append(answer.recv())
            if isinstance(answers[-1], str):
                raise RuntimeError(answers[-1])
        for process in processes:
            process.join()
    for found in zip(*answers):
        names = found[0]["seconds"]
        yield (
            {name: [max(times) for times in zip(*(each["seconds"][name] for each in found))] for name in names},
            {name: max(each["peaks"][name] for each in found) for name in names},
        )


def by_dask(work: Work, side: int, ranks: int, rounds: int) -> tuple[list[float], int]:
    """Seconds of each round and the most memory of a worker: the rows are chunks of an array, one on each worker."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    exchange = exchange_of(work, side, ranks)
    boxes = [[box_of(each, rank) for rank in range(ranks)] for each in (exchange.source, exchange.target)]
    widths = tuple(columns.stop - columns.start for _, columns in boxes[1])
    order = "F" if work.layout == "{0,1}" else "C"
    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
    seconds, most = [], 0
    with LocalCluster(n_workers=ranks, threads_per_worker=1, **local) as cluster, Client(cluster) as client:
        workers = [*client.scheduler_info(n_workers=-1)["workers"]]
        parts = [client.submit(numbers, *box, workers=[worker]) for box, worker in zip(boxes[0], workers)]
        chunks = [da.from_delayed(part, (box[0].stop - box[0].start, side), "f4") for part, box in zip(parts, boxes[0])]
        wait(parts)
        for number in range(rounds + 1):  # the first is compared
            before = client.run(reset_peak)
            start = time.perf_counter()
            moved = da.concatenate(chunks).rechunk(((side,), widths)).map_blocks(np.array, dtype="f4", order=order)
            moved = moved.persist()
            wait(moved)
            seconds.append(time.perf_counter() - start)
            most = max(most, *(held - before[worker] for worker, held in client.run(peak).items()))
            if number == 0:
                assert np.array_equal(moved.compute(), numbers(slice(0, side), slice(0, side))), work.name
                most = 0
            del moved
    return seconds[1:], most


def measured(megabytes: int, ranks: int, rounds: int, dask: bool) -> list[dict[str, Any]]:
    """For each work: medians, all seconds, memory, and how many times as long as the exchange each other side takes."""
    plans = [(work, sides(megabytes, ranks, work)) for work in WORKS]
    results = []
    for (work, side), (seconds, peaks) in zip(plans, by_gloo(plans, ranks, rounds)):
        if dask and work.spec != (None, None):  # a chunk has one place
            seconds["dask"], peaks["dask"] = by_dask(work, side, ranks, rounds)
        medians = {name: statistics.median(each) for name, each in seconds.items()}
        exchange = exchange_of(work, side, ranks)
        results.append(
            {
                "work": work.name,
                "shape": str(exchange.source.shape),
                "bytes": exchange.source.shape.nbytes,
                "bytes_that_travel": sum(message.nbytes for message in exchange.messages),
                "ranks": ranks,
                "rounds": rounds,
                "seconds": medians,
                "all_seconds": seconds,
                "peak_bytes_per_process": peaks,
                "times_as_long": {name: medians[name] / medians["exchange"] for name in medians},
            }
        )
    return results


def losses(exchanges: list[dict[str, Any]]) -> list[str]:
    """Where another library is faster than an exchange, or takes less memory."""
    found = []
    for each in exchanges:
        for name in ("dtensor", "dask"):
            for key, what in (("seconds", "seconds"), ("peak_bytes_per_process", "bytes")):
                if name in each[key] and each[key][name] < each[key]["exchange"]:
                    found.append(
                        f"{each['work']}: {name} {each[key][name]:.4g} {what}, exchange {each[key]['exchange']:.4g}"
                    )
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512, help="of the array")
    parser.add_argument("--ranks", type=int, default=2, help="processes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--runs", type=int, default=1_000_000, help="of a list")
    parser.add_argument("--no-dask", action="store_true", help="without Dask, whose workers take seconds to start")
    parser.add_argument("--write", help="the JSON file")
    given = parser.parse_args(arguments)
    exchanges = measured(given.megabytes, given.ranks, given.rounds, not given.no_dask)
    found = {
        "machine": machine("numpy", peers=True),
        "exchanges": exchanges,
        "losses": losses(exchanges),
        "lists": measured_lists(given.runs, given.rounds),
    }
    text = json.dumps(found, indent=1)
    print(text)
    if given.write:
        pathlib.Path(given.write).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
