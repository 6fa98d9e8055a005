"""How a file is moved within a limit of memory: in one pass or in two, each in blocks.

Under a small limit a move would take forever.  Such limits are refused, with the least one that is accepted:

    f32[39000,39001]{1,0} to {0,1} in 1K    35,797,948 blocks, in runs of 20 bytes

A disk moves whole pages, so runs of a few bytes move every page hundreds of times.  A limit is refused only where a
larger one does better: rows of 12 bytes between long padding are runs of 12 bytes under any limit.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex

from gpulayout.files.engine import LONG_RUN
from gpulayout.files.memory import MOST_BLOCK, as_bytes, block_limit
from gpulayout.layout.checks import counted, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.blocks import NoSmallerBlock
from gpulayout.plans.plan import Plan
from gpulayout.plans.plan_blocks import Blocks

PACKED_BLOCK = 1 << 27  # bytes; packed elements move slowly, and a signal waits until the plan of a block has run
LEAST_RUN = 512  # bytes: the sector of a disk
MOST_BLOCKS = 100_000
SIZES = [f"{count}{unit}" for unit in "KM" for count in range(1, 1024)] + ["1G", "2G"]  # blocks do not grow after 2G
ANY_FOLDER = Path()  # planning does not look at it


@dataclass(frozen=True)
class Route:
    """How a file is moved: the blocks of one pass, or of a pass into a scratch file and a pass out of it.

    scratch    the folder of that file; None for one pass
    max_bytes  the limit for all buffers together
    """

    passes: tuple[Blocks, ...]
    scratch: Path | None
    max_bytes: int

    @property
    def bytes_read(self) -> int:
        """Bytes that are read from files, in all passes."""
        return sum(blocks.bytes_read for blocks in self.passes)

    @property
    def bytes_written(self) -> int:
        """Bytes that are written to files, in all passes."""
        return sum(blocks.bytes_written for blocks in self.passes)

    @property
    def runs(self) -> tuple[int, int]:
        """The bytes of the shortest runs that a pass reads, and that one writes."""
        read, written = zip(*((blocks.source_run_bytes, blocks.target_run_bytes) for blocks in self.passes))
        return min(read), min(written)

    @property
    def most_blocks(self) -> int:
        """The blocks of the pass that has more."""
        return max(map(len, self.passes))

    def pairs(self, blocks: Blocks) -> int:
        """How many pairs of buffers a pass gets: two where they fit and runs are long, see `engine`."""
        are_long = min(blocks.source_run_bytes, blocks.target_run_bytes) >= LONG_RUN
        return 2 if are_long and 2 * blocks.block_bytes <= self.max_bytes else 1


def route(plan: Plan, max_bytes: int, scratch: Path | None) -> Route:
    """The passes for blocks of at most `max_bytes`: two only where a folder for a scratch file is given and runs would
    otherwise be short.  LayoutError when no block is so small.

    Arithmetic on packed elements also takes dense arrays.
    """
    if plan.request.dense_bytes:
        buffers = plan.source.nbytes + plan.target.nbytes
        max_bytes = max_bytes * buffers // (buffers + plan.request.dense_bytes)
    if max_bytes > PACKED_BLOCK and (plan.source.is_packed or plan.target.is_packed):
        with contextlib.suppress(LayoutError):  # the smallest block may be larger
            return _route(plan, PACKED_BLOCK, scratch)
    return _route(plan, max_bytes, scratch)


def _route(plan: Plan, max_bytes: int, scratch: Path | None) -> Route:
    try:
        plans = (plan,) if scratch is None else plan.passes(max_bytes)
        passes = tuple(_blocks(each, max_bytes) for each in plans)
        return Route(passes, scratch if len(plans) > 1 else None, max_bytes)
    except NoSmallerBlock as error:
        if scratch is None and _has_two_passes(plan, max_bytes):
            needs = f"{error.needs}; two passes through a scratch file take less memory"
            raise NoSmallerBlock(error.max_bytes, needs) from None
        raise


def _blocks(plan: Plan, max_bytes: int) -> Blocks:
    """The blocks of a plan: of half the size where runs stay long, so that two pairs of buffers fit."""
    whole = plan.blocks(max_bytes)
    if len(whole) > 1:
        with contextlib.suppress(LayoutError):
            half = plan.blocks(max_bytes // 2)
            if min(half.source_run_bytes, half.target_run_bytes) >= LONG_RUN:
                return half
    return whole


def _has_two_passes(plan: Plan, max_bytes: int) -> bool:
    with contextlib.suppress(LayoutError):
        return len(plan.passes(max_bytes)) > 1
    return False


# ---- limits that are too small ---------------------------------------------------------------------------------------


def sensible_route(plan: Plan, max_bytes: SupportsIndex | str | None, scratch: Path | None) -> Route:
    """The passes within a limit of memory; None takes a quarter of what is free.

    LayoutError when no block is so small, or when the limit makes runs of less than 512 bytes or more than 100,000
    blocks although a larger one would not.  The message names the least limit that is accepted.  A source and a target
    that fit into the limit together are always accepted.
    """
    if max_bytes is None:
        with in_words_of(None):
            return route(plan, block_limit(None), scratch)
    limit = as_bytes(max_bytes)
    with in_words_of(max_bytes, lambda: _advice(plan, limit, scratch)):
        planned = _route_within(plan, limit, scratch)
    if _is_sensible(planned, plan, limit, scratch):
        return planned
    read, written = planned.runs
    raise LayoutError(
        f"max_bytes {value_text(max_bytes)} is too little to relayout {plan.source} to {plan.target}: it makes "
        f"{planned.most_blocks} blocks, with runs of {read} bytes read and of {written} bytes written"
        f"{_advice(plan, limit, scratch)}"
    )


@contextlib.contextmanager
def in_words_of(max_bytes: SupportsIndex | str | None, advice: Callable[[], str] = str) -> Iterator[None]:
    """An error about the bytes of a block names the limit that the caller gave for all, and ends with `advice`."""
    try:
        yield
    except NoSmallerBlock as error:
        limit = "free memory" if max_bytes is None else f"max_bytes {value_text(max_bytes)}"
        if max_bytes is not None and as_bytes(max_bytes) == error.max_bytes:
            problem = f"{limit} is too small"
        else:
            problem = f"{limit} leaves {counted(error.max_bytes, 'byte')} for a block, too few"
        raise LayoutError(f"{problem} {error.needs}{advice()}{_about_unit(max_bytes)}") from None


def _about_unit(max_bytes: SupportsIndex | str | None) -> str:
    """What a few bytes were meant as; nothing for other limits.

    >>> _about_unit("8"), _about_unit(4096), _about_unit("8K")
    ('; did you mean 8G?', '', '')
    """
    text = str(max_bytes).strip()
    return f"; did you mean {text}G?" if text.isascii() and text.isdecimal() and len(text) < 4 else ""


def _route_within(plan: Plan, limit: int, scratch: Path | None) -> Route:
    """The passes in blocks of the usual share of a limit; in one block of all of it if tiles allow no smaller one."""
    try:
        return route(plan, block_limit(limit), scratch)
    except LayoutError:
        if not _fits(plan, limit):
            raise
        return route(plan, limit, scratch)


def _fits(plan: Plan, limit: int) -> bool:
    """True when a limit holds source and target together, and what goes between them."""
    return plan.source.nbytes + plan.target.nbytes + plan.request.dense_bytes <= limit


def _is_sensible(planned: Route, plan: Plan, limit: int, scratch: Path | None) -> bool:
    """True for long runs and not too many blocks, as far as any limit can make them so."""
    if planned.most_blocks < 2 or _fits(plan, limit):
        return True
    if planned.most_blocks <= MOST_BLOCKS and min(planned.runs) >= LEAST_RUN:
        return True
    best = route(plan, MOST_BLOCK, scratch)
    are_long = all(run >= min(LEAST_RUN, longest) for run, longest in zip(planned.runs, best.runs))
    return are_long and planned.most_blocks <= max(MOST_BLOCKS, best.most_blocks)


def _advice(plan: Plan, limit: int, scratch: Path | None) -> str:
    """The least limits that are accepted, with and without two passes; nothing if none is."""
    least = _least(plan, limit, scratch)
    text = f"; the least limit is {least}" if least else ""
    if scratch is not None:
        return text
    if _accepts(plan, limit, ANY_FOLDER):
        return f"{text}; with a scratch folder this limit is enough"
    other = _least(plan, limit, ANY_FOLDER)
    is_less = other and (not least or as_bytes(other) < as_bytes(least))
    return f"{text}; with a scratch folder {other} is enough" if is_less else text


def _least(plan: Plan, limit: int, scratch: Path | None) -> str | None:
    """The least of `SIZES` above a limit that is accepted, or one near it; None if none is."""
    sizes = [size for size in reversed(SIZES) if as_bytes(size) > limit]  # those that are accepted come first
    if not sizes or not _accepts(plan, as_bytes(sizes[0]), scratch):
        return None
    refused = bisect.bisect(sizes, False, 1, key=lambda size: not _accepts(plan, as_bytes(size), scratch))
    return sizes[refused - 1]


def _accepts(plan: Plan, limit: int, scratch: Path | None) -> bool:
    try:
        return _is_sensible(_route_within(plan, limit, scratch), plan, limit, scratch)
    except LayoutError:
        return False
