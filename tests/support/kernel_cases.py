"""Moves for the kernels' own tests: every family, every element size, awkward extents, and the expected result.

A case is a `Move` with the phases of its two addresses; its kernel plan may be forced to 64-bit offsets, which real
plans take only for huge moves.
"""

import dataclasses
import functools
import itertools
import pathlib
import re
from unittest import mock

import numpy as np

import gpulayout as gl
from gpulayout.gpu import choose_kernel, fixed_tile, index_launch, launch
from gpulayout.gpu.channels import chunk_pixels
from gpulayout.gpu.fixed_tile import least_places, least_side
from gpulayout.gpu.kernel_numbers import A_FIRST, A_LAST, B_FIRST, FEW_BLOCKS, FIXED_TILES, LEAST_TILE_RUN
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.many_axes import plan as many_axes_plan
from gpulayout.moves import index_program
from gpulayout.moves.move import Axis, Move, coalesce
from tests.support.simt.record import FRESH, Buffer, Record


def kernel_files():
    """The names of all `.cu` files."""
    return tuple(sorted(path.name for path in (pathlib.Path(gl.__file__).parent / "kernels").glob("*.cu")))


WIDTHS = (1, 2, 4, 8, 16)
FILES = {
    file: tuple(re.findall(r"^GPL_KERNEL(?:_OF\(\w+\))? (\w+)\(", kernel_text(file), re.MULTILINE))
    for file in kernel_files()
}
BITS_FILES = ("bits.cu", "bits_any.cu")  # those of packed elements of any widths
# those of a single move of whole bytes
MOVE_FILES = tuple(
    sorted(
        set(FILES)
        - {
            "bits_turn.cu",
            "bits_turn_wide.cu",
            "bits_turn_any.cu",
            "index.cu",
            "index_program.cu",
            "lookup.cu",
            "many.cu",
        }
        - set(BITS_FILES)
    )
)
ONLY_WIDTHS = {"tile_words.cu": (1, 2), "box_words.cu": (1, 2)}  # the element sizes of files that are not for all
BLOCK = 256


def forced_bits(bits):
    """Within this context all plans that are not cached use offsets of `bits` bits."""
    patches = [mock.patch.object(module, "index_bits", lambda *reaches: bits) for module in (launch, index_program)]
    return _Both(*patches)


def forced_tiles(order=B_FIRST, is_few=False):
    """Within this context blocks of tile.cu run in this order, and its tiles are those of large launches or of few."""
    return mock.patch.multiple(fixed_tile, FEW_BLOCKS=FEW_BLOCKS * is_few, blocks_order=lambda *_: order)


def forced_part(low_digits):
    """Within this context index conversion splits 64-bit indices after this many digits; after 0, digits are 64-bit."""
    return mock.patch.object(index_launch, "low_part", lambda extents: low_digits)


class _Both:
    def __init__(self, *contexts):
        self.contexts = contexts

    def __enter__(self):
        for context in self.contexts:
            context.__enter__()

    def __exit__(self, *error):
        for context in self.contexts:
            context.__exit__(*error)


