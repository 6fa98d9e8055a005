"""Names of layouts that people know, such as NHWC and NCHW16c: what a name says, and the name of a layout.

A name lists the dimensions of an array by letters, most major first.  A number with a letter is a block:

    NHWC          places (n, h, w, c)
    NCHW16c       places (n, c // 16, h, w, c % 16)
    OIhw4i16o4i   places (o // 16, i // 16, h, w, i // 4 % 4, o % 16, i % 4)

The last block of a letter is the least significant digit of its coordinate.  A dimension is padded to a multiple of the
product of its blocks.  So a name is dimensions in some order, then digits of them, which is what tiles make: they put
the digits that they cut off at the minor end.

One tile lists blocks in the order of the dimensions.  The next tile cuts the blocks that the one before it made.  So a
tile has, for every dimension, the product of the blocks from its own on.  4i 16o 4i takes two, because 16o follows 4i:

    after T(16,16,1,1)    O/16  I/16  h  w | 16o  16i  1  1
    after (16,4,1,1)      O/16  I/16  h  w |  1    4i  1  1 | 16o  4i  1  1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.graph_constants import constant_in_graphs
from gpulayout.layout.tile import COMBINE, Tile

_NUMBER = "([0-9]+)"
_MOST_DIGITS = len(str(checks.INT64_MAX))
_TOKEN = re.compile(f"([A-Za-z])(?:/{_NUMBER})?|{_NUMBER}([A-Za-z]?)")


Block = tuple[int, int]  # (dim, size): that many neighbours along a dimension are kept together


# ---- from a name to an order and tiles -----------------------------------------------------------------


def read_name(name: str, logical: str) -> tuple[tuple[int, ...], tuple[Tile, ...]]:
    """The order, most major first, and the tiles that a name says; the letters of `logical` are dimensions 0, 1, ...

    >>> read_name("NCHW16c", "NCHW")
    ((0, 1, 2, 3), (Tile((16, 1, 1)),))
    """
    shown = f"name {checks.value_text(name)}"
    if not isinstance(name, str):
        raise LayoutTypeError(f"{shown} is not text such as 'NHWC': it is {checks.type_text(name)}")
    checks.check_length(shown, name)
    letters = _letters(logical)
    tokens = _tokens(name, shown)
    outer = [(letter, divisor) for letter, divisor, _, _ in tokens if letter]
    inner = [(size, letter) for _, _, size, letter in tokens if size]
    for (_, _, size, letter), later in zip(tokens, tokens[1:]):
        if size and later[0]:
            raise LayoutError(
                f"{shown} has the block {size}{letter} before dimension {later[0]}: no layout can say that, since "
                "tiles put blocks after all dimensions"
            )
    order = _order([letter for letter, _ in outer], letters, logical, shown)
    divisors = {dim: int(divisor) for dim, (_, divisor) in zip(order, outer) if divisor}
    blocks = []
    for size, letter in inner:
        letter = letter or _letter_left_out(size, outer, shown)
        if letter.lower() not in letters:
            raise LayoutError(f"{shown} has the block {size}{letter}, whose dimension is not in logical {logical!r}")
        blocks.append((letters[letter.lower()], int(size)))
    _check_blocks(blocks, divisors, logical, shown)
    return order, _tiles(order, blocks)


def _letters(logical: str) -> dict[str, int]:
    """The dimension of every letter of `logical`, in lower case: names read the same in any case."""
    if not isinstance(logical, str):
        raise LayoutTypeError(
            f"logical {checks.value_text(logical)} is not text such as 'NCHW': it is {checks.type_text(logical)}"
        )
    dims: dict[str, int] = {}
    for dim, letter in enumerate(logical):
        if not (letter.isascii() and letter.isalpha()):
            raise LayoutError(
                f"logical {checks.value_text(logical)} is not one letter for every dimension: character {dim} is "
                f"{letter!r}"
            )
        if letter.lower() in dims:
            raise LayoutError(f"logical {checks.value_text(logical)} has two dimensions {letter}")
        dims[letter.lower()] = dim
    return dims


@constant_in_graphs
def _tokens(name: str, shown: str) -> list[tuple[str, str, str, str]]:
    """The parts of a name: (letter, divisor, "", "") for a dimension, ("", "", size, letter) for a block."""
    tokens, position = [], 0
    for token in _TOKEN.finditer(name):
        if token.start() != position:
            break
        letter, divisor, size, block = token.groups("")
        for number in (divisor, size):
            if number.startswith("0") and number != "0":
                raise LayoutError(f"{shown} has the number {checks.value_text(number)}, which begins with 0")
            if len(number) > _MOST_DIGITS:
                raise LayoutError(f"{shown} has a number of {len(number)} digits, which is more than 2^63-1")
        tokens.append((letter, divisor, size, block))
        position = token.end()
    if position < len(name):
        raise LayoutError(
            f"{shown} is not letters and blocks, as NHWC and NCHW16c are: character {position} is {name[position]!r}"
        )
    return tokens


def _order(outer: Sequence[str], letters: dict[str, int], logical: str, shown: str) -> tuple[int, ...]:
    """The dimensions in the order of a name, which has every one of them once."""
    order: dict[str, int] = {}
    for letter in outer:
        lower = letter.lower()
        if lower not in letters:
            raise LayoutError(f"{shown} has dimension {letter}, which logical {logical!r} lacks")
        if lower in order:
            raise LayoutError(f"{shown} has dimension {letter} twice: a block needs its size, such as 16{lower}")
        order[lower] = letters[lower]
    for letter in logical:
        if letter.lower() not in order:
            raise LayoutError(f"{shown} has no dimension {letter}, which logical {logical!r} has")
    return tuple(order.values())


def _letter_left_out(size: str, outer: Sequence[tuple[str, str]], shown: str) -> str:
    """The letter of a number alone at the end of a name, as TensorRT writes NC/32HW32 and NHWC8."""
    divided = [letter for letter, divisor in outer if divisor]
    if len(divided) == 1:
        return divided[0]
    if not divided and outer and outer[-1][0] in "Cc":
        return outer[-1][0]
    raise LayoutError(f"{shown} has the number {size} without the letter of a dimension, such as {size}c")


def _check_blocks(blocks: Iterable[Block], divisors: dict[int, int], logical: str, shown: str) -> None:
    """LayoutError unless blocks have sizes that can be, and are as large as what NC/32HW32 divides by."""
    products: dict[int, int] = {}
    for dim, size in blocks:
        products[dim] = products.get(dim, 1) * size
        if not 1 <= products[dim] <= checks.INT64_MAX:
            problem = "a block of 0" if not size else "blocks of more than 2^63-1"
            raise LayoutError(f"{shown} has {problem} for dimension {logical[dim]}")
    for dim, divisor in divisors.items():
        if products.get(dim) != divisor:
            blocks_are = f"blocks of {products[dim]}" if dim in products else "no block"
            raise LayoutError(f"{shown} divides {logical[dim]} by {divisor} and has {blocks_are} for it")


def _tiles(order: Sequence[int], blocks: Iterable[Block]) -> tuple[Tile, ...]:
    """The tiles that put these blocks, in this order, after dimensions in the order `order`."""
    position_of = checks.inverse(order)
    groups: list[list[Block]] = []  # one tile each: blocks in the order of their dimensions
    for dim, size in blocks:
        if size == 1:
            continue
        if not groups or position_of[dim] <= position_of[groups[-1][-1][0]]:
            groups.append([])
        groups[-1].append((dim, size))
    if not groups:
        return ()
    tiles: list[Tile] = []
    products = [1] * len(order)  # of the blocks of each dimension in this tile and later ones, in physical order
    for group in reversed(groups):
        for dim, size in group:
            products[position_of[dim]] *= size
        first = next(position for position, product in enumerate(products) if product > 1)
        tiles.insert(0, Tile(products[first:]))
    return tuple(tiles)


# ---- from an order and tiles to a name -----------------------------------------------------------------


def write_name(order: Sequence[int], tiles: Iterable[Tile], logical: str, layout: str) -> str:
    """The name of an order, most major first, and of tiles; `layout` is the text of both, for errors.

    >>> write_name((0, 2, 3, 1), [Tile((8,))], "NCHW", "{1,3,2,0:T(8)}")
    'NHWC8c'
    """
    letters = _letters(logical)
    if len(letters) != len(order):
        raise LayoutError(
            f"logical {logical!r} names {checks.counted(len(letters), 'dimension')} of layout {layout}, which has "
            f"{checks.counted(len(order), 'dimension')}"
        )
    problem = f"layout {layout} has no name: its tiles"
    digits = _digits(order, tiles, problem)
    last: dict[int, int] = {}
    for dim, step, _ in digits:
        if step > last.get(dim, step):
            raise LayoutError(
                f"{problem} put a less significant digit of dimension {logical[dim]} before a more significant one"
            )
        last[dim] = step
    blocks = (f"{size}{logical[dim].lower()}" for dim, _, size in digits)
    return "".join([logical[dim] for dim in order]) + "".join(blocks)


def _digits(order: Sequence[int], tiles: Iterable[Tile], problem: str) -> list[tuple[int, int, int]]:
    """The digits that tiles cut off, most major first: (dim, step, size) for coordinate // step % size.

    Sizes of the array are unknown.  So this holds for every array: an entry keeps None for a size that depends on it.
    """
    entries: list[tuple[int, int, int | None]] = [(dim, 1, None) for dim in order]
    for tile in tiles:
        if COMBINE in tile:
            raise LayoutError(f"{problem} join dimensions with '*'")
        if len(tile) > len(entries):
            raise LayoutError(f"{problem} have more dimensions than it has")
        kept, cut, inner = entries[: -len(tile)], entries[-len(tile) :], []
        for (dim, step, whole), size in zip(cut, tile.sizes):
            if whole is not None and whole % size:
                raise LayoutError(f"{problem} cut a block of {whole} by {size}, which leaves gaps")
            kept.append((dim, step * size, None if whole is None else whole // size))
            inner.append((dim, step, size))
        entries = [*kept, *inner]
    return [(dim, step, size) for dim, step, size in entries if size is not None and size > 1]
