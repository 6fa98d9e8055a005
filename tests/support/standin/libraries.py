"""The stand-in's two libraries: CUDA's runtime and driver in one, and a front for the real NVRTC."""

import concurrent.futures
import json
import os
import pathlib
import re

from . import cache, wheel

DRIVER = pathlib.Path(__file__).resolve().parent / "driver"
INCLUDE = DRIVER.parent / "include"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")


def build(asked, replaced=()):
    """A folder with libcuda.so.1 and libnvrtc.so.N.

    asked       names of functions that callers need; those that the stand-in lacks return errors that say so
    replaced    (file, line, other line) for builds that are broken on purpose
    """
    texts = {path.name: path.read_text() for path in sorted(DRIVER.iterdir())}
    for file, line, other in replaced:
        if texts[file].count(line) != 1:
            raise ValueError(f"{file} has {line!r} {texts[file].count(line)} times")
        texts[file] = texts[file].replace(line, other)
    made_from = [
        json.dumps(texts),
        json.dumps(asked),
        wheel.cuda_version(),
        *cache.compiler(),
        pathlib.Path(__file__).read_bytes(),
    ]
    return cache.folder("stand-in", made_from, lambda folder: _build(folder, texts, asked))


def _build(folder, texts, asked):
    units = [name for name in texts if name.endswith(".cpp")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = dict(zip(units, pool.map(lambda name: _object(texts, texts[name]), units)))
    nvrtc = objects.pop("nvrtc.cpp")
    missing = _object(texts, _missing(asked, objects.values()))
    _link(folder / "libcuda.so.1", [*objects.values(), missing])
    _link(folder / f"libnvrtc.so.{wheel.cuda_major()}", [nvrtc])


def _object(texts, text):
    """The path of a compiled text; each text is compiled once."""
    headers = {name: text for name, text in texts.items() if name.endswith(".hpp")}
    flags = [
        "-std=c++17",
        "-fPIC",
        "-O1",
        *WARNINGS,
        f"-DSTANDIN_CUDA_VERSION={wheel.cuda_version()}",
        "-I",
        INCLUDE,
        "-isystem",
        wheel.cuda_headers(),
    ]

    def make(folder):
        for name, header in headers.items():
            (folder / name).write_text(header)
        (folder / "unit.cpp").write_text(text)
        cache.run(cache.compiler()[0], *flags, "-c", folder / "unit.cpp", "-o", folder / "unit.o")

    return cache.folder("stand-in-object", [text, json.dumps(headers), *flags, *cache.compiler()], make) / "unit.o"


def _missing(asked, objects):
    """Definitions of the needed functions that no object has."""
    there = set(re.findall(r" T (\w+)", "".join(cache.run("nm", "--defined-only", path) for path in objects)))
    lines = [
        '#include "common.hpp"',
        "API int standin_missing(const char*);",
        "API void standin_no_kernel(const char*);",
    ]
    for name in sorted(set(asked) - there):
        if re.match("cuda[A-Z]", name):
            lines.append(f'API int {name}() {{ return standin_missing("{name}"); }}')
        elif re.match(r"_Z\d", name):  # C++ functions of CuPy's that launch machine code
            lines.append(f'API void {name}() {{ standin_no_kernel("{name}"); }}')
    return "\n".join(lines) + "\n"


def _link(library, objects):
    cache.run(cache.compiler()[0], "-shared", *objects, "-o", library, f"-Wl,-soname,{library.name}", "-ldl")
