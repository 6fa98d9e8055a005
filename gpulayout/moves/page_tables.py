"""Page tables, as an MMU has them: where the pages of a buffer really lie in a pool of pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulayout.layout.checks import INT64_MAX, as_integer, counted, number_text, type_text, value_text
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.shape import Shape
from gpulayout.moves.copies import Numbers
from gpulayout.moves.run_stream import PageTable


def page_tables(pages: Any, source: Shape, target: Shape) -> tuple[PageTable | None, PageTable | None]:
    """The tables of both sides, None for a side without; LayoutError for tables that are none of these buffers."""
    if pages is None:
        return None, None
    if not isinstance(pages, (tuple, list)) or len(pages) != 2:
        raise LayoutTypeError(
            f"pages {value_text(pages)} is not a pair: it must be (source_table, target_table), None for a side without"
        )
    read, written = _table(pages[0], source, "source"), _table(pages[1], target, "target")
    if written is not None:
        _check_apart(written.table, target)
    return read, written


def _table(given: Any, shape: Shape, side: str) -> PageTable | None:
    """A table, checked."""
    if given is None:
        return None
    field = f"pages: the table of the {side} {shape}"
    numbers = _integers(given, field).reshape(-1)
    if not numbers.size:
        if shape.nbytes:
            raise LayoutError(f"{field} is empty: it needs an entry for each page of {counted(shape.nbytes, 'byte')}")
        return None
    size, left = divmod(shape.nbytes, numbers.size)
    if left:
        raise LayoutError(
            f"{field} has {numbers.size} entries, which do not divide {counted(shape.nbytes, 'byte')}: all pages have "
            "the same size"
        )
    for is_wrong, why in (
        (numbers < 0, "is negative: leave out pages that are not there"),
        (numbers > (INT64_MAX // size if size else INT64_MAX) - 1, f"is past 2^63 bytes, at {size} bytes a page"),
    ):
        if is_wrong.any():
            at = int(is_wrong.argmax())
            raise LayoutError(f"{field}: entry {at} is {numbers[at]}, which {why}")
    return PageTable(numbers.astype(np.int64), size) if size else None


def _integers(given: Any, field: str) -> Numbers:
    """An array of integers; LayoutTypeError for anything else, such as a list with a bool in it."""
    try:
        numbers = np.asarray(given, dtype=object if isinstance(given, (list, tuple)) else None)
    except (TypeError, ValueError, RuntimeError) as why:
        raise LayoutTypeError(f"{field} is {type_text(given)} that NumPy cannot read: {value_text(str(why))}") from None
    if isinstance(given, np.ma.MaskedArray):
        raise LayoutTypeError(f"{field} is a masked array: it must be integers, one for each page")
    if numbers.dtype == object and isinstance(given, (list, tuple)):
        numbers = _listed(numbers, field)
    if numbers.dtype.kind not in "iu":
        raise LayoutTypeError(f"{field} is of dtype {numbers.dtype}: it must be integers, one for each page")
    return numbers


def _listed(entries: Numbers, field: str) -> Numbers:
    """The entries of a list as integers."""
    numbers: list[int] = []
    for entry in entries.flat:
        number = as_integer(entry)
        if number is None:
            shown = f"{value_text(entry)}, {type_text(entry)}"
            raise LayoutTypeError(f"{field}: entry {len(numbers)} is {shown}: it must be an integer")
        if abs(number) > INT64_MAX:
            raise LayoutError(f"{field}: entry {len(numbers)} is {number_text(number)}, which is past 2^63 bytes")
        numbers.append(number)
    return np.array(numbers, np.int64)


def _check_apart(table: Numbers, target: Shape) -> None:
    """LayoutError if two pages of the target are one, with the first of them."""
    order = np.argsort(table, kind="stable")
    is_again = table[order[1:]] == table[order[:-1]]
    if is_again.any():
        second = int(order[1:][is_again].min())
        first = int((table == table[second]).argmax())
        raise LayoutError(
            f"pages: the table of the target {target} has page {table[second]} twice, as entries {first} and {second}: "
            "each page is written once"
        )
