"""Launches for moves that look up every place: kernels/lookup.cu."""

from __future__ import annotations

import math

from gpulayout.gpu.bits_turn import packing_macros
from gpulayout.gpu.element_width import check_whole_elements
from gpulayout.gpu.kernel_numbers import ITEMS, THREADS
from gpulayout.gpu.launch import MAX_GRID_X, Access, Kernel, KernelPlan
from gpulayout.gpu.parameters import lookup_struct
from gpulayout.moves.index_program import MOST_INSTRUCTIONS, MOST_TERMS
from gpulayout.moves.lookup_move import LookupMove

_WORD = 4  # bytes that a thread writes to a packed target
_LOOKUP = Kernel("lookup", "lookup.cu", "gpl_lookup", shared_bytes=0, is_estimated=False)


def lookup_plan(move: LookupMove, source_phase: int, target_phase: int) -> KernelPlan:
    """The launch.  Raises BufferError as `kernel_plan` does."""
    for side, phase, strides in zip(("source", "target"), (source_phase, target_phase), move.strides):
        check_whole_elements(move.itemsize, side, phase, strides)
    program, packed = move.program, move.target_bits < 8
    head = target_phase % _WORD if packed else 0
    items = math.ceil((head + move.bytes_written) / _WORD) if packed else math.ceil(move.place_count / ITEMS)
    blocks, written = math.ceil(items / THREADS), _WORD if packed else move.itemsize
    macros = (
        ("GPL_ELEMENT_BYTES", move.itemsize),
        ("GPL_INDEX_BITS", program.index_bits),
        *packing_macros(move),
    )
    parameters = lookup_struct(
        program.index_bits,
        move.pad,
        (move.place_count, head, move.has_strided_target),
        program.instructions,
        (MOST_INSTRUCTIONS, MOST_TERMS),
    )
    return KernelPlan(
        _LOOKUP,
        macros,
        (min(blocks, MAX_GRID_X), math.ceil(blocks / MAX_GRID_X)),
        parameters,
        move.itemsize,
        written,
        program.index_bits,
        (),
        None,
        (move.why,),
        Access(move.itemsize),
        in_memory=(move.itemsize, move.itemsize),
    )
