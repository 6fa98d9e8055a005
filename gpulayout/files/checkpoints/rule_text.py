r"""Rules as people write them: on the command line, in a file of rules, and in Python.

    --tensor '(.*)\.kernel=i o -> o i; name=\1.weight'

    rule := REGEX "=" part (";" part)*
    part := ["to="] (pattern | layout | name of a layout) | "from=" shape | "as=" type
          | parameter "=" (numbers | name of a tensor) | "dtype=" type | "block=" numbers | "divide" | "unit"
          | "saturate=false"
          | "scale=absmax" ["/" number] | "scale_name=" template | "scale_dtype=" type
          | "name=" template | "join=" templates | "stack=" template | "split=" templates | "sizes=" numbers
          | "along=" axis | "shard=" number "/" count ("," number "/" count)* | "resize=" size "->" size | "interleave"
          | "rank=" number | "only=" types | "kind=" kind | "flip=" axes | "keep" | "drop"
          | "expect=" numbers | "why=" text | "beside=" template "[" sizes "]"

In Python and in TOML the parts are keys of a mapping.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.catalogue.names import is_name as is_catalogued
from gpulayout.catalogue.names import read_name
from gpulayout.files.checkpoints.beside import read_beside
from gpulayout.files.checkpoints.expected import expected
from gpulayout.files.checkpoints.measured import MEASURES, Measure, measure_of
from gpulayout.files.checkpoints.name_regex import NameRegex, template_of
from gpulayout.files.checkpoints.new_types import dtype_named, header_type
from gpulayout.files.checkpoints.regroup_text import REGROUPS, listed, regroup_of
from gpulayout.files.checkpoints.rules import KINDS, Renaming, Rule, is_pattern
from gpulayout.files.checkpoints.sibling_names import SiblingName, is_name, number, sibling_name, whole_number
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.patterns import read_pattern
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import is_only_layout, parse_array_shape
from gpulayout.requests.arithmetic import OPTIONS, OTHER_WORDS, PARAMETERS
from gpulayout.requests.shape_arguments import check_layout_text

WHICH = ("rank", "only", "kind")
KEYS = (
    "to",
    "from",
    "as",
    *OPTIONS,
    *MEASURES,
    "name",
    *REGROUPS,
    *WHICH,
    "flip",
    "keep",
    "drop",
    "expect",
    "why",
    "beside",
)
FLAGS = ("divide", "unit", "interleave", "keep", "drop")
_OTHER_WORDS = {  # of other libraries and formats
    **OTHER_WORDS,
    **dict.fromkeys(("axis", "dim"), "along"),
    **dict.fromkeys(("cat", "concat", "concatenate", "fuse", "merge"), "join"),
    **dict.fromkeys(("chunk", "unfuse", "unstack"), "split"),
    **dict.fromkeys(("zero", "zeros", "qzeros", "zeropoint"), "zero_point"),
    **dict.fromkeys(("group", "groups"), "block"),
    **dict.fromkeys(("div", "quantize"), "divide"),
    **dict.fromkeys(("pattern", "layout", "target", "transpose", "permute"), "to"),
    **dict.fromkeys(("rename", "new_name"), "name"),
    **dict.fromkeys(("delete", "remove", "skip"), "drop"),
    **dict.fromkeys(("tp", "tp_rank", "part"), "shard"),
    **dict.fromkeys(("mul", "scales"), "scale"),
    **dict.fromkeys(("assert", "check", "verify"), "expect"),
    "type": "dtype",
}
TRUTHS = ("divide", "saturate")  # with false, they say what else is not clear, or other than usual
_KEYWORD = re.compile(rf"({'|'.join(key for key in KEYS if key not in FLAGS or key in TRUTHS)})\s*=\s*(.*)", re.DOTALL)
_PART = re.compile(r"""\s*[a-z]\w*\s*=\s*(?:'[^']*'|"[^"]*")\s*(?=;|$)|[^;]+""")  # a ; in quotes ends no part
_TYPE = re.compile(r"\s*[a-z]\w+\s*")  # an element type; F and C are layouts
_EXAMPLE = r"such as '(.*)\.kernel=i o -> o i; dtype=bf16; name=\1.weight'"


def rule_of_text(text: str) -> Rule:
    r"""The rule that a text such as '(.*)\.kernel=i o -> o i' means; `LayoutError` for other text."""
    origin = f"the rule {_as_written(text)}"
    regex, equals, what = split_at_equals(text)
    if not equals or not regex.strip():
        raise LayoutError(f"{origin} is not REGEX=WHAT{why_no_equals(text) or f', {_EXAMPLE}'}")
    return rule_of(regex.strip(), what, origin)


