"""Page tables, as an MMU has them: where the pages of a buffer really lie in a pool of pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulayout.layout.checks import INT64_MAX, as_integer, byte_count, counted, number_text, type_text, value_text
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.shape import Shape
from gpulayout.moves.copies import Numbers
from gpulayout.moves.run_stream import PageTable


def page_tables(
    pages: Any, source: Shape | None, target: Shape | None, page_bytes: Any = None
) -> tuple[PageTable | None, PageTable | None]:
    """The tables of both sides, None for a side without; LayoutError for tables that do not fit.

    A shape is None where there is no buffer.
    """
    if pages is None:
        if page_bytes is not None:
            raise LayoutError(f"page_bytes {value_text(page_bytes)} needs pages=: it says how large these are")
        return None, None
    given = _pair("pages", pages, "table")
    sizes = (None, None) if page_bytes is None else _pair("page_bytes", page_bytes, "bytes")
    read, written = _table(given[0], source, "source", sizes[0]), _table(given[1], target, "target", sizes[1])
    if written is not None and target is not None:
        _check_apart(written.table, target)
    return read, written


def _pair(field: str, given: Any, what: str) -> Any:
    """What is given for the source and for the target."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise LayoutTypeError(
            f"{field} {value_text(given)} is not a pair: it must be (source_{what}, target_{what}), None for a side "
            "without"
        )
    return given


def _table(given: Any, shape: Shape | None, side: str, page_bytes: Any) -> PageTable | None:
    """A table, checked."""
    if given is None:
        return None
    if shape is None:
        raise LayoutError(f"pages has a table of the {side}, where the rank holds nothing: write None, or another rank")
    field = f"pages: the table of the {side} {shape}"
    numbers = _integers(given, field).reshape(-1)
    size = _page_size(numbers.size, shape, field, page_bytes)
    for is_wrong, why in (
        (numbers < 0, "is negative: leave out pages that are not there"),
        (numbers > (INT64_MAX // size if size else INT64_MAX) - 1, f"is past 2^63 bytes, at {size} bytes a page"),
    ):
        if is_wrong.any():
            at = int(is_wrong.argmax())
            raise LayoutError(f"{field}: entry {at} is {numbers[at]}, which {why}")
    return PageTable(numbers.astype(np.int64), size) if size else None


def _page_size(entries: int, shape: Shape, field: str, page_bytes: Any) -> int:
    """The bytes of a page, of so many."""
    size = None if page_bytes is None else byte_count("page_bytes", page_bytes)
    if not entries and shape.nbytes:
        raise LayoutError(f"{field} is empty: it needs an entry for each page of {counted(shape.nbytes, 'byte')}")
    if size is not None and size < 1:
        raise LayoutError(f"page_bytes {size} is less than 1 byte")
    if size is not None and entries * size != shape.nbytes:
        pages, left = divmod(shape.nbytes, size)
        right = "its layout has no such pages" if left else f"it needs {counted(pages, 'entry')}, or another layout"
        raise LayoutError(
            f"{field} has {counted(entries, 'entry')} for {counted(shape.nbytes, 'byte')}, which are no pages of "
            f"{counted(size, 'byte')}: {right}"
        )
    each, left = divmod(shape.nbytes, entries or 1)
    if left:
        raise LayoutError(
            f"{field} has {entries} entries, which do not divide {counted(shape.nbytes, 'byte')}: all pages have "
            "the same size"
        )
    return each


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
    for entry in entries.reshape(-1):  # `flat` has a limit of 32 dimensions
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
