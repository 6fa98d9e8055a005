"""Which copies are faster in cache blocks, and the sizes of the blocks.  Lists of axes are minor first in the target.

When the minor axes of source and target differ, each element of a target run comes from a different run of the source.
A CPU prefetches only a few sequential streams at a time, and waits for all other reads.  So a cache block is read along
the source into a small scratch array, and written from there along the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpulayout.moves.move import Axis

BLOCK_RUN = 256  # elements of a block along the target, and the fewest along the source
LONG_RUN = 1024  # elements along the source that are enough for a block of BLOCK_BYTES
BLOCK_BYTES = 1 << 19
LEAST_BLOCKS = 16  # at least this many cache blocks, unless they would be smaller than BLOCK_RUN x BLOCK_RUN elements
LEAST_BYTES = 1 << 18  # moves up to this size use no cache blocks
SCRATCH_BYTES = 4 << 20  # of all threads together
STREAMS = 12  # sequential streams that a CPU prefetches at once
SHORT_RECORD = 16  # bytes; a cache line holds several shorter records, so a copy in the target's order is fast enough
FEW_SETS = 512  # bytes; lines a multiple of this apart share few sets of the first-level cache
NEAR_BYTES = 256  # neighbours less than this apart share pages and often lines
SECOND_CACHE_BYTES = 1 << 20
LINE_BYTES = 64
# Rows of a scratch array shorter than this many bytes, or twice as many when they are one run, are not spaced out.
LEAST_ROW = 256


def needs_cache_blocks(itemsize: int, axes: Sequence[Axis], source_order: Sequence[int]) -> bool:
    """Whether a copy in the order of the target would read too many streams of the source at once.

    Between two neighbours in the source, a copy reads `run` other places.  Up to a megabyte everything stays in the
    second-level cache, and only lines that evict each other from the first level are a problem.  The lines of a larger
    source are also fetched only once if those of `run` places fit the second-level cache.  A scratch copy of elements
    of 1 or 2 bytes then costs more than waiting for that cache.
    """
    size = math.prod(axis.bound for axis in axes) * itemsize
    if itemsize > 16 or not axes or source_order[0] == 0 or size <= LEAST_BYTES:
        return False
    step = abs(axes[0].source_stride)
    run = math.prod(axis.bound for axis in axes[: source_order[0]])
    if size <= SECOND_CACHE_BYTES:
        return run > STREAMS and step % FEW_SETS == 0
    cached = itemsize <= 2 and source_order[0] == 1 and step <= NEAR_BYTES and run * step <= SECOND_CACHE_BYTES
    return run > STREAMS and step >= SHORT_RECORD and not cached


def cache_block_extents(
    itemsize: int, axes: Sequence[Axis], source_order: Sequence[int], threads: int
) -> tuple[int, ...]:
    """The sizes of a cache block: BLOCK_RUN elements along target and source, over several axes if needed.

    The block then grows along the source, so that NumPy is called less often: between calls, threads wait for each
    other.
    """
    most = SCRATCH_BYTES * 4 // 5 // max(threads, 2) // itemsize  # leaves a fifth for gaps between rows
    wanted = min(max(math.prod(axis.bound for axis in axes) // LEAST_BLOCKS, BLOCK_RUN**2), 4 * BLOCK_RUN**2, most)
    block = [1] * len(axes)
    for order in (range(len(axes)), source_order):
        covered = 1
        for k in order:
            block[k] = max(block[k], min(axes[k].bound, math.ceil(BLOCK_RUN / covered)))
            covered *= block[k]
            if covered >= BLOCK_RUN:
                break
    run = 1
    for k in source_order:
        enough = max(min(wanted, LONG_RUN * math.prod(block) // (run * block[k])), BLOCK_BYTES // itemsize)
        block[k] = min(axes[k].bound, max(block[k] * min(wanted, enough) // math.prod(block), block[k]))
        run *= block[k]
    while math.prod(block) > most:
        longest = block.index(max(block))
        block[longest] = max(block[longest] * most // math.prod(block), 1)
    while scratch_bytes(itemsize, block, scratch_strides(itemsize, axes, source_order, block)) > SCRATCH_BYTES // max(
        threads, 2
    ):
        longest = block.index(max(block))  # the gaps can exceed a fifth: rows of 328 bytes begin 448 apart
        block[longest] = max(block[longest] * 7 // 8, 1)
    return tuple(block)


def scratch_strides(
    itemsize: int, axes: Sequence[Axis], source_order: Sequence[int], block: Sequence[int]
) -> tuple[int, ...]:
    """Bytes between neighbours in the scratch array: dense in the order of the source, except that the first rows of
    LEAST_ROW bytes begin an odd number of lines apart.  Rows a power of two apart would share few sets of the cache.

    f32 cache blocks of 256 rows of 1024: rows are 4096 bytes, and begin 65 lines = 4160 bytes apart.
    """
    strides, step, whole = [0] * len(axes), itemsize, True
    for k, above in zip(source_order, [*source_order[1:], None]):
        strides[k] = step
        step *= block[k]
        chained = (
            above is not None
            and block[k] == axes[k].bound
            and axes[above].source_stride == axes[k].source_stride * axes[k].bound
        )
        if whole and step >= LEAST_ROW * (2 if chained else 1):
            step, whole = (-(-step // LINE_BYTES) | 1) * LINE_BYTES, False
    return tuple(strides)


def scratch_bytes(itemsize: int, block: Sequence[int], strides: Sequence[int]) -> int:
    """Bytes of a scratch array of these extents and strides.

    >>> scratch_bytes(4, (3, 5), (4, 16))
    76
    """
    return sum((size - 1) * stride for size, stride in zip(block, strides)) + itemsize
