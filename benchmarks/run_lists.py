"""How long lists of runs take, and how much memory, beside an array of as many bytes that is only filled.

`python -m benchmarks.exchange_side` measures them.  The first list is compared with a loop that a user would write.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import gpulayout as gl


def calls(runs: int) -> dict[str, Callable[[], Any]]:
    """What lists about so many runs of each kind."""
    tokens = runs // 512 * 64  # a run for each of 8 heads
    tables = np.random.default_rng(1).permutation(tokens // 16), np.random.default_rng(2).permutation(tokens // 64)
    heads_first, tokens_first = f"bf16[{tokens},8,128]{{2,1,0:T(16,1,128)}}", f"bf16[{tokens},8,128]"
    loop = gl.plan(f"f32[1000,{runs // 1000}]", "{0,1}")
    tiles = gl.plan(f"bf16[{runs // 8},1000]", "{1,0:T(8,128)}")
    other = gl.plan(f"f32[{runs // 112 * 8},56]{{1,0:T(8,7)}}", "{1,0:T(8,8)}")
    pages = gl.plan(heads_first, tokens_first)
    return {
        "one loop": loop.runs,
        "tiles with remainders": tiles.runs,
        "tiles of 7 to tiles of 8": other.runs,
        "pages of 16 to pages of 64": lambda: pages.runs(pages=tables),
    }


def by_hand(runs: int) -> Any:
    """The first list, run by run."""
    columns = runs // 1000
    return np.array([(4 * (i * columns + j), 4 * (j * 1000 + i), 4) for j in range(columns) for i in range(1000)])


def measured_lists(runs: int, rounds: int) -> list[dict[str, Any]]:
    """Medians of each list and of filling its memory, and the most memory while it is made."""
    results = []
    for name, call in calls(runs).items():
        array = call()
        ways = {"list": call, "filled": lambda shape=array.shape: np.full(shape, 7, np.int64)}
        if not results:
            assert np.array_equal(array, by_hand(runs))
            ways["by hand"] = lambda: by_hand(runs)
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, work in ways.items():
                start = time.perf_counter()
                work()
                times[way].append(time.perf_counter() - start)
        results.append(
            {
                "list": name,
                "runs": len(array),
                "bytes": array.nbytes,
                "seconds": {way: statistics.median(each) for way, each in times.items()},
                "all_seconds": times,
                "peak_bytes": peak_of(call),
            }
        )
    return results


def peak_of(call: Callable[[], Any]) -> int:
    """The most memory that NumPy and Python hold during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
