"""Launches for packed elements that do not move as whole bytes.

Where source and target have different minor axes, kernels/bits_turn_wide.cu, bits_turn.cu and bits_turn_any.cu
transpose blocks of elements in registers; kernels/bits.cu and bits_any.cu take everything else, slot by slot or in
words.

A byte of the source holds neighbours along the source's minor axis, and a byte of the target along the target's.  A
square block of slots is whole words on both sides.  Its rows are read, transposed in registers, and written as rows of
the target.

    s4[64,64]{1,0:E(4)} to {0,1:E(4)}, in words of 8 slots:  8 x 8 blocks, whose 8 rows are 8 words apart on both sides

For bits_turn.cu distances between blocks must be whole words, so sizes and strides are multiples of a word's slots; for
bits_turn_wide.cu they must be whole vectors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from gpulayout.gpu.element_width import TARGET, VECTOR_BYTES, MoveWork
from gpulayout.gpu.kernel_numbers import (
    BLOCKS_ALONG,
    ITEMS,
    LANES,
    MOST_READ,
    MOST_WRITTEN,
    THREADS,
    TURN_ALONG,
    TURN_ANY_WORDS,
    TURN_SKIP,
    TURN_WORDS,
)
from gpulayout.gpu.launch import Access, Kernel, KernelPlan, MoveFields, offset_bits, planned
from gpulayout.layout.checks import counted
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Axis
from gpulayout.moves.packed_move import PackedMove

AXES = (4, 8, 64)  # compiled numbers of axes: few, since each is compiled for nine pairs of widths
TURN_AXES = (2, 4, 8)  # those of bits_turn_any.cu, which is compiled for three; more axes are too short for blocks
_WORD = 4  # bytes that a thread of the transposing kernels writes, and that others read of a packed source
_PHASES = 16  # a thread of bits.cu adds the phase of the source's address to the offsets of its elements
# What a tile of bits_turn_any.cu takes, beside a sector more for each of its rows, in sectors: about 2,200 cycles of
# instruction issue and those of whole sectors.  The cost model has no figures for this kernel.
_TILE_WORK = 3500
_SHARED_SECTOR = 8  # a sector of which two tiles write parts, in sectors: what it cost tile_words.cu on an H100
MOST_IDLE = 2  # threads of bits_turn_wide.cu for each with a block, which takes half the instructions of bits_turn.cu
MOST_UNFILLED = 10  # slots of the blocks for each of the move; from there on, slot by slot is as fast
_DENSE = Kernel("bits", "bits.cu", "gpl_bits", shared_bytes=0, is_estimated=False)
_ANY = Kernel("bits", "bits_any.cu", "gpl_bits_any", shared_bytes=0, is_estimated=False)
_TURN = Kernel("bits", "bits_turn.cu", "gpl_bits_turn", shared_bytes=0, is_estimated=False)
_TURN_WIDE = Kernel("bits", "bits_turn_wide.cu", "gpl_bits_turn_wide", shared_bytes=0, is_estimated=False)
_TURN_ANY = Kernel("bits", "bits_turn_any.cu", "gpl_bits_turn_any", shared_bytes=0, is_estimated=False)


def bits_plan(move: PackedMove, source_phase: int, target_phase: int) -> KernelPlan:
    """The launch.  Buffers of packed elements may begin at any byte."""
    if plan := _turn_plan(move, (source_phase, target_phase)):
        return plan
    work, widths = MoveWork(move, 1, filled(move.axes), (0, target_phase), (_why(move),)), packing_macros(move)
    if not move.is_dense:
        fields = MoveFields(move.bytes_written, second=move.start)
        plan = planned(work, _ANY, 1, math.ceil(move.bytes_written / (THREADS * ITEMS)), fields, variant=widths)
        return replace(plan, axes=move.axes)
    group = group_bytes(move.source_bits, move.target_bits)
    head = target_phase % group
    plan = planned(
        work,
        _DENSE,
        group,
        math.ceil((head + move.bytes_written) / (group * THREADS)),
        MoveFields(move.slots, first=head, second=move.start),
        variant=widths,
        reach=move.source_span[1] + _PHASES if move.source_bits == 8 else 0,
    )
    steps = move.axes[0].source_stride != 1  # slot by slot; else in words of a packed source, or in vectors
    read = 1 if steps else VECTOR_BYTES if move.source_bits == 8 else _WORD
    return replace(plan, axes=move.axes, reads=Access(read))


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
    if move.source_big != move.target_big:
        return f"the bit orders of source and target differ, so {elements} change places within their bytes"
    return (
        f"not all runs of {minor.bound} elements begin and end at multiples of {per}, so words are put together from "
        f"{elements}"
    )


# ---- blocks that are transposed ------------------------------------------------------------------------------------


def _turn_plan(move: PackedMove, phases: tuple[int, int]) -> KernelPlan | None:
    """The launch; None if the elements do not move in blocks.

    They do if both sides are packed, another axis is minor in the source than in the target, and no tail is padded.
    """
    minor, *others = move.axes
    if (
        move.source_bits != move.target_bits
        or minor.target_stride != 1
        or move.slots != math.prod(axis.extent for axis in move.axes)
    ):
        return None
    source_minor = next((axis for axis in others if axis.source_stride == 1 and axis.bound > 1), None)
    if not source_minor:
        return None
    axes = (minor, source_minor, *[axis for axis in others if axis is not source_minor])
    # A padding element is repeated through a byte.
    padded = replace(move, pad=bytes([move.pad[0] * (255 // ((1 << move.bits) - 1))]))
    return _wide(padded, axes, phases) or _whole_words(padded, axes, phases) or _any_rows(padded, axes, phases[TARGET])


def _reason(move: PackedMove, rows: str) -> str:
    slots = 8 * _WORD // move.bits
    return (
        f"the minor axes of source and target differ{rows}, so blocks of {slots} x {slots} elements of "
        f"{counted(move.bits, 'bit')} are transposed in registers"
    )


def _is_whole(move: PackedMove, axes: tuple[Axis, ...], phases: tuple[int, int], words: int) -> bool:
    """Whether all blocks are whole words on both sides, so many words side by side.

    axes   of the move: the minor axis of the target, that of the source, the others
    """
    minor, source_minor, *others = axes
    sizes = (*minor[:3], *source_minor[:2], source_minor.target_stride, move.start)
    strides = [stride for axis in others for stride in axis[2:]]
    slots = words * 8 * _WORD // move.bits
    return not any(number % slots for number in (*sizes, *strides)) and not any(
        phase % (words * _WORD) for phase in phases
    )


def _wide(move: PackedMove, axes: tuple[Axis, ...], phases: tuple[int, int]) -> KernelPlan | None:
    """The launch in vectors; None if they are not aligned, or if most threads of its tiles would have no block."""
    words = TURN_WORDS[move.bits]
    while words > 1 and not _is_whole(move, axes, phases, words):
        words //= 2
    if words == 1 or len(axes) > max(TURN_AXES):
        return None
    minor, source_minor, *others = _in_words(move, axes, words)
    counts, tile = _warps(minor.extent, source_minor.extent)
    if math.prod(counts) * THREADS > MOST_IDLE * minor.extent * source_minor.extent:
        return None
    total, slots = math.prod(axis.extent for axis in others), 8 * _WORD // move.bits
    first, second = axes[1].target_stride // slots, axes[0].source_stride // slots
    plan = planned(
        MoveWork(move, _WORD, filled((minor, source_minor, *others), TURN_AXES), (0, 0), (_reason(move, ""),)),
        _TURN_WIDE,
        words * _WORD,
        math.prod(counts) * total,
        MoveFields(total, counts, tile, first=first, second=second),
        variant=(*packing_macros(move), ("GPL_WORDS", words)),
        reach=max(move.source_span[1], move.target_span[1]) // _WORD,
    )
    return replace(plan, tile=None)


def _warps(words: int, vectors: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The tiles along b and a, the fewest for so many words of b and vectors of a, and the warps of a tile along these.

    >>> _warps(4096, 1024), _warps(8, 1024)
    (((128, 128), (4, 2)), ((1, 32), (1, 8)))
    """
    along, across = TURN_ALONG, LANES // TURN_ALONG
    tiles = []
    for down in (4, 2, 8, 1):
        aside = THREADS // LANES // down
        tiles.append(((math.ceil(words / (along * down)), math.ceil(vectors / (across * aside))), (down, aside)))
    return min(tiles, key=lambda tile: math.prod(tile[0]))


