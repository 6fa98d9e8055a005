"""The order in which a run takes its figures, and what it leaves out when time is short.

    1. small calls: the host's time only
    2. every case beside the peers that need no compilation
    3. the long list of tensor transpositions, beside one peer
    4. conversions on the way, beside the peers that need no compilation
    5. the peers that compile something for every case, stage by stage, on the cases of 2 and of 4

So a time limit costs peers before rows.  A full run then uses those peers on the long list too.
"""

from __future__ import annotations

import json
import pathlib
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.cases.case import Case
from benchmarks.cases.select import named, quick
from benchmarks.machine import machine
from benchmarks.peers.contender import Refused, reason_of
from benchmarks.record import SCHEMA, add_stage, case_record

SAVE_EVERY = 5.0  # seconds; figures survive when the run is ended from outside


class Run:
    """Takes figures until a deadline.  Each case has one record; a case that cannot run is listed with its reason.

    side        where the arrays live and who takes part: NumpySide, GoalsSide, CurvesSide, CudaSide or CudaCurves
    only        cases whose name contains this text
    tiny        small arrays: shows that everything runs, not how fast
    full        more samples, and all peers on the long list
    sweep       with the long list of tensor transpositions
    file        rewritten during the run; None keeps everything in memory
    """

    def __init__(
        self,
        side: Any,
        rounds: int | None = None,
        only: str = "",
        tiny: bool = False,
        full: bool = False,
        sweep: bool = True,
        time_limit: float = 3600,
        file: pathlib.Path | None = None,
    ):
        self.side, self.full, self.file = side, full, file
        effort = side.full_effort if full else side.effort
        self.effort = (effort.quick() if tiny else effort)._replace(rounds=rounds or effort.rounds)
        self.lists = {
            section: quick(cases) if tiny else cases for section, cases in wanted_cases(side, only, sweep).items()
        }
        self.begin = time.monotonic()
        self.deadline = self.begin + time_limit
        self._saved = 0.0
        self.found: dict[str, Any] = {
            "schema": SCHEMA,
            "machine": machine(side.name, side.with_peers),
            "time_limit_s": time_limit,
            "effort": self.effort._asdict(),
            "rounds": self.effort.rounds,
            "statistic": side.statistic,
            "quick": tiny,
            "full": full,
            "only": only,
            "finished": False,
            **side.notes,
            **{section: [] for section in self.lists},
            "not_run": [],
            "peers_refused": [],
            "peers_not_timed": {},
            "peers_missing": dict(side.missing),
            "left_out": dict(side.left_out),
        }

    def all(self) -> dict[str, Any]:
        """Run everything, in the order above, and return the findings."""
        try:
            for section, cases in self.lists.items():
                for case in cases:
                    self._first(section, case)
            for section in ("cases", "arithmetic", "ttc") if self.full else ("cases", "arithmetic"):
                if section not in self.lists:
                    continue
                for stage in range(1, len(self.side.stages)):
                    self._later(section, stage)
        finally:
            self.side.close()
        self.found["finished"] = True
        self.save()
        return self.found

    def save(self) -> None:
        """Write the findings so far."""
        self.found["seconds"] = round(time.monotonic() - self.begin, 1)
        # Linux counts in KiB
        self.found["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if self.file:
            half = self.file.with_suffix(".part")
            half.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
            half.replace(self.file)
        self._saved = time.monotonic()

    def _first(self, section: str, case: Case) -> None:
        """Record a case.  A case that cannot run is listed with its reason, and the run goes on."""
        begin = time.monotonic()
        reason, failed = self._out_of_time() or self.side.why_not(case), False
        if not reason:
            try:
                self.found[section].append(self._measured(section, case))
            except Exception as error:  # one failed case must not cost the others their figures
                reason, failed = reason_of(error), True
            self._let_go()
        if reason:
            self.found["not_run"].append({"section": section, "case": case.name, "reason": reason, "failed": failed})
        print(f"{case.name}: {reason or f'{time.monotonic() - begin:.1f} s'}", file=sys.stderr, flush=True)

    def _measured(self, section: str, case: Case, stage: int = 0) -> dict[str, Any] | None:
        """The record of a case at a stage; None at a later stage whose peers cannot do the work."""
        prepared = self.side.prepare(section, case, stage)
        self._note(case, prepared.refused)
        if all(contender.is_ours for contender in prepared.contenders):
            return None
        effort = self.effort.of_small_calls() if section == "small" else self.effort
        samples = self.side.take(prepared.contenders, effort)
        return case_record(case, self.side.name, prepared.contenders, samples) | prepared.more

    def _later(self, section: str, stage: int) -> None:
        """One stage of peers on the cases that have a record.  It ends early when its slowest case would not fit
        again.
        """
        self.save()  # the next peers run compilers of others, which may end the process
        records = {record["case"]: record for record in self.found[section]}
        name, slowest = self.side.stages[stage].name, 0.0
        for case in (case for case in self.lists[section] if case.name in records):
            begin = time.monotonic()
            if self._out_of_time(slowest):
                self.found["peers_not_timed"].setdefault(name, []).append(case.name)
                continue
            try:
                later = self._measured(section, case, stage)
                if later:
                    add_stage(records[case.name], later)
            except Exception as error:  # the row is kept without this stage
                self._note(case, [Refused(name, reason_of(error))])
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


def wanted_cases(side: Any, only: str = "", sweep: bool = True) -> dict[str, list[Case]]:
    """A side's lists by section, reduced to the cases with the wanted text in their name."""
    return {section: named(cases, only) if sweep or section != "ttc" else [] for section, cases in side.cases.items()}
