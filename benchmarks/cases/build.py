"""Shorthands for cases."""

from __future__ import annotations

from benchmarks.cases.case import IndexCase, MoveCase
from benchmarks.cases.wanted import PACKING, TILES, transpose_goal
from gpulayout import PaddingValue, Shape


def transpose(
    name: str, element_type: str, *dimensions: int, group: str = "2-D", goal: float | None = None
) -> MoveCase:
    """Swap the last two dimensions."""
    rank = len(dimensions)
    return MoveCase(name, group, element_type, dimensions, (*range(rank - 2), rank - 1, rank - 2), goal=goal)


def large_transpose(name: str, element_type: str, *dimensions: int, group: str = "2-D") -> MoveCase:
    """A transpose that is large enough to have a goal."""
    goal = transpose_goal(Shape(element_type, ()).itemsize, *dimensions[-2:])
    return transpose(name, element_type, *dimensions, group=group, goal=goal)


def permute(
    name: str,
    element_type: str,
    dimensions: tuple[int, ...],
    order: tuple[int, ...],
    group: str = "N-D",
    goal: float | None = None,
) -> MoveCase:
    """Any order of dimensions."""
    return MoveCase(name, group, element_type, dimensions, order, goal=goal)


def column_major(
    name: str,
    element_type: str,
    dimensions: tuple[int, ...],
    order: tuple[int, ...],
    group: str = "N-D",
    goal: float | None = None,
) -> MoveCase:
    """A case from the literature on tensor transposition, which lists dimensions most minor first."""
    rank = len(dimensions)
    return permute(name, element_type, dimensions[::-1], tuple(rank - 1 - dim for dim in reversed(order)), group, goal)


def padded(
    name: str,
    element_type: str,
    dimensions: tuple[int, ...],
    widths: tuple[int, ...],
    value: PaddingValue | None = None,
) -> list[MoveCase]:
    """Packing into wider dimensions, and unpacking."""
    return [
        MoveCase(f"{kind} {name}", "padding", element_type, dimensions, None, widths, kind, value, goal=PACKING)
        for kind in ("pack", "unpack")
    ]


def tiled(
    name: str, element_type: str, matrix: tuple[int, int], tile: tuple[int, int], together: int = 1
) -> list[MoveCase]:
    """A matrix into whole tiles and back; `together` rows of a tile are interleaved, as T(8,128)(2,1) does with 2."""
    (rows, columns), (high, wide) = matrix, tile
    dense = (rows // high, high // together, together, columns // wide, wide)
    order, back = (0, 3, 1, 4, 2), (0, 2, 4, 1, 3)
    stored = tuple(dense[dim] for dim in order)
    return [
        MoveCase(f"{name}, to tiles", "tiles", element_type, dense, order, tiling="to", goal=TILES),
        MoveCase(f"{name}, from tiles", "tiles", element_type, stored, back, tiling="from", goal=TILES),
    ]


def strided(
    name: str, element_type: str, dimensions: tuple[int, ...], cut_from: tuple[int, ...], backward: tuple[int, ...] = ()
) -> MoveCase:
    """A view into a larger array, made contiguous."""
    return MoveCase(name, "strided", element_type, dimensions, kind="strided", cut_from=cut_from, backward=backward)


def index_cases(count: int) -> list[IndexCase]:
    """The three conversions at rank 3 and 6 and in both widths; `count` indices each."""
    cases = []
    for dimensions in ((512, 300, 700), (12, 30, 20, 25, 16, 28)):
        rank = len(dimensions)
        for dtype in ("int64", "int32"):
            for kind in ("linearize", "delinearize", "convert_linear"):
                cases.append(
                    IndexCase(f"{kind} rank {rank} {dtype}", kind, dimensions, count, dtype, tuple(range(rank))[::-1])
                )
    return cases


def packed_cases(matrix: tuple[int, int], odd: tuple[int, int]) -> list[MoveCase]:
    """Matrices of u4 packed and unpacked, transposed while packed, put into tiles and taken out; and u1.

    Both sides are uint8: a byte holds one element, or several packed ones with element 0 in the lowest bits.

    matrix   a multiple of (8, 128)
    odd      dimensions whose last byte is half full: a power of two plus 1, which stays odd when halved
    """
    size = f"{matrix[0]}x{matrix[1]}"
    tiles = tiled(f"u4 {size} T(8,128)(8,1)E(4)", "u4", matrix, (8, 128), together=8)
    return [
        *(
            _packed(f"{kind} {element_type} {size}", element_type, packed, matrix, goal=PACKING)
            for element_type in ("u4", "u1")
            for kind, packed in (("pack", "target"), ("unpack", "source"))
        ),
        _packed(f"u4 {size}, packed", "u4", "both", matrix, (1, 0)),
        _packed(f"u4 {odd[0]}x{odd[1]}, packed, odd", "u4", "both", odd, (1, 0)),
        *(_packed(case.name, "u4", "both", case.dimensions, case.order, case.tiling) for case in tiles),
    ]


def _packed(
    name: str,
    element_type: str,
    packed: str,
    dimensions: tuple[int, ...],
    order: tuple[int, ...] | None = None,
    tiling: str = "",
    goal: float | None = None,
) -> MoveCase:
    return MoveCase(
        name, "packed", element_type, dimensions, order, kind="packed", tiling=tiling, packed=packed, goal=goal
    )
