"""Index conversion by NumPy: steps, each on a whole block of indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gpulayout.cpu.index_steps import LOAD, PAST, STORE, ZEROS, RowStep


def run(
    steps: Iterable[RowStep],
    word: type[np.unsignedinteger],
    count: int,
    given: np.ndarray | Mapping[int, np.ndarray],
    result: np.ndarray | None,
    has_checks: bool = True,
) -> np.ndarray | None:
    """Write the results of a block of `count` indices, if wanted.

    given, result   a row for each side of the steps
    has_checks      whether sums are compared with their bounds

    Returns a mask of the indices where a sum reaches its bound; None when there are none.
    """
    rows = {ZEROS: np.zeros(count, word)}
    padding = np.zeros(count, bool)
    for kind, into, base, number, divisor, weight, side, bound, checks in steps:
        if kind == STORE and result is not None:
            np.copyto(result[side], rows[number], casting="unsafe")
        elif kind == PAST and has_checks:
            padding |= rows[number] >= word(bound)
        elif kind < PAST and (result is not None or (checks and has_checks)):
            part = given[side].astype(word) if kind == LOAD else rows[number]
            if divisor > 1:
                part = part // word(divisor)  # NumPy divides by a constant with a multiplication
            rows[into] = rows[base] + part * word(weight)
    return padding if padding.any() else None


def outside(values: np.ndarray, bound: int) -> np.ndarray | None:
    """A mask of the values that leave 0..bound-1; None when there are none.

    Negative numbers are large when read as unsigned, so the maximum shows whether any number is outside.  It
    writes nothing; comparing each number would write a mask.
    """
    size = values.itemsize
    unsigned, limit = values.view(f"u{size}"), min(bound, 1 << 8 * size - (values.dtype.kind == "i"))
    return None if int(unsigned.max(initial=0)) < limit else unsigned >= unsigned.dtype.type(limit)
