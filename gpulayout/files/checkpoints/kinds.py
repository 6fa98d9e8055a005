r"""Kinds: what a weight is, where its shape fits several layers that differ in the order of their axes.

    conv            a convolution
    conv_transpose  a transposed one, whose inputs and outputs stand elsewhere, and in Flax in reverse order
    depthwise       one with filters for each input of its own, where they stand in another order than other ones, as
                    in Keras; elsewhere it is a conv
    linear          a dense layer
    embedding       rows of a table
    attention       the projections of an attention layer, with heads of their own
    norm            scales and shifts of a normalisation

A rule may be for one kind, and rules for several kinds may fit the same names; one without a kind is for what is of no
kind.  Norms have a weight and a bias of the same one dimension.  What decides the others, the first that can:

1. The caller: assume={'REGEX': 'conv'}.  The first pair counts that fits the whole name and a kind of the rules.
   A pair about several tensors must not contradict what follows, and is not about layers that are no convolution.
2. The bias beside the weight.  Its length is that of axis `o`, which is another axis in another kind, and in depthwise
   ones that of `i` times that of `m`.
3. The name of the layer, where it says its class: conv1, Conv_0, deconv, conv_dw, word_embeddings.
4. A matrix is taken as linear, which reports call a guess.

All else is unclear, and an error.  Nothing is decided by names of attributes such as up or features.0.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.name_regex import MOST_REGEX, NameRegex
from gpulayout.files.checkpoints.rules import KINDS, Rule, RuleSet
from gpulayout.layout.checks import clipped, counted, shown, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.patterns import read_pattern

FORMATS = {"pt": "PyTorch", "flax": "Flax", "mlx": "MLX", "keras": "Keras", "tf": "TensorFlow"}  # of metadata
ASSUMABLE = tuple(each for each in KINDS if each != "norm")  # a norm is known by its weight and bias
DOUBTFUL = "doubtful"  # a matrix that must not be guessed to be linear
_FAMILIES = (("conv", "conv_transpose", "depthwise"), ("linear", "embedding"))  # what is easily taken for the other
_WORDS = {
    "conv": "a convolution",
    "conv_transpose": "a transposed convolution",
    "depthwise": "a depthwise convolution",
    "linear": "a linear layer",
    "embedding": "an embedding",
    "attention": "a projection of attention",
}
Dimensions = Mapping[str, tuple[int, ...]]  # of all tensors of a model, by name


class Kind(NamedTuple):
    """What a tensor is taken as, and what decided: "assume", "bias", "name" or "guess"."""

    kind: str
    known_by: str


class Unclear(NamedTuple):
    """A tensor that may be of several kinds."""

    name: str
    dimensions: tuple[int, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Assumptions:
    """What a caller knows of one model.

    kinds    pairs of a regular expression, which fits whole names, and a kind
    format   of the file, whatever its metadata says; None to believe the metadata
    """

    kinds: tuple[tuple[NameRegex, str], ...] = ()
    format: str | None = None
    _several: dict[NameRegex, bool] = field(default_factory=dict, repr=False, compare=False)

    def about(self, name: str, kinds: Iterable[str]) -> tuple[NameRegex, str] | None:
        """The first pair about a name with one of these kinds."""
        return next((each for each in self.kinds if each[1] in kinds and each[0].fullmatch(name)), None)

    def is_about_several(self, match: NameRegex, names: Iterable[str]) -> bool:
        """True if an expression fits several names of the model.  They are read once: every tensor asks."""
        if match not in self._several:
            self._several[match] = len([*itertools.islice(filter(match.fullmatch, names), 2)]) > 1
        return self._several[match]


def assumptions(pairs: Iterable[tuple[str, str]], sets: Sequence[RuleSet]) -> Assumptions:
    """What pairs of a regular expression and a kind say, or "format" and a format; `LayoutError` for other pairs."""
    kinds, format = [], None
    said = {rule.kind for each in sets for rule in each.rules}
    known = tuple(each for each in ASSUMABLE if each in said)
    for regex, kind in pairs:
        origin = assumption_text(regex, kind)
        if regex == "format" and kind not in ASSUMABLE:
            format = _format(kind, origin, sets)
        elif kind in known:
            kinds.append((NameRegex(regex, origin), kind))
        elif kind in ASSUMABLE:
            maps = " and ".join(each.origin for each in sets if each.origin) or "your rules"
            have = "and ready maps have such" if maps == "your rules" else f"and {maps} has none"
            instead = f": write one of {', '.join(known)}" if known else ""
            raise LayoutError(f"{origin} is for rules of this kind, {have}{instead}")
        else:
            raise LayoutError(f"{origin}: {value_text(kind)} is no kind: write one of {', '.join(known or ASSUMABLE)}")
    return Assumptions(tuple(kinds), format)


def _format(text: object, origin: str, sets: Sequence[RuleSet]) -> str:
    format = text.lower() if isinstance(text, str) else ""
    if format not in FORMATS:
        raise LayoutError(f"{origin}: {value_text(text)} is no format: write one of {', '.join(FORMATS)}")
    if not any(each.reads for each in sets):
        raise LayoutError(f"{origin} is for maps that say which format they read, and there are none")
    return format


def check_all_decide(
    assumed: Assumptions, taken_as: Mapping[str, Kind | None], dimensions: Dimensions, file: object
) -> None:
    """`LayoutError` for an assumption that decides the kind of no tensor.

    taken_as   what each tensor is
    """
    told = {name: kind.kind for name, kind in taken_as.items() if kind is not None and kind.known_by == "assume"}
    deciding = {name: assumed.about(name, (kind,)) for name, kind in told.items()}
    used = {id(pair) for pair in deciding.values()}
    for pair in assumed.kinds:
        if id(pair) in used:
            continue
        match, kind = pair
        origin = assumption_text(match.pattern, kind)
        names = [*filter(match.fullmatch, taken_as)]
        if not names:
            raise LayoutError(f"{origin} fits no tensor of {file}")
        for name in names:
            earlier = deciding.get(name)
            if earlier is not None and earlier[1] in _family(kind):
                raise LayoutError(
                    f"{origin} comes after {assumption_text(earlier[0].pattern, earlier[1])}, which fits the same "
                    "tensors: write it first"
                )
        one = next((name for name in names if taken_as[name] is not None), names[0])
        is_ = taken_as[one]
        taken = f"is taken as {is_.kind} ({is_.known_by})" if is_ is not None else "has no rule for this kind"
        raise LayoutError(
            f"{origin} decides nothing: it fits {counted(len(names), 'tensor')}, and "
            f"{'the first' if len(names) > 1 else 'it'}, {value_text(clipped(one, 80))} of shape "
            f"{shown(dimensions[one])}, {taken}"
        )


def assumption_text(regex: str, kind: str) -> str:
    """How a caller writes an assumption; the command line makes an option of it."""
    if isinstance(regex, str) and isinstance(kind, str) and "'" not in regex + kind and len(regex) <= MOST_REGEX:
        return f"assume={{r'{regex}': '{kind}'}}"
    return f"assume={{{clipped(value_text(regex), 80)}: {clipped(value_text(kind), 80)}}}"


def chosen(
    name: str, rules: Sequence[Rule], dimensions: Dimensions, assumed: Assumptions
) -> tuple[Rule | None, Kind | None] | Unclear:
    """The rule for a tensor among those that fit its name and rank, and the kind that the tensor is taken as."""
    by_kind = {rule.kind: rule for rule in rules}
    if "norm" in by_kind and _is_norm(name, dimensions):
        return by_kind["norm"], Kind("norm", "bias")
    if by_kind.keys() <= {None, "norm"}:
        return by_kind.get(None), None
    # Weights that fit these rules may be of kinds without a rule.  A depthwise convolution is a plain one, unless a
    # rule says where its axes stand.
    unsaid = {each for rule in rules for each in _family(rule.kind)} - {"depthwise"}
    kinds = tuple(each for each in KINDS if each in by_kind or each in unsaid)
    possible = tuple(each for each in kinds if each not in by_kind or _bias_fits(name, by_kind[each], dimensions))
    if not possible:
        raise LayoutError(f"{_bias_text(name, dimensions, kinds)}: write a rule of your own for it")
    kind = _decided(name, kinds, possible, dimensions, assumed)
    if kind is None:
        return Unclear(name, dimensions[name], possible)
    rule = by_kind.get(kind.kind, by_kind.get(None))
    if rule is not None and kind.kind == "conv_transpose":
        _check_groups(name, rule, dimensions)
    return rule, kind


def _is_norm(name: str, dimensions: Dimensions) -> bool:
    """True for a weight and a bias that both have the same one dimension."""
    weight, bias = (_beside(name, each, dimensions) for each in ("weight", "bias"))
    return weight is not None and weight == bias and len(weight) == 1


def _family(kind: str | None) -> tuple[str | None, ...]:
    """A kind and what it is easily taken for."""
    return next((each for each in _FAMILIES if kind in each), (kind,))


def _decided(
    name: str, kinds: tuple[str, ...], possible: tuple[str, ...], dimensions: Dimensions, assumed: Assumptions
) -> Kind | None:
    named = kind_in_name(name, dimensions, kinds)
    kind = None
    if len(possible) == 1:
        kind = Kind(possible[0], "bias" if len(kinds) > 1 else "rule")
    elif named in possible:
        kind = Kind(named, "name")
    pair = assumed.about(name, kinds)
    if pair is not None:
        against = kind is not None and kind.kind != pair[1] and assumed.is_about_several(pair[0], dimensions)
        # A weight is easily taken for what a caller says.  "conv" about several means that none is transposed.
        contradicts = kind and pair[1] in _family(kind.kind) and (pair[1], kind.kind) != ("conv", "depthwise")
        if kind is None or not against or contradicts:
            _check_told(name, *pair, kind if against else None, possible, dimensions)
            return Kind(pair[1], "assume")
    return kind or (Kind("linear", "guess") if "linear" in possible and named != DOUBTFUL else None)


def _check_told(
    name: str, match: NameRegex, told: str, kind: Kind | None, possible: tuple[str, ...], dimensions: Dimensions
) -> None:
    """`LayoutError` for an assumption against a bias; and against a name, if it is about several tensors.

    kind   what a tensor is without the assumption, if that says otherwise and is about several
    """
    said = assumption_text(match.pattern, told)
    if told not in possible:
        raise LayoutError(
            f"{_bias_text(name, dimensions, (told,))}, as {said} says: before it write "
            f"{' or '.join(assumption_text(only(name), each) for each in possible)}"
        )
    if kind is not None:
        raise LayoutError(
            f"{tensor_text(name)} of shape {shown(dimensions[name])} is called like "
            f"{_WORDS[kind.kind]}, but {said} is about it too: before it write "
            f"{assumption_text(only(name), kind.kind)}, or {assumption_text(only(name), told)} if the name is wrong"
        )


def only(name: str) -> str:
    """A regular expression for one name, as it can stand in a line of a message, and before the `=` of an option."""
    text = "".join(each if each.isprintable() and each != "'" else "\0" for each in name[:200])
    return re.escape(text).replace("\0", r"\W").replace("=", "[=]") + (".*" if len(name) > 200 else "")


def _beside(name: str, part: str, dimensions: Dimensions) -> tuple[int, ...] | None:
    """The dimensions of the weight or the bias of a tensor's layer; None if there is none."""
    return dimensions.get(f"{name.removesuffix(re.split('[./]', name)[-1])}{part}")


