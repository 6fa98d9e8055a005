"""Shapes, layouts and files as arguments.  Text that cannot be read is a usage error, as with click's own types."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpulayout.api.targets import check_layout_text
from gpulayout.cli.failures import printable, with_options
from gpulayout.files.errors import FileError
from gpulayout.files.memory import as_bytes
from gpulayout.files.npy import Header, array_shape, read_header
from gpulayout.files.standard_streams import File
from gpulayout.layout.dimension_labels import named_dimensions
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import is_only_layout, parse_array_shape

Decorator = Callable[[Any], Any]  # click's, which give back what they get

if TYPE_CHECKING:  # generic since click 8.2
    ParameterType = click.ParamType[Any]
else:
    ParameterType = click.ParamType


class ShapeArgument(ParameterType):
    """The text of a shape.  With `or_layout` also that of a layout without a shape, which stays text, once checked."""

    name = "shape"

    def __init__(self, or_layout: bool = False) -> None:
        self.or_layout = or_layout

    def convert(self, value: str | Shape, param: click.Parameter | None, ctx: click.Context | None) -> Shape | str:
        if not isinstance(value, str):
            return value
        try:
            if not (self.or_layout and is_only_layout(value)):
                return parse_array_shape(value)
            check_layout_text(value)
            return value
        except LayoutError as error:
            self.fail(printable(with_options(f"{error}{self._hint(value)}")), param, ctx)

    def _hint(self, text: str) -> str:
        """What to write instead of text that a shell changed, or that is something other than a shape; or nothing."""
        if text.lstrip().startswith("{") and not self.or_layout:
            return "; this is only a layout, write the whole shape, such as 'f32[2,3]{0,1}'"
        if re.fullmatch(r"[a-z0-9]+\[[0-9,]*\][0-9]+", text):
            return "; quote SHAPE, or the shell interprets its braces"
        return self._hint_for_file(text) if text.lower().endswith(".npy") or os.path.isfile(text) else ""

    def _hint_for_file(self, name: str) -> str:
        """What to write instead of a file's name: the shape of its array, if it has one."""
        return (
            f"; this is a file, write the shape of its array, '{_shape_in(name)}', or "
            "gpulayout relayout IN OUT --to LAYOUT --dry-run to explain the move of a file"
        )


class ShapeOrFile(ShapeArgument):
    """The text of a shape, or a .npy file as a `files.standard_streams.File`: a name that ends in .npy, or `-`.

    What is in the folder makes no difference.  No text of a shape ends in .npy, except in a comment.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-" or (isinstance(value, str) and value.lower().endswith(".npy")):
            return FILE_NAME.convert(value, param, ctx)
        return super().convert(value, param, ctx)

    def _hint_for_file(self, name: str) -> str:
        return "; gpulayout show --hlo FILE reads a program, gpulayout show - <FILE the header of a .npy file"


def shape_of_file(file: File) -> tuple[Shape, Header]:
    """The shape of the array in a .npy file, and the header that says so."""
    header = read_header(file)
    return array_shape(header, None), header


def _shape_in(name: str) -> str:
    """The shape of the array in a .npy file, or an example for a file that has none."""
    try:
        shape, _ = shape_of_file(Path(name))
    except (FileError, OSError, ValueError):
        return "u8[480,640,3]"
    return str(shape).partition("{")[0] if shape.layout.is_descending else str(shape)


class FileName(click.Path):
    """A file's name as a path; `-` stays text and means standard input or output, see `files.standard_streams.File`."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, allow_dash=True)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "-" else Path(value)


class MemorySize(ParameterType):
    """Bytes as text, such as 512M.  It stays the text that the user wrote, for errors."""

    name = "size"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            as_bytes(value)
            return value.strip()
        except ValueError as error:
            self.fail(printable(str(error).removeprefix("max_bytes ")), param, ctx)


class ElementTypeName(ParameterType):
    """An element type by name, such as bf16."""

    name = "type"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ElementType:
        try:
            return ElementType.of(value)
        except TypeError as error:
            self.fail(printable(with_options(str(error))), param, ctx)


class Numbers(ParameterType):
    """A number, or several with commas between them: one for each index of the last dimension."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | list[float]:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            found = [float(each) for each in value.split(",")]
        except ValueError:
            self.fail(f"{printable(value)!r} is not a number, or several such as 0.5,1,2", param, ctx)
        return found if len(found) > 1 else found[0]


SHAPE = ShapeArgument()
SHAPE_OR_LAYOUT = ShapeArgument(or_layout=True)
FILE_NAME = FileName()
SHAPE_OR_FILE = ShapeOrFile()
MEMORY = MemorySize()

ARITHMETIC: tuple[Decorator, ...] = (
    click.option("--dtype", metavar="TYPE", type=ElementTypeName(), help="Convert the elements to this type."),
    click.option(
        "--scale", metavar="NUMBERS", type=Numbers(), help="Multiply by 0.5, or by 1,2,3 along the last dimension."
    ),
    click.option("--shift", metavar="NUMBERS", type=Numbers(), help="Then add such numbers."),
    click.option("--divide", is_flag=True, default=None, help="Divide by --scale in place of multiplying."),
    click.option("--block", metavar="N", type=int, help="Each number of --scale and --shift is for N elements."),
)


def with_all(*options: Decorator) -> Decorator:
    """Give a command all these arguments and options."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


names_option = click.option("--names", metavar="NAMES", help="What dimensions are called: nhwc, or batch,channel.")


def names_for(shape: Shape, names: str | None) -> tuple[str, ...] | None:
    """The value of --names, or None; a usage error for names that do not fit the shape."""
    try:
        return None if names is None else named_dimensions(names, shape.rank, shape)
    except LayoutError as error:
        raise click.BadParameter(printable(with_options(str(error))), param_hint="'--names'") from None
