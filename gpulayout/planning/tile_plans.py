"""Tiles of two axes through shared memory: the target's minor axis b and the source's minor axis a."""
from __future__ import annotations

import math
from dataclasses import replace

from gpulayout.planning.launch import Kernel, KernelPlan, common_step, planned
from gpulayout.planning.move import Axis
from gpulayout.planning.tile_shape import FIXED_TILES, fixed_tile_fits, flexible_tile, word_tile
from gpulayout.planning.widening import VECTOR_BYTES, Work

_WORD = 4                    # bytes; smaller elements go through shared memory in words where they can
_SHORT_RUN = 64              # elements up to which an axis is whole in every tile
_LEAST_RUN = 64              # bytes; with shorter runs, or with less than 10 elements for each thread, a tile of words takes
_LEAST_ELEMENTS = 2560       # more instructions for an element than a tile of any size
_TILE = Kernel("tile", "tile.cu", "gpl_tile_vector")
_TILE_ANY = Kernel("tile", "tile_any.cu", "gpl_tile_any")
_TILE_WORDS = Kernel("tile", "tile_words.cu", "gpl_tile_words")


def tile_plan(work: Work) -> KernelPlan | None:
    """The work's axes are the target's minor axis b, the source's minor axis a, then the others."""
    b, a = work.axes[:2]
    narrow = _misaligned(work, "source", b) or _misaligned(work, "target", a)
    if narrow:
        return _words(work, narrow) or _flexible(work, narrow)
    if not fixed_tile_fits(work.width, a.extent, b.extent):
        return _flexible(work, f"extents {a.extent} and {b.extent} fill too little of the fixed tile")
    tile_a, tile_b = FIXED_TILES[work.width]
    return _tiles(work, _TILE, VECTOR_BYTES, (tile_b, tile_a), tile_a)


def _words(work: Work, why: str) -> KernelPlan | None:
    """Tiles of small elements in words of 4 bytes whatever the phases; None for what other tiles move better.

    Where runs are short and touch, a tile of any size is a single run of words on that side.
    """
    width, (b, a) = work.width, work.axes[:2]
    if width >= _WORD or min(a.extent, b.extent) * width < _LEAST_RUN:
        return None
    if any(_dense(work)) and _pieces(work) == (_WORD, _WORD):
        return None
    at_words = [_piece(work, side, across) == _WORD for side, across in (("source", b), ("target", a))]
    tile_a, tile_b, lead = word_tile(width, *at_words)
    if min(a.extent, tile_a) * min(b.extent, tile_b) < _LEAST_ELEMENTS:
        return None
    plan = _tiles(work.because(f"accesses of {_WORD} bytes: {why}"), _TILE_WORDS, _WORD, (tile_b, tile_a), 1, lead=lead)
    return replace(plan, runs=(min(word_tile(width, True, True)[0], a.extent), min(tile_b, b.extent)))     # words at any phase


def _flexible(work: Work, why: str) -> KernelPlan | None:
    """Tiles of any size.  Small elements are moved in words of 4 bytes on a side where all runs start at words."""
    width, (b, a) = work.width, work.axes[:2]
    (dense_read, dense_write), (read, write) = _dense(work), _pieces(work)
    # A side's runs are cut into its pieces: along its minor axis, or along the other where rows touch.
    step_a = 1 if dense_read else math.lcm(read, write if dense_write else width) // width
    step_b = 1 if dense_write else math.lcm(write, read if dense_read else width) // width
    found = flexible_tile(width, a.extent, b.extent, (step_a, step_b), write // width)
    if not found:
        return None
    tile_a, tile_b, pitch = found
    if write < read:
        why = _misaligned(work, "target", a) or why
    sizes = f"accesses of {write} bytes" if read == write else f"reads of {read} bytes, writes of {write} bytes"
    return _tiles(work.because(f"{sizes}: {why}"), _TILE_ANY, write, (tile_b, tile_a), pitch,
                  (("GPL_READ_BYTES", read), ("GPL_WRITE_BYTES", write)))


def _dense(work: Work) -> tuple[bool, bool]:
    """A side is dense when its minor axis is whole in every tile and rows touch: a tile is then a single run."""
    b, a = work.axes[:2]
    return b.source_stride == a.extent == a.bound <= _SHORT_RUN, a.target_stride == b.extent <= _SHORT_RUN


def _pieces(work: Work) -> tuple[int, int]:
    """Bytes that a lane reads and writes in a tile of any size."""
    b, a = work.axes[:2]
    dense_read, dense_write = _dense(work)
    return _piece(work, "source", None if dense_read else b), _piece(work, "target", None if dense_write else a)


def _starts(work: Work, side: str, across: Axis | None) -> dict[str, int]:
    """In bytes, all that the starts of a side's runs are made of; `across` is the axis from run to run in a tile."""
    phase, field = (work.source_phase, "source_stride") if side == "source" else (work.target_phase, "target_stride")
    strides = [getattr(axis, field) * work.width for axis in (*([across] if across else []), *work.axes[2:])]
    return {f"the {side} address is {phase} past a multiple of 16": phase} | {
        f"the {side} steps by {stride} bytes, no multiple of 16": stride for stride in strides}


def _misaligned(work: Work, side: str, across: Axis) -> str | None:
    """What keeps the runs of a side from starting at multiples of 16 bytes."""
    return next((why for why, distance in _starts(work, side, across).items() if distance % VECTOR_BYTES), None)


def _piece(work: Work, side: str, across: Axis | None) -> int:
    step = common_step([*_starts(work, side, across).values()], VECTOR_BYTES)
    return _WORD if work.width < _WORD <= step else work.width


def _tiles(work: Work, kernel: Kernel, vector: int, tile: tuple[int, int], pitch: int,
           accesses: tuple[tuple[str, int], ...] = (), lead: int = 0) -> KernelPlan:
    counts = (math.ceil((work.axes[0].extent + lead) / tile[0]), math.ceil(work.axes[1].extent / tile[1]))
    total = math.prod(counts) * math.prod(axis.extent for axis in work.axes[2:])
    return planned(work, kernel, vector, total, total=total, counts=counts, tile=tile, pitch=pitch, accesses=accesses)
