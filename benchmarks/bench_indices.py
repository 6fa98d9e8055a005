"""Index conversion beside the obvious peer, which always writes new memory.

    pytest benchmarks/bench_indices.py --benchmark-group-by=group --benchmark-columns=median,min,rounds
"""
import pytest

from benchmarks.cases import IndexCase
from benchmarks.contender import OURS
from benchmarks.cpu_cases import CPU_CASES

CASES = [case for case in CPU_CASES if isinstance(case, IndexCase)]
PEERS = {"linearize": "{}.ravel_multi_index", "delinearize": "{}.unravel_index", "convert_linear": "{} unravel and ravel"}


@pytest.mark.parametrize(("who", "output"), [("ours", "warm"), ("ours", "fresh"), ("peer", "fresh")])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_index_conversion(measure, case, output, who):
    measure(case, OURS if who == "ours" else PEERS[case.kind], output)
