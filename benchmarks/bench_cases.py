"""The CPU's list: relayout, pack and unpack, whole and packed elements, beside the plain ways, into warm memory and into fresh.

    pytest benchmarks/bench_cases.py --benchmark-group-by=group --benchmark-columns=median,min,rounds
"""
import pytest

from benchmarks.cases.case import MoveCase
from benchmarks.cases.cpu import CPU_CASES
from benchmarks.recorder import ways


@pytest.mark.parametrize(("case", "name", "output"), ways(case for case in CPU_CASES if isinstance(case, MoveCase)))
def test_move(measure, case, name, output):
    measure("cases", case, name, output)
