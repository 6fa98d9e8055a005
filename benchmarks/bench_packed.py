"""Elements of 1 and 4 bits beside the plain way to pack, unpack and transpose them.

    pytest benchmarks/bench_packed.py --benchmark-group-by=group --benchmark-columns=median,min,rounds
"""
import pytest

from benchmarks.contender import OURS
from benchmarks.cpu_cases import CPU_CASES
from benchmarks.packed_cases import PackedCase

CASES = [case for case in CPU_CASES if isinstance(case, PackedCase)]
BITS = {"target": "{}.packbits", "source": "{}.unpackbits"}


@pytest.mark.parametrize("who", ["ours", "peer"])
@pytest.mark.parametrize("output", ["warm", "fresh"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_packed(measure, case, output, who):
    measure(case, OURS if who == "ours" else BITS[case.packed] if case.bits == 1 else "{} shifts of words", output)
