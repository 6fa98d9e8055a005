"""The cases for a CPU: the kinds of the GPU's list at about 32 MB an array (before packing), more than the caches
of a typical machine hold.
"""

from __future__ import annotations

from benchmarks.cases.build import index_cases, packed_cases, padded, permute, tiled, transpose
from benchmarks.cases.case import Case, MoveCase
from gpulayout import PaddingValue

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
    *tiled("f32 2048x4096 T(8,128)", "f32", (2048, 4096), (8, 128)),
    *tiled("f16 4096x4096 T(8,128)(2,1)", "f16", (4096, 4096), (8, 128), together=2),
    *tiled("s8 4096x8192 T(8,128)(4,1)", "s8", (4096, 8192), (8, 128), together=4),
    *(transpose(f"f32 {n}x{n}", "f32", n, n, group="ladder") for n in (128, 256, 512, 1024)),
    *packed_cases((8192, 4096), odd=(4097, 8193)),
    *index_cases(1 << 21),
]

# Single calls, in which planning and checks outweigh the bytes.
SMALL_CASES: list[MoveCase] = [
    MoveCase("f32 256, copy", "small", "f32", (256,)),
    transpose("f32 16x16", "f32", 16, 16, group="small"),
    permute("f32 4x4x4x4 reversed", "f32", (4, 4, 4, 4), (3, 2, 1, 0), group="small"),
    permute("f16 8x8x8", "f16", (8, 8, 8), (0, 2, 1), group="small"),
    transpose("f64 8x16", "f64", 8, 16, group="small"),
]
