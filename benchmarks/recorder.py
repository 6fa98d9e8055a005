"""The cases for pytest-benchmark: one benchmark for each case and each way to do it, named as on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from benchmarks.cases.case import Case
from benchmarks.cases.select import quick
from benchmarks.peers.arrays import array_contenders, small_calls
from benchmarks.peers.contender import Contender, Prepared
from benchmarks.peers.inputs import input_and_output


def ways(section: str, cases: Iterable[Case]) -> list[Any]:
    """pytest parameters (case, contender's name, output).  The tiny form of a case has the same contenders."""
    found = []
    for case in cases:
        (tiny,) = quick([case])
        pair = input_and_output(np, tiny, seed=1)
        contenders = small_calls(np, tiny, *pair) if section == "small" else array_contenders(np, tiny, [pair])
        found += [
            pytest.param(case, one.name, one.output, id=f"{case.name}, {one.name}, {one.output}") for one in contenders
        ]
    return found


@functools.lru_cache(1)  # all ways of one case run before the next case
def prepared(side: Any, section: str, case: Case) -> Prepared:
    """The contenders of a case, checked against each other."""
    return side.prepare(section, case)


def find(found: Prepared, name: str, output: str) -> Contender:
    """One of them; skips the test if it was refused."""
    refused = [f"{name} is refused: {one.reason}" for one in found.refused if one.peer == name]
    if refused:
        pytest.skip(refused[0])
    return next(contender for contender in found.contenders if (contender.name, contender.output) == (name, output))
