"""Shapes as arguments: a `Shape`, or its text."""
from __future__ import annotations

import functools

from gpulayout.model.shape import Shape
from gpulayout.model.text import parse_shape

_parsed = functools.lru_cache(maxsize=1024)(parse_shape)


def as_shape(value: Shape | str, role: str = "shape") -> Shape:
    """A shape from a shape or its text; TypeError for anything else."""
    if type(value) is Shape:
        return value
    if isinstance(value, str):
        return _parsed(value)
    if isinstance(value, Shape):
        return value
    raise TypeError(f"{role} must be a Shape or its text, not {type(value).__name__}")
