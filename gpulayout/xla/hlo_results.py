"""What a text about a program says is in memory: each array once, under the name of its instruction.

A text is read as the first of these that it holds:

    values        a dump of the buffer assignment; see `hlo_reports`
    allocations   the list of an out-of-memory report of XLA; see there too
    program       instructions, `%name = SHAPE opcode(...)`
    text          any shapes

Results that only rename others are left out of a program:

  - tuple, get-tuple-element and bitcast
  - in the computation of a fusion, its parameters, which are the operands, and its root, which is the fusion's result.
    If the root is a tuple or a bitcast, so are the results that it renames

A line with a shape that is none of these, such as an instruction whose layout is wrong, is unread.  Headings, operands
and attributes on the line of an instruction are not unread: their shapes are those of other results.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from gpulayout.xla.hlo import FoundShape, Span, scan, visible, with_lines
from gpulayout.xla.hlo_lines import UnreadLines, unread_lines
from gpulayout.xla.hlo_program import HloInstruction, HloProgram, read_program
from gpulayout.xla.hlo_reports import read_allocations, read_assignment

NO_MEMORY = {"tuple", "get-tuple-element", "bitcast"}
_WORD = re.compile(r"[\w.\-]+")
_CALLS = re.compile(r"\bcalls=%?([\w.\-]+)")

TextKind = Literal["values", "allocations", "program", "text"]


class HloResult(NamedTuple):
    """A shape, and the name of the instruction whose result it is; "" in a text without instructions."""

    name: str
    found: FoundShape


class HloResults(NamedTuple):
    """What a text was read as, its results in the order of the text, and the lines that gave none."""

    kind: TextKind
    found: Iterator[HloResult]
    unread: UnreadLines


def find_results(text: str, passed: Callable[[int], None] = lambda position: None) -> HloResults:
    """What a text says is in memory.

    passed   gets the positions in the text up to which it has been read

    >>> text = "%a = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)  ROOT %t = (f32[8]{0}) tuple(%a)"
    >>> [(name, found.column, str(found.shape)) for name, found in find_results(text).found]
    [('a', 6, 'f32[8]{0}')]
    """
    seen = visible(text)
    kinds: tuple[TextKind, TextKind] = ("values", "allocations")
    for kind, read in zip(kinds, (read_assignment, read_allocations), strict=True):
        listed = read(seen, passed)
        if listed.found:
            names, spans = zip(*listed.found)
            return HloResults(kind, _named(text, names, iter(spans)), unread_lines(text, listed.unread))
    program = read_program(seen, passed)
    if program.instructions:
        own = _in_memory(seen, program)
        found = _named(text, (each.name(seen) for each in own), (each.span for each in own))
        return HloResults("program", found, unread_lines(text, program.unread))
    unread: list[int] = []
    for _ in scan(seen, unread.append):  # its shapes are read again, and not kept
        pass
    return HloResults("text", _named(text, itertools.repeat(""), scan(seen)), unread_lines(text, unread))


def _named(text: str, names: Iterable[str], spans: Iterator[Span]) -> Iterator[HloResult]:
    return map(HloResult, names, with_lines(text, spans))


def _in_memory(seen: str, program: HloProgram) -> list[HloInstruction]:
    """The instructions whose results are not other results under another name."""
    rest = program.rests(seen)
    called = (_CALLS.search(rest(each)) for each in program.instructions if each.opcode == "fusion")
    fused = {match[1] for match in called if match}
    renamed: set[int] = set()
    for heading, inside in program.by_computation(seen):
        if heading[2] in fused:
            renamed |= {each.start for each in inside if each.opcode == "parameter"}
            renamed |= _renamed_by_root(seen, inside, rest)
    return [each for each in program.instructions if each.opcode not in NO_MEMORY and each.start not in renamed]


def _renamed_by_root(seen: str, inside: list[HloInstruction], rest: Callable[[HloInstruction], str]) -> set[int]:
    """Where the root of a computation begins, and what it renames."""
    named = {each.name(seen): each for each in inside}
    renamed: set[int] = set()
    following = [each for each in inside if each.is_root]
    while following:
        each = following.pop()
        if each.start not in renamed:
            renamed.add(each.start)
            if each.opcode in NO_MEMORY:
                following += [named[word] for word in _WORD.findall(rest(each)) if word in named]
    return renamed
