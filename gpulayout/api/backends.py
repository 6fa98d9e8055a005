"""Which backend runs what has no array yet: the GPU when a device really works, else NumPy.

A call with arrays runs where they live and never asks here.  `import cupy` succeeds on a machine without a driver, so
the GPU counts only after a kernel was compiled and run on it.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from contextvars import ContextVar
from types import ModuleType

from gpulayout.cpu.run import NumpyBackend
from gpulayout.gpu import driver
from gpulayout.moves.backend import Backend

CHOICES = ("auto", "numpy", "cupy")
_log = logging.getLogger("gpulayout")
_host: Backend = NumpyBackend()
_set: list[use_backend] = []  # choices made as statements, the last one counts
_scoped: ContextVar[str | None] = ContextVar("gpulayout_backend", default=None)  # the choice of the innermost `with`


class BackendUnavailable(RuntimeError):
    """A backend was asked for by name and cannot run here."""


class use_backend:  # noqa: N801 - used as a function and as a context manager
    """Choose the backend for what has no array yet: "auto", "numpy" or "cupy".

    As a statement it sets the backend of all threads until further notice; as a context manager that of the current
    thread until the end of the block.  "cupy" never falls back: it raises `BackendUnavailable`, a RuntimeError, with
    the reason.

    >>> import gpulayout as gl
    >>> with gl.use_backend("numpy"):
    ...     type(gl.empty("f32[2,3]")).__name__
    'ndarray'
    """

    def __init__(self, name: str):
        self.name = _checked(name, "backend")
        if self.name == "cupy":
            _cupy_backend_or_raise()
        self._tokens: list = []
        _set.append(self)
        del _set[:-64]  # as statements only the last ones can matter

    def __enter__(self) -> use_backend:
        # It was no statement after all.  From here on the choice is this thread's alone, so blocks of several threads
        # cannot undo each other's.
        if self in _set:
            _set.remove(self)
        self._tokens.append(_scoped.set(self.name))
        return self

    def __exit__(self, *_) -> None:
        _scoped.reset(self._tokens.pop())


def host_backend() -> Backend:
    """The backend of NumPy arrays."""
    return _host


@functools.cache
def gpu_backend() -> Backend:
    """The backend of CUDA arrays, one per process; an array that exists is proof enough of a device."""
    return _gpu_module().CupyBackend()


def default_backend() -> Backend:
    """The backend of what has no array yet."""
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
    """ "auto", "numpy" or "cupy", by `use_backend` or the environment variable GPULAYOUT_BACKEND."""
    chosen = _scoped.get() or (_set[-1].name if _set else None)
    return chosen or _checked(os.environ.get("GPULAYOUT_BACKEND") or "auto", "GPULAYOUT_BACKEND")


def is_chosen_in_code() -> bool:
    """True when `use_backend` decides, and not the environment."""
    return bool(_scoped.get() or _set)


@functools.cache
def gpu_problem() -> str | None:
    """Why no GPU can be used, or None when one works.  Asked once per process."""
    try:
        _gpu_module().probe()
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


def gpu_versions() -> dict:
    """Versions and devices of the GPU side; empty without CuPy."""
    try:
        return _gpu_module().versions()
    except (Exception, SystemExit):  # a broken CuPy fails in any way it likes
        return {}


def _checked(name: str, where: str) -> str:
    if name not in CHOICES:
        raise ValueError(f"{where} {name!r} is not one of {', '.join(map(repr, CHOICES))}")
    return name


def _cupy_backend_or_raise() -> Backend:
    problem = gpu_problem()
    if problem:
        raise BackendUnavailable(f"backend 'cupy' cannot run here: {problem}")
    return gpu_backend()


def _gpu_module() -> ModuleType:
    return importlib.import_module("gpulayout.gpu.cupy_runtime")


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
