"""The check, before anything is timed, that all contenders of a case do the same work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.cases.case import Case, IndexCase
from benchmarks.peers.contender import Contender, Refused, reason_of
from benchmarks.peers.convert import tolerance


def agreeing(
    xp: ModuleType, case: Case, contenders: Sequence[Contender], pairs: list[tuple], known: Any = None
) -> tuple[list[Contender], list[Refused]]:
    """The contenders that give the same as the first peer, and the peers that do not.  The output is overwritten before
    each.  A contender that rounds otherwise, and says so, may differ in the last places.

    known   the output for the first pair, if that is known without a peer

    AssertionError when this library gives something else, or there is nothing to compare with.
    """
    kept, refused, expected, reference = [], [], None, None
    if known is not None:
        expected, reference = _comparable(xp, case, known), "the result on the CPU"
    for contender in sorted(contenders, key=lambda contender: contender.is_ours):  # peers first: they are the reference
        try:
            found = _output(xp, case, contender, pairs)
        except Exception as error:
            if contender.is_ours:
                raise
            refused.append(Refused(contender.name, reason_of(error)))
            continue
        if expected is None and not contender.is_ours and not contender.rounding:
            expected, reference = found.copy(), contender.name
        if expected is not None and _is_same(xp, case, contender, expected, found):
            kept.append(contender)
        elif contender.is_ours:
            raise AssertionError(
                f"{case.name}: {contender.name} ({contender.output}) gives a different result from "
                f"{reference or 'no peer at all'}"
            )
        else:
            refused.append(Refused(contender.name, f"gives a different result from {reference}"))
    return [contender for contender in contenders if contender in kept], refused


def _is_same(xp: ModuleType, case: Case, contender: Contender, expected: Any, found: Any) -> bool:
    """Whether all bytes are equal, or the numbers of a contender that rounds otherwise nearly so."""
    if bool(xp.array_equal(expected, found)):
        return True
    if not contender.rounding or found.shape != expected.shape or case.target.element_type.is_extended:
        return False
    wanted, numbers = (each.view(case.target.dtype) for each in (expected, found))
    difference = xp.abs(xp.subtract(wanted, numbers, dtype=xp.float32)).max()
    return bool(difference <= tolerance(case, float(xp.abs(wanted).max())))


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
