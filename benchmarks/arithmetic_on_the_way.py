"""Conversions with arithmetic on the way, beside other libraries: `python -m benchmarks.arithmetic_on_the_way`.

Every result is compared with NumPy's steps first.  Then all ways take turns without pauses; the median counts.  A peer
that is not installed is listed as absent, and one that fails or gives another result is left out of the case.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import statistics
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from ml_dtypes import finfo

import gpulayout as gl
from benchmarks.cases.arithmetic import Conversion, conversions
from benchmarks.clock import without_pauses
from benchmarks.goals_side import scratch_bytes
from benchmarks.in_place_side import resident_peak
from benchmarks.machine import machine
from benchmarks.peers import stages
from benchmarks.peers.arithmetic import (
    COMPILED,
    Way,
    Work,
    array_of,
    compiled_ways,
    numpy_ways,
    opencv_ways,
    ours,
    prepared,
    result_of,
    torch_ways,
    two_passes,
)
from benchmarks.peers.contender import COPY, OURS, reason_of
from benchmarks.peers.threaded_copy import ThreadedCopy

WARM_UP, LEAST_SAMPLE = 12e-3, 8e-3  # seconds of calls before those that count, and of those
LARGE, FEW = 200e6, 3  # bytes moved from which a case takes no more rounds than this
MOST_MEMORY = 4e6  # bytes beside the output
OPTIONAL = ("torch", "cv2", COMPILED)


class Peers:
    """The libraries that take part, with one number of threads for all.

    absent   why each of the others does not
    """

    def __init__(self, left_out: Sequence[str] = ()):
        self.absent = dict.fromkeys(left_out, "left out by --without")
        wanted = [name for name in ("torch", "cv2") if name not in left_out]
        found = {name: stages.optional(name, self.absent) for name in wanted}
        self.torch, self.cv2 = found.get("torch"), found.get("cv2")
        if not self.torch:
            self.absent.setdefault(COMPILED, "needs torch")
        self.copy = ThreadedCopy()

    def set_threads(self, count: int) -> None:
        """The number of threads of the other libraries."""
        if self.torch:
            self.torch.set_num_threads(count)
        if self.cv2:
            self.cv2.setNumThreads(count)

    def ways(self, work: Work) -> Iterator[Way]:
        """All ways to do the work, ours first."""
        yield from ours(work)
        yield from two_passes(work)
        yield from numpy_ways(work)
        if self.torch:
            yield from torch_ways(self.torch, work)
            if COMPILED not in self.absent:
                yield from compiled_ways(self.torch, work)
        if self.cv2:
            yield from opencv_ways(self.cv2, work)

    def plain_copy(self, case: Conversion, threads: int) -> Way:
        """A copy that reads and writes as many bytes as the case."""
        source, target = np.ones((2, max(case.bytes_moved // 2, 1)), np.uint8)
        return Way(COPY, "copy", lambda: self.copy(source, target, threads))


def agreeing(work: Work, ways: Iterator[Way]) -> tuple[list[Way], dict[str, float], dict[str, str]]:
    """The ways that give the result, by how much those that round otherwise differ, and why others do not take part.

    AssertionError if this library gives another result.
    """
    expected, kept, differences, refused = result_of(work), [], {}, {}
    for way in ways:
        work.out.view(np.uint8).fill(0xA5)
        try:
            found = array_of(way.call(), expected.dtype)
            difference = 0.0 if way.partial else _difference(found, expected)
        except Exception as error:
            if way.name == OURS:
                raise
            refused[str(way)] = reason_of(error)
            continue
        if way.rounding:
            differences[str(way)] = difference
        if difference <= (_tolerance(work) if way.rounding else 0.0):
            kept.append(way)
        elif way.name == OURS:
            raise AssertionError(f"{work.case.name}: {way} differs from NumPy's result by up to {difference}")
        else:
            refused[str(way)] = f"differs from NumPy's result by up to {difference}"
    return kept, differences, refused


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of two numbers; 0 only if all bits are the same."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise TypeError(f"gives {found.dtype}{[*found.shape]}")
    words = f"u{found.itemsize}"
    if np.array_equal(found.view(words), expected.view(words)):
        return 0.0
    largest = np.max(np.abs(np.subtract(found, expected, dtype=np.float32, casting="unsafe")))
    return float(largest) or float(np.finfo(np.float32).tiny)


def _tolerance(work: Work) -> float:
    """What a way that rounds otherwise may differ by: one of an integer, two units in the last place of the largest
    number on the way to a float, nothing in a plain cast.
    """
    if work.scale is None or work.offset is None:
        return 0.0
    if work.case.form == "quantise":
        return 1.0
    largest = max(float(np.max(np.abs(work.offset))), 255 * float(np.max(np.abs(work.scale))))
    return 2 * float(finfo(work.out.dtype).eps) * largest


def measured(case: Conversion, threads: int, rounds: int, peers: Peers) -> dict[str, Any]:
    """The times of all ways with a number of threads, the memory beside the output, and the goals, as plain values."""
    peers.set_threads(threads)
    work = prepared(case)
    ways, differences, refused = agreeing(work, peers.ways(work))
    memory = {
        "traced": max(scratch_bytes(way.call) for way in ways if str(way) == f"{OURS}, fresh"),
        "resident": next(resident_peak(way.call) for way in ways if str(way) == f"{OURS}, warm"),
    }
    ways.insert(0, peers.plain_copy(case, threads))
    seconds: dict[str, list[float]] = {str(way): [] for way in ways}
    for _ in range(min(rounds, FEW) if case.bytes_moved >= LARGE else rounds):
        for way in ways:
            seconds[str(way)].append(without_pauses(way.call, WARM_UP, LEAST_SAMPLE))
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {
        "case": case.name,
        "threads": threads,
        "bytes_moved": case.bytes_moved,
        "bytes_written": case.bytes_written,
        "median_s": medians,
        "all_s": seconds,
        "rounding": {str(way): way.rounding for way in ways if way.rounding},
        "largest_difference": differences,
        "left_out": refused,
        "bytes_beside_output": memory,
        "goals": [*_goals(case, medians), *_memory_goals(memory)],
    }


def _goals(case: Conversion, medians: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Each goal with the ratio that was found; None where the peer was not measured.

    New memory costs a page fault for each page unless the C library has freed memory of that size, so the ratio of a
    goal is between outputs of the same kind.  The peer's new memory beside our existing memory is noted.
    """
    for goal in case.goals:
        here = medians[f"{OURS}, {goal.output}"]
        theirs = medians.get(f"{goal.peer}, {goal.output}")
        bound = medians.get(f"{goal.bound}, {goal.output}") if goal.bound else None
        found = {"goal": f"{goal.peer}, {goal.output}", "wanted": goal.ratio}
        found["ratio"] = theirs and theirs / here
        if theirs and goal.output == "fresh":
            found["ratio_to_existing_memory"] = theirs / medians[f"{OURS}, warm"]
        if bound:
            found |= {"or": f"{goal.bound}, {goal.output}", "ratio_to_bound": bound / here}
        met = None if theirs is None else theirs / here >= goal.ratio or (bound or 0) >= here
        yield found | {"met": met}


