"""`gpulayout pack` and `gpulayout unpack`: an N-d array in a .npy file to a buffer in a layout, and back."""

from __future__ import annotations

from typing import Any

import click

from gpulayout.cli.arguments import SHAPE_OR_LAYOUT
from gpulayout.cli.model_file import ModelMove, model_options
from gpulayout.cli.move_file import FileMove, files_and_options, whole_shape
from gpulayout.files.checkpoints.opening import is_about_model
from gpulayout.files.standard_streams import File
from gpulayout.layout.shape import Shape


@click.command(short_help="Copy an N-d array into a 1-D buffer in a layout.")
@files_and_options(
    click.option("--to", metavar="LAYOUT|SHAPE", type=SHAPE_OR_LAYOUT, required=True, help="The layout of the buffer.")
)
def pack(source: File, target: File, to: Shape | str, **options: Any) -> None:
    """Copy the N-d array in IN.npy into OUT.npy, as a 1-D buffer in a layout.  Padding is filled.

    The file has dimensions and an element type, so a LAYOUT such as {1,0,2} is enough; or a pattern such as
    'h w c -> c h w', or a name: C, F, torch:channels_last, cute:'(2,3):(1,2)', named:NHWC:NCHW (for an array N C H W).
    Types that NumPy cannot name
    (bf16, f8..., s4) need a SHAPE such as 'bf16[512,256]{0,1}'.  Packed elements, E(4), become bytes.

    The buffer is 1-D in every layout; gpulayout relayout --to C or F keeps the dimensions.  For the planes of a picture
    as an N-d array, unpack the buffer as that array: gpulayout unpack planes.npy chw.npy --from 'u8[3,480,640]'.  If
    the name of OUT does not end in .npy, it is plain bytes.

    OUT.npy appears complete or not at all.  `-` is standard input or output; messages then go to stderr.

    \b
    Examples:
      gpulayout pack picture.npy planes.npy --to 'h w c -> c h w'
      gpulayout pack picture.npy rgbx.npy --to '{2,1,0:PD(600,800,4)PV(highest)}'
      gpulayout pack weights.npy tiles.bin --to 'bf16[64,256]{1,0:T(8,128)}'
      gpulayout pack picture.npy - --to '{1,0,2}' | gzip > planes.npy.gz
    """
    FileMove(source, target, **options).run(None, to, flat=True)


@click.command(short_help="Copy a buffer in a layout into an N-d array.")
@files_and_options(
    click.option(
        "--from",
        "from_",
        metavar="SHAPE",
        type=SHAPE_OR_LAYOUT,
        help="The shape of the buffer, with its layout.",
    )
)
def unpack(source: File, target: File, from_: Shape | str | None, **options: Any) -> None:
    """Copy the buffer in IN.npy into OUT.npy, as an N-d array in C order without padding.

    A file with a buffer stores neither dimensions nor layout, so --from needs the whole SHAPE.  A wrong layout of the
    right size cannot be detected.  IN is plain bytes if its name does not end in .npy and it does not begin as .npy
    files do.

    OUT.npy appears complete or not at all.  `-` is standard input or output; messages then go to stderr.

    Of a model, a .safetensors file or the .safetensors.index.json of its shards, all tensors that gpulayout relayout
    has stored in other layouts become arrays again.  The file says which, so there is no --from.

    \b
    Examples:
      gpulayout unpack planes.npy picture.npy --from 'u8[600,800,3]{1,0,2}'
      gpulayout unpack tiles.bin weights.npy --from 'bf16[64,256]{1,0:T(8,128)}'
      gunzip < x.npy.gz | gpulayout unpack - x.npy --from 'u8[600,800,3]{1,0,2}'
    """
    if is_about_model(source, target, from_):
        return ModelMove(source, target, **model_options(options)).unpack()
    if from_ is None:
        raise click.MissingParameter(param_hint="'--from'", param_type="option")
    FileMove(source, target, **options).run(whole_shape(from_), None)
