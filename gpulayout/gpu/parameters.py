"""The bytes of the kernels' parameter structs: the host side of `GplMove`, `GplBoxMove`, `GplWordsMove`, `GplJob`,
`GplMany`, `GplIndexTable`, `GplProgram` and `GplLookup` in kernels/.

All are passed by value, and the fields have the same order here and there.  After the fixed head of a `GplMove` all
words are as wide as the index, 4 or 8 bytes.

Kernels divide by numbers that are known in advance, as a multiplication and a shift: GPUs have no integer division,
and what compilers emit instead takes 10 to 100 instructions.  For a divisor d choose the least s with 2^s >= d and
m = floor(2^b * (2^s - d) / d) + 1 in b bits (32 or 64).  Then

    n // d == (mulhi(n, m) + n) >> s          for every 0 <= n < 2^(b-1)

where mulhi is the upper half of the product.  Example, b = 32, d = 7: s = 3, m = 613566757;
n = 50: mulhi = 7, (7 + 50) >> 3 = 7.  (Granlund and Montgomery, 1994; n < 2^(b-1) keeps the sum from wrapping.)

For d >= 2 there is also a form without the sum: m = ceil(2^(b-1+s) / d) still fits b bits, and

    n // d == mulhi(n, m) >> (s - 1)              for the same n

Proof: rounding up adds less than d <= 2^s to d * m, and n times that stays below 2^(b-1+s).  Example, d = 7: s = 3,
m = ceil(2^34 / 7) = 2454267027; n = 50: mulhi = 28, 28 >> 2 = 7.  Index conversion, which is mostly division, uses it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from gpulayout.gpu.kernel_numbers import BOX_ENTRY_BYTES, BOX_FACTORS, BOX_STEPS, LANES, NO_DIVISION, RUN_DIGITS
from gpulayout.moves.index_program import MOST_INSTRUCTIONS, MOST_TERMS, Instruction

AXES_VARIANTS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)  # one compiled kernel each; unused axes have extent 1
_LARGEST, _MASK64 = 2**31 - 1, 2**64 - 1
RunDigit = tuple[int, int, int]  # size, step in bytes, stride
_Row = TypeVar("_Row")


class Divisor(NamedTuple):
    """A divisor with its multiplier and shift, as in the kernels' `GplDivisor`."""

    value: int
    multiplier: int
    shift: int


