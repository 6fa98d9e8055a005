"""Text as tokens: what the readers of layouts and shapes share.

Blanks and /* */ and // comments may stand between tokens.  Every character is stepped over once, so text may be of any
length: time and memory grow with it and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from gpulayout.layout.errors import LayoutError, ShapeTextError

MAX_DIGITS = 19
Made = TypeVar("Made")

_TOKEN = re.compile(
    r"(?P<skip>[ \t\r\n]+|/\*.*?\*/|//[^\n]*)|(?P<number>-?[0-9]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|"
    r"(?P<mark><=|[\[\](){},:#*?])",
    re.DOTALL,
)
_NO_PARENTHESES = re.compile(r"[^()]*")


class Reader:
    """One token ahead: `kind` ("number", "name", "mark" or "end"), `value`, and `position` in the text."""

    def __init__(self, text: str, what: str = "shape"):
        if not isinstance(text, str):
            raise TypeError(f"{what} text must be a str, not {type(text).__name__}")
        self.text = text
        self.go(0)

    def go(self, position: int) -> None:
        """Read on from a position."""
        self._next = position
        self.advance()

    def advance(self) -> str:
        """Step over the current token and return its text; `after` is where it ended."""
        taken, self.after = getattr(self, "value", ""), self._next
        while True:
            self.position = self._next
            if self._next >= len(self.text):
                self.kind, self.value = "end", ""
                return taken
            match = _TOKEN.match(self.text, self._next)
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
        return self.kind == "mark" and self.value == mark

    def layout_ahead(self) -> bool:
        """True when the brace of a layout comes next."""
        return self.ahead("{")

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

    def number(self, what: str, least: int = 0, most: int | None = None) -> int:
        position, digits = self.position, self.take("number", what)
        if digits.startswith("-"):
            raise self.error(f"{what} cannot be negative", position)
        digits = digits.lstrip("0")  # int() refuses thousands of digits, zeros included
        if len(digits) > MAX_DIGITS or int(digits or "0") >= 2**63:
            raise self.error(f"{what} of {len(digits)} digits does not fit 63 bits", position)
        value = int(digits or "0")
        if value < least or (most is not None and value > most):
            raise self.error(
                f"{what} must be {f'in {least}..{most}' if most is not None else f'at least {least}'}", position
            )
        return value

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
        """The raw text between parentheses, which hold a pad value without any, and where it starts."""
        if not self.ahead("("):
            raise self.error("expected '('")
        start, close = self._next, _NO_PARENTHESES.match(self.text, self._next).end()  # type: ignore[union-attr]
        if not self.text.startswith(")", close):
            raise self.error("expected ')'", close)
        self.go(close + 1)
        return self.text[start:close].strip(), start

    def built(self, position: int, make: Callable[[], Made]) -> Made:
        """What `make` gives; its LayoutError becomes one that also shows the text, and is cut off when it shows too
        much.
        """
        try:
            return make()
        except LayoutError as error:
            message = str(error)
            message = message if len(message) <= 500 else message[:497] + "..."
            raise ShapeTextError(f"{message}, at character {position} of {self.shown(position)}", position) from None

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
