"""Which of the kernels' numbers is best on this device: `python -m benchmarks.numbers --json FILE`, on a GPU.

A variant changes a number of `gpulayout/gpu/kernel_numbers.py`, or a line of a kernel, and makes the moves of the
kernels concerned.  Its bytes must be those of the library as it is.  The first two variants are the library as it is:
what lies between them is noise.  Nothing is written into the library.

Variants run in a process of their own, because a wrong kernel can take the device with it.  After such an end the
others run in a new process.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.machinery
import importlib.util
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.machine import machine_here
from gpulayout.choices.backends import gpu_problem
from gpulayout.gpu.kernel_numbers import FIXED_TILES, FULL_TILES

ROOT = pathlib.Path(__file__).resolve().parents[1]
NUMBERS = "gpulayout.gpu.kernel_numbers"
LEAD_BYTES = 1 << 28
SAMPLE_SECONDS, MOST_CALLS, ROUNDS = 4e-3, 50, 5
AS_IT_IS, AGAIN = "as it is", "as it is, again"
LOST = ("illegal", "misaligned", "launch failure", "unspecified")  # words of errors after which a device is lost


class Move(NamedTuple):
    """A relayout whose buffers begin `before` bytes after an aligned address."""

    source: str
    target: str
    before: int = 0


MOVES = {
    "copy": Move("u8[402653184]", "u8[402653184]"),
    "copy, shifted": Move("u8[402653183]", "u8[402653183]", 1),
    "rows f16, 256 bytes": Move("f16[8,4096,32,128]", "{3,1,2,0}"),
    "rows f32, 60 bytes": Move("f32[4096,1024,15]", "{2,0,1}"),
    "tile u8": Move("u8[32768,8192]", "{0,1}"),
    "tile f16": Move("f16[16384,8192]", "{0,1}"),
    "tile f32": Move("f32[8192,8192]", "{0,1}"),
    "tile f32, flat": Move("f32[32768,2048]", "{0,1}"),
    "tile f64": Move("f64[8192,4096]", "{0,1}"),
    "tile c128": Move("c128[4096,4096]", "{0,1}"),
    "odd u8": Move("u8[32749,8191]", "{0,1}"),
    "odd f16": Move("f16[16381,8209]", "{0,1}"),
    "odd f32": Move("f32[8191,8209]", "{0,1}"),
    "odd f64": Move("f64[8191,4099]", "{0,1}"),
    "five axes u8": Move("u8[63,65,67,9,101]", "{0,1,2,3,4}"),
    "eight axes u8": Move("u8[12,12,12,12,12,12,12,8]", "{0,1,2,3,4,5,6,7}"),
    "seven axes f32": Move("f32[9,15,15,15,15,15,9]", "{0,1,2,3,4,5,6}"),
    "3^16 f64": Move("f64[" + ",".join("3" * 16) + "]", "{" + ",".join(map(str, range(16))) + "}"),
    "5^12 u8": Move("u8[" + ",".join("5" * 12) + "]", "{" + ",".join(map(str, range(12))) + "}"),
    "short f16": Move("f16[65536,100,6]", "{0,1,2}"),
    "short f32": Move("f32[32,15,15,15,15,32]", "{0,1,2,3,4,5}"),
    "short f32, 16": Move("f32[16,16,16,16,16,16]", "{0,1,2,3,4,5}"),
    "short u8": Move("u8[64,60,60,20,64]", "{0,1,2,3,4}"),
    "tile f32, long": Move("f32[43408,1216]", "{0,1}"),
    "tile f32, wide": Move("f32[1216,43408]", "{0,1}"),
    "tile f32, flat one way": Move("f32[262144,256]", "{0,1}"),
    "tile f32, flat the other way": Move("f32[256,262144]", "{0,1}"),
    "tile f32, three axes": Move("f32[2320,59,384]", "{0,1,2}"),
    "tile f32, tiny": Move("f32[512,512]", "{0,1}"),
    "images f16": Move("f16[256,2048,49]", "{1,2,0}"),
    "channels f16": Move("f16[256,49,2048]", "{1,2,0}"),
    "drawn words u8": Move("u8[117,18,93,31,45]", "{0,4,3,1,2}"),
    "drawn words u16": Move("u16[33,195,36,49,33]", "{1,2,4,3,0}"),
    "drawn any u8": Move("u8[12,6,33,9,11,486,3]", "{5,4,1,0,3,6,2}"),
    "any f32, 17 wide": Move("f32[4000000,17]", "{0,1}"),
    "any u8, 17 wide": Move("u8[16000000,17]", "{0,1}"),
    "drawn any u32": Move("u32[63,33,15,11,16,18]", "{1,0,5,4,3,2}"),
    "drawn any u64": Move("u64[45,98,72,147]", "{0,1,3,2}"),
    "drawn boxes u16": Move("u16[4,195,51,21,162]", "{3,0,2,4,1}"),
    "drawn boxes u16, 8 axes": Move("u16[15,9,6,5,65,33,6,11]", "{6,7,0,3,5,4,2,1}"),
    "drawn boxes u32": Move("u32[45,22,195,27,15]", "{0,3,1,4,2}"),
    "drawn boxes u32, 7 axes": Move("u32[5,2,189,9,31,17,11]", "{5,1,6,0,3,4,2}"),
    "drawn boxes u64": Move("u64[65,5,11,21,216,3,2]", "{0,3,1,5,2,4,6}"),
    "drawn words u8, 7 axes": Move("u8[39,15,18,7,15,31,22]", "{3,4,2,0,6,5,1}"),
    "drawn words u8, 6 axes": Move("u8[33,21,15,102,12,26]", "{0,1,4,3,5,2}"),
    "pixels u8": Move("u8[64,1024,1024,3]", "{2,1,3,0}"),
    "pairs f32": Move("f32[33554432,2]", "{0,1}"),
    "packed u4": Move("u4[32768,16384]{1,0:E(4)}", "{0,1:E(4)}"),
    "packed u2": Move("u2[32768,32768]{1,0:E(2)}", "{0,1:E(2)}"),
    "packed u4, odd": Move("u4[16385,32771]{1,0:E(4)}", "{0,1:E(4)}"),
}
COPIES = ("copy", "rows f16, 256 bytes", "rows f32, 60 bytes")
TILES = tuple(name for name in MOVES if name.startswith("tile ") and "tiny" not in name)
STACKS = ("short f32", "short f32, 16", "short u8")
ANY = ("odd f32", "odd f64", "drawn any u8")
WORDS = ("odd u8", "odd f16", "drawn words u8", "drawn words u16")
ALIGNED = ("odd u8", "odd f16", "odd f32", "drawn words u16")  # their rows begin at sectors, by more than one tile
SMALL = (
    "any f32, 17 wide",
    "any u8, 17 wide",
    "images f16",
    "channels f16",
    "drawn any u8",
    "drawn any u32",
)
BOXES = (
    "short f16",
    "eight axes u8",
    "seven axes f32",
    "3^16 f64",
    *(name for name in MOVES if name.startswith("drawn boxes")),
)
WORD_BOXES = ("5^12 u8", "drawn words u8, 7 axes", "drawn words u8, 6 axes")


class Variant(NamedTuple):
    """A change, and the moves that it concerns.

    numbers   name in kernel_numbers.py -> its value
    text      (file in kernels/, what stands there once, what shall stand there)
    """

    name: str
    moves: tuple[str, ...]
    numbers: dict[str, Any] = {}
    text: tuple[str, str, str] | None = None


def _number(name: str, value: Any, moves: tuple[str, ...]) -> Variant:
    return Variant(f"{name} = {value}", moves, {name: value})


def _tile(width: int, along_a: int, along_b: int) -> Variant:
    kind = {2: "f16", 4: "f32", 8: "f64", 16: "c128"}[width]
    tiles = FIXED_TILES | {width: (along_a, along_b)}
    return Variant(f"FIXED_TILES[{width}] = {along_a} x {along_b}", (f"tile {kind}",), {"FIXED_TILES": tiles})


def _order(name: str, order: str) -> Variant:
    """Another order of blocks: `order` renumbers `rest` among the A x B tiles of a layer; as it is they run along b."""
    line = "  const gpl_uint above = gpl_divide(number, move.count[0]);\n"
    sizes = "B = move.count[0].value, A = move.count[1].value, layer = number / (A * B), rest = number % (A * B)"
    block = f"  {{\n    const gpl_uint {sizes};\n    {order}\n  }}\n"
    return Variant(name, TILES, text=("tile.cu", line, block + line))


def _hint(name: str, old: str, new: str) -> Variant:
    return Variant(name, ("copy", "tile f32", "odd f32"), text=("element.cuh", old, new))


_WORD = "typename GplWord<BYTES>::type*"
VARIANTS = (
    Variant(AS_IT_IS, tuple(MOVES)),
    Variant(AGAIN, tuple(MOVES)),
    *(_number("ITEMS", count, COPIES) for count in (1, 2, 8)),
    *(_number("SHIFTED_ITEMS", count, ("copy, shifted",)) for count in (1, 4)),
    *(_tile(*tile) for tile in ((2, 64, 128), (2, 64, 64), (2, 128, 128), (4, 32, 64), (4, 64, 32), (4, 64, 128))),
    *(_tile(*tile) for tile in ((8, 32, 32), (8, 64, 64), (16, 16, 64), (16, 32, 32))),
    _number("ANY_TILE_BYTES", 32768, ANY),  # 8192 reads at odd addresses
    Variant("FULL_TILES[4] = 32 x 64", ("odd f32",), {"FULL_TILES": FULL_TILES | {4: (32, 64)}}),
    _number("WORD_TILE_B", 64, ("odd f16",)),  # of 1 byte, a row of the target must have 128
    *(_number("BOX_STEPS", count, BOXES) for count in (2, 8)),
    _number("BOX_BLOCKS", 4, BOXES),  # of 64 registers
    _number("BOX_ALONG_TARGET", 1, BOXES),
    *(
        Variant(f"BOX_AHEAD = 0, BOX_BLOCKS = {n}", BOXES, {"BOX_AHEAD": 0, "BOX_BLOCKS": n}) for n in (4, 5)
    ),  # 6 spills
    *(_number("ALIGN", count, ALIGNED) for count in (4, 16)),
    _number("WORD_BLOCKS", 4, WORDS),
    *(_number("WORD_GROUP", count, WORDS) for count in (2, 8)),
    _number("ANY_WORDS", 8, SMALL),
    _number("WORD_LEAST_RUN", 64, ("five axes u8",)),
    *(Variant(f"ANY_BLOCKS = {n}", SMALL, {"ANY_BLOCKS": {1: n, 2: n, 4: n}}) for n in (4, 8)),
    _number("BOX_SHARED_BYTES", 16384, BOXES),
    _number("BOX_WORDS_MOST", 0, WORD_BOXES),
    _number("WORD_CUT", 0, WORD_BOXES[1:]),
    _number("FAR_BOXES", 0, (*BOXES[1:], *WORD_BOXES)),  # "short f16" has no boxes beside each other
    *(_number("WORD_BOXES", count, WORD_BOXES) for count in (1, 2, 4)),
    Variant("WORD_READS = 4", WORD_BOXES, {"WORD_READS": {1: 4, 2: 4}}),
    Variant("WORD_BOX_BLOCKS = 4, 64 bytes", WORD_BOXES, {"WORD_BOX_BLOCKS": 4, "WORD_READS": {1: 16, 2: 8}}),
    Variant("WORD_BOX_BLOCKS = 8", WORD_BOXES, {"WORD_BOX_BLOCKS": 8}),
    _number("TURN_WORDS", {1: 1, 2: 1, 4: 1}, ("packed u4", "packed u2")),
    _number("TURN_WORDS", {1: 1, 2: 2, 4: 2}, ("packed u4",)),
    _number("TURN_SKIP", 1, ("packed u4, odd",)),
    _number("TURN_ANY_WORDS", {1: 1, 2: 2, 4: 2}, ("packed u4, odd",)),
    Variant(
        "TURN_SKIP = 1, half the words", ("packed u4, odd",), {"TURN_SKIP": 1, "TURN_ANY_WORDS": {1: 1, 2: 1, 4: 2}}
    ),
    Variant("FIXED_TILES[4] = 32 x 32", ("tile f32", "short f32"), {"FIXED_TILES": FIXED_TILES | {4: (32, 32)}}),
    _number("LEAST_TILE_RUN", 1024, STACKS),  # no side is halved
    _number("FEW_BLOCKS", 0, ("tile f32, tiny",)),
    _number("MOST_PAGES", 1 << 32, ("tile f32, three axes",)),
    _number("FLAT_GRID", 8, ("tile f32, long", "tile f32, flat one way")),
    _order("blocks along a", "number = layer * (A * B) + rest % A * B + rest / A;"),
    _order(
        "blocks in groups of 8 along a",
        "const gpl_uint group = rest / (8 * B), inside = rest - group * 8 * B, high = min(A - group * 8, (gpl_uint)8); "
        "number = layer * (A * B) + (group * 8 + inside % high) * B + inside / high;",
    ),
    _hint("loads evict first", f"return *(const {_WORD})from;", f"return __ldcs((const {_WORD})from);"),
    _hint("stores evict first", f"*({_WORD})to = word;", f"__stcs(({_WORD})to, word);"),
)


class _Numbers(importlib.machinery.SourceFileLoader):
    """Imports `kernel_numbers.py` with other numbers; numbers that derive from them follow."""

    numbers: dict[str, Any] = {}

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name != NUMBERS:
            return None
        file = str(ROOT / "gpulayout" / "gpu" / "kernel_numbers.py")
        return importlib.util.spec_from_file_location(name, file, loader=cls(name, file))

    def get_code(self, fullname: str) -> Any:
        """The module's code, with an assignment behind the statement that sets each of `numbers`."""
        tree, left = ast.parse(pathlib.Path(self.path).read_text(encoding="utf-8")), dict(self.numbers)
        body: list[ast.stmt] = []
        for statement in tree.body:
            body.append(statement)
            set_here = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} & left.keys()
            if isinstance(statement, ast.Assign):
                body += [ast.parse(f"{name} = {left.pop(name)!r}").body[0] for name in set_here]
        if left:
            raise LookupError(f"kernel_numbers.py has no {', '.join(left)}")
        tree.body = body
        return compile(tree, self.path, "exec")


