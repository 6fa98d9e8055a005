"""The cost of a call on the host, beside the nearest call of CuPy or NumPy, with arrays so small that moving them costs
almost nothing.

`ci/real_cupy --host-calls` runs it with the real CuPy over the stand-in for CUDA, whose driver costs almost nothing:
those figures measure the Python above the driver, not a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import gpulayout as gl

SIDE = 16  # of a square matrix
SOURCE, TARGET, ORDER = f"f32[{SIDE},{SIDE}]", f"f32[{SIDE},{SIDE}]{{0,1}}", "{0,1}"


class Row(NamedTuple):
    """A call of this library, and the nearest one of the array library."""

    name: str
    call: Callable[[], object]
    nearest_name: str
    nearest: Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=("cupy", "numpy"), required=True)
    parser.add_argument("--rounds", type=int, default=40, help="number of rounds, whose medians are printed")
    parser.add_argument("--calls", type=int, default=300, help="of each kind in a round")
    options = parser.parse_args()
    xp, wait = _library(options.backend)
    rows = _rows(xp)
    found = _medians(rows, options.rounds, options.calls, wait)
    width = max(len(row.name) for row in rows)
    near_width = max(len(row.nearest_name) for row in rows)
    print(
        f"microseconds of a call on the host, medians of {options.rounds} rounds of {options.calls} calls, "
        f"{SIDE} x {SIDE} f32"
    )
    print(f"{'call':{width}}     us   {f'nearest of {xp.__name__}':{near_width}}     us")
    for row, (ours, nearest) in zip(rows, found):
        print(f"{row.name:{width}}  {ours:5.1f}   {row.nearest_name:{near_width}}  {nearest:5.1f}")


def _library(backend: str):
    """The array library, and a function that waits for the device."""
    if backend == "numpy":
        return np, lambda: None
    import cupy

    return cupy, cupy.cuda.runtime.deviceSynchronize


def _rows(xp) -> list[Row]:
    matrix = xp.arange(SIDE * SIDE, dtype=xp.float32).reshape(SIDE, SIDE)
    buffer, out, back = matrix.ravel(), xp.empty(SIDE * SIDE, xp.float32), xp.empty((SIDE, SIDE), xp.float32)
    turned, room = matrix.T, xp.empty((SIDE, SIDE), xp.float32)
    index, places = xp.zeros((2, SIDE), xp.int64), xp.empty(SIDE, xp.int64)
    source, target = gl.parse_shape(SOURCE), gl.parse_shape(TARGET)
    plan, scaled = gl.plan(source, target), gl.plan(source, target, scale=np.full(SIDE, 2, np.float32))
    into = "copyto(out, array.T)", lambda: xp.copyto(room, turned)
    new = "ascontiguousarray(array.T)", lambda: xp.ascontiguousarray(turned)
    numbers = (
        "ravel_multi_index(mode='wrap')",
        lambda: xp.ravel_multi_index((index[0], index[1]), (SIDE, SIDE), mode="wrap"),
    )
    return [
        Row("plan(buffer, out=)", lambda: plan(buffer, out=out), *into),
        Row(
            "plan with scale (out=)",
            lambda: scaled(buffer, out=out),
            "multiply(array.T, 2, out)",
            lambda: xp.multiply(turned, 2, out=room),
        ),
        Row("relayout(out=), shapes", lambda: gl.relayout(buffer, source, target, out=out), *into),
        Row("relayout(out=), texts", lambda: gl.relayout(buffer, SOURCE, ORDER, out=out), *into),
        Row("pack(out=), a shape's text", lambda: gl.pack(matrix, TARGET, out=out), *into),
        Row("pack(out=), a layout's text", lambda: gl.pack(matrix, ORDER, out=out), *into),
        Row("unpack(out=), a shape's text", lambda: gl.unpack(buffer, TARGET, out=back), *into),
        Row("plan(buffer)", lambda: plan(buffer), *new),
        Row("relayout, shapes", lambda: gl.relayout(buffer, source, target), *new),
        Row("relayout, texts", lambda: gl.relayout(buffer, SOURCE, ORDER), *new),
        Row("pack, a shape's text", lambda: gl.pack(matrix, TARGET), *new),
        Row("pack, a layout's text", lambda: gl.pack(matrix, ORDER), *new),
        Row("unpack, a shape's text", lambda: gl.unpack(buffer, TARGET), *new),
        Row("linearize(mode='wrap', out=)", lambda: gl.linearize(index, target, mode="wrap", out=places), *numbers),
        Row(
            "linearize(mode='wrap')",
            lambda: gl.linearize(index, target, mode="wrap"),
            "empty",
            lambda: xp.empty(SIDE * SIDE, xp.float32),
        ),
    ]


def _medians(rows: list[Row], rounds: int, calls: int, wait: Callable[[], None]) -> list[tuple[float, float]]:
    """Microseconds of both calls of each row; every round times all, so that a busy moment affects all alike."""
    times: dict[Callable, list[float]] = {call: [] for row in rows for call in (row.call, row.nearest)}
    for call in times:
        call()  # plans, and compiles
    for _ in range(rounds):
        for call, found in times.items():
            wait()  # the device does what was launched before
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            found.append((time.perf_counter() - begin) / calls * 1e6)
    return [(statistics.median(times[row.call]), statistics.median(times[row.nearest])) for row in rows]


if __name__ == "__main__":
    main()
