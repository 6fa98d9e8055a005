"""Random packed moves for the tests of both backends, at addresses of every phase, with the expected result."""

import dataclasses
import functools
import itertools
import math
import random
from unittest import mock

import numpy as np

from gpulayout.gpu import bits, choose_kernel
from gpulayout.gpu.bits import group_bytes
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.moves.move import Axis, Move, coalesce
from gpulayout.moves.packed_move import PackedMove, packed_move
from tests.support import packed_reference
from tests.support.kernel_cases import BLOCK, forced_bits
from tests.support.simt.record import FRESH, Buffer, Record

WIDTHS = tuple(
    (source, target)
    for source in (1, 2, 4, 8)
    for target in (1, 2, 4, 8)
    if source == target < 8 or (source == 8) != (target == 8)
)


@dataclasses.dataclass(frozen=True)
class BitsCase:
    """A move of slots between two addresses, made from the loops `axes`, minor first in the target.  It begins `start`
    slots into the source; the runs of a packed target with gaps are whole bytes.
    """

    name: str
    axes: tuple
    slots: int
    pad: int
    widths: tuple
    phases: tuple = (0, 0)
    index_bits: int = 32
    start: int = 0
    big: tuple = (False, False)  # whether slot 0 of a byte is its highest bits, on each side
    in_blocks: bool = False  # even if most of the slots of its blocks stay empty

    @property
    def has_gaps(self):
        """Whether the target is packed and has more slots than are written."""
        return self.widths[1] < 8 and self.slots < self._far

    @property
    def _far(self):
        """One past the highest slot of the target."""
        return sum((extent - 1) * stride for extent, _, _, stride in self.axes) + 1

    @functools.cached_property
    def move(self):
        """A PackedMove, or the Move of bytes that does the same."""
        joined, made_of = coalesce([Axis(*axis) for axis in self.axes], [(number,) for number in range(len(self.axes))])
        unit = Move(joined, 1, bytes([self.pad]), made_of)
        return packed_move(unit, *self.widths, None if self.has_gaps else self.slots, self.start, self.big)

    @functools.cached_property
    def span(self):
        """The lowest slot of the source, and one past the highest."""
        reaches = [(bound - 1) * stride for _, bound, stride, _ in self.axes]
        return sum(min(reach, 0) for reach in reaches), sum(max(reach, 0) for reach in reaches) + 1

    @functools.cached_property
    def source(self):
        """The source's bytes: noise, also in the bits that must not be read."""
        low, high = self.span
        slots = self.start + high - low
        return np.frombuffer(random.Random(self.name).randbytes(-(-slots * self.widths[0] // 8)), np.uint8)

    @property
    def source_offset(self):
        """Bytes from the beginning of the source to slot 0 of the move."""
        return -self.span[0] * self.widths[0] // 8

    @functools.cached_property
    def expected(self):
        """The target's bytes; FRESH between places."""
        source_bits, target_bits = self.widths
        low, high = self.span
        slots = self.start + high - low
        orders = ["big" if big else "little" for big in self.big]
        values = packed_reference.unpacked(self.source, source_bits, slots, orders[0])[self.start :]
        values = values & (1 << min(self.widths)) - 1
        pad = self.pad & (1 << min(self.widths)) - 1
        slots = self.slots if target_bits < 8 and not self.has_gaps else self._far
        places = [(extent, extent, 0, stride) for extent, _, _, stride in self.axes]
        moved = packed_reference.moved(self.axes, slots, pad, lambda slot: values[slot - low])
        if target_bits < 8 and not self.has_gaps:
            return packed_reference.packed(moved, target_bits, orders[1])
        written = packed_reference.moved(places, slots, 0, lambda _: 1)
        result = packed_reference.packed(moved * written, target_bits, orders[1]).copy()
        result[packed_reference.packed(written, target_bits) == 0] = FRESH
        return result

    @functools.cached_property
    def plan(self):
        most = (10**9, 10**9) if self.in_blocks else (bits.MOST_UNFILLED, bits.MOST_IDLE)
        with forced_bits(self.index_bits), mock.patch.multiple(bits, MOST_UNFILLED=most[0], MOST_IDLE=most[1]):
            return choose_kernel.kernel_plan.__wrapped__(self.move, *self.phases)

    def record(self, text=None, **changes):
        """The launch, written down, with buffers of exact length."""
        plan, before = self.plan, self.source_offset
        source = Buffer(len(self.source), (self.phases[0] - before) % 16, self.source.tobytes(), False, before)
        target = Buffer(len(self.expected), self.phases[1])
        return dataclasses.replace(
            Record(
                text or kernel_text(plan.file),
                dict(plan.macros),
                plan.kernel,
                plan.grid,
                (BLOCK,),
                (source, target, plan.parameters),
            ),
            **changes,
        )


def drawn(widths, number, rank=None):
    """Case `number` of a pair of widths: small extents around bytes and words, padding, gaps, tails, any orders."""
    rng = random.Random(f"{widths} {number} {rank}")
    rank = rng.randint(0, 4) if rank is None else rank
    some, more = ((1, 2, 3, 4, 5, 7, 8, 9), (0, 0, 0, 1, 2, 5)) if rank < 4 else ((2, 2, 2, 3), (0, 0, 0, 0, 1))
    extents = [rng.choice(some) for _ in range(rank)]
    if 0 < rank < 4 and rng.random() < 0.4:
        extents[0] = rng.choice((15, 16, 17, 31, 32, 33, 64, 100, 131))
    padded = [extent + rng.choice(more) for extent in extents]
    gap = 3 if widths[1] == 8 and rng.random() < 0.3 else 1  # an array with gaps
    runs = rng.random() < 0.5  # the same minor dimension on both sides
    source, target = (_strides(rng, padded, step, runs) for step in (1, gap))
    if widths[0] == 8:
        source = [stride * rng.choice((1, 1, -1)) for stride in source]
    axes = sorted(zip(padded, extents, source, target), key=lambda axis: (axis[3], axis[0]))
    slots = math.prod(padded) + (rng.choice((0, 0, 1, 3, 9)) if widths[1] < 8 else 0)
    return BitsCase(
        f"bits_cases.drawn({widths}, {number}, {rank})",
        tuple(axes),
        slots,
        rng.randrange(256),
        widths,
        (rng.randrange(16), rng.randrange(16)),
        64 if rng.random() < 0.2 else 32,
    )


def in_orders(cases):
    """Cases in turns with no side, the source, the target or both big; a side of whole bytes never is."""
    for number, case in enumerate(cases):
        big = tuple(number >> side & 1 == 1 and bits < 8 for side, bits in enumerate(case.widths))
        yield dataclasses.replace(case, name=f"{case.name} big {big}", big=big)


def packed_cases(widths, count, rank=None):
    """The first `count` cases that are not moves of whole bytes."""
    found, number = [], 0
    while len(found) < count:
        case = drawn(widths, number, rank)
        number += 1
        if type(case.move) is PackedMove:
            found.append(case)
    return found


def _strides(rng, sizes, step, first_is_minor):
    strides, order = [0] * len(sizes), rng.sample(range(len(sizes)), len(sizes))
    for dim in sorted(order, key=lambda dim: first_is_minor and dim > 0):
        strides[dim], step = step, step * sizes[dim]
    return strides


def turns(bits):
    """Matrices, batches and tiles in square blocks of a word, with padding and gaps; sizes that 8 divides in every way
    or not.
    """
    side = 32 // bits
    for number, (rows, columns, batch, pads) in enumerate(
        ((8, 4, 1, 0), (1, 1, 3, 0), (5, 3, 2, 1), (1, 40, 2, 0), (26, 2, 1, 2), (7, 11, 1, 0))
    ):
        a, b, wide = rows * side, columns * side, (rows + pads) * side
        axes = ((wide, a, b, 1), (b, b, 1, wide), (batch, batch, a * b, wide * b))
        for bits_of_index in (32, 64):
            phases = 4 * number % 16, 8 * number % 16
            yield BitsCase(
                f"turn {number} of {bits} bits, index {bits_of_index}",
                axes,
                wide * b * batch,
                0x5A,
                (bits, bits),
                phases,
                bits_of_index,
            )
    padded = (
        (2 * side, 2 * side, 3 * side, 1),
        (4 * side, 3 * side, 1, 2 * side),
        (3, 2, 6 * side * side, 8 * side * side),
    )
    yield BitsCase(f"turn of {bits} bits, padded", padded, 24 * side * side, 0xFF, (bits, bits))
    yield from runs(bits)


def wide_turns(bits):
    """Matrices and batches in vectors of 8 and 16 bytes, with padding: parts of a tile, one, and several each way."""
    side, number = 32 // bits, 0
    for words, (along, across) in itertools.product((2, 4)[: bits // 2], ((1, 1), (8, 8), (3, 13), (17, 5), (9, 33))):
        b, a, pad, number = along * words * side, across * words * side, words * side, number + 1
        index_bits, phase = (32, 64)[number % 3 == 0], 4 * words
        yield transposed(bits, (b, a), (0, 1), (), (phase, phase), index_bits=index_bits)
        pads = (0, pad, 2 * pad) if number % 2 else (1, 0, 0)
        yield transposed(bits, (3, b, a), (1, 2, 0), pads, (0, phase), index_bits=index_bits)


def runs(bits):
    """Square blocks whose rows follow each other on one side: odd numbers of blocks, padding, and addresses that are
    multiples of 16 bytes for all blocks, for none, or for some.
    """
    side = 32 // bits
    for number, (count, batch, pads, gap) in enumerate(((1, 1, 0, 0), (5, 3, 0, 0), (9, 31, 2, 0), (7, 5, 1, 1))):
        for phase, index_bits in ((0, 32), (4, 32), (8, 64), (0, 64)):
            long, wide = count * side, (count + pads) * side
            name = f"runs {number} of {bits} bits at {phase}, index {index_bits}, "
            case = functools.partial(BitsCase, pad=0x5A, widths=(bits, bits), index_bits=index_bits)
            axes = (side, side, long, 1), (wide, long, 1, side), (batch, batch, long * side, (wide + gap) * side)
            yield case(name + "to", axes, side * wide * batch, phases=(0, phase))
            axes = (wide, long, side, 1), (side, side, 1, wide), (batch, batch, (long + gap) * side, wide * side)
            yield case(name + "out of", axes, side * wide * batch, phases=(phase, 0))
    apart = (side, side, 5 * side, 1), (5 * side, 5 * side, 1, 4 * side)  # aligned words, but no runs
    yield BitsCase(f"words of {bits} bits", apart, 5 * side * side, 0, (bits, bits))


def transposed(bits, sizes, order, pads=(), phases=(0, 0), **more):
    """A row-major array with the dimensions in another order, the most minor of the target first; `pads` are places of
    padding behind each dimension, in the target.
    """
    wide = [size + pad for size, pad in itertools.zip_longest(sizes, pads, fillvalue=0)]
    source = {dim: math.prod(sizes[dim + 1 :]) for dim in order}
    target = {dim: math.prod(wide[below] for below in order[:number]) for number, dim in enumerate(order)}
    axes = tuple((wide[dim], sizes[dim], source[dim], target[dim]) for dim in order)
    name = f"{bits} bits {sizes} {order} {pads} {phases} {more}"
    return BitsCase(name, axes, math.prod(wide), 0x5A, (bits, bits), phases, **{"in_blocks": True, **more})


def odd_turns(bits):
    """Arrays whose rows begin inside words, with sizes around those of blocks and tiles, at every byte address."""
    side = 32 // bits
    number = 0
    for rows, columns in itertools.product((side, side + 1, 2 * side - 1, 2 * side + 1), (2, side - 1, side, side + 3)):
        number += 1
        yield transposed(bits, (rows, columns), (0, 1), (), (number % 4, number // 4 % 4))
        yield transposed(bits, (rows, columns), (0, 1), (number % 3, number % 2), (0, 5 * number % 16), index_bits=64)
    yield transposed(bits, (3, side + 3, side + 1), (1, 2, 0), (1, 0, 2), (1, 3))  # the row after the last column
    yield transposed(bits, (3, side + 3, side + 1), (1, 2, 0), (0, 1, 1), (0, 1))
    yield transposed(bits, (side + 1, 3, 2, side + 1), (0, 1, 3, 2), (), (3, 2))  # and after those of axes between
    yield transposed(bits, (side + 1, 3, 2, side + 1), (0, 2, 3, 1), (1, 1, 0, 0), (7, 1))
    yield transposed(bits, (side + 1, 3, 5), (0, 1, 2), (3 * side, 0, 0), (2, 2))
    yield transposed(bits, (33 * side + 5, side + 2), (0, 1), (), (2, 3), start=8 // bits - 1)
    yield transposed(bits, (side + 1, 40 * side + 3), (0, 1), (), (0, 1))
    yield transposed(bits, (66 * side + 1, 11), (0, 1), (), (1, 0))  # and warps without an end of b
    yield transposed(bits, (5, 33 * side + 5, 2), (1, 2, 0), (), (0, 2))  # two tiles, which begin at sectors
    yield transposed(
        bits, (7, 39 * side + 5, 3), (1, 2, 0), (0, 1, 0), (1, 3)
    )  # with rows that begin at every word of one
    yield transposed(bits, (2, side + 5, 67), (1, 2, 0), (0, 2, 0), (1, 1))  # padding inside the source
    yield transposed(bits, (5, 2 * side + 1, 2 * side), (1, 2, 0), (0, 0, 1), (3, 3))
    wide = 2 * side + 8 // bits
    for number, (pad, gap) in enumerate(((1, side), (0, 8 // bits), (1, 24 // bits))):
        axes = ((wide, wide - pad, side + 3, 1), (side + 3, side + 3, 1, wide + gap))
        name, slots = f"{bits} bits, {pad} padded, to gaps of {gap}", wide * (side + 3)
        yield BitsCase(name, axes, slots, 0x5A, (bits, bits), (number, 3 - number), start=number % 2, in_blocks=True)


def rows(widths):
    """Rows of whole words at every bit and phase, some of which end where the source ends; and a long one."""
    for phase in range(0, 16, 3):
        axes = (64, 64, 1, 1), (3, 3, 65 + 2 * phase, 64)
        yield BitsCase(f"rows at {phase}", axes, 192, 0, widths, (phase, 0))
        yield BitsCase(f"rows to {phase}", axes, 192, 0, widths, (0, phase))
    yield BitsCase("a run of many blocks", ((8195, 8195, 1, 1),), 8195, 0, widths, (1, 2))


def gaps(widths):
    """Rows of whole bytes with gaps between them, to any address."""
    for phase in range(1, 16, 2):
        axes, phases = ((24, 21, 1, 1), (5, 5, 27, 40)), (phase, 3 * phase % 16)
        yield BitsCase(f"{widths} to gaps at phase {phase}", axes, 120, 0x5A, widths, phases)


def groups(widths):
    """Rows of sizes around that of a thread's group, with padding and without, from any slot on, to any address."""
    group, per = group_bytes(*widths) * 8 // widths[1], 8 // widths[0]
    for number, (size, pad) in enumerate(
        itertools.product((group - 1, group, group + 1, 2 * group + 5), (0, 1, group))
    ):
        axes = (size + pad, size, 1, 1), (3, 3, size + number % 3, size + pad)
        name, phases = f"{widths} rows of {size} and {pad}", (7 * number % 16, 5 * number % 16)
        yield BitsCase(name, axes, 3 * (size + pad), 0x5A, widths, phases, (64, 32, 32)[number % 3], number % per)
    for phase in range(16):
        axes, phases = ((3 * group + 1, 3 * group + 1, 1, 1),), ((5 * phase + 3) % 16, phase)
        name, index_bits = f"{widths} to phase {phase}", (32, 64)[phase // 2 % 2]
        yield BitsCase(name, axes, 3 * group + 1, 0, widths, phases, index_bits, phase % per)
