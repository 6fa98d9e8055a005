"""The instructions of a program's text, `%name = SHAPE opcode(...)`, the computations that hold them, and their runs.

Several programs in one text may use the same names: a name is that of the last computation before it, as XLA prints
what is called before what calls it; else that of the last in the text.

How often a computation runs follows from the calls: each multiplies, and several add up.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from gpulayout.xla.hlo import Span, scan_lines

WORD = re.compile(r"[\w.\-]+")
_OPCODE = re.compile(r"[ \t\r\n]*([A-Za-z][\w\-]*)\(")
# A line that begins a computation: %name (parameters) -> SHAPE {  or  ENTRY name {
_COMPUTATION = re.compile(r"^[ \t]*(ENTRY[ \t]+)?%?([\w.\-]+)[ \t]*(?:\([^\n]*)?\{[ \t\r]*$", re.MULTILINE)
_MODULE = re.compile(r"[ \t]*HloModule\b")
# A line that looks like an instruction, whether or not its shape can be read
_LIKE_INSTRUCTION = re.compile(r"^[ \t]*(?:ROOT[ \t]+)?%?([\w.\-]+)[ \t]*=[ \t]*(?:\(|[a-z][\w]*\[)[^\n]", re.MULTILINE)
_PARENTHESIS = re.compile("[()]")
_MOST_BEFORE = 1 << 10  # characters of a name and its equals sign


class HloInstruction(NamedTuple):
    """An instruction: its name, which begins at `start`, its opcode, and the span of its result.

    Programs have millions of them, so what can be read from the text is not kept.
    """

    start: int
    name_length: int
    is_root: bool
    opcode: str
    span: Span


@dataclass(frozen=True)
class HloProgram:
    """The instructions of a text in its order, and a position in every line with a shape that belongs to none.

    seen   the text without strings and comments
    """

    text: str
    seen: str
    instructions: list[HloInstruction]
    unread: list[int]

    @cached_property
    def _ends(self) -> dict[int, int]:
        return {each.start: after.start for each, after in itertools.pairwise(self.instructions)}

    def name(self, each: HloInstruction) -> str:
        return self.seen[each.start : each.start + each.name_length]

    def rest(self, each: HloInstruction) -> str:
        """What follows an instruction's result, up to the end of its computation, without strings and comments."""
        return self.seen[each.span.end : self._ends.get(each.start, len(self.seen))].partition("\n}")[0]

    def rest_with_strings(self, each: HloInstruction) -> str:
        return self.text[each.span.end : each.span.end + len(self.rest(each))]

    def computations(self) -> list[HloComputation]:
        """All of them; the first has no name and holds what stands before the others."""
        headings = list(_COMPUTATION.finditer(self.seen))
        starts = [each.start for each in self.instructions]
        firsts = [0, *(bisect.bisect(starts, heading.start()) for heading in headings), len(starts)]
        names = [("", False), *((heading[2], bool(heading[1])) for heading in headings)]
        return [
            HloComputation(self, *name, self.instructions[first:last])
            for name, (first, last) in zip(names, itertools.pairwise(firsts), strict=True)
        ]


@dataclass(frozen=True)
class HloComputation:
    """A computation of a program, whether it is an entry, and its instructions."""

    program: HloProgram
    name: str
    is_entry: bool
    inside: list[HloInstruction]

    @cached_property
    def _named(self) -> dict[str, HloInstruction]:
        return {self.program.name(each): each for each in self.inside}

    def named_in(self, text: str) -> list[HloInstruction]:
        """The instructions that a text names, in its order."""
        return [self._named[word] for word in WORD.findall(text) if word in self._named]

    def from_roots(
        self, following: Callable[[HloComputation, HloInstruction], list[HloInstruction]]
    ) -> Iterator[HloInstruction]:
        """The roots, and after each instruction those that `following` gives for it, depth first, each once."""
        waiting = [each for each in self.inside if each.is_root]
        passed = set[int]()
        while waiting:
            each = waiting.pop()
            if each.start not in passed:
                passed.add(each.start)
                yield each
                waiting += following(self, each)[::-1]


