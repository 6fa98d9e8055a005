"""Index conversion of traced arrays: the table of digits as integer arithmetic of JAX and PyTorch.

What would raise an error for an index cannot be traced, because nothing knows the index yet.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gpulayout.layout.checks import counted
from gpulayout.layout.digits import StrideTable
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.index_program import Mode
from gpulayout.moves.lowered_run import is_jax


def traced_conversion(direction: str, shape: Shape, target: Shape | None, given: Any, mode: Mode, out: Any) -> Any:
    """`linearize`, `delinearize` or `convert_linear` of a traced array; of several for `linearize`.

    Places without an element, also those outside the buffer, are marked with -1.
    """
    if out is not None:
        raise BufferError("out cannot be written to inside a traced function: use the result of the call")
    if mode == "raise":
        advice = (
            "mode='clip' or mode='wrap'"
            if direction == "linearize"
            else "padding='mark', which marks what lies outside the buffer too"
        )
        raise TypeError(f"{direction} cannot raise an error for an index inside a traced function: pass {advice}")
    operands = [*given] if isinstance(given, (tuple, list)) else [given]
    xp = sys.modules["jax"].numpy if any(map(is_jax, operands)) else sys.modules["torch"]
    table = stride_table(shape)
    if direction == "linearize":
        return _linearized(xp, table, shape, given, mode)
    _check_width(xp, max(shape.buffer_size, 0 if target is None else target.buffer_size), shape)
    linear = _wide(xp, given, "linear", shape.buffer_size, "clip")
    values, is_element = table.index_of(linear), table.is_element(linear)
    if target is not None:
        return xp.where(is_element, stride_table(target).linear_of(values), -1)
    marked = [xp.where(is_element, value, -1) for value in values]
    return xp.stack(marked) if marked else xp.zeros((0, *linear.shape), dtype=linear.dtype)


def _is_torch(xp: Any) -> bool:
    """True for the module of PyTorch, False for jax.numpy."""
    return xp is sys.modules.get("torch")


def _linearized(xp: Any, table: StrideTable, shape: Shape, given: Any, mode: Mode) -> Any:
    if not isinstance(given, (tuple, list)) and (not given.ndim or given.shape[0] != shape.rank):
        raise IndexError(
            f"index has shape {tuple(given.shape)}, but {shape} has {counted(shape.rank, 'dimension')}: the first axis "
            f"must be {shape.rank} (for points in rows, pass index.T)"
        )
    if shape.is_zero_element_array:
        raise IndexError(f"index cannot be brought into {shape} with mode {mode!r}: it has no elements")
    _check_width(xp, shape.buffer_size, shape)
    values = []
    for dim, size in enumerate(shape.dimensions):
        value = _wide(xp, given[dim], f"index[{dim}]", size, mode)
        values.append(value % size if mode == "wrap" else xp.clip(value, 0, size - 1))
    if not values:
        return xp.zeros(given.shape[1:] if hasattr(given, "shape") else (), dtype=_integer(xp))
    if _is_torch(xp):
        values = list(xp.broadcast_tensors(*values))
    else:
        values = xp.broadcast_arrays(*values)
    return table.linear_of(values) + xp.zeros_like(values[0])


def _integer(xp: Any) -> Any:
    """The type of the results: JAX's own width of indices."""
    if _is_torch(xp):
        return xp.int64
    return xp.int64 if sys.modules["jax"].config.jax_enable_x64 else xp.int32


def _check_width(xp: Any, places: int, shape: Shape) -> None:
    if places > 1 << 31 and not _is_torch(xp) and _integer(xp) is xp.int32:
        raise TypeError(f"{shape} has {places} places, more than int32 counts: set jax_enable_x64")


def _wide(xp: Any, value: Any, role: str, size: int, mode: Mode) -> Any:
    """An array of the results' type.  A large unsigned number is brought near `size` first, where it would not fit."""
    kind = _integer(xp)
    if _is_torch(xp):
        value = xp.as_tensor(value)
        if value.dtype.is_floating_point or value.dtype.is_complex or value.dtype is xp.bool:
            raise TypeError(f"{role} has dtype {value.dtype}: indices must be integers")
        return value.to(kind)
    value = xp.asarray(value)
    if not xp.issubdtype(value.dtype, np.integer):
        raise TypeError(f"{role} has dtype {value.dtype}: indices must be integers")
    if xp.issubdtype(value.dtype, np.unsignedinteger) and size <= np.iinfo(value.dtype).max:
        end = np.asarray(size, value.dtype)
        value = value % end if mode == "wrap" else xp.minimum(value, end)
    return value.astype(kind)
