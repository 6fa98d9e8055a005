"""Compiles kernel text with g++ into a cache shared by all test runs and workers.

A product is named after a hash of everything it is made from: text, headers, flags and compiler
version.  So it never goes stale.  Where folders lie does not count: clones share products.
"""

import concurrent.futures
import dataclasses
import functools
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from . import source_text

HERE = pathlib.Path(__file__).resolve().parent

# Kernels read bytes through wider pointers, as CUDA code does, which strict aliasing would forbid.
# Symbols are hidden because a kernel may have the name of a C library function.
COMMON_FLAGS = (
    "-std=c++17",
    "-fno-strict-aliasing",
    "-fvisibility=hidden",
    "-U_FORTIFY_SOURCE",
    "-Wno-unknown-pragmas",
    "-pipe",
)
# Kernels need no C++ libraries, and linking those takes as long as compiling a kernel.
_LIBRARY_FLAGS = ("-fPIC", "-fno-exceptions")
_LIBRARY_LINKING = ("-shared", "-nodefaultlibs", "-lgcc", "-lc")


@dataclasses.dataclass(frozen=True)
class Headers:
    """A flag: the folder of headers that a text includes, and a text that changes when these do."""

    folder: pathlib.Path
    version: str


class BuildError(Exception):
    """The compiler rejected the text; the message is its output."""


def missing():
    """Why kernels cannot run on this machine's CPU, or None if they can."""
    if sys.platform != "linux":
        return f"the host shim needs Linux (ELF sections, mmap), this is {sys.platform}"
    if shutil.which(_compiler()) is None:
        return f"no C++ compiler: {_compiler()} is not on the PATH"
    return None


def sanitizers_missing():
    """Why sanitizer programs cannot run here, or None if they can."""
    return missing() or _sanitizers_missing()


@functools.cache
def _sanitizers_missing():
    for flags in (("-fsanitize=address,undefined",), ("-fsanitize=thread",)):
        try:
            path = program((("int main() {}", flags),), flags)
        except BuildError:
            return f"{_compiler()} cannot link {flags[0]}"
        done = subprocess.run(without_aslr([path]), capture_output=True, text=True)
        if done.returncode:
            return f"a program built with {flags[0]} does not start: {done.stderr.strip()[:200]}"
    return None


def shared_library(text, flags=()):
    """The path of a shared library compiled from C++ text."""
    flags, shim = (*_LIBRARY_FLAGS, *flags), ((), ())
    if text.startswith(source_text.HEADERS):
        shim = _shim(tuple(flag for flag in flags if isinstance(flag, str) and not re.match("-D(?!SIMT_)", flag)))
    return _product(".so", text, (*shim[0], *flags), shim[1], _LIBRARY_LINKING)


def program(units, link_flags=(), compiler=None):
    """The path of a program linked from (C++ text, flags) units; each unit is compiled once."""
    objects = [_product(".o", text, (*flags, "-c"), compiler=compiler) for text, flags in units]
    return _product(".run", "", (), objects, ("-rdynamic", *link_flags), compiler)


def in_parallel(calls, workers=2):
    """The results of functions without arguments, which mostly wait for compilers and programs."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda call: call(), calls))


def without_aslr(command):
    """The command without address randomization: TSan refuses some of the addresses that new kernels choose."""
    return [*_plain_addresses(), *map(str, command)]


@functools.cache
def _plain_addresses():
    prefix = ["setarch", platform.machine(), "-R"]
    if shutil.which("setarch") is None:
        return []
    allowed = subprocess.run([*prefix, "true"], capture_output=True).returncode == 0  # containers may forbid it
    return prefix if allowed else []


def _compiler():
    return os.environ.get("CXX", "g++")


@functools.cache
def _fingerprint(compiler):
    """A hash of what every product depends on: the compiler and the shim's headers."""
    version = subprocess.run([compiler, "-v"], capture_output=True, text=True, check=True).stderr
    headers = [path.read_bytes() for path in sorted(HERE.glob("*.hpp"))]
    return hashlib.sha256(b"\0".join([version.encode(), *headers])).digest()


@functools.cache
def build_folder():
    """The folder of all products: SIMT_BUILD, or a folder of this user among the temporary files."""
    named = os.environ.get("SIMT_BUILD")
    folder = pathlib.Path(named or pathlib.Path(tempfile.gettempdir(), f"gpulayout-simt-{os.getuid()}"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():  # this process would run another user's libraries
        raise BuildError("the build folder belongs to another user; set SIMT_BUILD to another one")
    return folder


@functools.cache
def _shim(flags):
    """(flags, objects) for text that begins with the shim's headers: the headers and the runtime, each compiled once.

    g++ uses precompiled headers if flags and the shim's macros agree; other compilers ignore them.
    """
    headers = _product("/simt.hpp.gch", source_text.HEADERS, (*flags, "-x", "c++-header"))
    runtime = _product(".o", source_text.HEADERS, (*flags, "-DSIMT_RUNTIME", "-c"))
    return ("-I", str(headers.parent)), (runtime,)


def _product(suffix, text, flags, objects=(), link_flags=(), compiler=None):
    compiler = compiler or _compiler()
    key = hashlib.sha256(_fingerprint(compiler))
    named = (flag.version if isinstance(flag, Headers) else flag for flag in flags)
    for part in (suffix, *named, *(path.name for path in objects), *link_flags, text):
        key.update(part.encode() + b"\0")
    target = build_folder() / (key.hexdigest()[:40] + suffix)
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        with _lock(target):
            if not target.exists():  # another worker may have built it while we waited
                _compile(target, text, flags, objects, link_flags, compiler)
    return target


def turn(name):
    """A context for one process of this machine at a time."""
    return _lock(build_folder() / name)


def _lock(target):
    """An open file, locked: workers that want the same product build it once."""
    import fcntl

    lock = open(target.with_suffix(target.suffix + ".lock"), "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _compile(target, text, flags, objects, link_flags, compiler):
    with tempfile.TemporaryDirectory(dir=build_folder()) as folder:
        output = pathlib.Path(folder, "output")
        sources = []
        if text:
            source = pathlib.Path(folder, "source.cpp")
            source.write_text(text)
            given = [f"-I{flag.folder}" if isinstance(flag, Headers) else flag for flag in flags]
            sources = [*COMMON_FLAGS, *given, "-I", str(HERE), str(source)]
        command = [compiler, *sources, *map(str, objects), *link_flags, "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise BuildError(done.stderr)
        os.replace(output, target)  # atomic, so no reader sees an unfinished product
