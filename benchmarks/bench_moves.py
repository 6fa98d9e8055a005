"""relayout, pack and unpack beside the obvious peer, into warm and into new memory.

    pytest benchmarks/bench_moves.py --benchmark-group-by=group --benchmark-columns=median,min,rounds
"""
import pytest

from benchmarks.cases import MoveCase
from benchmarks.contender import OURS
from benchmarks.cpu_cases import CPU_CASES

CASES = [case for case in CPU_CASES if isinstance(case, MoveCase)]
PEERS = {
    ("relayout", "warm"): "{}.copyto", ("relayout", "fresh"): "{}.ascontiguousarray",
    ("pack", "warm"): "{} fill and assign", ("pack", "fresh"): "{}.pad",
    ("unpack", "warm"): "{}.copyto", ("unpack", "fresh"): "{}.ascontiguousarray",
}


@pytest.mark.parametrize("who", ["ours", "peer"])
@pytest.mark.parametrize("output", ["warm", "fresh"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_move(measure, case, output, who):
    measure(case, OURS if who == "ours" else PEERS[case.kind, output], output)
