"""Random moves aimed at each kernel: extents one below, at and one above the sizes that planning cuts at, addresses of
every phase, padding, gaps, sources that run backwards or stand still along an axis, and 64-bit offsets for a fifth of
them.

`AIMS` holds one drawing function per kind of move and the file in kernels/ that most of its moves get; planning decides
which kernel a move really gets.  A new kernel needs a function here and a line in `AIMS`.

A case depends only on its kind, the element's bytes, its number and the seed.  To repeat a failure:
    random_moves.drawn("tile", 4, 17)            # with GPULAYOUT_TEST_SEED in the environment, where it was set
GPULAYOUT_TEST_SEED (a number, 1 by default) draws other moves; GPULAYOUT_TEST_PLANS sets their number per kind (2000).
"""

import math
import os
import random
from collections.abc import Callable
from typing import NamedTuple

from gpulayout.gpu.channels import chunk_pixels
from gpulayout.gpu.kernel_numbers import FIXED_TILES, ITEMS
from gpulayout.gpu.tile import flexible_tile, word_tile
from tests.support.effort import ALL
from tests.support.kernel_cases import BLOCK, ONLY_WIDTHS, SOME_CHANNELS, WIDTHS, Case, move_of

SEED = int(os.environ.get("GPULAYOUT_TEST_SEED", "1"))
PLANS = max(int(os.environ.get("GPULAYOUT_TEST_PLANS", "0")), 4000 if ALL else 2000)
ENDLESS = 10**6
MOST_BYTES = 50_000  # of a move: a few tiles


class Aim(NamedTuple):
    """A kind of move: the kernel file it is aimed at, and what draws one from (random numbers, element bytes)."""

    file: str
    draw: Callable[[random.Random, int], Case]
    share: int = 1  # one of so many moves is drawn, where planning takes milliseconds

    @property
    def widths(self):
        """The element sizes that the kernel moves."""
        return ONLY_WIDTHS.get(self.file, WIDTHS)

    @property
    def plans(self):
        """The number of moves drawn for each element size."""
        return PLANS // len(self.widths) // self.share


def drawn(kind, width, number, seed=SEED):
    """Case `number` of a kind."""
    case = AIMS[kind].draw(random.Random(f"{kind} {width} {number} {seed}"), width)
    object.__setattr__(
        case,
        "name",
        f"random_moves.drawn({kind!r}, {width}, {number}, {seed}) is {case.move.axes} of {width} bytes at "
        f"phases {case.source_phase}, {case.target_phase}, {case.bits} bits",
    )
    return case


# ---- pieces -----------------------------------------------------------------------------------------------------


def near(rng, *sizes):
    """One of the sizes, one less or one more."""
    return max(rng.choice(sizes) + rng.choice((-1, 0, 1)), 1)


def shuffled(rng, *numbers):
    return rng.sample(numbers, len(numbers))


