"""Whether two strided arrays share a byte: exact, where their byte ranges only say that they may.

The planes of an array lie between each other: cache[:, 0] and cache[:, 1] overlap as ranges, but share no byte.

Each byte of an array is a sum of steps from its lowest byte: for each axis 0 to size - 1 times the stride, and 0 to
itemsize - 1 times one byte.  The other array's bytes are counted down from its highest byte, so that its steps add up
too.  Then a shared byte is a way to reach one total:

    sum of step * k = total,  0 <= k <= count        for the steps of both arrays
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

MOST_RESTS = 1000  # bounds the time of a check; where strides are multiples of each other there are 3 at a time


def share_bytes(a: Any, b: Any, distance: int) -> bool:
    """True when two arrays share a byte.  True also for strides with so little in common that it takes long to know.

    distance   bytes from the lowest byte of `a` to the lowest byte of `b`
    """
    if not (a.size and b.size):
        return False
    counts = Counter({1: a.itemsize + b.itemsize - 2})
    for array in (a, b):
        for step, count in _steps(array):
            counts[step] += count
    total = distance + sum((size - 1) * abs(stride) for size, stride in zip(b.shape, b.strides)) + b.itemsize - 1
    return _is_reached(total, counts)


def _steps(array: Any) -> list[tuple[int, int]]:
    """(step in bytes, how often at most) of the axes, with neighbours joined where no gap lies between."""
    found: list[tuple[int, int]] = []
    for step, size in sorted(
        (abs(stride), size) for size, stride in zip(array.shape, array.strides) if size > 1 and stride
    ):
        if found and step == found[-1][0] * (found[-1][1] + 1):
            step, below = found.pop()
            size *= below + 1
        found.append((step, size - 1))
    return found


def _is_reached(total: int, counts: dict[int, int]) -> bool:
    """Whether steps, each taken at most so often, can add up to a total; True if there are too many ways to try.

    The largest step first: it is taken so often that the smaller ones can reach the rest, and no further.
    """
    bytes_within = counts[1]
    common = math.gcd(*(step for step in counts if step > 1))
    if common and total % common > bytes_within:  # all elements of both lie in other parts of the same period
        return False
    below = sum(step * count for step, count in counts.items())
    rests = {total}
    for step in sorted(counts, reverse=True):
        below -= step * counts[step]
        ways = [(rest, max(0, -((below - rest) // step)), min(counts[step], rest // step)) for rest in rests]
        if sum(max(0, most - least + 1) for _, least, most in ways) > MOST_RESTS:
            return True
        rests = {rest - step * times for rest, least, most in ways for times in range(least, most + 1)}
    return 0 in rests
