"""What a caller says of plain bytes in a file, because no header does: in Python and on the command line."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, SupportsIndex

from gpulayout.layout.checks import INT64_MAX, check_word, count, number_text
from gpulayout.layout.errors import LayoutError
from gpulayout.requests.reading import check_strict

BYTE_ORDERS = ("little", "big")


@dataclass(frozen=True)
class PlainBytes:
    """Where a buffer begins in a file without a header of its own, and how its numbers are stored.

    offset       bytes of another format's header before it
    byte_order   of its numbers, "little" or "big"; None for the machine's
    raw          files are plain bytes, whatever their names and their first bytes are
    strict       False lets other bytes follow the buffer
    """

    offset: int = 0
    byte_order: str | None = None
    raw: bool = False
    strict: bool = True

    @staticmethod
    def of(offset: SupportsIndex, byte_order: str | None, raw: bool, strict: bool) -> PlainBytes:
        """The value of a caller's arguments, each checked."""
        size = count("offset", offset)
        if size > INT64_MAX:
            raise LayoutError(f"offset {number_text(size)} is more bytes than a file can have")
        if byte_order is not None:
            check_word("byte_order", byte_order, BYTE_ORDERS)
        check_strict(strict)
        return PlainBytes(size, byte_order, bool(raw), bool(strict))

    @property
    def said(self) -> dict[str, Any]:
        """The values that are not the defaults, by name.

        >>> PlainBytes(offset=352, strict=False).said
        {'offset': 352, 'strict': False}
        """
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


NOTHING_SAID = PlainBytes()
