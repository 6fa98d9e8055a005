"""The shapes in the text of a whole program, such as an HLO dump, a log or an error report.

A shape is found wherever its text can be read; the longest text counts.  A program differs from the text of
one shape in these ways:

  strings      "..." is skipped, so op_name="jit(f)/f32[2]" holds no shape.  A string never goes past its line
  comments     /* */ and // count as blanks, and nothing is found in them.  A /* without its */ is ordinary text
  words        an element type is a whole word: %f32[2], my_f32[2] and f32.1[2] hold no shape
  tuples       a tuple is found once, as a whole, and its elements are not found again.  If it cannot be read, its
               elements are found one by one
  lists        parentheses after a word hold operands or parameters and are not a tuple: in add(f32[2] %a, f32[2] %b)
               and %main () -> f32[2] every array is found separately.  The same holds before an arrow: (f32[2])->f32[2]
  braces       a brace after a shape begins a layout only before a number or a colon, as in XLA: f32[2] { is an array

Text that only resembles a shape is skipped: f32[2]{0,0} has no valid layout, so no array is found there.

Every character is read a bounded number of times, from left to right.  Open tuples are kept in a list, not on Python's
stack.  Arrays and tuples may have any length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulayout.layout.checks import clipped
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, ShapeTextError
from gpulayout.layout.layout import Layout
from gpulayout.layout.other_shapes import MAX_DEPTH, AnyShape, BufferShape, TupleShape
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import read_leaf
from gpulayout.layout.text_reader import Made, Reader

_BLANKS = r"[ \t\r\n]*"
_NO_WORD_BEFORE = r"(?<![\w.%\-])"
_TYPES = "|".join([*(element_type.value for element_type in ElementType), "token", "opaque"])
START = re.compile(
    rf"{_NO_WORD_BEFORE}(?:(?:{_TYPES}){_BLANKS}\[|b{_BLANKS}\(|(?P<list>[\w.%\-]+{_BLANKS}\()|\((?={_BLANKS}[()a-z]))"
)
_LAYOUT_GOES_ON = re.compile(rf"{_BLANKS}[-:0-9]")
# An array as programs print it, with no layout after it.  Programs repeat the same few by the thousand.
_PLAIN = re.compile(
    rf"([a-z][a-z0-9]*)\[([0-9,<=?]*)\](\{{[0-9,]+(?::[A-Z0-9(),:*]*)?\}}|(?!{_BLANKS}\{{{_BLANKS}[-:0-9]))"
)
_SIZES = re.compile("[0-9]{1,18}(?:,[0-9]{1,18})*")
MOST_KNOWN = 1 << 12  # texts whose shapes are kept for the next time; a program may have a million different ones
MOST_UNREAD = 3  # lines without a result that are shown
_MOST_SHOWN = 80  # characters of each
HIDES = re.compile(r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"?|//[^\n]*|/\*')


@dataclass(frozen=True)
class FoundShape:
    """A shape and its position in a text.

    Attributes
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape or BufferShape
        The shape.
    start, end : int
        `text[start:end]` reads as the shape.
    line, column : int
        Position of its first character, counted from 1.  Lines end with "\\n".

    Examples
    --------
    >>> found = next(find_shapes("%a = f32[2]{0} parameter(0)"))
    >>> found.start, found.end, str(found.shape)
    (5, 14, 'f32[2]{0}')
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
    """Every shape in the text of a program, with its position.

    Parameters
    ----------
    text : str
        An HLO dump, a log, or any other text.

    Yields
    ------
    FoundShape
        In the order of the text.  Tuples and tokens are shapes too; `leaf_shapes` gives the parts of any shape.

    Notes
    -----
    help("gpulayout.xla.hlo") says what counts as a shape.  The time is linear in the length of the text.

    Examples
    --------
    >>> text = '%t = (f32[2]{0:T(128)}, s32[]) tuple(f32[2]{0:T(128)} %a, s32[] %b), metadata={op_name="f32[9]"}'
    >>> for found in find_shapes(text):
    ...     print(found.line, found.column, found.shape)
    1 6 (f32[2]{0:T(128)}, s32[])
    1 38 f32[2]{0:T(128)}
    1 59 s32[]
    """
    if not isinstance(text, str):
        raise TypeError(f"the text to find shapes in must be a str, not {type(text).__name__}")
    return with_lines(text, scan(visible(text)))


