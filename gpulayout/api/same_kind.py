"""Calls on arrays of PyTorch and JAX: their results are arrays of the same library, on the same device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.libraries import Library, library_of
from gpulayout.moves.backend import Array, Backend


class Result:
    """The result of one call on an array of PyTorch or JAX, in memory that its library gets back."""

    __slots__ = ("library", "_given", "_backend", "_made")

    def __init__(self, library: Library, given: Any):
        self.library, self._given = library, given

    def running(self) -> AbstractContextManager[object]:
        """The context of all work for this call."""
        return self.library.running_on(self._given)

    def opened(self, role: str) -> tuple[Backend, Array]:
        """The given array, as `open_array` opens it."""
        self._backend, array = arrays.open_array(self._given, role)
        return self._backend, array

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], like: Array) -> Array:
        """The memory, as an array of the backend; called once."""
        self._made = made = self.library.empty(self._given, self._backend, shape, dtype, like)
        return arrays.memory_of(self.library, made, "the result", True)[1] if library_of(made) else made

    def given_back(self) -> Any:
        """The same memory as an array of the library."""
        return self.library.give_back(self._made, self._given)


Maker = Backend | Result  # what makes the memory of a result, by its method `empty`


def same_kind(library: Library, given: Any, role: str, out: Any, work: Callable[[Backend, Array, Result], Any]) -> Any:
    """`out`, or the result of `work` as an array of the library of `given`.

    work   gets the backend, the array as one of NumPy's or CuPy's, and the result; returns `out` if it was given
    """
    return library.untraced(_same_kind)(library, given, role, out, work)


def _same_kind(library: Library, given: Any, role: str, out: Any, work: Callable[[Backend, Array, Result], Any]) -> Any:
    result = Result(library, given)
    with result.running():
        found = work(*result.opened(role), result)
        return found if out is not None else result.given_back()
