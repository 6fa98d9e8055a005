"""Which CUDA kernel carries a move out, with which parameters.  Every decision about a launch is made here.

Families, the fastest first:

    copy     one contiguous run on both sides
    rows     the same minor axis on both sides: whole rows move in vectors of up to 16 bytes
    tile     different minor axes: a tile goes through shared memory, so that both sides are read and written in runs
    gather   the rest: one place after the other

A plan depends on the pointers only through their remainder modulo 16, so it can be cached.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpulayout.planning.move import Axis, Move
from gpulayout.planning.parameters import axes_variant, index_bits, pack_move
from gpulayout.planning.tile_shape import FIXED_TILES, fixed_tile_fits, flexible_tile, smallest_useful_tile

THREADS = 256
ITEMS = 4                    # pieces of work per thread in copy, rows and gather
MAX_GRID_X = 2**31 - 1
VECTOR_BYTES = 16
_WORD = 4                    # bytes; smaller elements go through shared memory in words where they can
_LONG_ROW = 64               # bytes from which on a row is worth vectors that do not start where it does
_SHORT_RUN = 64              # elements up to which an axis is whole in every tile


@dataclass(frozen=True)
class KernelPlan:
    """One launch, ready but for the two pointers.

    axes          in elements of `element_bytes`, which may be several of the caller's elements taken together
    vector_bytes  of one access to the target; reasons say where reads are narrower
    grid          blocks; every block has 256 threads
    parameters    the bytes of the parameter struct
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
    tile: tuple[int, int] | None
    reasons: tuple[str, ...]


@functools.lru_cache(maxsize=4096)
def kernel_plan(move: Move, source_phase: int = 0, target_phase: int = 0) -> KernelPlan | None:
    """The launch for a move between two addresses with these remainders modulo 16; None when there is nothing to write.

    BufferError when a stride is not a whole number of elements, or an address not a multiple of the element.
    """
    if not move.place_count:
        return None
    width, axes, reasons = _widen(move, source_phase, target_phase)
    if not axes:
        axes = (Axis(1, 1, 1, 1),)
    minor = axes[0]
    reads = move.element_count > 0
    if len(axes) == 1 and minor[2:] == (1, 1) and not minor.is_padded:
        return _copy(move, width, axes, source_phase, target_phase, reasons)
    if minor.target_stride == 1 and (minor.source_stride == 1 or not reads):
        return _rows(move, width, axes, source_phase, target_phase, reasons)
    source_minor = next((k for k, axis in enumerate(axes) if k and axis.source_stride == 1), None)
    if minor.target_stride == 1 and source_minor is not None:
        ordered = (minor, axes[source_minor], *(axis for k, axis in enumerate(axes) if k not in (0, source_minor)))
        found = _tile(move, width, ordered, source_phase, target_phase, reasons)
        if found:
            return found
        reasons = (*reasons, f"no tile: the runs of {axes[source_minor].extent} and {minor.extent} elements are too short "
                   f"to fill {smallest_useful_tile()} places of shared memory")
    elif minor.target_stride != 1:
        reasons = (*reasons, f"no tile: no axis of the target is contiguous, the smallest step is {minor.target_stride} elements")
    else:
        reasons = (*reasons, "no tile: no axis of the source is contiguous")
    return _gather(move, width, axes, reasons)


# ---- the element: as many bytes as stay together on both sides -----------------------------------------