@dataclasses.dataclass(frozen=True)
class Case:
    """A move between two addresses that are `source_phase` and `target_phase` bytes past a multiple of 16.

    blocks   blocks of a many-axes tile that must remain if each moves several boxes; None: as many as in real plans
    order    the order of the blocks of tile.cu
    is_few   whether a launch of few blocks has smaller tiles, as in real plans; else it stands for a larger one
    """

    name: str
    move: Move
    source_phase: int = 0
    target_phase: int = 0
    bits: int = 32
    blocks: int | None = None
    order: int = B_FIRST
    is_few: bool = False

    @functools.cached_property
    def plan(self):
        blocks = many_axes_plan.BLOCKS if self.blocks is None else self.blocks
        with (
            forced_bits(self.bits),
            forced_tiles(self.order, self.is_few),
            mock.patch.object(many_axes_plan, "BLOCKS", blocks),
        ):
            return choose_kernel.kernel_plan.__wrapped__(self.move, self.source_phase, self.target_phase)

    @functools.cached_property
    def source(self):
        """The source's bytes, from the lowest read to the highest; every two neighbours differ."""
        low, high = self.move.source_span
        numbers = np.arange((high - low + 7) // 8, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (numbers ^ numbers >> np.uint64(29)).view(np.uint8)[: high - low]

    @property
    def target_bytes(self):
        low, high = self.move.target_span
        return high - low

    def expected(self):
        """The target's bytes after the move, place by place from the definition; gaps stay FRESH."""
        move, element = self.move, f"V{self.move.itemsize}"
        result = np.full(self.target_bytes, FRESH, np.uint8)
        axes = [axis for axis in move.axes if axis.extent != 1] or move.axes[:1]  # NumPy stops at 64
        inside, source, target = np.array(True), np.array(-move.source_span[0]), np.array(-move.target_span[0])
        for number, axis in enumerate(axes):
            coordinate = np.arange(axis.extent).reshape(-1, *[1] * number)
            inside = inside & (coordinate < axis.bound)
            source = source + coordinate * axis.source_stride
            target = target + coordinate * axis.target_stride
        result.view(element)[target // move.itemsize] = np.frombuffer(move.pad, element)
        result.view(element)[target[inside] // move.itemsize] = self.source.view(element)[
            source[inside] // move.itemsize
        ]
        return result.tobytes()

    def record(self, text=None, **changes):
        """The launch, written down, with buffers of exact length."""
        plan, move = self.plan, self.move
        before_source, before_target = -move.source_span[0], -move.target_span[0]
        source = Buffer(
            len(self.source), (self.source_phase - before_source) % 16, self.source.tobytes(), False, before_source
        )
        target = Buffer(self.target_bytes, (self.target_phase - before_target) % 16, offset=before_target)
        return dataclasses.replace(
            Record(
                text or kernel_text(plan.file),
                dict(plan.macros),
                plan.kernel,
                plan.grid,
                (BLOCK,),
                (source, target, plan.parameters),
            ),
            **changes,
        )


def move_of(width, axes, pad=None):
    """A Move of axes (extent, bound, source stride, target stride), strides in elements; the pad is 0xF0, 0xF1, ..."""
    pad = bytes(range(0xF0, 0xF0 + width)) if pad is None else pad
    return Move(
        tuple(Axis(e, b, s * width, t * width) for e, b, s, t in axes),
        width,
        pad,
        tuple((i,) for i in range(len(axes))),
    )


def move_files(width):
    """The files that may move elements of one size."""
    return {file for file in MOVE_FILES if width in ONLY_WIDTHS.get(file, WIDTHS)}


def _up(value, step):
    return -(-value // step) * step


# ---- one function per family: the cases of one element size -----------------------------------------------------


def copies(width):
    step = width % 16
    totals = (1, 5, (4 * BLOCK + 40) * (16 // width) + 1)
    for total, phases in itertools.product(totals, ((0, 0), (step, step), (0, step), (step, 0))):
        yield Case(f"copy {total} {phases}", move_of(width, [(total, total, 1, 1)]), *phases)


def rows(width):
    n = 16 // width
    for row, name in ((4 * n, "aligned"), (9 * n - 1, "odd"), (64 * n + 1, "long odd")):
        for phase in (0, width % 16):
            axes = [(row, row, 1, 1), (3, 3, 2 * row, 9 * row), (9, 9, -6 * row, row)]
            yield Case(f"rows {name} phase {phase}", move_of(width, axes), 0, phase)
    yield Case("rows padded", move_of(width, [(5 * n, 4 * n + 1, 1, 1), (3, 2, 6 * n, 5 * n), (4, 4, -12 * n, 15 * n)]))
    odd = 9 * n - 1
    yield Case(
        "rows padded, odd pitch", move_of(width, [(odd, 8 * n, 1, 1), (5, 4, 8 * n + 1, odd), (4, 3, 0, 5 * odd)])
    )
    yield Case("rows of one source", move_of(width, [(6 * n, 6 * n, 1, 1), (7, 7, 0, 6 * n)]))
    yield Case("rows of pad", move_of(width, [(100, 0, 0, 1)]), target_phase=width % 16)
    # The chunks of a thread along a long row, along the second axis, and along the last.
    yield Case("one long row, padded", move_of(width, [(2100 * n, 2050 * n + n // 2, 1, 1)]))
    yield Case(
        "rows, the second axis",
        move_of(width, [(4 * n, 4 * n, 1, 1), (101, 99, 5 * n, 4 * n), (2, 2, -505 * n, 404 * n)]),
    )
    yield Case(
        "rows, the last axis", move_of(width, [(4 * n, 4 * n, 1, 1), (6, 6, 148 * n, 4 * n), (37, 35, 4 * n, 24 * n)])
    )
    yield Case(
        "rows, the last axis, odd", move_of(width, [(odd, odd, 1, 1), (6, 6, 38 * odd, odd), (37, 35, odd, 6 * odd)])
    )
    # More axes than the kernel writes out, and rows of several chunks.
    yield Case("rows of 3, ten axes", transposed(width, (*(2,) * 9, 3), (*backwards(9), 9)))


def tiles(width):
    tile_a, tile_b = FIXED_TILES[width]
    n = 16 // width
    for da, db, padded in ((0, 0, 0), (-1, 1, 0), (1, -1, 0), (0, 1, 1), (-n, n, 1)):
        a, b = 2 * tile_a + da, tile_b + db
        wide_a, wide_b = _up(a + padded * 3, n), _up(b + padded * (n + 1), n)
        axes = [
            (b + padded * (n + 1), b, wide_a, 1),
            (a + padded * 3, a, 1, wide_b),
            (2 + padded, 2, -wide_a * (b + 1), wide_b * (a + 3)),
        ]
        yield Case(
            f"tile {a} x {b}{' padded' * padded}", move_of(width, axes), order=(B_FIRST, A_FIRST, A_LAST)[da % 3]
        )
    yield from stacks(width)
    a, b = tile_a + n, tile_b + 3 * n
    yield Case("few tiles", move_of(width, [(b, b, a, 1), (a, a, 1, b)]), is_few=True)


def stacks(width):
    """Small matrices, several in a tile: a full tile, then sides and a last tile that are cut."""
    (tile_a, tile_b), n, least = FIXED_TILES[width], 16 // width, least_side(width)
    for half_a, half_b, order in ((0, 1, A_LAST), (1, 0, B_FIRST), (1, 1, A_FIRST), (9, 9, A_LAST)):
        along_a, along_b = max(tile_a >> half_a, least), max(tile_b >> half_b, least)
        depth = tile_a * tile_b // (along_a * along_b)
        cut = along_a - n * (half_a > 0), along_b + n * (half_b == 0), 2 * depth - 1
        low = along_a, along_b - n, 2 * depth - 1  # rows of the last matrix that are not there are not read
        for a, b, count in ((along_a, along_b, depth), cut, *[low] * (half_b > 0 and low[1] * width >= LEAST_TILE_RUN)):
            axes = [(b, b, a, 1), (a, a, 1, b), (2, 2, a * b * count, a * b), (count, count, -a * b, 2 * a * b)]
            yield Case(f"{count} of {a} x {b}", move_of(width, axes), order=order)


def tile_macros(width):
    """The macros of all tiles of tile.cu: one matrix that may be ragged, then all that are halved."""
    tile_a, tile_b = FIXED_TILES[width]
    least, names = least_side(width), ("GPL_TILE_A", "GPL_TILE_B", "GPL_DEPTH", "GPL_RAGGED", "GPL_ORDER")
    sizes = [[size >> k for k in range(8) if size >> k >= least] for size in (tile_a, tile_b)]
    tiles = [
        (along_a, along_b, 1 << k, 0)
        for along_a, along_b in itertools.product(*sizes)
        for k in range(8)
        if least_places(width) <= along_a * along_b << k <= tile_a * tile_b and (along_b << k) * width >= 128
    ]
    return [
        dict(zip(names, (*tile, order)))
        for tile in ((tile_a, tile_b, 1, 1), *tiles)
        for order in (B_FIRST, A_FIRST, A_LAST)
    ]


def odd_tiles(width):
    for a, b in ((63, 129), (64, 32), (65, 31)):  # around runs and tiles; odd pitches
        axes = [(b, b, a + 2, 1), (a, a, 1, b + 1), (2, 2, -(a + 2) * b, (b + 1) * a)]
        yield Case(f"odd {a} x {b}", move_of(width, axes), width % 16, 0)
    yield Case("odd padded", move_of(width, [(40, 37, 71, 1), (70, 67, 1, 41), (3, 2, 0, 41 * 70)]))
    for short in (17, 20, 33):  # dense on one side, then on the other
        many = 4 * (16384 // width // short // 4) + 100  # a tile and a piece
        two = (2, 2, short * many, short * many)
        yield Case(f"dense read {short}", move_of(width, [(many, many, short, 1), (short, short, 1, many), two]))
        yield Case(f"dense write {short}", move_of(width, [(short, short, many, 1), (many, many, 1, short), two]))
    yield Case("dense read padded", move_of(width, [(205, 201, 19, 1), (20, 19, 1, 208)]))
    yield Case("dense write padded", move_of(width, [(20, 19, 208, 1), (205, 201, 1, 20)]))
    for b, a in ((15, 25), (23, 25)):  # small matrices of small elements move in boxes
        many = 16384 // width // (a * b) * 2 + 3  # two tiles of whole matrices and a part of one
        yield Case(f"stack of {b}", move_of(width, [(b, b, a, 1), (a, a, 1, b), (many, many, a * b, a * b)]))
    both = move_of(width, [(15, 15, 25, 1), (25, 25, 1, 15), (3, 3, 376, 376)])
    yield Case("dense both", both)
    yield Case("dense both, odd phase", both, width % 16, width % 16)


def word_tiles(width):
    """Of small elements, tiles that begin anywhere: around the tile's own sizes, with all phases."""
    tile = max(128 // width - 4 // width + 1, 16)  # along a: 125 or 63; 128 along b
    for number, (a, b) in enumerate(
        ((tile - 1, 127), (tile, 129), (tile + 1, 128), (2 * tile + 1, 125), (tile + 5, 256), (tile - 8, 259))
    ):
        axes = [(b, b, a + number % 4, 1), (a, a, 1, b + number // 2), (2, 2, -(a + 3) * b, (b + 3) * a)]
        yield Case(f"words {a} x {b}", move_of(width, axes), number * width % 16, 3 * number * width % 16)
    yield Case(
        "words padded",
        move_of(width, [(267, 131, 201, 1), (190, 177, 1, 269), (3, 2, 0, 269 * 190)]),
        width % 16,
        width % 16,
    )
    yield Case("words, little in it", move_of(width, [(130, 2, 3, 1), (133, 2, 1, 131)]), 3 * width, width)
    yield Case(
        "words, source backwards",
        move_of(width, [(256, 256, -135, 1), (133, 133, 1, 257), (2, 2, 7, 257 * 133)]),
        0,
        2 * width % 16,
    )
    yield Case("words, rows of two elements", move_of(width, [(140, 140, 3, 1), (70, 2, 1, 141)]), width % 16, 0)
    yield Case("words, source aligned", move_of(width, [(140, 140, 272, 1), (257, 257, 1, 141)]))
    yield Case("words, target aligned", move_of(width, [(264, 264, 131, 1), (129, 129, 1, 272)]))


def to_planes(width, channels, pixels, planes=0, padded=0, **phases):
    """Three rows of pixels with this number of channels, to planes; the rest of the target is pad."""
    wide, high = _up(pixels + padded, 16), channels + padded
    axes = [
        (pixels + padded, pixels, channels, 1),
        (high, planes or channels, 1, wide),
        (3 + padded, 3, _up(pixels * channels, 16), wide * high),
    ]
    return Case(
        f"{channels} channels to planes, {pixels} pixels{', padded' * bool(padded)}", move_of(width, axes), **phases
    )


def to_pixels(width, channels, pixels, planes=0, padded=0, **phases):
    """From planes to pixels."""
    wide, used = _up(pixels, 16), planes or channels
    axes = [
        (channels, used, wide, 1),
        (pixels + padded, pixels, 1, channels),
        (3 + padded, 3, wide * used, _up((pixels + padded) * channels, 16)),
    ]
    return Case(
        f"planes to {channels} channels, {pixels} pixels{', padded' * bool(padded)}", move_of(width, axes), **phases
    )


SOME_CHANNELS = {1: (3, 16), 2: (4, 12), 4: (3, 16), 8: (3, 6), 16: (2, 3)}  # each number is a kernel to compile


def few_channels(width):
    chunk = chunk_pixels(width)
    for channels, make in itertools.product(SOME_CHANNELS[width], (to_planes, to_pixels)):
        for pixels in (8 * chunk, 8 * chunk - 1, chunk - chunk // 8):
            yield make(width, channels, pixels)
    for make in (to_planes, to_pixels):
        yield make(width, channels, 8 * chunk + 5, planes=channels - 1, padded=3)
    yield to_planes(width, channels, 8 * chunk, planes=channels - 1)  # whole spans up to the end of the source


def transposed(width, dimensions, order):
    """A dense row-major array with its dimensions in another order, major first; as few axes as possible."""
    rank, source, target = len(dimensions), {}, {}
    for strides, dims in ((source, range(rank)), (target, order)):
        step = width
        for dim in reversed(dims):
            strides[dim], step = step, step * dimensions[dim]
    axes = [Axis(dimensions[dim], dimensions[dim], source[dim], target[dim]) for dim in reversed(order)]
    joined, made_of = coalesce(axes, [(dim,) for dim in reversed(order)])
    return Move(joined, width, bytes(range(0xF0, 0xF0 + width)), made_of)


def backwards(rank):
    return tuple(reversed(range(rank)))


def many_axes(width):
    for extent, rank in ((2, 14), (3, 9), (8, 4)):
        yield Case(f"{extent}^{rank} reversed", transposed(width, (extent,) * rank, backwards(rank)))
    yield Case("mixed", transposed(width, (7, 5, 6, 3, 9), (4, 0, 2, 3, 1)), width % 16, 0)
    yield Case("uneven rows in a full box", transposed(width, (4, 5, 6, 7, 8, 3), backwards(6)))
    yield Case("same axes on both sides", transposed(width, (130, 3, 5), (0, 2, 1)), 0, width % 16)
    yield Case("cut unevenly", transposed(width, (2311, 3, 3), (0, 2, 1)))
    yield Case("all but the outer axis", transposed(width, (9, 5, 7, 7), (0, 2, 3, 1)))
    # Padding, gaps, a source that runs backwards or stands still along an outer axis, a box of nothing but pad.
    padded = [(5, 4, 343, 1), (9, 7, 1, 5), (7, 7, 7, 45), (9, 7, 49, 316)]
    yield Case("padded", move_of(width, [*padded, (3, 2, -1372, 2850), (3, 2, 0, 8552)]))
    yield Case("padded, cut", move_of(width, [(5, 3, 2100, 1), (30, 27, 70, 5), (70, 69, 1, 150), (3, 1, 0, 10500)]))
    # Several boxes in a block, one after another: whole ones with few or many rows, padded ones, with a split axis.
    # Some blocks have three and more: more than are in shared memory at once.
    for extent, rank in ((2, 17 if width == 1 else 16), (3, 10)):
        yield Case(f"{extent}^{rank}, boxes", transposed(width, (extent,) * rank, backwards(rank)), blocks=1)
    outer = [*((2, 1, 0, 2850 << k) for k in range(4)), (2, 2, -1372, 2850 << 4)]
    yield Case("padded, boxes", move_of(width, [*padded, *outer]), blocks=1)
    yield Case("images, boxes", transposed(width, (12, 40, 5, 7, 7), (1, 0, 3, 4, 2)), blocks=1)
    # Small elements in words that are inside or outside as a whole, in an axis that is lanes and rows.
    yield Case("padded words", move_of(width, [(6, 6, 264, 1), (2, 2, 132, 6), (136, 132, 1, 16)]))
    yield Case("padded words, cut", move_of(width, [(6, 6, 1992, 1), (2, 2, 996, 6), (1004, 996, 1, 12)]))


def word_boxes(width):
    """Boxes of small elements in words: short odd axes on both sides, at all phases of words."""
    reversed_9 = transposed(width, (3,) * 9, backwards(9))
    for phase in range(4):
        yield Case(f"3^9 reversed, phase {phase}", reversed_9, phase * width, (3 * phase + 1) % 4 * width)
    yield Case("images, the last box smaller", transposed(width, (53, 5, 7, 7), (0, 2, 3, 1)), width, 0)
    yield Case("an uneven axis in the target's run", transposed(width, (7,) * 5, backwards(5)), 0, 3 * width)
    yield Case("long runs", transposed(width, (5,) * 6, backwards(6)))
    yield Case("both runs end in one axis", transposed(width, (31, 7, 9, 5, 3), (4, 2, 0, 3, 1)), 3 * width, width)
    # Padding and gaps, and runs of the source that go backwards or that all boxes share.
    gaps = [(5, 5, 53, 1), (49, 49, 1, 5), (20, 20, 269, 250), (3, 2, -5409, 5040), (2, 1, 0, 15200)]
    yield Case("gaps and pad", move_of(width, gaps), width, 2 * width)
    yield Case("runs backwards", move_of(width, [(5, 5, -51, 1), (49, 49, 1, 5), (20, 20, 269, 245)]), 0, width)
    yield Case("runs from one place", move_of(width, [(5, 5, 49, 1), (49, 49, 1, 5), (20, 20, 0, 245)]), width, 0)


def gathers(width):
    yield Case("gather every second", move_of(width, [(1200, 1200, 2, 1)]), width % 16, 0)
    yield Case("gather backwards", move_of(width, [(700, 700, -1, 1), (2, 2, 0, 700)]))
    yield Case("gather short runs", move_of(width, [(3, 3, 5, 1), (5, 5, 1, 3), (7, 6, -15, 15), (2, 2, 105, 105)]))
    yield Case("gather to gaps", move_of(width, [(5, 4, 3, 2), (11, 9, 12, 11)]))


FAMILIES = {
    "copy": copies,
    "rows": rows,
    "tile": tiles,
    "channels": few_channels,
    "odd tile": odd_tiles,
    "words": word_tiles,
    "many axes": many_axes,
    "word boxes": word_boxes,
    "gather": gathers,
}


def cases(width, families=tuple(FAMILIES), bits=32):
    """The cases of some families, each for the kernel file of that name."""
    return [dataclasses.replace(case, bits=bits) for family in families for case in FAMILIES[family](width)]
