"""Which copies are faster in cache blocks, and the sizes of the blocks.  Lists of axes are minor first in the target.

When the minor axes of source and target differ, each element of a target run comes from a different run of the source.
A line of the source is read again, for its next element, only after a whole run of other places.  What is fastest then
depends on how many of these places the caches keep (`cache_sets`):

- All: one copy in the order of the target.
- Many: cache blocks of as many places along the target, copied one after the other.
- Few, since their lines fall into the same sets: cache blocks that are read along the source into a small scratch
  array, whose rows fall into different sets, and written from there along the target.  That is a second copy, but
  within the second-level cache.
- If a cache block is one run of the source, the scratch array is read at the speed of a plain copy, and is best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpulayout.cpu.cache_sets import FIRST_CACHE, LINE_BYTES, PAGE_BYTES, SECOND_CACHE, TLB, places_kept
from gpulayout.moves.move import Axis

BLOCK_RUN = 256  # elements of a block along the target, and the fewest along the source
LONG_RUN = 1024  # elements along the source that are enough for a block of BLOCK_BYTES
BLOCK_BYTES = 1 << 19
LEAST_BLOCKS = 16  # at least this many cache blocks, unless they would be smaller than BLOCK_RUN x BLOCK_RUN elements
LEAST_KEPT = 128  # places; with fewer, a scratch array is faster
LEAST_BYTES = 1 << 18  # moves up to this size and of fewer than LEAST_ELEMENTS use no cache blocks,
LEAST_ELEMENTS = 1 << 16  # because they would gain less than it takes to make a scratch array
SCRATCH_BYTES = 4 << 20  # of all threads together
SMALL_SCRATCH = (
    96 << 10
)  # for moves of up to BLOCK_BYTES: malloc gives memory from 128 KB on back to the system, each time
STREAMS = 12  # sequential streams that a CPU prefetches at once
SHORT_RECORD = 16  # bytes; a cache line holds several shorter records, so a copy in the target's order is fast enough
LONG_RECORD = 128  # bytes; longer records are read at full speed from anywhere
NEAR_BYTES = 256  # neighbours less than this apart share pages and often lines
SECOND_CACHE_BYTES = 1 << 20
# Rows of a scratch array shorter than this many bytes, or twice as many when they are one run, are not spaced out.
LEAST_ROW = 256


def cache_block(
    itemsize: int, axes: Sequence[Axis], source_order: Sequence[int], threads: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(sizes of a cache block, strides of its scratch array in bytes); () without cache blocks or a scratch array.

    Of elements of 8 bytes and more, a line has few, so reading it from the second-level cache for each of them costs
    less than a second copy.  With 4 bytes that holds only where places lie on pages of their own: a copy along the
    source would stop and start again at each row.
    """
    run = axes[: source_order[0]]
    places, is_large = math.prod(axis.bound for axis in run), _size(itemsize, axes) > SECOND_CACHE_BYTES
    if is_large and _records_evict_neighbours(itemsize, run, places):
        return _block_extents(itemsize, axes, source_order, places_kept(run, SECOND_CACHE)), ()
    if not _needs_cache_blocks(itemsize, axes, source_order, places):
        return (), ()
    block = _scratch_extents(itemsize, axes, source_order, threads)
    strides = scratch_strides(itemsize, axes, source_order, block)
    if math.prod(block[: source_order[0]]) == places and _is_run(axes, source_order, block, strides):
        return block, strides
    kept = places_kept(run, FIRST_CACHE, TLB)
    if itemsize >= 4 and places_kept(run, SECOND_CACHE.keeping(2)) == places:
        if kept == places or (itemsize >= 8 and is_large):
            return (), ()
    is_paged = source_order[0] == 1 and abs(axes[0].source_stride) >= PAGE_BYTES
    if kept >= LEAST_KEPT and (itemsize >= 8 or (itemsize >= 4 and is_paged)):
        return _block_extents(itemsize, axes, source_order, min(kept, BLOCK_RUN)), ()
    return block, strides


def _size(itemsize: int, axes: Sequence[Axis]) -> int:
    return math.prod(axis.bound for axis in axes) * itemsize


def _records_evict_neighbours(itemsize: int, run: Sequence[Axis], places: int) -> bool:
    """Whether records of a fraction of a line, or of one or two, are evicted before their neighbours are read.

    A CPU fetches lines together with their neighbours.  f32[1024,2048,16] with its first two dimensions exchanged moves
    as records of 64 bytes from places 131072 bytes apart: all in one set, so that each line is fetched twice.
    """
    if not SHORT_RECORD <= itemsize <= LONG_RECORD or places == 1:
        return False
    return places_kept(run, SECOND_CACHE) < min(places, BLOCK_RUN)


