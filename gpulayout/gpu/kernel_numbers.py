"""The numbers that the kernels share with their planners.  They stand here, and nowhere in kernels/.

`kernel_source` writes the numbers of a file in front of its text as `#define` lines.  So a changed number is a changed
text, which CuPy compiles anew.  Macros that differ between the launches of a kernel are in its plan instead.
"""

from __future__ import annotations

from gpulayout.moves.arithmetic import KINDS, OPERATIONS, SPECIAL_CODES
from gpulayout.moves.index_program import MOST_INSTRUCTIONS, MOST_REGISTERS, MOST_TERMS

LANES = 32  # of a warp
SECTOR = 32  # bytes that memory moves at once
BANKS = 32  # of shared memory, 4 bytes wide
THREADS = 256  # of a block
ITEMS = 4  # places, indices or chunks of a thread
FEW_ITEMS = 2  # places of a thread of gather.cu whose steps have parameters
CHANGED_ITEMS = 8  # chunks of a thread of copy.cu and rows.cu whose elements change on the way
MOST_WRITTEN, MOST_READ = 16, 32  # bits.cu: bytes of a thread, in the target and in the source
SHIFTED_ITEMS = 2  # chunks of a thread of copy.cu and rows.cu if each is assembled from several reads

# tile.cu: element bytes -> (along a, along b).  128 bytes or more both ways, 8 to 16 KB of shared memory.  Tiles of
# short axes have several matrices instead, with runs of this many bytes at least.
FIXED_TILES = {1: (128, 128), 2: (128, 64), 4: (64, 64), 8: (32, 64), 16: (16, 32)}
LEAST_TILE_RUN = 64

# tile.cu: with fewer blocks than one for each of 132 multiprocessors, tiles are smaller.  Blocks run first along b;
# along a last where the blocks that are resident on such a device would write to more pages of 2 MB than this; along a
# first where the tiles along b are so many times those along a, which no device has wanted so far.
FEW_BLOCKS, RESIDENT_BLOCKS, MOST_PAGES, FLAT_GRID = 132, 1056, 32, 1 << 32
B_FIRST, A_FIRST, A_LAST = 0, 1, 2

# tile_any.cu: its tiles without divisions, for single elements, as above; the bytes of its largest tile, and of its
# shared memory, a sixteenth more for the pitch.
FULL_TILES = {4: (64, 64), 8: (32, 64), 16: (16, 64)}
ANY_TILE_BYTES = 16384
ANY_SHARED_BYTES = ANY_TILE_BYTES // 16 * 17
ANY_WORDS = 16  # pieces of 4 bytes that a thread reads before it stores the first: all of a tile

ALIGN = SECTOR  # bytes: in the target, rows of tiles of tile_words.cu and of full tiles begin at multiples of this

# Blocks of a multiprocessor that registers shall leave room for, on Hopper: of tile_words.cu, and of tile_any.cu by the
# bytes of an element.
WORD_BLOCKS = 5
ANY_BLOCKS = {1: 6, 2: 8, 4: 4}

WORD_LEAST_RUN = 56  # bytes: with shorter runs, tiles of words leave too many of the 32 lanes of a row idle
WORD_GROUP = 4  # rows of a thread that tile_words.cu reads together where a tile lacks rows
WORD_TILE_B = 128  # tile_words.cu: elements of a tile along b; along a, a row of shared memory has a word per lane

# tile_nd.cu: factors of the sums in its table, boxes of a block, bytes of its table and a box, bytes of an entry, and
# element bytes -> rows that a thread moves at once
BOX_FACTORS, BOX_STEPS, BOX_SHARED_BYTES, BOX_ENTRY_BYTES = 128, 4, 24064, 16
BOX_ALONG_TARGET = 0  # 1 if a block's boxes are those that follow each other in the target, which FAR_BOXES keeps apart
BOX_ROWS = {1: 8, 2: 8, 4: 8, 8: 4, 16: 2}
FEW_ROWS = 2  # the same for steps with parameters
# On Hopper and Blackwell: boxes on their way to shared memory while another one is written from there, bytes from one
# box there to the next, and blocks of a multiprocessor that registers shall leave room for.  5 blocks of 24064 + 20480
# bytes, and the 1 KB that each reserves, fit 228 KB.
BOX_AHEAD, BOX_APART, BOX_BLOCKS = 1, 20480, 5

BOX_WORDS_MOST = 50  # instructions for an element; a box of words that takes more is not worth it
WORD_CUT = 90  # bytes that memory could move for a sector that a run cuts, as in the cost model; chooses boxes of words

# tile_nd.cu and box_words.cu: 1 if the boxes of a block are far apart, so that neighbours are moved at the same time,
# by blocks beside each other; 0 if they are neighbours
FAR_BOXES = 1

# box_words.cu: elements of a word, digits of a number, bytes of its tables and a box, boxes of a block; then, as above,
# its blocks on Hopper, and the words that a thread reads at once, by the bytes of an element, and writes
WORD, RUN_DIGITS, WORD_SHARED_BYTES, WORD_BOXES = 4, 12, 24064, 8
WORD_BOX_BLOCKS, WORD_READS, WORD_WRITES = 6, {1: 10, 2: 6}, 2

TURN_ALONG = SECTOR // 4  # bits_turn.cu, bits_turn_wide.cu: lanes of a warp that write words side by side, a sector
# bits_turn_wide.cu: bits of an element -> words of a thread in a row of the source, if addresses and strides allow so
# many; with 1, bits_turn.cu moves all.  Two blocks of 1 bit, 32 words each, would take too many registers.
TURN_WORDS = {1: 1, 2: 2, 4: 4}

