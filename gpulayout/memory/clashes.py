"""Which of many arrays share a byte: byte ranges tell most of them apart, and strides the rest.

Slices of one array lie between each other: the left and the right half of an image overlap as ranges.  A step to the
next row is as many bytes in both.  Modulo that, the left half takes the first bytes and the right half the last, so the
two share none.  Arrays that no period tells apart are compared in pairs, which is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpulayout.memory.shared_bytes import share_bytes

Ranges = Mapping[int, tuple[int, int]]  # by the number of an array: its first byte, and one past its last


def clash(
    arrays: Sequence[Any], low: Sequence[int], high: Sequence[int], writes: Sequence[bool]
) -> tuple[int, int] | None:
    """Two arrays that share a byte, the second of them written; None when no written array shares one with another.

    low, high   where the bytes of each array begin and end
    writes      whether it is written
    """
    if not _do_ranges_overlap(np.array(low), np.array(high), np.array(writes)):
        return None
    ranges = {number: bounds for number, bounds in enumerate(zip(low, high)) if bounds[1] > bounds[0]}
    return _clash_within(ranges, arrays, writes)


def _do_ranges_overlap(low: np.ndarray, high: np.ndarray, writes: np.ndarray) -> bool:
    """True when a written range overlaps another one.

    Sorted by start, a range overlaps an earlier one exactly when it starts below the furthest end so far.
    """
    order = np.argsort(low, kind="stable")
    order = order[(high > low)[order]]  # empty arrays overlap nothing
    low, high, writes = low[order], high[order], writes[order]
    furthest = np.maximum.accumulate(high)
    furthest_written = np.maximum.accumulate(np.where(writes, high, 0))
    return bool((low[1:] < np.where(writes[1:], furthest[:-1], furthest_written[:-1])).any())


def _clash_within(ranges: Ranges, arrays: Sequence[Any], writes: Sequence[bool]) -> tuple[int, int] | None:
    """See `clash`, for some of the arrays."""
    for group in _groups(ranges, writes):
        parts = _told_apart(group, ranges, arrays, writes)
        if parts is None:
            found = _clash_of_pairs(group, ranges, arrays, writes)
        else:
            within = (_clash_within({number: ranges[number] for number in part}, arrays, writes) for part in parts)
            found = next(filter(None, within), None)
        if found is not None:
            return found
    return None


def _groups(ranges: Ranges, writes: Sequence[bool]) -> list[list[int]]:
    """Ranges that overlap, directly or through others, where one of them is written; each group in order of starts."""
    groups: list[list[int]] = []
    furthest = 0
    for number, (start, end) in sorted(ranges.items(), key=lambda each: each[1][0]):
        if not groups or start >= furthest:
            groups.append([])
            furthest = end
        groups[-1].append(number)
        furthest = max(furthest, end)
    return [group for group in groups if len(group) > 1 and any(writes[number] for number in group)]


def _told_apart(
    group: Sequence[int], ranges: Ranges, arrays: Sequence[Any], writes: Sequence[bool]
) -> list[list[int]] | None:
    """Smaller groups, such that arrays of two of them share no byte; None if no stride is a period that shows it."""
    axes = {number: [*zip(arrays[number].shape, arrays[number].strides)] for number in group}
    steps = {abs(stride) for loops in axes.values() for size, stride in loops if size > 1 and stride}
    for period in sorted(steps, reverse=True):
        within = _modulo(period, {number: ranges[number][0] for number in group}, axes, arrays)
        parts = None if within is None else _groups(within, writes)
        if parts is not None and [len(part) for part in parts] != [len(group)]:
            return parts
    return None


def _modulo(
    period: int, starts: Mapping[int, int], axes: Mapping[int, list[tuple[int, int]]], arrays: Sequence[Any]
) -> Ranges | None:
    """The bytes of arrays modulo a period, as ranges between two places that none of them crosses; None without such.

    Axes whose stride is a multiple of the period only repeat what the other axes reach.
    """
    ranges = {}
    for number, loops in axes.items():
        reach = sum((size - 1) * abs(stride) for size, stride in loops if size and stride % period)
        ranges[number] = starts[number] % period, starts[number] % period + reach + arrays[number].itemsize
    furthest = max(end for _, end in ranges.values()) - period
    for start, end in sorted(ranges.values()):
        if start >= furthest:
            return {
                number: ((low - start) % period, (low - start) % period + high - low)
                for number, (low, high) in ranges.items()
            }
        furthest = max(furthest, end)
    return None


def _clash_of_pairs(
    group: Sequence[int], ranges: Ranges, arrays: Sequence[Any], writes: Sequence[bool]
) -> tuple[int, int] | None:
    for place, later in enumerate(group):
        for earlier in group[:place]:
            if not (writes[earlier] or writes[later]) or ranges[later][0] >= ranges[earlier][1]:
                continue
            if share_bytes(arrays[earlier], arrays[later], ranges[later][0] - ranges[earlier][0]):
                return (earlier, later) if writes[later] else (later, earlier)
    return None
