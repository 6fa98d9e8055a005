"""Between logical N-d arrays and buffers in a layout: pack, unpack, and the view that moves nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.backends import default_backend
from gpulayout.api.kept import KEYS, Kept
from gpulayout.api.sides import ArraySide, BufferSide, contiguous_strides
from gpulayout.api.transfer import Transfer
from gpulayout.layout.arguments import as_shape, is_layout_alone
from gpulayout.layout.checks import value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.strides import layout_from_strides
from gpulayout.moves.backend import Array
from gpulayout.moves.move import MAX_AXES
from gpulayout.moves.pieces import pack_pieces, unpack_pieces
from gpulayout.moves.supported import check_storable
from gpulayout.moves.view_strides import view_strides

_packs, _unpacks = Kept(), Kept()  # by the shape as it was given, and the dtype, shape and strides of the array


def pack(array: Any, shape: Shape | Layout | str, *, out: Any = None) -> Array:
    """A logical N-d array as a 1-D buffer in the layout of `shape`, padding filled, that of tiles too.

    shape   a shape or its text; or a layout alone, `{1,0:T(8,128)}`: element type and dimensions are then the array's
    array   of `shape.dimensions`; any strides, read-only too; nested lists go to the default backend, with a whole
    shape out     1-D, contiguous, `shape.buffer_size` elements or more, on the same device; returned as given

    With `E(1)`, `E(2)` or `E(4)` the buffer is packed: uint8, `shape.nbytes` long, element 0 in the lowest bits of byte
    0.  Of each element the low bits are taken; bits of the last byte that are left over become 0.

    Raises as `relayout`; BufferError when the array has other dimensions.

    >>> import numpy as np
    >>> pack(np.array([[1, 2, 3], [4, 5, 6]], np.int8), "s8[2,3]{0,1:PD(3,3)PV(highest)}")
    array([  1,   4, 127,   2,   5, 127,   3,   6, 127], dtype=int8)
    >>> pack(np.array([[1, 2, 3], [4, 5, 6]], np.int8), "{1,0:T(2,2)}")
    array([1, 2, 4, 5, 3, 0, 6, 0], dtype=int8)
    >>> pack([1, 2, 3], "u4[3]{0:E(4)}")
    array([33,  3], dtype=uint8)
    """
    if isinstance(array, arrays.PLAIN):
        shape = _whole_shape(shape, array)
        backend, source = arrays.open_array_like(array, "array", shape.dtype)
    else:
        backend, source = arrays.open_array(array, "array")
    key = shape, source.dtype, source.shape, source.strides
    transfer = _packs.get(key) if type(shape) in KEYS else None
    if transfer is None:
        transfer = _pack_transfer(source, shape)
        if type(shape) in KEYS:
            _packs.keep(key, transfer, len(transfer.pieces))
    return transfer.run(backend, source, out) if type(source) is np.ndarray else transfer(source, out)


def _whole_shape(shape: Shape | Layout | str, values: Any) -> Shape:
    """The shape that plain values are packed in; TypeError for a layout alone, as they have no element type."""
    if is_layout_alone(shape):
        raise TypeError(
            f"array is a {type(values).__name__}, which has no element type: shape {value_text(str(shape))} is a layout "
            "alone, write the whole shape"
        )
    return as_shape(shape)


def _pack_transfer(array: Array, shape: Shape | Layout | str) -> Transfer:
    """From an array with these dimensions and strides to a buffer of `shape`."""
    if is_layout_alone(shape):
        shape = as_shape(shape, like=Shape(array.dtype, array.shape))
    else:
        shape = as_shape(shape)
    side = ArraySide(shape, array.strides)
    side.check(array, "array")
    return Transfer(side, BufferSide(shape), pack_pieces(array.strides, shape))


def unpack(buffer: Any, shape: Shape | str, *, out: Any = None) -> Array:
    """The logical N-d array of a 1-D buffer in the layout of `shape`: C order, without padding.

    out   an array of `shape.dimensions` on the same device, with any strides that do not overlap; returned as given

    Packed elements come one in a byte, as ml_dtypes holds them: the element in the low bits, and zeros.

    Raises as `relayout`; BufferError when `out` has other dimensions or overlaps itself.

    >>> import numpy as np
    >>> unpack(np.array([1, 4, 0, 2, 5, 0, 3, 6, 0], np.int8), "s8[2,3]{0,1:PD(3,3)}")
    array([[1, 2, 3],
           [4, 5, 6]], dtype=int8)
    """
    if out is None:
        return _unpack_transfer(shape, None)(buffer)
    result = arrays.open_array(out, "out", writing=True)[1]
    _unpack_transfer(shape, result)(buffer, result)
    return out


def _unpack_transfer(shape: Shape | str, out: Array | None) -> Transfer:
    """From a buffer of `shape` to an array with the dimensions and strides of `out`, or a new one in C order."""
    key = (shape,) if out is None else (shape, out.dtype, out.shape, out.strides)
    transfer = _unpacks.get(key) if type(shape) in KEYS else None
    if transfer is None:
        whole = _array_shape(shape)
        source = BufferSide(whole)  # LayoutError when it has no size
        side = ArraySide(whole, contiguous_strides(whole) if out is None else out.strides)
        if out is not None:
            side.check(out, "out")
        transfer = Transfer(source, side, unpack_pieces(whole, side.strides))
        if type(shape) in KEYS:
            _unpacks.keep(key, transfer, len(transfer.pieces))
    return transfer


def view(buffer: Any, shape: Shape | str) -> Array:
    """The logical array as strides over the buffer: no copy, so writing to it writes to the buffer.

    Every layout of order and padding can be expressed as strides; of tiles, those that leave neighbours at one
    distance: T(1,128), or tiles as wide as the array.  LayoutError names other tiles, and elements packed into bytes.
    Raises as `unpack` for the buffer.

    >>> import numpy as np
    >>> view(np.array([1, 4, 0, 2, 5, 0, 3, 6, 0], np.int8), "s8[2,3]{0,1:PD(3,3)}").strides
    (1, 3)
    """
    shape = _array_shape(shape)
    strides = view_strides(shape)
    backend, source = arrays.open_array(buffer, "buffer")
    BufferSide(shape).check(source, "buffer")
    return backend.strided(source, shape.dimensions, strides)


def _array_shape(shape: Shape | str) -> Shape:
    """A shape whose logical array can exist and whose buffer can; LayoutError past NumPy's 64 dimensions."""
    shape = as_shape(shape)
    check_storable(shape)
    if shape.rank > MAX_AXES:
        raise LayoutError(
            f"dimensions of {shape.element_type} are {shape.rank}: a logical array has at most {MAX_AXES}"
        )
    return shape


