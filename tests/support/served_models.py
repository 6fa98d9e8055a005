"""A small Llama, and the same model as an engine serves it: fused projections, stacked experts, packed weights.

`checkpoint(seed)` is what a trainer sends: plain arrays, one for each projection and each expert.  A served model has a
parameter for each of SLOTS.  `in_checkpoint` reads the slots of the one, which NumPy fuses; `in_memory` reads those of
the other, as its kernels do: packed bytes by the laws of `served_laws.py`.  Logits of either: `served_logits.py`.

Layer 0 has Marlin's weights of 4 bits, some of them as words of GPTQ, then gate and up.  Layer 1 has MXFP8, and 16
experts beside a shared one, whose gate and up come in turns.  Embeddings and lm_head are one parameter.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import gpulayout as gl
from tests.support import served_laws as laws
from tests.support.weight_formats import gptq_words

torch = pytest.importorskip("torch")

HIDDEN, HEADS, KV_HEADS, HEAD, VOCABULARY = 256, 8, 4, 32, 96
MLP, EXPERT, EXPERTS, CHOSEN, SHARED, CRITIC = 256, 32, 16, 4, 64, 40
GROUP = 16  # inputs that share a factor: every layer has several groups
Q, KV = HEADS * HEAD, KV_HEADS * HEAD
TORCH = {
    "u8": torch.uint8,
    "f16": torch.float16,
    "f32": torch.float32,
    "s32": torch.int32,
    "bf16": torch.bfloat16,
    "f8e4m3fn": torch.float8_e4m3fn,
}
MARLIN, MARLIN_SCALES = "marlin:weights(dtype=u4)", "marlin:scales(dtype=f16)"
OUT_IN, OUT_GROUP = laws.outputs_first(laws.marlin), laws.outputs_first(laws.marlin_scales)


class Slot(NamedTuple):
    """One parameter of the served model.

    sizes     of the logical array
    dtype     of its elements in the checkpoint: u8 for codes of 4 bits
    layout    what pack_ takes; empty for parameters that stay plain
    law       where a kernel finds the elements
    parts     for fused parameters: names in the checkpoint, and the box that each fills
    join      the same without boxes: from the parts to the whole, in NumPy
    held      what a kernel finds, where it is not `dtype`: u4
    source    how the checkpoint lays out its words: int32 of GPTQ
    longer    True where padding makes the packed memory longer than the plain tensor, so that it is made anew
    """

    sizes: tuple[int, ...]
    dtype: str
    layout: str = ""
    law: Callable = laws.row_major
    parts: tuple[tuple[str, tuple[slice, ...]], ...] = ()
    join: Callable = np.concatenate
    held: str = ""
    source: str | None = None
    longer: bool = False


def rows(names, counts):
    """Parts one below the other."""
    ends = np.cumsum([0, *counts]).tolist()
    return tuple((name, (slice(first, last),)) for name, first, last in zip(names, ends, ends[1:]))


def qkv(layer, kind):
    return rows([f"layers.{layer}.{each}.{kind}" for each in "qkv"], (Q, KV, KV))


def experts(kinds, ends=(None,)):
    """Each expert's box, in the order of experts; of several kinds one lies below the other."""
    for number in range(EXPERTS):
        for kind, first, last in zip(kinds, (0, *ends), ends):
            yield f"layers.1.experts.{number}.{kind}", (slice(number, number + 1), slice(first, last))


def halves_of_experts(parts):
    return np.stack([np.concatenate(pair) for pair in zip(parts[::2], parts[1::2])])


def in_turns(parts):
    return np.stack(parts, axis=1)


