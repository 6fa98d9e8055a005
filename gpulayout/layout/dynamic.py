"""Dynamic sizes: dimensions whose size is known only when the program runs.

`<=5` has a bound: `Shape.dimensions` holds the bound, and buffers are large enough for it.  `?` is unbounded: whatever
needs a size raises LayoutError.  Both are parsed, printed, compared and kept by edits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.frozen import Sign


class Unbounded(Sign):
    """`UNBOUNDED`, written `?` in text: a size known only when the program runs, without a bound.

    It is not a number, so arithmetic with it fails.

    Examples
    --------
    >>> import gpulayout as gl
    >>> shape = gl.Shape("f32", (3, UNBOUNDED))
    >>> str(shape), shape.dynamic_dimensions
    ('f32[3,?]{1,0}', (False, True))
    """

    UNBOUNDED = "?"


# Typed as Any so that dimensions can be typed as int: most code never meets an unbounded one.
UNBOUNDED: Any = Unbounded.UNBOUNDED


def checked_dimensions(values: Iterable[Any]) -> tuple[int, ...]:
    """`values` as a tuple of sizes or `UNBOUNDED`."""
    if isinstance(values, (tuple, list)) and any(value is UNBOUNDED for value in values):
        sizes = iter(checks.sizes("dimensions", [0 if value is UNBOUNDED else value for value in values]))
        return tuple(UNBOUNDED if value is UNBOUNDED else size for value, size in zip(values, sizes))
    return checks.sizes("dimensions", values)


def checked_flags(flags: Iterable[bool] | None, dimensions: Sequence[int]) -> tuple[bool, ...]:
    """One flag for every dimension, True where its size is dynamic; None marks only the unbounded ones."""
    unbounded = tuple(size is UNBOUNDED for size in dimensions)
    if flags is None:
        return unbounded
    if not isinstance(flags, (tuple, list)) or not all(isinstance(flag, bool) for flag in flags):
        raise LayoutTypeError(f"dynamic_dimensions {checks.value_text(flags)} is not a sequence of True and False")
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
    """A size in the text of a shape: `5`, `<=5` or `?`."""
    return f"<={size}" if is_dynamic and size is not UNBOUNDED else str(size)
