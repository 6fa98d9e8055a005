"""A cut of an array into equal parts along an axis, as people write it: `2/4 along=0`.

    cut   := number "/" count ["along=" axis]        axis := a number, negative from the end, or a name

Part 2 of 4 along an axis of 12 has its indices 6, 7 and 8; the parts are 0/4, 1/4, 2/4 and 3/4.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

_CUT = re.compile(r"\s*([0-9]{1,18})\s*/\s*([0-9]{1,18})\s*(?:along\s*=\s*(\S+)\s*)?")
_AXIS = re.compile("[+-]?[0-9]{1,4}")


class Cut(NamedTuple):
    """A part of an array.

    part, parts  which of so many parts
    along        the axis, by its number or its name; None where the text does not say it
    """

    part: int
    parts: int
    along: int | str | None = None

    def indices(self, size: int, of: object) -> range:
        """The indices of the part along an axis of this size; `LayoutError`, which names `of`, if parts would differ.

        >>> read_cut("2/4 along=0").indices(12, "x")
        range(6, 9)
        """
        each, rest = divmod(size, self.parts)
        if rest:
            raise LayoutError(f"{self} cuts {of}, whose size {size} is not a multiple of {self.parts}")
        return range(self.part * each, (self.part + 1) * each)

    def __str__(self) -> str:
        return f"{self.part}/{self.parts}"


def read_cut(text: object) -> Cut:
    """The cut that a text means; `LayoutError` for other text.

    >>> read_cut("2/4 along=-1"), read_cut("0/2").along
    (Cut(part=2, parts=4, along=-1), None)
    """
    match = _CUT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise LayoutError(f"{value_text(text)} is not a part, counted from 0, and their number, such as 2/4 along=0")
    number, count = int(match[1]), int(match[2])
    if number >= count:
        are = f"the parts of {count} are 0/{count} to {count - 1}/{count}" if count else "there are no parts of 0"
        raise LayoutError(f"{value_text(text)}: {are}")
    return Cut(number, count, None if match[3] is None else read_axis(match[3]))


def read_axis(value: object) -> int | str:
    """An axis by its number or its name; `LayoutError` for other values.

    >>> read_axis("-1"), read_axis("heads")
    (-1, 'heads')
    """
    if isinstance(value, str) and _AXIS.fullmatch(value):
        return int(value)
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, str) and value.isidentifier())):
        raise LayoutError(f"along {clipped(value_text(value), 80)} is neither the number of an axis nor its name")
    return value
