"""Types for the public functions' signatures, for type checkers and `typing.get_type_hints`.

A NumPy array in gives a NumPy array out.  For arrays of other libraries the result depends on the device, which no
checker can see: a NumPy array for memory of the host, a CuPy array for memory of a GPU.  It is typed `Any`, as CuPy is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape


class SupportsDLPack(Protocol):
    """An array that exports its memory by DLPack, such as one of CuPy, PyTorch or JAX."""

    def __dlpack__(self, *args: Any, **options: Any) -> Any: ...


class SupportsCudaArrayInterface(Protocol):
    """An array in GPU memory that describes it by `__cuda_array_interface__`, such as one of Numba."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


# Arrays and values that can be moved.
HostArray: TypeAlias = NDArray[Any]
WritableArray: TypeAlias = HostArray | SupportsDLPack | SupportsCudaArrayInterface  # for `out`
Array: TypeAlias = WritableArray | np.generic
Values: TypeAlias = complex | list[Any] | tuple[Any, ...]  # plain numbers and nested sequences of them
ArrayLike: TypeAlias = Array | Values


class Undecided(int):
    """A type without values: as a parameter, only `Any` matches it.

    For a sequence of `Any`, pyright takes the first overload that matches.  That overload has to return `Any`.
    """


# Indices.  A bool is an int to a checker, but the functions refuse it.
Integer: TypeAlias = int | np.integer[Any]
HostIndex: TypeAlias = HostArray | Sequence[HostArray]
IndexLike: TypeAlias = Array | Sequence[Array | Integer | list[Any] | tuple[Any, ...]]

# Shapes and their texts; a target may be only a layout.
ShapeLike: TypeAlias = Shape | str
TargetLike: TypeAlias = Shape | Layout | str

BackendName: TypeAlias = Literal["auto", "numpy", "cupy"]
IndexMode: TypeAlias = Literal["raise", "wrap", "clip"]
PaddingMode: TypeAlias = Literal["raise", "mark"]
ConfigMode: TypeAlias = Literal["stdout", "dicts"]

Out = TypeVar("Out", bound=WritableArray)
Scalar = TypeVar("Scalar", bound=np.generic)