def _in_words(move: PackedMove, axes: tuple[Axis, ...], words: int) -> list[Axis]:
    """The axes in blocks, the second in vectors of so many of them; strides in words."""
    slots = 8 * _WORD // move.bits
    minor, source_minor, *others = axes
    wide = slots * words
    return [
        Axis(minor.extent // slots, minor.bound // slots, minor.source_stride, 1),
        Axis(source_minor.extent // wide, source_minor.bound // wide, words, source_minor.target_stride * words),
        *[Axis(extent, bound, source // slots, target // slots) for extent, bound, source, target in others],
    ]


def _whole_words(move: PackedMove, axes: tuple[Axis, ...], phases: tuple[int, int]) -> KernelPlan | None:
    """The launch of a move whose blocks are whole words on both sides; None if they are not."""
    if not _is_whole(move, axes, phases, 1):
        return None
    slots = 8 * _WORD // move.bits
    minor, source_minor, *_ = axes
    axes = _grouped(_in_words(move, axes, 1))
    total = math.prod(axis.extent for axis in axes)
    plan = planned(
        MoveWork(move, _WORD, filled(axes), (0, 0), (_reason(move, ""),)),
        _TURN,
        _WORD,
        math.ceil(total / THREADS),
        MoveFields(total, first=source_minor.target_stride // slots, second=minor.source_stride // slots),
        variant=packing_macros(move),
        reach=max(move.source_span[1], move.target_span[1]) // _WORD,
    )
    return replace(plan, axes=axes)


def _grouped(blocks: Sequence[Axis]) -> tuple[Axis, ...]:
    """The same loops, with the first split in two: as many words as lanes write side by side stay in it, and the loop
    over these groups becomes the third.
    """
    minor, second, *others = blocks
    size = max(size for size in range(1, TURN_ALONG + 1) if minor.extent % size == 0 == minor.bound % size)
    groups = Axis(minor.extent // size, minor.bound // size, minor.source_stride * size, minor.target_stride * size)
    loops = (Axis(size, size, minor.source_stride, minor.target_stride), second, groups, *others)
    return tuple(loop for loop in loops if loop.extent > 1) or loops[:1]


def _any_rows(move: PackedMove, axes: tuple[Axis, ...], target_phase: int) -> KernelPlan | None:
    """The launch of a move whose rows begin anywhere; None if they are shorter than a word, or fill too little of the
    blocks.

    axes   as in `_whole_words`
    """
    minor, source_minor, *others = axes
    slots, reach = 8 * _WORD // move.bits, move.slots + THREADS * 8 * _WORD
    words_read = words_of_block(move.bits, offset_bits(axes, reach))
    wide = slots * words_read
    # The last slot of a word at which a row begins; a row that begins inside its first word takes up to one more.
    latest = slots - math.gcd(slots, target_phase * 8 // move.bits, *(axis.target_stride for axis in axes[1:]))
    words, across = math.ceil((minor.extent + latest) / slots), math.ceil(source_minor.extent / wide)
    rows = across * math.prod(axis.extent for axis in others)
    along, down, blocks, skip = _tiles(words, rows, slots, words_read)
    if (
        minor.extent < slots
        or len(axes) > max(TURN_AXES)
        or move.slots * MOST_UNFILLED < (words + along) * down * slots * wide
    ):
        return None
    rows_apart = source_minor.target_stride // minor.extent if move.is_dense else 0
    plan = planned(
        MoveWork(move, 1, filled(axes, TURN_AXES), (0, 0), (_reason(move, " and rows begin inside words"),)),
        _TURN_ANY,
        _WORD,
        along * down * blocks // THREADS,
        MoveFields(rows, (along, across), (THREADS // blocks, blocks), first=rows_apart, second=move.start),
        variant=(*packing_macros(move), ("GPL_WORDS", words_read), ("GPL_SKIP", skip)),
        reach=reach,
    )
    return replace(plan, axes=move.axes, tile=None)


def words_of_block(bits: int, index_bits: int) -> int:
    """Words of a block in a row of the source, for which 64 registers of a thread are enough."""
    return TURN_ANY_WORDS[bits] if index_bits == 32 else max(TURN_ANY_WORDS[bits] // 2, 1)


def _tiles(words: int, rows: int, slots: int, wide: int) -> tuple[int, int, int, int]:
    """The tiles for rows of `words` words of the target, with the least work: (tiles along the target, rows of blocks
    in all tiles, blocks of a tile along the target, words of the target at whose multiples tiles begin).

    rows    of blocks: `slots` rows of `wide` words in the source

    The blocks of a tile make one word less than they are, or a sector less if tiles begin at sectors: 1000 words take
    18 tiles of 64 blocks, which make 56 words each.
    """
    found = []
    for blocks, skip in itertools.product(BLOCKS_ALONG, (1, TURN_SKIP)):
        if blocks <= skip:
            continue
        height = THREADS // blocks
        along, tall = math.ceil((words + skip - 1) / (blocks - skip)), math.ceil(rows / height)
        shared = _SHARED_SECTOR if along > 1 and skip == 1 else 1
        work = _TILE_WORK + slots * (blocks + wide * height * shared)
        found.append((along * tall * work, blocks, (along, tall * height, blocks, skip)))
    return min(found)[-1]
