"""The definition of a case: one relayout, pack or unpack, or one index conversion, as plain data.  The lists are in
files of their own; convert.py defines those in which elements change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.cases.convert import ConvertCase
from benchmarks.cases.wanted import INDEX
from gpulayout import Layout, PaddingValue, Shape, Tile


@dataclass(frozen=True)
class MoveCase:
    """One relayout, pack or unpack, the packing of a strided view, or a relayout of packed elements.

    order     the target's dimensions, most major first, as `transpose` takes them; None keeps the order
    widths    padded dimensions of the buffer in pack and unpack, in logical order
    cut_from  "strided": dimensions of the larger array of which the input is the first part
    backward  "strided": the dimensions that the input walks backwards
    tiling    "to" or "from": a relayout between a matrix and its tiles.  Whole tiles are a permutation, which
              `dimensions` and `order` state for the peers: (rows of tiles, rows, rows together, columns of tiles,
              columns) and back
    packed    elements of 1 and 4 bits are packed in the "target", the "source" or "both"; kind is then "packed"
    goal      the fraction of a plain copy's speed to reach on a GPU
    """

    name: str
    group: str
    element_type: str
    dimensions: tuple[int, ...]
    order: tuple[int, ...] | None = None
    widths: tuple[int, ...] | None = None
    kind: str = "relayout"
    padding_value: PaddingValue | None = None
    cut_from: tuple[int, ...] | None = None
    backward: tuple[int, ...] = ()
    tiling: str = ""
    packed: str = ""
    goal: float | None = None

    @property
    def bits(self) -> int:
        """Bits of a packed element: 4 for u4."""
        return int(self.element_type[1:])

    @property
    def source(self) -> Shape:
        """The array before: C order, or the tiles of a matrix."""
        if self.tiling:
            return self._matrix("source", tiled=self.tiling == "from")
        return self._shape("source", None)

    @property
    def target(self) -> Shape:
        """The buffer after (before, when unpacking)."""
        if self.tiling:
            return self._matrix("target", tiled=self.tiling == "to")
        return self._shape("target", self.order, padded_dimensions=self.widths, padding_value=self.padding_value)

    def _shape(self, side: str, order: tuple[int, ...] | None, **padding: object) -> Shape:
        return Shape(
            self.element_type,
            self.dimensions,
            Layout.from_major_to_minor(
                order or range(len(self.dimensions)), element_size_in_bits=self._packed_bits(side), **padding
            ),
        )

    def _matrix(self, side: str, tiled: bool) -> Shape:
        """The matrix of a tiled case, as it is stored before or after the move."""
        digits = self.dimensions if self.tiling == "to" else [self.dimensions[dim] for dim in self.order]
        above, rows, together, beside, columns = digits
        tiles = [Tile((rows * together, columns)), *([Tile((together, 1))] if together > 1 else [])]
        return Shape(
            self.element_type,
            (above * rows * together, beside * columns),
            Layout((1, 0), tiles=tiles if tiled else (), element_size_in_bits=self._packed_bits(side)),
        )

    def _packed_bits(self, side: str) -> int:
        return self.bits if self.packed in (side, "both") else 0

    @property
    def bytes_moved(self) -> int:
        """Bytes read plus bytes written; packed elements count as packed bytes."""
        places = self.target.nbytes if self.kind != "unpack" else self.source.nbytes
        return self.source.nbytes + places

    @property
    def bytes_allocated(self) -> int:
        """One input, one output, and the memory of plain code for packed elements: words of two bytes, and
        elements before and after.
        """
        held = Shape(self.element_type, self.cut_from) if self.cut_from else self.source
        between = math.prod(self.dimensions) * (3 if self.packed == "both" else 1) if self.packed else 0
        return held.nbytes + self.target.nbytes + between

    def as_matrices(self) -> tuple[int, int, int] | None:
        """(batch, rows, columns) if a relayout transposes the matrices of a batch, else None.

        NCHW to NHWC has the order 0 2 3 1: N matrices of C rows and H * W columns.
        """
        if self.kind != "relayout" or not self.order:
            return None
        rank, order = len(self.order), self.order
        same = next((k for k in range(rank) if order[k] != k), rank)
        if same == rank:
            return None
        middle = order[same]
        if order[same:] != (*range(middle, rank), *range(same, middle)):
            return None
        return tuple(
            math.prod(self.dimensions[part]) for part in (slice(same), slice(same, middle), slice(middle, rank))
        )


@dataclass(frozen=True)
class IndexCase:
    """One index conversion of `count` indices; `order` is the layout converted to, most major first."""

    name: str
    kind: str
    dimensions: tuple[int, ...]
    count: int
    dtype: str = "int64"
    order: tuple[int, ...] | None = None
    group: str = "index"
    goal: float | None = INDEX

    @property
    def source(self) -> Shape:
        return Shape("u8", self.dimensions)

    @property
    def target(self) -> Shape:
        return self.source.with_layout(Layout.from_major_to_minor(self.order or range(len(self.dimensions))))

    @property
    def bytes_moved(self) -> int:
        rows = 2 if self.kind == "convert_linear" else 1 + len(self.dimensions)
        return rows * self.count * int(self.dtype.removeprefix("int")) // 8

    @property
    def bytes_allocated(self) -> int:
        return self.bytes_moved


Case = MoveCase | IndexCase | ConvertCase
