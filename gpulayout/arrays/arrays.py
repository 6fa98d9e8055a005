"""How arrays enter: NumPy, CuPy, anything with DLPack, `__cuda_array_interface__` or `__array_interface__`, and values.

Arrays become NumPy or CuPy arrays over the caller's own memory; nothing is copied.  Values become a new array, without
loss.  Checks between arrays are here too: devices and overlaps; `memory_checks` checks each array separately.  All
checks run before a byte is written.  `given` is what the caller passed, `role` that argument's name in messages.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from gpulayout.arrays.array_types import HostArray
from gpulayout.arrays.libraries import library_of
from gpulayout.arrays.library import Library
from gpulayout.arrays.shaped_buffer import check_plain
from gpulayout.choices.backends import default_backend, gpu_backend, gpu_module, host_backend
from gpulayout.layout.checks import type_text, value_text
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.memory import dlpack
from gpulayout.memory.clashes import clash
from gpulayout.memory.foreign_memory import CUDA_INTERFACE, DLPACK, HOST_INTERFACES, HostMemory, offers
from gpulayout.memory.shared_bytes import by_file, overlap_in_file, share_bytes
from gpulayout.moves.backend import AnyArray, Backend
from gpulayout.moves.move import span

PLAIN = (list, tuple, bool, int, float, complex)  # values that an array can be made of


def open_array(given: Any, role: str, *, writing: bool = False) -> tuple[Backend, AnyArray]:
    """The backend of an array, and the array as one of NumPy's or CuPy's.

    TypeError for objects that are not arrays; BufferError for memory that the library cannot reach or, with `writing`,
    must not change.
    """
    if type(given) is np.ndarray:
        backend, array = host_backend(), given
    else:
        library = library_of(given)
        if library is not None:
            return memory_of(library, given, role, writing)
        backend, array = _foreign(given, role, writing)
    if writing and type(array) is np.ndarray and not array.flags.writeable:
        raise BufferError(f"{role} is read-only: it cannot be written to")
    return backend, array


def part_of(memory: Any, other: Any, length: int, places: slice) -> Any:
    """Places of a buffer of this length, as an array of its kind.

    None for arrays that may be no plain memory, and for one that may share memory with the `other` of a call.  A part
    says less than the whole: one element is contiguous, whatever the steps of the buffer are.
    """
    kind = type(memory)
    if other is not None and type(other) is not kind:
        return None
    if kind is np.ndarray:
        if memory.shape != (length,) or not memory.flags.c_contiguous:
            return None
        return memory[places] if other is None or not may_overlap(host_backend(), memory, other) else None
    library = library_of(memory)
    return None if library is None else library.part_of(memory, other, length, places)


def open_array_like(given: Any, role: str, dtype: np.dtype[Any] | None) -> tuple[Backend, AnyArray]:
    """The same, but plain Python numbers and lists become a new array on the default backend."""
    if isinstance(given, PLAIN):
        check_no_dask(given, role)
        backend = default_backend()
        return backend, backend.array(array_of_values(given, role, dtype), dtype)
    return open_array(given, role)


def _foreign(given: Any, role: str, writing: bool) -> tuple[Backend, AnyArray]:
    kind: Any = type(given)
    if _is_cupy(kind):
        return gpu_backend(), given
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{role} is a masked array: its mask would be lost, pass .filled() or .data")
    if isinstance(given, np.generic) and writing:
        raise BufferError(f"{role} is a NumPy scalar, which cannot be written to: pass an array")
    if isinstance(given, (np.ndarray, np.generic)):
        return host_backend(), np.asarray(given)
    check_plain(given, role)
    if isinstance(given, type):
        raise TypeError(f"{role} is the class {given.__name__}: it must be an array")
    if is_dask(kind):
        raise TypeError(
            f"{role} is a Dask array, which may be larger than memory: gpulayout.dask has pack, unpack, relayout, "
            f"transpose and index conversion for those, and {role}.compute() is an array in memory"
        )
    if writing and kind.__module__.partition(".")[0] == "tensorflow":  # its DLPack exports may not say so
        raise BufferError(f"{role} is read-only: TensorFlow arrays never change")
    if offers(given, *DLPACK):
        return _adopted(_dlpack_backend(given, role), given, role, writing)
    if offers(given, CUDA_INTERFACE):
        return _adopted(_cuda_backend(role), given, role, writing)
    if _describes(given):
        return host_backend(), _array_over(given, role, writing)
    raise TypeError(
        f"{role} is {type_text(given)}: it must be a NumPy or CuPy array, or offer DLPack or "
        f"__cuda_array_interface__{_advice(given, role)}"
    )


class _Described:
    """What an object says of its memory, asked once: an image of Pillow copies its pixels each time."""

    def __init__(self, owner: Any):
        self.owner, self.__array_interface__ = owner, owner.__array_interface__


def _describes(given: Any) -> bool:
    """True for an object that describes its memory to NumPy; it is not asked yet."""
    return any(hasattr(type(given), name) or name in getattr(given, "__dict__", ()) for name in HOST_INTERFACES)


def _array_over(given: Any, role: str, writing: bool) -> HostArray:
    """NumPy's array over the memory that an object describes, which may be a copy that the object made."""
    kind = type_text(given)
    if writing:
        raise TypeError(
            f"{role} is {kind}, which may describe a copy of its memory to NumPy, as Pillow's images do: pass a NumPy "
            "array, from which the object can be made afterwards, as by PIL.Image.fromarray"
        )
    try:
        described = _Described(given) if hasattr(type(given), HOST_INTERFACES[0]) else given
        interface = getattr(described, HOST_INTERFACES[0], {})
        if interface.get("mask") is not None:
            raise TypeError("it has a mask, which would be lost")
        data, strides = interface.get("data"), interface.get("strides")
        if data is not None and not isinstance(data, tuple):  # a buffer, whose length NumPy compares only here
            np.ndarray(interface["shape"], interface["typestr"], data, interface.get("offset", 0), strides)
        return np.asarray(described)
    except Exception as error:  # what the object raises, and NumPy for a wrong description
        raise BufferError(f"{role} ({kind}) cannot be used: {error}") from error


