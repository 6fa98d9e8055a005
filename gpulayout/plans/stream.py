"""Relayouts between host memory and a GPU's, and through a GPU, block by block.

A block goes through a lane: memory of the device, page-locked memory of the host, and a queue of their copies and of
launches.  With two lanes, the host prepares a block while the device works on the one before:

    host        gather 0 | gather 1          | gather 2          | ...
    lane 0                 up 0, relayout 0                       | up 2, relayout 2
    lane 1                                     up 1, relayout 1

A side in host memory goes through page-locked memory, run after run.  A side in device memory is read and written in
place where a block is one run of it, and else through memory of the lane.  Plans of the same backend move the runs,
which are rows of bytes at constant distances.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import Out
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.memory_checks import flat_buffer
from gpulayout.choices.backends import default_backend, host_backend
from gpulayout.layout.checks import type_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import AnyArray, Backend, Lane
from gpulayout.moves.blocks import BlockShapes, BoxGrid, box_grid
from gpulayout.moves.runs import Runs
from gpulayout.running.request import Request
from gpulayout.running.running import run

Planner = Callable[[BlockShapes], Callable[..., Any]]  # gives the plan of a block
Progress = Callable[[int, int], object]  # gets the bytes done and all bytes

# Bytes.  Two lanes of 32 MB copy 16 MB at a time, which takes much longer than it takes to begin.
# A 2-D transpose of f32 then has runs of 8 KB on the host.
DEFAULT = 64 << 20
LEAST_DEFAULT = 1 << 20
ALIGN = 16  # of a block's second buffer in its lane: the widest access of a kernel


def stream(
    request: Request, plan: Planner, buffer: Any, out: Out, max_bytes: int | None, progress: Progress | None
) -> Out:
    """See `Plan.stream`; `request` is the whole relayout's, and `plan` gives those of its blocks."""
    libraries = [library for library in map(library_of, (buffer, out)) if library is not None]
    function: Callable[..., None] = libraries[0].disable_compiler(_stream) if libraries else _stream
    function(request, plan, buffer, out, max_bytes, progress)
    return out


def _stream(
    request: Request, plan: Planner, buffer: Any, out: Any, max_bytes: int | None, progress: Progress | None
) -> None:
    if not (progress is None or callable(progress)):
        raise TypeError(f"progress is {type_text(progress)}: it must be a function of the bytes done and of all bytes")
    source, target, device, like = _sides(request, buffer, out)
    work = None
    try:
        with contextlib.ExitStack() as entered:
            shapes = request.read.shape, request.write.shape
            cut, lanes = _lanes(entered, device, like, shapes, (source.on_host, target.on_host), max_bytes)
            work = _Work(plan, device, source, target, cut, lanes, progress)
            arrays.will_be_written(out)
            work.run()
    except BaseException as error:
        if work is not None:
            blocks = f"{work.cut.block_count} blocks of plan.blocks({work.cut.max_bytes})"
            error.add_note(f"plan.stream has written the first {work.finished} of {blocks}, and nothing is under way")
        raise


# ---- before a byte is written --------------------------------------------------------------------------------------


class _Side(NamedTuple):
    """One side of a stream: the bytes of the whole buffer."""

    backend: Backend
    memory: AnyArray
    on_host: bool

    def runs(self, runs: Runs) -> AnyArray:
        """The runs as a view, with an axis for each loop and the bytes of a run last."""
        dimensions, strides = zip(*runs.loops, (runs.length, 1))
        return self.backend.strided(self.memory[runs.offset :], dimensions, strides)

    def is_direct(self, runs: Runs) -> bool:
        """Whether the device reads or writes these runs where they are."""
        return not self.on_host and runs.run_count == 1


def _sides(request: Request, buffer: Any, out: Any) -> tuple[_Side, _Side, Backend, AnyArray | None]:
    """Both sides with every check, the backend of the device, and the array that lives there, if one does."""
    host = host_backend()
    here, read = arrays.open_array(buffer, "buffer")
    read = request.source_memory(here, read)
    there, written = arrays.open_array(out, "out", writing=True)
    written = flat_buffer(there, written, request.write.shape, "out")
    sides = (here, read), (there, written)
    on_device = [(backend, array) for backend, array in sides if backend is not host]
    if len(on_device) == 2:
        raise BufferError(
            f"buffer is on {here.device(read)} and out is on {there.device(written)}: stream is for an array in host "
            "memory, and plan(buffer, out=out) moves one within a device"
        )
    shape = request.read.shape
    if read.size < shape.buffer_length:
        raise BufferError(
            f"buffer has shape {tuple(buffer.shape)}, without the padding of {shape}: pass its whole buffer, of "
            f"{shape.buffer_length} elements"
        )
    request.check_lengths(read, written)
    arrays.check_no_overlap(here, read, written, ("buffer", "out"), there)
    device, like = on_device[0] if on_device else (default_backend(), None)
    source, target = (_Side(backend, array.view(np.uint8), backend is host) for backend, array in sides)
    return source, target, device, like


