"""A buffer together with its shape: what the public functions need to know of `Array`, which is made of their calls.

And what JAX and PyTorch get to know of it: to them it is a pytree.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gpulayout.layout.checks import type_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import constant_in_graphs, is_compiling
from gpulayout.layout.plain import from_plain, plain
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape, parse_shape

if TYPE_CHECKING:  # a bare `Array` holds memory of any library; Python before 3.13 has no defaults
    from typing_extensions import TypeVar as DefaultTypeVar

    Memory = DefaultTypeVar("Memory", default=Any)
else:
    Memory = TypeVar("Memory")
Pair = TypeVar("Pair", bound="ShapedBuffer[Any]")


class ShapedBuffer(Generic[Memory]):
    """A frozen pair of a buffer and its shape; see `Array`, the only class derived from it."""

    __slots__ = {  # with what `help` says of them
        "buffer": "The array that was given.",
        "shape_or_text": "The shape, or its text in an array that torch.compile made.",
        "__weakref__": "",
    }

    buffer: Memory
    shape_or_text: Shape | str

    @classmethod
    def holding(cls: type[Pair], buffer: Any, shape: Shape | str) -> Pair:
        """A pair of anything with a shape: nothing is checked."""
        made = object.__new__(cls)
        object.__setattr__(made, "buffer", buffer)
        object.__setattr__(made, "shape_or_text", shape)
        return made

    @property
    def layout_shape(self) -> Shape:
        """Element type, dimensions and layout: what other calls take as the shape of the buffer."""
        kept = self.shape_or_text
        return _shape(kept) if isinstance(kept, str) else kept

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical sizes, as arrays of NumPy have them; `layout_shape` says the layout too."""
        return _sizes(plain(self.shape_or_text)) if is_compiling() else self.layout_shape.dimensions

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has, without padding."""
        return math.prod(self.shape)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a gl.Array cannot be changed: make another one, gl.Array(buffer, shape)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of a gl.Array cannot be deleted")


@constant_in_graphs
def _shape(text: str) -> Shape:
    return as_shape(text)


@constant_in_graphs
def _sizes(kept: Any) -> tuple[int, ...]:
    return as_shape(from_plain(kept)).dimensions


def shape_in(value: Any) -> Any:
    """The shape of an array where a shape was asked for; any other value as it is."""
    return value.layout_shape if isinstance(value, ShapedBuffer) else value


def buffer_to_write(out: Any, target: Shape) -> Any:
    """The buffer of an array that is given as `out`; LayoutError unless it has the shape of the result."""
    if not isinstance(out, ShapedBuffer):
        return out
    if out.layout_shape != target:
        raise LayoutError(f"out is a gl.Array of {out.layout_shape}, but the result is {target}")
    return out.buffer


def check_plain(given: object, role: str) -> None:
    """TypeError for an array with its shape, where only plain memory makes sense."""
    if isinstance(given, ShapedBuffer):
        # where an array with any strides is read, the buffer would be one of other elements
        memory = "" if role == "array" else "its memory, .buffer, or "
        raise TypeError(f"{role} is {type_text(given)}: pass {memory}its N-d array, .logical()")


# ---- as a pytree: one leaf, the buffer, beside the shape, which is constant ------------------------------------------

# JAX and PyTorch put anything in place of leaves (tracers, None, object(), axis numbers) and take it out again, so
# nothing is checked here.  Nothing is imported either: a library is told of the class when the first array is made
# after it was loaded.

Kind = type[ShapedBuffer[Any]]


def _with_jax(kind: Kind) -> bool:
    """Tell JAX, if it is loaded, of the class."""
    trees = getattr(sys.modules.get("jax"), "tree_util", None)
    if trees is None or not hasattr(trees, "register_pytree_with_keys"):
        return False
    key = trees.GetAttrKey("buffer")
    trees.register_pytree_with_keys(
        kind,
        lambda array: (((key, array.buffer),), array.layout_shape),
        lambda shape, leaves: kind.holding(leaves[0], shape),
        lambda array: ((array.buffer,), array.layout_shape),
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
        lambda array: ([array.buffer], array.layout_shape),
        lambda leaves, shape: kind.holding(next(iter(leaves)), shape),
        serialized_type_name="gpulayout.Array",
        to_dumpable_context=str,
        from_dumpable_context=parse_shape,
        flatten_with_keys_fn=lambda array: ([(key, array.buffer)], array.layout_shape),
    )
    return True


PENDING: dict[str, Callable[[Kind], bool]] = {"jax": _with_jax, "torch": _with_torch}


def register(kind: Kind) -> None:
    """Tell the libraries that were loaded since the last call."""
    for name in tuple(PENDING):
        tell = PENDING.pop(name, None) if name in sys.modules else None  # one thread gets it
        if tell is not None and not tell(kind):
            PENDING[name] = tell
