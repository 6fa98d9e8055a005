"""What `relayout` and `unpack` do with safetensors: a whole model by rules, or back to arrays by its notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpulayout.cli.answer import Answer
from gpulayout.cli.failures import failures_in_one_line, print_note, printable, says_what_is_missing, with_options
from gpulayout.cli.output import print_columns, print_json, print_remark
from gpulayout.files.checkpoints.model_move import NOT_FOR_MODELS, CheckpointWork, ModelMove
from gpulayout.files.checkpoints.planner import planner_of
from gpulayout.files.checkpoints.planning import (
    CheckpointPlan,
    check_dtype,
    copied_siblings,
    plan_restore,
    summary,
    taken_as,
)
from gpulayout.files.checkpoints.rank_files import Ranks, read_ranks
from gpulayout.files.checkpoints.recipes import Recipe, read_recipe
from gpulayout.files.checkpoints.rule_text import FLAGS, split_at_equals, why_no_equals
from gpulayout.files.errors import OutputExistsError
from gpulayout.files.results import TensorReport, checkpoint_relayout
from gpulayout.files.standard_streams import File
from gpulayout.layout.checks import clipped, counted
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.requests.arithmetic import OPTIONS

MOST_NOT_COPIED = 3  # names of files
COLUMNS = ("tensor", "before", "after", "new name", "taken as", "what happens")


def model_command(sources: Sequence[File], target: File, options: dict[str, Any], **move_options: Any) -> ModelCommand:
    """The command that the options mean; a usage error for those that have a value and are for one array.

    move_options   what a recipe says of the files
    """
    known = {name: options.pop(name) for name in ("memory", "overwrite", "dry_run", "quiet", "as_json")}
    for name, value in options.items():
        if value is None if name in OPTIONS else not value:
            continue
        option = "no-saturate" if name == "saturate" else name.replace("_", "-")
        raise click.UsageError(f"--{option} is for one array, not for a model{_instead(name, value)}")
    paths = [each for each in sources if isinstance(each, Path)]
    if len(paths) < len(sources) or not isinstance(target, Path):
        quote = "; if `-` is a part of `->`, quote the rule: --tensor '.*=i o -> o i'" if len(sources) > 1 else ""
        raise click.UsageError(f"a model is read from a file and written to one, not to a standard stream{quote}")
    move = ModelMove(paths, target, known.pop("memory"), known.pop("overwrite"), **move_options)
    return ModelCommand(move, Answer(**known))


def _instead(name: str, value: Any) -> str:
    """What models have in place of an option for one array; nothing if they have none."""
    if name in OPTIONS:
        numbers = value if isinstance(value, list) else [value]
        text = ",".join(f"{number:g}" for number in numbers) if len(numbers) < 5 else "..."
        part = f"{name}=false" if value is False else name if name in FLAGS else f"{name}={text}"
        return f": write --tensor '.*weight={part}'"
    if name == "to":
        return f": write --tensor '.*={value}'"
    if name == "no_strict":
        return ": --allow-unmatched allows rules that fit no tensor"
    python_name = "source" if name == "from" else name
    return f": {NOT_FOR_MODELS[python_name]}" if python_name in NOT_FOR_MODELS else ""


def recipe_of(texts: Sequence[str]) -> Recipe | None:
    """The recipe of --recipe; a usage error for other text, and for several, of which click would drop all but one."""
    if len(texts) > 1:
        raise click.UsageError(f"--recipe is given {len(texts)} times: run one recipe after the other")
    try:
        return read_recipe(texts[0]) if texts else None
    except LayoutError as error:
        raise click.BadParameter(printable(str(error)), param_hint="'--recipe'") from None


def ranks_of(text: str | None) -> Ranks | None:
    """The numbers of --ranks; a usage error for other text."""
    try:
        return read_ranks(text)
    except LayoutError as error:
        raise click.BadParameter(printable(str(error)), param_hint="'--ranks'") from None


def planner(
    texts: Mapping[str, Sequence[str]],
    recipe: Recipe | None,
    *,
    ranks: Ranks | None,
    dtype: ElementType | None,
    unpack: bool,
    allow_unmatched: bool,
) -> Callable[..., CheckpointPlan]:
    """What plans the move of models: by a recipe and the texts of --tensor, --map, --rename and --assume, or by notes.

    Usage errors are for what no file can make right.  What a file of rules or a model makes wrong is a failure.
    """
    if unpack:
        others = {"recipe": recipe, "ranks": ranks, "dtype": dtype, "allow-unmatched": allow_unmatched}
        for name, value in {**texts, **others}.items():
            if value:
                raise click.UsageError(f"--unpack makes arrays of tensors by their notes alone: leave out --{name}")
        return plan_restore
    _pairs("tensor", "WHAT", texts["tensor"])
    rules = [*texts["tensor"], *(Path(name) if name.endswith(".toml") else name for name in texts["map"])]
    try:
        check_dtype(dtype)
        rename = _pairs("rename", "TEXT", texts["rename"])
        assume = _pairs("assume", "KIND", texts["assume"])
        options: dict[str, Any] = {"dtype": dtype, "allow_unmatched": allow_unmatched}
        return planner_of(rules, rename, assume, recipe=recipe, ranks=ranks, **options)
    except (LayoutError, TypeError) as error:
        raise click.UsageError(printable(with_options(str(error)))) from None


_EXAMPLES = {
    "tensor": r"(.*)\.kernel=i o -> o i; name=\1.weight",
    "rename": r"^params\.=",
    "assume": "up.*=conv_transpose",
}


def _pairs(option: str, what: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """The texts of an option, each cut at its `=`."""
    pairs = []
    for text in texts:
        regex, equals, value = split_at_equals(text)
        if not equals:
            example = f", such as '{_EXAMPLES[option]}'"
            problem = f"is not REGEX={what}{why_no_equals(text) or example}"
        elif text[:1] in ("'", '"'):  # cmd.exe of Windows hands them on
            problem = "begins with a quote that the shell has left; cmd.exe knows only double quotes"
        else:
            pairs.append((regex, value))
            continue
        raise click.BadParameter(printable(f"'{text}' {problem}"), param_hint=f"'--{option}'")
    return pairs


@contextmanager
def says_which_name_is_out() -> Iterator[None]:
    """Where the new file exists, its name may be that of another input: the new one is forgotten."""
    try:
        yield
    except OutputExistsError as error:
        error.advice = error.advice.replace("; ", "; it is the last name, OUT: ", 1)
        raise


@dataclass(frozen=True)
class ModelCommand:
    """One command about models: what it moves, and how it answers."""

    move: ModelMove
    answer: Answer

    def run(self, planner: Callable[..., CheckpointPlan]) -> None:
        """Do what `planner` plans."""
        answer = self.answer
        answer.check(self.move.target)
        with ExitStack() as stack:
            stack.enter_context(failures_in_one_line(TypeError))
            stack.enter_context(says_which_name_is_out())
            if not answer.dry_run:
                stack.enter_context(says_what_is_missing(self.move.target))
            shown = stack.enter_context(answer.progress())
            work = stack.enter_context(self.move.planned(planner, shown.stage))
            for text in work.plan.warnings:
                print_note(text)
            seconds = None if answer.dry_run else self.move.run(work, shown, print_note)
        if not answer.quiet:
            self._report(work, seconds)

    def _report(self, work: CheckpointWork, seconds: float | None) -> None:
        plan, tensors = work.plan, checkpoint_relayout(work, seconds).tensors
        if self.answer.as_json:
            return print_json(
                {
                    "inputs": [*map(str, self.move.sources)],
                    "output": str(self.move.target),
                    "files": [str(file.path) for file in plan.files],
                    "other_files": [str(file.path) for file in plan.others],
                    "not_copied": plan.not_copied,
                    "remarks": [*plan.warnings, *plan.remarks],
                    "dry_run": seconds is None,
                    "seconds": seconds,
                    "bytes_read": work.bytes_read,
                    "bytes_written": work.bytes_written,
                    "unmatched_rules": plan.unmatched,
                    "tensors": [each._asdict() | {"file": each.file and str(each.file)} for each in tensors],
                }
            )
        if seconds is None:
            _print_tensors(plan, tensors)
        moved = f"{summary(plan.changes)}; {counted(work.bytes_written, 'byte')} of elements"
        lines = [
            f"{printable(str(self.move.target))}  {moved}",
            *map(printable, taken_as(plan.changes)),
            *map(printable, copied_siblings(plan)),
            *map(printable, _not_copied(plan.not_copied)),
            *map(printable, plan.remarks),
            *(f"fits no tensor: {printable(rule)}" for rule in plan.unmatched),
            "dry run: nothing was written" if seconds is None else f"written in {seconds:.2f} s, including the disk",
        ]
        print_remark("\n".join(lines))


def _print_tensors(plan: CheckpointPlan, tensors: Sequence[TensorReport]) -> None:
    """The table of a dry run."""
    has_ranks = plan.index is None and len(plan.files) > 1
    rows = [
        (
            printable(_with_others(tensor)),
            tensor.before,
            tensor.after if tensor.after != tensor.before else "",
            printable(tensor.new_name or "") if tensor.new_name != tensor.name else "",
            "" if tensor.kind is None else f"{tensor.kind} ({tensor.known_by})",
            _what_happens(tensor),
            *([tensor.file.name if tensor.file else ""] if has_ranks else []),
        )
        for tensor in tensors
    ]
    columns = (*COLUMNS, "file") if has_ranks else COLUMNS
    print_columns(columns, rows, left=columns, below=("new name",))


def _not_copied(names: Sequence[str]) -> list[str]:
    """That a new folder has fewer files than the old one, in a line."""
    if not names:
        return []
    shown = [clipped(name, 80) for name in names[:MOST_NOT_COPIED]]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return [f"not copied: {', '.join(shown)}{more}"]


def _what_happens(tensor: TensorReport) -> str:
    """In a word: a join whose bytes need only be put together is copied too."""
    if tensor.new_name is None:
        return "left out"
    joined = "joined, " if len({*tensor.parts}) > 1 else ""
    return f"{joined}{'measured' if tensor.measured else 'moved' if tensor.moved else 'copied'}"


def _with_others(tensor: TensorReport) -> str:
    """The name of a tensor, and how many others become one with it."""
    others = len({*tensor.parts}) - 1
    return f"{tensor.name} and {counted(others, 'other')}" if others else tensor.name
