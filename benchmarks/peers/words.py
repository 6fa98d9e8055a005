"""Elements as words of their width, which every library has a type for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cases.case import MoveCase

WORDS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}


def words(convert: Callable, array: Any) -> Any:
    """An array as the peer's, over the same memory, with elements as words of their width."""
    return convert(array.view(np.dtype(WORDS[array.dtype.itemsize])))


def pad_word(case: MoveCase) -> Any:
    """The padding element as a number of the word type."""
    return np.frombuffer(case.target.padding_bytes, WORDS[case.target.itemsize])[0].item()
