"""Checks that several values of the model share: whole numbers, numbers of bytes, permutations, dimension numbers."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from fractions import Fraction
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from gpulayout.layout.errors import LayoutError, LayoutTypeError

ByteCount: TypeAlias = SupportsIndex | str  # bytes, or text such as "512M"

INT64_MAX = 2**63 - 1
TOO_LARGE = 2**256  # `product` stops here
MAX_RANK = 1 << 20  # of a layout: each dimension takes memory
_MOST_SHOWN = 16  # entries of a sequence in an error message
_MOST_BITS = 256  # of a number that an error message writes in full
_MOST_CHARACTERS = 10_000  # of a text that is read in time quadratic in its length
_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")  # of an object or function without a text of its own
_INTS = frozenset({int})  # as types: bool is not one of them
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}  # of bytes
_BYTES = r"[0-9]{1,18}|(?:[0-9]{1,18})?\.[0-9]{1,18}(?=\s*[KMGT])"  # parts of a unit, but no parts of a byte
_BYTES_TEXT = re.compile(rf"({_BYTES})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


# ---- how errors show values ----------------------------------------------------------------------


class Later:
    """A text for error messages, made only when a message prints it.

    >>> context = Later(lambda: f" for {2 + 3}")
    >>> f"it is too large{context}"
    'it is too large for 5'
    """

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], str]):
        self.make = make

    def __str__(self) -> str:
        return self.make()


Text = str | Later  # what an error message prints


def number_text(number: int) -> str:
    """An integer for an error message: in full, or its magnitude when it has hundreds of digits."""
    bits = number.bit_length()
    return str(number) if bits <= _MOST_BITS else f"{'-' if number < 0 else ''}2^{bits - 1}..."


def shown(values: Sequence[Any]) -> str:
    """A sequence for an error message: a tuple, cut off when it is long.

    >>> shown([2, 10**1000]), shown(range(100))
    ('(2, 2^3321...)', '(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ...)')
    """
    texts = [value_text(value) for value in values[:_MOST_SHOWN]]
    if len(values) > _MOST_SHOWN:
        return f"({', '.join(texts)}, ...)"
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def clipped(text: str, length: int, ellipsis: str = "...") -> str:
    """The text, or its beginning and an ellipsis: at most `length` characters.

    >>> clipped("minor_to_major", 9)
    'minor_...'
    """
    return text if len(text) <= length else text[: length - len(ellipsis)] + ellipsis


def counted(number: int, noun: str) -> str:
    """`1 dimension`, `2 dimensions`."""
    plural = {"entry": "entries", "copy": "copies", "axis": "axes", "launch": "launches", "box": "boxes"}.get(
        noun, f"{noun}s"
    )
    return f"{number} {noun if number == 1 else plural}"


def either(texts: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *others, last = texts
    return f"{', '.join(others)} or {last}" if others else last


def type_text(value: object) -> str:
    """`an int`, `a float`."""
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeiouAEIOU' or name == 'ndarray' else 'a'} {name}"


def value_text(value: object) -> str:
    """A value for an error message: on one line, and cut off when it is long."""
    try:
        text = number_text(value) if type(value) is int else repr(value)
    except Exception:  # a number of thousands of digits in a list, a list that is nested thousands of times
        text = f"<{type(value).__name__}>"
    if "\n" in text:  # arrays
        text = " ".join(text.split())
    return clipped(_ADDRESS.sub("", text), 100)


def check_word(field: str, value: object, words: Collection[str]) -> None:
    """ValueError unless a value is one of these words.  It may be an array, whose `==` gives no truth."""
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{field} {value_text(value)} is not one of {', '.join(map(repr, words))}")


def check_length(shown: str, text: str) -> None:
    """LayoutError for a text that would take seconds to read; `shown` is the argument and its value."""
    if len(text) > _MOST_CHARACTERS:
        raise LayoutError(f"{shown} has {len(text)} characters: {_MOST_CHARACTERS} is the limit")


# ---- whole numbers -------------------------------------------------------------------------------


def whole_number(field: str, value: object, context: Text = "") -> int:
    """`value` as an int.  NumPy integers are accepted; bool and float are refused."""
    number = as_integer(value)
    if number is None:
        raise LayoutTypeError(f"{field} {value_text(value)} is not an integer{context}: it is {type_text(value)}")
    return number


def whole_numbers(field: str, values: Iterable[Any], context: Text = "", *, ordered: bool = True) -> tuple[int, ...]:
    """`values` as a tuple of ints; an error names the first one that is not an integer.

    Text and mappings are refused, and so are sets where order matters: Layout({0, 1}) looks like the text form, but
    a set has no order.
    """
    if type(values) is tuple and {*map(type, values)} <= _INTS:  # the usual case
        return values
    if ordered and isinstance(values, Set):
        raise LayoutTypeError(
            f"{field} {value_text(values)} is not a sequence of integers{context}: a set has no order"
        )
    try:
        if isinstance(values, (str, bytes, Mapping)):
            raise TypeError
        values = tuple(values)
    except TypeError:
        raise LayoutTypeError(
            f"{field} {value_text(values)} is not a sequence of integers{context}: it is {type_text(values)}"
        ) from None
    numbers = tuple(map(as_integer, values))
    if None in numbers:
        entry = numbers.index(None)
        raise LayoutTypeError(
            f"{field} {shown(values)} is not all integers{context}: entry {entry} is "
            f"{value_text(values[entry])}, {type_text(values[entry])}"
        )
    return numbers  # type: ignore[return-value]  # None is ruled out above


def as_integer(value: Any) -> int | None:
    """An integer as an int; None for everything else, bool included.  NumPy's bools are an index up to NumPy 2.2."""
    if type(value) is int:
        return value
    try:
        return None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        return None


