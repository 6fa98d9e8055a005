"""CuTe layouts as C++ types, which compilers and profilers print.

    Layout<Shape<_4,_8>,Stride<_8,_1>>                                             (4,8):(8,1)
    cute::Layout<cute::tuple<cute::C<4>, cute::C<8> >, cute::tuple<cute::C<8>, cute::C<1> > >
    Layout<tuple<tuple<C<2>,C<2>>,C<3>>, tuple<tuple<C<1>,C<4>>,C<2>>>            ((2,2),3):((1,4),2)

The type of a number that is known only at run time, such as `int`, does not have its value: it is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpulayout.layout.checks import counted
from gpulayout.layout.errors import ShapeTextError
from gpulayout.layout.text_reader import Reader

MAX_DEPTH = 34  # of angle brackets: 32 levels of tuples in Layout<...>
_TUPLES = ("tuple", "Shape", "Stride", "Coord", "Step", "Tile")
_CONSTANTS = ("C", "Int", "constant", "integral_constant")
_TOKEN = re.compile(r"(?P<name>[A-Za-z_]\w*)|(?P<number>\(\w+\)\s*-?[0-9]+|-?[0-9]+)[uUlL]*|(?P<mark>[<>,])|(?P<end>$)")
_BETWEEN = re.compile(r"(?:\s|\b(?:cute|std|const|struct|class)\b|::?|&)*")
_RUN_TIME = re.compile("(?:unsigned|signed|long|short|int|char|size_t|u?int(?:8|16|32|64|128)_t|auto)")


class _Type(NamedTuple):
    """A name or a number, with what stands in its angle brackets."""

    text: str
    position: int
    arguments: list[_Type] | None = None


def notation_of_type(text: str) -> str:
    """The notation of a layout for its C++ type; LayoutError for other types.

    >>> notation_of_type("Layout<Shape<_4,Shape<C<2>,Int<3>>>, Stride<_6,Stride<_3,_1>>>")
    '(4,(2,3)):(6,(3,1))'
    """
    reader = _TypeReader(text)
    layout = reader.type(0)
    if reader.kind != "end":
        raise reader.error("expected the end")
    name, position, arguments = layout
    if name != "Layout" or arguments is None:
        return reader.tree(layout)
    if len(arguments) not in (1, 2):
        raise reader.error(f"Layout has {counted(len(arguments), 'type')}, not a Shape and a Stride", position)
    return ":".join(map(reader.tree, arguments))


def _is_run_time(name: str) -> bool:
    return bool(_RUN_TIME.fullmatch(name.partition(" ")[0]))


class _TypeReader:
    """Reads one token ahead, with its `kind`, `value` and `position`; steps over namespaces and `const`."""

    def __init__(self, text: str):
        self.text = text
        self._next = 0
        self.advance()

    def error(self, message: str, position: int | None = None) -> ShapeTextError:
        return Reader(self.text, "CuTe layout").error(message, self.position if position is None else position)

    def advance(self) -> str:
        taken = getattr(self, "value", "")
        self.position = _BETWEEN.match(self.text, self._next).end()  # type: ignore[union-attr]  # it matches any text
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            raise self.error("expected a type")
        self.kind, self.value, self._next = match.lastgroup, match[match.lastgroup or 0], match.end()
        return taken

    def type(self, depth: int) -> _Type:
        """The type that comes next, inside so many angle brackets."""
        if depth > MAX_DEPTH:
            raise self.error(f"more than {counted(MAX_DEPTH, 'level')} of angle brackets")
        if self.kind not in ("name", "number"):
            raise self.error("expected a type")
        position, name = self.position, self.advance()
        while _is_run_time(name) and _is_run_time(self.value):  # long long, unsigned int
            name = f"{name} {self.advance()}"
        if self.value != "<":
            return _Type(name, position)
        self.advance()
        arguments: list[_Type] = []
        while self.value != ">" or arguments:
            arguments.append(self.type(depth + 1))
            if self.value != ",":
                break
            self.advance()
        if self.value != ">":
            raise self.error("expected '>'")
        self.advance()
        return _Type(name, position, arguments)

    def tree(self, of: _Type) -> str:
        """The notation of sizes or strides: a number, or numbers in parentheses."""
        name, position, arguments = of
        if name in _TUPLES and arguments is not None:
            return f"({','.join(map(self.tree, arguments))})"
        if name in _CONSTANTS and arguments:
            name = arguments[-1].text.rpartition(")")[2].strip()
        if number := re.fullmatch("_?(-?[0-9]+)", name):
            return number[1]
        if name in ("ScaledBasis", "E"):
            raise self.error("basis strides such as 1@0 are coordinates, not places in memory", position)
        if _is_run_time(name):
            raise self.error(f"{name} is a number that is known only at run time: write its value", position)
        raise self.error(
            f"{name[:40]!r} is neither a number, such as _4 or C<4>, nor Shape<...> or Stride<...>", position
        )
