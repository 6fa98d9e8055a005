r"""Maps: files of rules in TOML, and the ready ones between frameworks, by name.

strict = true                               # every tensor needs a rule; without it, others are copied
optional = true                             # a rule may fit no tensor
rename = [['/', '.']]                       # in the names of all new tensors
reads = ['flax']                            # the formats of files that it is for, as their metadata says
metadata = { format = 'pt' }                # of the new file

[[tensor]]
match = '(.*)/kernel'
to = ["i o -> o i", "h w i o -> o i h w"]   # by rank
name = '\1.weight'
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpulayout.files.checkpoints.header import NOTE
from gpulayout.files.checkpoints.kinds import FORMATS
from gpulayout.files.checkpoints.rank_files import RANK
from gpulayout.files.checkpoints.recipe_values import RecipeValues
from gpulayout.files.checkpoints.rule_text import renamings, rule_of, rule_of_text
from gpulayout.files.checkpoints.rules import RuleSet
from gpulayout.files.errors import FileError
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

FOLDER = Path(__file__).parent / "maps"
MOST_MAP = 1 << 20  # bytes of a file of rules
# Python reads a key of n parts, a.b.c, in time quadratic in n.  A key of a map has one part, or two.
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){50}""")
MAP_KEYS = {"strict": bool, "optional": bool, "rename": list, "metadata": dict, "reads": list, "tensor": list}


def ready_maps() -> dict[str, str]:
    """The names of the ready maps, each with the first line of its file, which says what it is for."""
    files = sorted(FOLDER.glob("*.toml"))
    return {file.stem: file.read_text().splitlines()[0].removeprefix("# ") for file in files}


def read_map(name: str | os.PathLike[str], values: RecipeValues | None = None) -> RuleSet:
    """The rules of a ready map, or of a file; `FileError` for other text, with the place of what is wrong.

    values   take the places of ${names}; None where those are text as any other
    """
    file = Path(os.fspath(name))
    if isinstance(name, str) and file.suffix != ".toml" and os.sep not in name:
        file = FOLDER / f"{name}.toml"
        if not file.is_file():
            known = ready_maps()
            near = _near(name, known)
            hint = f"did you mean {near!r}?" if near else f"they are {', '.join(known)}; a file ends in .toml"
            raise LayoutError(f"{value_text(name)} is not a ready map: {hint}")
        shown = f"the map {name}"
    else:
        shown = str(file)
    content = content_of(file, shown)[1]
    for key, value in content.items():
        if key not in MAP_KEYS or not isinstance(value, MAP_KEYS[key]):
            needs = f"must be a {MAP_KEYS[key].__name__}" if key in MAP_KEYS else f"is none of {', '.join(MAP_KEYS)}"
            raise FileError(f"{shown}: the key {value_text(key)} {needs}")
    return rules_in(content if values is None else values.filled(content), shown)


def content_of(file: Path, shown: str) -> tuple[str, dict[str, Any]]:
    """The first line of a TOML file, and its content; `FileError` for other text, with the place of what is wrong."""
    if file.exists() and not file.is_file():
        raise FileError(f"{shown}: not a regular file")
    with open(file, "rb") as stream:
        text = stream.read(MOST_MAP + 1)
    try:
        if len(text) > MOST_MAP:
            raise ValueError(f"it has more than {MOST_MAP} bytes")
        if long := _LONG_KEY.search(decoded := text.decode()):
            raise ValueError(f"{value_text(clipped(long[0], 40))} has 50 parts: a key of a map has one, or two")
        return decoded.partition("\n")[0].removeprefix("# "), tomllib.loads(decoded)
    except (ValueError, RecursionError) as error:  # also for text that is not UTF-8
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        quotes = "; write expressions and names in single quotes" if "'\\'" in str(reason) else ""
        raise FileError(f"{shown}: not rules in TOML: {reason}{quotes}") from None


def rules_in(content: Mapping[str, Any], shown: str) -> RuleSet:
    """The rules of a file; `FileError` for those that are wrong, which is a fault of the file."""
    try:
        return _rules(content, shown)
    except (LayoutError, TypeError) as error:
        raise FileError(str(error)) from None


