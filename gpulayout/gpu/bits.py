"""Launches for packed elements that do not move as whole bytes.

Where source and target have different minor axes, kernels/bits_turn.cu and bits_turn_any.cu transpose blocks of
elements in registers; kernels/bits.cu and bits_any.cu take everything else, slot by slot or in words.

A byte of the source holds neighbours along the source's minor axis, and a byte of the target along the target's.  A
square block of slots is whole bytes, or whole words, on both sides.  Its rows are read, transposed in registers, and
written as rows of the target.  A unit is one such byte or word.

    s4[64,64]{1,0:E(4)} to {0,1:E(4)}, in units of 8 slots:  8 x 8 blocks, whose 8 rows are 8 words apart on both sides

Distances between blocks must be whole units, so sizes and strides have to be multiples of a unit's slots.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from gpulayout.gpu.element_width import VECTOR_BYTES, MoveWork
from gpulayout.gpu.kernel_numbers import BLOCKS_ALONG, ITEMS, MOST_READ, MOST_WRITTEN, THREADS
from gpulayout.gpu.launch import Access, Kernel, KernelPlan, MoveFields, offset_bits, planned
from gpulayout.layout.checks import counted
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Axis
from gpulayout.moves.packed_move import PackedMove

TILE = 8  # units along the target that the lanes of a warp write side by side: a sector of 32 bytes
AXES = (4, 8, 64)  # compiled numbers of axes: few, since each is compiled for nine pairs of widths
TURN_AXES = (2, 4, 8)  # those of bits_turn_any.cu, which is compiled for three; more axes are too short for blocks
_WORD = 4  # bytes that a thread of the transposing kernels writes, and that others read of a packed source
_PHASES = 16  # a thread of bits.cu adds the phase of the source's address to the offsets of its elements
# Blocks of a tile along the target -> how much work a tile then takes: runs of up to 32 bytes take more sectors.
# The cost model has no figures for this kernel.
_WORK = dict(zip(BLOCKS_ALONG, (12, 11, 10, 10, 13, 16)))
MOST_UNFILLED = 10  # slots of the blocks for each of the move; from there on, slot by slot is as fast
_DENSE = Kernel("bits", "bits.cu", "gpl_bits", shared_bytes=0, is_estimated=False)
_ANY = Kernel("bits", "bits_any.cu", "gpl_bits_any", shared_bytes=0, is_estimated=False)
_TURN = Kernel("bits", "bits_turn.cu", "gpl_bits_turn", shared_bytes=0, is_estimated=False)
_TURN_ANY = Kernel("bits", "bits_turn_any.cu", "gpl_bits_turn_any", shared_bytes=0, is_estimated=False)


class _Tiles(NamedTuple):
    """Tiles of a move in blocks: blocks of a tile along the target, tiles along it, and rows of blocks in all tiles."""

    blocks: int
    along: int
    rows: int


def bits_plan(move: PackedMove, source_phase: int, target_phase: int) -> KernelPlan:
    """The launch.  Buffers of packed elements may begin at any byte."""
    if plan := _turn_plan(move, source_phase, target_phase):
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
            MoveFields(move.slots, first=head, second=move.start),
            variant=widths,
            reach=move.source_span[1] + _PHASES if move.source_bits == 8 else 0,
        )
        steps = move.axes[0].source_stride != 1  # slot by slot; else in words of a packed source, or in vectors
        plan = replace(plan, reads=Access(1 if steps else VECTOR_BYTES if move.source_bits == 8 else _WORD))
    else:
        plan = planned(
            work,
            _ANY,
            1,
            math.ceil(move.bytes_written / (THREADS * ITEMS)),
            MoveFields(move.bytes_written, second=move.start),
            variant=widths,
        )
    return replace(plan, axes=move.axes)


def filled(axes: tuple[Axis, ...], counts: tuple[int, ...] = AXES) -> tuple[Axis, ...]:
    """The axes, with loops of extent 1 up to a compiled number."""
    count = next(count for count in counts if count >= len(axes))
    return (*axes, *[Axis(1, 1, 0, 0)] * (count - len(axes)))


def packing_macros(move: PackedMove | LookupMove) -> tuple[tuple[str, int], ...]:
    """How the slots of both sides lie in bytes; the order only of big sides, so that other kernels stay as they are."""
    source_bits, target_bits, *big = move.packing
    names = [name for name, is_big in zip(("GPL_SOURCE_BIG", "GPL_TARGET_BIG"), big) if is_big]
    return (
        ("GPL_SOURCE_BITS", min(source_bits, 8)),
        ("GPL_TARGET_BITS", min(target_bits, 8)),
        *[(name, 1) for name in names],
    )


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


def _turn_plan(move: PackedMove, source_phase: int, target_phase: int) -> KernelPlan | None:
    """The launch; None if the elements do not move in blocks."""
    found = source_minor(move)
    if not found:
        return None
    if not (source_phase | target_phase) % _WORD and (plan := _whole_words(move)):
        return plan
    others = (axis for axis in move.axes[1:] if axis is not found)
    return _any_rows(move, (move.axes[0], found, *others), target_phase)


def _reason(move: PackedMove, rows: str) -> str:
    side = 8 * _WORD // move.bits
    return (
        f"the minor axes of source and target differ{rows}, so blocks of {side} x {side} elements of "
        f"{counted(move.bits, 'bit')} are transposed in registers"
    )


def _pad(move: PackedMove) -> bytes:
    """The padding element repeated through a byte."""
    return bytes([move.pad[0] * (255 // ((1 << move.bits) - 1))])


def _whole_words(move: PackedMove) -> KernelPlan | None:
    """The launch of a move whose blocks are whole words on both sides; None if they are not."""
    turn = turned(move, 8 * _WORD)
    if not turn:
        return None
    axes = tiled(turn.axes)
    blocks = math.prod(axis.extent for axis in axes)
    plan = planned(
        MoveWork(replace(move, pad=_pad(move)), _WORD, filled(axes), 0, 0, (_reason(move, ""),)),
        _TURN,
        _WORD,
        math.ceil(blocks / THREADS),
        MoveFields(blocks, first=turn.target_step, second=turn.source_step),
        variant=packing_macros(move),
        reach=max(move.source_span[1], move.target_span[1]) // _WORD,
    )
    return replace(plan, axes=axes)


def _any_rows(move: PackedMove, axes: tuple[Axis, ...], target_phase: int) -> KernelPlan | None:
    """The launch of a move whose rows begin anywhere; None if they are shorter than a word, or fill too little of the
    blocks.

    axes   of the move: the minor axis of the target, that of the source, the others
    """
    minor, found, *others = axes
    side, reach = 8 * _WORD // move.bits, move.slots + THREADS * 8 * _WORD
    words_read = words_of_block(move.bits, offset_bits(axes, reach))
    wide = side * words_read
    # The last slot of a word at which a row begins; a row that begins inside its first word takes up to one more.
    latest = side - math.gcd(side, target_phase * 8 // move.bits, *(axis.target_stride for axis in axes[1:]))
    words, across = math.ceil((minor.extent + latest) / side), math.ceil(found.extent / wide)
    rows = across * math.prod(axis.extent for axis in others)
    tiles = _tiles(words, rows)
    if (
        minor.extent < side
        or len(axes) > max(TURN_AXES)
        or move.slots * MOST_UNFILLED < (words + tiles.along) * tiles.rows * side * wide
    ):
        return None
    work = MoveWork(replace(move, pad=_pad(move)), 1, filled(axes, TURN_AXES), 0, 0, ())
    rows_apart = found.target_stride // minor.extent if move.is_dense else 0
    plan = planned(
        work.because(_reason(move, " and rows begin inside words")),
        _TURN_ANY,
        _WORD,
        tiles.along * tiles.rows * tiles.blocks // THREADS,
        MoveFields(
            rows, (tiles.along, across), (THREADS // tiles.blocks, tiles.blocks), first=rows_apart, second=move.start
        ),
        variant=(*packing_macros(move), ("GPL_WORDS", words_read)),
        reach=reach,
    )
    return replace(plan, axes=move.axes, tile=None)


def words_of_block(bits: int, index_bits: int) -> int:
    """Words of a block in a row of the source: two, if 64 registers of a thread are enough for them."""
    return 2 if bits == 4 or (bits == 2 and index_bits == 32) else 1


def _tiles(words: int, rows: int) -> _Tiles:
    """The tiles for rows of `words` words, with the least work.  The blocks of a tile make one word less than they are.

    126 words, 64 rows of blocks: 5 tiles of 32 blocks, 8 rows, make 40 in all; 2 of 64 blocks, 4 rows, make 32.
    """
    choices = []
    for blocks, work in _WORK.items():
        along, down = math.ceil(words / (blocks - 1)), THREADS // blocks
        choices.append((along * math.ceil(rows / down) * work, _Tiles(blocks, along, math.ceil(rows / down) * down)))
    return min(choices)[1]


# ---- the blocks that are transposed ----------------------------------------------------------------------------------


class Turn(NamedTuple):
    """A packed move in blocks; strides and steps count units.

    unit_bytes     bytes of a unit
    side           slots of a unit, and rows of a block
    axes           loops over blocks: the minor axis of the target, that of the source, and the others, minor first
    source_step    from a row of a block to the next in the source; target_step likewise
    """

    unit_bytes: int
    side: int
    axes: tuple[Axis, ...]
    source_step: int
    target_step: int


def source_minor(move: PackedMove) -> Axis | None:
    """The minor axis of the source, if blocks can be turned: another axis than the minor one of the target, both sides
    packed, no tail padding.
    """
    minor, *others = move.axes
    if (
        move.source_bits != move.target_bits
        or minor.target_stride != 1
        or move.slots != math.prod(axis.extent for axis in move.axes)
    ):
        return None
    return next((axis for axis in others if axis.source_stride == 1 and axis.bound > 1), None)


def turned(move: PackedMove, unit_bits: int) -> Turn | None:
    """The move in blocks; None if its blocks are not whole units, or both sides have the same minor axis."""
    side = unit_bits // move.bits
    found = source_minor(move)
    if not found:
        return None
    minor, others = move.axes[0], [axis for axis in move.axes[1:] if axis is not found]
    sizes = (*minor[:2], *found[:2], minor.source_stride, found.target_stride, move.start)
    if any(number % side for axis in others for number in axis[2:]) or any(number % side for number in sizes):
        return None
    axes = (
        Axis(minor.extent // side, minor.bound // side, minor.source_stride, 1),
        Axis(found.extent // side, found.bound // side, 1, found.target_stride),
        *(Axis(axis.extent, axis.bound, axis.source_stride // side, axis.target_stride // side) for axis in others),
    )
    return Turn(unit_bits // 8, side, axes, minor.source_stride // side, found.target_stride // side)


def tiled(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The same loops, with the first split in two: as many units as lanes write side by side stay in it, and the loop
    over these groups becomes the third.
    """
    minor, second, *others = axes
    size = max(size for size in range(1, TILE + 1) if minor.extent % size == 0 and minor.bound % size == 0)
    upper = Axis(minor.extent // size, minor.bound // size, minor.source_stride * size, minor.target_stride * size)
    loops = (Axis(size, size, minor.source_stride, minor.target_stride), second, upper, *others)
    return tuple(loop for loop in loops if loop.extent > 1) or loops[:1]
