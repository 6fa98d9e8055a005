"""Calls on arrays in memory that a gradient follows: `gpulayout.torch` runs them.

Its files import torch and stand above this room.  So the package itself hands their function down with `follow_with`;
the first such call loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpulayout.api.call import Call

Follow = Callable[[Call, Any, Any], Any]


def followed(call: Call, given: Any, out: Any) -> Any:
    """The result of a call on an array that a gradient follows: the gradient follows the result too.

    BufferError for an `out`, through which none would.
    """
    return _follow[0](call, given, out)


def follow_with(function: Follow) -> None:
    """Set what runs such calls."""
    _follow[:] = [function]


_follow: list[Follow] = []
