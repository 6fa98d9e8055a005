"""One launch: the kernel plan, and how it fills the parameter struct."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.gpu.change import Change
from gpulayout.gpu.element_width import SOURCE, TARGET, MoveWork
from gpulayout.gpu.parameters import ChangeWords, ThreadSteps, axes_variant, move_struct
from gpulayout.gpu.runtime import Macros
from gpulayout.moves.arithmetic import Arithmetic
from gpulayout.moves.index_program import index_bits
from gpulayout.moves.move import Axis

MAX_GRID_X = 2**31 - 1
MAX_STRUCT_BYTES = 4096 - 16  # of a kernel's parameters, beside two pointers, with every CUDA version
SHARED_BYTES = 1 << 20  # most that a move in a shared launch writes; moving more takes far longer than a launch
SHARED_TILE_BYTES = 1 << 16  # the same for kernels that read in runs; the gather of a shared launch does not


class Kernel(NamedTuple):
    """A kernel in kernels/, and what the planner must know about its family.

    shared_bytes   a move that writes at most this many bytes may share a launch with others; 0 for never
    in_tiles       lanes follow the minor axis of each side through a tile, instead of all axes in their order
    in_vectors     accesses are whole aligned vectors, even where a run begins inside one
    is_estimated   the memory traffic can be estimated from the plan
    tile_text      format of the sizes of a tile, minor first; "" prints them major first
    """

    family: str
    file: str
    name: str
    shared_bytes: int = SHARED_BYTES
    in_tiles: bool = False
    in_vectors: bool = False
    is_estimated: bool = True
    tile_text: str = ""


class Access(NamedTuple):
    """What a lane reads or writes at once: the bytes, and the fraction of them that it needs."""

    nbytes: int
    useful: float = 1


@dataclass(frozen=True)
class KernelPlan:
    """One launch, complete except for the pointers.

    kind           the kernel
    grid           blocks of 256 threads
    parameters     the bytes of the parameter struct
    element_bytes  size of the elements that the axes count; one may combine several of the caller's
    vector_bytes   size of one access to the target
    axes           in elements of `element_bytes`; in slots if elements are packed
    tile           places along its axes, minor first; for channels, pixels first
    reasons        what kept the plan from a faster family or wider accesses, one sentence each
    reads          what a lane reads at once
    runs           contiguous elements in the source and in the target, if not those of the tile
    lanes          how many lanes of a warp read at once, and how many write
    in_memory      bytes of an element in the source and in the target; different ones with arithmetic on the way
    arithmetic     what is computed on the way, or None
    operands       addresses of parameter arrays that the struct begins with
    """

    kind: Kernel
    macros: Macros
    grid: tuple[int, int]
    parameters: bytes
    element_bytes: int
    vector_bytes: int
    index_bits: int
    axes: tuple[Axis, ...]
    tile: tuple[int, ...] | None
    reasons: tuple[str, ...]
    reads: Access
    runs: tuple[int, int] | None = None
    lanes: tuple[int, int] = (32, 32)
    in_memory: tuple[int, int] = (1, 1)
    arithmetic: Arithmetic | None = None
    operands: int = 0

    @property
    def family(self) -> str:
        return self.kind.family

    @property
    def file(self) -> str:
        return self.kind.file

    @property
    def kernel(self) -> str:
        return self.kind.name


def tile_kernel(file: str, name: str) -> Kernel:
    """A kernel of the family `tile`, which goes through shared memory."""
    return Kernel("tile", file, name, shared_bytes=SHARED_TILE_BYTES, in_tiles=True)


class MoveFields(NamedTuple):
    """What a planner chooses in the parameter struct.

    total           how many places, chunks, tiles or boxes the threads share
    counts          pieces along the first two axes
    tile            places of a piece along these
    steps           stands in the place of the tile, where threads step along an axis
    looped          the axes, if not those of the work
    first, second   mean something else in each kernel
    """

    total: int
    counts: tuple[int, int] = (1, 1)
    tile: tuple[int, ...] | None = None
    steps: ThreadSteps | None = None
    looped: Sequence[Axis] = ()
    first: int = 0
    second: int = 1


def planned(
    work: MoveWork,
    kernel: Kernel,
    vector: int,
    blocks: int,
    fields: MoveFields,
    *,
    variant: Macros = (),
    reach: int = 0,
) -> KernelPlan:
    """The plan.

    vector    bytes of an access to the target
    variant   macros of this kernel only
    reach     the largest offset, if it is beyond those of the axes
    """
    axes, loops, change = work.axes, fields.looped or work.axes, work.change
    bits = bits_of(work, reach)
    macros = (
        ("GPL_ELEMENT_BYTES", work.width),
        ("GPL_INDEX_BITS", bits),
        ("GPL_AXES", axes_variant(len(loops))),
        *variant,
        *(change.macros(loops[0], (*axes, *loops)) if change else ()),
    )
    low, high = (offset // work.width for offset in work.move.source_span)
    scalars = fields.total, fields.first, fields.second, low, high
    pieces = fields.steps or fields.tile or (1, 1)
    words = _change_words(change, axes, loops, fields.steps) if change else None
    parameters = move_struct(bits, work.move.pad, scalars, fields.counts, pieces, loops, words)
    return KernelPlan(
        kernel,
        macros,
        grid_of(blocks),
        parameters,
        work.width,
        vector,
        bits,
        axes,
        fields.tile,
        work.reasons,
        Access(vector),
        in_memory=(work.in_memory(SOURCE, work.width), work.in_memory(TARGET, work.width)),
        arithmetic=change.arithmetic if change else None,
        operands=int(change is not None and bool(change.starts)),
    )


def grid_of(blocks: int) -> tuple[int, int]:
    """A grid of at least so many blocks."""
    return min(blocks, MAX_GRID_X), math.ceil(blocks / MAX_GRID_X)


def _change_words(
    change: Change, axes: Sequence[Axis], loops: Sequence[Axis], steps: ThreadSteps | None
) -> ChangeWords:
    """The words of a launch with arithmetic: where its parameters are."""
    step = [0] * len(change.starts)
    if steps and steps.along:
        step = [steps.apart * stride for stride in change.strides_of(axes[steps.along])]
    return ChangeWords(change.starts, tuple(step), tuple(change.strides_of(axis) for axis in loops))


def bits_of(work: MoveWork, reach: int = 0) -> int:
    """Bits of the offsets of a launch, in its parameters too; `reach` is the largest one beyond those of the axes."""
    return offset_bits(work.axes, max(reach, work.change.reach if work.change else 0))


def offset_bits(axes: Sequence[Axis], reach: int = 0) -> int:
    """Bits of the offsets and places of a launch over these axes, and of the offset `reach`."""
    return index_bits(*reaches(axes), reach)


def reaches(axes: Sequence[Axis]) -> list[int]:
    """The number of places, and the largest offsets on both sides, forwards and backwards.

    >>> reaches([Axis(3, 3, -10, 1), Axis(5, 5, 100, 3)])
    [15, 400, -20, 14, 0]
    """
    numbers = [math.prod(axis.extent for axis in axes)]
    for side in (SOURCE, TARGET):
        offsets = [(axis.extent - 1) * axis[2 + side] for axis in axes]
        numbers += [sum(max(offset, 0) for offset in offsets), sum(min(offset, 0) for offset in offsets)]
    return numbers
