"""Clocks: wall time on the CPU, CUDA events on a GPU, and samples taken in turns."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.peers.contender import Contender


class Samples(NamedTuple):
    """Seconds per call, one number per round; `statistic` names the one that represents them: "median" or "best".

    Other programs on a CPU only ever make a sample longer, so the best one is disturbed least.
    """

    seconds: tuple[float, ...]
    statistic: str

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def typical(self) -> float:
        return getattr(self, self.statistic)


class WallClock:
    """Wall time of many calls.  The synchronization is part of the time, or comes after it (`host_only`)."""

    name = "wall"

    def __init__(self, synchronize: Callable[[], None] = lambda: None, host_only: bool = False):
        self.synchronize, self.host_only = synchronize, host_only

    def sample(self, contender: Contender, calls: int) -> float:
        call = contender.call
        contender.ready()
        self.synchronize()
        start = time.perf_counter()
        for i in range(calls - 1):
            call(i)  # keeps nothing, so that freed memory can be used again
        last = call(calls - 1)
        if contender.wait:
            contender.wait(last)
        elif not self.host_only:
            self.synchronize()
        seconds = time.perf_counter() - start
        self.synchronize()
        return seconds / calls


class EventClock:
    """Time between two CUDA events around many launches on one stream.

    lead   lead(calls) queues work on the stream that lasts until this number of calls is launched.  The device then
           never waits for the host between the events, and measures its own time even for a kernel of two microseconds
    """

    name = "events"

    def __init__(self, cupy: Any, stream: Any, lead: Callable[[int], None] = lambda calls: None):
        self.cupy, self.stream, self.lead = cupy, stream, lead

    def sample(self, contender: Contender, calls: int) -> float:
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        self.stream.synchronize()
        self.lead(calls)
        begin.record(self.stream)
        for i in range(calls):
            contender.call(i)
        end.record(self.stream)
        end.synchronize()
        return self.cupy.cuda.get_elapsed_time(begin, end) / 1e3 / calls


class Effort(NamedTuple):
    """How much is sampled.

    rounds          samples per contender
    sample_seconds  about how long one sample takes
    calls           the fewest and the most calls in a sample
    small_calls     the same for a small case, which takes four times as many rounds
    lead_bytes      of each copy that keeps a GPU busy while the host launches a sample
    """

    rounds: int
    sample_seconds: float
    calls: tuple[int, int]
    small_calls: tuple[int, int] = (1000, 5000)
    lead_bytes: int = 1 << 28

    def quick(self) -> Effort:
        """Enough to show that everything runs."""
        return self._replace(calls=(1, 3), small_calls=(10, 20), lead_bytes=1 << 12)

    def of_small_calls(self) -> Effort:
        return Effort(4 * self.rounds, 5e-3, self.small_calls)


def take_turns(
    contenders: Sequence[Contender], clock_of: Callable[[Contender], Any], effort: Effort, statistic: str
) -> list[Samples]:
    """Samples of all contenders, one of each per round, so that a slow spell of the machine hits all of them."""
    counts = []
    for contender in contenders:
        clock = clock_of(contender)
        clock.sample(contender, 1)  # compiles, allocates, touches
        once = clock.sample(contender, 1)
        fewest, most = effort.calls
        counts.append(min(max(int(effort.sample_seconds / max(once, 1e-9)), fewest), most))
    seconds: list[list[float]] = [[] for _ in contenders]
    shuffle = random.Random(0)  # the second to run would find the arrays in the cache
    for _ in range(effort.rounds):
        for k in shuffle.sample(range(len(contenders)), len(contenders)):
            seconds[k].append(clock_of(contenders[k]).sample(contenders[k], counts[k]))
    return [Samples(tuple(values), statistic) for values in seconds]


def without_pauses(call: Callable[[], Any], warm_up: float, least: float) -> float:
    """Seconds of a call, from calls one after the other: first for `warm_up` seconds, then for at least `least`, which
    count.
    """
    begin, calls = time.perf_counter(), 0
    while not calls or time.perf_counter() - begin < warm_up:
        call()
        calls += 1
    begin, calls = time.perf_counter(), 0
    while not calls or time.perf_counter() - begin < least:
        call()
        calls += 1
    return (time.perf_counter() - begin) / calls
