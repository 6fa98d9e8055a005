"""Elements of an `Array`: one, or a box of them, found through the table of digits; all of them; and comparisons."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import HostArray
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.library import RequiresGrad, TracedArray
from gpulayout.arrays.memory_checks import flat_buffer, is_flat, own_strides
from gpulayout.arrays.shaped_buffer import ShapedBuffer, check_plain
from gpulayout.arrays.torch_tensors import TORCH
from gpulayout.calls.packing import pack, unpack
from gpulayout.layout.checks import type_text, value_text
from gpulayout.layout.element_type import FLOAT4_X2
from gpulayout.layout.graph_constants import constant_in_graphs, is_compiling
from gpulayout.layout.layout import Layout
from gpulayout.layout.plain import from_plain, plain
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import byte_and_bit, stride_table
from gpulayout.layout.text import as_shape
from gpulayout.moves.backend import Backend
from gpulayout.moves.lowered_run import is_torch, rearranged
from gpulayout.requests.index_keys import Part, parts_of


def elements_at(array: Any, key: Any) -> Any:
    """`array[key]` of an `Array`."""
    key = key if type(key) is tuple else (key,)
    parts = _plain_parts(key, plain(array.shape_or_text)) if is_compiling() else parts_of(key, array.layout_shape)
    if is_compiling() or not is_flat(array.buffer):
        return _sliced(array.logical(), parts)
    shape: Shape = array.layout_shape
    is_one = all(type(part) is int for part in parts)
    if is_one and not shape.is_packed:
        return _taken(array.buffer, stride_table(shape).linear_of(parts))
    if (not is_one and own_strides(shape) is not None) or _is_traced(array.buffer):
        return _sliced(array.logical(), parts)
    return _gathered(array.buffer, shape, parts)


def _is_traced(buffer: Any) -> bool:
    """True for an array without memory: its compiler finds out which elements of the whole array are needed."""
    try:
        if type(buffer) is not np.ndarray:
            arrays.open_array(buffer, "buffer")
    except TracedArray:
        return True
    except RequiresGrad:
        pass
    return False


# ---- keys ----------------------------------------------------------------------------------------------------------


@constant_in_graphs
def _plain_parts(key: tuple[Any, ...], kept: Any) -> tuple[Part, ...]:
    return parts_of(key, as_shape(from_plain(kept)))


# ---- where elements are --------------------------------------------------------------------------------------------


def _sliced(logical: Any, parts: tuple[Part, ...]) -> Any:
    """A part of an N-d array.  PyTorch takes no steps below 0: it takes these axes forwards and turns them."""
    key: list[Any] = []
    backwards, axis = [], 0
    for part in parts:
        if isinstance(part, int):
            key.append(part)
            continue
        first, count, step = part
        last = first + (count - 1) * step
        if not count:
            key.append(slice(0, 0))
        elif step > 0:
            key.append(slice(first, last + 1, step))
        elif is_torch(logical):
            key.append(slice(last, first + 1, -step))
            backwards.append(axis)
        else:
            key.append(slice(first, last - 1 if last else None, step))
        axis += 1
    part_of = logical[tuple(key)]
    return rearranged(part_of, lambda forwards: forwards.flip(backwards)) if backwards else part_of


def _gathered(buffer: Any, shape: Shape, parts: tuple[Part, ...]) -> Any:
    """A copy of a box of elements, each from its place; packed ones byte by byte."""
    sizes = tuple([part[1] for part in parts if not isinstance(part, int)])
    runs = [(part, 1, 1) if isinstance(part, int) else part for part in parts]
    coordinates = np.ix_(*[first + step * np.arange(count, dtype=np.int64) for first, count, step in runs])
    every = [count for _, count, _ in runs]
    places = np.broadcast_to(np.asarray(stride_table(shape).linear_of(coordinates), np.int64), every).reshape(sizes)
    if not shape.is_packed:
        return _taken(buffer, np.ascontiguousarray(places))
    flat, bits = places.reshape(-1), shape.bits_per_element
    byte, bit = byte_and_bit(shape, flat)
    if is_torch(buffer) and TORCH.dtype(buffer) == FLOAT4_X2:
        buffer = buffer.view(sys.modules["torch"].uint8)
    elements = _taken(buffer, byte) >> _alike(buffer, bit.astype(np.uint8))
    # A row of one element in each byte, in its lowest bits: the rest of the byte is padding.
    rows = Layout((1, 0), padded_dimensions=(flat.size, 8 // bits), element_size_in_bits=bits)
    elements = unpack(elements, Shape(shape.element_type, (flat.size, 1), rows)).reshape(sizes)
    return elements if sizes else elements[()]  # NumPy has scalars


def _taken(buffer: Any, places: Any) -> Any:
    """The elements at these places of a flat buffer: an int, or an array of the host."""
    if is_torch(buffer):
        return rearranged(buffer, operator.itemgetter(_alike(buffer, places)))
    if type(buffer) is not np.ndarray and library_of(buffer) is None:
        backend, buffer = arrays.open_array(buffer, "buffer")
        with backend.on_device_of(buffer):
            return buffer[_alike(buffer, places)]
    return buffer[_alike(buffer, places)]


def _alike(buffer: Any, values: Any) -> Any:
    """An int as it is; an array of the host as one of the library and the device of the buffer."""
    if type(values) is not np.ndarray or type(buffer) is np.ndarray:
        return values
    if is_torch(buffer):
        return buffer.new_tensor(values, dtype=getattr(sys.modules["torch"], values.dtype.name), requires_grad=False)
    if library_of(buffer) is not None:
        return values  # JAX takes NumPy's arrays
    backend, opened = arrays.open_array(buffer, "buffer")
    return backend.array(values, values.dtype, like=opened)


# ---- all of them, on the host --------------------------------------------------------------------------------------


def host_memory(array: ShapedBuffer[Any]) -> tuple[Backend, HostArray]:
    """The buffer as `open_array` opens it; TypeError for one on a GPU."""
    backend, memory = arrays.open_array(array.buffer, "buffer")
    if type(memory) is not np.ndarray:
        raise TypeError(f"{array!r} is not in the memory of the host: nothing is copied between devices")
    return backend, memory


def host_buffer(array: ShapedBuffer[Any]) -> HostArray:
    """The buffer, 1-D and of exactly `buffer_length` elements: no copy, unless an N-d array lacks the last padding.

    TypeError for a buffer on a GPU.
    """
    backend, memory = host_memory(array)
    shape = array.layout_shape
    flat: HostArray = flat_buffer(backend, memory, shape, "buffer")
    return pack(memory, shape) if flat.size < shape.buffer_length else flat[: shape.buffer_length]


def host_bytes(array: ShapedBuffer[Any]) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The same memory as bytes."""
    return host_buffer(array).view(np.uint8)


