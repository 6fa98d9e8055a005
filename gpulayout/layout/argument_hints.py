"""Arguments that are almost right, such as Tile(8, 128): the error says what to write instead.

Most of these slips fail while Python binds the arguments, before any line of `__init__` or `__post_init__` runs: no
check there could see them, and an `__init__` that takes anything would have no signature for `help` and type checkers.
So a call is tried, and only after an error its arguments are compared with the slips that people make.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import numbers
import re
from collections.abc import Callable
from typing import Any, TypeVar

from gpulayout.layout import checks
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError, LayoutTypeError

Corrected = TypeVar("Corrected")
Called = TypeVar("Called", bound=Callable[..., Any])
Slip = Callable[[type, tuple[Any, ...], dict[str, Any]], str | None]  # of a class; what to write, or None
CallSlip = Callable[[tuple[Any, ...], dict[str, Any]], str | None]  # of a function


def corrects(slip: Slip, **accepted: str) -> Callable[[type[Corrected]], type[Corrected]]:
    """A decorator for classes: when the constructor fails and `slip` knows why, LayoutTypeError says what to write.

    accepted    for `help`, the types of parameters that accept more than their fields hold
    """

    def decorate(cls: type[Corrected]) -> type[Corrected]:
        init: Any = cls.__init__
        init.__annotations__.update(accepted)
        init.__qualname__ = f"{cls.__qualname__}.__init__"  # Python's own errors about arguments show it
        correct = corrects_call(lambda values, fields: slip(cls, values[1:], fields), LayoutError)
        cls.__init__ = correct(init)  # type: ignore[method-assign]
        return cls

    return decorate


def corrects_call(slip: CallSlip, *errors: type[Exception]) -> Callable[[Called], Called]:
    """A decorator for functions: when a call fails and `slip` knows why, LayoutTypeError says what to write.

    errors    that a slip can cause, beside the TypeError of Python when it refuses the arguments
    """

    caught: tuple[type[Exception], ...] = (TypeError, *errors)

    def decorate(called: Called) -> Called:
        @functools.wraps(called)
        def corrected(*values: Any, **fields: Any) -> Any:
            try:
                return called(*values, **fields)
            except caught:
                problem = slip(values, fields)
                if problem is None:
                    raise
                raise LayoutTypeError(problem) from None

        return corrected  # type: ignore[return-value]

    return decorate


def of_one_sequence(cls: type, values: tuple[Any, ...], fields: dict[str, Any]) -> str | None:
    """The slip of passing separate arguments to a class that takes one sequence.

    >>> from gpulayout import Tile
    >>> Tile(8, 128)
    Traceback (most recent call last):
        ...
    gpulayout.LayoutTypeError: dimensions of a Tile must be one sequence, not 2 arguments: write gl.Tile((8, 128))
    """
    if len(values) < 2:
        return None
    field = next(iter(dataclasses.fields(cls))).name
    problem = f"{field} of a {cls.__name__} must be one sequence, not {len(values)} arguments"
    try:
        cls(values)
    except (LayoutError, TypeError):  # arguments of another kind, such as whole tiles
        return problem
    return f"{problem}: write {cls.__module__.replace('gpulayout', 'gl')}.{cls.__name__}({checks.shown(values)})"


def numbers_in(text: str) -> str | None:
    """The numbers of a text such as "1,0", "(1, 0)" or "[1,0]" as a tuple to write; None for other text.

    >>> numbers_in("[1,0]"), numbers_in("7"), numbers_in("10,x")
    ('(1, 0)', '(7,)', None)
    """
    if len(text) > 200 or not re.fullmatch(r"\s*(?:[\[({]\s*)?[0-9]+(?:\s*,\s*[0-9]+)*,?(?:\s*[\])}])?\s*", text):
        return None
    return checks.shown([int(digits) for digits in re.findall("[0-9]+", text)])


_ORDERS = {  # words for NumPy's orders, in small letters and without what stands between them
    **dict.fromkeys(("c", "rowmajor", "corder", "ccontiguous", "descending"), "C"),
    **dict.fromkeys(("f", "fortran", "columnmajor", "colmajor", "forder", "fcontiguous", "ascending"), "F"),
    **dict.fromkeys(("fortranorder", "fortrancontiguous"), "F"),
}


def named_order(text: str) -> str | None:
    """NumPy's name of an order that a text such as "row-major" or "Fortran" means; None for other text.

    >>> named_order("Column_Major"), named_order("C"), named_order("moe")
    ('F', 'C', None)
    """
    return _ORDERS.get(re.sub("[-_ ]", "", text[:40]).lower())


def tiles_alone(text: str) -> str | None:
    """What to write for tiles without an order, such as "T(8,128)"; None for other text.

    >>> tiles_alone("t(8,128)(2,1)")
    "tiles follow the order and a colon: write '{1,0:T(8,128)(2,1)}' if the array has 2 dimensions in C order"
    """
    tiles = re.fullmatch(r"\s*[tT]((?:\([0-9*, ]{1,60}\)){1,9})\s*", text)
    if not tiles:
        return None
    rank = max(2, tiles[1].partition(")")[0].count(",") + 1)
    order = ",".join(str(dim) for dim in reversed(range(rank)))
    return (
        f"tiles follow the order and a colon: write '{{{order}:T{tiles[1]}}}' if the array has {rank} dimensions in C "
        "order"
    )


COLOURS = "colours are no axes: image[..., ::-1] reverses them without a copy, and no layout does"


def are_colours(word: str) -> bool:
    """True for RGB, BGRA and such: numbers within an axis, not names of axes."""
    return {*"RGB"} <= {*word.upper()} <= {*"RGBA"} and len(word) < 5


def named_layout(text: str, write: str = "gl.Layout.named({name!r}, logical={logical!r})") -> str | None:
    """What to write for the name of a layout; None for other text.

    >>> named_layout("NHWC"), named_layout("Fortran")
    ("write gl.Layout.named('NHWC', logical='NCHW') if the array's dimensions are N, C, H and W", None)
    """
    name = re.fullmatch("((?:[A-Za-z](?:/[0-9]+)?){3,6})((?:[0-9][0-9A-Za-z]*)?)", text[:200])
    if not name or re.search("[A-Za-z]{2}", name[2]):
        return None
    letters = re.sub("[^A-Za-z]", "", name[1])
    if len({*letters.lower()}) < len(letters) or are_colours(text):
        return None
    if name[2][-1:].isdigit() and "/" not in text:  # CHW8: TensorRT's way to write CHW8c
        if "C" not in letters.upper():
            return None
        text += "c"
    logical = letters
    if {*letters.lower()} == {*"abcdef"[: len(letters)]}:  # oneDNN's
        logical = "".join(sorted(letters, key=str.lower))
    elif not letters.isupper() and not {*letters.upper()} <= {*"NCDHW"}:  # any other word
        return None
    if {*letters.upper()} <= {*"NCDHW"}:  # images: an example in which the name changes the order
        logical = "".join(sorted(letters, key=lambda letter: "NCDHW".index(letter.upper())))
        if logical == letters and not name[2]:
            logical = "".join(sorted(letters, key=lambda letter: "NDHWC".index(letter.upper())))
    listed = f"{', '.join(logical[:-1])} and {logical[-1]}"
    return f"write {write.format(name=text, logical=logical)} if the array's dimensions are {listed}"


def of_named(values: tuple[Any, ...], fields: dict[str, Any]) -> str | None:
    """The slip of `Layout.named` without `logical`, or with it but not by name.

    >>> from gpulayout import Layout
    >>> Layout.named("NHWC")
    Traceback (most recent call last):
        ...
    gpulayout.LayoutTypeError: Layout.named needs logical, the letters of the array's dimensions in order: write \
gl.Layout.named('NHWC', logical='NCHW') if the array's dimensions are N, C, H and W
    """
    if "logical" in fields or not values and "name" not in fields:
        return None
    name = fields.get("name", values[0] if values else "")
    if len(values) > 1:
        call = f"gl.Layout.named({checks.value_text(name)}, logical={checks.value_text(values[1])})"
        return f"Layout.named takes only the name without a keyword: write {call}"
    example = named_layout(name) if isinstance(name, str) else None
    example = example or "write gl.Layout.named(name, logical='NCHW') if they are N, C, H and W"
    return f"Layout.named needs logical, the letters of the array's dimensions in order: {example}"


def of_name(values: tuple[Any, ...], fields: dict[str, Any]) -> str | None:
    """The slip of `Layout.name` without `logical`, or with it but not by name."""
    if "logical" in fields:
        return None
    letters = checks.value_text(values[1]) if len(values) > 1 else "'NCHW'"
    shape = "" if len(values) > 1 else " for an array of shape (n, c, h, w)"
    return (
        "Layout.name needs logical, the letters of the array's dimensions in order, as a keyword: write "
        f"layout.name(logical={letters}){shape}"
    )


# ---- a layout ------------------------------------------------------------------------------------------


def of_layout(cls: type, values: tuple[Any, ...], fields: dict[str, Any]) -> str | None:
    """The slips of `Layout`: separate dimension numbers, fields without a name or with a wrong one, text."""
    if wrong := next((name for name in fields if name in _LAYOUT_NAMES), None):
        return f"a Layout has no field {wrong}: {_LAYOUT_NAMES[wrong](fields[wrong])}"
    if not values:
        return None
    first = values[0]
    if isinstance(first, numbers.Integral):
        return of_one_sequence(cls, values, fields)
    if len(values) > 1:
        return (
            f"a Layout takes only minor_to_major without a name, not {len(values)} arguments: "
            f"write the name of the field before {checks.value_text(values[1])}, such as padded_dimensions= or tiles="
        )
    return _layout_text(first) if isinstance(first, str) else None


def _layout_text(text: str) -> str | None:
    shown = checks.value_text(text)
    if text in ("C", "F"):
        return f"minor_to_major {shown} is the name of an order: {_of_order(text)}"
    if named := named_layout(text):
        return f"minor_to_major {shown} is a name: {named}"
    if "," in text and (order := numbers_in(text)) and "{" not in text:
        return f"minor_to_major {shown} is text: write gl.Layout({order})"
    if "[" in text.partition("{")[0]:
        return f"minor_to_major {shown} is the text of a shape: write gl.parse_shape({shown}).layout"
    if "{" in text:
        return f"minor_to_major {shown} is the text of a layout: write gl.parse_layout({shown})"
    return None


def _of_order(value: object) -> str:
    """What to write for NumPy's `order`."""
    named = {"C": "gl.Layout.descending(rank)", "F": "gl.Layout.ascending(rank)"}
    return "write " + (named[value] if isinstance(value, str) and value in named else " or ".join(named.values()))


