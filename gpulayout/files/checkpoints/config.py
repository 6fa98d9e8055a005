"""config.json beside a model: what its fields say, whether a recipe is for them, and what the new one says.

    {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
     "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}

A field is named with dots: quantization_config.bits.  Checkpoints of GPTQ also have its fields in a file of their own,
quantize_config.json, and older ones only there.  AutoGPTQ reads nothing else.  AWQ's is quant_config.json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gpulayout.files.checkpoints.gguf import METADATA_PREFIX
from gpulayout.files.checkpoints.header import parsed_json
from gpulayout.files.checkpoints.recipe_values import UnknownName
from gpulayout.files.errors import FileError
from gpulayout.files.folders import refuse_broken
from gpulayout.files.other_formats import refuse_pointer
from gpulayout.layout.checks import clipped, either
from gpulayout.layout.errors import LayoutError

NAME = "config.json"
OF_GPTQ = "quantize_config.json"
OF_AWQ = "quant_config.json"
_NAMES_OF_AWQ = {"w_bit": "bits", "q_group_size": "group_size"}
QUANTISATION = "quantization_config"
MOST_CONFIG = 1 << 24  # bytes


@dataclass(frozen=True)
class Config:
    """The fields of a model's config.

    folder   of the model
    names    of the files that have them, those that there are
    fields   by name, as JSON has them
    keys     of a GGUF file, which are fields too, called gguf.llama.block_count
    """

    folder: Path
    names: tuple[str, ...]
    fields: Mapping[str, Any]
    keys: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """What messages call it."""
        if self.keys and not self.names:
            return "the GGUF file"
        return str(self.folder / self.names[0]) if self.names else f"{self.folder}: there is no {NAME}"

    @property
    def is_there(self) -> bool:
        """True where anything says what the model is."""
        return bool(self.names or self.keys)

    def field(self, name: str) -> Any:
        """A field by its dotted name; `UnknownName` where there is none, or null."""
        if (key := name.removeprefix(METADATA_PREFIX)) != name and key in self.keys:
            return self.keys[key]
        value: Any = self.fields
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            raise UnknownName(name)
        return value


def read_config(folder: Path) -> Config:
    """The config of the model in a folder, without fields where there is none; `FileError` for what is no JSON."""
    found = {name: fields for name in (NAME, OF_GPTQ, OF_AWQ) if (fields := _object(folder / name)) is not None}
    fields = dict(found.get(NAME, {}))
    if OF_GPTQ in found and fields.get(QUANTISATION) is None:
        fields[QUANTISATION] = {"quant_method": "gptq", **found[OF_GPTQ]}
    if OF_AWQ in found and fields.get(QUANTISATION) is None:
        own = {_NAMES_OF_AWQ.get(key, key): value for key, value in found[OF_AWQ].items()}
        fields[QUANTISATION] = {"quant_method": "awq", **own}
    names = [*found]
    return Config(folder, tuple(names), fields)


def _object(path: Path) -> dict[str, Any] | None:
    if not os.path.lexists(path):
        return None
    refuse_broken(path)
    with open(path, "rb") as stream:
        text = stream.read(MOST_CONFIG + 1)
    if len(text) > MOST_CONFIG:
        raise FileError(f"{path}: it has more than {MOST_CONFIG} bytes")
    refuse_pointer(str(path), text)
    fields = parsed_json(str(path), text, "it")
    if not isinstance(fields, dict):
        raise FileError(f"{path}: it is not a JSON object")
    return fields


class Expectation(NamedTuple):
    """What a field must be.

    field     its dotted name
    values    that are right; none where it must be missing
    required  it must not be missing
    why       the values are right
    """

    field: str
    values: Sequence[Any]
    required: bool
    why: str

    def check(self, config: Config, recipe: str) -> None:
        """`LayoutError` where a config says something else."""
        try:
            value = config.field(self.field)
        except UnknownName:
            if not self.required:
                return
            said = f"{config.shown} has no {self.field}"
        else:
            if value in self.values and type(value) in map(type, self.values):  # JSON's true is not 1
                return
            said = f"{config.shown}: {self.field} is {clipped(json.dumps(value), 80)}"
        wanted = either([json.dumps(each) for each in self.values]) if self.values else "a model without it"
        raise LayoutError(f"{said}, and {recipe} is for {wanted}{f': {self.why}' if self.why else ''}")


def new_config(config: Config, remove: Sequence[str], fields: Mapping[str, Any]) -> bytes:
    """The text of the new config.json: without some fields, by their dotted names, and with others."""
    new: dict[str, Any] = json.loads(json.dumps({**config.fields}))
    for name in remove:
        *parents, last = name.split(".")
        at: Any = new
        for parent in parents:
            at = at.get(parent) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at.pop(last, None)
    for name, value in fields.items():
        *parents, last = name.split(".")
        at = new
        for parent in parents:
            if not isinstance(at.get(parent), dict):
                at[parent] = {}
            at = at[parent]
        at[last] = value
    return _text(new).encode()


def _text(fields: Mapping[str, Any]) -> str:
    """JSON; `FileError` for what it has no words for, such as infinity and dates."""
    try:
        text = json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # half a character, which JSON can only escape
        text = json.dumps(fields, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise FileError(f"the new {NAME} cannot be written: {error}") from None
    return text + "\n"


def config_of_gptq(text: bytes) -> bytes | None:
    """The text of the quantize_config.json beside a new config.json; None where that is not of GPTQ."""
    own = json.loads(text).get(QUANTISATION)
    if not isinstance(own, dict) or own.get("quant_method") != "gptq":
        return None
    return _text(own).encode()
