"""How time grows with bytes, with threads and with the number of indices: the lists that are drawn as curves."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cases.build import transpose
from benchmarks.cases.case import Case, IndexCase

SIDES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)  # 8 KB to 537 MB moved
COUNTS = (10**2, 10**3, 10**4, 10**5, 10**6, 10**7)

CURVES: dict[str, Sequence[Case]] = {
    "bytes": [transpose(f"f32 {side}x{side}", "f32", side, side, group="bytes") for side in SIDES],
    "linearize": [
        IndexCase(f"linearize {count:,} int64, rank 3", "linearize", (512, 300, 700), count) for count in COUNTS
    ],
}
