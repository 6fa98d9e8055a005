"""Runs of an open file that loops give, moved to or from places in memory that loops give too.

There are three ways, and the lengths and gaps of the runs say which:

    long runs               one call of the system for each, straight to or from memory
    short ones without      many of them in one call, to or from a buffer of `SCRATCH` bytes; NumPy moves them between
     gaps, or with small     that and memory.  What lies in gaps is read too, but never written
    short ones far apart    one call for each, to or from such a buffer, or memory where the runs are neighbours there
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

Loops = tuple[tuple[int, int], ...]  # count and stride of each, most major first; strides may be negative
View = np.ndarray[Any, np.dtype[np.uint8]]
# Moves runs of one length between memory, where they are neighbours, and places (int64) of a file.
Call = Callable[[BinaryIO, memoryview, np.ndarray, int], None]

SCRATCH = 1 << 18  # bytes, of each thread: half of the nearest cache that is large enough
SIEVE = 1 << 11  # bytes from run to run: to read as much takes as long as another call of the system
LONG = 1 << 16  # bytes of a run that is not worth a second copy
_kept = threading.local()


class Nest(NamedTuple):
    """Runs of one length in a file: the same loops, most major first, from each of some places on.

    starts   int64, of two axes
    """

    stream: BinaryIO
    starts: np.ndarray
    loops: Loops
    length: int


class OneCall(NamedTuple):
    """What one call of the system moves: the runs of the innermost loops, and in between their gaps.

    outer   how many loops are left
    low     the first byte, from the first run on: negative for a negative stride
    size    bytes
    most    if the innermost loop of the others is cut into so many runs at a time, it belongs to the unit too; or 0
    """

    outer: int
    low: int
    size: int
    most: int


def move_nest(nest: Nest, view: View, call: Call, *, writes: bool) -> None:
    """Move the runs of a nest between a file and memory.

    view   of memory: the axes of `starts`, those of the loops, and the bytes of a run
    call   reads or writes
    """
    if not view.size:
        return
    if nest.length >= LONG:
        _move_directly(nest, view, call)
        return
    unit = _unit(nest, writes)
    if unit.most:
        _move_in_parts(nest, view, call, unit.outer + 1, unit.most, writes)
    elif unit.outer == len(nest.loops) and view.flags.c_contiguous:
        call(nest.stream, view.reshape(-1).data, places_of(nest.starts, nest.loops), nest.length)
    elif unit.size * (units := math.prod(view.shape[: unit.outer + 2])) > SCRATCH and units > 1:
        axis = next(axis for axis, size in enumerate(view.shape) if size > 1)
        most = max(SCRATCH // (unit.size * units // view.shape[axis]), 1)
        _move_in_parts(nest, view, call, axis, most, writes)
    else:
        _move_through_scratch(nest, view, call, unit, writes)


def places_of(starts: np.ndarray, loops: Loops) -> np.ndarray:
    """The offsets of all runs.

    >>> places_of(np.array([100, 200]), ((2, 8), (2, -1))).tolist()
    [100, 99, 108, 107, 200, 199, 208, 207]
    """
    for count, stride in loops:
        starts = starts[..., np.newaxis] + np.arange(count, dtype=np.int64) * stride
    return starts.reshape(-1)


def _unit(nest: Nest, writes: bool) -> OneCall:
    low, size = 0, nest.length
    for outer, (count, stride) in zip(range(len(nest.loops) - 1, -1, -1), reversed(nest.loops)):
        step = abs(stride)
        if count > 1 and step != size and (writes or step > SIEVE):
            return OneCall(outer + 1, low, size, 0)
        if count > 1:
            most = (SCRATCH - size) // step + 1
            if most < count:
                return OneCall(outer + 1, low, size, most if most > 1 else 0)
            low, size = low + min(stride, 0) * (count - 1), size + step * (count - 1)
    return OneCall(0, low, size, 0)


def _move_directly(nest: Nest, view: View, call: Call) -> None:
    places = places_of(nest.starts, nest.loops)
    if view.flags.c_contiguous:
        call(nest.stream, view.reshape(-1).data, places, nest.length)
        return
    for number, index in enumerate(itertools.product(*map(range, view.shape[:-1]))):
        call(nest.stream, view[index].data, places[number : number + 1], nest.length)


def _move_in_parts(nest: Nest, view: View, call: Call, axis: int, most: int, writes: bool) -> None:
    """Move at most so many along an axis of the view at a time."""
    for begin in range(0, view.shape[axis], most):
        end, starts, loops = min(begin + most, view.shape[axis]), nest.starts, [*nest.loops]
        if axis < starts.ndim:
            starts = starts[begin:end] if axis == 0 else starts[:, begin:end]
        else:
            _, stride = loops[axis - starts.ndim]
            loops[axis - starts.ndim] = end - begin, stride
            starts = starts + begin * stride
        part = nest._replace(starts=starts, loops=tuple(loops))
        move_nest(part, view[(slice(None),) * axis + (slice(begin, end),)], call, writes=writes)


def _move_through_scratch(nest: Nest, view: View, call: Call, unit: OneCall, writes: bool) -> None:
    outer, inner = view.shape[: unit.outer + 2], nest.loops[unit.outer :]
    places = places_of(nest.starts, nest.loops[: unit.outer]) + unit.low
    scratch = _scratch(unit.size * places.size)
    strides = [unit.size * math.prod(outer[axis + 1 :]) for axis in range(len(outer))]
    # One opaque item for each run: NumPy moves those of 1, 2, 4, 8 and 16 bytes as words, and copies longer ones whole.
    item = np.dtype(f"V{nest.length}")
    runs = np.ndarray(view.shape[:-1], item, scratch, -unit.low, (*strides, *(stride for _, stride in inner)))
    memory = view.view(item)[..., 0]
    if writes:
        np.copyto(runs, memory)
    call(nest.stream, scratch.data, places, unit.size)
    if not writes:
        np.copyto(memory, runs)


def _scratch(nbytes: int) -> np.ndarray:
    """The buffer of this thread: the system would zero new memory each time, which takes longer than the copy."""
    kept: np.ndarray | None = getattr(_kept, "scratch", None)
    if kept is None or kept.size < nbytes:
        kept = _kept.scratch = np.empty(max(nbytes, SCRATCH), np.uint8)
    return kept[:nbytes]
