"""The `side` fixture and the work that all benchmark files share."""
import pytest

from benchmarks.numpy_side import NumpySide
from benchmarks.report import family
from gpulayout.api.backends import gpu_problem


def pytest_configure(config):
    # Said of benchmarks that are skipped, because there is no GPU or too little memory.
    config.addinivalue_line("filterwarnings", "ignore:Benchmark fixture was not used at all")


@pytest.fixture(scope="session")
def cuda_side():
    problem = gpu_problem()
    if problem:
        pytest.skip(problem)
    from benchmarks.cuda_side import CudaSide
    return CudaSide()


@pytest.fixture(params=["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def side(request):
    """Where the arrays live: NumPy's on the CPU, CuPy's on a GPU."""
    side = NumpySide() if request.param == "numpy" else request.getfixturevalue("cuda_side")
    yield side
    side.release()


@pytest.fixture
def measure(benchmark, side):
    """measure(case, contender name, output): checks that all contenders agree, then times the one."""
    def measure(case, name, output):
        reason = side.why_not(case)
        if reason:
            pytest.skip(reason)
        contender = next((c for c in side.prepare(case).contenders if (c.name, c.output) == (name.format(side.name), output)), None)
        if contender is None:
            pytest.skip(f"no {name.format(side.name)} with {output} output")
        clock = side.clock

        def run():
            contender.call(0)
            clock.synchronize()

        benchmark.group = f"{side.name}: {case.name}, {output} output"
        copy = min(clock.sample(ceiling, 1) for _ in range(5) for ceiling in side.ceilings(case))
        benchmark.pedantic(run, rounds=5, warmup_rounds=1)
        seconds = benchmark.stats.stats.median if benchmark.stats else None       # none with --benchmark-disable
        benchmark.extra_info.update(backend=side.name, family=family(case), output=output, bytes_moved=case.bytes_moved)
        if seconds:
            benchmark.extra_info.update(gb_per_s=case.bytes_moved / seconds / 1e9, fraction_of_copy=copy / seconds)
    return measure
