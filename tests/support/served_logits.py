"""The logits of the model of `served_models.py` in NumPy, from a function that reads its slots: `read(name)`.

The sums are the same for every way to read, so logits are equal, bit for bit, when all weights are.
"""

import math

import numpy as np

from tests.support.served_models import CHOSEN, EXPERTS, GROUP, HEAD, HEADS, KV, KV_HEADS, SLOTS, VOCABULARY, Q


def product(x, weight):
    """x @ weight.T, without the threads of a library."""
    return np.einsum("ti,oi->to", x, np.ascontiguousarray(weight))


def matrix(read, name):
    """The weight of a linear layer, (outputs, inputs), in float32; of experts with one more axis in front."""
    weight = read(f"{name}.weight")
    scales = read(f"{name}.scales") if f"{name}.scales" in SLOTS else None
    if name == "layers.0.o":  # the checkpoint has GPTQ's (inputs, outputs)
        weight, scales = np.ascontiguousarray(weight.T), np.ascontiguousarray(scales.T)
    values = weight.astype(np.float32)
    if scales is None:
        return values
    if scales.dtype == np.uint8:
        return values * np.repeat(np.exp2(scales.astype(np.float32) - 127), GROUP, -1)
    return (values - 8) * np.repeat(scales.astype(np.float32), GROUP, -1)


def normalised(x, weight):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6) * weight


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def gated(gate, up):
    return gate / (1 + np.exp(-gate)) * up


def attention(read, layer, x):
    projected = product(x, matrix(read, f"layers.{layer}.qkv"))
    q, k, v = (part.reshape(len(x), -1, HEAD).transpose(1, 0, 2) for part in np.split(projected, (Q, Q + KV), axis=-1))
    k, v = (np.repeat(each, HEADS // KV_HEADS, 0) for each in (k, v))
    scores = q @ k.transpose(0, 2, 1) / np.float32(math.sqrt(HEAD))
    later = np.triu(np.ones(scores.shape[1:], bool), 1)
    heads = softmax(np.where(later, np.float32(-1e9), scores)) @ v
    return product(heads.transpose(1, 0, 2).reshape(len(x), -1), matrix(read, f"layers.{layer}.o"))


def dense(read, x):
    gate, up = np.split(product(x, matrix(read, "layers.0.gate_up")), 2, axis=-1)
    return product(gated(gate, up), matrix(read, "layers.0.down"))


def mixture(read, x):
    """The best experts of each token, and the shared one."""
    weights = matrix(read, "layers.1.shared.gate_up")
    halves = product(x, weights[:, 0]), product(x, weights[:, 1])
    total = product(gated(*halves), matrix(read, "layers.1.shared.down"))
    routed = softmax(product(x, matrix(read, "layers.1.router")))
    first, second = matrix(read, "layers.1.experts.gate_up"), matrix(read, "layers.1.experts.down")
    best = np.argsort(-routed, axis=-1, kind="stable")[:, :CHOSEN]
    for number in range(EXPERTS):
        tokens = np.flatnonzero((best == number).any(-1))
        gate, up = np.split(product(x[tokens], first[number]), 2, axis=-1)
        total[tokens] += routed[tokens, number, None] * product(gated(gate, up), second[number])
    return total


TOKENS = np.random.default_rng(5).integers(0, VOCABULARY, 16)


def logits(read, tokens=TOKENS):
    """What the model says of each token: over the vocabulary, and the critic's numbers."""
    embed, norms = read("embed.weight").astype(np.float32), read("norm.weight")
    x = embed[tokens]
    for layer, feed_forward in enumerate((dense, mixture)):
        x = x + attention(read, layer, normalised(x, norms[2 * layer]))
        x = x + feed_forward(read, normalised(x, norms[2 * layer + 1]))
    x = normalised(x, norms[4])
    return np.concatenate([product(x, embed), product(x, matrix(read, "critic"))], axis=-1)
