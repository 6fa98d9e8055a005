"""Layouts as text: XLA's grammar, plus two properties for padding, and a bit order.

    layout     := "{" [number ("," number)*] [":" properties] "}"
    properties := each at most once, in exactly this order, with nothing between them

        PD(width,...)  PV(name | number)     padded dimensions and padding value, of this library
        D(D,...)                             dense levels, one per dimension: read and dropped
        T(size,...)(size,...)...             tiles; a size is a number or *
        L(number)                            tail padding alignment
        #(type)  *(type)                     index and pointer type
        E(number[,big])                      element size in bits, and the bit order: a word of this library
        S(number)                            memory space
        SC(number:number,...)(...)...        split configurations
        M(number)                            dynamic shape metadata prefix bytes

XLA never printed padding and has no other bit order than little, which is not printed; a layout without these prints
exactly what XLA prints.  D(...) with other levels and P(...), which describe sparse layouts in XLA, are refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from gpulayout.layout import checks
from gpulayout.layout.argument_hints import named_layout, named_order, numbers_in, tiles_alone
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutTypeError, ShapeTextError
from gpulayout.layout.layout import Layout
from gpulayout.layout.layout_fields import BIT_ORDERS, SPARSE_TYPES, SplitConfig, meant_order
from gpulayout.layout.padding import NAMES, PaddingValue, Scalar, parse_scalar
from gpulayout.layout.text_reader import Reader
from gpulayout.layout.tile import COMBINE, Combine, Tile

Property = Callable[[Reader, int], dict[str, Any]]  # reads one property; the int is the rank

MAX_SCALAR = 320  # characters of a pad value: an integer as large as the largest double has 309


def parse_layout(text: str) -> Layout:
    """A layout from its text: the exact inverse of `str(layout)`.

    Parameters
    ----------
    text : str
        Such as `{0,1:PD(3,5)PV(lowest)T(8,128)}`, dimension numbers most minor first.

    Returns
    -------
    Layout

    Raises
    ------
    ShapeTextError
        A `LayoutError` whose `position` is the first character that does not fit, from 0.

    See Also
    --------
    parse_shape : a whole shape.

    Notes
    -----
    The grammar is XLA's, plus `PD(...)` for padded dimensions, `PV(...)` for the padding value and `E(1,big)` for the
    bit order.

    Examples
    --------
    >>> parse_layout("{0,1:T(8,128)(2,1)}").tiles
    (Tile((8, 128)), Tile((2, 1)))
    """
    reader = Reader(text, "layout")
    if not reader.ahead("{") and (hint := _not_a_layout(text)):
        raise ShapeTextError(f"{checks.value_text(text)} is not a layout: {hint}", reader.position)
    layout = read_layout(reader, may_be_empty=True)
    reader.end()
    return layout


def _not_a_layout(text: str) -> str | None:
    """What to write instead of text that does not begin with a brace."""
    if order := numbers_in(text):
        return f"write '{{{order.strip('(,)').replace(' ', '')}}}'"
    if not text[:1].isalpha():
        return None
    if order := named_order(text):
        made, example = ("descending", "{1,0}") if order == "C" else ("ascending", "{0,1}")
        return f"write gl.Layout.{made}(rank), or its text such as '{example}'"
    if tiled := tiles_alone(text):
        return tiled
    if "[" in text:
        return f"it is the text of a shape; write gl.parse_shape({checks.value_text(text)}).layout"
    if named := named_layout(text):
        return f"{named}; gl.transpose(array, 'h w c -> c h w') reorders axes by name"
    name = text.partition("(")[0]
    if name.upper() in PROPERTIES and name != text:
        return "properties follow the order and a colon, as in '{1,0:T(8,128)}'"
    if name in ElementType.__members__.values() and name != text:
        return f"a shape has its sizes in brackets, as in '{name}[2,3]'"
    return "a layout begins with '{', as '{1,0,2}' does; gl.transpose(array, 'h w c -> c h w') reorders axes by name"


def as_layout(value: Layout | str | None, rank: int, text: checks.Text) -> Layout:
    """A layout from a layout, its text or None, which means descending; `text` is the shape without its layout."""
    if value is None:
        return Layout.descending(rank)
    if isinstance(value, str):
        return parse_layout(value)
    if isinstance(value, Layout):
        return value
    is_order = isinstance(value, (tuple, list)) and checks.are_sizes(value) and sorted(value) == list(range(rank))
    hint = f", write gl.Layout({checks.shown(value)})" if is_order else ""
    raise LayoutTypeError(
        f"layout {checks.value_text(value)} is not a Layout for {text}: it is {checks.type_text(value)}{hint}"
    )


def read_layout(reader: Reader, may_be_empty: bool = False) -> Layout:
    """The layout that begins at the reader's brace."""
    start = reader.position
    reader.mark("{")
    order: list[int] = []
    fields: dict[str, Any] = {}
    if not reader.ahead(":") and not (may_be_empty and reader.ahead("}")):
        order = _order(reader)
    if reader.accept(":"):
        for name, read in PROPERTIES.items():
            if reader.accept_name(name) or (name in "#*" and reader.accept(name)):
                if reader.ahead("["):
                    raise reader.error(f"expected '(' ({_in_parentheses(name, reader.text[reader.position :])})")
                fields.update(read(reader, len(order)))
        if reader.kind == "name" or reader.value in ("#", "*"):
            raise reader.error(_misplaced(reader.value, fields.get("element_size_in_bits", 0)))
    elif reader.kind == "name" and reader.value in PROPERTIES:
        raise reader.error("expected ':' (a colon comes before properties, as in {1,0:T(8,128)})")
    elif reader.kind == "number":
        raise reader.error("expected '}' (commas separate dimension numbers, as in {1,0})")
    reader.mark("}")
    return reader.built(start, lambda: Layout(order, **fields))


