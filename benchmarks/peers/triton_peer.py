"""A Triton kernel as a peer: 2-D tiles, the kernel that people write first."""

from __future__ import annotations

import itertools
import math
from typing import Any

import triton
import triton.language as tl

from benchmarks.cases.case import Case, MoveCase
from benchmarks.peers.contender import Contender, in_turn
from benchmarks.peers.words import words

TILES, WARPS = (64, 128), (4, 8)


@triton.jit
def _transpose(given, out, rows, columns, TILE: tl.constexpr):
    """One program transposes one tile of one matrix of a batch."""
    across = tl.cdiv(columns, TILE)
    tiles = tl.cdiv(rows, TILE) * across
    program = tl.program_id(0)
    tile = program % tiles
    start = (program // tiles).to(tl.int64) * rows * columns
    row = (tile // across) * TILE + tl.arange(0, TILE)
    column = (tile % across) * TILE + tl.arange(0, TILE)
    loaded = tl.load(
        given + start + row[:, None].to(tl.int64) * columns + column[None, :],
        mask=(row[:, None] < rows) & (column[None, :] < columns),
    )
    tl.store(
        out + start + column[:, None].to(tl.int64) * rows + row[None, :],
        tl.trans(loaded),
        mask=(column[:, None] < columns) & (row[None, :] < rows),
    )


class TritonPeer:
    """All sizes of tiles and numbers of warps are contenders: the best one is what a tuned kernel would give."""

    def __init__(self, torch: Any):
        self.torch = torch

    def __call__(self, case: Case, pairs: list[tuple]) -> list[Contender]:
        found = case.as_matrices() if isinstance(case, MoveCase) else None
        if found is None or case.source.itemsize > 8:
            return []
        batch, rows, columns = found
        items = [tuple(words(self.torch.from_dlpack, array) for array in pair) for pair in pairs]

        def work(tile: int, warps: int):
            grid = (batch * math.ceil(rows / tile) * math.ceil(columns / tile),)

            def call(given: Any, out: Any) -> Any:
                _transpose[grid](given, out, rows, columns, TILE=tile, num_warps=warps)
                return out

            return call

        return [
            Contender(f"triton {tile}x{tile}, {warps} warps", "warm", in_turn(items, work(tile, warps)))
            for tile, warps in itertools.product(TILES, WARPS)
        ]
