"""Cases by name, and the same cases with tiny arrays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from benchmarks.cases.case import Case, IndexCase

QUICK_ELEMENTS = 40_000


def named(cases: Iterable[Case], text: str) -> list[Case]:
    """The cases whose name contains this text, ignoring case."""
    return [case for case in cases if text.casefold() in case.name.casefold()]


def quick(cases: Iterable[Case]) -> list[Case]:
    """The same cases a few hundred times smaller: they show that everything runs, not how fast."""
    return [_shrunk(case) for case in cases]


def _shrunk(case: Case) -> Case:
    if isinstance(case, IndexCase):
        return dataclasses.replace(case, count=4096)
    while math.prod(case.dimensions) > QUICK_ELEMENTS:
        largest = case.dimensions.index(max(case.dimensions))
        halved = {
            name: (*sizes[:largest], math.ceil(sizes[largest] / 2), *sizes[largest + 1 :])
            for name in ("dimensions", "widths", "cut_from", "parameter")
            if (sizes := getattr(case, name, None))
        }
        case = dataclasses.replace(case, **halved)
    return case