# ---- equality ------------------------------------------------------------------------------------------------------


def equal_elements(one: ShapedBuffer[Any], other: ShapedBuffer[Any]) -> bool:
    """True if both have the same element type, the same dimensions and equal elements."""
    shapes = one.shape_or_text, other.shape_or_text
    if not _are_alike(*(map(plain, shapes) if is_compiling() else shapes)):
        return False
    reason = "gl.Array == gl.Array reads their values: compare what .logical() gives, as with torch.equal"
    return bool(TORCH.disable_compiler(_equal, reason)(one, other))


@constant_in_graphs
def _are_alike(one: Any, other: Any) -> bool:
    """True for shapes of the same element type and the same dimensions."""
    shape, wanted = (as_shape(from_plain(each)) for each in (one, other))
    return shape.element_type is wanted.element_type and shape.dimensions == wanted.dimensions


def _equal(one: ShapedBuffer[Any], other: ShapedBuffer[Any]) -> bool:
    (backend, a), (other_backend, b) = (_memory(each, role) for each, role in ((one, "left"), (other, "right")))
    arrays.check_same_device(backend, a, other_backend, b, ("the left gl.Array", "the right one"))
    # A cast reads the bits that count: a code of s4 has 4 of them, also in a byte of torch.  And CuPy holds the types
    # that NumPy lacks as integers, in which -0.0 and nan compare otherwise.
    kind = one.layout_shape.element_type
    is_cast = kind.is_extended or kind.bits < 8
    options: Any = {"dtype": "s8" if kind.is_integral else "f32"} if is_cast else {}
    with backend.on_device_of(a):
        return bool((_unpacked(a, one.layout_shape, options) == _unpacked(b, other.layout_shape, options)).all())


def _memory(array: ShapedBuffer[Any], role: str) -> Any:
    library = library_of(array.buffer)
    buffer = array.buffer if library is None else library.described(array.buffer)
    return arrays.open_array(buffer, f"the buffer on the {role}")


def _unpacked(memory: Any, shape: Shape, options: Any) -> Any:
    return unpack(memory, shape, **options) if is_flat(memory) or options else memory


def refusal(other: object) -> TypeError:
    """The error of `==` beside what is no `Array`: one bool may be meant, and a bool for each element."""
    named = type_text(other)
    if isinstance(other, (str, Shape, Layout)):
        shape = "str(array.layout_shape)" if isinstance(other, str) else "array.layout_shape"
        instead = f"write {shape}{'.layout' if isinstance(other, Layout) else ''} == other"
    elif isinstance(other, (list, tuple)):
        instead = "write numpy.array_equal(array, other)"
    elif isinstance(other, (int, float, complex, np.generic)):
        named = f"{named} {value_text(other)}"
        instead = "write array.logical() == other for a bool of each element"
    elif hasattr(other, "shape") and hasattr(other, "dtype") and not isinstance(other, type):
        memory = "other.compute()" if arrays.is_dask(type(other)) else "other"
        instead = (
            f"write array == gl.asarray({memory}) for one bool, array.logical() == {memory} for one of each element"
        )
    else:
        instead = "compare its elements, array.logical(), or its shape, array.layout_shape"
    return TypeError(f"a gl.Array compares with another gl.Array, not with {named}: {instead}")


def run_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A function of NumPy on N-d arrays of the elements.  `ndarray == Array` comes here too, as `numpy.equal`."""
    plain_inputs = [each for each in inputs if not isinstance(each, ShapedBuffer)]
    if ufunc in (np.equal, np.not_equal) and plain_inputs:
        raise refusal(plain_inputs[0])
    for written in (*options.get("out", ()), *(inputs[:1] if method == "at" else ())):
        check_plain(written, "out")
    options = {name: np.asarray(value) if isinstance(value, ShapedBuffer) else value for name, value in options.items()}
    return getattr(ufunc, method)(
        *[np.asarray(each) if isinstance(each, ShapedBuffer) else each for each in inputs], **options
    )
