"""A shape: element type, dimension sizes and layout.

`shape_sizes` defines the fields and what follows from them.  This module adds the edits; each returns a new shape.
Dimension numbers are logical.  Negative numbers count from the end, except where a new dimension is inserted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

from numpy.typing import DTypeLike

from gpulayout.layout import checks
from gpulayout.layout.argument_hints import corrects, of_shape
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import after_sizes
from gpulayout.layout.picture import Picture, drawn
from gpulayout.layout.pitch import pitched
from gpulayout.layout.shape_sizes import ShapeSizes


@corrects(
    of_shape,
    element_type="str | DTypeLike",
    dimensions="Iterable[int]",
    layout="Layout | str | None",
    dynamic_dimensions="Sequence[bool] | None",
    pitch="int | None",
    align="int | None",
)
@dataclass(frozen=True, init=False, eq=False, repr=False)  # the base has `__init__`
class Shape(ShapeSizes):
    """An array in memory: element type, dimensions and layout.  Immutable, hashable, checked on construction.

    Parameters
    ----------
    element_type : str, DTypeLike or torch.dtype
        An XLA name such as "f32", or what `ElementType.of` takes.
    dimensions : iterable of int
        Logical sizes in elements; 0 is allowed.  For a dynamic dimension, its bound or `UNBOUNDED`.
    layout : Layout, str or None
        A layout of the same rank, or its text.  None means descending (row-major), without padding.
    dynamic_dimensions : sequence of bool, optional
        One flag per dimension, True when its size is dynamic.  By default only `UNBOUNDED` sizes are.
    pitch : int, optional
        Bytes from the beginning of a row of the most minor dimension to that of the next; see `with_pitch`.
    align : int, optional
        Bytes.  Each row begins at a multiple of them: the width of the most minor dimension is rounded up.

    Raises
    ------
    LayoutError
        The dimensions or the layout are wrong, or they do not fit each other.
    TypeError
        XLA has no such element type.

    See Also
    --------
    parse_shape : a shape from its text.
    shape_of : the shape of an existing array.

    Notes
    -----
    `nbytes` and names with `byte` count bytes; all other sizes and strides count elements.  Sequences over dimensions
    are in logical order unless the name says otherwise.  The model is XLA's `Shape`.

    Examples
    --------
    >>> shape = Shape("f32", (2, 3), "{0,1:PD(3,5)}")
    >>> str(shape), shape.element_count, shape.buffer_size, shape.nbytes, shape.strides
    ('f32[2,3]{0,1:PD(3,5)}', 6, 15, 60, (1, 3))
    """

    # ---- fields ----------------------------------------------------------------------------------------

    def replace(self, **fields: Any) -> Shape:
        """A copy with some fields replaced.

        Parameters
        ----------
        **fields
            `element_type`, `dimensions`, `layout`, `dynamic_dimensions`, `pitch` and `align`, as `Shape` takes them.

        Examples
        --------
        >>> str(Shape("f32", (2, 3)).replace(element_type="f64"))
        'f64[2,3]{1,0}'
        """
        return type(self)(**{**self._fields(), **fields})

    def with_layout(self, layout: Layout | str | None) -> Shape:
        """The same logical array in another layout.

        Parameters
        ----------
        layout : Layout, str or None
            A layout of the same rank, or its text.  None means descending (row-major), without padding or tiles.

        Raises
        ------
        LayoutError
            The layout does not fit the dimensions.

        Notes
        -----
        XLA's `CopyLayoutBetweenShapes` is `target.with_layout(source.layout)`.

        Examples
        --------
        >>> str(Shape("f32", (2, 3)).with_layout("{0,1:T(2,2)}"))
        'f32[2,3]{0,1:T(2,2)}'
        """
        return self.replace(layout=layout)

    def with_pitch(
        self,
        pitch: SupportsIndex | None = None,
        *,
        align: SupportsIndex | None = None,
        dimension: SupportsIndex | None = None,
    ) -> Shape:
        """The same logical array with rows that begin `pitch` bytes apart, or at multiples of `align` bytes.

        Parameters
        ----------
        pitch : int, optional
            Bytes from the beginning of a row to that of the next, as in cudaMallocPitch: at least those of a row.
        align : int, optional
            Instead of a pitch: the bytes of a row are rounded up to a multiple of these.
        dimension : int, optional
            The dimension whose steps are the pitch; a row is all that is more minor.  By default the one above the most
            minor dimension, so that this one is padded.

        Raises
        ------
        LayoutError
            None or both are given, they cut an element, a pitch is shorter than a row, the layout has tiles, or there
            is no row.  Without `dimension`, if two dimensions above the most minor one have more than one index: a
            pitch holds rows of more dimensions too, or an alignment would more than double the memory.

        See Also
        --------
        zeros : its `align` aligns the first row.

        Notes
        -----
        The result is `padded_dimensions`, or a tile where no width of a dimension gives the pitch.  They are in the
        text; the pitch itself is not kept.  A padded width belongs to the row, and a size of 0 stays 0.

        Examples
        --------
        >>> shape = Shape("f32", (3, 1000)).with_pitch(4608)
        >>> str(shape), shape.byte_strides
        ('f32[3,1000]{1,0:PD(3,1152)}', (4608, 4))
        >>> str(Shape("f32", (3, 1000)).with_pitch(align=256))
        'f32[3,1000]{1,0:PD(3,1024)}'
        >>> str(Shape("u8", (1080, 1900, 3)).with_pitch(align=256, dimension=0))
        'u8[1080,1900,3]{2,1,0:T(*,5888)}'
        """
        dim = None if dimension is None else self.dimension_number(dimension)
        text = self.text_without_layout()
        return self.with_layout(pitched(self.element_type, self.dimensions, self.layout, pitch, align, text, dim))

    def with_default_order(self) -> Shape:
        """The same logical array in descending order; the layout keeps its other fields.  XLA: `SetToDefaultLayout`."""
        return self.with_layout(self.layout.replace(minor_to_major=tuple(range(self.rank - 1, -1, -1))))

    def with_element_type(self, element_type: str | DTypeLike) -> Shape:
        """The same dimensions and layout with another element type.  XLA: `ChangeElementType`.

        `element_size_in_bits` and `bit_order` are kept only if the new type can be packed.

        Parameters
        ----------
        element_type : str or DTypeLike
            An XLA name such as "f32", or what `ElementType.of` takes.

        Raises
        ------
        TypeError
            XLA has no such element type.
        LayoutError
            The new type cannot hold the padding value.
        """
        element_type = ElementType.of(element_type)
        whole_bytes = {} if element_type.is_sub_byte else {"element_size_in_bits": 0, "bit_order": "little"}
        return self.replace(element_type=element_type, layout=self.layout.replace(**whole_bytes))

    def complex_component_shape(self) -> Shape:
        """The same dimensions and layout with the type of a complex number's parts.  XLA: `ComplexComponentShape`.

        Raises
        ------
        LayoutError
            The element type is not complex.

        Examples
        --------
        >>> from gpulayout import parse_shape
        >>> str(parse_shape("c64[2,3]{0,1}").complex_component_shape())
        'f32[2,3]{0,1}'
        """
        if not self.element_type.is_complex:
            raise LayoutError(f"element type {self.element_type} of {self} is not complex: it has no components")
        return self.with_element_type(self.element_type.component)

    def without_tiles(self) -> Shape:
        """The same logical array without tiles; the layout keeps its other fields.  XLA: `ClearTiles`."""
        return self.with_layout(self.layout.replace(tiles=()))

    def with_static_dimensions(self) -> Shape:
        """The same shape with every dynamic dimension at its bound, and without metadata in front of the data.

        XLA: `MakeStaticShape`, `clear_dynamic_dimensions`.

        Raises
        ------
        LayoutError
            A dimension is unbounded.
        """
        layout = self.layout.replace(dynamic_shape_metadata_prefix_bytes=0)
        return self.replace(dimensions=self.bounds, dynamic_dimensions=None, layout=layout)

    def as_host_shape(self) -> Shape:
        """The array as a host stores it: the order and the split configurations stay, the rest becomes default.

        XLA: `DeviceShapeToHostShape`.
        """
        return self.with_layout(Layout(self.layout.minor_to_major, split_configs=self.layout.split_configs))

    @property
    def is_host_shape(self) -> bool:
        """True when `as_host_shape` changes nothing.  XLA: `DeviceShapeIsHostShape`."""
        return str(self) == str(self.as_host_shape())

    # ---- order -----------------------------------------------------------------------------------------

    def permute_dimensions(self, permutation: Iterable[SupportsIndex]) -> Shape:
        """The logical transpose that leaves every byte where it is.

        XLA: `PermuteDimensions` and `ReorderLogicalDimensions`.

        Parameters
        ----------
        permutation : iterable of int
            New dimension i is old dimension permutation[i], as in `numpy.transpose`.

        Raises
        ------
        LayoutError
            The permutation does not name every dimension once.

        Examples
        --------
        >>> str(Shape("f32", (10, 100, 1000)).permute_dimensions((1, 2, 0)))
        'f32[100,1000,10]{1,0,2}'
        """
        order = checks.permutation("permutation", permutation, self.rank, f" for {self}", from_end=True)
        return self._renumbered(order, self.layout.permute(order))

    def _renumbered(self, numbers: Sequence[int | None], layout: Layout, size: int = 0) -> Shape:
        """The shape of dimensions with these old numbers, in this layout; None is a new one of this size."""
        return self.replace(
            dimensions=[size if dim is None else self.dimensions[dim] for dim in numbers],
            layout=layout,
            dynamic_dimensions=[dim is not None and self.dynamic_dimensions[dim] for dim in numbers],
        )

    def permute_dimensions_ignoring_layout(self, permutation: Iterable[SupportsIndex]) -> Shape:
        """The logical transpose that keeps the order and the tiles of the layout, so that bytes move.

        Padded dimensions move with their dimensions.  XLA: `PermuteDimensionsIgnoringLayout`.

        Parameters
        ----------
        permutation : iterable of int
            New dimension i is old dimension permutation[i].

        Examples
        --------
        >>> from gpulayout import parse_shape
        >>> str(parse_shape("f32[10,100,1000]{0,1,2:T(8,128)}").permute_dimensions_ignoring_layout((1, 2, 0)))
        'f32[100,1000,10]{0,1,2:T(8,128)}'
        """
        turned = self.permute_dimensions(permutation)
        return turned.with_layout(turned.layout.replace(minor_to_major=self.layout.minor_to_major))

    def move_dimension_to_major(self, dimension: SupportsIndex) -> Shape:
        """The same logical array with one dimension made the most major."""
        return self.with_layout(self.layout.move_dimension_to_major(self.dimension_number(dimension)))

    def move_dimension_to_minor(self, dimension: SupportsIndex) -> Shape:
        """The same logical array with one dimension made the most minor."""
        return self.with_layout(self.layout.move_dimension_to_minor(self.dimension_number(dimension)))

    # ---- more dimensions -------------------------------------------------------------------------------

    def insert_dimension(self, at: SupportsIndex, size: SupportsIndex, width: SupportsIndex | None = None) -> Shape:
        """Insert a dimension in front of dimension `at`.

        In memory it is placed just above dimension `at`.  At the end (`at` == rank) it becomes the most minor.

        Parameters
        ----------
        at : int
            0..rank.  Negative numbers are refused.
        size : int
            Its size in elements.
        width : int, optional
            Its padded size in elements; by default `size`.  Used only when the layout has padded dimensions.

        Raises
        ------
        LayoutError
            The dimension would change what the tiles cut, or an argument is out of range.

        Examples
        --------
        >>> str(Shape("f32", (2, 3)).insert_dimension(1, 7))
        'f32[2,7,3]{2,1,0}'
        """
        return self._insert(at, size, width)

    def _insert(
        self,
        at: SupportsIndex,
        size: SupportsIndex,
        width: SupportsIndex | None = None,
        position: int | None = None,
    ) -> Shape:
        at = checks.insertion_point(at, self.rank, f" for {self}")
        size = checks.count("size", size, f" for {self}")
        layout = self.layout.insert_dimension(at, size if width is None else width, position)
        return self._renumbered([*range(at), None, *range(at, self.rank)], layout, size)

    def insert_dimensions(self, at: SupportsIndex, sizes: Iterable[SupportsIndex]) -> Shape:
        """Insert several dimensions in front of dimension `at`, the first of them the most major.

        Examples
        --------
        >>> from gpulayout import Layout, Shape
        >>> str(Shape("f32", (10, 20, 30), Layout((0, 2, 1))).insert_dimensions(1, (40, 50)))
        'f32[10,40,50,20,30]{0,4,3,2,1}'
        """
        sizes = checks.sizes("sizes", sizes, f" for {self}")
        return functools.reduce(lambda shape, size: shape.insert_dimension(at, size), reversed(sizes), self)

    def prepend_major_dimension(self, size: SupportsIndex) -> Shape:
        """Insert a dimension 0 that is the most major in memory."""
        return self._insert(0, size, position=self.rank)

    def append_major_dimension(self, size: SupportsIndex) -> Shape:
        """Add a last dimension that is the most major in memory."""
        return self._insert(self.rank, size, position=self.rank)

    def append_minor_dimension(self, size: SupportsIndex) -> Shape:
        """Add a last dimension that is the most minor in memory."""
        return self._insert(self.rank, size, position=0)

    # ---- fewer dimensions ------------------------------------------------------------------------------

    def delete_dimensions(self, dimensions: Iterable[SupportsIndex]) -> Shape:
        """Delete some dimensions; the others keep their order in memory.

        Parameters
        ----------
        dimensions : iterable of int
            Distinct dimension numbers in any order.

        Raises
        ------
        LayoutError
            A number is out of range or appears twice, or a deletion would change what the tiles cut.

        Examples
        --------
        >>> from gpulayout import parse_shape
        >>> str(parse_shape("f32[2,3,4,5]{0,1,2,3}").delete_dimensions((0, -1)))
        'f32[3,4]{0,1}'
        """
        gone = checks.dimension_numbers(dimensions, self.rank, f" for {self}")
        layout = self.layout.delete_dimensions(gone)
        return self._renumbered([dim for dim in range(self.rank) if dim not in gone], layout)

    def delete_dimension(self, dimension: SupportsIndex) -> Shape:
        """Delete one dimension; -1 is the last."""
        return self.delete_dimensions((dimension,))

    def filter_dimensions(self, keep: Callable[[int], bool]) -> Shape:
        """Keep every dimension `d` for which `keep(d)` is true, in their order.  XLA: `FilterDimensions`.

        Examples
        --------
        >>> from gpulayout import parse_shape
        >>> str(parse_shape("f32[2,3,4,5]{0,1,2,3}").filter_dimensions(lambda dimension: dimension % 2 == 0))
        'f32[2,4]{0,1}'
        """
        return self.delete_dimensions([dim for dim in range(self.rank) if not keep(dim)])

    def drop_degenerate_dimensions(self) -> Shape:
        """Delete the dimensions of size 1 that are not padded."""
        sizes = enumerate(zip(self.dimensions, self.buffer_dimensions))
        return self.delete_dimensions([dim for dim, (size, width) in sizes if size == width == 1])

    # ---- picture --------------------------------------------------------------------------------------

    def draw(self, *, names: str | Sequence[str] | None = None, elements: Sequence[object] = ()) -> Picture:
        """A picture of the layout: the logical array with the place of every element, and memory under it.

        Parameters
        ----------
        names : str or sequence of str, optional
            A name for every dimension, dimension 0 first: ``"nhwc"``, or ``"batch,channel"``, or a list.  By default
            z, y and x, the letters of XLA's document.
        elements : sequence, optional
            A name for every element, in row-major order, such as ``"abcdef"``; without it, elements are named by their
            indices.  Of a name longer than 8 characters, the first 6 are drawn.

        Returns
        -------
        Picture
            A notebook shows it, `print` draws it with characters, `.svg` is its SVG, and `.save(path)` writes that.

        Raises
        ------
        LayoutError
            `names` does not have a name for every dimension, or `elements` one for every element.
        TypeError
            `names` or `elements` is not a sequence.

        Notes
        -----
        Numbers in the grid are linear indices, in elements.  Padding is hatched, tiles have heavy borders, and an arrow
        marks the dimension along which neighbours in memory lie.  Large arrays are cut to corners and edges of tiles.

        Examples
        --------
        >>> print(Shape("f32", (2, 3), "{0,1}").draw(elements="abcdef"))
        f32[2,3]{0,1}
        6 elements in 6 places, 24 bytes
        <BLANKLINE>
        y ↓ 2, fastest
        x → 3
        <BLANKLINE>
          x   0   1   2
           ┌───┬───┬───┐
        y 0│a 0│b 2│c 4│
          1│d 1│e 3│f 5│
           └───┴───┴───┘
        <BLANKLINE>
        place 0 1 2 3 4 5
             ┌─┬─┬─┬─┬─┬─┐
             │a│d│b│e│c│f│
             └─┴─┴─┴─┴─┴─┘
        """
        return drawn(self, names=names, elements=elements)

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.draw().svg

    # ---- value ----------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape):
            return NotImplemented
        return self is other or (
            self.element_type is other.element_type
            and self.dimensions == other.dimensions
            and self.layout == other.layout
            and self.dynamic_dimensions == other.dynamic_dimensions
        )

    __hash__ = ShapeSizes.__hash__

    def __str__(self) -> str:
        """The text form, `f32[2,3]{0,1}`: the inverse of `parse_shape`.  A scalar prints without its empty layout."""
        return self.text_without_layout() + after_sizes(self.layout)

    def __repr__(self) -> str:
        dynamic = f", dynamic_dimensions={self.dynamic_dimensions}" if self.is_dynamic else ""
        return f"Shape({self.element_type.value!r}, {self.dimensions}, {self.layout!r}{dynamic})"
