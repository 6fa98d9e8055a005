"""Small calls, where planning and checks weigh more than the bytes: the host's time alone.

    pytest benchmarks/bench_small.py --benchmark-group-by=group --benchmark-columns=median,min
"""
import pytest

from benchmarks.cases.cpu import SMALL_CASES
from benchmarks.recorder import small_ways


@pytest.mark.parametrize(("case", "name", "output"), small_ways(SMALL_CASES))
def test_small_call(measure, case, name, output):
    measure("small", case, name, output)
