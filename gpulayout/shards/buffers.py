"""Buffers of ranks, as their bytes and back: arrays of NumPy, CuPy and PyTorch, over the same memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.memory_checks import check_exact, flat_buffer
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.moves.placement import Placement, contiguous_strides
from gpulayout.running.request import request
from gpulayout.running.same_kind import ArrayCall, on_memory


def flat(buffer: Any, shape: Shape, role: str, *, writing: bool = False) -> Any:
    """A rank's buffer as a 1-D array of its library; TypeError or BufferError if it does not fit the shape."""
    backend, opened = arrays.open_array(buffer, role, writing=writing)
    array = flat_buffer(backend, opened, shape, role)
    check_exact(array, shape, role, keyword=False)
    library = library_of(buffer)
    if library is None:
        return array
    if array is opened:
        return buffer
    return library.view(buffer, backend, opened, tuple(array.shape), contiguous_strides(array.shape, array.itemsize))


def bytes_of(array: Any) -> Any:
    """The bytes of a 1-D contiguous array, as uint8 of its library."""
    torch = _torch_of(array)
    if torch is None:
        return array.view(np.uint8)
    if array.stride(0) != 1:  # of one element or none, any stride is contiguous, but torch wants this one
        array = array.as_strided(array.shape, (1,))
    return array.view(torch.uint8)


def typed(data: Any, shape: Shape) -> Any:
    """Bytes as a buffer of a shape."""
    torch = _torch_of(data)
    if torch is not None:
        own = None if shape.element_type.is_sub_byte else getattr(torch, shape.buffer_dtype.name, None)
        kind = own or getattr(torch, shape.element_type.carrier.name)
        return data if shape.is_packed else data.view(kind)
    if type(data) is np.ndarray:
        return data.view(shape.buffer_dtype)
    backend, _ = arrays.open_array(data, "buffer")
    return data.view(backend.held(shape.buffer_dtype))


def _torch_of(array: Any) -> Any:
    """PyTorch, if the array is one of its tensors."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else None


def new_buffer(shape: Shape, like: Any) -> Any:
    """Memory for a buffer of a shape, of the library and on the device of another array; for JAX see `new_memory`.

    Its padding is filled; its elements are undefined.
    """
    return new_memory(shape, like)[0]


def new_memory(shape: Shape, like: Any) -> tuple[Any, Callable[[], Any]]:
    """The same, and what gives it back once it is written: JAX's arrays never change, so JAX gets NumPy's or CuPy's."""

    def work(backend: Backend, opened: AnyArray, out: Any, array_call: ArrayCall) -> AnyArray:
        label = None if shape.is_packed else shape.buffer_dtype
        made = array_call.empty((shape.buffer_length,), backend.held(shape.buffer_dtype), opened, label)
        _fill(backend, shape, made)
        return made

    library = library_of(like)
    if library is None or _torch_of(like) is not None:
        made = on_memory(like, "buffer", None, work)
        return made, lambda: made
    array_call = ArrayCall(like, library)
    return work(*array_call.opened("buffer"), None, array_call), array_call.given_back


def fill_padding(shape: Shape, out: Any) -> None:
    """Give the padding of a buffer its value.  Its elements may change too: they are written afterwards."""
    if is_padded(shape):
        backend, opened = arrays.open_array(out, "out", writing=True)
        arrays.will_be_written(out)
        _fill(backend, shape, opened)


def is_padded(shape: Shape) -> bool:
    """True for a shape whose buffer has more than its elements."""
    return shape.element_count * shape.bits_per_element != 8 * shape.nbytes


def _fill(backend: Backend, shape: Shape, made: AnyArray) -> None:
    """Write a whole buffer: its padding, and as elements one arbitrary value, of an array whose strides are 0."""
    if is_padded(shape):
        zeros = [0] * shape.rank
        one = backend.empty((1,), backend.held(shape.dtype), made)
        filling = request(Placement.array(shape, zeros), Placement.buffer(shape))
        filling.prepared_by(backend).execute(backend.strided(one, shape.dimensions, tuple(zeros)), made, is_new=True)
