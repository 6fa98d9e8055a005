"""Launches that an H100 timed, for the cost model: tests/data/gpu_measured.json.

    python -m tests.support.measured_launches --write

makes the file from the results in benchmarks/results and from today's plans and counts, so the kernels must be those
that were timed.  The file keeps what the launches did: later kernels do not change what the model is compared with.
"""

import json
import pathlib
import sys

from gpulayout import plan
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.cost_model import LaunchWork
from gpulayout.gpu.estimate import launch_work

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "gpu_measured.json"
RESULTS = DATA.parents[2] / "benchmarks" / "results"
NUMBERS = (
    "gpu-h100-first-numbers.json",
    "gpu-h100-second-numbers.json",
    "gpu-h100-numbers.json",
)  # the last one counts


def measured(part):
    """[(name, what a launch did, its fraction of a copy)]: `part` is "cases" or "moves" of benchmarks/numbers.py.

    A case may be there twice: TTC has some moves twice.
    """
    found = json.loads(DATA.read_text(encoding="utf-8"))[part]
    return [(name, LaunchWork(*work), min(fraction, 1)) for name, fraction, *work in found]


def _cases():
    """The cases of benchmarks/cases, and of TTC."""
    from benchmarks.cases.gpu import GPU_CASES
    from benchmarks.record import fraction_of, kernel_of

    found, cases = json.loads((RESULTS / "gpu-h100.json").read_text()), {case.name: case for case in GPU_CASES}
    for record in found["cases"] + found["ttc"]:
        if record["model"] and (fraction := fraction_of(record)) is not None:
            name = record["case"]
            launch = (
                kernel_of(cases[name]) if name in cases else _planned(*record["work"].split(" ", 1)[1].split(" -> "))
            )
            yield name, fraction, launch_work(launch)


def _moves():
    from benchmarks.numbers import AS_IT_IS, MOVES

    fractions = {}
    for name in NUMBERS:
        for row in json.loads((RESULTS / name).read_text())["rows"]:
            if row["variant"] == AS_IT_IS and row.get("fraction"):
                fractions[row["move"]] = row["fraction"]
    for name, (source, target, before) in MOVES.items():
        if name in fractions:
            yield name, fractions[name], launch_work(_planned(source, target, before))


def _planned(source, target, before=0):
    return kernel_plan(plan(source, target).move, before, before)


def main():
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    parts = []
    for part, rows in (("cases", _cases()), ("moves", _moves())):
        lines = [
            "  " + json.dumps([name, round(fraction, 4), *(round(number, 1) for number in work)])
            for name, fraction, work in rows
        ]
        parts.append(f' "{part}": [\n' + ",\n".join(lines) + "\n ]")
    DATA.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
