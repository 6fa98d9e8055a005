"""Chooses the CUDA kernel for a move, and its parameters.  Every decision about a launch is made here.

Families, fastest first:

    copy     one contiguous run on both sides
    rows     the same minor axis on both sides: whole rows move in vectors of up to 16 bytes
    channels pixels of a few channels on one side, planes on the other: a warp exchanges them between its registers
    tile     different minor axes: a tile goes through shared memory, so that both sides are accessed in runs;
             it has two axes, or more if those are too short for runs
    gather   everything else: one place at a time
    bits     packed elements that do not move as whole bytes
    lookup   tiles that cut the array into too many regions, or split bytes

Elements that change their type or their value on the way take the first five, compiled for both types.

A plan depends on the pointers only modulo 16, so it can be cached.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from gpulayout.gpu.bits import bits_plan, packing_macros
from gpulayout.gpu.channels import channel_plan
from gpulayout.gpu.copy_rows import copy_plan, rows_plan
from gpulayout.gpu.element_width import SIDE_NAMES, SOURCE, MoveWork, check_whole_elements, convert_work, widened
from gpulayout.gpu.kernel_numbers import FEW_ITEMS, ITEMS, THREADS
from gpulayout.gpu.launch import Access, Kernel, KernelPlan, MoveFields, grid_of, planned
from gpulayout.gpu.many_axes.plan import many_axes_plan
from gpulayout.gpu.parameters import lookup_struct
from gpulayout.gpu.tile import SMALLEST_TILE, tile_plan
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Move
from gpulayout.moves.packed_move import PackedMove
from gpulayout.moves.pieces import AnyMove

_GATHER = Kernel("gather", "gather.cu", "gpl_gather")
_LOOKUP = Kernel("lookup", "lookup.cu", "gpl_lookup", shared_bytes=0, is_estimated=False)
_WORD = 4  # bytes that a thread of lookup.cu writes to a packed target


@functools.lru_cache(maxsize=4096)
def kernel_plan(move: AnyMove, source_phase: int = 0, target_phase: int = 0) -> KernelPlan | None:
    """The launch for a move between two addresses, given modulo 16; None when there is nothing to write.

    BufferError when a stride is not a whole number of elements, or an address not a multiple of the element size.
    """
    return _PLANNERS[type(move)](move, source_phase, target_phase) if move.place_count else None


def _strided_plan(work: MoveWork) -> KernelPlan:
    """The launch for elements of whole bytes, where both sides have strides."""
    minor = work.axes[0]
    if len(work.axes) == 1 and minor[2:] == (1, 1) and not minor.is_padded:
        return copy_plan(work)
    if minor.target_stride != 1:
        return _gather(
            work.because(
                f"no axis of the target is contiguous, the smallest step is {minor.target_stride} elements, "
                "so elements are written one by one"
            )
        )
    if minor.source_stride == 1 or not work.reads:
        return rows_plan(work.because(_why_rows(work)))
    source_minor = next((k for k, axis in enumerate(work.axes) if axis.source_stride == 1), None)
    if source_minor is None:
        return _gather(work.because("no axis of the source is contiguous, so elements are read one by one"))
    others = (axis for k, axis in enumerate(work.axes) if k not in (0, source_minor))
    apart = work.in_memory(SOURCE, abs(minor.source_stride) * work.width)
    work = work._replace(axes=(minor, work.axes[source_minor], *others)).because(
        f"neighbours in the target are {apart} bytes apart in the source, so whole rows cannot be copied"
    )
    plan, work = channel_plan(work)
    return (
        plan
        or many_axes_plan(work, tile_plan(work))
        or _gather(
            work.because(
                f"the runs of {work.axes[1].extent} and {minor.extent} elements are too short to fill "
                f"{SMALLEST_TILE} places of shared memory, so elements are moved one by one"
            )
        )
    )


def _why_rows(work: MoveWork) -> str:
    """Why the rows do not form a single run."""
    minor, width = work.axes[0], work.width
    if minor.is_padded or len(work.axes) == 1:
        rows = f"rows of {minor.bound * width} bytes are padded to {minor.extent * width}"
    else:
        steps = zip(SIDE_NAMES, work.axes[1][2:])
        name, step = next(((name, step) for name, step in steps if step != minor.extent), ("target", minor.extent))
        rows = f"rows of {minor.extent * width} bytes are {step * width} bytes apart in the {name}"
    return f"{rows}, so they cannot be copied as one run"


def _gather(work: MoveWork) -> KernelPlan:
    total = math.prod(axis.extent for axis in work.axes)
    items = FEW_ITEMS if work.change and work.change.starts else ITEMS
    return planned(work, _GATHER, work.width, math.ceil(total / (THREADS * items)), MoveFields(total))


def _lookup_plan(move: LookupMove, source_phase: int, target_phase: int) -> KernelPlan:
    """The launch for a move that looks up every place."""
    check_whole_elements((move.itemsize, move.itemsize), (source_phase, target_phase), move.strides)
    program, packed = move.program, move.target_bits < 8
    head = target_phase % _WORD if packed else 0
    items = math.ceil((head + move.bytes_written) / _WORD) if packed else math.ceil(move.place_count / ITEMS)
    scalars = move.place_count, head, move.has_strided_target
    return KernelPlan(
        _LOOKUP,
        (("GPL_ELEMENT_BYTES", move.itemsize), ("GPL_INDEX_BITS", program.index_bits), *packing_macros(move)),
        grid_of(math.ceil(items / THREADS)),
        lookup_struct(program.index_bits, move.pad, scalars, program.instructions),
        move.itemsize,
        _WORD if packed else move.itemsize,
        program.index_bits,
        (),
        None,
        (move.why,),
        Access(move.itemsize),
        in_memory=(move.itemsize, move.itemsize),
    )


_PLANNERS: dict[type, Callable[..., KernelPlan]] = {
    Move: lambda *move: _strided_plan(widened(*move)),
    ConvertMove: lambda *move: _strided_plan(convert_work(*move)),
    PackedMove: bits_plan,
    LookupMove: _lookup_plan,
}
