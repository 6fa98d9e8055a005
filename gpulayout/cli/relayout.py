"""`gpulayout pack`, `unpack` and `relayout`: .npy files from one layout to another, between arrays and buffers.

Whole models go to `model_file`.
"""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpulayout.arrays.array_types import ArithmeticOptions
from gpulayout.cli.answer import Answer
from gpulayout.cli.arguments import (
    ARITHMETIC,
    FILE_NAME,
    Decorator,
    arithmetic_in,
    read_memory,
    read_offset,
    read_shape_or_layout,
    with_all,
)
from gpulayout.cli.explain import pass_as_json, plan_as_json
from gpulayout.cli.failures import Failure, failures_in_one_line, print_note, printable, says_what_is_missing
from gpulayout.cli.model_file import model_command, planner, ranks_of, recipe_of
from gpulayout.cli.output import json_option, print_json, print_remark
from gpulayout.files.array_move import ArrayMove, FilePlan
from gpulayout.files.checkpoints.model_folders import is_model_folder
from gpulayout.files.checkpoints.opening import are_models, is_about_model
from gpulayout.files.checkpoints.planning import plan_restore
from gpulayout.files.checkpoints.recipes import move_options
from gpulayout.files.folders import refuse_folder
from gpulayout.files.memory import block_limit
from gpulayout.files.plain_bytes import BYTE_ORDERS, PlainBytes
from gpulayout.files.route import Route
from gpulayout.files.standard_streams import File, output_name
from gpulayout.layout.checks import clipped, counted
from gpulayout.layout.shape import Shape

