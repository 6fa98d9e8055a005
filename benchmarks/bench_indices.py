"""Index conversion on a GPU against the CPU: this library and plain code on both, in one group for each case.

pytest benchmarks/bench_indices.py -k linearize --benchmark-group-by=group --benchmark-columns=median,min,rounds
"""

import pytest

from benchmarks.cases.case import IndexCase
from benchmarks.cases.cpu import CPU_CASES
from benchmarks.recorder import ways


@pytest.mark.parametrize(
    ("case", "name", "output"), ways("cases", (case for case in CPU_CASES if isinstance(case, IndexCase)))
)
def test_index_conversion(measure, case, name, output):
    measure("cases", case, name, output)
