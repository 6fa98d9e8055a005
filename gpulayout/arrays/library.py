"""What calls ask about the arrays of PyTorch and JAX, and what becomes of those that are no plain memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gpulayout.layout.element_type import ElementType
from gpulayout.moves.backend import Again, AnyArray, Backend

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


class Library(ABC):
    """What the functions need to know about the arrays of one library.  `given` is always such an array.

    The answers here are those of a library that need not know of a call: its arrays never change, and no gradient
    follows the values of those in memory.
    """

    has_gradients = False  # True if an array says by `requires_grad` that a gradient may follow its values

    def dtype(self, given: Any) -> np.dtype[Any]:
        """The element type; TypeError for one that XLA lacks."""
        return ElementType.of(given.dtype).dtype

    def will_be_written(self, given: Any) -> None:
        """Tell the library that the values of an array change now: every check of the call has passed."""
        return  # most need not know

    def is_plainly_followed(self, given: Any) -> bool:
        """True if a gradient follows the values of an array that `requires_grad`, and nothing else has to be known.

        It may be False for some that are followed: `is_followed` takes longer.
        """
        return False

    def is_followed(self, given: Any) -> bool:
        """True if a gradient or a tangent follows the values of an array in memory."""
        return False

    def described(self, given: Any) -> Any:
        """The array for a call that needs its strides and its element type, but none of its values."""
        return given

    @abstractmethod
    def exported(self, given: Any, role: str, writing: bool) -> Any:
        """What to open over the memory of an array: a NumPy array, or an object with DLPack.

        TypeError or BufferError, with what to do, for an array whose memory cannot be used, or not for `writing`.
        """

    def untraced(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function for calls that the library must not look into when it compiles its caller."""
        return function

    def running_on(self, given: Any) -> AbstractContextManager[object] | None:
        """The context of a call on this array: work runs on the library's current stream.  None on the host."""
        return None

    def used_on(self, given: Any, stream: int) -> bool:
        """Tell the library that work in a CUDA stream, given by its address, uses the memory of `given`.

        True if the library then keeps the memory until that work is done.
        """
        return False

    @abstractmethod
    def empty(
        self,
        given: Any,
        backend: Backend,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        like: AnyArray,
        label: np.dtype[Any] | None,
    ) -> tuple[Any, AnyArray | None]:
        """Memory for a result on the device of `given`, for `give_back`: the library's own if it can be written.

        With it the same as an array of the backend; None if it has to be opened, as arrays of the library are.

        shape, dtype, like   as `Backend.empty` takes them
        label                the element type that a call asks for; None for that of `given`, for indices and for bytes
        """

    def give_back(self, made: Any, given: Any) -> Any:
        """What `empty` made, as an array of the library over the same memory."""
        return made

    def again(self, known_call: Any, given: Any, result: Any, is_new: bool) -> Again | None:
        """What runs a call again without its checks, for arrays that say of themselves what these arrays say.

        known_call      of what has just run, see `Prepared`
        given, result   the arrays of that call
        is_new          the result was made for the call, and others will be

        None if the library's arrays have to be checked each time.
        """
        return None

    @abstractmethod
    def view(
        self, given: Any, backend: Backend, array: AnyArray, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Any:
        """An array of the library over the memory of `given`, which is open as `array`; strides in bytes."""
