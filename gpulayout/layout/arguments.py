"""Shapes as arguments: every public function takes a `Shape` or its text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from gpulayout.layout.checks import are_sizes, shown, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import ShapeTextError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.other_shapes import AnyShape
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_any_shape, parse_array_shape

LONGEST_KEPT = 512  # characters; the value of a longer text may take 200 KB or more, so it is not cached
Parsed = TypeVar("Parsed")


def _kept(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """`parse` with a cache for short texts.

    Parsing one takes longer than all else in a call on a small buffer.  A value takes about 3 KB, or 34 KB for 250
    dimensions: 35 MB at most.
    """
    kept = functools.lru_cache(maxsize=1024)(parse)
    return lambda text: kept(text) if len(text) <= LONGEST_KEPT else parse(text)


_parsed, parsed_layout = _kept(parse_array_shape), _kept(parse_layout)


def as_shape(value: Shape | str, role: str = "shape") -> Shape:
    """A shape from a shape or its text; TypeError for anything else.

    >>> str(as_shape("f32[2,3]"))
    'f32[2,3]{1,0}'
    """
    if type(value) is Shape:
        return value
    if isinstance(value, str):
        if "->" in value and is_only_layout(value):
            raise ShapeTextError(
                f"{role} {value_text(value)} is a pattern: write the whole shape; gl.plan(shape, pattern).target is "
                "one, for the shape of the array before the pattern"
            )
        if value.lstrip().startswith("{"):
            raise ShapeTextError(
                f"{role} {value_text(value)} is only a layout: write the whole shape, such as 'f32[2,3]{{0,1}}'"
            )
        if value.isidentifier() and value not in list(ElementType):
            raise ShapeTextError(f"{role} {value_text(value)} is not a shape: write one, such as 'f32[2,3]{{0,1}}'")
        return _parsed(value)
    if isinstance(value, Shape):
        return value
    raise TypeError(f"{role} must be a Shape or its text, not {type(value).__name__}{_hint(value)}")


def _hint(value: object) -> str:
    """What to write instead of a value that is not a shape, or nothing."""
    if isinstance(value, (tuple, list)) and are_sizes(value):
        return f": write gl.Shape('f32', {shown(value)}) or its text"
    if isinstance(value, Layout):
        return f": {value} is only a layout, write the whole shape, such as 'f32[2,3]{{0,1}}'"
    if hasattr(value, "__dlpack__"):
        return ": arrays come before shapes, and gl.shape_of(array) is the shape of one"
    return ""


def is_only_layout(value: object) -> bool:
    """True for a `Layout` and for text without brackets: the text of every array's shape has them, and (), that of a
    tuple, is no layout either.
    """
    if not isinstance(value, str):
        return isinstance(value, Layout)
    return "[" not in value and (not value.lstrip().startswith("(") or "->" in value)


def as_any_shape(value: AnyShape | str, role: str = "shape") -> AnyShape:
    """A shape of any kind from a shape or its text; TypeError for anything else.

    >>> str(as_any_shape("(f32[2], token[])"))
    '(f32[2]{0}, token[])'
    """
    if isinstance(value, str):
        return parse_any_shape(value)
    if isinstance(value, AnyShape):
        return value
    raise TypeError(f"{role} must be a shape or its text, not {type(value).__name__}")