def _widen(move: Move, source_phase: int, target_phase: int) -> tuple[int, tuple[Axis, ...], tuple[str, ...]]:
    """(bytes of an element, axes in such elements, reasons): neighbours that never part are moved as one element.

    f32[8,4]{...} whose minor dimension of 4 stays minor moves as 8 elements of 16 bytes.
    """
    width, axes = move.itemsize, move.axes
    for field, side, phase in (("source_stride", "source", source_phase), ("target_stride", "target", target_phase)):
        for axis in axes:
            if getattr(axis, field) % width:
                raise BufferError(f"{field} {getattr(axis, field)} of the {side} is not a multiple of the element's {width} bytes: "
                                  "a kernel cannot reach such elements")
        if phase % width:
            raise BufferError(f"{side} address is {phase} past a multiple of 16: elements of {width} bytes must be aligned to {width}")
    reason = ""
    while axes and width < VECTOR_BYTES:
        reason = _why_not_double(axes, width, source_phase | target_phase)
        if reason is not None:
            break
        width *= 2
        axes = _halved(axes, width)
    reasons = (reason,) if reason else ()
    return width, tuple(Axis(axis.extent, axis.bound, axis.source_stride // width, axis.target_stride // width)
                        for axis in axes), reasons


def _why_not_double(axes: Sequence[Axis], width: int, phases: int) -> str | None:
    """What keeps two neighbouring elements of `width` bytes from moving as one: None when nothing does.

    Empty when there are no such neighbours: the minor axis is not contiguous on both sides.
    """
    minor, wider = axes[0], 2 * width
    shown = f"elements stay {width} bytes: "
    if minor[2:] != (width, width):
        return ""
    if minor.is_padded:
        return shown + "the minor axis is padded"
    if minor.extent % 2:
        return shown + f"the contiguous run of {minor.extent} is odd"
    if phases % wider:
        return shown + f"an address is not a multiple of {wider}"
    for axis in axes[1:]:
        if axis.source_stride % wider or axis.target_stride % wider:
            return shown + f"strides {axis.source_stride} and {axis.target_stride} bytes are not multiples of {wider}"
    return None


def _halved(axes: Sequence[Axis], width: int) -> tuple[Axis, ...]:
    minor = axes[0]
    if minor.extent == 2:
        return tuple(axes[1:])
    return (Axis(minor.extent // 2, minor.bound // 2, width, width), *axes[1:])


# ---- the families ------------------------------------------------------------------------------------------

def _copy(move, width, axes, source_phase, target_phase, reasons) -> KernelPlan:
    load = _common_step([source_phase - target_phase], VECTOR_BYTES)
    if load < VECTOR_BYTES:
        reasons = (*reasons, f"reads of {load} bytes: the addresses differ by {abs(source_phase - target_phase)} modulo 16")
    total = axes[0].extent
    head = min(-target_phase % VECTOR_BYTES // width, total)
    chunks = (total - head) // (VECTOR_BYTES // width)
    return _plan(move, "copy", "copy.cu", "gpl_copy", width, VECTOR_BYTES, axes[:1], math.ceil(chunks / (THREADS * ITEMS)) or 1,
                 total=total, head=head, accesses=(("GPL_LOAD_BYTES", load),), reasons=reasons)


def _rows(move, width, axes, source_phase, target_phase, reasons) -> KernelPlan:
    """Rows are cut at multiples of the vector.  Long rows may begin anywhere, short ones are cut where they begin."""
    reads, row_bytes = move.element_count > 0, axes[0].extent * width
    vector = aligned = _common_step([target_phase, *(axis.target_stride * width for axis in axes[1:])], VECTOR_BYTES)
    if aligned < VECTOR_BYTES and row_bytes >= _LONG_ROW:
        vector = VECTOR_BYTES
        reasons = (*reasons, f"partial vectors at row ends: rows of the target do not all start at multiples of {vector} bytes")
    elif aligned < VECTOR_BYTES:
        reasons = (*reasons, f"vectors of {vector} bytes: rows are short and do not all start at multiples of {2 * vector} bytes")
    apart = [source_phase - target_phase, *((axis.source_stride - axis.target_stride) * width for axis in axes[1:])]
    load = _common_step(apart, vector) if reads else vector
    if load < vector:
        reasons = (*reasons, f"reads of {load} bytes: both sides are not always a multiple of {2 * load} bytes apart")
    chunks = math.ceil((row_bytes + max(vector - aligned, 0)) / vector)
    total = chunks * math.prod(axis.extent for axis in axes[1:])
    items = 1 if vector // load > 4 else ITEMS
    return _plan(move, "rows", "rows.cu", "gpl_rows", width, vector, axes, math.ceil(total / (THREADS * items)), total=total,
                 counts=(chunks, 1), accesses=(("GPL_VECTOR_BYTES", vector), ("GPL_LOAD_BYTES", load)), reasons=reasons)


def _common_step(distances: Sequence[int], most: int) -> int:
    """The largest power of two up to `most` bytes that divides all distances."""
    return math.gcd(most, *distances)


def _tile(move, width, axes, source_phase, target_phase, reasons) -> KernelPlan | None:
    """axes: the target's minor axis b, the source's minor axis a, then the others."""
    b, a = axes[:2]
    aligned = all(_side_step(side, width, axes) == VECTOR_BYTES for side in ((source_phase, "source_stride", b),
                                                                            (target_phase, "target_stride", a)))
    if not (aligned and fixed_tile_fits(width, a.extent, b.extent)):
        return _flexible(move, width, axes, source_phase, target_phase, aligned, reasons)
    tile_a, tile_b = FIXED_TILES[width]
    return _tiles(move, "tile.cu", "gpl_tile_vector", width, VECTOR_BYTES, axes, (tile_b, tile_a), tile_a, (), reasons)


def _flexible(move, width, axes, source_phase, target_phase, aligned, reasons) -> KernelPlan | None:
    """Tiles of any size.  Small elements are moved in words of 4 bytes on a side where all runs start at words.

    A side is dense when its minor axis is whole in every tile and rows touch: a tile is then a single run.
    """
    b, a = axes[:2]
    dense_read = b.source_stride == a.extent == a.bound <= _SHORT_RUN
    dense_write = a.target_stride == b.extent <= _SHORT_RUN
    read = _piece((source_phase, "source_stride", None if dense_read else b), width, axes)
    write = _piece((target_phase, "target_stride", None if dense_write else a), width, axes)
    # A side's runs are cut into its pieces: along its minor axis, or along the other where rows touch.
    step_a = 1 if dense_read else math.lcm(read, write if dense_write else width) // width
    step_b = 1 if dense_write else math.lcm(write, read if dense_read else width) // width
    found = flexible_tile(width, a.extent, b.extent, (step_a, step_b), write // width)
    if not found:
        return None
    tile_a, tile_b, pitch = found
    why = f"extents {a.extent} and {b.extent} fill too little of the fixed tile" if aligned else \
        "strides or an address are not multiples of 16 bytes"
    sizes = f"accesses of {write} bytes" if read == write else f"reads of {read} bytes, writes of {write} bytes"
    return _tiles(move, "tile_any.cu", "gpl_tile_any", width, write, axes, (tile_b, tile_a), pitch,
                  (("GPL_READ_BYTES", read), ("GPL_WRITE_BYTES", write)), (*reasons, f"{sizes}: {why}"))


def _side_step(side: tuple[int, str, Axis | None], width: int, axes: Sequence[Axis]) -> int:
    """The most bytes up to 16 at multiples of which all runs of a side start: (phase, field of its strides, axis across)."""
    phase, field, across = side
    strides = [getattr(axis, field) for axis in (*axes[2:], *([across] if across else []))]
    return _common_step([phase, *(stride * width for stride in strides)], VECTOR_BYTES)


def _piece(side: tuple[int, str, Axis | None], width: int, axes: Sequence[Axis]) -> int:
    return _WORD if width < _WORD <= _side_step(side, width, axes) else width


def _tiles(move, file, kernel, width, vector, axes, tile, pitch, accesses, reasons) -> KernelPlan:
    counts = (math.ceil(axes[0].extent / tile[0]), math.ceil(axes[1].extent / tile[1]))
    total = math.prod(counts) * math.prod(axis.extent for axis in axes[2:])
    return _plan(move, "tile", file, kernel, width, vector, axes, total, total=total, counts=counts, tile=tile,
                 pitch=pitch, accesses=accesses, reasons=reasons)


def _gather(move, width, axes, reasons) -> KernelPlan:
    total = math.prod(axis.extent for axis in axes)
    return _plan(move, "gather", "gather.cu", "gpl_gather", width, width, axes, math.ceil(total / (THREADS * ITEMS)),
                 total=total, reasons=reasons)


def _plan(move, family, file, kernel, width, vector, axes, blocks, *, total, reasons, counts=(1, 1), tile=None, pitch=1, head=0,
          accesses=()):
    reaches = [math.prod(axis.extent for axis in axes)]
    for which in (2, 3):
        reaches += [sum((axis.extent - 1) * axis[which] for axis in axes if axis[which] * sign > 0) for sign in (1, -1)]
    bits = index_bits(*reaches)
    macros = (("GPL_ELEMENT_BYTES", width), ("GPL_INDEX_BITS", bits), ("GPL_AXES", axes_variant(len(axes))), *accesses)
    parameters = pack_move(bits, move.pad, (total, head, pitch), counts, tile or (1, 1), axes)
    grid = (min(blocks, MAX_GRID_X), math.ceil(blocks / MAX_GRID_X))
    return KernelPlan(family, file, kernel, macros, grid, parameters, width, vector, bits, tuple(axes), tile, reasons)
