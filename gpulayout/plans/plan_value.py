"""A plan as a value: what it is compared by, what graphs ask of it, and what becomes of one that a graph made.

And how a plan runs on an `Array`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpulayout.layout.graph_constants import constant_in_graphs
from gpulayout.layout.shape import Shape
from gpulayout.requests.arithmetic import Asked, ElementChange
from gpulayout.traced.traced_parameters import Constants, plain_options

INTERNALS = "own_change", "request", "of_block", "plain_options"
FOR_MEMORY = "pieces", "bytes_read", "bytes_written", "request"  # which graphs do not need


class PlanValue:
    """See `Plan`, the only class derived from it."""

    __slots__ = ()

    source: Shape
    target: Shape
    names: tuple[str, ...] | None
    own_change: ElementChange | dict[str, Any] | None  # the keywords, if a function of torch.compile made the plan

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a plan cannot be changed: plans are shared and frozen")

    def __repr__(self) -> str:
        names = "" if self.names is None else f", names={self.names}"
        form = "" if self.change is None else f" with {self.change.arithmetic.form}"
        return f"plan({str(self.source)!r}, {str(self.target)!r}{names}){form}"

    def __dir__(self) -> list[str]:
        """What completion offers: no internals that say nothing about the plan."""
        return [name for name in super().__dir__() if name not in INTERNALS]

    @property
    def change(self) -> ElementChange | None:
        """The arithmetic on the way, with its parameters."""
        change = self.own_change
        if isinstance(change, dict):
            change = Asked(change).change(self.source, self.target.element_type)
            object.__setattr__(self, "own_change", change)
        return change

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

    if not TYPE_CHECKING:  # to which it would mean that a plan has all names

        def __getattr__(self, name: str) -> Any:
            """What a plan needs for memory, if a function of torch.compile made it: those have their shapes alone."""
            if name not in FOR_MEMORY or not hasattr(self, "source"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            whole = type(self)(self.source, self.target, self.names, self.change)
            for each in FOR_MEMORY:
                object.__setattr__(self, each, getattr(whole, each))
            return getattr(whole, name)
