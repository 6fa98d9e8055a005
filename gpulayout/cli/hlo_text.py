"""The text of a program for `gpulayout show --hlo`, and what is said of its lines that were not read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpulayout.cli.failures import Failure, printable
from gpulayout.files.errors import FileError
from gpulayout.files.standard_streams import File, standard_input
from gpulayout.layout.checks import counted
from gpulayout.xla.hlo import UnreadLines

Stage = Callable[[str, int, int], None]  # hears what is done, how much of it, and of how much


def read_text(file: File) -> str:
    """The text of a file.  Bytes that are not UTF-8 become a character that no shape has."""
    try:
        data = file.read_bytes() if isinstance(file, Path) else standard_input().read()
    except FileError:
        raise
    except ValueError as error:  # a name with a null character
        raise Failure(f"{file}: {error}") from None
    return data.decode("utf-8", errors="replace")


def unread_text(unread: UnreadLines, what: str = "a shape") -> str:
    """Such as 5 lines with a shape were not read: line 12: f32[2]{0,0}; ...; and 2 more."""
    shown = [f"line {line.line}: {printable(line.text)}" for line in unread.first]
    more = [f"and {unread.total - len(shown)} more"] if unread.total > len(shown) else []
    was = "was" if unread.total == 1 else "were"
    return f"{counted(unread.total, 'line')} with {what} {was} not read: {'; '.join([*shown, *more])}"


def print_unread(unread: UnreadLines, what: str = "a shape") -> None:
    """Say which lines with `what` were not read, if any."""
    if unread.total:
        click.echo(unread_text(unread, what))


def unread_as_json(unread: UnreadLines) -> dict[str, Any]:
    """The number of lines that were not read, and the first of them."""
    return {"count": unread.total, "first": [line._asdict() for line in unread.first]}
