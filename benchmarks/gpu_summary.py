"""The short table at the end of ci/gpu, and summary.json: what passed, how long it took, and the benchmarks' tables."""

from __future__ import annotations

import json
import pathlib
import sys

from benchmarks.model import far_off
from benchmarks.report import report


def main(folder: pathlib.Path) -> int:
    """Prints the table of a folder of results; 0 when every part passed."""
    parts = [_part(line, folder) for line in (folder / "parts.tsv").read_text(encoding="utf-8").splitlines()]
    found = _json(folder / "benchmarks.json")
    ran = any(part["name"] == "benchmarks" for part in parts)
    figures = report(found) if found else ["no benchmark figures were written"] if ran else []
    passed = bool(parts) and all(part["status"] == 0 for part in parts)
    summary = {
        "passed": passed,
        "parts": parts,
        "machine": found and found["machine"],
        "model_far_off": far_off(found) if found else [],
        "benchmarks": figures,
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print("", *figures, "", f"{'part':12} {'result':14} {'seconds':>7}  remark", sep="\n")
    for part in parts:
        print(f"{part['name']:12} {part['result']:14} {part['seconds']:7}  {part['remark']}")
    print(f"{'PASSED' if passed else 'FAILED'}: results are in {folder.name}/")
    return 0 if passed else 1


def _part(line: str, folder: pathlib.Path) -> dict:
    name, status, seconds, limit, said = line.split("\t")
    status = int(status)
    result = "passed" if status == 0 else "out of time" if status in (124, 137) else f"failed ({status})"
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
    sys.exit(main(pathlib.Path(sys.argv[1])))
