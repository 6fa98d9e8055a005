"""What fills padding: XLA's named pad values, or any scalar of the element type.

The names are the identities of reductions: ZERO of a sum, ONE of a product, LOWEST of a maximum, HIGHEST of a minimum.
So LOWEST is -inf for a float type with infinities, the lowest finite value for one without (f8e4m3fn: -448), the
smallest integer, or False.  Complex numbers have no order, so they have no LOWEST or HIGHEST.
"""

from __future__ import annotations

import enum
import functools
import math
from typing import NoReturn

import ml_dtypes
import numpy as np

from gpulayout.layout import checks
from gpulayout.layout.checks import Text, number_text, type_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.graph_constants import constant_in_graphs


class PaddingValue(enum.Enum):
    """Named pad values: the identities of reductions over the elements.

    Attributes
    ----------
    ZERO, ONE
        0 and 1: the identities of sum and product.
    LOWEST, HIGHEST
        The identities of maximum and minimum: -inf and inf for float types that have them, otherwise the finite
        extremes; the extremes of integers; False and True.  LayoutError for complex types.
    UNKNOWN
        Padding may hold anything.  New buffers still get zero bytes, so that old memory does not leak into them.
    INVALID
        The proto's unset value: it becomes None, and is refused with padded dimensions.

    Notes
    -----
    The names and numbers are those of XLA's `PaddingValue` proto enumeration.

    Examples
    --------
    >>> import gpulayout as gl
    >>> str(gl.Shape("f32", (2, 3), gl.Layout((1, 0), padding_value=PaddingValue.LOWEST)))
    'f32[2,3]{1,0:PV(lowest)}'
    """

    INVALID = 0
    ZERO = 1
    ONE = 2
    LOWEST = 3
    HIGHEST = 4
    UNKNOWN = 5

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        name = value.upper() if isinstance(value, str) else ""
        hint = f": write gl.PaddingValue.{name}" if name in cls.__members__ else ""
        raise ValueError(f"{checks.value_text(value)} is not a valid PaddingValue{hint}")

    @property
    def text(self) -> str:
        """The name in the text of a shape, such as `lowest`."""
        return self.name.lower()


Scalar = bool | int | float | complex
_INTEGER_LIMIT = 1 << 1024  # just above the largest f64
NAMES = {member.text: member for member in PaddingValue if member is not PaddingValue.INVALID}


def plain_scalar(value: object) -> PaddingValue | Scalar:
    """A pad value as a `PaddingValue` or a plain Python number; LayoutTypeError for anything else.

    The names in text ("lowest") are accepted; False and True become 0 and 1, as in text.
    """
    if isinstance(value, str) and value in NAMES:
        return NAMES[value]
    if (
        isinstance(value, (np.generic, np.ndarray))
        and np.ndim(value) == 0
        and np.asarray(value).dtype.kind not in "OSUMm"
    ):
        item = np.asarray(value).item()
        if isinstance(item, np.inexact):  # NumPy's long doubles have no Python counterpart
            infinite = bool(np.isinf(item))
            item = complex(item) if isinstance(item, np.complexfloating) else float(item)
            if math.inf in (abs(item.real), abs(item.imag)) and not infinite:
                raise LayoutError(f"padding_value {value!r} is larger than any element type can hold")
    else:
        item = value
    if isinstance(item, bool):
        return int(item)
    if isinstance(item, int) and abs(item) >= _INTEGER_LIMIT:
        raise LayoutError(f"padding_value {number_text(item)} is larger than any element type can hold")
    if isinstance(item, PaddingValue):
        return item
    if isinstance(item, (int, float, complex)) and not isinstance(item, np.generic):
        return int(item) if isinstance(item, int) else float(item) if isinstance(item, float) else complex(item)
    hint = f"the names are {', '.join(NAMES)}" if isinstance(value, str) else f"it is {type_text(value)}"
    raise LayoutTypeError(f"padding_value {checks.value_text(value)} is not a PaddingValue or a number: {hint}")


def scalar_key(value: PaddingValue | Scalar | None) -> object:
    """The key for equality and hashing: -0.0 differs from 0.0, and nan equals nan."""
    return (type(value), repr(value)) if isinstance(value, (float, complex)) else (type(value), value)


class _Unfit(Exception):
    """Why an element type cannot hold a pad value."""


# Every shape with a layout that has a pad value, and every text that names one, asks for the same few values again.
# 1024 entries of about 300 bytes.
@functools.lru_cache(maxsize=1024, typed=True)
def _pad_bytes(element_type: ElementType, value: PaddingValue | Scalar | None, key: object) -> bytes:
    dtype = element_type.dtype
    if value is None or value in (PaddingValue.UNKNOWN, PaddingValue.INVALID):
        return bytes(dtype.itemsize)
    number = _named(element_type, value) if isinstance(value, PaddingValue) else value
    return _encode(element_type, number)


@constant_in_graphs
def _kept_bytes(element_type: ElementType, value: PaddingValue | Scalar | None) -> bytes:
    return _pad_bytes(element_type, value, scalar_key(value))


def pad_bytes(element_type: ElementType, value: PaddingValue | Scalar | None, context: Text = "") -> bytes:
    """The bytes of one padding element.

    None and UNKNOWN give zero bytes.  LayoutError when the element type cannot hold the value: 300 in u8, 1.5 in s32,
    nan in f6e2m3fn, LOWEST in c64, ZERO in f8e8m0fnu (which has no zero).  A float is rounded to the nearest value of
    the type, as in NumPy; a finite value that would become infinite is refused.  Every nan becomes the positive quiet
    one without payload.

    >>> pad_bytes(ElementType.S8, PaddingValue.LOWEST), pad_bytes(ElementType.F16, 1)
    (b'\\x80', b'\\x00<')
    """
    try:
        return _kept_bytes(element_type, value)
    except _Unfit as reason:
        name = (
            value.name if isinstance(value, PaddingValue) else number_text(value) if type(value) is int else repr(value)
        )
        raise LayoutError(f"padding_value {name} cannot be held by {element_type}{context}: {reason}") from None


