"""What `explain` calls the axes of a move: by the dimensions, or by the parts that a pattern splits a dimension into.

`(h=8 d) s -> h s d` makes of f32[32,16] the target f32[32,16]{1,0:T(4,1)}.  Its digits of dimension 0 are d, with 4
places a stride of 1 apart, and h, with 8 a stride of 64 apart.  So an axis with a step of 1 place is d, not `(h d)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpulayout.layout.digits import Digit
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.move import Axis
from gpulayout.moves.pieces import AnyMove


class NamedDigit(NamedTuple):
    """A part of a dimension, and the digit of the target that holds it."""

    name: str
    digit: Digit


def axis_labels(move: AnyMove, target: Shape, labels: Sequence[str]) -> list[str]:
    """A label for every axis of a move to `target`, made of those of the dimensions that it covers.

    labels   of the dimensions; `(h d)` is one that a pattern splits

    >>> from gpulayout import plan
    >>> split = plan("f32[32,16]", "(h=8 d) s -> h s d")
    >>> axis_labels(split.move, split.target, split.names)
    ['d', 's', 'h']
    """
    parts = {dim: _parts(dim, label, target) for dim, label in enumerate(labels) if label.startswith("(")}
    places = 8 / target.bits_per_element if move.stride_unit == "byte" else 1  # in a unit of the strides
    found = []
    for axis, dims in zip(move.axes, move.dimensions):
        names = [_covered(axis, parts.get(dim, ()), places) or labels[dim] for dim in reversed(dict.fromkeys(dims))]
        found.append("*".join(names) or "-")
    return found


def _parts(dim: int, label: str, target: Shape) -> list[NamedDigit]:
    """The parts of a dimension, the most major first; none if some of them are one digit of the target."""
    names = label.strip("()").split()
    digits = [digit for digit in stride_table(target).digits if digit.dim == dim]
    if len(names) != len(digits):
        return []
    return list(map(NamedDigit, names, sorted(digits, key=lambda digit: digit.step, reverse=True)))


def _covered(axis: Axis, parts: Sequence[NamedDigit], places: float) -> str:
    """The parts whose places in the target are among those of an axis."""
    first = axis.target_stride * places
    end = first * axis.extent
    return "*".join(name for name, digit in parts if digit.stride < end and first < digit.stride * digit.extent)
