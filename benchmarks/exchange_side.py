"""Exchanges beside DTensor.redistribute and Dask: `python -m benchmarks.exchange_side`, on Linux with PyTorch and Dask.

Ranks are processes on this machine, which gloo connects.  Each contender gets the same shards, and every result is
compared byte for byte first.  A time is that of the slowest rank, from a barrier on.  Memory is what a process takes at
its peak beyond what it had before: its result included, unless it was allocated beforehand.

Dask and `Exchange.move` run in one process, where a copy of the array is the ceiling.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gpulayout as gl
from benchmarks.machine import machine

SIZE = 6144  # rows and columns: 151 MB of f32
# A name, the sizes of the mesh, the placements before and after (a dimension, or None for replicas), and the type that
# results have.
CASES: tuple[tuple[str, tuple[int, ...], tuple[int | None, ...], tuple[int | None, ...], str], ...] = (
    ("rows to columns, 2 ranks", (2,), (0,), (1,), "f32"),
    ("rows to columns, 4 ranks", (4,), (0,), (1,), "f32"),
    ("rows to all, 2 ranks", (2,), (0,), (None,), "f32"),
    ("blocks turned, 2 x 2 ranks", (2, 2), (0, 1), (1, 0), "f32"),
    ("rows to columns in bf16, 2 ranks", (2,), (0,), (1,), "bf16"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exchange_side", description=__doc__)
    parser.add_argument("--size", type=int, default=SIZE, help=f"rows and columns; {SIZE}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rank:
        number, rank, folder = options.rank
        _rank(CASES[int(number)], int(rank), folder, options.size, options.rounds)
        return
    found = measured(options.size, options.rounds)
    print("\n".join(lines(found)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(size: int, rounds: int) -> dict[str, Any]:
    """Seconds and bytes of every contender for all cases, and those of lists of runs."""
    cases = [{"case": case[0], "results": _on_ranks(number, size, rounds)} for number, case in enumerate(CASES)]
    cases.append({"case": "rows to columns, one process", "results": _in_one_process(size, rounds)})
    return {"machine": machine("numpy", False), "size": size, "rounds": rounds, "cases": cases, "lists": _lists(rounds)}


def lines(found: dict[str, Any]) -> list[str]:
    """The figures as a table."""
    text = ["| case | contender | ms | of ours | peak MB |", "|---|---|---|---|---|"]
    for case in found["cases"]:
        ours = case["results"]["gpulayout"]["seconds"]
        for name, result in case["results"].items():
            ratio, peak = result["seconds"] / ours, result["peak"] / 1e6
            text.append(f"| {case['case']} | {name} | {result['seconds'] * 1e3:.1f} | {ratio:.2f} | {peak:.0f} |")
    text += ["", "| list | runs | ms | bytes a run at the peak |", "|---|---|---|---|"]
    for each in found["lists"]:
        text.append(f"| {each['list']} | {each['runs']} | {each['seconds'] * 1e3:.1f} | {each['bytes_a_run']:.1f} |")
    return text


# ---- a process for each rank -----------------------------------------------------------------------------------------


def _on_ranks(number: int, size: int, rounds: int) -> dict[str, Any]:
    ranks = int(np.prod(CASES[number][1]))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.exchange_side", "--size", str(size), "--rounds", str(rounds)]
        running = [subprocess.Popen([*command, "--rank", str(number), str(rank), folder]) for rank in range(ranks)]
        if sum(process.wait() != 0 for process in running):
            raise RuntimeError(f"a rank of {CASES[number][0]!r} failed: see above")
        results: dict[str, Any] = json.loads(pathlib.Path(folder, "results.json").read_text())
    return results


def _rank(case: Any, rank: int, folder: str, size: int, rounds: int) -> None:
    """What one process does: all contenders, in turns."""
    import torch
    import torch.distributed as dist

    _, mesh, *_ = case
    torch.set_num_threads(1)
    gl.use_threads(1)
    ranks = int(np.prod(mesh))
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    contenders = _contenders(case, rank, size)
    results = {name: (run(), list[float](), list[int]()) for name, run in contenders.items()}
    ours = results["gpulayout"][0]
    for name, (result, *_) in results.items():
        if name != "copy" and not torch.equal(_bits(result), _bits(ours)):
            raise RuntimeError(f"{name} gave other bytes on rank {rank}")
    del ours, result
    results = {name: (None, seconds, peaks) for name, (_, seconds, peaks) in results.items()}
    for _ in range(rounds):
        for name, run in contenders.items():
            dist.barrier()
            seconds, peak = timed(run)
            slowest = torch.tensor([seconds, float(peak)], dtype=torch.float64)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            results[name][1].append(float(slowest[0]))
            results[name][2].append(int(slowest[1]))
    if rank == 0:
        medians = {
            name: {"seconds": statistics.median(seconds), "peak": int(statistics.median(peaks))}
            for name, (_, seconds, peaks) in results.items()
        }
        pathlib.Path(folder, "results.json").write_text(json.dumps(medians))
    dist.barrier()
    dist.destroy_process_group()


def _bits(tensor: Any) -> Any:
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _contenders(case: Any, rank: int, size: int) -> dict[str, Callable[[], Any]]:
    """What brings the shard of a rank from one sharding to the other: functions that return the new shard."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    _, sizes, before, after, kind = case
    mesh = init_device_mesh("cpu", sizes)
    placed = [[Replicate() if dim is None else Shard(dim) for dim in side] for side in (before, after)]
    source = gl.Sharding.from_device_mesh(mesh, placed[0], f"f32[{size},{size}]")
    target = gl.Sharding.from_device_mesh(mesh, placed[1], f"{kind}[{size},{size}]")
    exchange = gl.exchange(source, target, dtype=kind)
    box = source.boxes[rank]
    assert box is not None
    rows, columns = [slice(*interval) for interval in box]
    numbers = torch.arange(size * size, dtype=torch.int32).reshape(size, size)[rows, columns]
    shard = (numbers % 256).to(torch.float32)
    array = DTensor.from_local(
        shard, mesh, placed[0], run_check=False, shape=torch.Size((size, size)), stride=(size, 1)
    )
    out = exchange.new_buffer(rank, shard)
    other, narrow = shard.clone(), {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
    ranks = int(np.prod(sizes))

    def by_hand() -> Any:
        """The columns of each rank together, and one call: what arrives are the rows of the result."""
        packed = shard.to(narrow).reshape(-1, ranks, size // ranks).transpose(0, 1).contiguous()
        result = torch.empty(size, size // ranks, dtype=narrow)
        dist.all_to_all_single(result, packed.reshape(size, -1))
        return result

    contenders = {
        "gpulayout": lambda: exchange.run(shard, out=out),
        "gpulayout, new output": lambda: exchange.run(shard),
        "DTensor.redistribute": lambda: array.to(narrow).redistribute(mesh, placed[1]).to_local(),
        "copy": lambda: other.copy_(shard),
    }
    if (before, after) == ((0,), (1,)) and size % ranks == 0:
        contenders["all_to_all_single by hand"] = by_hand
    return contenders


# ---- one process -----------------------------------------------------------------------------------------------------


def _in_one_process(size: int, rounds: int) -> dict[str, Any]:
    """Rows of four ranks to columns of four, by `Exchange.move` and by Dask's rechunk on threads."""
    dask: Any = importlib.import_module("dask")
    da: Any = importlib.import_module("dask.array")

    shape, ranks = f"f32[{size},{size}]", 4
    exchange = gl.exchange(
        gl.Sharding.by_mesh(shape, {"x": ranks}, ("x",)), gl.Sharding.by_mesh(shape, {"x": ranks}, (None, "x"))
    )
    array = np.random.default_rng(0).random((size, size), np.float32)
    parts = [rows.reshape(-1) for rows in np.array_split(array, ranks)]
    outs = [exchange.new_buffer(rank, array) for rank in range(ranks)]
    rows = da.from_array(array, chunks=(-(-size // ranks), size), name=False)
    columns = [np.ascontiguousarray(block) for block in np.array_split(array, 1)]
    chunks = rows.rechunk((size, -(-size // ranks))).to_delayed().reshape(-1)

    def by_dask() -> Any:
        with dask.config.set(scheduler="threads", num_workers=2):
            return dask.compute(*chunks)

    contenders: dict[str, Callable[[], Any]] = {
        "gpulayout": lambda: exchange.move(parts, outs),
        "gpulayout, new output": lambda: exchange.move(parts),
        "Dask's rechunk": by_dask,
        "copy": lambda: np.copyto(columns[0], array),
    }
    for moved, chunk in zip(exchange.move(parts), by_dask()):
        if moved.tobytes() != np.ascontiguousarray(chunk).tobytes():
            raise RuntimeError("Dask gave other bytes")
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            found[name].append(timed(run))
    return {
        name: {"seconds": statistics.median(times), "peak": int(statistics.median(peaks))}
        for name, (times, peaks) in ((name, zip(*results)) for name, results in found.items())
    }


def _lists(rounds: int) -> list[dict[str, Any]]:
    """Seconds for lists of about a million runs, and the memory at their peak for each run."""
    import tracemalloc

    pages = np.random.default_rng(0).permutation(1 << 16)
    plans: dict[str, Callable[[], Any]] = {
        "f32[1000,1000], turned": lambda: gl.plan("f32[1000,1000]", "{0,1}").runs(),
        "f32[65000,2000] to tiles T(8,128)": lambda: gl.plan("f32[65000,2000]", "{1,0:T(8,128)}").runs(),
        "f32[1000001] in tiles of 7, turned": lambda: gl.plan("f32[7,142858]{1,0:T(7)}", "{0,1:T(8)}").runs(),
        "pages of 16 tokens to 64": lambda: gl.plan("f16[131072,8,128]{2,1,0:T(16,1,128)}", "{2,1,0}").runs(
            pages=(pages[:8192], pages[:2048])
        ),
    }
    found = []
    for name, run in plans.items():
        seconds = statistics.median(timed(run)[0] for _ in range(rounds))
        tracemalloc.start()
        count = len(run())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        found.append({"list": name, "runs": count, "seconds": seconds, "bytes_a_run": peak / count})
    return found


def timed(run: Callable[[], Any]) -> tuple[float, int]:
    """Seconds, and the bytes by which the process grew at its peak."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak is what the process has now
    before = _resident("VmRSS")
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    del result
    return seconds, max(_resident("VmHWM") - before, 0)


def _resident(field: str) -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field))


if __name__ == "__main__":
    main()