def known_array(given: Any, role: str) -> Any:
    """The array itself, or NumPy's for an object that only describes its memory, and may make a copy each time."""
    if isinstance(given, (np.ndarray, np.generic)) or library_of(given) is not None:
        return given
    is_known = offers(given, *DLPACK) or offers(given, CUDA_INTERFACE) or isinstance(given, type)
    return given if is_known or not _describes(given) else open_array(given, role)[1]


@functools.lru_cache(maxsize=256)  # every array of every call comes here
def _is_cupy(kind: Any) -> bool:
    """True for CuPy's array type and its subclasses.  It is found by name, so that CuPy need not be imported."""
    return any((base.__module__, base.__name__) == ("cupy", "ndarray") for base in kind.__mro__)


def is_dask(kind: type) -> bool:
    """True for the type of Dask's arrays, also without Dask."""
    return kind.__module__.partition(".")[0] == "dask"


def check_no_dask(given: Any, role: str) -> None:
    """TypeError for a list of Dask arrays, which NumPy would compute."""
    if isinstance(given, (list, tuple)) and given and is_dask(type(given[0])):
        open_array(given[0], f"{role}[0]")  # raises


def memory_of(library: Library, given: Any, role: str, writing: bool) -> tuple[Backend, AnyArray]:
    """The memory of a library's array, with the element type that the library gives it."""
    exported = library.exported(given, role, writing)
    if type(exported) is np.ndarray:
        return host_backend(), exported
    backend, array = _adopted(_dlpack_backend(exported, role), exported, role, writing, library)
    held = backend.held(library.dtype(given))
    return backend, array if array.dtype == held else array.view(held)


def will_be_written(out: Any) -> None:
    """Tell the library of `out`, if it has one, that its values change now; called after every check of the call."""
    library = None if type(out) is np.ndarray else library_of(out)
    if library is not None:
        library.will_be_written(out)


def label(given: Any, array: AnyArray) -> np.dtype[Any]:
    """The element type of an array that `open_array` returned for `given`, also where CuPy holds it as integers."""
    library = None if given is array else library_of(given)
    dtype: np.dtype[Any] = array.dtype if library is None else library.dtype(given)
    return dtype


def _advice(given: object, role: str) -> str:
    """How to make an array of an object, or nothing."""
    if isinstance(given, (str, Shape, Layout)) and role != "out":
        return f"; the {role} is the first argument"
    if isinstance(given, (list, tuple)) and given and library_of(given[0]) is not None:
        module = "jax.numpy" if type(given[0]).__module__.startswith("jax") else "torch"
        return f"; {module}.stack({role}) makes one"
    if isinstance(given, (list, tuple, range)):
        return f"; numpy.array({role}) makes one"
    with contextlib.suppress(TypeError):
        memoryview(given)  # type: ignore[arg-type]  # TypeError for an object without a buffer, such as bytes have
        return f"; numpy.frombuffer({role}, dtype) makes one"
    module = type(given).__module__
    if module == "cupy.cuda.memory":
        return "; cupy.ndarray(shape, dtype, pointer) makes one of a MemoryPointer"
    if ".sparse." in f"{module}.":
        return "; .toarray() makes one of a sparse matrix"
    return f"; numpy.asarray({role}) makes one" if offers(given, "__array__") and role != "out" else ""


