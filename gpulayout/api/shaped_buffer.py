"""A buffer together with its shape: what the public functions need to know of `Array`, which is made of their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gpulayout.layout.checks import type_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import constant_in_graphs
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape

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
    def shape(self) -> Shape:
        """Element type, dimensions and layout."""
        kept = self.shape_or_text
        return _shape(kept) if isinstance(kept, str) else kept

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a gl.Array cannot be changed: make another one, gl.Array(buffer, shape)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of a gl.Array cannot be deleted")


@constant_in_graphs
def _shape(text: str) -> Shape:
    return as_shape(text)


def shape_in(value: Any) -> Any:
    """The shape of an array where a shape was asked for; any other value as it is."""
    return value.shape if isinstance(value, ShapedBuffer) else value


def buffer_to_write(out: Any, target: Shape) -> Any:
    """The buffer of an array that is given as `out`; LayoutError unless it has the shape of the result."""
    if not isinstance(out, ShapedBuffer):
        return out
    if out.shape != target:
        raise LayoutError(f"out is a gl.Array of {out.shape}, but the result is {target}")
    return out.buffer


def check_plain(given: object, role: str) -> None:
    """TypeError for an array with its shape, where only plain memory makes sense."""
    if isinstance(given, ShapedBuffer):
        raise TypeError(f"{role} is {type_text(given)}: pass its memory, .buffer, or its N-d array, .logical()")
