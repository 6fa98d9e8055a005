"""`pack`, `unpack` and `relayout` for Dask arrays: Dask's shuffle brings slabs together, and each is one local call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Unpack, cast

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef

from gpulayout.arrays.array_types import ArithmeticOptions, ShapeLike, TargetLike
from gpulayout.arrays.memory_checks import check_array, check_buffer_dtype, check_exact, too_short
from gpulayout.arrays.shaped_buffer import ShapedBuffer
from gpulayout.calls import packing
from gpulayout.calls import relayout as relayouts
from gpulayout.calls import view as views
from gpulayout.calls.array_elements import host_buffer
from gpulayout.dask.arrays import (
    ChunkChange,
    Key,
    change_of,
    changed_chunks,
    check_dask,
    empty_like,
    limit_of,
    new_array,
    rechunked,
    untyped,
)
from gpulayout.dask.slabs import Sizes, Slabs, slabs_of_chunks, slabs_of_lengths, slabs_of_size
from gpulayout.layout.checks import ByteCount
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import as_shape, parse_shape
from gpulayout.moves.move import check_same_array, check_same_dimensions, check_storable
from gpulayout.moves.placement import view_strides
from gpulayout.requests.arithmetic import Asked, ElementChange
from gpulayout.requests.shape_arguments import as_target, check_whole, own_shape, sides_of


def pack(
    array: da.Array, shape: TargetLike, *, chunk_size: ByteCount | None = None, **options: Unpack[ArithmeticOptions]
) -> da.Array:
    """Copy a logical Dask array into a 1-D buffer in the layout of `shape`, chunk by chunk.  Nothing is computed yet.

    Parameters
    ----------
    array : dask.array.Array
        Array of shape `shape.dimensions`, in any chunks of NumPy's or CuPy's.
    shape : Shape, Layout or str
        A shape or its text; or only a layout, such as ``"{1,0:T(8,128)}"``.
    chunk_size : int or str, optional
        Bytes of the largest chunk, such as ``"64M"``, in the units of 1024 that all limits of the library have.  By
        default the array's own chunks stay if they are slabs; otherwise it is Dask's setting ``array.chunk-size``.
    **options
        ``dtype=``, ``scale=``, ``zero_point=``, ``mean=`` and others change the elements on the way: see
        `gpulayout.ArithmeticOptions`.

    Returns
    -------
    dask.array.Array
        1-D array of `shape.buffer_length` elements.  Its chunks are slabs: whole indices of the most major dimension,
        or whole tiles; where one of these is larger than `chunk_size`, the next dimension is cut too.

    Raises
    ------
    TypeError, BufferError, LayoutError
        As `gpulayout.pack` raises them, before anything is computed; TypeError for an array that is not Dask's, and
        LayoutError for a `chunk_size` below 1.
    ValueError
        For chunks of unknown size.

    See Also
    --------
    unpack : The inverse.
    gpulayout.pack : The same for an array in memory.

    Notes
    -----
    Dask's own `rechunk` brings the elements of a slab together, in the order of memory; each slab is then one local
    `gpulayout.pack`, which copies nothing if that order is all that the layout says.

    Examples
    --------
    >>> import dask.array as da
    >>> matrix = da.arange(12, chunks=3).reshape(4, 3)
    >>> buffer = pack(matrix, "{0,1:PD(4,4)}", chunk_size=64)
    >>> buffer.chunks, buffer.compute()
    (((8, 8),), array([ 0,  3,  6,  9,  1,  4,  7, 10,  2,  5,  8, 11,  0,  0,  0,  0]))
    """
    check_dask(array, "array", "pack")
    source, asked = Shape(array.dtype, [int(size) for size in array.shape]), Asked(options, ["chunk_size"])
    shape = as_target(shape, source, "shape", asked)
    check_storable(shape)
    change = change_of(asked, source, shape)
    check_array(array, shape if change is None else Shape(source.element_type, shape.dimensions), "array")
    limit = limit_of(chunk_size)
    slabs = slabs_of_chunks(shape, array.chunks, limit) if chunk_size is None else None
    return _pack(array, slabs or slabs_of_size(shape, limit), limit, change)


def _pack(array: da.Array, slabs: Slabs, limit: int, change: ElementChange | None = None) -> da.Array:
    """The slabs of an array, shuffled first unless its chunks are those of the slabs.

    Elements that become narrower change before the shuffle, others after it.  Without a change, it puts the elements in
    the order of memory.
    """
    function: Callable[..., Any] = packing.pack
    is_shuffled = slabs.shape.element_count and array.chunks != slabs.chunks
    if change is not None and is_shuffled:
        if change.arithmetic.target.itemsize < change.arithmetic.source.itemsize:
            array, change = changed_chunks(array, change), None
        else:
            array = rechunked(array, slabs.chunks, limit)
    if change is None and is_shuffled:
        # The shuffle of a transposed view of f32[4,6] for {0,1} makes C-ordered chunks of f32[6,4]: the buffer.
        view = cast(Any, array).transpose(slabs.shape.layout.major_to_minor)
        slabs, function = slabs.in_order_of_memory(), _pack_new
        array = rechunked(view, slabs.chunks, limit)
    changes = ChunkChange(change, slabs.shape.dimensions, slabs.chunks)

    def call(block: Sizes) -> tuple[Any, ...]:
        return function, TaskRef((array.name, *block))

    return _in_slabs("pack", array, slabs, call, empty_like(array, (0,)), changes, str(slabs.shape))


def _pack_new(chunk: Any, slab: str) -> Any:
    """`pack` for a chunk that nothing else uses: it is not copied if it is the buffer already."""
    shape = parse_shape(slab)
    is_buffer = shape == shape.with_layout(None) and shape.dtype == chunk.dtype and chunk.flags.c_contiguous
    return chunk.reshape(-1) if is_buffer else packing.pack(chunk, shape)


def _in_slabs(
    what: str,
    source: da.Array,
    slabs: Slabs,
    call: Callable[[Sizes], tuple[Any, ...]],
    empty: Any,
    changes: ChunkChange,
    *token: str,
) -> da.Array:
    """The buffer of these slabs, as `new_array` makes it; padding alone is packed from an array without elements.

    call    a function, its chunk and what else it gets before the slab, by the chunk's position in the grid
    empty   a logical array without elements, of the kind of the chunks
    """

    def task(name: str, i: int, slab: Shape, block: Sizes | None) -> Task:
        if block is None:
            return Task((name, i), packing.pack, empty_like(source, slab.dimensions), str(slab), **changes.options())
        return Task((name, i), *call(block), str(slab), **changes.options(block))

    def tasks(name: str) -> Mapping[Key, Task]:
        return {(name, i): task(name, i, *slab) for i, slab in enumerate(zip(slabs.shapes, slabs.blocks))}

    like = packing.pack(empty, _without_elements(slabs.shape), **changes.options())
    return new_array(what, tasks, source, (slabs.lengths,), like, *token, *changes.token)


def unpack(
    buffer: da.Array | ShapedBuffer[Any],
    shape: TargetLike | None = None,
    *,
    chunk_size: ByteCount | None = None,
    **options: Unpack[ArithmeticOptions],
) -> da.Array:
    """See or copy the logical array in a 1-D Dask array that is a buffer of `shape`.  Nothing is computed yet.

    Parameters
    ----------
    buffer : dask.array.Array
        1-D array of `shape.buffer_length` elements, in any chunks; uint8 when elements are packed.  Or a
        `gpulayout.Array` in the memory of the host, which needs no shape and is cut into chunks here.
    shape : Shape or str
        The buffer's shape, or its text.
    chunk_size : int or str, optional
        Bytes of the largest chunk, as for `pack`.
    **options
        ``dtype=``, ``scale=``, ``zero_point=``, ``mean=`` and others change the elements on the way: see
        `gpulayout.ArithmeticOptions`.

    Returns
    -------
    dask.array.Array
        Array of shape `shape.dimensions`.  Every chunk is the logical array of one slab: a view of the buffer's chunk
        if strides can express it, as `gpulayout.view` returns, or else a copy in C order.

    Raises
    ------
    TypeError, BufferError, LayoutError, ValueError
        As `pack` and `gpulayout.unpack` raise them, before anything is computed.

    See Also
    --------
    pack : The inverse.

    Examples
    --------
    >>> import dask.array as da
    >>> unpack(da.arange(6, chunks=2), "s64[2,3]{0,1}").compute()
    array([[0, 2, 4],
           [1, 3, 5]])
    """
    if isinstance(buffer, ShapedBuffer):
        shape = own_shape(buffer.layout_shape, shape, "shape")
        buffer = _chunks_of(buffer, chunk_size)
    if shape is None:
        raise TypeError("unpack() missing 1 required positional argument: 'shape'; only a gl.Array knows its own")
    check_whole(shape, "shape")
    shape, asked = as_shape(cast(ShapeLike, shape)), Asked(options, ["chunk_size"])
    buffer = _buffer_of(buffer, shape, "unpack")
    target = Shape(asked.target_type(shape.element_type), shape.dimensions)
    change = change_of(asked, shape, target)
    limit = limit_of(chunk_size)
    slabs = slabs_of_lengths(shape, buffer.chunks[0]) if chunk_size is None else None
    return _unpack(buffer, slabs or slabs_of_size(shape, limit), limit, change)


def _unpack(buffer: da.Array, slabs: Slabs, limit: int, change: ElementChange | None = None) -> da.Array:
    """The logical arrays of the slabs of a buffer: views where strides can express them."""
    shape, changes = slabs.shape, ChunkChange(change, slabs.shape.dimensions, slabs.chunks)
    like = packing.unpack(empty_like(buffer, (0,)), _without_elements(shape), **changes.options())
    if not shape.element_count:
        empty: da.Array = untyped.from_array(np.empty_like(like, shape=shape.dimensions), chunks=-1)
        return empty
    buffer = rechunked(buffer, (slabs.lengths,), limit)

    def task(name: str, i: int, slab: Shape, block: Sizes) -> Task:
        function = _unpacker(slab) if change is None else packing.unpack
        part = TaskRef((buffer.name, i))
        return Task((name, *block), _on_buffer, function, part, str(slab), **changes.options(block))

    def tasks(name: str) -> Mapping[Key, Task]:
        slots = enumerate(zip(slabs.shapes, slabs.blocks))
        return {(name, *block): task(name, i, slab, block) for i, (slab, block) in slots if block is not None}

    return new_array("unpack", tasks, buffer, slabs.chunks, like, str(shape), *changes.token)


def _on_buffer(function: Callable[..., Any], chunk: Any, *shapes: str, **options: Any) -> Any:
    """A call on a chunk of a buffer.  Chunks of constants repeat one element, and those of slices leave some out."""
    return function(chunk if chunk.flags.c_contiguous else chunk.copy(), *shapes, **options)


@functools.lru_cache(maxsize=128)  # most slabs have the same shape
def _unpacker(slab: Shape) -> Any:
    """`view` if strides can express the array, or `unpack`."""
    try:
        view_strides(slab)
    except LayoutError:
        return packing.unpack
    return views.view


def relayout(
    buffer: da.Array | ShapedBuffer[Any],
    source: TargetLike | None = None,
    target: TargetLike | None = None,
    *,
    chunk_size: ByteCount | None = None,
    **options: Unpack[ArithmeticOptions],
) -> da.Array:
    """Copy a buffer of `source`, a 1-D Dask array, into one of `target`.  Nothing is computed yet.

    Parameters
    ----------
    buffer : dask.array.Array
        1-D array of `source.buffer_length` elements, in any chunks; uint8 when elements are packed.  Or a
        `gpulayout.Array` in the memory of the host, as in ``relayout(array, target)``.
    source : Shape or str
        The buffer's shape, or its text.
    target : Shape, Layout or str
        The shape of the result, with the same dimensions; or only its layout, such as ``"{0,1}"``.
    chunk_size : int or str, optional
        Bytes of the largest chunk, as for `pack`.
    **options
        ``dtype=``, ``scale=``, ``zero_point=``, ``mean=`` and others change the elements on the way: see
        `gpulayout.ArithmeticOptions`.

    Returns
    -------
    dask.array.Array
        1-D array of `target.buffer_length` elements, in slabs of the target.

    Raises
    ------
    TypeError, BufferError, LayoutError, ValueError
        As `pack` and `gpulayout.relayout` raise them, before anything is computed.

    See Also
    --------
    gpulayout.relayout : The same for a buffer in memory.

    Notes
    -----
    If both layouts have the same most major dimension, every slab is one local `gpulayout.relayout`, and nothing is
    shuffled.  Otherwise the slabs of the source are seen as arrays, and `pack` shuffles them.

    Examples
    --------
    >>> import dask.array as da
    >>> relayout(da.arange(6, chunks=3), "s64[2,3]", "{0,1}").compute()
    array([0, 3, 1, 4, 2, 5])
    """
    if isinstance(buffer, ShapedBuffer):
        source, target = sides_of(buffer.layout_shape, source, target, options)
        buffer = _chunks_of(buffer, chunk_size)
    if source is None or target is None:
        missing = "source" if source is None else "target"
        raise TypeError(
            f"relayout() missing 1 required positional argument: '{missing}'; only a gl.Array knows its own shape"
        )
    check_whole(source, "source")
    source = as_shape(cast(ShapeLike, source), "source")
    asked = Asked(options, ["chunk_size"])
    target = as_target(target, source, asked=asked)
    (check_same_dimensions if asked else check_same_array)(source, target)
    check_storable(target)
    change = change_of(asked, source, target)
    buffer = _buffer_of(buffer, source, "relayout")
    limit = limit_of(chunk_size)
    kept = slabs_of_lengths(source, buffer.chunks[0]) if chunk_size is None else None
    pair = _local(source, target, kept, limit) if source.element_count else None
    if pair is not None:
        return _relayout(rechunked(buffer, (pair[0].lengths,), limit), *pair, change)
    array = _unpack(buffer, kept or slabs_of_size(source, limit), limit)
    return _pack(array, slabs_of_size(target, limit), limit, change)


def _local(source: Shape, target: Shape, kept: Slabs | None, limit: int) -> tuple[Slabs, Slabs] | None:
    """Slabs of both shapes that hold the same elements, so that no slab needs another; None if there are none.

    It takes a common most major dimension: f32[N,H,W,C]{3,2,1,0} and {2,1,3,0} can both be cut along N.
    """
    own_slabs = [(kept, target)] if kept else []
    own_slabs += [(slabs_of_size(target, limit), source), (slabs_of_size(source, limit), target)]
    for own, shape in own_slabs:
        other = slabs_of_chunks(shape, own.chunks, limit)
        if other is not None and other.largest <= max(limit, own.largest):
            return (own, other) if shape is target else (other, own)
    return None


def _relayout(buffer: da.Array, source: Slabs, target: Slabs, change: ElementChange | None) -> da.Array:
    """Every slab of the target from the slab of the source that holds the same elements."""
    changes = ChunkChange(change, source.shape.dimensions, target.chunks)
    number = {block: i for i, block in enumerate(source.blocks)}

    def call(block: Sizes) -> tuple[Any, ...]:
        return _on_buffer, relayouts.relayout, TaskRef((buffer.name, number[block])), str(source.shapes[number[block]])

    empty = packing.unpack(empty_like(buffer, (0,)), _without_elements(source.shape))
    return _in_slabs("relayout", buffer, target, call, empty, changes, str(source.shape), str(target.shape))


def _chunks_of(array: ShapedBuffer[Any], chunk_size: ByteCount | None) -> da.Array:
    """The buffer of an array in memory as a Dask array, in slabs where these are small enough."""
    slabs = slabs_of_size(array.layout_shape, limit_of(chunk_size))
    return cast(da.Array, untyped.from_array(host_buffer(array), chunks=(slabs.lengths,)))


def _buffer_of(buffer: da.Array, shape: Shape, function: str) -> da.Array:
    """The buffer, if it is one of the shape."""
    check_dask(buffer, "buffer", function)
    check_storable(shape)
    check_buffer_dtype(buffer, shape, "buffer")
    if buffer.ndim != 1:
        raise BufferError(f"buffer has shape {buffer.shape}: a Dask array that is a buffer of {shape} is 1-D")
    if buffer.size < shape.buffer_length:
        raise BufferError(too_short(buffer, shape, "buffer"))
    check_exact(buffer, shape, "buffer", keyword=False)
    return buffer


def _without_elements(shape: Shape) -> Shape:
    """A 1-D shape without elements, to find out what kind of array a function returns."""
    return Shape(shape.element_type, (0,), Layout((0,), element_size_in_bits=shape.layout.element_size_in_bits))
