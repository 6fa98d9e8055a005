"""`Array` as a pytree of JAX and PyTorch: one leaf, the buffer, beside the shape, which is constant.

Both libraries put anything in place of leaves (tracers, None, object(), axis numbers) and take it out again, so nothing
is checked here.  Nothing is imported either: a library is told of the class when the first array is made after it was
loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gpulayout.api.shaped_buffer import ShapedBuffer
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_shape

Kind = type[ShapedBuffer[Any]]


def _with_jax(kind: Kind) -> bool:
    """Tell JAX, if it is loaded, of the class."""
    trees = getattr(sys.modules.get("jax"), "tree_util", None)
    if trees is None or not hasattr(trees, "register_pytree_with_keys"):
        return False
    key = trees.GetAttrKey("buffer")
    trees.register_pytree_with_keys(
        kind,
        lambda array: (((key, array.buffer),), array.shape),
        lambda shape, leaves: kind.holding(leaves[0], shape),
        lambda array: ((array.buffer,), array.shape),
    )
    return True


def _with_torch(kind: Kind) -> bool:
    """Tell PyTorch, if it is loaded, of the class; saved programs say shapes as text."""
    trees = sys.modules.get("torch.utils._pytree")
    if trees is None or not hasattr(sys.modules.get("torch"), "compiler"):  # it is being loaded
        return False
    key = trees.GetAttrKey("buffer")
    trees.register_pytree_node(
        kind,
        lambda array: ([array.buffer], array.shape),
        lambda leaves, shape: kind.holding(next(iter(leaves)), shape),
        serialized_type_name="gpulayout.Array",
        to_dumpable_context=str,
        from_dumpable_context=_shape_of_text,
        flatten_with_keys_fn=lambda array: ([(key, array.buffer)], array.shape),
    )
    return True


def _shape_of_text(text: str) -> Shape:
    found = parse_shape(text)
    return found


PENDING: dict[str, Callable[[Kind], bool]] = {"jax": _with_jax, "torch": _with_torch}


def register(kind: Kind) -> None:
    """Tell the libraries that were loaded since the last call."""
    for name in tuple(PENDING):
        tell = PENDING.pop(name, None) if name in sys.modules else None  # one thread gets it
        if tell is not None and not tell(kind):
            PENDING[name] = tell
