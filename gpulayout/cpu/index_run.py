"""Index conversion by NumPy: the instructions of an `IndexProgram`, each on a whole block of indices.

Numbers are unsigned words that wrap, as in the kernel.
"""

from __future__ import annotations

import numpy as np

from gpulayout.moves.index_program import IndexProgram


def run(
    program: IndexProgram,
    given: np.ndarray,
    result: np.ndarray | None,
    has_checks: bool = True,
) -> np.ndarray | None:
    """Write the results of a block, if wanted, with rows of what is given.

    has_checks   whether sums are compared with their bounds

    Returns a mask of the indices where a sum reaches its bound; None when there are none.
    """
    word: type[np.generic] = np.uint32 if program.index_bits == 32 else np.uint64
    registers: dict[int | None, np.ndarray] = {}
    if program.direction != "linearize":
        registers[None] = given[0].astype(word)
    linear = np.zeros(given.shape[-1], word)
    padding: np.ndarray | None = None
    for load, terms, bound, register, store, adds in program.instructions:
        if load is not None:
            number = given[load].astype(word)
        else:
            number = np.zeros_like(linear)
            for term in terms:
                _add(number, registers[term.register], term.divisor, term.weight)
            if has_checks and bound is not None and bound >> program.index_bits == 0:  # else no number reaches it
                past = number >= word(bound)
                padding = past if padding is None else padding | past
        if register is not None:
            registers[register] = number
        if result is not None:
            for divisor, weight in adds:
                _add(linear, number, divisor, weight)
            if store is not None and program.direction == "delinearize":
                np.copyto(result[store], number, casting="unsafe")
    if result is not None and program.direction != "delinearize":
        np.copyto(result[0], linear, casting="unsafe")
    return padding if padding is not None and padding.any() else None


def _add(total: np.ndarray, number: np.ndarray, divisor: int, weight: int) -> None:
    """Add number // divisor * weight to a total; NumPy divides by a constant with a multiplication."""
    word, most = number.dtype.type, int(np.iinfo(number.dtype).max)
    if divisor > most:
        return
    part = number // word(divisor) if divisor > 1 else number
    total += part * word(weight & most)


def outside(values: np.ndarray, bound: int) -> np.ndarray | None:
    """A mask of the values that leave 0..bound-1; None when there are none.

    Negative numbers are large when read as unsigned, so the maximum shows whether any number is outside.  It
    writes nothing; comparing each number would write a mask.
    """
    size = values.itemsize
    unsigned, limit = values.view(f"u{size}"), min(bound, 1 << 8 * size - (values.dtype.kind == "i"))
    return None if int(unsigned.max(initial=0)) < limit else unsigned >= unsigned.dtype.type(limit)
