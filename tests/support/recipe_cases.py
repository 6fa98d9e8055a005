"""Small checkpoints of many formats with random numbers, and what the commands of docs/kernel-weights.md make of them.

Each function takes a random generator, and gives the tensors of the old files and those of the new one.
"""

import ml_dtypes
import numpy as np

from tests.support.weight_formats import (
    AWQ,
    BF16,
    E2M1,
    blocks_128,
    dequantised,
    gptq_words,
    groups,
    marlin_scales,
    marlin_words,
    marlin_zeros,
    nibbles,
    swizzled,
    words,
)

K, N, GROUP = 128, 192, 32
F8 = ml_dtypes.float8_e4m3fn


def codes(rng, *shape, bits=4):
    return rng.integers(0, 1 << bits, shape, np.uint8)


def floats(rng, *shape, dtype=np.float16):
    return rng.uniform(0.01, 1, shape).astype(dtype)


def gptq_layer(rng, name, n=N, *, symmetric=True):
    """A layer of GPTQ without act-order: its tensors, its codes and scales, its zero points less 1."""
    q, s, z = codes(rng, K, n), floats(rng, K // GROUP, n), codes(rng, K // GROUP, n) % 15
    z = np.full_like(z, 7) if symmetric else z
    g_idx = np.arange(K, dtype=np.int32) // GROUP
    tensors = {"qweight": gptq_words(q), "qzeros": words(z), "scales": s, "g_idx": g_idx}
    return {f"{name}.{key}": value for key, value in tensors.items()}, q, s, z


def gptq_to_marlin(rng):
    tensors, q, s, _ = gptq_layer(rng, "model.layers.0.mlp.up_proj")
    norm = {"model.norm.weight": floats(rng, 8)}
    made = {"model.layers.0.mlp.up_proj.B": marlin_words(q), "model.layers.0.mlp.up_proj.s": marlin_scales(s)}
    return [tensors | norm], made | norm


def gptq_to_plain(rng):
    tensors, q, s, z = gptq_layer(rng, "l", symmetric=False)
    plain = dequantised(q, groups(s, GROUP), groups(z, GROUP) + np.float32(1), np.float16)
    return [tensors], {"l.weight": plain.T}


def awq_layer(rng):
    q, s, z = codes(rng, K, N), floats(rng, K // GROUP, N), codes(rng, K // GROUP, N)
    return {"l.qweight": words(q, 4, AWQ), "l.qzeros": words(z, 4, AWQ), "l.scales": s}, q, s, z


def awq_to_marlin(rng):
    tensors, q, s, z = awq_layer(rng)
    return [tensors], {"l.qweight": marlin_words(q), "l.qzeros": marlin_zeros(z), "l.scales": marlin_scales(s)}


def awq_to_plain(rng):
    tensors, q, s, z = awq_layer(rng)
    return [tensors], {"l.weight": dequantised(q, groups(s, GROUP), groups(z, GROUP), np.float16).T}


def compressed_layer(rng):
    q, s = codes(rng, N, K), floats(rng, N, K // GROUP, dtype=BF16)
    return {"l.weight_packed": words(q), "l.weight_scale": s, "l.weight_shape": np.array([N, K])}, q, s


def compressed_to_marlin(rng):
    tensors, q, s = compressed_layer(rng)
    return [tensors], {"l.qweight": marlin_words(q.T), "l.scales": marlin_scales(s.T)}


def compressed_to_plain(rng):
    tensors, q, s = compressed_layer(rng)
    return [tensors], {"l.weight": dequantised(q, np.repeat(s, GROUP, 1), 8, BF16)}


def mlx_to_plain(rng):
    q, s, b = codes(rng, N, K), floats(rng, N, K // 64), -floats(rng, N, K // 64)
    plain = q.astype(np.float32) * np.repeat(s, 64, 1).astype(np.float32) + np.repeat(b, 64, 1).astype(np.float32)
    norm = {"norm.weight": floats(rng, 8)}
    return [{"l.weight": words(q).view(np.uint32), "l.scales": s, "l.biases": b} | norm], {
        "l.weight": plain.astype(BF16)
    } | norm


def fp8_to_plain(rng):
    weight = rng.standard_normal((192, 320)).astype(F8)
    scale = floats(rng, 2, 3, dtype=np.float32)
    norm = {"input_layernorm.weight": floats(rng, 8, dtype=BF16)}
    tensors = {"kv_a_proj_with_mqa.weight": weight, "kv_a_proj_with_mqa.weight_scale_inv": scale}
    plain = (weight.astype(np.float32) * blocks_128(scale, weight.shape)).astype(BF16)
    return [tensors | norm], {"kv_a_proj_with_mqa.weight": plain} | norm


def plain_layer(rng, n=192, k=256):
    """A weight of bf16, in f32 too, and tensors that stay."""
    weight = (rng.standard_normal((n, k)) * 2.0 ** rng.integers(-6, 1, (n, 1))).astype(BF16)
    rest = {"l.input_layernorm.weight": floats(rng, 8, dtype=BF16), "l.up_proj.bias": floats(rng, n, dtype=BF16)}
    return {"l.up_proj.weight": weight} | rest, weight.astype(np.float32), rest


def plain_to_fp8(rng):
    tensors, x, rest = plain_layer(rng, 192, 320)
    blocks = np.pad(x, ((0, 64), (0, 64))).reshape(2, 128, 3, 128)
    scale = np.abs(blocks).max((1, 3)) / np.float32(448)
    made = {"l.up_proj.weight": (x / blocks_128(scale, x.shape)).astype(F8), "l.up_proj.weight_scale_inv": scale}
    return [tensors], made | rest


def plain_to_channels(rng):
    tensors, x, rest = plain_layer(rng)
    scale = np.abs(x).max(1, keepdims=True) / np.float32(448)
    return [tensors], {"l.up_proj.weight": (x / scale).astype(F8), "l.up_proj.weight_scale": scale} | rest


def plain_to_mxfp8(rng):
    tensors, x, rest = plain_layer(rng)
    scale = np.exp2(np.ceil(np.log2(np.abs(x).reshape(x.shape[0], -1, 32).max(2) / np.float32(448))))
    exponents = (np.log2(scale) + 127).astype(np.uint8)
    made = {"l.up_proj.weight": (x / np.repeat(scale, 32, 1)).astype(F8), "l.up_proj.weight_scale": exponents}
    return [tensors], made | rest


def rounded_to_4_bits(x, dtype):
    """Codes with a zero point of 8, and the scales of 128 elements of a row in their type, which divide."""
    scale = (np.abs(x.reshape(x.shape[0], -1, 128)).max(2) / np.float32(7.5)).astype(dtype)
    q = np.rint(x / np.repeat(scale, 128, 1).astype(np.float32)) + 8
    return np.clip(q, 0, 15).astype(np.uint8), scale


def plain_to_compressed(rng):
    tensors, x, rest = plain_layer(rng)
    q, scale = rounded_to_4_bits(x, BF16)
    return [tensors], {"l.up_proj.weight_packed": words(q), "l.up_proj.weight_scale": scale} | rest


def plain_to_marlin(rng):
    tensors, x, rest = plain_layer(rng, 64)
    q, scale = rounded_to_4_bits(x, np.float16)
    return [tensors], {"l.up_proj.B": marlin_words(q.T), "l.up_proj.s": marlin_scales(scale.T)} | rest


def gptoss_layer(rng):
    """Codes (experts, rows, columns), and exponents for 32 columns, of both products."""
    shapes = {"gate_up_proj": (2, 96, 64), "down_proj": (2, 64, 96)}
    made = {
        key: (codes(rng, *size), rng.integers(118, 130, (*size[:2], size[2] // 32), np.uint8))
        for key, size in shapes.items()
    }
    bias = {"gate_up_proj_bias": floats(rng, 2, 96, dtype=BF16), "down_proj_bias": floats(rng, 2, 64, dtype=BF16)}
    tensors = {}
    for key, (q, e) in made.items():
        tensors |= {f"{key}_blocks": nibbles(q).reshape(*e.shape, 16), f"{key}_scales": e}
    return tensors | bias, made, bias


def gptoss_to_plain(rng):
    tensors, made, bias = gptoss_layer(rng)
    plain = {}
    for key, (q, e) in made.items():
        factors = np.repeat(np.ldexp(np.float32(1), e.astype(np.int32) - 127), 32, axis=2)
        plain[key] = (E2M1[q] * factors).astype(BF16).swapaxes(1, 2)
    return [tensors], plain | bias


def gptoss_to_halves(rng):
    tensors, made, bias = gptoss_layer(rng)
    (up_codes, up_exponents), (down_codes, down_exponents) = made["gate_up_proj"], made["down_proj"]
    gate_first = [*range(0, 96, 2), *range(1, 96, 2)]
    return [tensors], {
        "w13_weight": nibbles(up_codes)[:, gate_first],
        "w13_weight_scale": up_exponents[:, gate_first],
        "w13_bias": bias["gate_up_proj_bias"][:, gate_first],
        "w2_weight": nibbles(down_codes),
        "w2_weight_scale": down_exponents,
        "w2_bias": bias["down_proj_bias"],
    }


def nvfp4_layer(rng, n=256, k=128):
    q, scale = codes(rng, n, k), floats(rng, n, k // 16, dtype=F8)
    whole = {"l.weight_scale_2": np.float32([0.0123]).reshape(()), "l.input_scale": np.float32([0.5]).reshape(())}
    norm = {"norm.weight": floats(rng, 8, dtype=BF16)}
    return {"l.weight": nibbles(q), "l.weight_scale": scale} | whole | norm, q, scale


def nvfp4_to_plain(rng):
    tensors, q, scale = nvfp4_layer(rng)
    both = scale.astype(np.float32) * tensors["l.weight_scale_2"]
    return [tensors], {
        "l.weight": (E2M1[q] * np.repeat(both, 16, 1)).astype(BF16),
        "norm.weight": tensors["norm.weight"],
    }


def nvfp4_to_blackwell(rng):
    tensors, _, scale = nvfp4_layer(rng)
    return [tensors], tensors | {"l.weight_scale": swizzled(scale)}


# ---- fused projections ----------------------------------------------------------------------------------------

QKV = ("q_proj", "k_proj", "v_proj")
ROWS = {"q_proj": 32, "k_proj": 16, "v_proj": 16, "gate_proj": 24, "up_proj": 24}


def llama(rng):
    """A layer whose q, k and v have biases, as those of Qwen."""
    tensors = {f"l.{name}.weight": floats(rng, rows, 8, dtype=BF16) for name, rows in ROWS.items()}
    tensors |= {f"l.{name}.bias": floats(rng, ROWS[name], dtype=BF16) for name in QKV}
    return tensors | {
        "l.o_proj.weight": floats(rng, 8, 32, dtype=BF16),
        "l.down_proj.weight": floats(rng, 8, 24, dtype=BF16),
    }


def rest(tensors, *names):
    return {name: array for name, array in tensors.items() if name.split(".")[1] not in names}


def together(tensors, *names, part=None, axis=0, of="weight"):
    """Arrays of a Llama, one below the other; of each only one of two halves."""
    arrays = [tensors[f"l.{name}.{of}"] for name in names]
    return np.concatenate([each if part is None else np.split(each, 2, axis)[part] for each in arrays], axis)


def llama_to_fused(rng):
    tensors = llama(rng)
    fused = {
        "l.qkv_proj.weight": together(tensors, *QKV),
        "l.qkv_proj.bias": together(tensors, *QKV, of="bias"),
        "l.gate_up_proj.weight": together(tensors, "gate_proj", "up_proj"),
    }
    return [tensors], fused | rest(tensors, *ROWS)


def fused_to_llama(rng):
    (tensors,), fused = llama_to_fused(rng)
    return [fused], tensors


def llama_to_rank(rng):
    tensors = llama(rng)
    mine = {
        f"l.{name}.weight": together(tensors, name, part=1, axis=axis)
        for name, axis in {"gate_proj": 0, "up_proj": 0, "o_proj": 1, "down_proj": 1}.items()
    }
    fused = {f"l.qkv_proj.{of}": together(tensors, *QKV, part=1, of=of) for of in ("weight", "bias")}
    return [tensors], fused | mine


def gptq_to_fused(rng):
    layers = [gptq_layer(rng, f"l.{name}_proj", n) for name, n in (("q", 128), ("k", 64), ("v", 64))]
    tensors = layers[0][0] | layers[1][0] | layers[2][0]
    q, s = (np.concatenate([each[place] for each in layers], 1) for place in (1, 2))
    return [tensors], {"l.qkv_proj.B": marlin_words(q), "l.qkv_proj.s": marlin_scales(s)}


def gptq_to_rank(rng):
    (up, q, s, _), (down, q2, s2, _) = (gptq_layer(rng, f"l.{name}_proj", 128) for name in ("up", "down"))
    outputs = {"l.up_proj.B": marlin_words(q[:, 64:]), "l.up_proj.s": marlin_scales(s[:, 64:])}
    inputs = {"l.down_proj.B": marlin_words(q2[64:]), "l.down_proj.s": marlin_scales(s2[2:])}
    return [up | down], outputs | inputs


def gpt2_to_split(rng):
    weight, bias = floats(rng, 6, 12), floats(rng, 12)
    made = {f"h.{name}.weight": each.T for name, each in zip("qkv", np.split(weight, 3, 1))}
    made |= {f"h.{name}.bias": each for name, each in zip("qkv", np.split(bias, 3))}
    return [{"h.c_attn.weight": weight, "h.c_attn.bias": bias}], made


def neox_to_split(rng):
    heads, bias = floats(rng, 64, 3, 2, 5), floats(rng, 64, 3, 2)
    made = {f"h.{name}.weight": heads[:, n].reshape(128, 5) for n, name in enumerate("qkv")}
    made |= {f"h.{name}.bias": bias[:, n].reshape(128) for n, name in enumerate("qkv")}
    return [{"h.query_key_value.weight": heads.reshape(-1, 5), "h.query_key_value.bias": bias.ravel()}], made


def falcon_to_split(rng):
    heads = floats(rng, 8, 18, 4, 5)
    parts = {"q": heads[:, :16], "k": heads[:, 16:17], "v": heads[:, 17:]}
    return [{"h.query_key_value.weight": heads.reshape(-1, 5)}], {
        f"h.{name}.weight": each.reshape(-1, 5) for name, each in parts.items()
    }


def split_to_falcon(rng):
    (fused,), parts = falcon_to_split(rng)
    return [parts], fused


# ---- experts, and several files -------------------------------------------------------------------------------


def mixtral_to_stacked(rng):
    experts = [
        {name: floats(rng, *size, dtype=BF16) for name, size in (("w1", (6, 4)), ("w2", (4, 6)), ("w3", (6, 4)))}
        for _ in range(11)
    ]
    tensors = {
        f"e.{number}.{name}.weight": array for number, each in enumerate(experts) for name, array in each.items()
    }
    both = [np.concatenate([each["w1"], each["w3"]]) for each in experts]
    return [tensors], {"e.w13_weight": np.stack(both), "e.w2_weight": np.stack([each["w2"] for each in experts])}


def stacked_to_experts(rng):
    _, stacked = mixtral_to_stacked(rng)
    return [stacked], {
        f"e.{number}.{name}.weight": array
        for name in ("w13", "w2")
        for number, array in enumerate(stacked[f"e.{name}_weight"])
    }


def gptq_experts_to_stacked(rng):
    layers = [[gptq_layer(rng, f"e.{number}.{name}_proj", 64) for name in ("gate", "up")] for number in range(3)]
    tensors = {name: array for expert in layers for layer in expert for name, array in layer[0].items()}
    q, s = ([np.concatenate([layer[place] for layer in expert], 1) for expert in layers] for place in (1, 2))
    return [tensors], {
        "e.w13_qweight": np.stack([marlin_words(each) for each in q]),
        "e.w13_scales": np.stack([marlin_scales(each) for each in s]),
    }


def halves(tensors, axes):
    """Two files, cut along the axis of each tensor; None for what is in both."""
    cut = {
        name: [array] * 2 if axes[name] is None else np.split(array, 2, axes[name]) for name, array in tensors.items()
    }
    return [{name: each[rank] for name, each in cut.items()} for rank in range(2)]


def meta_to_llama(rng):
    """The tensors of Meta: the name, the shape, the axis that is cut, and the name in Hugging Face's file."""
    facts = {
        "attention.wq": ((32, 6), 0, "self_attn.q_proj"),
        "attention.wk": ((16, 6), 0, "self_attn.k_proj"),
        "attention.wv": ((16, 6), 0, "self_attn.v_proj"),
        "attention.wo": ((6, 32), 1, "self_attn.o_proj"),
        "feed_forward.w1": ((10, 6), 0, "mlp.gate_proj"),
        "feed_forward.w2": ((6, 10), 1, "mlp.down_proj"),
        "feed_forward.w3": ((10, 6), 0, "mlp.up_proj"),
        "attention_norm": ((6,), None, "input_layernorm"),
        "ffn_norm": ((6,), None, "post_attention_layernorm"),
    }
    known = {f"layers.3.{old}": (size, axis, f"model.layers.3.{new}") for old, (size, axis, new) in facts.items()}
    known |= {
        "tok_embeddings": ((12, 6), 0, "model.embed_tokens"),
        "norm": ((6,), None, "model.norm"),
        "output": ((12, 6), 0, "lm_head"),
    }
    whole = {f"{old}.weight": floats(rng, *size, dtype=BF16) for old, (size, _, _) in known.items()}
    made = {f"{new}.weight": whole[f"{old}.weight"] for old, (_, _, new) in known.items()}
    for name in ("q", "k"):  # pairs of neighbours of a head become its two halves
        key = f"model.layers.3.self_attn.{name}_proj.weight"
        made[key] = made[key].reshape(-1, 4, 2, 6).swapaxes(1, 2).reshape(-1, 6)
    return halves(whole, {f"{old}.weight": axis for old, (_, axis, _) in known.items()}), made


def megatron_ranks(rng):
    gate, up = floats(rng, 8, 6), floats(rng, 8, 6)
    whole = {
        "l.linear_qkv.weight": floats(rng, 12, 6),
        "l.linear_proj.weight": floats(rng, 6, 4),
        "l.linear_fc2.weight": floats(rng, 6, 8),
    }
    ranks = halves(whole, {"l.linear_qkv.weight": 0, "l.linear_proj.weight": 1, "l.linear_fc2.weight": 1})
    for rank, tensors in enumerate(ranks):
        tensors["l.linear_fc1.weight"] = np.concatenate([np.split(gate, 2)[rank], np.split(up, 2)[rank]])
    return ranks, whole | {"l.linear_fc1.weight": np.concatenate([gate, up])}


def fused_ranks_to_llama(rng):
    whole = llama(rng)
    ranks = [
        {f"l.qkv_proj.{of}": together(whole, *QKV, part=rank, of=of) for of in ("weight", "bias")}
        | {"l.gate_up_proj.weight": together(whole, "gate_proj", "up_proj", part=rank)}
        | {f"l.{name}.weight": together(whole, name, part=rank, axis=1) for name in ("o_proj", "down_proj")}
        for rank in range(2)
    ]
    return ranks, whole


# By the files of the command.
CASES = {
    "gptq marlin": gptq_to_marlin,
    "awq marlin": awq_to_marlin,
    "compressed marlin": compressed_to_marlin,
    "gptq plain": gptq_to_plain,
    "awq plain": awq_to_plain,
    "compressed plain": compressed_to_plain,
    "mlx plain": mlx_to_plain,
    "fp8 plain": fp8_to_plain,
    "gptoss plain": gptoss_to_plain,
    "nvfp4 plain": nvfp4_to_plain,
    "bf16 fp8": plain_to_fp8,
    "bf16 channels": plain_to_channels,
    "bf16 mxfp8": plain_to_mxfp8,
    "bf16 compressed": plain_to_compressed,
    "bf16 marlin": plain_to_marlin,
    "gptoss halves": gptoss_to_halves,
    "nvfp4 blackwell": nvfp4_to_blackwell,
    "llama fused": llama_to_fused,
    "fused llama": fused_to_llama,
    "gptq fused": gptq_to_fused,
    "gpt2 split": gpt2_to_split,
    "neox split": neox_to_split,
    "falcon split": falcon_to_split,
    "split falcon": split_to_falcon,
    "mixtral stacked": mixtral_to_stacked,
    "stacked experts": stacked_to_experts,
    "gptq-experts stacked": gptq_experts_to_stacked,
    "llama rank1": llama_to_rank,
    "gptq rank1": gptq_to_rank,
    "consolidated.00 consolidated.01 llama": meta_to_llama,
    "rank0 rank1 megatron": megatron_ranks,
    "rank0 rank1 llama": fused_ranks_to_llama,
}


# ---- what the page says in words, by the rules ----------------------------------------------------------------


def gptq_of_8_bits(rng):
    q, s = codes(rng, K, N, bits=8), floats(rng, 1, N)
    single = s.reshape(-1, 4, 4, 2).swapaxes(1, 2).reshape(1, N)  # of 32 columns, pairs 8 apart side by side
    return [{"l.qweight": gptq_words(q, 8), "l.scales": s}], {"l.qweight": marlin_words(q, 8), "l.scales": single}


def compressed_with_zeros(rng):
    tensors, q, s = compressed_layer(rng)
    z = codes(rng, N, K // GROUP)
    plain = dequantised(q, np.repeat(s, GROUP, 1), np.repeat(z, GROUP, 1).astype(np.float32), BF16)
    return [tensors | {"l.weight_zero_point": words(z.T).T}], {"l.weight": plain}


def compressed_nvfp4(rng):
    q, scale, whole = codes(rng, 200, 96), floats(rng, 200, 6, dtype=F8), np.float32([81.5])
    both = scale.astype(np.float32) / whole
    tensors = {"l.weight_packed": nibbles(q), "l.weight_scale": scale, "l.weight_global_scale": whole}
    return [tensors], {"l.weight": (E2M1[q] * np.repeat(both, 16, 1)).astype(BF16)}


def padded_scales(rng):
    tensors, _, scale = nvfp4_layer(rng, 200, 96)
    return [tensors], tensors | {"l.weight_scale": swizzled(scale)}


def fp8_rows(rng):
    weights = {name: rng.standard_normal((24, 16)).astype(F8) for name in ("a", "b", "c")}
    scales = {
        "a": floats(rng, 24, 1, dtype=np.float32),
        "b": floats(rng, 1, dtype=BF16),
        "c": floats(rng, dtype=np.float32),
    }
    tensors = {f"{name}.weight": weight for name, weight in weights.items()}
    tensors |= {f"{name}.weight_scale": np.asarray(scale) for name, scale in scales.items()}
    return [tensors], {
        f"{name}.weight": (weight.astype(np.float32) * np.asarray(scales[name]).astype(np.float32)).astype(BF16)
        for name, weight in weights.items()
    }


def alternating(rng):
    tensors = llama(rng)
    gate, up = tensors["l.gate_proj.weight"], tensors["l.up_proj.weight"]
    return [tensors], rest(tensors, "gate_proj", "up_proj") | {"l.both": np.stack([gate, up], 1).reshape(48, 8)}


def alternating_back(rng):
    (tensors,), fused = alternating(rng)
    return [fused], tensors


def awq_to_gptq(rng):
    tensors, q, s, z = awq_layer(rng)
    return [tensors], {"l.qweight": gptq_words(q), "l.qzeros": words(z), "l.scales": s}


def awq_to_compressed(rng):
    tensors, q, s, z = awq_layer(rng)
    return [tensors], {"l.weight_packed": words(q.T), "l.weight_scale": s.T, "l.weight_zero_point": words(z).T}


FUSED = r"(.*)gate_proj\.weight=join=\1gate_proj.weight,\1up_proj.weight; along=0; interleave; name=\1both"
VARIANTS = {
    gptq_of_8_bits: [
        r".*\.qweight=from=gptq:qweight(dtype=u8); marlin:weights",
        r".*\.scales=1 n -> n; marlin:channel_scales",
    ],
    awq_to_gptq: [r".*\.qweight=from=awq:qweight; gptq:qweight", r".*\.qzeros=from=awq:qzeros; gptq:qzeros"],
    awq_to_compressed: [
        r"(.*)\.qweight=from=awq:qweight; k n -> n k; as=I32[n,k/8]; name=\1.weight_packed",
        r"(.*)\.qzeros=from=awq:qzeros; g n -> n g; gptq:qweight; name=\1.weight_zero_point",
        r"(.*)\.scales=g n -> n g; name=\1.weight_scale",
    ],
    compressed_with_zeros: [
        r"(.*)\.weight_packed=from=u4; scale=*scale; zero_point=*zero_point; dtype=bf16; name=\1.weight",
        r".*\.weight_zero_point=from=gptq:qweight(dtype=u4); drop",
        r".*\.weight_(scale|shape)=drop",
    ],
    compressed_nvfp4: [
        r"(.*)\.weight_packed=from=f4e2m1fn; scale=\1.weight_scale; dtype=bf16; name=\1.weight",
        r"(.*)\.weight_scale=scale=\1.weight_global_scale; divide; dtype=f32; drop",
        r".*\.weight_global_scale=drop",
    ],
    padded_scales: [r".*weight_scale=cublas:block_scales; as=F8_E4M3[256,8]"],
    fp8_rows: [r".*\.weight=scale={name}_scale; dtype=bf16", ".*_scale=drop"],
    alternating: [FUSED],
    alternating_back: [r"(.*)both=split=\1gate_proj.weight,\1up_proj.weight; along=0; interleave"],
}
