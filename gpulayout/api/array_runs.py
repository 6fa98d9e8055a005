"""Plans that run on an `Array`."""

from __future__ import annotations

import functools
from typing import Any

from gpulayout.api.array_checks import is_flat
from gpulayout.api.array_graphs import check_source, plan_in_graph
from gpulayout.api.array_types import ByteCount
from gpulayout.api.packing import pack
from gpulayout.api.shaped_buffer import Pair, ShapedBuffer, buffer_to_write
from gpulayout.layout.graph_constants import is_compiling


def run_on_array(run: Any, array: Pair, out: Any, max_bytes: ByteCount | None) -> Any:
    """The call of a plan for an `Array`: another one, or `out` if that is one."""
    if is_compiling():
        anew = functools.partial(run, array, out=out, max_bytes=max_bytes)
        return plan_in_graph(run, array, out, max_bytes, anew)
    check_source(array.shape, run.source)
    if not is_flat(array.buffer) and out is max_bytes is run.change is None:  # also where its strides are out of reach
        return array.holding(pack(array.buffer, run.target), run.target)
    moved = run(array.buffer, out=buffer_to_write(out, run.target), max_bytes=max_bytes)
    return out if isinstance(out, ShapedBuffer) else array.holding(moved, run.target)
