"""What a copy by NumPy costs: a model of its loops, and of the caches that they read and write through.

A copy is a nest of loops, each with a count and a step in bytes in the source and in the target, inner first.  The
innermost one is NumPy's own; the outermost ones go from cache block to cache block.  For each cache, the model looks
for the first loop whose lines do not fit.  Up to there, a line stays until all its elements are copied; beyond, it is
fetched again in every pass.

f32[4096,4096] to {0,1}, in the order of the target, reads 4096 elements from as many lines before it comes back to the
first line for the next element.  That is 256 KB for a cache of 48 KB, and rows of 16384 bytes all fall into its first
set.  So each element costs a fetch from the next level.  A block of 256 x 256 elements reads 256 lines at a time, and a
scratch array spreads them over all sets.

The times are those of an AMD EPYC of 2024, fitted to 921 random relayouts of 1 to 100 MB in some 7 ways each, with one
thread.  What matters is their proportion: they choose between ways to do the same work.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence

from gpulayout.cpu.caches import LINE_BYTES, Cache, Caches
from gpulayout.moves.move import Axis

Loop = tuple[float, int, int]  # how often; bytes from one pass to the next in the source and in the target

# Nanoseconds.
CALL = 395.0  # of NumPy, for a block
INNER_LOOP, ROW = 2.2, 4.7  # to begin it; if it is one contiguous row, to copy that with memmove
ELEMENT = 0.2
LONG_ELEMENT = 1.5  # one that NumPy copies with a call of memmove
FIRST, SECOND, THIRD = 0.32, 0.25, 2.8  # a line that is not in this cache
# A processor prefetches some sequential streams.  With more, it waits for each line, and overlaps fewer waits the more
# accesses lie between them.
STREAMS = 32
PER_WAIT, MOST_WAIT = 16, 2.0


def copy_cost(
    itemsize: int,
    axes: Sequence[Axis],
    block: Sequence[int],
    scratch: Sequence[int],
    caches: Caches,
    limit: float = math.inf,
) -> float:
    """Nanoseconds for a copy in blocks of these sizes.  All lists are minor first in the target.

    scratch   strides in bytes of the array that each block goes through; () copies directly
    limit     a copy that takes this long is not looked at further: the result is then too low, but not below the limit
    """
    inner, outer = _loops(axes, block)
    blocks = math.prod([loop[0] for loop in outer])
    moved = 2 * itemsize * math.prod([axis.bound for axis in axes])
    work = math.prod([-(-axis.bound // size) for axis, size in zip(axes, block)]) * CALL * (2 if scratch else 1)
    nests = _through(inner, block, scratch) if scratch else [inner]
    work += blocks * sum([_loop_time(itemsize, loops) for loops in nests])
    once = [moved / LINE_BYTES * _missing(moved, cache) for cache in caches]
    if work + _waiting(once) >= limit:  # every line is fetched at least once
        return work + _waiting(once)
    if not scratch:
        loops = inner + outer
        lines = fetched(itemsize, loops, moved, caches)
        return work + _reading(itemsize, loops, [line[0] for line in lines]) + _waiting([line[1] for line in lines])
    into, out_of = nests
    into += [(count, source, 0) for count, source, _ in outer]  # every block goes through the same scratch array
    out_of += [(count, 0, target) for count, _, target in outer]
    filled, emptied = [fetched(itemsize, loops, moved, caches) for loops in nests]
    through = (filled[0][1] + emptied[0][0]) * FIRST
    return (
        work
        + _reading(itemsize, into, [line[0] for line in filled])
        + _waiting([line[1] for line in emptied])
        + through
    )


def _loops(axes: Sequence[Axis], block: Sequence[int]) -> tuple[list[Loop], list[Loop]]:
    """The loops in a block, and those over the blocks."""
    inner: list[Loop] = []
    outer: list[Loop] = []
    for axis, size in zip(axes, block):
        if size > 1:
            inner.append((size, axis.source_stride, axis.target_stride))
        if size < axis.bound:
            outer.append((axis.bound / size, axis.source_stride * size, axis.target_stride * size))
    return inner, outer


def _through(inner: list[Loop], block: Sequence[int], scratch: Sequence[int]) -> list[list[Loop]]:
    """The loops from the source into a scratch array, and those from there into the target."""
    steps = [step for step, size in zip(scratch, block) if size > 1]
    into = sorted([(count, source, step) for (count, source, _), step in zip(inner, steps)], key=_source_step)
    return [into, [(count, step, target) for (count, _, target), step in zip(inner, steps)]]


def _source_step(loop: Loop) -> int:
    return abs(loop[1])


def _loop_time(itemsize: int, loops: Sequence[Loop]) -> float:
    """Nanoseconds for one block without waiting for memory.  NumPy joins the innermost loops where it can."""
    length, elements, joins = 1.0, 1.0, True
    for count, source, target in loops:
        joins = joins and (source, target) == (loops[0][1] * length, loops[0][2] * length)
        length *= count if joins else 1
        elements *= count
    steps = loops[0][1:] if loops else ()
    if steps == (itemsize, itemsize):
        return elements / length * ROW
    # NumPy has a loop for 16 bytes only if one side is contiguous.
    has_loop = itemsize in (1, 2, 4, 8) or (itemsize == 16 and itemsize in steps)
    return elements / length * INNER_LOOP + elements * (ELEMENT if has_loop else LONG_ELEMENT)


def _reading(itemsize: int, loops: Sequence[Loop], lines: Sequence[float]) -> float:
    """Nanoseconds of waiting for lines of the source, given how many are not in the caches of each level."""
    if _streams(itemsize, loops) > STREAMS:
        accesses = math.prod([loop[0] for loop in loops])
        lines = [lines[0], _waits(lines[1], accesses), _waits(lines[2], accesses)]
    return _waiting(lines)


def _waiting(lines: Sequence[float]) -> float:
    first, second, third = lines
    return first * FIRST + second * SECOND + third * THIRD


def _waits(lines: float, accesses: float) -> float:
    return lines * min(max(accesses / lines / PER_WAIT, 1.0), MOST_WAIT) if lines else 0.0


def _streams(itemsize: int, loops: Sequence[Loop]) -> float:
    """How many places of the source are read in turn before one of them goes on to its neighbour."""
    if not loops:
        return 1
    nearest = min(range(len(loops)), key=lambda k: abs(loops[k][1]))
    return touched(sorted([(abs(loop[1]), loop[0]) for loop in loops[:nearest]]), itemsize)[1]


def fetched(itemsize: int, loops: Sequence[Loop], moved: int, caches: Sequence[Cache]) -> list[tuple[float, float]]:
    """For each cache, the lines of the source and of the target that are fetched into it.

    moved   bytes of both arrays; of arrays that a cache nearly holds, a part is still there from before
    """
    found: list[tuple[float, float]] = []
    passes = math.prod([loop[0] for loop in loops])
    source_steps: list[tuple[int, float]] = []
    target_steps: list[tuple[int, float]] = []
    source = target = 0.0, 1.0, 0.0, 0
    for count, source_step, target_step in loops:
        insort(source_steps, (abs(source_step), count))
        insort(target_steps, (abs(target_step), count))
        passes /= count
        source, target = touched(source_steps, itemsize), touched(target_steps, itemsize)
        while share_of(source, caches[len(found)]) + share_of(target, caches[len(found)]) > 1:
            found.append((source[0] * passes, target[0] * passes))
            if len(found) == len(caches):
                return found
    for cache in caches[len(found) :]:
        missing = _missing(moved, cache)
        found.append((source[0] * missing, target[0] * missing))
    return found


def _missing(moved: int, cache: Cache) -> float:
    """The part of arrays of `moved` bytes that a cache does not hold from before."""
    return min(max(2 * moved / cache.nbytes - 1, 0.0), 1.0)


def touched(steps: Sequence[tuple[int, float]], itemsize: int) -> tuple[float, float, float, int]:
    """What loops touch in an array: (lines, runs without gaps of a line or more, bytes of a run, largest common divisor
    of the steps between runs; 0 without any).  The steps, in bytes, are in ascending order, each with its count.
    """
    run, runs, divisor = float(itemsize), 1.0, 0
    for step, count in steps:
        if step <= LINE_BYTES or step <= run:
            run += (count - 1) * step
        else:
            runs *= count
            divisor = math.gcd(divisor, step)
    lines = run / LINE_BYTES if run % LINE_BYTES == 0 else max(run / LINE_BYTES + 0.5, 1.0)  # a run begins anywhere
    return runs * lines, runs, run, divisor


def share_of(touched: tuple[float, float, float, int], cache: Cache) -> float:
    """The touched lines as a part of those that the cache holds in the sets that they fall into.

    Rows 16384 bytes apart are 256 lines apart: of 64 sets they use one.
    """
    lines, _, run, divisor = touched
    sets = cache.sets
    if divisor:
        size = sets * LINE_BYTES
        apart = math.gcd(divisor, size) // LINE_BYTES
        if apart > 1:
            sets = min(sets, sets // apart * max(int(run) // LINE_BYTES, 1))
    return lines / (sets * cache.ways)
