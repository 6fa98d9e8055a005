"""Checks of arrays: is it a buffer of a shape, or the logical array, of the right element type and size?

Only what an array says of itself is asked, so tensors with gradients, tracers and arrays on several devices pass, whose
memory a call may have to refuse.  `role` is the argument's name in messages.  "out" will be written: it has to have all
its padding, and no overlap.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any, NamedTuple

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.library import TracedArray
from gpulayout.arrays.shaped_buffer import check_plain
from gpulayout.layout.element_type import FLOAT4_X2, ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_from_strides
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.moves.lowered_run import is_torch
from gpulayout.moves.move import check_storable
from gpulayout.moves.placement import contiguous_strides, view_strides


class ArrayFacts(NamedTuple):
    """What an array says of itself, also one without memory; strides in bytes.

    is_tensor    it is one of PyTorch
    is_swapped   its bytes are in the other order than those of `dtype`
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_tensor: bool = False
    is_swapped: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def flags(self) -> ArrayFacts:
        """Itself: of NumPy's flags, messages look at one."""
        return self

    @property
    def c_contiguous(self) -> bool:
        return self.strides == contiguous_strides(self.shape, self.itemsize)

    @staticmethod
    def in_c_order(dtype: np.dtype[Any], shape: tuple[int, ...]) -> ArrayFacts:
        """Of an array in C order, as traced arrays are."""
        return ArrayFacts(dtype, shape, contiguous_strides(shape, dtype.itemsize))


def flat_buffer(backend: Backend, array: AnyArray, shape: Shape, role: str) -> AnyArray:
    """A buffer as a 1-D array; TypeError or BufferError unless the array is one for this shape, contiguous and large
    enough, or an N-d array that lies in memory as the shape says.

    Packed elements must be in an array of uint8.
    """
    length = check_buffer(array, shape, role)
    if array.dtype.names:  # FLOAT4_X2, which is bytes to all that moves them
        array = array.view(shape.buffer_dtype)
    return array if array.ndim == 1 else backend.strided(array, (length,), (shape.itemsize,))


def check_buffer(array: Any, shape: Shape, role: str) -> int:
    """The same checks; the length of the array's memory in elements."""
    # NumPy has one object for each of its own dtypes, so `is` settles the usual case
    if array.dtype is not shape.buffer_dtype:
        check_buffer_dtype(array, shape, role)
    if array.ndim != 1:
        return _flat_length(array, shape, role)
    size: int = array.size
    if size < shape.buffer_length:
        raise BufferError(too_short(array, shape, role))
    if size > 1 and array.strides[0] != array.itemsize:
        raise BufferError(
            f"{role} steps by {array.strides[0]} bytes, but a buffer of {shape} is contiguous and "
            f"steps by {shape.itemsize}"
        )
    return size


def _flat_length(array: Any, shape: Shape, role: str) -> int:
    """Elements of an N-d array's memory, from its first to its last.  Without elements, any strides will do.

    A padded buffer ends after that, but moves never read padding: f32[2,3]{0,1:PD(3,5)} has 15 places, and the last
    element is at 7.  Moves write padding, so an `out` has to have all of it.
    """
    is_same = tuple(array.shape) == shape.dimensions
    length = 0
    if not (is_same and 0 in shape.dimensions):
        strides = own_strides(shape) if is_same else None
        if strides is None or any(
            size > 1 and stride != own for size, stride, own in zip(array.shape, array.strides, strides)
        ):
            raise BufferError(_not_a_buffer(array, shape, strides, role))
        length = sum((size - 1) * stride for size, stride in zip(array.shape, strides)) // shape.itemsize + 1
    if length < shape.buffer_length and (role == "out" or (shape.is_tiled and length)):
        raise BufferError(
            f"{role} has shape {tuple(array.shape)}, without the padding of {shape}: pass its whole buffer, of "
            f"{shape.buffer_length} elements"
        )
    return length


def _not_a_buffer(array: AnyArray, shape: Shape, strides: tuple[int, ...] | None, role: str) -> str:
    """The message about an N-d array that does not lie in memory as the shape says, in these strides if any."""
    own = "" if strides is None else f", which has strides {strides}"
    lies = None if shape.is_packed else _shape_of_memory(array, shape)
    if size := other_size(array, shape, role):
        return size
    if role == "out":
        advice = "gl.unpack and gl.transpose write an array with any strides"
    elif lies is not None and lies.dimensions == shape.dimensions:
        advice = f"pass its own shape, gl.shape_of({role}); or call gl.pack, which takes an array with any strides"
    elif shape.is_packed and tuple(array.shape) != shape.dimensions:
        advice = f"a buffer of bytes, each with {8 // shape.bits_per_element} elements, is 1-D"
    else:
        advice = "gl.pack takes an array with any strides"
    if array.flags.c_contiguous and (role == "out" or tuple(array.shape) != shape.dimensions):
        advice += f"; {role}.reshape(-1) is the same memory as a flat buffer"
    return (
        f"{role} has shape {tuple(array.shape)} and strides {tuple(array.strides)}, so its memory is "
        f"{f'{lies}, ' if lies else ''}not a buffer of {shape}{own}: {advice}"
    )


