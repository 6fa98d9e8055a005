"""A layout: in which order the dimensions run through memory, how far each one is padded, and how they are tiled.

`minor_to_major` lists logical dimension numbers from the fastest-varying (most minor) to the slowest.
For a shape with dimensions (2, 3), elements a b c / d e f:

    minor_to_major (1, 0)     dimension 1 is minor: a b c d e f        descending, "row-major"
    minor_to_major (0, 1)     dimension 0 is minor: a d b e c f        ascending, "column-major"

`padded_dimensions` gives every dimension a width in memory, in *logical* order, at least its size.  The padding is
at the high end of each dimension.  With widths (3, 5) the second example becomes a d 0 b e 0 c f 0 0 0 0 0 0 0.
`tiles` cut the padded, ordered dimensions into blocks; `digits` has the law.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpulayout.model import checks, layout_fields
from gpulayout.model.element_type import ElementType
from gpulayout.model.frozen import Frozen
from gpulayout.model.layout_edits import LayoutEdits
from gpulayout.model.padding import PaddingValue, Scalar, scalar_key
from gpulayout.model.slips import corrects, of_layout
from gpulayout.model.split_config import SplitConfig, as_split_configs
from gpulayout.model.tile import Tile, as_tiles


@corrects(of_layout)
@dataclass(frozen=True, eq=False, repr=False)
class Layout(LayoutEdits, Frozen):
    """Order, padding and tiling of an array in memory.  Immutable, hashable, validated when made.

    minor_to_major          every dimension number 0..rank-1 once, most minor first
    padded_dimensions       width in memory of every dimension, in logical order, or None for no padding
    padding_value           a `PaddingValue` or its name in text ("lowest"), a number, or None, which fills zeros
    tiles                   `Tile`s or sequences of sizes, applied in order to the padded widths in physical order
    tail_padding_alignment  the number of places is rounded up to a multiple of this
    element_size_in_bits    bits of one element, or 0 for its type's whole bytes; below 8 elements are packed
    memory_space            0..127, a label: 0 is the device's main memory
    split_configs           `SplitConfig`s: where the array is cut into parts in several memories; kept and printed
    dynamic_shape_metadata_prefix_bytes    bytes that a runtime keeps in front of the data; kept, printed, never compared
    index_type, pointer_type               unsigned types left over from sparse layouts; kept and printed

    Raises LayoutError when the fields contradict each other; what needs the sizes of the dimensions is checked by
    `Shape`.  The model is XLA's `Layout`, with the two padding fields of its first releases.

    >>> layout = Layout((0, 1), padded_dimensions=(3, 5), padding_value=PaddingValue.LOWEST, tiles=((2, 4), (2, 1)))
    >>> str(layout), layout.rank, layout.major_to_minor
    ('{0,1:PD(3,5)PV(lowest)T(2,4)(2,1)}', 2, (1, 0))
    """

    minor_to_major: tuple[int, ...]
    padded_dimensions: tuple[int, ...] | None = field(default=None, kw_only=True)
    padding_value: PaddingValue | Scalar | None = field(default=None, kw_only=True)
    tiles: tuple[Tile, ...] = field(default=(), kw_only=True)
    tail_padding_alignment: int = field(default=1, kw_only=True)
    element_size_in_bits: int = field(default=0, kw_only=True)
    memory_space: int = field(default=0, kw_only=True)
    split_configs: tuple[SplitConfig, ...] = field(default=(), kw_only=True)
    dynamic_shape_metadata_prefix_bytes: int = field(default=0, kw_only=True)
    index_type: ElementType | None = field(default=None, kw_only=True)
    pointer_type: ElementType | None = field(default=None, kw_only=True)

    def __post_init__(self):
        order = checks.permutation("minor_to_major", self.minor_to_major)
        widths = layout_fields.padded_dimensions(self.padded_dimensions, order)
        self._set("minor_to_major", order)
        self._set("padded_dimensions", widths)
        self._set("padding_value", layout_fields.padding_value(self.padding_value, widths))
        self._set("tiles", as_tiles(self.tiles))
        for name, (least, most) in layout_fields.NUMBERS.items():
            self._set(name, layout_fields.number(name, getattr(self, name), least, most))
        self._set("split_configs", as_split_configs(self.split_configs, len(order)))
        for name in ("index_type", "pointer_type"):
            self._set(name, layout_fields.sparse_type(name, getattr(self, name)))
        compared = self._fields() | {"padding_value": scalar_key(self.padding_value)}
        del compared["dynamic_shape_metadata_prefix_bytes"]
        self._set("_key", tuple(compared.values()))
        self._set("_hash", hash(self._key))

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

    @property
    def is_packed(self) -> bool:
        """True when several elements lie in one byte."""
        return 0 < self.element_size_in_bits < 8

    # ---- value ----------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """All fields but `dynamic_shape_metadata_prefix_bytes`, as in XLA."""
        return self is other or (self._key == other._key if isinstance(other, Layout) else NotImplemented)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        """The text form: `{0,1:PD(3,5)PV(lowest)T(8,128)}`; the inverse of `parse_layout`."""
        properties = layout_fields.properties_text(self)
        return f"{{{','.join(map(str, self.minor_to_major))}{':' + properties if properties else ''}}}"

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in self._fields() if name != "minor_to_major")
        default = type(self).__dataclass_fields__
        extra = "".join(f", {name}={value!r}" if name != "padding_value" else f", {name}={value}" for name, value in given
                        if value is not default[name].default and value != default[name].default)
        return f"Layout({self.minor_to_major}{extra})"
