"""Counts the functions of the library that a call runs: how many, in how many files, and how deep.

    python -m tests.support.count_calls [--json]

The first call has no caches; the third one and those after it are what a loop runs, and the median of three is shown.
Only functions written in Python count, and only those in files of gpulayout/.
"""

import argparse
import json
import pathlib
import statistics
import sys

import numpy as np
import torch

import gpulayout as gl
from tests.support.observed_calls import forget, quiet

ROOT = f"{pathlib.Path(gl.__file__).parent}/"
TILED = "f32[16,256]{1,0:T(8,128)}"


def cases():
    """What each call is called, and the call itself."""
    image = np.zeros((64, 64, 3), np.uint8)
    matrix = np.zeros((16, 256), np.float32)
    buffer, tensor = gl.pack(matrix, TILED), torch.zeros(16, 256)
    planned = gl.plan(TILED, "{0,1}")
    pattern = "h w c -> c h w"
    followed = tensor.clone().requires_grad_()
    pixels = torch.zeros(64, 64, 3, dtype=torch.uint8)
    return {
        "transpose": lambda: gl.transpose(image, pattern),
        "transpose scale=1/255": lambda: gl.transpose(image, pattern, dtype="f32", scale=1 / 255),
        "transpose scale=[3]": lambda: gl.transpose(image, pattern, dtype="f32", scale=[1.0, 2.0, 3.0]),
        "relayout": lambda: gl.relayout(buffer, TILED, "{0,1}"),
        "pack": lambda: gl.pack(matrix, TILED[TILED.index("{") :]),
        "unpack": lambda: gl.unpack(buffer, TILED),
        "plan(buffer)": lambda: planned(buffer),
        "pack dtype=": lambda: gl.pack(matrix, "{0,1}", dtype="f16"),
        "unpack dtype=": lambda: gl.unpack(buffer, TILED, dtype="f16"),
        "relayout dtype=": lambda: gl.relayout(buffer, TILED, "{0,1}", dtype="f16"),
        "pack torch": lambda: gl.pack(tensor, TILED[TILED.index("{") :]),
        "transpose torch": lambda: gl.transpose(pixels, pattern),
        "pack torch followed": lambda: gl.pack(followed, TILED[TILED.index("{") :]),
        "the same, dtype=": lambda: gl.pack(followed, TILED[TILED.index("{") :], dtype="f16"),
    }


def counted(call):
    """(calls, files, depth) of one run of a call."""
    files, calls, depth, deepest = set(), 0, 0, 0

    def noted(frame, event, argument):
        nonlocal calls, depth, deepest
        name = frame.f_code.co_filename
        if event not in ("call", "return") or not name.startswith(ROOT):
            return
        if event == "return":
            depth -= 1
            return
        files.add(name)
        calls, depth = calls + 1, depth + 1
        deepest = max(deepest, depth)

    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        call()
    finally:
        sys.setprofile(before)
    return calls, len(files), deepest


def counts():
    """For each case the numbers of the first call and of repeated ones."""
    found = {}
    with quiet():
        for name, call in cases().items():
            call()  # what happens once in a process, such as imports, is not counted
            forget()
            first = counted(call)
            counted(call)
            repeated = [counted(call) for _ in range(3)]
            found[name] = {"first": first, "repeated": tuple(map(statistics.median, zip(*repeated)))}
    return found


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    given, found = parser.parse_args(arguments), counts()
    if given.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{'':24}{'first':^22}  {'repeated':^22}")
    print(f"{'':24}" + "  ".join([f"{'calls':>7}{'files':>7}{'depth':>7} "] * 2))
    for name, rows in found.items():
        print(
            f"{name:24}" + "  ".join("".join(f"{each:7}" for each in rows[way]) + " " for way in ("first", "repeated"))
        )


if __name__ == "__main__":
    main()
