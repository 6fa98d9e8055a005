"""`gpulayout relayout`: .npy files from one layout to another, and both ways between arrays and buffers."""

from __future__ import annotations

from typing import Any

import click

from gpulayout.cli.arguments import SHAPE_OR_LAYOUT
from gpulayout.cli.move_file import FileMove, files_and_options, whole_shape
from gpulayout.files.standard_streams import File
from gpulayout.layout.shape import Shape


@click.command(short_help="Move a .npy file from one layout to another.")
@files_and_options(
    click.option("--to", metavar="LAYOUT|SHAPE", type=SHAPE_OR_LAYOUT, help="Write a buffer in this layout."),
    click.option("--unpack", is_flag=True, help="Write an N-d array in C order; needs --from."),
    click.option("--from", "from_", metavar="SHAPE", type=SHAPE_OR_LAYOUT, help="IN.npy is a buffer of this shape."),
)
def relayout(
    source: File,
    target: File,
    to: Shape | str | None,
    unpack: bool,
    from_: Shape | str | None,
    **options: Any,
) -> None:
    """Move the elements of IN.npy to another layout, into OUT.npy.

    \b
      --from SHAPE --to LAYOUT   buffer    -> buffer
      --to LAYOUT                N-d array -> buffer
      --from SHAPE --unpack      buffer    -> N-d array in C order

    A buffer is 1-D and stores no dimensions, so --from needs the whole SHAPE.  Only in C or Fortran order is OUT.npy
    N-d, because its header can say so.  --to takes a LAYOUT such as {1,0,2}, a SHAPE of the same array, a pattern such
    as 'h w c -> c h w', or a name: C, F, torch:channels_last, cute:'(2,3):(1,2)', named:NHWC:NCHW.

    With --from, a file is plain bytes if its name does not end in .npy and it does not begin as .npy files do.  OUT is
    plain bytes if its name does not end in .npy.  `-`, standard input or output, has a .npy header.  Types that NumPy
    cannot name (bf16, f8...) need a SHAPE.  OUT appears complete or not at all.

    \b
    Examples:
      gpulayout relayout planes.npy rows.npy --from 'u8[600,800,3]{1,0,2}' --to C
      gpulayout relayout picture.npy planes.npy --to 'h w c -> c h w' --dtype f32 --scale 0.5
      gpulayout relayout matrix.bin columns.npy --from 'f32[512,256]' --to F
      gpulayout relayout planes.npy picture.npy --from 'u8[600,800,3]{1,0,2}' --unpack
    """
    if unpack == (to is not None):
        raise click.UsageError("give either --to LAYOUT or --unpack, to say what OUT.npy will hold")
    if unpack and from_ is None:
        raise click.UsageError("--unpack needs --from SHAPE: a buffer file does not store dimensions")
    FileMove(source, target, **options).run(None if from_ is None else whole_shape(from_), to)
