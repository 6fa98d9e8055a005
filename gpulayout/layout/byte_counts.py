"""Numbers of bytes as arguments: integers, or text such as 512M."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import SupportsIndex

from gpulayout.layout.checks import value_text, whole_number
from gpulayout.layout.errors import LayoutError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NUMBER = r"[0-9]{1,18}|(?:[0-9]{1,18})?\.[0-9]{1,18}(?=\s*[KMGT])"  # parts of a unit, but no parts of a byte
_TEXT = re.compile(rf"({_NUMBER})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


def byte_count(field: str, value: SupportsIndex | str, context: str = "") -> int:
    """A number of bytes from an integer, or from text with a unit of 1024, 1024^2, ....

    Parts of a byte are left off.  LayoutError for other text, LayoutTypeError for other types.

    >>> byte_count("max_bytes", "512M"), byte_count("max_bytes", "0.5 GiB"), byte_count("max_bytes", 4096)
    (536870912, 536870912, 4096)
    """
    if not isinstance(value, str):
        return whole_number(field, value, context)
    match = _TEXT.fullmatch(value.strip())
    if not match:
        raise LayoutError(f"{field} {value_text(value)} is not a number of bytes such as 128M or 1.5G{context}")
    return int(Fraction(match[1]) * UNITS[match[2].upper()])
