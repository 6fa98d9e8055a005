"""Runs the benchmarks and prints a table: `python -m benchmarks --help`."""
from __future__ import annotations

import argparse
import faulthandler
import json
import pathlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks import cases as case_lists
from benchmarks.digest import digest
from benchmarks.report import table
from benchmarks.run import Run
from gpulayout.api.backends import gpu_problem

SHOWN_NAMES = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 when a case failed, 2 when the command is written wrongly or no case has the wanted name."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.cpu_goals or options.tables:
        return _goals(options, parser)
    side = _side(options.backend)
    on_gpu = side.name == "cupy"
    with_sweep = on_gpu if options.ttc is None else options.ttc
    lists = (side.small_cases, side.cases, side.sweep if with_sweep else [])
    _check_only(parser, options.only, lists)
    small, cases, sweep = (case_lists.named(listed, options.only) for listed in lists)
    if options.quick:
        cases, sweep = case_lists.quick(cases), case_lists.quick(sweep)
    effort = side.full_effort if options.full else side.effort
    effort = effort._replace(rounds=options.rounds or effort.rounds)
    run = Run(side, effort, options.time_limit, options.json, quick=options.quick, full=options.full)
    found = run.all(small, cases, sweep, options.full)
    if not on_gpu:
        print(table(found["cases"], found["small"], options.quick))
    print("\n".join(["", *digest(found, rows=on_gpu)]))
    if options.json:
        print(f"written to {options.json}")
    return 1 if any(entry["failed"] for entry in found["not_run"]) else 0


def _check_only(parser: argparse.ArgumentParser, only: str, lists: Iterable[Sequence[case_lists.Case]]) -> None:
    """Leave with a usage error when no case of these lists has the wanted name: an empty table would say that all is well."""
    names = list(dict.fromkeys(case.name for listed in lists for case in listed))
    if not any(case_lists.named(listed, only) for listed in lists):
        some = names[::-(-len(names) // SHOWN_NAMES)]                    # from all over the lists
        parser.error(f"--only {only!r}: none of the {len(names)} cases has a name that contains it; some of the names: "
                     + ", ".join(map(repr, some)))


def _goals(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """The run that is judged by the CPU's goals, or the tables of one that was recorded."""
    from benchmarks.goal_report import tables
    if options.tables:
        found = json.loads(options.tables.read_text(encoding="utf-8"))
    else:
        from benchmarks.goal_run import LISTS, GoalRun
        _check_only(parser, options.only, LISTS.values())
        run = GoalRun(options.rounds, options.quick, options.only, options.time_limit, options.json)
        found = run.all(report=lambda line: print(line, file=sys.stderr, flush=True))
    print("\n".join(tables(found)))
    return 1 if any(entry["failed"] for entry in found["not_run"]) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks",
                                     description="Times this library beside its peers; results are compared first.")
    parser.add_argument("--backend", choices=("auto", "numpy", "cupy"), default="auto", help="auto: the GPU where one works")
    parser.add_argument("--cpu-goals", action="store_true",
                        help="instead: large relayouts, padding, indices and small calls beside NumPy, PyTorch and JAX, in Markdown")
    parser.add_argument("--tables", type=_file, metavar="FILE", help="instead: the tables of a recorded --cpu-goals run again")
    parser.add_argument("--json", type=_file, metavar="FILE", help="write all figures to a file, also while the run goes on")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this text, in upper or lower case")
    parser.add_argument("--quick", action="store_true", help="tiny arrays: shows that everything runs, not how fast")
    parser.add_argument("--full", action="store_true", help="more and longer samples; peers that compile on the tensor transpositions too")
    parser.add_argument("--ttc", action=argparse.BooleanOptionalAction,
                        help="the 57 tensor transpositions, as f32 and f64, 200 and 400 MB an array (on a GPU by default)")
    parser.add_argument("--rounds", type=int, help="samples per contender (NumPy 7, GPU 5, full 7, CPU goals 7)")
    parser.add_argument("--time-limit", type=float, default=3600, metavar="SECONDS",
                        help="start nothing after so many seconds; peers that compile are left out before cases")
    return parser


def _file(name: str) -> pathlib.Path:
    if name == "-":
        raise argparse.ArgumentTypeError("'-' would be standard input or output, where no figures go; a file of that name is './-'")
    return pathlib.Path(name)


def _side(backend: str) -> Any:
    problem = gpu_problem() if backend != "numpy" else None
    if backend == "numpy" or (backend == "auto" and problem):
        from benchmarks.numpy_side import NumpySide
        return NumpySide()
    if problem:
        sys.exit(f"no benchmark on the GPU: {problem}")
    from benchmarks.cuda_side import CudaSide
    return CudaSide()


if __name__ == "__main__":
    faulthandler.enable()            # a peer that ends the process leaves a trace of where
    sys.exit(main())