def canonical_scalar(
    element_type: ElementType, value: PaddingValue | Scalar | None, context: Text = ""
) -> PaddingValue | Scalar | None:
    """The canonical number for the value in the element type: values with equal bytes become equal.

    3 becomes 3.0 in f32.  Whole numbers are exact; others have the fewest digits that give the same bytes: 0.1 stays
    0.1, although f32 holds 0.100000001490116...
    """
    encoded = pad_bytes(element_type, value, context)
    if value is None or isinstance(value, PaddingValue):
        return value
    return _number(element_type, encoded)


@constant_in_graphs
def _number(element_type: ElementType, encoded: bytes) -> Scalar:
    """The canonical number with these bytes."""
    exact = np.frombuffer(encoded, element_type.dtype)[0].item()
    if element_type.kind == "complex":
        return complex(*(_shortest(element_type.component, part) for part in (exact.real, exact.imag)))
    return _shortest(element_type, float(exact)) if element_type.kind == "float" else int(exact)


def _shortest(element_type: ElementType, exact: float) -> float:
    """The float with the fewest decimal digits that becomes the same value in the element type."""
    if not math.isfinite(exact) or (exact.is_integer() and abs(exact) < 2**53):
        return exact
    encoded = _encode_float(element_type, exact)
    shorter = (float(f"{exact:.{digits}g}") for digits in range(1, 17))
    return next(
        (
            number
            for number in shorter
            if _in_range(element_type, number) and _encode_float(element_type, number) == encoded
        ),
        exact,
    )


def value_text(value: PaddingValue | Scalar) -> str:
    """A pad value in the text of a shape: `lowest`, `2.5`, `-inf`, `1+2j`; pred prints 0 or 1."""
    if isinstance(value, PaddingValue):
        return value.text
    if isinstance(value, complex):
        return repr(value).strip("()")
    return repr(value)


def parse_scalar(text: str) -> Scalar:
    """The inverse of `value_text` for numbers; ValueError for other text and for digits too large for a float."""
    if not set(text) <= set("0123456789+-.einfajINFAJE"):
        raise ValueError(text)
    for kind in (int, float, complex):
        try:
            number = kind(text)
        except ValueError:
            continue
        if kind is not int and [abs(number.real), abs(number.imag)].count(math.inf) > text.lower().count("inf"):
            break  # 1e999 is not infinity
        return number
    raise ValueError(text)


def _named(element_type: ElementType, name: PaddingValue) -> Scalar:
    if name in (PaddingValue.ZERO, PaddingValue.ONE):
        return 0 if name is PaddingValue.ZERO else 1
    lowest = name is PaddingValue.LOWEST
    kind = element_type.kind
    if kind == "complex":
        raise _Unfit("complex numbers have no order")
    if kind == "float" and element_type.holds(math.inf):
        return -math.inf if lowest else math.inf
    return _range(element_type)[0 if lowest else 1]


def _range(element_type: ElementType) -> tuple[int, int] | tuple[float, float]:
    """The lowest and the highest finite number of a type that is not complex."""
    kind = element_type.kind
    if kind == "bool":
        return 0, 1
    # ml_dtypes is typed except for these two constructors, hence the ignores.
    if kind == "float":
        limits = ml_dtypes.finfo(element_type.dtype)  # type: ignore[no-untyped-call]
        return float(limits.min), float(limits.max)
    whole = ml_dtypes.iinfo(element_type.dtype)  # type: ignore[no-untyped-call]
    return int(whole.min), int(whole.max)


def _encode(element_type: ElementType, number: Scalar) -> bytes:
    """The bytes of a number; _Unfit when the type has no such number."""
    kind = element_type.kind
    if kind == "complex":
        return b"".join(_encode_float(element_type.component, part) for part in (number.real, number.imag))
    if isinstance(number, complex):
        raise _Unfit("it is complex")
    if kind in ("bool", "signed", "unsigned"):
        if not (isinstance(number, int) or number.is_integer()):  # is_integer is False for nan and inf
            raise _Unfit("it is not a whole number")
        lowest, highest = _range(element_type)
        if not lowest <= number <= highest:
            raise _Unfit(f"the range is {lowest}..{highest}")
        return np.array(int(number), element_type.dtype).tobytes()
    return _encode_float(element_type, number)


def _encode_float(element_type: ElementType, number: int | float) -> bytes:
    if isinstance(number, float) and math.isnan(number):
        if not element_type.holds(math.nan):
            raise _Unfit("the type has no nan")
        number = math.nan  # not -nan, which prints the same
    elif isinstance(number, float) and math.isinf(number):
        if not element_type.holds(math.inf):
            raise _Unfit("the type has no infinity")
    elif not _in_range(element_type, number):
        lowest, highest = _range(element_type)
        raise _Unfit(f"the range is {lowest:.8g}..{highest:.8g}")
    return np.array(float(number), element_type.dtype).tobytes()


def _in_range(element_type: ElementType, number: int | float) -> bool:
    """True for a finite number that stays finite: 3.4028235e38, slightly above f32's largest, rounds down to it."""
    lowest, highest = _range(element_type)
    if lowest <= number <= highest:
        return True
    if not element_type.holds(math.inf):
        return False  # a value out of range saturates or becomes nan
    try:
        with np.errstate(all="ignore"):
            return math.isfinite(element_type.dtype.type(float(number)))
    except OverflowError:
        return False
