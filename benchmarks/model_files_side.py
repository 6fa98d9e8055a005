"""A model file beside `cp` and the usual loops: `python -m benchmarks.model_files_side --folder FOLDER`, on Linux.

A safetensors file of f32, half of whose bytes are matrices that are turned.  `cp` makes a plain copy of it.  The loops
of torch and NumPy load all tensors, turn every second one and save all, as people do.  Every file is on the disk when
the time ends, and all results are compared.  Contenders take turns; the median counts.  As root, a second list begins
with a cold page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.files_side import COUNTED, MIB
from benchmarks.machine import machine

SIDE = 4096
CACHES = pathlib.Path("/proc/sys/vm/drop_caches")
LOOPS = {
    "torch loop": """
import sys, torch
from safetensors.torch import load_file, save_file
tensors = load_file(sys.argv[1])
save_file({name: each.t().contiguous() if "kernel" in name else each for name, each in tensors.items()}, sys.argv[2])
""",
    "numpy loop": """
import sys, numpy
from safetensors.numpy import load_file, save_file
tensors = load_file(sys.argv[1])
turned = {name: numpy.ascontiguousarray(each.T) if "kernel" in name else each for name, each in tensors.items()}
save_file(turned, sys.argv[2])
""",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_files_side", description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="on the disk to measure; 3 times the size")
    parser.add_argument("--pairs", type=int, default=16, help="of matrices, one turned and one not; 16 are 2 GB")
    parser.add_argument("--memory", type=int, default=512, help="MiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    found = measured(options.folder, options.pairs, options.memory, options.rounds)
    print("\n".join(table(found)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(folder: pathlib.Path, pairs: int, memory: int, rounds: int) -> dict[str, Any]:
    """Seconds and memory of every contender, with a warm page cache and, where that can be, with a cold one."""
    source, target = folder / "benchmark-in.safetensors", folder / "benchmark-out.safetensors"
    _write(source, pairs)
    try:
        results = compared(_commands(source, target, memory), [source], target, rounds)
    finally:
        source.unlink()
    return {"machine": machine("numpy", False), "bytes": 2 * pairs * SIDE * SIDE * 4, "memory_mib": memory} | {
        "results": results
    }


def compared(
    jobs: dict[str, list[str]], sources: Sequence[pathlib.Path], target: pathlib.Path, rounds: int
) -> list[dict[str, Any]]:
    """Seconds and memory of contenders, which take turns.  All but `cp` must write the same tensors.

    sources   the files that they read
    target    the file that each writes, or a folder; it is removed
    """
    caches = ["warm", "cold"] if os.access(CACHES, os.W_OK) else ["warm"]
    taken: dict[tuple[str, str], list[dict[str, Any]]] = {}
    sums: set[str] = set()
    try:
        for cache in caches:
            for _ in range(rounds):
                for name, command in jobs.items():
                    taken.setdefault((cache, name), []).append(_timed(command, sources, cache == "cold"))
                    if name != "cp" and cache == "warm" and len(taken[cache, name]) == 1:
                        files = sorted(target.glob("*.safetensors")) if target.is_dir() else [target]
                        sums.add(" ".join(map(_digest, files)))
                    remove(target)
    finally:
        remove(target)
    if len(sums) != 1:
        raise RuntimeError("the contenders wrote different tensors")
    return [
        {
            "cache": cache,
            "name": name,
            "seconds": statistics.median(each["seconds"] for each in each_round),
            "peak_resident": max(each["peak_resident"] for each in each_round),
            "rounds": each_round,
        }
        for (cache, name), each_round in taken.items()
    ]


def remove(target: pathlib.Path) -> None:
    """Remove a file or a folder that may be there."""
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def _write(path: pathlib.Path, pairs: int) -> None:
    """The model, in a process of its own: the peak of later ones would begin with its memory."""
    text = f"""
import numpy, sys
from safetensors.numpy import save_file
random = numpy.random.default_rng(0)
names = [f"layer.{{n}}.{{what}}" for n in range({pairs}) for what in ("kernel", "other")]
save_file({{name: random.random(({SIDE}, {SIDE}), dtype=numpy.float32) for name in names}}, sys.argv[1])
"""
    subprocess.run([sys.executable, "-c", text, str(path)], check=True)


def _commands(source: pathlib.Path, target: pathlib.Path, memory: int) -> dict[str, list[str]]:
    files = [str(source), str(target)]
    ours = [sys.executable, "-m", "gpulayout", "relayout", *files, "--tensor", ".*kernel=i o -> o i", "--quiet"]
    synced = then_on_disk(target)
    return {
        "cp": [*synced, "cp", "--reflink=never", *files],
        "gpulayout": ours,
        f"gpulayout --memory {memory}M": [*ours, "--memory", f"{memory}M"],
        **{name: [*synced, sys.executable, "-c", text, *files] for name, text in LOOPS.items()},
    }


def then_on_disk(target: pathlib.Path) -> list[str]:
    """What stands before a command so that its file, or all files of its folder, are on the disk when it ends."""
    return ["sh", "-c", '"$@" && { [ ! -d "$0" ] || sync "$0"/*; } && sync "$0"', str(target)]


def _timed(command: list[str], sources: Sequence[pathlib.Path], cold: bool) -> dict[str, Any]:
    """One run, with the files to read in the page cache or without them."""
    os.sync()
    if cold:
        CACHES.write_text("3")
    else:
        subprocess.run(["cat", *map(str, sources)], stdout=subprocess.DEVNULL, check=True)
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-S", "-c", COUNTED, "", *command], capture_output=True, text=True, check=True
    )
    found = {"seconds": time.perf_counter() - begin, **json.loads(done.stdout)}
    if found.pop("status"):
        raise RuntimeError(f"{command}: {done.stderr}")
    return found


def _digest(path: pathlib.Path) -> str:
    """What tells the tensors of a file from others, whatever its metadata is."""
    import hashlib

    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        for part in iter(lambda: stream.read(MIB), b""):
            found.update(part)
    return found.hexdigest()


def table(found: dict[str, Any]) -> list[str]:
    """A line for each contender."""
    lines = ["| page cache | | seconds | times `cp` | peak resident |", "|" + "---|" * 5]
    copies = {each["cache"]: each["seconds"] for each in found["results"] if each["name"] == "cp"}
    for each in found["results"]:
        lines.append(
            f"| {each['cache']} | {each['name']} | {each['seconds']:.2f} "
            f"| {each['seconds'] / copies[each['cache']]:.2f} | {each['peak_resident'] // MIB} MiB |"
        )
    return lines


if __name__ == "__main__":
    main()
