"""Random relayouts beside PyTorch: `python -m benchmarks.random_relayouts SEED [--views | --casts]`.

A planner that is tuned to a list of cases loses on others.  This draws new ones: elements of 1 to 16 bytes, 2 to 7
dimensions of any size, in any order, 1 to 256 MB.  Views have 1 to 4 dimensions, up to 64 MB, and are reversed, stepped
or repeated along some of them; NumPy takes part.  Casts change the type too, beside this library's relayout and then
NumPy's cast.  A seed gives the same cases on every machine.  Each result is compared byte for byte first, and outputs
are in memory before.
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

CAST_TYPES = ("u8", "s8", "s16", "s32", "s64", "f16", "bf16", "f32", "f64", "f8e4m3fn")
ELEMENT_TYPES = ("u8", "f16", "f32", "f64", "c128")
LEAST, MOST, MOST_OF_VIEW = 1e6, 256e6, 64e6  # bytes of an array
STEPS = 1, 1, 1, -1, -1, 2, -2, 3, 0  # of views; 0 repeats
MULTIPLES = 8, 16, 32, 64  # of which sizes are often made
BEHIND = 0.95  # the fastest other's time over ours, below which a case is listed
# Seconds of calls before those that count: the other library's threads still spin, and some systems give threads a core
# each only after a while.
WARM_UP = 12e-3
LEAST_SAMPLE = 8e-3  # seconds of the calls that count


Calls = dict[str, tuple[Callable[[], Any], np.ndarray]]  # of each library, "" is this one


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

    def calls(self) -> Calls:
        """The call of each library, and what it writes."""
        import torch

        source = self.source
        noise = np.arange(-(-source.nbytes // 8), dtype=np.int64).view(np.uint8)
        given = noise[: source.nbytes].view(source.buffer_dtype)
        ours, theirs = np.zeros_like(given), np.zeros_like(given)
        plan = gl.plan(source, self.target)
        reading = torch.from_numpy(given).reshape(self.dimensions).permute(self.order)
        writing = torch.from_numpy(theirs).reshape([self.dimensions[dim] for dim in self.order])
        return {"": (lambda: plan(given, out=ours), ours), "torch": (lambda: writing.copy_(reading), theirs)}


class Cast(NamedTuple):
    """One relayout of a dense array whose elements get another type.

    order   the dimensions of the target, major first
    """

    element_type: str
    result_type: str
    dimensions: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def move(self) -> Case:
        """The same without another type."""
        return Case(self.element_type, self.dimensions, self.order)

    def __str__(self) -> str:
        return f"{self.move} in {self.result_type}"

    def calls(self) -> Calls:
        """The call of this library, and its relayout with NumPy's cast after it.  All values are in both types."""
        source, target = self.move.source, self.move.target
        given = np.resize(np.arange(16).astype(source.dtype), source.element_count)
        ours, theirs = (np.zeros(given.size, gl.Shape(self.result_type, ()).dtype) for _ in range(2))
        moved = np.zeros_like(given)
        both, move = gl.plan(source, target.layout, dtype=self.result_type), gl.plan(source, target)

        def two_passes() -> None:
            move(given, out=moved)
            np.copyto(theirs, moved, casting="unsafe")

        return {"": (lambda: both(given, out=ours), ours), "two passes": (two_passes, theirs)}