def _axes(rule: Rule, sizes: tuple[int, ...]) -> dict[str, int]:
    """The sizes of a weight's axes, by the names in the rule's pattern."""
    to = rule.pattern_for(len(sizes))
    if to is None:
        return {}
    return {group[0]: size for group, size in zip(read_pattern(to, len(sizes)).before, sizes) if group}


def _bias_fits(name: str, rule: Rule, dimensions: Dimensions) -> bool:
    """True if the bias beside a weight could be that of a layer of a rule's kind; also if there is none."""
    bias = _beside(name, "bias", dimensions)
    if bias is None or rule.kind == "embedding":
        return bias is None
    axes = _axes(rule, dimensions[name])
    if rule.kind == "depthwise" and {"i", "m"} <= axes.keys():
        return bias == (axes["i"] * axes["m"],)
    if "o" not in axes:  # the heads of attention, or a pattern that does not say which axis the outputs are
        return rule.kind != "attention" or bias == tuple(size for axis, size in axes.items() if axis != "i")
    if rule.kind != "conv_transpose":
        return bias == (axes["o"],)
    return len(bias) == 1 and _groups(bias[0], axes) is not None


def _groups(outputs: int, axes: Mapping[str, int]) -> int | None:
    """In how many groups a transposed convolution has so many outputs; None if it cannot.

    Only PyTorch has groups, and only in its weights the inputs come first.
    """
    groups = outputs // axes["o"] if axes["o"] else 1
    whole = groups * axes["o"] == outputs and groups and axes.get("i", groups) % groups == 0
    return groups if whole and (groups == 1 or next(iter(axes)) == "i") else None


