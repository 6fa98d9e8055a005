"""Which CUDA kernel carries a move out, with which parameters.  Every decision about a launch is made here.

Families, the fastest first:

    copy     one contiguous run on both sides
    rows     the same minor axis on both sides: whole rows move in vectors of up to 16 bytes
    tile     different minor axes: a tile goes through shared memory, so that both sides are read and written in runs;
             it has two axes, or where those are short, as many as make runs
    gather   the rest: one place after the other

A plan depends on the pointers only through their remainder modulo 16, so it can be cached.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpulayout.planning.move import Axis, Move
from gpulayout.planning.parameters import axes_variant, index_bits, pack_box, pack_move
from gpulayout.planning.tile_box import MAX_OFFSET, Box, best_box, runs, split
from gpulayout.planning.tile_shape import FIXED_TILES, fixed_tile_fits, flexible_tile, smallest_useful_tile
from gpulayout.planning.widening import VECTOR_BYTES, Work, widened

THREADS = 256
ITEMS = 4                    # pieces of work per thread in copy, rows and gather
MAX_GRID_X = 2**31 - 1
_WORD = 4                    # bytes; smaller elements go through shared memory in words where they can
_LONG_ROW = 64               # bytes from which on a row is worth vectors that do not start where it does
_SHORT_RUN = 64              # elements up to which an axis is whole in every tile
_RUN_BYTES = 64              # two sectors: below, a tile of many axes is tried


@dataclass(frozen=True)
class KernelPlan:
    """One launch, ready but for the two pointers.

    axes          in elements of `element_bytes`, which may be several of the caller's elements taken together
    vector_bytes  of one access to the target; reasons say where reads are narrower
    grid          blocks; every block has 256 threads
    parameters    the bytes of the parameter struct
    tile          places along its axes, minor first
    reasons       what kept the plan from a faster family or wider accesses, one sentence each
    """

    family: str
    file: str
    kernel: str
    macros: tuple[tuple[str, int], ...]
    grid: tuple[int, int]
    parameters: bytes
    element_bytes: int
    vector_bytes: int
    index_bits: int
    axes: tuple[Axis, ...]
    tile: tuple[int, ...] | None
    reasons: tuple[str, ...]


class _Kernel(NamedTuple):
    family: str
    file: str
    name: str


_COPY = _Kernel("copy", "copy.cu", "gpl_copy")
_ROWS = _Kernel("rows", "rows.cu", "gpl_rows")
_TILE = _Kernel("tile", "tile.cu", "gpl_tile_vector")
_TILE_ANY = _Kernel("tile", "tile_any.cu", "gpl_tile_any")
_TILE_ND = _Kernel("tile", "tile_nd.cu", "gpl_tile_nd")
_GATHER = _Kernel("gather", "gather.cu", "gpl_gather")


@functools.lru_cache(maxsize=4096)
def kernel_plan(move: Move, source_phase: int = 0, target_phase: int = 0) -> KernelPlan | None:
    """The launch for a move between two addresses with these remainders modulo 16; None when there is nothing to write.

    BufferError when a stride is not a whole number of elements, or an address not a multiple of the element.
    """
    if not move.place_count:
        return None
    work = widened(move, source_phase, target_phase)
    minor = work.axes[0]
    if len(work.axes) == 1 and minor[2:] == (1, 1) and not minor.is_padded:
        return _copy(work)
    if minor.target_stride != 1:
        return _gather(work.because(f"no tile: no axis of the target is contiguous, the smallest step is {minor.target_stride} elements"))
    if minor.source_stride == 1 or not work.reads:
        return _rows(work)
    source_minor = next((k for k, axis in enumerate(work.axes) if axis.source_stride == 1), None)
    if source_minor is None:
        return _gather(work.because("no tile: no axis of the source is contiguous"))
    others = (axis for k, axis in enumerate(work.axes) if k not in (0, source_minor))
    work = work._replace(axes=(minor, work.axes[source_minor], *others))
    found = _many_axes(work, _tile(work))
    return found or _gather(work.because(f"no tile: the runs of {work.axes[1].extent} and {minor.extent} elements are "
                                         f"too short to fill {smallest_useful_tile()} places of shared memory"))


# ---- the families ------------------------------------------------------------------------------------------

def _copy(work: Work) -> KernelPlan:
    load = _common_step([work.source_phase - work.target_phase], VECTOR_BYTES)
    if load < VECTOR_BYTES:
        apart = abs(work.source_phase - work.target_phase)
        work = work.because(f"reads of {load} bytes: the addresses differ by {apart} modulo 16")
    total = work.axes[0].extent
    head = min(-work.target_phase % VECTOR_BYTES // work.width, total)
    chunks = (total - head) // (VECTOR_BYTES // work.width)
    return _plan(work, _COPY, VECTOR_BYTES, math.ceil(chunks / (THREADS * ITEMS)) or 1, total=total, head=head,
                 accesses=(("GPL_LOAD_BYTES", load),))


def _rows(work: Work) -> KernelPlan:
    """Rows are cut at multiples of the vector.  Long rows may begin anywhere, short ones are cut where they begin."""
    width, (minor, *others) = work.width, work.axes
    row_bytes = minor.extent * width
    vector = aligned = _common_step([work.target_phase, *(axis.target_stride * width for axis in others)], VECTOR_BYTES)
    if aligned < VECTOR_BYTES and row_bytes >= _LONG_ROW:
        vector = VECTOR_BYTES
        work = work.because(f"partial vectors at row ends: rows of the target do not all start at multiples of {vector} bytes")
    elif aligned < VECTOR_BYTES:
        work = work.because(f"vectors of {vector} bytes: rows are short and do not all start at multiples of {2 * vector} bytes")
    apart = [work.source_phase - work.target_phase, *((axis.source_stride - axis.target_stride) * width for axis in others)]
    load = _common_step(apart, vector) if work.reads else vector
    if load < vector:
        work = work.because(f"reads of {load} bytes: both sides are not always a multiple of {2 * load} bytes apart")
    chunks = math.ceil((row_bytes + max(vector - aligned, 0)) / vector)
    total = chunks * math.prod(axis.extent for axis in others)
    items = 1 if vector // load > 4 else ITEMS
    return _plan(work, _ROWS, vector, math.ceil(total / (THREADS * items)), total=total, counts=(chunks, 1),
                 accesses=(("GPL_VECTOR_BYTES", vector), ("GPL_LOAD_BYTES", load)))


def _common_step(distances: Sequence[int], most: int) -> int:
    """The largest power of two up to `most` bytes that divides all distances."""
    return math.gcd(most, *distances)


def _tile(work: Work) -> KernelPlan | None:
    """The work's axes are the target's minor axis b, the source's minor axis a, then the others."""
    b, a = work.axes[:2]
    narrow = _misaligned(work, "source", b) or _misaligned(work, "target", a)
    if narrow:
        return _flexible(work, narrow)
    if not fixed_tile_fits(work.width, a.extent, b.extent):
        return _flexible(work, f"extents {a.extent} and {b.extent} fill too little of the fixed tile")
    tile_a, tile_b = FIXED_TILES[work.width]
    return _tiles(work, _TILE, VECTOR_BYTES, (tile_b, tile_a), tile_a)


