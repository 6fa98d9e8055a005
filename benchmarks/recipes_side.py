"""Whole checkpoints by recipes: `python -m benchmarks.recipes_side --folder FOLDER`, on Linux.

Made models of about 2 GB, each a folder with shards and a config: GPTQ of 4 bits to Marlin, Llama in bf16 to a file for
each of two ranks and back, FP8 in blocks to bf16 and back.  `cp` makes a plain copy of the result.  Every file is on
the disk when the time ends.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.machine import machine
from benchmarks.model_files_side import compared, remove, table, then_on_disk

HIDDEN, INNER, HEADS, KV_HEADS, LAYERS, VOCABULARY = 4096, 11008, 32, 8, 5, 16384
MADE = """
import json, numpy, pathlib, sys
from safetensors.numpy import save_file
folder, kind, hidden, inner, heads, kv_heads, layers, vocabulary = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
folder, random, places = pathlib.Path(folder), numpy.random.default_rng(0), {}
numbers = lambda *shape: (random.integers(0, 1 << 15, shape, numpy.uint16) & 0x3FFF).view(numpy.float16)
shapes = {f"self_attn.{name}_proj": (rows, hidden) for name, rows in
          (("q", hidden), ("k", hidden * kv_heads // heads), ("v", hidden * kv_heads // heads), ("o", hidden))}
shapes |= {"mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
bf16, f8 = "BF16", "F8_E4M3"
layers = layers if kind == "llama" else 2 * layers if kind == "fp8" else 4 * layers

def save(tensors, file):
    # The format's own header, as numpy has no bf16 and no FP8.
    header, size = {}, 0
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [size, size + array.nbytes]}
        size += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / file, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for _, array in tensors.values():
            stream.write(array.data)
    places.update(dict.fromkeys(tensors, file))

for layer in range(layers):
    tensors = {}
    for name, (n, k) in shapes.items():
        name = f"model.layers.{layer}.{name}"
        if kind == "gptq":
            tensors[f"{name}.qweight"] = "I32", random.integers(-2**31, 2**31, (k // 8, n), numpy.int32)
            tensors[f"{name}.qzeros"] = "I32", numpy.full((k // 128, n // 8), 0x77777777, numpy.int32)
            tensors[f"{name}.scales"] = "F16", numbers(k // 128, n)
            tensors[f"{name}.g_idx"] = "I32", numpy.arange(k, dtype=numpy.int32) // 128
        elif kind == "fp8":
            tensors[f"{name}.weight"] = f8, random.integers(0, 127, (n, k), numpy.uint8)
            tensors[f"{name}.weight_scale_inv"] = "F32", random.random((n // 128, k // 128), numpy.float32)
        else:
            tensors[f"{name}.weight"] = bf16, numbers(n, k)
    for name in ("input", "post_attention"):
        tensors[f"model.layers.{layer}.{name}_layernorm.weight"] = bf16, numbers(hidden)
    save(tensors, f"model-{layer + 1:05}-of-{layers + 1:05}.safetensors")
whole = {name: (bf16, numbers(vocabulary, hidden)) for name in ("model.embed_tokens.weight", "lm_head.weight")}
save({**whole, "model.norm.weight": (bf16, numbers(hidden))}, f"model-{layers + 1:05}-of-{layers + 1:05}.safetensors")
(folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
config = {"model_type": "llama", "hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
          "vocab_size": vocabulary, "torch_dtype": "bfloat16"}
quantised = {"gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False},
             "fp8": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}}
if kind in quantised:
    config["quantization_config"] = quantised[kind]
(folder / "config.json").write_text(json.dumps(config))
"""
TASKS = (  # the recipe, and what it reads: a made model, or the result of the recipe before
    ("gptq-to-marlin", "gptq"),
    ("fp8-blocks-to-bf16", "fp8"),
    ("bf16-to-fp8-blocks", "llama"),
    ("llama-tp(ranks=2)", "llama"),
    ("llama-from-tp", None),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recipes_side", description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="on the disk to measure; 16 GB")
    parser.add_argument("--layers", type=int, default=LAYERS, help=f"of bf16; {LAYERS} are 2 GB")
    parser.add_argument("--memory", type=int, default=512, help="MiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args(arguments)
    found = measured(options.folder, options.layers, options.memory, options.rounds)
    for task in found["tasks"]:
        print("\n".join([f"{task['task']}, {task['bytes']} bytes", "", *table(task), ""]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(folder: pathlib.Path, layers: int, memory: int, rounds: int) -> dict[str, Any]:
    """Seconds and memory of every contender for all tasks."""
    old, target, same = (folder / f"benchmark-{name}" for name in ("old", "out", "same"))
    tasks, sizes = [], [HIDDEN, INNER, HEADS, KV_HEADS, layers, VOCABULARY]
    try:
        for recipe, kind in TASKS:
            remove(old)
            if kind is None:
                same.replace(old)
            else:
                old.mkdir()
                subprocess.run([sys.executable, "-c", MADE, str(old), kind, *map(str, sizes)], check=True)
            remove(same)
            ours = [sys.executable, "-m", "gpulayout", "relayout", str(old), str(target), "--quiet", "--recipe", recipe]
            subprocess.run(ours, check=True)
            target.replace(same)
            jobs = {"cp": [*then_on_disk(target), "cp", "-r", "--reflink=never", str(same), str(target)]}
            jobs |= {"gpulayout": ours, f"gpulayout --memory {memory}M": [*ours, "--memory", f"{memory}M"]}
            inputs = [*sorted(old.iterdir()), *sorted(same.iterdir())]
            results = compared(jobs, inputs, target, rounds)
            nbytes = sum(each.stat().st_size for each in same.iterdir())
            tasks.append({"task": recipe, "bytes": nbytes, "results": results})
    finally:
        for each in (old, target, same):
            remove(each)
    return {"machine": machine("numpy", False), "memory_mib": memory, "tasks": tasks}


if __name__ == "__main__":
    main()
