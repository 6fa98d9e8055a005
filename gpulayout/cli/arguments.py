"""Shapes, layouts and files on the command line: text that cannot be read is a usage error, as with click's own
types.
"""

from __future__ import annotations

from pathlib import Path

import click

from gpulayout.cli.failures import printable
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_array_shape


class ShapeArgument(click.ParamType):
    """The text of a shape; where `or_layout` is true, the text of a layout alone gives a `Layout`."""

    name = "shape"

    def __init__(self, or_layout: bool = False):
        self.or_layout = or_layout

    def convert(
        self, value: str | Shape | Layout, param: click.Parameter | None, ctx: click.Context | None
    ) -> Shape | Layout:
        if not isinstance(value, str):
            return value
        try:
            return (
                parse_layout(value) if self.or_layout and value.lstrip().startswith("{") else parse_array_shape(value)
            )
        except LayoutError as error:
            self.fail(printable(str(error)), param, ctx)


class NamedFile(click.Path):
    """A file to be memory-mapped: `-` would be standard input or output, and those cannot be."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if value == "-":
            self.fail(
                "'-' would be standard input or output, which cannot be memory-mapped; a file of that name is './-'",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


SHAPE = ShapeArgument()
SHAPE_OR_LAYOUT = ShapeArgument(or_layout=True)
NAMED_FILE = NamedFile()
