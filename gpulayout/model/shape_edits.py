"""Edits of a shape: each gives a new one.  Those that insert or delete dimensions refuse tiles whose meaning would change."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gpulayout.model import checks
from gpulayout.model.element_type import ElementType
from gpulayout.model.errors import LayoutError

if TYPE_CHECKING:
    from gpulayout.model.layout import Layout
    from gpulayout.model.shape import Shape


class ShapeEdits:
    """The part of `Shape` that makes other shapes of it."""

    def replace(self, **fields) -> Shape:
        """A copy with some fields replaced."""
        return type(self)(**self._fields() | fields)

    def with_layout(self, layout: Layout | str | None) -> Shape:
        """The same logical array in another layout, a `Layout` or its text; None means descending without padding.

        XLA: `CopyLayoutBetweenShapes` is `target.with_layout(source.layout)`.

        >>> from gpulayout import Shape
        >>> str(Shape("f32", (2, 3)).with_layout("{0,1:T(2,2)}"))
        'f32[2,3]{0,1:T(2,2)}'
        """
        return self.replace(layout=layout)

    def with_default_order(self) -> Shape:
        """The same logical array in descending order, all else of the layout kept.  XLA: `SetToDefaultLayout`."""
        return self.with_layout(self.layout.replace(minor_to_major=tuple(range(self.rank - 1, -1, -1))))

    def with_element_type(self, element_type: object) -> Shape:
        """The same dimensions and layout with another element type.  XLA: `ChangeElementType`.

        An element size in bits stays only with a type that can be packed.
        """
        element_type = ElementType.of(element_type)
        layout = self.layout if element_type.is_sub_byte else self.layout.replace(element_size_in_bits=0)
        return self.replace(element_type=element_type, layout=layout)

    def complex_component_shape(self) -> Shape:
        """The same dimensions and layout with the type of a complex number's parts; LayoutError for other types.

        XLA: `ComplexComponentShape`.

        >>> from gpulayout import parse_shape
        >>> str(parse_shape("c64[2,3]{0,1}").complex_component_shape())
        'f32[2,3]{0,1}'
        """
        if not self.element_type.is_complex:
            raise LayoutError(f"element type {self.element_type} of {self} is not complex: it has no components")
        return self.with_element_type(self.element_type.component)

    def without_tiles(self) -> Shape:
        """The same logical array without tiles, all else of the layout kept.  XLA: `ClearTiles`."""
        return self.with_layout(self.layout.replace(tiles=()))

    def with_static_dimensions(self) -> Shape:
        """The same shape with every dynamic dimension at its bound, and without metadata in front of the data.

        LayoutError when a dimension has no bound.  XLA: `MakeStaticShape`, `clear_dynamic_dimensions`.
        """
        layout = self.layout.replace(dynamic_shape_metadata_prefix_bytes=0)
        return self.replace(dimensions=self.bounds, dynamic_dimensions=None, layout=layout)

    def as_host_shape(self) -> Shape:
        """The array as a host holds it: the same order and split configurations, without tiles, padding and the like.

        XLA: `DeviceShapeToHostShape`.
        """
        return self.with_layout(type(self.layout)(self.layout.minor_to_major, split_configs=self.layout.split_configs))

    @property
    def is_host_shape(self) -> bool:
        """True when `as_host_shape` changes nothing.  XLA: `DeviceShapeIsHostShape`."""
        return str(self) == str(self.as_host_shape())

    def permute_dimensions(self, permutation: Iterable[int]) -> Shape:
        """The logical transpose that leaves every byte where it is: new dimension i is old permutation[i].

        XLA: `PermuteDimensions` and `ReorderLogicalDimensions`.

        >>> from gpulayout import Shape
        >>> str(Shape("f32", (10, 100, 1000)).permute_dimensions((1, 2, 0)))
        'f32[100,1000,10]{1,0,2}'
        """
        order = checks.permutation("permutation", permutation, self.rank, f" for {self}", from_end=True)
        return self.replace(dimensions=[self.dimensions[dim] for dim in order], layout=self.layout.permute(order),
                            dynamic_dimensions=[self.dynamic_dimensions[dim] for dim in order])

    def permute_dimensions_ignoring_layout(self, permutation: Iterable[int]) -> Shape:
        """The logical transpose in the same layout, so that bytes move: new dimension i is old permutation[i].

        Order, tiles and the like stay as they are; padded dimensions go with their dimensions.
        XLA: `PermuteDimensionsIgnoringLayout`.

        >>> from gpulayout import parse_shape
        >>> str(parse_shape("f32[10,100,1000]{0,1,2:T(8,128)}").permute_dimensions_ignoring_layout((1, 2, 0)))
        'f32[100,1000,10]{0,1,2:T(8,128)}'
        """
        turned = self.permute_dimensions(permutation)
        return turned.with_layout(turned.layout.replace(minor_to_major=self.layout.minor_to_major))

    def insert_dimension(self, at: int, size: int, width: int | None = None) -> Shape:
        """A new dimension in front of dimension `at`, just above it in memory; at the end it is the most minor.

        `width` is the new dimension's padded size, by default `size`.
        """
        return self._insert(at, size, width)

    def _insert(self, at: int, size: int, width: int | None = None, position: int | None = None) -> Shape:
        at = checks.insertion_point(at, self.rank, f" for {self}")
        size = checks.count("size", size, f" for {self}")
        layout = self.layout.insert_dimension(at, size if width is None else width, position)
        return self.replace(dimensions=(*self.dimensions[:at], size, *self.dimensions[at:]), layout=layout,
                            dynamic_dimensions=(*self.dynamic_dimensions[:at], False, *self.dynamic_dimensions[at:]))

    def insert_dimensions(self, at: int, sizes: Iterable[int]) -> Shape:
        """Several new dimensions in front of dimension `at`, the first of them the most major.

        >>> from gpulayout import Layout, Shape
        >>> str(Shape("f32", (10, 20, 30), Layout((0, 2, 1))).insert_dimensions(1, (40, 50)))
        'f32[10,40,50,20,30]{0,4,3,2,1}'
        """
        sizes = checks.sizes("sizes", sizes, f" for {self}")
        return functools.reduce(lambda shape, size: shape.insert_dimension(at, size), reversed(sizes), self)

    def prepend_major_dimension(self, size: int) -> Shape:
        """A new dimension 0, the most major in memory."""
        return self._insert(0, size, position=self.rank)

    def append_major_dimension(self, size: int) -> Shape:
        """A new last dimension, the most major in memory."""
        return self._insert(self.rank, size, position=self.rank)

    def append_minor_dimension(self, size: int) -> Shape:
        """A new last dimension, the most minor in memory."""
        return self._insert(self.rank, size, position=0)

    def delete_dimensions(self, dimensions: Iterable[int]) -> Shape:
        """Without some dimensions; those that stay keep their order in memory."""
        gone = checks.dimension_numbers(dimensions, self.rank, f" for {self}")
        kept = [dim for dim in range(self.rank) if dim not in gone]
        return self.replace(dimensions=[self.dimensions[dim] for dim in kept], layout=self.layout.delete_dimensions(gone),
                            dynamic_dimensions=[self.dynamic_dimensions[dim] for dim in kept])

    def delete_dimension(self, dimension: int) -> Shape:
        """Without one dimension; -1 is the last."""
        return self.delete_dimensions((dimension,))

    def filter_dimensions(self, keep: Callable[[int], bool]) -> Shape:
        """The dimensions whose numbers `keep` returns True for, in their order.  XLA: `FilterDimensions`.

        >>> from gpulayout import parse_shape
        >>> str(parse_shape("f32[2,3,4,5]{0,1,2,3}").filter_dimensions(lambda dimension: dimension % 2 == 0))
        'f32[2,4]{0,1}'
        """
        return self.delete_dimensions([dim for dim in range(self.rank) if not keep(dim)])

    def drop_degenerate_dimensions(self) -> Shape:
        """Without the dimensions of size 1 that are not padded."""
        return self.delete_dimensions([dim for dim, (size, width) in
                                       enumerate(zip(self.dimensions, self.buffer_dimensions)) if size == width == 1])

    def move_dimension_to_major(self, dimension: int) -> Shape:
        """The same logical array with one dimension made the most major."""
        return self.with_layout(self.layout.move_dimension_to_major(self.dimension_number(dimension)))

    def move_dimension_to_minor(self, dimension: int) -> Shape:
        """The same logical array with one dimension made the most minor."""
        return self.with_layout(self.layout.move_dimension_to_minor(self.dimension_number(dimension)))
