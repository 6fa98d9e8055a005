"""Patterns, as einops writes them: the names of an array's axes before and after a transpose.

    "h w c -> c h w"            a permutation
    "(h w) c -> c h w"          an axis is split; h or w is given by name, and the other follows
    "(h=8 w) c -> c h w"        the same, with the size in the text
    "b h w c -> b (h w) c"      axes are joined
    "... c -> c ..."            `...` stands for the axes without a name
    "h w 1 -> 1 h w"            1 is an axis of size 1
    "NCHW -> NHWC"              a word of capitals on each side: every letter is an axis

Names are Python's identifiers.  Both sides name the same axes, so a pattern keeps every element once.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulayout.layout import checks
from gpulayout.layout.argument_hints import COLOURS, are_colours, named_layout
from gpulayout.layout.checks import clipped, counted, value_text
from gpulayout.layout.errors import LayoutError, LayoutTypeError

Groups = tuple[tuple[str, ...], ...]  # for every axis, the names of the axes it is made of, the most major first

_TOKEN = re.compile(r"\.\.\.|[()=]|[^\s()=.]+|\.")
_OTHER_ARROWS = ("→", "=>")
_EXAMPLE = "is not a pattern such as 'h w c -> c h w'"
_ALONE = "~"  # the name of `...` outside parentheses; no identifier


class NamedAxis(NamedTuple):
    """A named axis: a digit of a dimension of the array, ``index[dim] // step % size``."""

    name: str
    size: int
    dim: int
    step: int


