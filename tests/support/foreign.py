"""Arrays of another library, made by hand: DLPack capsules and `__cuda_array_interface__` with any field changed.

The structs are written here byte by byte, from the standard; the library reads them with its own definitions.
"""

import ctypes
import struct

import numpy as np

CPU, CUDA = (1, 0), (2, 0)
READ_ONLY, COPIED = 1, 2
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_alive = {}  # {address of a managed tensor: (what it consists of, its producer)}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _deleter(managed):
    _, producer = _alive.pop(managed)  # a second call finds nothing
    producer.deleted += 1


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destructor(capsule):
    """As in every library: a capsule that was not renamed still owns its tensor, and calls the deleter."""
    for name, place in ((b"dltensor", 56), (b"dltensor_versioned", 16)):
        if _is_valid(capsule, name):
            managed = _pointer(capsule, name)
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.c_uint64.from_address(managed + place).value)(managed)


def _address(callback):
    return ctypes.cast(callback, ctypes.c_void_p).value


class Producer:
    """Offers only DLPack over an array's memory; `fields` replace the array's true fields.

    made, deleted   the capsules it gave, and how many of them were deleted
    """

    def __init__(self, array, version=(1, 0), device=None, **fields):
        self.array, self.version, self.made, self.deleted, self.asked = array, version, 0, 0, None
        self.device = device or (CPU if type(array) is np.ndarray else (2, array.device.id))
        kind, itemsize = array.dtype.kind, array.dtype.itemsize
        self.fields = {
            "data": address_of(array),
            "device_type": self.device[0],
            "device_id": self.device[1],
            "shape": array.shape,
            "strides": tuple(stride // itemsize for stride in array.strides),
            "ndim": array.ndim,
            "code": CODES.get(kind, 0),
            "bits": 8 * itemsize,
            "lanes": 1,
            "byte_offset": 0,
            "flags": 0,
            **fields,
        }

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked = {"stream": stream, "max_version": max_version}
        return self.capsule()

    def capsule(self):
        found, self.made = self.fields, self.made + 1
        sizes = (ctypes.c_int64 * 100)(*found["shape"])
        steps = (ctypes.c_int64 * 100)(*(found["strides"] or ()))
        tensor = struct.pack(
            "=QiiiBBHQQQ",
            found["data"],
            found["device_type"],
            found["device_id"],
            found["ndim"],
            found["code"],
            found["bits"],
            found["lanes"],
            ctypes.addressof(sizes),
            0 if found["strides"] is None else ctypes.addressof(steps),
            found["byte_offset"],
        )
        if self.version is None:
            packed, name = tensor + struct.pack("=QQ", 0, _address(_deleter)), b"dltensor"
        else:
            packed, name = (
                struct.pack("=IIQQQ", *self.version, 0, _address(_deleter), found["flags"]) + tensor,
                b"dltensor_versioned",
            )
        managed = ctypes.create_string_buffer(packed, len(packed))
        _alive[ctypes.addressof(managed)] = ((managed, sizes, steps), self)
        return _new(ctypes.addressof(managed), name, _address(_destructor))


class OldProducer(Producer):
    """The protocol without versions: `__dlpack__` takes only a stream, and its capsules have no flags."""

    def __init__(self, array, **fields):
        super().__init__(array, version=None, **fields)

    def __dlpack__(self, stream=None):
        self.asked = {"stream": stream}
        return self.capsule()


class UsedProducer(Producer):
    """Gives a capsule that was consumed already."""

    def __dlpack__(self, **options):
        capsule = super().__dlpack__(**options)
        _deleter(_pointer(id(capsule), b"dltensor_versioned"))
        _rename(capsule, b"used_dltensor_versioned")
        return capsule


class Interface:
    """Offers only `__cuda_array_interface__` over an array's memory; `fields` replace the true ones."""

    def __init__(self, array, without=(), **fields):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (address_of(array), False),
            "strides": array.strides,
            "version": 3,
            **fields,
        }
        for field in without:
            del self.__cuda_array_interface__[field]


def address_of(array):
    return array.__array_interface__["data"][0] if type(array) is np.ndarray else array.data.ptr


class Place:
    """NumPy or CuPy, and ways to offer its arrays as another library's."""

    def __init__(self, library):
        self.library, self.on_host = library, library is np

    def array(self, values, device=0):
        values = np.asarray(values)
        if self.on_host:
            return values.copy("K")
        with self.library.cuda.Device(device):
            return self.library.asarray(values)

    def host(self, array):
        return np.asarray(array) if self.on_host else self.library.asnumpy(array)
