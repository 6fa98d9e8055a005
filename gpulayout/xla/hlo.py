"""The shapes in the text of a whole program, such as an HLO dump, a log or an error report.

A shape is found where all of it can be read, as long as possible, with these differences from the text of one shape
alone:

  strings      "..." is skipped, so op_name="jit(f)/f32[2]" holds no shape.  A string ends on its line at the latest
  comments     /* */ and // are blanks, and nothing is found in them.  A /* that nothing closes is two characters like others
  words        the type is a word of its own: %f32[2], my_f32[2] and f32.1[2] are none
  tuples       a tuple is found once, as a whole: its elements are not found again.  Of what is no tuple the elements are found
  lists        parentheses after a word are operands or parameters, no tuple: in add(f32[2] %a, f32[2] %b) and in
               %main () -> f32[2] all arrays are found alone.  So they are before an arrow, in (f32[2], s32[])->f32[2]
  braces       a brace after a shape begins a layout only when a number or a colon follows, as in XLA: f32[2] { is an array

What looks like a shape and is none is skipped: f32[2]{0,0} has no good layout, so no array is found there at all.

Every character is read a bounded number of times, from left to right; tuples in one another are kept in a list, not on
Python's stack.  Arrays and tuples may be of any length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import ShapeTextError
from gpulayout.layout.other_shapes import MAX_DEPTH, AnyShape, BufferShape, TupleShape
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import read_leaf
from gpulayout.layout.text_reader import Reader

_BLANKS = r"[ \t\r\n]*"
_NO_WORD_BEFORE = r"(?<![\w.%\-])"
_TYPES = "|".join([*(element_type.value for element_type in ElementType), "token", "opaque"])
_START = re.compile(
    rf"{_NO_WORD_BEFORE}(?:(?:{_TYPES}){_BLANKS}\[|b{_BLANKS}\(|(?P<list>[\w.%\-]+{_BLANKS}\()|\((?={_BLANKS}[()a-z]))"
)
_LAYOUT_GOES_ON = re.compile(rf"{_BLANKS}[-:0-9]")
# An array as programs print it, of which one finds thousands that are the same; what comes after it is no layout.
_PLAIN = re.compile(
    rf"[a-z][a-z0-9]*\[[0-9,<=?]*\](?:\{{[0-9,]+(?::[A-Z0-9(),:*]*)?\}}|(?!{_BLANKS}\{{{_BLANKS}[-:0-9]))"
)
_HIDES = re.compile(r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"?|//[^\n]*|/\*')


@dataclass(frozen=True)
class FoundShape:
    """A shape and where it stands in a text: `text[start:end]` reads as the shape.

    line, column    of its first character, counted from 1; a line ends with "\\n"
    """

    shape: AnyShape
    start: int
    end: int
    line: int
    column: int


class Span(NamedTuple):
    """A shape and the positions in a text where it begins and ends."""

    start: int
    end: int
    shape: AnyShape


def find_shapes(text: str) -> Iterator[FoundShape]:
    """Every shape in a text with its position, from the beginning to the end; TypeError for what is no `str`, nothing
    else.

    help("gpulayout.xla.hlo") says what counts as a shape there.  The time is linear in the length of the text, whatever
    it holds.  A shape may be a tuple or a token too: `leaf_shapes` gives the parts of any shape, arrays among them.

    >>> text = 'ROOT %t = (f32[2,3]{0,1:T(8,128)}, s32[]) tuple(f32[2,3]{0,1:T(8,128)} %a, s32[] %b), metadata={op_name="f32[9]"}'
    >>> for found in find_shapes(text):
    ...     print(found.line, found.column, found.shape)
    1 11 (f32[2,3]{0,1:T(8,128)}, s32[])
    1 49 f32[2,3]{0,1:T(8,128)}
    1 76 s32[]
    """
    if not isinstance(text, str):
        raise TypeError(f"the text to find shapes in must be a str, not {type(text).__name__}")
    return with_lines(text, scan(visible(text)))


def with_lines(text: str, spans: Iterator[Span]) -> Iterator[FoundShape]:
    """The spans, which are in order, with lines and columns; only what is between two of them is looked at."""
    before, line, line_start = 0, 1, 0
    for start, end, shape in spans:
        newline = text.rfind("\n", before, start)
        if newline >= 0:
            line += text.count("\n", before, newline + 1)
            line_start = newline + 1
        before = start
        yield FoundShape(shape, start, end, line, start - line_start + 1)


def visible(text: str) -> str:
    """The text with blanks for comments and for what is in strings, every other character at its place.

    A string keeps its first quote; a comment that nothing closes is no comment, and its beginning becomes two quotes,
    which no reader takes for anything.

    >>> visible('a "f32[2]" /* x */ b // c')
    'a "                b     '
    """
    last_close = text.rfind("*/")
    pieces, done, position = [], 0, 0
    while match := _HIDES.search(text, position):
        start, position = match.span()
        hidden = " " * (position - start)
        if match.group() == "/*":
            is_closed = position <= last_close
            position = text.index("*/", position) + 2 if is_closed else position
            hidden = " " * (position - start) if is_closed else '""'
        elif match.group()[0] == '"':
            hidden = '"' + hidden[1:]
        pieces += text[done:start], hidden
        done = position
    return "".join([*pieces, text[done:]])


def scan(text: str) -> Iterator[Span]:
    """The span of every shape in a text without strings and comments."""
    reader, position = _ProgramReader(text), 0
    while match := _START.search(text, position):
        if match["list"]:
            position = match.end()
        else:
            found, position = _read(reader, match.start())
            yield from found


class _ProgramReader(Reader):
    """A reader of any length of text, for one array at a time."""

    def __init__(self, text: str):
        self.text = text
        self._read_before: dict[str, AnyShape] = {}

    def layout_ahead(self) -> bool:
        return self.ahead("{") and bool(_LAYOUT_GOES_ON.match(self.text, self._next))

    def leaf(self) -> Span:
        """The array, token or opaque value that begins here."""
        start = self.position
        plain = _PLAIN.match(self.text, start)
        if plain and (shape := self._read_before.get(plain.group())):
            self.go(plain.end())
            return Span(start, plain.end(), shape)
        shape = read_leaf(self)
        if plain and plain.end() == self.after:
            self._read_before[plain.group()] = shape
        return Span(start, self.after, shape)


@dataclass
class _Open:
    """A parenthesis that is still open, and the shapes in it: a tuple, or the buffer of a `b(`."""

    start: int
    is_buffer: bool = False
    spans: list[Span] = field(default_factory=list)

    def shape(self) -> AnyShape | None:
        """What the parentheses are when they close, or None for no shape: a buffer of two arrays, a tuple too deep."""
        shapes = [span.shape for span in self.spans]
        if self.is_buffer:
            return BufferShape(shapes[0]) if len(shapes) == 1 and isinstance(shapes[0], Shape) else None
        depth = 1 + max((shape.depth for shape in shapes if isinstance(shape, TupleShape)), default=0)
        return TupleShape(shapes) if depth <= MAX_DEPTH else None


def _read(reader: _ProgramReader, position: int) -> tuple[list[Span], int]:
    """What begins at a position, where a shape may begin: the spans found, and where to look for the next.

    That is one span, or those in parentheses that turned out to be no tuple.
    """
    reader.go(position)
    position += 1
    opened: list[_Open] = []
    try:
        while True:
            start = reader.position
            if reader.ahead("(") or reader.accept_name("b"):
                reader.mark("(")
                position = reader.after
                opened.append(_Open(start, is_buffer=reader.text[start] == "b"))
                if not reader.ahead(")"):
                    continue
            else:
                span = reader.leaf()
                position = span.end
                if not opened:
                    return [span], position
                opened[-1].spans.append(span)
            if whole := _close(reader, opened):
                return [whole], whole.end
    except ShapeTextError:
        return [span for entry in opened for span in entry.spans], position


def _close(reader: _ProgramReader, opened: list[_Open]) -> Span | None:
    """Step over the comma after a shape, or over closing parentheses and then the comma; the span when all are
    closed.
    """
    while not reader.accept(","):
        reader.mark(")")
        shape = opened[-1].shape()
        if shape is None or reader.text.startswith("->", reader.position):
            raise reader.error("expected a tuple")
        span = Span(opened.pop().start, reader.after, shape)
        if not opened:
            return span
        opened[-1].spans.append(span)
    return None


# ---- the results of instructions: `%name = SHAPE opcode(...)` ----------------------------------------

NO_MEMORY = {"tuple", "get-tuple-element", "bitcast"}  # they give other names to results that are there already
_OPCODE = re.compile(r"[ \t\r\n]*([A-Za-z][\w\-]*)\(")
_MOST_BLANKS = 16  # looked at between the equals sign and the shape


def find_results(text: str) -> Iterator[FoundShape]:
    """The results of a program's instructions, as `find_shapes` finds shapes; without those in `NO_MEMORY`.

    A text without any instruction, such as a report of what was allocated, gives all shapes in it.

    >>> text = "%a = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)  ROOT %t = (f32[8]{0}) tuple(%a)"
    >>> [(found.column, str(found.shape)) for found in find_results(text)]
    [(6, 'f32[8]{0}')]
    """
    seen = visible(text)
    spans = [(span, _opcode(seen, span)) for span in scan(seen)]
    if any(opcode for _, opcode in spans):
        spans = [(span, opcode) for span, opcode in spans if opcode and opcode not in NO_MEMORY]
    return with_lines(text, (span for span, _ in spans))


def _opcode(text: str, span: Span) -> str | None:
    """The opcode of the instruction that gives a shape; None for a shape that stands elsewhere."""
    if not text[max(span.start - _MOST_BLANKS, 0) : span.start].rstrip().endswith("="):
        return None
    found = _OPCODE.match(text, span.end)
    return found and found[1]


def arrays(shape: AnyShape) -> list[Shape]:
    """The arrays in a shape: its leaves, buffers opened, without tokens and opaque values."""
    leaves = shape.leaves() if isinstance(shape, TupleShape) else [shape]
    opened = (leaf.shape if isinstance(leaf, BufferShape) else leaf for leaf in leaves)
    return [leaf for leaf in opened if isinstance(leaf, Shape)]
