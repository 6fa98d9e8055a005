"""What is measured is data: one relayout, pack, unpack or index conversion per case.  The lists are in cpu_cases.py, gpu_cases.py
and ttc.py; the cases of packed elements in packed_cases.py.
"""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.goals import INDEX, PACKING, TILES, transpose_goal
from benchmarks.packed_cases import PackedCase
from gpulayout import Layout, PaddingValue, Shape, Tile


@dataclass(frozen=True)
class MoveCase:
    """One relayout, pack or unpack, or the packing of a strided view.

    order     the target's dimensions, most major first: what `transpose` takes; None keeps them
    widths    padded dimensions of the buffer in pack and unpack, in logical order
    cut_from  "strided": dimensions of the array that the input is the first part of
    backward  "strided": the dimensions that the input walks backwards
    tiling    "to" or "from": a relayout between a matrix and its tiles.  Whole tiles are a permutation, and `dimensions` and
              `order` say it to the peers: (rows of tiles, rows, rows together, columns of tiles, columns) and back
    goal      the fraction of a plain copy that is wanted on a GPU
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
    goal: float | None = None

    @property
    def source(self) -> Shape:
        """The array before: C order, or the tiles of a matrix."""
        if self.tiling:
            return self._matrix(tiled=self.tiling == "from")
        return Shape(self.element_type, self.dimensions)

    @property
    def target(self) -> Shape:
        """The buffer after (before, when unpacking)."""
        if self.tiling:
            return self._matrix(tiled=self.tiling == "to")
        order = self.order or tuple(range(len(self.dimensions)))
        return Shape(self.element_type, self.dimensions, Layout.from_major_to_minor(
            order, padded_dimensions=self.widths, padding_value=self.padding_value))

    def _matrix(self, tiled: bool) -> Shape:
        """The matrix of a case with tiles, as it lies before or after."""
        digits = self.dimensions if self.tiling == "to" else [self.dimensions[dim] for dim in self.order]
        above, rows, together, beside, columns = digits
        tiles = [Tile((rows * together, columns)), *([Tile((together, 1))] if together > 1 else [])]
        return Shape(self.element_type, (above * rows * together, beside * columns), Layout((1, 0), tiles=tiles if tiled else ()))

    @property
    def bytes_moved(self) -> int:
        """Bytes read and bytes written."""
        places = self.target.nbytes if self.kind != "unpack" else self.source.nbytes
        return self.source.nbytes + places

    @property
    def bytes_allocated(self) -> int:
        """One input and one output."""
        held = Shape(self.element_type, self.cut_from) if self.cut_from else self.source
        return held.nbytes + self.target.nbytes


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


Case = MoveCase | IndexCase | PackedCase


def transpose(name: str, element_type: str, *dimensions: int, group: str = "2-D", goal: float | None = None) -> MoveCase:
    """The last two dimensions change places."""
    rank = len(dimensions)
    return MoveCase(name, group, element_type, dimensions, (*range(rank - 2), rank - 1, rank - 2), goal=goal)


def large_transpose(name: str, element_type: str, *dimensions: int, group: str = "2-D") -> MoveCase:
    """A transpose that is large enough to have a goal."""
    goal = transpose_goal(Shape(element_type, ()).itemsize, *dimensions[-2:])
    return transpose(name, element_type, *dimensions, group=group, goal=goal)


def permute(name: str, element_type: str, dimensions: tuple[int, ...], order: tuple[int, ...], group: str = "N-D",
            goal: float | None = None) -> MoveCase:
    """Any order of dimensions."""
    return MoveCase(name, group, element_type, dimensions, order, goal=goal)


def column_major(name: str, element_type: str, dimensions: tuple[int, ...], order: tuple[int, ...], group: str = "N-D",
                 goal: float | None = None) -> MoveCase:
    """A case from the literature of tensor transposition, which counts dimensions from the most minor."""
    rank = len(dimensions)
    return permute(name, element_type, dimensions[::-1], tuple(rank - 1 - dim for dim in reversed(order)), group, goal)


def padded(name: str, element_type: str, dimensions: tuple[int, ...], widths: tuple[int, ...],
           value: PaddingValue | None = None) -> list[MoveCase]:
    """Packing into wider dimensions, and unpacking again."""
    return [MoveCase(f"{kind} {name}", "padding", element_type, dimensions, None, widths, kind, value, goal=PACKING)
            for kind in ("pack", "unpack")]


def tiled(name: str, element_type: str, matrix: tuple[int, int], tile: tuple[int, int], together: int = 1) -> list[MoveCase]:
    """A matrix into whole tiles and back; `together` rows of a tile are interleaved, as T(8,128)(2,1) does with 2."""
    (rows, columns), (high, wide) = matrix, tile
    dense = (rows // high, high // together, together, columns // wide, wide)
    order, back = (0, 3, 1, 4, 2), (0, 2, 4, 1, 3)
    stored = tuple(dense[dim] for dim in order)
    return [MoveCase(f"{name}, to tiles", "tiles", element_type, dense, order, tiling="to", goal=TILES),
            MoveCase(f"{name}, from tiles", "tiles", element_type, stored, back, tiling="from", goal=TILES)]


def strided(name: str, element_type: str, dimensions: tuple[int, ...], cut_from: tuple[int, ...],
            backward: tuple[int, ...] = ()) -> MoveCase:
    """A view into a larger array, made contiguous."""
    return MoveCase(name, "strided", element_type, dimensions, kind="strided", cut_from=cut_from, backward=backward)


def index_cases(count: int) -> list[IndexCase]:
    """The three conversions at rank 3 and 6 and in both widths; `count` indices each."""
    cases = []
    for dimensions in ((512, 300, 700), (12, 30, 20, 25, 16, 28)):
        rank = len(dimensions)
        for dtype in ("int64", "int32"):
            for kind in ("linearize", "delinearize", "convert_linear"):
                cases.append(IndexCase(f"{kind} rank {rank} {dtype}", kind, dimensions, count, dtype, tuple(range(rank))[::-1]))
    return cases


SMALL_CASES: list[MoveCase] = [
    MoveCase("f32 256, copy", "small", "f32", (256,)),
    transpose("f32 16x16", "f32", 16, 16, group="small"),
    permute("f32 4x4x4x4 reversed", "f32", (4, 4, 4, 4), (3, 2, 1, 0), group="small"),
    permute("f16 8x8x8", "f16", (8, 8, 8), (0, 2, 1), group="small"),
    transpose("f64 8x16", "f64", 8, 16, group="small"),
]


def named(cases: Iterable[Case], text: str) -> list[Case]:
    """The cases whose name contains this text, in upper or lower case."""
    return [case for case in cases if text.casefold() in case.name.casefold()]


QUICK_ELEMENTS = 40_000


def quick(cases: list[Case]) -> list[Case]:
    """The same cases a few hundred times smaller: to see that everything runs, not how fast."""
    return [_shrunk(case) for case in cases]


def _shrunk(case: Case) -> Case:
    fields = dict(vars(case))
    if isinstance(case, IndexCase):
        return IndexCase(**fields | {"count": 4096})
    while math.prod(fields["dimensions"]) > QUICK_ELEMENTS:
        largest = fields["dimensions"].index(max(fields["dimensions"]))
        for name in ("dimensions", "widths", "cut_from"):
            sizes = fields.get(name)
            if sizes:
                fields[name] = (*sizes[:largest], math.ceil(sizes[largest] / 2), *sizes[largest + 1:])
    return type(case)(**fields)
