"""Hardware counters of chosen cases, on a GPU with ncu: `python -m benchmarks.counters --from RUN.json --json FILE`.

Nsight Compute runs this module once more, which launches each case once between two marks; compiling and filling come
before them.  The cases are those furthest below a copy's speed in a recorded run, and the named ones.  Both may be of
the GPU's list, conversions on the way, or of the 57 tensor transpositions.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import glob
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from benchmarks.machine import machine_here

ROOT = pathlib.Path(__file__).resolve().parents[1]
STALLS = ("long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle", "barrier", "wait", "math_pipe_throttle",
          "not_selected", "dispatch_stall", "no_instruction", "drain")  # fmt: skip
OPTIONS = (
    "--profile-from-start off --clock-control none --target-processes all --csv --page raw --print-units base".split()
)
Row = dict[str, str]  # of ncu's CSV
LAUNCHES = "launches of each case: "
LEFT_OUT = 77  # an exit status: this machine cannot count
METRICS = {
    "ns": "gpu__time_duration.sum",
    "dram_read": "dram__bytes_read.sum",
    "dram_write": "dram__bytes_write.sum",
    "dram_%": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_read_sectors": "lts__t_sectors_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_op_write.sum",
    "l2_hit_%": "lts__t_sector_hit_rate.pct",
    "load_sectors": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "store_sectors": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    "conflicts_ld": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "conflicts_st": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "instructions": "smsp__inst_executed.sum",
    "issue_%": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "warps_%": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
} | {f"stall {name}": f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio" for name in STALLS}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counters", description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="run", type=pathlib.Path, help="a recorded run, whose slowest cases are taken")
    parser.add_argument("--worst", type=int, default=5)
    parser.add_argument("--cases", nargs="*", default=["f32 8192x8192"], help="further cases, by their whole name")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--quick", action="store_true", help="tiny arrays")
    parser.add_argument("--launch", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        return launch(options.launch, options.quick)
    try:
        found = json.loads(options.run.read_text(encoding="utf-8")) if options.run else {}
        names = list(dict.fromkeys([*options.cases, *worst(found, options.worst)]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        parser.error(f"--from {options.run} is no recorded run: {error!r}")
    known = cases(options.quick)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no case is named {unknown[0]!r}: python -m benchmarks --tables RUN.json prints the names")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends ncu too
    ncu = shutil.which("ncu") or next(iter(sorted(glob.glob("/usr/local/cuda*/bin/ncu"), reverse=True)), None)
    if ncu is None:
        print("ncu is not installed")
        return LEFT_OUT
    rows, said = counted(ncu, names, options.seconds, options.quick)
    moved = {name: case.bytes_moved for name, case in known.items()}
    lines = table(rows, moved) if rows else [line[:200] for line in said[-6:]]
    print("\n".join(lines))
    if options.json:
        found = {"machine": machine_here(), "cases": names, "rows": rows, "said": said[-40:], "table": lines}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not rows and any("ERR_NVGPUCTRPERM" in line for line in said):
        print("the driver lets only administrators read counters (ERR_NVGPUCTRPERM)")
        return LEFT_OUT
    print(f"counters of {len(rows)} of {len(names)} cases")
    return 0 if len(rows) == len(names) else 1


def worst(found: dict[str, Any], count: int) -> list[str]:
    """The names of the cases with the smallest fractions of a copy, at most one of each kernel family, and at most one
    of those of each family that change the elements.
    """
    from benchmarks.record import fraction_of

    records = [record for section in ("cases", "arithmetic", "ttc") for record in found.get(section, ())]
    judged = [(fraction_of(record), record) for record in records if record["group"] != "tiny"]
    names: dict[tuple[str, bool], str] = {}
    for fraction, record in sorted(judged, key=lambda pair: pair[0] or 0):
        if fraction is not None:
            names.setdefault((record["family"], record.get("kind") == "convert"), record["case"])
    return list(dict.fromkeys(names.values()))[:count]


def counted(ncu: str, names: list[str], seconds: float, quick: bool) -> tuple[dict[str, Row], list[str]]:
    """A row of metrics for each case, and what was printed.  Metrics that this ncu does not know are left out."""
    metrics, deadline = list(METRICS.values()), time.monotonic() + seconds
    while True:
        command = [ncu, *OPTIONS, "--metrics", ",".join(metrics), sys.executable, "-m", "benchmarks.counters"]
        command += ["--launch", *names, *["--quick"] * quick]
        try:
            printed, errors = run(command, max(5, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as late:
            return {}, [f"ncu took longer than {late.timeout:.0f} s"]
        except OSError as error:
            return {}, [f"ncu does not start: {error}"]
        said = [*printed.splitlines(), *errors.splitlines()]
        rows = longest(names, rows_of(printed), launches_of(said))
        known = [metric for metric in metrics if not _refused(metric, said)]
        if rows or known == metrics or not known:
            return rows, said
        metrics = known


def run(command: list[str], seconds: float) -> tuple[str, str]:
    """What a command prints.  It ends with all processes that it started: ncu leaves the profiled one behind."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _refused(metric: str, said: list[str]) -> bool:
    return any(metric in line and re.search("find|unknown|invalid", line, re.I) for line in said)


