"""The check, before anything is timed, that all contenders of a case do the same work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.cases.case import Case, IndexCase
from benchmarks.peers.contender import Contender, Refused, reason_of


def agreeing(
    xp: ModuleType, case: Case, contenders: Sequence[Contender], pairs: list[tuple]
) -> tuple[list[Contender], list[Refused]]:
    """The contenders that give the same as the first peer, and the peers that do not.  The output is overwritten before
    each.

    AssertionError when this library gives something else, or no peer gives anything to compare with.
    """
    kept, refused, expected, reference = [], [], None, None
    for contender in sorted(contenders, key=lambda contender: contender.is_ours):  # peers first: they are the reference
        try:
            found = _output(xp, case, contender, pairs)
        except Exception as error:
            if contender.is_ours:
                raise
            refused.append(Refused(contender.name, reason_of(error)))
            continue
        if expected is None and not contender.is_ours:
            expected, reference = found.copy(), contender.name
        if expected is not None and bool(xp.array_equal(expected, found)):
            kept.append(contender)
        elif contender.is_ours:
            raise AssertionError(
                f"{case.name}: {contender.name} ({contender.output}) gives a different result from "
                f"{reference or 'no peer at all'}"
            )
        else:
            refused.append(Refused(contender.name, f"gives a different result from {reference}"))
    return [contender for contender in contenders if contender in kept], refused


def _output(xp: ModuleType, case: Case, contender: Contender, pairs: list[tuple]) -> Any:
    out = pairs[0][1]
    out.view(xp.uint8).fill(0xA5)
    contender.ready()
    output = contender.call(0)
    if contender.wait:
        contender.wait(output)
    return _comparable(xp, case, out if contender.output == "call" else output)  # `copyto` returns nothing


def _comparable(xp: ModuleType, case: Case, output: Any) -> Any:
    """Plain words for moves, because random bytes may be NaN; numbers for indices, whose dtypes differ."""
    if isinstance(case, IndexCase):
        return xp.stack(output) if isinstance(output, tuple) else output
    flat = xp.asarray(output).reshape(-1)
    return flat.view(np.dtype(f"u{math.gcd(flat.nbytes, 8)}"))  # as few comparisons as possible
