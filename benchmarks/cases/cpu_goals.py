"""The cases with goals for the CPU: relayouts of 64 MB an array and more (one of 51), padding, ten million indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchmarks.cases.build import padded, permute, transpose
from benchmarks.cases.case import IndexCase, MoveCase

REVERSAL = "f32 32^5 reversed"
TWO_DIMENSIONS, LONG_ROWS, CHANNELS = "2-D", "long rows", "channels"


def _matrix(name: str, element_type: str, rows: int, columns: int) -> MoveCase:
    return transpose(f"{element_type} {name}", element_type, rows, columns, group=TWO_DIMENSIONS)


def _runs(size: int, *dimensions: int) -> MoveCase:
    return permute(f"f32 runs of {size} bytes", "f32", dimensions, (1, 0, 2))


RELAYOUTS: Sequence[MoveCase] = (
    *(_matrix("8192x8192", element_type, 8192, 8192) for element_type in ("f64", "f32", "f16", "u8")),
    _matrix("4096x4096", "c128", 4096, 4096),
    _matrix("4096x4096", "f32", 4096, 4096),
    *(_matrix("8191x8193, odd", element_type, 8191, 8193) for element_type in ("f64", "f32", "f16", "u8")),
    transpose("f32 10Mx3, to planes", "f32", 10**7, 3, group="N-D"),
    transpose("f32 3x10M, to records", "f32", 3, 10**7, group="N-D"),
    transpose("u8 30Mx3, to planes", "u8", 3 * 10**7, 3, group="N-D"),
    transpose("u8 3x30M, to records", "u8", 3, 3 * 10**7, group="N-D"),
    permute("f32 NCHW to NHWC", "f32", (32, 64, 112, 112), (0, 2, 3, 1)),
    permute("f32 NHWC to NCHW", "f32", (32, 112, 112, 64), (0, 3, 1, 2)),
    permute("f16 NCHW to NHWC", "f16", (32, 64, 112, 112), (0, 2, 3, 1)),
    permute("f32 attention BSHD to BHSD", "f32", (8, 2048, 16, 64), (0, 2, 1, 3)),
    permute("f16 attention BSHD to BHSD", "f16", (32, 2048, 16, 64), (0, 2, 1, 3)),
    permute(REVERSAL, "f32", (32,) * 5, (4, 3, 2, 1, 0)),
    permute("f32 16^6, order 3 0 5 2 4 1", "f32", (16,) * 6, (3, 0, 5, 2, 4, 1)),
    permute("f64 16^6, order 2 5 1 4 0 3", "f64", (16,) * 6, (2, 5, 1, 4, 0, 3)),
    _runs(16, 2048, 2048, 4),
    _runs(24, 2000, 2000, 6),
    _runs(64, 1024, 2048, 16),
    _runs(256, 1024, 512, 64),
    _runs(1024, 512, 256, 256),
)


def _padding(group: str, name: str, dimensions: tuple[int, ...], widths: tuple[int, ...]) -> list[MoveCase]:
    return [dataclasses.replace(case, group=group) for case in padded(name, "f32", dimensions, widths)]


PADDINGS: Sequence[MoveCase] = (
    *_padding(LONG_ROWS, "f32 8000x8000 in 8192x8192", (8000, 8000), (8192, 8192)),
    *_padding(LONG_ROWS, "f32 3 planes in 4, 32x3x512x512", (32, 3, 512, 512), (32, 4, 512, 512)),
    *_padding(CHANNELS, "f32 3 channels in 4, 32x512x512x3", (32, 512, 512, 3), (32, 512, 512, 4)),
)

_EXTENTS = ((512, 300, 700), (96, 110, 120, 84), (12, 30, 20, 25, 16, 28))

INDICES: Sequence[IndexCase] = tuple(
    IndexCase(f"{kind} 10M int64, rank {len(dimensions)}", kind, dimensions, 10**7)
    for kind in ("delinearize", "linearize")
    for dimensions in _EXTENTS
)