def library(variant: Variant, package: str = "gpulayout") -> Any:
    """gpulayout, of which a package was imported anew with the variant's change."""
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        del sys.modules[name]
    if _Numbers not in sys.meta_path:
        sys.meta_path.insert(0, _Numbers)
    _Numbers.numbers = variant.numbers
    gl = importlib.import_module("gpulayout")
    if variant.text:
        source = importlib.import_module("gpulayout.gpu.kernel_source")
        file, old, new = variant.text
        raw = source.raw_text
        if raw(file).count(old) != 1:
            raise LookupError(f"{file} does not hold this line once: {old.strip()}")
        source.raw_text = lambda name: raw(name).replace(old, new) if name == file else raw(name)
        source.kernel_text.cache_clear()
    return gl


def plan_of(gl: Any, name: str, quick: bool) -> Any:
    """The plan of a move; elements as unsigned integers, which every array library has."""
    source, target, _ = MOVES[name]
    if quick:
        source, target = _small(source), _small(target) if "[" in target else target
    return gl.plan(source.replace("f", "u", 1) if source[0] == "f" else source, target)


def _small(text: str) -> str:
    kind, sizes, layout = re.split(r"[\[\]]", text)
    numbers = [int(size) for size in sizes.split(",")]
    while math.prod(numbers) > 70_000:
        at = numbers.index(max(numbers))
        numbers[at] = -(-numbers[at] // 2)
    return f"{kind}[{','.join(map(str, numbers))}]{layout}"


class Bench:
    """A stream, CUDA events and buffers that take turns."""

    def __init__(self, quick: bool):
        import cupy

        self.cupy, self.quick = cupy, quick
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.lead = [cupy.ones(LEAD_BYTES >> (12 if quick else 0), cupy.uint8) for _ in range(2)]
        self.l2_bytes = cupy.cuda.runtime.getDeviceProperties(0)["l2CacheSize"]

    def row(self, gl: Any, name: str) -> dict[str, Any]:
        """Speed as a fraction of a plain copy of the same buffers, microseconds, and a checksum of the result."""
        from gpulayout.gpu.choose_kernel import kernel_plan  # the variant's, as `gl` is

        plan, before = plan_of(gl, name, self.quick), MOVES[name].before
        pairs = self._pairs(plan, before)
        plan(pairs[0][0], out=pairs[0][1])
        check = self._checksum(pairs[0][1])

        def ours(number: int) -> None:
            given, out = pairs[number % len(pairs)]
            plan(given, out=out)

        def copy(number: int) -> None:
            self._copy(*pairs[number % len(pairs)])

        calls = max(1, min(MOST_CALLS, int(SAMPLE_SECONDS / max(self._seconds(ours, 1), 1e-7))))
        rounds = [(self._seconds(ours, calls), self._seconds(copy, calls)) for _ in range(1 if self.quick else ROUNDS)]
        seconds, copied = (statistics.median(times) for times in zip(*rounds))
        file = kernel_plan(plan.move, before % 16, before % 16).file
        return {"fraction": round(copied / seconds, 4), "us": round(seconds * 1e6, 1), "file": file, "check": check}

    def _pairs(self, plan: Any, before: int) -> list[tuple[Any, Any]]:
        """So many inputs and outputs that the cache has dropped a pair before its next turn."""
        from benchmarks.peers.inputs import scrambled

        count, kind = max(1, -(-4 * self.l2_bytes // (2 * plan.source.nbytes))), plan.source.buffer_dtype
        found = []
        for seed in range(1 if self.quick else count):
            words = scrambled(self.cupy, -(-(before + plan.source.nbytes) // 4), seed)
            given = words.view(self.cupy.uint8)[before : before + plan.source.nbytes]
            out = self.cupy.full(before + plan.target.nbytes, 0xA5, self.cupy.uint8)[before:]
            found.append((given.view(kind), out.view(kind)))
        return found

    def _checksum(self, array: Any) -> int:
        words = array.view(self.cupy.uint8).astype(self.cupy.uint64)
        words *= self.cupy.arange(words.size, dtype=self.cupy.uint64) * self.cupy.uint64(2654435761) + self.cupy.uint64(
            1
        )
        return int(words.sum())

    def _copy(self, source: Any, target: Any) -> None:
        self.cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, 3, self.stream.ptr)

    def _seconds(self, call: Any, calls: int) -> float:
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        self.stream.synchronize()
        for _ in range(1 + calls // 3):  # the device stays behind the host
            self._copy(*self.lead)
        begin.record(self.stream)
        for number in range(calls):
            call(number)
        end.record(self.stream)
        end.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(begin, end)) / 1e3 / calls


def rows_of(variant: Variant, bench: Bench, known: dict[str, int], deadline: float) -> Iterator[dict[str, Any]]:
    """A row for each move of a variant; one with an error where it does not compile or the planner has no such tile."""
    gl = None
    for name in variant.moves:
        if time.time() > deadline:
            return
        row: dict[str, Any] = {"variant": variant.name, "move": name}
        try:
            gl = gl or library(variant)
            row |= bench.row(gl, name)
            row["right"] = known.setdefault(name, row["check"]) == row["check"]
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {first_line(error)[:160]}"
        yield row
        bench.cupy.get_default_memory_pool().free_all_blocks()


def first_line(error: Exception) -> str:
    """The first line of an error's text, with the names of files but not their folders, which may be temporary."""
    return re.sub(r"(?<!\S)/\S*/", "", (str(error).strip().splitlines() or [""])[0])


def worker(file: pathlib.Path, wanted: list[str], known: dict[str, int], deadline: float, quick: bool) -> int:
    """Runs variants in this process.  Lines of JSON: one where a variant begins, one for each of its moves."""
    if problem := gpu_problem():
        sys.exit(f"no benchmark on the GPU: {problem}")
    bench = Bench(quick)
    with file.open("a", encoding="utf-8") as lines:
        for variant in (variant for variant in VARIANTS if variant.name in wanted):
            if time.time() > deadline:
                return 0
            print(json.dumps({"begin": variant.name}), file=lines, flush=True)
            for row in rows_of(variant, bench, known, deadline):
                print(json.dumps(row), file=lines, flush=True)
                if any(word in row.get("error", "").lower() for word in LOST):
                    return 3
    return 0


def measure(wanted: list[str], seconds: float, quick: bool) -> list[dict[str, Any]]:
    """The rows of these variants, from as many processes as it takes."""
    deadline, ended = time.time() + seconds, []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "rows")
        file.touch()
        while True:
            lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            rows, begun = (
                [line for line in lines if "move" in line],
                [line["begin"] for line in lines if "begin" in line],
            )
            known = {row["move"]: row["check"] for row in rows if row["variant"] == AS_IT_IS and "check" in row}
            job = {"file": str(file), "wanted": [name for name in wanted if name not in begun], "known": known}
            if not job["wanted"] or time.time() > deadline:
                return rows + ended
            command = [sys.executable, "-m", "benchmarks.numbers", "--worker", json.dumps(job | {"deadline": deadline})]
            command += ["--quick"] * quick
            try:
                status = subprocess.run(command, timeout=max(5, deadline + 8 - time.time()), cwd=ROOT).returncode
            except subprocess.TimeoutExpired:
                status = 124
            last = _last_begun(file)
            if status and last == (begun[-1] if begun else None):  # it did not even begin: the next would not either
                return [*rows, *ended, {"variant": "all", "move": "-", "error": f"a process ended with {status}"}]
            if status:
                ended.append({"variant": last, "move": "-", "error": f"the process ended with {status}"})


def _last_begun(file: pathlib.Path) -> str | None:
    begun = [line for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()) if "begin" in line]
    return begun[-1]["begin"] if begun else None


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The library as it is, twice; then the changes: wrong bytes and errors first, then the best."""
    plain, again = (
        {row["move"]: row for row in rows if row["variant"] == name and "fraction" in row} for name in (AS_IT_IS, AGAIN)
    )
    lines = [f"{AS_IT_IS:32} {'kernel':16} fraction of copy, twice"]
    for name, row in plain.items():
        second = f" {again[name]['fraction']:.3f}" if name in again else ""
        lines.append(f"{name:32} {row['file']:16} {row['fraction']:.3f}{second}")
    changes = []
    for row in rows:
        base, text = plain.get(row["move"]), f"{row['variant']:34} {row['move']:22}"
        if "error" in row or (base and not row["right"]):
            changes.append((math.inf, f"{text} {row.get('error', 'WRONG BYTES')[:70]}"))
        elif base and row["variant"] not in (AS_IT_IS, AGAIN):
            gain = row["fraction"] / base["fraction"] - 1
            changes.append((gain, f"{text} {row['fraction']:.3f} {gain:+.1%}"))
    return [*lines, "", *(text for _, text in sorted(changes, key=lambda change: -change[0]))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.numbers", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument("--only", default="", metavar="TEXT", help="variants whose name contains this")
    parser.add_argument("--seconds", type=float, default=150, help="begin no move after this time")
    parser.add_argument("--quick", action="store_true", help="tiny arrays: shows that everything runs")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        job = json.loads(options.worker)
        return worker(pathlib.Path(job["file"]), job["wanted"], job["known"], job["deadline"], options.quick)
    text = options.only.casefold()
    chosen = [variant.name for variant in VARIANTS if text in variant.name.casefold()]
    if not chosen:
        parser.error(f"--only {options.only!r} is in no variant's name: {', '.join(one.name for one in VARIANTS)}")
    wanted = list(dict.fromkeys([AS_IT_IS, *chosen]))
    rows = measure(wanted, options.seconds, options.quick)
    lines, ran = table(rows), {row["variant"] for row in rows if "fraction" in row}
    if options.json:
        found = {"machine": machine_here(), "quick": options.quick, "rows": rows, "table": lines}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(lines))
    wrong = {row["variant"] for row in rows if "error" in row or not row.get("right", True)}
    print(f"{len(ran)} of {len(wanted)} variants; {len(wrong)} wrong or ended by an error")
    return 0 if AS_IT_IS in ran and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
