"""A model in shards, joined, stacked and cut: `python -m benchmarks.joined_models_side --folder FOLDER`, on Linux.

A made model of f16 with experts becomes one file.  In `joined`, q, k and v become one tensor, gate and up another, and
all experts of a layer are stacked.  In `half`, each is also cut to one of two shares, as for one of two GPUs.  `cp`
makes a plain copy of the same result.  The loops of torch and NumPy read what they need of each tensor and save all, as
people do.  Every file is on the disk when the time ends, and all results are compared.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.machine import machine
from benchmarks.model_files_side import compared, table, then_on_disk

HIDDEN, INNER, EXPERTS = 2048, 2560, 16
INDEX = "model.safetensors.index.json"
MADE = """
import json, numpy, pathlib, sys
from safetensors.numpy import save_file
folder, layers, hidden, inner, experts = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])
random, places = numpy.random.default_rng(0), {}
for layer in range(layers):
    shapes = {"self_attn.q_proj.weight": (hidden, hidden), "self_attn.o_proj.weight": (hidden, hidden)}
    shapes |= {f"self_attn.{name}_proj.weight": (hidden // 4, hidden) for name in "kv"}
    shapes |= {f"{name}_layernorm.weight": (hidden,) for name in ("input", "post_attention")}
    for expert in range(experts):
        for name in ("w1", "w3"):
            shapes[f"mlp.experts.{expert}.{name}.weight"] = inner, hidden
        shapes[f"mlp.experts.{expert}.w2.weight"] = hidden, inner
    file = f"model-{layer + 1:05}-of-{layers:05}.safetensors"
    tensors = {f"model.layers.{layer}.{name}": random.integers(0, 2**14, shape, numpy.uint16).view(numpy.float16)
               for name, shape in shapes.items()}
    save_file(tensors, folder / file)
    places |= dict.fromkeys(tensors, file)
(folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
"""
LOOP = """
import json, pathlib, sys
from safetensors import safe_open
{imports}
index, target, half = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "half"
files, new = {{}}, {{}}
places = json.loads(index.read_text())["weight_map"]

def read(name, dim=0, cut=half):
    file = places[name]
    if file not in files:
        files[file] = safe_open(index.parent / file, "{framework}").__enter__()
    if not cut:
        return files[file].get_tensor(name)
    part = files[file].get_slice(name)
    size = part.get_shape()[dim]
    return part[size // 2 :] if dim == 0 else part[:, size // 2 :]

for name in places:
    begin = name.split("self_attn.")[0].split("mlp.")[0]
    if name.endswith("q_proj.weight"):
        parts = [read(begin + f"self_attn.{{each}}_proj.weight") for each in "qkv"]
        new[begin + "self_attn.qkv_proj.weight"] = {join}(parts)
    elif name.endswith("o_proj.weight"):
        new[name] = read(name, 1)
    elif name.endswith("experts.0.w1.weight"):
        count = sum(each.startswith(begin + "mlp.experts.") and each.endswith("w1.weight") for each in places)
        expert = begin + "mlp.experts.{{}}.{{}}.weight"
        both = [{join}([read(expert.format(n, each)) for each in ("w1", "w3")]) for n in range(count)]
        new[begin + "mlp.experts.w13_weight"] = {stack}(both)
        new[begin + "mlp.experts.w2_weight"] = {stack}([read(expert.format(n, "w2"), 1) for n in range(count)])
    elif "layernorm" in name:
        new[name] = read(name, cut=False)
save_file({{name: {contiguous} for name, each in new.items()}}, target)
"""
LOOPS = {
    "torch loop": LOOP.format(
        imports="import torch\nfrom safetensors.torch import save_file",
        framework="pt",
        join="torch.cat",
        stack="torch.stack",
        contiguous="each.contiguous()",
    ),
    "numpy loop": LOOP.format(
        imports="import numpy\nfrom safetensors.numpy import save_file",
        framework="np",
        join="numpy.concatenate",
        stack="numpy.stack",
        contiguous="numpy.ascontiguousarray(each)",
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.joined_models_side", description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="on the disk to measure; 4 times the size")
    parser.add_argument("--layers", type=int, default=4, help="a shard for each; 4 are 2.1 GB")
    parser.add_argument("--memory", type=int, default=512, help="MiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    found = measured(options.folder, options.layers, options.memory, options.rounds)
    for task in found["tasks"]:
        print("\n".join([f"{task['task']}, {task['bytes']} bytes", "", *table(task), ""]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def rules(half: bool) -> list[str]:
    """The rules of a task."""
    rows, columns = ("; shard=1/2", "; shard=1/2 along=1") if half else ("", "")
    texts = [
        r"(.*)q_proj\.weight=join=\1q_proj.weight,\1k_proj.weight,\1v_proj.weight; along=0; "
        rf"name=\1qkv_proj.weight{rows}",
        r"(.*experts)\.(\d+)\.w1\.weight=join=\1.\2.w1.weight,\1.\2.w3.weight; along=0; "
        rf"stack=\1.w13_weight{rows}",
        rf"(.*experts)\.(\d+)\.w2\.weight=stack=\1.w2_weight{columns}",
    ]
    return texts + ([r".*o_proj\.weight=shard=1/2 along=1"] if half else [])


def measured(folder: pathlib.Path, layers: int, memory: int, rounds: int) -> dict[str, Any]:
    """Seconds and memory of every contender for both tasks."""
    old, target, same = folder / "benchmark-old", folder / "benchmark-out.safetensors", folder / "benchmark-same"
    old.mkdir()
    tasks = []
    try:
        sizes = [layers, HIDDEN, INNER, EXPERTS]
        subprocess.run([sys.executable, "-c", MADE, str(old), *map(str, sizes)], check=True)
        for task in ("joined", "half"):
            ours = [sys.executable, "-m", "gpulayout", "relayout", str(old / INDEX), str(target), "--quiet"]
            ours += [word for text in rules(task == "half") for word in ("--tensor", text)]
            subprocess.run(ours, check=True)
            target.replace(same)
            synced = then_on_disk(target)
            jobs = {"cp": [*synced, "cp", "--reflink=never", str(same), str(target)], "gpulayout": ours}
            jobs[f"gpulayout --memory {memory}M"] = [*ours, "--memory", f"{memory}M"]
            for name, text in LOOPS.items():
                jobs[name] = [*synced, sys.executable, "-c", text, str(old / INDEX), str(target), task]
            results = compared(jobs, [*sorted(old.iterdir()), same], target, rounds)
            tasks.append({"task": task, "bytes": same.stat().st_size, "results": results})
    finally:
        shutil.rmtree(old)
        same.unlink(missing_ok=True)
        target.unlink(missing_ok=True)
    return {"machine": machine("numpy", False), "memory_mib": memory, "tasks": tasks}


if __name__ == "__main__":
    main()
