"""Numbers by name, for recipes: given by the caller, read from config.json, or computed from others.

    [values]
    heads = 'num_attention_heads'
    head_dim = ['head_dim', 'hidden_size // heads']     # the first alternative whose names are all known
    kv_ranks = 'min(ranks, num_key_value_heads)'

An expression has whole numbers, names, dotted names of config.json, + - * // min max, comparisons, also with a text in
quotes, and brackets.  In the texts of a recipe, ${head_dim} stands for the number.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

MOST_EXPRESSION = 200  # characters
_OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max}
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


class UnknownName(LookupError):
    """A name that has no value."""


def evaluated(text: str, value_of: Callable[[str], Any]) -> Any:
    """The value of an expression; `LayoutError` for what is none, and `UnknownName` from `value_of`.

    value_of   gives the value of a name, which may have dots

    >>> evaluated("min(ranks, kv) * (size // 2)", {"ranks": 4, "kv": 2, "size": 9}.__getitem__)
    8
    """
    try:
        if len(text) > MOST_EXPRESSION:
            raise ValueError
        return _value(ast.parse(text.strip(), mode="eval").body, value_of)
    except LayoutError:  # of a name
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ZeroDivisionError) as error:
        why = ": it divides by 0" if isinstance(error, ZeroDivisionError) else ""
        raise LayoutError(
            f"{value_text(clipped(text, 80))} has no value{why}: write whole numbers, names, + - * // min max and "
            "comparisons"
        ) from None


def _value(node: ast.expr, value_of: Callable[[str], Any]) -> Any:
    match node:
        case ast.Constant(value=int() | str()):
            return node.value
        case ast.Name() | ast.Attribute():
            return value_of(_dotted(node))
        case ast.UnaryOp(op=ast.USub()):
            return -_whole(node.operand, value_of)
        case ast.BinOp() if type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](_whole(node.left, value_of), _whole(node.right, value_of))
        case ast.Compare(ops=[operation], comparators=[right]) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](_value(node.left, value_of), _value(right, value_of))
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS and node.args:
            return _FUNCTIONS[name](*(_whole(each, value_of) for each in node.args))
    raise ValueError


def _whole(node: ast.expr, value_of: Callable[[str], Any]) -> int:
    """The value of a part that must be a whole number."""
    value = _value(node, value_of)
    if type(value) is not int or abs(value) >= 1 << 63:
        raise ValueError
    return value


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{_dotted(node.value)}.{node.attr}"
    raise ValueError


class RecipeValues:
    """The values of one run, each found when it is asked for.

    given        by the caller, by name
    definitions  alternatives of expressions, by name
    field        gives a field of config.json by its dotted name, or raises `UnknownName`
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        definitions: Mapping[str, Sequence[str]],
        field: Callable[[str], Any],
        missing: Callable[[str], str],
    ) -> None:
        """`missing` makes the message for a value that cannot be found."""
        self._known, self._definitions, self._field, self._missing = dict(given), definitions, field, missing
        self._asked: list[str] = []

    def __getitem__(self, name: str) -> Any:
        """A value; `LayoutError` for one that nothing says, and for a name that there is not."""
        try:
            return self._find(name)
        except UnknownName:
            raise LayoutError(self._missing(name)) from None

    def give(self, **values: Any) -> None:
        """More values, which are known later."""
        self._known.update(values)

    def expression(self, text: str) -> Any:
        """The value of an expression; `LayoutError` where a name in it has none."""
        return evaluated(text, self.__getitem__)

    def _find(self, name: str) -> Any:
        if name not in self._known:
            if name in self._asked:
                raise LayoutError(f"the value {name} is defined by itself: {' > '.join([*self._asked, name])}")
            if name not in self._definitions:
                return self._field(name)
            self._asked.append(name)
            try:
                self._known[name] = self._of_alternatives(name)
            finally:
                self._asked.pop()
        return self._known[name]

    def _of_alternatives(self, name: str) -> Any:
        for text in self._definitions[name]:
            try:
                return evaluated(text, lambda each: self._field(each) if each == name else self._find(each))
            except UnknownName:
                continue
        raise UnknownName(name)

    def filled(self, value: Any) -> Any:
        """A value of a recipe with its ${names} replaced, in texts, lists and tables; a text that is one name alone
        becomes its value.
        """
        if isinstance(value, str):
            if whole := _REFERENCE.fullmatch(value):
                return self.expression(whole[1])
            return _REFERENCE.sub(lambda found: _text(self.expression(found[1])), value)
        if isinstance(value, (list, tuple)):
            return [self.filled(each) for each in value]
        if isinstance(value, Mapping):
            return {key: self.filled(each) for key, each in value.items()}
        return value


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