def with_lines(text: str, spans: Iterator[Span]) -> Iterator[FoundShape]:
    """The spans, which are in order, with lines and columns."""
    lines = LineCounter(text)
    for start, end, shape in spans:
        lines.go(start)
        yield FoundShape(shape, start, end, lines.number, start - lines.start + 1)


def visible(text: str) -> str:
    """The text with comments and the insides of strings blanked out; every other character keeps its position.

    A string keeps its first quote.  The /* of a comment that is never closed becomes two quotes, which no reader
    accepts.

    >>> visible('a "f32[2]" /* x */ b // c')
    'a "                b     '
    """
    last_close = text.rfind("*/")
    pieces: list[str] = []
    done = position = 0
    while match := HIDES.search(text, position):
        start, position = match.span()
        hidden = " " * (position - start)
        if match.group() == "/*":
            is_closed = position <= last_close
            position = text.index("*/", position) + 2 if is_closed else position
            hidden = " " * (position - start) if is_closed else '""'
        elif match.group()[0] == '"':
            hidden = '"' + hidden[1:]
        pieces += [text[done:start], hidden]
        done = position
    return "".join([*pieces, text[done:]])


def scan(text: str, unread: Callable[[int], None] = lambda position: None) -> Iterator[Span]:
    """The span of every shape in a text without strings and comments.

    unread   gets the positions, in order, of element types with a bracket that are no shape, such as f32[2]{0,0}
    """
    reader, position = _ProgramReader(text), 0
    while match := START.search(text, position):
        if match["list"]:
            position = match.end()
        else:
            spans, position = _read(reader, match.start())
            if not spans and match.group().endswith("["):
                unread(match.start())
            yield from spans


class _ProgramReader(Reader):
    """A reader without a limit on the length of its text; it reads one array at a time."""

    def __init__(self, text: str):
        self.text = text
        self._read_before: dict[str, AnyShape] = {}
        self._layouts: dict[str, Layout] = {}  # programs of many shapes have few layouts: each is read and kept once

    def layout_ahead(self) -> bool:
        return self.ahead("{") and bool(_LAYOUT_GOES_ON.match(self.text, self._next))

    def leaf(self) -> Span:
        """The array, token or opaque value that begins here."""
        start = self.position
        plain = _PLAIN.match(self.text, start)
        if plain and (shape := self._read_before.get(plain.group()) or self._of_known_layout(*plain.groups())):
            keep(self._read_before, plain.group(), shape)
            self.go(plain.end())
            return Span(start, plain.end(), shape)
        shape = read_leaf(self)
        if plain and plain.end() == self.after:
            keep(self._read_before, plain.group(), shape)
            if isinstance(shape, Shape) and shape.layout.padding_value is None:  # which the type may change
                keep(self._layouts, plain[3], shape.layout)
        return Span(start, self.after, shape)

    def _of_known_layout(self, name: str, sizes: str, layout: str) -> Shape | None:
        """The shape of text whose layout was read before; None for other text and for text with an error."""
        known = self._layouts.get(layout)
        if known is None or not _SIZES.fullmatch(sizes):
            return None
        try:
            return Shape(ElementType(name), tuple(map(int, sizes.split(","))), known)
        except (LayoutError, ValueError):
            return None


def keep(kept: dict[str, Made], text: str, value: Made, most: int = MOST_KNOWN) -> None:
    """Keep what a text means; all is forgotten when there are too many."""
    if len(kept) >= most:
        kept.clear()
    kept[text] = value


