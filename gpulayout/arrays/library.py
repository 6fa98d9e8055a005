"""What calls ask about the arrays of PyTorch and JAX, and what becomes of those that are no plain memory."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gpulayout.layout.element_type import FLOAT4_X2, ElementType
from gpulayout.layout.errors import shown_as
from gpulayout.moves.backend import Again, AnyArray, Backend

DType = np.dtype[Any]
Sizes = tuple[int, ...]
# What messages about a call that needs memory say of the others.
WORK_THERE = "gl.transpose, pack, unpack, relayout, relayout_many, transpose_many and plans work there"


@shown_as(TypeError)
class TracedArray(TypeError):
    """An array of a function that is traced, compiled or transformed: lowered steps can run on it."""


@shown_as(BufferError)
class RequiresGrad(BufferError):
    """An array in memory that requires a gradient, or has a tangent."""


@shown_as(BufferError)
class FollowedParameter(BufferError):
    """A parameter of arithmetic that a library follows, so that only its own operations can compute with it.

    library     of the parameter
    is_traced   it has no numbers yet; else it is in memory, and requires a gradient or has a tangent
    """

    def __init__(self, message: str, library: Library, is_traced: bool):
        super().__init__(message)
        self.library, self.is_traced = library, is_traced


class Library(ABC):
    """What the functions need to know about the arrays of one library.  `array` is always one of them.

    The answers here are those of a library that need not know of a call: its arrays never change, and none in
    memory requires a gradient.
    """

    def dtype(self, array: Any) -> DType:
        """The element type; TypeError for one that XLA lacks."""
        return dtype_of(array.dtype)

    def will_be_written(self, array: Any) -> None:
        """Tell the library that the values of an array change now: every check of the call has passed."""
        return  # most need not know

    def plainly_requires_grad(self, array: Any) -> bool:
        """True if an array requires a gradient, and nothing else has to be known.

        It may be False for some that do: `requires_grad` takes longer.
        """
        return False

    def requires_grad(self, array: Any) -> bool:
        """True if an array in memory requires a gradient, or has a tangent."""
        return False

    # What runs (call, array, out) on such an array, so that the result has the gradient.  For PyTorch it is in
    # `gpulayout.torch`, which imports torch, and which this room may not import: the package hands it down.
    differentiable: Callable[[Any, Any, Any], Any]

    def follows(self, array: Any) -> bool:
        """True for an array without memory, and for one whose gradient or tangent is followed."""
        try:
            self.exported(array, "", False)
        except (TracedArray, RequiresGrad):
            return True
        except (TypeError, BufferError):
            return False
        return False

    def adopted(self, array: np.ndarray[Any, Any]) -> Any:
        """A NumPy array as one of the library, for a call whose parameter it traces; None if it is no such thing."""
        return None

    def described(self, array: Any) -> Any:
        """The array for a call that needs its strides and its element type, but none of its values."""
        return array

    @abstractmethod
    def exported(self, array: Any, role: str, writing: bool) -> Any:
        """What to open over the memory of an array: a NumPy array, or an object with DLPack.

        TypeError or BufferError, with what to do, for an array whose memory cannot be used, or not for `writing`.
        """

    def disable_compiler(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, into which the library does not look when it compiles its caller."""
        return function

    def running_on(self, array: Any) -> AbstractContextManager[object] | None:
        """The context of a call on this array: work runs on the library's current stream.  None on the host."""
        return None

    def used_on(self, array: Any, stream: int) -> bool:
        """Tell the library that work in a CUDA stream, given by its address, uses the memory of `array`.

        True if the library then keeps the memory until that work is done.
        """
        return False

    @abstractmethod
    def empty(
        self, array: Any, backend: Backend, shape: Sizes, dtype: DType, like: AnyArray, label: DType | None
    ) -> tuple[Any, AnyArray | None]:
        """Memory for a result on the device of `array`, for `give_back`: the library's own if it can be written.

        With it the same as an array of the backend; None if it has to be opened, as arrays of the library are.

        shape, dtype, like   as `Backend.empty` takes them
        label                the element type that a call asks for; None for that of `array`, for indices and for bytes
        """

    def give_back(self, made: Any, array: Any) -> Any:
        """What `empty` made, as an array of the library over the same memory."""
        return made

    def again(self, known_call: Any, array: Any, result: Any, is_new: bool) -> Again | None:
        """What runs a call again without its checks, for arrays that say of themselves what these arrays say.

        known_call      of what has just run, see `Prepared`
        array, result   the arrays of that call
        is_new          the result was made for the call, and others will be

        None if the library's arrays have to be checked each time.
        """
        return None

    def part_of(self, array: Any, other: Any, length: int, places: slice) -> Any:
        """See `arrays.part_of`; always None if arrays of the library have no parts over the same memory."""
        return None

    @abstractmethod
    def view(self, array: Any, backend: Backend, opened: AnyArray, shape: Sizes, strides: Sizes) -> Any:
        """An array of the library over the memory of `array`, which is `opened`; strides in bytes."""


@functools.cache
def dtype_of(kind: Any) -> DType:
    """NumPy's dtype for an element type of a library; TypeError for one that XLA lacks."""
    return FLOAT4_X2 if str(kind) == "torch.float4_e2m1fn_x2" else ElementType.of(kind).dtype