def _as_written(text: str) -> str:
    r"""A rule for a message, so that it can be copied: with one backslash where one was written.

    >>> print(_as_written(r"(.*)\.kernel=name=\1.weight"))
    '(.*)\.kernel=name=\1.weight'
    """
    return value_text(clipped(text, 80)).replace("\\\\", "\\")


def split_at_equals(text: str) -> tuple[str, str, str]:
    r"""A text before and behind its first `=` that stands outside brackets and has no backslash.

    >>> split_at_equals("(?=a)[=]=i o -> o i; name=b")
    ('(?=a)[=]', '=', 'i o -> o i; name=b')
    """
    depth, in_class, position = 0, False, 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "=" and depth <= 0:
            return text[:position], "=", text[position + 1 :]
        position += 1
    return text, "", ""


def why_no_equals(text: str) -> str:
    """What is wrong with an expression in which a `=` is not found because its brackets do not close; or nothing.

    >>> why_no_equals(".*(kernel=F")
    ": '.*(kernel' is not a regular expression: missing ), unterminated subpattern at position 2"
    """
    regex, equals, _ = text.partition("=")
    try:
        re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        return f": {value_text(clipped(regex, 80))} is not a regular expression: {error}" if equals else ""
    return ""


def rule_of(regex: str, what: Any, origin: str, *, optional: bool = False) -> Rule:
    """The rule of a regular expression and what a user wrote for it: text, a layout, or a mapping of `KEYS`."""
    parts = _of_text(what, origin) if isinstance(what, str) else what
    if isinstance(parts, (Layout, Shape)):
        parts = {"to": parts}
    if not isinstance(parts, Mapping):
        raise TypeError(f"{origin} is {value_text(what)}, not text, a Layout or a mapping of {', '.join(KEYS)}")
    _check_keys(parts, origin)
    match = NameRegex(regex, origin)
    options, siblings, measure = _options(parts, match, origin)
    patterns, layout = _targets(parts.get("to"), origin)
    kind, name, header = parts.get("kind"), parts.get("name"), parts.get("as")
    if kind is not None and kind not in KINDS:
        raise LayoutError(f"{origin}: kind {value_text(kind)} is none of {', '.join(KINDS)}")
    rule = Rule(
        match=match,
        ranks=_ranks(parts.get("rank"), origin),
        only=_only(parts.get("only"), origin),
        from_=_from(parts.get("from"), origin),
        patterns=patterns,
        layout=layout,
        header=None if header is None else header_type(header, origin),
        options=options,
        siblings=siblings,
        regroup=regroup_of(parts, match, origin),
        name=None if name is None else template_of(match, name, f"{origin}: name", ("name",)),
        kind=kind,
        flip=_flip(parts.get("flip"), patterns, origin),
        keep=bool(parts.get("keep")),
        drop=bool(parts.get("drop")),
        expect=expected(parts.get("expect"), parts.get("why"), origin),
        beside=read_beside(parts.get("beside"), match, origin),
        optional=optional,
        origin=origin,
        measure=measure,
    )
    _check_goes_together(rule)
    return rule


def _check_goes_together(rule: Rule) -> None:
    """`LayoutError` for a rule that says nothing, or two things at once."""
    origin, name, regroup = rule.origin, rule.name, rule.regroup
    also = rule if rule.expect is None else replace(rule, from_=None)  # which says how the numbers are read
    if (rule.keep and (rule.drop or also.changes)) or (rule.drop and name is not None):
        raise LayoutError(f"{origin} says {'keep' if rule.keep else 'drop'}, and something else as well")
    if rule.expect is not None and not (also.changes or rule.keep or rule.drop or name is not None):
        raise LayoutError(f"{origin} looks at its tensors with expect: add keep, drop, or what else becomes of them")
    if not (rule.changes or rule.keep or rule.drop or name is not None):
        quotes = "; without quotes, the shell ends a rule at its first ';'" if rule.only or rule.ranks else ""
        raise LayoutError(f"{origin} does not say what becomes of its tensors, {_EXAMPLE}{quotes}")
    if name is not None and "," in name.text:
        raise LayoutError(
            f"{origin}: name {value_text(name.text)} is not one name: split={name.text} makes several tensors"
        )
    if regroup.stack is not None or regroup.split:
        if name is not None:
            word = "stack" if regroup.stack is not None else "split"
            raise LayoutError(f"{origin}: name {value_text(name.text)} is one name too many: {word} names what is new")
    elif regroup.join and name is None:
        raise LayoutError(f"{origin}: join needs the name of the new tensor: add name=...")


