"""Shapes, layouts and files as arguments.  Text that cannot be read is a usage error, as with click's own types."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gpulayout.cli.failures import printable, with_options
from gpulayout.files.checkpoints.opening import is_checkpoint
from gpulayout.files.errors import FileError
from gpulayout.files.folders import refuse_folder
from gpulayout.files.memory import as_bytes
from gpulayout.files.npy import Header, array_shape, read_header
from gpulayout.files.other_formats import other_model
from gpulayout.files.standard_streams import File
from gpulayout.layout.checks import INT64_MAX, clipped
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.patterns import named_dimensions
from gpulayout.layout.shape import Shape
from gpulayout.layout.text import is_only_layout, parse_array_shape
from gpulayout.requests.arithmetic import OPTIONS
from gpulayout.requests.shape_arguments import check_layout_text

N = TypeVar("N", int, float)
Decorator = Callable[[Any], Any]  # click's, which give back what they get


class FileName(click.Path):
    """A file's name as a path; `-` stays text and means standard input or output, see `files.standard_streams.File`."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, allow_dash=True)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "-" else Path(value)


FILE_NAME = FileName()


def read_shape(text: str) -> Shape | str:
    """The shape that a text names."""
    return _shape(text)


def read_shape_or_layout(text: str) -> Shape | str:
    """The same, or the text of a layout without a shape, which stays text, once checked."""
    return _shape(text, or_layout=True)


def read_shape_or_letters(text: str) -> Shape | str:
    """The same, or letters such as NHWC, which stay unchecked text where --names says what they mean."""
    has_names = isinstance(click.get_current_context().params.get("names"), str)
    return text if has_names and text.isalnum() else read_shape_or_layout(text)


def read_shape_or_file(text: str) -> Shape | str | Path:
    """The shape that a text names, or the `files.standard_streams.File` of an array or a model.

    A file is a name that ends in .npy, that of a model, or `-`.  What is in the folder makes no difference.  No text of
    a shape ends so, except in a comment.
    """
    if text == "-" or text.lower().endswith(".npy") or is_checkpoint(text):
        return text if text == "-" else Path(text)
    return _shape(text, in_show=True)


def _shape(text: str, *, or_layout: bool = False, in_show: bool = False) -> Shape | str:
    try:
        if not (or_layout and is_only_layout(text)):
            return parse_array_shape(text)
        check_layout_text(text)
        return text
    except LayoutError as error:
        if in_show:
            refuse_folder(Path(text))
        hint = _hint(text, or_layout, in_show)
        raise click.BadParameter(printable(with_options(f"{error}{hint}"))) from None


def _hint(text: str, or_layout: bool, in_show: bool) -> str:
    """What to write instead of text that a shell changed, or that is something other than a shape; or nothing."""
    if text.lstrip().startswith("{") and not or_layout:
        return "; this is only a layout, write the whole shape, such as 'f32[2,3]{0,1}'"
    if re.fullmatch(r"[a-z0-9]+\[[0-9,]*\][0-9]+", text):
        return "; quote SHAPE, or the shell interprets its braces"
    other = other_model(text)
    if in_show and other is not None:
        return f"; if it is {other.name}: {other.read} makes a model of it that can be shown"
    if not (text.lower().endswith(".npy") or os.path.isfile(text)):
        return ""
    if in_show:
        return "; gpulayout show --hlo FILE reads a program, gpulayout show - <FILE the header of a .npy file"
    return (
        f"; this is a file, write the shape of its array, '{_shape_in(text)}', or "
        "gpulayout relayout IN OUT --to LAYOUT --dry-run to explain the move of a file"
    )


def _shape_in(name: str) -> str:
    """The shape of the array in a .npy file, or an example for a file that has none."""
    try:
        shape, _ = shape_of_file(Path(name))
    except (FileError, OSError, ValueError):
        return "u8[480,640,3]"
    return str(shape).partition("{")[0] if shape.layout.is_descending else str(shape)


