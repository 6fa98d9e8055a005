"""How long calls take, and how long a plain copy of the same bytes takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from types import ModuleType

MAX_SECONDS = 0.6  # for timing one call: slow calls are repeated less often, but at least twice
GPU_BATCH = 10  # calls between two events, so that launches overlap as in real use


def median_seconds(call: Callable[[], object], xp: ModuleType, *, repeats: int) -> float:
    """The median time of a call, see `medians_in_turns`."""
    return medians_in_turns([call], xp, repeats=repeats)[0]


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


def copy_seconds(nbytes: int, xp: ModuleType, *, repeats: int) -> float:
    """The median time of a plain copy that reads nbytes / 2 and writes nbytes / 2."""
    source = xp.ones(max(nbytes // 2, 1), xp.uint8)
    target = xp.zeros_like(source)
    return median_seconds(lambda: xp.copyto(target, source), xp, repeats=repeats)


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