def _near_key(word: str) -> str:
    """Which key a word was meant as.

    >>> _near_key("dim"), _near_key("Dtyp")
    ("did you mean 'along'?", "did you mean 'dtype'?")
    """
    word = word.lower()
    near = [_OTHER_WORDS[word]] if word in _OTHER_WORDS else difflib.get_close_matches(word, KEYS, 1)
    return f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(KEYS)}"


def _check_keys(parts: Mapping[str, Any], origin: str) -> None:
    for key in parts:
        if key not in KEYS:
            raise LayoutError(f"{origin} has the key {value_text(key)}: {_near_key(str(key))}")
    for key in (*FLAGS, "saturate"):
        value = parts.get(key)
        if value is not None and not (isinstance(value, int) and value in (0, 1)):
            raise LayoutError(f"{origin}: {key} is {value_text(value)}: it must be true or false")


# ---- the parts of a text ---------------------------------------------------------------------------------------------


def _of_text(text: str, origin: str) -> dict[str, Any]:
    """The keys that a text means, such as "i o -> o i; dtype=bf16"."""
    parts: dict[str, Any] = {}
    for part in filter(None, (each[0].strip() for each in _PART.finditer(text))):
        keyword = _KEYWORD.fullmatch(part)
        key = keyword[1] if keyword else part if part in FLAGS else "to"
        value = _unquoted(keyword[2] if keyword else part)
        if key in parts and key != "to":
            raise LayoutError(f"{origin} says {key} twice")
        if key == "to":
            if not keyword:
                _check_no_key(part, origin)
            parts.setdefault("to", []).append(value)
        elif keyword:
            parts[key] = _value(key, value, origin)
        else:
            parts[key] = True
    return parts


def _unquoted(text: str) -> str:
    """A text without the quotes around it.

    >>> _unquoted("'{name}_scale'"), _unquoted("a'b'")
    ('{name}_scale', "a'b'")
    """
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _value(key: str, text: str, origin: str) -> Any:
    """What a text says for a key."""
    if key in (*PARAMETERS, "block"):
        return _numbers(text, key, origin)
    return {"true": True, "false": False}.get(text, text) if key in TRUTHS else text


def _check_no_key(part: str, origin: str) -> None:
    """`LayoutError` for a part that was meant as a key: dtyp=bf16, or Keep."""
    word = re.fullmatch(r"([A-Za-z_]+)(?:\s*=[^>]*)?", part)
    if word and ("=" in part or word[1].lower() in FLAGS):
        hint = f"write {word[1]} alone" if word[1] in FLAGS else _near_key(word[1])
        raise LayoutError(f"{origin} has the part {value_text(clipped(part, 60))}, which is no key of a rule: {hint}")


def _numbers(text: str, key: str, origin: str) -> float | list[float] | str:
    """Numbers, or the name of a tensor for a parameter."""
    if key in PARAMETERS and is_name(text) and all(map(is_name, text.split(","))):
        return text
    try:
        read = whole_number if key in ("block", "zero_point") else number
        numbers = [read(each) for each in text.split(",")]
    except ValueError:
        example = {"block": "a whole number, or several such as 1,128", "zero_point": "a whole number"}.get(
            key, "a number, or several such as 0.5,1,2"
        )
        raise LayoutError(f"{origin}: {key} {value_text(text)} is not {example}") from None
    return numbers if len(numbers) > 1 else numbers[0]


# ---- what each key means ---------------------------------------------------------------------------------------------


def _options(
    parts: Mapping[str, Any], match: NameRegex, origin: str
) -> tuple[ArithmeticOptions, dict[str, SiblingName], Measure | None]:
    """The arithmetic on the way, the parameters that are other tensors, and how the scale is measured; all but types is
    checked with the tensor."""
    options: Any = {key: parts[key] for key in OPTIONS if parts.get(key) is not None}
    measure = measure_of(parts, origin)
    if measure is not None:
        options["scale"] = parts["scale_name"]
        if "zero_point" not in options:
            options["divide"] = True
    siblings = {
        key: sibling_name(
            match, options.pop(key), f"{origin}: {key if measure is None or key != 'scale' else MEASURES[0]}"
        )
        for key in PARAMETERS
        if isinstance(options.get(key), str)
    }
    if "dtype" in options:
        try:
            options["dtype"] = ElementType.of(options["dtype"])
        except TypeError as error:
            raise LayoutError(f"{origin}: {error}") from None
    return cast(ArithmeticOptions, options), siblings, measure


