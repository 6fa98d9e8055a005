"""Where a call runs: on memory, on a traced array, or so that its gradient is known.

On memory, results are arrays of the same library, on the same device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.library import FollowedParameter, Library, RequiresGrad, TracedArray
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.moves.backend import Again, AnyArray, Backend, Make, Prepared
from gpulayout.requests.reading import Call
from gpulayout.traced.traced import traced

Work = Callable[[Backend, AnyArray, Any, Any], Any]
_NO_CONTEXT = nullcontext()


class ArrayCall:
    """One call on an array: it is opened, and memory is made for the result.

    library   of the array, which gets that memory back as its own kind: PyTorch's or JAX's; None for all others
    backend   of an array that is open already
    """

    __slots__ = ("library", "_array", "_backend", "_made")

    def __init__(self, array: Any, library: Library | None, backend: Any = None):
        self._array, self.library, self._backend = array, library, backend

    def running(self) -> AbstractContextManager[object]:
        """The context of the work."""
        return (self.library and self.library.running_on(self._array)) or _NO_CONTEXT

    def opened(self, role: str) -> tuple[Backend, AnyArray]:
        """The array, as `open_array` opens it."""
        if self.library is None:
            self._backend, array = arrays.open_array(self._array, role)
        else:
            self._backend, array = arrays.memory_of(self.library, self._array, role, False)
        return self._backend, array

    def label(self, array: AnyArray) -> np.dtype[Any]:
        """The element type of the array, which was opened, also where CuPy holds it as integers."""
        dtype: np.dtype[Any] = array.dtype if self.library is None else self.library.dtype(self._array)
        return dtype

    def empty(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], like: AnyArray, label: np.dtype[Any] | None = None
    ) -> AnyArray:
        """The memory, as an array of the backend; called once.  See `Library.empty`."""
        if self.library is None:
            made = self._made = self._backend.empty(shape, dtype, like)
            return made
        self._made, array = self.library.empty(self._array, self._backend, shape, dtype, like, label)
        return arrays.memory_of(self.library, self._made, "the result", True)[1] if array is None else array

    def given_back(self) -> Any:
        """The same memory as an array of the library."""
        return self._made if self.library is None else self.library.give_back(self._made, self._array)


Maker = Backend | ArrayCall  # what makes the memory of a result, by its method `empty`


def on_memory(array: Any, role: str, out: Any, work: Work, call: Call | None = None) -> Any:
    """`out`, or the result of `work` as an array of the library of `array`; for an array that is no plain memory, what
    `traced` or the library's `differentiable` returns for the call.

    work   gets the backend, the array as one of NumPy's or CuPy's, `out`, and the `ArrayCall`, which makes new memory
    call   of this array, if it may be no memory; without it, such arrays are refused
    """
    library = None if type(array) is np.ndarray else library_of(array)
    if call is None:
        work_there = _same_kind if library is None else library.disable_compiler(_same_kind)
        return work_there(library, array, role, out, work)
    if library is not None and is_compiling():  # the frame of a call that torch.compile could not trace as a whole
        return traced(call, array, out, functools.partial(_same_kind, library, array, role, out, work))
    try:
        return _on_memory(library, array, role, out, work, call)
    except FollowedParameter as error:
        followed = error
    return with_followed(followed, call, array, out)


def _on_memory(library: Library | None, array: Any, role: str, out: Any, work: Work, call: Call) -> Any:
    """The same for a call whose parameters are numbers; FollowedParameter for others."""
    if library is None:
        return _same_kind(None, array, role, out, work)
    if library.plainly_requires_grad(array):
        return library.differentiable(call, array, out)
    try:
        return _same_kind(library, array, role, out, work)
    except TracedArray:
        run_instead: Callable[[Call, Any, Any], Any] = traced
    except RequiresGrad:
        if not library.requires_grad(array):  # but `out` does
            raise
        run_instead = library.differentiable
    return run_instead(call, array, out)  # outside of the handlers, so that later errors do not show these as causes


def with_followed(error: FollowedParameter, call: Call, array: Any, out: Any) -> Any:
    """The result of a call whose parameter is traced, or followed by a gradient, in the operations of its library.

    The error is raised where the array or `out` cannot take part in them.
    """
    library = None if type(array) is np.ndarray else library_of(array)
    if out is not None or call.max_bytes is not None:
        raise error
    if library is None and type(array) is np.ndarray:
        array = error.library.adopted(array)
        library = None if array is None else error.library
    if library is not error.library:
        raise error
    return traced(call, array, None)


def _same_kind(library: Library | None, array: Any, role: str, out: Any, work: Work) -> Any:
    array_call = ArrayCall(array, library)
    with array_call.running():
        done = work(*array_call.opened(role), out, array_call)
        return done if library is None or out is not None else array_call.given_back()


def again_of(prepared: Prepared, caller: Any, array: AnyArray, done: Any, *, is_new: bool) -> Again | None:
    """What runs a call again without its checks, as `Prepared.known_call`; None if there is no such thing.

    prepared       the pieces that moved from `caller`, which was open as `array`, to `done`
    is_new         `done` was made for the call
    """
    library = None if type(caller) is np.ndarray else library_of(caller)
    if type(done) is not type(caller) or is_compiling() or (library is None and array is not caller):
        return None
    if library is not None:
        return library.again(prepared.known_call, caller, done, is_new)
    return prepared.known_call(caller, done, Make(np.empty, (done.shape, done.dtype)) if is_new else None)
