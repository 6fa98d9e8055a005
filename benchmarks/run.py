"""The order in which a run takes its figures, and what it leaves out when time is short.

    1. small calls, on the host alone
    2. every case beside the peers that need no compilation
    3. the long list of tensor transpositions, beside one peer
    4. the peers that compile something for every case, stage by stage, on the cases of 2

So a time limit costs peers before rows.  A full run goes on with those peers on the long list.
"""
from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.cases import Case
from benchmarks.clock import Effort
from benchmarks.contender import OURS, Refused, reason_of
from benchmarks.machine import machine
from benchmarks.report import SCHEMA, add_stage, case_record, small_record

SAVE_EVERY = 5.0                 # seconds; what was measured survives when the run is ended from outside


class Run:
    """Figures as they come in, with a deadline.

    side    where the arrays live: NumpySide or CudaSide
    file    written again and again while the run goes on; None keeps everything in memory
    """

    def __init__(self, side: Any, effort: Effort, time_limit: float, file: pathlib.Path | None, **notes: Any):
        self.side, self.effort, self.file = side, effort, file
        self.begin = time.monotonic()
        self.deadline = self.begin + time_limit
        self._saved = 0.0
        self.found: dict[str, Any] = {
            "schema": SCHEMA, "machine": machine(side.name), "time_limit_s": time_limit, "effort": effort._asdict(), **notes,
            "finished": False, "small": [], "cases": [], "ttc": [], "not_run": [], "peers_refused": [],
            "peers_not_timed": {}, "peers_missing": dict(side.missing), "left_out": dict(side.left_out)}

    def all(self, small: Sequence[Case], cases: Sequence[Case], sweep: Sequence[Case], full: bool) -> dict[str, Any]:
        """Everything, in the order above; what was found comes back."""
        self._each("small", small, self._small)
        self._each("cases", cases, self._first_stage)
        self._each("ttc", sweep, self._sweep)
        for stage in range(1, len(self.side.stages)):
            self._later("cases", cases, stage)
        for stage in range(1, len(self.side.stages) if full else 0):
            self._later("ttc", sweep, stage)
        self.found["finished"] = True
        self.save()
        return self.found

    def save(self) -> None:
        """What there is so far."""
        self.found["seconds"] = round(time.monotonic() - self.begin, 1)
        if self.file:
            half = self.file.with_suffix(".part")
            half.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
            half.replace(self.file)
        self._saved = time.monotonic()

    def _each(self, section: str, cases: Sequence[Case], work: Any) -> None:
        """One case after the other; what cannot run is listed with its reason, and the others go on."""
        for case in cases:
            reason = self._out_of_time() or self.side.why_not(case)
            failed = False
            if not reason:
                try:
                    work(section, case)
                except Exception as error:       # one case that fails must not take the figures of the others with it
                    reason, failed = reason_of(error), True
                self._let_go()
            if reason:
                self.found["not_run"].append({"section": section, "case": case.name, "reason": reason, "failed": failed})

    def _small(self, section: str, case: Case) -> None:
        contenders = self.side.prepare_small(case)
        self.found[section].append(small_record(case, self.side.name, contenders, self.side.take_small(contenders, self.effort)))

    def _first_stage(self, section: str, case: Case, sweep: bool = False) -> None:
        ceilings = self.side.ceilings(case)
        prepared = self.side.prepare(case, 0, sweep)
        contenders = ceilings + prepared.contenders
        self.found[section].append(case_record(case, self.side.name, contenders, self.side.take(contenders, self.effort)))
        self._note(case, prepared.refused)

    def _sweep(self, section: str, case: Case) -> None:
        self._first_stage(section, case, sweep=True)

    def _later(self, section: str, cases: Sequence[Case], stage: int) -> None:
        """One stage of peers on the cases that have a record.  A stage ends early when its slowest case would not fit again."""
        self.save()              # what comes now runs the compilers of others
        records = {record["case"]: record for record in self.found[section]}
        name, slowest = self.side.stages[stage].name, 0.0
        for case in (case for case in cases if case.name in records):
            begin = time.monotonic()
            if self._out_of_time(slowest):
                self.found["peers_not_timed"].setdefault(name, []).append(case.name)
                continue
            try:
                prepared = self.side.prepare(case, stage)
                self._note(case, prepared.refused)
                if any(contender.name != OURS for contender in prepared.contenders):
                    samples = self.side.take(prepared.contenders, self.effort)
                    add_stage(records[case.name], case_record(case, self.side.name, prepared.contenders, samples))
            except Exception as error:           # the row stands without this stage
                self._note(case, [Refused(name, reason_of(error))])
            prepared = None                      # lets go of the arrays
            self._let_go()
            slowest = max(slowest, time.monotonic() - begin)

    def _out_of_time(self, needed: float = 0.0) -> str | None:
        return "the time limit was reached" if time.monotonic() + needed > self.deadline else None

    def _note(self, case: Case, refused: Sequence[Refused]) -> None:
        self.found["peers_refused"] += [{"case": case.name, **one._asdict()} for one in refused]

    def _let_go(self) -> None:
        self.side.release()
        if time.monotonic() - self._saved > SAVE_EVERY:
            self.save()
