"""What plans the move of a model, by what a caller says: rules for one new model or for each rank, or a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from gpulayout.files.checkpoints.by_ranks import plan_by_ranks, sets_of_ranks
from gpulayout.files.checkpoints.by_recipe import plan_by_recipe
from gpulayout.files.checkpoints.kinds import assumptions
from gpulayout.files.checkpoints.maps import rule_sets
from gpulayout.files.checkpoints.planning import CheckpointPlan, plan_relayout
from gpulayout.files.checkpoints.rank_files import Ranks
from gpulayout.files.checkpoints.recipes import Recipe
from gpulayout.layout.errors import LayoutError

Pairs = Iterable[tuple[str, str]]


def planner_of(
    rules: Any, rename: Pairs, assume: Pairs, *, recipe: Recipe | None, ranks: Ranks | None, **options: Any
) -> Callable[..., CheckpointPlan]:
    """The function that plans a move; `LayoutError` and TypeError for what no file can make right.

    rules     as `rule_sets` reads them
    rename    pairs of a regular expression and a text
    assume    pairs of a regular expression and a kind
    ranks     how many there are; None for one new model, and for what a recipe says
    options   of `plan_relayout`
    """
    if ranks is None:
        sets = rule_sets(rules, rename)
        plan_by = plan_relayout if recipe is None else partial(plan_by_recipe, recipe=recipe)
        return partial(plan_by, sets=sets, assumed=assumptions(assume, sets), **options)
    if recipe is not None:
        raise LayoutError(
            f"{recipe.shown} says itself which files it makes: leave out ranks, and name old files one by one"
        )
    of_ranks = sets_of_ranks(rules, rename, ranks.new)
    return partial(plan_by_ranks, sets=of_ranks, assumed=assumptions(assume, of_ranks[0]), **options)
