"""The source of the elementwise kernel that linearizes broadcast index arrays, written and tested without CuPy.

It takes one operand per dimension, of any integer types and any shapes that broadcast, in one pass and without copies.
"""

from __future__ import annotations

import string

import numpy as np

from gpulayout.gpu.kernel_numbers import MODES
from gpulayout.moves.index_program import IndexProgram

# In CuPy, one upper-case letter names a type that the call decides; L is the result's.
_LETTERS = string.ascii_uppercase.replace("L", "")
MAX_OPERANDS = len(_LETTERS)


def linearize_text(rank: int) -> tuple[str, str, str]:
    """(input parameters, output parameters, operation) in the notation of `cupy.ElementwiseKernel`.

    The operands are i0, i1, ... with bounds b0, b1, ... and strides s0, s1, ...; `i` is the number of the element.
    `rank` is at most `MAX_OPERANDS`.
    """
    inputs = [f"{_LETTERS[d]} i{d}" for d in range(rank)]
    inputs += [f"uint64 b{d}, uint64 s{d}" for d in range(rank)] + ["uint64 mode"]
    terms = "".join(
        f"c = gpl_coordinate(i{d}, b{d}, mode); valid = valid && c < b{d}; sum += c * s{d};\n" for d in range(rank)
    )
    operation = (
        "bool valid = true;\nunsigned long long c, sum = 0;\n"
        + terms
        + "if (valid) linear = sum;\nelse atomicMin(&offender[0], (unsigned long long)i);"
    )
    return ", ".join(inputs), "L linear, raw uint64 offender", operation


def linearize_scalars(program: IndexProgram, mode: str) -> tuple[np.uint64, ...]:
    """The arguments after the operands: bound and stride of every dimension, then the mode.

    The program is a dot product, so every instruction loads a coordinate and has a bound.
    """
    pairs = ((each.bound or 0, each.adds[0].weight if each.adds else 0) for each in program.instructions)
    return (*(np.uint64(number) for pair in pairs for number in pair), np.uint64(MODES[mode]))
