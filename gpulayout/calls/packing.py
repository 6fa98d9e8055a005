"""From logical N-d arrays to buffers in a layout and back; the shape of an array, and new buffers of zeros."""

from __future__ import annotations

import functools
from typing import Any, SupportsIndex, Unpack, overload

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import (
    AnyArray,
    ArithmeticOptions,
    ArrayLike,
    BoxLike,
    BoxOptions,
    BufferOptions,
    HostArray,
    Kind,
    Out,
    OwnKind,
    ShapeLike,
    TargetLike,
)
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.shaped_buffer import Memory, ShapedBuffer
from gpulayout.choices.backends import default_backend
from gpulayout.layout.checks import number_text, type_text, value_text, whole_number
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_from_strides
from gpulayout.layout.text import as_shape
from gpulayout.moves.move import check_storable
from gpulayout.requests.arithmetic import missing
from gpulayout.running.array_calls import unpack_array
from gpulayout.running.running import run


@overload
def pack(
    array: HostArray | np.generic, shape: TargetLike, *, out: None = None, **options: Unpack[BufferOptions]
) -> HostArray: ...
@overload
def pack(array: OwnKind[Kind], shape: TargetLike, *, out: None = None, **options: Unpack[BufferOptions]) -> Kind: ...
@overload
def pack(array: ArrayLike, shape: TargetLike, *, out: None = None, **options: Unpack[BufferOptions]) -> Any: ...
@overload
def pack(array: ArrayLike, shape: TargetLike, *, out: Out, **options: Unpack[BoxOptions]) -> Out: ...
def pack(
    array: ArrayLike,
    shape: TargetLike | None = None,
    *,
    out: Any = None,
    at: BoxLike | None = None,
    strict: bool = True,
    **options: Unpack[ArithmeticOptions],
) -> Any:
    """Copy a logical N-d array into a 1-D buffer in the layout of `shape`.

    Padding is filled too, including the padding of tiles.

    Parameters
    ----------
    array : array_like
        Array of shape `shape.dimensions`, with any strides; it may be read-only.  Nested lists and numbers become
        arrays of the default backend and need a whole shape.
    shape : Shape, Layout or str
        A shape or its text; or only a layout, such as ``"{1,0:T(8,128)}"``, for the array's own dimensions and
        element type, or `dtype`.
    out : array, optional
        1-D contiguous array to write to, on the same device, of `shape.buffer_length` elements.
    at : slice, Ellipsis, or a tuple of them, optional
        Write only this box of the whole array: `array` has the sizes of the box, `shape` and `out` are those of the
        whole.  All else in `out` stays as it is, padding too.  The box may begin and end anywhere, also inside of a
        tile or of a byte of packed elements.
    strict : bool, optional
        False takes an `out` that is longer, such as a pool, and leaves its rest as it is.
    **options
        ``dtype=``, ``scale=``, ``shift=`` and more change the elements on the way: see `ArithmeticOptions`.

    Returns
    -------
    array
        1-D array of `shape.buffer_length` elements, of the library of `array` and where it lives; or `out`.

    Raises
    ------
    TypeError
        For an array of another element type without `dtype`, and for objects that are not arrays.
    BufferError
        For an array of other dimensions; for an `out` that is too small or too long, not contiguous, read-only, on
        another device, or that shares memory with `array`.
    LayoutError
        For a shape that no buffer can hold.

    See Also
    --------
    unpack : The inverse.
    transpose : Reorder the axes and get an N-d array.

    Notes
    -----
    ``E(1)``, ``E(2)`` and ``E(4)`` pack several elements into a byte, as XLA does.  The buffer is then uint8 and has
    `shape.nbytes` bytes.  Element 0 takes the lowest bits of byte 0, or with ``E(1,big)`` the highest, as in
    `numpy.packbits`.  Only the low bits of each element are kept, and the spare bits of the last byte are 0.

    Examples
    --------
    >>> import numpy as np
    >>> pack(np.array([[1, 2, 3], [4, 5, 6]], np.int8), "s8[2,3]{0,1:PD(3,3)PV(highest)}")
    array([  1,   4, 127,   2,   5, 127,   3,   6, 127], dtype=int8)
    >>> pack(np.array([[1, 2, 3], [4, 5, 6]], np.int8), "{1,0:T(2,2)}")
    array([1, 2, 4, 5, 3, 0, 6, 0], dtype=int8)
    >>> pack([1, 2, 3], "u4[3]{0:E(4)}")
    array([33,  3], dtype=uint8)
    >>> pack(np.array([[0.5, 1.5], [2.5, 300]]), "{0,1}", dtype="s8")
    array([  0,   2,   2, 127], dtype=int8)

    A box of a buffer:

    >>> weights = pack(np.zeros((2, 4), np.int8), "u4[2,4]{1,0:E(4)}", dtype="u4")
    >>> pack(np.array([[1, 2]]), "u4[2,4]{1,0:E(4)}", out=weights, at=(slice(1, 2), slice(1, 3)), dtype="u4")
    array([ 0,  0, 16,  2], dtype=uint8)
    """
    if shape is None:
        raise TypeError(missing("pack(array, ...)", "shape", options))
    if at is not None and out is None:
        raise TypeError("at= writes a box of a buffer that holds the rest already: pass out=buffer too")
    return run("pack", array, None, shape, out, options, strict=strict, at=at)


