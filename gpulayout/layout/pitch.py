"""Rows that begin so many bytes apart, or at multiples of so many bytes.

A row is what lies below one step of a dimension.  Two words say where rows begin:

    pitch   the exact distance in bytes from the beginning of a row to that of the next, as in cudaMallocPitch
    align   each row begins at a multiple of so many bytes after the first: its bytes are rounded up

Rows of 50 f32 take 200 bytes.  `pitch=256` and `align=256` both give them 256, `pitch=512` gives 512, `align=512` too,
and `align=128` gives 256, where `pitch=128` is an error: rows of 200 bytes do not fit.  Rows of 640 bytes with
`align=100` take 700.

A row of one dimension gets its bytes as its padded width.  A row of several, such as 1900 pixels of 3 channels, may
need a number of elements that no padded width gives.  Then a tile joins the dimensions and pads:

    u8[1080,1900,3], align=256 for dimension 0     rows of 5700 bytes take 5888, {2,1,0:T(*,5888)}
    u8[1080,1900,3], pitch=6144 for dimension 0    they take 6144, a width of 2048 pixels, {2,1,0:PD(1080,2048,3)}
    u8[1080,1900,4], align=256 for dimension 0     rows of 7600 bytes take 7680, {2,1,0:PD(1080,1920,4)}

Without a dimension, rows are those of the most minor dimension.  An error asks for it where longer rows can be meant:
for a pitch, where the rows of more dimensions fit too; for an alignment, where it more than doubles the memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpulayout.layout import checks
from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import after_sizes
from gpulayout.layout.tile import COMBINE, Tile


def pitched(
    element_type: ElementType,
    dimensions: tuple[int, ...],
    layout: Layout,
    pitch: object,
    align: object,
    text: checks.Text,
    dimension: int | None = None,
) -> Layout:
    """The layout in which the steps of a dimension are `pitch` bytes, or multiples of `align` bytes.

    Exactly one of the two is given.
    dimension   by default the one above the most minor; then bytes that are likely to mean another one are refused
    text        the shape without its layout, for errors
    """
    context = f" for {text}{after_sizes(layout)}"
    word, value = _said(pitch, align, context)
    unit = checks.whole_number(word, value, context)
    _check(dimensions, layout, unit, f"{word} {checks.number_text(unit)}", context)
    bits = layout.element_size_in_bits or 8 * element_type.itemsize
    rows = _Rows(word, unit, bits, layout.padded_dimensions or dimensions, layout.minor_to_major, context)
    position = 1 if dimension is None else rows.order.index(dimension)
    if not position:
        raise LayoutError(f"{rows.shown} cannot be given to dimension {dimension}{context}: it is the most minor one")
    elements = rows.elements(position)
    if word == "align":
        rows.check_multiple()
        if dimension is None:
            rows.check_cost()
        padded = _rounded(elements, rows.step)
    else:
        rows.check_fits(position)
        if dimension is None:
            rows.check_one_reading()
        padded = rows.step if elements else 0
    return _with_rows(layout, rows.widths, rows.order[:position], padded)


def _said(pitch: object, align: object, context: str) -> tuple[str, object]:
    """The keyword that was given, and its value."""
    if pitch is not None and align is not None:
        raise LayoutError(
            f"pitch {checks.value_text(pitch)} and align {checks.value_text(align)} are two answers{context}: pitch is "
            "the distance between rows in bytes, align rounds their bytes up to a multiple. Write one of them"
        )
    if pitch is None and align is None:
        raise LayoutTypeError(
            f"neither pitch nor align is given{context}: write the distance between rows in bytes, or align=256 for "
            "rows at multiples of 256 bytes"
        )
    return ("align", align) if pitch is None else ("pitch", pitch)


def _check(dimensions: tuple[int, ...], layout: Layout, unit: int, shown: str, context: str) -> None:
    """LayoutError for bytes, or an array, without rows."""
    if unit < 1:
        raise LayoutError(f"{shown} is not a number of bytes{context}: it must be at least 1")
    if layout.tiles:
        tiles = "".join(map(str, layout.tiles))
        raise LayoutError(f"{shown} is for layouts without tiles{context}: {tiles} cut the rows into blocks")
    if not dimensions:
        raise LayoutError(f"{shown} needs a dimension to pad{context}: a scalar has no rows")
    if UNBOUNDED in dimensions:
        raise LayoutError(f"{shown} cannot be given{context}: dimension {dimensions.index(UNBOUNDED)} is unbounded")


def _with_rows(layout: Layout, widths: tuple[int, ...], row: tuple[int, ...], padded: int) -> Layout:
    """The layout whose rows, of the dimensions `row`, most minor first, take `padded` elements."""
    elements, outer = checks.product(widths[dim] for dim in row), row[-1]
    if padded == elements:
        return layout
    others = elements // widths[outer]
    if padded % others:
        return layout.replace(tiles=[Tile([*[COMBINE] * (len(row) - 1), padded])])
    return layout.replace(
        padded_dimensions=[padded // others if dim == outer else width for dim, width in enumerate(widths)]
    )


@dataclass(frozen=True)
class _Rows:
    """The rows of an array, and what was said about their bytes.

    word      the caller's keyword: "pitch" or "align"
    unit      its bytes
    bits      of one element in memory
    context   the shape, for errors
    """

    word: str
    unit: int
    bits: int
    widths: tuple[int, ...]
    order: tuple[int, ...]
    context: str

    @property
    def shown(self) -> str:
        return f"{self.word} {checks.number_text(self.unit)}"

    @property
    def step(self) -> int:
        """The whole elements in so many bytes."""
        return 8 * self.unit // self.bits

    def elements(self, position: int) -> int:
        """Those of a row below the dimension at this position of the order."""
        return checks.product(self.widths[dim] for dim in self.order[:position])

    def check_multiple(self) -> None:
        """LayoutError for an alignment at which an element would be cut."""
        if 8 * self.unit % self.bits:
            both = checks.number_text(math.lcm(8 * self.unit, self.bits) // 8)
            raise LayoutError(f"{self._cuts_elements()}: write align={both}, a multiple of both")

    def check_fits(self, position: int) -> None:
        """LayoutError, with the nearest pitch that works, for one that cuts an element or is shorter than a row."""
        whole = math.lcm(self.bits, 8)  # bits of the smallest number of bytes that holds whole elements
        row = self.elements(position) * self.bits
        least = _rounded(row, whole) // 8
        if 8 * self.unit % self.bits:
            below = 8 * self.unit // whole * whole // 8
            near = sorted({max(pitch, least) for pitch in (below, below + whole // 8)} - {0})
            raise LayoutError(f"{self._cuts_elements()}: write {' or '.join(map(self._written, near))}")
        if self.unit < least:
            size = checks.counted(row // 8, "byte") if row % 8 == 0 else checks.counted(row, "bit")
            raise LayoutError(
                f"{self.shown} is below the {size} of a row of {self._names(position)}{self.context}: write "
                f"{self._written(least)}, the smallest that fits, or align={checks.number_text(self.unit)} for rows "
                f"that begin at multiples of {checks.counted(self.unit, 'byte')}"
            )

    def check_one_reading(self) -> None:
        """LayoutError for a pitch that holds rows of more dimensions than one, if no dimension says which."""
        fitting = [position for position in self._above()[1:] if self.elements(position) <= self.step]
        if not fitting or 0 in self.widths:
            return
        raise LayoutError(
            f"{self.shown} holds a row of dimension {self.order[0]}, and one of {self._names(fitting[-1])} together"
            f"{self.context}: write {self._call(self.order[fitting[-1]])} after the shape for the longer rows, or "
            f"dimension={self.order[1]} for rows of dimension {self.order[0]} alone"
        )

    def check_cost(self) -> None:
        """LayoutError for rows of one dimension that an alignment more than doubles, if longer rows can be meant."""
        minor, step, above = self.elements(1), self.step, self._above()
        if len(above) < 2 or _rounded(minor, step) <= 2 * minor or 0 in self.widths:
            return
        sizes = {position: self.elements(position) for position in above[1:]}
        best = next((position for position, size in sizes.items() if _rounded(size, step) <= 2 * size), above[-1])
        before, after, instead = (
            checks.number_text(checks.product(self.widths) // size * _rounded(size, unit) * self.bits // 8)
            for size, unit in ((minor, 1), (minor, step), (sizes[best], step))
        )
        raise LayoutError(
            f"{self.shown} takes {after} bytes instead of {before}{self.context}: it pads every "
            f"{checks.counted(minor, 'element')} of dimension {self.order[0]}. For rows of {self._names(best)} "
            f"together write {self._call(self.order[best])} after the shape, which takes {instead} bytes; "
            f"dimension={self.order[1]} pads dimension {self.order[0]} alone"
        )

    def _above(self) -> list[int]:
        """The positions in the order of dimensions above the most minor one that have more than one index."""
        return [position for position in range(1, len(self.order)) if self.widths[self.order[position]] > 1]

    def _names(self, position: int) -> str:
        row = sorted(self.order[:position])
        return f"dimension{'s' * (len(row) > 1)} {', '.join(map(str, row))}"

    def _cuts_elements(self) -> str:
        size = f"{self.bits // 8} bytes" if self.bits % 8 == 0 else f"{self.bits} bits"
        return f"{self.shown} is not a multiple of the {size} of an element{self.context}"

    def _written(self, pitch: int) -> str:
        return f"pitch={checks.number_text(pitch)}"

    def _call(self, dimension: int) -> str:
        value = checks.number_text(self.unit)
        return f".with_pitch({value if self.word == 'pitch' else f'align={value}'}, dimension={dimension})"


def _rounded(elements: int, step: int) -> int:
    return -(-elements // step) * step
