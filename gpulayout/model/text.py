"""Shapes as text: XLA's grammar for arrays, with two properties of our own for padding.

    shape   := type "[" [size ("," size)*] "]" [layout]
    layout  := "{" [number ("," number)*] [":" properties] "}"
    properties := ["PD(" width ("," width)* ")"] ["PV(" name | number ")"]      in this order, each at most once

Blanks and /* */ and // comments may stand between the tokens.  A missing layout means descending.  XLA never printed
padding; a shape without it prints exactly what XLA prints.  A layout in a shape cannot be `{}`: in XLA's grammar a brace
after a shape starts a layout only when a number or a colon follows.  The reader takes linear time and does not recurse.
"""
from __future__ import annotations

import re

from gpulayout.model.element_type import ElementType
from gpulayout.model.errors import LayoutError, ShapeTextError
from gpulayout.model.layout import Layout
from gpulayout.model.padding import NAMES, parse_scalar
from gpulayout.model.shape import Shape

MAX_LENGTH = 1 << 16
MAX_DIGITS = 19
MAX_SCALAR = 320             # characters of a pad value: an integer as large as the largest double has 309

_TOKEN = re.compile(r"(?P<skip>[ \t\r\n]+|/\*.*?\*/|//[^\n]*)|(?P<number>-?[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|"
                    r"(?P<mark>[\[\](){},:])", re.DOTALL)
# Layout properties that XLA knows and this library does not.
_FOREIGN = {"D": "sparse dimensions", "T": "tiles", "L": "tail padding alignment", "E": "element size", "S": "memory space",
            "SC": "split configuration", "P": "physical shape", "M": "dynamic shape metadata"}


def parse_shape(text: str) -> Shape:
    """The shape written as `f32[2,3]{0,1:PD(3,5)PV(lowest)}`: the exact inverse of `str(shape)`.

    ShapeTextError (a LayoutError with `.position`) points at the first character that does not fit; for a layout or
    shape that reads well but cannot be, at its beginning.

    >>> parse_shape("f32[2,3]{0,1:PD(3,5)PV(lowest)}").buffer_size
    15
    """
    reader = _Reader(text)
    position, name = reader.position, reader.take("name", "an element type")
    try:
        element_type = ElementType(name)
    except ValueError:
        raise reader.error(f"{name[:32]!r} is not one of XLA's element types of whole bytes{_meant(name)}", position) from None
    reader.mark("[")
    dimensions = reader.numbers("]", "a dimension size")
    start = reader.position if reader.ahead("{") else position
    layout = _layout(reader) if reader.ahead("{") else None
    reader.end()
    return _built(reader, start, lambda: Shape(element_type, dimensions, layout))


def parse_layout(text: str) -> Layout:
    """The layout written as `{0,1:PD(3,5)PV(lowest)}`: the exact inverse of `str(layout)`.

    >>> parse_layout("{0,1}").minor_to_major
    (0, 1)
    """
    reader = _Reader(text)
    layout = _layout(reader, may_be_empty=True)
    reader.end()
    return layout


def _layout(reader: _Reader, may_be_empty: bool = False) -> Layout:
    start = reader.position
    reader.mark("{")
    order, widths, value = [], None, None
    if not reader.ahead(":") and not (may_be_empty and reader.ahead("}")):
        order = reader.number_list("a dimension number")
    if reader.accept(":"):
        if reader.accept_name("PD"):
            reader.mark("(")
            widths = reader.numbers(")", "a padded dimension")
        if reader.accept_name("PV"):
            value = _padding_value(reader)
        if reader.kind == "name":
            raise reader.error(_misplaced(reader.value))
    reader.mark("}")
    return _built(reader, start, lambda: Layout(order, padded_dimensions=widths, padding_value=value))


def _meant(name: str) -> str:
    """The XLA name of a NumPy name such as int8, or of one in the wrong case."""
    try:
        return f" (did you mean {ElementType.of(name.lower()).value!r}?)" if len(name) > 2 else ""
    except TypeError:
        return ""


def _misplaced(name: str) -> str:
    if name in _FOREIGN:
        return f"layout property {name}(...), {_FOREIGN[name]}, is not supported"
    if name in ("PD", "PV"):
        return f"layout property {name}(...) stands twice or out of order: PD(...) comes first, PV(...) second"
    return f"{name[:32]!r} is not a layout property, only PD(...) and PV(...) are"


