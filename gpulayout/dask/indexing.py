"""Index conversion for Dask arrays of indices: every chunk is one local call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dask.array as da
import numpy as np

from gpulayout.arrays.array_types import IndexMode, PaddingMode, ShapeLike, TargetLike
from gpulayout.dask.arrays import check_dask, rechunked, untyped
from gpulayout.indices import indexing
from gpulayout.layout.checks import counted
from gpulayout.layout.text import as_shape
from gpulayout.requests.shape_arguments import as_target


def linearize(index: da.Array | Sequence[Any], shape: ShapeLike, *, mode: IndexMode = "raise") -> da.Array:
    """Convert logical indices to linear indices: places in the buffer, counted in elements.

    Parameters
    ----------
    index : dask.array.Array of integers, or sequence
        An array of shape (rank, ...): its first axis is the dimension.  Or a sequence of `rank` Dask arrays that
        broadcast.
    shape : Shape or str
        A shape or its text.
    mode : {"raise", "wrap", "clip"}, optional
        What to do with coordinates outside 0..size-1, as in `gpulayout.linearize`.

    Returns
    -------
    dask.array.Array
        int64 array of shape (...).

    Raises
    ------
    TypeError
        For an array that is not Dask's, and for indices that are not integers.
    IndexError
        For a wrong rank; and, when the result is computed, for a coordinate out of bounds with ``mode="raise"``.
    ValueError
        For any other `mode`, and for chunks of unknown size.

    See Also
    --------
    delinearize : The inverse.

    Examples
    --------
    >>> import dask.array as da
    >>> linearize(da.indices((2, 3), chunks=(2, 2)), "f32[2,3]{0,1}").compute()
    array([[0, 2, 4],
           [1, 3, 5]])
    """
    shape = as_shape(shape)
    whole: Any = index
    if isinstance(index, (tuple, list)):
        for dim, coordinate in enumerate(index):
            _check_index(coordinate, f"index[{dim}]", "linearize")
        whole = untyped.stack(untyped.broadcast_arrays(*index)) if index else index
    else:
        _check_index(index, "index", "linearize")
    rank = len(whole)
    if rank != shape.rank or not rank:
        raise IndexError(f"index has {counted(rank, 'coordinate')}, but {shape} has {counted(shape.rank, 'dimension')}")
    if shape.element_count:
        indexing.linearize((0,) * rank, shape, mode=mode)  # ValueError for a mode that does not exist
    points = rechunked(whole, ((rank,), *whole.chunks[1:]))
    return _mapped(indexing.linearize, points, str(shape), chunks=points.chunks[1:], drop_axis=0, mode=mode)


def delinearize(linear: da.Array, shape: ShapeLike, *, padding: PaddingMode = "raise") -> da.Array:
    """Convert linear indices to logical indices: the inverse of `linearize`.

    Parameters
    ----------
    linear : dask.array.Array of integers
        Places in the buffer, counted in elements.
    shape : Shape or str
        A shape or its text.
    padding : {"raise", "mark"}, optional
        What to do with places that hold no element, as in `gpulayout.delinearize`.

    Returns
    -------
    dask.array.Array
        int64 array of shape (rank, ...).

    Raises
    ------
    TypeError
        For an array that is not Dask's, and for indices that are not integers.
    IndexError
        When the result is computed: for a linear index outside the buffer, and for padding with ``padding="raise"``.
    ValueError
        For any other `padding`, and for chunks of unknown size.

    See Also
    --------
    linearize : The inverse.

    Examples
    --------
    >>> import dask.array as da
    >>> delinearize(da.arange(3, chunks=2), "f32[2,3]{0,1:PD(3,5)}", padding="mark").compute()
    array([[ 0,  1, -1],
           [ 0,  0, -1]])
    """
    shape = as_shape(shape)
    _check_index(linear, "linear", "delinearize")
    indexing.delinearize(np.zeros(0, np.int64), shape, padding=padding)  # ValueError for a mode that does not exist
    chunks = ((shape.rank,), *linear.chunks)
    return _mapped(indexing.delinearize, linear, str(shape), chunks=chunks, new_axis=0, padding=padding)


def convert_linear(
    linear: da.Array, source: ShapeLike, target: TargetLike, *, padding: PaddingMode = "raise"
) -> da.Array:
    """Convert linear indices in the layout of `source` to linear indices in the layout of `target`.

    Parameters
    ----------
    linear : dask.array.Array of integers
        Places in a buffer of `source`, counted in elements.
    source : Shape or str
        A shape or its text.
    target : Shape, Layout or str
        The same logical array in another layout; or only that layout, such as ``"{0,1}"``.
    padding : {"raise", "mark"}, optional
        What to do with places of the source that hold no element, as in `gpulayout.convert_linear`.

    Returns
    -------
    dask.array.Array
        int64 array of the shape of `linear`.

    Raises
    ------
    LayoutError
        When the two shapes are not the same logical array.
    TypeError, IndexError, ValueError
        As `delinearize` raises them.

    Examples
    --------
    >>> import dask.array as da
    >>> convert_linear(da.arange(6, chunks=2), "f32[2,3]", "{0,1}").compute()
    array([0, 2, 4, 1, 3, 5])
    """
    source = as_shape(source, "source")
    target = as_target(target, source)
    _check_index(linear, "linear", "convert_linear")
    nothing = np.zeros(0, np.int64)
    indexing.convert_linear(nothing, source, target, padding=padding)  # an error for other arrays and other words
    return _mapped(indexing.convert_linear, linear, str(source), str(target), chunks=linear.chunks, padding=padding)


def _check_index(index: Any, role: str, function: str) -> None:
    check_dask(index, role, function)
    if index.dtype.kind not in "iu":
        raise TypeError(f"{role} has dtype {index.dtype}: indices are integers")


def _mapped(function: Callable[..., Any], array: da.Array, *shapes: str, **options: Any) -> da.Array:
    """The results of all chunks."""
    rank = len(options["chunks"])
    meta = np.empty_like(array._meta, shape=(0,) * rank, dtype=np.int64)
    result: da.Array = untyped.map_blocks(function, array, *shapes, dtype=np.int64, meta=meta, **options)
    return result
