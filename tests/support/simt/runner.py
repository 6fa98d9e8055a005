"""Runs recorded launches under a sanitizer, or counts their memory traffic.

asan_ubsan   out-of-bounds and misaligned accesses, signed overflow, out-of-range shifts
tsan_block   races between the threads of a block
tsan_grid    races between blocks, in global memory
trace        sectors per request and bank conflicts; accesses across a buffer end, which ASan sees from 8 bytes on
"""

import collections
import functools
import os
import pathlib
import re
import subprocess
import tempfile

from tests.support.waiting import HANG

from . import source_text, toolchain
from .record import launch_file
from .run_result import Result, Traffic

_BLOCK, _GRID = 0, 1  # enum Races in race_detector.hpp
_ASAN = ("-fsanitize=address,undefined",)
# What AddressSanitizer finds too, when memory is accessed.  Without them kernels compile in two thirds of the time.
_FOUND_BY_ASAN = "-fno-sanitize=null,object-size,pointer-overflow"
_TSAN = ("-fsanitize=thread",)

# Reports name lines, which needs -g1.  Tracking variables as well would double the compile time.
_LINES = ("-Og", "-g1")

Mode = collections.namedtuple("Mode", "compile_flags link_flags races")
MODES = {
    # Shared memory has its own section, which ASan skips by default.  -O0 compiles in half the time of -Og, and keeps
    # accesses whose results nothing uses.
    "asan_ubsan": Mode(
        ("-O0", "-g1", *_ASAN, _FOUND_BY_ASAN, "-fno-sanitize-recover=undefined", "-fsanitize-sections=simt_shared"),
        _ASAN,
        _BLOCK,
    ),
    "tsan_block": Mode((*_LINES, *_TSAN), _TSAN, _BLOCK),
    "tsan_grid": Mode((*_LINES, *_TSAN), _TSAN, _GRID),
    # Without -fno-tree-sra, one access of 16 bytes would be traced as four of 4.
    "trace": Mode(("-O1", "-fno-tree-sra", "-DSIMT_TRACE", *_TSAN), (), _BLOCK),
}
_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:redzone=512",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "atexit_sleep_ms=0",
}  # otherwise every program sleeps a second
_FINDING = re.compile(r"WARNING: ThreadSanitizer|ERROR: AddressSanitizer|runtime error:|^LAUNCH FAILED: ", re.MULTILINE)
_SHIM_FRAME = re.compile(r"^ *#\d+ .*\b(simt::|simt_call_|simt_launch_|_start|__libc_start).*\n", re.MULTILINE)


class RunnerError(Exception):
    """The program itself failed, so nothing is known about the kernel."""


def run(records, mode):
    """The Result of one record, or the list of Results of a sequence of records, in order."""
    if not isinstance(records, (list, tuple)):
        return run([records], mode)[0]
    groups = collections.defaultdict(list)
    for record in records:
        groups[record.build_key].append(record)
    builds = [functools.partial(library, group, mode) for group in groups.values()]
    libraries = dict(zip(groups, toolchain.in_parallel(builds)))
    return _results([(libraries[record.build_key], record) for record in records], mode)


def program(mode):
    """The main program of a mode; it opens the libraries of the kernels that it runs."""
    mode = MODES[mode]
    units = [(_our_text("record_main.cpp"), ("-O1",))]
    if "-DSIMT_TRACE" in mode.compile_flags:
        units.append((_our_text("trace_runtime.cpp"), ("-O2",)))
    # --no-as-needed keeps the sanitizers for the libraries, which are opened later.
    return toolchain.program(units, ("-Wl,--no-as-needed", *mode.link_flags, "-ldl"))


def library(records, mode):
    """The library with the kernels of records that share text and macros."""
    flags = (*MODES[mode].compile_flags, *source_text.macro_flags(records[0].macros))
    kernels = sorted({record.kernel for record in records})
    return toolchain.shared_library(source_text.compilation_unit(records[0].text, kernels), flags)


def _our_text(name):
    return pathlib.Path(toolchain.HERE, name).read_text()


def _results(jobs, mode):
    """The results of (library, record) pairs, from one process; after a finding, from one each, to attribute it."""
    results = _run_program(jobs, mode)
    if len(jobs) > 1 and not all(result.clean for result in results):
        results = [_run_program([job], mode)[0] for job in jobs]
    return results


def _run_program(jobs, mode):
    libraries = list(dict.fromkeys(path for path, _ in jobs))
    numbers, records = [libraries.index(path) for path, _ in jobs], [record for _, record in jobs]
    with tempfile.TemporaryDirectory(prefix="simt-run-") as folder:
        launches, output = pathlib.Path(folder, "launches"), pathlib.Path(folder, "output")
        launches.write_bytes(launch_file(records, numbers, MODES[mode].races))
        command = toolchain.without_aslr([program(mode), launches, output, *libraries])
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=HANG, env={**os.environ, **_ENVIRONMENT}
        )
        content = output.read_bytes() if output.exists() else b""
    reports = _reports(done.stderr)
    if done.returncode and not reports:
        raise RunnerError(f"{mode}: exit status {done.returncode}: {done.stderr.strip() or 'no message'}")
    if reports:  # the output may be incomplete, and the findings belong to any of the records
        return [Result(reports)] * len(records)
    return [
        _with_read_only_check(record, *rest)
        for record, *rest in zip(records, _split(content, records), _traffic(done.stdout, len(records)))
    ]


def _reports(stderr):
    """The texts of the findings, without stack frames of the shim."""
    stderr = _SHIM_FRAME.sub("", stderr)
    starts = [found.start() for found in _FINDING.finditer(stderr)]
    return tuple(stderr[start:end].strip(" =\n") for start, end in zip(starts, [*starts[1:], None]))


def _split(content, records):
    """The bytes of each record's buffers after the run."""
    position, split = 0, []
    for record in records:
        split.append([])
        for buffer in record.buffers:
            split[-1].append(content[position : position + buffer.nbytes])
            position += buffer.nbytes
    return split


def _with_read_only_check(record, buffers, traffic):
    reports = tuple(
        f"buffer {i} of {record.kernel} is read-only but was written"
        for i, (buffer, after) in enumerate(zip(record.buffers, buffers))
        if not buffer.writable and after != buffer.initial()
    )
    return Result(reports, tuple(buffers), traffic)


def _traffic(stdout, count):
    """For each record, class name -> Traffic; empty unless the run was a trace."""
    if not stdout:
        return [{}] * count
    tables = [{}]
    for line in stdout.splitlines():
        if line == "end":
            tables.append({})
        else:
            first, second, *numbers = line.split()
            tables[-1][f"{first} {second}"] = Traffic(*map(int, numbers))
    return tables[:-1]
