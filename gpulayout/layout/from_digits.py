"""The layout whose digits have given strides, gaps included.

Sort the digits of all dimensions by stride, the largest first.  Memory is a row-major array of them, and tiles must
bring the digits into this order.  A tile cuts every entry of a list in two and moves the lower halves behind the upper
ones: with size 1 an entry stays in front, with its whole size it moves behind.  So a row of tiles can sort any list,
and the sorting goes from the front, with as many digits for each tile as it can:

    rows r, columns c of (4, 6)         wanted: r1, c1, r0, c0, with strides 12, 4, 2, 1
    dimensions (4, 6)                   have:   r, c
    T(2,2)                              have:   r1, c1, r0, c0

A gap above a digit makes it wider.  The highest digit of a dimension is widened by a padded dimension, before all
tiles.  The others are widened by one last tile, which is larger than what it cuts and leaves everything in its order.
A gap below all digits is a digit that is always 0, which a tile of 1 makes:

    8 elements, i // 2 * 5 + i % 2      T(2) makes c1, c0; (5) widens c0 to 5 places
    8 elements, i * 3                   T(1) makes c, 0; (3) widens the 0 to 3 places

Where a stride is not a multiple of the next smaller one, no digit can be widened.  Then `*` joins all digits below the
gap to one number, and this is widened:

    (4, 5, 3), r * 16 + c * 3 + b       T(*,16) joins c and b to the number c * 3 + b, and gives it 16 places
"""

from __future__ import annotations

from collections.abc import Sequence

from gpulayout.layout.checks import product
from gpulayout.layout.digits import Digit
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.strides import with_degenerate
from gpulayout.layout.tile import COMBINE, Combine, Tile

Entry = tuple[Digit, ...]  # digits of one dimension, highest first

# A tile doubles the entries from the first one that it cuts.  Most of them are then empty.  So 60 digits of a dimension
# in reverse order would take a tile of 2^59 sizes; no layout of a kernel comes near this limit.
_MOST_EMPTY = 1000


def layout_of(digits: Sequence[Digit], sizes: Sequence[int], what: str, instead: str) -> Layout:
    """The layout of dimensions `sizes` with these digits.

    what      names it in errors
    instead   what to do where no layout is small enough

    >>> str(layout_of([Digit(0, 1, 2, 1), Digit(0, 2, 4, 5)], (8,), "a mode", "split it"))
    '{0:T(2)(5)}'
    """
    minor_first = sorted(digits, key=lambda digit: digit.stride)
    padded, widths = _widened(minor_first, sizes, f"{what} is not a Layout: mode")
    by_highest_place = list(dict.fromkeys(digit.dim for digit in reversed(padded)))
    order = with_degenerate(by_highest_place[::-1], sizes)
    entries: list[Entry] = []
    padded_sizes = list(sizes)
    for dim in reversed(order):
        own = sorted((digit for digit in padded if digit.dim == dim), key=lambda digit: -digit.step)
        entries.append(tuple(own))
        padded_sizes[dim] = own[0].step * own[0].extent if own else 1
    tiles, entries = _sorting_tiles(entries, padded[::-1], what, instead)
    widening, entries = _widening_tiles(entries, widths, padded[0].stride)
    tiles += widening + _joining_tiles(entries, padded)
    return Layout(order, padded_dimensions=padded_sizes if padded_sizes != list(sizes) else None, tiles=tiles)


def _widened(digits: Sequence[Digit], sizes: Sequence[int], problem: str) -> tuple[list[Digit], dict[Digit, int]]:
    """Digits, most minor first, the highest of each dimension as wide as its gap, and the widths of the others."""
    found, widths = [], {}
    for lower, upper in zip(digits, digits[1:]):
        width, rest = divmod(upper.stride, lower.stride)
        if width < lower.extent:
            pair = f"{upper.dim} ({upper.extent}:{upper.stride}) and mode {lower.dim} ({lower.extent}:{lower.stride})"
            raise LayoutError(f"{problem} {pair} overlap or interleave")
        if rest:
            found.append(lower)
            continue
        if lower.step * lower.extent == sizes[lower.dim]:
            lower = lower._replace(extent=width)
        elif width > lower.extent:
            widths[lower] = width
        found.append(lower)
    return [*found, digits[-1]], widths


