"""The libraries whose arrays come back as their own kind: PyTorch and JAX.  One adapter each, found by an array's type.

The arrays of NumPy and CuPy have no adapter.  Nor have those of other libraries: results for them are NumPy or CuPy
arrays.  Nothing is imported here, because an array exists only once its caller has imported its library.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from gpulayout.api.jax_arrays import JaxArrays
from gpulayout.api.torch_tensors import TorchTensors
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.moves.backend import Again, AnyArray, Backend


class Library(Protocol):
    """What the functions need to know about the arrays of one library.  `given` is always such an array."""

    def dtype(self, given: Any) -> np.dtype[Any]:
        """The element type; TypeError for one that XLA lacks."""
        ...

    def will_be_written(self, given: Any) -> None:
        """Tell the library that the values of an array change now: every check of the call has passed."""
        ...

    @property
    def has_gradients(self) -> bool:
        """True if an array says by `requires_grad` that a gradient may follow its values."""
        ...

    def is_plainly_followed(self, given: Any) -> bool:
        """True if a gradient follows the values of an array that `requires_grad`, and nothing else has to be known.

        It may be False for some that are followed: `is_followed` takes longer.
        """
        ...

    def is_followed(self, given: Any) -> bool:
        """True if a gradient or a tangent follows the values of an array in memory."""
        ...

    def described(self, given: Any) -> Any:
        """The array for a call that needs its strides and its element type, but none of its values."""
        ...

    def exported(self, given: Any, role: str, writing: bool) -> Any:
        """What to open over the memory of an array: a NumPy array, or an object with DLPack.

        TypeError or BufferError, with what to do, for an array whose memory cannot be used, or not for `writing`.
        """
        ...

    def untraced(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function for calls that the library must not look into when it compiles its caller."""
        ...

    def running_on(self, given: Any) -> AbstractContextManager[object] | None:
        """The context of a call on this array: work runs on the library's current stream.  None on the host."""
        ...

    def used_on(self, given: Any, stream: int) -> bool:
        """Tell the library that work in a CUDA stream, given by its address, uses the memory of `given`.

        True if the library then keeps the memory until that work is done.
        """
        ...

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
        ...

    def give_back(self, made: Any, given: Any) -> Any:
        """What `empty` made, as an array of the library over the same memory."""
        ...

    def again(self, known_call: Any, given: Any, result: Any, is_new: bool) -> Again | None:
        """What runs a call again without its checks, for arrays that say of themselves what these arrays say.

        known_call      of what has just run, see `Prepared`
        given, result   the arrays of that call
        is_new          the result was made for the call, and others will be

        None if the library's arrays have to be checked each time.
        """
        ...

    def view(
        self, given: Any, backend: Backend, array: AnyArray, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Any:
        """An array of the library over the memory of `given`, which is open as `array`; strides in bytes."""
        ...


_TORCH: Library = TorchTensors()
_JAX: Library = JaxArrays()


def library_of(given: object) -> Library | None:
    """The adapter for an array of PyTorch or JAX, or None."""
    kind = type(given)
    if is_compiling():  # a graph that reads the cache is compiled again after the next change to it
        return _library_of_kind(kind)
    found: Library | None = _found.get(kind, _UNKNOWN)
    if found is _UNKNOWN:
        if len(_found) >= 256:  # of types made while a program runs
            _found.clear()
        found = _found[kind] = _library_of_kind(kind)
    return found


# So that each array of a call costs a look-up, not a walk through its base classes.  It is no lru_cache, about which
# torch.compile warns.
_found: dict[type, Library | None] = {}
_UNKNOWN: Any = object()


def _library_of_kind(kind: type) -> Library | None:
    """The adapter for arrays of a type and its subclasses.  It is found by name, so that nothing need be imported."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if (base.__module__, base.__name__) == ("torch", "Tensor"):
            return _TORCH
        if package in ("jax", "jaxlib") and base.__name__ in ("Array", "ArrayImpl", "Tracer", "PRNGKeyArray"):
            return _JAX
    return None
