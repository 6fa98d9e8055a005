"""Plans the kernels that keep runs whole: the contiguous copy, and rows with the same minor axis on both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpulayout.gpu.element_width import TARGET, VECTOR_BYTES, MoveWork
from gpulayout.gpu.kernel_numbers import CHANGED_ITEMS, ITEMS, SECTOR, SHIFTED_ITEMS, THREADS
from gpulayout.gpu.launch import Kernel, KernelPlan, MoveFields, planned
from gpulayout.gpu.parameters import ThreadSteps
from gpulayout.gpu.runtime import Macros
from gpulayout.layout.checks import counted
from gpulayout.moves.move import Axis

_LONG_ROW = 64  # bytes; rows of at least this length use full vectors even if they start inside one
_LONG_ROW_CHUNKS = 512  # a warp in a part of such a row rarely reaches the end of the row
_MOST_ANY = 4  # elements of a chunk if each has parameters of its own, which take registers
_CUT_REQUESTS = 1.15  # their cost, where they begin inside a sector
_COPY = Kernel("copy", "copy.cu", "gpl_copy", in_vectors=True)
_ROWS = Kernel("rows", "rows.cu", "gpl_rows", in_vectors=True)


def copy_plan(work: MoveWork) -> KernelPlan:
    """One contiguous run.  Head and tail are the elements before and after the whole vectors of the target."""
    source_phase, target_phase = work.phases
    apart = abs(source_phase - target_phase)
    load = math.gcd(apart, VECTOR_BYTES)
    if load < VECTOR_BYTES:
        differ = f"differ by {apart} modulo 16" if work.change is None else "are not at the same place of a vector"
        work = work.because(f"the two addresses {differ}, so what is written is cut out of two vectors that are read")
    total = work.axes[0].extent
    head = min(-target_phase % VECTOR_BYTES // work.width, total)
    chunks = (total - head) // (VECTOR_BYTES // work.width)
    return planned(
        work,
        _COPY,
        VECTOR_BYTES,
        math.ceil(chunks / (THREADS * _items(work, load, VECTOR_BYTES))) or 1,
        MoveFields(total, first=head),
        variant=(("GPL_LOAD_BYTES", load),),
    )


def rows_plan(work: MoveWork) -> KernelPlan:
    """Rows, cut at multiples of the vector.  Long rows may start inside a vector; short rows get one that divides all
    their starts.
    """
    width, (minor, *others), (source_phase, target_phase) = work.width, work.axes, work.phases
    row_bytes = minor.extent * width
    has_own = work.change is not None and work.change.is_any(minor)
    most = min(VECTOR_BYTES, _MOST_ANY * width) if has_own else VECTOR_BYTES
    # the largest power of two, up to a vector, that divides the starts of all rows of the target, in bytes
    aligned = math.gcd(VECTOR_BYTES, target_phase, *(axis.target_stride * width for axis in others))
    vector = min(aligned, most)
    written = work.in_memory(TARGET, vector)
    if vector < most and row_bytes >= _LONG_ROW:
        vector = most
        work = work.because(
            f"rows of the target do not all start at multiples of {work.in_memory(TARGET, most)} bytes, so their "
            "ends are written in parts"
        )
    elif vector < most:
        work = work.because(
            f"rows are short and do not all start at multiples of {2 * written} bytes, so {counted(written, 'byte')} "
            f"{'are' if written > 1 else 'is'} written at a time"
        )
    apart = [source_phase - target_phase, *((axis.source_stride - axis.target_stride) * width for axis in others)]
    load = math.gcd(vector, *apart) if work.reads else vector
    if load < vector:
        # in elements if those of both sides have different sizes
        multiple = f"{2 * load} bytes" if work.change is None else f"{2 * load // width} elements"
        work = work.because(
            f"source and target are not always a multiple of {multiple} apart, so what is written is cut out of two "
            "vectors that are read, or put together from smaller ones"
        )
    items = SHIFTED_ITEMS if has_own else _items(work, load, vector)
    fields = _row_fields(work.axes, width, vector, items, aligned)
    variant: Macros = (("GPL_VECTOR_BYTES", vector), ("GPL_LOAD_BYTES", load))
    if work.change:
        variant = *variant, ("GPL_WHOLE_ROWS", int(aligned >= vector and row_bytes % vector == 0))
    return planned(work, _ROWS, vector, math.ceil(fields.total / THREADS), fields, variant=variant)


def _row_fields(axes: Sequence[Axis], width: int, vector: int, items: int, aligned: int) -> MoveFields:
    """The fields for rows that move in chunks of `vector` bytes, so many for each thread.

    aligned   bytes: all rows of the target begin at multiples of this

    The first count is that of threads that share a row, and places along the axis of the steps are those of threads.
    """
    minor, *others = axes
    chunks = math.ceil((minor.extent * width + max(vector - aligned, 0)) / vector)
    steps = _steps(axes, width, chunks, vector, items)
    extents, looped = [chunks, *(axis.extent for axis in others)], [*axes]
    extents[steps.along] = math.ceil(extents[steps.along] / items) if steps.apart == 1 else steps.apart
    looped[1:] = [axis._replace(extent=extent) for axis, extent in zip(others, extents[1:])]
    if steps.along and steps.apart == 1:  # a thread begins at every `items`-th place
        axis = looped[steps.along]
        looped[steps.along] = axis._replace(
            source_stride=items * axis.source_stride, target_stride=items * axis.target_stride
        )
    return MoveFields(math.prod(extents), (extents[0], 1), steps=steps, looped=looped)


def _steps(axes: Sequence[Axis], width: int, chunks: int, vector: int, items: int) -> ThreadSteps:
    """How the chunks of a thread lie: far apart in a long row, else in different rows.

    Best is a part of axis 1 apart, where a block then writes one piece of memory.  Next are neighbours along another
    axis: they are often neighbours in the source too, so that short rows fill more of a page of memory.
    """
    others = axes[1:]
    if chunks >= _LONG_ROW_CHUNKS or not others:
        apart = math.ceil(chunks / items)
        return ThreadSteps(0, chunks, chunks, apart, apart * vector // width, apart * vector // width)
    starts = [axis.target_stride * width % SECTOR for axis in axes]

    def cost(along: int, apart: int) -> tuple[float, bool, bool, int]:
        """What counts most: threads without work, and requests that begin inside a sector.

        The cost model does not see the order of chunks: with all these steps a launch has the same sectors.
        """
        one_piece = along == 1 and chunks * apart <= THREADS
        axis = axes[along]
        threads = math.ceil(axis.extent / items) if apart == 1 else apart
        is_cut = apart * starts[along] % SECTOR or any(starts[along + 1 :])
        return (
            threads * items / axis.extent * (_CUT_REQUESTS if is_cut else 1),
            not one_piece,
            apart > 1,
            abs(axis.source_stride),
        )

    choices = [(along, 1) for along in range(2, len(axes))]
    for along, axis in enumerate(others, 1):
        part, sectors = math.ceil(axis.extent / items), SECTOR // math.gcd(SECTOR, starts[along])
        choices += [(along, part), (along, math.ceil(part / sectors) * sectors)]
    along, apart = min(choices, key=lambda choice: cost(*choice))
    axis = axes[along]
    return ThreadSteps(along, axis.extent, axis.bound, apart, apart * axis.source_stride, apart * axis.target_stride)


def _items(work: MoveWork, load: int, vector: int) -> int:
    """Chunks of one thread: fewer when a chunk is assembled from narrower or shifted reads, more when elements change.

    Then a chunk has fewer bytes on one side, and more of them keep as many under way.  With 8 or 16 elements in a chunk
    more chunks do not fit the registers.
    """
    if load < vector:
        return SHIFTED_ITEMS
    return CHANGED_ITEMS if work.change and work.width >= 4 else ITEMS
