"""Whether dimensions and a layout fit each other: checks that need both, so only a shape can run them."""

from __future__ import annotations

from gpulayout.layout import checks
from gpulayout.layout.digits import cuts
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.split_config import texts


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


def _packed_types(types: list[ElementType], bits: int) -> str:
    """What to write for elements of fewer bits than a byte, or nothing where no type has so many."""
    if not types:
        return ""
    names = [each.value for each in types]
    *others, last = [f"dtype='{name}'" for name in names]
    written = f"{', '.join(others)} or {last}" if others else last
    return f". Elements of {checks.counted(bits, 'bit')} are {', '.join(names)}: a move converts to them with {written}"


def check_storage(element_type: ElementType, layout: Layout, text: checks.Text) -> None:
    """LayoutError unless one dense buffer can hold elements of this type in this layout; `text` is the shape."""
    bits = layout.element_size_in_bits
    if bits and bits != 8 * element_type.itemsize and not (element_type.is_sub_byte and bits == element_type.bits):
        own = f"{element_type.bits} or " if element_type.is_sub_byte else ""
        packed = [each for each in ElementType if each.is_sub_byte and each.bits == bits]
        if element_type is ElementType.PRED:  # a signed type of 1 bit has -1 and 0, so True would become 0
            packed = [each for each in packed if not each.is_signed]
        raise LayoutError(
            f"element_size_in_bits {checks.number_text(bits)} is not a storage size of {element_type} for {text}: "
            f"{element_type} takes {own}{8 * element_type.itemsize} bits{_packed_types(packed, bits)}"
        )
    for field in ("index_type", "pointer_type"):
        if getattr(layout, field) is not None:
            raise LayoutError(
                f"{field} {getattr(layout, field)} belongs to sparse layouts for {text}: the array is dense"
            )
    if layout.split_configs:
        raise LayoutError(
            f"split_configs {texts(layout.split_configs)} splits the array across several memories for {text}: "
            "only an array in one memory can be moved"
        )
