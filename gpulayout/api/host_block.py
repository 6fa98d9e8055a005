"""A block of a relayout between two large arrays in host memory, such as memory maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulayout.api.memory_checks import check_buffer_dtype
from gpulayout.api.request import Request
from gpulayout.api.running import run_request
from gpulayout.layout.shape import Shape
from gpulayout.moves.runs import Runs


def run_on_host(request: Request, source_runs: Runs, target_runs: Runs, buffer: Any, out: Any) -> None:
    """See `Block.__call__`; `request` is the block's."""
    from_shape, to_shape = request.read.shape, request.write.shape
    source, target = _bytes(buffer, from_shape, "buffer"), _bytes(out, to_shape, "out")
    if not target.flags.writeable or np.may_share_memory(source, target):
        raise BufferError(f"out {'shares memory with buffer' if target.flags.writeable else 'is read-only'}")
    read, written = source_runs.of(source), target_runs.of(target)
    given = np.ascontiguousarray(read).reshape(-1).view(from_shape.buffer_dtype)
    if target_runs.run_count == 1:  # the plan can write it in place
        run_request(request, given, written.reshape(-1).view(to_shape.buffer_dtype))
    else:
        written[...] = run_request(request, given, None).view(np.uint8).reshape(written.shape)


def _bytes(buffer: Any, shape: Shape, role: str) -> np.ndarray:
    if not isinstance(buffer, np.ndarray) or buffer.ndim != 1 or not buffer.flags.c_contiguous:
        dimensions = f" of shape {buffer.shape}" if isinstance(buffer, np.ndarray) else ""
        raise BufferError(
            f"{role} is a {type(buffer).__name__}{dimensions}: a block reads and writes 1-D contiguous NumPy arrays"
        )
    if buffer.dtype != np.uint8:
        check_buffer_dtype(buffer, shape, role)
    return buffer.view(np.ndarray).view(np.uint8)
