"""Launches for packed elements that do not move as whole bytes: kernels/bits.cu, bits_any.cu and bits_turn.cu."""

from __future__ import annotations

import math
from dataclasses import replace

from gpulayout.gpu.element_width import Work
from gpulayout.gpu.launch import ITEMS, THREADS, Kernel, KernelPlan, planned
from gpulayout.moves.move import Axis
from gpulayout.moves.packed_move import PackedMove
from gpulayout.moves.packed_turn import Turn, tiled, turned

AXES = (4, 8, 64)  # compiled numbers of axes: few, since each is compiled for nine pairs of widths
_WORD = 4  # bytes that a thread writes
_TURN = Kernel("bits", "bits_turn.cu", "gpl_bits_turn", shared_bytes=0, is_estimated=False)
_DENSE = Kernel("bits", "bits.cu", "gpl_bits", shared_bytes=0, is_estimated=False)
_ANY = Kernel("bits", "bits_any.cu", "gpl_bits_any", shared_bytes=0, is_estimated=False)


def bits_plan(move: PackedMove, source_phase: int, target_phase: int) -> KernelPlan | None:
    """The launch; None when there is nothing to write.  Buffers of packed elements may begin at any byte."""
    if not move.slots:
        return None
    turn = turned(move, 8 * _WORD)
    if turn and not (source_phase | target_phase) % _WORD:
        return _turn_plan(move, turn)
    work = Work(move, 1, _filled(move.axes), 0, target_phase, (_why(move),))
    widths = (("GPL_SOURCE_BITS", move.source_bits), ("GPL_TARGET_BITS", move.target_bits))
    if move.is_dense:
        head = target_phase % _WORD
        words = math.ceil((head + move.bytes_written) / _WORD)
        plan = planned(
            work,
            _DENSE,
            _WORD,
            math.ceil(words / THREADS),
            total=move.slots,
            head=head,
            first_slot=move.start,
            variant=widths,
        )
    else:
        plan = planned(
            work,
            _ANY,
            1,
            math.ceil(move.bytes_written / (THREADS * ITEMS)),
            total=move.bytes_written,
            first_slot=move.start,
            variant=widths,
        )
    return replace(plan, axes=move.axes)


def _turn_plan(move: PackedMove, turn: Turn) -> KernelPlan:
    """The launch of a move in square blocks; its pad fills whole words."""
    axes = tiled(turn.axes)
    pad = bytes([move.pad[0] * (255 // ((1 << move.bits) - 1))])
    work = Work(
        replace(move, pad=pad),
        _WORD,
        _filled(axes),
        0,
        0,
        (
            f"{turn.side} x {turn.side} blocks of {move.bits}-bit elements, transposed in "
            "registers: the minor axes of source and target differ",
        ),
    )
    blocks = math.prod(axis.extent for axis in axes)
    plan = planned(
        work,
        _TURN,
        _WORD,
        math.ceil(blocks / THREADS),
        total=blocks,
        source_step=turn.source_step,
        target_step=turn.target_step,
        reach=max(move.source_span[1], move.target_span[1]) // _WORD,
        variant=(("GPL_SOURCE_BITS", move.bits),),
    )
    return replace(plan, axes=axes)


def _filled(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes, with loops of extent 1 up to a compiled number."""
    count = next(count for count in AXES if count >= len(axes))
    return (*axes, *[Axis(1, 1, 0, 0)] * (count - len(axes)))


def _why(move: PackedMove) -> str:
    """Why the elements do not move as whole bytes."""
    if move.source_bits != move.target_bits:
        packed, other = ("source", "target") if move.source_bits < move.target_bits else ("target", "source")
        return f"elements of {move.bits} bits one by one: the {packed} is packed and the {other} has a byte for each"
    minor, per = move.axes[0], 8 // move.bits
    if minor.source_stride != 1:
        return f"elements of {move.bits} bits one by one: the minor axis of the target is not contiguous in the source"
    return (
        f"words assembled from {move.bits}-bit elements: not all runs of {minor.bound} begin and end at multiples "
        f"of {per} elements"
    )