def placed(rng, width, move, aligned=False):
    """The move at addresses of any phase that its elements allow, or of none."""
    phases = [0 if aligned else width * rng.randrange(16 // width) for _ in range(2)]
    return Case("", move, *phases, 64 if rng.random() < 0.2 else 32)


def laid_out(rng, width, extents, source_order, target_order, *, step=1, minor=(1, 1), tight=False):
    """A move of these extents with its axes in two orders, minor first.

    step    strides of all but the minor axes are multiples of it
    minor   strides of the minor axes
    tight   no gaps and no padding
    """
    bounds = [
        extent if tight or rng.random() < 0.85 else rng.choice((extent, max(extent - 1, 1), rng.randint(1, extent)))
        for extent in extents
    ]
    source = strides(rng, bounds, source_order, minor[0], step, tight)
    target = strides(rng, extents, target_order, minor[1], step, tight)
    for axis in source_order[1:]:
        source[axis] *= rng.choice((1, 1, 1, 1, 1, 1, 1, -1, 0))
    axes = [(extents[axis], bounds[axis], source[axis], target[axis]) for axis in target_order]
    return move_of(width, axes + [(1, 1, 0, 0)] * (4 - len(axes)))  # few variants to compile


def strides(rng, sizes, order, minor, step, tight):
    found, stride = [0] * len(sizes), minor
    for axis in order:
        found[axis], stride = stride, stride * sizes[axis]
        gap = 0 if tight else rng.choice((0, 0, 0, 0, 1, 2, 3, 17))
        stride = -(-stride // step) * step + gap * step
    return found


def few(rng, *sizes):
    """Two outer axes, most of them of one place."""
    return [rng.choice((1, 1, *sizes)), rng.choice((1, 1, 1, *sizes))]


# ---- one function per kind --------------------------------------------------------------------------------------


def copies(rng, width):
    """Around a chunk, a warp's chunks, and what a block moves."""
    n = 16 // width
    total = near(rng, 1, n, 2 * n, 32 * n, 256 * n, 256 * n, BLOCK * ITEMS * n if rng.random() < 0.2 else 3 * n)
    return placed(rng, width, move_of(width, [(total, total, 1, 1)]))


def rows(rng, width):
    """Around vectors, the length from which on rows are cut at vectors, and a warp's vectors."""
    n = 16 // width
    if rng.random() < 0.03:
        return placed(rng, width, move_of(width, [(near(rng, n, 100), 0, 0, 1)]))  # pad and nothing else
    extents = [near(rng, 2, n, 2 * n, 4 * n, 32 * n), near(rng, 2, 5, 8), *few(rng, 2, 3, 7)]
    aligned = rng.random() < 0.25
    orders = [[0, *shuffled(rng, 1, 2, 3)] for _ in range(2)]
    return placed(rng, width, laid_out(rng, width, extents, *orders, step=n if aligned else 1), aligned)


def whole_tiles(rng, width):
    """Around one and two tiles of the fixed size and the least part of one that is worth it, aligned on both sides."""
    extents = []
    for size, other in zip(reversed(FIXED_TILES[width]), (FIXED_TILES[width][0], 1)):  # b, then a
        twice = 2 * size if (math.prod(extents) or 1) * 2 * size * other * width < MOST_BYTES else size
        extents.append(rng.choice((near(rng, size), near(rng, size), near(rng, twice), size // 2 + rng.choice((0, 1)))))
    extents += few(rng, 2, 3) if math.prod(extents) * 3 * width < MOST_BYTES else [1, 1]
    source_order, target_order = [1, *shuffled(rng, 0, 2, 3)], [0, *shuffled(rng, 1, 2, 3)]
    return placed(rng, width, laid_out(rng, width, extents, source_order, target_order, step=16 // width), aligned=True)


def any_tiles(rng, width):
    """Around the sizes that tiles of any size are cut to, with long runs, or with a short one and rows that mostly
    touch.
    """
    # elements of 16 bytes are aligned
    kind = rng.choice(("short a", "short b", *(("long", "long") if width < 16 else ())))
    if kind == "long":
        along_a, along_b, _ = flexible_tile(width, ENDLESS, ENDLESS)
        a = near(rng, along_a, 16, 32, 64, 128)
        b = near(
            rng, *(size for size in (along_b, 2 * along_b, 16, 32, 64, 128) if (size - 2) * a * width < MOST_BYTES)
        )
    else:
        # up to 16 may be pixels of channels
        short = near(rng, 6) if width == 16 else rng.choice((3, near(rng, 18), near(rng, 24)))
        tile = flexible_tile(width, short, ENDLESS) if kind == "short a" else flexible_tile(width, ENDLESS, short)
        long = near(rng, max(tile[:2]), max(tile[:2]) // 2, max(tile[:2]) // 4 * 4, 2 * max(tile[:2]))
        a, b = (short, long) if kind == "short a" else (long, short)
    others = few(rng, 2, 3) if a * b * 3 * width < MOST_BYTES else [1, 1]
    orders = [1, *shuffled(rng, 0, 2, 3)], [0, *shuffled(rng, 1, 2, 3)]
    if kind != "long" and rng.random() < 0.5:
        orders = [1, 0, 2, 3], [0, 1, 2, 3]
    return placed(
        rng, width, laid_out(rng, width, [b, a, *others], *orders, tight=kind != "long" and rng.random() < 0.6)
    )


def likely_any_tiles(rng, width):
    """The same; of 16 bytes, which other kernels often move, the first of three that tile_any.cu moves."""
    case = any_tiles(rng, width)
    for _ in range(2 * (width == 16)):
        if case.plan.file != "tile_any.cu":
            case = any_tiles(rng, width)
    return case


def words(rng, width):
    """Around the sizes of tiles of words, and the shortest runs that are worth them, at any phase."""
    at_words = rng.random() < 0.3, rng.random() < 0.3
    along_a, along_b = word_tile(width, 4 if at_words[0] else width)
    # the second: where a tile reads whole words only
    a = near(rng, along_a, along_a + 128 // width, 64 // width + 1, 128 // width)
    b = near(rng, along_b, 2 * along_b if a * 2 * along_b * width < MOST_BYTES else along_b, 64 // width + 1)
    step = 4 // width if all(at_words) else 1
    others = few(rng, 2, 3) if a * b * 3 * width < MOST_BYTES else [1, 1]
    move = laid_out(rng, width, [b, a, *others], [1, *shuffled(rng, 0, 2, 3)], [0, *shuffled(rng, 1, 2, 3)], step=step)
    return placed(rng, width, move)


def channels(rng, width):
    """Pixels of 2 to 16 channels to planes or back, in a few images, around what warps take; most of them aligned."""
    aligned, n = rng.random() < 0.8, 16 // width
    count, images = rng.choice(SOME_CHANNELS[width]), rng.choice((1, 1, 2, 3))
    chunk = chunk_pixels(width)
    pixels = near(rng, *(size for size in (chunk, 8 * chunk) if size * count * width < MOST_BYTES))
    more, unused = rng.choice(((0, 0), (0, 0), (0, 0), (rng.randint(1, 5), 0), (0, 1)))
    step = n if aligned else 1
    plane = -(-(pixels + more) // step) * step + rng.choice((0, 0, 1)) * step  # from one to the next
    image = -(-(pixels + more) * count // step) * step
    planes, sign = count - unused, rng.choice((1, 1, 1, 1, 1, -1, 0))
    if rng.random() < 0.5:
        high = planes + rng.choice((0, 0, 0, 1, 3))  # planes of nothing but pad
        axes = [
            (pixels + more, pixels, count, 1),
            (high, planes, 1, plane),
            (images, images, sign * image, plane * high),
        ]
    else:
        axes = [
            (count, planes, plane, 1),
            (pixels + more, pixels, 1, count),
            (images, images, sign * plane * count, image),
        ]
    return placed(rng, width, move_of(width, [*axes, (1, 1, 0, 0)]), aligned)


def many_axes(rng, width):
    """Three to six short axes in two orders with different minor ones, one of them up to around 32."""
    count = rng.choice((3, 4, 4, 4, 6))
    sizes = {3: (6, 8, 9, 13), 4: (3, 4, 5, 7, 8), 6: (2, 3, 4)}[count]
    extents = [rng.choice(sizes) for _ in range(count)]
    if rng.random() < 0.3 and count < 6:
        extents[rng.randrange(count)] = near(rng, 16, 32)
    target_order = shuffled(rng, *range(count))
    source_order = shuffled(rng, *(axis for axis in range(count) if axis != target_order[0]))
    source_order.insert(rng.randint(1, count - 1), target_order[0])
    return placed(rng, width, laid_out(rng, width, extents, source_order, target_order))


def word_boxes(rng, width):
    """Three to six short odd axes in two orders, at any phase, and few of them padded or with gaps."""
    count = rng.choice((4, 5, 6))
    sizes = {4: (7, 9, 11, 13), 5: (5, 5, 7, 9), 6: (3, 5, 5)}[count]
    extents = [rng.choice(sizes) for _ in range(count)]
    extents[rng.randrange(count)] += rng.choice((0, 0, 0, 1, 2))
    target_order = shuffled(rng, *range(count))
    source_order = shuffled(rng, *(axis for axis in range(count) if axis != target_order[0]))
    source_order.insert(rng.randint(1, count - 1), target_order[0])
    return placed(rng, width, laid_out(rng, width, extents, source_order, target_order, tight=rng.random() < 0.85))


def gathers(rng, width):
    """Steps on one side or both, a minor axis backwards, or too few places for a tile; around what a block fills."""
    kind = rng.choice(("few", "source steps", "target steps", "both step", "backwards"))
    if kind == "few":
        extents = [rng.randint(2, 6), rng.randint(2, 5), rng.randint(1, 3), rng.choice((1, 2))]
        return placed(
            rng, width, laid_out(rng, width, extents, [1, *shuffled(rng, 0, 2, 3)], [0, *shuffled(rng, 1, 2, 3)])
        )
    extents = [near(rng, 2, 3, 32, 64, BLOCK), near(rng, 2, 4, 8), *few(rng, 2, 3)]
    if rng.random() < 0.2:
        extents = [near(rng, BLOCK * ITEMS), 1, 1, 1]
    minor = {"source steps": (2, 1), "target steps": (1, 3), "both step": (3, 2), "backwards": (-1, 1)}[kind]
    orders = [shuffled(rng, *range(4)) for _ in range(2)]
    return placed(rng, width, laid_out(rng, width, extents, *orders, minor=minor))


AIMS = {
    "copy": Aim("copy.cu", copies),
    "rows": Aim("rows.cu", rows),
    "tile": Aim("tile.cu", whole_tiles),
    "odd tile": Aim("tile_any.cu", likely_any_tiles),
    "words": Aim("tile_words.cu", words),
    "channels": Aim("channels.cu", channels),
    "many axes": Aim("tile_nd.cu", many_axes),
    "word boxes": Aim("box_words.cu", word_boxes, 5),
    "gather": Aim("gather.cu", gathers),
}
