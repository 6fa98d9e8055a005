"""The blocks of a plan: smaller plans that take bounded memory.  Together they write every byte of the target once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex, overload

import numpy as np

from gpulayout.arrays.array_types import Out
from gpulayout.arrays.memory_checks import check_buffer_dtype
from gpulayout.layout import checks
from gpulayout.layout.checks import ByteCount, byte_count
from gpulayout.layout.shape import Shape
from gpulayout.moves.blocks import BoxGrid, box_grid
from gpulayout.moves.runs import Runs
from gpulayout.running.request import Request
from gpulayout.running.running import run_request


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

    plan: Any  # a Plan, whose file imports this one
    source_runs: Runs
    target_runs: Runs

    def __call__(self, buffer: Any, *, out: Out) -> Out:
        """Run the block between the large buffers: it reads its part of `buffer` and writes its part of `out`.

        Parameters
        ----------
        buffer, out : array
            The whole buffers: 1-D contiguous NumPy arrays, such as memory maps, or their bytes as uint8.

        Returns
        -------
        array
            `out`.

        Raises
        ------
        BufferError
            A buffer is not 1-D contiguous, or is too short for this block (later blocks may need a longer one); or
            `out` is read-only, or shares memory with `buffer`.
        TypeError
            A buffer has another dtype.
        """
        request: Request = self.plan.request
        from_shape, to_shape = request.read.shape, request.write.shape
        source, target = _bytes(buffer, from_shape, "buffer"), _bytes(out, to_shape, "out")
        if not target.flags.writeable or np.may_share_memory(source, target):
            raise BufferError(f"out {'shares memory with buffer' if target.flags.writeable else 'is read-only'}")
        read, written = self.source_runs.of(source), self.target_runs.of(target)
        part = np.ascontiguousarray(read).reshape(-1).view(from_shape.buffer_dtype)
        if self.target_runs.run_count == 1:  # the plan can write it in place
            run_request(request, part, written.reshape(-1).view(to_shape.buffer_dtype))
        else:
            written[...] = run_request(request, part, None).view(np.uint8).reshape(written.shape)
        return out


def _bytes(buffer: Any, shape: Shape, role: str) -> np.ndarray:
    if not isinstance(buffer, np.ndarray) or buffer.ndim != 1 or not buffer.flags.c_contiguous:
        dimensions = f" of shape {buffer.shape}" if isinstance(buffer, np.ndarray) else ""
        raise BufferError(
            f"{role} is a {type(buffer).__name__}{dimensions}: a block reads and writes 1-D contiguous NumPy arrays"
        )
    if buffer.dtype != np.uint8:
        check_buffer_dtype(buffer, shape, role)
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

    __slots__ = ("plan", "max_bytes", "_cut", "_only")

    def __init__(self, plan: Any, max_bytes: ByteCount):
        self.plan, self.max_bytes = plan, byte_count("max_bytes", max_bytes)
        self._cut: BoxGrid = box_grid(plan.source, plan.target, self.max_bytes)
        self._only: Block | None = None  # kept, because thousands of tensors in a file may share these blocks

    def __len__(self) -> int:
        return self._cut.block_count

    @overload
    def __getitem__(self, number: SupportsIndex) -> Block: ...
    @overload
    def __getitem__(self, number: slice) -> list[Block]: ...
    def __getitem__(self, number: SupportsIndex | slice) -> Block | list[Block]:
        numbers = range(len(self))[number]
        return self._block(numbers) if isinstance(numbers, int) else [*map(self._block, numbers)]

    def _block(self, number: int) -> Block:
        if self._only is not None:
            return self._only
        shapes = self._cut.block(number)
        block = Block(self.plan.of_block(shapes), shapes.source_runs, shapes.target_runs)
        if len(self) == 1:
            self._only = block
        return block

    def __reduce__(self) -> tuple[Any, ...]:
        return Blocks, (self.plan, self.max_bytes)

    def __repr__(self) -> str:
        return f"<{checks.counted(len(self), 'block')} of {self.plan!r}, up to {self.block_bytes} bytes each>"

    @property
    def block_bytes(self) -> int:
        """Bytes of the largest block: its source and its target together."""
        return self._cut.block_bytes

    @property
    def source_run_bytes(self) -> int:
        """Bytes of a run in the source.  Blocks at the end of a dimension may have shorter ones."""
        return self._cut.source_run_bytes

    @property
    def target_run_bytes(self) -> int:
        """Bytes of a run in the target.  Blocks at the end of a dimension may have shorter ones."""
        return self._cut.target_run_bytes

    @property
    def bytes_read(self) -> int:
        """Bytes that all blocks read.  Padding of up to 64 KB between runs is read too, since a seek costs as much."""
        return self._cut.bytes_read

    @property
    def bytes_written(self) -> int:
        """Bytes that all blocks write: those of the target, each once."""
        return int(self.plan.target.nbytes)
