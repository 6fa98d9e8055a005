"""Types for the public functions' signatures, for type checkers and `typing.get_type_hints`.

A NumPy array in gives a NumPy array out, a tensor of PyTorch a tensor, an array of JAX an array.  CuPy has no types, so
its arrays give `Any`.  For arrays of other libraries the result depends on the device, which no checker can see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, TypeVar

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


Own = TypeVar("Own", covariant=True)  # the library's own type of array, also for its subclasses


class TorchTensor(Protocol[Own]):
    """A tensor of PyTorch, known by what no other array has."""

    @property
    def requires_grad(self) -> bool: ...
    def detach(self) -> Own: ...
    def __dlpack__(self, *args: Any, **options: Any) -> Any: ...


class JaxArray(Protocol[Own]):
    """An array of JAX, known by what no other array has."""

    @property
    def is_fully_addressable(self) -> bool: ...
    def addressable_data(self, index: int) -> Own: ...
    def __dlpack__(self, *args: Any, **options: Any) -> Any: ...


# Arrays whose results are of their own kind.
Kind = TypeVar("Kind")
OwnKind: TypeAlias = TorchTensor[Kind] | JaxArray[Kind]

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


ByteCount: TypeAlias = SupportsIndex | str  # bytes, or text such as "512M"

# Indices.  A bool is an int to a checker, but the functions refuse it.
Integer: TypeAlias = int | np.integer[Any]
HostIndex: TypeAlias = HostArray | Sequence[HostArray]
OwnKindIndex: TypeAlias = OwnKind[Kind] | Sequence[OwnKind[Kind]]
IndexLike: TypeAlias = Array | Sequence[Array | Integer | list[Any] | tuple[Any, ...]]

# Shapes and their texts; only a layout where an array or a source says the sizes.
ShapeLike: TypeAlias = Shape | str
TargetLike: TypeAlias = Shape | Layout | str

BackendName: TypeAlias = Literal["auto", "numpy", "cupy"]
IndexMode: TypeAlias = Literal["raise", "wrap", "clip"]
PaddingMode: TypeAlias = Literal["raise", "mark"]
ConfigMode: TypeAlias = Literal["stdout", "dicts"]

Out = TypeVar("Out", bound=WritableArray)
Scalar = TypeVar("Scalar", bound=np.generic)
