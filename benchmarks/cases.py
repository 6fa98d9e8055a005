"""What is measured: shapes and orders that people move, and sizes that break kernels.

Every case is data.  Sizes on a GPU are those of published measurements where there are any; the CPU list has the same
kinds at about 32 MB an array, beyond every cache of a usual machine.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from gpulayout import Layout, PaddingValue, Shape


@dataclass(frozen=True)
class MoveCase:
    """One relayout, pack or unpack.

    order    the target's dimensions, most major first: what `transpose` takes; None keeps them
    widths   padded dimensions of the buffer in pack and unpack, in logical order
    """

    name: str
    group: str
    element_type: str
    dimensions: tuple[int, ...]
    order: tuple[int, ...] | None = None
    widths: tuple[int, ...] | None = None
    kind: str = "relayout"
    padding_value: PaddingValue | None = None

    @property
    def source(self) -> Shape:
        """The array before: C order."""
        return Shape(self.element_type, self.dimensions)

    @property
    def target(self) -> Shape:
        """The buffer after (before, when unpacking)."""
        order = self.order or tuple(range(len(self.dimensions)))
        return Shape(self.element_type, self.dimensions, Layout.from_major_to_minor(
            order, padded_dimensions=self.widths, padding_value=self.padding_value))

    @property
    def bytes_moved(self) -> int:
        """Bytes read and bytes written."""
        places = self.target.nbytes if self.kind != "unpack" else self.source.nbytes
        return self.source.nbytes + places

    @property
    def bytes_allocated(self) -> int:
        """One input and one output."""
        return self.source.nbytes + self.target.nbytes


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


Case = MoveCase | IndexCase


def transpose(name: str, element_type: str, *dimensions: int, group: str = "2-D") -> MoveCase:
    """The last two dimensions change places."""
    rank = len(dimensions)
    return MoveCase(name, group, element_type, dimensions, (*range(rank - 2), rank - 1, rank - 2))


def permute(name: str, element_type: str, dimensions: tuple[int, ...], order: tuple[int, ...], group: str = "N-D") -> MoveCase:
    return MoveCase(name, group, element_type, dimensions, order)


def column_major(name: str, element_type: str, dimensions: tuple[int, ...], order: tuple[int, ...]) -> MoveCase:
    """A case from the literature of tensor transposition, which counts dimensions from the most minor."""
    rank = len(dimensions)
    return MoveCase(name, "N-D", element_type, dimensions[::-1], tuple(rank - 1 - dim for dim in reversed(order)))


def padded(name: str, element_type: str, dimensions: tuple[int, ...], widths: tuple[int, ...],
           value: PaddingValue | None = None) -> list[MoveCase]:
    """Packing into wider dimensions, and unpacking again."""
    return [MoveCase(f"{kind} {name}", "padding", element_type, dimensions, None, widths, kind, value)
            for kind in ("pack", "unpack")]


def index_cases(count: int) -> list[IndexCase]:
    """The three conversions at rank 3 and 6 and in both widths; `count` indices each."""
    cases = []
    for dimensions in ((512, 300, 700), (12, 30, 20, 25, 16, 28)):
        rank = len(dimensions)
        for dtype in ("int64", "int32"):
            for kind in ("linearize", "delinearize", "convert_linear"):
                cases.append(IndexCase(f"{kind} rank {rank} {dtype}", kind, dimensions, count, dtype, tuple(range(rank))[::-1]))
    return cases


CPU_CASES: list[Case] = [
    transpose("f32 4096x2048", "f32", 4096, 2048),
    transpose("f64 2048x2048", "f64", 2048, 2048),
    transpose("c128 1024x2048", "c128", 1024, 2048),
    transpose("f16 4096x4096", "f16", 4096, 4096),
    transpose("s8 8192x4096", "s8", 8192, 4096),
    transpose("f32 2895x2897, odd", "f32", 2895, 2897),
    transpose("f16 4095x4097, odd", "f16", 4095, 4097),
    transpose("s8 5791x5793, odd", "s8", 5791, 5793),
    transpose("f32 2796202x3, to planes", "f32", 2796202, 3),
    transpose("f32 3x2796202, to records", "f32", 3, 2796202),
    transpose("f64 64x256x256, batched", "f64", 64, 256, 256, group="N-D"),
    transpose("f16 512x64x512, batched", "f16", 512, 64, 512, group="N-D"),
    permute("f32 NCHW to NHWC 32x64x56x56", "f32", (32, 64, 56, 56), (0, 2, 3, 1)),
    permute("f32 NHWC to NCHW 32x56x56x64", "f32", (32, 56, 56, 64), (0, 3, 1, 2)),
    permute("f16 NCHW to NHWC 64x512x14x14", "f16", (64, 512, 14, 14), (0, 2, 3, 1)),
    permute("u8 NHWC to NCHW 10x1024x1024x3", "u8", (10, 1024, 1024, 3), (0, 3, 1, 2)),
    permute("f16 attention BSHD to BHSD 4x1024x32x128", "f16", (4, 1024, 32, 128), (0, 2, 1, 3)),
    permute("f16 attention K transposed 4x32x1024x128", "f16", (4, 32, 1024, 128), (0, 1, 3, 2)),
    permute("f32 runs of 64 bytes 1024x512x16", "f32", (1024, 512, 16), (1, 0, 2)),
    permute("f32 24^5 reversed", "f32", (24,) * 5, (4, 3, 2, 1, 0)),
    *padded("f32 2880x2881 in 2880x3072", "f32", (2880, 2881), (2880, 3072), PaddingValue.LOWEST),
    *padded("f32 channels 3 in 4, 32x256x256", "f32", (32, 256, 256, 3), (32, 256, 256, 4)),
    *padded("s8 48 channels in 64, 160x48x56x56", "s8", (160, 48, 56, 56), (160, 64, 56, 56)),
    *padded("f32 300x160x160 in 304x192x192", "f32", (300, 160, 160), (304, 192, 192)),
    *(transpose(f"f32 {n}x{n}", "f32", n, n, group="ladder") for n in (128, 256, 512, 1024)),
    *index_cases(1 << 21),
]

SMALL_CASES: list[Case] = [
    MoveCase("f32 256, copy", "small", "f32", (256,)),
    transpose("f32 16x16", "f32", 16, 16, group="small"),
    permute("f32 4x4x4x4 reversed", "f32", (4, 4, 4, 4), (3, 2, 1, 0), group="small"),
    permute("f16 8x8x8", "f16", (8, 8, 8), (0, 2, 1), group="small"),
    transpose("f64 8x16", "f64", 8, 16, group="small"),
]

GPU_CASES: list[Case] = [
    transpose("f32 8192x8192", "f32", 8192, 8192),
    transpose("f64 32768x16384", "f64", 32768, 16384),
    transpose("f32 43408x1216", "f32", 43408, 1216),
    transpose("f32 1216x43408", "f32", 1216, 43408),
    transpose("f16 16384x16384", "f16", 16384, 16384),
    transpose("u8 32768x8192", "u8", 32768, 8192),
    transpose("c128 8192x8192", "c128", 8192, 8192),
    transpose("f32 8191x8209, odd", "f32", 8191, 8209),
    transpose("f16 16381x8209, odd", "f16", 16381, 8209),
    transpose("u8 32749x8191, odd", "u8", 32749, 8191),
    transpose("f32 50000000x3, to planes", "f32", 50_000_000, 3),
    transpose("f32 3x50000000, to records", "f32", 3, 50_000_000),
    transpose("f32 100000000x2", "f32", 100_000_000, 2),
    transpose("f64 512x1024x1024, batched", "f64", 512, 1024, 1024, group="N-D"),
    transpose("f16 3072x64x512, batched", "f16", 3072, 64, 512, group="N-D"),
    column_major("f32 384,59,2320 order 2 1 0", "f32", (384, 59, 2320), (2, 1, 0)),
    column_major("f32 2320,384,59 order 1 0 2", "f32", (2320, 384, 59), (1, 0, 2)),
    column_major("f32 608,12,75,96 order 3 2 1 0", "f32", (608, 12, 75, 96), (3, 2, 1, 0)),
    column_major("f32 80,16,75,582 order 0 3 2 1", "f32", (80, 16, 75, 582), (0, 3, 2, 1)),
    column_major("f32 352,4,28,28,48 order 4 3 2 1 0", "f32", (352, 4, 28, 28, 48), (4, 3, 2, 1, 0)),
    column_major("f32 32,15,15,15,15,32 order 5 4 3 2 1 0", "f32", (32, 15, 15, 15, 15, 32), (5, 4, 3, 2, 1, 0)),
    column_major("f32 112,5,32,15,15,15 order 2 0 4 1 5 3", "f32", (112, 5, 32, 15, 15, 15), (2, 0, 4, 1, 5, 3)),
    column_major("f64 64,32,32,32,16,16 order 5 0 4 1 3 2", "f64", (64, 32, 32, 32, 16, 16), (5, 0, 4, 1, 3, 2)),
    column_major("f64 3^18 reversed", "f64", (3,) * 18, tuple(range(17, -1, -1))),
    column_major("f64 128 and 22 times 2, reversed", "f64", (128, *(2,) * 22), tuple(range(22, -1, -1))),
    permute("f16 NCHW to NHWC 256x64x56x56", "f16", (256, 64, 56, 56), (0, 2, 3, 1)),
    permute("f16 NHWC to NCHW 256x56x56x64", "f16", (256, 56, 56, 64), (0, 3, 1, 2)),
    permute("f16 NCHW to NHWC 1024x2048x7x7", "f16", (1024, 2048, 7, 7), (0, 2, 3, 1)),
    permute("u8 NHWC to NCHW 64x1024x1024x3", "u8", (64, 1024, 1024, 3), (0, 3, 1, 2)),
    permute("f16 attention BSHD to BHSD 8x4096x32x128", "f16", (8, 4096, 32, 128), (0, 2, 1, 3)),
    permute("f16 attention K transposed 8x32x4096x128", "f16", (8, 32, 4096, 128), (0, 1, 3, 2)),
    permute("f16 65536x100x6 to 6x100x65536", "f16", (65536, 100, 6), (2, 1, 0)),
    *padded("f32 8191x8191 in 8191x8192", "f32", (8191, 8191), (8191, 8192), PaddingValue.LOWEST),
    *padded("f32 channels 3 in 4, 64x1024x1024", "f32", (64, 1024, 1024, 3), (64, 1024, 1024, 4)),
    *padded("s8 48 channels in 64, 1024x48x56x56", "s8", (1024, 48, 56, 56), (1024, 64, 56, 56)),
    *(transpose(f"f32 {n}x{n}", "f32", n, n, group="ladder") for n in (256, 512, 1024, 2048)),
    *index_cases(1 << 27),
]


def quick(cases: list[Case]) -> list[Case]:
    """The same cases a few hundred times smaller: to see that everything runs, not how fast."""
    return [_shrunk(case) for case in cases]


def _shrunk(case: Case) -> Case:
    fields = dict(vars(case))
    if isinstance(case, IndexCase):
        return IndexCase(**fields | {"count": 4096})
    while math.prod(fields["dimensions"]) > 40_000 and max(fields["dimensions"]) > 3:
        largest = fields["dimensions"].index(max(fields["dimensions"]))
        for name in ("dimensions", "widths"):
            sizes = fields[name]
            if sizes:
                fields[name] = (*sizes[:largest], math.ceil(sizes[largest] / 2), *sizes[largest + 1:])
    return MoveCase(**fields)
