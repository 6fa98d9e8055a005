"""A shape: element type, dimension sizes and layout; and the questions they answer together.

Sizes without a unit count elements; `nbytes` and names with `byte` count bytes.  Sequences over dimensions are
in logical order unless the name says `minor_to_major` or `major_to_minor`.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpulayout.model import checks
from gpulayout.model.consistency import check_layout, check_size
from gpulayout.model.element_type import ElementType
from gpulayout.model.errors import LayoutTypeError
from gpulayout.model.frozen import Frozen
from gpulayout.model.layout import Layout
from gpulayout.model.padding import canonical_scalar, pad_bytes
from gpulayout.model.strides import layout_from_strides


@dataclass(frozen=True, eq=False, repr=False)
class Shape(Frozen):
    """An array's element type, dimensions (logical sizes) and layout.  Immutable, hashable, validated when made.

    element_type   an XLA name such as "f32", or anything `numpy.dtype` takes
    dimensions     sizes, 0 allowed
    layout         a `Layout` of the same rank; None means descending (row-major)

    Raises LayoutError for sizes or a layout that cannot be, TypeError for element types XLA does not have.

    >>> shape = Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(3, 5)))
    >>> str(shape), shape.element_count, shape.buffer_size, shape.nbytes, shape.strides
    ('f32[2,3]{0,1:PD(3,5)}', 6, 15, 60, (1, 3))
    """

    element_type: ElementType
    dimensions: tuple[int, ...]
    layout: Layout | None = None

    def __post_init__(self):
        self._set("element_type", ElementType.of(self.element_type))
        self._set("dimensions", checks.sizes("dimensions", self.dimensions))
        layout = Layout.descending(len(self.dimensions)) if self.layout is None else self.layout
        if not isinstance(layout, Layout):
            raise LayoutTypeError(f"layout {layout!r} is not a Layout for {self.text_without_layout()}: "
                                  f"it is {checks.type_text(layout)}")
        text = self.text_without_layout()
        check_layout(self.dimensions, layout, text)
        check_size(self.dimensions, layout, self.itemsize, text)
        value = layout.padding_value
        if value is not None:
            value = canonical_scalar(self.element_type, value, f" for {text}{layout}")
        self._set("layout", layout.replace(padding_value=value) if value is not layout.padding_value else layout)
        self._set("_hash", hash((self.element_type, self.dimensions, self.layout)))

    @staticmethod
    def of(array: object) -> Shape:
        """The shape of an array with `dtype`, `shape` and `strides` (in bytes), its gaps as padding.

        >>> Shape.of(np.zeros((2, 3), np.float32, order="F"))
        Shape('f32', (2, 3), Layout((0, 1)))
        """
        element_type = ElementType.of(array.dtype)
        strides = getattr(array, "strides", None)
        layout = None if strides is None else layout_from_strides(array.shape, strides, itemsize=element_type.itemsize)
        return Shape(element_type, array.shape, layout)

    # ---- sizes -----------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @property
    def true_rank(self) -> int:
        """Number of dimensions of size greater than 1, as XLA's old shapes document says.

        XLA's code counts sizes other than 1, so it differs for dimensions of size 0.
        """
        return sum(size > 1 for size in self.dimensions)

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of one element."""
        return self.element_type.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.element_type.itemsize

    @functools.cached_property
    def element_count(self) -> int:
        """Logical elements: the product of the dimensions, 1 at rank 0."""
        return math.prod(self.dimensions)

    @functools.cached_property
    def buffer_dimensions(self) -> tuple[int, ...]:
        """Width of every dimension in memory: the padded dimension where there is one."""
        return self.layout.padded_dimensions or self.dimensions

    @functools.cached_property
    def buffer_size(self) -> int:
        """Elements in the buffer, padding included."""
        return math.prod(self.buffer_dimensions)

    @functools.cached_property
    def nbytes(self) -> int:
        """Bytes of the buffer, padding included."""
        return self.buffer_size * self.itemsize

    @functools.cached_property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension, padding included; a width of 0 counts as 1."""
        strides, step = [0] * self.rank, 1
        for dim in self.layout.minor_to_major:
            strides[dim] = step
            step *= max(self.buffer_dimensions[dim], 1)
        return tuple(strides)

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each dimension: what NumPy calls strides."""
        return tuple(stride * self.itemsize for stride in self.strides)

    @property
    def is_padded(self) -> bool:
        """True when some width is greater than its dimension.

        >>> Shape("f32", (2, 3), Layout((1, 0), padded_dimensions=(2, 3))).is_padded
        False
        """
        return self.buffer_dimensions != self.dimensions

    @functools.cached_property
    def padding_bytes(self) -> bytes:
        """The bytes of one padding element."""
        return pad_bytes(self.element_type, self.layout.padding_value)

    # ---- questions about dimensions -------------------------------------------------------------------

    def dimension(self, number: int) -> int:
        """The size of a dimension; -1 is the last.  XLA: `GetDimension`, with both ends checked."""
        return self.dimensions[self.dimension_number(number)]

    def dimension_number(self, number: int) -> int:
        """A dimension number in 0..rank-1 from one that may be negative.  XLA: `GetDimensionNumber`."""
        return checks.dimension_number(number, self.rank, f" for {self}")

    def stride(self, number: int) -> int:
        """Elements between neighbours along a dimension.  XLA: `GetDimensionStride`."""
        return self.strides[self.dimension_number(number)]

    @property
    def is_scalar(self) -> bool:
        """True at rank 0."""
        return self.rank == 0

    @property
    def is_effective_scalar(self) -> bool:
        """True when every dimension is 1, so that there is exactly one element and one place for it."""
        return all(size == 1 for size in self.dimensions)

    @property
    def is_zero_element_array(self) -> bool:
        """True when some dimension is 0."""
        return self.element_count == 0

    @property
    def has_degenerate_dimensions(self) -> bool:
        """True when some dimension is 1."""
        return 1 in self.dimensions

    @property
    def last_dimension_is_minor_most(self) -> bool:
        """True when the last logical dimension varies fastest."""
        return self.rank > 0 and self.layout.minor(0) == self.rank - 1

    def is_effectively_most_major_dimension(self, number: int) -> bool:
        """True when only dimensions of size 1 are more major than this one."""
        position = self.layout.major_to_minor.index(self.dimension_number(number))
        return all(self.dimensions[dim] == 1 for dim in self.layout.major_to_minor[:position])

    def index_in_bounds(self, index: Iterable[int]) -> bool:
        """True for a logical index of the right rank with 0 <= index[d] < dimensions[d] everywhere."""
        index = checks.whole_numbers("index", index, f" for {self}")
        return len(index) == self.rank and all(0 <= i < size for i, size in zip(index, self.dimensions))

    # ---- edits: each gives a new shape ------------------------------------------------------------------

    def with_layout(self, layout: Layout | None) -> Shape:
        """The same logical array in another layout; None means descending without padding.

        XLA: `CopyLayoutBetweenShapes` is `target.with_layout(source.layout)`.
        """
        return Shape(self.element_type, self.dimensions, layout)

    def with_default_order(self) -> Shape:
        """The same logical array in descending order, padding kept.  XLA: `SetToDefaultLayout`."""
        return self.with_layout(self.layout.replace(minor_to_major=tuple(range(self.rank - 1, -1, -1))))

    def with_element_type(self, element_type: object) -> Shape:
        """The same dimensions and layout with another element type.  XLA: `ChangeElementType`."""
        return Shape(element_type, self.dimensions, self.layout)

    def permute_dimensions(self, permutation: Iterable[int]) -> Shape:
        """The logical transpose that leaves every byte where it is: new dimension i is old permutation[i].

        XLA: `PermuteDimensions` and `ReorderLogicalDimensions`.

        >>> str(Shape("f32", (10, 100, 1000)).permute_dimensions((1, 2, 0)))
        'f32[100,1000,10]{1,0,2}'
        """
        order = checks.permutation("permutation", permutation, self.rank, f" for {self}", from_end=True)
        return Shape(self.element_type, [self.dimensions[dim] for dim in order], self.layout.permute(order))

    def insert_dimension(self, at: int, size: int, width: int | None = None) -> Shape:
        """A new dimension in front of dimension `at`, just above it in memory; at the end it is the most minor.

        `width` is the new dimension's padded size, by default `size`.
        """
        at = checks.insertion_point(at, self.rank, f" for {self}")
        size = checks.count("size", size, f" for {self}")
        layout = self.layout.insert_dimension(at, size if width is None else width)
        return Shape(self.element_type, (*self.dimensions[:at], size, *self.dimensions[at:]), layout)

    def insert_dimensions(self, at: int, sizes: Iterable[int]) -> Shape:
        """Several new dimensions in front of dimension `at`, the first of them the most major.

        >>> str(Shape("f32", (10, 20, 30), Layout((0, 2, 1))).insert_dimensions(1, (40, 50)))
        'f32[10,40,50,20,30]{0,4,3,2,1}'
        """
        sizes = checks.sizes("sizes", sizes, f" for {self}")
        return functools.reduce(lambda shape, size: shape.insert_dimension(at, size), reversed(sizes), self)

    def prepend_major_dimension(self, size: int) -> Shape:
        """A new dimension 0, the most major in memory."""
        return self.insert_dimension(0, size).move_dimension_to_major(0)

    def append_major_dimension(self, size: int) -> Shape:
        """A new last dimension, the most major in memory."""
        return self.insert_dimension(self.rank, size).move_dimension_to_major(-1)

    def append_minor_dimension(self, size: int) -> Shape:
        """A new last dimension, the most minor in memory."""
        return self.insert_dimension(self.rank, size).move_dimension_to_minor(-1)

    def delete_dimensions(self, dimensions: Iterable[int]) -> Shape:
        """Without some dimensions; those that stay keep their order in memory."""
        gone = checks.dimension_numbers(dimensions, self.rank, f" for {self}")
        sizes = [size for dim, size in enumerate(self.dimensions) if dim not in gone]
        return Shape(self.element_type, sizes, self.layout.delete_dimensions(gone))

    def delete_dimension(self, dimension: int) -> Shape:
        """Without one dimension; -1 is the last."""
        return self.delete_dimensions((dimension,))

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

    # ---- value ----------------------------------------------------------------------------------------

    def text_without_layout(self) -> str:
        """Element type and dimensions alone: `f32[2,3]`."""
        return f"{self.element_type}[{','.join(map(str, self.dimensions))}]"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape):
            return NotImplemented
        return self is other or (self._hash == other._hash and self.element_type is other.element_type and
                                 self.dimensions == other.dimensions and self.layout == other.layout)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        """The text form, `f32[2,3]{0,1}`: the inverse of `parse_shape`.  A scalar prints no empty layout."""
        layout = str(self.layout)
        return self.text_without_layout() + (layout if layout != "{}" else "")

    def __repr__(self) -> str:
        return f"Shape({self.element_type.value!r}, {self.dimensions}, {self.layout!r})"
