"""New weights into a served model: `python -m benchmarks.reload_side`, on a CPU or, with `--device cuda`, on a GPU.

A model's tensors lie in the layouts of their kernels.  A checkpoint's tensors become their new weights: by
`gl.torch.copy_`, whole, expert by expert, as gate and up, and as one rank's part; by `gl.torch.pack_` and `unpack_` in
place; and as engines do it by hand: restore the checkpoint's parameter, load, process again, copy.  Beside them stand
`gl.pack` into existing memory, which is the goal, and torch's plain copy of as many bytes.

Every way is checked first: the bytes must be those of `gl.pack`.  Then all take turns, and the median counts.  Memory
is what the process, or torch on the GPU, takes at most while a way runs, above what it had before.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import gpulayout as gl
from benchmarks.cases.reload import RELOAD_CASES, ReloadCase, quick
from benchmarks.in_place_side import MIB, resident_peak
from benchmarks.machine import machine
from benchmarks.peers import owners_by_hand
from gpulayout.cpu.threads import thread_count

DTYPES = {"s32": torch.int32, "u8": torch.uint8, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
GOAL = 0.8  # of the speed of gl.pack into existing memory
Ways = dict[str, Callable[[], object]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reload_side", description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="small tensors: a test, no figures")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=thread_count(), help="on a CPU, of torch too")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    cases = [case for case in RELOAD_CASES if options.only.lower() in case.name.lower()]
    found = measured([quick(case) if options.quick else case for case in cases], options)
    print("\n".join(["", *table(found), "", *memory_table(found)]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(cases: Sequence[ReloadCase], options: argparse.Namespace) -> dict[str, Any]:
    """Seconds and memory of every way, for every case."""
    device, threads_before, results = torch.device(options.device), torch.get_num_threads(), []
    torch.set_num_threads(options.threads)
    try:
        with gl.use_threads(options.threads):
            about = machine("numpy" if device.type == "cpu" else "cupy", peers=True)
            for case in cases:
                print(f"{case.name}: {case.layout}", flush=True)
                results.append(_Reload(case, device).measured(options.rounds))
    finally:
        torch.set_num_threads(threads_before)
    return {"machine": about, "device": options.device, "quick": options.quick, "results": results}


class _Reload:
    """A checkpoint's tensor, and the packed one that it goes to."""

    def __init__(self, case: ReloadCase, device: torch.device):
        self.case, self.device = case, device
        source = gl.parse_shape(case.words if case.source else case.layout)
        bits = torch.randint(0, 256, (source.nbytes,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        self.plain = bits.view(DTYPES[case.dtype]).reshape(_checkpoint_sizes(case)).to(device)
        self.packed = gl.torch.empty_packed(case.layout, like=self.plain, source=case.source or None)
        self.in_place, self.kernels = self.plain.clone(), _bytes(self.plain).clone()
        self.out = torch.empty_like(self.plain.flatten() if not case.source else _bytes(self.plain))
        self.wanted = _bytes(self._into_out()).clone()

    def ways(self) -> Ways:
        """Every way to the new weights; after each but `unpack_` they lie as the owner has them."""
        case, plain, packed = self.case, self.plain, self.packed
        given, copied = _bytes(plain), _bytes(plain).clone()
        ways: Ways = {"plain copy": lambda: copied.copy_(given), "pack, out=": self._into_out}
        ways["copy_"] = lambda: gl.torch.copy_(packed, plain)
        if len(case.sizes) == 3:
            ways["copy_, experts"] = _boxes(packed, plain, case, 0, case.sizes[0])
        if case.cut >= 0:
            ways["copy_, halves"] = _boxes(packed, plain, case, case.cut, 2)
            wide = torch.cat([plain, plain], case.cut)
            part = wide.narrow(case.cut, plain.shape[case.cut], plain.shape[case.cut])
            ways["copy_, a rank's part"] = lambda: gl.torch.copy_(packed, part)
        ways["pack_"] = lambda: gl.torch.pack_(self.in_place, case.layout, source=case.source or None)
        ways["unpack_"] = lambda: gl.torch.unpack_(self.in_place)
        ways["by hand"] = self._by_hand
        return ways

    def _into_out(self) -> torch.Tensor:
        if self.case.source:
            gl.relayout(_bytes(self.plain), self.case.words, self.case.layout, out=self.out)
        else:
            gl.pack(self.plain, self.case.layout, out=self.out)
        return self.out

    def _by_hand(self) -> torch.Tensor:
        """Restore the parameter that the checkpoint has, load it, process it, and keep the kernel's address."""
        restored = torch.empty_like(self.plain)
        restored.copy_(self.plain)
        function, *rest = self.case.by_hand
        processed = getattr(owners_by_hand, function)(restored, *rest)
        return self.kernels.copy_(_bytes(processed))

    def measured(self, rounds: int) -> dict[str, Any]:
        """The record of a case."""
        ways = self.ways()
        peaks = dict(self._checked(ways))
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                seconds[name].append(self._seconds(way))
        medians = {name: statistics.median(each) for name, each in seconds.items()}
        return {
            "name": self.case.name,
            "source": self.case.source and self.case.words,
            "layout": self.case.layout,
            "bytes": len(self.wanted),
            "seconds": medians,
            "all_seconds": seconds,
            "of_pack": {name: medians["pack, out="] / each for name, each in medians.items() if "copy_" in name},
            "times_by_hand": medians["by hand"] / medians["copy_"],
            "peak_bytes": peaks,
        }

    def _checked(self, ways: Ways) -> Iterator[tuple[str, int | None]]:
        """(name, memory) of each way, once its bytes are the right ones."""
        others = torch.zeros_like(self.plain)
        holds = {"copy_": self.packed, "pack_": self.in_place, "unpack_": self.in_place, "by hand": self.kernels}
        for name, way in ways.items():
            holder = holds.get(name.partition(",")[0], self.out)
            if holder is self.packed:
                gl.torch.copy_(self.packed, others)
            yield name, self._peak(way)
            wanted = _bytes(self.plain) if name == "unpack_" else self.wanted
            if not torch.equal(_bytes(holder), wanted):
                raise RuntimeError(f"{self.case.name}: {name} gives wrong bytes")
        if not torch.equal(_bytes(gl.torch.read(self.packed)), _bytes(self.plain)):
            raise RuntimeError(f"{self.case.name}: what was read is not what was written")

    def _peak(self, way: Callable[[], object]) -> int | None:
        if self.device.type == "cpu":
            return resident_peak(way)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        way()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    def _seconds(self, way: Callable[[], object]) -> float:
        """Wall time, with all that the device has to do."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        way()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin


def _checkpoint_sizes(case: ReloadCase) -> tuple[int, ...]:
    """The sizes of the checkpoint's tensor: 8 elements of 4 bits in a word, along K of GPTQ and along N of AWQ."""
    if not case.source:
        return case.sizes
    *front, rows, columns = case.sizes
    return (*front, rows // 8, columns) if case.source.startswith("gptq") else (*front, rows, columns // 8)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor as bytes, whatever it means."""
    begin, size = tensor.storage_offset() * tensor.element_size(), tensor.numel() * tensor.element_size()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage(), begin, (size,))


def _boxes(packed: torch.Tensor, plain: torch.Tensor, case: ReloadCase, axis: int, count: int) -> Callable[[], None]:
    """Equal parts of an axis, each from a tensor of its own."""
    parts = [part.clone() for part in plain.chunk(count, axis)]
    step = case.sizes[axis] // count
    whole = [slice(0, size) for size in case.sizes]
    boxes = [(*whole[:axis], slice(n * step, (n + 1) * step), *whole[axis + 1 :]) for n in range(count)]

    def copy() -> None:
        for box, part in zip(boxes, parts):
            gl.torch.copy_(packed, part, at=box)

    return copy


def table(found: dict[str, Any]) -> list[str]:
    """A line for each case: milliseconds, and what `copy_` reaches of the goal; then the sums of what all have."""
    results = found["results"]
    names = list(dict.fromkeys(name for each in results for name in each["seconds"]))
    lines = ["| ms | MiB | " + " | ".join(names) + " | of pack | by hand over copy_ |", "|" + "---|" * (len(names) + 4)]
    for each in results:
        reached = ", ".join(f"{part:.2f}" if part >= GOAL else f"**{part:.2f}**" for part in each["of_pack"].values())
        lines.append(_line(each["name"], each["bytes"], each["seconds"], names, reached))
    in_all = [name for name in names if all(name in each["seconds"] for each in results)]
    sums = {name: sum(each["seconds"][name] for each in results) for name in in_all}
    return [*lines, _line("together", sum(each["bytes"] for each in results), sums, names, "")]


def _line(title: str, size: int, seconds: dict[str, float], names: list[str], reached: str) -> str:
    taken = " | ".join(f"{seconds[name] * 1e3:.1f}" if name in seconds else "" for name in names)
    times = seconds["by hand"] / seconds["copy_"]
    return f"| {title} | {size / MIB:.0f} | {taken} | {reached} | {times:.1f} |"


def memory_table(found: dict[str, Any]) -> list[str]:
    """A line for each case: the most memory that each way takes beside the tensors."""
    names = list(dict.fromkeys(name for each in found["results"] for name in each["peak_bytes"]))
    lines = ["| MiB beside the tensors | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 1)]
    for each in found["results"]:
        peaks = [each["peak_bytes"].get(name) for name in names]
        lines.append(f"| {each['name']} | " + " | ".join("" if n is None else f"{n / MIB:.1f}" for n in peaks) + " |")
    return lines


if __name__ == "__main__":
    main()
