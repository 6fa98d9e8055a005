"""The `executor` fixture: every test that takes it runs on NumPy, natively, on the host-compiled kernels and on a GPU.

What cannot run here is skipped with its reason; `ci/gpu` fails when a GPU test was skipped.
"""

import doctest
import gc
import importlib.util
import os
import pathlib
import sys

import hypothesis
import numpy
import pytest

import gpulayout
from gpulayout.choices import backends
from gpulayout.cpu import native
from gpulayout.cpu.run import NumpyBackend
from tests.support import effort, executors, fake_cuda, fake_cupy, foreign, machine
from tests.support.device_arrays import ON_GPU
from tests.support.kept import forget_transfers
from tests.support.simt import toolchain

# The first is not for pytest's processes, and the second needs the stand-in, which only ci/real_cupy has.
collect_ignore = ["support/rehearsal", *["support/standin"] * ("tests.support.standin.plugin" not in sys.modules)]
# What records calls has no examples, and needs PyTorch and JAX.
collect_ignore_glob = ["support/*_calls.py", "support/random_arrays.py", "support/random_texts.py"]

hypothesis.settings.register_profile(
    "default", max_examples=effort.examples(100), deadline=None, print_blob=True, derandomize=True
)
hypothesis.settings.load_profile("default")


LEFT_OUT = pytest.StashKey[int]()


def pytest_configure(config):
    machine.install(config)
    config.stash[LEFT_OUT] = 0
    if config.args_source is config.ArgsSource.ARGS and not config.option.pyargs:
        for argument in config.args:  # the workers of pytest-xdist would end without a word
            if not (config.invocation_params.dir / argument.split("::")[0]).exists():
                raise pytest.UsageError(f"file or directory not found: {argument}")


def pytest_report_header():
    return f"made-up processor: {machine.machine.processor}"


@pytest.fixture(scope="session")
def _executors():
    """The executors made so far: each is made once."""
    return {}


@pytest.fixture(
    params=[
        "numpy",
        "native",
        pytest.param("simt", marks=pytest.mark.simt),
        pytest.param("cupy", marks=pytest.mark.gpu),
    ]
)
def executor(request, _executors):
    """The executor that runs the library in this test."""
    name = request.param
    problem = {
        "numpy": lambda: None,
        "native": native.missing,
        "simt": executors.simt_missing,
        "cupy": backends.gpu_problem,
    }[name]()
    if problem:
        pytest.skip(problem)
    if name not in _executors:
        _executors[name] = {
            "numpy": lambda: executors.HostExecutor("numpy", NumpyBackend()),
            "native": lambda: executors.HostExecutor("native", NumpyBackend()),
            "simt": lambda: executors.HostExecutor("simt", executors.SimtBackend()),
            "cupy": lambda: executors.CupyExecutor(),
        }[name]()
    with _executors[name].active():
        yield _executors[name]


@pytest.fixture
def cupy(monkeypatch):
    """The imitation of CuPy, with a backend module imported over it."""
    fake = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    path = pathlib.Path(gpulayout.__file__).parent / "gpu" / "cupy_runtime.py"
    spec = importlib.util.spec_from_file_location("cupy_runtime_on_the_imitation", path)
    backend_module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend_module)
    monkeypatch.setattr(backends, "gpu_module", lambda: backend_module)

    def forget():
        for cached in (backends.gpu_problem, backends.gpu_backend):
            cached.cache_clear()
        forget_transfers()  # plans keep launches that the backend prepared

    forget()
    fake_cuda.calls.clear()
    fake.backend_module = backend_module
    yield fake
    forget()


@pytest.fixture
def plans_anew():
    """Make plans anew in this test, which changes planning, and after it."""
    forget_transfers()
    yield
    forget_transfers()


@pytest.fixture
def quick_collections():
    """Collections of garbage visit only what a test made: with PyTorch and JAX, what was there before takes seconds."""
    gc.freeze()


@pytest.fixture
def numpy_alone(monkeypatch):
    """NumPy runs all moves in this test, and in the processes that it starts."""
    monkeypatch.setenv(native.VARIABLE, "0")
    forget_transfers()
    yield
    forget_transfers()


IMITATION = pytest.param("imitation", marks=pytest.mark.simt)


def _cupy(request):
    problem = executors.simt_missing() if request.param == "imitation" else backends.gpu_problem()
    if problem:
        pytest.skip(problem)
    if request.param == "imitation":
        return request.getfixturevalue("cupy")
    import cupy

    return cupy


@pytest.fixture(params=[IMITATION, ON_GPU])
def cp(request):
    """CuPy or its imitation."""
    return _cupy(request)


@pytest.fixture(params=["numpy", IMITATION, ON_GPU])
def place(request):
    """NumPy, CuPy or its imitation, whose arrays the test offers as another library's."""
    return foreign.Place(numpy if request.param == "numpy" else _cupy(request))


_from_module = doctest.DocTestFinder._from_module


def _documented_in(finder, module, value):
    """Public classes claim to live in `gpulayout`: look for the examples of their methods there, too."""
    return module is gpulayout and "." in getattr(value, "__qualname__", "") or _from_module(finder, module, value)


doctest.DocTestFinder._from_module = _documented_in


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """One worker after the other in `ci/test`: the first writes the bytecode of all imports, which the others read."""
    gc.disable()  # what is collected stays, and to visit it again and again takes a quarter of the time
    if "GPULAYOUT_COLLECT_IN_TURN" not in os.environ or not hasattr(session.config, "workerinput"):
        return (yield)
    with toolchain.turn("collecting"):
        return (yield)


def pytest_collection_finish():
    """Keep the garbage collector from visiting all collected tests again and again: 20% of the time of small moves."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_collection_modifyitems(config, items):
    """Leave out most cases of long tests unless tests are chosen by name, and skip the examples in docstrings that need
    protobuf if it is missing.
    """
    again = (getattr(config.option, name, False) for name in ("lf", "failedfirst", "stepwise"))
    chosen = config.option.keyword or any(again) or any("::" in argument for argument in config.args)
    gone = set() if chosen else set(effort.left_out(items))
    if gone:
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=list(gone))
    config.stash[LEFT_OUT] = len(gone)
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        for item in items:
            if item.path.match("gpulayout/xla/protos.py"):
                item.add_marker(pytest.mark.skip(reason="the extra `proto` (protobuf) is not installed"))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """All workers leave out the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", node.config.stash[LEFT_OUT])


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash[LEFT_OUT]:
        how = "GPULAYOUT_TEST_EVERY_CASE=1 runs them too, and so does -k"
        terminalreporter.write_line(f"cases left out of tests marked one_in(n): {count} ({how})")