def _of_padding(value: object) -> str:
    """What to write for `padding`, which may be widths or what fills them."""
    if isinstance(value, (tuple, list)):
        return f"write padded_dimensions={checks.shown(value)} if these are the widths in memory"
    return f"write padding_value={checks.value_text(value)} for what fills padding, padded_dimensions= for widths"


def _of_tiles(value: object) -> str:
    if isinstance(value, (tuple, list)) and all(isinstance(size, int) for size in value):
        return f"write tiles=({checks.shown(value)},)"
    return "write tiles=((8, 128),)"


_LAYOUT_NAMES: dict[str, Callable[[object], str]] = {
    "padding": _of_padding,
    "tile": _of_tiles,
    "tiling": _of_tiles,
    "order": _of_order,
    "bitorder": lambda value: f"write bit_order={checks.value_text(value)}",
    "major_to_minor": lambda value: f"write gl.Layout.from_major_to_minor({checks.value_text(value)})",
    "pitch": lambda value: _SHAPE_WITH.format(f"pitch={checks.value_text(value)}"),
    "align": lambda value: _SHAPE_WITH.format(f"align={checks.value_text(value)}"),
}
_SHAPE_WITH = "write gl.Shape('f32', (2, 3), {}), with the array's type and dimensions"

# ---- a shape -------------------------------------------------------------------------------------------

