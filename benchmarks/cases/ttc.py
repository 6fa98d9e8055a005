"""The 57 tensor transpositions by which compilers and libraries have been measured since TTC (2016).

Dimensions and orders are as in `benchmark/benchmark.sh` of springer13/hptt, which ap-hynninen/cutt repeats: most minor
dimension first, and dimension i of the target is dimension order[i] of the source.  Every permutation comes in three
sets of sizes, about 200 MB of float32 each: even, with a long first dimension of the source, with a long first
dimension of the target.
"""

from __future__ import annotations

from benchmarks.cases.build import column_major
from benchmarks.cases.case import MoveCase
from benchmarks.cases.wanted import TTC_ROW

# The order, then the three sets of sizes.
_TRIOS = (
    ((1, 0), (7264, 7264), (43408, 1216), (1216, 43408)),
    ((0, 2, 1), (368, 384, 384), (2144, 64, 384), (368, 64, 2307)),
    ((1, 0, 2), (384, 384, 355), (2320, 384, 59), (384, 2320, 59)),
    ((2, 1, 0), (384, 355, 384), (2320, 59, 384), (384, 59, 2320)),
    ((0, 3, 2, 1), (80, 96, 75, 96), (464, 16, 75, 96), (80, 16, 75, 582)),
    ((2, 1, 3, 0), (96, 75, 96, 75), (608, 12, 96, 75), (96, 12, 608, 75)),
    ((2, 0, 3, 1), (96, 75, 96, 75), (608, 12, 96, 75), (96, 12, 608, 75)),
    ((1, 0, 3, 2), (96, 96, 75, 75), (608, 96, 12, 75), (96, 608, 12, 75)),
    ((3, 2, 1, 0), (96, 75, 75, 96), (608, 12, 75, 96), (96, 12, 75, 608)),
    ((0, 4, 2, 1, 3), (32, 48, 28, 28, 48), (176, 8, 28, 28, 48), (32, 8, 28, 28, 298)),
    ((3, 2, 1, 4, 0), (48, 28, 28, 48, 28), (352, 4, 28, 48, 28), (48, 4, 28, 352, 28)),
    ((2, 0, 4, 1, 3), (48, 28, 48, 28, 28), (352, 4, 48, 28, 28), (48, 4, 352, 28, 28)),
    ((1, 3, 0, 4, 2), (48, 48, 28, 28, 28), (352, 48, 4, 28, 28), (48, 352, 4, 28, 28)),
    ((4, 3, 2, 1, 0), (48, 28, 28, 28, 48), (352, 4, 28, 28, 48), (48, 4, 28, 28, 352)),
    ((0, 3, 2, 5, 4, 1), (16, 32, 15, 32, 15, 15), (48, 10, 15, 32, 15, 15), (16, 10, 15, 103, 15, 15)),
    ((3, 2, 0, 5, 1, 4), (32, 15, 15, 32, 15, 15), (112, 5, 15, 32, 15, 15), (32, 5, 15, 112, 15, 15)),
    ((2, 0, 4, 1, 5, 3), (32, 15, 32, 15, 15, 15), (112, 5, 32, 15, 15, 15), (32, 5, 112, 15, 15, 15)),
    ((3, 2, 5, 1, 0, 4), (32, 15, 15, 32, 15, 15), (112, 5, 15, 32, 15, 15), (32, 5, 15, 112, 15, 15)),
    ((5, 4, 3, 2, 1, 0), (32, 15, 15, 15, 15, 32), (112, 5, 15, 15, 15, 32), (32, 5, 15, 15, 15, 112)),
)
TRANSPOSITIONS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = tuple(
    (dimensions, order) for order, *sizes in _TRIOS for dimensions in sizes
)


def ttc_cases(element_type: str) -> list[MoveCase]:
    """All 57 for one element type."""
    return [ttc_case(element_type, dimensions, order, group="TTC") for dimensions, order in TRANSPOSITIONS]


def ttc_case(element_type: str, dimensions: tuple[int, ...], order: tuple[int, ...], group: str) -> MoveCase:
    """One of the list; ValueError for any other."""
    if (dimensions, order) not in TRANSPOSITIONS:
        raise ValueError(f"order {order} of {dimensions} is not one of the 57")
    name = f"{element_type} {','.join(map(str, dimensions))} order {' '.join(map(str, order))}"
    return column_major(name, element_type, dimensions, order, group=group, goal=TTC_ROW)


TTC_CASES = ttc_cases("f32") + ttc_cases("f64")
