"""The benchmarks on the CPU: NumPy arrays, wall time."""
from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

import gpulayout as gl
from benchmarks.cases import SMALL_CASES, Case, MoveCase
from benchmarks.clock import Effort, Samples, WallClock, take_turns
from benchmarks.contender import OURS, Contender, Prepared, agreeing, array_contenders, for_sweep, input_and_output
from benchmarks.cpu_cases import CPU_CASES
from benchmarks.goals import PREPARED_CALL
from benchmarks.peers import Stage
from benchmarks.ttc import TTC_CASES


class NumpySide:
    """How cases are prepared and timed on the CPU."""

    name = "numpy"
    cases: Sequence[Case] = CPU_CASES
    small_cases: Sequence[MoveCase] = SMALL_CASES
    sweep: Sequence[MoveCase] = TTC_CASES
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

    def prepare(self, case: Case, stage: int = 0, sweep: bool = False) -> Prepared:
        """All contenders, checked against each other."""
        pairs = [input_and_output(np, case, seed=1)]
        contenders = array_contenders(np, case, pairs)
        return Prepared(*agreeing(np, case, for_sweep(contenders) if sweep else contenders, pairs))

    def ceilings(self, case: Case) -> list[Contender]:
        """A plain copy that reads and writes as many bytes as the case."""
        source, target = np.ones((2, max(case.bytes_moved // 2, 1)), np.uint8)
        return [Contender("numpy.copyto of one run", "copy", lambda i: np.copyto(target, source))]

    def prepare_small(self, case: MoveCase) -> list[Contender]:
        """Single small calls, with all that can be prepared beforehand prepared."""
        given, out = input_and_output(np, case, seed=1)
        buffer, source, target = given.reshape(-1), case.source, case.target
        plan, texts = gl.plan(source, target), (str(source), str(target))
        view = given.transpose(case.order) if case.order else given
        shaped = out.reshape(view.shape)
        return [
            Contender("numpy.copyto", "call", lambda i: np.copyto(shaped, view)),
            Contender(PREPARED_CALL, "call", lambda i: plan(buffer, out)),
            Contender(f"{OURS} relayout(buffer, source, target, out=out)", "call",
                      lambda i: gl.relayout(buffer, source, target, out=out)),
            Contender(f"{OURS} relayout with texts", "call", lambda i: gl.relayout(buffer, *texts, out=out)),
        ]

    def take(self, contenders: Sequence[Contender], effort: Effort) -> list[Samples]:
        return take_turns(contenders, lambda _: self.clock, effort, "best")

    def take_small(self, contenders: Sequence[Contender], effort: Effort) -> list[Samples]:
        return take_turns(contenders, lambda _: self.clock, Effort(4 * effort.rounds, 5e-3, (1000, 5000)), "best")

    def release(self) -> None:
        """Give memory back before the next case."""
