"""Kernels for the stand-in: compiles the source of a module for the CPU, on the host shim of tests/support/simt."""

import ctypes
import functools
import hashlib
import importlib.util
import pathlib
import re
import sys

from tests.support.simt import host_module, source_text, toolchain
from tests.support.standin import wheel

INCLUDE = pathlib.Path(__file__).resolve().parent / "include"
_INCLUDES = re.compile(r"^[ \t]*#[ \t]*include.*$", re.MULTILINE)
_paths = {}  # path -> the path as a C string
_PROJECT_KERNELS = re.compile(r"^GPL_KERNEL(?:_OF\(\w+\))? (\w+)\(", re.MULTILINE)


def build(source, options, kernel):
    """For the stand-in's C++: the address of a C string with the library's path, or 0 if there is no such kernel."""
    try:
        path = str(_library(source, options, kernel.decode()))
        # Never dropped: two threads may build the same kernel, and each still has to open it.
        return ctypes.addressof(_paths.setdefault(path, ctypes.create_string_buffer(path.encode())))
    except Exception as error:  # C++ calls this function, so no exception may leave it
        print(f"stand-in: kernel {kernel.decode()} cannot be built: {error}", file=sys.stderr)
        return 0


@functools.cache
def _library(source, options, kernel):
    text, macros = (
        source.decode(),
        tuple(sorted(option for option in options.decode().split("\n") if option.startswith("-D"))),
    )
    if _INCLUDES.search(text):
        return _cupys(text, macros, kernel)
    # Compiled as in the tests of the kernels, so that both share one product.
    names = _PROJECT_KERNELS.findall(text)
    return host_module.library(text, names if kernel in names else [kernel], macros)


def _cupys(text, macros, kernel):
    """A kernel that CuPy generated.  Its headers stay outside the unnamed namespace of the kernel."""
    unit = (
        f'{source_text.HEADERS}#include "cupy_host.hpp"\n'
        + "\n".join(_INCLUDES.findall(text))
        + f"\nnamespace {{\n{_INCLUDES.sub('', text)}\n}}\nSIMT_EXPORT({kernel})\n"
    )
    return toolchain.shared_library(unit, (*host_module.FLAGS, "-O1", "-w", *macros, *_headers()))


@functools.cache
def _headers():
    """The stand-in's headers, by their text, and CuPy's, by its version."""
    own = hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(INCLUDE.rglob("*")) if path.is_file()))
    cupys = pathlib.Path(importlib.util.find_spec("cupy").submodule_search_locations[0], "_core", "include")
    return (
        toolchain.Headers(INCLUDE, own.hexdigest()),
        toolchain.Headers(cupys, f"{wheel.cupy().name} {wheel.cupy().version}"),
    )
