"""The `executor` fixture: every test that takes it runs on NumPy, on the host-compiled kernels and on a GPU.

What cannot run here is skipped with its reason; `ci/gpu` fails when a GPU test was skipped.
"""
import hypothesis
import pytest

from gpulayout.backends import select
from gpulayout.backends.numpy_backend import NumpyBackend
from tests import executors

hypothesis.settings.register_profile("default", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("default")


@pytest.fixture(scope="session")
def _executors():
    """Executors made so far, so that each is made once."""
    return {}


@pytest.fixture(params=["numpy", pytest.param("simt", marks=pytest.mark.simt), pytest.param("cupy", marks=pytest.mark.gpu)])
def executor(request, _executors):
    """Who runs the library in this test."""
    name = request.param
    problem = {"numpy": lambda: None, "simt": executors.simt_missing, "cupy": select.gpu_problem}[name]()
    if problem:
        pytest.skip(problem)
    if name not in _executors:
        _executors[name] = {"numpy": lambda: executors.HostExecutor("numpy", NumpyBackend()),
                            "simt": lambda: executors.HostExecutor("simt", executors.SimtBackend()),
                            "cupy": lambda: executors.CupyExecutor()}[name]()
    with _executors[name].active():
        yield _executors[name]
