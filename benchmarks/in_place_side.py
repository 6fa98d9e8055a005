"""A relayout in place beside one to another buffer: `python -m benchmarks.in_place_side`, on Linux.

Every case is checked against the relayout to another buffer first.  Then a plain copy, the same plan into a warm buffer
and the relayout in place with the default workspace take turns; the median counts.  Memory is what the kernel says:
VmHWM, the peak of the process, above what the buffer and the program take before.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gpulayout as gl
from benchmarks.machine import machine
from gpulayout.cpu.threads import VARIABLE

CASES = {
    "square": ("f32[8192,8192]", "{0,1}"),
    "odd square": ("f32[8191,8191]", "{0,1}"),
    "coprime": ("f32[8191,8193]", "{0,1}"),
    "tall": ("f32[10000000,3]", "{0,1}"),
    "wide": ("f32[3,10000000]", "{0,1}"),
    "tall, prime": ("f32[10000019,3]", "{0,1}"),
    "NHWC to NCHW": ("f32[64,224,224,3]{3,2,1,0}", "{2,1,3,0}"),
    "NCHW to NHWC": ("f32[64,3,224,224]{3,2,1,0}", "{1,3,2,0}"),
    "NHWC to NCHW, 64 channels": ("f32[16,224,224,64]{3,2,1,0}", "{2,1,3,0}"),
    "NCHW to NHWC, 64 channels": ("f32[16,64,224,224]{3,2,1,0}", "{1,3,2,0}"),
    "32^5 reversed": ("f32[32,32,32,32,32]", "{0,1,2,3,4}"),
    "97^4 reversed": ("f32[97,97,97,97]", "{0,1,2,3}"),
    "bytes": ("u8[20000,20011]", "{0,1}"),
}
MIB = 1 << 20
STATUS, REFERENCES = pathlib.Path("/proc/self/status"), pathlib.Path("/proc/self/clear_refs")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.in_place_side", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=[*CASES], metavar="NAME")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    found = measured({name: CASES[name] for name in options.cases}, options.threads, options.rounds)
    print("\n".join(table(found)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(cases: dict[str, tuple[str, str]], threads: Sequence[int], rounds: int) -> dict[str, Any]:
    """Seconds and memory of every case with every number of threads."""
    before, results = os.environ.get(VARIABLE), []
    try:
        for name, pair in cases.items():
            for count in threads:
                os.environ[VARIABLE] = str(count)
                results.append({"name": name, "threads": count, **_case(gl.plan(*pair), rounds)})
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
    return {"machine": machine("numpy", False), "results": results}


def _case(plan: gl.Plan, rounds: int) -> dict[str, Any]:
    in_place = plan.in_place()
    size, dtype = plan.source.nbytes, plan.source.dtype
    buffer = np.frombuffer(np.random.default_rng(1).bytes(size), dtype).copy()
    expected = plan(buffer)
    peaks = {
        "out_of_place": resident_peak(lambda: plan(buffer)),
        "in_place": resident_peak(lambda: plan(buffer, out=buffer)),
    }
    if not np.array_equal(buffer.view(np.uint8), expected.view(np.uint8)):
        raise RuntimeError(f"{in_place} gives wrong bytes")
    out = expected  # warm
    jobs: dict[str, Callable[[], object]] = {
        "copy": lambda: np.copyto(out, buffer),
        "out_of_place": lambda: plan(buffer, out=out),
        "in_place": lambda: plan(buffer, out=buffer),
    }
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            begin = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {
        "source": str(plan.source),
        "target": str(plan.target),
        "bytes": size,
        "workspace": in_place.workspace,
        "bytes_moved": in_place.bytes_moved,
        "steps": [str(step) for step in in_place.steps],
        "seconds": medians,
        "all_seconds": seconds,
        "times_out_of_place": medians["in_place"] / medians["out_of_place"],
        "peak_bytes": peaks,
    }


def resident_peak(job: Callable[[], object]) -> int | None:
    """Bytes by which the process grows while it runs; None where the kernel does not say."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        REFERENCES.write_text("5")  # the peak begins anew
        before = _status("VmHWM")
        job()
        return _status("VmHWM") - before
    except (OSError, AttributeError):
        job()
        return None


def _status(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10


def table(found: dict[str, Any]) -> list[str]:
    """A line for each case and number of threads."""
    lines = [
        "| | threads | MiB | copy | to another buffer | in place | times | memory in place | to another buffer |",
        "|" + "---|" * 9,
    ]
    for each in found["results"]:
        seconds, peaks = each["seconds"], each["peak_bytes"]
        shown = [
            "?" if peaks[name] is None else f"{peaks[name] / MIB:.1f} MiB" for name in ("in_place", "out_of_place")
        ]
        lines.append(
            f"| {each['name']} | {each['threads']} | {each['bytes'] // MIB} "
            + "".join(f"| {seconds[name] * 1e3:.1f} ms " for name in ("copy", "out_of_place", "in_place"))
            + f"| {each['times_out_of_place']:.2f} | {shown[0]} | {shown[1]} |"
        )
    return lines


if __name__ == "__main__":
    main()