def _lanes(
    entered: contextlib.ExitStack,
    device: Backend,
    like: AnyArray | None,
    shapes: tuple[Shape, Shape],
    on_host: tuple[bool, bool],
    max_bytes: int | None,
) -> tuple[BoxGrid, Sequence[Lane]]:
    """The blocks, and lanes that hold them; MemoryError unless there is memory for all of it.

    Without a limit, the lanes are as large as the memory allows.
    """
    limit = DEFAULT if max_bytes is None else max_bytes
    while True:
        try:
            cut, count = box_grid(*shapes, limit // 2 - ALIGN), 2
        except LayoutError:
            cut, count = box_grid(*shapes, limit), 1
        host_bytes = cut.most_bytes(*on_host)
        try:
            return cut, entered.enter_context(
                device.lanes(min(count, cut.block_count), host_bytes + ALIGN, cut.block_bytes + ALIGN, like)
            )
        except MemoryError:
            if max_bytes is not None or limit <= LEAST_DEFAULT:
                raise
            limit //= 2


# ---- block by block ------------------------------------------------------------------------------------------------


@dataclass
class _Work:
    """The blocks of one stream."""

    plan: Planner
    device: Backend
    source: _Side
    target: _Side
    cut: BoxGrid
    lanes: Sequence[Lane]
    progress: Progress | None
    finished: int = 0
    bytes_done: int = 0

    def run(self) -> None:
        """Move all blocks.  A block's lane is the one that has waited longest."""
        started: deque[tuple[Lane, BlockShapes]] = deque()
        for number in range(self.cut.block_count):
            if len(started) == len(self.lanes):
                self.finish(*started.popleft())
            lane, block = self.lanes[number % len(self.lanes)], self.cut.block(number)
            self.start(lane, block)
            started.append((lane, block))
        while started:
            self.finish(*started.popleft())

    def start(self, lane: Lane, block: BlockShapes) -> None:
        """Gather a block's runs, and queue all that the device does with them."""
        read, written = self.spans(block)
        if self.source.on_host:
            _gather(self.source, block.source_runs, lane.host[read])
            lane.upload(read)
        with lane.running():
            if self.source.is_direct(block.source_runs):
                source = self.source.memory[block.source_runs.offset :][: block.source_runs.length]
            else:
                source = lane.device[read]
                if not self.source.on_host:
                    _gather(self.source, block.source_runs, source)
            in_place = self.target.is_direct(block.target_runs)
            target = self.target.memory[block.target_runs.offset :] if in_place else lane.device[written]
            target = self.typed(target[: block.target.nbytes], block.target)
            self.plan(block)(self.typed(source, block.source), out=target)
            if not self.target.on_host and not in_place:
                _scatter(lane.device[written], block.target_runs, self.target)
        if self.target.on_host:
            lane.download(written)

    def finish(self, lane: Lane, block: BlockShapes) -> None:
        """Wait for a block, and write what has come down."""
        lane.wait()
        if self.target.on_host:
            _scatter(lane.host[self.spans(block)[1]], block.target_runs, self.target)
        self.finished += 1
        self.bytes_done += block.source_runs.nbytes + block.target_runs.nbytes
        if self.progress is not None:
            self.progress(self.bytes_done, self.cut.bytes_read + self.cut.whole_target.nbytes)

    def spans(self, block: BlockShapes) -> tuple[slice, slice]:
        """Which bytes of a lane a block's source and target take.

        A side on the host comes first: if it is the only one, the lane has no more memory of the host.
        """
        source, target = block.source_runs.nbytes, block.target_runs.nbytes
        if self.source.on_host:
            start = -(-source // ALIGN) * ALIGN
            return slice(0, source), slice(start, start + target)
        start = -(-target // ALIGN) * ALIGN
        return slice(start, start + source), slice(0, target)

    def typed(self, memory: AnyArray, shape: Shape) -> AnyArray:
        """Bytes as a buffer of the shape."""
        return memory.view(self.device.held(shape.buffer_dtype))


def _gather(side: _Side, runs: Runs, memory: AnyArray) -> None:
    """Copy the runs of a buffer into memory of the same backend, one after the other."""
    if runs.run_count:
        rows = side.runs(runs)
        run("pack", rows, None, Shape("u8", rows.shape), memory)


def _scatter(memory: AnyArray, runs: Runs, side: _Side) -> None:
    """The reverse."""
    if runs.run_count:
        rows = side.runs(runs)
        run("unpack", memory, Shape("u8", rows.shape), None, rows)