@dataclass(frozen=True)
class Pattern:
    """A pattern for an array of some rank.

    before   the axes of the array; `...` is one name for each axis it stands for: ~0, ~1 and so on
    after    the axes of the result
    sizes    those that the text gives
    shown    the argument and its value, for messages
    """

    before: Groups
    after: Groups
    sizes: Mapping[str, int] = field(hash=False)
    shown: str

    @property
    def order(self) -> tuple[str, ...]:
        """All names in the order of the result, the most major first."""
        return tuple(name for group in self.after for name in group)

    def axis_sizes(self, dimensions: Sequence[int], sizes: Mapping[str, int]) -> dict[str, int]:
        """The size of every axis by name; one of each group may be unknown.

        >>> read_pattern("(h w) c -> c h w", 2).axis_sizes((6, 4), {"h": 2})
        {'h': 2, 'w': 3, 'c': 4}
        """
        known = self.known(sizes)
        axis_sizes: dict[str, int] = {}
        for axis, (group, size) in enumerate(zip(self.before, dimensions)):
            unknown = [name for name in group if name not in known]
            product = math.prod(known[name] for name in group if name in known)
            if len(unknown) > 1:
                raise LayoutError(self.open_sizes(unknown))
            if (size % product if product else size) if unknown else product != size:
                parts = (checks.number_text(known[name]) if name in known else name for name in group)
                raise LayoutError(
                    f"{self.shown} does not fit the array's shape {tuple(dimensions)}: axis {axis} of size {size} is "
                    f"not {' x '.join(parts) or 1}"
                )
            for name in group:
                axis_sizes[name] = known[name] if name in known else size // product if product else 0
        return axis_sizes

    def parts(self, dimensions: Sequence[int], sizes: Mapping[str, int]) -> tuple[tuple[NamedAxis, ...], ...]:
        """What each axis of the result is made of, the most major first, for an array of these dimensions.

        >>> read_pattern("(h=2 w) c -> c h w", 2).parts((6, 4), {})[1]
        (NamedAxis(name='h', size=2, dim=0, step=3),)
        """
        named = self.axis_sizes(dimensions, sizes)
        axes: dict[str, NamedAxis] = {}
        for dim, group in enumerate(self.before):
            step = 1
            for name in reversed(group):
                axes[name] = NamedAxis(name, named[name], dim, step)
                step *= named[name]
        return tuple([tuple([axes[name] for name in group]) for group in self.after])

    def result(self, dimensions: Sequence[int]) -> tuple[int, ...]:
        """The dimensions of the result, for an array of these dimensions.

        >>> read_pattern("(h=2 w) c -> c h w", 2).result((6, 4))
        (4, 2, 3)
        """
        sizes = self.axis_sizes(dimensions, {})
        return tuple(math.prod(sizes[name] for name in group) for group in self.after)

    def known(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes in the text and beside it."""
        names = {name for group in self.before for name in group}
        known = dict(self.sizes)
        for name, value in sizes.items():
            if name not in names:
                raise LayoutError(f"size {name} is given, but {self.shown} has no axis {name}")
            size = checks.count(f"size {name}", value)  # products of NumPy's own ints would wrap
            if known.setdefault(name, size) != size:
                raise LayoutError(f"{self.shown} says {name}={known[name]}, but size {name} is {size}")
        return known

    def open_sizes(self, unknown: Sequence[str]) -> str:
        """The message about an axis that is split into these parts, whose sizes nobody gives."""
        return (
            f"{self.shown} leaves the sizes of {' and '.join(unknown)} open: give all but one, such as "
            f"'({unknown[0]}=8 {unknown[1]})'"
        )

    def labels(self) -> tuple[str, ...]:
        """A name for every axis of the array; a split axis shows its parts.

        >>> read_pattern("b (h=8 d) ... -> b h ... d", 3).labels()
        ('b', '(h d)', 'd2')
        """
        labels = []
        for dim, group in enumerate(self.before):
            if not group or group[0].startswith("~"):
                labels.append(f"d{dim}")
            else:
                labels.append(group[0] if len(group) == 1 else f"({' '.join(group)})")
        return tuple(labels)


def read_pattern(text: str, rank: int | None, role: str = "axes") -> Pattern:
    """The pattern of a text, for an array of `rank` axes; `role` is the argument's name in messages.

    Without a rank, the text alone is checked, and `...` stands for no axes.

    >>> read_pattern("... c -> c ...", 3).after
    (('c',), ('~0',), ('~1',))
    """
    shown = f"{role} {checks.value_text(text)}"
    checks.check_length(shown, text)  # Unicode sorts the marks on a letter in quadratic time
    sides = unicodedata.normalize("NFKC", text).split("->")  # as Python normalizes identifiers, so sizes by keyword
    if len(sides) != 2:
        arrows = "no" if len(sides) == 1 else len(sides) - 1
        named = named_layout(text, "'{logical} -> {name}'") if re.fullmatch("[A-Z]+", text) else None
        arrow = next((arrow for arrow in _OTHER_ARROWS if text.count(arrow) == 1), None)
        meant = f"; write {text.replace(arrow, '->')!r}" if arrow and len(sides) == 1 else _meant(text, rank)
        hint = f"; {named}" if named else meant
        raise LayoutError(f"{shown} {_EXAMPLE}: it has {arrows} '->'{hint}")
    sides = _spaced_capitals(sides, rank, shown)
    sizes: dict[str, int] = {}
    before, after = (_groups(side, shown, sizes, _meant(text, rank)) for side in sides)
    if any("..." in group for group in before):
        raise LayoutError(f"{shown} splits ...: on the left, ... cannot be in parentheses")
    _check_names(before, after, shown, _meant(text, rank))
    rest = tuple(f"~{number}" for number in range(0 if rank is None else rank + 1 - len(before)))
    before, after = _expanded(before, rest), _expanded(after, rest)
    if rank is not None and len(before) != rank:
        raise LayoutError(
            f"{shown} names {checks.counted(len(before), 'axis')} on the left: the array has {rank}{_meant(text, rank)}"
        )
    return Pattern(before, after, sizes, shown)


def _spaced_capitals(sides: list[str], rank: int | None, shown: str) -> list[str]:
    """Both sides with spaces between letters if each is one word of capitals, as NCHW -> NHWC; else as they are.

    One word for both sides, as X -> X, is the name of an axis, unless the array has an axis for each of its letters.
    LayoutError for colours: BGR -> RGB.
    """
    words = [side.strip() for side in sides]
    if words[0] != words[1] and all(map(are_colours, words)):
        raise LayoutError(f"{shown}: {COLOURS}")
    if not all(re.fullmatch("[A-Z]{2,}", word) for word in words):
        return sides
    return sides if words[0] == words[1] and len(words[0]) != rank else [" ".join(word) for word in words]


def _expanded(groups: Groups, rest: tuple[str, ...]) -> Groups:
    """The same axes with names for `...`: axes of their own, or parts of the axis that joins them."""
    expanded: list[tuple[str, ...]] = []
    for group in groups:
        if group == (_ALONE,):
            expanded += [(name,) for name in rest]
        else:
            expanded.append(tuple(each for name in group for each in (rest if name == "..." else (name,))))
    return tuple(expanded)


def _check_names(before: Groups, after: Groups, shown: str, meant: str) -> None:
    """LayoutError unless both sides have the same names, each once."""
    left, right = (
        ["..." if name == _ALONE else name for group in groups for name in group] for groups in (before, after)
    )
    for side, names in (("left", left), ("right", right)):
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise LayoutError(f"{shown} names {checks.clipped(twice, 40)} twice on the {side}")
    for one, other, side in ((left, right, "right"), (right, left, "left")):
        known = set(other)
        lost = next((name for name in one if name not in known), None)
        if lost:
            raise LayoutError(
                f"{shown} has no {checks.clipped(lost, 40)} on the {side}: both sides must name the same axes: no "
                f"element is dropped or repeated{meant}"
            )


def _groups(side: str, shown: str, sizes: dict[str, int], meant: str) -> Groups:
    """The axes of one side: a name is a group of one, parentheses are a group of names, 1 is a group of none.

    sizes   gets those that the text gives
    """
    groups: list[list[str]] = []
    inside = False
    tokens = iter(_TOKEN.findall(side))
    previous = ""
    for token in tokens:
        if token in ("(", ")"):
            if inside == (token == "("):
                problem = "has '(' inside parentheses" if inside else "has ')' without '('"
                raise LayoutError(f"{shown} {problem}")
            inside = token == "("
            if inside:
                groups.append([])
        elif token == "=":
            _read_size(previous, next(tokens, ""), shown, sizes)
        else:
            names = [] if token == "1" else [_name(token, shown, meant)]
            if inside:
                groups[-1] += names
            else:
                groups.append([_ALONE] if token == "..." else names)
        previous = token
    if inside:
        raise LayoutError(f"{shown} has '(' without ')'")
    return tuple(map(tuple, groups))


def _name(token: str, shown: str, meant: str) -> str:
    """A token that names an axis, or `...`."""
    if token == "..." or token.isidentifier():
        return token
    if token.isdecimal():
        number = checks.clipped(token, 40)
        raise LayoutError(f"{shown} {_EXAMPLE}: a size needs a name, such as 'c={number}' instead of {number!r}")
    wrong = checks.clipped(re.sub(r"\w+", " ", token).split()[0] if re.search(r"\W", token) else token, 40)
    raise LayoutError(f"{shown} {_EXAMPLE}: it contains {wrong!r}{meant}")


def _read_size(name: str, number: str, shown: str, sizes: dict[str, int]) -> None:
    """The size after a name and '='."""
    if not name.isidentifier():
        raise LayoutError(f"{shown} has '=' without a name before it")
    if not (number.isascii() and number.isdecimal() and len(number) < len(str(checks.INT64_MAX))):
        raise LayoutError(
            f"{shown} has no size after '{checks.clipped(name, 40)}=', such as {checks.clipped(name, 40)}=8: it has "
            f"{checks.clipped(number, 40)!r}"
        )
    if sizes.setdefault(name, int(number)) != int(number):
        raise LayoutError(f"{shown} gives {checks.clipped(name, 40)} two sizes, {sizes[name]} and {number}")


def _meant(text: str, rank: int | None) -> str:
    """A hint for a pattern without spaces, `hwc->chw`; for the text of a layout, which `pack` takes; else nothing."""
    if text.lstrip().startswith("{"):
        return "; gl.pack takes the text of a layout"
    sides = [re.sub(r"[\s,]", "", side) for side in text.split("->")]
    if len(sides) != 2 or not all(
        len(side) == rank and side.isalpha() and side.isascii() and len(set(side)) == rank for side in sides
    ):
        return ""
    spaced = " -> ".join(" ".join(side) for side in sides)
    return f"; spaces separate the names, write {spaced!r}" if set(sides[0]) == set(sides[1]) else ""


# ---- what dimensions are called in pictures and messages -------------------------------------------------------------

# The letters of XLA's document on shapes and layout, dimension 0 first.
_LETTERS = {1: "x", 2: "yx", 3: "zyx", 4: "pzyx"}


def dimension_labels(rank: int) -> tuple[str, ...]:
    """A short name for every dimension: XLA's letters up to rank 4, else d0, d1, ...

    >>> dimension_labels(3), dimension_labels(5)[:2]
    (('z', 'y', 'x'), ('d0', 'd1'))
    """
    return tuple(_LETTERS[rank] if rank in _LETTERS else [f"d{dim}" for dim in range(rank)])


def named_dimensions(names: str | Sequence[str] | None, rank: int, of: object) -> tuple[str, ...]:
    """The names that a caller gives to the dimensions of a shape, or the short ones; `of` is shown in messages.

    Text is one letter for each, or names with blanks or commas between them.

    >>> named_dimensions("hwc", 3, "u8[4,5,3]"), named_dimensions("row, column", 2, "f32[2,3]")
    (('h', 'w', 'c'), ('row', 'column'))
    """
    if names is None:
        return dimension_labels(rank)
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise LayoutTypeError(f"names {value_text(names)} of {of} is not text such as 'nhwc', nor a list of texts")
    is_listed = isinstance(names, str) and ("," in names or " " in names.strip())
    labels = tuple(str(names).replace(",", " ").split() if is_listed else names)
    if len(labels) != rank:
        raise LayoutError(
            f"names {value_text(names)} of {of} has {counted(len(labels), 'name')}, but there are "
            f"{counted(rank, 'dimension')}: one name for each, such as 'nhwc' or 'batch,channel'"
        )
    for dim, name in enumerate(labels):
        if not name or not name.isprintable() or name.isspace():
            raise LayoutError(f"names {value_text(names)} of {of}: the name of dimension {dim} cannot be printed")
        if name in labels[:dim]:
            raise LayoutError(f"names {value_text(names)} of {of} has two dimensions called {clipped(name, 40)}")
    return labels
