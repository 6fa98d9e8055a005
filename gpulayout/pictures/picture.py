"""Pictures, as users get them: SVG for notebooks and slides, text for terminals."""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from pathlib import Path

from gpulayout.layout.shape import Shape
from gpulayout.pictures.boxes import ASCII, UNICODE
from gpulayout.pictures.figure import WIDTH, figure_of
from gpulayout.pictures.shape_svg import shape_svg
from gpulayout.pictures.shape_text import shape_text


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
    Shape.draw, Layout.draw : make one.
    """

    @property
    @abc.abstractmethod
    def svg(self) -> str:
        """The picture as SVG."""

    @abc.abstractmethod
    def as_text(self, *, width: int = WIDTH, ascii_only: bool = False) -> str:
        """The picture drawn with characters.

        Parameters
        ----------
        width : int, optional
            Columns that it may take.
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


class ShapePicture(Picture):
    """A picture of a shape; `names` as in `Shape.draw`."""

    def __init__(self, shape: Shape, names: Sequence[object] = ()):
        self._shape, self._names = shape, names
        self._figure = figure_of(shape, names=names)

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return shape_svg(self._figure)

    def as_text(self, *, width: int = WIDTH, ascii_only: bool = False) -> str:
        """The picture drawn with characters."""
        figure = figure_of(self._shape, names=self._names, width=width)
        return shape_text(figure, glyphs=ASCII if ascii_only else UNICODE, width=width)
