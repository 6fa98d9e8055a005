"""One index array per dimension, brought together without changing the value of any coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.backends import default_backend
from gpulayout.layout.checks import out_of_bounds_text
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.moves.index_program import Mode

INT64 = np.dtype(np.int64)
PLAIN_INDICES = (int, np.integer, list, tuple)  # moved to the device of the arrays


def integers(array: AnyArray, role: str) -> AnyArray:
    """The array, if its dtype is a native integer.  An empty list, which becomes an array of floats, is fine too."""
    if array.dtype.kind not in "iu":
        if array.size == 0 and array.dtype.kind == "f":
            return array.astype(INT64)
        raise TypeError(f"{role} has dtype {array.dtype}: indices must be integers")
    if not array.dtype.isnative:
        raise TypeError(
            f"{role} has dtype {array.dtype.str}, which is big-endian: convert it with "
            f".astype({array.dtype.newbyteorder('=').name!r})"
        )
    return array


def open_operands(operands: Sequence[Any], shape: Shape) -> tuple[Backend, list[AnyArray], tuple[int, ...]]:
    """(backend, one integer array per dimension, the shape they broadcast to).

    Plain numbers and lists are moved to the device of the arrays.
    """
    plain = [isinstance(given, PLAIN_INDICES) for given in operands]
    opened = [
        None if is_plain else arrays.open_array(given, f"index[{dim}]")
        for dim, (given, is_plain) in enumerate(zip(operands, plain))
    ]
    backend, first = next((pair for pair in opened if pair), None) or (default_backend(), None)
    values = []
    for dim, (pair, given) in enumerate(zip(opened, operands)):
        if pair is None:
            array = backend.array(given, None, like=first)
        else:
            array = pair[1]
            arrays.check_same_device(backend, first, *pair, ("index", f"index[{dim}]"))
        values.append(integers(array, f"index[{dim}]"))
    try:
        return backend, values, tuple(np.broadcast_shapes(*(array.shape for array in values)))
    except ValueError:
        shapes = ", ".join(str(tuple(array.shape)) for array in values)
        raise IndexError(f"index arrays of shapes {shapes} do not broadcast for {shape}") from None


def stacked(
    backend: Backend, values: Sequence[AnyArray], result_shape: tuple[int, ...], shape: Shape, mode: Mode
) -> AnyArray:
    """The operands as one (rank, ...) array.

    uint64 and signed operands have no common integer dtype.  uint64 coordinates from 2^63 up are wrapped or clipped in
    their own dimension first, or refused.
    """
    common = np.result_type(*(array.dtype for array in values))
    with backend.on_device_of(values[0]):
        if common.kind not in "iu":
            common = INT64
            values = [_signed(array, dim, values, result_shape, shape, mode) for dim, array in enumerate(values)]
        together = backend.empty((shape.rank, *result_shape), common, values[0])
        for dim, array in enumerate(values):
            together[dim, ...] = array
    return together


def _signed(
    array: AnyArray, dim: int, values: Sequence[AnyArray], result_shape: tuple[int, ...], shape: Shape, mode: Mode
) -> AnyArray:
    size = shape.dimensions[dim]
    if array.dtype != np.uint64 or 0 in result_shape or not size or int(array.max()) < 2**63:
        return array.astype(INT64)
    if mode == "wrap":
        return (array % np.uint64(size)).astype(INT64)
    if mode == "clip":
        return array.clip(0, size - 1).astype(INT64)
    numbers = (array >> np.uint64(63)).astype(bool)  # the coordinates from 2^63 up
    first = int(_broadcast(numbers, result_shape).argmax())
    index = tuple(int(_broadcast(other, result_shape)[first]) for other in values)
    position = tuple(int(i) for i in np.unravel_index(first, result_shape)) if result_shape else ()
    place = f" at position {position[0] if len(position) == 1 else position}" if position else ""
    raise IndexError(out_of_bounds_text(index, dim, shape.dimensions[dim], shape, place))


def _broadcast(array: AnyArray, result_shape: tuple[int, ...]) -> AnyArray:
    """The array repeated to a shape, and flat; works for NumPy and CuPy."""
    array = array.reshape((1,) * (len(result_shape) - array.ndim) + tuple(array.shape))
    for axis, size in enumerate(result_shape):
        if array.shape[axis] != size:
            array = array.repeat(size, axis)
    return array.reshape(-1)
