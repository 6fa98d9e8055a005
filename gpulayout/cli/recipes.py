"""`gpulayout recipes`: the recipes for whole checkpoints, and what is known about one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from gpulayout.cli.failures import printable
from gpulayout.cli.output import json_option, print_columns, print_json
from gpulayout.files.checkpoints.config import Expectation
from gpulayout.files.checkpoints.recipes import Recipe, read_recipe
from gpulayout.files.checkpoints.recipes import recipes as all_recipes
from gpulayout.layout.errors import LayoutError

WIDTH = 76  # columns of text beside the names of the facts
COLUMNS = ("recipe", "from", "to", "read by")
NO_READER = "gl.torch.load_packed"


@click.command(short_help="List the recipes for whole checkpoints, or show one of them.")
@click.argument("name", metavar="[NAME]", required=False)
@json_option
def recipes(name: str | None, as_json: bool) -> None:
    """List the recipes that relayout takes for whole checkpoints; or show all that is known about one of them.

    A recipe reads what a hub has, and writes what an engine loads: tensors, names and config.json.  NAME is a name of
    the list, or a .toml file of your own.

    \b
    Examples:
      gpulayout recipes
      gpulayout recipes gptq-to-marlin
      gpulayout relayout Llama-GPTQ Llama-Marlin --recipe gptq-to-marlin
      gpulayout relayout Llama Llama-2-ranks --recipe 'llama-tp(ranks=2)'
    """
    if name is None:
        listed = all_recipes().values()
        if as_json:
            return print_json([recipe_as_json(each) for each in listed])
        rows = [
            (each.name, each.content["from"], each.content["to"], ", ".join(_engines(each)) or NO_READER)
            for each in listed
        ]
        return print_columns(COLUMNS, rows, left=COLUMNS, below=COLUMNS[1:])
    try:
        recipe = read_recipe(name)
    except LayoutError as error:
        raise click.BadParameter(printable(str(error)), param_hint="'[NAME]'") from None
    if as_json:
        return print_json(recipe_as_json(recipe))
    _show(recipe)


def _engines(recipe: Recipe) -> list[str]:
    return [*dict.fromkeys(each.engine for each in recipe.readers)]


def _show(recipe: Recipe) -> None:
    click.echo(f"{recipe.name}: {recipe.summary}\n")
    facts = [
        ("from", recipe.content.get("from", "")),
        ("to", recipe.content.get("to", "")),
        *(("read by", str(each)) for each in recipe.readers),
        *(("note", each) for each in recipe.notes),
        *(("expects", _expectation(each)) for each in recipe.expectations),
        *(("refused", _why(each["why"], recipe)) for each in recipe.content.get("requires", ())),
        *((f"{name}=", " or ".join(texts) or "must be given") for name, texts in recipe.definitions.items()),
        *([("files", recipe.output)] if recipe.output is not None else []),
        *([("reads files", recipe.content["input"])] if "input" in recipe.content else []),
    ]
    width = max(len(name) for name, _ in facts) + 2
    for name, value in facts:
        lines = click.wrap_text(printable(value), WIDTH).splitlines() or [""]
        click.echo("\n".join(f"{label:{width}}{line}" for label, line in zip([name] + [""] * len(lines), lines)))
    if checks := recipe.content.get("check", ()):
        click.echo("\nchecked, of tensors whose whole names fit:")
        for each in checks:
            _show_table({key: _why(value, recipe) if key == "why" else value for key, value in each.items()})
    click.echo("\nrules, for tensors whose whole names fit:")
    for each in recipe.content.get("tensor", ()):
        _show_table(each)
    if constants := recipe.content.get("constant", ()):
        click.echo("\nnew tensors, for each one whose whole name fits:")
        for each in constants:
            _show_table(each)


def _why(text: str, recipe: Recipe) -> str:
    """Why values are refused, with those that the caller gives, and the names of others in capital letters."""
    return re.sub(r"\$\{([^{}]*)\}", lambda found: str(recipe.given.get(found[1], found[1].upper())), text)


def _show_table(said: Mapping[str, Any]) -> None:
    """A table with an expression for names, and what else it says."""
    rest = "; ".join(f"{key}={_part(value)}" for key, value in said.items() if key not in ("match", "optional"))
    click.echo(f"  {printable(said['match'])}\n      {printable(rest)}")


def _expectation(each: Expectation) -> str:
    wanted = " or ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in each.values)
    return f"{each.field}: {wanted or 'missing'}{f'; {each.why}' if each.why else ''}"


def _part(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value).lower() if value is True else str(value)


def recipe_as_json(recipe: Recipe) -> dict[str, Any]:
    """A recipe as plain values."""
    return {"name": recipe.name, "summary": recipe.summary, **recipe.content}
