"""What padding positions hold: XLA's named pad values, or any scalar of the element type.

The names stand for identities of a reduction: ZERO of a sum, ONE of a product, LOWEST of a maximum, HIGHEST of a
minimum.  So LOWEST is -inf for a float type that has infinities, the finite lowest for one that has none
(f8e4m3fn: -448), the smallest integer, False.  Complex numbers have no order, and no LOWEST or HIGHEST.
"""
from __future__ import annotations

import enum
import functools
import math

import ml_dtypes
import numpy as np

from gpulayout.model.element_type import ElementType
from gpulayout.model.errors import LayoutError, LayoutTypeError


class PaddingValue(enum.Enum):
    """The pad values of XLA's `PaddingValue` enumeration; the numbers are the proto's.

    INVALID is the proto's unset value and reads as None.  UNKNOWN promises nothing to the reader;
    this library still writes zero bytes there, so that no old memory leaks into a new buffer.
    """

    INVALID = 0
    ZERO = 1
    ONE = 2
    LOWEST = 3
    HIGHEST = 4
    UNKNOWN = 5

    @property
    def text(self) -> str:
        """The name in a shape's text, such as `lowest`."""
        return self.name.lower()


Scalar = bool | int | float | complex
NAMES = {member.text: member for member in PaddingValue if member is not PaddingValue.INVALID}


def plain_scalar(value: object) -> PaddingValue | Scalar:
    """A pad value as a `PaddingValue` or a plain Python number; LayoutTypeError for anything else."""
    if isinstance(value, (PaddingValue, bool, int, float, complex)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0 and np.asarray(value).dtype.kind not in "OSUMm":
        item = np.asarray(value).item()
        if isinstance(item, (bool, int, float, complex)):
            return item
    raise LayoutTypeError(f"padding_value {value!r} is not a PaddingValue or a number: it is a {type(value).__name__}")


def scalar_key(value: PaddingValue | Scalar | None) -> object:
    """What equality and hashing compare: -0.0 differs from 0.0, and nan equals nan."""
    return (type(value), repr(value)) if isinstance(value, (float, complex)) else (type(value), value)


@functools.lru_cache(maxsize=1024, typed=True)
def _pad_bytes(element_type: ElementType, value: PaddingValue | Scalar | None, key: object) -> bytes:
    dtype = element_type.dtype
    if value is None or value in (PaddingValue.UNKNOWN, PaddingValue.INVALID):
        return bytes(dtype.itemsize)
    number = _named(element_type, value) if isinstance(value, PaddingValue) else value
    return _encode(element_type, number, value)


def pad_bytes(element_type: ElementType, value: PaddingValue | Scalar | None) -> bytes:
    """The bytes of one padding element.

    None and UNKNOWN are zero bytes.  LayoutError when the element type cannot hold the value: 300 in u8,
    1.5 in s32, nan in f6e2m3fn, LOWEST in c64, ZERO in f8e8m0fnu (it has no zero).  A float is rounded to the
    nearest value of the type, as NumPy does; a finite value past the type's range is refused.

    >>> pad_bytes(ElementType.S8, PaddingValue.LOWEST), pad_bytes(ElementType.F16, 1)
    (b'\\x80', b'\\x00<')
    """
    return _pad_bytes(element_type, value, scalar_key(value))


def canonical_scalar(element_type: ElementType, value: PaddingValue | Scalar | None) -> PaddingValue | Scalar | None:
    """The number of the element type that `value` stands for, in its shortest decimal form.

    3 becomes 3.0 in f32 and 0.1 stays 0.1, although f32 holds 0.100000001490116...: both have the same bytes.
    """
    if value is None or isinstance(value, PaddingValue):
        pad_bytes(element_type, value)
        return value
    encoded = pad_bytes(element_type, value)
    exact = np.frombuffer(encoded, element_type.dtype)[0]
    if element_type.kind not in ("float",):
        return exact.item()
    short = float(str(exact))
    return short if pad_bytes(element_type, short) == encoded else float(exact)


def scalar_text(value: Scalar) -> str:
    """A scalar as it stands in a shape's text: `PV(2.5)`, `PV(-inf)`, `PV(1+2j)`; pred prints 0 or 1."""
    if isinstance(value, complex):
        return repr(value).strip("()")
    return repr(int(value) if isinstance(value, bool) else value)


def parse_scalar(text: str) -> Scalar:
    """The inverse of `scalar_text`; ValueError for anything else."""
    if not text or len(text) > 64 or not set(text) <= set("0123456789+-.einfajINFAJE"):
        raise ValueError(text)
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(text)


def _named(element_type: ElementType, name: PaddingValue) -> Scalar:
    if name in (PaddingValue.ZERO, PaddingValue.ONE):
        return 0 if name is PaddingValue.ZERO else 1
    lowest = name is PaddingValue.LOWEST
    kind = element_type.kind
    if kind == "complex":
        raise LayoutError(f"padding_value {name.name} does not exist for {element_type}: complex numbers have no order")
    if kind == "bool":
        return not lowest
    if kind in ("signed", "unsigned"):
        limits = np.iinfo(element_type.dtype)
        return limits.min if lowest else limits.max
    if _holds_infinity(element_type):
        return -math.inf if lowest else math.inf
    limits = ml_dtypes.finfo(element_type.dtype)
    return float(limits.min if lowest else limits.max)


def _encode(element_type: ElementType, number: Scalar, given: object) -> bytes:
    """The bytes of a number, or LayoutError when the type has no such number."""
    kind, dtype = element_type.kind, element_type.dtype
    if isinstance(number, complex) and kind != "complex":
        _refuse(element_type, given, "it is complex")
    if kind in ("bool", "signed", "unsigned"):
        if not (isinstance(number, int) or number.is_integer()):     # is_integer is False for nan and inf
            _refuse(element_type, given, "it is not a whole number")
        limits = (0, 1) if kind == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if not limits[0] <= number <= limits[1]:
            _refuse(element_type, given, f"the range is {int(limits[0])}..{int(limits[1])}")
        return np.array(int(number), dtype).tobytes()
    parts = (number.real, number.imag) if kind == "complex" else (number,)
    real_type = {ElementType.C64: ElementType.F32, ElementType.C128: ElementType.F64}.get(element_type, element_type)
    return b"".join(_encode_float(real_type, part, element_type, given) for part in parts)


def _encode_float(real_type: ElementType, number: float, element_type: ElementType, given: object) -> bytes:
    limits = ml_dtypes.finfo(real_type.dtype)
    lowest, highest = float(limits.min), float(limits.max)
    if math.isnan(number):
        if not _holds_nan(real_type):
            _refuse(element_type, given, "the type has no nan")
    elif math.isinf(number) if isinstance(number, float) else False:
        if not _holds_infinity(real_type):
            _refuse(element_type, given, "the type has no infinity")
    elif not lowest <= number <= highest:
        _refuse(element_type, given, f"the range is {lowest:g}..{highest:g}")
    return np.array(float(number), real_type.dtype).tobytes()


def _holds_infinity(element_type: ElementType) -> bool:
    with np.errstate(all="ignore"):
        return math.isinf(float(element_type.dtype.type(math.inf)))


def _holds_nan(element_type: ElementType) -> bool:
    with np.errstate(all="ignore"):
        return math.isnan(float(element_type.dtype.type(math.nan)))


def _refuse(element_type: ElementType, given: object, reason: str) -> None:
    shown = given.name if isinstance(given, PaddingValue) else repr(given)
    raise LayoutError(f"padding_value {shown} cannot be held by {element_type}: {reason}")
