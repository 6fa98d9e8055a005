"""Text as tokens, for the readers of layouts and shapes.

Whitespace and comments, /* */ and //, may come between tokens.  The reader steps over every character once, so time and
memory are linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import TypeVar

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError, ShapeTextError

MAX_DIGITS = 19
Made = TypeVar("Made")

TOKEN = re.compile(
    r"(?P<skip>[ \t\r\n]+|/\*.*?\*/|//[^\n]*)|(?P<number>-?[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|"
    r"(?P<mark><=|[\[\](){},:#*?])",
    re.DOTALL,
)
NO_PARENTHESES = re.compile(r"[^()]*")


def _shown_character(character: str) -> str:
    """A character for an error message, which says of one that nobody sees what it is."""
    if character.isprintable():
        return repr(character)
    name = "byte order mark" if character == "\ufeff" else unicodedata.name(character, "control character").lower()
    return f"{character!r}, the invisible {name}: remove it"


class Reader:
    """Reads one token ahead: its `kind` ("number", "name", "mark", "other" or "end"), `value` and `position`."""

    def __init__(self, text: str, what: str = "shape"):
        if not isinstance(text, str):
            raise TypeError(f"{what} text must be a str, not {type(text).__name__}")
        self.text = text
        self.go(0)

    def go(self, position: int) -> None:
        """Continue at a position."""
        self._next = position
        self.advance()

    def advance(self) -> str:
        """Step over the current token and return its text; `after` is the position where it ended."""
        taken, self.after = getattr(self, "value", ""), self._next
        while True:
            self.position = self._next
            if self._next >= len(self.text):
                self.kind, self.value = "end", ""
                return taken
            match = TOKEN.match(self.text, self._next)
            if not match:
                if self.text.startswith("/*", self._next):
                    raise self.error("a comment is not closed")
                self.kind, self.value = "other", self.text[self._next]
                return taken
            self._next = match.end()
            if match.lastgroup != "skip":
                self.kind, self.value = match.lastgroup or "", match.group()
                return taken

    def ahead(self, mark: str) -> bool:
        """True when a mark comes next."""
        return self.kind == "mark" and self.value == mark

    def layout_ahead(self) -> bool:
        """True when the brace of a layout comes next."""
        return self.ahead("{")

    def accept(self, mark: str) -> bool:
        """Step over a mark if it comes next."""
        return self.ahead(mark) and bool(self.advance())

    def accept_name(self, name: str) -> bool:
        """Step over a name if it comes next."""
        return self.kind == "name" and self.value == name and bool(self.advance())

    def mark(self, mark: str) -> None:
        """Step over a mark, which must come next."""
        if not self.accept(mark):
            raise self.error(f"expected {mark!r}")

    def take(self, kind: str, what: str) -> str:
        """The text of the next token, which must be of a kind; `what` names it in the error."""
        if self.kind != kind:
            raise self.error(f"expected {what}")
        return self.advance()

    def number(self, what: str, least: int = 0, most: int | None = None) -> int:
        """The next number, which must be in least..most."""
        position, digits = self.position, self.take("number", what)
        if digits.startswith("-"):
            raise self.error(f"{what} cannot be negative", position)
        digits = digits.lstrip("0")  # int() refuses thousands of digits, zeros included
        if len(digits) > MAX_DIGITS or int(digits or "0") >= 2**63:
            raise self.error(f"{what} of {len(digits)} digits does not fit in 63 bits", position)
        value = int(digits or "0")
        if value < least or (most is not None and value > most):
            raise self.error(
                f"{what} must be {f'in {least}..{most}' if most is not None else f'at least {least}'}", position
            )
        return value

    def listed(self, read: Callable[[], Made], close: str = "") -> list[Made]:
        """What `read` reads once or more, with commas between; also nothing, where the mark `close` comes next."""
        if close and self.ahead(close):
            return []
        values = [read()]
        while self.accept(","):
            values.append(read())
        return values

    def enclosed(self, read: Callable[[], Made]) -> Made:
        """What `read` reads in parentheses."""
        self.mark("(")
        value = read()
        self.mark(")")
        return value

    def parenthesis(self) -> tuple[str, int]:
        """The raw text in parentheses, which has none inside, and its position."""
        if not self.ahead("("):
            raise self.error("expected '('")
        start = self._next
        close = NO_PARENTHESES.match(self.text, start).end()  # type: ignore[union-attr]  # it matches any text
        if not self.text.startswith(")", close):
            raise self.error("expected ')'", close)
        self.go(close + 1)
        return self.text[start:close].strip(), start

    def built(self, position: int, make: Callable[[], Made]) -> Made:
        """The result of `make`; its LayoutError becomes one that also shows the text, cut off when it is long."""
        try:
            return make()
        except LayoutError as error:
            message = checks.clipped(str(error), 500)
            raise ShapeTextError(f"{message}, at character {position} of {self.shown(position)}", position) from None

    def end(self) -> None:
        """Error unless the text ends here."""
        if self.kind != "end":
            raise self.error("expected the end")

    def error(self, message: str, position: int | None = None) -> ShapeTextError:
        """An error that points at a position, by default that of the next token."""
        position = self.position if position is None else position
        next_one = _shown_character(self.text[position]) if position < len(self.text) else "the end"
        return ShapeTextError(f"{message}, at character {position} ({next_one}) of {self.shown(position)}", position)

    def shown(self, position: int) -> str:
        """The text for an error message: of long text only the part around a position."""
        start, stop = max(position - 60, 0), position + 60
        if len(self.text) <= 120:
            start, stop = 0, len(self.text)
        return repr("..." * (start > 0) + self.text[start:stop] + "..." * (stop < len(self.text)))
