"""Entries of the catalogue beside their owners' functions: `python -m benchmarks.catalogue_side`.

Only owners whose functions come with torch: the others in docs/catalogue.md were run outside of this tree, from the
commits that each entry names.  One thread each, calls in turns, medians, after equal bytes.
"""

from __future__ import annotations

import argparse
import ast
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import gpulayout as gl
from benchmarks.machine import machine


class Contest(NamedTuple):
    """One array, and what its owner's function makes of it."""

    entry: str
    shape: gl.Shape
    owner: Callable[[Any], Any]
    most: int = 99  # the largest value of its elements
    given: str = ""  # the type in which the owner takes them, if not that of ours


def to_blocked() -> Callable[[Any], Any]:
    """torchao's function for cuBLAS' block scales, in the copy that torch has."""
    import torch

    path = pathlib.Path(torch.__file__).parent / "_vendor" / "quack" / "mx_utils.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"torch": torch}
    wanted = [node for node in tree.body if getattr(node, "name", "") in ("to_blocked", "ceil_div", "_ceil_div")]
    exec(compile(ast.Module(wanted, []), str(path), "exec"), names)
    return names["to_blocked"]  # type: ignore[no-any-return]


def reorder_metadata(words: Any) -> Any:
    """torch's version of CUTLASS's reorder_meta: the place of each word, then a scatter."""
    from torch.sparse import _semi_structured_conversions as conversions

    places = conversions._calculate_meta_reordering_scatter_offsets(*words.shape, words.dtype, "cpu")
    return words.reshape(-1).new_zeros(len(places)).scatter_(0, places, words.reshape(-1))


def int4pack(words: Any) -> Any:
    """torch's compiled function, in the order of the instruction set that it has here."""
    import torch

    return torch.ops.aten._convert_weight_to_int4pack_for_cpu(words, 1)


def int4_cpu() -> list[Contest]:
    """torch's weights of 4 bits, where the catalogue knows the order of its instruction set."""
    import torch

    isa = {"AVX512": "avx512", "AVX2": "avx2", "DEFAULT": "default"}.get(torch.backends.cpu.get_cpu_capability())
    if isa is None:
        return []
    shape = gl.catalogue.torchao.int4_cpu(4096, 4096, isa=isa)
    return [Contest("torchao:int4_cpu", shape, int4pack, most=15, given="int32")]


def contests() -> list[Contest]:
    """The entries, at sizes of real layers."""
    return [
        Contest("cublas:block_scales", gl.catalogue.cublas.block_scales(4096, 128, dtype="u8"), to_blocked()),
        Contest("cublas:block_scales", gl.catalogue.cublas.block_scales(16384, 512, dtype="u8"), to_blocked()),
        Contest(
            "cutlass:sparse_metadata", gl.catalogue.cutlass.sparse_metadata(4096, 256, dtype="s16"), reorder_metadata
        ),
        *int4_cpu(),
    ]


def measured(rounds: int) -> dict[str, Any]:
    """Milliseconds of both sides."""
    import torch

    torch.set_num_threads(1)
    gl.use_threads(1)
    found = []
    for contest in contests():
        numbers = np.random.default_rng(0).integers(0, contest.most, contest.shape.dimensions, endpoint=True)
        values = numbers.astype(contest.shape.dtype)
        given = torch.from_numpy(numbers.astype(contest.given or values.dtype))
        sides = {"ours": lambda: gl.pack(values, contest.shape), "owner": lambda: contest.owner(given)}  # noqa: B023
        if sides["ours"]().tobytes() != sides["owner"]().numpy().tobytes():
            raise RuntimeError(f"{contest.entry}: the bytes differ")
        taken: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(rounds):
            for name, side in sides.items():
                begin = time.perf_counter()
                side()
                taken[name].append((time.perf_counter() - begin) * 1e3)
        found.append({"entry": contest.entry, "shape": str(contest.shape)})
        found[-1] |= {f"{name}_ms": statistics.median(each) for name, each in taken.items()}
    return {"machine": machine("numpy", False), "results": found}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.catalogue_side", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    found = measured(options.rounds)
    for each in found["results"]:
        ratio = each["owner_ms"] / each["ours_ms"]
        print(f"{each['entry']:26}{each['shape']:52}{each['ours_ms']:8.2f} ms{each['owner_ms']:9.2f} ms{ratio:7.1f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
