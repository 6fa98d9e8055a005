"""The fields of a shape, whether they fit each other, and what follows from them: sizes, strides, the buffer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from gpulayout.layout import checks
from gpulayout.layout.digits import cuts
from gpulayout.layout.dynamic import UNBOUNDED, checked_dimensions, checked_flags, size_text
from gpulayout.layout.element_type import ACROSS_BYTES, ElementType, TorchDType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.frozen import Keyed, cached_property
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import texts
from gpulayout.layout.layout_text import as_layout
from gpulayout.layout.padding import canonical_scalar, pad_bytes
from gpulayout.layout.pitch import pitched

_BYTE: np.dtype[Any] = np.dtype(np.uint8)


@dataclass(frozen=True, init=False, eq=False, repr=False)  # `__init__` takes more than the fields
class ShapeSizes(Keyed):
    """The fields of a `Shape`, which inherits them, and what follows from them."""

    element_type: ElementType
    dimensions: tuple[int, ...]
    layout: Layout
    dynamic_dimensions: tuple[bool, ...] = field(kw_only=True)

    def __init__(
        self,
        element_type: str | DTypeLike | TorchDType,
        dimensions: Iterable[SupportsIndex],
        layout: Layout | str | None = None,
        *,
        dynamic_dimensions: Sequence[bool] | None = None,
        pitch: SupportsIndex | None = None,
        align: SupportsIndex | None = None,
    ):
        known = ElementType.of(element_type)
        sizes = checked_dimensions(dimensions)
        flags = checked_flags(dynamic_dimensions, sizes)
        text = checks.Later(lambda: text_without_layout(known, sizes, flags))
        layout = as_layout(layout, len(sizes), text)
        check_layout(sizes, layout, text)
        if pitch is not None or align is not None:
            layout = pitched(known, sizes, layout, pitch, align, text)
        check_size(sizes, layout, known.itemsize, text)
        value = layout.padding_value
        if value is not None:
            canonical = canonical_scalar(known, value, checks.Later(lambda: f" for {text}{layout}"))
            layout = layout if canonical is value else layout.replace(padding_value=canonical)
        fields = {"element_type": known, "dimensions": sizes, "layout": layout, "dynamic_dimensions": flags}
        self._fill(fields, (known, sizes, layout, flags))

    # ---- sizes -----------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @property
    def true_rank(self) -> int:
        """Number of dimensions of size greater than 1, as in XLA's document "Shapes and Layout".

        XLA's code counts sizes other than 1, so it differs for dimensions of size 0.
        """
        return sum(size is UNBOUNDED or size > 1 for size in self.dimensions)

    @property
    def is_dynamic(self) -> bool:
        """True when any dimension is dynamic.  XLA: `is_dynamic`."""
        return True in self.dynamic_dimensions

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """The dimensions as numbers; a dynamic dimension counts as its bound.  LayoutError when one is unbounded."""
        if UNBOUNDED in self.dimensions:
            raise LayoutError(
                f"dimensions {checks.shown(self.dimensions)} have no size for {self}: "
                f"dimension {self.dimensions.index(UNBOUNDED)} is unbounded"
            )
        return self.dimensions

    @property
    def dtype(self) -> np.dtype[Any]:
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
        """The product of the dimensions, unbounded ones left out.  XLA: `StaticExtentProduct`."""
        return math.prod(size for size in self.dimensions if size is not UNBOUNDED)

    @cached_property
    def buffer_dimensions(self) -> tuple[int, ...]:
        """Width of every dimension in memory, before tiling: its padded size if it has one."""
        return self.layout.padded_dimensions or self.bounds

    @property
    def physical_widths(self) -> tuple[int, ...]:
        """`buffer_dimensions` in physical order, most major first."""
        return tuple(self.buffer_dimensions[dim] for dim in self.layout.major_to_minor)

    @cached_property
    def physical_dimensions(self) -> tuple[int, ...]:
        """The sizes of the buffer as a row-major array: the physical widths, cut by every tile in turn.

        >>> from gpulayout import parse_shape
        >>> parse_shape("bf16[4,8]{1,0:T(2,4)(2,1)}").physical_dimensions
        (2, 2, 1, 4, 2, 1)
        """
        widths, tiles = self.physical_widths, self.layout.tiles
        return cuts(widths, tiles).sizes if tiles else widths

    @cached_property
    def buffer_size(self) -> int:
        """Elements in the buffer, padding included: the product of `physical_dimensions`, rounded up for the tail."""
        places, alignment = math.prod(self.physical_dimensions), self.layout.tail_padding_alignment
        return -(-places // alignment) * alignment

    @property
    def bits_per_element(self) -> int:
        """Bits of one element in the buffer: `element_size_in_bits`, or the whole bytes of the element type."""
        return self.layout.element_size_in_bits or 8 * self.itemsize

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the buffer, padding included; packed elements are rounded up to bytes once, at the end."""
        return -(-self.buffer_size * self.bits_per_element // 8)

    @property
    def is_tiled(self) -> bool:
        """True when the layout has tiles, even if they change nothing."""
        return len(self.layout.tiles) > 0  # torch.compile cannot trace bool() of tuples in all releases

    @property
    def is_packed(self) -> bool:
        """True when several elements share a byte."""
        return self.layout.is_packed

    def validate_layout(self) -> None:
        """Raise LayoutError unless one dense buffer can hold the shape, so that it can be moved.

        It refuses an `element_size_in_bits` that the element type is not stored in, the fields of sparse layouts, and
        data split across memories.  Such shapes can still be parsed, compared and printed.
        XLA: `ValidateLayoutForShape`.
        """
        element_type, layout, bits = self.element_type, self.layout, self.layout.element_size_in_bits
        if bits and bits != 8 * self.itemsize and not (element_type.is_sub_byte and bits == element_type.bits):
            own = f"{element_type.bits} or " if element_type.is_sub_byte else ""
            packed = [member for member in ElementType if member.is_sub_byte and member.bits == bits]
            if element_type is ElementType.PRED:  # a signed type of 1 bit has -1 and 0, so True would become 0
                packed = [member for member in packed if not member.is_signed]
            hint = ""
            if packed:
                written = checks.either([f"dtype='{member}'" for member in packed])
                hint = f". Elements of {checks.counted(bits, 'bit')} are {', '.join(packed)}: a move converts to them "
                hint += f"with {written}"
            elif bits % 8 and 8 % bits:
                hint = f". Elements of {checks.counted(bits, 'bit')} lie across bytes, which no layout describes: "
                hint += ACROSS_BYTES
            raise LayoutError(
                f"element_size_in_bits {checks.number_text(bits)} is not a storage size of {element_type} for {self}: "
                f"{element_type} takes {own}{8 * self.itemsize} bits{hint}"
            )
        for name in ("index_type", "pointer_type"):
            if getattr(layout, name) is not None:
                raise LayoutError(
                    f"{name} {getattr(layout, name)} belongs to sparse layouts for {self}: the array is dense"
                )
        if layout.split_configs:
            raise LayoutError(
                f"split_configs {texts(layout.split_configs)} splits the array across several memories for {self}: "
                "only an array in one memory can be moved"
            )

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension, padding included; a width of 0 counts as 1.

        LayoutError for a tiled layout.  If its tiles leave one stride per dimension, `view` finds it.
        """
        if self.is_tiled:
            raise LayoutError(
                f"tiles {''.join(map(str, self.layout.tiles))} of {self} have no single stride per dimension: "
                "strides are for untiled shapes; gl.view finds them if neighbours are always the same distance apart"
            )
        strides, step = [0] * self.rank, 1
        for dim in self.layout.minor_to_major:
            strides[dim] = step
            step *= max(self.buffer_dimensions[dim], 1)
        return tuple(strides)

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each dimension: NumPy's `strides`.

        LayoutError for strides that are not whole bytes and for a tiled layout.
        """
        if self.bits_per_element % 8:
            raise LayoutError(
                f"element_size_in_bits {self.bits_per_element} of {self} has no byte strides: neighbours share a byte"
            )
        return tuple(stride * (self.bits_per_element // 8) for stride in self.strides)

    @property
    def is_padded(self) -> bool:
        """True when the buffer has places without an element: from padded dimensions, tiles or the tail.

        >>> from gpulayout import parse_shape
        >>> parse_shape("f32[2,3]{1,0:PD(2,3)}").is_padded, parse_shape("f32[2,3]{1,0:PD(2,4)}").is_padded
        (False, True)
        """
        return self.buffer_dimensions != self.dimensions or self.buffer_size != self.element_count

    @cached_property
    def padding_bytes(self) -> bytes:
        """The bytes of one padding element."""
        return pad_bytes(self.element_type, self.layout.padding_value)

    # ---- the 1-D array that is the buffer --------------------------------------------------------------

    @cached_property
    def buffer_dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the buffer: that of the element, or uint8 when elements are packed."""
        return _BYTE if self.is_packed else self.element_type.dtype

    @cached_property
    def buffer_length(self) -> int:
        """Length of the buffer as an array of `buffer_dtype`: in elements, or in bytes when elements are packed.

        >>> from gpulayout import parse_shape
        >>> parse_shape("s4[5]{0:E(4)}").buffer_length, parse_shape("s4[5]").buffer_length
        (3, 5)
        """
        return self.nbytes if self.is_packed else self.buffer_size

    @cached_property
    def unpadded_nbytes(self) -> int:
        """Bytes of the elements without any padding, tiles or tail.

        >>> from gpulayout import parse_shape
        >>> shape = parse_shape("f32[10]{0:T(8,128)}")
        >>> shape.nbytes, shape.unpadded_nbytes
        (4096, 40)
        """
        return -(-self.element_count * self.bits_per_element // 8)

    @property
    def unpacked_byte_strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each dimension as if elements were not packed.

        LayoutError for a tiled layout.  XLA: `UnpackedByteStrides`.

        >>> from gpulayout import parse_shape
        >>> parse_shape("s4[2,3]{0,1:E(4)}").unpacked_byte_strides
        (1, 2)
        """
        return tuple(stride * self.itemsize for stride in self.strides)

    # ---- questions about dimensions -------------------------------------------------------------------

    def dimension(self, number: SupportsIndex) -> int:
        """The size of a dimension; -1 is the last.  XLA: `GetDimension`.  LayoutError when it is out of range."""
        return self.dimensions[self.dimension_number(number)]

    def dimension_number(self, number: SupportsIndex) -> int:
        """The dimension number in 0..rank-1 of one in -rank..rank-1.  XLA: `GetDimensionNumber`."""
        return checks.dimension_number(number, self.rank, f" for {self}")

    def dimension_minor(self, position: SupportsIndex) -> int:
        """The size of the dimension at a physical position, 0 being the most minor.  XLA: `dimensions_minor`."""
        return self.dimensions[self.layout.minor(position)]

    def stride(self, number: SupportsIndex) -> int:
        """Elements between neighbours along a dimension.  XLA: `GetDimensionStride`."""
        return self.strides[self.dimension_number(number)]

    @property
    def is_scalar(self) -> bool:
        """True at rank 0."""
        return self.rank == 0

    @property
    def is_effective_scalar(self) -> bool:
        """True when every dimension is 1, so that there is exactly one element."""
        return all(size == 1 for size in self.dimensions)

    @property
    def is_zero_element_array(self) -> bool:
        """True when any dimension is 0."""
        return self.element_count == 0

    @property
    def has_degenerate_dimensions(self) -> bool:
        """True when any dimension is 1."""
        return 1 in self.dimensions

    @property
    def last_dimension_is_minor_most(self) -> bool:
        """True when the last logical dimension varies fastest."""
        return self.rank > 0 and self.layout.minor(0) == self.rank - 1

    def is_effectively_most_major_dimension(self, number: SupportsIndex) -> bool:
        """True when only dimensions of size 1 are more major than this one."""
        position = self.layout.major_to_minor.index(self.dimension_number(number))
        return all(self.dimensions[dim] == 1 for dim in self.layout.major_to_minor[:position])

    def index_in_bounds(self, index: Iterable[SupportsIndex]) -> bool:
        """True for a logical index of the right rank with 0 <= index[d] < dimensions[d] for every d."""
        coordinates = checks.whole_numbers("index", index, f" for {self}")
        return len(coordinates) == self.rank and all(0 <= i < size for i, size in zip(coordinates, self.bounds))

    # ---- text ------------------------------------------------------------------------------------------

    def text_without_layout(self) -> str:
        """The text of the element type and the dimensions: `f32[2,3]`."""
        return text_without_layout(self.element_type, self.dimensions, self.dynamic_dimensions)


def text_without_layout(element_type: ElementType, dimensions: Sequence[int], flags: Sequence[bool]) -> str:
    """The text of an element type, sizes, and whether each is dynamic: `f32[2,<=3]`."""
    return f"{element_type}[{','.join(map(size_text, dimensions, flags))}]"


# ---- whether dimensions, layout and element type fit each other -----------------------------------------


def check_layout(dimensions: tuple[int, ...], layout: Layout, text: checks.Text) -> None:
    """LayoutError unless the layout has the right rank and is wide enough; `text` is the shape without its layout."""
    rank = len(dimensions)
    if layout.rank != rank:
        raise LayoutError(
            f"minor_to_major {checks.shown(layout.minor_to_major)} has {checks.counted(layout.rank, 'entry')} "
            f"for {text}: the shape has {checks.counted(rank, 'dimension')}"
        )
    widths = layout.padded_dimensions or ()
    for dim, (size, width) in enumerate(zip(dimensions, widths)):
        if size is UNBOUNDED:
            raise LayoutError(
                f"padded_dimensions {checks.shown(widths)} cannot be given for {text}{layout}: "
                f"dimension {dim} is unbounded"
            )
        if width < size:
            raise LayoutError(
                f"padded_dimensions {checks.shown(widths)} is smaller than dimensions "
                f"{checks.shown(dimensions)} for {text}{layout}: dimension {dim} needs at least {size}"
            )
    order = layout.major_to_minor
    for split in layout.split_configs:
        dim = order[split.dimension]
        if dimensions[dim] is not UNBOUNDED and split.split_indices[-1] >= dimensions[dim]:
            raise LayoutError(
                f"split_configs {texts(layout.split_configs)} cuts outside the array for {text}{layout}: physical "
                f"dimension {split.dimension} is dimension {dim} of size {checks.number_text(dimensions[dim])}"
            )


def check_size(dimensions: tuple[int, ...], layout: Layout, itemsize: int, text: checks.Text) -> None:
    """LayoutError unless every stride and the size in bytes fit in 63 bits.

    Sizes of 0 and unbounded sizes count as 1, so the order of the dimensions does not matter.  XLA multiplies from the
    left and stops at the first 0: it accepts [0,2^62,2^62] and refuses [2^62,2^62,0].
    """
    widths = layout.padded_dimensions or tuple(1 if size is UNBOUNDED else size for size in dimensions)
    bits = layout.element_size_in_bits or 8 * itemsize
    most = 8 * checks.INT64_MAX // bits
    field = "padded_dimensions" if layout.padded_dimensions else "dimensions"
    places = checks.product(max(width, 1) for width in widths)
    if layout.tiles and places <= most:
        field = "tiles"
        places = checks.product(cuts([max(widths[dim], 1) for dim in layout.major_to_minor], layout.tiles).sizes)
    if layout.tail_padding_alignment != 1 and places <= most:
        field = "tail_padding_alignment"
        places = -(-places // layout.tail_padding_alignment) * layout.tail_padding_alignment
    if places > most:
        tiles, tail = "".join(map(str, layout.tiles)), str(layout.tail_padding_alignment)
        shown = {"tiles": tiles, "tail_padding_alignment": tail}.get(field, checks.shown(widths))
        zeros = ", zeros counted as 1" if 0 in widths else ""
        nbytes = str(-(-places * bits // 8)) if places < checks.TOO_LARGE else "at least 2^253"
        raise LayoutError(
            f"{field} {shown} is too large for {text}{layout}: {nbytes} bytes{zeros}, the limit is 2^63-1"
        )
