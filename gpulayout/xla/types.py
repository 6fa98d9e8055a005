"""How element types relate: which one holds all values of another, and which one is preferred where two meet."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError


def can_upcast(source: object, target: object) -> bool:
    """True when every value of `source` is a value of `target`: signed zeros, infinities and nan included.

    Nothing but pred becomes pred, no float becomes an integer, no complex number a real one.
    XLA: `ElementCanUpcast`, which asks whether `target` is the type of higher precision, and so lets s64 become f16.

    >>> can_upcast("s8", "f16"), can_upcast("s32", "f32"), can_upcast("f16", "bf16"), can_upcast("f32", "c64")
    (True, False, False, True)
    """
    source, target = ElementType.of(source), ElementType.of(target)
    if source is target:
        return True
    if source.is_complex and not target.is_complex:
        return False
    source, target = source.component, target.component
    if ElementType.F8E8M0FNU is target or ElementType.PRED is target:  # one has no zero, the other no numbers
        return source is target
    if source.is_floating:
        return target.is_floating and _float_holds_float(source, target)
    return _float_holds_integer(source, target) if target.is_floating else _integer_holds_integer(source, target)


def higher_precision_element_type(first: object, second: object) -> ElementType:
    """The type that is preferred of two: complex before real, then a float of more range, then of more precision, then
    more bits, then a signed integer.

    LayoutError for two types that none of these tells apart, pred and u1 for one.  XLA: `HigherPrecisionElementType`,
    which ends the process there.

    >>> higher_precision_element_type("f16", "bf16"), higher_precision_element_type("u8", "s8")
    (ElementType('bf16'), ElementType('s8'))
    """
    first, second = ElementType.of(first), ElementType.of(second)
    ranks = _preference(first), _preference(second)
    if ranks[0] == ranks[1] and first is not second:
        raise LayoutError(f"element types {first} and {second} have the same precision: neither is the higher one")
    return first if ranks[0] >= ranks[1] else second


def _preference(element_type: ElementType) -> tuple[int, ...]:
    part = element_type.component
    limits = ml_dtypes.finfo(part.dtype) if part.is_floating else None
    return (
        element_type.is_complex,
        int(limits.maxexp) if limits else -1,
        int(limits.nmant) + 1 if limits else -1,
        part.bits,
        part.is_integral and part.is_signed,
    )


def _range(element_type: ElementType) -> tuple[int, int]:
    """Least and greatest value of an integer type; pred counts as 0 and 1, which s1 does not hold: it has -1 and 0."""
    if element_type is ElementType.PRED:
        return 0, 1
    limits = ml_dtypes.iinfo(element_type.dtype)
    return int(limits.min), int(limits.max)


def _integer_holds_integer(source: ElementType, target: ElementType) -> bool:
    (least, greatest), outer = _range(source), _range(target)
    return outer[0] <= least and greatest <= outer[1]


def _float_holds_integer(source: ElementType, target: ElementType) -> bool:
    """All whole numbers of n bits are floats whose significands have n bits; s8 has 7 and a sign: -128 is a power of
    two.
    """
    (least, greatest), outer = _range(source), ml_dtypes.finfo(target.dtype)
    return greatest.bit_length() <= int(outer.nmant) + 1 and float(outer.min) <= least and greatest <= float(outer.max)


def _float_holds_float(source: ElementType, target: ElementType) -> bool:
    """As many bits of significand, as much range, as fine a smallest step; and whatever is no number or a negative
    zero.
    """
    inner, outer = ml_dtypes.finfo(source.dtype), ml_dtypes.finfo(target.dtype)
    specials = (np.inf, np.nan, -0.0)
    return (
        inner.nmant <= outer.nmant
        and float(inner.max) <= float(outer.max)
        and float(outer.min) <= float(inner.min)
        and float(outer.smallest_subnormal) <= float(inner.smallest_subnormal)
        and all(target.holds(special) for special in specials if source.holds(special))
    )
