"""Boxes of small elements that move in aligned words of 4 elements, whatever the phases of their runs.

`kernels/box_words.cu` explains runs, words, the gather table and the places in shared memory.  Sizes, strides and steps
are in elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpulayout.gpu.element_width import SOURCE, TARGET, MoveWork
from gpulayout.gpu.kernel_numbers import (
    BANKS,
    BOX_WORDS_MOST,
    FAR_BOXES,
    LANES,
    RUN_DIGITS,
    SECTOR,
    THREADS,
    WORD,
    WORD_BOX_BLOCKS,
    WORD_BOXES,
    WORD_CUT,
    WORD_READS,
    WORD_SHARED_BYTES,
)
from gpulayout.gpu.launch import KernelPlan, offset_bits, tile_kernel
from gpulayout.gpu.many_axes.shared_box import BoxLoops, RunAccess, SharedBox, box_launch, box_loops, boxes, cut_axes
from gpulayout.gpu.many_axes.warp_lanes import FEW, UNCUT, LaneDigit, merged
from gpulayout.gpu.parameters import RunDigit, words_struct
from gpulayout.moves.move import Axis

ENOUGH_BLOCKS = 512  # for large devices; with fewer, a block moves one box
_BOXES = 12  # to try
_ENDS = 2 * (WORD - 1)  # single elements of a target run, at most
_WHOLE_ROWS = 1.15  # so many times the turns may be taken for rows that no warps share
_RUNS = 16, 500  # elements of a run
# Instructions of a warp: for a run to read, to write, and for 42 runs' single elements; for a box; for a block, and for
# as many entries of a table as it has threads.
_READ, _WRITE, _END, _BOX = 12, 29, 20, 220
_BLOCK, _ENTRY, _GATHER = 150, 80, 60
_WAY = 2  # instructions that could be issued while shared memory serves the lanes that are left
_PHASES = np.array([0, 1]).reshape(2, 1)  # of a box, to judge bank conflicts
# As in the cost model, and the bytes that memory moves in a cycle of a multiprocessor of an H100.
TURN, STEP, SLOTS, RUN, _RATE = 1200, 5, 4, 12, 12
_WALKS = 6  # pairs of runs to try
_TRIES = 6  # sets of steps to try for each
_FEW_WAYS = 1.2  # lanes that read different words of one bank, on average: not worth further tries
_BOX_WORDS = tile_kernel("box_words.cu", "gpl_box_words")


class BoxPiece(NamedTuple):
    """`size` coordinates of an axis of the box.

    uneven    0 or 1: that axis of the struct, cut so that a box may have fewer coordinates; UNCUT: no box has
    strides   in the source and in the target
    """

    axis: int
    size: int
    uneven: int
    strides: tuple[int, int]


class WordBox(NamedTuple):
    """How both sides walk a box in words.

    box      whose places they are
    pieces   those of the source's run, then others; `steps` are their distances in shared memory
    runs     numbers of the pieces of the source's run and of the target's, minor first
    span     elements from the first place in shared memory to the end of the last word
    turn     threads t of a row take the element of number t >> turn of their word first
    idle     places in all boxes relative to those that exist
    ways     lanes that access different words of one bank, on average
    together boxes that a block moves
    """

    box: SharedBox
    pieces: tuple[BoxPiece, ...]
    steps: tuple[int, ...]
    runs: tuple[tuple[int, ...], tuple[int, ...]]
    span: int
    turn: int
    idle: float
    ways: float
    together: int

    def length(self, side: int) -> int:
        """Elements of a run."""
        return math.prod([self.pieces[k].size for k in self.runs[side]])

    def run_count(self, side: int) -> int:
        """How many runs make the box."""
        return self.box.elements // self.length(side)

    def words(self, side: int) -> int:
        """Of a run, at most: those of a source run at any phase, and the whole ones of a target run."""
        return self.length(side) // WORD if side else (self.length(side) + _ENDS) // WORD

    def threads(self, side: int) -> int:
        """Of a row.  A run that two warps share touches a sector more: warps hold whole rows if that costs little."""
        words = self.words(side)
        packed = THREADS // (THREADS // words)
        whole = 1 << (words - 1).bit_length() if words <= LANES else -(-words // LANES) * LANES
        turns = [-(-self.run_count(side) // (THREADS // count)) for count in (packed, whole)]
        return whole if turns[1] <= _WHOLE_ROWS * turns[0] else packed

    def rows(self, side: int) -> int:
        """Of a block."""
        return THREADS // self.threads(side)

    def others(self, side: int) -> list[int]:
        """The pieces that number the runs, the smallest stride first, and an uneven one last: a box without some of
        its coordinates has fewer runs, with the same numbers.
        """
        numbers = [k for k in range(len(self.pieces)) if k not in self.runs[side]]
        return sorted(numbers, key=lambda k: (self.pieces[k].uneven != UNCUT, abs(self.pieces[k].strides[side])))

    @property
    def instructions(self) -> float:
        """Roughly, of a warp for each 32 elements, with the tables."""
        return self._of_a_warp * self.idle * THREADS / self.box.elements

    @property
    def _of_a_warp(self) -> float:
        """Instructions of a warp for a box."""
        ends = -(-self.run_count(1) * _ENDS // THREADS)
        conflicts = WORD * (self.ways - 1) * _WAY
        moving = _BOX + self._turns(0) * _READ + self._turns(1) * (_WRITE + conflicts) + ends * _END
        runs, gathered = self.run_count(0) + self.run_count(1) + self.length(1), WORD * self.threads(1)
        tables = _BLOCK + -(-runs // THREADS) * _ENTRY + -(-gathered // THREADS) * _GATHER
        return moving + tables / self.together

    def _turns(self, side: int) -> int:
        """Runs of a row."""
        return -(-self.run_count(side) // self.rows(side))

    def cost(self, width: int) -> float:
        """Roughly the cycles of a multiprocessor for 32 elements.

        The cost model cannot rank walks: it needs a launch with finished ones, and here hundreds are compared.
        A run that begins anywhere touches a sector more than its bytes fill; one that is written cuts two.
        """
        read, written = self.run_count(SOURCE), self.run_count(TARGET)
        nbytes = 2 * self.box.elements * width + (read + written) * (SECTOR - 1 + RUN) + written * 2 * WORD_CUT
        issued = self._of_a_warp * THREADS / LANES / SLOTS
        waits = -(-self._turns(SOURCE) // WORD_READS[width]) + 1
        waiting = (TURN * waits + STEP * self._of_a_warp) / WORD_BOX_BLOCKS
        return math.hypot(nbytes / _RATE, issued, waiting) * self.idle * LANES / self.box.elements


def words_plan(work: MoveWork, why: str) -> KernelPlan | None:
    """The plan; None if no box fits, or if all take too many instructions for an element."""
    low, high = (offset // work.width for offset in work.move.source_span)
    # the kernel compares places with both ends of the source, which may be further apart than any offset is long
    bits = offset_bits(work.axes, high - low)
    walk = best_words(work.axes, work.width, bits)
    if not walk or walk.instructions > BOX_WORDS_MOST:
        return None
    loops = box_loops(work.axes, walk.box)
    loops = loops._replace(together=walk.together)
    read, write = (_access(walk, side, work.width) for side in (SOURCE, TARGET))
    tables = _walk_struct(walk, work.width, bits, loops)
    return box_launch(work, _BOX_WORDS, loops, (read, write), tables, why=why, reach=high - low)


def _access(walk: WordBox, side: int, width: int) -> RunAccess:
    """How warps access the words of a run: as many lanes of a warp as there are threads in rows, on average."""
    words = walk.words(side)
    lanes = math.ceil(words * walk.rows(side) * LANES / THREADS)
    return RunAccess(walk.length(side), WORD * width, words * WORD, lanes)


def best_words(axes: Sequence[Axis], width: int, bits: int) -> WordBox | None:
    """The walk that costs least, of those that fit shared memory.

    None for elements of more than 2 bytes, or if none fits.
    """
    if width > 2:
        return None
    most, entry = (WORD_SHARED_BYTES - 8 * WORD * LANES) // width, bits // 4  # bytes of the table for a run
    unplaced = [walk for box in itertools.islice(boxes(axes, width, most), _BOXES) for walk in walks(axes, box)]
    seen: set[tuple[int, int]] = set()  # lengths of runs; other sizes of the box hardly change their banks
    best: WordBox | None = None
    for walk in sorted(unplaced, key=lambda walk: walk.cost(width)):
        lengths = walk.length(0), walk.length(1)
        if len(seen) == _WALKS or best and best.cost(width) <= walk.cost(width):
            break
        if lengths in seen:
            continue
        if placed := _placed(walk, width, entry):
            seen.add(lengths)
            best = placed if best is None or placed.cost(width) < best.cost(width) else best
    return best


def walks(axes: Sequence[Axis], box: SharedBox) -> Iterator[WordBox]:
    """The walks over a box, without steps: all pairs of runs."""
    if any(axes[k].bound < axes[k].extent for k in box.read):
        return
    uneven = {k: number for number, k in enumerate(cut_axes(axes, box)) if axes[k].extent % box.sizes[k]}
    for source, target in itertools.product(*(list(_run_sizes(axes, box, side)) for side in (SOURCE, TARGET))):
        if any(source[k] != target[k] for k in source.keys() & target.keys()):
            continue
        if len(uneven) == 2 and any(uneven.keys().isdisjoint(run) for run in (source, target)):
            continue
        walk = _unplaced(axes, box, uneven, source, target)
        if len(walk.pieces) <= RUN_DIGITS:
            yield walk


def _run_sizes(axes: Sequence[Axis], box: SharedBox, side: int) -> Iterator[dict[int, int]]:
    """Runs of a side: its minor axes whole, and perhaps a part of the next one that divides it."""
    sizes: dict[int, int] = {}
    length = 1
    for k in box.write if side else box.read:
        if axes[k][2 + side] != length:
            return
        for part in range(2, box.sizes[k]):
            even = axes[k].extent % box.sizes[k] == 0 == box.sizes[k] % part
            if even and _RUNS[0] <= length * part <= _RUNS[1]:
                yield {**sizes, k: part}
        sizes[k] = box.sizes[k]
        length *= box.sizes[k]
        if _RUNS[0] <= length <= _RUNS[1]:
            yield dict(sizes)


def _unplaced(
    axes: Sequence[Axis], box: SharedBox, uneven: dict[int, int], source: dict[int, int], target: dict[int, int]
) -> WordBox:
    """The walk with these runs, still without steps."""
    pieces: list[BoxPiece] = []
    runs: tuple[list[int], list[int]] = [], []
    rest: dict[int, int] = {}
    for side, sizes in enumerate((source, target)):
        for k, size in sizes.items():
            if k not in rest:
                rest[k] = size
                pieces.append(_piece(axes[k], k, size, 1, uneven))
            runs[side].append(next(number for number, piece in enumerate(pieces) if piece.axis == k))
    for k in box.write:
        size = rest.get(k, 1)
        if size < box.sizes[k]:
            pieces.append(_piece(axes[k], k, box.sizes[k] // size, size, uneven))
    idle = math.prod(-(-axis.extent // size) * size / axis.extent for axis, size in zip(axes, box.sizes))
    count = math.prod(-(-axis.extent // size) for axis, size in zip(axes, box.sizes))
    together = max(min(count // ENOUGH_BLOCKS, WORD_BOXES), 1)
    return WordBox(box, tuple(pieces), (), (tuple(runs[0]), tuple(runs[1])), 0, 5, idle, 1, together)


def _piece(axis: Axis, k: int, size: int, unit: int, uneven: dict[int, int]) -> BoxPiece:
    return BoxPiece(k, size, uneven.get(k, UNCUT), (axis.source_stride * unit, axis.target_stride * unit))


# ---- places in shared memory -----------------------------------------------------------------------------


def _placed(walk: WordBox, width: int, entry: int) -> WordBox | None:
    """The walk with the steps that cause the fewest bank conflicts; None if no steps fit shared memory.

    The smallest steps come first, then gaps before one axis of the target's run after the other.
    """
    taken = _taken(walk)
    spread = [k for k in walk.runs[1] if k not in walk.runs[0]]
    gaps = [0] * len(walk.pieces)
    best = _turned(walk, gaps, taken, width, range(5, -1, -1))
    tries, turns = 0, {5, best.turn}
    if not _fits(best, width, entry):
        return None
    for k in spread:
        for gap in range(1, 128 // width // WORD):
            if best.ways <= _FEW_WAYS or tries >= _TRIES:
                return best
            tries += 1
            wider = [*gaps[:k], gap, *gaps[k + 1 :]]
            placed = _turned(walk, wider, taken, width, turns)
            if placed.ways < best.ways and _fits(placed, width, entry):
                best, gaps = placed, wider
    return best


def _fits(walk: WordBox, width: int, entry: int) -> bool:
    return sum(table_sizes(walk, entry)) + walk.span * width <= WORD_SHARED_BYTES


def table_sizes(walk: WordBox, entry: int) -> tuple[int, int, int, int]:
    """Bytes of shared memory for the gather table, the single elements, the runs of both sides, and the places of a
    target run's elements.
    """
    runs, length = (walk.run_count(0) + walk.run_count(1)) * entry, 2 * walk.length(1)
    return 8 * WORD * walk.threads(1), 4 * WORD * _ENDS, runs, length + -(runs + length) % 16


def _turned(walk: WordBox, gaps: Sequence[int], taken: _Taken, width: int, turns: Iterable[int]) -> WordBox:
    """The walk with these gaps and the turn that causes the fewest bank conflicts."""
    steps, span = _steps(walk, gaps)
    best = walk = walk._replace(steps=steps, span=span, ways=math.inf)
    for turn in turns:
        ways = conflict_ways(walk._replace(turn=turn), taken, width)
        if ways < best.ways:
            best = walk._replace(turn=turn, ways=ways)
        if ways <= FEW:
            break
    return best


def _steps(walk: WordBox, gaps: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """(steps, span): contiguous in the source's run; others equal the source's strides modulo a word, and keep words
    of different runs apart.
    """
    steps: list[int] = []
    room = walk.words(0) * WORD
    for k, (piece, gap) in enumerate(zip(walk.pieces, gaps)):
        stride = piece.strides[0]
        if k in walk.runs[0]:
            steps.append(stride)
            continue
        steps.append(room + (stride - room) % WORD + gap * WORD)
        room += (piece.size - 1) * steps[k]
    return tuple(steps), room + WORD - 1


class _Taken(NamedTuple):
    """What the threads of a block take of the first runs of their rows, by the phase of the box.

    run       the run of the table
    first     the first element of the thread's word
    exists    whether the run has this word
    """

    run: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    exists: npt.NDArray[np.bool_]


def _taken(walk: WordBox) -> _Taken:
    row, unit = np.divmod(np.arange(THREADS), walk.threads(1))
    most = -(-walk.run_count(1) // walk.rows(1))
    run = row * most
    inside = (run < walk.run_count(1)) & (row < walk.rows(1))
    run = np.where(inside, run, 0)
    phases = (_sums(walk, walk.others(1), [piece.strides[TARGET] for piece in walk.pieces])[run] + _PHASES) % WORD
    first = unit * WORD + (WORD - phases) % WORD
    exists = inside & (first + WORD <= walk.length(1))
    return _Taken(run, np.where(exists, first, 0), exists)


def _sums(walk: WordBox, numbers: Sequence[int], steps: Sequence[int]) -> npt.NDArray[np.int64]:
    """The sums of steps for all coordinates of some pieces, the first one fastest."""
    found = np.zeros(1, np.int64)
    for k in numbers:
        found = (found + np.arange(walk.pieces[k].size)[:, None] * steps[k]).ravel()
    return found


def conflict_ways(walk: WordBox, taken: _Taken, width: int) -> float:
    """The most lanes of a warp that read different words of one bank, averaged over warps that write words."""
    runs, elements = (_sums(walk, numbers, walk.steps) for numbers in (walk.others(1), walk.runs[1]))
    unit = np.arange(THREADS) % walk.threads(1)
    order = np.arange(WORD)[:, None, None] ^ (unit >> walk.turn) * width % WORD
    words = np.where(taken.exists, (runs[taken.run] + elements[taken.first + order]) * width // 4, -1)
    words = np.sort(words.reshape(-1, LANES), axis=1)
    words = words[words[:, -1] >= 0]
    first = np.ones(words.shape, bool)
    first[:, 1:] = words[:, 1:] != words[:, :-1]
    row, column = np.nonzero(first & (words >= 0))
    lanes_of_bank = np.bincount(row * BANKS + words[row, column] % BANKS, minlength=len(words) * BANKS)
    return float(lanes_of_bank.reshape(-1, BANKS).max(1).mean())


# ---- the parameter struct --------------------------------------------------------------------------------


def _walk_struct(walk: WordBox, width: int, bits: int, loops: BoxLoops) -> bytes:
    """The bytes of a `GplWordsMove` after its `GplMove`."""
    numbers = [
        (walk.run_count(0), _digits(walk, walk.others(0), 0, width)),
        (walk.run_count(1), _digits(walk, walk.others(1), 1, width)),
        (walk.length(1), _digits(walk, walk.runs[1], 1, width)),
    ]
    # how far the pieces reach from the box's first element, backwards and forwards
    offsets = [[(piece.size - 1) * piece.strides[side] for piece in walk.pieces] for side in (SOURCE, TARGET)]
    below = [-(sum(min(offset, 0) for offset in one) // WORD) * WORD for one in offsets]
    after = sum(max(offset, 0) for offset in offsets[SOURCE]) + 2 * WORD
    order = (1, math.ceil(loops.boxes / loops.together)) if FAR_BOXES else (loops.together, 1)
    rows = [count for side in (SOURCE, TARGET) for count in (walk.threads(side), walk.rows(side))]
    tables = itertools.accumulate(table_sizes(walk, bits // 4))
    per_place = [number for side in (SOURCE, TARGET) for counts in _per_place(walk, side) for number in counts]
    scalars = [walk.length(0), walk.turn, loops.together, *tables, *per_place]
    return words_struct(bits, numbers, rows, (*below, after, *order), scalars)


def _digits(walk: WordBox, order: Sequence[int], side: int, width: int) -> list[RunDigit]:
    """The pieces in this order; those that are contiguous both in memory and in shared memory become one."""
    pieces = [LaneDigit(walk.pieces[k].size, walk.pieces[k].strides[side], walk.steps[k] * width) for k in order]
    return [(digit.size, digit.step, digit.stride) for digit in merged(pieces)]


def _per_place(walk: WordBox, side: int) -> list[tuple[int, int]]:
    """(elements of a run, runs) of a place, for both axes that may be cut; one of the numbers is 0."""
    counts = [(0, 0)] * 2
    for number, order in enumerate((walk.runs[side], walk.others(side))):
        length = 1
        for k in order:
            piece = walk.pieces[k]
            if piece.uneven != UNCUT:
                counts[piece.uneven] = (0, length) if number else (length, 0)
            length *= piece.size
    return counts
