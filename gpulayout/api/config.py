"""Which backend runs here, on the CPU which engine and how many threads, and why; and the choice of the threads."""

from __future__ import annotations

import os
import platform
from typing import Any, Literal, overload

import ml_dtypes
import numpy as np

from gpulayout.api import backends
from gpulayout.api.array_types import ConfigMode
from gpulayout.cpu import native
from gpulayout.cpu.thread_count import MOST_THREADS, BadThreadCount, choices, reason_of_count, thread_count
from gpulayout.layout.checks import check_word, value_text, whole_number
from gpulayout.layout.choice import Choice
from gpulayout.version import __version__


def configuration() -> dict[str, Any]:
    """Versions, devices, and the backend and the engine that run and why, as plain values."""
    problem = backends.gpu_problem()
    choice = backends.selected()
    if choice == "auto":
        backend, reason = ("numpy", problem) if problem else ("cupy", "a kernel was compiled and ran on the device")
    else:
        backend, reason = choice, f"chosen by {'use_backend' if backends.is_chosen_in_code() else 'GPULAYOUT_BACKEND'}"
        if choice == "cupy" and problem:
            reason += f", but it cannot run: {problem}"
    return {
        "gpulayout": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        **_threads(),
        "engine": _engine(),
        **backends.gpu_versions(),
        "gpu": "not available" if problem else "available",
        "gpu_problem": problem,
        "selected": choice,
        "backend": backend,
        "reason": reason,
    }


def _threads() -> dict[str, Any]:
    """The number of threads that share a large move on the CPU, or the error in GPULAYOUT_NUM_THREADS, and why."""
    try:
        return {"threads": thread_count(), "threads_reason": reason_of_count()}
    except BadThreadCount as error:
        return {"threads": str(error)}


def _engine() -> str:
    """Which engine runs plain moves on the CPU and why, or the error in GPULAYOUT_NATIVE."""
    try:
        return native.engine()
    except native.BadNativeChoice as error:
        return str(error)


@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, Any]: ...
def show_config(mode: ConfigMode = "stdout") -> dict[str, Any] | None:
    """Print versions, devices, threads and engine of the CPU, and which backend runs; of the last three also why.

    The engine runs plain moves on the CPU: native code, or NumPy.

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
    found = configuration()
    check_word("mode", mode, ("stdout", "dicts"))
    if mode == "dicts":
        return found
    if found["gpu_problem"] and found["gpu_problem"] in found["reason"]:
        del found["gpu_problem"]  # one line says it
    width = max(map(len, found))
    for name, value in found.items():
        if value is not None:
            print(f"{name:{width}}  {value}")
    return None


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

    choices = choices

    def __init__(self, count: int | None):
        if count is not None:
            count = whole_number("threads", count)
            if not 1 <= count <= MOST_THREADS:
                raise ValueError(f"threads {value_text(count)} is not from 1 to {MOST_THREADS}; None is the default")
        super().__init__(count)
