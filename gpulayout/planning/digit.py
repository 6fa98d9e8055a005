"""A digit: a piece of a coordinate, and its place in a number that is put together from such pieces.

    number      += value // step % extent * stride          the digit in the number
    value       += number // stride % extent * step         the number taken apart again
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Digit(NamedTuple):
    """One digit of a number, above all of the linear index; `stride` is then in elements of the buffer.

    dim    a logical dimension; from the rank on, one of the table's `numbers`
    """

    dim: int
    step: int
    extent: int
    stride: int


def number_of(digits: Iterable[Digit], values: Sequence[int]) -> int:
    """The number that these pieces of `values` make.

    >>> number_of([Digit(0, 1, 3, 1), Digit(1, 1, 5, 3)], (1, 2))
    7
    """
    return sum(values[d.dim] // d.step % d.extent * d.stride for d in digits)


def take_apart(number: int, digits: Iterable[Digit], values: list[int]) -> None:
    """Add every digit of a number to the value that it is a piece of.

    >>> values = [0, 0]
    >>> take_apart(7, [Digit(0, 1, 3, 1), Digit(1, 1, 5, 3)], values)
    >>> values
    [1, 2]
    """
    for d in digits:
        values[d.dim] += number // d.stride % d.extent * d.step


def size_of(digits: Iterable[Digit]) -> int:
    """How many values a number of these digits has.

    >>> size_of([Digit(0, 1, 3, 1), Digit(1, 1, 5, 3)]), size_of([])
    (15, 1)
    """
    return math.prod(digit.extent for digit in digits)
