"""The native engine compiled in several ways, with the program that stresses it (stress.cpp).

To repeat a failure, which names its case:
    print(stress.run(stress.BUILDS["asan"], "moves", seed, first=case, count=1, most_bytes=...).stdout)
"""

import functools
import os
import pathlib
import platform
import re
import shutil
import subprocess
from typing import NamedTuple

from tests.support.effort import ALL
from tests.support.simt import toolchain
from tests.support.waiting import HANG

HERE = pathlib.Path(__file__).parent
ENGINE = HERE.parents[2] / "kernels" / "cpu"
FILES = (
    *("strided_move.cpp", "strided_move.h", "convert_move.cpp", "convert_move.h", "packed_move.cpp", "packed_move.h"),
    *("threads.h", "instruction_sets.h", "each_instruction_set.h", "../convert.cuh"),
    *("register_kernels.h", "convert_kernels.h", "cast_kernels.h", "convert_words.h", "bit_kernels.h"),
    *("index_program.cpp", "index_program.h", "index_kernels.h", "new_pages.h"),
)
# The program of a kind of case, and the file that it calls beside strided_move.cpp; of all others stress.cpp.
PROGRAMS = {
    "converts": ("converts.cpp", "convert_move.cpp"),
    "packed": ("packed.cpp", "packed_move.cpp"),
    "indices": ("indices.cpp", "index_program.cpp"),
}
KINDS = ("moves", "callers", "stops", "within", "forks", "leaves")
# What the engine is compiled with, of which toolchain's own flags would change something.
FLAGS = ("-pthread", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fstrict-aliasing", "-Wno-psabi")
ASAN = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")
# Calls instead of inline checks, and no checks that never fail for bytes: they take half of the compiler's time.
QUICK = ("--param", "asan-instrumentation-with-call-threshold=0", "-fno-sanitize=null,object-size,alignment")
AARCH64 = "aarch64-linux-gnu-g++"
X86 = (
    ("-mssse3",) if platform.machine() in ("x86_64", "AMD64") else ()
)  # it has the permutations of bytes that zips need
# With these, moves of kilobytes have many portions, threads, and looks for signals.
SMALL = {"SHARE": "2 << 10", "PORTION": "8 << 10", "POLL_TIME": "std::chrono::milliseconds(0)"}
SMALL_PACKED = {
    "SIDE": "5",
    "LEAST_BOX": "24",
    "MOST_BOX": "64",
    "LONG_RUN": "6",
    "AHEAD": "1",
}  # so have packed ones


class Build(NamedTuple):
    """A way to compile the engine."""

    flags: tuple  # of both units and the linker
    engine_flags: tuple  # of the engine only
    numbers: dict | None = SMALL  # of the engine, instead of its own
    compiler: str | None = None  # None: the one of all tests
    runner: tuple = ()  # runs the program
    needs: tuple = ()  # commands


# Without LOWERED the three instruction sets of x86-64 are only those that this processor has.
BUILDS = {
    "usual": Build((), ("-O3",), numbers=None),
    "first": Build((), ("-O0", "-DPORTABLE", *X86)),
    "quick": Build((), ("-O0", "-DLOWERED")),
    "small": Build((), ("-O3",)),
    "lowered": Build((), ("-O3", "-DLOWERED")),
    "portable": Build((), ("-O2", "-DPORTABLE")),
    "asan": Build(ASAN, ("-O0", "-DLOWERED", *QUICK)),
    "whole asan": Build(ASAN, ("-O1", "-DLOWERED")),
    "native asan": Build(ASAN, ("-O1",)),
    "tsan": Build(("-fsanitize=thread", "-g1"), ("-Og", "-DLOWERED")),
    "clang": Build((), ("-O3",), compiler="clang++", needs=("clang++",)),
    "lowered clang": Build((), ("-O1", "-DLOWERED"), compiler="clang++", needs=("clang++",)),
    "aarch64": Build(("-static",), ("-O2",), None, AARCH64, ("qemu-aarch64",), (AARCH64, "qemu-aarch64")),
    "small aarch64": Build(("-static",), ("-O1",), SMALL, AARCH64, ("qemu-aarch64",), (AARCH64, "qemu-aarch64")),
}


def missing(build: Build) -> str | None:
    """Why this build cannot be had here; None if it can."""
    for command in build.needs:
        if shutil.which(command) is None:
            return f"{command} is not on the PATH"
    if any(flag.startswith("-fsanitize") for flag in build.flags):
        return toolchain.sanitizers_missing()
    return toolchain.missing()


@functools.cache
def files() -> dict[str, str]:
    """The engine's text: what stands in each of its files."""
    return {name: (ENGINE / name).read_text(encoding="utf-8") for name in FILES}


def numbered(text: str, numbers: dict | None) -> str:
    """The engine's text with other numbers."""
    for name, value in (numbers or {}).items():
        text, count = re.subn(rf"^(constexpr \w+ {name} = )[^;]*;", rf"\g<1>{value};", text, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"the engine has {count} numbers {name}: tests.support.native.stress changes one")
    return text


def with_headers(text: str, headers: dict[str, str]) -> str:
    """One text, which a cache of compiled texts can be asked for."""
    each = headers.get("each_instruction_set.h", "")
    for name in headers:
        sets = each.replace("#include KERNELS\n", f'#include "{name}"\n')
        text = text.replace(f'#define KERNELS "{name}"\n#include "each_instruction_set.h"\n', sets)
    while any(f'#include "{name}"\n' in text for name in headers):
        for name, header in headers.items():
            text = text.replace(f'#include "{name}"\n', header.replace("#pragma once\n", ""))
    return text


def program(build: Build, kind: str, changed: dict[str, str] | None = None) -> pathlib.Path:
    """The compiled program of a kind of case; `changed` files of the engine have another text."""
    text = files() | (changed or {})
    own = {path.name: path.read_text(encoding="utf-8") for path in HERE.iterdir() if path.suffix in (".cpp", ".h")}
    main, *others = PROGRAMS.get(kind, ("stress.cpp",))
    units = []
    for name in ("strided_move.cpp", *others):
        numbers = build.numbers and build.numbers | (SMALL_PACKED if name == "packed_move.cpp" else {})
        units.append((numbered(with_headers(text[name], text), numbers), (*FLAGS, *build.flags, *build.engine_flags)))
    quick = QUICK if build.engine_flags[-len(QUICK) :] == QUICK else ()
    units.append((with_headers(own[main], own | files()), (*FLAGS, *build.flags, "-O1", *quick)))
    return toolchain.program(tuple(units), ("-pthread", *build.flags), build.compiler)


def run(build: Build, kind: str, seed: int, first: int, count: int, most_bytes: int, changed=None, limit=HANG):
    """The finished process of some cases of a kind; subprocess.TimeoutExpired if it hangs."""
    words = () if kind in PROGRAMS else (kind,)
    command = [*build.runner, program(build, kind, changed), *words, seed, first, count, most_bytes]
    environment = {
        **os.environ,
        "ASAN_OPTIONS": f"detect_leaks={int(ALL)}",  # where containers forbid to trace threads, this fails
        "TSAN_OPTIONS": "die_after_fork=0",
    }
    return subprocess.run(
        toolchain.without_aslr(command),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit,
        env=environment,
    )


def counts(output: str) -> dict[tuple[str, ...], int]:
    """What a run did: {("AVX2", "turn"): moves, ("polls",): calls}."""
    found = {}
    for line in output.splitlines():
        *words, number = line.removeprefix("kernel ").split(" ")
        if number.isdigit():
            found[tuple(words)] = int(number)
    return found
