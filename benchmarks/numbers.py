"""Which of the kernels' numbers is best on this device: `python -m benchmarks.numbers --json FILE`, on a GPU.

A variant changes a number of `gpulayout/gpu/kernel_numbers.py`, or a line of a kernel, and moves the arrays of the
kernels concerned.  Its result must be that of the library as it is.  The first two variants are the library as it
is: what lies between them is noise.  Nothing is written into the library.

A variant can end the process, because a wrong kernel takes the device with it.  The others then run in a new one.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
NUMBERS = "gpulayout.gpu.kernel_numbers"
LEAD_BYTES = 1 << 28
SAMPLE_SECONDS, ROUNDS = 4e-3, 5

# name -> source, target, bytes before the buffers begin
MOVES = {
    "copy": ("u8[402653184]", "u8[402653184]", 0),
    "copy, shifted": ("u8[402653183]", "u8[402653183]", 1),
    "rows f16, 256 bytes": ("f16[8,4096,32,128]", "{3,1,2,0}", 0),
    "rows f32, 60 bytes": ("f32[4096,1024,15]", "{2,0,1}", 0),
    "tile u8": ("u8[32768,8192]", "{0,1}", 0),
    "tile f16": ("f16[16384,8192]", "{0,1}", 0),
    "tile f32": ("f32[8192,8192]", "{0,1}", 0),
    "tile f32, flat": ("f32[32768,2048]", "{0,1}", 0),
    "tile f64": ("f64[8192,4096]", "{0,1}", 0),
    "tile c128": ("c128[4096,4096]", "{0,1}", 0),
    "odd u8": ("u8[32749,8191]", "{0,1}", 0),
    "odd f16": ("f16[16381,8209]", "{0,1}", 0),
    "odd f32": ("f32[8191,8209]", "{0,1}", 0),
    "odd f64": ("f64[8191,4099]", "{0,1}", 0),
    "six axes f32": ("f32[32,15,15,15,15,32]", "{0,1,2,3,4,5}", 0),
    "3^16 f64": ("f64[" + ",".join("3" * 16) + "]", "{" + ",".join(map(str, range(16))) + "}", 0),
    "odd axes u8": ("u8[63,65,67,9,101]", "{0,1,2,3,4}", 0),
    "pixels u8": ("u8[64,1024,1024,3]", "{2,1,3,0}", 0),
    "pairs f32": ("f32[33554432,2]", "{0,1}", 0),
}

_FETCH = (
    "element.cuh",
    "return *(const typename GplWord<BYTES>::type*)from;",
    "return {}((const typename GplWord<BYTES>::type*)from);",
)
_PUT = (
    "element.cuh",
    "*(typename GplWord<BYTES>::type*)to = word;",
    "{}((typename GplWord<BYTES>::type*)to, word);",
)
_ABOVE = ("tile.cu", "  const gpl_uint above = gpl_divide(number, move.count[0]);\n")
_ALONG_A = """  {
    const gpl_uint B = move.count[0].value, A = move.count[1].value, layer = number / (A * B), rest = number % (A * B);
    number = layer * (A * B) + rest % A * B + rest / A;
  }
"""
_GROUPS = """  {
    const gpl_uint B = move.count[0].value, A = move.count[1].value, layer = number / (A * B), rest = number % (A * B);
    const gpl_uint group = rest / (8 * B), high = A - group * 8 < 8 ? A - group * 8 : 8, inside = rest - group * 8 * B;
    number = layer * (A * B) + (group * 8 + inside % high) * B + inside / high;
  }