def shape_of(array: Any) -> Shape:
    """The shape of any array the library takes, PyTorch's and JAX's too: its strides as order, its gaps as padding.

    LayoutError says why strides cannot be a layout.  TypeError for what has no memory of its own to look at: numbers,
    lists, Dask arrays.

    >>> import numpy as np
    >>> str(shape_of(np.zeros((2, 3), np.float32, order="F")))
    'f32[2,3]{0,1}'
    """
    if isinstance(array, arrays.PLAIN):
        raise TypeError(
            f"array is a {type(array).__name__}, which has no layout: call gl.shape_of(numpy.asarray(array)) for that "
            "of an array made of it"
        )
    if type(array).__module__.partition(".")[0] == "dask":
        raise TypeError(
            "array is a Dask array, whose chunks each have a layout of their own: call gl.shape_of(array.compute()), or "
            "gl.Shape(array.dtype, array.shape) for a row-major array of its size"
        )
    found = arrays.open_array(array, "array")[1]
    element_type = ElementType.of(found.dtype)
    return Shape(
        element_type, found.shape, layout_from_strides(found.shape, found.strides, itemsize=element_type.itemsize)
    )


def empty(shape: Shape | str) -> Array:
    """A new buffer for `shape` on the default backend; zeros, so that it never shows what was in memory before.

    >>> empty("f32[2,3]{0,1:PD(3,5)}").shape
    (15,)
    """
    shape = as_shape(shape)
    check_storable(shape)
    backend = default_backend()
    return backend.zeros((shape.buffer_length,), backend.dtype_for(shape))
