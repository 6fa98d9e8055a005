"""A pitch: rows that begin every so many bytes.

A row is what lies below one step of a dimension.  Rows of 1000 f32 take 4000 bytes; with a pitch of 256 they take 4096,
which are 1024 elements.  A row of one dimension gets them as its padded width.  A row of several, such as 1900 pixels
of 3 channels, may need a number of elements that no padded width gives.  Then a tile joins the dimensions and pads:

    u8[1080,1900,3], a pitch of 256 for dimension 0     rows of 5700 bytes take 5888, {2,1,0:T(*,5888)}
    u8[1080,1900,4]                                     rows of 7600 bytes take 7680, {2,1,0:PD(1080,1920,4)}
"""

from __future__ import annotations

from gpulayout.layout import checks
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import after_sizes
from gpulayout.layout.tile import COMBINE, Tile


def pitched(
    element_type: ElementType,
    dimensions: tuple[int, ...],
    layout: Layout,
    pitch: object,
    text: checks.Text,
    dimension: int | None = None,
) -> Layout:
    """The layout in which the steps of a dimension are multiples of `pitch` bytes.

    dimension   by default the one above the most minor; then a pitch that is likely to mean another one is refused
    text        the shape without its layout, for errors
    """
    context = f" for {text}{after_sizes(layout)}"
    unit = checks.whole_number("pitch", pitch, context)
    shown = f"pitch {checks.number_text(unit)}"
    _check(dimensions, layout, unit, shown, context)
    bits = layout.element_size_in_bits or 8 * element_type.itemsize
    if 8 * unit % bits:
        size = f"{bits // 8} bytes" if bits % 8 == 0 else f"{bits} bits"
        raise LayoutError(f"{shown} is not a multiple of the {size} of an element{context}")
    step = 8 * unit // bits
    widths, order = layout.padded_dimensions or dimensions, layout.minor_to_major
    if dimension is None:
        _check_cost(widths, order, step, bits, shown, context)
        position = 1
    else:
        position = order.index(dimension)
    if not position:
        raise LayoutError(f"{shown} cannot be given to dimension {dimension}{context}: it is the most minor one")
    return _with_rows(layout, widths, order[:position], step)


def _check(dimensions: tuple[int, ...], layout: Layout, unit: int, shown: str, context: str) -> None:
    """LayoutError for a pitch, or an array, without rows."""
    if unit < 1:
        raise LayoutError(f"{shown} is not a number of bytes{context}: it must be at least 1")
    if layout.tiles:
        tiles = "".join(map(str, layout.tiles))
        raise LayoutError(f"{shown} is for layouts without tiles{context}: {tiles} cut the rows into blocks")
    if not dimensions:
        raise LayoutError(f"{shown} needs a dimension to pad{context}: a scalar has no rows")
    if UNBOUNDED in dimensions:
        raise LayoutError(f"{shown} cannot be given{context}: dimension {dimensions.index(UNBOUNDED)} is unbounded")


def _with_rows(layout: Layout, widths: tuple[int, ...], row: tuple[int, ...], step: int) -> Layout:
    """The layout whose rows, of the dimensions `row`, most minor first, take a multiple of `step` elements."""
    elements, outer = _row_elements(widths, row), row[-1]
    padded = _rounded(elements, step)
    if padded == elements:
        return layout
    others = elements // widths[outer]
    if padded % others:
        return layout.replace(tiles=[Tile([*[COMBINE] * (len(row) - 1), padded])])
    return layout.replace(
        padded_dimensions=[padded // others if dim == outer else width for dim, width in enumerate(widths)]
    )


def _check_cost(
    widths: tuple[int, ...], order: tuple[int, ...], step: int, bits: int, shown: str, context: str
) -> None:
    """LayoutError for rows of one dimension that the pitch more than doubles, if longer rows can be meant."""
    minor = widths[order[0]]
    above = [position for position in range(1, len(order)) if widths[order[position]] > 1]
    if len(above) < 2 or _rounded(minor, step) <= 2 * minor or 0 in widths:
        return
    sizes = {position: _row_elements(widths, order[:position]) for position in above[1:]}
    best = next((position for position, size in sizes.items() if _rounded(size, step) <= 2 * size), above[-1])
    all_places = checks.product(widths)
    before, after, instead = (
        all_places // size * _rounded(size, unit) * bits // 8
        for size, unit in ((minor, 1), (minor, step), (sizes[best], step))
    )
    rows = ", ".join(map(str, sorted(order[:best])))
    call = f".with_pitch({shown.removeprefix('pitch ')}, dimension={order[best]})"
    raise LayoutError(
        f"{shown} takes {checks.number_text(after)} bytes instead of {checks.number_text(before)}{context}: it pads "
        f"every {checks.counted(minor, 'element')} of dimension {order[0]}. For rows of dimensions {rows} together "
        f"write {call} after the shape, which takes {checks.number_text(instead)} bytes; dimension={order[1]} pads "
        f"dimension {order[0]} alone"
    )


def _row_elements(widths: tuple[int, ...], row: tuple[int, ...]) -> int:
    return checks.product(widths[dim] for dim in row)


def _rounded(elements: int, step: int) -> int:
    return -(-elements // step) * step
