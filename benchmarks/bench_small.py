"""Small calls, where planning and checks weigh more than the bytes.

    pytest benchmarks/bench_small.py --benchmark-group-by=group --benchmark-columns=median,min
"""
import pytest

from benchmarks.cases import SMALL_CASES


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("case", SMALL_CASES, ids=lambda case: case.name)
def test_small_call(benchmark, side, case, number):
    contenders = side.prepare_small(case)
    if number >= len(contenders):
        pytest.skip("no further contender")
    benchmark.group = f"{side.name}: {case.name}"
    benchmark.extra_info.update(backend=side.name, contender=contenders[number].name, bytes_moved=case.bytes_moved)
    benchmark(contenders[number].call, 0)
