"""Arithmetic on the way as numbers: what kernels/convert.cuh takes, in CUDA and in the native engine."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Step

# Kinds of element types, what the special codes of a float mean, and the operations of a step.
KINDS = {"boolean": 0, "unsigned": 1, "signed": 2, "float": 3, "power": 4}
SPECIAL_CODES = {"ieee": 0, "nan": 1, "finite": 2, "unsigned_zero": 3}
OPERATIONS = {"multiply": 1, "add": 2, "subtract": 3, "divide": 4, "round": 5}


@functools.cache
def type_number(element_type: ElementType) -> int:
    """An element type: kind, special codes, bits, bits of the mantissa, bias."""
    form = element_type.format
    if form is not None:
        special = SPECIAL_CODES[form.special] << 3
        return KINDS["float"] | special | form.bits << 5 | form.mantissa_bits << 12 | form.bias << 18
    if element_type is ElementType.F8E8M0FNU:
        return KINDS["power"] | 8 << 5 | 127 << 18
    kind = {"bool": "boolean"}.get(element_type.kind, element_type.kind)
    return KINDS[kind] | element_type.bits << 5


def steps_number(steps: Sequence[Step]) -> int:
    """The steps: five bits each.

    >>> oct(steps_number([Step("multiply", 0), Step("add", 1)]))
    '0o501'
    """
    codes = [OPERATIONS[step.operation] | (step.parameter or 0) << 3 for step in steps]
    return sum(code << 5 * place for place, code in enumerate(codes))