@overload
def unpack(buffer: ShapedBuffer[Memory], shape: TargetLike | None = None, *, out: None = None) -> Memory: ...
@overload
def unpack(
    buffer: HostArray | np.generic, shape: TargetLike, *, out: None = None, **options: Unpack[BoxOptions]
) -> HostArray: ...
@overload
def unpack(buffer: OwnKind[Kind], shape: TargetLike, *, out: None = None, **options: Unpack[BoxOptions]) -> Kind: ...
@overload
def unpack(buffer: AnyArray, shape: TargetLike, *, out: None = None, **options: Unpack[BoxOptions]) -> Any: ...
@overload
def unpack(buffer: AnyArray, shape: TargetLike, *, out: Out, **options: Unpack[BoxOptions]) -> Out: ...
def unpack(
    buffer: Any,
    shape: TargetLike | None = None,
    *,
    out: Any = None,
    at: BoxLike | None = None,
    strict: bool = True,
    **options: Unpack[ArithmeticOptions],
) -> Any:
    """Copy the logical N-d array out of a 1-D buffer in the layout of `shape`.

    Parameters
    ----------
    buffer : array
        1-D contiguous array of `shape.buffer_length` elements; or an N-d array that lies in memory as `shape`
        says, such as a Fortran-ordered one for ``{0,1}``.  An `Array` needs no shape.
    shape : Shape, Layout or str
        The buffer's shape, or its text; or, for an N-d array, only its layout, as `pack` takes it.  The library cannot
        detect a wrong layout.
    out : array, optional
        Array of shape `shape.dimensions` to write to, on the same device, with any strides that do not overlap: a
        slice of a larger array, such as ``cache[:, 0]``.
    at : slice, Ellipsis, or a tuple of them, optional
        Read only this box of the array, as `pack` writes one; the result has the sizes of the box.
    strict : bool, optional
        False takes a longer buffer too, such as a pool: its first `shape.buffer_length` elements.
    **options
        ``dtype=``, ``scale=``, ``shift=`` and more change the elements on the way: see `ArithmeticOptions`.

    Returns
    -------
    array
        Array of shape `shape.dimensions` in C order, without padding, of the library of `buffer` and where it lives; or
        `out`.  Packed elements take one byte each, as in ml_dtypes.

    Raises
    ------
    TypeError
        For a buffer of another element type, and for objects that are not arrays.
    BufferError
        For a buffer that is too small, too long or not contiguous; for an `out` that has other dimensions, is
        read-only, is on another device, overlaps itself or shares memory with `buffer`.
    LayoutError
        For a shape that no buffer can hold, for more than 64 dimensions, and for a layout without a shape if the buffer
        is flat, which does not say the sizes.

    See Also
    --------
    pack : The inverse.
    view : The same without a copy, where strides suffice.

    Examples
    --------
    >>> import numpy as np
    >>> unpack(np.array([1, 4, 0, 2, 5, 0, 3, 6, 0], np.int8), "s8[2,3]{0,1:PD(3,3)}")
    array([[1, 2, 3],
           [4, 5, 6]], dtype=int8)

    Packed weights of 4 bits become numbers again:

    >>> unpack(np.array([0x98, 0x7A], np.uint8), "u4[4]{0:E(4)}", dtype="f32", scale=0.5, zero_point=8)
    array([ 0. ,  0.5,  1. , -0.5], dtype=float32)
    """
    if isinstance(buffer, ShapedBuffer):
        return unpack_array(buffer, shape, out, options, at)
    if shape is None:
        raise TypeError(f"{missing('unpack(buffer, ...)', 'shape', options)}; only a gl.Array knows its own")
    return run("unpack", buffer, shape, None, out, options, strict=strict, at=at)


