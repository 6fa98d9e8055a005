"""Plans the walk of a many-axes tile over its box on one side: which digits of an element's number are lanes or rows.

Sizes, strides and steps are in elements.  `kernels/tile_nd.cu` explains lanes and rows.  It builds its table of their
places from sums: the place of a row is its offset in memory, its offset in shared memory, and a check, the coordinates
along all axes that may end inside the box, each in a field of bits.  The upper half of the offset in shared memory is
one in the parameters of arithmetic on the way.  All are sums over the row's digits.  So the kernel needs no digits: a
row's place is the sum of two factors, one for the row's number modulo `low`, one for the rest.  Example, 81 rows of
digits 3 3 3 3: low = 9, and 9 + 9 factors instead of 81 places.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpulayout.gpu.kernel_numbers import LANES
from gpulayout.gpu.parameters import BoxFactor, BoxPart, BoxSide

REST = 3  # cost of a row besides its access to shared memory, in such accesses
FEW = 1.1  # an acceptable average of lanes that access different words of one bank
_POOR = 0.75  # other splits are tried if a smaller fraction of lanes is active
UNCUT = 2  # in LaneDigit.cut: neither of the two axes that may be cut
MAX_CHECK_BITS = 30  # bit 31 of a lane's check tells it from 0, for nothing inside; all bits are 1 if all is inside
_Fields = dict[int, tuple[int, int]]  # axis -> (the lowest bit of its field in a check, its guard bit)


class LaneDigit(NamedTuple):
    """A piece of an axis, or several axes that are contiguous both on this side and in shared memory.

    stride   of one coordinate in the side's memory
    step     of one coordinate in shared memory
    cut      0 or 1: coordinates count from the tile's first place along that axis of the struct; UNCUT: from 0
    unit     places of the axis in one coordinate
    bound    the axis is empty from this place on; None if no tile reaches it
    axis     digits with a bound and the same number are pieces of the same axis
    operand  stride of one coordinate in the parameters of arithmetic on the way
    """

    size: int
    stride: int
    step: int
    cut: int = UNCUT
    unit: int = 1
    bound: int | None = None
    axis: int = 0
    operand: int = 0

    def part(self, size: int, by: int) -> LaneDigit:
        """Every `by`-th coordinate, `size` of them."""
        return self._replace(
            size=size,
            stride=self.stride * by,
            step=self.step * by,
            unit=self.unit * by,
            operand=self.operand * by,
        )


class Walk(NamedTuple):
    """Rows of up to 32 lanes.  A lane moves `len(apart)` elements at once, at offsets `apart` in shared memory.

    The first `full` rows have `lane_count` lanes; the others, in which a split axis ends, have `last_lanes`.
    """

    lanes: tuple[LaneDigit, ...]
    rows: tuple[LaneDigit, ...]
    lane_count: int
    last_lanes: int
    full: int
    row_count: int
    apart: tuple[int, ...]

    @property
    def efficiency(self) -> float:
        """The fraction of active lanes."""
        return (self.full * self.lane_count + (self.row_count - self.full) * self.last_lanes) / (self.row_count * LANES)


def walk(digits: Sequence[LaneDigit], width: int, word: int, together: bool, aligned: bool) -> Walk:
    """The walk over a box of these digits, minor first, with elements of `width` bytes.

    word       elements to move at a time if the digits allow it
    together   True when these must be neighbours in shared memory too
    aligned    True when runs begin at sectors, so that rows should too

    >>> walked = walk([LaneDigit(64, 1, 1), LaneDigit(2, 1000, 65)], 4, 1, True, True)
    >>> walked.lane_count, walked.full, [digit.size for digit in walked.rows]
    (32, 4, [2, 2])
    >>> walked = walk([LaneDigit(49, 1, 1), LaneDigit(5, 49, 58)], 4, 1, True, False)      # 25 lanes, then 24
    >>> walked.lane_count, walked.last_lanes, walked.full, walked.row_count
    (25, 24, 5, 10)
    """
    apart, left = _accesses(merged(digits), word, together)
    best: Walk | None = None
    least = (True, math.inf)
    for order in _orders(left, max(64 // (width * len(apart)), 1) if aligned else LANES * LANES):
        laid_out = _laid_out(order, apart, aligned)
        ways = conflict_ways(laid_out, width)
        cost = ways > FEW, laid_out.row_count * (REST + ways)
        if best is None or cost < least:
            best, least = laid_out, cost
        if best.efficiency >= _POOR and ways == 1:
            break
    assert best is not None  # there is at least one order
    return best


def _orders(digits: Sequence[LaneDigit], sectors: int) -> Iterator[Sequence[LaneDigit]]:
    """Orders of the digits to try: minor first, then others that keep runs of `sectors` lanes.

    In those, another digit, or the upper half of one, follows the run.  If 32 lanes do not divide a long run, a part of
    it that divides the run comes first.
    """
    yield digits
    run, length = 1, digits[0].size
    while run < len(digits) and length * digits[0].stride == digits[run].stride and length < sectors:
        length, run = length * digits[run].size, run + 1
    if length > sectors and length % sectors == 0 and digits[0].size > sectors and digits[0].bound is None:
        digits = [digits[0].part(sectors, 1), digits[0].part(length // sectors, sectors), *digits[1:]]
        length = sectors
    if 2 * length <= LANES:
        for other in range(run, len(digits)):
            rest = [*digits[run:other], *digits[other + 1 :]]
            yield [*digits[:run], digits[other], *rest]
            if digits[other].size % 2 == 0 and digits[other].bound is None:
                half = digits[other].size // 2
                yield [*digits[:run], digits[other].part(2, half), *rest, digits[other].part(half, 1)]
    elif run == 1 and digits[0].bound is None:
        for size in range(LANES // 2, 7, -1):
            if length % size == 0:
                yield [digits[0].part(size, 1), *digits[1:], digits[0].part(length // size, size)]


def _laid_out(left: Sequence[LaneDigit], apart: tuple[int, ...], aligned: bool) -> Walk:
    """The walk whose lanes are the most minor digits and as much of the next one as fits."""
    taken, lane_count = 0, 1
    while taken < len(left) and lane_count * left[taken].size <= LANES:
        lane_count *= left[taken].size
        taken += 1
    lanes, rows = tuple(left[:taken]), tuple(left[taken:])
    last, parted = lane_count, 1
    if rows and 2 * lane_count <= LANES:
        split, rows = rows[0], rows[1:]
        most = LANES // lane_count
        parted = -(-split.size // most)
        size = most if aligned else -(-split.size // parted)
        inner, outer = split.part(size, 1), split.part(parted, size)
        last = lane_count * (split.size - size * (parted - 1))
        lanes, lane_count = (*lanes, inner), lane_count * size
        rows = (outer, *rows) if last == lane_count else (*rows, outer)  # so that partial rows come last
    count = math.prod(digit.size for digit in rows)
    full = count if last == lane_count else count // parted * (parted - 1)
    return Walk(lanes, rows, lane_count, last, full, count, apart)


def merged(digits: Sequence[LaneDigit]) -> list[LaneDigit]:
    """The digits; those that are contiguous both on the side and in shared memory become one."""
    joined: list[LaneDigit] = []
    for digit in digits:
        if joined:
            size, stride, step, *_, operand = below = joined[-1]
            follows = digit.stride == size * stride and digit.step == size * step and digit.operand == size * operand
            if follows and digit.bound is None is below.bound:
                joined[-1] = LaneDigit(size * digit.size, stride, step, operand=operand)
                continue
        joined.append(digit)
    return joined


def _accesses(digits: list[LaneDigit], word: int, together: bool) -> tuple[tuple[int, ...], list[LaneDigit]]:
    """(offsets of a piece's elements, digits of the pieces); pieces are single elements if words are impossible."""
    apart, left, missing, stride = [0], list(digits), word, 1
    while missing > 1 and left:
        digit = left[0]
        size = math.gcd(digit.size, missing)
        if digit.stride != stride or size < missing and size < digit.size:
            break
        if digit.bound is not None and (digit.bound % size or size == digit.size):  # a piece must not cross the bound
            break
        apart = [place + coordinate * digit.step for coordinate in range(size) for place in apart]
        missing, stride = missing // size, stride * size
        left = left[1:] if size == digit.size else [digit.part(digit.size // size, size), *left[1:]]
    if (
        missing > 1
        or any(digit.stride % word for digit in left)
        or together
        and (apart != list(range(word)) or any(digit.step % word for digit in left))
    ):
        return (0,), digits
    return tuple(apart), left


def conflict_ways(walk: Walk, width: int) -> float:
    """The most lanes that access different words of one bank, averaged over the parts of a row served together.

    Elements smaller than a word may start anywhere in it.  If rows do, this is the average over all these starts.

    >>> [conflict_ways(walk([LaneDigit(32, 1, step)], 4, 1, True, True), 4) for step in (1, 32)]
    [1.0, 32.0]
    """
    served, word = 128 // max(width, 4), max(4 // width, 1)  # lanes that fill all banks, elements of a bank
    places = [0]
    for digit in walk.lanes:
        places = [place + coordinate * digit.step for coordinate in range(digit.size) for place in places]
    starts = range(word) if any(digit.step % word for digit in walk.rows) else range(1)
    total = parts = 0
    for start in starts:
        for first in range(0, len(places), served):
            banks = [0] * served
            for number in {(place + start) // word for place in places[first : first + served]}:
                banks[number % served] += 1
            total, parts = total + max(banks), parts + 1
    return total / parts


# ---- the table of places ---------------------------------------------------------------------------------


def box_side(walk: Walk, tile: Sequence[int], width: int) -> tuple[BoxSide, BoxPart, BoxPart]:
    """A `GplSide`, and the `GplPart`s of its lanes and of its rows.

    tile   places of a tile along the two axes that may be cut

    A field holds `limit - 1 - place` below a guard bit of 1.  Subtracting a place beyond the limit clears the guard:
    a limit of 3 in 2 bits is 1 10; minus place 2 leaves 1 00, minus place 3 leaves 0 11.
    """
    fields = _fields(walk)
    limits, guards, scales, checked = 1 << 31, 0, [0, 0], False
    for digit in {digit.axis: digit for digit in (*walk.lanes, *walk.rows) if digit.bound is not None}.values():
        shift, guard = fields[digit.axis]
        guards |= 1 << guard
        if digit.cut == UNCUT:
            limits |= max((digit.bound or 0) - 1, 0) << shift
            checked = True
        else:
            scales[digit.cut] = 1 << shift
    counts = walk.lane_count, walk.last_lanes, walk.full, walk.row_count
    side = BoxSide(*counts, checked, limits | guards, guards, (scales[0], scales[1]))
    return side, _part(walk.lanes, fields, width), _part(walk.rows, fields, width)


def check_bits(walk: Walk) -> int:
    """The bits of the check of a row, at most `MAX_CHECK_BITS` in boxes that the kernel can move."""
    return max([guard + 1 for _, guard in _fields(walk).values()], default=0)


def factor_count(walk: Walk) -> int:
    """Factors of the lanes and the rows of a walk."""
    both = ([digit.size for digit in digits] for digits in (walk.lanes, walk.rows))
    return sum(low + -(-math.prod(sizes) // low) for sizes, low in ((sizes, _low(sizes)) for sizes in both))


def _fields(walk: Walk) -> _Fields:
    bounded = [digit for digit in (*walk.lanes, *walk.rows) if digit.bound is not None]
    fields: _Fields = {}
    shift = 0
    for axis in dict.fromkeys(digit.axis for digit in bounded):
        last = sum((digit.size - 1) * digit.unit for digit in bounded if digit.axis == axis)
        guard = shift + last.bit_length()
        fields[axis], shift = (shift, guard), guard + 1
    return fields


def _part(digits: Sequence[LaneDigit], fields: _Fields, width: int) -> BoxPart:
    sizes = [digit.size for digit in digits]
    low, factors = _low(sizes), []
    for number in (*range(low), *range(0, math.prod(sizes), low)):
        offset = shared = check = 0
        for digit in digits:
            number, coordinate = divmod(number, digit.size)
            offset += coordinate * digit.stride
            shared += coordinate * (digit.step * width + (digit.operand << 16))
            if digit.bound is not None:
                check += coordinate * digit.unit << fields[digit.axis][0]
        factors.append(BoxFactor(offset, shared & 2**32 - 1, check))
    return BoxPart(low, tuple(factors))


def _low(sizes: Sequence[int]) -> int:
    """The count of low factors that makes the fewest factors.

    They are whole digits and a divisor of the next one; the last digit is the one that may be divided anywhere.

    >>> _low([3, 3, 3, 3]), _low([2, 2, 2, 2, 2, 2]), _low([23])
    (9, 8, 4)
    """
    count, lows, below = math.prod(sizes), [1], 1
    for k, size in enumerate(sizes):
        lows += [below * part for part in range(1, size + 1) if size % part == 0 or k == len(sizes) - 1]
        below *= size
    return min(lows, key=lambda low: (low + -(-count // low), low))
