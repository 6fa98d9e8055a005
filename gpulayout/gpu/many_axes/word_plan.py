"""Tiles of many axes that move small elements in aligned words, at any phase."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from gpulayout.gpu.element_width import Work, at_a_time
from gpulayout.gpu.launch import Access, KernelPlan, offset_bits, planned, tile_kernel
from gpulayout.gpu.many_axes.shared_box import SharedBox, box_reason, boxes, cut_axes
from gpulayout.gpu.many_axes.warp_lanes import UNCUT
from gpulayout.gpu.many_axes.word_runs import WORD, WordBox, best_walk, table_sizes, walks
from gpulayout.gpu.parameters import BOX_LANES, WORD_SHARED_BYTES, RunDigit, axes_variant, move_struct, words_struct
from gpulayout.moves.move import Axis

_BOXES = 12  # to try
_MOST_BOXES = 8  # of a block
ENOUGH_BLOCKS = 512  # for large devices; with fewer, a block moves one box
_BOX_WORDS = tile_kernel("box_words.cu", "gpl_box_words")


def words_plan(work: Work, why: str, most: float) -> KernelPlan | None:
    """The plan; None if no box fits, or if all take more than `most` instructions for an element."""
    low, high = (place // work.width for place in work.move.source_span)
    # the kernel compares places with both ends of the source, which may be further apart than any offset is long
    bits = offset_bits(work.axes, high - low)
    chosen = best_words(work.axes, work.width, bits)
    if not chosen or chosen[1].instructions > most:
        return None
    box, walk = chosen
    axes, sizes, access = work.axes, box.sizes, WORD * work.width
    cut = cut_axes(axes, box)
    outer = [k for k in range(len(axes)) if k not in cut and sizes[k] == 1 < axes[k].extent]
    counts = tuple(math.ceil(axes[k].extent / sizes[k]) for k in cut)
    total = math.prod(counts) * math.prod(axes[k].extent for k in outer)
    together = max(min(total // ENOUGH_BLOCKS, _MOST_BOXES), 1)
    runs = f"{walk.length(0) * work.width} bytes in the source, of {walk.length(1) * work.width} in the target"
    work = work.because(box_reason(why, len(box.write), runs, at_a_time(access, access)))
    plan = planned(work, _BOX_WORDS, access, -(-total // together), total=total, reach=high - low)
    loops = [axes[k] if sizes[k] < axes[k].extent else Axis(1, 1, 0, 0) for k in [*cut, *outer]]
    tile = [sizes[k] if sizes[k] < axes[k].extent else 1 for k in cut]
    parameters = move_struct(plan.index_bits, work.move.pad, (total, 0, 1, low, high), counts, tile, loops)
    parameters += _walk_struct(walk, work.width, plan.index_bits, together)
    macros = {**dict(plan.macros), "GPL_AXES": axes_variant(len(loops))}
    lanes = [-(-words // -(-words // BOX_LANES)) for words in (walk.words, walk.length(1) // WORD)]
    return replace(
        plan,
        parameters=parameters,
        macros=tuple(macros.items()),
        tile=tuple(sizes[k] for k in box.write),
        reads=Access(access),
        runs=(lanes[0] * WORD, lanes[1] * WORD),
        lanes=(lanes[0], lanes[1]),
    )


def best_words(axes: Sequence[Axis], width: int, bits: int) -> tuple[SharedBox, WordBox] | None:
    """The box and its walk with the fewest instructions; None for elements of more than 2 bytes, or if none fits."""
    if width > 2:
        return None
    most = (WORD_SHARED_BYTES - 16 * WORD * BOX_LANES) // width
    tried = list(itertools.islice(boxes(axes, width, most), _BOXES))
    found = {walk: box for box in tried for walk in walks(axes, box, cut_axes(axes, box))}
    walk = best_walk(found, width, bits // 4)
    return (next(box for each, box in found.items() if each.pieces == walk.pieces), walk) if walk else None


def _walk_struct(walk: WordBox, width: int, bits: int, together: int) -> bytes:
    """The bytes of a `GplWordsMove` after its `GplMove`."""
    numbers = [
        (walk.elements // walk.length(0), _digits(walk, walk.others(0), 0, width)),
        (walk.elements // walk.length(1), _digits(walk, walk.others(1), 1, width)),
        (walk.length(1), _digits(walk, walk.runs[1], 1, width)),
    ]
    below = [-sum(min(reached, 0) for reached in _reaches(walk, side)) for side in (0, 1)]
    after = sum(max(reached, 0) for reached in _reaches(walk, 0)) + 2 * WORD
    reach = (*[-(-elements // WORD) * WORD for elements in below], after)
    tables = itertools.accumulate(table_sizes(walk, bits // 4))
    per_place = [number for side in (0, 1) for each in _per_place(walk, side) for number in each]
    scalars = [walk.length(0), walk.parts, walk.turn, together, *tables, *per_place]
    return words_struct(bits, numbers, reach, scalars)


def _reaches(walk: WordBox, side: int) -> list[int]:
    """How far each piece reaches from the box's first element, backwards where that is negative."""
    return [(piece.size - 1) * piece.strides[side] for piece in walk.pieces]


def _digits(walk: WordBox, order: Sequence[int], side: int, width: int) -> list[RunDigit]:
    """The pieces in this order; those that are contiguous both in memory and in shared memory become one."""
    found: list[RunDigit] = []
    for k in order:
        size, step, stride = walk.pieces[k].size, walk.steps[k] * width, walk.pieces[k].strides[side]
        last = found[-1] if found else (0, 0, 0)
        if found and (step, stride) == (last[0] * last[1], last[0] * last[2]):
            found[-1] = (last[0] * size, last[1], last[2])
        else:
            found.append((size, step, stride))
    return found


def _per_place(walk: WordBox, side: int) -> list[tuple[int, int]]:
    """(elements of a run, runs) of a place, for both axes that may be cut; one of the numbers is 0."""
    found = [(0, 0)] * 2
    for number, order in enumerate((walk.runs[side], walk.others(side))):
        length = 1
        for k in order:
            piece = walk.pieces[k]
            if piece.uneven != UNCUT:
                found[piece.uneven] = (0, length) if number else (length, 0)
            length *= piece.size
    return found
