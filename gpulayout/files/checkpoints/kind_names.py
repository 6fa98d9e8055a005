"""What the name of a tensor says about its kind.  An uncertain name says nothing.

A name is that of an attribute: up, features.0, or conv1.  So only names of classes and words of the field count, and
those only where nothing else in the name contradicts:

    encoder.conv1.weight, Conv_0.kernel        conv
    conv2d_transpose_1/kernel, deconv1.weight  conv_transpose
    up.conv.weight, decoder.conv.weight        nothing: layers called so are often transposed
    wte.weight, word_embeddings.weight         embedding
    embed_proj.weight                          nothing, but not linear either
    conv_dw_1/kernel, block1a_dwconv/kernel    depthwise, where rules tell it from conv
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container

DOUBTFUL = "doubtful"  # a matrix that must not be guessed to be linear

# Names that layers get from their classes, by Keras (conv2d_3) and by Flax (Conv_0).
_CLASS = re.compile(r"conv[123]d(_?\d+)?|Conv_\d+", re.IGNORECASE)
_TRANSPOSED = re.compile(
    r"conv(?:olution)?(?:_?[123]d)?_?transposed?(?![a-z])|transposed?_?conv|deconv(?:olution)?(?![a-z])|"
    r"conv_?tr(?:ans)?(?![a-z])|trans_?conv",
    re.IGNORECASE,
)
_CONV = {"conv", "convs", "convolution", "convolutions"}
_PLAIN = frozenset(  # words beside conv in names of plain convolutions
    "d in out pre post first last stem shortcut skip dw pw depthwise pointwise depth point head layer layers block "
    "blocks x a b c bn norm relu act same init initial final main base q k v proj res squeeze reduce offset".split()
)
_DEPTHWISE = frozenset("dw dwconv depthwise depthwiseconv depthconv".split())
_POINTWISE = frozenset("pw pwconv pointwise pointwiseconv point separable sep".split())
# Parts of models that make something large of something small: convolutions there are often transposed.
_GROWS = re.compile(r"(?:up|dec(?!ay)|transp|unpool|expan|recon|generat|synth|mask|inv|revers|vocod)")
_MODELS = re.compile(r"(?:.*[^a-z])?(?:net_?g|g|gen|g_s)|.*(?:gan|vae|autoencoder|pixel|trans|gen)|x\d+", re.IGNORECASE)
_TABLE_WORD = re.compile(r"emb(?:s|ed|eds|edding|eddings|eder|edders)?|.+embeddings?|.+embed|.+(?<![mt])emb")
_TABLES = {"shared", "wte", "wpe", "wtte", "lookup", "codebook", "position", "positions", "pos", "vocab"}
_MATRICES = frozenset(
    "proj projs projection projector linear dense fc mlp out mapping head lm unembed unembedding".split()
)


def kind_in_name(name: str, names: Container[str], kinds: Collection[str] = ()) -> str | None:
    """The kind that a name says, `DOUBTFUL`, or None.

    names   of all tensors of the model
    kinds   that rules tell apart; names say "depthwise" only where it is one of them

    >>> [kind_in_name(f"{each}.weight", ()) for each in ("conv1", "up", "mask.conv", "deconv", "wte", "embed_out")]
    ['conv', None, None, 'conv_transpose', 'embedding', 'doubtful']
    """
    *path, _ = re.split("[./]", name)
    numbered = bool(path) and path[-1].isdigit()  # in a sequence, which may hold other layers too
    while path and path[-1].isdigit():
        path.pop()
    if not path:
        return None
    layer, words = path[-1], _words(path[-1])
    if "depthwise" in kinds and words & _DEPTHWISE:
        return None if numbered or words & _POINTWISE or _TRANSPOSED.search(layer) else "depthwise"
    if _TRANSPOSED.search(layer):
        return None if numbered else "conv_transpose"
    if _CLASS.fullmatch(layer) and not numbered:
        return "conv"
    if _CONV & words and words <= _CONV | _PLAIN:
        grows = any(_MODELS.fullmatch(each) or any(map(_GROWS.match, _words(each))) for each in path)
        return None if grows else "conv"
    if layer in ("query", "key", "value") or _is_output(name, layer, names):
        return "attention"
    if "relative_attention_bias" in layer or layer.lower() in _TABLES or any(map(_TABLE_WORD.fullmatch, words)):
        return DOUBTFUL if numbered or words & _MATRICES else "embedding"
    return None


def _is_output(name: str, layer: str, names: Container[str]) -> bool:
    """True for the output of an attention layer, which stands beside a query."""
    if layer not in ("out", "attention_output"):
        return False
    before, _, after = name.rpartition(layer)
    return f"{before}query{after}" in names


def _words(text: str) -> frozenset[str]:
    """The words of a name in small letters: conv2d_bn and ConvBlock have two."""
    return frozenset(each.lower() for each in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text))
