"""Files larger than memory beside `cp`: `python -m benchmarks.files_side --folder FOLDER`, on Linux as root.

A 2-D array of f32 is transposed from file to file with a cold page cache.  A control group limits the memory of each
process, page cache included, so that nothing stays in memory by chance.  `cp` gets the same limit, and a `sync` of its
result, as `gpulayout` does one.  Contenders take turns; the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.machine import machine

GROUPS = pathlib.Path("/sys/fs/cgroup/memory")
CHUNK_ROWS = 256
MIB = 1 << 20
# Runs a command and prints what /proc says of it.  Arguments: a group's list of processes or "", then the command.
COUNTED = """
import json, os, sys
if sys.argv[1]:
    open(sys.argv[1], "w").write(str(os.getpid()))
pid = os.spawnvp(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
done = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
lines = open(f"/proc/{pid}/io").read().split()
_, status, used = os.wait4(pid, 0)
found = {"read": int(lines[9]), "written": int(lines[11]), "peak_resident": used.ru_maxrss * 1024, "status": status}
print(json.dumps(found))
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.files_side", description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="on the disk to measure; 3 times the size")
    parser.add_argument("--rows", type=int, default=39_000, help="by one column more; 39000 are 6 GB")
    parser.add_argument("--memory", type=int, nargs="+", default=[512, 128], help="MiB; 0 is no limit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    found = measured(options.folder, options.rows, options.memory, options.rounds)
    print("\n".join(table(found)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(folder: pathlib.Path, rows: int, limits: Sequence[int], rounds: int) -> dict[str, Any]:
    """Seconds, bytes and memory of every contender under every limit (MiB)."""
    source, target = folder / "benchmark-in.npy", folder / "benchmark-out.npy"
    _write(source, rows)
    jobs = {(limit, name): command for limit in limits for name, command in _commands(source, target, limit).items()}
    rows_of: dict[tuple[int, str], list[dict[str, Any]]] = {job: [] for job in jobs}
    try:
        for _ in range(rounds):
            for (limit, name), command in jobs.items():
                rows_of[limit, name].append(_timed(command, target, limit))
                target.unlink()
    finally:
        source.unlink()
        target.unlink(missing_ok=True)
    results = [{"limit_mib": limit, "name": name, "rounds": taken} for (limit, name), taken in rows_of.items()]
    for result in results:
        result["seconds"] = statistics.median(each["seconds"] for each in result["rounds"])
    return {"machine": machine("numpy", False), "array_bytes": rows * (rows + 1) * 4, "results": results}


def _write(path: pathlib.Path, rows: int) -> None:
    array = np.lib.format.open_memmap(path, "w+", np.uint32, (rows, rows + 1))
    for first in range(0, rows, CHUNK_ROWS):
        last = min(first + CHUNK_ROWS, rows)
        array[first:last] = np.arange(first * (rows + 1), last * (rows + 1), dtype=np.uint32).reshape(-1, rows + 1)
    array.flush()


def _commands(source: pathlib.Path, target: pathlib.Path, limit: int) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "gpulayout", "relayout", str(source), str(target), "--to", "F", "--quiet"]
    ours += ["--memory", f"{limit}M"] if limit else []
    return {
        "cp": ["sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", str(source), str(target)],
        "gpulayout": ours,
        "gpulayout --scratch": [*ours, "--scratch", str(target.parent)],
    }


def _timed(command: list[str], target: pathlib.Path, limit: int) -> dict[str, Any]:
    """One run with a cold page cache."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    group = _group(limit) if limit else None
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, str(group / "cgroup.procs") if group else "", *command],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {"seconds": time.perf_counter() - begin, **json.loads(done.stdout)}
    if found.pop("status"):
        raise RuntimeError(f"{command}: {done.stderr}")
    if group:
        found["peak_with_page_cache"] = int((group / "memory.max_usage_in_bytes").read_text())
        group.rmdir()
    return found


def _group(limit: int) -> pathlib.Path:
    """A new control group of version 1 with a limit in MiB."""
    group = GROUPS / f"gpulayout-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(limit * MIB))
    return group


def table(found: dict[str, Any]) -> list[str]:
    """A line for each contender; bytes are multiples of the array's."""
    lines = ["| memory | | seconds | of cp | read | written | peak resident | peak with page cache |", "|" + "---|" * 8]
    copies = {each["limit_mib"]: each["seconds"] for each in found["results"] if each["name"] == "cp"}
    for each in found["results"]:
        last, size = each["rounds"][-1], found["array_bytes"]
        lines.append(
            f"| {each['limit_mib'] or 'no limit'} | {each['name']} | {each['seconds']:.1f} "
            f"| {each['seconds'] / copies[each['limit_mib']]:.2f} | {last['read'] / size:.2f} "
            f"| {last['written'] / size:.2f} | {last['peak_resident'] // MIB} MiB "
            f"| {last.get('peak_with_page_cache', 0) // MIB} MiB |"
        )
    return lines


if __name__ == "__main__":
    main()