def _flexible(work: Work, why: str) -> KernelPlan | None:
    """Tiles of any size.  Small elements are moved in words of 4 bytes on a side where all runs start at words.

    A side is dense when its minor axis is whole in every tile and rows touch: a tile is then a single run.
    """
    width, (b, a) = work.width, work.axes[:2]
    dense_read = b.source_stride == a.extent == a.bound <= _SHORT_RUN
    dense_write = a.target_stride == b.extent <= _SHORT_RUN
    read = _piece(work, "source", None if dense_read else b)
    write = _piece(work, "target", None if dense_write else a)
    # A side's runs are cut into its pieces: along its minor axis, or along the other where rows touch.
    step_a = 1 if dense_read else math.lcm(read, write if dense_write else width) // width
    step_b = 1 if dense_write else math.lcm(write, read if dense_read else width) // width
    found = flexible_tile(width, a.extent, b.extent, (step_a, step_b), write // width)
    if not found:
        return None
    tile_a, tile_b, pitch = found
    sizes = f"accesses of {write} bytes" if read == write else f"reads of {read} bytes, writes of {write} bytes"
    return _tiles(work.because(f"{sizes}: {why}"), _TILE_ANY, write, (tile_b, tile_a), pitch,
                  (("GPL_READ_BYTES", read), ("GPL_WRITE_BYTES", write)))


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
    step = _common_step([*_starts(work, side, across).values()], VECTOR_BYTES)
    return _WORD if work.width < _WORD <= step else work.width


def _tiles(work: Work, kernel: _Kernel, vector: int, tile: tuple[int, int], pitch: int,
           accesses: tuple[tuple[str, int], ...] = ()) -> KernelPlan:
    counts = (math.ceil(work.axes[0].extent / tile[0]), math.ceil(work.axes[1].extent / tile[1]))
    total = math.prod(counts) * math.prod(axis.extent for axis in work.axes[2:])
    return _plan(work, kernel, vector, total, total=total, counts=counts, tile=tile, pitch=pitch, accesses=accesses)


def _many_axes(work: Work, found: KernelPlan | None) -> KernelPlan | None:
    """A tile of more axes where one of two axes was not found or has short runs, and more axes make longer ones."""
    shortest = 0
    if found:
        shortest = min(runs(found.axes, tuple(map(min, found.tile, (axis.extent for axis in found.axes)))
                            + (1,) * (len(found.axes) - 2))) * work.width
    if shortest >= _RUN_BYTES or max(map(abs, _reaches(work.axes))) >= MAX_OFFSET:
        return found
    box = best_box(work.axes, work.width)
    if box is None or 2 * min(box.source_run, box.target_run) * work.width < 3 * shortest:
        return found
    return _box_plan(work, box, f"a tile of two axes would have runs of {shortest} bytes" if found else "two axes fill no tile")


def _box_plan(work: Work, box: Box, why: str) -> KernelPlan:
    """The struct's first two axes are those that are cut, then come the outer ones, then what is whole in every tile."""
    axes, sizes = work.axes, box.sizes
    cut = sorted(range(len(axes)), key=lambda k: (sizes[k] == axes[k].extent, sizes[k] == 1, abs(axes[k].target_stride)))[:2]
    outer = [k for k in range(len(axes)) if k not in cut and sizes[k] == 1]
    order = [*cut, *outer, *(k for k in range(len(axes)) if k not in cut and sizes[k] > 1)]
    counts = tuple(math.ceil(axes[k].extent / sizes[k]) for k in cut)
    total = math.prod(counts) * math.prod(axes[k].extent for k in outer)
    orders = pack_box([(split([sizes[k] for k in walk]), [(sizes[k], order.index(k), box.steps[k]) for k in walk])
                       for walk in (box.read, box.write)])
    run_bytes = f"{box.source_run * work.width} bytes in the source, of {box.target_run * work.width} in the target"
    work = work._replace(axes=tuple(axes[k] for k in order)).because(
        f"accesses of {work.width} bytes: {why}; one of {len(box.write)} axes has runs of {run_bytes}")
    plan = _plan(work, _TILE_ND, work.width, total, total=total, counts=counts, tile=tuple(sizes[k] for k in cut))
    return replace(plan, parameters=plan.parameters + orders, tile=tuple(sizes[k] for k in box.write))


def _gather(work: Work) -> KernelPlan:
    total = math.prod(axis.extent for axis in work.axes)
    return _plan(work, _GATHER, work.width, math.ceil(total / (THREADS * ITEMS)), total=total)


def _plan(work: Work, kernel: _Kernel, vector: int, blocks: int, *, total: int, accesses: tuple[tuple[str, int], ...] = (),
          tile: tuple[int, int] | None = None, **numbers) -> KernelPlan:
    """The plan; `numbers` are further fields of the parameter struct: head, pitch, counts."""
    axes = work.axes
    bits = index_bits(*_reaches(axes))
    macros = (("GPL_ELEMENT_BYTES", work.width), ("GPL_INDEX_BITS", bits), ("GPL_AXES", axes_variant(len(axes))), *accesses)
    scalars = (total, numbers.get("head", 0), numbers.get("pitch", 1))
    parameters = pack_move(bits, work.move.pad, scalars, numbers.get("counts", (1, 1)), tile or (1, 1), axes)
    grid = (min(blocks, MAX_GRID_X), math.ceil(blocks / MAX_GRID_X))
    return KernelPlan(*kernel, macros, grid, parameters, work.width, vector, bits, axes, tile, work.reasons)


def _reaches(axes: Sequence[Axis]) -> list[int]:
    """The largest number of a place, and the furthest offsets on both sides, forwards and backwards."""
    reaches = [math.prod(axis.extent for axis in axes)]
    for which in (2, 3):
        reaches += [sum((axis.extent - 1) * axis[which] for axis in axes if axis[which] * sign > 0) for sign in (1, -1)]
    return reaches
