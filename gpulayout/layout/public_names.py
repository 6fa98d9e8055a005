"""Public names belong to the module that offers them: in tracebacks, and in pickles, which outlive a file's name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any


def publish(namespace: Mapping[str, Any], names: Iterable[str]) -> None:
    """Make a module the home of its public names; `namespace` is its `globals()`.

    Annotations of a class are text that is read in the class's module.  So they are read before the module changes.
    """
    for name in names:
        value = namespace[name]
        if isinstance(value, type):
            value.__annotations__ = inspect.get_annotations(value, eval_str=True)
        if hasattr(value, "__module__"):
            (value if hasattr(value, "__qualname__") else type(value)).__module__ = namespace["__name__"]