"""


class Variant(NamedTuple):
    """A change, and the moves that it concerns.

    numbers   name -> the right side of its line in kernel_numbers.py
    text      (file, what stands there, what shall stand there)
    """

    name: str
    moves: tuple[str, ...]
    numbers: dict[str, str] = {}
    text: tuple[str, str, str] | None = None


def _fixed(width: int, along_a: int, along_b: int) -> Variant:
    tiles = {1: (128, 128), 2: (64, 64), 4: (64, 64), 8: (32, 64), 16: (16, 32)} | {width: (along_a, along_b)}
    kind = {1: "u8", 2: "f16", 4: "f32", 8: "f64", 16: "c128"}[width]
    return Variant(f"FIXED_TILES[{width}] = {along_a} x {along_b}", (f"tile {kind}",), {"FIXED_TILES": repr(tiles)})


TILES = ("tile u8", "tile f16", "tile f32", "tile f32, flat", "tile f64", "tile c128")
ODD = ("odd u8", "odd f16", "odd f32", "odd f64")
ALL = tuple(MOVES)
VARIANTS = [
    Variant("as it is", ALL),
    Variant("as it is, again", ALL),
    *(
        Variant(f"ITEMS = {n}", ("copy", "rows f16, 256 bytes", "rows f32, 60 bytes"), {"ITEMS": str(n)})
        for n in (1, 2, 8)
    ),
    *(Variant(f"SHIFTED_ITEMS = {n}", ("copy, shifted",), {"SHIFTED_ITEMS": str(n)}) for n in (1, 4)),
    *(_fixed(*tile) for tile in ((2, 64, 128), (2, 128, 64), (2, 128, 128), (4, 32, 64), (4, 64, 32), (4, 64, 128))),
    *(_fixed(*tile) for tile in ((8, 32, 32), (8, 64, 64), (16, 16, 64), (16, 32, 32))),
    Variant("ANY_TILE_BYTES = 32768", ODD, {"ANY_TILE_BYTES": "32768"}),  # 8192 reads at odd addresses
    Variant(
        "FULL_TILES of 4 bytes = 32 x 64", ("odd f32",), {"FULL_TILES": "{4: (32, 64), 8: (32, 64), 16: (16, 64)}"}
    ),
    Variant("WORD_TILE_B = 64", ("odd u8", "odd f16"), {"WORD_TILE_B": "64"}),
    *(
        Variant(
            f"BOX_STEPS = {n}", ("six axes f32", "3^16 f64", "odd axes u8"), {"BOX_FACTORS, BOX_STEPS": f"128, {n}"}
        )
        for n in (2, 8)
    ),
    Variant("blocks along a", TILES, text=(_ABOVE[0], _ABOVE[1], _ALONG_A + _ABOVE[1])),
    Variant("blocks in groups of 8 along a", TILES, text=(_ABOVE[0], _ABOVE[1], _GROUPS + _ABOVE[1])),
    Variant("loads evict first", ("copy", "tile f32", "odd f32"), text=(*_FETCH[:2], _FETCH[2].format("__ldcs"))),
    Variant("stores evict first", ("copy", "tile f32", "odd f32"), text=(*_PUT[:2], _PUT[2].format("__stcs"))),
]


class _Numbers(importlib.machinery.SourceFileLoader):
    """`kernel_numbers.py` with other numbers, found before the real one."""

    numbers: dict[str, str] = {}

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name != NUMBERS:
            return None
        file = str(ROOT / "gpulayout" / "gpu" / "kernel_numbers.py")
        return importlib.util.spec_from_file_location(name, file, loader=cls(name, file))

    def get_code(self, fullname: str) -> Any:
        lines = pathlib.Path(self.path).read_text(encoding="utf-8").splitlines()
        for name, value in self.numbers.items():
            (place,) = (
                i
                for i, line in enumerate(lines)
                if line.startswith(f"{name}") and line[len(name) :].startswith((" =", ", "))
            )
            rest = lines[place].partition(" = ")[0][len(name) :]
            said = lines[place].partition(" = ")[2]
            more = said.split(", ")[value.count(",") + 1 :] if rest else []
            lines[place] = f"{name}{rest} = {', '.join([value, *more])}"
        return compile("\n".join(lines), self.path, "exec")


def library(variant: Variant) -> Any:
    """gpulayout imported anew, with the variant's change."""
    for name in [name for name in sys.modules if name.split(".")[0] == "gpulayout"]:
        del sys.modules[name]
    _Numbers.numbers = variant.numbers
    gl = importlib.import_module("gpulayout")
    if variant.text:
        source = importlib.import_module("gpulayout.gpu.kernel_source")
        file, old, new = variant.text
        raw = source.raw_text
        assert raw(file).count(old) == 1, f"{file} has changed: {old}"
        source.raw_text = lambda name: raw(name).replace(old, new) if name == file else raw(name)
        source.kernel_text.cache_clear()
    return gl


