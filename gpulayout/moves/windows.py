"""Windows: the part of a buffer that a box lies in, if that part is one run of bytes and a buffer of its own.

An expert, a page, or rows of tiles have all their bytes next to each other.  These are a buffer of a smaller shape in
the same layout, where a box moves as it does in all other experts: what is planned for one serves all.

    f32[256,64,128]{2,1,0:T(8,128)}, a box in expert 5          f32[1,64,128] at element 40960
    the same box, in its rows 16 to 24                          f32[1,8,128] at element 43008
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from gpulayout.layout.shape import Shape
from gpulayout.moves.boxes import Lead, boxes, rounded
from gpulayout.moves.placement import Box


class Window(NamedTuple):
    """A part of a buffer, and a box in it.

    shape         of the part, as a buffer of its own; its padding holds elements that the box does not have
    box           in the coordinates of the part
    first, last   elements of the whole buffer, which the part has; bytes, where elements share them
    """

    shape: Shape
    box: Box
    first: int
    last: int


def window_of(shape: Shape, box: Box) -> Window | None:
    """The window of a box of a shape; None if it is all of the buffer, and for a box without elements.

    >>> window = window_of(Shape("f32", (256, 64, 128), "{2,1,0:T(8,128)}"), ((5, 6), (17, 20), (0, 128)))
    >>> str(window.shape), window.box, window.first, window.last
    ('f32[1,8,128]{2,1,0:T(8,128)}', ((0, 1), (1, 4), (0, 128)), 43008, 44032)
    """
    if any(first >= last for first, last in box):
        return None
    widths, inner, places, is_cut = [*shape.buffer_dimensions], [*box], 0, False
    for dim, lead in _levels(shape):
        first, last = box[dim]
        low, high = first // lead.align * lead.align, min(rounded(last, lead.align), lead.width)
        count = lead.values(high) - lead.values(low)
        if count == lead.extent:
            break
        is_cut = True
        places += lead.places(low)
        widths[dim], inner[dim] = high - low, (first - low, last - low)
        if count > 1:  # what a further cut leaves is several runs
            break
    if not is_cut:
        return None
    part = _part(shape, tuple(widths))
    begin = places * shape.bits_per_element // 8 if shape.is_packed else places
    return Window(part, tuple(inner), begin, begin + part.buffer_length)


@functools.lru_cache(maxsize=1024)
def _levels(shape: Shape) -> tuple[tuple[int, Lead], ...]:
    """The dimensions whose cuts leave one run, the most major first: each if those before it are cut to one value."""
    cut = boxes(shape)
    leads = {lead.position: (dim, lead) for dim, lead in enumerate(cut.leads) if lead}
    found = []
    for position in reversed(range(len(cut.table.digits))):
        if cut.table.digits[position].extent == 1:
            continue
        if position not in leads:
            break
        found.append(leads[position])
    return tuple(found)


@functools.lru_cache(maxsize=1024)  # to make a shape costs more than to move a small box
def _part(shape: Shape, widths: tuple[int, ...]) -> Shape:
    """A part of a shape with these widths, of which all are elements."""
    layout = shape.layout.replace(padded_dimensions=None, tail_padding_alignment=1, split_configs=())
    return Shape(shape.element_type, widths, layout)
