"""Where calls run: on which backend, on the CPU on how many threads and which engine; the choices, and what they gave.

A call with arrays runs where they live.  One without has a default: the GPU when a device really works, else NumPy.
`import cupy` succeeds on a machine without a driver, so the GPU counts only after a kernel has compiled and run on it.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import platform
from types import ModuleType
from typing import Any, Literal, TypeAlias, get_args, overload

import ml_dtypes
import numpy as np

from gpulayout.cpu import native
from gpulayout.cpu.run import NumpyBackend
from gpulayout.cpu.threads import MOST_THREADS, BadThreadCount, reason_of_count, thread_count
from gpulayout.cpu.threads import choices as thread_choices
from gpulayout.gpu import driver
from gpulayout.layout.checks import check_word, value_text, whole_number
from gpulayout.layout.choice import Choice, Choices
from gpulayout.moves.backend import Backend
from gpulayout.version import __version__

BackendName: TypeAlias = Literal["auto", "numpy", "cupy"]
ConfigMode: TypeAlias = Literal["stdout", "dicts"]

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
        check_word("backend", name, get_args(BackendName))
        if name == "cupy":
            _cupy_backend_or_raise()
        super().__init__(name)


class use_threads(Choice[int | None]):  # noqa: N801 - used as a function and as a context manager
    """Choose how many threads a call on the CPU may use, its own thread included.

    As a statement it applies to all threads until the next one; as a context manager, to the current thread until the
    end of the block.  That is the scope of `use_backend`.

    Parameters
    ----------
    count : int or None
        From 1 to 1024.  None returns to the default: the environment variable GPULAYOUT_NUM_THREADS, else the cores
        that this process may use.

    Raises
    ------
    ValueError
        For a number below 1 or above 1024.
    LayoutTypeError
        For what is no whole number, such as 1.5 or True.  It is a TypeError.

    See Also
    --------
    show_config : The number of threads, and where it comes from.

    Notes
    -----
    A statement holds in processes forked afterwards, but not in processes that start anew ("spawn"): call it there too.
    A `with` block does not hold in threads that start inside it.

    Any number gives the same bytes, but for the sign and the payload of a nan that a cast writes.  Moves below a
    megabyte take one thread.  While other processes keep the cores busy, calls use fewer.

    Examples
    --------
    >>> import gpulayout as gl
    >>> with gl.use_threads(1):
    ...     gl.show_config("dicts")["threads"]
    1
    """

    choices = thread_choices

    def __init__(self, count: int | None):
        if count is not None:
            count = whole_number("threads", count)
            if not 1 <= count <= MOST_THREADS:
                raise ValueError(f"threads {value_text(count)} is not from 1 to {MOST_THREADS}; None is the default")
        super().__init__(count)


# ---- which backend runs --------------------------------------------------------------------------------------------


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
    if choice:
        return choice.value
    name = os.environ.get("GPULAYOUT_BACKEND") or "auto"
    check_word("GPULAYOUT_BACKEND", name, get_args(BackendName))
    return name


@functools.cache
def gpu_problem() -> str | None:
    """Why no GPU can be used, or None when one works.  Checked once per process."""
    try:
        gpu_module().probe()
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    except (Exception, SystemExit) as error:  # drivers and compilers fail in many ways, and each means "no GPU here"
        text = str(error).strip() or type(error).__name__
        return f"no working CUDA device: {text.splitlines()[0]}"
    return None


@functools.cache
def log_fallback(problem: str) -> None:
    """Log once why the CPU runs: at WARNING when a driver shows that this machine has a GPU, else at INFO."""
    level = logging.WARNING if driver.has_driver() else logging.INFO
    _log.log(level, "running on the CPU: %s", problem)


def gpu_versions() -> dict[str, Any]:
    """Versions and devices of the GPU side; empty without CuPy."""
    try:
        return dict(gpu_module().versions())
    except (Exception, SystemExit):  # a broken CuPy can fail in any way
        return {}


def _cupy_backend_or_raise() -> Backend:
    problem = gpu_problem()
    if problem:
        raise BackendUnavailable(f"backend 'cupy' cannot run here: {problem}")
    return gpu_backend()


def gpu_module() -> ModuleType:
    """The module that imports CuPy."""
    return importlib.import_module("gpulayout.gpu.cupy_runtime")


# ---- what runs here, in words --------------------------------------------------------------------------------------


def configuration() -> dict[str, Any]:
    """Versions, devices, and the backend and the engine that run and why, as plain values."""
    problem = gpu_problem()
    choice = selected()
    if choice == "auto":
        backend, reason = ("numpy", problem) if problem else ("cupy", "a kernel was compiled and ran on the device")
    else:
        backend, reason = choice, f"chosen by {'use_backend' if choices.current() else 'GPULAYOUT_BACKEND'}"
        if choice == "cupy" and problem:
            reason += f", but it cannot run: {problem}"
    return {
        "gpulayout": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        **_cpu(),
        **gpu_versions(),
        "gpu": "not available" if problem else "available",
        "gpu_problem": problem,
        "selected": choice,
        "backend": backend,
        "reason": reason,
    }


def _cpu() -> dict[str, Any]:
    """How many threads share a large move on the CPU, and which engine runs it, both with the reason.

    An error in GPULAYOUT_NUM_THREADS or in GPULAYOUT_NATIVE stands in the place of what it says.
    """
    values: dict[str, Any] = {}
    try:
        values = {"threads": thread_count(), "threads_reason": reason_of_count()}
    except BadThreadCount as error:
        values["threads"] = str(error)
    try:
        values["engine"] = native.engine()
    except native.BadNativeChoice as error:
        values["engine"] = str(error)
    return values


@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, Any]: ...
def show_config(mode: ConfigMode = "stdout") -> dict[str, Any] | None:
    """Print versions, devices, threads and engine of the CPU, and which backend runs; of the last three also why.

    The engine is what moves arrays on the CPU: native code, or NumPy.

    Parameters
    ----------
    mode : {"stdout", "dicts"}, optional
        Print the values, or return them as a dict, as `numpy.show_config` does.

    Returns
    -------
    dict or None
        The values, with ``mode="dicts"``.

    Raises
    ------
    ValueError
        For any other `mode`.

    Examples
    --------
    >>> show_config("dicts")["backend"] in ("numpy", "cupy")
    True
    """
    values = configuration()
    check_word("mode", mode, get_args(ConfigMode))
    if mode == "dicts":
        return values
    if values["gpu_problem"] and values["gpu_problem"] in values["reason"]:
        del values["gpu_problem"]  # one line says it
    width = max(map(len, values))
    for name, value in values.items():
        if value is not None:
            print(f"{name:{width}}  {value}")
    return None
