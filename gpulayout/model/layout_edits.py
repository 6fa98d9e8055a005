"""Edits of a layout: each gives a new one.

Tiles belong to physical positions.  An edit that only renames dimensions keeps them; one that would put other dimensions
under the tiles is refused, because the result would be the layout of other bytes.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulayout.model import checks
from gpulayout.model.errors import LayoutError
from gpulayout.model.split_config import SplitConfig
from gpulayout.model.tile import reach

if TYPE_CHECKING:
    from gpulayout.model.layout import Layout


class LayoutEdits:
    """The part of `Layout` that makes other layouts of it."""

    def replace(self, **fields) -> Layout:
        """A copy with some fields replaced."""
        return type(self)(**self._fields() | fields)

    def permute(self, permutation: Iterable[int]) -> Layout:
        """The layout of the same bytes after a logical transpose: new dimension i is old permutation[i].

        >>> from gpulayout import Layout
        >>> Layout((0, 1, 2), padded_dimensions=(4, 5, 6)).permute((1, 2, 0))
        Layout((2, 0, 1), padded_dimensions=(5, 6, 4))
        """
        order = checks.permutation("permutation", permutation, self.rank, self._context, from_end=True)
        new_number = checks.inverse(order)
        return self._rebuild([new_number[dim] for dim in self.minor_to_major], lambda widths: [widths[d] for d in order])

    def insert_dimension(self, at: int, width: int, position: int | None = None) -> Layout:
        """A new dimension number `at`; in memory it is just above the dimension it was put in front of.

        Put at the end (`at` == rank) it becomes the most minor.  `width` is its padded size, used only when
        the layout has padded dimensions.  `position` is another place for it in memory, counted from the most minor.
        LayoutError when tiles would come to lie over other dimensions than before.
        """
        at = checks.insertion_point(at, self.rank, self._context)
        order = [dim + (dim >= at) for dim in self.minor_to_major]
        if position is None:
            position = order.index(at + 1) + 1 if at < self.rank else 0
        self._check_tiles_stay(position, "inserting a dimension")
        order.insert(position, at)
        physical = self.rank - position
        splits = [SplitConfig(split.dimension + (split.dimension >= physical), split.split_indices) for split in self.split_configs]
        return self._rebuild(order, lambda widths: [*widths[:at], width, *widths[at:]], splits)

    def delete_dimensions(self, dimensions: Iterable[int]) -> Layout:
        """Without some dimensions; those that stay keep their order and are renumbered, as their split configurations are.

        LayoutError when tiles would come to lie over other dimensions than before.
        """
        gone = checks.dimension_numbers(dimensions, self.rank, self._context)
        for dim in gone:
            self._check_tiles_stay(self.minor_to_major.index(dim), f"deleting dimension {dim}")
        kept = [dim for dim in range(self.rank) if dim not in gone]
        order = [kept.index(dim) for dim in self.minor_to_major if dim not in gone]
        physical = [position for position, dim in enumerate(self.major_to_minor) if dim not in gone]
        splits = [SplitConfig(physical.index(split.dimension), split.split_indices) for split in self.split_configs
                  if split.dimension in physical]
        return self._rebuild(order, lambda widths: [widths[dim] for dim in kept], splits)

    def delete_dimension(self, dimension: int) -> Layout:
        """Without one dimension; -1 is the last.  XLA: `DeleteDimension`, which keeps tiles that then mean something else."""
        return self.delete_dimensions((dimension,))

    def move_dimension_to_major(self, dimension: int) -> Layout:
        """One dimension becomes the most major; the others keep their order."""
        dim = checks.dimension_number(dimension, self.rank, self._context)
        return self.replace(minor_to_major=(*(d for d in self.minor_to_major if d != dim), dim))

    def move_dimension_to_minor(self, dimension: int) -> Layout:
        """One dimension becomes the most minor; the others keep their order."""
        dim = checks.dimension_number(dimension, self.rank, self._context)
        return self.replace(minor_to_major=(dim, *(d for d in self.minor_to_major if d != dim)))

    def _check_tiles_stay(self, position: int, edit: str) -> None:
        """LayoutError unless a physical position, counted from the most minor, lies above all that the tiles touch."""
        touched = reach(self.tiles)
        if position < touched:
            raise LayoutError(f"tiles {''.join(map(str, self.tiles))} would change their meaning by {edit}{self._context}: they "
                              f"touch the {checks.counted(touched, 'most minor dimension')}; drop them first, with replace(tiles=())")

    def _rebuild(self, order, widths_of, splits=None) -> Layout:
        widths = self.padded_dimensions
        return self.replace(minor_to_major=tuple(order), split_configs=self.split_configs if splits is None else tuple(splits),
                            padded_dimensions=None if widths is None else tuple(widths_of(widths)))

    @property
    def _context(self) -> str:
        return f" for layout {self}"
