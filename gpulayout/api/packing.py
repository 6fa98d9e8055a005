"""From logical N-d arrays to buffers in a layout and back: `pack`, `unpack`, and `view`, which moves nothing."""

from __future__ import annotations

import functools
from typing import Any, SupportsIndex, Unpack, overload

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.arithmetic import Asked
from gpulayout.api.array_checks import is_flat
from gpulayout.api.array_graphs import own_in_graph
from gpulayout.api.array_types import (
    AnyArray,
    ArithmeticOptions,
    ArrayLike,
    HostArray,
    Kind,
    Out,
    OwnKind,
    ShapeLike,
    TargetLike,
    Values,
)
from gpulayout.api.backends import default_backend, host_backend
from gpulayout.api.convert_transfer import convert_transfer
from gpulayout.api.given_shapes import given_shape
from gpulayout.api.kept import KEYS, Kept
from gpulayout.api.libraries import library_of
from gpulayout.api.own_shapes import own_shape
from gpulayout.api.same_kind import Result, same_kind
from gpulayout.api.shaped_buffer import Memory, ShapedBuffer
from gpulayout.api.sides import ArraySide, BufferSide
from gpulayout.api.targets import as_target, converted_target
from gpulayout.api.traced import TracedCall, traced
from gpulayout.api.transfer import Transfer
from gpulayout.api.transpose import transpose
from gpulayout.layout.arguments import as_shape, is_only_layout
from gpulayout.layout.checks import number_text, type_text, value_text, whole_number
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import is_compiling
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_from_strides
from gpulayout.moves.backend import Backend
from gpulayout.moves.move import MAX_AXES
from gpulayout.moves.pieces import pieces
from gpulayout.moves.placement import Placement, contiguous_strides
from gpulayout.moves.supported import check_storable

# By the shape as it was given, and the dtype, shape and strides of the array.
kept_packs: Kept[Transfer] = Kept()
kept_unpacks: Kept[Transfer] = Kept()


@overload
def pack(
    array: HostArray | np.generic, shape: TargetLike, *, out: None = None, **options: Unpack[ArithmeticOptions]
) -> HostArray: ...
@overload
def pack(
    array: OwnKind[Kind], shape: TargetLike, *, out: None = None, **options: Unpack[ArithmeticOptions]
) -> Kind: ...
@overload
def pack(array: ArrayLike, shape: TargetLike, *, out: None = None, **options: Unpack[ArithmeticOptions]) -> Any: ...
@overload
def pack(array: ArrayLike, shape: TargetLike, *, out: Out, **options: Unpack[ArithmeticOptions]) -> Out: ...
def pack(array: ArrayLike, shape: TargetLike, *, out: Any = None, **options: Unpack[ArithmeticOptions]) -> Any:
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
        1-D contiguous array to write to, on the same device, of `shape.buffer_length` elements or more.
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
        For an array of other dimensions; for an `out` that is too small, not contiguous, read-only, on another device,
        or that shares memory with `array`.
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
    """
    if options and is_compiling():
        again = functools.partial(pack, array, shape, out=out, **options)
        return traced(TracedCall("pack", None, shape, {}, options), array, out, again)
    asked = Asked(options) if options else None
    if asked:
        return _pack_converted(array, shape, asked, out)
    if type(array) is np.ndarray:
        return _pack_transfer(array, shape, array.dtype).run(host_backend(), array, out)
    if isinstance(array, arrays.PLAIN):
        shape = _whole_shape(shape, array)
        backend, source = arrays.open_array_like(array, "array", shape.dtype)
        return _pack_transfer(source, shape, source.dtype).run(backend, source, out)
    library = library_of(array)
    if library is None:
        backend, source = arrays.open_array(array, "array")
        return _pack_transfer(source, shape, source.dtype)(source, out)
    return same_kind(library, array, "array", out, functools.partial(_packed, shape), ("pack", None, shape))


def _packed(shape: TargetLike, backend: Backend, array: Any, out: Any, result: Result) -> Any:
    """`pack` of a library's array, open as `array`."""
    return _pack_transfer(array, shape, result.given_dtype).run(backend, array, out, result)