def _padding_value(reader: _Reader):
    """The text between the parentheses of PV(...): a name, or a number in Python's notation."""
    raw, position = reader.parenthesis()
    if raw in NAMES:
        return NAMES[raw]
    try:
        if len(raw) <= MAX_SCALAR:
            return parse_scalar(raw)
    except ValueError:
        pass
    raise reader.error(f"padding value {raw[:32]!r} is neither a number nor one of {', '.join(NAMES)}", position)


def _built(reader: _Reader, position: int, make):
    """What `make` gives; its LayoutError becomes one that also shows the text, and is cut off when it shows too much."""
    try:
        return make()
    except LayoutError as error:
        message = str(error)
        message = message if len(message) <= 500 else message[:497] + "..."
        raise ShapeTextError(f"{message}, at character {position} of {reader.shown(position)}", position) from None


class _Reader:
    """One token ahead: `kind` ("number", "name", "mark" or "end"), `value`, and `position` in the text."""

    def __init__(self, text: str):
        if not isinstance(text, str):
            raise TypeError(f"shape text must be a str, not {type(text).__name__}")
        self.text = text
        if len(text) > MAX_LENGTH:
            raise ShapeTextError(f"shape text of {len(text)} characters is longer than {MAX_LENGTH}", MAX_LENGTH)
        self._next = 0
        self.advance()

    def advance(self) -> str:
        """Step over the current token and return its text."""
        taken = getattr(self, "value", "")
        while True:
            self.position = self._next
            if self._next == len(self.text):
                self.kind, self.value = "end", ""
                return taken
            match = _TOKEN.match(self.text, self._next)
            if not match:
                if self.text.startswith("/*", self._next):
                    raise self.error("a comment begins and does not end")
                self.kind, self.value = "other", self.text[self._next]
                return taken
            self._next = match.end()
            if match.lastgroup != "skip":
                self.kind, self.value = match.lastgroup, match.group()
                return taken

    def ahead(self, mark: str) -> bool:
        return self.kind == "mark" and self.value == mark

    def accept(self, mark: str) -> bool:
        return self.ahead(mark) and bool(self.advance())

    def accept_name(self, name: str) -> bool:
        return self.kind == "name" and self.value == name and bool(self.advance())

    def mark(self, mark: str) -> None:
        if not self.accept(mark):
            raise self.error(f"expected {mark!r}")

    def take(self, kind: str, what: str) -> str:
        if self.kind != kind:
            raise self.error(f"expected {what}")
        return self.advance()

    def number(self, what: str) -> int:
        position, digits = self.position, self.take("number", what)
        if digits.startswith("-"):
            raise self.error(f"{what} cannot be negative", position)
        digits = digits.lstrip("0")                   # int() refuses thousands of digits, zeros included
        if len(digits) > MAX_DIGITS or int(digits or "0") >= 2**63:
            raise self.error(f"{what} of {len(digits)} digits does not fit 63 bits", position)
        return int(digits or "0")

    def number_list(self, what: str) -> list[int]:
        found = [self.number(what)]
        while self.accept(","):
            found.append(self.number(what))
        return found

    def numbers(self, close: str, what: str) -> list[int]:
        """A possibly empty list up to and with the closing mark."""
        found = [] if self.ahead(close) else self.number_list(what)
        self.mark(close)
        return found

    def parenthesis(self) -> tuple[str, int]:
        """The raw text between parentheses, which hold a pad value, and where it starts."""
        if not self.ahead("("):
            raise self.error("expected '('")
        start, close = self._next, self.text.find(")", self._next)
        if close < 0:
            raise self.error("expected ')'", len(self.text))
        self._next = close + 1
        self.advance()
        return self.text[start:close].strip(), start

    def end(self) -> None:
        if self.kind != "end":
            raise self.error("expected the end")

    def error(self, message: str, position: int | None = None) -> ShapeTextError:
        position = self.position if position is None else position
        found = repr(self.text[position]) if position < len(self.text) else "the end"
        return ShapeTextError(f"{message}, at character {position} ({found}) of {self.shown(position)}", position)

    def shown(self, position: int) -> str:
        """The text, or what stands around a position of long text."""
        start, stop = max(position - 60, 0), position + 60
        if len(self.text) <= 120:
            start, stop = 0, len(self.text)
        return repr("..." * (start > 0) + self.text[start:stop] + "..." * (stop < len(self.text)))
