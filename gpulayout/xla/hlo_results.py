"""What a text about a program says is in memory: each array once, under the name of its instruction.

A text is read as the first of these that it holds:

    values        a dump of the buffer assignment
        value: <12 copy.3 @0> (size=24,offset=0): f32[2,3]{1,0}
    allocations   the list of an out-of-memory report of XLA, of a TPU or of a GPU
        1. Size: 32.00G ... Shape: s32[8,4]{1,0:T(8,128)} ... XLA label: %copy.4 = ...
        Buffer 1: Size: 6.00MiB ... XLA Label: fusion ... Shape: f32[4,3]
    program       instructions, `%name = SHAPE opcode(...)`
    text          any shapes

Results that only rename others are left out of a program:

  - tuple, get-tuple-element and bitcast
  - in the computation of a fusion, its parameters, which are the operands, and its root, which is the fusion's result.
    If the root is a tuple or a bitcast, so are the results that it renames

Each field of a report has a line of its own, to which a log may add a time and the like in front.  The shape of the
label is that of the allocation, or of the tuple that it is an element of, and is not found again.  A web page may have
put a backslash before the dot of 1. Size.  An assignment lists tuples, which are tables of addresses, and values that
only join others, (phi): both are left out, because what they name is listed as well.  Of an assignment with a list of
its peak buffers, the values count.

A line that has a shape but fits none of these forms counts as unread, such as an instruction with an invalid layout.
Headings do not count, nor do operands and attributes of an instruction, whose shapes belong to other results.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from gpulayout.layout.other_shapes import TupleShape
from gpulayout.xla.hlo import FoundShape, Span, UnreadLines, scan, scan_lines, unread_lines, visible, with_lines
from gpulayout.xla.hlo_program import HloComputation, HloInstruction, HloProgram, read_program

NO_MEMORY = {"tuple", "get-tuple-element", "bitcast"}
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
    kind: TextKind = "values"
    names, spans, unread = _read_assignment(seen, passed)
    if not names:
        kind, (names, spans, unread) = "allocations", _read_allocations(seen, passed)
    if not names and (program := read_program(text, seen, passed)).instructions:
        own = _in_memory(program)
        kind, names, spans, unread = "program", map(program.name, own), (each.span for each in own), program.unread
    elif not names:
        kind, names, spans, unread = "text", itertools.repeat(""), scan(seen), []
        for _ in scan(seen, unread.append):  # its shapes are read twice, and not kept
            pass
    return HloResults(kind, map(HloResult, names, with_lines(text, iter(spans))), unread_lines(text, unread))


def _in_memory(program: HloProgram) -> list[HloInstruction]:
    """The instructions whose results are not other results under another name."""
    called = (_CALLS.search(program.rest(each)) for each in program.instructions if each.opcode == "fusion")
    fused = {match[1] for match in called if match}
    renamed: set[int] = set()
    for computation in program.computations():
        if computation.name in fused:
            renamed |= {each.start for each in computation.inside if each.opcode == "parameter"}
            renamed |= {each.start for each in computation.from_roots(_renamed)}
    return [each for each in program.instructions if each.opcode not in NO_MEMORY and each.start not in renamed]


def _renamed(computation: HloComputation, each: HloInstruction) -> list[HloInstruction]:
    return computation.named_in(computation.program.rest(each)) if each.opcode in NO_MEMORY else []


# ---- reports -------------------------------------------------------------------------------------------------

_MOST_BEFORE = 1 << 10  # characters of a value's name
_ENTRY = re.compile(r"(?:^|(?<=[ \t]))(?:[0-9]{1,9}\\?\. Size:|Buffer [0-9]{1,9}:(?=[ \t\r]*$))", re.MULTILINE)
_SHAPE = re.compile(r"\b(?:S|Subs)hape:[ \t]*$")
_LABEL = re.compile(r"\bXLA [Ll]abel:[ \t]*%?([\w.\-]+)")
_NAMES_AGAIN = re.compile(r"[^\n]*?\b(?:XLA [Ll]abel|Operator):")
_VALUE = re.compile(r"\bvalue: <[0-9]+ ([^\s@<>{}]+)(?:\{[0-9,]*\})?( \(phi\))? @[0-9]+> \([^()\n]*\):[ \t]*$")
_OTHER_LINE = re.compile(r"[^\n]*?\b(?:allocation [0-9]+|from instruction|(?:S|Subs)hape):")

# Names and their spans in the order of a text, and a position in every line with a shape, or an entry, that gave none
_Listed = tuple[Iterable[str], Iterable[Span], list[int]]


def _read_allocations(seen: str, passed: Callable[[int], None]) -> _Listed:
    """What an out-of-memory report in a text without strings and comments lists; none in another text."""
    entries = [match.start() for match in _ENTRY.finditer(seen)]
    ends = [*entries[1:], len(seen)]
    without = {*range(len(entries))}  # those that have no shape so far
    names, spans = list[str](), list[Span]()

    def read(span: Span) -> bool:
        entry = bisect.bisect(entries, span.start) - 1
        if entry not in without or not _SHAPE.search(seen, max(span.start - _MOST_BEFORE, 0), span.start):
            return False
        without.remove(entry)
        label = _LABEL.search(seen, entries[entry], ends[entry])
        names.append(label[1] if label else "")
        spans.append(span)
        return True

    left = scan_lines(seen, read, _NAMES_AGAIN.match, passed) if entries else []
    return names, spans, list(heapq.merge(left, (entries[entry] for entry in sorted(without))))


def _read_assignment(seen: str, passed: Callable[[int], None]) -> _Listed:
    """The values that have memory in a dump of the buffer assignment; none in another text."""
    names, spans = list[str](), list[Span]()

    def read(span: Span) -> bool:
        value = _VALUE.search(seen, max(span.start - _MOST_BEFORE, 0), span.start)
        if value and not value[2] and not isinstance(span.shape, TupleShape):
            names.append(value[1])
            spans.append(span)
        return bool(value)

    return names, spans, scan_lines(seen, read, _OTHER_LINE.match, passed) if "value: <" in seen else []