def _pack_converted(given: ArrayLike, shape: TargetLike, asked: Asked, out: Any) -> Any:
    """`pack` with arithmetic."""

    def work(backend: Backend, array: Any, out: Any, result: Result | None = None) -> Any:
        label = array.dtype if result is None else result.given_dtype
        source = Shape(label, tuple(array.shape))
        target = converted_target(shape, source, asked, "shape")
        change = asked.change(source, target.element_type)
        if change is None:
            return _pack_transfer(array, target, label).run(backend, array, out, result)
        if source.dimensions != target.dimensions:
            raise BufferError(f"array has shape {source.dimensions}, but {target} has dimensions {target.dimensions}")
        transfer = convert_transfer(
            ArraySide(source, array.strides), BufferSide(target), Placement.buffer(target), change
        )
        return transfer.run(backend, array, out, result)

    if isinstance(given, arrays.PLAIN):
        return work(*arrays.open_array_like(given, "array", None), out)
    library = library_of(given)
    if library is None:
        return work(*arrays.open_array(given, "array"), out)
    return same_kind(library, given, "array", out, work, ("pack", None, shape, {}, asked.options))


def _whole_shape(shape: TargetLike, values: Values) -> Shape:
    """The shape for plain values; TypeError for a layout without a shape, because plain values have no element type."""
    if isinstance(shape, Layout) or is_only_layout(shape):
        raise TypeError(
            f"array is {type_text(values)}, which has no element type, and shape {value_text(str(shape))} is "
            "only a layout: write the whole shape"
        )
    return as_shape(shape)


def _pack_transfer(array: Any, shape: TargetLike, dtype: np.dtype[Any]) -> Transfer:
    """From an array with these dimensions and strides to a buffer of `shape`.

    dtype   the array's element type, also where CuPy holds it as unsigned integers
    """
    key = shape, dtype, array.shape, array.strides
    transfer = kept_packs.get(key) if type(shape) in KEYS else None
    if transfer is None:
        transfer = _new_pack_transfer(array, shape, dtype)
        if type(shape) in KEYS:
            kept_packs.keep(key, transfer, len(transfer.pieces))
    return transfer


def _new_pack_transfer(array: Any, shape: TargetLike, dtype: np.dtype[Any]) -> Transfer:
    if isinstance(shape, Shape) or (isinstance(shape, str) and not is_only_layout(shape)):
        found = as_shape(shape)
    else:
        found = as_target(shape, Shape(dtype, array.shape), "shape")
    side = ArraySide(found, array.strides)
    side.check(array, "array")
    return Transfer(side, BufferSide(found), pieces(Placement.array(found, array.strides), Placement.buffer(found)))


