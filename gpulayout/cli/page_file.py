"""`--html FILE`: the page of a picture, as a new file or on standard output."""

from __future__ import annotations

from pathlib import Path

import click

from gpulayout.cli.failures import printable
from gpulayout.cli.new_file import check_output, new_file
from gpulayout.cli.output import clipped
from gpulayout.cli.streams import File, write_standard_output
from gpulayout.layout.shape import Shape
from gpulayout.pictures.figure import PAGE, figure_of
from gpulayout.pictures.page import page


def write_page(shape: Shape, facts: dict[str, object], path: File, *, overwrite: bool) -> None:
    """Write the page of a shape, with facts about it as JSON."""
    content = page(figure_of(shape, room=PAGE), facts).encode()
    if not isinstance(path, Path):
        return write_standard_output(content)
    check_output(path, None, overwrite=overwrite)
    with new_file(path, overwrite=overwrite) as stream:
        stream.write(content)
    click.echo(f"{printable(str(path))}  {clipped(str(shape), 200)}  {len(content)} bytes; open it in a browser")
