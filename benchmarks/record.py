"""The JSON record of one case: writing and reading it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.cases.case import Case, IndexCase, MoveCase
from benchmarks.cases.convert import ConvertCase
from benchmarks.clock import Samples
from benchmarks.peers.contender import OURS, Contender
from gpulayout import Shape
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.estimate import estimate
from gpulayout.gpu.launch import KernelPlan
from gpulayout.moves.convert_pieces import convert_stages
from gpulayout.moves.pieces import pieces
from gpulayout.moves.placement import Placement

SCHEMA = 3
Record = dict[str, Any]


def case_record(case: Case, backend: str, contenders: Sequence[Contender], samples: Sequence[Samples]) -> Record:
    """What was moved and how fast, relative to a plain copy of as many bytes and to this library with as many threads.

    `against` is how many times faster this library is than the contender: below 1 the contender wins.
    """
    timed = [(contender, sample, sample.typical) for contender, sample in zip(contenders, samples)]
    ours = {(c.output, c.threads): seconds for c, _, seconds in timed if c.name == OURS}
    copies: dict[int, float] = {}
    for contender, _, seconds in timed:
        if contender.output == "copy":
            copies[contender.threads] = min(seconds, copies.get(contender.threads, seconds))
    runs = []
    for contender, sample, seconds in timed:
        run = {
            "contender": contender.name,
            "output": contender.output,
            "threads": contender.threads,
            "median_s": sample.median,
            "best_s": sample.best,
            "rounds": len(sample.seconds),
            "gb_per_s": round(case.bytes_moved / seconds / 1e9, 3),
        }
        if contender.threads in copies and contender.output != "copy":
            run["fraction_of_copy"] = round(copies[contender.threads] / seconds, 4)
        if contender.name != OURS and (contender.output, contender.threads) in ours:
            run["against"] = round(seconds / ours[contender.output, contender.threads], 3)
        if contender.rounding:
            run["rounding"] = contender.rounding
        runs.append(run)
    plan = kernel_of(case)
    return {
        "case": case.name,
        "kind": case.kind,
        "group": case.group,
        "work": _work(case),
        "backend": backend,
        "family": plan.family if plan else case.group,
        "kernel": plan.kernel if plan else None,
        "model": modelled(plan),
        "goal": case.goal,
        "bytes_moved": case.bytes_moved,
        "itemsize": case.source.itemsize,
        "rank": len(case.dimensions),
        "copy_s": copies.get(timed[0][0].threads),
        "statistic": samples[0].statistic,
        "runs": runs,
    }


def sized(run: Record) -> Record:
    """The run itself; if its arrays are tiny, with the bytes that each case moved in its name.

    >>> sized({"quick": True, "cases": [{"case": "f32 8192x8192", "bytes_moved": 131072}]})["cases"][0]["case"]
    'f32 8192x8192, quick: 131 kB'
    """
    if not run.get("quick"):
        return run
    return run | {
        section: [
            record | {"case": f"{record['case']}, quick: {record['bytes_moved'] / 1e3:.3g} kB"} for record in listed
        ]
        for section, listed in run.items()
        if isinstance(listed, list) and all(isinstance(record, dict) and "bytes_moved" in record for record in listed)
    }


def add_stage(record: Record, later: Record) -> None:
    """Add the peers of a later stage to a record: each against this library's time beside it, in that stage."""
    for run in later["runs"]:
        if "against" in run:
            if record["copy_s"]:
                run["fraction_of_copy"] = round(record["copy_s"] / seconds_of(later, run), 4)
            record["runs"].append(run)


def _work(case: Case) -> str:
    if case.kind in ("pack", "unpack", "linearize", "delinearize"):
        return f"{case.kind} {case.target}"
    return f"{'relayout' if case.kind == 'packed' else case.kind} {case.source} -> {case.target}"


def modelled(plan: KernelPlan | None) -> Record | None:
    """The expected speed on the device at hand, from the model; None for kernels that it does not know."""
    found = estimate(plan) if plan else None
    return found.as_json() if found else None


def kernel_of(case: Case) -> KernelPlan | None:
    """The largest launch of a move with aligned buffers; None for index conversion: one kernel for each direction."""
    if isinstance(case, IndexCase):
        return None
    if isinstance(case, ConvertCase):
        sizes = (case.parameter,) * sum(step.parameter is not None for step in case.arithmetic.steps)
        stages = convert_stages(*map(Placement.buffer, (case.source, case.target)), case.arithmetic, sizes)
        return kernel_plan(stages.pieces[0].move)
    read, write = Placement.buffer(case.source), Placement.buffer(case.target)
    if case.kind == "unpack":
        read, write = write, Placement.array(case.target, case.source.byte_strides)
    elif case.kind not in ("relayout", "packed"):
        read = Placement.array(case.target, _input_strides(case))
    return kernel_plan(pieces(read, write)[0].move)


def _input_strides(case: MoveCase) -> tuple[int, ...]:
    if not case.cut_from:
        return case.source.byte_strides
    held = Shape(case.element_type, case.cut_from).byte_strides
    return tuple(-step if dim in case.backward else step for dim, step in enumerate(held))


# ---- read again ------------------------------------------------------------------------------------------------


def seconds_of(record: Record, run: Record) -> float:
    """Seconds of one call, by the statistic that counts; older runs have small calls in microseconds."""
    return run["best_us"] / 1e6 if "best_us" in run else run[record.get("statistic", "median") + "_s"]


def time_of(record: Record, contender: str, output: str, threads: int = 0) -> float | None:
    """Seconds of one contender; None if it was not measured."""
    return next(
        (
            seconds_of(record, run)
            for run in record["runs"]
            if (run["contender"], run.get("output", "call"), run.get("threads", 0)) == (contender, output, threads)
        ),
        None,
    )


def ratio(
    record: Record,
    peer: str,
    output: str,
    threads: int,
    peer_output: str | None = None,
    peer_threads: int | None = None,
) -> float | None:
    """The peer's time over ours, both with `threads` unless `peer_threads` is given; None if one was not measured."""
    ours = time_of(record, OURS, output, threads)
    theirs = time_of(record, peer, peer_output or output, threads if peer_threads is None else peer_threads)
    return theirs / ours if ours and theirs else None


def above_first(record: Record, call: str, threads: int = 0) -> float | None:
    """Microseconds by which a small call exceeds the plain copy, the first contender."""
    ours = time_of(record, call, "call", threads)
    return None if ours is None else (ours - seconds_of(record, record["runs"][0])) * 1e6


def fraction_of(record: Record) -> float | None:
    """This library's fraction of a plain copy's speed, into memory that was written before."""
    return next(
        (
            run["fraction_of_copy"]
            for run in record["runs"]
            if (run["contender"], run["output"]) == (OURS, "warm") and "fraction_of_copy" in run
        ),
        None,
    )


def best_peer(record: Record, output: str | None = None) -> Record | None:
    """The run of the fastest other contender, compared with ours on the same kind of output; on any kind if none is
    named.
    """
    peers = [run for run in record["runs"] if "against" in run and output in (None, run["output"])]
    return min(peers, key=lambda run: run["against"], default=None)


def mean(values: Sequence[float]) -> float | None:
    """The geometric mean; None for an empty sequence, 0 where a time was too short for the clock.

    >>> round(mean([0.5, 2.0]), 6), mean([0.0, 2.0])
    (1.0, 0.0)
    """
    if not values:
        return None
    return statistics.geometric_mean(values) if min(values) > 0 else 0.0
