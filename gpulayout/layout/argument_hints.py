"""Arguments one step away from right ones, such as Tile(8, 128): the error says what to write instead."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import numbers
from collections.abc import Callable
from typing import Any, TypeVar

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutTypeError

Made = TypeVar("Made")
Slip = Callable[[type, tuple[Any, ...], dict[str, Any]], str | None]


def corrects(slip: Slip) -> Callable[[type[Made]], type[Made]]:
    """A decorator for classes: LayoutTypeError when `slip` has something to say about the arguments of the
    constructor.
    """

    def decorate(made: type[Made]) -> type[Made]:
        init: Callable[..., None] = made.__init__

        @functools.wraps(init)
        def __init__(self: Any, *values: Any, **fields: Any) -> None:
            problem = slip(made, values, fields)
            if problem:
                raise LayoutTypeError(problem)
            init(self, *values, **fields)

        made.__init__ = __init__  # type: ignore[method-assign]
        return made

    return decorate


def of_one_sequence(made: type, values: tuple[Any, ...], fields: dict[str, Any]) -> str | None:
    """The slip of a class whose only argument without a name is a sequence.

    >>> from gpulayout import Tile
    >>> Tile(8, 128)
    Traceback (most recent call last):
        ...
    gpulayout.LayoutTypeError: dimensions of a Tile must be one sequence, not 2 arguments: write gl.Tile((8, 128))
    """
    if len(values) < 2:
        return None
    field = next(iter(dataclasses.fields(made))).name
    return f"{field} of a {made.__name__} must be one sequence, not {len(values)} arguments: write gl.{made.__name__}({checks.shown(values)})"


def of_layout(made: type, values: tuple[Any, ...], fields: dict[str, Any]) -> str | None:
    """Dimension numbers one by one, other fields without their names, or text."""
    if isinstance(next(iter(values), 0), numbers.Integral):
        return of_one_sequence(made, values, fields)
    first = values[0]
    if len(values) > 1:
        return (
            f"a Layout takes minor_to_major alone without a name, not {len(values)} arguments: write the name of the field before "
            f"{checks.value_text(values[1])}, such as padded_dimensions= or tiles="
        )
    if isinstance(first, str) and "{" in first:
        return f"minor_to_major {checks.value_text(first)} is the text of a layout: write gl.parse_layout({checks.value_text(first)})"
    return None


def of_shape(made: type, values: tuple[Any, ...], fields: dict[str, Any]) -> str | None:
    """Sizes one by one, or the text of a whole shape."""
    if len(values) == 1 and isinstance(values[0], str) and "[" in values[0]:
        text = checks.value_text(values[0])
        return f"element_type {text} is the text of a shape: write gl.parse_shape({text})"
    sizes = tuple(map(int, itertools.takewhile(lambda value: isinstance(value, numbers.Integral), values[1:])))
    if sizes:
        return f"dimensions of a Shape must be one sequence, not {checks.counted(len(sizes), 'number')}: write {checks.shown(sizes)}"
    return None