@dataclass
class _Open:
    """An open parenthesis and the shapes in it so far: a tuple, or the buffer of a `b(`."""

    start: int
    is_buffer: bool = False
    spans: list[Span] = field(default_factory=list)

    def shape(self) -> AnyShape | None:
        """The shape in closed parentheses; None if they are not a shape: a buffer of two arrays, a tuple too deep."""
        shapes = [span.shape for span in self.spans]
        if self.is_buffer:
            return BufferShape(shapes[0]) if len(shapes) == 1 and isinstance(shapes[0], Shape) else None
        depth = 1 + max((shape.depth for shape in shapes if isinstance(shape, TupleShape)), default=0)
        return TupleShape(tuple(shapes)) if depth <= MAX_DEPTH else None


def _read(reader: _ProgramReader, position: int) -> tuple[list[Span], int]:
    """The spans found at a position where a shape may begin, and where to look for the next one.

    One span, or those in parentheses that turned out not to be a tuple.
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
    """Step over closing parentheses, if any, and a comma.  The whole span once every parenthesis is closed."""
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


# ---- lines ---------------------------------------------------------------------------------------------------


class LineCounter:
    """The line of each of many positions in a text, which come in order, so that every character is passed once.

    number, start   of the line that the last position is in; the first has number 1
    """

    def __init__(self, text: str) -> None:
        self.text, self.number, self.start, self._done = text, 1, 0, 0

    def go(self, position: int) -> None:
        newline = self.text.rfind("\n", self._done, position)
        if newline >= 0:
            self.number += self.text.count("\n", self._done, newline + 1)
            self.start = newline + 1
        self._done = max(self._done, position)


def scan_lines(
    seen: str,
    read: Callable[[Span], object],
    is_known: Callable[[str, int, int], object],
    passed: Callable[[int], None],
    is_operand: Callable[[int], bool] = lambda position: False,
) -> list[int]:
    """Give every shape of a text to `read`; a position in every line of which it makes nothing.

    seen         a text without strings and comments
    read         False for a shape that gives no result; the first shape in a line decides
    is_known     whether a line gives none because its shape stands elsewhere too, from the text, where the line begins,
                 and where the shape does
    passed       gets the positions in the text up to which it has been read
    is_operand   whether the shape at a position belongs to a line before, so that the next one decides
    """
    lines, left, decided = LineCounter(seen), list[int](), -1

    def keep(position: int) -> None:
        nonlocal decided
        lines.go(position)
        if decided != lines.start and not is_operand(position):
            decided = lines.start
            if not is_known(seen, decided, position):
                left.append(position)

    for span in scan(seen, keep):
        passed(span.end)
        if read(span):
            lines.go(span.start)
            decided = lines.start
        else:
            keep(span.start)
    return left


class UnreadLine(NamedTuple):
    """A line that gave no result: its number, from 1, and its text, cut."""

    line: int
    text: str


class UnreadLines(NamedTuple):
    """How many lines with a shape gave no result, and the first of them."""

    total: int
    first: list[UnreadLine]


def unread_lines(text: str, positions: Iterable[int]) -> UnreadLines:
    """The lines of these positions in a text, which are in order; each line once.

    >>> unread_lines("a f32[2]\\nb\\nc f32[3] f32[4]", [2, 14, 21])
    UnreadLines(total=2, first=[UnreadLine(line=1, text='a f32[2]'), UnreadLine(line=3, text='c f32[3] f32[4]')])
    """
    lines, before, total = LineCounter(text), 0, 0
    first: list[UnreadLine] = []
    for position in positions:
        lines.go(position)
        total += lines.number != before
        if lines.number != before and len(first) < MOST_UNREAD:
            begin = lines.start if position - lines.start < _MOST_SHOWN // 2 else position
            shown = text[begin : begin + 2 * _MOST_SHOWN].lstrip().partition("\n")[0].rstrip()
            first.append(UnreadLine(lines.number, clipped(shown, _MOST_SHOWN)))
        before = lines.number
    return UnreadLines(total, first)
