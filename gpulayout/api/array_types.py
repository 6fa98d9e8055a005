"""Types for the public functions' signatures, for type checkers and `typing.get_type_hints`.

A NumPy array in gives a NumPy array out, a tensor of PyTorch a tensor, an array of JAX an array.  CuPy has no types, so
its arrays give `Any`.  For arrays of other libraries the result depends on the device, which no checker can see.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpulayout.layout.element_type import ElementType, TorchDType
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

ElementTypeLike: TypeAlias = ElementType | DTypeLike | TorchDType
Parameter: TypeAlias = ArrayLike | np.number[Any]  # a number, or an array of numbers

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
elif sys.version_info >= (3, 11):
    from typing import Unpack as Unpack
else:

    class Unpack:
        """For `typing.get_type_hints` in Python 3.10, which lacks it."""

        def __class_getitem__(cls, item: Any) -> Any:
            return item


class ArithmeticOptions(TypedDict, total=False):
    """Arithmetic on the way: the keywords of calls that may change the elements they move.  All are optional.

    A parameter is a number, or an array that broadcasts against the source's logical array, as in NumPy.  Its sizes may
    also divide the array's: then there is one number for each block.  A scale of shape (4, 2) for an array of shape
    (512, 256) has one for each 128 x 128 elements.

    Attributes
    ----------
    dtype : ElementType or dtype
        The element type of the result.  Alone it is a cast: the exact value is rounded once, half to even.  Integers
        saturate, and become 0 for a nan.
    scale, shift : number or array
        ``x * scale + shift``, without fused multiply-add.
    unit : bool
        Divide pixels of u8 by 255 first.
    mean, std : number or array
        ``(x - mean) / std``, as torchvision normalises.
    zero_point : integer or array
        With `scale`, quantise a float type, ``rint(x / scale) + zero_point``; or dequantise an integer type,
        ``(x - zero_point) * scale``, as ONNX does.
    saturate : bool
        What floats without infinities, such as f8e4m3fn, get for numbers that are too large: by default their largest
        number, as in ONNX, else a nan.

    Notes
    -----
    The steps are done in f32; in f64 if either side is f64 or an integer of 32 bits or more.  Integers of 64 bits lose
    what f64 cannot hold, except in a plain cast.

    Examples
    --------
    >>> import gpulayout as gl
    >>> import numpy as np
    >>> gl.pack(np.array([[0, 51], [102, 255]], np.uint8), "F", dtype="f32", unit=True)
    array([0. , 0.4, 0.2, 1. ], dtype=float32)
    """

    dtype: ElementTypeLike
    scale: Parameter
    shift: Parameter
    mean: Parameter
    std: Parameter
    unit: bool
    zero_point: Parameter
    saturate: bool


BackendName: TypeAlias = Literal["auto", "numpy", "cupy"]
IndexMode: TypeAlias = Literal["raise", "wrap", "clip"]
PaddingMode: TypeAlias = Literal["raise", "mark"]
ConfigMode: TypeAlias = Literal["stdout", "dicts"]

Out = TypeVar("Out", bound=WritableArray)
Scalar = TypeVar("Scalar", bound=np.generic)
