"""Tiles of many axes that move small elements in aligned words, at any phase."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from gpulayout.gpu.element_width import MoveWork
from gpulayout.gpu.kernel_numbers import LANES, WORD, WORD_SHARED_BYTES
from gpulayout.gpu.launch import KernelPlan, offset_bits, tile_kernel
from gpulayout.gpu.many_axes.box_launch import RunAccess, box_launch, box_loops
from gpulayout.gpu.many_axes.shared_box import SharedBox, boxes, cut_axes
from gpulayout.gpu.many_axes.warp_lanes import UNCUT
from gpulayout.gpu.many_axes.word_runs import WordBox, best_walk, table_sizes, walks
from gpulayout.gpu.parameters import RunDigit, words_struct
from gpulayout.moves.move import Axis

_BOXES = 12  # to try
_MOST_BOXES = 8  # of a block
ENOUGH_BLOCKS = 512  # for large devices; with fewer, a block moves one box
_BOX_WORDS = tile_kernel("box_words.cu", "gpl_box_words")


def words_plan(work: MoveWork, why: str, most: float) -> KernelPlan | None:
    """The plan; None if no box fits, or if all take more than `most` instructions for an element."""
    low, high = (place // work.width for place in work.move.source_span)
    # the kernel compares places with both ends of the source, which may be further apart than any offset is long
    bits = offset_bits(work.axes, high - low)
    chosen = best_words(work.axes, work.width, bits)
    if not chosen or chosen[1].instructions > most:
        return None
    box, walk = chosen
    loops = box_loops(work.axes, box)
    loops = loops._replace(together=max(min(loops.boxes // ENOUGH_BLOCKS, _MOST_BOXES), 1))
    words_of_runs = walk.words, walk.length(1) // WORD
    read, write = (_access(walk.length(side), words, work.width) for side, words in enumerate(words_of_runs))
    tables = _walk_struct(walk, work.width, bits, loops.together)
    return box_launch(work, _BOX_WORDS, loops, (read, write), tables, why=why, reach=high - low)


def _access(length: int, words: int, width: int) -> RunAccess:
    """How rows of lanes, as many as possible of one length, access the words of a run."""
    lanes = math.ceil(words / math.ceil(words / LANES))
    return RunAccess(length, WORD * width, lanes * WORD, lanes)


def best_words(axes: Sequence[Axis], width: int, bits: int) -> tuple[SharedBox, WordBox] | None:
    """The box and its walk with the fewest instructions; None for elements of more than 2 bytes, or if none fits."""
    if width > 2:
        return None
    most = (WORD_SHARED_BYTES - 16 * WORD * LANES) // width
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
