"""How index conversion is launched: the compile-time variant, the parameter struct and the grid of a plan's kernel."""
from __future__ import annotations

import math

from gpulayout.gpu.launch import ITEMS, MAX_GRID_X, THREADS
from gpulayout.gpu.parameters import axes_variant, index_program_struct, index_table_struct
from gpulayout.moves.index_plan import IndexPlan
from gpulayout.moves.index_program import MOST_STEPS, MOST_TERMS, IndexProgram

MODES = {"raise": 0, "wrap": 1, "clip": 2, "mark": 3}          # as GplMode in kernels/coordinate.cuh


def macros(plan: IndexPlan | IndexProgram, in_bytes: int, in_signed: bool, out_bytes: int) -> tuple[tuple[str, int], ...]:
    """The compile-time variant for these index types."""
    types = (("GPL_IN_BYTES", in_bytes), ("GPL_IN_SIGNED", int(in_signed)), ("GPL_OUT_BYTES", out_bytes))
    if isinstance(plan, IndexProgram):
        return ("GPL_INDEX_BITS", plan.index_bits), *types
    return ("GPL_INDEX_BITS", plan.index_bits), ("GPL_DIGIT_BITS", plan.digit_bits), ("GPL_AXES", axes_variant(max(len(plan.digits), 1))), *types


def parameters(plan: IndexPlan | IndexProgram, count: int, mode: str) -> bytes:
    """The bytes of the parameter struct for `count` indices."""
    scalars = count, plan.size, MODES[mode]
    if isinstance(plan, IndexProgram):
        return index_program_struct(plan.index_bits, (*scalars, plan.has_bounds), plan.steps, (MOST_STEPS, MOST_TERMS))
    return index_table_struct(plan.digit_bits, scalars, plan.low_digits, plan.kernel_digits)


def grid(count: int) -> tuple[int, int]:
    """Blocks of 256 threads for `count` indices, 4 in a thread."""
    blocks = math.ceil(count / (THREADS * ITEMS))
    return min(blocks, MAX_GRID_X), math.ceil(blocks / MAX_GRID_X)
