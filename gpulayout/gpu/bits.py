"""Launches for packed elements that do not move as whole bytes: kernels/bits.cu and bits_any.cu, or in blocks."""

from __future__ import annotations

import math
from dataclasses import replace

from gpulayout.gpu.bits_turn import WORD, filled, packing_macros, turn_plan
from gpulayout.gpu.element_width import VECTOR_BYTES, MoveWork
from gpulayout.gpu.kernel_numbers import ITEMS, MOST_READ, MOST_WRITTEN, THREADS
from gpulayout.gpu.launch import Access, Kernel, KernelPlan, MoveFields, planned
from gpulayout.gpu.parameters import OwnWords
from gpulayout.layout.checks import counted
from gpulayout.moves.packed_move import PackedMove

_DENSE = Kernel("bits", "bits.cu", "gpl_bits", shared_bytes=0, is_estimated=False)
_ANY = Kernel("bits", "bits_any.cu", "gpl_bits_any", shared_bytes=0, is_estimated=False)


# A thread of bits.cu adds the phase of the source's address to the offsets of its elements.
_PHASES = 16


def bits_plan(move: PackedMove, source_phase: int, target_phase: int) -> KernelPlan | None:
    """The launch; None when there is nothing to write.  Buffers of packed elements may begin at any byte."""
    if not move.slots:
        return None
    if plan := turn_plan(move, source_phase, target_phase):
        return plan
    work = MoveWork(move, 1, filled(move.axes), 0, target_phase, (_why(move),))
    widths = packing_macros(move)
    if move.is_dense:
        group = group_bytes(move.source_bits, move.target_bits)
        head = target_phase % group
        groups = math.ceil((head + move.bytes_written) / group)
        plan = planned(
            work,
            _DENSE,
            group,
            math.ceil(groups / THREADS),
            MoveFields(move.slots, own=OwnWords(head, move.start)),
            variant=widths,
            reach=move.source_span[1] + _PHASES if move.source_bits == 8 else 0,
        )
        steps = move.axes[0].source_stride != 1  # slot by slot; else in words of a packed source, or in vectors
        plan = replace(plan, reads=Access(1 if steps else VECTOR_BYTES if move.source_bits == 8 else WORD))
    else:
        plan = planned(
            work,
            _ANY,
            1,
            math.ceil(move.bytes_written / (THREADS * ITEMS)),
            MoveFields(move.bytes_written, own=OwnWords(second=move.start)),
            variant=widths,
        )
    return replace(plan, axes=move.axes)


def group_bytes(source_bits: int, target_bits: int) -> int:
    """Bytes of the target that a thread of bits.cu makes.

    >>> group_bytes(4, 8), group_bytes(8, 1), group_bytes(1, 1)
    (16, 4, 16)
    """
    return min(MOST_WRITTEN, MOST_READ * target_bits // source_bits)


def _why(move: PackedMove) -> str:
    """Why the elements do not move as whole bytes."""
    minor, per, elements = move.axes[0], 8 // move.bits, f"elements of {counted(move.bits, 'bit')}"
    stepping = minor.source_stride != 1
    how = "moved one by one" if stepping else "taken apart or put together in registers"
    if move.source_bits != move.target_bits:
        packed, other = ("source", "target") if move.source_bits < move.target_bits else ("target", "source")
        return f"the {packed} is packed and the {other} has a byte for each element, so {elements} are {how}"
    if stepping:
        return f"the minor axis of the target is not contiguous in the source, so {elements} are {how}"
    return (
        f"not all runs of {minor.bound} elements begin and end at multiples of {per}, so words are put together from "
        f"{elements}"
    )