def _memory_goals(memory: dict[str, int | None]) -> Iterator[dict[str, Any]]:
    for name, size in memory.items():
        met = None if size is None else size < MOST_MEMORY
        yield {"goal": f"memory beside the output, {name}", "wanted": MOST_MEMORY, "bytes": size, "met": met}


def table(results: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each case and number of threads: milliseconds, and the ratio of each goal; missed ones are bold."""
    lines = [
        "| | threads | copy | existing memory | new memory | their time over ours (wanted) | MB beside the output |",
        "|" + "---|" * 7,
    ]
    for each in results:
        medians = each["median_s"]
        times = [f"{medians[name] * 1e3:.2f} ms" for name in (f"{COPY}, copy", f"{OURS}, warm", f"{OURS}, fresh")]
        ratios = [_shown(goal) for goal in each["goals"] if goal.get("ratio")]
        memory = [size for size in each["bytes_beside_output"].values() if size is not None]
        mark = "" if max(memory) < MOST_MEMORY else "**"
        shown = f"{mark}{max(memory) / 1e6:.1f}{mark}"
        lines.append("| " + " | ".join([each["case"], str(each["threads"]), *times, "; ".join(ratios), shown]) + " |")
    goals = [goal for each in results for goal in each["goals"]]
    met, missed = (sum(goal["met"] is value for goal in goals) for value in (True, False))
    return [*lines, f"{len(goals)} goals: {met} met, {missed} missed, {len(goals) - met - missed} not measured"]


def _shown(goal: dict[str, Any]) -> str:
    mark = "" if goal["met"] else "**"
    bound = f" or {goal['or']} {goal['ratio_to_bound']:.2f}" if "or" in goal else ""
    existing = f"; {goal['ratio_to_existing_memory']:.2f} to existing" if "ratio_to_existing_memory" in goal else ""
    return f"{goal['goal']} {mark}{goal['ratio']:.2f}{mark} ({goal['wanted']:g}{bound}{existing})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arithmetic_on_the_way", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--without", nargs="+", choices=OPTIONAL, default=[], metavar="PEER", help=", ".join(OPTIONAL))
    parser.add_argument("--quick", action="store_true", help="tiny arrays")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args(arguments)
    cases = [case.quick() if options.quick else case for case in conversions() if options.only in case.name]
    if not cases:
        parser.error(f"--only {options.only}: no case has this in its name")
    peers, results, where = Peers(options.without), [], machine("numpy", True)
    with gl.use_backend("numpy"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.quantize_per", UserWarning)  # it is deprecated, and still in use
        for case in cases:
            for threads in options.threads:
                with gl.use_threads(threads):
                    results.append(measured(case, threads, options.rounds, peers))
                if case.bytes_moved >= LARGE:
                    gc.collect()
                print(f"{case.name}, threads: {threads}", file=sys.stderr)
                content = {"machine": where, "absent": peers.absent, "results": results}
                if options.json:
                    options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print("\n".join([*table(results), *(f"absent: {name}: {why}" for name, why in peers.absent.items())]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