FILES: tuple[Decorator, ...] = (
    click.argument("source", metavar="IN.npy", type=FILE_NAME),
    click.argument("target", metavar="OUT.npy", type=FILE_NAME),
)
SEVERAL_FILES: tuple[Decorator, ...] = (click.argument("files", metavar="IN... OUT", nargs=-1, type=FILE_NAME),)
OPTIONS: tuple[Decorator, ...] = (
    *ARITHMETIC,
    click.option("--raw", is_flag=True, help="Buffers are plain bytes, whatever their names."),
    click.option("--overwrite", is_flag=True, help="Replace OUT if it exists."),
    click.option(
        "--memory", metavar="SIZE", type=read_memory, help="Such as 512M; by default a quarter of what is free."
    ),
    click.option(
        "--scratch",
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Allow two passes, through a scratch file there.",
    ),
    click.option("--dry-run", is_flag=True, help="Check and explain; write nothing."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing unless something is wrong."),
    json_option,
)
# For `unpack` and `relayout`, which read buffers.
PLAIN_BYTES: tuple[Decorator, ...] = (
    click.option(
        "--offset",
        metavar="BYTES",
        type=read_offset,
        default="0",
        help="Skip the header of plain bytes: 352 in NIfTI.",
    ),
    click.option(
        "--byte-order", metavar="ORDER", type=click.Choice(BYTE_ORDERS), help="Of plain bytes: little or big."
    ),
    click.option("--no-strict", is_flag=True, help="Ignore what follows the buffer, such as a trailer."),
)


@click.command(short_help="Copy an N-d array into a 1-D buffer in a layout.")
@with_all(
    *FILES,
    click.option(
        "--to", metavar="LAYOUT|SHAPE", type=read_shape_or_layout, required=True, help="The layout of the buffer."
    ),
    *OPTIONS,
)
def pack(source: File, target: File, to: Shape | str, **options: Any) -> None:
    """Copy the N-d array in IN.npy into OUT.npy, as a 1-D buffer in a layout.

    The file has dimensions and an element type, so a LAYOUT such as {1,0,2} is enough; or a pattern such as
    'h w c -> c h w', or a name: C, F, torch:channels_last, cute:'(2,3):(1,2)', named:NHWC:NCHW (for an array N C H W).
    Types that NumPy cannot name
    (bf16, f8..., s4) need a SHAPE such as 'bf16[512,256]{0,1}'.  Packed elements, E(4), become bytes.

    The buffer is 1-D in every layout; gpulayout relayout --to C or F keeps the dimensions.  For the planes of a picture
    as an N-d array, unpack the buffer as that array: gpulayout unpack planes.npy chw.npy --from 'u8[3,480,640]'.  If
    the name of OUT does not end in .npy, it is plain bytes.

    Padding is filled.  OUT.npy appears complete or not at all.  `-` is standard input or output; messages then go to
    stderr.

    \b
    Examples:
      gpulayout pack picture.npy planes.npy --to 'h w c -> c h w'
      gpulayout pack picture.npy rgbx.npy --to '{2,1,0:PD(600,800,4)PV(highest)}'
      gpulayout pack weights.npy tiles.bin --to 'bf16[64,256]{1,0:T(8,128)}'
      gpulayout pack picture.npy - --to '{1,0,2}' | gzip > planes.npy.gz
    """
    array_command(source, target, options).run(None, to, flat=True)


@click.command(short_help="Copy a buffer in a layout into an N-d array.")
@with_all(
    *FILES,
    click.option(
        "--from", "from_", metavar="SHAPE", type=read_shape_or_layout, help="The shape of the buffer, with its layout."
    ),
    *PLAIN_BYTES,
    *OPTIONS,
)
def unpack(source: File, target: File, from_: Shape | str | None, **options: Any) -> None:
    """Copy the buffer in IN.npy into OUT.npy, as an N-d array in C order.

    A file with a buffer stores neither dimensions nor layout, so --from needs the whole SHAPE.  A wrong layout of the
    right size cannot be detected.  IN is plain bytes unless its name ends in .npy or it begins as .npy files do.

    OUT.npy appears complete or not at all.  `-` is standard input or output; messages then go to stderr.

    Of a model, a .safetensors file or the index of its shards, all tensors that relayout stored in other layouts become
    arrays again, without --from.

    \b
    Examples:
      gpulayout unpack planes.npy picture.npy --from 'u8[600,800,3]{1,0,2}'
      gpulayout unpack tiles.bin weights.npy --from 'bf16[64,256]{1,0:T(8,128)}'
      gpulayout unpack brain.nii brain.npy --from 's16[64,64,30]{0,1,2}' --offset 352
      gpulayout unpack sky.fits sky.npy --from 'f32[99,64]' --offset 2880 --byte-order big --no-strict
      gunzip < x.npy.gz | gpulayout unpack - x.npy --from 'u8[600,800,3]{1,0,2}'
    """
    if is_about_model((source, target), from_):
        return model_command((source,), target, options).run(plan_restore)
    if from_ is None:
        raise click.MissingParameter(param_hint="'--from'", param_type="option")
    array_command(source, target, options).run(whole_shape(from_), None)


@click.command(short_help="Move a .npy file, or the tensors of a model, to other layouts.")
@with_all(
    *SEVERAL_FILES,
    click.option("--to", metavar="LAYOUT|SHAPE", type=read_shape_or_layout, help="Write a buffer in this layout."),
    click.option("--unpack", is_flag=True, help="Write an N-d array; of a buffer --from SHAPE."),
    click.option("--from", "from_", metavar="SHAPE", type=read_shape_or_layout, help="IN is a buffer of this shape."),
    click.option("--tensor", metavar="REGEX=WHAT", multiple=True, help="In a model: what tensors become."),
    click.option(
        "--map", metavar="NAME|FILE", multiple=True, help="Rules of a model: torch-to-flax, ..., or a .toml file."
    ),
    click.option("--recipe", metavar="NAME|FILE", multiple=True, help="A whole checkpoint: see gpulayout recipes."),
    click.option("--ranks", metavar="OLD:NEW", help="In a model: files of ranks, names have ${rank}; or NEW."),
    click.option("--rename", metavar="REGEX=TEXT", multiple=True, help="In a model: replace in all names."),
    click.option("--assume", metavar="REGEX=KIND", multiple=True, help="In a model: what layers are."),
    click.option("--allow-unmatched", is_flag=True, help="In a model: not every rule must fit."),
    *PLAIN_BYTES,
    *OPTIONS,
)
def relayout(
    files: tuple[File, ...],
    to: Shape | str | None,
    unpack: bool,
    from_: Shape | str | None,
    recipe: tuple[str, ...],
    ranks: str | None,
    allow_unmatched: bool,
    **options: Any,
) -> None:
    """Move IN, a .npy file or with --from a buffer, to another layout, into OUT; or the tensors of models, of which
    several become one.  --to takes a LAYOUT {1,0,2}, a SHAPE, a pattern 'h w c -> c h w', or a name such as F.
    A model is a .safetensors file, an index of such, a folder, or as IN a .gguf file.  REGEX fits whole names.  WHAT is
    as --to; then dtype=, name=, keep, drop.

    \b
    Examples:
      gpulayout relayout Llama-GPTQ Llama-Marlin --recipe gptq-to-marlin
      gpulayout relayout a.safetensors b.safetensors --tensor '.*kernel=i o -> o i'
    """
    texts = {name: options.pop(name) for name in ("tensor", "map", "rename", "assume")}
    *sources, target = at_least_two(files)
    for source in sources:
        if isinstance(source, Path) and not is_model_folder(source):
            refuse_folder(source)  # before questions about options
    made_by = recipe_of(recipe)
    if made_by or is_about_model(files, to, from_) or (are_models(files) and not options["raw"]):
        options = {"from": from_, "to": to, **options}
        of_models = {"dtype": options.pop("dtype"), "allow_unmatched": allow_unmatched, "ranks": ranks_of(ranks)}
        command = model_command(sources, target, options, ranks=of_models["ranks"], **move_options(made_by))
        return command.run(planner(texts, made_by, unpack=unpack, **of_models))
    for name, value in (texts | {"ranks": ranks, "allow-unmatched": allow_unmatched}).items():
        if value:
            raise click.UsageError(
                f"--{name} is for a model, whose name ends in .safetensors or .safetensors.index.json"
            )
    if len(sources) > 1:
        raise click.UsageError(
            f"an array has one IN, not {len(sources)}: several are for models, whose names end in .safetensors or "
            ".safetensors.index.json"
        )
    if unpack == (to is not None):
        raise click.UsageError("give either --to LAYOUT or --unpack, to say what OUT will hold")
    if unpack and from_ is None:
        raise click.UsageError("--unpack needs --from SHAPE: a buffer file does not store dimensions")
    array_command(sources[0], target, options).run(None if from_ is None else whole_shape(from_), to)


def at_least_two(files: tuple[File, ...]) -> tuple[File, ...]:
    """The inputs and the output of a command; a usage error for fewer files."""
    if len(files) < 2:
        given = f", and there is only {printable(str(files[0]))!r}" if files else ""
        raise click.UsageError(f"give IN and OUT{given}")
    return files


def whole_shape(from_: Shape | str) -> Shape:
    """The value of --from; a usage error for a layout without a shape."""
    if isinstance(from_, str):
        raise click.UsageError(
            f"--from {clipped(from_, 60)!r} is only a layout: a buffer file does not store dimensions, so "
            "write the whole shape, such as 'f32[2,3]{0,1}'"
        )
    return from_


# ---- a move from file to file --------------------------------------------------------------------------------


def array_command(source: File, target: File, options: dict[str, Any]) -> ArrayCommand:
    """The command that the options mean."""
    of_bytes = options.pop("offset", 0), options.pop("byte_order", None), options.pop("raw")
    plain = PlainBytes(*of_bytes, strict=not options.pop("no_strict", False))
    settings = [options.pop(name) for name in ("memory", "scratch", "overwrite")]
    changes: Any = arithmetic_in(options)
    return ArrayCommand(ArrayMove(source, target, plain, *settings), changes, Answer(**options))


@dataclass(frozen=True)
class ArrayCommand:
    """One command about an array: what it moves, how it changes the elements, and how it answers."""

    move: ArrayMove
    changes: ArithmeticOptions
    answer: Answer

    def run(self, from_: Shape | None, to: Shape | str | None, *, flat: bool = False) -> None:
        """Move a buffer of the shape `from_`, or else an N-d array, to a buffer of `to`, or else to an N-d array.

        A buffer is 1-D in the file if it is `flat`, or if a .npy file cannot say its layout.
        """
        target, answer = self.move.target, self.answer
        answer.check(target)
        with contextlib.ExitStack() as stack:
            with failures_in_one_line(TypeError):  # of types that do not suit the arithmetic
                plan, route = stack.enter_context(self.move.planned(from_, to, flat=flat, **self.changes))
            seconds = None
            if not answer.dry_run:
                with says_what_is_missing(target), answer.progress() as progress:
                    seconds = self.move.run(plan, route, progress, print_note)
        if answer.quiet:
            return
        try:
            self._report(plan, route, seconds)
        except OSError as error:
            if answer.dry_run:
                raise
            raise Failure(f"{target}: the file is complete, but standard output failed: {error.strerror}") from error

    def _report(self, plan: FilePlan, route: Route, seconds: float | None) -> None:
        """Say what was done, on stderr when standard output has the elements."""
        aside = self.move.target == "-"
        if self.answer.as_json:
            values = {
                "input": str(self.move.source),
                "output": str(self.move.target),
                "output_dimensions": plan.header.dimensions,
                "output_order": "F" if plan.header.fortran_order else "C",
                "output_format": "plain bytes" if plan.is_plain else "npy",
                "dry_run": seconds is None,
                "seconds": seconds,
                "passes": [pass_as_json(blocks) for blocks in route.passes],
                "plan": plan_as_json(plan.relayout),
            }
            return print_json(values, err=aside)
        text = "\n".join(self._lines(plan, route, seconds))
        if aside:
            click.echo(text, err=True)
        else:
            print_remark(text)

    def _lines(self, plan: FilePlan, route: Route, seconds: float | None) -> list[str]:
        source, target = plan.relayout.source, plan.relayout.target
        name = output_name(self.move.target)
        order = ", Fortran order" if plan.header.fortran_order else ""
        kind = "plain bytes" if plan.is_plain else f"dimensions {plan.header.dimensions}{order}"
        lines = [
            f"{printable(plan.source.header.name)}  {source}  {counted(source.nbytes, 'byte')}",
            f"{printable(name)}  {target}  {counted(target.nbytes, 'byte')}, {kind}",
        ]
        if seconds is None:
            explained = plan.relayout.explain(max_bytes=block_limit(self.move.max_bytes))
            return [*lines, f"\n{explained}\n", *_passes(route), "dry run: nothing was written"]
        lines += [f"moved in {seconds:.2f} s, including the disk", *_passes(route)]
        if not plan.is_array and isinstance(self.move.target, Path):
            name = f"./{name}" if name.startswith("-") else name  # neither an option nor standard input
            back = ["gpulayout", "unpack", name, "BACK.npy", "--from", str(target), *["--raw"] * self.move.plain.raw]
            lines.append(f"back to an N-d array:  {printable(shlex.join(back))}")
        return lines


def _passes(route: Route) -> list[str]:
    """How the move was cut; nothing if it was not."""
    if route.scratch is None and len(route.passes[0]) < 2:
        return []
    return [
        f"{f'pass {number}' if route.scratch else 'one pass'} in {counted(len(blocks), 'block')} of at most "
        f"{counted(blocks.block_bytes, 'byte')}, runs of {counted(blocks.source_run_bytes, 'byte')} read and of "
        f"{counted(blocks.target_run_bytes, 'byte')} written"
        for number, blocks in enumerate(route.passes, 1)
    ]
