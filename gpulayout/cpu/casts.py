"""The arithmetic of elements in NumPy: read as numbers, do the steps, write in the target's type.

Every arrow rounds once.  NumPy and ml_dtypes convert where they round once and define the result; small_floats.py and
the functions below do the rest.  The callers hold `np.errstate(all="ignore")`: it is a setting of their thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpulayout.cpu import small_floats
from gpulayout.cpu.float_mode import default_float_mode
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic

_UFUNCS = {"multiply": np.multiply, "add": np.add, "subtract": np.subtract, "divide": np.divide}
_Read = functools.partial[np.ndarray]
_Write = Callable[[np.ndarray, np.ndarray], None]


class ElementConversion:
    """Executes an arithmetic on blocks of elements.

    It may be used by several threads at once.

    temporary_bytes   of its temporary arrays for each element, about
    """

    def __init__(self, arithmetic: Arithmetic) -> None:
        source, target = arithmetic.source, arithmetic.target
        self._steps = arithmetic.steps
        self._dtypes = source.dtype, arithmetic.compute.dtype, target.dtype
        self._is_computed = target is arithmetic.compute
        self._once = None if arithmetic.steps else _in_one_step(source, target)
        exactly = not arithmetic.steps and target is not ElementType.F64
        self._read = _reader(source, arithmetic.compute.dtype, exactly)
        self._write = _writer(target, arithmetic.saturate)
        arrays = 0
        if self._once is None:
            arrays += 2 * (self._read.func is not _read_native)  # to read
            arrays += bool(self._steps) and not self._is_computed  # for the steps
            arrays += 2 * (target not in (arithmetic.compute, ElementType.BF16))  # to write
        self.temporary_bytes = arrays * arithmetic.compute.itemsize

    def convert(self, values: np.ndarray, parameters: Sequence[np.ndarray], out: np.ndarray) -> None:
        """Convert a block of elements.

        values       of the source's dtype or carrier, with any strides
        parameters   of the dtype of `Arithmetic.compute`; they broadcast to the shape of `values`
        out          of the target's dtype or carrier and the shape of `values`; it does not overlap `values`
        """
        if not values.ndim:
            self.convert(values.reshape(1), parameters, out.reshape(1))
        elif self._once is not None:
            self._once(values, out)
        elif self._steps:
            self._do_steps(values, parameters, out)
        else:
            self._write(self._read(values), out)

    def _do_steps(self, values: np.ndarray, parameters: Sequence[np.ndarray], out: np.ndarray) -> None:
        source, compute, target = self._dtypes
        found = out.view(target) if self._is_computed else np.empty(values.shape, compute)
        numbers = values.view(source) if self._read.func is _read_native else self._read(values)
        if numbers.dtype != compute:
            np.copyto(found, numbers, casting="unsafe")  # faster than to cast in the first step
            numbers = found
        for step in self._steps:
            if step.parameter is None:
                np.rint(numbers, out=found)
            else:
                _UFUNCS[step.operation](numbers, parameters[step.parameter], out=found)
            numbers = found
        if not self._is_computed:
            self._write(found, out)


def cast_values(values: np.ndarray, source: ElementType, target: ElementType, saturate: bool = True) -> np.ndarray:
    """New values of the target's dtype: `values`, of the source's dtype or carrier, each rounded once."""
    out = np.empty(values.shape, target.dtype)
    with default_float_mode(), np.errstate(all="ignore"):
        ElementConversion(Arithmetic(source, target, saturate)).convert(values, (), out)
    return out


# ---- reading: an array of f32 or f64 numbers, which may be the values themselves ----------------------------------


def _reader(source: ElementType, wide: np.dtype[Any], exactly: bool) -> _Read:
    """How values become numbers of the type `wide`.

    exactly   64-bit integers keep what decides a later rounding; else they are rounded to the nearest
    """
    if exactly and source.is_integral and source.itemsize == 8:
        return functools.partial(_read_to_odd, dtype=source.dtype)
    if source.bits < 8 and source.is_integral:
        return functools.partial(_read_sub_byte, source=source, wide=wide)
    if source is ElementType.F8E8M0FNU:
        return functools.partial(_look_up, numbers=small_floats.powers().astype(wide))
    if source.format and source.itemsize <= 2 and source is not ElementType.BF16:
        return functools.partial(_read_small_floats, source=source, wide=wide)
    return functools.partial(_read_native, dtype=source.dtype, wide=wide)


def _read_native(values: np.ndarray, dtype: np.dtype[Any], wide: np.dtype[Any]) -> np.ndarray:
    return values.view(dtype).astype(wide, order="C", copy=False)


def _read_sub_byte(values: np.ndarray, source: ElementType, wide: np.dtype[Any]) -> np.ndarray:
    return _whole_bytes(values, source).astype(wide)


def _read_small_floats(values: np.ndarray, source: ElementType, wide: np.dtype[Any]) -> np.ndarray:
    return small_floats.decode(values.view(source.carrier), source).astype(wide, copy=False)


def _look_up(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return numbers.take(values.view(np.uint8), mode="wrap")


def _read_to_odd(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """64-bit integers as f64; those that need more than 53 bits become the odd one of their two neighbours.

    A later rounding to fewer bits then goes the way that the integer's own would: an odd last bit says that the number
    is no tie.
    """
    integers = values.view(dtype)
    low = integers & dtype.type(0x7FF)
    odd = (integers - low) | (low != 0).astype(dtype) << 11
    is_small = integers < dtype.type(1 << 53)
    if dtype.kind == "i":
        is_small &= integers > dtype.type(-1 << 53)
    return np.where(is_small, integers, odd).astype(np.float64)


def _whole_bytes(values: np.ndarray, source: ElementType) -> np.ndarray:
    """Integers of fewer than 8 bits as new ones of 8; the bits above them are ignored."""
    if not source.is_signed:
        return values.view(np.uint8) & np.uint8((1 << source.bits) - 1)
    upper = np.left_shift(values.view(np.uint8), np.uint8(8 - source.bits)).view(np.int8)
    upper >>= np.int8(8 - source.bits)
    return upper


# ---- writing: numbers of f32 or f64 are rounded to the target ------------------------------------------------------


def _writer(target: ElementType, saturate: bool) -> _Write:
    if target is ElementType.PRED:
        return _write_pred
    if target.is_integral:
        return functools.partial(_write_integers, target=target)
    if target is ElementType.F8E8M0FNU:
        return functools.partial(_write_powers, saturate=saturate)
    if target.format and target.itemsize <= 2:
        return functools.partial(_write_small_floats, target=target, saturate=saturate)
    return functools.partial(_write_native, dtype=target.dtype)


def _write_native(numbers: np.ndarray, out: np.ndarray, dtype: np.dtype[Any]) -> None:
    np.copyto(out.view(dtype), numbers, casting="unsafe")


def _write_pred(numbers: np.ndarray, out: np.ndarray) -> None:
    np.not_equal(numbers, 0, out=out.view(np.bool_))


def _write_powers(numbers: np.ndarray, out: np.ndarray, saturate: bool) -> None:
    small_floats.encode_power(numbers, saturate, out.view(np.uint8))


def _write_small_floats(numbers: np.ndarray, out: np.ndarray, target: ElementType, saturate: bool) -> None:
    if target is ElementType.BF16 and numbers.dtype == np.float32:
        np.copyto(out.view(target.dtype), numbers, casting="unsafe")
    else:
        small_floats.encode(numbers, target, saturate, out.view(target.carrier))


def _write_integers(numbers: np.ndarray, out: np.ndarray, target: ElementType) -> None:
    """Round half to even, saturate, and write 0 for a nan.

    NumPy's own conversion is defined only for numbers in range.  2^63 - 1 and 2^64 - 1 are no f64: numbers above the
    largest f64 below them are written last.
    """
    lowest, highest = _range(target)
    highest_float = int(np.nextafter(2.0**target.bits / (1 + target.is_signed), 0)) if target.bits == 64 else highest
    kind = numbers.dtype.type
    rounded = np.clip(numbers, kind(lowest), kind(highest_float))
    np.rint(rounded, out=rounded)
    top = rounded.max(initial=0)
    if top != top:
        np.copyto(rounded, 0, where=rounded != rounded)
        top = rounded.max()
    _write_in_range(rounded, out, target)
    if top == highest_float != highest:
        np.copyto(out.view(target.dtype), highest, where=numbers > kind(highest_float))


def _write_in_range(values: np.ndarray, out: np.ndarray, target: ElementType) -> None:
    """Write integers in range, of any type; the bits above a smaller element are 0."""
    if target.bits >= 8:
        np.copyto(out.view(target.dtype), values, casting="unsafe")
        return
    out = out.view(np.uint8)
    np.copyto(out.view(np.int8) if target.is_signed else out, values, casting="unsafe")
    out &= np.uint8((1 << target.bits) - 1)


def _range(integer: ElementType) -> tuple[int, int]:
    """The lowest and the highest number of an integer type, or of pred."""
    if integer.is_signed:
        return -1 << integer.bits - 1, (1 << integer.bits - 1) - 1
    return 0, (1 << integer.bits) - 1


# ---- conversions that need no f32 or f64 between -------------------------------------------------------------------

_NATIVE_FLOATS = (ElementType.F32, ElementType.F64)


def _in_one_step(source: ElementType, target: ElementType) -> _Write | None:
    """How a plain cast goes without f32 and f64 between; None if it does not."""
    if source is target and source.itemsize == 1 and source is not ElementType.PRED:
        return functools.partial(_keep_low_bits, bits=_code_bits(source))
    if source is target or source.is_complex or {source, target} == {ElementType.BF16, ElementType.F32}:
        return functools.partial(_convert_natively, source=source.dtype, target=target.dtype)
    from_integer = source.is_integral or source is ElementType.PRED
    if target is ElementType.BF16 and source.is_integral and 8 <= source.bits <= 16:  # which f32 holds exactly
        return functools.partial(_convert_natively, source=source.dtype, target=target.dtype)
    if from_integer and target.is_integral:
        return functools.partial(_convert_integers, source=source, target=target)
    if from_integer and source.bits >= 8 and target in _NATIVE_FLOATS:
        return functools.partial(_convert_natively, source=source.dtype, target=target.dtype)
    return None


def _code_bits(kind: ElementType) -> int:
    """Bits of an element that count; 6 for the floats of 6 bits, which take 8."""
    form = kind.format
    return form.bits if form else kind.bits


def _keep_low_bits(values: np.ndarray, out: np.ndarray, bits: int) -> None:
    np.bitwise_and(values.view(np.uint8), np.uint8((1 << bits) - 1), out=out.view(np.uint8))


def _convert_natively(values: np.ndarray, out: np.ndarray, source: np.dtype[Any], target: np.dtype[Any]) -> None:
    np.copyto(out.view(target), values.view(source), casting="unsafe")


def _convert_integers(values: np.ndarray, out: np.ndarray, source: ElementType, target: ElementType) -> None:
    """Saturate an integer of one type to another."""
    if source is ElementType.PRED:
        integers = values.view(np.uint8)
    else:
        integers = _whole_bytes(values, source) if source.bits < 8 else values.view(source.dtype)
    has, takes = _range(source), _range(target)
    lowest, highest = max(has[0], takes[0]), min(has[1], takes[1])
    if (lowest, highest) != has:
        kind = integers.dtype.type
        integers = np.clip(integers, kind(lowest), kind(highest))
    _write_in_range(integers, out, target)