def _check_groups(name: str, rule: Rule, dimensions: Dimensions) -> None:
    """`LayoutError` for a transposed convolution in groups, which only PyTorch has."""
    bias, axes = _beside(name, "bias", dimensions), _axes(rule, dimensions[name])
    if bias and "o" in axes and (groups := _groups(bias[0], axes)) != 1:
        raise LayoutError(
            f"tensor {value_text(name)} of shape {shown(dimensions[name])} is a transposed convolution in {groups} "
            f"groups, as its bias of {bias[0]} says: only PyTorch has such layers"
        )


def _bias_text(name: str, dimensions: Dimensions, kinds: Sequence[str]) -> str:
    bias = _beside(name, "bias", dimensions)
    return (
        f"{tensor_text(name)} of shape {shown(dimensions[name])} is not "
        f"{' or '.join(_WORDS[each] for each in kinds)} with its bias of shape {shown(bias or ())}"
    )


def unclear_text(unclear: Sequence[Unclear], origin: str) -> str:
    """The message about tensors that may be of several kinds, with what to write."""
    first = unclear[0]
    what = " or ".join(f"{_WORDS[each]} ({each})" for each in first.kinds)
    one = only(first.name)
    rank3 = ", or else a stack of matrices, which needs a rule of your own" if len(first.dimensions) == 3 else ""
    if "conv" in first.kinds:
        others = [each for each in ("conv_transpose", "depthwise") if each in first.kinds]
        words = " or ".join(_WORDS[each].removeprefix("a ").removesuffix(" convolution") for each in others)
        advice = (
            f"write {assumption_text('.*', 'conv')} if no convolution in the file is {words}, and before it "
            f"{' or '.join(assumption_text(one, each) for each in others)} for each one that is"
        )
    else:
        advice = f"write {' or '.join(assumption_text(one, each) for each in first.kinds)}"
    return (
        f"{origin} cannot tell what {counted(len(unclear), 'tensor')} {'is' if len(unclear) == 1 else 'are'}.  "
        f"{'It' if len(unclear) == 1 else 'The first'} is {value_text(clipped(first.name, 80))} of shape "
        f"{shown(first.dimensions)}: {what}{rank3}.  So {advice}"
    )


