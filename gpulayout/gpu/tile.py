"""Tiles of two axes through shared memory: the target's minor axis b and the source's minor axis a."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gpulayout.gpu.element_width import SIDE_NAMES, SOURCE, TARGET, VECTOR_BYTES, MoveWork, at_a_time
from gpulayout.gpu.fixed_tile import fixed_plan
from gpulayout.gpu.kernel_numbers import (
    ALIGN,
    ANY_SHARED_BYTES,
    ANY_TILE_BYTES,
    FULL_TILES,
    LANES,
    SECTOR,
    THREADS,
    WORD_LEAST_RUN,
    WORD_TILE_B,
)
from gpulayout.gpu.launch import Access, Kernel, KernelPlan, MoveFields, bits_of, planned, reaches, tile_kernel
from gpulayout.gpu.runtime import Macros
from gpulayout.moves.move import Axis

_WORD = 4  # bytes; smaller elements go through shared memory in words if possible
_SHORT_RUN = 64  # elements; an axis of up to this extent is whole in every tile
_LEAST_ELEMENTS = 2560  # with fewer, 10 for a thread, a tile of words takes more instructions than one of any size
_TILE_ANY = tile_kernel("tile_any.cu", "gpl_tile_any")
_TILE_WORDS = tile_kernel("tile_words.cu", "gpl_tile_words")
_LONG_RUN = 512  # bytes of a tile's rows, from which partly written sectors cost less than aligning them
SMALLEST_TILE = THREADS  # places that make a tile worth a block: one for each thread


def tile_plan(work: MoveWork) -> KernelPlan | None:
    """The plan; None if a tile would be too small.  The work's axes are b, a, then the others."""
    b, a = work.axes[:2]
    narrow = _misaligned(work, SOURCE, b) or _misaligned(work, TARGET, a)
    if narrow:
        return _words(work, narrow) or _flexible(work, narrow)
    change = work.change
    if change and change.is_any(b) and work.width < _WORD and not change.is_only(b, work.axes):
        return _flexible(work, "elements have parameters of their own, which take registers")
    return fixed_plan(work) or _flexible(work, f"extents {a.extent} and {b.extent} fill too little of the fixed tile")


def _words(work: MoveWork, why: str) -> KernelPlan | None:
    """Tiles of small elements in words of 4 bytes, at any phase; None if other tiles are better.

    On a side with short runs that touch, a tile of any size is a single run of words.
    """
    width, (b, a) = work.width, work.axes[:2]
    if work.change or width >= _WORD or min(a.extent, b.extent) * width < WORD_LEAST_RUN:
        return None
    if any(_dense(work)) and _access_bytes(work) == (_WORD, _WORD):
        return None
    tile_a, tile_b = word_tile(width, _step(work, SOURCE, b))
    lead, align = _aligned(work, tile_b, _WORD)
    if min(a.extent, tile_a) * min(b.extent, tile_b) < _LEAST_ELEMENTS:
        return None
    because = work.because(f"{why}, so {at_a_time(_WORD, _WORD)}")
    plan = _tiles(because, _TILE_WORDS, _WORD, (tile_b, tile_a), 1, (("GPL_ALIGN", align),), lead)
    # the runs of words do not depend on the phases
    return replace(plan, runs=(min(word_tile(width, _WORD)[0], a.extent), min(tile_b, b.extent)))


