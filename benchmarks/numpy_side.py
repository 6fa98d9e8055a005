"""The benchmarks on the CPU: NumPy arrays, wall time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.cases.case import Case
from benchmarks.cases.convert import CONVERT_CASES
from benchmarks.cases.cpu import CPU_CASES, SMALL_CASES
from benchmarks.cases.ttc import TTC_CASES
from benchmarks.clock import Effort, Samples, WallClock, take_turns
from benchmarks.peers.agreement import agreeing
from benchmarks.peers.arrays import array_contenders, small_calls
from benchmarks.peers.contender import COPY, Contender, Prepared, for_sweep
from benchmarks.peers.inputs import input_and_output
from benchmarks.peers.stages import Stage


class NumpySide:
    """How cases are prepared and timed on the CPU."""

    name, statistic = "numpy", "best"
    cases: dict[str, Sequence[Case]] = {
        "small": SMALL_CASES,
        "cases": CPU_CASES,
        "ttc": TTC_CASES,
        "arithmetic": CONVERT_CASES,
    }
    with_peers = False  # other libraries take part
    notes: dict[str, Any] = {}  # what a run's file records besides its figures
    left_out: dict[str, str] = {}
    missing: dict[str, str] = {}
    stages = [Stage("numpy")]
    effort = full_effort = Effort(7, 2e-3, (1, 500))
    clock = WallClock()

    def why_not(self, case: Case) -> str | None:
        """Why a case cannot run here: its arrays, the fresh outputs and the plain copy must fit in memory."""
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        wanted = 6 * case.bytes_allocated
        return None if wanted < free else f"needs {wanted >> 20} MiB of memory, {free >> 20} are free"

    def prepare(self, section: str, case: Case, stage: int = 0) -> Prepared:
        """All contenders, checked against each other, after the plain copy that they are compared with."""
        given, out = input_and_output(np, case, seed=1)
        if section == "small":
            return Prepared(*agreeing(np, case, small_calls(np, case, given, out), [(given, out)]))
        contenders = array_contenders(np, case, [(given, out)])
        kept, refused = agreeing(np, case, for_sweep(contenders) if section == "ttc" else contenders, [(given, out)])
        return Prepared([*self.copies(case), *kept], refused)

    def copies(self, case: Case) -> list[Contender]:
        """A plain copy that reads and writes as many bytes as the case."""
        source, target = np.ones((2, max(case.bytes_moved // 2, 1)), np.uint8)
        return [Contender(COPY, "copy", lambda i: np.copyto(target, source))]

    def take(self, contenders: Sequence[Contender], effort: Effort) -> list[Samples]:
        return take_turns(contenders, lambda _: self.clock, effort, self.statistic)

    def release(self) -> None:
        """Give memory back before the next case."""

    def close(self) -> None:
        """Leave the process as it was."""
