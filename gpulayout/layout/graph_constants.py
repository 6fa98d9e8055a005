"""Functions that torch.compile runs while it traces their caller, and whose results become constants of the graph."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

Planned = TypeVar("Planned", bound=Callable[..., Any])


def constant_in_graphs(function: Planned) -> Planned:
    """Mark a function of constants, such as numbers and texts; its result is plain too: numbers, texts and tuples.

    This is what torch.compiler.assume_constant_result does, without importing torch.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def is_compiling() -> bool:
    """True for code that torch.compile traces right now."""
    return "torch._dynamo" in sys.modules and bool(sys.modules["torch"].compiler.is_dynamo_compiling())