def _flexible(work: MoveWork, why: str) -> KernelPlan | None:
    """Tiles of any size.  A side whose runs all start at 4-byte words moves small elements in words."""
    width, (b, a) = work.width, work.axes[:2]
    (dense_read, dense_write), (read, write) = _dense(work), _access_bytes(work)
    # The runs of a side are cut into its accesses: along its minor axis, or along the other axis if rows touch.
    step_a = 1 if dense_read else math.lcm(read, write if dense_write else width) // width
    step_b = 1 if dense_write else math.lcm(write, read if dense_read else width) // width
    tile = flexible_tile(width, a.extent, b.extent, (step_a, step_b), write // width, dense_write)
    if not dense_read and not dense_write:
        tile = full_tile(width, a.extent, b.extent) or tile
    if not tile:
        return None
    tile_a, tile_b, pitch = tile
    is_full = (tile_a, tile_b) == FULL_TILES.get(width)
    if write < read:
        why = _misaligned(work, TARGET, a) or why
    work = work.because(f"{why}, so {at_a_time(read, write)}")
    if read == write == width and not is_full and (plan := _stacked(work, tile)):
        return plan
    lead, align = _aligned(work, tile_b, 1) if is_full and not work.change else (0, 1)
    plan = _tiles(work, _TILE_ANY, write, (tile_b, tile_a), pitch, _any_macros(read, write, align), lead)
    return replace(plan, reads=Access(read))


def _aligned(work: MoveWork, tile_b: int, least: int) -> tuple[int, int]:
    """Where rows of tiles begin in the target: (places by which the first may begin before b = 0, a multiple of so many
    bytes).  Best are sectors.

    The cache reads and writes a sector for each tile that writes part of it.  If there are few such sectors, tiles
    begin at multiples of `least` bytes: a tile has rows whole or long, or rows begin at multiples of 16 bytes anyhow.
    So do tiles of single bytes with 64-bit offsets, which leave no registers for 31 more rows.
    """
    step, width = _step(work, TARGET, work.axes[1]), work.width
    lead = max(least - step, 0) // width
    few = step >= VECTOR_BYTES or work.axes[0].extent + lead <= tile_b or tile_b * width >= _LONG_RUN
    if few or (width == 1 and bits_of(work) == 64):
        return lead, least
    return max(ALIGN - step, 0) // width, ALIGN


def _any_macros(read: int, write: int, align: int) -> Macros:
    return ("GPL_READ_BYTES", read), ("GPL_WRITE_BYTES", write), ("GPL_ALIGN", align)


def _stacked(work: MoveWork, tile: tuple[int, int, int]) -> KernelPlan | None:
    """The plan for a stack of small matrices, several in each tile; None if there is no stack.

    The matrices touch on both sides, and so do their rows.  The struct's third axis counts tiles, its bound matrices.
    """
    (b, a, *others), (tile_a, tile_b, pitch), width = work.axes, tile, work.width
    whole = b.source_stride == a.extent == a.bound == tile_a and a.target_stride == b.extent == b.bound == tile_b
    steps = tile_a * tile_b, tile_a * tile_b
    stack = next((axis for axis in others if axis[2:] == steps and not axis.is_padded), None)
    if stack is None or not whole or work.varies:
        return None
    depth = min(ANY_TILE_BYTES // width // steps[0], shared_elements(width) // (pitch * tile_b), stack.extent)
    if depth < 2:
        return None
    groups = Axis(math.ceil(stack.extent / depth), stack.extent, steps[0] * depth, steps[1] * depth)
    axes = (b, a, groups, *[axis for axis in others if axis is not stack])
    total = math.prod(axis.extent for axis in axes[2:])
    plan = planned(
        work._replace(axes=axes),
        _TILE_ANY,
        width,
        total,
        MoveFields(total, tile=(tile_b, tile_a), first=depth, second=pitch),
        variant=_any_macros(width, width, 1),
        reach=max(reaches(work.axes)),
    )
    return replace(plan, axes=work.axes)


def _dense(work: MoveWork) -> tuple[bool, bool]:
    """(source, target): True if the side's minor axis is whole in every tile and its rows touch.

    A tile is then a single run on that side.
    """
    b, a = work.axes[:2]
    reads = b.source_stride == a.extent == a.bound <= _SHORT_RUN
    return reads, a.target_stride == b.extent <= _SHORT_RUN and not work.varies


def _access_bytes(work: MoveWork) -> tuple[int, int]:
    """Bytes that a lane reads and writes at once in a tile of any size."""
    b, a = work.axes[:2]
    (dense_read, dense_write), width = _dense(work), work.width
    steps = _step(work, SOURCE, None if dense_read else b), _step(work, TARGET, None if dense_write else a)
    read, write = (_WORD if width < _WORD <= step else width for step in steps)
    return read, write


def _starts(work: MoveWork, side: int, across: Axis | None) -> list[int]:
    """The address and the strides, in bytes, that add up to the starts of a side's runs.

    `across` is the axis from one run to the next in a tile.
    """
    axes = work.axes[2:] if across is None else (across, *work.axes[2:])
    return [work.phases[side], *[axis[2 + side] * work.width for axis in axes]]


def _misaligned(work: MoveWork, side: int, across: Axis) -> str | None:
    """Why the runs of a side do not all start at multiples of 16 bytes; None if they do."""
    phase, *strides = _starts(work, side, across)
    if phase % VECTOR_BYTES:
        return f"the {SIDE_NAMES[side]} address is {phase} past a multiple of 16"
    odd = next((stride for stride in strides if stride % VECTOR_BYTES), None)
    return None if odd is None else f"the {SIDE_NAMES[side]} steps by {odd} bytes, not a multiple of 16"


def _step(work: MoveWork, side: int, across: Axis | None) -> int:
    """Bytes: all runs of a side begin at multiples of this, a power of two up to 16."""
    return math.gcd(VECTOR_BYTES, *_starts(work, side, across))


def _tiles(
    work: MoveWork,
    kernel: Kernel,
    vector: int,
    tile: tuple[int, int],
    pitch: int,
    variant: Macros = (),
    lead: int = 0,
) -> KernelPlan:
    """The plan.  The first tiles may begin up to `lead` places before b = 0."""
    counts = (math.ceil((work.axes[0].extent + lead) / tile[0]), math.ceil(work.axes[1].extent / tile[1]))
    total = math.prod(counts) * math.prod(axis.extent for axis in work.axes[2:])
    fields = MoveFields(total, counts, tile, second=pitch)
    return planned(work, kernel, vector, total, fields, variant=variant)


# ---- sizes of tiles: a is the source's minor axis, b the target's; sizes in elements of `width` bytes ----


def shared_elements(width: int) -> int:
    """Elements of the shared memory of kernels/tile_any.cu: more than a tile, for the pitch."""
    return ANY_SHARED_BYTES // width


def pitch_of(width: int, along_a: int, along_b: int, access: int = 1, touches: bool = True) -> int:
    """Elements between rows of shared memory: at least `along_a`, and chosen to avoid bank conflicts.

    To write the target, lanes read `along_b` rows column by column, `access` elements at a time.
    - Many rows: lanes are `access` rows apart, which must be an odd number of banks.  A bank is a word of 4 bytes, or
      an element if that is larger.
    - Few rows: lanes read as many columns as the banks have room for, and rows are that many banks apart.  Unless
      rows of the target touch, each column has a power of two lanes: 32 for 20 rows.

    >>> pitch_of(4, 64, 32), pitch_of(1, 3, 2720, 4), pitch_of(2, 64, 64), pitch_of(4, 512, 4)
    (65, 3, 66, 520)
    >>> pitch_of(4, 192, 20), pitch_of(4, 192, 20, touches=False)
    (194, 193)
    """
    lanes, word = 128 // max(width, 4), max(4 // width, 1)  # lanes that fill all banks, elements of a bank
    if along_b < lanes:
        used = along_b if touches else 1 << (along_b - 1).bit_length()
        banks, apart = -(-along_a // word), -(-lanes // used)
        return (banks + (apart - banks) % lanes) * word
    unit = max(word // access, 1)
    pitch = -(-along_a // unit)
    return (pitch + (pitch % 2 == 0)) * unit


def full_tile(width: int, extent_a: int, extent_b: int) -> tuple[int, int, int] | None:
    """(along a, along b, pitch) of a full tile of kernels/tile_any.cu, if the axes fill five eighths of it.

    Such a tile takes 146 instructions of a thread, or about 260 if it is partial; one of another size takes about 370.

    >>> full_tile(4, 63, 63), full_tile(4, 40, 1000), full_tile(4, 20, 1000), full_tile(2, 63, 63)
    ((64, 64, 65), (64, 64, 65), None, None)
    """
    along_a, along_b = FULL_TILES.get(width, (0, 0))
    filled = min(extent_a, along_a) * min(extent_b, along_b)
    return (along_a, along_b, along_a + 1) if 8 * filled >= 5 * along_a * along_b > 0 else None


def word_tile(width: int, source_step: int) -> tuple[int, int]:
    """(along a, along b) of a tile that moves words of 4 bytes.

    source_step   bytes: rows of the source begin at multiples of this.  A row of shared memory is 32 words; if rows of
                  the source may begin inside a word, fewer elements fit for sure

    >>> word_tile(1, 1), word_tile(2, 4)
    ((125, 128), (64, 128))
    """
    return LANES * _WORD // width - max(_WORD - source_step, 0) // width, WORD_TILE_B


def flexible_tile(
    width: int,
    extent_a: int,
    extent_b: int,
    steps: tuple[int, int] = (1, 1),
    access: int = 1,
    touches: bool = True,
) -> tuple[int, int, int] | None:
    """(along a, along b, pitch) of a tile that fits shared memory; None when it would be too small for a block.

    steps   the tile's sizes are rounded up to multiples of these
    access  elements that are written at a time, for the pitch
    touches whether rows of the target touch, if they are short; for the pitch too

    Runs of 128 to 256 bytes along a, then as much along b as fits, then more along a if b was short.  Axes are cut at
    multiples of 32 bytes, the sectors of memory:
    >>> flexible_tile(4, 1000, 1000), flexible_tile(1, 3, 10**6, (1, 4), 4), flexible_tile(4, 10**6, 3)
    ((64, 64, 65), (3, 5440, 3), (1360, 3, 1387))
    """

    def pitch(a: int, b: int) -> int:
        return pitch_of(width, a, b, access, touches)

    step_a, step_b = steps
    run = max(min(256 // width, 128), 16) if width != 2 else 64
    along_a = min(_up(extent_a, step_a), run)
    along_b = _longest(width, extent_b, step_b, lambda b: pitch(along_a, b) * b, ANY_TILE_BYTES // width // along_a)
    if along_b >= extent_b and along_a < extent_a:
        along_a = _longest(
            width, extent_a, step_a, lambda a: pitch(a, along_b) * along_b, ANY_TILE_BYTES // width // along_b
        )
    if min(along_a, extent_a) * min(along_b, extent_b) < SMALLEST_TILE:
        return None
    return along_a, along_b, pitch(along_a, along_b)


def _longest(width: int, extent: int, step: int, shared: Callable[[int], int], most: int) -> int:
    """The longest side of a tile: the whole extent if it fits, else as many sectors as fit, one at least."""
    whole, cut = _up(extent, step), math.lcm(step, max(SECTOR // width, 1))
    if whole <= most and shared(whole) <= shared_elements(width):
        return whole
    size = most // cut * cut
    while shared(size) > shared_elements(width):
        size -= cut
    return size


def _up(extent: int, step: int) -> int:
    return -(-extent // step) * step