def _needs_cache_blocks(itemsize: int, axes: Sequence[Axis], source_order: Sequence[int], places: int) -> bool:
    """Whether a copy in the order of the target would read too many streams of the source at once.

    Between two neighbours in the source, a copy reads the other places of a run.  Up to a megabyte everything stays in
    the second-level cache, and only lines that evict each other from the first level are a problem.  The lines of a
    larger source are also fetched only once if those of a run fit the second-level cache.  A scratch copy of elements
    of 1 or 2 bytes then costs more than waiting for that cache.
    """
    size = _size(itemsize, axes)
    if itemsize > 16 or places == 1 or (size <= LEAST_BYTES and size < LEAST_ELEMENTS * itemsize):
        return False
    step = abs(axes[0].source_stride)
    if size <= SECOND_CACHE_BYTES:
        return _evict_each_other(itemsize, step, places)
    cached = itemsize <= 2 and source_order[0] == 1 and step <= NEAR_BYTES and places * step <= SECOND_CACHE_BYTES
    return places > STREAMS and step >= SHORT_RECORD and not cached


def _evict_each_other(itemsize: int, step: int, places: int) -> bool:
    """Whether a scratch array costs less than lines that leave the first-level cache before their next element is read.

    f32[256,256]: lines are 1024 bytes apart and fall into 64 * 64 / 1024 = 4 sets.  These hold 4 * 8 = 32 lines of 256.

    NumPy then waits for the second-level cache at every element, and longer in fewer sets.  In the time of one such
    wait, some 7 bytes go through a scratch array, so with long elements only very few sets justify it.  Rows that the
    scratch array does not space out would evict each other there too.
    """
    all_sets = FIRST_CACHE.sets * LINE_BYTES
    sets = all_sets // max(math.gcd(step, all_sets), LINE_BYTES)
    worth = sets * itemsize <= (LINE_BYTES if itemsize <= 4 else LINE_BYTES // 2)
    return worth and places > FIRST_CACHE.ways * sets and step >= 2 * LEAST_ROW


# ---- sizes ---------------------------------------------------------------------------------------------------------


def _block_extents(itemsize: int, axes: Sequence[Axis], source_order: Sequence[int], places: int) -> tuple[int, ...]:
    """The sizes of a cache block without a scratch array: `places` along the target, and then as far along the source
    as BLOCK_BYTES allow.
    """
    most = max(min(BLOCK_BYTES, _size(itemsize, axes) // LEAST_BLOCKS) // itemsize, places)
    block, covered = [1] * len(axes), 1
    for k, axis in enumerate(axes[: source_order[0]]):
        block[k] = min(axis.bound, max(places // covered, 1))
        covered *= block[k]
    for k in source_order:
        block[k] = min(axes[k].bound, block[k] * max(most // math.prod(block), 1))
    return tuple(block)


def _scratch_extents(itemsize: int, axes: Sequence[Axis], source_order: Sequence[int], threads: int) -> tuple[int, ...]:
    """The sizes of a cache block with a scratch array: at first BLOCK_RUN elements along target and source.

    The block then grows along the source, to whole rows if it can, so that NumPy is called less often: between calls,
    threads wait for each other.  At last it shrinks to what a thread's share of SCRATCH_BYTES holds.

    f32[4096,4096]{1,0} to {0,1} with 2 threads, as (elements along the target, elements along the source):

        256 x 256     at first
        256 x 1024    1024 elements along the source are LONG_RUN; whole rows of 4096 would be 4 MB
        256 x 1024    in rows of 4160 bytes, of which the last has 4096: 1,064,896 bytes of 2 MB
    """
    share = max(threads, 2)
    if _size(itemsize, axes) <= BLOCK_BYTES:
        most = SMALL_SCRATCH // itemsize
    else:
        most = SCRATCH_BYTES * 4 // 5 // share // itemsize  # leaves a fifth for gaps between rows
    wanted = min(max(math.prod(axis.bound for axis in axes) // LEAST_BLOCKS, BLOCK_RUN**2), most)
    block = _grown(_least_block(axes, source_order), itemsize, axes, source_order, wanted)
    while math.prod(block) > most:
        longest = block.index(max(block))
        block[longest] = max(block[longest] * most // math.prod(block), 1)
    while scratch_bytes(itemsize, block, scratch_strides(itemsize, axes, source_order, block)) > SCRATCH_BYTES // share:
        longest = block.index(max(block))  # the gaps can exceed a fifth: rows of 328 bytes begin 448 apart
        block[longest] = max(block[longest] * 7 // 8, 1)
    return tuple(block)


def _least_block(axes: Sequence[Axis], source_order: Sequence[int]) -> list[int]:
    """The sizes of a block of BLOCK_RUN elements along the target and as many along the source, over several axes if
    they are short: 3 channels of 1000 columns of 1000 rows, planes to pixels, give 3 x 86 elements along the target and
    1 x 256 along the source, which is 3 x 256.
    """
    block = [1] * len(axes)
    for order in (range(len(axes)), source_order):
        covered = 1
        for k in order:
            block[k] = max(block[k], min(axes[k].bound, math.ceil(BLOCK_RUN / covered)))
            covered *= block[k]
            if covered >= BLOCK_RUN:
                break
    return block


def _grown(
    block: list[int], itemsize: int, axes: Sequence[Axis], source_order: Sequence[int], wanted: int
) -> list[int]:
    """The block, longer along the source, of up to `wanted` elements.

    An axis becomes whole if that is not too much and the axes below it are whole.  Otherwise it grows until the block
    has BLOCK_BYTES or LONG_RUN elements along the source, whichever is later.
    """
    block = list(block)
    run, is_run = 1, True  # elements along the source so far; whether they are all whole axes, without gaps
    for k, above in zip(source_order, [*source_order[1:], None]):
        others = math.prod(block) // block[k]
        if is_run and others * axes[k].bound <= wanted:
            block[k] = axes[k].bound
        elements = others * block[k]
        of_long_run = LONG_RUN * elements // (run * block[k])  # elements of the block if its runs are LONG_RUN
        enough = max(min(wanted, of_long_run), BLOCK_BYTES // itemsize)
        longer = block[k] * min(wanted, enough) // elements
        block[k] = min(axes[k].bound, max(longer, block[k]))
        run *= block[k]
        is_run &= _continues(axes, k, above, block)
    return block


def scratch_strides(
    itemsize: int, axes: Sequence[Axis], source_order: Sequence[int], block: Sequence[int]
) -> tuple[int, ...]:
    """Bytes between neighbours in the scratch array: dense in the order of the source, except that the first rows of
    LEAST_ROW bytes begin an odd number of lines apart.  Rows a power of two apart would share few sets of the cache.

    f32 cache blocks of 256 rows of 1024: rows are 4096 bytes, and begin 65 lines = 4160 bytes apart.

    Rows that are one run in the source, and share no sets, stay dense: the run is then copied as a whole.
    """
    strides, step, whole = [0] * len(axes), itemsize, True
    for k, above in zip(source_order, [*source_order[1:], None]):
        strides[k] = step
        step *= block[k]
        chained = _continues(axes, k, above, block)
        if whole and step >= LEAST_ROW * (2 if chained else 1):
            whole = False
            if not (chained and _are_spread(itemsize, source_order, block)):
                step = (-(-step // LINE_BYTES) | 1) * LINE_BYTES
    return tuple(strides)


def _are_spread(itemsize: int, source_order: Sequence[int], block: Sequence[int]) -> bool:
    """Whether a run along the target of a dense scratch array stays in the first-level cache."""
    dense, step = [0] * len(block), itemsize
    for k in source_order:
        dense[k] = step
        step *= block[k]
    run = [Axis(size, size, each, each) for size, each in zip(block, dense)][: source_order[0]]
    return places_kept(run, FIRST_CACHE) >= min(math.prod(block[: source_order[0]]), BLOCK_RUN)


def _continues(axes: Sequence[Axis], k: int, above: int | None, block: Sequence[int]) -> bool:
    """Whether axis `k` of the block is whole and ends where the next place of axis `above` begins."""
    whole = block[k] == axes[k].bound
    return whole and above is not None and axes[above].source_stride == axes[k].source_stride * axes[k].bound


def _is_run(axes: Sequence[Axis], source_order: Sequence[int], block: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a block is one run of the source, and one of the scratch array too."""
    is_open = True
    for k, above in zip(source_order, [*source_order[1:], None]):
        if block[k] > 1 and not (is_open and strides[k] == axes[k].source_stride):
            return False
        is_open &= _continues(axes, k, above, block)
    return True


def scratch_bytes(itemsize: int, block: Sequence[int], strides: Sequence[int]) -> int:
    """Bytes of a scratch array of these extents and strides.

    >>> scratch_bytes(4, (3, 5), (4, 16))
    76
    """
    return sum((size - 1) * stride for size, stride in zip(block, strides)) + itemsize
