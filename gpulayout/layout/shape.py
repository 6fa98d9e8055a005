"""A shape: element type, dimension sizes and layout; and the questions they answer together.

Sizes without a unit count elements; `nbytes` and names with `byte` count bytes.  Sequences over dimensions are
in logical order unless the name says `minor_to_major` or `major_to_minor`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpulayout.layout import checks
from gpulayout.layout.argument_hints import corrects, of_shape
from gpulayout.layout.cached import cached_property
from gpulayout.layout.consistency import check_layout, check_size, check_storage
from gpulayout.layout.digits import cuts
from gpulayout.layout.dynamic import UNBOUNDED, checked_dimensions, checked_flags, size_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.frozen import Frozen
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import as_layout
from gpulayout.layout.padding import canonical_scalar, pad_bytes

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_BYTE = np.dtype(np.uint8)


@corrects(of_shape)
@dataclass(frozen=True, eq=False, repr=False)
class Shape(Frozen):
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
    dimensions: tuple[int, ...]
    layout: Layout = None  # type: ignore[assignment]
    dynamic_dimensions: tuple[bool, ...] = field(default=None, kw_only=True)  # type: ignore[arg-type]

    if TYPE_CHECKING:  # what a caller may write; the fields say what they become

        def __init__(
            self,
            element_type: str | DTypeLike,
            dimensions: Iterable[int],
            layout: Layout | str | None = None,
            *,
            dynamic_dimensions: Iterable[bool] | None = None,
        ) -> None: ...

        _hash: int

    def __post_init__(self) -> None:
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
            raise LayoutError(
                f"dimensions {checks.shown(self.dimensions)} have no size for {self}: "
                f"dimension {self.dimensions.index(UNBOUNDED)} is unbounded"
            )
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
        """The product of all dimensions that have a size; those without a bound are passed over.  XLA:
        `StaticExtentProduct`.
        """
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
        """Elements in the buffer, padding included: the physical dimensions' product, rounded up for the tail
        padding.
        """
        places, alignment = math.prod(self.physical_dimensions), self.layout.tail_padding_alignment
        return -(-places // alignment) * alignment

    @property
    def bits_per_element(self) -> int:
        """Bits that one element occupies in the buffer: `element_size_in_bits`, or the whole bytes of the element
        type.
        """
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
            raise LayoutError(
                f"tiles {''.join(map(str, self.layout.tiles))} of {self} have no single stride per dimension: "
                "a tiled shape has none of its own; gl.view finds them where neighbours lie at one distance"
            )
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
            raise LayoutError(
                f"element_size_in_bits {self.bits_per_element} of {self} has no byte strides: "
                "neighbours lie in the same byte"
            )
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

    # ---- the 1-D array that is the buffer --------------------------------------------------------------

    @cached_property
    def buffer_dtype(self) -> np.dtype:
        """NumPy dtype of the buffer: the element's, or uint8 where elements are packed."""
        return _BYTE if self.is_packed else self.element_type.dtype

    @cached_property
    def buffer_length(self) -> int:
        """Length of the buffer as an array of `buffer_dtype`: its places, or its bytes where elements are packed.

        >>> from gpulayout import parse_shape
        >>> parse_shape("s4[5]{0:E(4)}").buffer_length, parse_shape("s4[5]").buffer_length
        (3, 5)
        """
        return self.nbytes if self.is_packed else self.buffer_size

    @cached_property
    def unpadded_nbytes(self) -> int:
        """Bytes that the elements alone would take: `nbytes` without padding, tiles and tail.

        >>> from gpulayout import parse_shape
        >>> shape = parse_shape("f32[10]{0:T(8,128)}")
        >>> shape.nbytes, shape.unpadded_nbytes
        (4096, 40)
        """
        return -(-self.element_count * self.bits_per_element // 8)

    @property
    def unpacked_byte_strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each dimension if every element had its type's whole bytes.

        LayoutError for a tiled layout.  XLA: `UnpackedByteStrides`.

        >>> from gpulayout import parse_shape
        >>> parse_shape("s4[2,3]{0,1:E(4)}").unpacked_byte_strides
        (1, 2)
        """
        return tuple(stride * self.itemsize for stride in self.strides)

    # ---- questions about dimensions -------------------------------------------------------------------

    def dimension(self, number: int) -> int:
        """The size of a dimension; -1 is the last.  XLA: `GetDimension`, with both ends checked."""
        return self.dimensions[self.dimension_number(number)]

    def dimension_number(self, number: int) -> int:
        """A dimension number in 0..rank-1 from one that may be negative.  XLA: `GetDimensionNumber`."""
        return checks.dimension_number(number, self.rank, f" for {self}")

    def dimension_minor(self, position: int) -> int:
        """The size of the dimension at a physical position counted from the most minor (0).  XLA:
        `dimensions_minor`.
        """
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

    # ---- edits: each gives a new shape -----------------------------------------------------------------

    def replace(self, **fields: Any) -> Shape:
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
        return self.replace(
            dimensions=[self.dimensions[dim] for dim in order],
            layout=self.layout.permute(order),
            dynamic_dimensions=[self.dynamic_dimensions[dim] for dim in order],
        )

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
        return self.replace(
            dimensions=(*self.dimensions[:at], size, *self.dimensions[at:]),
            layout=layout,
            dynamic_dimensions=(*self.dynamic_dimensions[:at], False, *self.dynamic_dimensions[at:]),
        )

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
        return self.replace(
            dimensions=[self.dimensions[dim] for dim in kept],
            layout=self.layout.delete_dimensions(gone),
            dynamic_dimensions=[self.dynamic_dimensions[dim] for dim in kept],
        )

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
        return self.delete_dimensions(
            [
                dim
                for dim, (size, width) in enumerate(zip(self.dimensions, self.buffer_dimensions))
                if size == width == 1
            ]
        )

    def move_dimension_to_major(self, dimension: int) -> Shape:
        """The same logical array with one dimension made the most major."""
        return self.with_layout(self.layout.move_dimension_to_major(self.dimension_number(dimension)))

    def move_dimension_to_minor(self, dimension: int) -> Shape:
        """The same logical array with one dimension made the most minor."""
        return self.with_layout(self.layout.move_dimension_to_minor(self.dimension_number(dimension)))

    # ---- value ----------------------------------------------------------------------------------------

    def text_without_layout(self) -> str:
        """Element type and dimensions alone: `f32[2,3]`."""
        sizes = (
            map(str, self.dimensions)
            if not self.is_dynamic
            else map(size_text, self.dimensions, self.dynamic_dimensions)
        )
        return f"{self.element_type}[{','.join(sizes)}]"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape):
            return NotImplemented
        return self is other or (
            self._hash == other._hash
            and self.element_type is other.element_type
            and self.dimensions == other.dimensions
            and self.layout == other.layout
            and self.dynamic_dimensions == other.dynamic_dimensions
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        """The text form, `f32[2,3]{0,1}`: the inverse of `parse_shape`.  A scalar prints no empty layout."""
        layout = str(self.layout)
        return self.text_without_layout() + (layout if layout != "{}" else "")

    def __repr__(self) -> str:
        dynamic = f", dynamic_dimensions={self.dynamic_dimensions}" if self.is_dynamic else ""
        return f"Shape({self.element_type.value!r}, {self.dimensions}, {self.layout!r}{dynamic})"
