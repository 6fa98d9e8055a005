"""Shapes, layouts and files as arguments.  Text that cannot be read is a usage error, as with click's own types."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpulayout.cli.failures import printable
from gpulayout.interop.layout_names import LayoutName, layout_name
from gpulayout.layout.arguments import is_only_layout
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_text import parse_layout
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import parse_array_shape

if TYPE_CHECKING:  # generic since click 8.2
    ShapeType = click.ParamType[Shape | Layout | LayoutName]
else:
    ShapeType = click.ParamType


_NAME = re.compile(r"[A-Za-z]\w*(:.*)?", re.DOTALL)


class ShapeArgument(ShapeType):
    """The text of a shape.

    With `or_layout`, the text of a layout without a shape gives a `Layout`, and its name a `LayoutName`.
    """

    name = "shape"

    def __init__(self, or_layout: bool = False) -> None:
        self.or_layout = or_layout

    def convert(
        self, value: str | Shape | Layout | LayoutName, param: click.Parameter | None, ctx: click.Context | None
    ) -> Shape | Layout | LayoutName:
        if not isinstance(value, str):
            return value
        try:
            if not (self.or_layout and is_only_layout(value)):
                return parse_array_shape(value)
            return layout_name(value) if _NAME.fullmatch(value) else parse_layout(value)
        except LayoutError as error:
            self.fail(printable(f"{error}{_hint(value, self.or_layout)}"), param, ctx)


def _hint(text: str, or_layout: bool) -> str:
    """What to write instead of text that a shell has changed, or that is something other than a shape; or nothing."""
    if text.lstrip().startswith("{") and not or_layout:
        return "; this is only a layout, write the whole shape, such as 'f32[2,3]{0,1}'"
    if re.fullmatch(r"[a-z0-9]+\[[0-9,]*\][0-9]+", text):
        return "; quote SHAPE, or the shell interprets its braces"
    return "; gpulayout show --hlo FILE reads a program" if os.path.isfile(text) else ""


class NamedFile(click.Path):
    """A file to memory-map.  `-` is refused: standard input and output cannot be mapped."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            self.fail(
                "'-' means standard input or output, which cannot be memory-mapped; write './-' for a file named '-'",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


SHAPE = ShapeArgument()
SHAPE_OR_LAYOUT = ShapeArgument(or_layout=True)
NAMED_FILE = NamedFile()
