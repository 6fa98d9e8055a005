"""What the first warp of a launch reads and writes, request by request: the addresses that the kernels compute.

A request is one instruction of a warp: at most one access of each of its 32 lanes.  Offsets are bytes from the first
element of a side, for buffers that begin at a multiple of 32, as allocators return them.

    f32[64,64] to {0,1}: in the first request, lanes 0 to 15 read 16 bytes each of row 0, and lanes 16 to 31 of row 1

This repeats the address arithmetic of kernels/*.cu, for a picture.  tests/kernels/test_first_warp.py compares it with
the accesses that the kernels make.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from gpulayout.gpu.channels import chunk_pixels, vector_bytes
from gpulayout.gpu.copy_rows import row_loops
from gpulayout.gpu.element_width import VECTOR_BYTES
from gpulayout.gpu.launch import ITEMS, THREADS, KernelPlan
from gpulayout.gpu.many_axes.plan import block_boxes, planned_box
from gpulayout.gpu.many_axes.warp_lanes import LaneDigit, Walk
from gpulayout.gpu.tile import FULL_TILES
from gpulayout.gpu.traffic import LANES, SECTOR


class LaneAccess(NamedTuple):
    """One access of a lane: `nbytes` bytes, `offset` bytes after the first element of its side."""

    lane: int
    offset: int
    nbytes: int


Request = tuple[LaneAccess, ...]


class FirstWarp(NamedTuple):
    """The requests of a warp, in order."""

    reads: tuple[Request, ...]
    writes: tuple[Request, ...]


def sectors_of(request: Request) -> tuple[int, ...]:
    """The sectors of 32 bytes that a request touches, by number.

    >>> sectors_of((LaneAccess(0, 28, 4), LaneAccess(1, 32, 4), LaneAccess(2, 160, 16)))
    (0, 1, 5)
    """
    ranges = (range(offset // SECTOR, (offset + nbytes - 1) // SECTOR + 1) for _, offset, nbytes in request)
    return tuple(sorted(set(itertools.chain.from_iterable(ranges))))


def first_warp(plan: KernelPlan) -> FirstWarp | None:
    """The requests of the first warp of a launch between buffers aligned to 16 bytes.

    None where this module does not follow the kernel: cut chunks of partial tiles, stacks of matrices, words of smaller
    elements, packed elements, look-ups.
    """
    sides = _FAMILIES[plan.kernel](plan) if plan.kernel in _FAMILIES else None
    return sides and FirstWarp(*(tuple(filter(None, map(tuple, side))) for side in sides))


class _Piece(NamedTuple):
    """What a lane moves at once: from an offset on, in elements, at a position of a row."""

    lane: int
    offset: int
    start: int
    bound: int  # elements of the row; those outside 0 <= position < bound are not accessed


Sides = tuple[Iterable[Iterable[LaneAccess]], Iterable[Iterable[LaneAccess]]]


def _requests(pieces: Sequence[_Piece], elements: int, width: int) -> Iterator[list[LaneAccess]]:
    """One access of each whole piece, then what is inside the row of the others, element by element.

    As gpl_load and gpl_store do.
    """
    whole = [0 <= piece.start and piece.start + elements <= piece.bound for piece in pieces]
    yield [LaneAccess(p.lane, p.offset * width, elements * width) for p, fits in zip(pieces, whole) if fits]
    for i in range(elements):
        yield [
            LaneAccess(p.lane, (p.offset + i) * width, width)
            for p, fits in zip(pieces, whole)
            if not fits and 0 <= p.start + i < p.bound
        ]


def _copy(plan: KernelPlan) -> Sides | None:
    """Lanes take neighbouring chunks of 16 bytes, 256 apart, then the elements after the last whole chunk."""
    per_chunk, total = VECTOR_BYTES // plan.element_bytes, plan.axes[0].extent
    whole = total // per_chunk * per_chunk
    numbers = [[lane + k * THREADS for lane in range(LANES)] for k in range(ITEMS)]
    chunks = [
        [LaneAccess(n % THREADS, n * VECTOR_BYTES, VECTOR_BYTES) for n in row if n < whole // per_chunk]
        for row in numbers
    ]
    tail = [LaneAccess(n, (whole + n) * plan.element_bytes, plan.element_bytes) for n in range(total - whole)]
    return [*chunks, tail], [*chunks, tail]


def _gather(plan: KernelPlan) -> Sides | None:
    """Lanes take neighbouring places, 256 apart."""
    width, total = plan.element_bytes, math.prod(axis.extent for axis in plan.axes)
    reads, writes = [], []
    for first in range(0, ITEMS * THREADS, THREADS):
        found = [(n - first, *_place(n, plan.axes)) for n in range(first, first + LANES) if n < total]
        reads.append([LaneAccess(lane, source * width, width) for lane, source, _, inside in found if inside])
        writes.append([LaneAccess(lane, target * width, width) for lane, _, target, _ in found])
    return reads, writes


def _place(number: int, axes: Sequence[tuple[int, int, int, int]]) -> tuple[int, int, bool]:
    """The offsets of a place on both sides, and whether it is an element."""
    source, target, inside = 0, 0, True
    for extent, bound, source_stride, target_stride in axes:
        number, coordinate = divmod(number, extent)
        inside = inside and coordinate < bound
        source += coordinate * source_stride
        target += coordinate * target_stride
    return source, target, inside


def _rows(plan: KernelPlan) -> Sides | None:
    """Lanes take neighbouring chunks of rows, then those some steps away."""
    macros = dict(plan.macros)
    vector, load, width, minor = macros["GPL_VECTOR_BYTES"], macros["GPL_LOAD_BYTES"], plan.element_bytes, plan.axes[0]
    loops, elements = row_loops(plan.axes, width, vector, load), vector // width
    steps, shares, is_shifted = loops.steps, loops.extents, load < vector
    items = ITEMS // 2 if is_shifted else ITEMS
    reads: list[list[LaneAccess]] = []
    writes: list[list[LaneAccess]] = []
    firsts: dict[bool, list[tuple[int, int, int, int, int, bool]]] = {True: [], False: []}
    for lane in range(min(LANES, math.prod(shares))):
        number, chunk = divmod(lane, shares[0])
        places = [chunk, *_coordinates(number, [axis.extent for axis in loops.looped[1:]])]
        place = places[steps.along] * (items if steps.apart == 1 else 1)
        source, target, inside = _place(number, loops.looped[1:])
        last = place + (items - 1) * steps.apart
        whole = elements == 1 and minor.bound == minor.extent and inside and last < steps.bound
        firsts[whole].append((lane, chunk, place, source, target, inside))
    alone = len(plan.axes) == 1  # the end of the only row decides
    for group, k in itertools.product(firsts.values(), range(items)):  # lanes with whole chunks take their own path
        read, written = [], []
        for lane, chunk, place, source, target, inside in group:
            row = target + k * steps.target_step
            before = chunk * elements - row % elements
            start = before + (0 if steps.along else k * steps.target_step)
            if inside and (alone or place + k * steps.apart < steps.bound):
                read.append(_Piece(lane, source + k * steps.source_step + before, start, minor.bound))
            if alone or place + k * steps.apart < steps.places:
                written.append(_Piece(lane, row + before, start, minor.extent))
        reads += _shifted(read, plan, vector, load) if is_shifted else _requests(read, elements, width)
        writes += _requests(written, elements, width)
    return reads, writes


def _shifted(pieces: Sequence[_Piece], plan: KernelPlan, vector: int, load: int) -> Iterator[list[LaneAccess]]:
    """The two aligned vectors that hold a chunk, or narrow reads where these are not both inside the source.

    As gpl_read does.
    """
    width = plan.element_bytes
    last = vector // width - 1
    reaches = [(axis.bound - 1) * axis.source_stride for axis in plan.axes]
    low, high = sum(min(reach, 0) for reach in reaches), sum(max(reach, 0) for reach in reaches) + 1

    def first_vector(piece: _Piece) -> int:
        return piece.offset * width // vector * vector

    def is_held(piece: _Piece) -> bool:
        begins = 0 <= piece.start < piece.bound or 0 <= piece.start + last < piece.bound
        inside = low * width <= first_vector(piece) and first_vector(piece) + 2 * vector <= high * width
        return vector >= 4 and begins and inside

    held = [piece for piece in pieces if is_held(piece)]
    yield [LaneAccess(piece.lane, first_vector(piece), vector) for piece in held]
    yield [LaneAccess(p.lane, first_vector(p) + (vector if p.offset * width % vector else 0), vector) for p in held]
    others = list(_requests([piece for piece in pieces if piece not in held], last + 1, width))
    for first in range(0, vector, load):  # a whole chunk is assembled from narrow reads
        yield [LaneAccess(lane, offset + first, load) for lane, offset, _ in others[0]]
    yield from others[1:]


def _coordinates(number: int, extents: Sequence[int]) -> Iterator[int]:
    for extent in extents:
        yield number % extent
        number //= extent


def _tile_vector(plan: KernelPlan) -> Sides | None:
    """Lanes read neighbouring chunks of rows of the tile along a, and write those of 8 chunks along b."""
    (b, a), (tile_b, tile_a), width = plan.axes[:2], plan.tile or (0, 0), plan.element_bytes
    n, word = VECTOR_BYTES // width, max(4, width)
    whole = tile_b <= b.bound and tile_a <= a.bound
    if not whole and (any(axis.is_padded for axis in plan.axes) or a.bound % n or b.extent % n):
        return None  # a ragged move, whose chunks at the ends take a path of their own
    p, chunks, words, columns = word // width, tile_a // n, tile_a * width // word, tile_b // n
    high, lanes = THREADS // chunks, [lane for lane in range(LANES) if lane % chunks * n + n <= a.bound]
    counts = {lane: min(-(-(b.bound - lane // chunks) // high), tile_b // high) for lane in lanes}
    reads = [
        [_chunk(lane, lane % chunks * n + (lane // chunks + k * high) * b.source_stride, width) for lane in group]
        for count in sorted({*counts.values()}, reverse=True)  # lanes of the last rows have fewer chunks
        for group in [[lane for lane in lanes if counts[lane] == count]]
        for k in range(count)
    ]
    writes = []
    for k, below in itertools.product(range(words * columns // THREADS), range(p)):
        lines = [(lane, lane // 8 + k * THREADS // 8) for lane in range(LANES)]
        places = [(lane, line % words * p + below, (lane % 8 + line // words * 8) * n) for lane, line in lines]
        inside = [place for place in places if place[1] < a.extent and place[2] + n <= b.extent]
        writes.append([_chunk(lane, row * a.target_stride + column, width) for lane, row, column in inside])
    return reads, writes


def _chunk(lane: int, offset: int, width: int) -> LaneAccess:
    return LaneAccess(lane, offset * width, VECTOR_BYTES)


def _tile_any(plan: KernelPlan) -> Sides | None:
    """Full tiles: lanes take single elements of a row, 32 at a time or as many as the row has.  Others: `_any_side`."""
    (b, a), width, macros = plan.axes[:2], plan.element_bytes, dict(plan.macros)
    tile_b, tile_a = plan.tile or (0, 0)
    if (tile_a, tile_b) == FULL_TILES.get(width):
        sides = (tile_a, b.source_stride, a.bound, b.bound), (tile_b, a.target_stride, b.extent, a.extent)
        whole = tile_a <= a.bound and tile_b <= b.bound
        reads, writes = (list(_full_side(*side, tile_a * tile_b // THREADS, whole, width)) for side in sides)
        return reads, writes
    tiles = [-(-b.extent // tile_b), -(-a.extent // tile_a), *(axis.extent for axis in plan.axes[2:])]
    if math.prod(plan.grid) < math.prod(tiles):
        return None  # a stack of matrices in every tile
    read = min(a.bound, tile_a), min(b.bound, tile_b), b.source_stride, tile_a
    write = min(b.extent, tile_b), min(a.extent, tile_a), a.target_stride, tile_b
    return _any_side(*read, macros["GPL_READ_BYTES"], width), _any_side(*write, macros["GPL_WRITE_BYTES"], width)


def _any_side(wide: int, high: int, stride: int, tile: int, nbytes: int, width: int) -> Iterator[list[LaneAccess]]:
    """One side of a tile of any size: `high` rows of `wide` elements, which a lane takes in pieces of `nbytes`.

    tile   elements of a row of a whole tile; if rows are whole and touch, the side is a single run
    """
    elements, touches = nbytes // width, wide == stride == tile
    pieces = wide // elements
    if not touches and pieces <= THREADS:
        bits = ((pieces - 1) % THREADS).bit_length()
        step, lanes = THREADS >> bits, [lane for lane in range(LANES) if lane % (1 << bits) < pieces]
        rows = {lane: range(lane >> bits, high, step) for lane in lanes}
        firsts = {lane: lane % (1 << bits) * elements for lane in lanes}
        yield from _batches(
            {lane: [firsts[lane] + row * stride for row in rows[lane]] for lane in lanes}, nbytes, width
        )
    else:
        for row in range(1 if touches else high):
            count = wide * high // elements if touches else pieces
            numbers = {lane: range(lane, count, THREADS) for lane in range(LANES)}
            offsets = {lane: [row * stride + number * elements for number in numbers[lane]] for lane in numbers}
            yield from _batches(offsets, nbytes, width)
    run = wide * high if touches else wide
    rest, rows_left = run % elements, 1 if touches else high
    for first in range(0, rows_left * elements if rest else 0, THREADS):
        numbers_left = [(lane, first + lane) for lane in range(LANES) if first + lane < rows_left * elements]
        yield [
            LaneAccess(lane, (run - rest + k % elements + k // elements * stride) * width, width)
            for lane, k in numbers_left
            if k % elements < rest
        ]


def _batches(offsets: dict[int, list[int]], nbytes: int, width: int) -> Iterator[list[LaneAccess]]:
    """The pieces of every lane: whole batches first, then what is left, which other instructions move."""
    batch = 4 if nbytes == VECTOR_BYTES else 8 if nbytes >= 4 else 16
    found: dict[tuple[bool, int], list[LaneAccess]] = {}
    for lane, places in offsets.items():
        whole = len(places) // batch * batch
        for number, offset in enumerate(places):
            key = number >= whole, number - whole if number >= whole else number
            found.setdefault(key, []).append(LaneAccess(lane, offset * width, nbytes))
    return (found[key] for key in sorted(found))


def _full_side(
    wide: int, stride: int, inside: int, rows: int, pieces: int, whole: bool, width: int
) -> Iterator[list[LaneAccess]]:
    lanes = min(wide, LANES)
    parts, high = wide // lanes, THREADS // lanes
    order = [(i // parts, i % parts) for i in range(pieces)]
    for k, part in order if whole else sorted(order, key=lambda step: step[::-1]):
        places = ((lane, lane % lanes + part * lanes, lane // lanes + k * high) for lane in range(LANES))
        yield [
            LaneAccess(lane, (column + row * stride) * width, width)
            for lane, column, row in places
            if column < inside and row < rows
        ]


def _tile_nd(plan: KernelPlan) -> Sides | None:
    """Lanes follow the minor digits of the box on each side; the rows of a warp are 8 apart."""
    box, walks = planned_box(plan)
    steps = block_boxes(plan.axes, box).steps
    reads, writes = (
        [request for step in steps for request in _walked(walk, step[side] * plan.element_bytes, plan.element_bytes)]
        for side, walk in enumerate((walks.read, walks.write))
    )
    return reads, writes


def _walked(walk: Walk, first: int, width: int) -> Iterator[list[LaneAccess]]:
    """The rows of the first warp, from `first` bytes on."""
    for row in range(0, walk.row_count, THREADS // LANES):
        accesses = []
        for lane in range(walk.lane_count if row < walk.full else walk.last_lanes):
            places: dict[int, int] = {}
            offset, inside = 0, True
            for digit, coordinate in (*_digits(lane, walk.lanes), *_digits(row, walk.rows)):
                offset += coordinate * digit.stride
                places[digit.axis] = places.get(digit.axis, 0) + coordinate * digit.unit
                inside = inside and (digit.bound is None or places[digit.axis] < digit.bound)
            if inside:
                accesses.append(LaneAccess(lane, first + offset * width, len(walk.apart) * width))
        yield accesses


def _digits(number: int, digits: Sequence[LaneDigit]) -> Iterator[tuple[LaneDigit, int]]:
    for digit in digits:
        number, coordinate = divmod(number, digit.size)
        yield digit, coordinate


def _channels(plan: KernelPlan) -> Sides | None:
    """On the side of planes, lanes take neighbouring words; on that of pixels, neighbouring vectors."""
    macros, width, (pixel, channel) = dict(plan.macros), plan.element_bytes, plan.axes[:2]
    channels, planes, chunks = macros["GPL_CHANNELS"], macros["GPL_PLANES"], macros["GPL_CHUNKS"]
    to_planes, of_chunk = bool(macros["GPL_TO_PLANES"]), chunk_pixels(width)
    size = chunks * of_chunk
    whole = pixel.bound >= size + (to_planes and planes < channels)
    groups = [range(chunks)] if whole else [[h] for h in range(min(chunks, math.ceil(pixel.extent / of_chunk)))]
    needed = (pixel.bound - 1) * channels + planes if to_planes else pixel.extent * channels
    reads: list[list[LaneAccess]] = []
    writes: list[list[LaneAccess]] = []
    on_pixels, on_planes = (reads, writes) if to_planes else (writes, reads)
    stride, count = (channel.target_stride, channel.extent) if to_planes else (channel.source_stride, planes)
    for group in groups:
        for h in group:
            for starts in _vector_starts(width, channels, h * of_chunk * channels):
                pieces = [_Piece(lane, start, start, needed) for lane, start in enumerate(starts)]
                on_pixels += _requests(pieces, vector_bytes(width, channels) // width, width)
        for c, h in itertools.product(range(count), group):
            each, pixels = of_chunk // LANES, pixel.extent if to_planes else pixel.bound
            firsts = [h * of_chunk + lane * each for lane in range(LANES)]
            on_planes += _requests(
                [_Piece(lane, c * stride + first, first, pixels) for lane, first in enumerate(firsts)], each, width
            )
    return reads, writes


def _vector_starts(width: int, channels: int, first: int) -> Iterator[list[int]]:
    """Where the vectors of all lanes begin, in elements: those of each instruction."""
    vector = vector_bytes(width, channels)
    registers = channels * max(width, 4) // 4
    even = registers & -registers
    pieces, elements = max(even // 4, 1), vector // width
    for k in range(registers // even * pieces):
        step = (k // pieces * LANES + k % pieces) * pieces
        yield [first + ((lane - lane % pieces) * pieces + lane % pieces + step) * elements for lane in range(LANES)]


_FAMILIES: dict[str, Callable[[KernelPlan], Sides | None]] = {
    "gpl_copy": _copy,
    "gpl_gather": _gather,
    "gpl_rows": _rows,
    "gpl_tile_vector": _tile_vector,
    "gpl_tile_any": _tile_any,
    "gpl_channels": _channels,
    "gpl_tile_nd": _tile_nd,
}
