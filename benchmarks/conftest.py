"""The `side` and `measure` fixtures that the bench_*.py files share."""

import pytest

from benchmarks.cases.select import quick
from benchmarks.numpy_side import NumpySide
from benchmarks.record import kernel_of
from benchmarks.recorder import find, prepared
from gpulayout.choices.backends import gpu_problem


def pytest_addoption(parser):
    parser.addoption(
        "--quick", action="store_true", help="benchmarks of tiny arrays: shows that everything runs, not how fast"
    )


def pytest_configure(config):
    # pytest-benchmark warns when a benchmark is skipped because there is no GPU or too little memory.
    config.addinivalue_line("filterwarnings", "ignore:Benchmark fixture was not used at all")


@pytest.fixture(scope="session")
def cuda_side():
    problem = gpu_problem()
    if problem:
        pytest.skip(problem)
    from benchmarks.cuda_side import CudaSide

    return CudaSide()


NUMPY_SIDE = NumpySide()


@pytest.fixture(params=["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def side(request):
    """Where the arrays live: NumPy's on the CPU, CuPy's on a GPU."""
    side = NUMPY_SIDE if request.param == "numpy" else request.getfixturevalue("cuda_side")
    yield side
    side.release()


@pytest.fixture
def measure(benchmark, side, request):
    """measure(section, case, contender's name on the CPU, output): check that all contenders agree, then time one."""

    def measure(section, case, name, output):
        if request.config.getoption("--quick"):
            (case,) = quick([case])
        reason = side.why_not(case)
        if reason:
            pytest.skip(reason)
        found = prepared(side, section, case)
        contender = find(found, name.replace("numpy", side.name), output)
        benchmark.group = f"{case.name}, {output} output"
        plan = kernel_of(case)
        benchmark.extra_info.update(
            backend=side.name,
            contender=contender.name,
            family=plan.family if plan else "index",
            output=output,
            bytes_moved=case.bytes_moved,
        )
        if section == "small":
            benchmark(contender.call, 0)
            return

        def run():
            contender.call(0)
            side.clock.synchronize()

        benchmark.pedantic(run, rounds=5, warmup_rounds=1)
        if benchmark.stats:  # None with --benchmark-disable
            seconds = benchmark.stats.stats.median
            copy = min(
                side.clock.sample(each, 1) for _ in range(5) for each in found.contenders if each.output == "copy"
            )
            benchmark.extra_info.update(gb_per_s=case.bytes_moved / seconds / 1e9, fraction_of_copy=copy / seconds)

    return measure
