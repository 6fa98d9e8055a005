"""Splits short records into planes, and joins planes to records, with integer arithmetic.

Elements have 1 or 2 bytes here.  NumPy's strided copy moves one of them per turn of its loop.  Two kinds of arithmetic
move more per turn, and keep every bit:

- Shifts.  A record of 2 or 4 elements is an integer, so dense records are contiguous integers.  Channel 2 of u8[n,4] is
  `record >> 16`, narrowed to a byte.  NumPy shifts, narrows and widens contiguous integers with SIMD instructions.
- Negation.  -(-x) is x for unsigned integers.  The loop of np.negative takes several elements per turn, with strides
  too.  The channels are negated on their way to the target, and once more there, where they are together and cached.

Negation needs long loops, so it does not pay in cache blocks.  Records are little-endian integers on every machine:
channel c begins at bit 8 * c * itemsize.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpulayout.layout.checks import counted
from gpulayout.moves.move import Axis

LONGEST_SHORT = 2  # bytes; np.negative is no faster than a copy for longer elements
# Bytes of a record that is read or written as an integer.  Longer ones are more work than their elements one by one.
LONGEST_READ, LONGEST_WRITTEN = 4, 2
LEAST_SHIFTED, LEAST_NEGATED = 64, 1 << 14  # pixels in a run; NumPy begins its loop anew for each
LONGEST_NEGATED = 8  # bytes between pixels of the records; farther apart, both ways wait for memory


class ShortRecords(NamedTuple):
    """How channels are copied.

    axis       the axis of channels in the arrays, major first; the last one if the target has the records
    by_shifts  read or write whole records as integers; else negate twice
    """

    axis: int
    by_shifts: bool

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        """Copy arrays of u1 or u2 with all their channels."""
        others = [k for k in range(source.ndim) if k != self.axis]
        source, planes = source.transpose(*others, self.axis), target.transpose(self.axis, *others)
        if not self.by_shifts:
            _negate_twice(source, planes, target)
        elif self.axis == target.ndim - 1:
            _join(source, target)
        else:
            _split(source, planes)

    def describe(self, shape: Sequence[int]) -> str:
        """The copy of arrays of this shape, in words."""
        channels, axes = counted(shape[self.axis], "channel"), counted(len(shape), "axis")
        if self.by_shifts:
            return f"{channels} by shifts of whole records, over {axes}"
        return f"{channels} one after the other, negated twice, over {axes}"

    @property
    def arithmetic(self) -> str:
        """Its name in JSON."""
        return "shifts" if self.by_shifts else "negation"


def short_records(itemsize: int, axes: Sequence[Axis]) -> ShortRecords | None:
    """How arithmetic copies these axes, minor first in the target; None if it does not pay."""
    if itemsize > LONGEST_SHORT or len(axes) < 2 or axes[0].target_stride != itemsize:
        return None
    return _joined(itemsize, axes) or _split_up(itemsize, axes)


def _joined(itemsize: int, axes: Sequence[Axis]) -> ShortRecords | None:
    """Joining needs dense records: the second negation takes everything between two channels, too."""
    channel, pixel = axes[0], min(axes[1:], key=lambda axis: axis.target_stride)
    record = channel.bound * itemsize
    if pixel.target_stride != record:
        return None
    is_integer = record == LONGEST_WRITTEN and pixel.source_stride == itemsize
    return _worthwhile(ShortRecords(len(axes) - 1, is_integer), pixel.bound, record)


def _split_up(itemsize: int, axes: Sequence[Axis]) -> ShortRecords | None:
    pixel = axes[0]
    k = next((k for k, axis in enumerate(axes) if k and axis.source_stride == itemsize), 0)
    record = axes[k].bound * itemsize
    if not k or pixel.source_stride < record:
        return None
    is_integer = axes[k].bound in (2, 4) and record <= LONGEST_READ and pixel.source_stride == record
    return _worthwhile(ShortRecords(len(axes) - 1 - k, is_integer), pixel.bound, pixel.source_stride)


def _worthwhile(records: ShortRecords, pixels: int, step: int) -> ShortRecords | None:
    """The records, if arithmetic pays for runs of that many pixels, `step` bytes apart where the records are."""
    if records.by_shifts:
        return records if pixels >= LEAST_SHIFTED else None
    return records if pixels >= LEAST_NEGATED and step <= LONGEST_NEGATED else None


# ---- copies: channels are the last axis of `source` and `records`, and the first of `planes` -----------------------


def _negate_twice(source: np.ndarray, planes: np.ndarray, target: np.ndarray) -> None:
    """`planes` is the target, channel by channel; `target` has its axes in the order of memory."""
    for channel, plane in enumerate(planes):
        np.negative(source[..., channel], out=plane)
    np.negative(target, out=target)


def _split(source: np.ndarray, planes: np.ndarray) -> None:
    records = source.view(f"<u{source.shape[-1] * source.itemsize}")[..., 0]
    for channel, plane in enumerate(planes.view(f"<u{planes.itemsize}")):
        if channel:
            np.right_shift(records, 8 * channel * source.itemsize, out=plane, casting="unsafe")
        else:
            np.copyto(plane, records, casting="unsafe")


def _join(source: np.ndarray, records: np.ndarray) -> None:
    low, high = (source.view(f"<u{source.itemsize}")[..., channel] for channel in range(2))
    integers = records.view(f"<u{2 * records.itemsize}")[..., 0]
    np.left_shift(high, 8 * source.itemsize, out=integers, dtype=f"u{2 * source.itemsize}")
    np.bitwise_or(integers, low, out=integers)
