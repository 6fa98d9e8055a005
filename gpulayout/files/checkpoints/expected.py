r"""Numbers that a rule expects: every element of its tensors is one of them, or nothing is written.

    --tensor '.*\.qzeros=from=gptq:qzeros(dtype=u4); expect=7; why="Marlin has no zero points"; drop'

A tensor that is left out may say that the others mean something else.  This one is looked at, as `from=` reads it, in
blocks that take little memory.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.model import Found, elements_of
from gpulayout.files.checkpoints.sibling_names import number, whole_number
from gpulayout.files.checkpoints.views import View
from gpulayout.files.elements import Elements
from gpulayout.files.pieces import Pieces
from gpulayout.layout.checks import either, shown, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.moves.blocks import NoSmallerBlock
from gpulayout.moves.runs import Runs
from gpulayout.plans.plan import plan
from gpulayout.plans.plan_blocks import Block, Blocks

BLOCK = 1 << 23  # bytes that are read and unpacked at a time


@dataclass(frozen=True)
class Expected:
    """The numbers that a rule expects, and what it says where a tensor has another one.

    why   other numbers are wrong, in the user's words; may be empty
    """

    numbers: tuple[float, ...]
    why: str = ""

    def __str__(self) -> str:
        """As people read it.

        >>> str(Expected((7, 8.5))), str(Expected((7,), "no zero points"))
        ('7 or 8.5', '7: no zero points')
        """
        return either([*map(str, self.numbers)]) + f": {self.why}" * bool(self.why)


def expected(value: Any, why: Any, origin: str) -> Expected | None:
    """What the keys `expect` and `why` of a rule say: a number, several in a list, or text with commas between them.

    >>> expected("7, 8.5", None, "")
    Expected(numbers=(7, 8.5), why='')
    """
    if why is not None and not isinstance(why, str):
        raise TypeError(f"{origin}: why is {value_text(why)}, not text")
    if value is None:
        if why is not None:
            raise LayoutError(f"{origin}: why says what other numbers mean than those of expect=, which is missing")
        return None
    given = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    numbers = tuple(each for each in map(_number, given) if each is not None)
    if not numbers or len(numbers) < len(given):
        raise LayoutError(f"{origin}: expect {value_text(value)} is not a number, or several such as 7,8")
    if any(isinstance(each, float) and math.isnan(each) for each in numbers):
        raise LayoutError(f"{origin}: expect {value_text(value)}: no number equals nan")
    return Expected(numbers, "" if why is None else why.strip())


def _number(value: Any) -> float | None:
    """A number, or the one that a text means: whole ones exactly; None for anything else."""
    if isinstance(value, str):
        try:
            value = whole_number(value)
        except ValueError:  # also for more digits than Python reads
            try:
                value = number(value)
            except ValueError:
                return None
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


# ---- the elements of a tensor ----------------------------------------------------------------------------------------


def check_expected(found: Found, view: View, expect: Expected, origin: str) -> None:
    """`LayoutError` for a tensor with another number; it names the first one in the order of the dimensions."""
    shape, (shard, tensor) = view.shape, found
    wanted = [_element(each, shape.element_type, origin) for each in expect.numbers]
    name = f"{tensor_text(tensor.name)} of {shard.path}"
    source = elements_of(found)
    first, value = shape.element_count * shape.element_type.itemsize, None
    for block in _blocks(shape, BLOCK):
        if block.target_runs.offset >= first:  # blocks begin in the order of the elements
            break
        elements = _elements_of(block, source, shape.element_type)
        other = _first_other(elements, wanted)
        if other is not None and (place := _place(block.target_runs, other * elements.itemsize)) < first:
            first, value = place, elements[other]
    if value is not None:
        index = shown([*map(int, np.unravel_index(first // value.itemsize, shape.dimensions))])
        lies = shape.text_without_layout() + f" as {view.name}" * bool(view.name)
        raise LayoutError(f"{name}, {lies}: the element at {index} is {value!s}, but {origin} expects {expect}")


def _element(number: float, element_type: ElementType, origin: str) -> Any:
    """The element that is a number; `LayoutError` where no element is, as 16 is no u4.

    A float is meant as it is printed: 0.1 is the f32 that prints so, and no bf16.
    """
    value, nearest = None, ""
    if element_type.is_floating or element_type.is_complex:
        with np.errstate(all="ignore"), contextlib.suppress(OverflowError):
            value = np.asarray(float(number)).astype(element_type.dtype)[()]
            if complex(value) != number and (element_type.is_complex or float(str(value)) != number):
                value, nearest = None, f": the nearest is {value!s}"
    elif isinstance(number, int) and number in _whole_numbers(element_type):
        value = np.asarray(number, np.int64 if number < 0 else np.uint64).astype(_compared_as(element_type))[()]
    if value is None:
        raise LayoutError(f"{origin} expects {number}, but no {element_type} is that{nearest}")
    return value


def _whole_numbers(element_type: ElementType) -> range:
    """The numbers of an integer type; 0 and 1 for pred."""
    low = -(1 << element_type.bits - 1) if element_type.is_integral and element_type.is_signed else 0
    return range(low, low + (1 << element_type.bits))


def _compared_as(element_type: ElementType) -> np.dtype[Any]:
    """The dtype whose elements are compared: bytes for pred, of which a file may hold more than two."""
    return element_type.carrier if element_type is ElementType.PRED else element_type.dtype


@functools.lru_cache(maxsize=64)  # a model has thousands of tensors of a few shapes
def _blocks(shape: Shape, limit: int) -> Blocks:
    """The blocks of a move to an array in C order, whose elements are whole bytes; larger where tiles are."""
    move = plan(shape, Layout.descending(shape.rank))
    while True:
        try:
            return move.blocks(limit)
        except NoSmallerBlock:
            limit *= 2


def _elements_of(block: Block, source: Elements | Pieces, element_type: ElementType) -> np.ndarray:
    """The elements of a block, read from its file."""
    runs = block.source_runs
    buffer = np.empty(runs.nbytes, np.uint8)
    if runs.nbytes:
        source.read_runs(buffer.data, runs.starts(), runs.length)
    made: np.ndarray = block.plan(buffer.view(block.plan.source.buffer_dtype))
    return made.view(_compared_as(element_type))


def _first_other(elements: np.ndarray, wanted: Sequence[Any]) -> int | None:
    """The first place in an array of another element than those wanted; None if there is none.

    >>> _first_other(np.array([7, 8, 9], np.uint8), [np.uint8(7), np.uint8(8)])
    2
    """
    if elements.itemsize > 2:
        right = _are_among(elements, wanted)
    else:  # types of ml_dtypes compare slowly: their codes tell nearly always, and a table of all codes does always
        carrier = np.dtype(f"u{elements.itemsize}")
        right = _are_among(elements.view(carrier), [each.view(carrier) for each in wanted])
        if not right.all():
            codes = np.arange(1 << 8 * elements.itemsize, dtype=carrier)
            right = _are_among(codes.view(elements.dtype), wanted)[elements.view(carrier)]
    return None if right.all() else int(right.argmin())


def _are_among(elements: np.ndarray, wanted: Sequence[Any]) -> np.ndarray:
    """For each element, whether it equals one of those wanted."""
    right = np.zeros(elements.shape, np.bool_)
    with np.errstate(invalid="ignore"):  # nans
        for each in wanted:
            right |= elements == each
    return right


def _place(runs: Runs, byte: int) -> int:
    """Where a byte of a block lies in the large buffer.

    >>> _place(Runs(4, 4, ((2, 12),)), 5)
    17
    """
    number, rest = divmod(byte, runs.length)
    return int(runs.starts(number, number + 1)[0]) + rest
