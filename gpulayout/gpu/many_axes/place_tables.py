"""The places of the lanes and rows of a walk, as the sums that kernels/tile_nd.cu builds its table from.

The place of a row is its offset in memory, its offset in shared memory, and a check: the coordinates along all axes
that may end inside the box, each in a field of bits.  The upper half of the offset in shared memory is one in the
parameters of arithmetic on the way.  All are sums over the row's digits.  So the kernel needs no
digits: a row's place is the sum of two factors, one for the row's number modulo `low`, one for the rest.  Example, 81
rows of digits 3 3 3 3: low = 9, and 9 + 9 factors instead of 81 places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpulayout.gpu.many_axes.warp_lanes import UNCUT, LaneDigit, Walk
from gpulayout.gpu.parameters import BoxFactor, BoxPart, BoxSide

_Fields = dict[int, tuple[int, int]]  # axis -> (the field's lowest bit, its guard bit)
MAX_CHECK_BITS = 30  # bit 31 of a lane's check tells it from 0, for nothing inside; all bits are 1 if all is inside


def box_side(walk: Walk, tile: Sequence[int], width: int) -> tuple[BoxSide, BoxPart, BoxPart]:
    """A `GplSide`, and the `GplPart`s of its lanes and of its rows.

    tile   places of a tile along the two axes that may be cut

    A field holds `limit - 1 - place` below a guard bit of 1.  Subtracting a place beyond the limit clears the guard:
    a limit of 3 in 2 bits is 1 10; minus place 2 leaves 1 00, minus place 3 leaves 0 11.
    """
    bounded = [digit for digit in (*walk.lanes, *walk.rows) if digit.bound is not None]
    fields = _fields(bounded)
    limits = guards = 0
    scales, checked = [0, 0], False
    for axis, (shift, guard) in fields.items():
        digits = [digit for digit in bounded if digit.axis == axis]
        cut, bound = digits[0].cut, digits[0].bound or 0
        guards |= 1 << guard
        if cut == UNCUT:
            limits |= max(bound - 1, 0) << shift
        else:
            scales[cut] = 1 << shift
        checked = checked or cut == UNCUT
    limits |= 1 << 31 | guards
    counts = walk.lane_count, walk.last_lanes, walk.full, walk.row_count
    side = BoxSide(*counts, checked, limits, guards, (scales[0], scales[1]))
    return side, _part(walk.lanes, fields, width), _part(walk.rows, fields, width)


def check_bits(walk: Walk) -> int:
    """The bits of the check of a row, at most `MAX_CHECK_BITS` in boxes that the kernel can move."""
    return max([guard + 1 for _, guard in _fields([*walk.lanes, *walk.rows]).values()], default=0)


def factor_count(walk: Walk) -> int:
    """Factors of the lanes and the rows of a walk."""
    counts = (([digit.size for digit in digits], _low([digit.size for digit in digits])) for digits in walk[:2])
    return sum(low + -(-math.prod(sizes) // low) for sizes, low in counts)


def _fields(digits: Sequence[LaneDigit]) -> _Fields:
    fields: _Fields = {}
    shift = 0
    for axis in dict.fromkeys(digit.axis for digit in digits if digit.bound is not None):
        guard = shift + _last_place([digit for digit in digits if digit.axis == axis]).bit_length()
        fields[axis], shift = (shift, guard), guard + 1
    return fields


def _last_place(digits: Sequence[LaneDigit]) -> int:
    return sum((digit.size - 1) * digit.unit for digit in digits if digit.bound is not None)


def _part(digits: Sequence[LaneDigit], fields: _Fields, width: int) -> BoxPart:
    count, low = math.prod(digit.size for digit in digits), _low([digit.size for digit in digits])
    numbers = (*range(low), *range(0, count, low))
    return BoxPart(low, tuple(_factor(number, digits, fields, width) for number in numbers))


def _low(sizes: Sequence[int]) -> int:
    """The count of low factors that makes the fewest factors.

    They are whole digits and a divisor of the next one; the last digit is the one that may be divided anywhere.

    >>> _low([3, 3, 3, 3]), _low([2, 2, 2, 2, 2, 2]), _low([23])
    (9, 8, 4)
    """
    count, found, below = math.prod(sizes), [1], 1
    for k, size in enumerate(sizes):
        found += [below * part for part in range(1, size + 1) if size % part == 0 or k == len(sizes) - 1]
        below *= size
    return min(found, key=lambda low: (low + -(-count // low), low))


def _factor(number: int, digits: Sequence[LaneDigit], fields: _Fields, width: int) -> BoxFactor:
    offset = shared = check = 0
    for digit in digits:
        number, coordinate = divmod(number, digit.size)
        offset += coordinate * digit.stride
        shared += coordinate * (digit.step * width + (digit.operand << 16))
        if digit.bound is not None:
            check += coordinate * digit.unit << fields[digit.axis][0]
    return BoxFactor(offset, shared & 2**32 - 1, check)