def read_program(text: str, seen: str, passed: Callable[[int], None] = lambda position: None) -> HloProgram:
    """The program in a text; one without instructions is no program.

    seen     the text without strings and comments
    passed   gets the positions in the text up to which it has been read
    """
    instructions: list[HloInstruction] = []
    depth = done = 0  # open parentheses of the last instruction's operands, and up to where they are counted

    def read(span: Span) -> bool:
        nonlocal depth, done
        instruction = _instruction(seen, span)
        if instruction:
            instructions.append(instruction)
            depth, done = 1, seen.index("(", span.end) + 1
        return bool(instruction)

    def is_operand(position: int) -> bool:
        """True after an open parenthesis or a comma inside one: a mail program may have folded the line."""
        nonlocal depth, done
        while depth and (match := _PARENTHESIS.search(seen, done, position)):
            depth, done = depth + (1 if match[0] == "(" else -1), match.end()
        done = max(done, position)
        return depth > 0 and seen[max(position - _MOST_BEFORE, 0) : position].rstrip().endswith(("(", ","))

    left = scan_lines(seen, read, _is_heading, passed, is_operand)
    starts = {each.start for each in instructions}
    like = (match.start(1) for match in _LIKE_INSTRUCTION.finditer(seen) if match.start(1) not in starts)
    return HloProgram(text, seen, instructions, list(heapq.merge(left, like)))


def _instruction(seen: str, span: Span) -> HloInstruction | None:
    """The instruction whose result is the shape of this span."""
    before = seen[max(span.start - _MOST_BEFORE, 0) : span.start].rstrip()
    opcode = _OPCODE.match(seen, span.end)
    if not before.endswith("=") or not opcode:
        return None
    before = before[:-1].rstrip()
    reverse = WORD.match(before[::-1])
    length = len(reverse[0]) if reverse else 0
    start = max(span.start - _MOST_BEFORE, 0) + len(before) - length
    is_root = before[: len(before) - length].rstrip("% \t").endswith("ROOT")
    return HloInstruction(start, length, is_root, sys.intern(opcode[1]), span)


def _is_heading(seen: str, line_start: int, position: int) -> bool:
    """True for a line that begins a module or a computation.  Its shapes are those of parameters and results."""
    return bool(_MODULE.match(seen, line_start) or _COMPUTATION.match(seen, line_start))


# ---- calls and runs ------------------------------------------------------------------------------------------

