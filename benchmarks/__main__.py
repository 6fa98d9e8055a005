"""Runs the benchmarks and prints their tables: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import faulthandler
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.report import report
from benchmarks.run import Run, wanted_cases
from gpulayout.choices.backends import gpu_problem

SHOWN_NAMES = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 when a case failed, 2 for wrong usage, including a name that no case has."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.plot is not None:
        return _plot(parser, options)
    if options.out:
        parser.error("--out is the folder of --plot; --json names the file of a run")
    if options.tables:
        found = json.loads(options.tables.read_text(encoding="utf-8"))
    else:
        side = _side(options)
        sweep = side.name == "cupy" if options.ttc is None else options.ttc
        _check_only(parser, side, options.only, sweep)
        found = Run(
            side(), options.rounds, options.only, options.quick, options.full, sweep, options.time_limit, options.json
        ).all()
    print("\n".join(report(found)))
    if options.json:
        print(f"written to {options.json}", file=sys.stderr)
    return 1 if any(entry["failed"] for entry in found["not_run"]) else 0


def _plot(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Draw the pictures and name their files; a usage error without matplotlib and without figures."""
    from benchmarks import plot

    if options.quick:
        parser.error("--plot draws recorded runs, and --quick makes one: run it with --json FILE, then --plot FILE")
    try:
        written = plot.draw(options.plot or plot.RECORDED, options.out or plot.FOLDER)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        parser.error("--plot needs matplotlib: pip install '.[plot]'")
    except (OSError, ValueError) as error:  # of a file, or of the JSON in it
        parser.error(f"--plot: {error}")
    if not written:
        parser.error("--plot: these files have no figures that a picture shows")
    print("\n".join(map(str, written)))
    return 0


def _check_only(parser: argparse.ArgumentParser, side: Any, only: str, sweep: bool) -> None:
    """Leave with a usage error when no case has the wanted name: an empty table would look like success."""
    if not any(wanted_cases(side, only, sweep).values()):
        names = list(dict.fromkeys(case.name for cases in wanted_cases(side, "", sweep).values() for case in cases))
        some = names[:: -(-len(names) // SHOWN_NAMES)]  # spread over the lists
        parser.error(
            f"--only {only!r}: none of the {len(names)} cases has a name that contains it; some of the names: "
            + ", ".join(map(repr, some))
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Times this library beside its peers; results are compared first."
    )
    _add_what(parser)
    _add_how(parser)
    return parser


def _add_what(parser: argparse.ArgumentParser) -> None:
    """The options that choose what to do."""
    parser.add_argument(
        "--backend", choices=("auto", "numpy", "cupy"), default="auto", help="auto: the GPU where one works"
    )
    parser.add_argument(
        "--cpu-goals",
        action="store_true",
        help="instead: large relayouts, padding, indices and small calls beside NumPy, PyTorch and JAX",
    )
    parser.add_argument(
        "--curves",
        action="store_true",
        help="instead: time over bytes, threads and numbers of indices, beside NumPy or CuPy and a plain copy",
    )
    parser.add_argument("--tables", type=_file, metavar="FILE", help="instead: print the tables of a recorded run")
    parser.add_argument(
        "--plot",
        type=_file,
        nargs="*",
        metavar="FILE",
        help="instead: draw recorded runs as SVG; without FILE, those that are drawn in docs/images now",
    )
    parser.add_argument(
        "--out",
        type=_file,
        metavar="FOLDER",
        help="where --plot writes; without it docs/images, which takes no run with --quick",
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="cases whose name contains this text, in upper or lower case"
    )
    parser.add_argument(
        "--ttc",
        action=argparse.BooleanOptionalAction,
        help="the 57 tensor transpositions, as f32 and f64, 200 and 400 MB an array (on a GPU by default)",
    )


def _add_how(parser: argparse.ArgumentParser) -> None:
    """The options for effort and output."""
    parser.add_argument("--json", type=_file, metavar="FILE", help="write all figures to a file, also during the run")
    parser.add_argument("--quick", action="store_true", help="tiny arrays: shows that everything runs, not how fast")
    parser.add_argument(
        "--full",
        action="store_true",
        help="more and longer samples; peers that compile on the tensor transpositions too",
    )
    parser.add_argument("--rounds", type=int, help="samples per contender (GPU 5, curves 15, else 7, full 7)")
    parser.add_argument(
        "--time-limit",
        type=float,
        default=3600,
        metavar="SECONDS",
        help="start no case after this time; peers that compile are left out first",
    )


def _file(name: str) -> pathlib.Path:
    if name == "-":
        raise argparse.ArgumentTypeError(
            "'-' would mean standard input or output, which is not supported; write './-' for a file named '-'"
        )
    return pathlib.Path(name)


def _side(options: argparse.Namespace) -> Any:
    """The class of the side; making an instance imports the peers."""
    if options.cpu_goals:
        from benchmarks.goals_side import GoalsSide

        return GoalsSide
    problem = gpu_problem() if options.backend != "numpy" else None
    if options.backend == "numpy" or (options.backend == "auto" and problem):
        from benchmarks.curves_side import CurvesSide
        from benchmarks.numpy_side import NumpySide

        return CurvesSide if options.curves else NumpySide
    if problem:
        sys.exit(f"no benchmark on the GPU: {problem}")
    from benchmarks.cuda_side import CudaCurves, CudaSide

    return CudaCurves if options.curves else CudaSide


if __name__ == "__main__":
    faulthandler.enable()  # shows where a peer ended the process
    sys.exit(main())
