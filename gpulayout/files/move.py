"""The move of a file in one pass or in two, each in blocks of bounded memory."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gpulayout.api.plan import Plan
from gpulayout.api.plan_blocks import Blocks
from gpulayout.files.elements import Elements, buffer_header, new_target
from gpulayout.files.engine import LONG_RUN, move_blocks
from gpulayout.files.errors import Note, warn
from gpulayout.files.file_plan import FilePlan
from gpulayout.files.new_file import reserve_space
from gpulayout.files.standard_streams import File
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.blocks import NoSmallerBlock

Progress = Callable[[int, int], None]  # gets the bytes that were read and written so far, and all that will be

PACKED_BLOCK = 1 << 27  # bytes; packed elements move slowly, and a signal waits until the plan of a block has run


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


def move(
    plan: FilePlan, target: File, route: Route, progress: Progress, *, overwrite: bool, note: Note = warn
) -> float:
    """Write the new file.  Returns seconds, with the time to write it to the disk."""
    start = time.perf_counter()
    done, total = 0, route.bytes_read + route.bytes_written

    def report(more: int) -> None:
        nonlocal done
        done += more
        progress(done, total)

    def run(blocks: Blocks, source: Elements, result: Elements) -> None:
        runs_are_long = min(blocks.source_run_bytes, blocks.target_run_bytes) >= LONG_RUN
        pairs = 2 if runs_are_long and 2 * blocks.block_bytes <= route.max_bytes else 1
        move_blocks(blocks, source, result, report, pairs=pairs)

    with new_target(target, plan.header, plain=plan.plain, overwrite=overwrite, note=note) as result:
        if route.scratch is None:
            run(route.passes[0], plan.source, result)
        else:
            with _scratch_file(route.scratch, route.passes[0].plan.target) as between:
                run(route.passes[0], plan.source, between)
                run(route.passes[1], between, result)
    return time.perf_counter() - start


@contextlib.contextmanager
def _scratch_file(folder: Path, shape: Shape) -> Iterator[Elements]:
    """A file without a name for a buffer of a shape, to be written and then read.  Its space is reserved at once.

    It has lost its name before it gets a byte, so nothing is left of it, however the process ends.
    """
    name = f"the scratch file in {folder}"
    with _nameless(folder) as stream:
        try:
            reserve_space(stream, shape.nbytes)
        except OSError as error:
            raise OSError(error.errno, error.strerror, name) from error
        yield Elements(buffer_header(name, shape), 0, stream)


@contextlib.contextmanager
def _nameless(folder: Path) -> Iterator[BinaryIO]:
    """A file of a folder, open and without a name."""
    descriptor, name = tempfile.mkstemp(".gpulayout-scratch", dir=folder)
    with open(descriptor, "r+b", buffering=0) as stream:
        os.unlink(name)
        yield stream
