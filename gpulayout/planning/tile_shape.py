"""How large the tiles of the two shared-memory kernels are.

a is the source's minor axis, b the target's; sizes in elements of `width` bytes.
"""
from __future__ import annotations

# kernels/tile.cu: (along a, along b) by element bytes.  128 bytes or more both ways, 8 to 16 KB of shared memory.
FIXED_TILES = {1: (128, 128), 2: (64, 64), 4: (64, 64), 8: (32, 32), 16: (16, 32)}

_SMALLEST = 256              # places: one per thread of a block


def smallest_useful_tile() -> int:
    """Places a tile must have to be worth a block."""
    return _SMALLEST


def tile_elements(width: int) -> int:
    """Most elements of a tile in kernels/tile_any.cu: 8 KB of them, 4096 at most."""
    return min(8192 // width, 4096)


def shared_elements(width: int) -> int:
    """Elements of its shared memory: a sixteenth more, for the pitch."""
    return tile_elements(width) // 16 * 17


def pitch_of(run: int, width: int) -> int:
    """Elements between rows of shared memory: at least `run`, and an odd number of banks.

    A column of the tile is read by lanes with neighbouring rows; an odd number of 4-byte words (of elements, from
    4 bytes on) between the rows sends them to different banks.

    >>> pitch_of(64, 4), pitch_of(64, 2), pitch_of(3, 1)
    (65, 66, 4)
    """
    words = max(4 // width, 1)                     # elements in a word
    pitch = -(-run // words)
    return (pitch + (pitch % 2 == 0)) * words


def fixed_tile_fits(width: int, extent_a: int, extent_b: int) -> bool:
    """True when the extents fill at least half of the fixed tiles they are cut into."""
    return all(2 * extent >= -(-extent // size) * size for extent, size in zip((extent_a, extent_b), FIXED_TILES[width]))


def flexible_tile(width: int, extent_a: int, extent_b: int) -> tuple[int, int, int] | None:
    """(along a, along b, pitch) of a tile that fits shared memory, or None when the extents make none worth a block.

    Runs of 256 bytes along a, then as much along b as fits, then more along a where b was short:
    >>> flexible_tile(4, 1000, 1000), flexible_tile(1, 3, 10**6), flexible_tile(4, 10**6, 3)
    ((64, 32, 65), (3, 1088, 4), (682, 3, 683))
    """
    along_a = min(extent_a, 64 if width <= 4 else max(256 // width, 16))
    along_b = min(extent_b, tile_elements(width) // along_a, shared_elements(width) // pitch_of(along_a, width))
    if along_b == extent_b and along_a < extent_a:
        longest = tile_elements(width) // along_b
        while pitch_of(longest, width) * along_b > shared_elements(width):
            longest -= 1
        along_a = min(extent_a, longest)
    if along_a * along_b < _SMALLEST:
        return None
    return along_a, along_b, pitch_of(along_a, width)
