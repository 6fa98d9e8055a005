"""NVRTC and the disassembler, from their wheels: the machine code of the kernels, without a GPU or a driver.

The wheel nvidia-cuda-nvrtc compiles CUDA C++ for every architecture it knows, and its assembler reports the resources
that each kernel takes.  nvidia-cuda-nvdisasm turns machine code into text.

Both results are kept in the folder of the host-compiled kernels, named after a hash of everything they are made from:
the tests ask for some thousand, which take 160 s to compile and 5 s to read.
"""

import ctypes
import dataclasses
import functools
import hashlib
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import zlib

from tests.support.sass import merge
from tests.support.simt import toolchain

# The options that `cupy.RawKernel` adds to a kernel's own.
CUPY_OPTIONS = ("--std=c++17", "-ftz=true", "--device-as-default-execution-space")
_WARNING = re.compile(r"^\S*\(\d+\): warning .*|^.*\bwarning\b.*: .*", re.MULTILINE)


class CompileError(Exception):
    """The compiler refused the text or warned; the message is the compiler's."""


@dataclasses.dataclass(frozen=True)
class Usage:
    """The resources of one kernel, as the assembler reports them."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int  # stores and loads


@dataclasses.dataclass(frozen=True)
class Compiled:
    """Machine code for one architecture, and the usage of each kernel by name."""

    cubin: bytes
    usage: dict


def missing():
    """The reason why nothing can be compiled here, or None."""
    try:
        _library()
    except OSError as error:
        return str(error)
    return None


def disassembler_missing():
    """The reason why machine code cannot be read here, or None."""
    return missing() or (
        None if _tool("nvdisasm") else "no disassembler: the wheel nvidia-cuda-nvdisasm is not installed"
    )


@functools.cache
def version():
    """(major, minor) of the compiler."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


@functools.cache
def architectures():
    """The architectures it compiles for: ("sm_75", ...)."""
    count = ctypes.c_int()
    _check(_library().nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    _check(_library().nvrtcGetSupportedArchs(numbers))
    return tuple(f"sm_{number}" for number in numbers)


def compiled(text, architecture, macros):
    """One text compiled as CuPy would compile it, once for all tests; CompileError also for warnings."""
    return _compiled(text, architecture, tuple(sorted(dict(macros).items())))


@functools.cache
def _compiled(text, architecture, macros):
    cubin, log = _kept(lambda: _compile(text, architecture, macros), "cubin", text, architecture, macros)
    return Compiled(cubin, _usage(log))


def _compile(text, architecture, macros):
    """(machine code, the assembler's log)."""
    options = [*CUPY_OPTIONS, f"-arch={architecture}", "-Xptxas=-v", *(f"-D{key}={value}" for key, value in macros)]
    if version() >= (13, 1):
        options.append("-Werror=all-warnings")  # older ones lack it; for all of them the log is read below
    library, program = _library(), ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None))
    try:
        code = library.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*map(str.encode, options))
        )
        log = _bytes_of(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog).rstrip(b"\0").decode()
        warnings = _WARNING.findall(log)
        if code or warnings:
            raise CompileError("\n".join(warnings) if not code else log)
        return _bytes_of(program, library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def instructions(cubin, kernel):
    """The machine instructions of one kernel without predicates, one string each: ("LDG.E.128 R4, [R2.64]", ...)."""
    text = disassembled(cubin)
    body = re.search(rf"^\.text\.{re.escape(kernel)}:\n(.*?)(?=^//-----|\Z)", text, re.DOTALL | re.MULTILINE)[1]
    return tuple(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][^;]*?)\s*;", body, re.MULTILINE))


def disassembled(cubin):
    """The disassembler's text of machine code."""
    return _kept(lambda: _disassembled(cubin), "disassembled", cubin)


def disassemble(cubins):
    """Make the texts of machine codes of one architecture ready, all at once: the disassembler takes 0.3 s to start."""
    new = [cubin for cubin in dict.fromkeys(cubins) if not _place("disassembled", cubin).exists()]
    if len(new) > 1:
        for cubin, text in zip(new, merge.parted(_disassembled(merge.joined(new)), len(new))):
            _kept(lambda text=text: text, "disassembled", cubin)


def _disassembled(cubin):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [_tool("nvdisasm"), "-c", "-ndf", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _kept(make, *made_from):
    """The result of make(), from the disk if it was made before from the same things by the same tools."""
    path = _place(*made_from)
    try:
        return pickle.loads(zlib.decompress(path.read_bytes()))
    except FileNotFoundError:
        result = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(zlib.compress(pickle.dumps(result), 1))
    os.replace(file.name, path)  # atomic: no reader sees half a file
    return result


def _place(*made_from):
    """The path of a kept result."""
    key = hashlib.sha256(repr((_tools(), CUPY_OPTIONS, made_from)).encode()).hexdigest()[:40]
    return toolchain.build_folder() / "nvrtc" / key[:2] / key[2:]


@functools.cache
def _tools():
    """The compiler and the disassembler that are used here: by version and size; and these files."""
    files = [pathlib.Path(_library()._name), *([_tool("nvdisasm")] if _tool("nvdisasm") else [])]
    return (
        version(),
        [(path.name, path.stat().st_size) for path in files],
        [pathlib.Path(each).read_bytes() for each in (__file__, merge.__file__)],
    )


def _usage(log):
    found = {}
    for block in log.split("Compiling entry function")[1:]:

        def number(pattern, block=block):
            match = re.search(pattern, block)
            return int(match[1]) if match else 0

        spills = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
        found[re.search(r"'([^']+)'", block)[1]] = Usage(
            number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), number(r"(\d+) bytes stack frame"), spills
        )
    return found


@functools.cache
def _library():
    for folder in _wheel_folders():
        for path in sorted(folder.glob("*/lib/libnvrtc.so.*")):
            if ".alt." not in path.name:
                for beside in path.parent.glob("libnvrtc-builtins.so.*"):  # before 13.1 it does not look beside itself
                    if ".alt." not in beside.name:
                        ctypes.CDLL(str(beside))
                library = ctypes.CDLL(str(path))
                library.nvrtcGetErrorString.restype = ctypes.c_char_p
                return library
    raise OSError("no NVRTC: the wheel nvidia-cuda-nvrtc is not installed")


@functools.cache
def _tool(name):
    return next((path for folder in _wheel_folders() for path in folder.glob(f"*/bin/{name}")), None)


def _wheel_folders():
    return [pathlib.Path(folder, "nvidia") for folder in sys.path if pathlib.Path(folder, "nvidia").is_dir()]


def _check(code):
    if code:
        raise CompileError(_library().nvrtcGetErrorString(code).decode())


def _bytes_of(program, size_of, get):
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(get(program, data))
    return data.raw