_SHAPE_NAMES = {
    "dtype": "element_type",
    "type": "element_type",
    "shape": "dimensions",
    "dims": "dimensions",
    "sizes": "dimensions",
}
_LAYOUT_FIELDS = (
    "padded_dimensions",
    "padding_value",
    "tiles",
    "tail_padding_alignment",
    "element_size_in_bits",
    "bit_order",
)


def of_shape(cls: type, values: tuple[Any, ...], fields: dict[str, Any]) -> str | None:
    """The slips of `Shape`: text of a shape, separate sizes, arguments in the wrong order, fields of the layout."""
    first = values[0] if values else fields.get("element_type")
    if isinstance(first, str) and re.match(r"\s*[\w(][^\[]*\[", first):
        text = checks.value_text(first)
        return f"element_type {text} is the text of a shape: write gl.parse_shape({text})"
    for name, value in fields.items():
        if problem := _shape_field(name, value):
            return problem
    if len(values) == 1 and not fields:
        return _only_one(first)
    if len(values) < 2:
        return None
    return _swapped(first, values[1]) or _sizes(values)


def _shape_field(name: str, value: object) -> str | None:
    """A field under another name, or one of the layout."""
    if name in _SHAPE_NAMES:
        return f"a Shape has no field {name}: write {_SHAPE_NAMES[name]}={checks.value_text(value)}"
    layout = None
    if name == "minor_to_major":
        layout = f"gl.Layout({checks.value_text(value)})"
    elif name == "order":
        layout = _of_order(value).removeprefix("write ")
    elif name in _LAYOUT_FIELDS:
        layout = f"gl.Layout(minor_to_major, {name}={checks.value_text(value)})"
    return layout and f"{name} is a field of the layout, not of a Shape: write layout={layout}"


