"""Texts in boxes, drawn with characters: borders are blank, light or heavy.

┏━━━━━┯━━━━━┳━━━━━┯━━━━━┓
┃    0│    1┃    4│    5┃      T(2,2) has heavy borders
┃    2│    3┃    6│    7┃
┗━━━━━┷━━━━━┻━━━━━┷━━━━━┛
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

BLANK, LIGHT, HEAVY = range(3)


class Glyphs(NamedTuple):
    """The characters of a drawing.

    junctions   where borders of weight u, r, d and l come from above, right, below and left: the character at
                27 u + 9 r + 3 d + l
    """

    junctions: str
    hatch: str
    ellipsis: str
    right: str
    down: str


UNICODE = Glyphs(
    " ╴╸╷┐┑╻┒┓╶─╾┌┬┭┎┰┱╺╼━┍┮┯┏┲┳╵┘┙│┤┥╽┧┪└┴┵├┼┽┟╁╅┕┶┷┝┾┿┢╆╈╹┚┛╿┦┩┃┨┫┖┸┹┞╀╃┠╂╉┗┺┻┡╄╇┣╊╋", "░", "…", "→", "↓"
)


def _ascii_junction(up: int, right: int, down: int, left: int) -> str:
    """`|` and `-` for light borders, `#` and `=` for heavy ones, `+` where light ones meet."""
    across, along = max(left, right), max(up, down)
    if across and along:
        return "#" if HEAVY in (across, along) else "+"
    return " -="[across] if across else " |#"[along]


ASCII = Glyphs("".join(_ascii_junction(n // 27, n // 9 % 3, n // 3 % 3, n % 3) for n in range(81)), "/", "~", "->", "v")


def boxes(
    texts: Sequence[Sequence[str]],
    walls: Sequence[Sequence[int]],
    floors: Sequence[Sequence[int]],
    glyphs: Glyphs,
) -> list[tuple[int | None, str]]:
    """Lines with the number of the row in each, or None for a border between rows; a border of blanks is left out.

    texts    row by row; the texts of a column have one length
    walls    for every row the weights of its vertical borders, one more than columns
    floors   the weights of the horizontal borders above every row and below the last, one for each column

    >>> [line for _, line in boxes([["a", "b"]], [[1, 1, 1]], [[1, 1], [1, 1]], ASCII)]
    ['+-+-+', '|a|b|', '+-+-+']
    """
    blank = [BLANK] * (len(texts[0]) + 1)
    found: list[tuple[int | None, str]] = []
    for number, floor in enumerate(floors):
        if any(floor):
            above = walls[number - 1] if number else blank
            below = walls[number] if number < len(walls) else blank
            found.append((None, _border(texts[0], above, floor, below, glyphs)))
        if number < len(texts):
            line = "".join(
                glyphs.junctions[30 * wall] + text for wall, text in zip(walls[number], (*texts[number], ""))
            )
            found.append((number, line))
    return found


def _border(
    texts: Sequence[str], above: Sequence[int], floor: Sequence[int], below: Sequence[int], glyphs: Glyphs
) -> str:
    """The border between two rows."""
    line = ""
    for up, right, down, left, text in zip(above, (*floor, BLANK), below, (BLANK, *floor), (*texts, "")):
        line += glyphs.junctions[27 * up + 9 * right + 3 * down + left] + glyphs.junctions[10 * right] * len(text)
    return line
