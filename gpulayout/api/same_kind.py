"""Calls on arrays of PyTorch and JAX: their results are arrays of the same library, on the same device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.followed import followed
from gpulayout.api.libraries import Library
from gpulayout.api.not_memory import FollowedArray, TracedArray
from gpulayout.api.traced import TracedCall, traced
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.moves.backend import Again, AnyArray, Backend, Make, Prepared

Work = Callable[[Backend, AnyArray, Any, Any], Any]


class Result:
    """The result of one call on an array of PyTorch or JAX, in memory that its library gets back."""

    __slots__ = ("library", "_given", "_backend", "_made")

    def __init__(self, library: Library, given: Any):
        self.library, self._given = library, given

    def of(self, work: Work, role: str, out: Any) -> Any:
        """See `same_kind`."""
        backend, array = self.opened(role)
        found = work(backend, array, out, self)
        return found if out is not None else self.given_back()

    def running(self) -> AbstractContextManager[object]:
        """The context of work for a list of calls; `same_kind` has its own."""
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


def same_kind(library: Library, given: Any, role: str, out: Any, work: Work, call: tuple[Any, ...] = ()) -> Any:
    """`out`, or the result of `work` as an array of the library of `given`.

    work   gets the backend, the array as one of NumPy's or CuPy's, `out` and the result; returns `out` if it was given
    call   the fields of the `TracedCall` for an array that is no memory; without them, such arrays are refused
    """
    if not call:
        return library.untraced(_same_kind)(library, given, role, out, work)
    if is_compiling():
        again = functools.partial(_same_kind, library, given, role, out, work)
        return traced(TracedCall(*call), given, out, again)
    if library.has_gradients and given.requires_grad and library.is_plainly_followed(given):
        return followed(TracedCall(*call), given, out)
    try:
        return _same_kind(library, given, role, out, work)
    except TracedArray:
        is_traced = True
    except FollowedArray:
        if not library.is_followed(given):  # but `out` or a parameter is
            raise
        is_traced = False
    # outside of the handlers, so that later errors do not show these as their causes
    return traced(TracedCall(*call), given, out) if is_traced else followed(TracedCall(*call), given, out)


def again_of(
    library: Library | None, prepared: Prepared | None, given: Any, done: Any, *, is_new: bool
) -> Again | None:
    """What runs a call again without its checks, as `Prepared.again`; None if there is no such thing.

    library    of the array, as `library_of` finds it
    prepared   the pieces that the host has moved from `given` to `done`, if it has
    is_new     `done` was made for the call
    """
    known_call = getattr(prepared, "known_call", None)
    if known_call is None or type(done) is not type(given) or is_compiling():
        return None
    if library is not None:
        return library.again(known_call, given, done, is_new)
    make = Make(np.empty, (done.shape, done.dtype)) if is_new else None
    return known_call(given, done, make) if type(given) is np.ndarray else None


def _same_kind(library: Library, given: Any, role: str, out: Any, work: Work) -> Any:
    result, context = Result(library, given), library.running_on(given)
    if context is None:
        return result.of(work, role, out)
    with context:
        return result.of(work, role, out)
