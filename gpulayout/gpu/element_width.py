"""A move on its way to a plan: the width of the elements that its launch moves, and where they are.

Bytes that stay together on both sides move as one element.  Elements that change on the way are never joined: a launch
moves elements of the wider type, and its kernel was compiled for both types (kernels/element.cuh).

    u8[64,48] to f32[64,48]{0,1}    planned like f32[64,48] to f32[64,48]{0,1}; the source has a fourth of the bytes

Complex numbers move as one element where neighbours part, and else part by part, as runs of real numbers.

The address of the narrower side counts in elements too: 3 bytes past a multiple of 16 are 3 elements, as 12 bytes are
on the other side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpulayout.gpu.change import Change
from gpulayout.layout.checks import counted
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.move import Axis, Move
from gpulayout.moves.packed_move import PackedMove

SOURCE, TARGET = 0, 1  # the sides of a move: axis[2 + side] is an axis's stride on a side
SIDE_NAMES = "source", "target"
VECTOR_BYTES = 16  # the widest access of a thread
MOST_AXES = 32  # with parameters: that fit the 4 KB of kernel parameters; 2^32 elements of two places each way


class MoveWork(NamedTuple):
    """A move on its way to a plan.  `axes` count elements of `width` bytes; phases are addresses modulo 16.

    With arithmetic on the way, `width` is that of the wider type, and the phase of the other side is that of an address
    that is as many elements of this width past a multiple of 16.
    """

    move: Move | PackedMove
    width: int
    axes: tuple[Axis, ...]
    phases: tuple[int, int]
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

    def in_memory(self, side: int, nbytes: int) -> int:
        """What so many bytes of elements take on a side."""
        return nbytes if self.change is None else nbytes // self.width * self.change.bytes_of(side)


def widened(move: Move, source_phase: int, target_phase: int) -> MoveWork:
    """The move in the widest possible elements: neighbours that stay together move as one.

    An f32[8,4] whose minor dimension of 4 stays minor moves as 8 elements of 16 bytes.
    """
    width, axes, phases = move.itemsize, move.axes, (source_phase, target_phase)
    check_whole_elements((width, width), phases, _strides(axes))
    reason: str | None = ""
    while axes and width < VECTOR_BYTES and (reason := _why_not_double(axes, width, phases)) is None:
        width *= 2
        (extent, *_), *others = axes
        axes = (*[Axis(extent // 2, extent // 2, width, width)] * (extent > 2), *others)
    axes = tuple(Axis(extent, bound, source // width, target // width) for extent, bound, source, target in axes)
    return MoveWork(move, width, axes or (Axis(1, 1, 1, 1),), phases, (reason,) if reason else ())


def at_a_time(read: int, write: int) -> str:
    """The bytes that a lane accesses at once, for a reason.

    >>> at_a_time(4, 4), at_a_time(1, 16)
    ('4 bytes are read and written at a time', '1 byte is read and 16 bytes are written at a time')
    """
    shown, written = (f"{counted(size, 'byte')} {'is' if size == 1 else 'are'}" for size in (read, write))
    return f"{shown} read and written at a time" if read == write else f"{shown} read and {written} written at a time"


def check_whole_elements(widths: Iterable[int], phases: tuple[int, int], strides: Iterable[Sequence[int]]) -> None:
    """BufferError unless each side's strides, in bytes, and its address modulo 16 are multiples of its element."""
    for side, width, phase, steps in zip(SIDE_NAMES, widths, phases, strides):
        for stride in steps:
            if stride % width:
                raise BufferError(
                    f"{side}_stride {stride} of the {side} is not a multiple of the element's {width} bytes: "
                    "a kernel cannot reach such elements"
                )
        if phase % width:
            raise BufferError(
                f"{side} address is {phase} past a multiple of 16: elements of {width} bytes must be aligned to {width}"
            )


def _strides(axes: Sequence[Axis]) -> list[list[int]]:
    """The strides on both sides."""
    return [[axis[2 + side] for axis in axes] for side in (SOURCE, TARGET)]


