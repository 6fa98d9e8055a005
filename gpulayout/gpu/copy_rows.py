"""Plans the kernels that keep runs whole: the contiguous copy, and rows with the same minor axis on both sides."""

from __future__ import annotations

import math

from gpulayout.gpu.element_width import VECTOR_BYTES, Work
from gpulayout.gpu.launch import ITEMS, THREADS, Kernel, KernelPlan, common_step, planned
from gpulayout.layout.checks import counted

_LONG_ROW = 64  # bytes; rows of at least this length use full vectors even if they start inside one
_COPY = Kernel("copy", "copy.cu", "gpl_copy", in_vectors=True)
_ROWS = Kernel("rows", "rows.cu", "gpl_rows", in_vectors=True)


def copy_plan(work: Work) -> KernelPlan:
    """One contiguous run.  Head and tail are the elements before and after the whole vectors of the target."""
    load = common_step([work.source_phase - work.target_phase], VECTOR_BYTES)
    if load < VECTOR_BYTES:
        apart = abs(work.source_phase - work.target_phase)
        work = work.because(f"reads are shifted: the addresses differ by {apart} modulo 16")
    total = work.axes[0].extent
    head = min(-work.target_phase % VECTOR_BYTES // work.width, total)
    chunks = (total - head) // (VECTOR_BYTES // work.width)
    return planned(
        work,
        _COPY,
        VECTOR_BYTES,
        math.ceil(chunks / (THREADS * _items(load, VECTOR_BYTES))) or 1,
        total=total,
        head=head,
        variant=(("GPL_LOAD_BYTES", load),),
    )


def rows_plan(work: Work) -> KernelPlan:
    """Rows, cut at multiples of the vector.  Long rows may start inside a vector; short rows get one that divides all
    their starts.
    """
    width, (minor, *others) = work.width, work.axes
    row_bytes = minor.extent * width
    vector = aligned = common_step([work.target_phase, *(axis.target_stride * width for axis in others)], VECTOR_BYTES)
    if aligned < VECTOR_BYTES and row_bytes >= _LONG_ROW:
        vector = VECTOR_BYTES
        work = work.because(
            f"partial vectors at row ends: rows of the target do not all start at multiples of {vector} bytes"
        )
    elif aligned < VECTOR_BYTES:
        work = work.because(
            f"vectors of {counted(vector, 'byte')}: rows are short and do not all start at multiples of "
            f"{2 * vector} bytes"
        )
    apart = [
        work.source_phase - work.target_phase,
        *((axis.source_stride - axis.target_stride) * width for axis in others),
    ]
    load = common_step(apart, vector) if work.reads else vector
    if load < vector:
        work = work.because(f"reads are shifted: the two sides are not always a multiple of {2 * load} bytes apart")
    chunks = math.ceil((row_bytes + max(vector - aligned, 0)) / vector)
    total = chunks * math.prod(axis.extent for axis in others)
    return planned(
        work,
        _ROWS,
        vector,
        math.ceil(total / (THREADS * _items(load, vector))),
        total=total,
        counts=(chunks, 1),
        variant=(("GPL_VECTOR_BYTES", vector), ("GPL_LOAD_BYTES", load)),
    )


def _items(load: int, vector: int) -> int:
    """Chunks of one thread: half as many when a chunk is assembled from narrower or shifted reads."""
    return ITEMS if load == vector else ITEMS // 2
