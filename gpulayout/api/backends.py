"""The default backend, for calls without an array: the GPU when a device really works, else NumPy.

A call with arrays runs where they live and needs no default.  `import cupy` succeeds on a machine without a driver, so
the GPU counts only after a kernel has compiled and run on it.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from types import ModuleType
from typing import Any

from gpulayout.api.array_types import BackendName
from gpulayout.cpu.run import NumpyBackend
from gpulayout.gpu import driver
from gpulayout.layout.checks import check_word
from gpulayout.layout.choice import Choice, Choices
from gpulayout.moves.backend import Backend

CHOICES = ("auto", "numpy", "cupy")
_log = logging.getLogger("gpulayout")
_host: Backend = NumpyBackend()
choices: Choices[str] = Choices("backend")


class BackendUnavailable(RuntimeError):
    """A backend was chosen by name and cannot run here.  It is a `RuntimeError`.

    Examples
    --------
    >>> import gpulayout as gl
    >>> issubclass(gl.BackendUnavailable, RuntimeError)
    True
    """

    def __init__(self, message: str):
        super().__init__(message)


class use_backend(Choice[str]):  # noqa: N801 - used as a function and as a context manager
    """Choose the backend for calls without an array, such as `zeros`.

    As a statement it applies to all threads until the next one; as a context manager, to the current thread until the
    end of the block.

    Parameters
    ----------
    name : {"auto", "numpy", "cupy"}
        "auto" takes the GPU when one really works, else NumPy.  "cupy" never falls back.

    Raises
    ------
    BackendUnavailable
        For "cupy" when it cannot run here, with the reason.  It is a RuntimeError.
    ValueError
        For any other name.

    See Also
    --------
    show_config : Which backend runs, and why.

    Notes
    -----
    The environment variable GPULAYOUT_BACKEND sets the choice from outside; `use_backend` overrides it.

    Examples
    --------
    >>> import gpulayout as gl
    >>> with gl.use_backend("numpy"):
    ...     type(gl.zeros("f32[2,3]")).__name__
    'ndarray'
    """

    choices = choices

    def __init__(self, name: BackendName):
        if _checked(name, "backend") == "cupy":
            _cupy_backend_or_raise()
        super().__init__(name)


def host_backend() -> Backend:
    """The backend of NumPy arrays."""
    return _host


def replace_host_backend(backend: Backend) -> Backend:
    """Give NumPy arrays to another backend and return the previous one, for tests of GPU code on host memory."""
    global _host
    before, _host = _host, backend
    return before


@functools.cache
def gpu_backend() -> Backend:
    """The backend of CUDA arrays, one per process.  It does not probe: an array that exists proves that there is a
    device.
    """
    backend: Backend = gpu_module().CupyBackend()
    return backend


def default_backend() -> Backend:
    """The backend of calls without an array."""
    choice = selected()
    if choice == "numpy":
        return _host
    if choice == "cupy":
        return _cupy_backend_or_raise()
    problem = gpu_problem()
    if problem:
        log_fallback(problem)
        return _host
    return gpu_backend()


def selected() -> str:
    """The choice by `use_backend` or the environment variable GPULAYOUT_BACKEND: "auto", "numpy" or "cupy"."""
    choice = choices.current()
    return choice.value if choice else _checked(os.environ.get("GPULAYOUT_BACKEND") or "auto", "GPULAYOUT_BACKEND")


def is_chosen_in_code() -> bool:
    """True when `use_backend` made the choice, not the environment."""
    return choices.current() is not None


@functools.cache
def gpu_problem() -> str | None:
    """Why no GPU can be used, or None when one works.  Checked once per process."""
    try:
        gpu_module().probe()
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    except (Exception, SystemExit) as error:  # drivers and compilers fail in many ways, and each means "no GPU here"
        return f"no working CUDA device: {_first_line(error)}"
    return None


@functools.cache
def log_fallback(problem: str) -> None:
    """Log once why NumPy runs: at WARNING when a driver shows that this machine has a GPU, else at INFO."""
    level = logging.WARNING if driver.has_driver() else logging.INFO
    _log.log(level, "running on the CPU with NumPy: %s", problem)


def gpu_versions() -> dict[str, Any]:
    """Versions and devices of the GPU side; empty without CuPy."""
    try:
        versions: dict[str, Any] = gpu_module().versions()
        return versions
    except (Exception, SystemExit):  # a broken CuPy can fail in any way
        return {}


def _checked(name: str, where: str) -> str:
    check_word(where, name, CHOICES)
    return name


def _cupy_backend_or_raise() -> Backend:
    problem = gpu_problem()
    if problem:
        raise BackendUnavailable(f"backend 'cupy' cannot run here: {problem}")
    return gpu_backend()


def gpu_module() -> ModuleType:
    """The module that imports CuPy."""
    return importlib.import_module("gpulayout.gpu.cupy_runtime")


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
