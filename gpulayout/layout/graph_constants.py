"""Functions that torch.compile runs while it traces their caller, and whose results become constants of the graph."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from gpulayout.layout.errors import LayoutError

Planned = TypeVar("Planned", bound=Callable[..., Any])


def constant_in_graphs(function: Planned) -> Planned:
    """Mark a function of constants, such as numbers and texts; its result is plain too: numbers, texts and tuples.

    This is what torch.compiler.assume_constant_result does, without importing torch.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


_REFUSING: dict[str, Callable[..., Any]] = {}  # by name: no two files give a function of this kind the same one


def refusing_in_graphs(function: Planned) -> Planned:
    """Mark a function of constants that may raise errors about its arguments: callers use `attempt`.

    An error inside of such a function would end the compiler instead of the graph.
    """
    _REFUSING[function.__name__] = function
    return constant_in_graphs(function)


@constant_in_graphs
def attempt(name: str, *arguments: Any) -> tuple[Any, str]:
    """What the function of this name returns, and no text; or None, and the message of the error that it raises."""
    try:
        return _REFUSING[name](*arguments), ""
    except (LayoutError, TypeError, BufferError) as error:
        return None, str(error)


def is_compiling() -> bool:
    """True for code that torch.compile traces right now."""
    return "torch._dynamo" in sys.modules and bool(sys.modules["torch"].compiler.is_dynamo_compiling())
