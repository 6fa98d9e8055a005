"""The elements of an open file in memory: mapped, or those of a pipe."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from gpulayout.files.source import Bytes, Source
from gpulayout.files.target import Target


def mapped(side: Source | Target, mode: Literal["r", "r+"]) -> Bytes:
    """The bytes of all elements.  An open file is mapped and not its name, which may soon mean another file."""
    if side.stream is None or not side.header.nbytes:  # an empty range of a file cannot be mapped
        return side.memory
    # The stubs leave out that any binary stream will do.
    return np.memmap(cast(Any, side.stream), np.uint8, mode, side.offset, (side.header.nbytes,))
