"""The CPU's curves: transposes from 8 KB to 537 MB with every number of threads, and linearization of 100 to ten
million indices.
"""

from __future__ import annotations

import numpy as np

from benchmarks.cases.case import Case
from benchmarks.cases.curves import CURVES
from benchmarks.clock import Effort
from benchmarks.goals_side import GoalsSide
from benchmarks.peers.agreement import agreeing
from benchmarks.peers.arrays import array_contenders
from benchmarks.peers.contender import Prepared
from benchmarks.peers.inputs import input_and_output
from gpulayout.cpu.threads import thread_count


class CurvesSide(GoalsSide):
    """This library with 1, 2, 4, ... threads beside NumPy and a plain copy.  The best round counts: other programs
    only ever make rounds longer.
    """

    statistic, with_peers = "best", False
    cases = CURVES
    effort = full_effort = Effort(15, 5e-3, (1, 2000))

    def __init__(self, counts: tuple[int, ...] = ()):
        most = thread_count()
        super().__init__(counts or (*(2**k for k in range(most.bit_length()) if 2**k < most), most))

    def prepare(self, section: str, case: Case, stage: int = 0) -> Prepared:
        given, out = input_and_output(np, case, seed=1)
        plain = array_contenders(np, case, [(given, out)])
        # NumPy converts indices into new memory only, so both kinds of output are measured there.
        plain = [contender for contender in plain if section == "linearize" or contender.output == "warm"]
        kept, refused = agreeing(np, case, self._beside(plain), [(given, out)])
        return Prepared([*(self.copies(case) if section == "bytes" else []), *kept], refused)