def _why_not_double(axes: Sequence[Axis], width: int, phases: tuple[int, int]) -> str | None:
    """Why two neighbouring elements of `width` bytes cannot move as one; None if they can.

    Empty if there are no such neighbours because the minor axis is not contiguous on both sides.
    """
    minor, wider = axes[0], 2 * width
    if minor[2:] != (width, width):
        return ""
    odd = next((axis[2:] for axis in axes[1:] if axis.source_stride % wider or axis.target_stride % wider), None)
    if minor.is_padded:
        why = "the minor axis is padded"
    elif minor.extent % 2:
        why = f"the contiguous runs have an odd number of elements, {minor.extent}"
    elif any(phase % wider for phase in phases):
        why = f"an address is not a multiple of {wider}"
    elif odd:
        why = f"strides {odd[SOURCE]} and {odd[TARGET]} bytes are not multiples of {wider}"
    else:
        return None
    return f"{why}, so elements of {counted(width, 'byte')} do not move two at a time"


# ---- elements that change on the way ---------------------------------------------------------------------


def convert_work(move: ConvertMove, source_phase: int = 0, target_phase: int = 0) -> MoveWork:
    """The work of one launch between two addresses, given modulo 16.

    BufferError when a stride is not a whole number of elements, or an address not a multiple of the element size.
    """
    move = joined(move)
    read, written = move.arithmetic.source.itemsize, move.arithmetic.target.itemsize
    if not move.axes or move.axes[0][2:] == (read, written):  # parts of complex numbers are one run, too
        move = joined(move.of_parts)
        read, written = move.arithmetic.source.itemsize, move.arithmetic.target.itemsize
    check_whole_elements((read, written), (source_phase, target_phase), _strides(move.axes))
    if move.parameter_strides and len(move.axes) > MOST_AXES:
        raise BufferError(f"a move with parameters of {len(move.axes)} axes: a launch has room for {MOST_AXES}")
    axes = tuple(Axis(extent, extent, source // read, target // written) for extent, _, source, target in move.axes)
    strides = tuple(zip(*move.parameter_strides)) or ((),) * len(axes)
    phases = source_phase // read, target_phase // written
    change = Change(move.arithmetic, axes, strides, move.parameter_offsets, phases)
    return _work(change, axes or (Axis(1, 1, 1, 1),), max(read, written), move.dimensions)


def as_pixels(work: MoveWork, side: int) -> MoveWork:
    """The work in elements of this side's type; the same for elements that do not change.

    For kernels whose elements are those of one side on both.
    """
    if work.change is None:
        return work
    width = work.change.bytes_of(side)
    return _work(work.change, work.axes, width, work.move.dimensions)._replace(reasons=work.reasons)


def _work(change: Change, axes: tuple[Axis, ...], width: int, dimensions: tuple[tuple[int, ...], ...]) -> MoveWork:
    """The work of a move with elements of `width` bytes in the source and in the target."""
    in_bytes = tuple(Axis(extent, bound, source * width, target * width) for extent, bound, source, target in axes)
    source, target = change.phases
    phases = source * width % VECTOR_BYTES, target * width % VECTOR_BYTES
    return MoveWork(Move(in_bytes, width, bytes(width), dimensions), width, axes, phases, (), change)


def joined(move: ConvertMove) -> ConvertMove:
    """The same move in as few axes as possible: one steps exactly over the one below it on all sides."""
    columns: list[tuple[int, ...]] = []  # extent, then the strides of both sides and of the parameters
    names: list[tuple[int, ...]] = []
    dimensions = move.dimensions or ((),) * len(move.axes)
    for axis, *strides, name in zip(move.axes, *move.parameter_strides, dimensions):
        if axis.extent == 1:
            continue
        column = (axis.extent, axis.source_stride, axis.target_stride, *strides)
        below = columns[-1] if columns else None
        if below and all(step == below[0] * inner for step, inner in zip(column[1:], below[1:])):
            columns[-1] = (below[0] * axis.extent, *below[1:])
            names[-1] += name
        else:
            columns.append(column)
            names.append(name)
    return dataclasses.replace(
        move,
        axes=tuple(Axis(column[0], *column[:3]) for column in columns),
        parameter_strides=tuple(tuple(column[3 + p] for column in columns) for p in range(len(move.parameter_strides))),
        dimensions=tuple(names),
    )
