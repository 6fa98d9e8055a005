"""Chooses the width of a launch's elements: bytes that stay together on both sides move as one element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpulayout.gpu.change import Change
from gpulayout.layout.checks import counted
from gpulayout.moves.move import Axis, Move
from gpulayout.moves.packed_move import PackedMove

VECTOR_BYTES = 16  # the widest access of a thread


class MoveWork(NamedTuple):
    """A move on its way to a plan.  `axes` count elements of `width` bytes; phases are addresses modulo 16.

    With arithmetic on the way, `width` is that of the wider type, and the phase of the other side is that of an address
    that is as many elements of this width past a multiple of 16.
    """

    move: Move | PackedMove
    width: int
    axes: tuple[Axis, ...]
    source_phase: int
    target_phase: int
    reasons: tuple[str, ...]
    change: Change | None = None

    def because(self, *reasons: str) -> MoveWork:
        """The same work, with more reasons why it is not faster."""
        return self._replace(reasons=(*self.reasons, *reasons))

    @property
    def reads(self) -> bool:
        return self.move.element_count > 0

    @property
    def varies(self) -> bool:
        """True if the arithmetic has other parameters for other elements."""
        return self.change is not None and self.change.varies

    def in_memory(self, side: str, nbytes: int) -> int:
        """What so many bytes of elements take on a side."""
        return nbytes if self.change is None else nbytes // self.width * self.change.bytes_of(side)


def widened(move: Move, source_phase: int, target_phase: int) -> MoveWork:
    """The move in the widest possible elements: neighbours that stay together move as one.

    An f32[8,4] whose minor dimension of 4 stays minor moves as 8 elements of 16 bytes.
    """
    width, axes = move.itemsize, move.axes
    check_whole_elements(width, "source", source_phase, [axis.source_stride for axis in axes])
    check_whole_elements(width, "target", target_phase, [axis.target_stride for axis in axes])
    reason: str | None = ""
    while axes and width < VECTOR_BYTES:
        reason = _why_not_double(axes, width, source_phase | target_phase)
        if reason is not None:
            break
        width *= 2
        axes = _halved(axes, width)
    axes = tuple(
        Axis(axis.extent, axis.bound, axis.source_stride // width, axis.target_stride // width) for axis in axes
    )
    return MoveWork(move, width, axes or (Axis(1, 1, 1, 1),), source_phase, target_phase, (reason,) if reason else ())


def at_a_time(read: int, write: int) -> str:
    """The bytes that a lane accesses at once, for a reason.

    >>> at_a_time(4, 4), at_a_time(1, 16)
    ('4 bytes are read and written at a time', '1 byte is read and 16 bytes are written at a time')
    """
    shown, written = (f"{counted(size, 'byte')} {'is' if size == 1 else 'are'}" for size in (read, write))
    return f"{shown} read and written at a time" if read == write else f"{shown} read and {written} written at a time"


def check_whole_elements(width: int, side: str, phase: int, strides: Iterable[int]) -> None:
    """BufferError unless the strides, in bytes, and the address modulo 16 are multiples of the element's `width`."""
    for stride in strides:
        if stride % width:
            raise BufferError(
                f"{side}_stride {stride} of the {side} is not a multiple of the element's {width} bytes: "
                "a kernel cannot reach such elements"
            )
    if phase % width:
        raise BufferError(
            f"{side} address is {phase} past a multiple of 16: elements of {width} bytes must be aligned to {width}"
        )


def _why_not_double(axes: Sequence[Axis], width: int, phases: int) -> str | None:
    """Why two neighbouring elements of `width` bytes cannot move as one; None if they can.

    Empty if there are no such neighbours because the minor axis is not contiguous on both sides.
    """
    minor, wider = axes[0], 2 * width
    if minor[2:] != (width, width):
        return ""
    odd = next((axis for axis in axes[1:] if axis.source_stride % wider or axis.target_stride % wider), None)
    if minor.is_padded:
        why = "the minor axis is padded"
    elif minor.extent % 2:
        why = f"the contiguous runs have an odd number of elements, {minor.extent}"
    elif phases % wider:
        why = f"an address is not a multiple of {wider}"
    elif odd:
        why = f"strides {odd.source_stride} and {odd.target_stride} bytes are not multiples of {wider}"
    else:
        return None
    return f"{why}, so elements of {counted(width, 'byte')} do not move two at a time"


def _halved(axes: Sequence[Axis], width: int) -> tuple[Axis, ...]:
    minor = axes[0]
    if minor.extent == 2:
        return tuple(axes[1:])
    return (Axis(minor.extent // 2, minor.bound // 2, width, width), *axes[1:])
