"""The cases for pytest-benchmark: one benchmark for each case and each way to do it, named as on the CPU."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from benchmarks.cases.case import Case
from benchmarks.cases.select import quick
from benchmarks.peers.arrays import array_contenders, small_calls
from benchmarks.peers.contender import Contender, Prepared
from benchmarks.peers.inputs import input_and_output


def ways(cases: Iterable[Case]) -> list[Any]:
    """(case, contender's name, output) of each; what contenders there are a tiny case tells as well."""
    return _ways(cases, lambda case, given, out: array_contenders(np, case, [(given, out)]))


def small_ways(cases: Iterable[Case]) -> list[Any]:
    """The same of small calls."""
    return _ways(cases, functools.partial(small_calls, np))


def _ways(cases: Iterable[Case], contenders: Callable[..., list[Contender]]) -> list[Any]:
    return [pytest.param(case, contender.name, contender.output, id=f"{case.name}, {contender.name}, {contender.output}")
            for case in cases for tiny in quick([case]) for contender in contenders(tiny, *input_and_output(np, tiny, seed=1))]


@functools.lru_cache(1)          # the ways of one case come one after the other
def prepared(side: Any, section: str, case: Case) -> Prepared:
    """The contenders of a case, checked against each other."""
    return side.prepare(section, case)


def find(found: Prepared, name: str, output: str) -> Contender:
    """One of them; the test is skipped where it was refused."""
    for one in found.refused:
        if one.peer == name:
            pytest.skip(f"{name} is refused: {one.reason}")
    return next(contender for contender in found.contenders if (contender.name, contender.output) == (name, output))
