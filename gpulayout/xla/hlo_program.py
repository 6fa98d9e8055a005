"""The instructions of a program's text, `%name = SHAPE opcode(...)`, and the computations that hold them."""

from __future__ import annotations

import bisect
import heapq
import re
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpulayout.xla.hlo import Span, scan
from gpulayout.xla.hlo_lines import LineCounter

_OPCODE = re.compile(r"[ \t\r\n]*([A-Za-z][\w\-]*)\(")
_WORD = re.compile(r"[\w.\-]+")
# A line that begins a computation: %name (parameters) -> SHAPE {  or  ENTRY name {
COMPUTATION = re.compile(r"^[ \t]*(ENTRY[ \t]+)?%?([\w.\-]+)[ \t]*(?:\([^\n]*)?\{[ \t\r]*$", re.MULTILINE)
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

    def name(self, seen: str) -> str:
        return seen[self.start : self.start + self.name_length]


class HloProgram(NamedTuple):
    """The instructions of a text in its order, and a position in every line with a shape that belongs to none."""

    instructions: list[HloInstruction]
    unread: list[int]

    def rests(self, seen: str) -> Callable[[HloInstruction], str]:
        """What gives the text that follows an instruction's result, up to the end of its computation."""
        ends = {each.start: after.start for each, after in zip(self.instructions, self.instructions[1:])}
        return lambda each: seen[each.span.end : ends.get(each.start, len(seen))].partition("\n}")[0]

    def by_computation(self, seen: str) -> Iterator[tuple[re.Match[str], list[HloInstruction]]]:
        """The heading of every computation, as `COMPUTATION` matches it, and its instructions."""
        begins = list(COMPUTATION.finditer(seen))
        starts = [each.start for each in self.instructions]
        firsts = [bisect.bisect(starts, begin.start()) for begin in begins] + [len(starts)]
        for begin, first, last in zip(begins, firsts, firsts[1:]):
            yield begin, self.instructions[first:last]


def read_program(seen: str, passed: Callable[[int], None] = lambda position: None) -> HloProgram:
    """The program in a text without strings and comments.  A text that is no program has no instructions."""
    instructions: list[HloInstruction] = []
    unread: list[int] = []
    lines = LineCounter(seen)
    done = -1  # where the last line begins that is read or kept in `unread`

    def keep_unless_read(position: int) -> None:
        nonlocal done
        lines.go(position)
        if done == lines.start or parentheses.hold(position):
            return
        done = lines.start
        if not _is_heading(seen, done):
            unread.append(position)

    parentheses = _Parentheses(seen)
    for span in scan(seen, keep_unless_read):
        passed(span.end)
        if instruction := _instruction(seen, span):
            instructions.append(instruction)
            lines.go(span.start)
            done = lines.start
            parentheses.begin(span.end)
        else:
            keep_unless_read(span.start)
    return HloProgram(instructions, list(heapq.merge(unread, _without_instruction(seen, instructions))))


def _instruction(seen: str, span: Span) -> HloInstruction | None:
    """The instruction whose result is the shape of this span."""
    before = seen[max(span.start - _MOST_BEFORE, 0) : span.start].rstrip()
    opcode = _OPCODE.match(seen, span.end)
    if not before.endswith("=") or not opcode:
        return None
    before = before[:-1].rstrip()
    reverse = _WORD.match(before[::-1])
    length = len(reverse[0]) if reverse else 0
    start = max(span.start - _MOST_BEFORE, 0) + len(before) - length
    is_root = before[: len(before) - length].rstrip("% \t").endswith("ROOT")
    return HloInstruction(start, length, is_root, sys.intern(opcode[1]), span)


class _Parentheses:
    """Whether those of an instruction's operands are still open: a mail program may have folded its line."""

    def __init__(self, seen: str) -> None:
        self.seen, self.done, self.depth, self.are_open = seen, 0, 0, False

    def begin(self, position: int) -> None:
        """An instruction's opcode follows."""
        self.done, self.depth, self.are_open = position, 0, True

    def hold(self, position: int) -> bool:
        """True for an operand: the text before it is an open parenthesis, or a comma inside one."""
        if self.are_open:
            for match in _PARENTHESIS.finditer(self.seen, self.done, position):
                self.depth += 1 if match[0] == "(" else -1
                if not self.depth:
                    self.are_open = False
                    break
            self.done = position
        before = self.seen[max(position - _MOST_BEFORE, 0) : position].rstrip()
        return self.are_open and before.endswith(("(", ","))


def _is_heading(seen: str, line_start: int) -> bool:
    """True for a line that begins a module or a computation.  Its shapes are those of parameters and results."""
    return bool(_MODULE.match(seen, line_start) or COMPUTATION.match(seen, line_start))


def _without_instruction(seen: str, instructions: list[HloInstruction]) -> Iterator[int]:
    """Where lines begin that look like instructions but are none, because their shape cannot be read."""
    starts = iter(instructions)
    following = next(starts, None)
    for match in _LIKE_INSTRUCTION.finditer(seen):
        while following is not None and following.start < match.start(1):
            following = next(starts, None)
        if following is None or following.start != match.start(1):
            yield match.start(1)
