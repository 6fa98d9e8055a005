"""Shapes by name, such as `cublas:block_scales[200,10]`: a room that stands below this one knows the names.

The package's `__init__.py` hands its reader down, and the first such text loads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulayout.layout.shape import Shape

# The text of a shape never begins like this: its first word is an element type, and a bracket follows.
_NAME = re.compile(r"\s*[A-Za-z]\w*:[A-Za-z]\w*\s*(?:[(\[]|$)")

_read: Callable[[str], Shape | None]


def read_names_with(read: Callable[[str], Shape | None]) -> None:
    """Hand down the function that reads the shape of such a text."""
    global _read
    _read = read


def named_shape(text: str) -> Shape | None:
    """The shape that a text names; None for text of another kind, LayoutError for a name that there is not."""
    return _read(text) if isinstance(text, str) and _NAME.match(text) else None