def _dlpack_backend(given: Any, role: str) -> Backend:
    """The backend of the device that an array with DLPack lives on."""
    try:
        kind, _ = dlpack.device_of(given)
    except Exception as error:
        fx = "; torch.export and torch.compile run such calls" if type(given).__module__.startswith("torch.fx") else ""
        raise BufferError(f"{role} ({type(given).__name__}) cannot say where it lives: {error}{fx}") from None
    if kind in (dlpack.CPU, dlpack.PINNED):
        return host_backend()
    if kind in (dlpack.CUDA, dlpack.MANAGED):
        return _cuda_backend(role)
    raise BufferError(
        f"{role} lives on a device of DLPack type {kind}: only CPU (1, 3) and CUDA (2, 13) memory can be used"
    )


def _cuda_backend(role: str) -> Backend:
    try:
        return gpu_backend()
    except ImportError as error:
        raise BufferError(f"{role} is CUDA memory, which only CuPy can reach: {error}") from None


def _adopted(
    backend: Backend, given: Any, role: str, writing: bool, library: Library | None = None
) -> tuple[Backend, AnyArray]:
    try:
        memory = backend.foreign_memory(given)
        if not (writing and memory.read_only):
            if library is not None and memory.device is not None:
                stream = gpu_module().current_stream(memory.device).ptr
                memory = memory._replace(frees_in_order=library.used_on(given, stream))
            return backend, backend.adopt(memory)
    except Exception as error:  # exporters raise many kinds of errors: gradients, unknown dtypes, conjugate views
        hint = (
            "; a type NumPy or CuPy lacks can be passed as unsigned integers of the same width, as "
            "tensor.view(torch.uint16), and a JAX array on the CPU as numpy.asarray(array)"
        )
        raise BufferError(
            f"{role} ({type(given).__module__}.{type(given).__name__}) cannot be used without a copy: {error}"
            + hint * any(word in str(error).lower() for word in ("dtype", "no dlpack equivalent"))
        ) from error
    raise BufferError(f"{role} is read-only: it cannot be written to")


# ---- values ------------------------------------------------------------------------------------------------


def array_of_values(given: Any, role: str, dtype: np.dtype[Any] | None) -> HostArray:
    """A NumPy array of nested lists of numbers; TypeError when `dtype` cannot hold them without loss.

    Floats are rounded to the type, as NumPy rounds them.  Nothing else changes.  Without a dtype, NumPy chooses one.
    """
    try:
        values = np.array(given)
        if dtype is None or not values.size:
            return values if dtype is None else values.astype(dtype)
        if dtype.kind in "biu" or _limits(dtype):
            return _whole(given, dtype)
        return _rounded(values, dtype)
    except (ValueError, OverflowError, TypeError) as error:
        raise TypeError(f"{role} cannot be read as an array: {error}") from None


def _whole(given: Any, dtype: np.dtype[Any]) -> HostArray:
    """Integers and booleans, checked as Python's ints, which have no largest value."""
    leaves = np.array(given, object)
    for leaf in leaves.flat:
        is_truth = isinstance(leaf, (bool, np.bool_))
        if is_truth != (dtype.kind == "b") or not (is_truth or hasattr(leaf, "__index__")):
            raise TypeError(f"it holds {value_text(leaf)}, {type_text(leaf)}, which {dtype} cannot hold without loss")
    limits = _limits(dtype)
    if limits is not None:
        for leaf in map(operator.index, leaves.flat):
            if not limits.min <= leaf <= limits.max:
                raise TypeError(f"it holds {value_text(leaf)}, and the range of {dtype} is {limits.min}..{limits.max}")
    # NumPy converts objects to its own integers only; int8 holds every value of ml_dtypes' narrow ones
    return leaves.astype(np.int8 if dtype.kind == "V" else dtype).astype(dtype)


def _limits(dtype: np.dtype[Any]) -> ml_dtypes.iinfo | None:
    """The range of an integer type, also one of ml_dtypes; None for other types."""
    try:
        return ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]  # ml_dtypes leaves it untyped
    except ValueError:
        return None


def _rounded(values: HostArray, dtype: np.dtype[Any]) -> HostArray:
    """Floats and complex numbers; finite numbers must stay finite, and infinities and nans must stay as they are."""
    if values.dtype.kind == "O":  # integers of more than 64 bits
        values = np.array([float(operator.index(leaf)) for leaf in values.flat]).reshape(values.shape)
    from_floats = values.dtype.kind == "f" or values.dtype.type.__module__.startswith("ml_dtypes")
    if not (values.dtype.kind in "iu" or from_floats or (values.dtype.kind == "c" and dtype.kind == "c")):
        raise TypeError(f"its values are {values.dtype}, which {dtype} cannot hold without loss")
    with np.errstate(all="ignore"):
        converted = values.astype(dtype)
        if dtype.kind == "c":
            is_lost = np.isfinite(values) != np.isfinite(converted)
        else:
            wide, narrow = values.astype(np.float64), converted.astype(np.float64)
            # A type without infinities turns numbers that are too large into its largest number or into nan.
            saturates = not np.isinf(np.array(np.inf).astype(dtype).astype(np.float64))
            largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]  # as above
            too_large = saturates & (np.abs(wide) > largest)
            is_lost = (np.isnan(wide) != np.isnan(narrow)) | (np.isinf(wide) != np.isinf(narrow)) | too_large
    if is_lost.any():
        raise TypeError(f"it holds a number past the range of {dtype}")
    return converted


