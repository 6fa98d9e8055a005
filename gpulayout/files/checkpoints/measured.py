"""Scales that are measured from a tensor: one for each of its blocks, from the greatest absolute value there.

    scale=absmax/448; block=128     of BF16[300,200]: 3 x 2 scales, those of the last row and column for cut blocks

The law, in the type C, which is f32, or f64 if the tensor or its scales are f64:

1. The greatest |x| of a block is one of its elements, and exact.
2. It is divided by the number, in one IEEE operation of C, and the result is rounded once to the type of the scales: to
   nearest, but to a power of two (f8e8m0fnu) up, so that the greatest element is still in range.
3. A block whose elements are all 0, or that has none, has the scale 1.

A nan, an infinity, and a scale that would be 0 or infinite are errors.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpulayout.files.checkpoints.header import DTYPES
from gpulayout.files.checkpoints.new_types import dtype_named
from gpulayout.files.checkpoints.sibling_names import number
from gpulayout.files.checkpoints.views import View, in_c_order
from gpulayout.files.elements import Bytes
from gpulayout.layout.checks import clipped, shown, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.plans.plan import Plan, plan
from gpulayout.requests.parameters import block_sizes

Words = np.ndarray[tuple[int, ...], np.dtype[Any]]
# The types of tensors.  Without the sign, the bits of an element are a word that grows with |x|: those of
# infinity are given here, and a nan has greater ones.
KINDS: dict[ElementType, tuple[type[np.unsignedinteger[Any]], int]] = {
    ElementType.F16: (np.uint16, 0x7C00),
    ElementType.BF16: (np.uint16, 0x7F80),
    ElementType.F32: (np.uint32, 0x7F80_0000),
    ElementType.F64: (np.uint64, 0x7FF0_0000_0000_0000),
}
MEASURES = ("scale_name", "scale_dtype")  # the keys of rules that go with scale=absmax/NUMBER
SCALES = (*KINDS, ElementType.F8E8M0FNU)  # the types of scales
CHUNK = 1 << 19  # bytes that are read at a time: they are looked at twice, in the processor's cache
PART = 1 << 16  # scales that are made at a time, with all numbers on the way
_ABSMAX = re.compile(r"\s*absmax\s*(?:/([^/]*))?", re.DOTALL)
_NEARLY = re.compile(
    r"\s*(?:absmax\s*(?:[-+*(:/].*)?|(?:abs_max|amax|maxabs|max_abs|max)\s*/\s*[-+.\d].*)", re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True)
class Measure:
    """How a rule measures its scale.

    divisor   what the greatest absolute values are divided by
    dtype     the type of the scales
    """

    divisor: float
    dtype: ElementType

    def __str__(self) -> str:
        return "absmax" if self.divisor == 1 else f"absmax/{self.divisor:.9g}"


def divisor_of(text: str, said: str) -> float | None:
    """The number of a text such as absmax/448; None for other text, which may be the name of a tensor.

    >>> divisor_of("absmax / 7.5", "scale"), divisor_of("absmax", "scale"), divisor_of("*.absmax", "scale")
    (7.5, 1.0, None)
    """
    match = _ABSMAX.fullmatch(text)
    if match is None and not _NEARLY.fullmatch(text):
        return None
    try:
        divisor = 0.0 if match is None else 1.0 if match[1] is None else number(match[1])
    except ValueError:
        divisor = 0.0
    with np.errstate(over="ignore"):
        single = np.float32(divisor)
    if not 0 < single < math.inf:
        raise LayoutError(f"{said} {value_text(clipped(text, 80))} is not absmax/NUMBER, such as absmax/448")
    return divisor


def measure_of(parts: Mapping[str, Any], origin: str) -> Measure | None:
    """How a rule measures its scale, by its keys; None where it does not, `LayoutError` for half of it."""
    said, name, dtype = (parts.get(key) for key in ("scale", *MEASURES))
    divisor = divisor_of(said, f"{origin}: scale") if isinstance(said, str) else None
    if divisor is None:
        for key in MEASURES:
            if parts.get(key) is not None:
                raise LayoutError(f"{origin}: {key} is for scale=absmax/NUMBER, which measures the scale")
        return None
    scale = f"{origin}: scale {value_text(said)}"
    if not isinstance(name, str) or not name or "," in name or "*" in name:
        is_ = "needs the name of the new tensor of scales: add" if name is None else "has no name in"
        given = "..." if name is None else value_text(name)
        raise LayoutError(f"{scale} {is_} scale_name={given}, such as scale_name={{name}}_scale")
    if parts.get("divide") is not None and not parts["divide"]:
        raise LayoutError(f"{scale} is what elements are divided by: leave out divide=false")
    kind = DTYPES["F32" if dtype is None else dtype_named(dtype, f"{origin}: scale_dtype")]
    if kind not in SCALES:
        raise LayoutError(f"{origin}: scale_dtype {value_text(dtype)} is not one of {', '.join(SCALES)}")
    return Measure(divisor, kind)


# ---- before anything is read -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """An array in C order whose scales are measured.

    kind         the type of its elements
    blocks       how many elements share a scale along each dimension; None for one scale, a single number
    """

    kind: ElementType
    dimensions: tuple[int, ...]
    blocks: tuple[int, ...] | None
    measure: Measure

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of the scales."""
        return () if self.blocks is None else _counts(self.dimensions, self.blocks)

    @property
    def nbytes(self) -> int:
        """The bytes that are read."""
        return math.prod(self.dimensions) * self.kind.itemsize


