"""The cases for a GPU: sizes of published measurements where they exist, and sizes that are hard for kernels.

Half-precision cases are f16: a kernel moves bytes, so bf16 is the same work.
"""

from __future__ import annotations

from benchmarks.cases.build import (
    column_major,
    index_cases,
    large_transpose,
    packed_cases,
    padded,
    permute,
    strided,
    tiled,
    transpose,
)
from benchmarks.cases.case import Case, MoveCase
from benchmarks.cases.cpu import SMALL_CASES
from benchmarks.cases.ttc import ttc_case
from benchmarks.cases.wanted import ALIGNED, ATTENTION, ODD, PACKING, THREE_CHANNELS
from gpulayout import PaddingValue


def of_ttc(dimensions: tuple[int, ...], order: tuple[int, ...]) -> MoveCase:
    """One of the 57 tensor transpositions, beside all peers."""
    return ttc_case("f32", dimensions, order, group="N-D")


GPU_CASES: list[Case] = [
    large_transpose("f32 8192x8192", "f32", 8192, 8192),
    large_transpose("f64 32768x16384", "f64", 32768, 16384),
    large_transpose("f32 43408x1216", "f32", 43408, 1216),
    large_transpose("f32 1216x43408", "f32", 1216, 43408),
    large_transpose("f16 16384x16384", "f16", 16384, 16384),
    large_transpose("u8 32768x8192", "u8", 32768, 8192),
    large_transpose("c128 8192x8192", "c128", 8192, 8192),
    large_transpose("f32 8191x8209, odd", "f32", 8191, 8209),
    large_transpose("f16 16381x8209, odd", "f16", 16381, 8209),
    large_transpose("u8 32749x8191, odd", "u8", 32749, 8191),
    transpose("f32 50000000x3, to planes", "f32", 50_000_000, 3, goal=THREE_CHANNELS),
    transpose("f32 3x50000000, to records", "f32", 3, 50_000_000, goal=THREE_CHANNELS),
    transpose("f32 100000000x2", "f32", 100_000_000, 2),
    large_transpose("f64 512x1024x1024, batched", "f64", 512, 1024, 1024, group="N-D"),
    large_transpose("f16 3072x64x512, batched", "f16", 3072, 64, 512, group="N-D"),
    of_ttc((384, 59, 2320), (2, 1, 0)),
    of_ttc((2320, 384, 59), (1, 0, 2)),
    of_ttc((608, 12, 75, 96), (3, 2, 1, 0)),
    of_ttc((80, 16, 75, 582), (0, 3, 2, 1)),
    of_ttc((352, 4, 28, 28, 48), (4, 3, 2, 1, 0)),
    of_ttc((32, 15, 15, 15, 15, 32), (5, 4, 3, 2, 1, 0)),
    of_ttc((112, 5, 32, 15, 15, 15), (2, 0, 4, 1, 5, 3)),
    column_major("f64 64,32,32,32,16,16 order 5 0 4 1 3 2", "f64", (64, 32, 32, 32, 16, 16), (5, 0, 4, 1, 3, 2)),
    column_major("f64 128 and 22 times 2, reversed", "f64", (128, *(2,) * 22), tuple(range(22, -1, -1))),
    column_major("f64 3^18 reversed", "f64", (3,) * 18, tuple(range(17, -1, -1))),
    column_major("f64 3^18 cyclic", "f64", (3,) * 18, (*range(1, 18), 0)),
    permute("f16 NCHW to NHWC 256x64x56x56", "f16", (256, 64, 56, 56), (0, 2, 3, 1), goal=ALIGNED[2]),
    permute("f16 NHWC to NCHW 256x56x56x64", "f16", (256, 56, 56, 64), (0, 3, 1, 2), goal=ALIGNED[2]),
    permute("f16 NCHW to NHWC 256x2048x7x7", "f16", (256, 2048, 7, 7), (0, 2, 3, 1), goal=ODD[2]),
    permute("f16 NHWC to NCHW 256x7x7x2048", "f16", (256, 7, 7, 2048), (0, 3, 1, 2), goal=ODD[2]),
    permute("u8 NHWC to NCHW 64x1024x1024x3", "u8", (64, 1024, 1024, 3), (0, 3, 1, 2), goal=THREE_CHANNELS),
    permute("u8 NCHW to NHWC 64x3x1024x1024", "u8", (64, 3, 1024, 1024), (0, 2, 3, 1), goal=THREE_CHANNELS),
    permute("f16 attention BSHD to BHSD 8x4096x32x128", "f16", (8, 4096, 32, 128), (0, 2, 1, 3), goal=ATTENTION),
    permute("f16 attention K transposed 8x32x4096x128", "f16", (8, 32, 4096, 128), (0, 1, 3, 2), goal=ATTENTION),
    permute("f16 65536x100x6 to 6x100x65536", "f16", (65536, 100, 6), (2, 1, 0)),
    *padded("f32 8191x8191 in 8191x8192", "f32", (8191, 8191), (8191, 8192), PaddingValue.LOWEST),
    *padded("f32 channels 3 in 4, 64x1024x1024", "f32", (64, 1024, 1024, 3), (64, 1024, 1024, 4)),
    *padded("s8 48 channels in 64, 1024x48x56x56", "s8", (1024, 48, 56, 56), (1024, 64, 56, 56)),
    permute("s8 4096x4096 to columns of 32", "s8", (4096, 128, 32), (1, 0, 2), goal=PACKING),
    permute("s8 columns of 32 to 4096x4096", "s8", (128, 4096, 32), (1, 0, 2), goal=PACKING),
    *tiled("f32 8192x8192 T(8,128)", "f32", (8192, 8192), (8, 128)),
    *tiled("f16 8192x8192 T(8,128)(2,1)", "f16", (8192, 8192), (8, 128), together=2),
    strided("f32 255x10x24x35 out of rows of 40", "f32", (255, 10, 24, 35), (255, 10, 24, 40)),
    strided("f32 63x70x1001, rows backwards", "f32", (63, 70, 1001), (63, 70, 1001), backward=(0, 1)),
    strided("f32 63x70x1001, all backwards", "f32", (63, 70, 1001), (63, 70, 1001), backward=(0, 1, 2)),
    *packed_cases((32768, 32768), odd=(16385, 65537)),
    *index_cases(1 << 27),
    *(transpose(f"f32 {n}x{n}", "f32", n, n, group="tiny") for n in (32, 256, 512, 1024, 2048)),
    transpose("f16 256x512", "f16", 256, 512, group="tiny"),
    permute("f32 8x16x32x64 order 0 2 1 3", "f32", (8, 16, 32, 64), (0, 2, 1, 3), group="tiny"),
]

# Timed on the host only, call by call; the list above has the device's time.
GPU_SMALL_CASES: list[MoveCase] = [
    *SMALL_CASES,
    transpose("f32 32x32", "f32", 32, 32, group="small"),
    transpose("f16 256x512", "f16", 256, 512, group="small"),
    permute("f32 8x16x32x64 order 0 2 1 3", "f32", (8, 16, 32, 64), (0, 2, 1, 3), group="small"),
    transpose("f32 512x512", "f32", 512, 512, group="small"),
]

# No peer does these in one call, so there is no reference to check against.
LEFT_OUT = {
    "s8 NCHW 256x48x56x56 to tiles of 32 channels": "partial tiles with padding have no peer",
    "f16 4096x4100 to tiles of (8,128) and (2,1)": "partial tiles with padding have no peer",
}