def _ranks(value: Any, origin: str) -> tuple[int, ...]:
    ranks = [
        int(each) if isinstance(each, str) and each.isdecimal() and len(each) < 4 else each for each in listed(value)
    ]
    if not all(type(each) is int and each >= 0 for each in ranks):
        raise LayoutError(f"{origin}: rank {value_text(value)} is not a number of dimensions, or a list of them")
    return tuple(ranks)


def _only(value: Any, origin: str) -> tuple[str, ...]:
    """The types of tensors that a rule is for."""
    names = value.split(",") if isinstance(value, str) else listed(value)
    return tuple(dtype_named(each.strip() if isinstance(each, str) else each, f"{origin}: only") for each in names)


def _flip(value: Any, patterns: tuple[str, ...], origin: str) -> tuple[str, ...]:
    """The axes that a rule reverses; `LayoutError` for those that no pattern has."""
    axes = value.split() if isinstance(value, str) else [] if value is None else value
    if not isinstance(axes, (list, tuple)) or not all(isinstance(axis, str) for axis in axes):
        raise LayoutError(f"{origin}: flip {value_text(value)} is not the names of axes, such as 'h w'")
    names = {name for each in patterns for group in read_pattern(each, None).before for name in group}
    for axis in axes:
        if axis not in names:
            has = f"its patterns have {', '.join(sorted(names))}" if names else "it has no pattern"
            raise LayoutError(f"{origin}: flip {value_text(value)} names the axis {value_text(axis)}, but {has}")
    return tuple(axes)


def _from(value: Any, origin: str) -> Shape | Layout | str | None:
    """What the tensor in the file is: a shape, a type, a layout, or one of the catalogue, whose sizes follow."""
    if value is None or isinstance(value, (Layout, Shape)):
        return value
    try:
        if isinstance(value, str) and is_catalogued(value):
            read_name(value)
            return value
        if isinstance(value, str) and "[" in value:
            return parse_array_shape(value)
        if isinstance(value, str) and not _TYPE.fullmatch(value):
            check_layout_text(value)
            return value
        return str(ElementType.of(value))
    except LayoutError as error:
        raise LayoutError(f"{origin}: from: {error}") from None
    except TypeError as error:
        meant = re.search(r"\((did you mean .*)\)", str(error))
        expected = (
            "an element type such as u4 or f4e2m1fn, a layout such as gptq:qweight or {0,1}, a pattern, or a whole "
            "shape such as 'u4[128,256]{1,0:E(4)}'"
        )
        hint = meant[1] if meant else expected
        raise LayoutError(f"{origin}: from {value_text(value)} is not what a tensor is: {hint}") from None


def _targets(value: Any, origin: str) -> tuple[tuple[str, ...], Layout | str | None]:
    """Patterns of different ranks, and a layout."""
    for each in listed(value):
        if not isinstance(each, (str, Layout, Shape)):
            raise TypeError(f"{origin}: to is {value_text(each)}, not text, a Layout or a Shape")
    targets = [str(each) if isinstance(each, Shape) else each for each in listed(value)]
    for each in targets:
        if isinstance(each, str):
            if ";" in each:
                raise LayoutError(f"{origin}: to {value_text(each)} has several parts: each is a key of its own")
            try:
                if is_only_layout(each):
                    check_layout_text(each)
                else:
                    parse_array_shape(each)
            except LayoutError as error:
                raise LayoutError(f"{origin}: {error}") from None
    patterns = tuple(each for each in targets if is_pattern(each))
    layouts = [each for each in targets if not is_pattern(each)]
    if len(layouts) > 1:
        raise LayoutError(
            f"{origin} has {len(layouts)} layouts, {value_text(str(layouts[0]))} and {value_text(str(layouts[1]))}: "
            "only patterns, one for each rank, may be several"
        )
    return patterns, layouts[0] if layouts else None


def renamings(pairs: Iterable[tuple[str, str]], origin: str) -> tuple[Renaming, ...]:
    """Pairs of a regular expression and the template that takes the place of what it finds."""
    compiled = []
    for regex, text in pairs:
        match = NameRegex(regex, origin)
        compiled.append((match, template_of(match, text, f"{origin} of {value_text(regex)}: the text")))
    return tuple(compiled)
