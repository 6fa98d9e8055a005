r"""Recipes: rules for whole checkpoints, in TOML, each with what it is for and who reads its result.

    gpulayout relayout Llama-GPTQ Llama-Marlin --recipe gptq-to-marlin

A recipe has what a map has, see `maps`, and:

from = 'GPTQ of 4 bits'                  # what it reads
to = 'Marlin'                            # what it makes
notes = ['...']                          # what a user must know
output = 'rank-${rank}.safetensors'      # the names of several new files, one for each rank of ${ranks}
input = 'rank-${rank}.safetensors'       # those of several old files in a folder, one for each rank, see `rank_files`

[[reader]]                               # who reads the result
engine = 'vLLM'
versions = '0.4 to 0.9'
function = 'vllm.model_executor...'

[values]                                 # numbers by name, see `recipe_values`: a caller may give each of them
group = 'quantization_config.group_size'  # of config.json; a key of a GGUF file is gguf.llama.block_count

[expects.'quantization_config.bits']     # of config.json, where there is one
is = [4]                                 # the values that are right; none for a field that must be missing
required = true                          # it must not be missing
why = 'Marlin has 4 bits'

[[requires]]                             # of the values
that = 'ranks <= heads'
why = '${heads} heads are too few for ${ranks} ranks'

[[check]]                                # of the old tensors, see `tensor_checks`
match = '.*\.q_proj\.weight'
rows = 'heads * head_dim'
why = '${heads} heads of ${head_dim} each'

[config]                                 # of the new config.json
remove = ['quantization_config']
set = { torch_dtype = 'bfloat16' }

[[tensor]]
match = '(.*)\.scales'
when = 'group > 0'                       # only then
to = 'marlin:scales'

[[constant]]                             # new tensors that no old one becomes, see `constants`
match = '(.*)\.scales'
names = ['\1.extra']
dtype = 'F32'
shape = []
value = 1
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gpulayout.files.checkpoints.config import Config, Expectation, new_config
from gpulayout.files.checkpoints.constants import Constant, constant_of
from gpulayout.files.checkpoints.maps import MAP_KEYS, content_of, rules_in
from gpulayout.files.checkpoints.rank_files import MOST_RANKS
from gpulayout.files.checkpoints.recipe_values import RecipeValues
from gpulayout.files.checkpoints.rules import RuleSet
from gpulayout.files.checkpoints.tensor_checks import TensorCheck, check_of, problem_of
from gpulayout.files.errors import FileError
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

FOLDER = Path(__file__).parent / "recipes"
_KEYS = {
    "from": str,
    "to": str,
    "notes": list,
    "output": str,
    "input": str,
    "reader": list,
    "values": dict,
    "expects": dict,
    "config": dict,
    "requires": list,
    "check": list,
    "constant": list,
    **MAP_KEYS,
}
_CALL = re.compile(r"\s*([^()]+?)\s*(?:\((.*)\))?\s*", re.DOTALL)
_GIVEN = re.compile(r"\s*([a-z_]\w*)\s*=\s*(-?[0-9]{1,18}|[A-Za-z][\w.-]*)\s*")


class Engine(NamedTuple):
    """Who reads the result of a recipe.

    function   that loads it, or that runs on it
    """

    engine: str
    versions: str
    function: str

    def __str__(self) -> str:
        return f"{self.engine} {self.versions}: {self.function}"


@dataclass(frozen=True)
class Recipe:
    """A recipe, and what a caller says of it.

    name      as a user writes it, without what stands in brackets
    summary   the first line of its file
    content   of its file
    given     values, by name
    """

    name: str
    summary: str
    content: Mapping[str, Any]
    given: Mapping[str, Any]

    @property
    def shown(self) -> str:
        """What messages call it."""
        return f"the recipe {self.name}"

    @property
    def readers(self) -> list[Engine]:
        """Who reads the result; nothing where no released loader does."""
        return [Engine(*(each[key] for key in Engine._fields)) for each in self.content.get("reader", ())]

    @property
    def notes(self) -> list[str]:
        """What a user must know."""
        return [*self.content.get("notes", ())]

    @property
    def definitions(self) -> dict[str, list[str]]:
        """The alternatives of every value, by its name; none for one that a caller must give."""
        defined = self.content.get("values", {})
        return {name: [text] * bool(text) if isinstance(text, str) else text for name, text in defined.items()}

    @property
    def expectations(self) -> list[Expectation]:
        """What fields of config.json must be."""
        return [
            Expectation(field, each.get("is", []), each.get("required", False), each.get("why", ""))
            for field, each in self.content.get("expects", {}).items()
        ]

    @property
    def output(self) -> str | None:
        """The name of the file of each rank; None for one new model."""
        return self.content.get("output")

    def values(self, config: Config, **more: Any) -> RecipeValues:
        """The values for a model."""
        where = f"{config.shown} has none" if config.is_there else config.shown

        def missing(name: str) -> str:
            own = self.definitions.get(name)
            if own is None:
                return f"{self.shown} has the name {name}, which is no value of its own: {where}"
            found = f", which is {' or '.join(own)}: {where}" if own else ""
            return f"{self.shown} needs {name}{found}: write {self.name}({name}=...)"

        return RecipeValues({**self.given, **more}, self.definitions, config.field, missing)

    def check(self, config: Config) -> None:
        """`LayoutError` for a model that the recipe is not for, as its config says; nothing without a config."""
        if config.is_there:
            for each in self.expectations:
                each.check(config, self.shown)

    def check_values(self, values: RecipeValues) -> None:
        """`LayoutError` for values that do not go together."""
        for each in self.content.get("requires", ()):
            if not values.expression(each["that"]):
                raise LayoutError(f"{self.shown}: {values.filled(each['why'])}")

    def tensor_checks(self, values: RecipeValues) -> list[TensorCheck]:
        """What the old tensors must be for these values."""
        return [
            check_of(
                values.filled({key: value for key, value in each.items() if key != "when"}),
                values.expression(each["rows"]) if "rows" in each else None,
                f"check {number} of {self.shown}",
            )
            for number, each in enumerate(self.content.get("check", ()), 1)
            if values.expression(each.get("when", "1"))
        ]

    def ranks(self, values: RecipeValues) -> int:
        """How many new files there are."""
        ranks = values["ranks"]
        if type(ranks) is not int or not 1 <= ranks <= MOST_RANKS:
            raise LayoutError(f"{self.shown}: ranks is {value_text(ranks)}, not a number from 1 to {MOST_RANKS}")
        return ranks

    def rules(self, values: RecipeValues) -> RuleSet:
        """The rules for these values."""
        tensors = [
            values.filled({key: value for key, value in each.items() if key != "when"})
            if "when" not in each or values.expression(each["when"])
            else None
            for each in self.content.get("tensor", ())
        ]
        own = {key: value for key, value in self.content.items() if key in MAP_KEYS}
        return rules_in({**own, "tensor": tensors}, self.shown)

    def constants(self, values: RecipeValues) -> list[Constant]:
        """The tensors that it adds for these values; `FileError` for a table that is wrong."""
        said = [each for each in self.content.get("constant", ()) if values.expression(each.get("when", "1"))]
        try:
            return [
                constant_of(
                    values.filled({key: value for key, value in each.items() if key != "when"}),
                    f"constant {number} of {self.shown}",
                )
                for number, each in enumerate(said, 1)
            ]
        except LayoutError as error:
            raise FileError(str(error)) from None

    def config(self, config: Config, values: RecipeValues) -> bytes | None:
        """The text of the new config.json; None where there is none, and where it stays as it is."""
        said = self.content.get("config")
        if not said or not config.names:
            return None
        return new_config(config, said.get("remove", []), values.filled(said.get("set", {})))


def move_options(recipe: Recipe | None) -> dict[str, Any]:
    """What a recipe says of the files of a `ModelMove`: that it makes one for each rank, and that it reads such."""
    if recipe is None:
        return {}
    return {"to_folder": recipe.output is not None, "rank_names": recipe.content.get("input")}


def recipes() -> dict[str, Recipe]:
    """The recipes of the package, by name."""
    return {file.stem: _recipe(file.stem, file, {}) for file in sorted(FOLDER.glob("*.toml"))}


def read_recipe(text: str | os.PathLike[str]) -> Recipe:
    """The recipe that a caller names, `llama-tp(ranks=2)`; `LayoutError` for other text, and `FileError` for a file
    that is no recipe.

    text   the name of one of the package, or of a file that ends in .toml; then values in brackets
    """
    said = os.fspath(text)
    match = _CALL.fullmatch(said) if isinstance(said, str) else None
    if match is None:
        raise LayoutError(f"{value_text(said)} is not a recipe: write its name, or NAME(ranks=2) with values for it")
    name, brackets = match.groups()
    given = {}
    for each in filter(None, (each.strip() for each in (brackets or "").split(","))):
        pair = _GIVEN.fullmatch(each)
        if pair is None:
            raise LayoutError(
                f"recipe {value_text(said)}: {value_text(each)} gives no value: write a name and a whole number or a "
                "word, such as ranks=2"
            )
        if pair[1] in given:
            raise LayoutError(f"recipe {value_text(said)} gives {pair[1]} twice")
        word: Any = {"true": True, "false": False}.get(pair[2], pair[2])
        given[pair[1]] = int(pair[2]) if pair[2].lstrip("-").isdigit() else word
    is_file = name.endswith(".toml") or not isinstance(text, str)
    file = Path(name) if is_file else FOLDER / f"{name}.toml"
    if not is_file and (os.sep in name or not file.is_file()):
        known = sorted(each.stem for each in FOLDER.glob("*.toml"))
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"they are {', '.join(known)}; a file ends in .toml"
        raise LayoutError(f"{value_text(clipped(name, 80))} is not a recipe: {hint}")
    recipe = _recipe(name, file, given)
    unknown = next((each for each in given if each not in recipe.definitions), None)
    if unknown is not None:
        have = f"its values are {', '.join(recipe.definitions)}" if recipe.definitions else "it has none"
        raise LayoutError(f"{recipe.shown} has no value {unknown}: {have}")
    return recipe


def _recipe(name: str, file: Path, given: Mapping[str, Any]) -> Recipe:
    shown = f"the recipe {name}"
    summary, content = content_of(file, shown)
    for key, value in content.items():
        if key not in _KEYS or not isinstance(value, _KEYS[key]):
            needs = f"must be a {_KEYS[key].__name__}" if key in _KEYS else f"is none of {', '.join(_KEYS)}"
            raise FileError(f"{shown}: the key {value_text(key)} {needs}")
    _check(content, shown)
    return Recipe(name, summary, content, given)


def _check(content: Mapping[str, Any], shown: str) -> None:
    """`FileError` for tables that are not as they must be."""
    problem = ""
    for each in content.get("reader", ()):
        if not isinstance(each, dict) or {*each} != {*Engine._fields} or not _are_texts(each.values()):
            problem = f"a reader is {value_text(each)}, not the texts {', '.join(Engine._fields)}"
    for name, texts in content.get("values", {}).items():
        if not isinstance(texts, str) and not (isinstance(texts, list) and texts and _are_texts(texts)):
            problem = f"the value {name} is {value_text(texts)}, not an expression or a list of them"
    for field, each in content.get("expects", {}).items():
        kinds = {"is": list, "required": bool, "why": str}
        if not isinstance(each, dict) or not all(isinstance(value, kinds.get(key, ())) for key, value in each.items()):
            problem = f"expects.{field} is {value_text(each)}, not a table of is, required and why"
    for each in content.get("requires", ()):
        if not isinstance(each, dict) or {*each} != {"that", "why"} or not _are_texts(each.values()):
            problem = f"requires has {value_text(each)}, not the texts that and why"
    for each in content.get("check", ()):
        problem = problem_of(each) or problem
    for each in content.get("constant", ()):
        if not isinstance(each, dict):
            problem = f"a constant is {value_text(each)}, not a table"
    for each in (*content.get("tensor", ()), *content.get("constant", ())):
        if not isinstance(each, dict):
            problem = f"{value_text(each)} is not a table of a rule"
        elif not isinstance(each.get("when", ""), str):
            problem = f"when is {value_text(each['when'])}, not an expression"
    said = content.get("config", {})
    if not all(isinstance(value, {"remove": list, "set": dict}.get(key, ())) for key, value in said.items()):
        problem = "config has more than a list remove and a table set"
    elif not _are_texts([*said.get("remove", ()), *content.get("notes", ())]):
        problem = "notes and config.remove are lists of texts"
    if problem:
        raise FileError(f"{shown}: {problem}")


def _are_texts(values: Any) -> bool:
    return all(isinstance(each, str) for each in values)
