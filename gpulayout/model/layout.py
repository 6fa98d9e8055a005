"""A layout: in which order the dimensions run through memory, and how far each one is padded.

`minor_to_major` lists logical dimension numbers from the fastest-varying (most minor) to the slowest.
For a shape with dimensions (2, 3), elements a b c / d e f:

    minor_to_major (1, 0)     dimension 1 is minor: a b c d e f        descending, "row-major"
    minor_to_major (0, 1)     dimension 0 is minor: a d b e c f        ascending, "column-major"

`padded_dimensions` gives every dimension a width in memory, in *logical* order, at least its size.  The padding is
at the high end of each dimension.  With widths (3, 5) the second example becomes a d 0 b e 0 c f 0 0 0 0 0 0 0.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpulayout.model import checks
from gpulayout.model.errors import LayoutError, LayoutTypeError
from gpulayout.model.frozen import Frozen
from gpulayout.model.padding import PaddingValue, Scalar, plain_scalar, scalar_key, value_text


@dataclass(frozen=True, eq=False, repr=False)
class Layout(Frozen):
    """Order and padding of an array in memory.  Immutable, hashable, validated when made.

    minor_to_major       every dimension number 0..rank-1 once, most minor first
    padded_dimensions    width in memory of every dimension, in logical order, or None for no padding
    padding_value        a `PaddingValue` or its name in text ("lowest"), a number, or None, which fills zeros
    tiles                empty: layouts of this version are untiled

    Raises LayoutError when the fields contradict each other; that a width is at least the size of its dimension
    is checked by `Shape`, which knows the sizes.  The model is XLA's `Layout`, with the two padding fields of
    its first releases.

    >>> layout = Layout((0, 1), padded_dimensions=(3, 5), padding_value=PaddingValue.LOWEST)
    >>> str(layout), layout.rank, layout.major_to_minor
    ('{0,1:PD(3,5)PV(lowest)}', 2, (1, 0))
    """

    minor_to_major: tuple[int, ...]
    padded_dimensions: tuple[int, ...] | None = field(default=None, kw_only=True)
    padding_value: PaddingValue | Scalar | None = field(default=None, kw_only=True)
    tiles: tuple = field(default=(), kw_only=True)

    def __post_init__(self):
        order = checks.permutation("minor_to_major", self.minor_to_major)
        self._set("minor_to_major", order)
        if self.padded_dimensions is not None:
            widths = checks.sizes("padded_dimensions", self.padded_dimensions)
            if len(widths) != len(order):
                raise LayoutError(f"padded_dimensions {checks.shown(widths)} has {checks.counted(len(widths), 'entry')}: "
                                  f"minor_to_major {checks.shown(order)} orders {checks.counted(len(order), 'dimension')}")
            self._set("padded_dimensions", widths)
        if self.padding_value is not None:
            self._set("padding_value", self._checked_padding_value())
        if not isinstance(self.tiles, (tuple, list)):
            raise LayoutTypeError(f"tiles {self.tiles!r} is not a sequence of tiles")
        if self.tiles:
            raise LayoutError(f"tiles {checks.shown(self.tiles)} cannot be used with minor_to_major {checks.shown(order)}: "
                              "tiled layouts are not supported")
        self._set("tiles", ())
        key = (self.minor_to_major, self.padded_dimensions, scalar_key(self.padding_value))
        self._set("_key", key)
        self._set("_hash", hash(key))

    def _checked_padding_value(self) -> PaddingValue | Scalar | None:
        value = plain_scalar(self.padding_value)
        if value is not PaddingValue.INVALID:
            return value
        if self.padded_dimensions is not None:
            raise LayoutError("padding_value INVALID says nothing about padded_dimensions "
                              f"{checks.shown(self.padded_dimensions)}: use None for zeros, or a named value")
        return None

    # ---- named orders -------------------------------------------------------------------------------

    @staticmethod
    def descending(rank: int) -> Layout:
        """Dimension 0 is the most major (row-major at rank 2): the default of every shape.

        >>> Layout.descending(3).minor_to_major
        (2, 1, 0)
        """
        return Layout(range(checks.count("rank", rank) - 1, -1, -1))

    @staticmethod
    def ascending(rank: int) -> Layout:
        """Dimension 0 is the most minor (column-major at rank 2).

        >>> Layout.ascending(3).minor_to_major
        (0, 1, 2)
        """
        return Layout(range(checks.count("rank", rank)))

    @staticmethod
    def from_major_to_minor(major_to_minor: Iterable[int], **fields) -> Layout:
        """The layout whose dimensions run in the given order, most major first (as JAX writes it).

        >>> Layout.from_major_to_minor((0, 3, 1, 2)).minor_to_major
        (2, 1, 3, 0)
        """
        return Layout(checks.permutation("major_to_minor", major_to_minor)[::-1], **fields)

    # ---- questions ----------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.minor_to_major)

    @property
    def major_to_minor(self) -> tuple[int, ...]:
        """Dimension numbers from the slowest-varying to the fastest."""
        return self.minor_to_major[::-1]

    @property
    def is_descending(self) -> bool:
        """True when dimension 0 is major and the rest follow in order; true for ranks 0 and 1.

        XLA: `IsMonotonicWithDim0Major`.
        """
        return self.minor_to_major == tuple(range(self.rank - 1, -1, -1))

    @property
    def is_ascending(self) -> bool:
        """True when dimension 0 is minor and the rest follow in order; true for ranks 0 and 1.

        XLA: `IsMonotonicWithDim0Minor`.
        """
        return self.minor_to_major == tuple(range(self.rank))

    is_monotonic_with_dim0_major = is_descending
    is_monotonic_with_dim0_minor = is_ascending

    def minor(self, position: int) -> int:
        """The logical dimension at a physical position counted from the most minor (0)."""
        return self.minor_to_major[checks.dimension_number(position, self.rank, self._context, "physical position")]

    def major(self, position: int) -> int:
        """The logical dimension at a physical position counted from the most major (0)."""
        return self.major_to_minor[checks.dimension_number(position, self.rank, self._context, "physical position")]

    def logical_to_physical(self) -> tuple[int, ...]:
        """For every logical dimension its physical position, 0 being the most major.

        >>> Layout((3, 0, 2, 1)).logical_to_physical()
        (2, 0, 1, 3)
        """
        return checks.inverse(self.major_to_minor)

    def are_dimensions_consecutive(self, dimensions: Iterable[int]) -> bool:
        """True when the dimensions are neighbours in memory, in whatever order; true for none of them."""
        wanted = checks.dimension_numbers(dimensions, self.rank, self._context)
        positions = [self.minor_to_major.index(dim) for dim in wanted]
        return not positions or max(positions) - min(positions) == len(positions) - 1

    # ---- edits: each gives a new layout -------------------------------------------------------------

    def replace(self, **fields) -> Layout:
        """A copy with some fields replaced."""
        return Layout(**self._fields() | fields)

    def permute(self, permutation: Iterable[int]) -> Layout:
        """The layout of the same bytes after a logical transpose: new dimension i is old permutation[i].

        >>> Layout((0, 1, 2), padded_dimensions=(4, 5, 6)).permute((1, 2, 0))
        Layout((2, 0, 1), padded_dimensions=(5, 6, 4))
        """
        order = checks.permutation("permutation", permutation, self.rank, self._context, from_end=True)
        new_number = checks.inverse(order)
        return self._rebuild([new_number[dim] for dim in self.minor_to_major], lambda widths: [widths[d] for d in order])

    def insert_dimension(self, at: int, width: int) -> Layout:
        """A new dimension number `at`; in memory it is just above the dimension it was put in front of.

        Put at the end (`at` == rank) it becomes the most minor.  `width` is its padded size, used only when
        the layout has padded dimensions.
        """
        at = checks.insertion_point(at, self.rank, self._context)
        order = [dim + (dim >= at) for dim in self.minor_to_major]
        order.insert(order.index(at + 1) + 1 if at < self.rank else 0, at)
        return self._rebuild(order, lambda widths: [*widths[:at], width, *widths[at:]])

    def delete_dimensions(self, dimensions: Iterable[int]) -> Layout:
        """Without some dimensions; those that stay keep their order and are renumbered."""
        gone = checks.dimension_numbers(dimensions, self.rank, self._context)
        kept = [dim for dim in range(self.rank) if dim not in gone]
        order = [kept.index(dim) for dim in self.minor_to_major if dim not in gone]
        return self._rebuild(order, lambda widths: [widths[dim] for dim in kept])

    def move_dimension_to_major(self, dimension: int) -> Layout:
        """One dimension becomes the most major; the others keep their order."""
        dim = checks.dimension_number(dimension, self.rank, self._context)
        return self.replace(minor_to_major=(*(d for d in self.minor_to_major if d != dim), dim))

    def move_dimension_to_minor(self, dimension: int) -> Layout:
        """One dimension becomes the most minor; the others keep their order."""
        dim = checks.dimension_number(dimension, self.rank, self._context)
        return self.replace(minor_to_major=(dim, *(d for d in self.minor_to_major if d != dim)))

    def _rebuild(self, order, widths_of) -> Layout:
        widths = self.padded_dimensions
        return self.replace(minor_to_major=tuple(order),
                            padded_dimensions=None if widths is None else tuple(widths_of(widths)))

    @property
    def _context(self) -> str:
        return f" for layout {self}"

    # ---- value ----------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self is other or (self._key == other._key if isinstance(other, Layout) else NotImplemented)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        """The text form: `{0,1:PD(3,5)PV(lowest)}`; the inverse of `parse_layout`."""
        properties = ""
        if self.padded_dimensions is not None:
            properties += f"PD({','.join(map(str, self.padded_dimensions))})"
        if self.padding_value is not None:
            properties += f"PV({value_text(self.padding_value)})"
        return f"{{{','.join(map(str, self.minor_to_major))}{':' + properties if properties else ''}}}"

    def __repr__(self) -> str:
        extra = "".join(f", {name}={value}" for name, value in
                        (("padded_dimensions", self.padded_dimensions), ("padding_value", self.padding_value))
                        if value is not None)
        return f"Layout({self.minor_to_major}{extra})"