BLOCKS_ALONG = (8, 16, 32, 64, 128, 256)  # bits_turn_any.cu: blocks of a tile along the target; it has one per thread
# bits_turn_any.cu: bits of an element -> words of a thread in a row of the source, 32 words in all rows; half as many
# with long offsets.  TURN_SKIP: where a row has several tiles, they begin at multiples of so many words of the target,
# of a sector, so that no two blocks write parts of one.
TURN_ANY_WORDS = {1: 1, 2: 2, 4: 4}
TURN_SKIP = SECTOR // 4

NO_DIVISION = 255  # instructions.cuh: the shift of a divisor of 1
MODES = {"raise": 0, "wrap": 1, "clip": 2, "mark": 3}  # coordinate.cuh: what becomes of an index out of bounds

MOST_PARAMETERS = 3  # element.cuh: of a move with arithmetic

_Number = int | dict[int, int]  # or one for each size of an element in bytes
FILES: dict[str, dict[str, _Number]] = {
    "move.cuh": {"THREADS": THREADS, "LANES": LANES},
    "coordinate.cuh": {name.upper(): number for name, number in MODES.items()},
    "convert.cuh": {name.upper(): number for name, number in (KINDS | SPECIAL_CODES | OPERATIONS).items()},
    "index.cuh": {"ITEMS": ITEMS},
    "instructions.cuh": {
        "ITEMS": ITEMS,
        "INSTRUCTIONS": MOST_INSTRUCTIONS,
        "TERMS": MOST_TERMS,
        "REGISTERS": MOST_REGISTERS,
        "NO_DIVISION": NO_DIVISION,
    },
    "gather.cuh": {"ITEMS": ITEMS, "FEW_ITEMS": FEW_ITEMS},
    "bits.cu": {"MOST_WRITTEN": MOST_WRITTEN, "MOST_READ": MOST_READ},
    "bits_any.cu": {"ITEMS": ITEMS},
    "bits_turn_wide.cu": {"ALONG": TURN_ALONG},
    "bits_turn_any.cu": {"MOST_ACROSS": THREADS // min(BLOCKS_ALONG)},
    "copy.cu": {"ALIGNED_ITEMS": ITEMS, "SHIFTED_ITEMS": SHIFTED_ITEMS, "CHANGED_ITEMS": CHANGED_ITEMS},
    "rows.cu": {"ALIGNED_ITEMS": ITEMS, "SHIFTED_ITEMS": SHIFTED_ITEMS, "CHANGED_ITEMS": CHANGED_ITEMS},
    "tile.cu": {"A_FIRST": A_FIRST, "A_LAST": A_LAST},
    "tile_any.cu": {
        "SHARED_BYTES": ANY_SHARED_BYTES,
        "BLOCKS": ANY_BLOCKS,
        "WORDS_AT_ONCE": ANY_WORDS,
        "FULL_A": {width: along_a for width, (along_a, _) in FULL_TILES.items()},
        "FULL_B": {width: along_b for width, (_, along_b) in FULL_TILES.items()},
    },
    "tile_words.cu": {"BLOCKS": WORD_BLOCKS, "TILE_B": WORD_TILE_B, "GROUP": WORD_GROUP},
    "tile_nd.cu": {
        "FACTORS": BOX_FACTORS,
        "BOXES": BOX_STEPS,
        "AHEAD": BOX_AHEAD,
        "APART": BOX_APART,
        "BLOCKS": BOX_BLOCKS,
        "SHARED_BYTES": BOX_SHARED_BYTES,
        "MANY_ROWS": BOX_ROWS,
        "FEW_ROWS": FEW_ROWS,
    },
    "box_words.cu": {
        "E": WORD,
        "RUN_DIGITS": RUN_DIGITS,
        "SHARED_BYTES": WORD_SHARED_BYTES,
        "MOST_BOXES": WORD_BOXES,
        "BLOCKS": WORD_BOX_BLOCKS,
        "READS": WORD_READS,
        "WRITES": WORD_WRITES,
    },
}


def defines(file_name: str) -> str:
    """The `#define` lines of a file in kernels/.

    >>> print(defines("tile_words.cu"), end="")
    #define GPL_BLOCKS 5
    #define GPL_TILE_B 128
    #define GPL_GROUP 4

    Some numbers depend on the size of an element:
    >>> print(defines("tile_any.cu"), end="")
    #define GPL_SHARED_BYTES 17408
    #define GPL_BLOCKS (GPL_ELEMENT_BYTES == 1 ? 6 : GPL_ELEMENT_BYTES == 2 ? 8 : 4)
    #define GPL_WORDS_AT_ONCE 16
    #define GPL_FULL_A (GPL_ELEMENT_BYTES == 4 ? 64 : GPL_ELEMENT_BYTES == 8 ? 32 : 16)
    #define GPL_FULL_B (GPL_ELEMENT_BYTES == 4 ? 64 : GPL_ELEMENT_BYTES == 8 ? 64 : 64)
    """
    return "".join(f"#define GPL_{name} {_text(number)}\n" for name, number in FILES.get(file_name, {}).items())


def _text(number: _Number) -> str:
    """The number in C; one that depends on the size of an element as a chain of questions, the last size unasked."""
    if isinstance(number, int):
        return str(number)
    *asked, last = number.items()
    return f"({''.join(f'GPL_ELEMENT_BYTES == {width} ? {value} : ' for width, value in asked)}{last[1]})"
