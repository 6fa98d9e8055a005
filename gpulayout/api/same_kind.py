"""Calls on arrays of PyTorch and JAX: their results are arrays of the same library, on the same device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.libraries import Library
from gpulayout.moves.backend import Array, Backend

Empty = Callable[[tuple[int, ...], Any, Array], Array]
"""(shape, dtype, like): memory for a result, as `Backend.empty` makes it."""


class Result:
    """The result of one call, in memory made for the library of the array that the call is about."""

    __slots__ = ("_library", "_given", "_backend", "_made")

    def __init__(self, library: Library, given: Any, backend: Backend):
        self._library, self._given, self._backend = library, given, backend

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], like: Array) -> Array:
        """The memory, as an array of the backend; called once."""
        self._made = made = self._library.empty(self._given, self._backend, shape, dtype, like)
        array = arrays.open_array(made, "the result", writing=True)[1]
        return array if array.dtype.itemsize != np.dtype(dtype).itemsize else array.view(dtype)

    def given_back(self) -> Any:
        """The same memory as an array of the library."""
        return self._library.give_back(self._made, self._given)


def same_kind(library: Library, given: Any, role: str, out: Any, work: Callable[[Backend, Array, Empty], Any]) -> Any:
    """`out`, or the result of `work` as an array of the library of `given`.

    work   gets the backend, the array as one of NumPy's or CuPy's, and how to make the result; returns it, or `out`
    """
    with library.running_on(given):
        backend, array = arrays.open_array(given, role)
        result = Result(library, given, backend)
        found = work(backend, array, result.empty)
        return found if out is not None else result.given_back()
