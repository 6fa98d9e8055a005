"""`gpulayout index`: logical indices to places in the buffer, and back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import click

from gpulayout.cli.arguments import read_shape
from gpulayout.cli.output import json_option, print_json
from gpulayout.indices.indexing import delinearize, linearize
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import byte_and_bit, stride_table

_NUMBER = r"-?[0-9]{1,30}"
_INDEX = re.compile(rf"\(?({_NUMBER}(?:,{_NUMBER})*)?\)?")


@dataclass(frozen=True)
class Conversion:
    """A logical index and its place.  The index of a padding place has no meaning."""

    index: tuple[int, ...]
    linear: int
    is_padding: bool


# ignore_unknown_options: -1,2 is an index out of bounds, not an option.
@click.command(
    short_help="Convert indices to places in the buffer, and back.", context_settings={"ignore_unknown_options": True}
)
@click.argument("shape", metavar="SHAPE", type=read_shape)
@click.argument("numbers", metavar="INDEX...", nargs=-1, required=True)
@click.option("--linear", "from_linear", is_flag=True, help="INDEX is a place: convert it to a logical index.")
@json_option
def index(shape: Shape, numbers: tuple[str, ...], from_linear: bool, as_json: bool) -> None:
    """Convert a logical INDEX of SHAPE, such as 1,2, to its place in the buffer; with --linear, a place to its index.

    Places are counted in elements from 0; the byte is printed too.  The index of a scalar is ().  The exit code is 1 if
    a place is padding, or if an index is out of bounds; then only the error is printed.

    \b
    Examples:
      gpulayout index 'f32[2,3]{0,1:PD(3,5)}' 1,2           1,2 -> 7
      gpulayout index 'f32[2,3]{0,1:PD(3,5)}' 0,0 0,1 0,2
      gpulayout index 'f32[2,3]{0,1:PD(3,5)}' --linear 7    7 -> 1,2
      gpulayout index 'f32[2,3]{0,1:PD(3,5)}' --linear 2    fails: it is padding
    """
    if from_linear:
        conversions = [_from_linear(text, shape) for text in numbers]
    else:
        if len(numbers) == shape.rank > 1 and all(re.fullmatch(_NUMBER, text) for text in numbers):
            raise click.UsageError(f"{shape} has {shape.rank} dimensions: write {','.join(numbers)}")
        indices = [_parse_logical(text) for text in numbers]
        conversions = [Conversion(index, linearize(index, shape), False) for index in indices]
    if as_json:
        print_json([_as_json(conversion, shape) for conversion in conversions])
    else:
        for conversion in conversions:
            click.echo(_as_text(conversion, shape, from_linear))
    if any(conversion.is_padding for conversion in conversions):
        raise click.exceptions.Exit(1)


def _from_linear(text: str, shape: Shape) -> Conversion:
    if not re.fullmatch(_NUMBER, text):
        raise click.UsageError(f"{text[:60]!r} is not a linear index: write one integer")
    place = int(text)
    delinearize(place, shape, padding="mark")  # IndexError for a place outside the buffer
    table = stride_table(shape)
    return Conversion(table.index_of(place), place, table.is_padding(place))


def _as_json(conversion: Conversion, shape: Shape) -> dict[str, Any]:
    byte, bit = byte_and_bit(shape, conversion.linear)
    return {
        "index": None if conversion.is_padding else conversion.index,
        "linear": conversion.linear,
        "byte_offset": byte,
        "bit_offset": bit,
        "padding": conversion.is_padding,
    }


def _as_text(conversion: Conversion, shape: Shape, from_linear: bool) -> str:
    logical = ",".join(map(str, conversion.index)) or "()"
    byte, bit = byte_and_bit(shape, conversion.linear)
    where = f"    (byte {byte}{f', from bit {bit} on' if shape.is_packed else ''})"
    if not from_linear:
        return f"{logical} -> {conversion.linear}{where}"
    if not conversion.is_padding:
        return f"{conversion.linear} -> {logical}{where}"
    return f"{conversion.linear} -> padding: {stride_table(shape).why_padding(conversion.linear)}"


def _parse_logical(text: str) -> tuple[int, ...]:
    match = _INDEX.fullmatch(text)
    if not match:
        raise click.UsageError(f"{text[:60]!r} is not an index: write integers separated by commas, such as 1,2")
    return tuple(map(int, match[1].split(","))) if match[1] else ()
