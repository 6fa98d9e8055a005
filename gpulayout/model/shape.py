"""A shape: element type, dimension sizes and layout; and the questions they answer together.

Sizes without a unit count elements; `nbytes` and names with `byte` count bytes.  Sequences over dimensions are
in logical order unless the name says `minor_to_major` or `major_to_minor`.
"""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpulayout.model import checks
from gpulayout.model.cached import cached_property
from gpulayout.model.consistency import check_layout, check_size, check_storage
from gpulayout.model.digits import cuts
from gpulayout.model.dynamic import UNBOUNDED, Unbounded, checked_dimensions, checked_flags, size_text
from gpulayout.model.element_type import ElementType
from gpulayout.model.errors import LayoutError
from gpulayout.model.frozen import Frozen
from gpulayout.model.layout import Layout
from gpulayout.model.layout_text import as_layout
from gpulayout.model.padding import canonical_scalar, pad_bytes
from gpulayout.model.shape_edits import ShapeEdits
from gpulayout.model.shape_storage import ShapeStorage
from gpulayout.model.slips import corrects, of_shape


@corrects(of_shape)
@dataclass(frozen=True, eq=False, repr=False)
class Shape(ShapeStorage, ShapeEdits, Frozen):
    """An array's element type, dimensions (logical sizes) and layout.  Immutable, hashable, validated when made.

    element_type   an XLA name such as "f32", or anything `numpy.dtype` takes
    dimensions     sizes, 0 allowed; of a dynamic size its bound, or `UNBOUNDED`
    layout         a `Layout` of the same rank or its text; None means descending (row-major)
    dynamic_dimensions    for every dimension True when its size is dynamic; None marks those without a bound

    Raises LayoutError for sizes or a layout that cannot be, TypeError for element types XLA does not have.

    >>> shape = Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(3, 5)))
    >>> str(shape), shape.element_count, shape.buffer_size, shape.nbytes, shape.strides
    ('f32[2,3]{0,1:PD(3,5)}', 6, 15, 60, (1, 3))
    """

    element_type: ElementType
    dimensions: tuple[int | Unbounded, ...]
    layout: Layout | None = None
    dynamic_dimensions: tuple[bool, ...] = field(default=None, kw_only=True)

    def __post_init__(self):
        self._set("element_type", ElementType.of(self.element_type))
        self._set("dimensions", checked_dimensions(self.dimensions))
        self._set("dynamic_dimensions", checked_flags(self.dynamic_dimensions, self.dimensions))
        text = self.text_without_layout()
        layout = as_layout(self.layout, len(self.dimensions), text)
        check_layout(self.dimensions, layout, text)
        check_size(self.dimensions, layout, self.itemsize, text)
        value = layout.padding_value
        if value is not None:
            value = canonical_scalar(self.element_type, value, f" for {text}{layout}")
        self._set("layout", layout.replace(padding_value=value) if value is not layout.padding_value else layout)
        self._set("_hash", hash((self.element_type, self.dimensions, self.layout, self.dynamic_dimensions)))

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
        return sum(size is UNBOUNDED or size > 1 for size in self.dimensions)

    @property
    def is_dynamic(self) -> bool:
        """True when the size of some dimension is dynamic.  XLA: `is_dynamic`."""
        return True in self.dynamic_dimensions

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """The dimensions as numbers, of a dynamic size its bound; LayoutError when one has none."""
        if UNBOUNDED in self.dimensions:
            raise LayoutError(f"dimensions {checks.shown(self.dimensions)} have no size for {self}: "
                              f"dimension {self.dimensions.index(UNBOUNDED)} is unbounded")
        return self.dimensions

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of one element."""
        return self.element_type.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.element_type.itemsize

    @cached_property
    def element_count(self) -> int:
        """Logical elements: the product of the dimensions, 1 at rank 0."""
        return math.prod(self.bounds)

    @property
    def extent_product(self) -> int:
        """The product of all dimensions that have a size; those without a bound are passed over.  XLA: `StaticExtentProduct`."""
        return math.prod(size for size in self.dimensions if size is not UNBOUNDED)

    @cached_property
    def buffer_dimensions(self) -> tuple[int, ...]:
        """Width of every dimension in memory, before tiling: the padded dimension where there is one."""
        return self.layout.padded_dimensions or self.bounds

    @property
    def physical_widths(self) -> tuple[int, ...]:
        """`buffer_dimensions` in physical order, most major first."""
        return tuple(self.buffer_dimensions[dim] for dim in self.layout.major_to_minor)

    @cached_property
    def physical_dimensions(self) -> tuple[int, ...]:
        """The sizes that memory is laid out by, most major first: the physical widths, cut by every tile in order.

        >>> from gpulayout import parse_shape
        >>> parse_shape("bf16[4,8]{1,0:T(2,4)(2,1)}").physical_dimensions
        (2, 2, 1, 4, 2, 1)
        """
        return cuts(self.physical_widths, self.layout.tiles).sizes

    @cached_property
    def buffer_size(self) -> int:
        """Elements in the buffer, padding included: the physical dimensions' product, rounded up for the tail padding."""
        places, alignment = math.prod(self.physical_dimensions), self.layout.tail_padding_alignment
        return -(-places // alignment) * alignment

    @property
    def bits_per_element(self) -> int:
        """Bits that one element occupies in the buffer: `element_size_in_bits`, or the whole bytes of the element type."""
        return self.layout.element_size_in_bits or 8 * self.itemsize

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the buffer, padding included; packed elements are rounded up to bytes once, at the end."""
        return -(-self.buffer_size * self.bits_per_element // 8)

    @property
    def is_tiled(self) -> bool:
        """True when the layout has tiles, be it such that change nothing."""
        return bool(self.layout.tiles)

    @property
    def is_packed(self) -> bool:
        """True when several elements lie in one byte."""
        return self.layout.is_packed

    def validate_layout(self) -> None:
        """LayoutError when the layout says something that no buffer of memory can be: nothing can be moved then.

        Those are an element size that the element type is not stored in, leftovers of sparse layouts, and data split
        across memories.  Such shapes can still be read, compared and printed.  XLA: `ValidateLayoutForShape`.
        """
        check_storage(self.element_type, self.layout, str(self))

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension, padding included; a width of 0 counts as 1.

        LayoutError for any tiles; where they leave one stride for each dimension, `view` finds it.
        """
        if self.is_tiled:
            raise LayoutError(f"tiles {''.join(map(str, self.layout.tiles))} of {self} cannot be said by strides: "
                              "a tiled shape has none of its own; gl.view finds them where neighbours lie at one distance")
        strides, step = [0] * self.rank, 1
        for dim in self.layout.minor_to_major:
            strides[dim] = step
            step *= max(self.buffer_dimensions[dim], 1)
        return tuple(strides)

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each dimension: what NumPy calls strides.

        LayoutError when they are not whole bytes, or the layout is tiled.
        """
        if self.bits_per_element % 8:
            raise LayoutError(f"element_size_in_bits {self.bits_per_element} of {self} has no byte strides: "
                              "neighbours lie in the same byte")
        return tuple(stride * (self.bits_per_element // 8) for stride in self.strides)

    @property
    def is_padded(self) -> bool:
        """True when some width is greater than its dimension, or tiles or the tail leave places without an element.

        >>> Shape("f32", (2, 3), Layout((1, 0), padded_dimensions=(2, 3))).is_padded
        False
        """
        return self.buffer_dimensions != self.dimensions or self.buffer_size != self.element_count

    @cached_property
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

    def dimension_minor(self, position: int) -> int:
        """The size of the dimension at a physical position counted from the most minor (0).  XLA: `dimensions_minor`."""
        return self.dimensions[self.layout.minor(position)]

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
        return len(index) == self.rank and all(0 <= i < size for i, size in zip(index, self.bounds))

    # ---- value ----------------------------------------------------------------------------------------

    def text_without_layout(self) -> str:
        """Element type and dimensions alone: `f32[2,3]`."""
        sizes = map(str, self.dimensions) if not self.is_dynamic else map(size_text, self.dimensions, self.dynamic_dimensions)
        return f"{self.element_type}[{','.join(sizes)}]"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape):
            return NotImplemented
        return self is other or (self._hash == other._hash and self.element_type is other.element_type and
                                 self.dimensions == other.dimensions and self.layout == other.layout and
                                 self.dynamic_dimensions == other.dynamic_dimensions)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        """The text form, `f32[2,3]{0,1}`: the inverse of `parse_shape`.  A scalar prints no empty layout."""
        layout = str(self.layout)
        return self.text_without_layout() + (layout if layout != "{}" else "")

    def __repr__(self) -> str:
        dynamic = f", dynamic_dimensions={self.dynamic_dimensions}" if self.is_dynamic else ""
        return f"Shape({self.element_type.value!r}, {self.dimensions}, {self.layout!r}{dynamic})"
