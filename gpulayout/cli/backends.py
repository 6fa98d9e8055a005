"""The backends that commands run on: `gpulayout info` says which, and `demo` and `benchmark` time calls on them."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import click
import numpy as np

from gpulayout.choices.backends import default_backend, gpu_backend, gpu_problem, host_backend, selected, show_config
from gpulayout.cli.failures import Failure
from gpulayout.cli.output import json_option, print_json
from gpulayout.moves.backend import Backend

MAX_SECONDS = 0.6  # for timing one call: slow calls are repeated less often, but at least twice
GPU_BATCH = 10  # calls between two events, so that launches overlap as in real use


@click.command(short_help="Show versions, devices, and which backend and engine run and why.")
@json_option
def info(as_json: bool) -> None:
    """Show versions, devices, which backend runs and which engine on the CPU, and why.

    \b
    Examples:
      gpulayout info
      gpulayout info --json
      GPULAYOUT_BACKEND=numpy gpulayout info
      GPULAYOUT_NATIVE=0 gpulayout info
    """
    chosen_backend()
    if as_json:
        print_json(show_config("dicts"))
    else:
        show_config()


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


def medians_in_turns(calls: Sequence[Callable[[], object]], xp: ModuleType, *, repeats: int) -> list[float]:
    """The median times of calls that take turns, so that a slow spell of the machine hits all of them.

    Each is called once before, which compiles kernels and touches new memory.

    xp   numpy: measured by the clock; cupy: by CUDA events around batches of calls
    """
    for call in calls:
        call()
    measure = _host_seconds if xp.__name__ == "numpy" else _device_seconds
    rounds: list[list[float]] = []
    while len(rounds) < 2 or (len(rounds) < repeats and sum(map(sum, rounds)) < MAX_SECONDS * len(calls)):
        rounds.append([measure(call, xp) for call in calls])
    return [statistics.median(times) for times in zip(*rounds)]


def print_verdict(equal: Sequence[bool], all_right: str, expected: str) -> None:
    """Say that all results are right, or how many differ from what was expected."""
    wrong = equal.count(False)
    click.echo(all_right if not wrong else f"{wrong} of {len(equal)} results differ from {expected}.")


def _host_seconds(call: Callable[[], object], xp: ModuleType) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _device_seconds(call: Callable[[], object], xp: ModuleType) -> float:
    start, end = xp.cuda.Event(), xp.cuda.Event()
    start.record()
    for _ in range(GPU_BATCH):
        call()
    end.record()
    end.synchronize()
    milliseconds: float = xp.cuda.get_elapsed_time(start, end)
    return milliseconds / 1000 / GPU_BATCH
