r"""What a recipe wants of the old tensors, so that a config.json that contradicts them is not believed.

[[check]]
match = '.*\.self_attn\.q_proj\.weight'    # for each old tensor whose whole name fits
when = 'heads > 0'                         # only then
rows = 'heads * head_dim'                  # the size along its first axis, in each input
only = ['BF16']                            # its type is one of these; none where there must be no such tensor
same_as = '\g<0>_copy'                     # it has the bytes of another tensor
required = true                            # there is one
why = 'config.json has ${heads} heads'     # what the error says
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpulayout.files.checkpoints.header import tensor_text
from gpulayout.files.checkpoints.model import Found, equal_bytes
from gpulayout.files.checkpoints.name_regex import NameRegex, Template, template_of
from gpulayout.files.checkpoints.opening import Checkpoint
from gpulayout.files.checkpoints.rules import Rule
from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

KEYS: Mapping[str, type] = {
    "match": str,
    "when": str,
    "rows": str,
    "only": list,
    "same_as": str,
    "required": bool,
    "why": str,
}


class TensorCheck(NamedTuple):
    """What tensors with some names must be.

    match     fits their whole names
    rows      the size along the first axis; None for any
    only      their types, as the format calls them; None for any
    same_as   the name of a tensor with the same bytes; None where there need be none
    required  there must be a tensor with such a name
    why       what the error says
    """

    match: NameRegex
    rows: int | None
    only: Sequence[str] | None
    same_as: Template | None
    required: bool
    why: str

    def check(self, who: str, found: Mapping[str, Sequence[Found]], own: Sequence[Rule]) -> None:
        """`LayoutError` for the first tensor that is something else.

        who     the checkpoint, for messages
        found   its tensors by name, one for each input
        own     rules of the caller, who answers for the tensors that they fit
        """
        fitting = {name: match for name in found if (match := self.match.fullmatch(name))}
        if self.required and not fitting:
            name = self.match.pattern.replace("\\.", ".")
            raise LayoutError(f"{who}: no tensor has the name {name}: {self.why}")
        for name, match in fitting.items():
            if any(rule.match.fullmatch(name) for rule in own):
                continue
            for each in found[name]:
                self._check_alone(each)
            if self.same_as is not None:
                self._check_same(found, name, self.same_as.expand(match))

    def _check_alone(self, found: Found) -> None:
        shard, tensor = found
        who = f"{shard.path}: {tensor_text(tensor.name)} is {tensor}"
        if self.only is not None and tensor.dtype not in self.only:
            raise LayoutError(f"{who}: {self.why}")
        if self.rows is not None and tensor.dimensions[:1] != (self.rows,):
            raise LayoutError(f"{who}, and its first axis must have size {self.rows}: {self.why}")

    def _check_same(self, found: Mapping[str, Sequence[Found]], name: str, other: str) -> None:
        """`LayoutError` for a tensor that is not the same as another one: this reads both."""
        (shard, tensor), others = found[name][0], found.get(other, ())
        who = f"{shard.path}: {tensor_text(name)} is {tensor}"
        if not others:
            raise LayoutError(f"{who}, and there is no {tensor_text(other)}: {self.why}")
        for one, two in zip(found[name], others):
            if str(one[1]) != str(two[1]) or not equal_bytes(one, two):
                raise LayoutError(f"{who}, and {tensor_text(other)}, {two[1]}, is not the same: {self.why}")


def check_tensors(source: Checkpoint, checks: Sequence[TensorCheck], own: Sequence[Rule]) -> None:
    """`LayoutError` for the first tensor of a checkpoint that is not as a check wants it."""
    found: dict[str, list[Found]] = {}
    for shard in source.shards:
        for tensor in shard.contents.tensors:
            found.setdefault(tensor.name, []).append((shard, tensor))
    for each in checks:
        each.check(source.name, found, own)


def problem_of(said: Any) -> str:
    """What is wrong with the table of a check; nothing where it is right."""
    if not isinstance(said, dict) or not {"match", "why"} <= {*said}:
        return f"a check is {value_text(said)}, not a table with match and why"
    for key, value in said.items():
        kind = KEYS.get(key)
        if kind is None or not isinstance(value, kind):
            return f"a check has {value_text(key)} {value_text(value)}: its keys are {', '.join(KEYS)}"
    if not all(isinstance(each, str) for each in said.get("only", ())):
        return f"a check has only {value_text(said['only'])}, which is not a list of types"
    return ""


def check_of(said: Mapping[str, Any], rows: Any, origin: str) -> TensorCheck:
    """The check of a table; `LayoutError` for one that is wrong.

    rows   the value of its expression; None where it has none
    """
    if rows is not None and type(rows) is not int:
        raise LayoutError(f"{origin}: rows is {value_text(clipped(str(rows), 80))}, not a whole number")
    match = NameRegex(said["match"], origin)
    same_as = said.get("same_as")
    template = None if same_as is None else template_of(match, same_as, f"{origin}: same_as", ("name",))
    return TensorCheck(match, rows, said.get("only"), template, said.get("required", False), said["why"])
