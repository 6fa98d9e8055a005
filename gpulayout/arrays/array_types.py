"""Types for the public functions' signatures, for type checkers and `typing.get_type_hints`.

A NumPy array in gives a NumPy array out, a tensor of PyTorch a tensor, an array of JAX an array.  CuPy has no types, so
its arrays give `Any`.  For arrays of other libraries the result depends on the device, which no checker can see.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar

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


class SupportsArrayInterface(Protocol):
    """An object that describes its memory to NumPy, such as an image of Pillow."""

    @property
    def __array_interface__(self) -> Any: ...


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
AnyArray: TypeAlias = WritableArray | SupportsArrayInterface | np.generic
Values: TypeAlias = complex | list[Any] | tuple[Any, ...]  # plain numbers and nested sequences of them
ArrayLike: TypeAlias = AnyArray | Values


class Undecided(int):
    """A type without values: as a parameter, only `Any` matches it.

    For a sequence of `Any`, pyright takes the first overload that matches.  That overload has to return `Any`.
    """


# Indices.  A bool is an int to a checker, but the functions refuse it.
Integer: TypeAlias = int | np.integer[Any]
HostIndex: TypeAlias = HostArray | Sequence[HostArray]
OwnKindIndex: TypeAlias = OwnKind[Kind] | Sequence[OwnKind[Kind]]
IndexLike: TypeAlias = AnyArray | Sequence[AnyArray | Integer | list[Any] | tuple[Any, ...]]

# Shapes and their texts; only a layout where an array or a source says the sizes.
ShapeLike: TypeAlias = Shape | str
TargetLike: TypeAlias = Shape | Layout | str

ElementTypeLike: TypeAlias = ElementType | DTypeLike | TorchDType
Parameter: TypeAlias = ArrayLike | np.number[Any]  # a number, or an array of numbers


class ArithmeticOptions(TypedDict, total=False):
    """The keywords that change elements while `transpose`, `pack`, `unpack`, `relayout` and `plan` move them.

    They say one of four forms, which do not mix:

    - cast: `dtype` alone
    - scale and shift: ``x * scale + shift``, or one of the two; with ``divide=True``, ``x / scale + shift``
    - normalise: ``(x - mean) / std``, or one of the two; with ``unit=True``, ``(x / 255 - mean) / std``
    - quantise: ``rint(x / scale) + zero_point`` from floats to integers, and back ``(x - zero_point) * scale``

    A parameter is a number or an array on the host.  It broadcasts against the array before the move, as in NumPy: a
    scale of shape (3,) for N H W C.  There may also be a number for each block of elements: ``block=128`` says how many
    share one, and the last block of a dimension may be cut.  Without `block`, a parameter with as many dimensions as
    the array, other than `mean` and `std`, may have sizes that divide the array's: a scale of shape (4, 2) for an array
    of shape (512, 256) has a number for each 128 x 128 elements.

    Attributes
    ----------
    dtype : ElementType or dtype
        The element type of the result; by default that of the target, if it is a whole shape, else that of the array.
        An array of integers needs it for every form but the cast, and a quantisation always does.
    scale, shift : number or array
        Without `divide` and `zero_point`, a factor, whatever the types are.  With `zero_point`, the size of a step:
        quantising divides by it, the way back multiplies.
    mean, std : number or array
        What is subtracted, and then divides, as in torchvision.  The result has a float type.
    unit : bool
        True divides by 255 first, for arrays of u8.
    zero_point : integer or array
        The integer that stands for 0, as in ONNX.
    divide : bool
        True divides by `scale`, as when weights become floats of 8 bits; the way back multiplies.
    block : int or sequence of int
        How many elements share a number of a parameter: along every dimension of the array before the move that a
        parameter has neither 1 nor all numbers for, or one for each dimension.
    saturate : bool
        False gives nan for numbers that are too large for a float type without infinities, such as f8e4m3fn.  By
        default they become its largest number, as in ONNX.

    Notes
    -----
    Every operation rounds once, half to even, without fused multiply-add: in f32, or in f64 if the array or the result
    has f64 or integers of 32 or 64 bits.  A cast goes from the exact number to the nearest one of the target.  Integers
    saturate, and a nan becomes 0.

    Keywords that do not go together, or do not suit the types, are a TypeError; a parameter of sizes that do not fit is
    a LayoutError.

    Examples
    --------
    >>> import gpulayout as gl
    >>> import numpy as np
    >>> pixels = np.array([[0, 51], [102, 255]], np.uint8)
    >>> gl.pack(pixels, "F", dtype="f32", unit=True)
    array([0. , 0.4, 0.2, 1. ], dtype=float32)
    >>> gl.transpose(pixels, dtype="f32", scale=[1, 0.5], shift=-10).tolist()
    [[-10.0, 92.0], [15.5, 117.5]]
    """

    dtype: ElementTypeLike
    scale: Parameter
    shift: Parameter
    mean: Parameter
    std: Parameter
    unit: bool
    zero_point: Parameter
    divide: bool
    block: int | Sequence[int]
    saturate: bool


# A box of an array: slices without a step, as they would index it.
BoxLike: TypeAlias = slice | EllipsisType | tuple[slice | EllipsisType, ...]


class BufferOptions(ArithmeticOptions, total=False):
    """The keywords of calls with a buffer; for overloads, which so take fewer lines."""

    strict: bool


class BoxOptions(BufferOptions, total=False):
    """The same with a box of the buffer."""

    at: BoxLike | None


# What `help` and completion show: a TypedDict is called like a dict, which has no signature.
ArithmeticOptions.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=...) for name in ArithmeticOptions.__annotations__]
)

IndexMode: TypeAlias = Literal["raise", "wrap", "clip"]
PaddingMode: TypeAlias = Literal["raise", "mark"]

Out = TypeVar("Out", bound=WritableArray)
Scalar = TypeVar("Scalar", bound=np.generic)
