"""The computations of a program: which call which, which are fusions', and how often each runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from gpulayout.xla.hlo_program import HloInstruction, HloProgram

MOST_RUNS = 10**18  # more are unknown
_CALL = re.compile(
    r"\b(body|condition|calls|to_apply|(?:true|false|branch|called)_computations?)=(\{[^{}]*\}|%?[\w.\-]+)"
)
_WORD = re.compile(r"[\w.\-]+")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"([0-9]{1,18})"')
_ONCE = {"fusion", "call", "async-start"}  # they call a computation once; a reduction, as often as it likes


class HloRuns(NamedTuple):
    """How often a computation runs, None if the text does not say it, and whether that is for a loop."""

    times: int | None
    in_loop: bool


class HloCall(NamedTuple):
    """The number of a computation that is called, and how often each time the caller runs."""

    callee: int
    times: int | None
    is_loop: bool


class HloComputation(NamedTuple):
    """A computation: its name, "" for what stands before the first, whether it is an entry, and its instructions."""

    name: str
    is_entry: bool
    inside: list[HloInstruction]


class HloComputations:
    """The computations of a text, in order.

    Several programs in one text may use the same names: a name is that of the last computation before it, as XLA prints
    what is called before what calls it; else that of the last in the text.

    all      the computations
    fusions  the number of the computation that a fusion is, for the position where each begins
    fused    the numbers of these computations
    runs     how often each computation runs
    """

    def __init__(self, text: str, seen: str, program: HloProgram) -> None:
        self.all = list(_computations(seen, program))
        self.fusions: dict[int, int] = {}
        last = {each.name: number for number, each in enumerate(self.all)}
        before: dict[str, int] = {}
        rest = program.rests(seen)
        calls: list[list[HloCall]] = []
        for number, computation in enumerate(self.all):
            calls.append([])
            for each in computation.inside:
                seen_rest = rest(each)
                for name, times in _calls(each, seen_rest, text):
                    callee = before.get(name, last.get(name))
                    if callee is None:
                        continue
                    calls[-1].append(HloCall(callee, times, each.opcode == "while"))
                    if each.opcode == "fusion":
                        self.fusions[each.start] = callee
            before[computation.name] = number
        self.fused = {*self.fusions.values()}
        self.runs = runs_of(calls, {number for number, each in enumerate(self.all) if each.is_entry})


def _computations(seen: str, program: HloProgram) -> Iterator[HloComputation]:
    computations = [
        HloComputation(heading[2], bool(heading[1]), inside) for heading, inside in program.by_computation(seen)
    ]
    first = len(program.instructions) - sum(len(each.inside) for each in computations)
    yield HloComputation("", False, program.instructions[:first])
    yield from computations


def _calls(each: HloInstruction, rest: str, text: str) -> Iterator[tuple[str, int | None]]:
    """The names of the computations that an instruction calls, and how often it calls each."""
    for match in _CALL.finditer(rest):
        times: int | None = 1 if each.opcode in _ONCE else None
        if each.opcode == "while" and (trips := _TRIPS.search(text, each.span.end, each.span.end + len(rest))):
            times = int(trips[1]) + (match[1] == "condition")
        for name in _WORD.findall(match[2]):
            yield name, times


def runs_of(calls: Sequence[Sequence[HloCall]], entries: AbstractSet[int]) -> list[HloRuns]:
    """How often each computation runs, from the calls that each makes.

    Without an entry, those that nothing calls run once.  Computations that call each other in a circle, as only broken
    texts have, run an unknown number of times.

    >>> runs_of([[HloCall(1, 5, True)], [HloCall(2, 1, False), HloCall(2, 1, False)], []], {0})[2]
    HloRuns(times=10, in_loop=True)
    """
    waiting = [0] * len(calls)
    for call in (call for each in calls for call in each):
        waiting[call.callee] += 1
    ready = [number for number, callers in enumerate(waiting) if not callers]
    runs: list[HloRuns | None] = [None] * len(calls)
    sums = [HloRuns(0, False)] * len(calls)
    for number in ready:
        sums[number] = HloRuns(1 if not entries or number in entries else None, False)
    while ready:
        number = ready.pop()
        runs[number] = sums[number]
        for call in calls[number]:
            sums[call.callee] = _sum(sums[call.callee], sums[number], call)
            waiting[call.callee] -= 1
            if not waiting[call.callee]:
                ready.append(call.callee)
    return [each or HloRuns(None, so_far.in_loop) for each, so_far in zip(runs, sums, strict=True)]


def _sum(so_far: HloRuns, caller: HloRuns, call: HloCall) -> HloRuns:
    """The runs of a computation with those that one more call makes."""
    in_loop = so_far.in_loop or caller.in_loop or call.is_loop
    if so_far.times is None or caller.times is None or call.times is None:
        return HloRuns(None, in_loop)
    times = so_far.times + caller.times * call.times
    return HloRuns(times if times <= MOST_RUNS else None, in_loop)
