"""Plans a move for the CPU: a table maps each kind of move to its planner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gpulayout.cpu.lookup import lookup_plan_of
from gpulayout.cpu.native_plan import convert_plan_of, ordinary_plan_of, packed_plan_of
from gpulayout.layout.checks import counted
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.kinds import AnyMove
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Move
from gpulayout.moves.packed_move import PackedMove

_PLANNERS: dict[type, Callable[[Any, int], MovePlan]] = {
    Move: ordinary_plan_of,
    PackedMove: packed_plan_of,
    LookupMove: lookup_plan_of,
    ConvertMove: convert_plan_of,
}


class MovePlan(Protocol):
    """The interface of a plan."""

    @property
    def move(self) -> AnyMove:
        """The move to execute."""
        ...

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        ...

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each.

        Plans of moves with arithmetic take the arrays of their parameters after these.
        """

    def describe(self) -> str:
        """The plan in words."""
        ...

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        ...


def plan_of(move: AnyMove, threads: int = 1) -> MovePlan:
    """The CPU's plan for a move, with at most `threads` threads."""
    return _PLANNERS[type(move)](move, threads)


def describe(move: AnyMove) -> str:
    """The CPU's plan for a move, in words."""
    if not move.place_count:
        return "nothing to do"
    if not move.element_count:
        return f"one fill of {counted(move.place_count, 'place')}"
    plan = plan_of(move)
    return plan.describe() + (f"; worth up to {plan.most_threads} threads" if plan.most_threads > 1 else "")


def as_json(move: AnyMove) -> dict[str, Any] | None:
    """The CPU's plan for a move, as plain values; None if there is nothing to do."""
    if not move.place_count:
        return None
    form = {"arithmetic": move.arithmetic.form} if isinstance(move, ConvertMove) else {}
    return form | plan_of(move).as_json()
