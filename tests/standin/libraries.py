"""The stand-in's two libraries: CUDA's runtime and driver in one, and NVRTC's name in front of the real NVRTC."""
import concurrent.futures
import json
import os
import pathlib
import re

from . import cache, wheel

DRIVER = pathlib.Path(__file__).resolve().parent / "driver"
INCLUDE = DRIVER.parent / "include"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def build(asked, replaced=()):
    """A folder with libcuda.so.1 and libnvrtc.so.N.

    asked       names of functions that somebody wants to call: those the stand-in lacks become errors that say so
    replaced    (file, line, other line) for builds that are wrong on purpose
    """
    texts = {path.name: path.read_text() for path in sorted(DRIVER.iterdir())}
    for file, line, other in replaced:
        if texts[file].count(line) != 1:
            raise ValueError(f"{file} has {texts[file].count(line)} times {line!r}")
        texts[file] = texts[file].replace(line, other)
    made_from = [json.dumps(texts), json.dumps(asked), wheel.cuda_version(), *cache.compiler(), pathlib.Path(__file__).read_bytes()]
    return cache.folder("stand-in", made_from, lambda folder: _build(folder, texts, asked))


def _build(folder, texts, asked):
    for name, text in texts.items():
        (folder / name).write_text(text)

    def compiled(name):
        code = folder / f"{name}.o"
        cache.run(cache.compiler()[0], "-std=c++17", "-fPIC", "-O1", *WARNINGS, f"-DSTANDIN_CUDA_VERSION={wheel.cuda_version()}",
                  "-I", INCLUDE, "-isystem", wheel.cuda_headers(), "-c", folder / name, "-o", code)
        return code

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = dict(zip(units := [name for name in texts if name.endswith(".cpp")], pool.map(compiled, units)))
    nvrtc = objects.pop("nvrtc.cpp")
    (folder / "missing.cpp").write_text(_missing(asked, objects.values()))
    _link(folder / "libcuda.so.1", [*objects.values(), compiled("missing.cpp")])
    _link(folder / f"libnvrtc.so.{wheel.cuda_major()}", [nvrtc])


def _missing(asked, objects):
    """Definitions of the functions that are asked for and that no object has."""
    there = set(re.findall(r" T (\w+)", "".join(cache.run("nm", "--defined-only", path) for path in objects)))
    lines = ['#include "common.hpp"', "API int standin_missing(const char*);", "API void standin_no_kernel(const char*);"]
    for name in sorted(set(asked) - there):
        if re.match("cuda[A-Z]", name):
            lines.append(f'API int {name}() {{ return standin_missing("{name}"); }}')
        elif re.match(r"_Z\d", name):                    # C++ functions of CuPy's that launch machine code
            lines.append(f'API void {name}() {{ standin_no_kernel("{name}"); }}')
    return "\n".join(lines) + "\n"


def _link(library, objects):
    cache.run(cache.compiler()[0], "-shared", *objects, "-o", library, f"-Wl,-soname,{library.name}", "-ldl")