def divisor(value: int, bits: int) -> Divisor:
    """The magic numbers of a divisor 1 <= value < 2^(bits-1).

    >>> divisor(7, 32)
    Divisor(value=7, multiplier=613566757, shift=3)
    """
    shift = (value - 1).bit_length()
    return Divisor(value, (((1 << bits) * ((1 << shift) - value)) // value + 1) % (1 << bits), shift)


def reciprocal(value: int, bits: int) -> Divisor:
    """The magic numbers of the form without a sum, 1 <= value < 2^(bits-1).  Those of 1 are right only for n = 0.

    >>> reciprocal(7, 32)
    Divisor(value=7, multiplier=2454267027, shift=2)
    """
    if value == 1:
        return Divisor(1, 0, 0)
    shift = (value - 1).bit_length()
    return Divisor(value, -(-(1 << bits - 1 + shift) // value), shift - 1)


class ThreadSteps(NamedTuple):
    """A `GplSteps`."""

    along: int
    places: int
    bound: int
    apart: int
    source_step: int
    target_step: int


class ChangeWords(NamedTuple):
    """The words of a `GplMove` with arithmetic: three `GplParameters` fields, an offset for each parameter.

    strides   for each axis
    """

    first: tuple[int, ...]
    step: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


class BoxSide(NamedTuple):
    """A `GplSide`, except for `first`."""

    lanes: int
    last_lanes: int
    full: int
    rows: int
    checked: bool
    limits: int
    guards: int
    scales: tuple[int, int]


class BoxFactor(NamedTuple):
    """A `GplEntry`."""

    offset: int
    shared: int
    check: int


class BoxPart(NamedTuple):
    """A `GplPart`; its factors are the `low` ones, then the high ones."""

    low: int
    factors: tuple[BoxFactor, ...]


def axes_variant(count: int) -> int:
    """The compiled number of axes for a move of this many."""
    return next(variant for variant in AXES_VARIANTS if variant >= count)


def move_struct(
    bits: int,
    pad: bytes,
    scalars: Sequence[int],
    counts: Sequence[int],
    tile: Sequence[int] | ThreadSteps,
    axes: Sequence[tuple[int, int, int, int]],
    change: ChangeWords | None = None,
) -> bytes:
    """The bytes of a `GplMove`.

    scalars        the total, two words that mean something else in each kernel (kernels/move.cuh lists what), and the
                   ends of the source
    counts, tile   two extents each; or the steps of a thread instead of a tile
    axes           (extent, bound, source_stride, target_stride) in elements, minor first; padded to a variant
    change         of a move with arithmetic; with parameters, the struct begins with 16 bytes for their address
    """
    words = [*scalars]
    for value in counts:
        words += divisor(value, bits)
    if isinstance(tile, ThreadSteps):
        words += tile
    else:
        for value in tile:
            words += divisor(value, 32)  # numbers inside a tile are small even in 64-bit builds
    words += _axis_words(_filled(axes, (1, 1, 0, 0)), bits)
    address = b""
    if change and change.first:
        address = bytes(16)
        for offsets in (change.first, change.step, *_filled(change.strides, (0,) * len(change.first))):
            words += offsets
    return _aligned(address + _pattern(pad) + _words(words, bits), 16)


def job_struct(pad: bytes, total: int, axes: Sequence[tuple[int, int, int, int]], variant: int) -> bytes:
    """The bytes of a `GplJob` of `variant` axes; its two pointers, the first 16 bytes, are 0."""
    words = [total, *_axis_words([*axes, *[(1, 1, 0, 0)] * (variant - len(axes))], 32)]
    return _aligned(bytes(16) + _pattern(pad) + _words(words, 32), 8)


def _axis_words(axes: Sequence[tuple[int, int, int, int]], bits: int) -> list[int]:
    return [word for extent, *others in axes for word in (*divisor(extent, bits), *others)]


def many_struct(first_blocks: Sequence[int], jobs: Sequence[bytes], capacity: int) -> bytes:
    """The bytes of a `GplMany` of `capacity` jobs, all from `job_struct` with the same variant.

    Unused jobs begin after the last possible block.
    """
    unused = capacity - len(jobs)
    first = _aligned(_words([*first_blocks, *[_LARGEST] * unused], 32), 8)
    return first + b"".join(jobs) + bytes(unused * len(jobs[0]))


def with_pointers(many: bytes, capacity: int, pointers: Sequence[tuple[int, int]]) -> bytes:
    """A `GplMany` with the (source, target) addresses of its jobs filled in, in the order of the jobs."""
    words = np.frombuffer(many, np.uint64).copy()
    jobs = words[(capacity + 1) // 2 :].reshape(capacity, -1)
    jobs[: len(pointers), :2] = np.array(pointers, np.uint64)
    return words.tobytes()


def box_struct(
    bits: int,
    sides: Sequence[tuple[BoxSide, BoxPart, BoxPart]],
    apart: Sequence[int],
    steps: Sequence[tuple[int, int]],
    uneven: bool,
) -> bytes:
    """The bytes after the `GplMove` in a `GplBoxMove`; `sides` are reading and writing, each with its lanes and rows.

    apart     offsets in bytes of the elements of a written piece from its first
    steps     offsets of a block's boxes from its first, in the source and in the target
    uneven    True when some rows of a side have fewer lanes than others
    """
    firsts = [0, LANES, 2 * LANES, 2 * LANES + sides[0][0].rows]
    data, factors = b"", b""
    for ((*counts, checked, limits, guards, scales), _, _), first in zip(sides, firsts[2:]):
        data += struct.pack("<10I", *counts, first, checked, limits, guards, *scales)
    (_, *reading), (_, *writing) = sides
    for first, (low, own) in zip(firsts, (reading[0], writing[0], reading[1], writing[1])):
        data += struct.pack("<5I", first, *divisor(low, 32), len(factors) // BOX_ENTRY_BYTES)
        for offset, shared, check in own:
            factors += _words((offset,), bits) + struct.pack("<2I", shared, check) + bytes(8 - bits // 8)
    entries = firsts[-1] + sides[1][0].rows
    data += struct.pack("<4I", *apart, *[0] * (4 - len(apart)))
    data += struct.pack("<4I", entries, entries * BOX_ENTRY_BYTES, len(steps), uneven)
    moved = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(steps, steps[1:])]
    between = [(0, 0), *moved, *[(0, 0)] * (BOX_STEPS - len(moved))]
    data = _aligned(data + _words([offset for step in between for offset in step], bits), BOX_ENTRY_BYTES)
    return data + factors.ljust(BOX_FACTORS * BOX_ENTRY_BYTES, b"\0")


def words_struct(
    bits: int,
    numbers: Sequence[tuple[int, Sequence[RunDigit]]],
    rows: Sequence[int],
    offsets: Sequence[int],
    scalars: Sequence[int],
) -> bytes:
    """The bytes after the `GplMove` in a `GplWordsMove`.

    numbers   count and digits of the source's runs, of the target's runs, and of the elements of one of these
    rows      threads of a row and rows of a block, reading and writing
    offsets   the 5 numbers from `below` to `apart`
    scalars   the 15 numbers from `length` on
    """
    data = b""
    for count, digits in numbers:
        data += struct.pack("<2I", count, len(digits))
        for size, step, stride in [*digits, *[(1, 0, 0)] * (RUN_DIGITS - len(digits))]:
            data += _words(divisor(size, 32), bits) + struct.pack("<2I", step, 0) + _words([stride], bits)
    data += b"".join(_words(divisor(count, 32), bits) for count in rows)
    return _aligned(data + _words(offsets, bits) + struct.pack("<15I", *scalars), 16)


def index_table_struct(
    bits: int, scalars: Sequence[int], low_digits: int, digits: Sequence[tuple[int, int, int, int]]
) -> bytes:
    """The bytes of a `GplIndexTable`.

    bits         of the numbers that digits are taken from: 32 or 64
    scalars      count, size, mode
    low_digits   digits in the lower part of an index that is split; 0 if it is not
    digits       (extent, bound, stride, row), most minor first
    """
    count, size, mode = scalars
    extents = [max(extent, 1) for extent, _, _, _ in digits]
    padded = any(bound < extent for extent, bound, _, _ in digits)
    low, *low_magic = reciprocal(math.prod(extents[:low_digits]), 64)
    data = struct.pack("<2Q4I", count, size, len(digits), mode, padded, low_digits) + _words([-low, *low_magic], 64)
    for (_, bound, stride, row), extent in zip(_filled(digits, (1, 1, 0, 0)), _filled(extents, 1)):
        data += _words([-extent, *reciprocal(extent, bits)[1:], bound], bits) + _words([stride, row * count], 64)
    return data


def index_program_struct(bits: int, scalars: Sequence[int], instructions: Sequence[Instruction]) -> bytes:
    """The bytes of a `GplProgram`.

    bits      of the numbers: 32 or 64
    scalars   count, size, mode, and 1 if sums may exceed their bounds
    """
    count, size, mode, has_bounds = scalars
    head = struct.pack("<2Q4I", count, size, len(instructions), mode, has_bounds, 0)
    return head + _instructions(bits, instructions, count)


def lookup_struct(bits: int, pad: bytes, scalars: Sequence[int], instructions: Sequence[Instruction]) -> bytes:
    """The bytes of a `GplLookup`; scalars are total, head, and 1 if the target has its own strides."""
    return _pattern(pad) + struct.pack("<Q4I", *scalars, len(instructions), 0) + _instructions(bits, instructions, 1)


def _instructions(bits: int, instructions: Sequence[Instruction], row_length: int) -> bytes:
    """The bytes of a `GplInstructions`: all instructions, then all terms, those of one before its additions.

    Rows of coordinates are `row_length` apart.
    """
    data = terms = b""
    for load, sums, bound, register, store, adds in instructions:
        row = (store if load is None else load) or 0
        data += struct.pack(
            "<2Q3H2B",
            _MASK64 if bound is None else bound,
            row * row_length & _MASK64,
            len(sums),
            len(adds),
            0 if register is None else register + 1,
            load is not None,
            store is not None,
        )
        for source, divided_by, weight in [*sums, *[(None, *quotient) for quotient in adds]]:  # `GplTerm`s
            _, multiplier, shift = reciprocal(divided_by, bits)
            numbers = 0 if source is None else source + 1, NO_DIVISION if divided_by == 1 else shift
            terms += _words([multiplier, weight], bits) + struct.pack("<2I", *numbers)
    return data.ljust(24 * MOST_INSTRUCTIONS, b"\0") + terms.ljust((bits // 4 + 8) * MOST_TERMS, b"\0")


def _pattern(pad: bytes) -> bytes:
    return (pad * 16)[:16]


def _filled(rows: Sequence[_Row], filler: _Row) -> list[_Row]:
    return [*rows, *[filler] * (axes_variant(max(len(rows), 1)) - len(rows))]


def _words(values: Sequence[int], bits: int) -> bytes:
    mask = (1 << bits) - 1  # for negative strides, in two's complement
    return np.array([value & mask for value in values], np.uint32 if bits == 32 else np.uint64).tobytes()


def _aligned(data: bytes, alignment: int) -> bytes:
    return data + bytes(-len(data) % alignment)
