"""The backends that commands run on, and their results as NumPy arrays."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from gpulayout.api.backends import default_backend, gpu_backend, gpu_problem, host_backend, selected
from gpulayout.cli.failures import Failure
from gpulayout.moves.backend import Backend


def chosen_backend() -> str:
    """The backend that the environment asks for; a `Failure` if that is not a backend's name."""
    try:
        return selected()
    except ValueError as error:
        raise Failure(str(error)) from None


def backends_here() -> tuple[list[Backend], str | None]:
    """The backends that run here, the CPU's first, and the reason if the GPU's is not one of them."""
    if chosen_backend() == "numpy":
        return [host_backend()], "GPULAYOUT_BACKEND is numpy"
    default_backend()  # raises if GPULAYOUT_BACKEND asks for "cupy" and it cannot run
    problem = gpu_problem()
    return ([host_backend()], problem) if problem else ([host_backend(), gpu_backend()], None)


def array_module(backend: Backend) -> ModuleType:
    """NumPy or CuPy, whichever has the backend's arrays: the backend has imported it."""
    return importlib.import_module(backend.name)


def on_host(result: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """A NumPy or CuPy array, or a tuple of rows, as one NumPy array."""
    if isinstance(result, tuple):
        return np.stack([on_host(row) for row in result])
    return np.asarray(result.get() if hasattr(result, "get") else result)
