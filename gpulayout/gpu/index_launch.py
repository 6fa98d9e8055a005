"""The launch of an index conversion: the kernel, its compile-time variant, the parameter struct and the grid.

Programs in which every coordinate is one digit run in kernels/index.cu as a table; all others run in
kernels/index_program.cu as instructions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpulayout.gpu.index_table import index_table
from gpulayout.gpu.kernel_numbers import ITEMS, MODES, THREADS
from gpulayout.gpu.launch import MAX_GRID_X
from gpulayout.gpu.parameters import axes_variant, index_program_struct, index_table_struct
from gpulayout.gpu.runtime import Macros
from gpulayout.moves.index_program import MOST_INSTRUCTIONS, MOST_TERMS, IndexProgram


class IndexLaunch(NamedTuple):
    """The launch of a kernel whose arguments are the given indices, the result, a flag and the parameters."""

    file: str
    kernel: str
    macros: Macros
    grid: tuple[int, int]
    parameters: bytes


def index_launch(
    program: IndexProgram, count: int, mode: str, given: tuple[int, bool], result_bytes: int
) -> IndexLaunch:
    """The launch for `count` indices; `given` is the size of a given index in bytes and whether it is signed."""
    table, scalars = index_table(program), (count, program.size, MODES[mode])
    index_bits = ("GPL_INDEX_BITS", program.index_bits)
    types = (
        ("GPL_IN_BYTES", given[0]),
        ("GPL_IN_SIGNED", int(given[1])),
        ("GPL_OUT_BYTES", result_bytes),
    )
    if table is None:
        parameters = index_program_struct(
            program.index_bits, (*scalars, program.has_bounds), program.instructions, (MOST_INSTRUCTIONS, MOST_TERMS)
        )
        name = f"gpl_{program.direction}_program"
        return IndexLaunch("index_program.cu", name, (index_bits, *types), _grid(count), parameters)
    variant = axes_variant(max(len(table.digits), 1))
    macros = (index_bits, ("GPL_DIGIT_BITS", table.digit_bits), ("GPL_AXES", variant), *types)
    parameters = index_table_struct(table.digit_bits, scalars, table.low_digits, table.digits)
    return IndexLaunch("index.cu", f"gpl_{program.direction}", macros, _grid(count), parameters)


def _grid(count: int) -> tuple[int, int]:
    """Blocks of 256 threads, 4 indices per thread."""
    blocks = math.ceil(count / (THREADS * ITEMS))
    return min(blocks, MAX_GRID_X), math.ceil(blocks / MAX_GRID_X)