@overload
def unpack(buffer: ShapedBuffer[Memory], shape: TargetLike | None = None, *, out: None = None) -> Memory: ...
@overload
def unpack(
    buffer: HostArray | np.generic, shape: TargetLike, *, out: None = None, **options: Unpack[ArithmeticOptions]
) -> HostArray: ...
@overload
def unpack(
    buffer: OwnKind[Kind], shape: TargetLike, *, out: None = None, **options: Unpack[ArithmeticOptions]
) -> Kind: ...
@overload
def unpack(buffer: AnyArray, shape: TargetLike, *, out: None = None, **options: Unpack[ArithmeticOptions]) -> Any: ...
@overload
def unpack(buffer: AnyArray, shape: TargetLike, *, out: Out, **options: Unpack[ArithmeticOptions]) -> Out: ...
def unpack(
    buffer: Any, shape: TargetLike | None = None, *, out: Any = None, **options: Unpack[ArithmeticOptions]
) -> Any:
    """Copy the logical N-d array out of a 1-D buffer in the layout of `shape`.

    Parameters
    ----------
    buffer : array
        1-D contiguous array of `shape.buffer_length` elements or more; or an N-d array that lies in memory as `shape`
        says, such as a Fortran-ordered one for ``{0,1}``.  An `Array` needs no shape.
    shape : Shape, Layout or str
        The buffer's shape, or its text; or, for an N-d array, only its layout, as `pack` takes it.  The library cannot
        detect a wrong layout.
    out : array, optional
        Array of shape `shape.dimensions` to write to, on the same device, with any strides that do not overlap: a
        slice of a larger array, such as ``cache[:, 0]``.
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
        For a buffer that is too small or not contiguous; for an `out` that has other dimensions, is read-only, is on
        another device, overlaps itself or shares memory with `buffer`.
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
        return _unpack_array(buffer, shape, out, options)
    if shape is None:
        raise TypeError("unpack() missing 1 required positional argument: 'shape'; only a gl.Array knows its own")
    if is_compiling():
        again = functools.partial(unpack, buffer, shape, out=out, **options)
        return traced(TracedCall("unpack", shape, None, {}, options), buffer, out, again)
    shape = given_shape(shape, buffer, "shape")
    asked = Asked(options) if options else None
    if asked:
        return _unpack_converted(buffer, array_shape(shape), asked, out)
    if out is None:
        return _unpack_transfer(shape, None)(buffer)
    if type(buffer) is np.ndarray:
        return _unpacked_into(shape, host_backend(), buffer, out)
    library = library_of(buffer)
    if library is not None:
        return same_kind(library, buffer, "buffer", out, functools.partial(_unpacked_into, shape), ("unpack", shape))
    target = arrays.open_array(out, "out", writing=True)[1]
    return _unpack_transfer(shape, target)(buffer, out)  # where a repeated call on CuPy's arrays checks nothing twice


def _unpack_array(array: ShapedBuffer[Any], shape: TargetLike | None, out: Any, options: ArithmeticOptions) -> Any:
    """`unpack` of an `Array`.  One that holds an N-d array is the logical array already."""
    own = own_in_graph(array, shape, "shape") if is_compiling() else own_shape(array.shape, shape, "shape")
    if is_flat(array.buffer):
        return unpack(array.buffer, own, out=out, **options)
    return transpose(array.buffer, range(len(array.buffer.shape)), out=out, **options)


def _unpack_converted(buffer: Any, shape: Shape, asked: Asked, out: Any) -> Any:
    """`unpack` with arithmetic."""
    dense = Shape(asked.target_type(shape.element_type, None, shape), shape.dimensions)
    change = asked.change(shape, dense.element_type)
    if change is None:
        return unpack(buffer, shape, out=out)
    strides = contiguous_strides(dense)
    if out is not None:
        target = arrays.open_array(out, "out", writing=True)[1]
        ArraySide(dense, target.strides).check(target, "out")
        strides = target.strides
    written = Placement.array(dense, strides)
    return convert_transfer(BufferSide(shape), ArraySide(dense, strides), written, change)(buffer, out)


def _unpacked_into(shape: ShapeLike, backend: Backend, buffer: Any, out: Any, result: Result | None = None) -> Any:
    """`unpack` of a buffer that `open_array` returned."""
    out_backend, target = arrays.open_array(out, "out", writing=True)
    transfer = _unpack_transfer(shape, target)
    array = transfer.source_memory(backend, buffer)
    arrays.check_same_device(backend, array, out_backend, target, ("buffer", "out"))
    return transfer.move_into(backend, array, out, target)


def _unpack_transfer(shape: ShapeLike, out: Any) -> Transfer:
    """From a buffer of `shape` to an array with the dimensions and strides of `out`, or a new one in C order."""
    key = (shape,) if out is None else (shape, out.dtype, out.shape, out.strides)
    transfer = kept_unpacks.get(key) if type(shape) in KEYS else None
    if transfer is None:
        whole = array_shape(shape)
        source = BufferSide(whole)  # LayoutError when the shape has no size
        side = ArraySide(whole, contiguous_strides(whole) if out is None else out.strides)
        if out is not None:
            side.check(out, "out")
        transfer = Transfer(source, side, pieces(Placement.buffer(whole), Placement.array(whole, side.strides)))
        if type(shape) in KEYS:
            kept_unpacks.keep(key, transfer, len(transfer.pieces))
    return transfer


def array_shape(shape: ShapeLike) -> Shape:
    """A shape whose buffer and whose logical array can exist; LayoutError past NumPy's 64 dimensions."""
    shape = as_shape(shape)
    check_storable(shape)
    if shape.rank > MAX_AXES:
        raise LayoutError(
            f"dimensions of {shape.element_type} are {shape.rank}: a logical array has at most {MAX_AXES}"
        )
    return shape


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
        return array.shape
    library = library_of(array)
    return _shape_of(array) if library is None else library.untraced(_shape_of)(library.described(array))


def _shape_of(array: AnyArray) -> Shape:
    found = arrays.open_array(array, "array")[1]
    return _shape_with(arrays.label(array, found), tuple(found.shape), tuple(found.strides))


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
    return backend.zeros(shape.buffer_length, backend.held(shape.buffer_dtype), _alignment(align, shape))


def _alignment(align: SupportsIndex, shape: Shape) -> int:
    """`align` as a power of two in 1..2^30."""
    found = whole_number("align", align, f" for {shape}")
    if not 1 <= found <= 2**30 or found & (found - 1):
        raise LayoutError(f"align {number_text(found)} is not a power of two in 1..2^30 for {shape}")
    return found
