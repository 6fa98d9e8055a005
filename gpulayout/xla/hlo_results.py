"""The results of a program's instructions, `%name = SHAPE opcode(...)`, each counted once.

These only rename results that exist already, so they are left out:

  - tuple, get-tuple-element and bitcast
  - in the computation of a fusion, its parameters, which are the operands, and its root, which is the fusion's result.
    If the root is a tuple or a bitcast, so are the results that it renames
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpulayout.xla.hlo import FoundShape, Span, scan, visible, with_lines

NO_MEMORY = {"tuple", "get-tuple-element", "bitcast"}
_OPCODE = re.compile(r"[ \t\r\n]*([A-Za-z][\w\-]*)\(")
_WORD = re.compile(r"[\w.\-]+")
_CALLS = re.compile(r"\bcalls=%?([\w.\-]+)")
# A line that begins a computation: %name (parameters) -> SHAPE {  or  ENTRY name {
_COMPUTATION = re.compile(r"^[ \t]*(?:ENTRY[ \t]+)?%?([\w.\-]+)[ \t]*(?:\([^\n]*)?\{[ \t\r]*$", re.MULTILINE)
_MOST_BEFORE = 1 << 10  # characters of a name and its equals sign


class HloResult(NamedTuple):
    """A shape, and the name of the instruction whose result it is; "" in a text without instructions."""

    name: str
    found: FoundShape


class _HloInstruction(NamedTuple):
    """An instruction: its name, which begins at `start`, its opcode, and the span of its result."""

    start: int
    name: str
    is_root: bool
    opcode: str
    span: Span


def find_results(text: str) -> Iterator[HloResult]:
    """The results of a program's instructions in the order of the text, without those that only rename others.

    A text without instructions, such as an allocation report, gives all its shapes.

    >>> text = "%a = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)  ROOT %t = (f32[8]{0}) tuple(%a)"
    >>> [(name, found.column, str(found.shape)) for name, found in find_results(text)]
    [('a', 6, 'f32[8]{0}')]
    """
    seen = visible(text)
    spans = list(scan(seen))
    instructions = list(_instructions(seen, spans))
    if not instructions:
        return (HloResult("", found) for found in with_lines(text, iter(spans)))
    renamed = _renamed_in_fusions(seen, instructions)
    own = [each for each in instructions if each.opcode not in NO_MEMORY and each.start not in renamed]
    return (
        HloResult(each.name, found)
        for each, found in zip(own, with_lines(text, (each.span for each in own)), strict=True)
    )


def _instructions(seen: str, spans: list[Span]) -> Iterator[_HloInstruction]:
    """The instructions of a program without strings and comments."""
    for span in spans:
        before = seen[max(span.start - _MOST_BEFORE, 0) : span.start].rstrip()
        opcode = _OPCODE.match(seen, span.end)
        if not before.endswith("=") or not opcode:
            continue
        before = before[:-1].rstrip()
        reverse = _WORD.match(before[::-1])
        name = reverse[0][::-1] if reverse else ""
        start = max(span.start - _MOST_BEFORE, 0) + len(before) - len(name)
        is_root = before[: len(before) - len(name)].rstrip("% \t").endswith("ROOT")
        yield _HloInstruction(start, name, is_root, opcode[1], span)


def _renamed_in_fusions(seen: str, instructions: list[_HloInstruction]) -> set[int]:
    """Where the instructions begin whose results are operands or results of a fusion under another name."""
    ends = [each.start for each in instructions[1:]] + [len(seen)]
    rest = {
        each.start: seen[each.span.end : end].partition("\n}")[0]  # up to the end of its computation
        for each, end in zip(instructions, ends)
    }
    called = (_CALLS.search(rest[each.start]) for each in instructions if each.opcode == "fusion")
    fused = {match[1] for match in called if match}
    renamed: set[int] = set()
    for computation, inside in _by_computation(seen, instructions):
        if computation in fused:
            renamed |= {each.start for each in inside if each.opcode == "parameter"}
            renamed |= _renamed_by_root(inside, rest)
    return renamed


def _by_computation(seen: str, instructions: list[_HloInstruction]) -> Iterator[tuple[str, list[_HloInstruction]]]:
    """The name and the instructions of every computation."""
    begins = list(_COMPUTATION.finditer(seen))
    starts = [each.start for each in instructions]
    places = [bisect.bisect(starts, begin.start()) for begin in begins] + [len(starts)]
    for begin, first, last in zip(begins, places, places[1:]):
        yield begin[1], instructions[first:last]


def _renamed_by_root(inside: list[_HloInstruction], rest: dict[int, str]) -> set[int]:
    """Where the root of a computation begins, and what it renames."""
    named = {each.name: each for each in inside}
    renamed: set[int] = set()
    following = [each for each in inside if each.is_root]
    while following:
        each = following.pop()
        if each.start not in renamed:
            renamed.add(each.start)
            if each.opcode in NO_MEMORY:
                following += [named[word] for word in _WORD.findall(rest[each.start]) if word in named]
    return renamed
