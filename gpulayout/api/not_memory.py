"""Arrays that are no plain memory, told apart by what a call can do with them instead."""

from __future__ import annotations

# What messages about a call that needs memory say of the others.
WORK_THERE = "gl.transpose, pack, unpack, relayout, relayout_many and plans work there"


class TracedArray(TypeError):
    """An array of a function that is traced, compiled or transformed: lowered steps can run on it."""


class FollowedArray(BufferError):
    """An array in memory whose values a gradient follows, backward or forward."""


def no_constant(name: str, kind: str) -> BufferError:
    """The error for a parameter of arithmetic whose numbers are not known while a function is traced."""
    return BufferError(
        f"{name} is {kind}: parameters are constants, such as numbers and lists; move without {name} and compute "
        "with it in the library, before or after"
    )