def shape_of_file(file: File) -> tuple[Shape, Header]:
    """The shape of the array in a .npy file, and the header that says so."""
    header = read_header(file)
    return array_shape(header, None), header


def read_memory(text: str) -> str:
    """Bytes as text, such as 512M.  It stays the text that the user wrote, for errors."""
    try:
        as_bytes(text)
    except ValueError as error:
        raise click.BadParameter(printable(str(error).removeprefix("max_bytes "))) from None
    return text.strip()


def read_offset(text: str) -> int:
    """A number of bytes that a file can have before its elements."""
    if re.fullmatch("[0-9]{1,19}", text, re.ASCII) and int(text) <= INT64_MAX:
        return int(text)
    shown = printable(clipped(text, 60))
    raise click.BadParameter(f"{shown!r} is not a number of bytes from 0 to 2^63 - 1, such as 352")


def read_type(text: str) -> ElementType:
    """An element type by name, such as bf16."""
    try:
        return ElementType.of(text)
    except TypeError as error:
        raise click.BadParameter(printable(with_options(str(error)))) from None


def read_numbers(text: str) -> float | list[float]:
    """A number, or several with commas between them: one for each index of the last dimension."""
    return _numbers(text, float, "a number, or several such as 0.5,1,2")


def read_whole_numbers(text: str) -> int | list[int]:
    """The same for integers."""
    return _numbers(text, int, "a whole number, or several such as 8,7,8")


def _numbers(text: str, kind: Callable[[str], N], what: str) -> N | list[N]:
    try:
        numbers = [kind(number) for number in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{printable(text)!r} is not {what}") from None
    return numbers if len(numbers) > 1 else numbers[0]


class RowOfOptions(click.Option):
    """An option whose row in the help is also for others, which are hidden: a screen has 40 rows.

    row   their names, in place of its own
    """

    def __init__(self, *args: Any, row: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._row = row

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The row; click calls it."""
        record = super().get_help_record(ctx)
        return None if record is None else (self._row, record[1])


ARITHMETIC: tuple[Decorator, ...] = (
    click.option(
        "--dtype", metavar="TYPE", type=read_type, help="Convert to this type; --no-saturate: too large is nan."
    ),
    click.option("--no-saturate", "saturate", flag_value=False, default=None, hidden=True),
    click.option(
        "--scale", metavar="NUMBERS", type=read_numbers, help="Multiply by 0.5, or by 1,2,3 along the last dimension."
    ),
    click.option("--shift", metavar="NUMBERS", type=read_numbers, help="Then add such numbers."),
    click.option(
        "--divide",
        cls=RowOfOptions,
        row="--divide, --block N",
        is_flag=True,
        default=None,
        help="Divide by --scale; each number is for N elements.",
    ),
    click.option("--block", type=int, hidden=True),
    click.option("--zero-point", metavar="N", type=read_whole_numbers, help="With --scale: quantise, or dequantise."),
    click.option(
        "--mean",
        cls=RowOfOptions,
        row="--mean, --std ...",
        type=read_numbers,
        help="Subtract, divide by; --unit divides by 255 first.",
    ),
    click.option("--std", type=read_numbers, hidden=True),
    click.option("--unit", is_flag=True, default=None, hidden=True),
)


def arithmetic_in(options: dict[str, Any]) -> dict[str, Any]:
    """What the options of `ARITHMETIC` say, as keywords; they are taken out of all options."""
    return {name: value for name in OPTIONS if (value := options.pop(name)) is not None}


def with_all(*options: Decorator) -> Decorator:
    """Give a command all these arguments and options."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


names_option = click.option(
    "--names", metavar="NAMES", is_eager=True, help="What dimensions are called: nhwc, or batch,channel."
)


def names_for(shape: Shape, names: str | None) -> tuple[str, ...] | None:
    """The value of --names, or None; a usage error for names that do not fit the shape."""
    try:
        return None if names is None else named_dimensions(names, shape.rank, shape)
    except LayoutError as error:
        raise click.BadParameter(printable(with_options(str(error))), param_hint="'--names'") from None
