"""The short table at the end of ci/gpu, and summary.json: what passed, how long it took, and the benchmarks' tables."""

from __future__ import annotations

import json
import pathlib
import sys

from benchmarks.counters import LEFT_OUT
from benchmarks.families import family_lines, slowest_lines
from benchmarks.goals import goals
from benchmarks.model import far_off, far_off_lines
from benchmarks.report import report

SHOWN = 11_000  # characters: some places show only the end of what a command prints
TABLES = {"counters": 22, "numbers": 46}  # the lines shown of each


def main(folder: pathlib.Path) -> int:
    """Prints the table of a folder of results; 0 when every part passed."""
    text = (folder / "parts.tsv").read_bytes().decode("utf-8", "replace")
    parts = [_part(line, folder) for line in text.split("\n") if line]
    ran = {part["name"] for part in parts}  # files of other parts are an earlier run's
    found = _json(folder / "benchmarks.json") if "benchmarks" in ran else None
    figures = report(found) if found else ["no benchmark figures were written"] if "benchmarks" in ran else []
    passed = bool(parts) and all(part["status"] in (0, LEFT_OUT) for part in parts)
    summary = {
        "passed": passed,
        "parts": parts,
        "machine": found and found["machine"],
        "model_far_off": far_off(found) if found else [],
        "benchmarks": figures,
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    lines = [
        "",
        *(_shortly(found) if found else figures),
        *(line for name, count in TABLES.items() if name in ran for line in _extra(folder, name, count)),
        "",
        *(_failures(folder) if "tests" in ran else ()),
    ]
    text = "\n".join(lines)
    print(text if len(text) <= SHOWN else f"(shortened: summary.json has all)\n{text[:SHOWN]}")
    print("", f"{'part':12} {'result':14} {'seconds':>7}  remark", sep="\n")
    for part in parts:
        print(f"{part['name']:12} {part['result']:14} {part['seconds']:7}  {part['remark']}")
    left_out = ", ".join(part["name"] for part in parts if part["status"] == LEFT_OUT)
    without = f" without {left_out}" if left_out else ""
    print(f"{'PASSED' if passed else 'FAILED'}{without}: results are in {folder.name}/")
    return 0 if passed else 1


def _shortly(found: dict) -> list[str]:
    """The run's heading, its goals, the families, and what is slow; all tables are in summary.json."""
    heading = report(found)[0]
    missed = [
        f"{goal.against}, {goal.what}: {' '.join(map(str, goal.found))} {goal.verdict}"
        for goal in goals(found)
        if any(goal.found)
    ]
    failed = [f"FAILED {entry['case']}: {entry['reason'][:150]}" for entry in found["not_run"] if entry["failed"]]
    late = sum(not entry["failed"] for entry in found["not_run"])
    groups = [missed, family_lines(found), slowest_lines(found), far_off_lines(found)[:9], failed[:12]]
    missing = [
        f"no {name}: {why[:80]}"
        for name, why in found["peers_missing"].items()
        if name in ("torch", "jax", "triton", "cupy.cublas")
    ]
    ends = [f"{late} cases were not reached in time"] * bool(late) + missing
    return [heading, *(line for group in (*groups, ends) if group for line in ["", *group])]


def _extra(folder: pathlib.Path, name: str, count: int) -> list[str]:
    """The table of another part."""
    found = _json(folder / f"{name}.json")
    return ["", *found["table"][:count]] if found and found.get("table") else []


def _failures(folder: pathlib.Path) -> list[str]:
    """The tests that failed, by name."""
    found = _json(folder / "tests.json")
    names = found.get("failed", []) if found else []
    return [f"failed: {name[:150]}" for name in names[:15]] + [f"and {len(names) - 15} more"] * (len(names) > 15)


def _part(line: str, folder: pathlib.Path) -> dict:
    name, number, seconds, limit, said = line.split("\t", 4)
    status, writes = int(number), name in ("tests", "benchmarks", "counters", "numbers")
    if status == 0 and writes and _json(folder / f"{name}.json") is None:
        status, said = 1, f"it ended well and wrote no {name}.json"
    result = {0: "passed", LEFT_OUT: "left out", 124: "out of time", 137: "out of time"}.get(
        status, f"failed ({status})"
    )
    return {
        "name": name,
        "status": status,
        "result": result,
        "seconds": int(seconds),
        "limit": int(limit),
        "remark": _tests(folder) if name == "tests" else said if status else "",
    }


def _tests(folder: pathlib.Path) -> str:
    found = _json(folder / "tests.json")
    if not found:
        return "no result was written"
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found["outcomes"].items()))
    return f"{outcomes}; {found['gpu_passed']} of the passed need a GPU" + (
        f"; {found['problem']}" if found["problem"] else ""
    )


def _json(path: pathlib.Path) -> dict | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1], "parts.tsv").is_file():
        sys.exit("usage: python -m benchmarks.gpu_summary FOLDER, where FOLDER holds the results of ci/gpu")
    sys.exit(main(pathlib.Path(sys.argv[1])))
