"""A call as it was written, without its array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A public call without its array, as it was written: what it takes to read it, for an array of any kind.

    verb             "pack", "unpack", "relayout" or "transpose"; "plan" for a plan that is called in a graph
    source, target   shapes, layouts or texts; a plan is its own source, a transpose has its axes in `target`
    sizes            of axes, by name
    options          the keywords of arithmetic
    max_bytes        of a relayout in place
    """

    verb: str
    source: Any = None
    target: Any = None
    sizes: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    max_bytes: Any = None

    @property
    def role(self) -> str:
        """What messages call the array."""
        return "array" if self.verb in ("pack", "transpose") else "buffer"