def _near(name: str, known: Iterable[str]) -> str | None:
    """The map that a misspelt name was meant to be: one whose frameworks are called like both of its own.

    >>> [_near(name, ["torch-to-flax", "keras-to-torch"]) for name in ("torch2flx", "keras-to-flax")]
    ['torch-to-flax', None]
    """
    words = [each for each in re.findall("[a-z]+", name.lower()) if each != "to"]
    for each in known:
        ends = each.split("-to-")
        if len(words) == 2 and all(difflib.get_close_matches(word, [end], 1, 0.7) for word, end in zip(words, ends)):
            return each
    return None


def _rules(content: Mapping[str, Any], shown: str) -> RuleSet:
    optional, rules = content.get("optional", False), []
    for number, entry in enumerate(content.get("tensor", ()), 1):
        if entry is None:  # of a recipe, for other values
            continue
        origin = f"rule {number} of {shown}"
        if not isinstance(entry, dict) or not isinstance(entry.get("match"), str):
            raise FileError(f"{shown}: tensor {number} has no text called match, the regular expression of names")
        if not isinstance(entry.get("optional", optional), bool):
            raise FileError(f"{origin}: optional is {value_text(entry['optional'])}: it must be true or false")
        what = {key: value for key, value in entry.items() if key not in ("match", "optional")}
        rules.append(rule_of(entry["match"], what, origin, optional=entry.get("optional", optional)))
    pairs = content.get("rename", [])
    if not all(isinstance(each, list) and [*map(type, each)] == [str, str] for each in pairs):
        raise FileError(f"{shown}: rename is not a list of pairs of texts, such as [['/', '.']]")
    metadata = content.get("metadata", {})
    if not all(isinstance(each, str) for each in metadata.values()):
        raise FileError(f"{shown}: metadata is {value_text(metadata)}, not a table of texts")
    for key in metadata:
        if key.startswith(NOTE):
            raise FileError(f"{shown}: metadata has {value_text(key)}: notes about layouts follow from rules alone")
    reads = content.get("reads", [])
    if not all(isinstance(each, str) and each in FORMATS for each in reads):
        raise FileError(f"{shown}: reads is {value_text(reads)}, not a list of {', '.join(FORMATS)}")
    strict = content.get("strict", False)
    return RuleSet(tuple(rules), renamings(pairs, f"rename of {shown}"), metadata, strict, shown, tuple(reads))


def readers() -> dict[str, str]:
    """For each format that a file may say it has, the ready maps that read it."""
    maps: dict[str, list[str]] = {}
    for name in ready_maps():
        for format in read_map(name).reads:
            maps.setdefault(format, []).append(name)
    return {format: " or ".join(names) for format, names in maps.items()}


def rule_sets(
    tensors: Any, rename: Iterable[tuple[str, str]] = (), values: RecipeValues | None = None
) -> tuple[RuleSet, ...]:
    """The sets of rules that a caller gives as one value: the name or the file of a map, a mapping of rules by regular
    expression, a list of texts such as '(.*)kernel=i o -> o i', or a list of these.

    values   take the places of ${names}; None where those are text as any other
    """

    def filled(said: Any) -> Any:
        if values is None and RANK in str(said):
            raise LayoutError(
                f"{value_text(clipped(str(said), 80))} has {RANK}: say in ranks how many new files there are"
            )
        return said if values is None else values.filled(said)

    if tensors is None or isinstance(tensors, (str, os.PathLike, Mapping)):
        tensors = [] if tensors is None else [tensors]
    elif not isinstance(tensors, (list, tuple)):
        raise TypeError(f"tensors is {value_text(tensors)}: it takes a mapping of rules, a map, or a list")
    own, maps = [], []
    for each in tensors:
        if isinstance(each, Mapping):
            own += [rule_of(regex, filled(what), f"the rule {value_text(regex)}") for regex, what in each.items()]
        elif isinstance(each, os.PathLike) or (isinstance(each, str) and "=" not in each):
            maps.append(read_map(each, values))
        elif isinstance(each, str):
            own.append(rule_of_text(filled(each)))
        else:
            raise TypeError(f"tensors has {value_text(each)}: it takes maps, mappings and texts REGEX=WHAT")
    strict = [each.origin for each in maps if each.strict]
    if len(strict) > 1:
        raise LayoutError(
            f"{strict[0]} and {strict[1]} both want a rule for every tensor, so they are for different files: give one"
        )
    return (RuleSet(tuple(own), renamings([*map(filled, rename)], "rename")), *maps)
