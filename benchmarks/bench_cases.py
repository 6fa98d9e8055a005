"""The CPU's list beside plain code: relayout, pack and unpack of whole and packed elements, and single small calls.

pytest benchmarks/bench_cases.py --benchmark-group-by=group --benchmark-columns=median,min,rounds
"""

import pytest

from benchmarks.cases.case import MoveCase
from benchmarks.cases.cpu import CPU_CASES, SMALL_CASES
from benchmarks.recorder import ways


@pytest.mark.parametrize(
    ("case", "name", "output"), ways("cases", (case for case in CPU_CASES if isinstance(case, MoveCase)))
)
def test_move(measure, case, name, output):
    measure("cases", case, name, output)


@pytest.mark.parametrize(("case", "name", "output"), ways("small", SMALL_CASES))
def test_small_call(measure, case, name, output):
    """Planning and checks outweigh the bytes.  On a GPU only the host's time is measured."""
    measure("small", case, name, output)