def other_size(array: Any, shape: Shape, role: str) -> str:
    """The message about an N-d array with more or fewer elements than the shape, or nothing."""
    if array.size in (shape.element_count, shape.buffer_length):
        return ""
    return (
        f"{role} has shape {tuple(array.shape)}, but a buffer of {shape} has {shape.buffer_length} elements, "
        f"not {array.size}: write the shape that it has"
    )


def _shape_of_memory(array: AnyArray, shape: Shape) -> Shape | None:
    """The shape that describes an array's memory, for the element type of `shape`, or None if there is none."""
    try:
        layout = layout_from_strides(tuple(array.shape), tuple(array.strides), itemsize=shape.itemsize)
        return Shape(shape.element_type, tuple(array.shape), layout)
    except LayoutError:
        return None


@functools.lru_cache(maxsize=1024)  # the table of a shape with tiles costs more than a small call
def own_strides(shape: Shape) -> tuple[int, ...] | None:
    """Byte strides of the logical array in a buffer of the shape, or None if there are none."""
    try:
        return view_strides(shape)
    except LayoutError:
        return None


def check_array(array: AnyArray, shape: Shape, role: str) -> None:
    """TypeError or BufferError unless an array has these dimensions and elements; `out` must not overlap itself."""
    check_dtype(array, shape, role)
    if array.shape != shape.dimensions:
        _ = shape.bounds  # LayoutError when the shape has an unbounded dimension
        raise BufferError(f"{role} has shape {tuple(array.shape)}, but {shape} has dimensions {shape.dimensions}")
    if role == "out":
        check_no_self_overlap(array, role)


def check_dtype(array: Any, shape: Shape, role: str, instead: str = "") -> None:
    """TypeError unless the array has the element type, or holds a type that NumPy lacks as unsigned integers.

    instead   what to write to convert the elements of the argument `array`, if the call takes no `dtype`
    """
    dtype = array.dtype
    if (
        dtype is shape.dtype
        or dtype == shape.dtype
        or (shape.element_type.is_extended and dtype == shape.element_type.carrier)
    ):
        return
    if not dtype.isnative and dtype.newbyteorder("=") == shape.dtype:
        native = f"convert it with .astype({shape.dtype.name!r}) for {shape}"
        if role == "out":
            native = f"pass an array of {shape.dtype.name}, because results have the byte order of this machine"
        raise TypeError(f"{role} has dtype {dtype.str}, which is big-endian: {native}")
    also = f" (or {shape.element_type.carrier.name})" if shape.element_type.is_extended else ""
    if also and dtype == np.dtype((np.void, shape.itemsize)):
        also += f": numpy.save keeps no name of this type, so pass {role}.view(ml_dtypes.{shape.dtype.name})"
    if role == "array":
        converts = f"dtype='{shape.element_type}' converts the elements on the way"
        also += f"; {instead or converts}"
    also += _view_advice(array, shape, role)
    raise TypeError(f"{role} has dtype {dtype}, but {shape} needs {shape.dtype.name}{also}")


def too_short(array: AnyArray, shape: Shape, role: str) -> str:
    """The message about a 1-D array that is no buffer of the shape, because it is too short."""
    unit = "bytes" if shape.is_packed else "elements"
    return f"{role} has {array.size} {unit}, but {shape} needs {shape.buffer_length}"


def check_exact(array: Any, shape: Shape, role: str, keyword: bool = True) -> None:
    """BufferError for a 1-D array that is longer than a buffer of the shape: a shape that is too small writes nothing.

    keyword   whether the call has `strict`
    """
    if array.size > shape.buffer_length and array.ndim == 1:
        raise BufferError(too_long(array, shape, role, keyword))


def too_long(array: Any, shape: Shape, role: str, keyword: bool = True) -> str:
    """The message about a 1-D array that is longer than a buffer of the shape."""
    unit, length = "bytes" if shape.is_packed else "elements", shape.buffer_length
    lenient = f", or strict=False to {'write' if role == 'out' else 'take'} the first {length}" if keyword else ""
    return f"{role} has {array.size} {unit}, but {shape} has {length}: pass {role}[:{length}]{lenient}"


def check_buffer_dtype(array: AnyArray, shape: Shape, role: str) -> None:
    """TypeError unless the array has the element type, or is uint8 for packed elements."""
    if array.dtype == FLOAT4_X2:
        _check_pairs(shape, role)
    elif not shape.is_packed:
        check_dtype(array, shape, role)
    elif array.dtype != shape.buffer_dtype:
        raise TypeError(
            f"{role} has dtype {array.dtype}, but {shape} is packed, {8 // shape.bits_per_element} elements in a byte: "
            f"its buffer is uint8{_view_advice(array, shape, role)}"
        )


