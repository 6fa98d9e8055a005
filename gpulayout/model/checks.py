"""Checks that several values of the model share: whole numbers, permutations, dimension numbers."""
import operator
from collections.abc import Iterable, Sequence

from gpulayout.model.errors import LayoutError, LayoutTypeError

INT64_MAX = 2**63 - 1


def whole_number(field: str, value: object, context: str = "") -> int:
    """`value` as an int; bool and float are refused, NumPy integers are taken."""
    try:
        if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise LayoutTypeError(f"{field} {value!r} is not an integer{context}: it is a {type(value).__name__}") from None


def whole_numbers(field: str, values: Iterable, context: str = "") -> tuple[int, ...]:
    """`values` as a tuple of ints; the first one that is not an integer is named."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise LayoutTypeError(f"{field} {values!r} is not a sequence of integers{context}")
    values = tuple(values)
    return tuple(whole_number(f"{field}[{i}] of {_plain(values)}:", value, context) for i, value in enumerate(values))


def sizes(field: str, values: Iterable, context: str = "") -> tuple[int, ...]:
    """`values` as a tuple of ints, none of them negative."""
    found = whole_numbers(field, values, context)
    for dim, size in enumerate(found):
        if size < 0:
            raise LayoutError(f"{field} {found} has a negative size{context}: dimension {dim} is {size}")
    return found


def permutation(field: str, values: Iterable, rank: int, context: str = "") -> tuple[int, ...]:
    """`values` as an ordering of dimensions 0..rank-1; negative numbers are not taken here."""
    found = whole_numbers(field, values, context)
    if len(found) != rank:
        raise LayoutError(f"{field} {found} has {len(found)} entries{context}: it must order {rank} dimensions")
    seen = set()
    for dim in found:
        if not 0 <= dim < rank:
            raise LayoutError(f"{field} {found} is not an ordering of {dimension_range(rank)}{context}: "
                              f"dimension {dim} does not exist")
        if dim in seen:
            raise LayoutError(f"{field} {found} is not an ordering of {dimension_range(rank)}{context}: "
                              f"dimension {dim} appears twice")
        seen.add(dim)
    return found


def dimension_number(value: object, rank: int, context: str = "", field: str = "dimension") -> int:
    """A dimension number in 0..rank-1 from one in -rank..rank-1 (-1 is the last, as in Python)."""
    number = whole_number(field, value, context)
    if not -rank <= number < rank:
        raise LayoutError(f"{field} {number} is out of range{context}: there are {rank} dimensions")
    return number % rank


def dimension_numbers(values: Iterable, rank: int, context: str = "", field: str = "dimensions") -> tuple[int, ...]:
    """Distinct dimension numbers, negative ones counted from the end."""
    found = tuple(dimension_number(value, rank, context) for value in whole_numbers(field, values, context))
    for position, dim in enumerate(found):
        if dim in found[:position]:
            raise LayoutError(f"{field} {tuple(values)} names dimension {dim} twice{context}")
    return found


def transpose_permutation(values: Iterable, rank: int, context: str = "") -> tuple[int, ...]:
    """A permutation as `numpy.transpose` takes it: negative numbers count from the end."""
    found = whole_numbers("permutation", values, context)
    return permutation("permutation", [dim + rank if -rank <= dim < 0 else dim for dim in found], rank, context)


def dimension_range(rank: int) -> str:
    """How an error names all dimensions of a rank."""
    return f"dimensions 0..{rank - 1}" if rank else "no dimensions"


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The inverse permutation: inverse(p)[p[i]] == i.  (1, 2, 0) has the inverse (2, 0, 1)."""
    result = [0] * len(order)
    for position, dim in enumerate(order):
        result[dim] = position
    return tuple(result)


def _plain(values: tuple) -> str:
    text = ", ".join(repr(value) for value in values[:8])
    return f"({text}{', ...' if len(values) > 8 else ''})"
