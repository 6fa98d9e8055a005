"""Dynamic sizes: a dimension whose size only the running program knows.

`<=5` has a bound, which is what `Shape.dimensions` holds and what buffers are made for; `?` has none, and nothing that
needs a size can be asked of it.  Both are read, printed, compared and carried through edits.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError, LayoutTypeError


class Unbounded(enum.Enum):
    """`UNBOUNDED`, in text `?`, as a size of a shape: one that only the running program knows, without a bound.

    It is no number, so that nobody counts with it.
    """

    UNBOUNDED = "?"

    def __str__(self) -> str:
        return "?"

    def __repr__(self) -> str:
        return "UNBOUNDED"

    def __reduce_ex__(self, protocol: object) -> str:  # type: ignore[override]
        """Pickled as the name `gpulayout.UNBOUNDED`."""
        return "UNBOUNDED"


# Typed as Any, and sizes as int: code that never meets a shape without a bound need not say so.
UNBOUNDED: Any = Unbounded.UNBOUNDED


def checked_dimensions(values: Iterable[Any], context: str = "") -> tuple[int, ...]:
    """`values` as a tuple of sizes or `UNBOUNDED`."""
    if isinstance(values, (tuple, list)) and any(value is UNBOUNDED for value in values):
        sizes = iter(checks.sizes("dimensions", [0 if value is UNBOUNDED else value for value in values], context))
        return tuple(UNBOUNDED if value is UNBOUNDED else size for value, size in zip(values, sizes))
    return checks.sizes("dimensions", values, context)


def checked_flags(flags: Iterable[bool] | None, dimensions: Sequence[int]) -> tuple[bool, ...]:
    """One flag for every dimension, True where its size is dynamic; None marks those without a bound."""
    unbounded = tuple(size is UNBOUNDED for size in dimensions)
    if flags is None:
        return unbounded
    if not isinstance(flags, (tuple, list)) or not all(isinstance(flag, bool) for flag in flags):
        raise LayoutTypeError(f"dynamic_dimensions {flags!r} is not a sequence of True and False")
    if len(flags) != len(dimensions):
        raise LayoutError(
            f"dynamic_dimensions {checks.shown(flags)} has {checks.counted(len(flags), 'entry')} for "
            f"{checks.counted(len(dimensions), 'dimension')} {checks.shown(dimensions)}"
        )
    for dim, (flag, needed) in enumerate(zip(flags, unbounded)):
        if needed and not flag:
            raise LayoutError(
                f"dynamic_dimensions {checks.shown(flags)} calls dimension {dim} of {checks.shown(dimensions)} static: "
                "it is unbounded"
            )
    return tuple(flags)


def size_text(size: int, is_dynamic: bool) -> str:
    """A size as it stands in a shape's text: `5`, `<=5` or `?`."""
    return f"<={size}" if is_dynamic and size is not UNBOUNDED else str(size)