def sizes(field: str, values: Iterable[Any], context: Text = "") -> tuple[int, ...]:
    """`values` as a tuple of sizes, ints in 0..2^63-1."""
    sizes = whole_numbers(field, values, context)
    for dim, size in enumerate(sizes):
        if size < 0:
            raise LayoutError(
                f"{field} {shown(sizes)} has a negative size{context}: dimension {dim} is {number_text(size)}"
            )
        if size > INT64_MAX:
            raise LayoutError(
                f"{field} {shown(sizes)} has a size past 2^63-1{context}: dimension {dim} is {number_text(size)}"
            )
    return sizes


def are_sizes(values: Sequence[object]) -> bool:
    """True when all values are sizes as they are, so that an error may suggest them."""
    integers = [as_integer(value) for value in values]
    return all(size is not None and 0 <= size <= INT64_MAX for size in integers)


def count(field: str, value: object, context: Text = "") -> int:
    """`value` as an int of at least 0."""
    number = whole_number(field, value, context)
    if number < 0:
        raise LayoutError(f"{field} {number_text(number)} is negative{context}")
    return number


def byte_count(field: str, value: ByteCount) -> int:
    """A number of bytes from an integer, or from text with a unit of 1024, 1024^2, ....

    Parts of a byte are left off.  LayoutError for other text, LayoutTypeError for other types.

    >>> byte_count("max_bytes", "512M"), byte_count("max_bytes", "0.5 GiB"), byte_count("max_bytes", 4096)
    (536870912, 536870912, 4096)
    """
    if not isinstance(value, str):
        return whole_number(field, value)
    match = _BYTES_TEXT.fullmatch(value.strip())
    if not match:
        raise LayoutError(f"{field} {value_text(value)} is not a number of bytes such as 128M or 1.5G")
    return int(Fraction(match[1]) * UNITS[match[2].upper()])


def product(numbers: Iterable[int]) -> int:
    """The product of positive numbers, cut short when it reaches 2^256, which is too large for any buffer.

    So the time is linear in the number of factors: 9**1000000 is never computed.

    >>> product([4, 8, 2]), product([9] * 10**6) == 9**81
    (64, True)
    """
    result = 1
    for number in numbers:
        result *= number
        if result >= TOO_LARGE:
            break
    return result


