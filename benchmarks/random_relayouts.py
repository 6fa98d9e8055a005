"""Random relayouts beside PyTorch: `python -m benchmarks.random_relayouts SEED`.

A planner that is tuned to a list of cases loses on others.  This draws new ones: elements of 1 to 16 bytes, 2 to 7
dimensions of any size, in any order, 1 to 256 MB.  A seed gives the same cases on every machine.  Each result is
compared byte for byte first, and outputs are in memory before.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import gpulayout as gl
from benchmarks.clock import without_pauses
from benchmarks.machine import machine

ELEMENT_TYPES = ("u8", "f16", "f32", "f64", "c128")
LEAST, MOST = 1e6, 256e6  # bytes of an array
MULTIPLES = 8, 16, 32, 64  # of which sizes are often made
BEHIND = 0.95  # PyTorch's time over ours, below which a case is listed
# Seconds of calls before those that count: the other library's threads still spin, and some systems give threads a core
# each only after a while.
WARM_UP = 12e-3
LEAST_SAMPLE = 8e-3  # seconds of the calls that count


class Case(NamedTuple):
    """One relayout of a dense array.

    order   the dimensions of the target, major first
    """

    element_type: str
    dimensions: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def source(self) -> gl.Shape:
        return gl.Shape(self.element_type, self.dimensions)

    @property
    def target(self) -> gl.Shape:
        return self.source.with_layout(gl.Layout.from_major_to_minor(self.order))

    def __str__(self) -> str:
        return f"{self.source} to {self.target.layout}"


def drawn(seed: int, count: int) -> list[Case]:
    """The cases of a seed.  Sizes are spread evenly over the powers of two."""
    chance = random.Random(seed)
    found: list[Case] = []
    while len(found) < count:
        element_type, rank = chance.choice(ELEMENT_TYPES), chance.randint(2, 7)
        itemsize = gl.Shape(element_type, ()).itemsize
        elements = math.exp(chance.uniform(math.log(LEAST), math.log(MOST))) / itemsize
        weights = [chance.random() + 0.05 for _ in range(rank)]
        dimensions = [max(2, round(elements ** (weight / sum(weights)))) for weight in weights]
        if chance.random() < 0.3:
            multiple = chance.choice(MULTIPLES)
            dimensions = [size if size < multiple else size // multiple * multiple for size in dimensions]
        order = chance.sample(range(rank), rank)
        if order != sorted(order) and LEAST <= math.prod(dimensions) * itemsize <= MOST:
            found.append(Case(element_type, tuple(dimensions), tuple(order)))
    return found


def times_of(case: Case, rounds: int) -> tuple[float, float]:
    """Median milliseconds of this library and of PyTorch, which take turns.  AssertionError if their bytes differ."""
    import torch

    source, target = case.source, case.target
    given = np.arange(-(-source.nbytes // 8), dtype=np.int64).view(np.uint8)[: source.nbytes].view(source.buffer_dtype)
    ours, theirs = np.zeros_like(given), np.zeros_like(given)
    plan = gl.plan(source, target)
    reading = torch.from_numpy(given).reshape(case.dimensions).permute(case.order)
    writing = torch.from_numpy(theirs).reshape([case.dimensions[dim] for dim in case.order])
    calls: tuple[Callable[[], Any], ...] = (lambda: plan(given, out=ours), lambda: writing.copy_(reading))
    for call in calls:
        call()
    assert ours.tobytes() == theirs.tobytes(), case
    samples: tuple[list[float], ...] = ([], [])
    for _ in range(rounds):
        for call, kept in zip(calls, samples):
            kept.append(without_pauses(call, WARM_UP, LEAST_SAMPLE) * 1e3)
    found = [statistics.median(kept) for kept in samples]
    return found[0], found[1]


def run(cases: Sequence[Case], threads: int, rounds: int) -> list[dict[str, Any]]:
    """The times of all cases with a number of threads on both sides, as plain values."""
    import torch

    torch.set_num_threads(threads)
    with gl.use_backend("numpy"), gl.use_threads(threads):
        found = []
        for case in cases:
            ours, theirs = times_of(case, rounds)
            size = case.source.nbytes / 1e6
            found.append({"case": str(case), "megabytes": size, "threads": threads, "ms": ours, "torch_ms": theirs})
    return found


def summary(records: Sequence[dict[str, Any]]) -> list[str]:
    """The ratios in a line, and the cases where PyTorch is faster."""
    ratios = sorted((record["torch_ms"] / record["ms"], record["case"]) for record in records)
    values = [ratio for ratio, _ in ratios]
    behind = [f"  {ratio:.2f}  {case}" for ratio, case in ratios if ratio < BEHIND]
    return [
        f"{len(values)} relayouts, threads: {records[0]['threads']}; torch's time over ours: "
        f"median {statistics.median(values):.2f}, geometric mean {statistics.geometric_mean(values):.2f}, "
        f"{values[0]:.2f} to {values[-1]:.2f}; below {BEHIND}: {len(behind)}",
        *behind,
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a summary for each number of threads."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_relayouts", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args(arguments)
    cases = drawn(options.seed, options.count)
    found = {threads: run(cases, threads, options.rounds) for threads in options.threads}
    for records in found.values():
        print("\n".join(summary(records)))
    if options.json:
        records = [record for each in found.values() for record in each]
        content = {"machine": machine("numpy", True), "seed": options.seed, "relayouts": records}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
