"""Short names of dimensions, for people."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayout.layout.checks import clipped, counted, value_text
from gpulayout.layout.errors import LayoutError, LayoutTypeError

# The letters of XLA's document on shapes and layout, dimension 0 first.
_LETTERS = {1: "x", 2: "yx", 3: "zyx", 4: "pzyx"}


def dimension_labels(rank: int) -> tuple[str, ...]:
    """A short name for every dimension: XLA's letters up to rank 4, else d0, d1, ...

    >>> dimension_labels(3), dimension_labels(5)[:2]
    (('z', 'y', 'x'), ('d0', 'd1'))
    """
    return tuple(_LETTERS[rank] if rank in _LETTERS else [f"d{dim}" for dim in range(rank)])


def named_dimensions(names: str | Sequence[str] | None, rank: int, of: object) -> tuple[str, ...]:
    """The names that a caller gives to the dimensions of a shape, or the short ones; `of` is shown in messages.

    Text is one letter for each, or names with blanks or commas between them.

    >>> named_dimensions("hwc", 3, "u8[4,5,3]"), named_dimensions("row, column", 2, "f32[2,3]")
    (('h', 'w', 'c'), ('row', 'column'))
    """
    if names is None:
        return dimension_labels(rank)
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise LayoutTypeError(f"names {value_text(names)} of {of} is not text such as 'nhwc', nor a list of texts")
    is_listed = isinstance(names, str) and ("," in names or " " in names.strip())
    labels = tuple(str(names).replace(",", " ").split() if is_listed else names)
    if len(labels) != rank:
        raise LayoutError(
            f"names {value_text(names)} of {of} has {counted(len(labels), 'name')}, but there are "
            f"{counted(rank, 'dimension')}: one name for each, such as 'nhwc' or 'batch,channel'"
        )
    for dim, name in enumerate(labels):
        if not name or not name.isprintable() or name.isspace():
            raise LayoutError(f"names {value_text(names)} of {of}: the name of dimension {dim} cannot be printed")
        if name in labels[:dim]:
            raise LayoutError(f"names {value_text(names)} of {of} has two dimensions called {clipped(name, 40)}")
    return labels