DENSE = {
    "layers.0.qkv.weight": Slot(
        (Q + 2 * KV, HIDDEN), "u8", f"n k -> k n; {MARLIN}", OUT_IN, qkv(0, "weight"), held="u4"
    ),
    "layers.0.qkv.scales": Slot(
        (Q + 2 * KV, HIDDEN // GROUP), "f16", f"n g -> g n; {MARLIN_SCALES}", OUT_GROUP, qkv(0, "scales")
    ),
    "layers.0.o.weight": Slot((Q, HIDDEN), "s32", MARLIN, laws.marlin, held="u4", source="gptq:qweight(dtype=u4)"),
    "layers.0.o.scales": Slot((Q // GROUP, HIDDEN), "f16", MARLIN_SCALES, laws.marlin_scales),
    "layers.0.gate_up.weight": Slot(
        (2 * MLP, HIDDEN),
        "bf16",
        "flashinfer:gate_up(dtype=bf16)",
        laws.gate_up,
        rows(("layers.0.gate.weight", "layers.0.up.weight"), (MLP, MLP)),
    ),
    "layers.0.down.weight": Slot((HIDDEN, MLP), "bf16", "{0,1}", laws.column_major),
}
MIXTURE = {
    "layers.1.qkv.weight": Slot(
        (Q + 2 * KV, HIDDEN),
        "f8e4m3fn",
        "flashinfer:shuffle_matrix_a(dtype=f8e4m3fn)",
        laws.shuffled,
        qkv(1, "weight"),
    ),
    "layers.1.qkv.scales": Slot(
        (Q + 2 * KV, HIDDEN // GROUP), "u8", "cublas:block_scales(dtype=u8)", laws.blocks_128_4, qkv(1, "scales")
    ),
    "layers.1.o.weight": Slot((HIDDEN, Q), "f32", "{1,0:T(8,128)}", laws.tiles_8_128),
    "layers.1.router.weight": Slot((EXPERTS, HIDDEN), "f32"),
    "layers.1.experts.gate_up.weight": Slot(
        (EXPERTS, 2 * EXPERT, HIDDEN),
        "bf16",
        "flashinfer:gate_up(dtype=bf16)",
        laws.stacked(laws.gate_up),
        tuple(experts(("gate.weight", "up.weight"), (EXPERT, 2 * EXPERT))),
        halves_of_experts,
    ),
    "layers.1.experts.down.weight": Slot(
        (EXPERTS, HIDDEN, EXPERT),
        "u8",
        f"e n k -> e k n; {MARLIN}",
        laws.stacked(OUT_IN),
        tuple(experts(("down.weight",))),
        np.stack,
        held="u4",
    ),
    "layers.1.experts.down.scales": Slot(
        (EXPERTS, HIDDEN, EXPERT // GROUP),
        "f16",
        f"e n g -> e g n; {MARLIN_SCALES}",
        laws.stacked(OUT_GROUP),
        tuple(experts(("down.scales",))),
        np.stack,
    ),
    "layers.1.shared.gate_up.weight": Slot(
        (SHARED, 2, HIDDEN),
        "f32",
        "{2,1,0:T(8,2,64)}",
        laws.turns,
        (
            ("layers.1.shared.gate.weight", (slice(None), slice(0, 1))),
            ("layers.1.shared.up.weight", (slice(None), slice(1, 2))),
        ),
        in_turns,
    ),
    "layers.1.shared.down.weight": Slot((HIDDEN, SHARED), "bf16", "{0,1}", laws.column_major),
}
SLOTS = {
    "embed.weight": Slot((VOCABULARY, HIDDEN), "bf16", "{1,0:T(8,128)(2,1)}", laws.tiles_8_128_pairs),
    **DENSE,
    **MIXTURE,
    "norm.weight": Slot((5, HIDDEN), "f32"),
    "critic.weight": Slot((CRITIC, HIDDEN), "f8e4m3fn", "{1,0:T(8,128)}", laws.tiles_8_128),
    "critic.scales": Slot(
        (CRITIC, HIDDEN // GROUP), "u8", "cublas:block_scales(dtype=u8)", laws.blocks_128_4, longer=True
    ),
}
PACKED = [name for name, slot in SLOTS.items() if slot.layout]

# ---- the checkpoint --------------------------------------------------------------------------------------------------


def checkpoint(seed):
    """Plain arrays by name, one for each part of a slot.  Other seeds have other numbers everywhere."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, slot in SLOTS.items():
        for part, box in slot.parts or ((name, ()),):
            sizes = box_sizes(slot.sizes, box)
            if slot.join is in_turns:
                sizes = sizes[::2]
            elif slot.join in (np.stack, halves_of_experts):
                sizes = sizes[1:]
            made[part] = _numbers(rng, slot, sizes, name)
    return made


def _numbers(rng, slot, sizes, name):
    if slot.held == "u4":
        return rng.integers(0, 16, sizes, np.uint8)
    if slot.dtype == "u8":  # powers of two
        return rng.integers(118, 122, sizes, np.uint8)
    if name.endswith("scales"):
        return rng.uniform(0.005, 0.02, sizes).astype(np.float16)
    size = 1 if name in ("norm.weight", "embed.weight") or slot.dtype == "f8e4m3fn" else 0.06
    return rng.normal(0, size, sizes).astype(laws.TYPES[slot.dtype])


def box_sizes(sizes, box):
    """Sizes of a box."""
    spans = [range(size)[each] for size, each in zip(sizes, box)]
    return (*map(len, spans), *sizes[len(box) :])


def whole_array(name, given):
    """The whole logical array of a slot, from the parts of a checkpoint."""
    slot = SLOTS[name]
    return np.ascontiguousarray(slot.join([given[part] for part, _ in slot.parts]) if slot.parts else given[name])


def tensor_of(array, slot):
    """An array as a tensor, in the form in which the checkpoint has it."""
    if slot.source:
        array = np.ascontiguousarray(gptq_words(array))
    return torch.from_numpy(array.view(f"u{array.itemsize}").copy()).view(TORCH[slot.dtype])


def whole_tensor(name, given):
    """The plain tensor of a whole slot."""
    return tensor_of(whole_array(name, given), SLOTS[name])


def part_tensors(name, given):
    """The plain tensors of a slot's parts, with the boxes that they fill; of a slot without parts the whole."""
    slot = SLOTS[name]
    for part, box in slot.parts or ((name, ()),):
        tensor = tensor_of(given[part], slot)
        yield (tensor.view(box_sizes(slot.sizes, box)) if box else tensor), box


def part_names():
    """The checkpoint's names in the order in which a loader takes them."""
    return [part for name, slot in SLOTS.items() for part, _ in slot.parts or ((name, ()),)]


# ---- the served model ------------------------------------------------------------------------------------------------


class Served(torch.nn.Module):
    """A parameter for each slot; lm_head has that of the embeddings."""

    def __init__(self, given):
        super().__init__()
        for name in SLOTS:
            self.hold(name, torch.nn.Parameter(whole_tensor(name, given), requires_grad=False))
        self.hold("lm_head.weight", self.get_parameter("embed.weight"))

    def hold(self, name, parameter):
        *path, last = name.split(".")
        module = self
        for step in path:
            if step not in dict(module.named_children()):
                module.add_module(step, torch.nn.Module())
            module = module.get_submodule(step)
        setattr(module, last, parameter)

    def slots(self):
        """The parameters that are packed, by name."""
        return {name: self.get_parameter(name) for name in PACKED}


def pack(model):
    """Pack all weights of a plain model in place, as an engine does after loading."""
    for name, parameter in model.slots().items():
        slot = SLOTS[name]
        if slot.longer:
            sizes = ",".join(map(str, slot.sizes))
            memory = gl.torch.empty_packed(f"{slot.layout}[{sizes}]", like=parameter)
            model.hold(name, gl.torch.copy_(memory, parameter.data))
        else:
            gl.torch.pack_(parameter, slot.layout, source=slot.source)
    return model


def served(seed=0):
    """A packed model."""
    return pack(Served(checkpoint(seed)))


def load(model, given, each=lambda: None):
    """The engine's own loader: it knows plain tensors only, and writes into parts of them; `each` is called before."""
    with torch.no_grad():
        for name in SLOTS:
            parameter = model.get_parameter(name)
            for tensor, box in part_tensors(name, given):
                each()
                parameter.data[box].copy_(tensor)


def addresses(model):
    return {name: parameter.data_ptr() for name, parameter in model.named_parameters()}


# ---- what is read ----------------------------------------------------------------------------------------------------


def in_checkpoint(given):
    """Reads the slots of a checkpoint."""
    return functools.partial(whole_array, given=given)


def in_memory(model):
    """Reads the slots in the memory of a served model, as its kernels do: a plain slot has no law but rows."""

    def read(name):
        slot = SLOTS[name]
        return laws.in_memory(model.get_parameter(name), slot.law, slot.sizes, slot.held or slot.dtype)

    return read
