"""Keys of an index: the whole numbers, slices and `...` between brackets, as parts of each dimension."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gpulayout.layout.checks import counted, type_text, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape

Part = int | tuple[int, int, int]  # of one dimension: a coordinate; or the first one, the number of them and the step


def parts_of(key: tuple[Any, ...], shape: Shape) -> tuple[Part, ...]:
    """One part for every dimension."""
    entries = zip(_entries(key, shape), shape.bounds)
    return tuple([_part(entry, axis, size, shape) for axis, (entry, size) in enumerate(entries)])


def _entries(key: tuple[Any, ...], shape: Shape) -> list[Any]:
    """What a key has for each dimension: `...` and what is not written are whole slices."""
    rank, ellipses = shape.rank, [axis for axis, entry in enumerate(key) if entry is Ellipsis]
    given = len(key) - len(ellipses)
    if len(ellipses) > 1:
        raise IndexError(f"an index has at most one '...', but that of {shape} has {len(ellipses)}")
    if given > rank:
        raise IndexError(f"an index of {given} axes for {shape}, which has {counted(rank, 'dimension')}")
    at = ellipses[0] if ellipses else given
    return [*key[:at], *[slice(None)] * (rank - given), *key[at + 1 :]]


def _part(entry: Any, axis: int, size: int, shape: Shape) -> Part:
    if isinstance(entry, slice):
        taken = range(size)[entry]
        return taken.start, len(taken), taken.step if len(taken) > 1 else 1  # a step over all may be any number
    try:
        if isinstance(entry, (bool, np.bool_)):
            raise TypeError
        coordinate = operator.index(entry)
    except TypeError:
        raise TypeError(
            f"an index of a gl.Array has whole numbers, slices and '...', but for axis {axis} it has "
            f"{'None' if entry is None else type_text(entry)}: index the N-d array, .logical()"
        ) from None
    if not -size <= coordinate < size:
        raise IndexError(f"index {coordinate} is out of bounds for axis {axis} of {shape}, whose size is {size}")
    return coordinate + size if coordinate < 0 else coordinate


def box_of(key: Any, shape: Shape, *, within: bool = False) -> tuple[tuple[int, int], ...]:
    """A key of slices as a box: for each dimension the first coordinate, and one past the last.

    LayoutError for numbers, which would drop a dimension, and for other steps than 1; TypeError for what is no slice.

    within   also LayoutError for slices that are cut off at the end of the array, or end before they begin
    """
    box, bounds = [], shape.bounds
    entries = key if type(key) is tuple else (key,)
    if len(entries) != len(bounds) or ... in entries:
        entries = tuple(_entries(entries, shape))
    for axis, (entry, size) in enumerate(zip(entries, bounds)):
        if not isinstance(entry, slice):
            raise _no_slice(entry, axis, size, shape)
        if entry.step is not None and not (type(entry.step) is int and entry.step == 1):
            where = _where(axis, shape)
            raise LayoutError(f"box has a slice of step {value_text(entry.step)} {where}: write one without a step")
        try:
            first, last, _ = entry.indices(size)
        except TypeError:
            where = _where(axis, shape)
            raise TypeError(f"box has {value_text(entry)} {where}: its ends are whole numbers or None") from None
        ends = [end for end in (entry.start, entry.stop) if end is not None]
        if within and (first > last or any(not -size <= end <= size for end in ends)):
            raise LayoutError(f"box has {value_text(entry)} {_where(axis, shape)}: its size is {size}")
        box.append((first, last if last > first else first))
    return tuple(box)


def _no_slice(entry: Any, axis: int, size: int, shape: Shape) -> Exception:
    """The error of an entry of a box that is no slice."""
    where = _where(axis, shape)
    if isinstance(entry, int) and not isinstance(entry, bool):
        first = max(entry + size, 0) if entry < 0 else entry
        text = f"a box keeps every dimension, write slice({first}, {first + 1})"
        return LayoutError(f"box has the number {entry} {where}: {text}")
    return TypeError(f"box has {value_text(entry)} {where}: write slices, such as (slice(0, 512), ...)")


def _where(axis: int, shape: Shape) -> str:
    return f"for axis {axis} of {shape}"  # only of an error: the text of a shape takes longer than a small box