def shape_of(array: AnyArray) -> Shape:
    """The shape of an array: its strides become the order of the dimensions, its gaps become padding.

    Parameters
    ----------
    array : array
        NumPy or CuPy array, or one that offers DLPack or ``__cuda_array_interface__``, as PyTorch's and JAX's do.
        A tensor may require a gradient, as a model's parameters do: no value is read.

    Returns
    -------
    Shape
        The shape that describes the array's memory.

    Raises
    ------
    LayoutError
        When no layout has these strides; the message says why.
    TypeError
        For objects without memory of their own: numbers, lists, Dask arrays.

    Examples
    --------
    >>> import numpy as np
    >>> str(shape_of(np.zeros((2, 3), np.float32, order="F")))
    'f32[2,3]{0,1}'
    """
    if isinstance(array, arrays.PLAIN):
        raise TypeError(
            f"array is {type_text(array)}, which has no layout: call gl.shape_of(numpy.asarray(array)) for the "
            "layout of an array made from it"
        )
    if isinstance(array, str):
        raise TypeError(f"array is the str {value_text(array)}: call gl.parse_shape to read the text of a shape")
    if arrays.is_dask(type(array)):
        raise TypeError(
            "array is a Dask array, and each of its chunks has its own layout: call gl.shape_of(array.compute()), or "
            "gl.Shape(array.dtype, array.shape) for a row-major array of its size"
        )
    if isinstance(array, ShapedBuffer):
        return array.layout_shape
    library = library_of(array)
    return _shape_of(array) if library is None else library.disable_compiler(_shape_of)(library.described(array))


def _shape_of(array: AnyArray) -> Shape:
    opened = arrays.open_array(array, "array")[1]
    return _shape_with(arrays.label(array, opened), tuple(opened.shape), tuple(opened.strides))


@functools.lru_cache(maxsize=1024)  # a repeated call searches no layout for the strides
def _shape_with(dtype: np.dtype[Any], dimensions: tuple[int, ...], strides: tuple[int, ...]) -> Shape:
    element_type = ElementType.of(dtype)
    return Shape(element_type, dimensions, layout_from_strides(dimensions, strides, itemsize=element_type.itemsize))


def zeros(shape: ShapeLike, *, align: SupportsIndex = 1) -> Any:
    """Make a new buffer for `shape`, filled with zeros, on the default backend.

    Parameters
    ----------
    shape : Shape or str
        A shape or its text.
    align : int, optional
        Bytes, a power of two of at most 2^30.  The address of the buffer is a multiple of them, also for a buffer
        without elements.  By default the address is the allocator's: NumPy's are multiples of 16, CuPy's of 512.

    Returns
    -------
    array
        1-D array of `shape.buffer_length` zeros: a CuPy array when the GPU is the default backend, else a NumPy array.

    Raises
    ------
    LayoutError
        For a shape that no buffer can hold, and for an `align` that is not such a power of two.
    BackendUnavailable
        When "cupy" was chosen and cannot run.

    See Also
    --------
    use_backend : Choose the default backend.
    Shape.with_pitch : Its `align` aligns every row too.

    Notes
    -----
    The zeros make sure that padding never shows what was in memory before.

    Examples
    --------
    >>> zeros("f32[2,3]{0,1:PD(3,5)}").shape
    (15,)
    >>> import gpulayout as gl
    >>> with gl.use_backend("numpy"):
    ...     gl.zeros("f32[2,3]", align=256).ctypes.data % 256
    0
    """
    shape = as_shape(shape)
    check_storable(shape)
    backend = default_backend()
    power = whole_number("align", align, f" for {shape}")
    if not 1 <= power <= 2**30 or power & (power - 1):
        raise LayoutError(f"align {number_text(power)} is not a power of two in 1..2^30 for {shape}")
    return backend.zeros(shape.buffer_length, backend.held(shape.buffer_dtype), power)