def measured_of(view: View, measure: Measure, block: Any) -> Measured:
    """What is measured of a tensor; `LayoutError` for one of which it is not clear.

    block   as in a call
    """
    shape = view.shape
    if shape.element_type not in KINDS:
        raise LayoutError(
            f"scale={measure} is for {', '.join(KINDS)}, not for {shape.element_type}: if others are meant, add their "
            "type, such as only=BF16"
        )
    if not view.is_array:
        raise LayoutError(
            f"scale={measure} is for arrays in C order, not for {shape}: gpulayout unpack makes an array of it"
        )
    if block is None:
        return Measured(shape.element_type, shape.dimensions, None, measure)
    if shape.rank > 2 and not isinstance(block, (list, tuple)):
        each = ",".join(["1"] * (shape.rank - 2) + [str(block)] * 2)
        raise LayoutError(
            f"block={block} does not say whether the first of {shape.rank} dimensions share a scale: write a number "
            f"for each, such as block={each}"
        )
    return Measured(shape.element_type, shape.dimensions, block_sizes(block, shape.dimensions), measure)


def _counts(dimensions: Sequence[int], blocks: Sequence[int]) -> tuple[int, ...]:
    return tuple(-(-size // block) for size, block in zip(dimensions, blocks))


# ---- the numbers -----------------------------------------------------------------------------------------------------


def scales_of(measured: Measured, read: Callable[[int, int], Bytes], most: int = CHUNK) -> np.ndarray:
    """The scales of a tensor; `LayoutError` for a nan, an infinity, and for a scale that is no number.

    read   gives bytes of the tensor: from which one on, and how many; they are changed
    most   bytes that are read at a time
    """
    greatest = _greatest(measured, read, most).view(measured.kind.dtype)
    scales = np.empty(greatest.size, measured.measure.dtype.dtype)
    for begin in range(0, greatest.size, PART):
        scales[begin : begin + PART] = _scales(greatest[begin : begin + PART], measured, begin)
    return scales.reshape(measured.shape)


def _scales(greatest: np.ndarray, measured: Measured, begin: int) -> np.ndarray:
    """The scales of some blocks by their greatest |x|; the first of them is the block `begin`."""
    measure, shape = measured.measure, measured.shape
    wide = ElementType.F64 if ElementType.F64 in (measured.kind, measure.dtype) else ElementType.F32
    values = greatest.astype(wide.dtype)
    with np.errstate(all="ignore"):
        exact = np.where(values == 0, 1, values / wide.dtype.type(measure.divisor)).astype(wide.dtype)
    if measure.dtype is ElementType.F8E8M0FNU:
        exact = _power_of_two_above(exact)
    scales = exact if wide is measure.dtype else np.asarray(_cast(wide, exact.size, measure.dtype)(exact))
    numbers = np.where(np.isinf(exact), np.inf, scales.astype(np.float64))
    wrong = np.flatnonzero((numbers == 0) | np.isinf(numbers))
    if wrong.size:
        first = int(wrong[0])
        where = f" of block {_index(begin + first, shape)}" if shape else ""
        other = "scale_dtype=f32 has more" if measure.dtype.bits < 32 else "keep leaves the tensor as it is"
        raise LayoutError(
            f"the greatest absolute value{where} is {values[first]:.9g}, and scale={measure} of it is "
            f"{numbers[first]:g} as {measure.dtype}: {other}"
        )
    return scales


@functools.lru_cache(maxsize=64)  # a model has thousands of tensors of a few shapes
def _cast(kind: ElementType, size: int, dtype: ElementType) -> Plan:
    return plan(in_c_order(kind, (size,)), "C", dtype=dtype)


def _power_of_two_above(values: np.ndarray) -> np.ndarray:
    """The least power of two that is not below each number; infinity above 2^127, the last one of f8e8m0fnu.

    >>> _power_of_two_above(np.array([0.5, 0.75, 1e-44])).tolist()[:2]
    [0.5, 1.0]
    """
    fractions, exponents = np.frexp(values)
    exponents = exponents - (fractions == 0.5)
    powers = np.ldexp(values.dtype.type(1), np.minimum(exponents, 127))
    return np.where(exponents > 127, np.inf, powers).astype(values.dtype)


def _greatest(measured: Measured, read: Callable[[int, int], Bytes], most: int) -> Words:
    """The greatest |x| of each block as words, in the order of the blocks."""
    words, infinity = KINDS[measured.kind]
    if 0 in measured.dimensions:
        return np.zeros(math.prod(measured.shape), words)
    dimensions, blocks = _merged(measured.dimensions, measured.blocks or measured.dimensions)
    result: Words = np.zeros(_counts(dimensions, blocks), words)
    begin, itemsize = 0, measured.kind.itemsize
    for box in _boxes(dimensions, max(most // itemsize, 1)):
        sizes = [end - first for first, end in box]
        part: Words = read(begin * itemsize, math.prod(sizes) * itemsize).view(words)
        np.bitwise_and(part, np.iinfo(words).max >> 1, out=part)
        found = part.reshape(sizes)
        for axis, ((first, _), block) in enumerate(zip(box, blocks)):
            found = _folded(found, axis, first, block)
        if found.max() >= infinity:
            place = int(np.flatnonzero(part >= infinity)[0])
            value = "infinite" if part[place] == infinity else "a nan"
            raise LayoutError(
                f"element {_index(begin + place, measured.dimensions)} is {value}, of which scale={measured.measure} "
                "makes no scale: keep leaves the tensor as it is"
            )
        where = tuple(slice(first // block, -(-end // block)) for (first, end), block in zip(box, blocks))
        np.maximum(result[where], found, out=result[where])
        begin += part.size
    return result.reshape(-1)


def _merged(dimensions: Sequence[int], blocks: Sequence[int]) -> tuple[list[int], list[int]]:
    """The same array with fewer dimensions, and the same blocks in the same order; of an array with elements.

    >>> _merged((2, 3, 3), (1, 3, 3)), _merged((4, 256), (1, 128)), _merged((4, 200), (1, 128)), _merged((), ())
    (([18], [9]), ([1024], [128]), ([4, 200], [1, 128]), ([1], [1]))
    """
    sizes, steps = [1], [1]
    for size, block in zip(reversed(dimensions), reversed(blocks)):
        if steps[0] >= sizes[0]:  # all of what is inside is one block
            sizes[0], steps[0] = size * sizes[0], block * sizes[0]
        elif block == 1 and sizes[0] % steps[0] == 0:
            sizes[0] *= size
        else:
            sizes, steps = [size, *sizes], [block, *steps]
    return sizes, steps


def _boxes(dimensions: Sequence[int], most: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Boxes of at most so many elements, each of which is consecutive in the array, and which follow one another."""
    axis = next(axis for axis in range(len(dimensions)) if math.prod(dimensions[axis + 1 :]) <= most)
    inside = math.prod(dimensions[axis + 1 :])
    rest = [(0, size) for size in dimensions[axis + 1 :]]
    step = max(most // inside, 1)
    for outer in itertools.product(*map(range, dimensions[:axis])):
        for first in range(0, dimensions[axis], step):
            yield (*((each, each + 1) for each in outer), (first, min(first + step, dimensions[axis])), *rest)


def _folded(words: Words, axis: int, first: int, block: int) -> Words:
    """The greatest word of each block along an axis, whose first index is `first` of the whole array."""
    size = words.shape[axis]
    if block == 1:
        return words
    before = (slice(None),) * axis
    head = min(-first % block, size)
    count = (size - head) // block
    tail = head + count * block
    parts: list[Words] = []
    if head:
        parts.append(words[(*before, slice(head))].max(axis, keepdims=True))
    if count:
        whole = words[(*before, slice(head, tail))]
        parts.append(whole.reshape(*whole.shape[:axis], count, block, *whole.shape[axis + 1 :]).max(axis + 1))
    if tail < size:
        parts.append(words[(*before, slice(tail, None))].max(axis, keepdims=True))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)


def _index(place: int, dimensions: Sequence[int]) -> str:
    return shown([int(each) for each in np.unravel_index(place, dimensions)])
