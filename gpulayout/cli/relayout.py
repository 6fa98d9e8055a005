"""`gpulayout relayout`: .npy files from one layout to another, and both ways between arrays and buffers."""

from __future__ import annotations

import click

from gpulayout.cli.arguments import SHAPE_OR_LAYOUT
from gpulayout.cli.layout_names import LayoutName
from gpulayout.cli.move_file import FileMove, files_and_options, whole_shape
from gpulayout.files.standard_streams import File
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape


@click.command(short_help="Move a .npy file from one layout to another.")
@files_and_options(
    click.option("--to", metavar="LAYOUT|SHAPE", type=SHAPE_OR_LAYOUT, help="Write a 1-D buffer in this layout."),
    click.option("--unpack", is_flag=True, help="Write an N-d array in C order; needs --from."),
    click.option(
        "--from", "from_", metavar="SHAPE", type=SHAPE_OR_LAYOUT, help="IN.npy is a 1-D buffer of this shape."
    ),
)
def relayout(
    source: File,
    target: File,
    to: Shape | Layout | LayoutName | None,
    unpack: bool,
    from_: Shape | Layout | LayoutName | None,
    **options: bool,
) -> None:
    """Move the elements of IN.npy to another layout, into OUT.npy.

    \b
      --from SHAPE --to LAYOUT   1-D buffer -> 1-D buffer
      --to LAYOUT                N-d array  -> 1-D buffer, as gpulayout pack
      --from SHAPE --unpack      1-D buffer -> N-d array, as gpulayout unpack

    A file with a buffer stores neither dimensions nor layout, so --from needs the whole SHAPE.  --to takes a LAYOUT
    such as {1,0,2}, a SHAPE of the same array, or a name: C, F, torch:channels_last, cute:'(2,3):(1,2)',
    named:NHWC:NCHW (for an array N C H W).

    NumPy cannot name bf16, f8... and stores them as V2, V1 or unsigned integers: name the type with a SHAPE.

    OUT.npy appears complete or not at all.  `-` is standard input or output; messages then go to stderr.

    \b
    Examples:
      gpulayout relayout planes.npy rows.npy --from 'u8[600,800,3]{1,0,2}' --to C
      gpulayout relayout picture.npy planes.npy --to '{1,0,2}'
      gpulayout relayout planes.npy picture.npy --from 'u8[600,800,3]{1,0,2}' --unpack
    """
    if unpack == (to is not None):
        raise click.UsageError("give either --to LAYOUT or --unpack, to say what OUT.npy will hold")
    if unpack and from_ is None:
        raise click.UsageError("--unpack needs --from SHAPE: a buffer file does not store dimensions")
    FileMove(source, target, **options).run(None if from_ is None else whole_shape(from_), to)
