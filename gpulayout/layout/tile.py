"""Tiles: they cut the most minor dimensions of an array into blocks that are contiguous in memory.

A tile lists one size for each of the most minor *physical* dimensions, from major to minor.  T(2,4) on a 4 x 8 array
makes 2 x 2 blocks of 2 x 4 elements: sizes (4, 8) become (2, 2, 2, 4).  `COMBINE` in a tile joins that dimension with
the next more minor one before the cut: T(2,*,128) on 2 x 3 x 1004 cuts a 2 x 3012 array.  `digits` states the law.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsIndex

from gpulayout.layout import checks
from gpulayout.layout.argument_hints import corrects, numbers_in, of_one_sequence
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.frozen import Frozen, Sign


class Combine(Sign):
    """`COMBINE`, written `*` in text: a tile entry that joins a dimension with the next more minor one before the cut.

    It is not a number, so arithmetic with it fails.

    Examples
    --------
    `T(*,4)` on 3 x 5 cuts one dimension of 15:

    >>> import gpulayout as gl
    >>> gl.Shape("f32", (3, 5), gl.Layout((1, 0), tiles=((COMBINE, 4),))).physical_dimensions
    (4, 4)
    """

    COMBINE = "*"


COMBINE = Combine.COMBINE


@corrects(of_one_sequence, dimensions="Iterable[int | Combine | str]")
@dataclass(frozen=True, repr=False)
class Tile(Frozen):
    """A tile: it cuts the most minor dimensions into blocks of these sizes, each contiguous in memory.

    Immutable and hashable; it has a length and can be iterated.

    Parameters
    ----------
    dimensions : iterable of int or COMBINE
        Sizes in elements, from major to minor, each at least 1.  `COMBINE`, or its text "*", joins a dimension with
        the next more minor one and may not be last.

    Raises
    ------
    LayoutError
        There are no sizes, a size is less than 1, or `COMBINE` is last.

    Notes
    -----
    Blocks are whole: those at the edges of the array are padded.  The model is XLA's `Tile`.

    Examples
    --------
    3 x 5 elements in tiles of 2 x 4 make 2 x 2 tiles:

    >>> from gpulayout import Layout, Shape
    >>> Shape("f32", (3, 5), Layout((1, 0), tiles=[Tile((2, 4))])).physical_dimensions
    (2, 2, 2, 4)

    >>> tile = Tile((2, COMBINE, 128))
    >>> str(tile), len(tile), tile.sizes
    ('(2,*,128)', 3, (2, 128))
    """

    dimensions: tuple[int | Combine, ...]

    if TYPE_CHECKING:  # what a caller may write

        def __init__(self, dimensions: Iterable[SupportsIndex | Combine | str]) -> None: ...

    def __post_init__(self) -> None:
        values = self.dimensions
        is_scalar = getattr(values, "shape", None) == ()  # of NumPy, which can be iterated over only by its type
        if isinstance(values, (str, bytes)) or is_scalar or not isinstance(values, Iterable):
            sizes_text = checks.shown((values,)) if checks.are_sizes((values,)) else None
            sizes_text = numbers_in(values.removeprefix("T")) if isinstance(values, str) else sizes_text
            hint = f", write {sizes_text}" if sizes_text else ""
            raise LayoutTypeError(
                f"tile {checks.value_text(values)} is not a sequence of sizes: it is {checks.type_text(values)}{hint}"
            )
        entries = tuple(COMBINE if isinstance(entry, str) and entry == "*" else entry for entry in values)
        given = [entry for entry in entries if entry is not COMBINE]
        if len(given) < len(entries) and not checks.are_sizes(given):
            wrong = next(at for at, entry in enumerate(entries) if entry in given and not checks.are_sizes((entry,)))
            raise LayoutTypeError(
                f"tile {checks.shown(entries)} has an entry that is neither a size in 1..2^63-1 nor '*': entry "
                f"{wrong} is {checks.value_text(entries[wrong])}"
            )
        sizes = iter(checks.sizes("tile", given))
        entries = tuple(entry if entry is COMBINE else next(sizes) for entry in entries)
        if not entries:
            raise LayoutError("tile () has no sizes: it needs at least one")
        if 0 in entries:
            raise LayoutError(
                f"tile {checks.shown(entries)} has a size of 0: entry {entries.index(0)} must be at least 1"
            )
        if entries[-1] is COMBINE:
            raise LayoutError(
                f"tile {checks.shown(entries)} ends with '*': there is no more minor dimension to combine with"
            )
        self._set("dimensions", entries)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes without `COMBINE`, one for every group of dimensions that the tile cuts."""
        return tuple(entry for entry in self.dimensions if entry is not COMBINE)

    @property
    def groups(self) -> tuple[int, ...]:
        """The number of dimensions in each group: ``(2, *, 128)`` cuts one dimension, then two joined.

        >>> Tile((2, COMBINE, 128)).groups
        (1, 2)
        """
        ends = [position for position, entry in enumerate(self.dimensions) if entry is not COMBINE]
        return tuple(end - start for start, end in zip([-1, *ends], ends))

    def __len__(self) -> int:
        return len(self.dimensions)

    def __iter__(self) -> Iterator[int | Combine]:
        return iter(self.dimensions)

    def __str__(self) -> str:
        """The text form, `(8,128)`, which follows T in a layout."""
        return f"({','.join(map(str, self.dimensions))})"

    def __repr__(self) -> str:
        return f"Tile({self.dimensions})"


def as_tiles(value: object) -> tuple[Tile, ...]:
    """A tuple of tiles from a sequence of tiles or of sequences of sizes."""
    if type(value) is tuple and not value:
        return ()
    if not isinstance(value, (tuple, list)):
        hint = f": write [{value}]" if isinstance(value, Tile) else _of_text(value) if isinstance(value, str) else ""
        raise LayoutTypeError(f"tiles {checks.value_text(value)} is not a sequence of tiles{hint}")
    if value and all(isinstance(size, int) for size in value):
        raise LayoutTypeError(
            f"tiles {checks.shown(value)} is a sequence of sizes, not of tiles: for one tile, write "
            f"[{checks.shown(tuple(value))}]"
        )
    return tuple(tile if isinstance(tile, Tile) else Tile(tile) for tile in value)


def _of_text(text: str) -> str:
    """What to write instead of text such as `T(8,128)(2,1)`."""
    match = re.fullmatch(r"T?((?:\([0-9, ]+\))+)", text[:200])
    tiles = [numbers_in(tile) for tile in re.findall(r"\([^()]*\)", match[1])] if match else []
    if not tiles or None in tiles:
        return ": write ((8, 128),)"
    return f": write ({', '.join(map(str, tiles))}{',' if len(tiles) == 1 else ''})"


def reach(tiles: Iterable[Tile]) -> int:
    """The number of most minor physical dimensions that the tiles cut; more major ones stay whole.

    T(8,128)(2,1) cuts 2.  T(2)(2,2,2) cuts 2: the first tile makes two entries of one dimension, and the second takes
    three entries.
    """
    dimensions = entries = 0  # cut so far, and the list entries they have become
    for tile in tiles:
        dimensions += max(len(tile) - entries, 0)
        entries = max(entries, len(tile)) - len(tile) + 2 * len(tile.groups)
    return dimensions
