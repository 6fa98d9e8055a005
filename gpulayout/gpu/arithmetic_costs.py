"""How many instructions the arithmetic of an element takes, beside those that move it.

The numbers are those of machine code for sm_90, executed with parameters that neighbours share
(tests/gpu/test_arithmetic_costs.py compares them).  A number that depends on the values is that of usual ones.
"""

from __future__ import annotations

from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, Operation

STEPS: dict[Operation, float] = {"multiply": 1, "add": 1, "subtract": 1, "divide": 4, "round": 1}
_WIDE_STEPS: dict[Operation, float] = {"multiply": 1, "add": 1, "subtract": 1, "divide": 25, "round": 1}
# To and from the float of the steps.  Types that are not here take the general way.
_READ: dict[str, float] = {"f32": 0, "f64": 0, "u8": 2, "s8": 2, "bf16": 1, "f16": 1.5, "f8e4m3fn": 3, "f8e5m2": 2}
_WRITE: dict[str, float] = {"f32": 0, "f64": 0, "u8": 2, "s8": 2, "bf16": 2, "f16": 2, "f8e4m3fn": 3, "f8e5m2": 6}
_INTEGER, _SHORT_FLOAT, _GENERAL = (3.0, 3.0), (9.0, 14.0), (25.0, 45.0)  # to read and to write


def arithmetic_instructions(arithmetic: Arithmetic) -> float:
    """Instructions of a thread for each element.

    >>> from gpulayout.moves.arithmetic import Step
    >>> steps = Step("multiply", 0), Step("add", 1)
    >>> arithmetic_instructions(Arithmetic(ElementType.U8, ElementType.F32, steps=steps))
    4
    """
    source, target = (side.component for side in (arithmetic.source, arithmetic.target))
    is_wide = max(source.itemsize, target.itemsize) == 8 or bool(
        arithmetic.steps and arithmetic.compute is ElementType.F64
    )
    steps = _WIDE_STEPS if is_wide else STEPS
    found = sum(steps[step.operation] for step in arithmetic.steps)
    read, write = ({"f64": 0.0, "f32": 1.0},) * 2 if is_wide else (_READ, _WRITE)
    return found + read.get(source, _usual(source, is_wide)[0]) + write.get(target, _usual(target, is_wide)[1])


def _usual(element_type: ElementType, is_wide: bool) -> tuple[float, float]:
    """What reading and writing a type takes that has no entry."""
    if element_type.is_integral and element_type.itemsize <= 4 and not is_wide:
        return _INTEGER
    if element_type.is_floating and element_type.itemsize <= 2 and not is_wide:
        return _SHORT_FLOAT
    return _GENERAL
