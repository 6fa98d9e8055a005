"""Moves with arithmetic in NumPy: elements are read as numbers, do the steps, and are written in the target's type.

They go block by block, so that the temporary arrays stay in a cache.  Every cast rounds once.  NumPy and ml_dtypes
convert where they round once and define the result.  Types of one byte go by tables: of 256 numbers to read, and to
write floats, of the codes of all 65,536 bf16.  A number that a type between does not hold goes there "to odd", as in
`_single`.

The law needs the default mode of floating-point arithmetic, which keeps subnormal numbers; a thread may have chosen
another one, as by `torch.set_flush_denormal(True)`, which turns them into zeros.  The halfway steps of a conversion use
subnormal numbers also for results that are none.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpulayout.cpu.blocks import BlockPlan, Box, block_sizes
from gpulayout.cpu.views import strided_view
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, ConvertMove, range_of

BLOCK = 1 << 16  # elements; threads wait for each other before and after each of NumPy's operations on a block
ALONG_TARGET = 1 << 9  # elements of a block along the target; the rest is along the source
_UFUNCS = {"multiply": np.multiply, "add": np.add, "subtract": np.subtract, "divide": np.divide}
_ENVIRONMENT_BYTES = 256  # more than `fenv_t` of any system
_DEFAULT = ctypes.c_void_p(-1)  # FE_DFL_ENV of glibc on x86 and ARM


@dataclass(frozen=True)
class ConvertPlan(BlockPlan):
    """The plan of a move with arithmetic."""

    move: ConvertMove

    def execute(
        self,
        source: np.ndarray,
        source_offset: int,
        target: np.ndarray,
        target_offset: int,
        parameters: Sequence[np.ndarray] = (),
    ) -> None:
        move, types, axes = self.move, self.move.arithmetic, self.move.axes[::-1]
        strides = tuple([axis.source_stride for axis in axes]), tuple([axis.target_stride for axis in axes])
        views = [
            strided_view(source, types.source.carrier, self.extents, source_offset, strides[0]),
            strided_view(target, types.target.carrier, self.extents, target_offset, strides[1]),
        ]
        for array, offset, steps in zip(parameters, move.parameter_offsets, move.parameter_strides):
            steps = tuple([step * array.itemsize for step in reversed(steps)])
            views.append(np.ndarray(self.extents, array.dtype, array, offset * array.itemsize, steps))

        def write(box: Box) -> None:
            values, result, *others = [view[box + (...,)] for view in views]  # arrays, also without dimensions
            values = values.byteswap() if types.swapped else values
            # The law says what becomes of nan, infinity and numbers out of range: no call warns of them.
            with default_float_mode(), np.errstate(all="ignore"):
                convert_elements(types, values, others, result)

        self.share(write)

    def describe(self) -> str:
        return f"{self.move.arithmetic.form} in {super().describe()}"


def numpy_convert_plan(move: ConvertMove, threads: int = 1) -> ConvertPlan:
    """The plan of a move with arithmetic for NumPy, for at most `threads` threads."""
    return ConvertPlan(move, threads, block_sizes(move.axes, ALONG_TARGET, BLOCK)[::-1])


# ---- elements --------------------------------------------------------------------------------------------------------


def cast_values(values: np.ndarray, source: ElementType, target: ElementType, saturate: bool = True) -> np.ndarray:
    """New values of the target's dtype: `values`, of the source's dtype or carrier, each rounded once."""
    out = np.empty(values.shape, target.dtype)
    with default_float_mode(), np.errstate(all="ignore"):
        convert_elements(Arithmetic(source, target, saturate), values, (), out)
    return out


def convert_elements(
    arithmetic: Arithmetic, values: np.ndarray, parameters: Sequence[np.ndarray], out: np.ndarray
) -> None:
    """Convert a block of elements, within `np.errstate(all="ignore")` and `default_float_mode`.

    values       of the source's dtype or carrier, with any strides
    parameters   of the dtype of `Arithmetic.compute`; they broadcast to the shape of `values`
    out          of the target's dtype or carrier and the shape of `values`; each element may lie where its value does,
                 so all values are read before the first is written
    """
    source, target = arithmetic.source, arithmetic.target
    values, out = np.atleast_1d(values, out)  # NumPy makes scalars of arrays without dimensions
    if source is target and not source.is_complex and not arithmetic.steps:  # the bits of a nan stay, too
        np.bitwise_and(values.view(source.carrier), _low_bits(source), out=out.view(source.carrier))
        return
    numbers = _read(values, source)
    if arithmetic.steps:
        numbers = numbers.astype(arithmetic.compute.dtype, order="C", copy=False)
    for step in arithmetic.steps:
        if step.parameter is None:
            numbers = np.rint(numbers)
        else:
            numbers = _UFUNCS[step.operation](numbers, parameters[step.parameter])
    if target is ElementType.PRED:
        np.not_equal(numbers, 0, out=out.view(np.bool_))
    elif target.is_integral:
        _write_integers(numbers, target, out)
    elif target.itemsize == 1:
        out.view(np.uint8)[...] = _codes(target, arithmetic.saturate).take(_bf16_words(numbers), mode="wrap")
    else:
        numbers = _single(numbers) if target.itemsize == 2 else numbers
        np.copyto(out.view(target.dtype), numbers, casting="unsafe")


def _low_bits(kind: ElementType) -> int:
    """The bits of an element that count; those above them are ignored, and 0 where we write."""
    return (1 << (kind.format.bits if kind.format else kind.bits)) - 1


# ---- reading: the exact numbers, of a type of NumPy or as bf16 ------------------------------------------------------


def _read(values: np.ndarray, source: ElementType) -> np.ndarray:
    if source.itemsize == 1 and source not in (ElementType.S8, ElementType.U8):
        return _numbers(source).take(values.view(np.uint8), mode="wrap")
    return values.view(source.dtype)


@functools.cache
def _numbers(source: ElementType) -> np.ndarray:
    """The number of each byte."""
    codes = np.arange(256, dtype=np.uint8) & np.uint8(_low_bits(source))
    return codes.view(source.dtype).astype({"float": np.float32, "signed": np.int8}.get(source.kind, np.uint8))


# ---- writing: numbers are rounded to the target --------------------------------------------------------------------


def _single(numbers: np.ndarray) -> np.ndarray:
    """The numbers as f32; those that f32 does not hold become the odd one of their two neighbours.

    A later rounding to fewer bits then goes the way that the number's own would: an odd last bit says that the number
    is no tie.  1 + 2^-8 + 2^-40, which is more than halfway from 1 to the next bf16, becomes 1 + 2^-8 + 2^-23.
    """
    if np.can_cast(numbers.dtype, np.float32):
        return numbers.astype(np.float32, copy=False)
    if numbers.dtype.itemsize == 8 and numbers.dtype.kind in "iu":  # f64 holds 53 bits, those above the lowest 11
        low = numbers & 0x7FF
        odd = numbers - low | (low != 0).astype(numbers.dtype) << 11
        numbers = np.where(np.abs(numbers) < 1 << 53, numbers, odd)
    wide = numbers.astype(np.float64, copy=False)
    near = wide.astype(np.float32)
    bits, is_rounded = near.view(np.uint32), near != wide
    bits -= np.abs(near) > np.abs(wide)
    bits |= is_rounded
    return near


def _bf16_words(numbers: np.ndarray) -> np.ndarray:
    """The bits of the numbers as bf16, rounded to odd."""
    bits: np.ndarray = _single(numbers).view(np.uint32)
    rest = bits & 0xFFFF != 0
    bits = bits >> 16
    bits |= rest
    return bits


@functools.cache
def _codes(target: ElementType, saturate: bool) -> np.ndarray:
    """The code of a float of one byte for each bf16, which has two bits more than these at least."""
    form = target.format
    numbers = np.arange(1 << 16, dtype=np.uint16).view(ElementType.BF16.dtype).astype(np.float64)
    if form is None:  # f8e8m0fnu: ties go up, and all between 0 and the least power become that
        parts, exponents = np.frexp(np.clip(numbers, 2.0**-127, 2.0**127 if saturate else 2.0**128))
        return np.where(numbers >= 0, exponents + 126 + (parts >= 0.75), 0xFF).astype(np.uint8)
    if saturate and form.infinity is None:
        largest = float(_numbers(target)[form.largest])
        numbers = np.clip(numbers, -largest, largest)
    codes: np.ndarray = numbers.astype(target.dtype).view(np.uint8)
    return codes if form.nan is not None else np.where(numbers == numbers, codes, np.uint8(0))


def _write_integers(numbers: np.ndarray, target: ElementType, out: np.ndarray) -> None:
    """Round half to even, saturate, and write 0 for a nan; the bits above a smaller element are 0.

    NumPy's own conversion is defined only for numbers in range.  2^31 - 1 is no f32, and 2^63 - 1 no f64: numbers above
    the largest float below them are written last.
    """
    lowest, highest = range_of(target)
    is_beyond = None
    if numbers.dtype.kind not in "iu":
        numbers = numbers.astype(np.float32) if numbers.dtype.itemsize == 2 else numbers  # f16 ends at 65504
        top = numbers.dtype.type(highest)
        if int(top) > highest:
            top = np.nextafter(top, numbers.dtype.type(0))
            is_beyond = numbers > top
        is_nan = numbers != numbers
        numbers = np.clip(numbers, numbers.dtype.type(lowest), top)
        np.rint(numbers, out=numbers)
        np.copyto(numbers, 0, where=is_nan)
    else:
        held = np.iinfo(numbers.dtype)
        numbers = np.clip(numbers, max(held.min, lowest), min(held.max, highest))
    out = out.view(target.dtype if target.bits >= 8 else np.int8 if target.is_signed else np.uint8)
    np.copyto(out, numbers, casting="unsafe")
    if is_beyond is not None:
        np.copyto(out, highest, where=is_beyond)
    if target.bits < 8:
        codes = out.view(np.uint8)
        codes &= np.uint8(_low_bits(target))


# ---- the mode of arithmetic ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def default_float_mode() -> Iterator[None]:
    """A context in which this thread keeps subnormal numbers; afterwards the mode is as before.

    On systems without glibc the mode stays as it is.
    """
    libm = _libm()
    if libm is None:
        yield
        return
    before = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    libm.fegetenv(before)
    libm.fesetenv(_DEFAULT)
    try:
        yield
    finally:
        libm.fesetenv(before)


@functools.cache
def _libm() -> Any:
    """The C library's mathematics, or None."""
    try:
        return ctypes.PyDLL("libm.so.6")
    except OSError:
        return None