def _order(reader: Reader) -> list[int]:
    """The dimension numbers, one or more."""

    def read() -> int:
        if reader.kind == "name" and reader.value in PROPERTIES:
            raise reader.error("expected a dimension number (a colon comes before properties, as in {1,0:T(8,128)})")
        return reader.number("a dimension number")

    return reader.listed(read)


def _in_parentheses(name: str, text: str) -> str:
    """What to write for a property whose value is in brackets; `text` begins with them."""
    value = re.match(r"\[([0-9a-z*, -]{1,60})\]", text)
    return f"write {name}({value[1] if value else '...'})"


def _misplaced(name: str, bits: int) -> str:
    """What is wrong with a name after the last property; `bits` are those of an element, if they were said."""
    if name in PROPERTIES:
        return f"layout property {name}(...) occurs twice or out of order: the order is {' '.join(PROPERTIES)}"
    if name == "P":
        return "layout property P(...), the physical shape of a sparse array, is not supported"
    if bits in (1, 2, 4) and (order := meant_order(name)):
        ends = "high" if order == "big" else "low"
        return f"{name[:32]!r} is not a layout property: write E({bits},{order}) if elements begin in the {ends} bits"
    return f"{name[:32]!r} is not a layout property: the properties are {' '.join(PROPERTIES)}"


# ---- one property each: the fields it sets ---------------------------------------------------------


def _padded_dimensions(reader: Reader, rank: int) -> dict[str, list[int]]:
    widths = reader.enclosed(lambda: reader.listed(lambda: reader.number("a padded dimension"), ")"))
    return {"padded_dimensions": widths}


def _padding_value(reader: Reader, rank: int) -> dict[str, PaddingValue | Scalar]:
    """The text in the parentheses of PV(...): a name, or a number in Python's notation."""
    raw, position = reader.parenthesis()
    if len(raw) > MAX_SCALAR:
        raise reader.error(
            f"padding value {raw[:32]!r}... has {len(raw)} characters: {MAX_SCALAR} is the limit", position
        )
    try:
        return {"padding_value": NAMES[raw] if raw in NAMES else parse_scalar(raw)}
    except ValueError:
        problem = f"padding value {raw[:32]!r} is neither a number nor one of {', '.join(NAMES)}"
    raise reader.error(problem, position)


