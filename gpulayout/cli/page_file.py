"""`--html FILE`: the page of a picture, as a new file or on standard output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from gpulayout.api.explain import picture_facts
from gpulayout.api.plan import Plan
from gpulayout.cli.arguments import FILE_NAME
from gpulayout.cli.failures import print_note, printable
from gpulayout.cli.output import print_remark
from gpulayout.files.new_file import check_output, new_file
from gpulayout.files.standard_streams import File, write_standard_output
from gpulayout.layout.checks import clipped
from gpulayout.layout.shape import Shape
from gpulayout.pictures.figure import PAGE, figure_of
from gpulayout.pictures.page import page, plan_page
from gpulayout.pictures.plan_picture import plan_figure

html_option = click.option(
    "--html", metavar="FILE", type=FILE_NAME, help="Write the picture as a page; - is standard output."
)
overwrite_option = click.option("--overwrite", is_flag=True, help="With --html: replace the file if it exists.")


def write_page(
    shape: Shape, facts: dict[str, object], path: File, *, names: Sequence[str] | None, overwrite: bool
) -> None:
    """Write the page of a shape, with facts about it as JSON."""
    _write(page(figure_of(shape, names=names, room=PAGE), facts), str(shape), path, overwrite)


def write_plan_page(plan: Plan, facts: dict[str, object], path: File, *, overwrite: bool) -> None:
    """Write the page of a plan, with facts about it as JSON."""
    figure = plan_figure(plan.source, plan.target, picture_facts(plan.pieces, plan.request.stages), plan.names)
    _write(plan_page(figure, facts), f"{plan.source} -> {plan.target}", path, overwrite)


def _write(text: str, what: str, path: File, overwrite: bool) -> None:
    content = text.encode()
    if not isinstance(path, Path):
        return write_standard_output(content)
    check_output(path, None, overwrite=overwrite)
    with new_file(path, overwrite=overwrite, note=print_note) as stream:
        stream.write(content)
    print_remark(f"{printable(str(path))}  {clipped(what, 200)}  {len(content)} bytes; open it in a browser")
