"""The short table at the end of ci/gpu, and summary.json: what passed, how long it took, and the benchmarks in a few lines."""
from __future__ import annotations

import json
import pathlib
import sys

from benchmarks.report import best_peer, losses


def main(folder: pathlib.Path) -> int:
    parts = [_part(line, folder) for line in (folder / "parts.tsv").read_text(encoding="utf-8").splitlines()]
    summary = {"passed": all(part["status"] == 0 for part in parts), "parts": parts, "benchmarks": _benchmarks(folder)}
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(f"\n{'part':12} {'result':14} {'seconds':>7}  remark")
    for part in parts:
        print(f"{part['name']:12} {part['result']:14} {part['seconds']:7}  {part['remark']}")
    for line in summary["benchmarks"]:
        print(line)
    print(f"{'PASSED' if summary['passed'] else 'FAILED'}: results are in {folder.name}/")
    return 0 if summary["passed"] else 1


def _part(line: str, folder: pathlib.Path) -> dict:
    name, status, seconds, limit = line.split("\t")
    status = int(status)
    result = "passed" if status == 0 else "out of time" if status in (124, 137) else f"failed ({status})"
    return {"name": name, "status": status, "result": result, "seconds": int(seconds), "limit": int(limit),
            "remark": _tests(folder) if name == "tests" else _last_line(folder / f"{name}.log") if status else ""}


def _tests(folder: pathlib.Path) -> str:
    found = _json(folder / "tests.json")
    if not found:
        return "no result was written"
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found["outcomes"].items()))
    return f"{outcomes}; {found['gpu_passed']} of the passed need a GPU" + (f"; {found['problem']}" if found["problem"] else "")


def _benchmarks(folder: pathlib.Path) -> list[str]:
    """Per group: how close to a plain copy, and how the best peer stands."""
    found = _json(folder / "benchmarks.json")
    if not found:
        return ["no benchmark figures were written"]
    lines = [f"benchmarks: {found['machine'].get('gpu') or found['machine']['cpu']}, {found['machine']['date']}, "
             f"commit {found['machine']['commit']}" + ("; tiny arrays, no measure of speed" if found["quick"] else "")]
    for group in dict.fromkeys(record["group"] for record in found["cases"]):
        records = [record for record in found["cases"] if record["group"] == group]
        fractions = sorted(run["fraction_of_copy"] for record in records for run in record["runs"]
                           if run["output"] == "warm" and "fraction_of_copy" in run and "against" not in run)
        peers = [best_peer(record, output) for record in records for output in ("warm", "fresh")]
        ratios = sorted(peer["against"] for peer in peers if peer)
        lines.append(f"  {group:8} {len(records):3} cases: {_range(fractions)} of a plain copy; "
                     f"best peer's time over ours {_range(ratios)}")
    for record in found["small"]:
        lines.append(f"  {record['case']}: " + ", ".join(f"{run['contender']} {run['best_us']:.1f} us" for run in record["runs"]))
    lost = [] if found["quick"] else losses(found["cases"])
    lines.append(f"  losses: {len(lost)}, not run: {len(found['not_run'])}")
    lines += [f"    {text}" for text in lost[:8]]
    return lines + [f"    not run: {entry['case']}: {entry['reason']}" for entry in found["not_run"][:8]]


def _range(values: list[float]) -> str:
    return f"{values[0]:.2f} .. {values[len(values) // 2]:.2f} .. {values[-1]:.2f}" if values else "-"


def _json(path: pathlib.Path) -> dict | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _last_line(path: pathlib.Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:100]


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
