"""How element types relate: which one holds all values of another, and which of two has the higher precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError

# ml_dtypes has no annotations for the two.
_finfo: Callable[[np.dtype[Any]], Any] = ml_dtypes.finfo
_iinfo: Callable[[np.dtype[Any]], Any] = ml_dtypes.iinfo


def can_upcast(source: object, target: object) -> bool:
    """True when every value of `source` is a value of `target`, signed zeros, infinities and nan included.

    XLA: `ElementCanUpcast`, which asks whether `target` has the higher precision, and so lets s64 become f16.  Here
    only pred becomes pred, no float becomes an integer, and no complex type a real one.

    Parameters
    ----------
    source, target : str or dtype-like
        Element types: XLA names such as "f32", or what `ElementType.of` takes.

    Examples
    --------
    >>> can_upcast("s8", "f16"), can_upcast("s32", "f32"), can_upcast("f16", "bf16"), can_upcast("f32", "c64")
    (True, False, False, True)
    """
    source, target = ElementType.of(source), ElementType.of(target)
    if source is target:
        return True
    if source.is_complex and not target.is_complex:
        return False
    source, target = source.component, target.component
    if target in (ElementType.F8E8M0FNU, ElementType.PRED):  # the first has no zero, the second only truth values
        return source is target
    if source.is_floating:
        return target.is_floating and _float_holds_float(source, target)
    return _float_holds_integer(source, target) if target.is_floating else _integer_holds_integer(source, target)


def higher_precision_element_type(first: object, second: object) -> ElementType:
    """The element type of higher precision.

    XLA: `HigherPrecisionElementType`, which ends the process where no rule decides.

    Parameters
    ----------
    first, second : str or dtype-like
        Element types: XLA names such as "f32", or what `ElementType.of` takes.

    Returns
    -------
    ElementType
        Complex wins over real; then the float of larger range, then of more significant bits; then the type of more
        bits; then the signed integer.

    Raises
    ------
    LayoutError
        If none of these rules decides, as for pred and u1.

    Examples
    --------
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
    limits = _finfo(part.dtype) if part.is_floating else None
    return (
        element_type.is_complex,
        int(limits.maxexp) if limits else -1,
        int(limits.nmant) + 1 if limits else -1,
        part.bits,
        part.is_integral and part.is_signed,
    )


def _range(element_type: ElementType) -> tuple[int, int]:
    """Least and greatest value of an integer type.  pred counts as 0 and 1; s1 has -1 and 0, so it cannot hold pred."""
    if element_type is ElementType.PRED:
        return 0, 1
    limits = _iinfo(element_type.dtype)
    return int(limits.min), int(limits.max)


def _integer_holds_integer(source: ElementType, target: ElementType) -> bool:
    (least, greatest), outer = _range(source), _range(target)
    return outer[0] <= least and greatest <= outer[1]


def _float_holds_integer(source: ElementType, target: ElementType) -> bool:
    """A significand of n bits holds all whole numbers of n bits.  s8 needs 7: -128 is a power of two."""
    (least, greatest), outer = _range(source), _finfo(target.dtype)
    return greatest.bit_length() <= int(outer.nmant) + 1 and float(outer.min) <= least and greatest <= float(outer.max)


def _float_holds_float(source: ElementType, target: ElementType) -> bool:
    """At least as many significant bits, as large a range and as small a subnormal; and the special values of the
    source.
    """
    inner, outer = _finfo(source.dtype), _finfo(target.dtype)
    specials = (np.inf, np.nan, -0.0)
    return (
        inner.nmant <= outer.nmant
        and float(inner.max) <= float(outer.max)
        and float(outer.min) <= float(inner.min)
        and float(outer.smallest_subnormal) <= float(inner.smallest_subnormal)
        and all(target.holds(special) for special in specials if source.holds(special))
    )
