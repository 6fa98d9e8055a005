"""A layout: the order of the dimensions in memory, the padding of each, and the tiles.

`minor_to_major` lists logical dimension numbers from the fastest-varying (most minor) to the slowest.
For a shape with dimensions (2, 3) and elements a b c / d e f:

    minor_to_major (1, 0)     dimension 1 is minor: a b c d e f        descending, "row-major"
    minor_to_major (0, 1)     dimension 0 is minor: a d b e c f        ascending, "column-major"

`padded_dimensions` gives every dimension a width in memory, in *logical* order, at least its size.  The padding is
at the high end of each dimension.  With widths (3, 5) the second example becomes a d 0 b e 0 c f 0 0 0 0 0 0 0.
`tiles` cut the padded, ordered dimensions into blocks; `digits` states the law.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from gpulayout.layout import checks, layout_fields, names
from gpulayout.layout.argument_hints import corrects, corrects_call, of_layout, of_name, of_named
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.frozen import Keyed
from gpulayout.layout.layout_fields import Pair, SplitConfig, as_split_configs
from gpulayout.layout.padding import PaddingValue, Scalar, scalar_key
from gpulayout.layout.picture import Picture, drawn
from gpulayout.layout.tile import Combine, Tile, as_tiles, reach


@corrects(
    of_layout,
    minor_to_major="Iterable[int]",
    padded_dimensions="Iterable[int] | None",
    padding_value="PaddingValue | Scalar | str | None",
    tiles="Sequence[Tile | Iterable[int | Combine | str]]",
    split_configs="Sequence[SplitConfig]",
    index_type="str | DTypeLike | None",
    pointer_type="str | DTypeLike | None",
)
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Layout(Keyed):
    """Order, padding and tiling of an array in memory.  Immutable, hashable, checked on construction.

    Parameters
    ----------
    minor_to_major : iterable of int
        Every dimension number 0..rank-1 once, the fastest-varying (most minor) first.
    padded_dimensions : iterable of int, optional
        Width of every dimension in memory, in elements and in logical order.  The padding is at the high end.
    padding_value : PaddingValue, str or number, optional
        What fills padding: a `PaddingValue`, its name in text ("lowest"), or a number.  None fills zeros.
    tiles : sequence of Tile or of sequences of int, optional
        Cut the padded widths in physical order, one tile after the other.
    tail_padding_alignment : int, optional
        The length of the buffer, in elements, is rounded up to a multiple of this; 1 by default.
    element_size_in_bits : int, optional
        Bits of one element, or 0 (the default) for the whole bytes of its type.  Below 8, elements are packed.
    bit_order : {"little", "big"}, optional
        Whether the first packed element of a byte has its lowest bits, the default, or its highest, as NumPy packs.
    memory_space : int, optional
        A label, 0..127; 0, the default, is the main memory of the device.
    split_configs : sequence of SplitConfig, optional
        Where the array is split across memories.  Kept and printed; such an array cannot be moved.
    dynamic_shape_metadata_prefix_bytes : int, optional
        Bytes that a runtime keeps in front of the data, 0 by default.  Kept and printed, not compared.
    index_type, pointer_type : str or DTypeLike, optional
        Unsigned types, left over from sparse layouts.  Kept and printed.

    Raises
    ------
    LayoutError
        The fields contradict each other.  `Shape` checks them against the dimensions.

    See Also
    --------
    parse_layout : a layout from its text.
    Layout.descending, Layout.ascending : row-major and column-major.

    Notes
    -----
    The model is XLA's `Layout`, with the two padding fields of its first releases and a bit order.

    Examples
    --------
    >>> layout = Layout((0, 1), padded_dimensions=(3, 5), padding_value="lowest", tiles=((2, 4), (2, 1)))
    >>> str(layout), layout.rank, layout.major_to_minor
    ('{0,1:PD(3,5)PV(lowest)T(2,4)(2,1)}', 2, (1, 0))
    """

    minor_to_major: tuple[int, ...]
    padded_dimensions: tuple[int, ...] | None = field(default=None, kw_only=True)
    padding_value: PaddingValue | Scalar | None = field(default=None, kw_only=True)
    tiles: tuple[Tile, ...] = field(default=(), kw_only=True)
    tail_padding_alignment: int = field(default=1, kw_only=True)
    element_size_in_bits: int = field(default=0, kw_only=True)
    bit_order: layout_fields.BitOrder = field(default="little", kw_only=True)
    memory_space: int = field(default=0, kw_only=True)
    split_configs: tuple[SplitConfig, ...] = field(default=(), kw_only=True)
    dynamic_shape_metadata_prefix_bytes: int = field(default=0, kw_only=True)
    index_type: ElementType | None = field(default=None, kw_only=True)
    pointer_type: ElementType | None = field(default=None, kw_only=True)

    def __init__(
        self,
        minor_to_major: Iterable[SupportsIndex],
        *,
        padded_dimensions: Iterable[SupportsIndex] | None = None,
        padding_value: PaddingValue | Scalar | np.generic | str | None = None,
        tiles: Sequence[Tile | Iterable[SupportsIndex | Combine | str]] = (),
        tail_padding_alignment: SupportsIndex = 1,
        element_size_in_bits: SupportsIndex = 0,
        bit_order: layout_fields.BitOrder = "little",
        memory_space: SupportsIndex = 0,
        split_configs: Sequence[SplitConfig | Pair] = (),
        dynamic_shape_metadata_prefix_bytes: SupportsIndex = 0,
        index_type: str | DTypeLike | None = None,
        pointer_type: str | DTypeLike | None = None,
    ) -> None:
        number, sparse_type = layout_fields.number, layout_fields.sparse_type
        order = checks.permutation("minor_to_major", minor_to_major)
        widths = layout_fields.padded_dimensions(padded_dimensions, order)
        fields: dict[str, Any] = {
            "minor_to_major": order,
            "padded_dimensions": widths,
            "padding_value": layout_fields.padding_value(padding_value, widths),
            "tiles": as_tiles(tiles),
            "tail_padding_alignment": number("tail_padding_alignment", tail_padding_alignment),
            "element_size_in_bits": (bits := number("element_size_in_bits", element_size_in_bits)),
            "bit_order": layout_fields.bit_order(bit_order, bits),
            "memory_space": number("memory_space", memory_space),
            "split_configs": as_split_configs(split_configs, len(order)),
            "index_type": sparse_type("index_type", index_type),
            "pointer_type": sparse_type("pointer_type", pointer_type),
        }
        key = tuple({**fields, "padding_value": scalar_key(fields["padding_value"])}.values())
        prefix = "dynamic_shape_metadata_prefix_bytes"
        fields[prefix] = number(prefix, dynamic_shape_metadata_prefix_bytes)
        self._fill(fields, key)

    # ---- named orders -------------------------------------------------------------------------------

    @staticmethod
    def descending(rank: SupportsIndex) -> Layout:
        """The layout with dimension 0 most major (row-major at rank 2), the default of every shape.

        >>> Layout.descending(3).minor_to_major
        (2, 1, 0)
        """
        return Layout(range(checks.rank_of(rank) - 1, -1, -1))

    @staticmethod
    def ascending(rank: SupportsIndex) -> Layout:
        """The layout with dimension 0 most minor (column-major at rank 2).

        >>> Layout.ascending(3).minor_to_major
        (0, 1, 2)
        """
        return Layout(range(checks.rank_of(rank)))

    @staticmethod
    def from_major_to_minor(major_to_minor: Iterable[SupportsIndex], **fields: Any) -> Layout:
        """The layout of an order given most major first, as JAX writes it.

        Parameters
        ----------
        major_to_minor : iterable of int
            Every dimension number 0..rank-1 once, most major first.
        **fields
            The other fields of `Layout`.

        Examples
        --------
        >>> Layout.from_major_to_minor((0, 3, 1, 2)).minor_to_major
        (2, 1, 3, 0)
        """
        return Layout(checks.permutation("major_to_minor", major_to_minor)[::-1], **fields)

    @staticmethod
    @corrects_call(of_named)
    def named(name: str, *, logical: str, **fields: Any) -> Layout:
        """The layout with a name that people know, such as NHWC or NCHW16c.

        Parameters
        ----------
        name : str
            One letter for every dimension, most major first; then blocks, each a number and a letter.
        logical : str
            The same letters in the order of the array's dimensions: "NCHW" for an array of shape (n, c, h, w).
        **fields
            The other fields of `Layout`, without `tiles`.

        Returns
        -------
        Layout

        Raises
        ------
        LayoutError
            The letters of the two do not match, or no layout can say what the name says.

        See Also
        --------
        Layout.name : the inverse.

        Notes
        -----
        Any letters will do, and capitals mean the same as small letters: ``NCHW16c`` of TVM and ``nChw16c`` of oneDNN
        are one layout.  ``16c`` keeps 16 neighbours along C together, as a tile: C is padded to a multiple of 16, and
        element (n, c, h, w) is element (n, c // 16, h, w, c % 16) of a row-major array.  Of several blocks of a letter,
        the last holds the nearest neighbours.  TensorRT's ``NC/32HW32`` is ``NCHW32c``; its ``NHWC8`` is ``NHWC8c``.

        Examples
        --------
        >>> from gpulayout import Layout
        >>> Layout.named("NHWC", logical="NCHW")
        Layout((1, 3, 2, 0))
        >>> str(Layout.named("NCHW16c", logical="NCHW")), str(Layout.named("OIhw4i16o4i", logical="OIHW"))
        ('{3,2,1,0:T(16,1,1)}', '{3,2,1,0:T(16,16,1,1)(16,4,1,1)}')
        """
        order, tiles = names.read_name(name, logical)
        return Layout(order[::-1], tiles=tiles, **fields)

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
        """True when dimension 0 is the most major and the others follow in order; True for ranks 0 and 1.

        XLA: `IsMonotonicWithDim0Major`.
        """
        return self.minor_to_major == tuple(range(self.rank - 1, -1, -1))

    @property
    def is_ascending(self) -> bool:
        """True when dimension 0 is the most minor and the others follow in order; True for ranks 0 and 1.

        XLA: `IsMonotonicWithDim0Minor`.
        """
        return self.minor_to_major == tuple(range(self.rank))

    @corrects_call(of_name)
    def name(self, *, logical: str) -> str:
        """The name of the layout: the inverse of `Layout.named`.

        Parameters
        ----------
        logical : str
            One letter for every dimension, in the order of the array's dimensions.

        Returns
        -------
        str
            A name whose layout has every element of every array at the same place.

        Raises
        ------
        LayoutError
            No name says it: a field other than order and tiles is set, or tiles do more than blocks.

        Examples
        --------
        >>> from gpulayout import Layout, parse_layout
        >>> Layout((1, 3, 2, 0)).name(logical="NCHW"), parse_layout("{1,0:T(8,128)(2,1)}").name(logical="HW")
        ('NHWC', 'HW4h128w2h')
        """
        others = layout_fields.properties_text(self.replace(tiles=()))
        if others:
            raise LayoutError(f"layout {self} has no name: names say order and tiles only, not {others}")
        return names.write_name(self.major_to_minor, self.tiles, logical, str(self))

    def minor(self, position: SupportsIndex) -> int:
        """The logical dimension at a physical position, 0 being the most minor."""
        return self.minor_to_major[checks.dimension_number(position, self.rank, self._context, "physical position")]

    def major(self, position: SupportsIndex) -> int:
        """The logical dimension at a physical position, 0 being the most major."""
        return self.major_to_minor[checks.dimension_number(position, self.rank, self._context, "physical position")]

    def logical_to_physical(self) -> tuple[int, ...]:
        """The physical position of every logical dimension, 0 being the most major.

        >>> Layout((3, 0, 2, 1)).logical_to_physical()
        (2, 0, 1, 3)
        """
        return checks.inverse(self.major_to_minor)

    def are_dimensions_consecutive(self, dimensions: Iterable[SupportsIndex]) -> bool:
        """True when the dimensions are neighbours in memory, in any order; True for no dimensions."""
        wanted = checks.dimension_numbers(dimensions, self.rank, self._context)
        positions = [self.minor_to_major.index(dim) for dim in wanted]
        return not positions or max(positions) - min(positions) == len(positions) - 1

    @property
    def is_packed(self) -> bool:
        """True when several elements share a byte."""
        return 0 < self.element_size_in_bits < 8

    # ---- edits: each gives a new layout ----------------------------------------------------------------
    #
    # Tiles belong to physical positions.  An edit that only renumbers dimensions keeps them.  One that would put other
    # dimensions under the tiles is refused, because the result would describe other bytes.

    def replace(self, **fields: Any) -> Layout:
        """A copy with some fields replaced: `layout.replace(tiles=())`."""
        return type(self)(**{**self._fields(), **fields})

    def permute(self, permutation: Iterable[SupportsIndex]) -> Layout:
        """The layout of the same bytes after a logical transpose.

        Parameters
        ----------
        permutation : iterable of int
            New dimension i is old dimension permutation[i], as in `numpy.transpose`.

        Examples
        --------
        >>> from gpulayout import Layout
        >>> Layout((0, 1, 2), padded_dimensions=(4, 5, 6)).permute((1, 2, 0))
        Layout((2, 0, 1), padded_dimensions=(5, 6, 4))
        """
        return self._renumbered(checks.permutation("permutation", permutation, self.rank, self._context, from_end=True))

    def insert_dimension(self, at: SupportsIndex, width: SupportsIndex, position: int | None = None) -> Layout:
        """Insert a dimension in front of dimension `at`.

        In memory it is placed just above dimension `at`.  At the end (`at` == rank) it becomes the most minor.

        Parameters
        ----------
        at : int
            0..rank.  Negative numbers are refused.
        width : int
            Its padded size in elements; used only when the layout has padded dimensions.
        position : int, optional
            Its position in memory instead, 0 being the most minor.

        Raises
        ------
        LayoutError
            The tiles would cut different dimensions than before.
        """
        at = checks.insertion_point(at, self.rank, self._context)
        width = checks.count("width", width, self._context)
        if position is None:
            position = self.minor_to_major.index(at) + 1 if at < self.rank else 0
        position = checks.insertion_point(position, self.rank, self._context, "position")
        self._check_tiles_stay(position, "inserting a dimension")
        return self._renumbered([*range(at), None, *range(at, self.rank)], width, position)

    def delete_dimensions(self, dimensions: Iterable[SupportsIndex]) -> Layout:
        """Delete some dimensions; the others keep their order and are renumbered, also in split configurations.

        Raises
        ------
        LayoutError
            The tiles would cut different dimensions than before.
        """
        gone = checks.dimension_numbers(dimensions, self.rank, self._context)
        for dim in gone:
            self._check_tiles_stay(self.minor_to_major.index(dim), f"deleting dimension {dim}")
        return self._renumbered([dim for dim in range(self.rank) if dim not in gone])

    def delete_dimension(self, dimension: SupportsIndex) -> Layout:
        """Delete one dimension; -1 is the last.

        XLA: `DeleteDimension`, which keeps tiles even when they then cut other dimensions.
        """
        return self.delete_dimensions((dimension,))

    def move_dimension_to_major(self, dimension: SupportsIndex) -> Layout:
        """Make one dimension the most major; the others keep their order."""
        dim = checks.dimension_number(dimension, self.rank, self._context)
        return self.replace(minor_to_major=(*(d for d in self.minor_to_major if d != dim), dim))

    def move_dimension_to_minor(self, dimension: SupportsIndex) -> Layout:
        """Make one dimension the most minor; the others keep their order."""
        dim = checks.dimension_number(dimension, self.rank, self._context)
        return self.replace(minor_to_major=(dim, *(d for d in self.minor_to_major if d != dim)))

    def _check_tiles_stay(self, position: int, edit: str) -> None:
        """LayoutError unless a physical position, 0 being the most minor, is above every dimension the tiles cut."""
        touched = reach(self.tiles)
        if position < touched:
            raise LayoutError(
                f"tiles {''.join(map(str, self.tiles))} would cut different dimensions after {edit}{self._context}: "
                f"they cut the {checks.counted(touched, 'most minor dimension')}; "
                "drop them first with replace(tiles=())"
            )

    def _renumbered(self, numbers: Sequence[int | None], width: int = 0, position: int = 0) -> Layout:
        """The layout of dimensions with these old numbers; None is a new one of this width, at this physical position.

        Split configurations have physical numbers, which change only where a dimension comes or goes.
        """
        new_number = {dim: number for number, dim in enumerate(numbers)}
        order: list[int | None] = [dim for dim in self.minor_to_major if dim in new_number]
        if None in new_number:
            order.insert(position, None)
        physical = {dim: number for number, dim in enumerate(reversed(order))}
        splits = [(self.major_to_minor[split.dimension], split.split_indices) for split in self.split_configs]
        widths = self.padded_dimensions
        if widths is not None:
            widths = tuple([width if dim is None else widths[dim] for dim in numbers])
        return self.replace(
            minor_to_major=tuple([new_number[dim] for dim in order]),
            padded_dimensions=widths,
            split_configs=tuple([SplitConfig(physical[dim], indices) for dim, indices in splits if dim in physical]),
        )

    @property
    def _context(self) -> str:
        return f" for layout {self}"

    # ---- picture --------------------------------------------------------------------------------------

    def draw(self, dimensions: Iterable[SupportsIndex] | None = None) -> Picture:
        """A picture of an array in this layout, as `Shape.draw` makes it.

        Parameters
        ----------
        dimensions : iterable of int, optional
            Logical sizes of the array.  By default small ones, which show what the layout does.

        Returns
        -------
        Picture

        Raises
        ------
        LayoutError
            The layout does not fit the dimensions.

        See Also
        --------
        Shape.draw : a picture of one array, with names for its elements.

        Examples
        --------
        >>> from gpulayout import Layout
        >>> print(Layout((0, 1)).draw((2, 2)).as_text(ascii_only=True).splitlines()[0])
        f32[2,2]{0,1}
        """
        return drawn(self, dimensions=dimensions)

    def _repr_svg_(self) -> str | None:
        """What a notebook shows: an example, if there is one."""
        try:
            return self.draw().svg
        except LayoutError:
            return None

    # ---- value ----------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Compare all fields except `dynamic_shape_metadata_prefix_bytes`, as XLA does."""
        return self is other or (self._key == other._key if isinstance(other, Layout) else NotImplemented)

    __hash__ = Keyed.__hash__

    def __str__(self) -> str:
        """The text form, `{0,1:PD(3,5)PV(lowest)T(8,128)}`: the inverse of `parse_layout`."""
        properties = layout_fields.properties_text(self)
        return f"{{{','.join(map(str, self.minor_to_major))}{':' + properties if properties else ''}}}"

    def __repr__(self) -> str:
        default = type(self).__dataclass_fields__
        extra = "".join(
            f", {name}={value!r}" if name != "padding_value" else f", {name}={value}"
            for name, value in self._fields().items()
            if name != "minor_to_major" and value is not default[name].default and value != default[name].default
        )
        return f"Layout({self.minor_to_major}{extra})"
