"""Transposes of arrays, written as einops writes them: names of axes on both sides of an arrow.

    "h w c -> c h w"            a permutation
    "(h w) c -> c h w"          an axis is taken apart; h or w is given by name, the other one follows
    "b h w c -> b (h w) c"      axes are joined
    "... c -> c ..."            `...` stands for the axes without a name

Both sides name the same axes, so every element of the array is written once: the transpose is one move.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpulayout.api import arrays
from gpulayout.api.packing import pack
from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import Array
from gpulayout.moves.move import MAX_AXES

CARRIERS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}  # bytes of an element -> a type of that width
_TOKEN = re.compile(r"\.\.\.|[A-Za-z_]\w*|~?\w+|\S")
_NAME = re.compile(r"~\d+|[A-Za-z_]\w*|\.\.\.")
Groups = list[list[str]]  # for every axis the names of the axes that it is made of


def transpose(array: Any, axes: str | Iterable[int] | None = None, *, out: Any = None, **sizes: int) -> Array:
    """An array with its axes in another order, in C order, in one pass.

    array   any array the library takes, with any strides, of elements of 1, 2, 4, 8 or 16 bytes axes    a pattern such
    as "h w c -> c h w"; or, as in `numpy.transpose`, the old number of every new axis; None reverses them out
    C-contiguous, of the shape and dtype of the result, on the same device; returned as given sizes   sizes of axes that
    are taken apart, `h=32`; one of each may be left out

    LayoutError for a pattern or an order that does not fit the array.  Raises as `pack` for the arrays.

    >>> import numpy as np
    >>> image = np.arange(12).reshape(2, 2, 3)
    >>> transpose(image, "h w c -> c h w").tolist()
    [[[0, 3], [6, 9]], [[1, 4], [7, 10]], [[2, 5], [8, 11]]]
    >>> transpose(image, (2, 0, 1)).shape, transpose(image, "h w c -> c (h w)").shape
    ((3, 2, 2), (3, 4))
    >>> transpose(np.arange(6), "(h w) -> w h", h=2)
    array([[0, 3],
           [1, 4],
           [2, 5]])
    """
    backend, source = arrays.open_array(array, "array")
    if not isinstance(axes, str):
        if sizes:
            raise TypeError(
                f"sizes {', '.join(sizes)} belong to a pattern such as 'h w c -> c h w': axes is {checks.value_text(axes)}"
            )
        given = range(source.ndim - 1, -1, -1) if axes is None else axes
        order = checks.permutation(
            "axes", given, source.ndim, f" for an array of shape {tuple(source.shape)}", from_end=True
        )
        dimensions, strides = [source.shape[dim] for dim in order], [source.strides[dim] for dim in order]
        shape = tuple(dimensions)
    else:
        dimensions, strides, shape = _rearranged(axes, source.shape, source.strides, sizes)
    if out is None:
        result = out = backend.empty(shape, source.dtype, source)
    else:
        result = arrays.open_array(out, "out", writing=True)[1]
        arrays.check_shape(result, shape, "out")
        if result.dtype != source.dtype:
            raise TypeError(f"out has dtype {result.dtype}, but array has {source.dtype}")
    carrier = Shape(_carrier(source.dtype), dimensions)
    turned = backend.strided(source, tuple(dimensions), tuple(strides)).view(carrier.dtype)
    pack(turned, carrier, out=result.reshape(-1).view(carrier.dtype))
    return out


def _carrier(dtype: np.dtype) -> str:
    """The element type that carries elements of this dtype; only their bytes count."""
    if dtype.itemsize not in CARRIERS or dtype.hasobject:
        raise TypeError(
            f"array has dtype {dtype}, of {dtype.itemsize} bytes: elements of 1, 2, 4, 8 or 16 bytes other than "
            "Python objects can be moved"
        )
    return CARRIERS[dtype.itemsize]


def _rearranged(
    pattern: str, shape: Sequence[int], strides: Sequence[int], sizes: dict[str, int]
) -> tuple[list[int], list[int], tuple[int, ...]]:
    """(sizes, byte strides) of the axes by name, in the order of the result, and the shape of the result."""
    before, after = _sides(pattern, len(shape))
    named, stepped = _taken_apart(pattern, before, shape, strides, sizes)
    order = [name for group in after for name in group]
    if max(len(order), len(after)) > MAX_AXES:
        raise LayoutError(
            f"axes {checks.value_text(pattern)} has {max(len(order), len(after))} axes: {MAX_AXES} is the limit"
        )
    return (
        [named[name] for name in order],
        [stepped[name] for name in order],
        tuple(math.prod(named[name] for name in group) for group in after),
    )


def _sides(pattern: str, rank: int) -> tuple[Groups, Groups]:
    """Both sides of a pattern, with `...` written out as names, ~0 ~1 and so on, for as many axes as there are."""
    if "~" in pattern:  # it begins names of our own
        raise LayoutError(f"axes {pattern!r} is not a pattern such as 'h w c -> c h w': it has '~' in it")
    sides = pattern.split("->")
    if len(sides) != 2:
        raise LayoutError(
            f"axes {pattern!r} is not a pattern such as 'h w c -> c h w': it has {'no' if len(sides) == 1 else len(sides) - 1} '->'"
        )
    if re.search(r"\([^)]*\.\.\.", sides[0]):
        raise LayoutError(f"axes {pattern!r} takes ... apart: the axes without a name stand alone on the left")
    rest = " ".join(f"~{number}" for number in range(rank + 1 - len(_groups(sides[0], pattern))))
    before, after = (_groups(side.replace("...", f" {rest} "), pattern) for side in sides)
    names = [[name for group in side for name in group] for side in (before, after)]
    for side, found in zip(("left", "right"), names):
        seen: set[str] = set()
        twice = next((name for name in found if name in seen or seen.add(name)), None)
        if twice:
            raise LayoutError(f"axes {pattern!r} names {_shown(twice)} twice on the {side}")
    for one, other, side in ((*names, "right"), (*names[::-1], "left")):
        known = set(other)
        lost = next((name for name in one if name not in known), None)
        if lost:
            raise LayoutError(
                f"axes {pattern!r} has no {_shown(lost)} on the {side}: both sides name the same axes, since no element is dropped or repeated"
            )
    if len(before) != rank:
        raise LayoutError(
            f"axes {pattern!r} names {checks.counted(len(before), 'axis')} on the left: the array has {rank}"
        )
    return before, after


def _shown(name: str) -> str:
    return "..." if name.startswith("~") else name


def _groups(side: str, pattern: str) -> Groups:
    """The axes of one side: a name is a list of itself, parentheses a list of names; 1 is an axis of no names, so of
    one element.
    """
    groups: Groups = []
    inside = False
    for token in _TOKEN.findall(side):
        if token in "()":
            if inside == (token == "("):
                raise LayoutError(
                    f"axes {pattern!r} has parentheses that do not fit: {token!r} is not closed, or opens a second pair"
                )
            inside = token == "("
            if inside:
                groups.append([])
        elif token != "1" and not _NAME.fullmatch(token):
            raise LayoutError(f"axes {pattern!r} is not a pattern such as 'h w c -> c h w': it has {token!r} in it")
        elif inside:
            groups[-1] += [token] * (token != "1")
        else:
            groups.append([token] * (token != "1"))
    if inside:
        raise LayoutError(f"axes {pattern!r} has parentheses that do not fit: '(' is not closed")
    return groups


def _taken_apart(
    pattern: str, groups: Groups, shape: Sequence[int], strides: Sequence[int], sizes: dict[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes and byte strides by name.  Of a group's sizes one may be unknown."""
    sizes = {name: checks.count(f"size {name}", size) for name, size in sizes.items()}  # NumPy's own ints would wrap
    named: dict[str, int] = {}
    stepped: dict[str, int] = {}
    for axis, (group, size, stride) in enumerate(zip(groups, shape, strides)):
        known = [sizes[name] for name in group if name in sizes]
        unknown = [name for name in group if name not in sizes]
        product = math.prod(known)
        if len(unknown) > 1:
            raise LayoutError(
                f"axes {pattern!r} does not say the sizes of {' and '.join(unknown)}: give one of them, {unknown[0]}=..."
            )
        if (product != size) if not unknown else (size % product if product else size):
            raise LayoutError(
                f"axes {pattern!r} does not fit the array's shape {tuple(shape)}: axis {axis} of size {size} is not "
                f"{' x '.join(checks.number_text(sizes[name]) if name in sizes else name for name in group) or 1}"
            )
        for name in group:
            named[name] = sizes[name] if name in sizes else size // product if product else 0
        for place, name in enumerate(group):
            stepped[name] = stride * math.prod(named[below] for below in group[place + 1 :])
    unused = next((name for name in sizes if name not in named), None)
    if unused:
        raise LayoutError(f"size {unused} belongs to no axis of {pattern!r}")
    return named, stepped