class Bench:
    """Buffers, a stream and CUDA events."""

    def __init__(self, quick: bool):
        import cupy

        self.cupy, self.quick = cupy, quick
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.lead = [cupy.ones(LEAD_BYTES >> (12 if quick else 0), cupy.uint8) for _ in range(2)]
        self.l2 = cupy.cuda.runtime.getDeviceProperties(0)["l2CacheSize"]

    def random(self, nbytes: int, seed: int) -> Any:
        words = self.cupy.arange(-(-nbytes // 4), dtype=self.cupy.uint32)
        words += self.cupy.uint32(seed)
        words *= self.cupy.uint32(2654435761)
        words ^= words >> self.cupy.uint32(15)
        return words.view(self.cupy.uint8)[:nbytes]

    def copy(self, source: Any, target: Any) -> None:
        self.cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, 3, self.stream.ptr)

    def seconds(self, call: Any, calls: int) -> float:
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        self.stream.synchronize()
        for _ in range(1 + calls // 3):  # the device stays behind the host
            self.copy(*self.lead)
        begin.record(self.stream)
        for i in range(calls):
            call(i)
        end.record(self.stream)
        end.synchronize()
        return self.cupy.cuda.get_elapsed_time(begin, end) / 1e3 / calls

    def fractions(self, gl: Any, name: str) -> tuple[float, float, int, str]:
        """(fraction of a copy, seconds, checksum of the result, the kernel's file)"""
        source, target, before = MOVES[name]
        if self.quick:
            source, target = _small(source), _small(target) if "[" in target else target
        plan = gl.plan(source, target)
        nbytes, wide = plan.source.nbytes, plan.source.itemsize
        count = max(1, -(-4 * self.l2 // (2 * nbytes)))
        pairs = []
        for seed in range(count):
            given, out = (
                self.random(before + nbytes, seed),
                self.cupy.full(before + plan.target.nbytes, 0xA5, self.cupy.uint8),
            )
            kind = f"u{wide}" if wide <= 8 else "c16"
            pairs.append(
                (
                    given[before:].view(kind) if wide > 1 else given[before:],
                    out[before:].view(kind) if wide > 1 else out[before:],
                )
            )
        plan = gl.plan(source.replace("f16", "u16").replace("f32", "u32").replace("f64", "u64"), target)
        plan(pairs[0][0], out=pairs[0][1])
        words = pairs[0][1].view(self.cupy.uint8).astype(self.cupy.uint64)
        check = int((words * (self.cupy.arange(words.size, dtype=self.cupy.uint64) * 2654435761 + 1)).sum())
        del words
        ours = lambda i: plan(pairs[i % count][0], out=pairs[i % count][1])  # noqa: E731
        plain = lambda i: self.copy(*pairs[i % count])  # noqa: E731
        calls = max(1, min(50, int(SAMPLE_SECONDS / max(self.seconds(ours, 1), 1e-7))))
        rounds = [(self.seconds(ours, calls), self.seconds(plain, calls)) for _ in range(1 if self.quick else ROUNDS)]
        seconds, copied = (statistics.median(times) for times in zip(*rounds))
        from gpulayout.gpu.choose_kernel import kernel_plan

        file = kernel_plan(plan.move, before % 16, before % 16).file
        return copied / seconds, seconds, check, file


def _small(text: str) -> str:
    kind, _, sizes = text.rstrip("]").partition("[")
    numbers = [int(size) for size in sizes.split(",")]
    while len(numbers) < 16 and math.prod(numbers) > 300_000:
        at = numbers.index(max(numbers))
        numbers[at] = -(-numbers[at] // 2)
    return f"{kind}[{','.join(map(str, numbers))}]"


def worker(wanted: list[str], file: pathlib.Path, quick: bool, deadline: float, known: dict[str, int]) -> None:
    """Runs variants in this process; a line of JSON for each variant and move."""
    sys.meta_path.insert(0, _Numbers)
    bench = Bench(quick)
    with file.open("a", encoding="utf-8") as lines:
        for variant in (each for each in VARIANTS if each.name in wanted):
            if time.time() > deadline:
                return
            print(json.dumps({"begin": variant.name}), file=lines, flush=True)
            for name in variant.moves:
                if time.time() > deadline:
                    return
                row: dict[str, Any] = {"variant": variant.name, "move": name}
                try:
                    if name == variant.moves[0]:
                        gl = library(variant)
                    fraction, seconds, check, kernel = bench.fractions(gl, name)
                    right = known.setdefault(name, check) == check
                    row |= {
                        "fraction": round(fraction, 4),
                        "us": round(seconds * 1e6, 1),
                        "file": kernel,
                        "right": right,
                        "check": check,
                    }
                except Exception as error:  # it does not compile, or the planner has no tile of that size
                    row["error"] = (
                        f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160] if str(error) else ''}"
                    )
                    if (
                        "illegal" in str(error).lower()
                        or "misaligned" in str(error).lower()
                        or "launch failure" in str(error).lower()
                    ):
                        print(json.dumps(row), file=lines, flush=True)
                        sys.exit(3)  # the context is lost
                print(json.dumps(row), file=lines, flush=True)
                bench.cupy.get_default_memory_pool().free_all_blocks()


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Best change first; both runs of the library as it is give the noise."""
    plain = {row["move"]: row for row in rows if row.get("variant") == "as it is" and "fraction" in row}
    again = {row["move"]: row for row in rows if row.get("variant") == "as it is, again" and "fraction" in row}
    lines = [f"{'as it is':32} {'kernel':16} fraction of copy, twice"]
    for name, row in plain.items():
        lines.append(
            f"{name:32} {row['file']:16} {row['fraction']:.3f} {again[name]['fraction']:.3f}"
            if name in again
            else f"{name:32} {row['file']:16} {row['fraction']:.3f}"
        )
    found = []
    for row in rows:
        if "variant" not in row or row["variant"].startswith("as it is"):
            continue
        base = plain.get(row["move"])
        text = f"{row['variant']:34} {row['move']:22}"
        if "error" in row or not base:
            found.append((9.0, f"{text} {row.get('error', 'no base')[:60]}"))
        else:
            gain = row["fraction"] / base["fraction"] - 1
            found.append(
                (
                    -gain if row["right"] else 8.0,
                    f"{text} {row['fraction']:.3f} {gain:+.1%}{'' if row['right'] else '  WRONG BYTES'}",
                )
            )
    return lines + [""] + [text for _, text in sorted(found, key=lambda one: one[0])]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.numbers", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="variants whose name contains this")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--quick", action="store_true", help="tiny arrays: shows that everything runs")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser


def main() -> int:
    options = _parser().parse_args()
    lines = options.json.with_suffix(".lines")
    if options.worker:
        given = json.loads(options.worker)
        worker(given["wanted"], lines, options.quick, given["deadline"], given["known"])
        return 0
    lines.unlink(missing_ok=True)
    wanted = [
        each.name for each in VARIANTS if options.only.lower() in each.name.lower() or each.name.startswith("as it is")
    ]
    deadline, rows, known = time.time() + options.seconds, [], {}
    while wanted and time.time() < deadline:
        job = json.dumps({"wanted": wanted, "deadline": deadline, "known": known})
        command = [sys.executable, "-m", "benchmarks.numbers", "--json", str(options.json), "--worker", job] + [
            "--quick"
        ] * options.quick
        try:
            done = subprocess.run(command, timeout=max(5, deadline + 8 - time.time()), cwd=ROOT).returncode
        except subprocess.TimeoutExpired:
            done = 124
        rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()] if lines.exists() else []
        begun = [row["begin"] for row in rows if "begin" in row]
        known = {row["move"]: row["check"] for row in rows if row.get("variant") == "as it is" and "check" in row}
        if not begun or done == 0 or time.time() > deadline:
            break
        rows.append({"variant": begun[-1], "move": "(the process ended)", "error": f"exit status {done}"})
        with lines.open("a", encoding="utf-8") as file:
            print(json.dumps(rows[-1]), file=file)
        wanted = [name for name in wanted if name not in begun]
    found = [row for row in rows if "variant" in row]
    shown = table(found)
    options.json.write_text(
        json.dumps({"quick": options.quick, "rows": found, "table": shown}, indent=1) + "\n", encoding="utf-8"
    )
    lines.unlink(missing_ok=True)
    print("\n".join(shown))
    print(f"{len({row['variant'] for row in found})} of {len(VARIANTS)} variants")
    measured = [row for row in found if "fraction" in row]
    return 0 if measured and all(row["right"] for row in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
