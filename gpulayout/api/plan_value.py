"""A plan as a value: what it is compared by, and what graphs ask of its arithmetic."""

from __future__ import annotations

from typing import Any

from gpulayout.api.arithmetic import ElementChange
from gpulayout.api.traced_arithmetic import Constants, plain_options
from gpulayout.layout.graph_constants import constant_in_graphs
from gpulayout.layout.shape import Shape


class PlanValue:
    """See `Plan`, the only class derived from it."""

    __slots__ = ()

    source: Shape
    target: Shape
    names: tuple[str, ...] | None
    change: ElementChange | None

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.source, self.target, self.names, *(self.change.key if self.change else ())

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, PlanValue) else NotImplemented

    def __hash__(self) -> int:
        try:
            return hash(self._key)
        except AttributeError:  # some releases of torch.compile hash what is called, before it has attributes
            raise TypeError("a plan without its shapes is unhashable") from None

    @constant_in_graphs
    def plain_options(self) -> Constants:
        """The keywords of a call with the same arithmetic, as graphs take them.  Internals, as `Plan.pieces`."""
        return () if self.change is None else plain_options(self.change)
