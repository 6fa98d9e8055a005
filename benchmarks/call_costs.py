"""What a repeated small call costs, for each function and kind of array: `python -m benchmarks.call_costs`.

The array is f32[16,16], 1 KB, so nearly all of the time is the call itself.  Calls take turns in short samples, and the
best and the median of the samples count: another program on the machine lengthens some samples, not all.
"""

from __future__ import annotations

import argparse
import statistics
import timeit
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gpulayout as gl
from benchmarks.machine import machine

SOURCE, TARGET = gl.Shape("f32", (16, 16)), gl.Shape("f32", (16, 16), "{0,1}")
CALLS = 20  # in a sample
Call = Callable[[], Any]


def calls() -> dict[str, dict[str, Call]]:
    """For each way to write the move, the call by kind of array; a kind without `out=` has only the others."""
    values = np.arange(256, dtype=np.float32)
    kinds: dict[str, tuple[Any, Any]] = {"NumPy": (values, np.empty_like(values))}
    try:
        import torch

        kinds["PyTorch"] = torch.from_numpy(values), torch.empty(256)
    except ImportError:
        pass
    try:
        import jax.numpy

        kinds["JAX"] = jax.numpy.asarray(values), None
    except ImportError:
        pass
    found: dict[str, dict[str, Call]] = {"np.copyto": {"NumPy": _copy(values)}}
    for kind, (flat, out) in kinds.items():
        for name, call in _ways(flat, out).items():
            found.setdefault(name, {})[kind] = call
    return found


def _copy(values: np.ndarray[Any, Any]) -> Call:
    turned, out = values.reshape(16, 16).T, np.empty((16, 16), np.float32)
    return lambda: np.copyto(out, turned)


def _ways(flat: Any, out: Any) -> dict[str, Call]:
    """The calls on one kind of array; those with `out=` only where an array can be written to."""
    square, plan = flat.reshape(16, 16), gl.plan(SOURCE, TARGET)
    found: dict[str, Call] = {
        "plan": lambda: plan(flat),
        "relayout": lambda: gl.relayout(flat, SOURCE, TARGET),
        "pack": lambda: gl.pack(square, TARGET),
        "unpack": lambda: gl.unpack(flat, TARGET),
        "transpose": lambda: gl.transpose(square, "h w -> w h"),
        "view": lambda: gl.view(flat, TARGET),
    }
    if out is None:
        return found
    there = out.reshape(16, 16)
    return found | {
        "plan, out=": lambda: plan(flat, out=out),
        "relayout, out=": lambda: gl.relayout(flat, SOURCE, TARGET, out=out),
        "pack, out=": lambda: gl.pack(square, TARGET, out=out),
        "unpack, out=": lambda: gl.unpack(flat, TARGET, out=there),
        "transpose, out=": lambda: gl.transpose(square, "h w -> w h", out=there),
    }


def measured(found: dict[str, dict[str, Call]], samples: int) -> dict[tuple[str, str], tuple[float, float]]:
    """(best, median) microseconds of a call, by name and kind."""
    every = {(name, kind): call for name, by_kind in found.items() for kind, call in by_kind.items()}
    for call in every.values():
        call()
    times: dict[tuple[str, str], list[float]] = {key: [] for key in every}
    for _ in range(samples):
        for key, call in every.items():
            times[key].append(timeit.timeit(call, number=CALLS) / CALLS * 1e6)
    return {key: (min(each), statistics.median(each)) for key, each in times.items()}


def table(costs: dict[tuple[str, str], tuple[float, float]]) -> list[str]:
    """Markdown: a row for each call, a column for each kind, best and median in microseconds."""
    names, kinds = (list(dict.fromkeys(key[place] for key in costs)) for place in (0, 1))
    rows = [["call on f32[16,16], µs", *kinds], ["---"] * (1 + len(kinds))]
    for name in sorted(
        names, key=lambda name: (name != "np.copyto", names.index(name.partition(",")[0]), "out" in name)
    ):
        cells = [costs.get((name, kind)) for kind in kinds]
        rows.append([f"`{name}`", *(f"{cell[0]:.1f} to {cell[1]:.1f}" if cell else "" for cell in cells)])
    return ["| " + " | ".join(row) + " |" for row in rows]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table after the machine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.call_costs", description=__doc__)
    parser.add_argument("--samples", type=int, default=300)
    options = parser.parse_args(arguments)
    with gl.use_backend("numpy"):
        costs = measured(calls(), options.samples)
    found = machine("numpy", True)
    where = f"{found['cpu']}, {found['cores']} cores, load {found['load']}"
    versions = ", ".join(
        f"{name} {found['packages'][name]}" for name in ("numpy", "torch", "jax") if name in found["packages"]
    )
    print(f"{where}; Python {found['python']}, {versions}; best to median of {options.samples} samples\n")
    print("\n".join(table(costs)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
