"""Runs the benchmarks and prints a table: `python -m benchmarks --help`."""
from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from typing import Any

from benchmarks import cases as case_lists
from benchmarks.report import SCHEMA, case_record, machine, small_record, table
from gpulayout.backends.select import gpu_problem


def main() -> int:
    options = _options()
    side = _side(options.backend)
    chosen = [case for case in side.cases if options.only in case.name]
    small = [case for case in side.small_cases if options.only in case.name]
    if options.quick:
        chosen = case_lists.quick(chosen)
    found = {"schema": SCHEMA, "machine": machine(side.name), "quick": options.quick, "cases": [], "small": [], "not_run": []}
    deadline = time.monotonic() + options.time_limit
    for case in small:
        _measure(found, "small", side, case, options.rounds, deadline)
    for case in chosen:
        _measure(found, "cases", side, case, options.rounds, deadline)
    print(table(found["cases"], found["small"], options.quick))
    for entry in found["not_run"]:
        print(f"not run: {entry['case']}: {entry['reason']}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"written to {options.json}")
    return 1 if any(entry["failed"] for entry in found["not_run"]) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks",
                                     description="Times this library beside its peers; results are compared first.")
    parser.add_argument("--backend", choices=("auto", "numpy", "cupy"), default="auto", help="auto: the GPU where one works")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="tiny arrays: shows that everything runs, not how fast")
    parser.add_argument("--rounds", type=int, default=7, help="samples per contender (7)")
    parser.add_argument("--time-limit", type=float, default=3600, metavar="SECONDS", help="start no case after so many seconds")
    return parser.parse_args()


def _side(backend: str) -> Any:
    problem = gpu_problem() if backend != "numpy" else None
    if backend == "numpy" or (backend == "auto" and problem):
        from benchmarks.numpy_side import NumpySide
        return NumpySide()
    if problem:
        sys.exit(f"no benchmark on the GPU: {problem}")
    from benchmarks.cuda_side import CudaSide
    return CudaSide()


def _measure(found: dict[str, Any], section: str, side: Any, case: case_lists.Case, rounds: int, deadline: float) -> None:
    """One case; what cannot run is listed with its reason, and the others go on."""
    reason = side.why_not(case)
    if reason is None and time.monotonic() > deadline:
        reason = "the time limit was reached"
    if reason:
        found["not_run"].append({"case": case.name, "reason": reason, "failed": False})
        return
    try:
        if section == "small":
            contenders = side.prepare_small(case)
            record = small_record(case, side.name, contenders, side.take_small(contenders, rounds))
        else:
            contenders = side.ceilings(case) + side.prepare(case)
            record = case_record(case, side.name, contenders, side.take(contenders, rounds))
        found[section].append(record)
    except Exception as error:       # one case that fails must not take the figures of the others with it
        found["not_run"].append({"case": case.name, "reason": f"{type(error).__name__}: {error}", "failed": True})
    finally:
        contenders = None            # lets go of the arrays
        side.release()


if __name__ == "__main__":
    sys.exit(main())
