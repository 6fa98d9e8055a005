"""The plan of a move for NumPy: one table says who plans which kind of move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gpulayout.cpu.lookup import host_lookup
from gpulayout.cpu.packed_plan import packed_plan_of
from gpulayout.cpu.plan import host_plan
from gpulayout.layout.checks import counted
from gpulayout.moves.kinds import AnyMove
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Move
from gpulayout.moves.packed_move import PackedMove

_PLANNERS: dict[type, Callable[[Any, int], MovePlan]] = {
    Move: host_plan,
    PackedMove: packed_plan_of,
    LookupMove: host_lookup,
}


class MovePlan(Protocol):
    """What every kind of plan does."""

    @property
    def most_threads(self) -> int:
        """How many threads the move is worth; 1 where one does it all."""
        ...

    def carry_out(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays, from so many bytes after the first element of each."""

    def describe(self) -> str:
        """What is done, in words."""
        ...

    def as_json(self) -> dict[str, Any]:
        """What is done, as plain values."""
        ...


def plan_of(move: AnyMove, threads: int = 1) -> MovePlan:
    """What NumPy does for a move, with up to so many threads."""
    return _PLANNERS[type(move)](move, threads)


def describe(move: AnyMove) -> str:
    """What NumPy does for a move, in words."""
    if not move.place_count:
        return "nothing to do"
    if not move.element_count:
        return f"one fill of {counted(move.place_count, 'place')}"
    return plan_of(move).describe()


def as_json(move: AnyMove) -> dict[str, Any] | None:
    """What NumPy does for a move, as plain values; None where there is nothing to do."""
    return plan_of(move).as_json() if move.place_count else None