# ---- what a name says ------------------------------------------------------------------------------------------------

# A name is that of an attribute: up, features.0, or conv1.  So only names of classes and words of the field count, and
# those only where nothing else in the name contradicts:
#
#     encoder.conv1.weight, Conv_0.kernel        conv
#     conv2d_transpose_1/kernel, deconv1.weight  conv_transpose
#     up.conv.weight, decoder.conv.weight        nothing: layers called so are often transposed
#     wte.weight, word_embeddings.weight         embedding
#     embed_proj.weight                          nothing, but not linear either
#     conv_dw_1/kernel, block1a_dwconv/kernel    depthwise, where rules tell it from conv

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
    """The kind that a name says, `DOUBTFUL`, or None; an uncertain name says nothing.

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
    if layer in ("query", "key", "value"):
        return "attention"
    if layer in ("out", "attention_output"):  # of an attention layer, if it stands beside a query
        before, _, after = name.rpartition(layer)
        if f"{before}query{after}" in names:
            return "attention"
    if "relative_attention_bias" in layer or layer.lower() in _TABLES or any(map(_TABLE_WORD.fullmatch, words)):
        return DOUBTFUL if numbered or words & _MATRICES else "embedding"
    return None


def _words(text: str) -> frozenset[str]:
    """The words of a name in small letters: conv2d_bn and ConvBlock have two."""
    return frozenset(each.lower() for each in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text))
