"""Measures what the CPU's figures are judged by, in one process: `python -m benchmarks --cpu-goals`."""
from __future__ import annotations

import gc
import json
import os
import pathlib
import resource
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gpulayout as gl
from benchmarks.cases import SMALL_CASES, Case, MoveCase, named, quick
from benchmarks.clock import Effort, Samples, WallClock, take_turns
from benchmarks.contender import Contender, agreeing, input_and_output, reason_of
from benchmarks.goal_cases import INDICES, PADDINGS, RELAYOUTS
from benchmarks.goal_peers import GoalPeers
from benchmarks.machine import machine
from benchmarks.numpy_side import NumpySide
from gpulayout.cpu.threads import VARIABLE, thread_count

SCHEMA = 1
ROUNDS = 7
LISTS: dict[str, Sequence[Case]] = {"small": SMALL_CASES, "relayout": RELAYOUTS, "padding": PADDINGS, "index": INDICES}


class GoalRun:
    """Figures as they come in.  Each case has one record; a case that cannot run is listed with its reason.

    rounds   samples per contender, of which the median counts
    tiny     small arrays: shows that everything runs, not how fast
    only     cases whose name contains this text
    """

    def __init__(self, rounds: int | None = None, tiny: bool = False, only: str = "", time_limit: float = 3600,
                 file: pathlib.Path | None = None, counts: Sequence[int] = ()):
        self.begin, self.time_limit, self.file, self.only, self.tiny = time.monotonic(), time_limit, file, only, tiny
        self.side, self.clock = NumpySide(), WallClock()
        self.counts = tuple(counts) or (1, thread_count())
        self.effort = Effort(rounds or ROUNDS, 2e-3, (1, 3 if tiny else 20))
        self.peers: Any = None
        self.found: dict[str, Any] = {
            "schema": SCHEMA, "machine": machine("numpy", peers=True), "counts": list(self.counts), "rounds": self.effort.rounds,
            "quick": tiny, "only": only, "listed": {section: len(cases) for section, cases in LISTS.items()}, "finished": False,
            **{section: [] for section in LISTS}, "not_run": [], "peers_refused": [], "peers_missing": {}}

    def all(self, report: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
        """Everything that `only` leaves, and the environment as it was.

        report   is told what is done
        """
        before = os.environ.get(VARIABLE)
        try:
            self.peers = GoalPeers(self.counts)
            self.found["peers_missing"] = self.peers.missing
            for section, cases in LISTS.items():
                listed = cases if section == "small" or not self.tiny else quick(cases)
                for case in named(listed, self.only):
                    self._one(section, case, report)
        finally:
            if before is None:
                os.environ.pop(VARIABLE, None)
            else:
                os.environ[VARIABLE] = before
        self.found["finished"] = True
        self._save()
        return self.found

    def _one(self, section: str, case: Case, report: Callable[[str], None]) -> None:
        begin = time.monotonic()
        late = "the time limit was reached" if begin > self.begin + self.time_limit else None
        reason, failed = late or self.side.why_not(case), False
        if not reason:
            try:
                self.found[section].append(getattr(self, f"_{section}")(case))
            except Exception as error:       # one case that fails must not take the figures of the others with it
                reason, failed = reason_of(error), True
        if reason:
            self.found["not_run"].append({"section": section, "case": case.name, "reason": reason, "failed": failed})
        self._let_go()
        self._save()
        report(f"{case.name}: {reason or f'{time.monotonic() - begin:.1f} s'}")

    def _let_go(self) -> None:
        """Memory is free again before the next case."""
        if not self.tiny:
            gc.collect()
        self.peers.release()

    def _small(self, case: MoveCase) -> dict[str, Any]:
        contenders = self.peers.small(self.side.prepare_small(case))
        _check_small(case, contenders)
        calls = (10, 20) if self.tiny else (1000, 5000)
        return _record(case, contenders, self._take(contenders, Effort(2 * self.effort.rounds, 5e-3, calls)))

    def _relayout(self, case: MoveCase) -> dict[str, Any]:
        pairs = [input_and_output(np, case, seed=1)]
        record = self._compared(case, pairs, self.peers.relayout(case, pairs), [])
        plan, buffer = gl.plan(case.source, case.target), pairs[0][0].reshape(-1)
        return record | {"scratch": [{"threads": count, "bytes": self._scratch(count, lambda: plan(buffer))}
                                     for count in self.peers.counts]}

    def _padding(self, case: MoveCase) -> dict[str, Any]:
        pairs = [input_and_output(np, case, seed=1)]
        return self._compared(case, pairs, self.peers.padding(case, pairs), self.peers.copies(case))

    def _index(self, case: Case) -> dict[str, Any]:
        pairs = [input_and_output(np, case, seed=1)]
        return self._compared(case, pairs, self.peers.index(case, pairs), [])

    def _compared(self, case: Case, pairs: list[tuple], contenders: Sequence[Contender], copies: Sequence[Contender]) -> dict[str, Any]:
        """The record of those that give the same result."""
        kept, refused = agreeing(np, case, contenders, pairs)
        self.found["peers_refused"] += [{"case": case.name, **one._asdict()} for one in refused]
        everyone = [*copies, *kept]
        return _record(case, everyone, self._take(everyone, self.effort))

    def _take(self, contenders: Sequence[Contender], effort: Effort) -> list[Samples]:
        return take_turns(contenders, lambda _: self.clock, effort, "median")

    def _scratch(self, count: int, call: Callable[[], np.ndarray]) -> int:
        self.peers.set_threads(count)
        return scratch_bytes(call)

    def _save(self) -> None:
        self.found["seconds"] = round(time.monotonic() - self.begin, 1)
        self.found["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024      # Linux counts in KiB
        if self.file:
            half = self.file.with_suffix(".part")
            half.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
            half.replace(self.file)


def scratch_bytes(call: Callable[[], np.ndarray]) -> int:
    """The most memory that a call held at any time, beyond what was there before and the output it gives back.

    >>> scratch_bytes(lambda: np.zeros(10**6, np.uint8)) < 2000
    True
    """
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        output = call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak - before - output.nbytes


def _check_small(case: Case, contenders: Sequence[Contender]) -> None:
    """AssertionError when a small call leaves something else in the output than NumPy, the first of them."""
    out = contenders[-1].call(0)             # one of ours, which give back the output that all of them write
    written = []
    for contender in contenders:
        out.view(np.uint8).fill(0xA5)
        contender.ready()
        contender.call(0)
        written.append(out.tobytes())
        if written[-1] != written[0]:
            raise AssertionError(f"{case.name}: {contender.name} gives another result than {contenders[0].name}")


def _record(case: Case, contenders: Sequence[Contender], samples: Sequence[Samples]) -> dict[str, Any]:
    runs = [{"contender": contender.name, "output": contender.output, "threads": contender.threads, "median_s": sample.median,
             "best_s": sample.best, "rounds": len(sample.seconds)} for contender, sample in zip(contenders, samples)]
    return {"case": case.name, "kind": case.kind, "group": case.group, "bytes_moved": case.bytes_moved,
            "itemsize": case.source.itemsize, "rank": len(case.dimensions), "runs": runs}