# ---- dimension numbers ---------------------------------------------------------------------------


def permutation(
    field: str, values: Iterable[Any], rank: int | None = None, context: Text = "", *, from_end: bool = False
) -> tuple[int, ...]:
    """`values` as an ordering of dimensions 0..rank-1; a rank of None means the number of values.

    from_end   accept negative numbers, which count from the end, as `numpy.transpose` does
    """
    numbers = whole_numbers(field, values, context)
    rank = len(numbers) if rank is None else rank
    if len(numbers) != rank:
        raise LayoutError(
            f"{field} {shown(numbers)} has {counted(len(numbers), 'entry')}{context}: "
            f"it must order {counted(rank, 'dimension')}"
        )
    order = tuple(dim + rank if dim < 0 else dim for dim in numbers) if from_end else numbers
    if sorted(order) == [*range(rank)]:
        return order
    every = f"dimensions 0..{rank - 1}" if rank > 1 else "dimension 0" if rank else "no dimensions"
    problem = f"{field} {shown(numbers)} is not an ordering of {every}{context}: dimension"
    position = next(i for i, dim in enumerate(order) if not 0 <= dim < rank or dim in order[:i])
    number, dim = numbers[position], order[position]
    if 0 <= dim < rank:
        raise LayoutError(f"{problem} {dim} appears twice")
    hint = ", negative numbers do not count from the end here" if number < 0 and not from_end else ""
    raise LayoutError(f"{problem} {number_text(number)} does not exist{hint}")


def dimension_number(value: object, rank: int, context: Text = "", field: str = "dimension") -> int:
    """A dimension number in 0..rank-1 from one in -rank..rank-1 (-1 is the last, as in Python)."""
    number = whole_number(field, value, context)
    if not -rank <= number < rank:
        are = "is" if rank == 1 else "are"
        raise LayoutError(
            f"{field} {number_text(number)} is out of range{context}: there {are} {counted(rank, 'dimension')}"
        )
    return number % rank


def dimension_numbers(values: Iterable[Any], rank: int, context: Text = "") -> tuple[int, ...]:
    """Distinct dimension numbers, negative ones counted from the end.

    Their order does not matter, so sets are accepted.
    """
    numbers = whole_numbers("dimensions", values, context, ordered=False)
    dims = tuple(dimension_number(number, rank, context) for number in numbers)
    seen = set()
    for dim in dims:
        if dim in seen:
            raise LayoutError(f"dimensions {shown(numbers)} names dimension {dim} twice{context}")
        seen.add(dim)
    return dims


def rank_of(value: object) -> int:
    """A number of dimensions, which a layout has a number for each."""
    number = count("rank", value)
    if number > MAX_RANK:
        raise LayoutError(f"rank {number_text(number)} is more than {MAX_RANK} dimensions")
    return number


def insertion_point(value: object, rank: int, context: Text = "", field: str = "at") -> int:
    """The number of a new dimension, 0..rank.

    Negative numbers are refused: -1 could mean "before the last" or "at the end".
    """
    at = whole_number(field, value, context)
    if not 0 <= at <= rank:
        raise LayoutError(
            f"{field} {number_text(at)} is out of range{context}: a new dimension can be inserted at 0..{rank}"
        )
    return at


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The inverse permutation: inverse(p)[p[i]] == i.  (1, 2, 0) has the inverse (2, 0, 1)."""
    result = [0] * len(order)
    for position, dim in enumerate(order):
        result[dim] = position
    return tuple(result)


def out_of_bounds_text(index: tuple[int, ...], dim: int, size: int, shape: object, which: str = "") -> str:
    """The error for an index whose coordinate of dimension `dim` is out of bounds; `which` tells which index it is."""
    allowed = f"not in 0..{size - 1}" if size else "impossible, the dimension is empty"
    return (
        f"index {shown(index)}{which} is out of bounds for {shape}: "
        f"coordinate {number_text(index[dim])} of dimension {dim} is {allowed}"
    )