def rows_of(printed: str) -> list[Row]:
    """The launches in ncu's CSV: a line of names, a line of units, then a line for each launch."""
    lines = [line for line in printed.splitlines() if line.startswith('"')]
    return [row for row in csv.DictReader(lines) if (row.get("ID") or "").strip().isdigit()]


def launches_of(said: list[str]) -> list[int]:
    """How many kernels each case launched, as `launch` reports it."""
    found = [line.partition(LAUNCHES)[2] for line in said if line.startswith(LAUNCHES)]
    return [int(count) for count in re.findall(r"\d+", found[-1])] if found else []


def longest(names: list[str], rows: list[Row], counts: list[int]) -> dict[str, Row]:
    """The longest launch of each case; nothing if the rows are not those of the counts."""
    if len(counts) != len(names) or sum(counts) != len(rows):
        return {}
    left = iter(rows)
    of_cases = {name: [next(left) for _ in range(count)] for name, count in zip(names, counts)}
    timed = {name: [row for row in each if not math.isnan(time_of(row))] for name, each in of_cases.items()}
    return {name: max(each, key=time_of) for name, each in timed.items() if each}


def time_of(row: Row) -> float:
    return number(row.get(METRICS["ns"]))


def table(rows: dict[str, Row], nbytes: dict[str, int]) -> list[str]:
    """Three lines for each case: traffic beside what must move, sectors for a request, issue, the worst stalls."""
    lines = []
    for name, row in rows.items():
        value = {short: number(row.get(metric)) for short, metric in METRICS.items()}
        moved = value["dram_read"] + value["dram_write"]
        stalls = sorted(((value[f"stall {each}"], each) for each in STALLS), reverse=True)[:3]
        worst = ", ".join(f"{each} {ratio:.1f}" for ratio, each in stalls)
        kernel, must = row.get("Kernel Name", "").split("(")[0], nbytes.get(name, 0)
        loads, stores = value["load_sectors"], value["store_sectors"]
        conflicts = value["conflicts_ld"] + value["conflicts_st"]
        lines += [
            f"{name}: {kernel}, {value['ns'] / 1e3:.0f} us, {value['registers']:.0f} registers",
            f"    dram {moved / 1e6:.0f} MB of {must / 1e6:.0f} (x{moved / max(must, 1):.2f}), "
            f"{value['dram_%']:.0f}% busy; l2 hits {value['l2_hit_%']:.0f}%; "
            f"sectors a request: load {loads:.1f}, store {stores:.1f}",
            f"    {value['instructions'] / 1e6:.1f} M instructions, issue {value['issue_%']:.0f}%, "
            f"warps {value['warps_%']:.0f}%; bank conflicts {conflicts:.0f}; stalls: {worst}",
        ]
    return lines


def number(text: str | None) -> float:
    """A number of ncu's, as in "1,024.5"; nan for anything else."""
    try:
        return float((text or "nan").replace(",", ""))
    except ValueError:
        return float("nan")


def cases(quick: bool) -> dict[str, Any]:
    """The benchmarks' cases by name.  A few of the transpositions stand in the GPU's list too, as the same moves."""
    from benchmarks.cases import convert, gpu, select, ttc

    listed = [*ttc.TTC_CASES, *convert.CONVERT_CASES, *gpu.GPU_CASES]
    return {case.name: case for case in (select.quick(listed) if quick else listed)}


def launch(names: list[str], quick: bool) -> int:
    """Each case once, between the marks."""
    import cupy

    from benchmarks.peers.arrays import array_contenders
    from benchmarks.peers.inputs import input_and_output
    from gpulayout.gpu import cupy_runtime

    known, counts, driver = cases(quick), [], cupy_runtime._launch_kernel

    def counting(*arguments: Any) -> None:
        counts[-1] += 1
        driver(*arguments)

    cupy_runtime._launch_kernel = counting
    for name in names:
        counts.append(0)
        ours = array_contenders(cupy, known[name], [input_and_output(cupy, known[name], 0)])[0]
        ours.call(0)
        cupy.cuda.Device().synchronize()
        counts[-1] = 0
        cupy.cuda.profiler.start()
        ours.call(0)
        cupy.cuda.Device().synchronize()
        cupy.cuda.profiler.stop()
        del ours
        cupy.get_default_memory_pool().free_all_blocks()
    print(f"{LAUNCHES}{counts}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
