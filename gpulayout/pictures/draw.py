"""`draw` of shapes and layouts.  A layout is drawn as an array that shows what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import SupportsIndex

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.picture import COLUMNS, LEAST_COLUMNS, Picture
from gpulayout.layout.shape import Shape
from gpulayout.pictures.figure import PAGE, TERMINAL, Figure, figure_of
from gpulayout.pictures.shape_svg import shape_svg
from gpulayout.pictures.shape_text import ASCII, UNICODE, Glyphs, shape_text


def draw(
    subject: Shape | Layout,
    *,
    dimensions: Iterable[SupportsIndex] | None = None,
    names: str | Sequence[str] | None = None,
    elements: Sequence[object] = (),
) -> Picture:
    """The picture of a shape, with `names` and `elements` as in `Shape.draw`; or of an array in a layout.

    dimensions   of that array, as in `Layout.draw`
    """
    shape = example(subject, dimensions) if isinstance(subject, Layout) else subject
    figure_in = partial(figure_of, shape, names=names, elements=elements)
    return Drawing(partial(shape_svg, figure_in(room=PAGE)), partial(_text, figure_in))


def _text(figure_in: Callable[..., Figure], glyphs: Glyphs, width: int) -> str:
    return shape_text(figure_in(room=TERMINAL._replace(width=width)), glyphs=glyphs, width=width)


class Drawing(Picture):
    """A picture by two functions: one gives the SVG, the other draws it with such characters, so many columns wide."""

    def __init__(self, svg: Callable[[], str], text: Callable[[Glyphs, int], str]):
        self._svg, self._text = svg, text

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return self._svg()

    def as_text(self, *, width: int = COLUMNS, ascii_only: bool = False) -> str:
        """The picture drawn with characters."""
        return self._text(ASCII if ascii_only else UNICODE, max(width, LEAST_COLUMNS))


_TYPES = (ElementType.F32, ElementType.F64, ElementType.C64, ElementType.C128)
_PACKED = {1: ElementType.U1, 2: ElementType.U2, 4: ElementType.U4}


def example(layout: Layout, dimensions: Iterable[SupportsIndex] | None = None) -> Shape:
    """An array in this layout; its element type is f32 unless the layout needs another one.

    dimensions   its sizes, by default small ones: two tiles along every dimension that has tiles, the second of them
                 half full; LayoutError if the layout does not fit them

    >>> from gpulayout import parse_layout
    >>> [str(example(parse_layout(text))) for text in ("{0,1}", "{1,0:T(8,128)}")]
    ['f32[4,3]{0,1}', 'f32[12,192]{1,0:T(8,128)}']
    """
    sizes = _sizes(layout) if dimensions is None else tuple(dimensions)
    types = (_PACKED[layout.element_size_in_bits],) if layout.element_size_in_bits in _PACKED else _TYPES
    for element_type in types[:-1]:
        try:
            return Shape(element_type, sizes, layout)
        except LayoutError:  # the type cannot hold the padding value
            continue
    return Shape(types[-1], sizes, layout)


def _sizes(layout: Layout) -> tuple[int, ...]:
    """Sizes that show what the layout does."""
    if layout.padded_dimensions is not None:
        return tuple(max(width - 1, min(width, 1)) for width in layout.padded_dimensions)
    sizes = [1] * layout.rank
    for dim, size in zip(layout.minor_to_major, (4, 3, 2, 2)):
        sizes[dim] = size
    tile = layout.tiles[0].dimensions if layout.tiles else ()
    for dim, entry in zip(layout.minor_to_major, reversed(tile)):
        if isinstance(entry, int):
            sizes[dim] = entry + max(entry // 2, 1)
    return tuple(sizes)
