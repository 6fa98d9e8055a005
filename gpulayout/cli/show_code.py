"""`gpulayout show --code`: functions that find the elements of a layout, as source text."""

from __future__ import annotations

from typing import get_args

import click

from gpulayout.api.code import Language, code
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape

LANGUAGES = get_args(Language)


def show_code(shape: Shape, language: Language, name: str) -> None:
    """Print the text; a name that cannot be used is a usage error."""
    try:
        click.echo(code(shape, language, name=name), nl=False)
    except LayoutError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