# ---- checks ------------------------------------------------------------------------------------------------


def check_shape(array: AnyArray, expected: tuple[int, ...], role: str) -> None:
    """BufferError unless the array has this shape."""
    if tuple(array.shape) != expected:
        raise BufferError(f"{role} has shape {tuple(array.shape)}, but the result has shape {expected}")


def check_same_device(one: Backend, first: AnyArray, other: Backend, second: AnyArray, roles: tuple[str, str]) -> None:
    """BufferError unless both arrays live on the same device."""
    if one is other and one.is_one_device:
        return
    here, there = one.device(first), other.device(second)
    if one is not other or here != there:
        raise BufferError(f"{roles[0]} is on {here} and {roles[1]} is on {there}: nothing is copied between devices")


def check_no_overlap(
    backend: Backend,
    array: AnyArray,
    written: AnyArray,
    roles: tuple[str, str],
    other: Backend | None = None,
    rule: str = "separate memory",
) -> None:
    """BufferError when two arrays share memory.

    other   the backend of `written`, if it is another one
    rule    what messages say that the second array must be; two maps of one file are never the same memory
    """
    if may_overlap(backend, array, written, other):
        where = "in memory"
        if type(array) is np.ndarray and not np.may_share_memory(array, written):
            where, rule = "in the file that both map", "separate memory"
        raise BufferError(f"{roles[0]} and {roles[1]} overlap {where}: {roles[1]} must be {rule}")


def is_same_memory(backend: Backend, array: AnyArray, written: AnyArray) -> bool:
    """True when two buffers on one device begin at the same byte; an empty one may begin anywhere."""
    return not (array.size and written.size) or backend.address(array) == backend.address(written)


def may_overlap(backend: Backend, array: AnyArray, written: AnyArray, other: Backend | None = None) -> bool:
    """True when two arrays share a byte, in memory or in a file that both map, before `written` is.

    True also where that is hard to know, see `share_bytes`.
    """
    if type(array) is type(written) is np.ndarray:
        if not np.may_share_memory(array, written):  # it compares byte ranges
            base = written.base  # None, memory of PyTorch, or an array that owns its memory: no memory map
            is_map = not (base is None or type(base) is HostMemory or (type(base) is np.ndarray and base.base is None))
            return is_map and overlap_in_file(array, written)
        if array.flags.c_contiguous and written.flags.c_contiguous:  # no gaps, so the question needs no arithmetic
            return True
    (low, high), (first, end) = _byte_range(backend, array), _byte_range(other or backend, written)
    return low < end and first < high and share_bytes(array, written, first - low)


def check_none_overlap(
    inputs: Sequence[tuple[Backend, AnyArray, int]],
    outputs: Sequence[tuple[Backend, AnyArray, int]],
    roles: tuple[str, str],
) -> None:
    """BufferError when an output may share memory with an input or another output; each comes with its number.

    roles   what messages call an input and an output, with {} for the number
    """
    if not outputs:
        return
    everything = [*inputs, *outputs]
    low, high = zip(*[_byte_range(backend, array) for backend, array, _ in everything])
    ranges: list[tuple[Sequence[int], Sequence[int], Sequence[int], str]]
    ranges = [(range(len(everything)), low, high, "in memory")]
    maps = by_file([array for _, array, _ in everything], len(inputs))
    ranges += [(*of_file, "in the file that both map") for of_file in maps]
    for numbers, starts, ends, where in ranges:
        writes = [number >= len(inputs) for number in numbers]
        found = clash([everything[number][1] for number in numbers], starts, ends, writes)
        if found:
            one, other = [roles[writes[k]].format(everything[numbers[k]][2]) for k in found]
            raise BufferError(f"{one} and {other} overlap {where}: {other} must be separate memory")


def _byte_range(backend: Backend, array: AnyArray) -> tuple[int, int]:
    if not array.size:
        return 0, 0
    start = backend.address(array)
    if array.ndim == 1 and array.strides[0] > 0:  # a buffer, the usual case
        return start, start + (array.size - 1) * array.strides[0] + array.itemsize
    low, high = span([*zip(array.shape, array.strides)], array.itemsize)
    return start + low, start + high
