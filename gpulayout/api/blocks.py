"""A plan in blocks: smaller plans that take bounded memory and together write every byte of the target once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex, overload

import numpy as np

from gpulayout.api.relayout import Plan, plan
from gpulayout.layout import checks
from gpulayout.moves.blocks import SHORT_RUN, Cut, cut, scratch_shape
from gpulayout.moves.runs import Runs


class Block(NamedTuple):
    """A part of a relayout: a plan between two smaller buffers, and where their bytes lie in the large ones.

    Attributes
    ----------
    plan : Plan
        From a buffer of `source_runs.nbytes` bytes to one of `target_runs.nbytes`.  Blocks of the same size share it.
    source_runs, target_runs : Runs
        The bytes of these two buffers within the large buffers: run after run.

    See Also
    --------
    Plan.blocks : all blocks of a plan.

    Examples
    --------
    >>> import gpulayout as gl
    >>> block = gl.plan("f32[4,6]", "{0,1}").blocks(64)[0]
    >>> block.plan
    plan('f32[4,2]{1,0}', 'f32[4,2]{0,1}')
    >>> block.source_runs
    Runs(offset=0, length=8, loops=((4, 24),))
    >>> block.target_runs
    Runs(offset=0, length=32, loops=())
    """

    plan: Plan
    source_runs: Runs
    target_runs: Runs

    def __call__(self, buffer: Any, out: Any) -> None:
        """Run the block between the large buffers: it reads its part of `buffer` and writes its part of `out`.

        Parameters
        ----------
        buffer, out : array
            The whole buffers: 1-D contiguous NumPy arrays, such as memory maps.  They must not overlap.

        Raises
        ------
        BufferError
            A buffer is not 1-D contiguous, or too short.
        """
        source, target = _bytes(buffer, "buffer"), _bytes(out, "out")
        read, written = self.source_runs.of(source), self.target_runs.of(target)
        given = np.ascontiguousarray(read).reshape(-1).view(self.plan.source.buffer_dtype)
        if self.target_runs.run_count == 1:  # the plan can write it in place
            self.plan(given, out=written.reshape(-1).view(self.plan.target.buffer_dtype))
        else:
            written[...] = self.plan(given).view(np.uint8).reshape(written.shape)


def _bytes(buffer: Any, role: str) -> np.ndarray:
    if not isinstance(buffer, np.ndarray) or buffer.ndim != 1 or not buffer.flags.c_contiguous:
        raise BufferError(f"{role} is a {type(buffer).__name__}: a block reads and writes 1-D contiguous NumPy arrays")
    return buffer.view(np.ndarray).view(np.uint8)


class Blocks(Sequence[Block]):
    """The blocks of a plan, in the order in which they continue one another in the target.  Made by `Plan.blocks`.

    Attributes
    ----------
    plan : Plan
        The whole plan.
    max_bytes : int
        The limit: no block's two buffers take more bytes together.

    Examples
    --------
    >>> import gpulayout as gl
    >>> blocks = gl.plan("f32[39000,39001]", "{0,1}").blocks(384 << 20)
    >>> blocks
    <36 blocks of plan('f32[39000,39001]{1,0}', 'f32[39000,39001]{0,1}'), up to 338052000 bytes each>
    >>> blocks.source_run_bytes, blocks.target_run_bytes
    (26004, 26000)
    """

    __slots__ = ("plan", "max_bytes", "_cut")

    def __init__(self, plan: Plan, max_bytes: SupportsIndex):
        self.plan, self.max_bytes = plan, checks.whole_number("max_bytes", max_bytes, "")
        self._cut: Cut = cut(plan.source, plan.target, self.max_bytes)

    def __len__(self) -> int:
        return self._cut.block_count

    @overload
    def __getitem__(self, number: SupportsIndex) -> Block: ...
    @overload
    def __getitem__(self, number: slice) -> list[Block]: ...
    def __getitem__(self, number: SupportsIndex | slice) -> Block | list[Block]:
        found = range(len(self))[number]
        return self._block(found) if isinstance(found, int) else [self._block(each) for each in found]

    def _block(self, number: int) -> Block:
        shapes = self._cut.block(number)
        return Block(plan(shapes.source, shapes.target), shapes.source_runs, shapes.target_runs)

    def __repr__(self) -> str:
        return f"<{checks.counted(len(self), 'block')} of {self.plan!r}, up to {self.block_bytes} bytes each>"

    @property
    def block_bytes(self) -> int:
        """Bytes of the largest block: its source and its target together."""
        return self._cut.block_bytes

    @property
    def source_run_bytes(self) -> int:
        """Bytes of a run in the source.  Blocks at the end of a dimension may have shorter ones."""
        return self._cut.block(0).source_runs.length if len(self) else 0

    @property
    def target_run_bytes(self) -> int:
        """Bytes of a run in the target.  Blocks at the end of a dimension may have shorter ones."""
        return self._cut.block(0).target_runs.length if len(self) else 0

    @property
    def bytes_read(self) -> int:
        """Bytes that all blocks read.  Padding of up to 64 KB between runs is read too, since a seek costs as much."""
        return self._cut.bytes_read

    @property
    def bytes_written(self) -> int:
        """Bytes that all blocks write: those of the target, each once."""
        return self.plan.target.nbytes


def passes(whole: Plan, max_bytes: SupportsIndex) -> tuple[Plan, ...]:
    """The plans that `Plan.passes` returns."""
    one = Blocks(whole, max_bytes)
    shortest = min(one.source_run_bytes, one.target_run_bytes)
    if shortest >= SHORT_RUN or len(one) < 2:
        return (whole,)
    scratch = scratch_shape(whole.source, whole.target, one.max_bytes)
    if scratch is None:
        return (whole,)
    two = plan(whole.source, scratch), plan(scratch, whole.target)
    found = [Blocks(each, max_bytes) for each in two]
    longer = min(min(each.source_run_bytes, each.target_run_bytes) for each in found)
    return two if longer >= 2 * shortest else (whole,)


def explained(whole: Plan, max_bytes: SupportsIndex) -> list[str]:
    """How a limit cuts the plan: blocks, the length of runs, and what two passes would cost."""
    blocks = Blocks(whole, max_bytes)
    runs = [
        -(-blocks.bytes_read // max(blocks.source_run_bytes, 1)),
        -(-blocks.bytes_written // max(blocks.target_run_bytes, 1)),
    ]
    lines = [
        f"  blocks   {checks.counted(len(blocks), 'block')} of at most {checks.counted(blocks.block_bytes, 'byte')}, "
        f"source and target together",
        f"    runs   {_runs(blocks.source_run_bytes, runs[0])} read, {_runs(blocks.target_run_bytes, runs[1])} written",
        f"    files  {checks.counted(blocks.bytes_read, 'byte')} read, {blocks.bytes_written} written",
    ]
    found = passes(whole, max_bytes)
    if len(found) == 1:
        return lines
    each = [Blocks(one, max_bytes) for one in found]
    moved = sum(one.bytes_read + one.bytes_written for one in each)
    return [
        *lines,
        f"  passes   two, through {checks.counted(found[0].target.nbytes, 'byte')} of scratch, {found[0].target}:",
        *[
            f"    runs   {one.source_run_bytes} bytes read, {one.target_run_bytes} bytes written, in "
            f"{checks.counted(len(one), 'block')}"
            for one in each
        ],
        f"    files  {checks.counted(moved, 'byte')} read and written, instead of "
        f"{blocks.bytes_read + blocks.bytes_written} in one pass",
    ]


def _runs(length: int, count: int) -> str:
    return f"{checks.counted(count, 'run')} of {checks.counted(length, 'byte')}"
