"""One launch: what a kernel plan holds, and how its parameter struct is filled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.gpu.element_width import Work
from gpulayout.gpu.parameters import axes_variant, move_struct
from gpulayout.moves.index_width import index_bits
from gpulayout.moves.move import Axis

THREADS = 256
ITEMS = 4  # what a thread does of a kind; copy and rows do half as much where reads are shifted
MAX_GRID_X = 2**31 - 1
SHARED_BYTES = 1 << 20  # written by a move that shares a launch: beyond, a launch is little beside the bytes
SHARED_TILE_BYTES = 1 << 16  # where a launch of its own would read in runs and the gather does not


class Kernel(NamedTuple):
    """A kernel of kernels/, and what planning has to know of its family.

    shared_bytes   a move that writes no more than this may share a launch with others, which gathers; 0 keeps its own
    launch in_tiles       lanes follow the minor axis of each side through a tile, not the axes one after the other
    in_vectors     accesses are whole aligned vectors, even where a run begins inside one wasted         what a sector
    touched in part costs, in sectors: neighbours mostly complete it out of the cache, about half stays;
                   sectors of a gather are not completed
    is_estimated   the memory traffic can be told from the plan
    tile_text      what the sizes of a tile are, minor first; "" writes them major first, as elements
    """

    family: str
    file: str
    name: str
    shared_bytes: int = SHARED_BYTES
    in_tiles: bool = False
    in_vectors: bool = False
    wasted: float = 0.5
    is_estimated: bool = True
    tile_text: str = ""


class Access(NamedTuple):
    """What a lane reads or writes at a time: its bytes, and the share of them that is wanted."""

    nbytes: int
    useful: float = 1


@dataclass(frozen=True)
class KernelPlan:
    """One launch, ready but for the two pointers.

    kind          the kernel axes          in elements of `element_bytes`, which may be several of the caller's elements
    taken together; of packed elements in slots vector_bytes  of one access to the target grid          blocks; every
    block has 256 threads parameters    the bytes of the parameter struct tile          places along its axes, minor
    first; of channels pixels first reasons       what kept the plan from a faster family or wider accesses, one
    sentence each runs          elements that follow one another in the source and in the target, where they are not
    those of the tile lanes         of a warp that read, and that write, at a time reads         of a lane at a time, as
    far as they tell how the source's memory is met
    """

    kind: Kernel
    macros: tuple[tuple[str, int], ...]
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
    """A kernel of the family that goes through shared memory."""
    return Kernel("tile", file, name, shared_bytes=SHARED_TILE_BYTES, in_tiles=True)


# Two words of the struct, which kernels use under names of their own (the unions of `GplMove`), and what they are
# elsewhere.
WORDS_OF_KERNELS = ((("head", "target_step"), 0), (("pitch", "first_slot", "source_step"), 1))


def planned(
    work: Work,
    kernel: Kernel,
    vector: int,
    blocks: int,
    *,
    total: int,
    variant: tuple[tuple[str, int], ...] = (),
    tile: tuple[int, int] | None = None,
    **numbers,
) -> KernelPlan:
    """The plan; `variant` are macros of this kernel alone, and `numbers` further fields of the parameter struct:
    counts, one of `WORDS_OF_KERNELS` each; and `reach`, an offset that the axes do not tell.
    """
    axes = work.axes
    bits = index_bits(*reaches(axes), numbers.get("reach", 0))
    macros = (
        ("GPL_ELEMENT_BYTES", work.width),
        ("GPL_INDEX_BITS", bits),
        ("GPL_AXES", axes_variant(len(axes))),
        *variant,
    )
    low, high = work.move.source_span
    own = [next((numbers[name] for name in names if name in numbers), default) for names, default in WORDS_OF_KERNELS]
    scalars = (total, *own, low // work.width, high // work.width)
    parameters = move_struct(bits, work.move.pad, scalars, numbers.get("counts", (1, 1)), tile or (1, 1), axes)
    grid = (min(blocks, MAX_GRID_X), math.ceil(blocks / MAX_GRID_X))
    return KernelPlan(
        kernel, macros, grid, parameters, work.width, vector, bits, axes, tile, work.reasons, Access(vector)
    )


def offset_bits(axes: Sequence[Axis]) -> int:
    """Bits of the offsets and places of a launch over these axes."""
    return index_bits(*reaches(axes))


def reaches(axes: Sequence[Axis]) -> list[int]:
    """The largest number of a place, and the furthest offsets on both sides, forwards and backwards."""
    found = [math.prod(axis.extent for axis in axes)]
    for which in (2, 3):
        found += [sum((axis.extent - 1) * axis[which] for axis in axes if axis[which] * sign > 0) for sign in (1, -1)]
    return found


def common_step(distances: Sequence[int], most: int) -> int:
    """The largest power of two up to `most` bytes that divides all distances."""
    return math.gcd(most, *distances)