def _dense_levels(reader: Reader, rank: int) -> dict[str, Any]:
    """D(D,D) means that both dimensions are dense, which is always true here."""
    reader.mark("(")
    for dim in range(rank):
        if dim:
            reader.mark(",")
        if not reader.accept_name("D"):
            raise reader.error("expected 'D', the level of a dense dimension: sparse layouts are not supported")
    reader.mark(")")
    return {}


def _tiles(reader: Reader, rank: int) -> dict[str, list[Tile]]:
    def read() -> int | Combine:
        star = reader.position
        if not reader.accept("*"):
            return reader.number("a tile size", least=1)
        if not reader.ahead(","):
            raise reader.error("'*' ends a tile: there is no more minor dimension to combine with", star)
        return COMBINE

    tiles: list[Tile] = []
    while not tiles or reader.ahead("("):
        tiles.append(Tile(reader.enclosed(lambda: reader.listed(read))))
    return {"tiles": tiles}


def _split_configs(reader: Reader, rank: int) -> dict[str, list[SplitConfig]]:
    def read() -> tuple[int, list[int]]:
        dimension = reader.number("a physical dimension number")
        reader.mark(":")
        return dimension, reader.listed(lambda: reader.number("a split index"))

    configs: list[SplitConfig] = []
    while not configs or reader.ahead("("):
        start, (dimension, points) = reader.position, reader.enclosed(read)
        configs.append(reader.built(start, functools.partial(SplitConfig, dimension, points)))
    return {"split_configs": configs}


def _number(field: str, what: str, least: int = 0, most: int | None = None) -> Property:
    """Make a reader of one number in parentheses."""
    return lambda reader, rank: {field: reader.enclosed(lambda: reader.number(what, least, most))}


def _element_size(reader: Reader, rank: int) -> dict[str, Any]:
    """The bits of an element, and behind a comma which bits of a byte the first one has."""

    def read() -> dict[str, Any]:
        fields: dict[str, Any] = {"element_size_in_bits": reader.number("an element size")}
        if reader.accept(","):
            fields["bit_order"] = _bit_order(reader, fields["element_size_in_bits"])
        return fields

    return reader.enclosed(read)


def _bit_order(reader: Reader, bits: int) -> str:
    position, word = reader.position, reader.take("name", "a bit order, little or big")
    if word not in BIT_ORDERS:
        meant = meant_order(word)
        hint = f": write E({bits},{meant})" if meant else ""
        raise reader.error(f"bit_order {word[:32]!r} is neither little nor big{hint}", position)
    return word


def _word(reader: Reader, field: str, what: str, words: Sequence[str]) -> str:
    """A name, which must be one of these."""
    position, name = reader.position, reader.take("name", what)
    if name not in words:
        raise reader.error(f"{field} {name[:32]!r} is not one of {', '.join(words)}", position)
    return name


def _type(field: str) -> Property:
    """Make a reader of one type name in parentheses."""
    what = "an unsigned integer type"
    return lambda reader, rank: {field: reader.enclosed(lambda: _word(reader, field, what, SPARSE_TYPES))}


PROPERTIES: dict[str, Property] = {
    "PD": _padded_dimensions,
    "PV": _padding_value,
    "D": _dense_levels,
    "T": _tiles,
    "L": _number("tail_padding_alignment", "a tail padding alignment", least=1),
    "#": _type("index_type"),
    "*": _type("pointer_type"),
    "E": _element_size,
    "S": _number("memory_space", "a memory space", most=127),
    "SC": _split_configs,
    "M": _number("dynamic_shape_metadata_prefix_bytes", "a number of bytes"),
}
