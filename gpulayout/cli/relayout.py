"""`gpulayout relayout`: .npy files from one layout to another, also between arrays and buffers; and whole models."""

from __future__ import annotations

from typing import Any

import click

from gpulayout.cli.arguments import SHAPE_OR_LAYOUT
from gpulayout.cli.model_file import ModelMove, check_says_nothing_for_one_array, model_options, model_rules
from gpulayout.cli.move_file import FileMove, files_and_options, whole_shape
from gpulayout.files.checkpoints.opening import is_about_model
from gpulayout.files.standard_streams import File
from gpulayout.layout.shape import Shape


@click.command(short_help="Move a .npy file, or the tensors of a model, to other layouts.")
@files_and_options(
    click.option("--to", metavar="LAYOUT|SHAPE", type=SHAPE_OR_LAYOUT, help="Write a buffer in this layout."),
    click.option("--unpack", is_flag=True, help="Write an N-d array in C order; needs --from."),
    click.option("--from", "from_", metavar="SHAPE", type=SHAPE_OR_LAYOUT, help="IN.npy is a buffer of this shape."),
    click.option("--tensor", metavar="REGEX=WHAT", multiple=True, help="In a model: what tensors become."),
    click.option("--map", "maps", metavar="NAME|FILE", multiple=True, help="In a model: a map, or .toml rules."),
    click.option("--rename", metavar="REGEX=TEXT", multiple=True, help="In a model: replace in all names."),
    click.option(
        "--assume",
        metavar="REGEX=KIND",
        multiple=True,
        help="In a model: what layers are.",
    ),
    click.option("--allow-unmatched", is_flag=True, help="In a model: not every rule must fit."),
)
def relayout(
    source: File,
    target: File,
    to: Shape | str | None,
    unpack: bool,
    from_: Shape | str | None,
    tensor: tuple[str, ...],
    maps: tuple[str, ...],
    rename: tuple[str, ...],
    assume: tuple[str, ...],
    allow_unmatched: bool,
    **options: Any,
) -> None:
    """Move IN.npy to another layout, into OUT.npy; or the tensors of a model.

    IN.npy is an N-d array, or with --from a 1-D buffer.  OUT.npy is a buffer, which keeps its dimensions in C or F
    order, or with --unpack an N-d array.  --to takes a LAYOUT such as {1,0,2}, a SHAPE, a pattern such as 'h w c -> c h
    w', or a name: C, F, torch:channels_last.

    A model is a .safetensors file, or the index of its shards.  REGEX fits whole names.  WHAT is what --to takes, then
    '; dtype=', '; name='; or keep, or drop.  Maps: torch-to-flax, -keras, -mlx; flax-to-torch, keras-, mlx-.

    \b
    Examples:
      gpulayout relayout planes.npy rows.npy --from 'u8[600,800,3]{1,0,2}' --to C
      gpulayout relayout flax.safetensors torch.safetensors --map flax-to-torch --dtype bf16
      gpulayout relayout a.safetensors b.safetensors --tensor '.*kernel=i o -> o i'
    """
    if is_about_model(source, target, to, unpack, from_):
        dtype = options.pop("dtype")
        move = ModelMove(source, target, **model_options(options))
        rules, assumed = model_rules(tensor, maps, rename, assume, dtype)
        return move.relayout(rules, assumed, dtype, allow_unmatched)
    if not options["raw"]:
        check_says_nothing_for_one_array(source, target, to, unpack, from_)
    only_models = {
        "tensor": tensor,
        "map": maps,
        "rename": rename,
        "assume": assume,
        "allow-unmatched": allow_unmatched,
    }
    for name, given in only_models.items():
        if given:
            raise click.UsageError(
                f"--{name} is for a model, whose name ends in .safetensors or .safetensors.index.json"
            )
    if unpack == (to is not None):
        raise click.UsageError("give either --to LAYOUT or --unpack, to say what OUT.npy will hold")
    if unpack and from_ is None:
        raise click.UsageError("--unpack needs --from SHAPE: a buffer file does not store dimensions")
    FileMove(source, target, **options).run(None if from_ is None else whole_shape(from_), to)