def _widening_tiles(entries: list[Entry], widths: dict[Digit, int], lowest: int) -> tuple[list[Tile], list[Entry]]:
    """Tiles that give sorted digits their widths, and the most minor one the stride `lowest`, and the entries then."""
    if not widths and lowest == 1:
        return [], entries
    tiles = []
    if lowest > 1 and entries[-1]:
        tiles, entries = [Tile([1])], [*entries, ()]
    sizes = [widths.get(entry[0], entry[0].extent) if entry else 1 for entry in entries]
    if lowest > 1:
        sizes[-1] = lowest
    first = next((place for place, entry in enumerate(entries) if entry and entry[0] in widths), len(entries) - 1)
    empty: list[Entry] = [()] * len(sizes[first:])
    return [*tiles, Tile(sizes[first:])], entries[:first] + empty + entries[first:]


def _sorting_tiles(
    entries: list[Entry], wanted: list[Digit], what: str, instead: str
) -> tuple[list[Tile], list[Entry]]:
    """Tiles that bring the digits of `entries`, most major first, into the order `wanted`, and the entries then."""
    tiles: list[Tile] = []
    settled: list[Entry] = []
    most = len(entries) + _MOST_EMPTY
    while True:
        in_place = 0
        for entry in entries:
            if len(entry) > 1 or list(entry) != wanted[: len(entry)]:
                break
            wanted = wanted[len(entry) :]  # an entry without digits is always in place
            in_place += 1
        settled += entries[:in_place]
        entries = entries[in_place:]
        if not entries:
            return tiles, settled
        upper, lower = _longest_run(entries, wanted)
        run = sum(map(len, upper))
        if not run:
            upper, lower = _cut_above(wanted[0], entries)
        if len(lower) > most:
            raise LayoutError(f"{what} needs tiles of more than {most} sizes to reorder its parts: {instead}")
        tiles.append(Tile([product(digit.extent for digit in entry) for entry in lower]))
        settled += upper if run else []
        entries = lower if run else upper + lower
        wanted = wanted[run:]


def _joining_tiles(entries: list[Entry], digits: Sequence[Digit]) -> list[Tile]:
    """Tiles for the gaps, minor first, below strides that are not multiples of the next smaller one."""
    tiles = []
    for lower, upper in zip(digits, digits[1:]):
        if upper.stride % lower.stride:
            above = entries.index((upper,)) + 1
            joined: list[int | Combine] = [COMBINE] * (len(entries) - above - 1)
            tiles.append(Tile([*joined, upper.stride]))
            entries = [*entries[:above], (), (lower,)]  # the last one stands for the number
    return tiles


def _longest_run(entries: list[Entry], wanted: list[Digit]) -> tuple[list[Entry], list[Entry]]:
    """What one tile leaves in front of each entry and what it moves behind.

    In front stays the longest run of wanted digits that lead their entries, in the order of the entries.
    """
    upper: list[Entry] = [()] * len(entries)
    lower = list(entries)
    after = 0
    for digit in wanted:
        place = next((n for n in range(after, len(entries)) if entries[n][:1] == (digit,)), None)
        if place is None:
            break
        upper[place], lower[place] = entries[place][:1], entries[place][1:]
        after = place + 1
    return upper, lower


def _cut_above(digit: Digit, entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The same for a tile that cuts only above a digit, which then leads an entry."""
    cuts = [entry.index(digit) if digit in entry else 0 for entry in entries]
    return [entry[:cut] for entry, cut in zip(entries, cuts)], [entry[cut:] for entry, cut in zip(entries, cuts)]
