"""How large the tiles of the two shared-memory kernels are.

a is the source's minor axis, b the target's; sizes in elements of `width` bytes.
"""
from __future__ import annotations

import math
from collections.abc import Callable

# kernels/tile.cu: (along a, along b) by element bytes.  128 bytes or more both ways, 8 to 16 KB of shared memory.
FIXED_TILES = {1: (128, 128), 2: (64, 64), 4: (64, 64), 8: (32, 64), 16: (16, 32)}

# kernels/tile_words.cu: words of a row of shared memory, and elements along b.
_ROW_WORDS, _WORD_TILE_B = 32, 128

_SECTOR = 32                 # bytes that memory moves at once
_SMALLEST = 256              # places: one per thread of a block


def smallest_useful_tile() -> int:
    """Places a tile must have to be worth a block."""
    return _SMALLEST


def tile_elements(width: int) -> int:
    """Most elements of a tile in kernels/tile_any.cu: 8 KB of them."""
    return 8192 // width


def shared_elements(width: int) -> int:
    """Elements of its shared memory: a sixteenth more, for the pitch."""
    return tile_elements(width) // 16 * 17


def pitch_of(width: int, along_a: int, along_b: int, piece: int = 1) -> int:
    """Elements between rows of shared memory: at least `along_a`, and such that columns fall into different banks.

    Lanes that write read `along_b` rows, column after column, `piece` elements at a time.
    - Many rows: lanes are `piece` rows apart.  These must be an odd number of banks, which are words of 4 bytes or,
      where they are larger, elements.
    - Few rows: lanes read a square, as many columns as the banks have room for.  Rows lie that many banks apart.

    >>> pitch_of(4, 64, 32), pitch_of(1, 3, 2720, 4), pitch_of(2, 64, 64), pitch_of(4, 512, 4)
    (65, 3, 66, 520)
    """
    lanes, word = 128 // max(width, 4), max(4 // width, 1)             # lanes that fill all banks, elements of a bank
    if along_b < lanes:
        banks, apart = -(-along_a // word), -(-lanes // along_b)
        return (banks + (apart - banks) % lanes) * word
    unit = max(word // piece, 1)
    pitch = -(-along_a // unit)
    return (pitch + (pitch % 2 == 0)) * unit


def fixed_tile_fits(width: int, extent_a: int, extent_b: int) -> bool:
    """True when the extents fill at least half of the fixed tiles they are cut into."""
    return all(2 * extent >= -(-extent // size) * size for extent, size in zip((extent_a, extent_b), FIXED_TILES[width]))


def word_tile(width: int, source_at_words: bool, target_at_words: bool) -> tuple[int, int, int]:
    """(along a, along b, places by which the first tile may begin before b = 0) of a tile that moves words of 4 bytes.

    A row of shared memory is 32 words.  Where rows of the source begin inside words, so many fewer elements fit; where
    rows of the target do, the tiles begin at the words that rows begin in.

    >>> word_tile(1, False, False), word_tile(2, True, False)
    ((125, 128, 3), (64, 128, 1))
    """
    elements = 4 // width
    return (_ROW_WORDS * elements - (0 if source_at_words else elements - 1), _WORD_TILE_B,
            0 if target_at_words else elements - 1)


def flexible_tile(width: int, extent_a: int, extent_b: int, steps: tuple[int, int] = (1, 1), piece: int = 1
                  ) -> tuple[int, int, int] | None:
    """(along a, along b, pitch) of a tile that fits shared memory, or None when the extents make none worth a block.

    steps   the tile's sizes are multiples of these, or 1 of them the whole extent
    piece   elements that are written at a time, for the pitch

    Runs of 128 to 256 bytes along a, then as much along b as fits, then more along a where b was short.  An axis that
    is cut is cut at multiples of 32 bytes, the sectors of memory:
    >>> flexible_tile(4, 1000, 1000), flexible_tile(1, 3, 10**6, (1, 4), 4), flexible_tile(4, 10**6, 3)
    ((64, 32, 65), (3, 2720, 3), (680, 3, 683))
    """
    step_a, step_b = steps
    run = max(min(256 // width, 128), 16) if width != 2 else 64
    along_a = min(_up(extent_a, step_a), run)
    along_b = _longest(width, extent_b, step_b, lambda b: pitch_of(width, along_a, b, piece) * b, tile_elements(width) // along_a)
    if along_b >= extent_b and along_a < extent_a:
        along_a = _longest(width, extent_a, step_a, lambda a: pitch_of(width, a, along_b, piece) * along_b,
                           tile_elements(width) // along_b)
    if min(along_a, extent_a) * min(along_b, extent_b) < _SMALLEST:
        return None
    return along_a, along_b, pitch_of(width, along_a, along_b, piece)


def _longest(width: int, extent: int, step: int, shared: Callable[[int], int], most: int) -> int:
    """The longest side of a tile: the whole extent, or as many sectors, or at least steps, as there is room for."""
    whole, cut = _up(extent, step), math.lcm(step, max(_SECTOR // width, 1))
    if whole <= most and shared(whole) <= shared_elements(width):
        return whole
    for unit in (cut, step):
        size = most // unit * unit
        while size and shared(size) > shared_elements(width):
            size -= unit
        if size:
            return size
    return step


def _up(extent: int, step: int) -> int:
    return -(-extent // step) * step
