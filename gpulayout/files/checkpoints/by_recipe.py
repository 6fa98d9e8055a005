"""What becomes of a checkpoint by a recipe: one new model, or a file for each rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpulayout.files.checkpoints import config
from gpulayout.files.checkpoints.by_ranks import together, with_all_ruled
from gpulayout.files.checkpoints.config import Config, read_config
from gpulayout.files.checkpoints.gguf import GGUF_ENDING, METADATA_PREFIX, GgufContents, is_gguf, is_later_part
from gpulayout.files.checkpoints.measured_tensors import Scales
from gpulayout.files.checkpoints.model_folders import OtherFile
from gpulayout.files.checkpoints.opening import Checkpoint
from gpulayout.files.checkpoints.planning import CheckpointPlan, plan_relayout
from gpulayout.files.checkpoints.rank_files import check_rank_names
from gpulayout.files.checkpoints.recipes import Recipe
from gpulayout.files.checkpoints.rules import RuleSet
from gpulayout.files.checkpoints.tensor_checks import check_tensors
from gpulayout.files.errors import FileError
from gpulayout.layout.checks import value_text

WEIGHT = ".weight"
WIDE = ("BF16", "F16", "F32")  # types of weights that are not quantised


def plan_by_recipe(
    source: Checkpoint, path: Path, sets: Sequence[RuleSet], *, recipe: Recipe, **options: Any
) -> CheckpointPlan:
    """The relayout of a checkpoint by a recipe; `LayoutError` where its config says that the recipe is for others.

    path      of the new model; of several new files, the folder is that of `path`
    sets      those of the caller first, whose rules stand before those of the recipe
    options   of `plan_relayout`
    """
    found = replace(read_config(source.path.parent), keys=_keys(source))
    _check_is_gguf(recipe, source, found)
    recipe.check(found)
    scales = Scales()  # those of all new files, measured once

    def planned(path: Path, **values: Any) -> CheckpointPlan:
        known = recipe.values(found, inputs=len(source.inputs), **values)
        recipe.check_values(known)
        if not values.get("rank"):  # once for all ranks
            check_tensors(source, recipe.tensor_checks(known), [rule for own in sets[:1] for rule in own.rules])
        sets_of_all: Sequence[RuleSet] = (*sets[:1], recipe.rules(known), *sets[1:])
        if recipe.output is not None:
            sets_of_all = with_all_ruled(source, sets_of_all)
        return plan_relayout(source, path, sets_of_all, scales=scales, constants=recipe.constants(known), **options)

    if recipe.output is None:
        values = recipe.values(found)
        plan = planned(path)
    else:
        ranks = recipe.ranks(recipe.values(found))
        values = recipe.values(found, rank=0)
        names = [recipe.values(found, rank=rank).filled(recipe.output) for rank in range(ranks)]
        check_rank_names(names, f"{recipe.shown}: output {value_text(recipe.output)}")
        plan = together([planned(path.with_name(name), rank=rank) for rank, name in enumerate(names)])
    values.give(kept_modules=_kept_modules(plan, found))
    others = _configs(path, recipe.config(found, values))
    remarks = (*(f"read by {each}" for each in recipe.readers), *recipe.notes)
    return replace(plan, others=others, remarks=remarks, warnings=_warnings(found))


def _configs(path: Path, text: bytes | None) -> tuple[OtherFile, ...]:
    """The files with the new config."""
    if text is None:
        return ()
    texts = {config.NAME: text, config.OF_GPTQ: config.config_of_gptq(text)}
    return tuple(OtherFile(path.with_name(name), each) for name, each in texts.items() if each is not None)


def _kept_modules(plan: CheckpointPlan, found: Config) -> list[str]:
    """The modules that keep wide weights, which the new config must list as not quantised.

    Where the embeddings are tied, no tensor shows the last layer, but engines still look for it in the list.
    """
    new = [each for each in plan.changes if each.name and each.stored.dtype in WIDE and not each.is_measured]
    names = [str(each.name) for each in new if len(each.stored.dimensions) > 1 and each.stored.note is None]
    modules = [name.removesuffix(WEIGHT) if name.endswith(WEIGHT) else name.rpartition(".")[0] for name in names]
    tied = ["lm_head"] * (found.fields.get("tie_word_embeddings") is True)
    return [*dict.fromkeys([*filter(None, modules), *tied])]


def _keys(source: Checkpoint) -> Mapping[str, Any]:
    """The keys of the first GGUF file; none where there is no such file."""
    every = (shard.contents.keys for shard in source.shards if isinstance(shard.contents, GgufContents))
    return next(every, {})


def _check_is_gguf(recipe: Recipe, source: Checkpoint, found: Config) -> None:
    """`FileError` where a recipe is for GGUF files, and another file was taken for the model.

    A caller who gives the values of a recipe needs no GGUF file.
    """
    wanted = any(each.required and each.field.startswith(METADATA_PREFIX) for each in recipe.expectations)
    if not wanted or found.keys or recipe.given:
        return
    beside = sorted(path for path in source.path.parent.iterdir() if is_gguf(path) and not is_later_part(path.name))
    advice = f": write the file, {beside[0]}" if beside else f", and no file beside it ends in {GGUF_ENDING}"
    raise FileError(f"{source.name}: this is not a GGUF file, and {recipe.shown} needs one{advice}")


def _warnings(found: Config) -> tuple[str, ...]:
    """A line for each check that was skipped."""
    return () if found.is_there else (f"{found.shown}, so the checks that need it were skipped",)