def _view_advice(array: Any, shape: Shape, role: str) -> str:
    """How the bytes of a buffer are taken for those that a shape needs; nothing if they are not exactly these."""
    own, wanted = array.dtype, shape.buffer_dtype
    is_plain = own.isnative and not own.hasobject and own.names is None and not getattr(array, "is_swapped", False)
    if role != "buffer" or not is_plain or not hasattr(array, "flags"):  # Dask's have none
        return ""
    if own.itemsize == wanted.itemsize:
        fits = tuple(array.shape) == shape.dimensions or (array.ndim == 1 and array.size == shape.buffer_length)
    else:
        fits = array.ndim == 1 and array.flags.c_contiguous and array.size * own.itemsize == shape.nbytes
    if not fits:
        return ""
    name: str = wanted.name
    if _is_tensor(array):
        known = hasattr(sys.modules.get("torch"), name) and not shape.element_type.is_sub_byte
        name = f"torch.{name if known else shape.element_type.carrier.name}"
    else:
        name = f"ml_dtypes.{name}" if wanted.type.__module__ != "numpy" else f"'{name}'"
    return f"; buffer.view({name}) takes its bytes as these"


def _is_tensor(array: Any) -> bool:
    """True for what a tensor of PyTorch was opened as."""
    if isinstance(array, ArrayFacts):
        return array.is_tensor
    return type(getattr(getattr(array, "base", None), "owner", None)).__module__.startswith("torch")


def _check_pairs(shape: Shape, role: str) -> None:
    """TypeError unless a buffer of the shape holds what torch.float4_e2m1fn_x2 holds."""
    is_little = shape.layout.bit_order == "little"
    if not (shape.is_packed and shape.element_type is ElementType.F4E2M1FN and is_little):
        raise TypeError(
            f"{role} has dtype torch.float4_e2m1fn_x2, two elements of f4e2m1fn in a byte, the first in the low bits, "
            f"and {shape} is no shape of f4e2m1fn with E(4): pass {role}.view(torch.uint8) for its bytes"
        )


def check_no_self_overlap(array: AnyArray, role: str) -> None:
    """BufferError when two elements of an array may share memory, as with a stride of 0.

    Sorted by stride, every dimension must step past the reach of the dimensions below it: shape (2, 3) with strides
    (12, 4) is fine, (8, 4) is not.
    """
    if array.flags.c_contiguous or 0 in array.shape:
        return
    reach = array.dtype.itemsize
    for stride, size, dim in sorted(
        (abs(stride), size, dim) for dim, (size, stride) in enumerate(zip(array.shape, array.strides)) if size > 1
    ):
        if stride < reach:
            raise BufferError(
                f"{role} with shape {tuple(array.shape)} and strides {tuple(array.strides)} may overlap itself: "
                f"dimension {dim} steps by {stride} bytes where {reach} are taken"
            )
        reach += (size - 1) * stride


# ---- a buffer and its shape, as an `Array` holds them ----------------------------------------------------------------


def check_pair(buffer: Any, shape: Shape) -> None:
    """TypeError or BufferError unless the array, or what it says of itself, is a buffer of the shape, as moves take it.

    LayoutError for a shape that no buffer can hold.
    """
    _check_has_buffer(shape)
    if type(buffer) not in (np.ndarray, ArrayFacts):
        check_plain(buffer, "buffer")
        buffer = _described(buffer)
    if check_buffer(buffer, shape, "buffer") > shape.buffer_length:
        raise BufferError(too_long(buffer, shape, "buffer", keyword=False))


@functools.lru_cache(maxsize=1024)  # every new Array comes here
def _check_has_buffer(shape: Shape) -> None:
    check_storable(shape)
    _ = shape.buffer_length


def _described(buffer: Any) -> Any:
    """The array, or a description of one whose memory may be out of reach."""
    library = library_of(buffer)
    if library is None:
        return arrays.open_array(buffer, "buffer")[1]
    dtype, sizes = library.dtype(buffer), tuple(buffer.shape)
    if is_torch(buffer):
        return ArrayFacts(dtype, sizes, tuple([step * dtype.itemsize for step in buffer.stride()]), True)
    if len(sizes) != 1:
        try:
            return arrays.open_array(buffer, "buffer")[1]  # JAX says no strides
        except TracedArray:
            pass
    return ArrayFacts.in_c_order(dtype, sizes)


def is_flat(buffer: Any) -> bool:
    """True for a 1-D buffer; False for an N-d array, whose own strides are its layout.

    Leaves that a pytree brings, such as None, are as good as flat: only a call that moves them will find out.
    """
    if type(buffer) is np.ndarray:
        return buffer.ndim == 1
    shape = getattr(buffer, "shape", None)
    if shape is None and library_of(buffer) is None and hasattr(buffer, "__dlpack__"):
        shape = arrays.open_array(buffer, "buffer")[1].shape
    return shape is None or len(shape) == 1
