"""Calls on arrays in memory: results are arrays of the same library, on the same device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.call import Call
from gpulayout.api.followed import followed
from gpulayout.api.libraries import library_of
from gpulayout.api.library import FollowedArray, Library, TracedArray
from gpulayout.api.traced import traced
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.moves.backend import Again, AnyArray, Backend, Make, Prepared

Work = Callable[[Backend, AnyArray, Any, Any], Any]


class Result:
    """The result of one call on an array of PyTorch or JAX, in memory that its library gets back."""

    __slots__ = ("library", "_given", "_backend", "_made")

    def __init__(self, library: Library, given: Any):
        self.library, self._given = library, given

    def of(self, work: Work, role: str, out: Any) -> Any:
        """See `on_memory`."""
        backend, array = self.opened(role)
        found = work(backend, array, out, self)
        return found if out is not None else self.given_back()

    def running(self) -> AbstractContextManager[object]:
        """The context of work for a list of calls; `on_memory` has its own."""
        return self.library.running_on(self._given) or nullcontext()

    def opened(self, role: str) -> tuple[Backend, AnyArray]:
        """The given array, as `open_array` opens it."""
        self._backend, array = arrays.memory_of(self.library, self._given, role, False)
        return self._backend, array

    @property
    def given_dtype(self) -> np.dtype[Any]:
        """The element type of the given array, also where CuPy holds it as integers."""
        return self.library.dtype(self._given)

    def empty(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], like: AnyArray, label: np.dtype[Any] | None = None
    ) -> AnyArray:
        """The memory, as an array of the backend; called once."""
        self._made, array = self.library.empty(self._given, self._backend, shape, dtype, like, label)
        return arrays.memory_of(self.library, self._made, "the result", True)[1] if array is None else array

    def given_back(self) -> Any:
        """The same memory as an array of the library."""
        return self.library.give_back(self._made, self._given)


Maker = Backend | Result  # what makes the memory of a result, by its method `empty`


def on_memory(given: Any, role: str, out: Any, work: Work, call: Call | None = None) -> Any:
    """`out`, or the result of `work` as an array of the library of `given`.

    work   gets the backend, the array as one of NumPy's or CuPy's, `out` and what makes new memory; returns `out` if it
           was given
    call   of this array, if it may be no memory; without it, such arrays are refused
    """
    library = None if type(given) is np.ndarray else library_of(given)
    if library is None:
        backend, array = arrays.open_array(given, role)
        return work(backend, array, out, backend)
    if call is None:
        return library.untraced(_same_kind)(library, given, role, out, work)
    if is_compiling():  # the frame of a call that torch.compile could not trace as a whole
        again = functools.partial(_same_kind, library, given, role, out, work)
        return traced(call, given, out, again)
    if library.has_gradients and given.requires_grad and library.is_plainly_followed(given):
        return followed(call, given, out)
    try:
        return _same_kind(library, given, role, out, work)
    except TracedArray:
        run_instead: Callable[[Call, Any, Any], Any] = traced
    except FollowedArray:
        if not library.is_followed(given):  # but `out` or a parameter is
            raise
        run_instead = followed
    return run_instead(call, given, out)  # outside of the handlers, so that later errors do not show these as causes


def again_of(prepared: Prepared, given: Any, array: AnyArray, done: Any, *, is_new: bool) -> Again | None:
    """What runs a call again without its checks, as `Prepared.again`; None if there is no such thing.

    prepared       the pieces that moved from `given`, which was open as `array`, to `done`
    is_new         `done` was made for the call
    """
    library = None if type(given) is np.ndarray else library_of(given)
    if type(done) is not type(given) or is_compiling() or (library is None and array is not given):
        return None
    known_call = getattr(prepared, "known_call", None)
    if library is not None:
        return None if known_call is None else library.again(known_call, given, done, is_new)
    if known_call is None:
        return prepared.again
    again: Again | None = known_call(given, done, Make(np.empty, (done.shape, done.dtype)) if is_new else None)
    return again


def _same_kind(library: Library, given: Any, role: str, out: Any, work: Work) -> Any:
    result, context = Result(library, given), library.running_on(given)
    if context is None:
        return result.of(work, role, out)
    with context:
        return result.of(work, role, out)
