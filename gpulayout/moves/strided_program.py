"""An `IndexPlan` as an `IndexProgram`: digits of a linear index are differences of two quotients, whether tiles cut them or not.

The NumPy backend carries out programs alone.  f32[2,3]{0,1:PD(3,5)} has digits of 3 and 5 places:

    row = place - place // 3 * 3        column = place // 3        place = row + column * 3
"""
from __future__ import annotations

import functools

from gpulayout.moves.index_plan import IndexPlan
from gpulayout.moves.index_program import IndexProgram, Quotient, Step, Term


@functools.lru_cache(maxsize=4096)
def strided_program(plan: IndexPlan) -> IndexProgram:
    """The same conversion; the last digit is what is left of the index, so that one quotient is all of it."""
    steps, place = [], 1
    for number, (extent, bound, stride, dim) in enumerate(plan.digits, 1):
        adds = (Quotient(1, stride),) if stride and plan.direction != "delinearize" else ()
        if plan.direction == "linearize":
            steps.append(Step(dim, (), bound, None, None, adds))
            continue
        terms = (Term(None, place, 1), Term(None, place * extent, -extent))[:2 if number < len(plan.digits) else 1] if extent > 1 else ()
        steps.append(Step(None, terms, bound if bound < extent else None, None, dim if plan.direction == "delinearize" else None, adds))
        place *= max(extent, 1)
    if plan.direction == "linearize":
        steps.sort(key=lambda step: step.load)
    return IndexProgram(plan.direction, tuple(steps), plan.rank, plan.size, plan.reach)
