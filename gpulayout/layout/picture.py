"""What users get from `draw`: SVG for notebooks and slides, text for terminals.

Only the interface is here.  This room may not import what draws: the package itself hands it down with `draw_with`.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

COLUMNS, LEAST_COLUMNS = 88, 40  # of a terminal


class Picture(abc.ABC):
    """A picture: a notebook shows it as SVG, `print` draws it with characters.

    Attributes
    ----------
    svg : str
        The picture as SVG: text without scripts or links, the same bytes on every machine.
    text : str
        The picture drawn with box characters, at most 88 columns wide.

    See Also
    --------
    Shape.draw, Layout.draw, Plan.draw : make one.
    """

    @property
    @abc.abstractmethod
    def svg(self) -> str:
        """The picture as SVG."""

    @abc.abstractmethod
    def as_text(self, *, width: int = COLUMNS, ascii_only: bool = False) -> str:
        """The picture drawn with characters.

        Parameters
        ----------
        width : int, optional
            Columns that it may take.  Fewer than 40 count as 40, and numbers of 19 digits may need 60.
        ascii_only : bool, optional
            Draw with `+`, `-` and the like, for terminals without box characters.
        """

    @property
    def text(self) -> str:
        """The picture drawn with box characters."""
        return self.as_text()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SVG to a file, replacing it.

        Parameters
        ----------
        path : str or path
            The name of the file; it ends in `.svg`.

        Raises
        ------
        ValueError
            The name ends otherwise: other kinds of pictures are not written.
        """
        if Path(path).suffix.lower() != ".svg":
            raise ValueError(f"path {os.fspath(path)!r} does not end in .svg: pictures are saved as SVG")
        Path(path).write_text(self.svg, encoding="utf-8", newline="\n")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        """The drawing, as the interactive prompt shows it."""
        return self.text

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.svg


_draw: Callable[..., Picture]


def draw_with(draw: Callable[..., Picture]) -> None:
    """Hand down the function that draws: `draw(shape, ...)` and `draw(layout, ...)`, as `pictures.draw.draw` does."""
    global _draw
    _draw = draw


def drawn(subject: object, **choices: Any) -> Picture:
    """The picture of a shape or a layout, by the function that was handed down."""
    return _draw(subject, **choices)