MOST_RUNS = 10**18  # more are unknown
_CALL = re.compile(
    r"\b(body|condition|calls|to_apply|(?:true|false|branch|called)_computations?)=(\{[^{}]*\}|%?[\w.\-]+)"
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"([0-9]{1,18})"')
_ONCE = {"fusion", "call", "async-start"}  # they call a computation once; a reduction, as often as it likes


class HloRuns(NamedTuple):
    """How often a computation runs, or a call runs it; None if the text does not say it; and whether in a loop."""

    times: int | None
    in_loop: bool


HloCall = tuple[int, HloRuns]  # the number of a computation, and its runs each time the caller runs


def calls_and_fusions(computations: Sequence[HloComputation]) -> tuple[list[list[HloCall]], dict[int, int]]:
    """The calls that each computation makes, and for the position of each fusion the number of its computation."""
    last = {each.name: number for number, each in enumerate(computations)}
    before: dict[str, int] = {}
    calls: list[list[HloCall]] = [[] for _ in computations]
    fusions: dict[int, int] = {}
    for number, computation in enumerate(computations):
        for each in computation.inside:
            for name, runs in _calls(computation.program, each):
                callee = before.get(name, last.get(name))
                if callee is not None:
                    calls[number].append((callee, runs))
                    if each.opcode == "fusion":
                        fusions[each.start] = callee
        before[computation.name] = number
    return calls, fusions


def _calls(program: HloProgram, each: HloInstruction) -> Iterator[tuple[str, HloRuns]]:
    """The names of the computations that an instruction calls, and how often it calls each."""
    is_loop = each.opcode == "while"
    trips = _TRIPS.search(program.rest_with_strings(each)) if is_loop else None
    for match in _CALL.finditer(program.rest(each)):
        times: int | None = 1 if each.opcode in _ONCE else None
        if trips:
            times = int(trips[1]) + (match[1] == "condition")
        for name in WORD.findall(match[2]):
            yield name, HloRuns(times, is_loop)


def runs_of(calls: Sequence[Sequence[HloCall]], entries: AbstractSet[int]) -> list[HloRuns]:
    """How often each computation runs, from the calls that each makes.

    Without an entry, those that nothing calls run once.  Computations that call each other in a circle, as only broken
    texts have, run an unknown number of times.

    >>> runs_of([[(1, HloRuns(5, True))], [(2, HloRuns(1, False)), (2, HloRuns(1, False))], []], {0})[2]
    HloRuns(times=10, in_loop=True)
    """
    waiting = Counter(callee for of_one in calls for callee, _ in of_one)
    ready = [number for number in range(len(calls)) if not waiting[number]]
    runs = [HloRuns(0, False)] * len(calls)
    for number in ready:
        runs[number] = HloRuns(1 if not entries or number in entries else None, False)
    while ready:
        number = ready.pop()
        for callee, call in calls[number]:
            runs[callee] = _sum(runs[callee], runs[number], call)
            waiting[callee] -= 1
            if not waiting[callee]:
                ready.append(callee)
    return [HloRuns(None, each.in_loop) if waiting[number] else each for number, each in enumerate(runs)]


def _sum(so_far: HloRuns, caller: HloRuns, call: HloRuns) -> HloRuns:
    """The runs of a computation with those that one more call makes."""
    in_loop = so_far.in_loop or caller.in_loop or call.in_loop
    if so_far.times is None or caller.times is None or call.times is None:
        return HloRuns(None, in_loop)
    times = so_far.times + caller.times * call.times
    return HloRuns(times if times <= MOST_RUNS else None, in_loop)


# ---- the Python program --------------------------------------------------------------------------------------

OP_NAME = re.compile(r'\bop_name="((?:[^"\\\n]|\\[^\n])*)"')
_SOURCE = re.compile(r'\bsource_file="((?:[^"\\\n]|\\[^\n])*)"(?: source_line=([0-9]{1,18}))?')
_FRAME = re.compile(r"\bstack_frame_id=([0-9]{1,18})\b")
_FILE = re.compile(r'([0-9]{1,18}) "((?:[^"\\]|\\.)*)"')
_LOCATION = re.compile(r"([0-9]{1,18}) \{file_name_id=([0-9]{1,18}) function_name_id=[0-9]+ line=([0-9]{1,18})\b")
_STACK_FRAME = re.compile(r"([0-9]{1,18}) \{file_location_id=([0-9]{1,18})\b")


def source_frames(text: str) -> dict[str, str]:
    """Lines such as model.py:12 by the numbers of frames, from the tables before a program's first computation."""
    files, locations = _table(text, "FileNames", _FILE), _table(text, "FileLocations", _LOCATION)
    return {
        number: f"{files[at[2]][2]}:{at[3]}"
        for number, frame in _table(text, "StackFrames", _STACK_FRAME).items()
        if (at := locations.get(frame[2])) and at[2] in files
    }


def source_line(attributes: str, frames: dict[str, str]) -> str:
    """The line that an instruction's attributes name, newer ones as the number of a frame; "" if they name none."""
    if source := _SOURCE.search(attributes):
        return f"{source[1]}:{source[2]}" if source[2] else source[1]
    frame = _FRAME.search(attributes)
    return frames.get(frame[1], "") if frame else ""


def _table(text: str, name: str, row: re.Pattern[str]) -> dict[str, re.Match[str]]:
    """The rows of the table called `name`, by number.  The table ends at the first line that is not a row."""
    rows: dict[str, re.Match[str]] = {}
    begin = text.find(f"\n{name}\n")
    position = begin + len(name) + 2 if begin >= 0 else len(text)
    while match := row.match(text, position):
        rows[match[1]] = match
        newline = text.find("\n", match.end())
        position = newline + 1 if newline >= 0 else len(text)
    return rows
