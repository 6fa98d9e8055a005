"""Launches kernels that are compiled for the CPU, with calls like CuPy's: kernel(grid, block, arguments)."""

import ctypes
import functools
import struct

from . import source_text, toolchain

ASCENDING, DESCENDING, RANDOM = ORDERS = (0, 1, 2)

_HEADER = "6I2iQ2q8x"  # struct Launch in launch.hpp
_ARGUMENT_ALIGN = 16
# For every kernel.  A GPU rejects misaligned accesses; x86 only executes them more slowly.
FLAGS = ("-DSIMT_CATCH_FAULTS", "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")


class LaunchError(Exception):
    """The launch failed: wrong configuration, divergent barrier, deadlock or a wild access."""


def load(text, kernel_names, macros, optimize="g"):
    """The kernels of one CUDA C++ text, compiled with these macros (name -> integer)."""
    return _load(text, tuple(kernel_names), tuple(sorted(macros.items())), optimize)


def load_many(requests, workers=2):
    """load(*request) for each request, compiled in parallel."""
    return toolchain.in_parallel([functools.partial(load, *request) for request in requests], workers)


def library(text, kernel_names, macro_flags, optimize="g"):
    """The path of the library that `load` opens."""
    return toolchain.shared_library(
        source_text.compilation_unit(text, kernel_names), (f"-O{optimize}", *FLAGS, *macro_flags)
    )


@functools.cache
def _load(text, kernel_names, macros, optimize):
    return HostModule(library(text, kernel_names, source_text.macro_flags(dict(macros)), optimize))


class HostModule:
    """One compiled text.

    PyDLL keeps the interpreter lock during a launch, because there is one scheduler per process.
    """

    def __init__(self, path):
        self._library = ctypes.PyDLL(str(path))
        self._kernels = {}

    def kernel(self, name):
        """The callable for one of the kernel names given to load."""
        if name not in self._kernels:
            self._kernels[name] = HostKernel(self._library, name)
        return self._kernels[name]


class HostKernel:
    """kernel(grid, block, arguments, order, seed, first, last) runs one launch to its end.

    grid, block  an int or up to three ints
    arguments    per parameter: an int, or bytes for a struct; NumPy scalars work for both, and arrays
                 for pointers
    order, seed  the order in which the threads of a block run between barriers
    first, last  run only blocks first <= number < last, x fastest; last = -1 is the end of the grid

    Raises LaunchError, or TypeError or ValueError for arguments that do not fit the parameters.
    """

    def __init__(self, library, name):
        self.name = name
        self.parameters = _parameters(library, name)
        self._launch = getattr(library, "simt_launch_" + name)
        self._launch.restype = ctypes.c_char_p
        self._launch.argtypes = [ctypes.c_char_p]
        self._pack = struct.Struct("<" + _HEADER + "".join(map(_slot, self.parameters))).pack
        self._structs = [(i, size) for i, (kind, size) in enumerate(self.parameters) if kind == "s"]

    def __call__(self, grid, block, arguments, order=ASCENDING, seed=1, first=0, last=-1):
        for i, size in self._structs:  # struct.pack would pad or cut silently
            if i < len(arguments) and (type(arguments[i]) is not bytes or len(arguments[i]) != size):
                arguments = self._converted(arguments)
                break
        try:
            description = self._describe(grid, block, arguments, order, seed, first, last)
        except (struct.error, TypeError):
            arguments = self._converted(arguments)
            description = self._describe(grid, block, arguments, order, seed, first, last)
        why = self._launch(description)
        if why is not None:
            raise LaunchError(f"{self.name}: {why.decode()}")

    def _describe(self, grid, block, arguments, order, seed, first, last):
        return self._pack(*source_text.three(grid), *source_text.three(block), order, 0, seed, first, last, *arguments)

    def _converted(self, arguments):
        if len(arguments) != len(self.parameters):
            raise TypeError(f"{self.name} takes {len(self.parameters)} arguments, {len(arguments)} given")
        return [_converted(self.name, i, argument, *self.parameters[i]) for i, argument in enumerate(arguments)]


def _parameters(library, name):
    """((kind, bytes), ...) of a kernel: p pointer, i signed, u unsigned, s struct."""
    text = ctypes.create_string_buffer(4096)
    getattr(library, "simt_signature_" + name)(text, ctypes.c_size_t(len(text)))
    return tuple((word[0], int(word[1:])) for word in text.value.decode().split())


def _slot(parameter):
    """The struct format of one argument; each starts at a multiple of 16 bytes."""
    kind, size = parameter
    code = f"{size}s" if kind == "s" else {1: "b", 2: "h", 4: "i", 8: "q"}[size]
    padding = -size % _ARGUMENT_ALIGN
    return (code.upper() if kind in "up" else code) + f"{padding}x" * (padding > 0)


def _converted(name, position, argument, kind, size):
    """The argument in the form that struct.pack takes; errors name it."""
    what = f"{name} argument {position}"
    if kind == "s":
        raw = argument.tobytes() if hasattr(argument, "tobytes") else bytes(argument)
        if len(raw) != size:
            raise ValueError(f"{what} has {len(raw)} bytes, the kernel's struct has {size}")
        return raw
    if kind == "p" and hasattr(argument, "ctypes"):
        return argument.ctypes.data
    if not hasattr(argument, "__index__"):
        raise TypeError(f"{what} is a {type(argument).__name__}, not an integer")
    low = -(1 << 8 * size - 1) if kind == "i" else 0
    high = (1 << 8 * size - (kind == "i")) - 1
    if not low <= int(argument) <= high:
        raise ValueError(f"{what} {int(argument)} is outside {low}..{high}")
    return int(argument)
