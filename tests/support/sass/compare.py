"""Expected speeds of moves with the kernels of one checkout or of two, before and after a change:

    python -m tests.support.sass.compare --only odd                    moves of benchmarks/numbers.py by words of names
    python -m tests.support.sass.compare BEFORE AFTER --only odd       with the kernels of two checkouts
    python -m tests.support.sass.compare --only odd --set WORD_BLOCKS=4      and with another number beside it
    python -m tests.support.sass.compare --move "u8[5,7,5000] {0,1,2}"       another move

Columns: instructions per element, as a device issues them; registers; resident blocks; KB of them under way at once;
cycles of a block alone, of a step from the end of a block to the next one's, and of the memory that a step takes; the
expected fraction of a plain copy's speed, and the one that an H100 measured with the kernels of that time; what binds.
Bytes are not compared.
"""

import argparse
import ast
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
RUNS = ("gpu-h100-first-numbers.json", "gpu-h100-second-numbers.json", "gpu-h100-numbers.json")
# The library and its list of moves are those of a checkout, the tools those of this one.
_CHILD = """
import sys
sys.path.insert(0, {root!r})
from tests.support.sass import compare
sys.path[0] = {tree!r}
print(compare.rows({options!r}))
"""
_HEAD = (
    f"{'move':26} {'kernels':12} {'kernel':13}  instr regs blocks  KB/SM   alone    step  memory  expect measured  "
    "binds"
)


def rows(options):
    """JSON: {move: its figures} with the library and the moves of the checkout that is imported."""
    from benchmarks import numbers

    gl, found = numbers.library(numbers.Variant("", (), options["set"])), {}
    moves = {name: move for name, move in numbers.MOVES.items() if any(word in name for word in options["only"])}
    moves |= {text: numbers.Move(*text.split(" ", 1)) for text in options["move"]}
    for name, (source, target, before) in moves.items():
        plan = gl.plan(source.replace("f", "u", 1) if source[0] == "f" else source, target)
        try:
            found[name] = _row(plan.move, before % 16, options)
        except Exception as error:  # the other moves are asked for too
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    return json.dumps(found)


def record_of(kernel, move, phase):
    """The launch of a kernel plan, with buffers of no content."""
    from gpulayout.gpu.kernel_source import kernel_text
    from tests.support.simt.record import Buffer, Record

    buffers = [
        Buffer(high - low, (phase + low) % 16, b"", writable, -low)
        for (low, high), writable in ((move.source_span, False), (move.target_span, True))
    ]
    arguments = (*buffers, kernel.parameters)
    return Record(kernel_text(kernel.file), dict(kernel.macros), kernel.kernel, kernel.grid, (256,), arguments)


def _row(move, phase, options):
    from gpulayout.gpu.choose_kernel import kernel_plan
    from gpulayout.gpu.devices import DEVICES
    from tests.support.sass.expected import executed, expected

    device, kernel = DEVICES[options["device"]], kernel_plan(move, phase, phase)
    elements = math.prod(axis.extent for axis in kernel.axes)
    launch = executed(record_of(kernel, move, phase), options["architecture"], options["blocks"])
    nbytes = sum(elements * width for width in kernel.in_memory)
    speed, resident = expected(launch, nbytes, device), launch.resident(device)
    return {
        "kernel": kernel.file,
        "instructions": launch.issued * 32 * launch.total / elements,
        "registers": launch.registers,
        "resident": resident,
        "under way": launch.in_flight * resident / 4,
        "alone": speed.alone,
        "step": speed.step,
        "memory": speed.memory,
        "fraction": speed.fraction,
        "binds": speed.binds,
    }


def _ask(tree, options):
    code = _CHILD.format(tree=str(tree), root=str(ROOT), options=options)
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=tree)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def measured():
    """{move: the fraction that an H100 measured last} of the library as it was."""
    found = {}
    for name in RUNS:
        for row in json.loads((ROOT / "benchmarks" / "results" / name).read_text(encoding="utf-8"))["rows"]:
            if row["variant"] == "as it is" and "fraction" in row:
                found[row["move"]] = row["fraction"]
    return found


def _line(name, which, row, known):
    if "error" in row:
        return f"{name:26} {which:12} {row['error'][:90]}"
    return (
        f"{name:26} {which:12} {row['kernel']:13} {row['instructions']:6.2f} {row['registers']:4} {row['resident']:6} "
        f"{row['under way']:6.0f} {row['alone']:7.0f} {row['step']:7.0f} {row['memory']:7.0f} {row['fraction']:7.3f} "
        f"{known:>8}  {row['binds']}"
    )


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.support.sass.compare", description=__doc__.split(":\n")[0])
    parser.add_argument("trees", nargs="*", type=pathlib.Path, default=[ROOT], help="checkouts, before and after")
    parser.add_argument("--only", nargs="+", default=[], help="moves whose name contains one of these; without: all")
    parser.add_argument("--move", nargs="+", default=[], help="other moves: 'u8[5,7,5] {0,1,2}'")
    parser.add_argument(
        "--set", nargs="+", default=[], help="numbers of kernel_numbers.py for one more row of each move"
    )
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--device", default="H100 SXM", help="a name of gpulayout/gpu/devices.py")
    parser.add_argument("--blocks", type=int, default=12, help="blocks that are executed")
    given = parser.parse_args()
    options = {
        "only": given.only or ([] if given.move else [""]),
        "move": given.move,
        "architecture": given.architecture,
        "device": given.device,
        "blocks": given.blocks,
    }
    numbers = {name: ast.literal_eval(value) for name, value in (each.split("=", 1) for each in given.set)}
    trees = [tree.resolve() for tree in given.trees]
    asked = [(f"{number} {tree.name}"[:12], tree, {}) for number, tree in enumerate(trees, 1)]
    asked += [("with --set", trees[-1], numbers)] if numbers else []
    found = {which: _ask(tree, options | {"set": changed}) for which, tree, changed in asked}
    known = measured()
    print(_HEAD)
    for name in dict.fromkeys(name for each in found.values() for name in each):
        for which, each in found.items():
            if name in each:
                print(_line(name, which, each[name], f"{known[name]:.3f}" if name in known else "-"))


if __name__ == "__main__":
    main()
