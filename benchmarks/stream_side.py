"""`plan.stream` beside copies and calls of the plan: `python -m benchmarks.stream_side`, on a GPU.

Arrays of the host are in ordinary memory.  Beside the stream, in each direction: a copy of the same bytes from and to
page-locked memory, which is what the bus allows; and the steps that a stream replaces.  Results are compared before
anything is timed.  Wall times until everything is done; contenders take turns; the best counts.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gpulayout as gl
from benchmarks.machine import machine
from gpulayout.choices.backends import gpu_problem

MIB = 1 << 20
CASES = (
    ("f32[16384,16384]", "{0,1}"),
    ("f32[64,512,512,16]", "{2,1,3,0}"),
    ("bf16[16384,32768]", "{1,0:T(8,128)(2,1)}"),
    ("u4[32768,65536]{1,0:E(4)}", "{0,1:E(4)}"),
)
QUICK = (("f32[300,400]", "{0,1}"), ("u4[64,96]{1,0:E(4)}", "{0,1:E(4)}"))
Row = dict[str, Any]
Calls = dict[str, Callable[[], object]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream_side", description=__doc__)
    parser.add_argument("--max-mib", type=int, nargs="+", default=[16, 64, 256], help="limits of the stream, in MiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="tiny arrays, to see that everything runs")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    if problem := gpu_problem():
        parser.error(problem)
    rows = []
    for case in QUICK if options.quick else CASES:
        rows += measured(gl.plan(*case), options.max_mib, options.rounds)
    print("\n".join(table(rows)))
    if options.json:
        found = {"machine": machine("cupy", True), "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(plan: gl.Plan, limits: Sequence[int], rounds: int) -> list[Row]:
    """The best seconds of every contender in every direction."""
    import cupy

    values = np.random.default_rng(0).integers(0, 256, plan.source.nbytes, np.uint8).view(_dtype(plan.source))
    expected = plan(values)
    out, up, down = np.empty_like(expected), cupy.asarray(values), cupy.empty(expected.size, expected.dtype)
    directions = {
        "up": _calls(plan, values, down, limits)
        | {"copy": _copy(cupy, values.nbytes, 0), "asarray, plan": lambda: plan(cupy.asarray(values), out=down)},
        "down": _calls(plan, up, out, limits)
        | {"copy": _copy(cupy, 0, out.nbytes), "plan, get": lambda: plan(up, out=down).get(out=out)},
        "through": _calls(plan, values, out, limits)
        | {
            "copy": _copy(cupy, values.nbytes, out.nbytes),
            "asarray, plan, get": lambda: plan(cupy.asarray(values), out=down).get(out=out),
            "plan on the CPU": lambda: plan(values, out=out),
        },
    }
    rows = []
    for direction, calls in directions.items():
        result = down if direction == "up" else out
        for name, call in calls.items():
            result[...] = 0
            call()
            if name != "copy" and cupy.asnumpy(result).tobytes() != expected.tobytes():
                raise RuntimeError(f"{plan!r}, {direction}, {name}: the result is wrong")
        seconds = _best(calls, cupy.cuda.runtime.deviceSynchronize, rounds)
        rows += [
            {"case": f"{plan.source} to {plan.target}", "direction": direction, "name": name, "seconds": taken}
            | {"bytes": values.nbytes + out.nbytes, "of_copy": seconds["copy"] / taken}
            for name, taken in seconds.items()
        ]
    return rows


def _dtype(shape: gl.Shape) -> np.dtype[Any]:
    """What NumPy and CuPy both have for the elements of a buffer."""
    return shape.element_type.carrier if shape.element_type.is_extended else shape.buffer_dtype


def _calls(plan: gl.Plan, buffer: Any, out: Any, limits: Sequence[int]) -> Calls:
    return {
        f"stream, {limit} MiB": lambda limit=limit: plan.stream(buffer, out=out, max_bytes=limit * MIB)
        for limit in limits
    }


def _copy(cupy: Any, up: int, down: int) -> Callable[[], None]:
    """So many bytes each way at the same time, from and to page-locked memory."""
    sides = []
    for nbytes, kind in ((up, cupy.cuda.runtime.memcpyHostToDevice), (down, cupy.cuda.runtime.memcpyDeviceToHost)):
        memory = cupy.cuda.PinnedMemory(nbytes) if nbytes else None
        sides.append((memory, cupy.empty(nbytes, np.uint8), nbytes, kind, cupy.cuda.Stream(non_blocking=True)))

    def copy() -> None:
        for memory, array, nbytes, kind, stream in sides:
            if memory is not None:
                pair = (array.data.ptr, memory.ptr) if kind == 1 else (memory.ptr, array.data.ptr)
                cupy.cuda.runtime.memcpyAsync(*pair, nbytes, kind, stream.ptr)

    return copy


def _best(calls: Calls, finish: Callable[[], None], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            finish()
            begin = time.perf_counter()
            call()
            finish()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def table(rows: Sequence[Row]) -> list[str]:
    """A line for each contender; a copy has the same bytes and no relayout."""
    lines = ["| case | direction | | ms | GB/s | of copy |", "|" + "---|" * 6]
    for row in rows:
        rate = row["bytes"] / row["seconds"] / 1e9
        lines.append(
            f"| {row['case']} | {row['direction']} | {row['name']} | {1e3 * row['seconds']:.1f} | {rate:.1f} "
            f"| {row['of_copy']:.2f} |"
        )
    return lines


if __name__ == "__main__":
    main()
