"""What traced arrays show of themselves, checked as arrays in memory are."""

from __future__ import annotations

from typing import Any

from gpulayout.api.call import Call
from gpulayout.api.memory_checks import ArrayFacts, check_buffer_dtype, check_dtype, too_short
from gpulayout.api.reading import Read, read_arguments
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.lowered_run import is_jax


def check_fixed(given: Any) -> None:
    """LayoutError for sizes that jax.export left open."""
    if is_jax(given) and not all(isinstance(size, int) for size in given.shape):
        raise LayoutError(
            f"array has shape {given.shape}, and a layout has fixed sizes: export the function for those, or call "
            "gl.transpose, whose sizes may stay open"
        )


def read_traced(call: Call, dtype: Any, sizes: tuple[int, ...]) -> tuple[Read, bool]:
    """What a call on a traced array means, with the errors of a call on memory; and whether that is the logical array.

    An N-d array in C order is both the logical array and its buffer.
    """
    facts = ArrayFacts.in_c_order(ElementType.of(dtype).dtype, sizes)
    flat = len(sizes) == 1
    found = read_arguments(call, facts.dtype, facts)
    shape = found[0].shape
    if not found[0].is_buffer:
        return found, True
    if not flat:
        if sizes != shape.dimensions or shape != Shape(shape.element_type, shape.dimensions):
            raise BufferError(
                f"buffer has shape {sizes}, and a traced array is no buffer of {shape}: pass the 1-D buffer, or "
                "call gl.pack for an N-d array"
            )
        check_dtype(facts, shape, "buffer")
        return found, True
    check_buffer_dtype(facts, shape, "buffer")
    if facts.size < shape.buffer_length:
        raise BufferError(too_short(facts, shape, "buffer"))
    return found, False