def _only_one(value: object) -> str | None:
    """A constructor called with one argument."""
    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, type):
        return f"element_type is {checks.type_text(value)}: write gl.shape_of(array) for the shape of an array"
    if isinstance(value, (tuple, list)) and checks.are_sizes(value):
        return f"a Shape needs an element type before its dimensions: write gl.Shape('f32', {checks.shown(value)})"
    return "a Shape needs dimensions after its element type: write gl.Shape('f32', (2, 3)), with () for a scalar"


def _swapped(first: object, second: object) -> str | None:
    """Dimensions before the element type, or a layout where the dimensions belong."""
    if isinstance(first, (tuple, list)) and not isinstance(second, (tuple, list)):
        try:
            name = ElementType.of(second).value
        except TypeError:
            return None
        written = f": write gl.Shape({name!r}, {checks.shown(first)})" if checks.are_sizes(first) else ""
        return f"dimensions {checks.shown(first)} come before element_type {checks.value_text(second)}{written}"
    if type(second).__name__ == "Layout":
        return f"dimensions {checks.value_text(second)} is a Layout: write the dimensions before it"
    return None


def _sizes(values: tuple[Any, ...]) -> str | None:
    """Sizes as separate arguments, or as text."""
    sizes = tuple(map(int, itertools.takewhile(lambda value: isinstance(value, numbers.Integral), values[1:])))
    if sizes and checks.are_sizes(sizes):
        return (
            f"dimensions of a Shape must be one sequence, not {checks.counted(len(sizes), 'number')}: "
            f"write {checks.shown(sizes)}"
        )
    if isinstance(values[1], str) and (written := numbers_in(values[1])):
        return f"dimensions {checks.value_text(values[1])} is text: write {written}"
    return None