class View(NamedTuple):
    """One view of an array, whose dimensions are put in another order.

    dimensions   of the view, before that
    steps        along each dimension; 0 repeats what has one place
    """

    element_type: str
    dimensions: tuple[int, ...]
    steps: tuple[int, ...]
    order: tuple[int, ...]

    def __str__(self) -> str:
        steps = ", ".join("repeated" if step == 0 else f"::{step}" for step in self.steps)
        return f"{gl.Shape(self.element_type, self.dimensions)} [{steps}] in the order {self.order}"

    def calls(self) -> Calls:
        """The call of each library, and what it writes; PyTorch has no negative strides."""
        import torch

        dtype = gl.Shape(self.element_type, ()).buffer_dtype
        sizes = [size * abs(step) or 1 for size, step in zip(self.dimensions, self.steps)]
        memory = np.arange(-(-math.prod(sizes) * dtype.itemsize // 8), dtype=np.int64).view(np.uint8)
        memory = memory[: math.prod(sizes) * dtype.itemsize].view(dtype).reshape(sizes)
        view = np.broadcast_to(memory[tuple(slice(None, None, step or None) for step in self.steps)], self.dimensions)
        turned = view.transpose(self.order)
        ours, theirs, tensor = (np.zeros(turned.shape, dtype) for _ in range(3))
        letters = "abcd"[: view.ndim]
        pattern = f"{' '.join(letters)} -> {' '.join(letters[dim] for dim in self.order)}"
        found: Calls = {
            "": (lambda: gl.transpose(view, pattern, out=ours), ours),
            "numpy": (lambda: np.copyto(theirs, turned), theirs),
        }
        if min(self.steps) >= 0:
            reading, writing = torch.from_numpy(memory), torch.from_numpy(tensor)
            for dim, step in enumerate(self.steps):
                reading = reading[(slice(None),) * dim + (slice(None, None, step or 1),)]
            reading = reading.expand(self.dimensions).permute(self.order)
            found["torch"] = (lambda: writing.copy_(reading), tensor)
        return found


def _sizes(chance: random.Random, element_type: str, rank: int, most: float) -> list[int]:
    """Sizes of an array of LEAST to `most` bytes, or a little beside, as its sizes are rounded."""
    elements = math.exp(chance.uniform(math.log(LEAST), math.log(most))) / gl.Shape(element_type, ()).itemsize
    weights = [chance.random() + 0.05 for _ in range(rank)]
    return [max(2, round(elements ** (weight / sum(weights)))) for weight in weights]


def drawn_views(seed: int, count: int) -> list[View]:
    """The views of a seed.  Sizes are spread evenly over the powers of two."""
    chance = random.Random(seed)
    found: list[View] = []
    while len(found) < count:
        element_type, rank = chance.choice(ELEMENT_TYPES), chance.randint(1, 4)
        dimensions = tuple(_sizes(chance, element_type, rank, MOST_OF_VIEW))
        steps = tuple(chance.choice(STEPS) for _ in range(rank))
        order = tuple(chance.sample(range(rank), rank))
        if any(step != 1 for step in steps) and LEAST <= gl.Shape(element_type, dimensions).nbytes <= MOST_OF_VIEW:
            found.append(View(element_type, dimensions, steps, order))
    return found


def drawn(seed: int, count: int) -> list[Case]:
    """The cases of a seed.  Sizes are spread evenly over the powers of two."""
    chance = random.Random(seed)
    found: list[Case] = []
    while len(found) < count:
        element_type, rank = chance.choice(ELEMENT_TYPES), chance.randint(2, 7)
        dimensions = _sizes(chance, element_type, rank, MOST)
        if chance.random() < 0.3:
            multiple = chance.choice(MULTIPLES)
            dimensions = [size if size < multiple else size // multiple * multiple for size in dimensions]
        order = chance.sample(range(rank), rank)
        if order != sorted(order) and LEAST <= gl.Shape(element_type, tuple(dimensions)).nbytes <= MOST:
            found.append(Case(element_type, tuple(dimensions), tuple(order)))
    return found


def drawn_casts(seed: int, count: int) -> list[Cast]:
    """The relayouts of a seed, each between two types."""
    chance = random.Random(seed)
    moves = [
        case for case in drawn(seed, 2 * count) if case.element_type != "c128" and case.source.nbytes <= MOST_OF_VIEW
    ]
    return [Cast(*chance.sample(CAST_TYPES, 2), case.dimensions, case.order) for case in moves[:count]]


def times_of(case: Case | Cast | View, rounds: int) -> dict[str, float]:
    """Median milliseconds of each library, which take turns.  AssertionError if their bytes differ."""
    calls = case.calls()
    for call, _ in calls.values():
        call()
    right = calls[""][1].tobytes()
    assert all(written.tobytes() == right for _, written in calls.values()), case
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, (call, _) in calls.items():
            samples[name].append(without_pauses(call, WARM_UP, LEAST_SAMPLE) * 1e3)
    return {name: statistics.median(kept) for name, kept in samples.items()}


def run(cases: Sequence[Case | Cast | View], threads: int, rounds: int) -> list[dict[str, Any]]:
    """The times of all cases with a number of threads on both sides, as plain values."""
    import torch

    torch.set_num_threads(threads)
    with gl.use_backend("numpy"), gl.use_threads(threads):
        found = []
        for case in cases:
            times = times_of(case, rounds)
            size = gl.Shape(case.element_type, case.dimensions).nbytes / 1e6
            record = {"case": str(case), "megabytes": size, "threads": threads, "ms": times.pop("")}
            found.append(record | {f"{name}_ms": time for name, time in times.items()})
    return found


def summary(records: Sequence[dict[str, Any]]) -> list[str]:
    """The ratios to the fastest of the others in a line, and the cases where it is faster."""
    others = sorted({name for record in records for name in record if name.endswith("_ms")})
    ratios = sorted(
        (min(record[name] for name in others if name in record) / record["ms"], record["case"]) for record in records
    )
    values = [ratio for ratio, _ in ratios]
    behind = [f"  {ratio:.2f}  {case}" for ratio, case in ratios if ratio < BEHIND]
    names = " or ".join(name.removesuffix("_ms") for name in others)
    return [
        f"{len(values)} cases, threads: {records[0]['threads']}; the time of {names} over ours: "
        f"median {statistics.median(values):.2f}, geometric mean {statistics.geometric_mean(values):.2f}, "
        f"{values[0]:.2f} to {values[-1]:.2f}; below {BEHIND}: {len(behind)}",
        *behind,
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a summary for each number of threads."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_relayouts", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--views", action="store_true", help="of arrays, instead of whole arrays; NumPy and PyTorch")
    parser.add_argument("--casts", action="store_true", help="to another type, instead; this relayout and NumPy's cast")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.views and options.casts:
        parser.error("--views and --casts are two benchmarks: write one of them")
    draw: Callable[[int, int], Sequence[Case | Cast | View]] = drawn_views if options.views else drawn
    cases = (drawn_casts if options.casts else draw)(options.seed, options.count)
    found = {threads: run(cases, threads, options.rounds) for threads in options.threads}
    for records in found.values():
        print("\n".join(summary(records)))
    if options.json:
        records = [record for each in found.values() for record in each]
        content = {
            "machine": machine("numpy", True),
            "seed": options.seed,
            "views" if options.views else "casts" if options.casts else "relayouts": records,
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
