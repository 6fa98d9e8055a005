"""Transposes, written as in einops: names of axes on both sides of an arrow.

    "h w c -> c h w"            a permutation
    "(h w) c -> c h w"          an axis is split; h or w is given by name, and the other follows
    "b h w c -> b (h w) c"      axes are joined
    "... c -> c ..."            `...` stands for the axes without a name

Both sides name the same axes, so every element of the array is written once: the transpose is one move.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpulayout.api import arrays
from gpulayout.api.array_types import Array, Kind, Out, OwnKind, Scalar
from gpulayout.api.copies import copy
from gpulayout.api.libraries import library_of
from gpulayout.api.same_kind import Maker, same_kind
from gpulayout.api.sides import check_no_self_overlap
from gpulayout.api.transfer import SEPARATE
from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import Backend
from gpulayout.moves.move import MAX_AXES

CARRIERS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}  # bytes of an element -> a type of that width
_TOKEN = re.compile(r"\.\.\.|[A-Za-z_]\w*|~?\w+|\S")
_NAME = re.compile(r"~\d+|[A-Za-z_]\w*|\.\.\.")
Groups = list[list[str]]  # for every axis, the names of the axes it is made of


@overload
def transpose(
    array: NDArray[Scalar], axes: str | Iterable[int] | None = None, *, out: None = None, **sizes: int
) -> NDArray[Scalar]: ...
@overload
def transpose(
    array: OwnKind[Kind], axes: str | Iterable[int] | None = None, *, out: None = None, **sizes: int
) -> Kind: ...
@overload
def transpose(array: Array, axes: str | Iterable[int] | None = None, *, out: None = None, **sizes: int) -> Any: ...
@overload
def transpose(array: Array, axes: str | Iterable[int] | None = None, *, out: Out, **sizes: int) -> Out: ...
def transpose(array: Array, axes: str | Iterable[int] | None = None, *, out: Any = None, **sizes: int) -> Any:
    """Reorder the axes of an array, in one pass; a new result is in C order.

    Parameters
    ----------
    array : array
        Any array the library takes, with any strides and elements of 1, 2, 4, 8 or 16 bytes.
    axes : str or sequence of int, optional
        A pattern such as ``"h w c -> c h w"``, as in einops; or, as in `numpy.transpose`, the old number of every new
        axis.  By default the axes are reversed.
    out : array, optional
        Array to write to, of the shape and dtype of the result, on the same device, with any strides that do not
        overlap: a slice of a larger array, such as ``cache[:, 0]``.
    **sizes : int
        Sizes of the axes that a pattern splits, such as ``h=32``.  One per split axis may be left out.

    Returns
    -------
    array
        A new array of the library of `array`, where it lives; or `out`.

    Raises
    ------
    LayoutError
        For a pattern or an order that does not fit the array.
    TypeError
        For elements of another size, Python objects, and an `out` of another dtype.
    BufferError
        For an `out` of another shape, that is read-only, on another device, overlaps itself or shares memory with
        `array`.  Planes of one array, such as ``cache[:, 0]`` and ``cache[:, 1]``, share none.

    See Also
    --------
    pack : Order, padding and tiles, as a flat buffer.

    Examples
    --------
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

    Keys go into their plane of a cache, in the cache's order:

    >>> cache = np.zeros((1, 2, 3, 2), int)
    >>> keys = np.arange(6).reshape(1, 2, 3)
    >>> transpose(keys, "b h s -> b s h", out=cache[:, 0]).tolist()
    [[[0, 3], [1, 4], [2, 5]]]
    """
    library = library_of(array)
    if library is not None:
        return same_kind(library, array, "array", out, functools.partial(_transposed, axes, sizes, out))
    backend, source = arrays.open_array(array, "array")
    return _transposed(axes, sizes, out, backend, source, backend)


def _transposed(
    axes: str | Iterable[int] | None, sizes: dict[str, int], out: Any, backend: Backend, source: Any, maker: Maker
) -> Any:
    """The transpose of an array that `open_array` returned; `maker` makes new memory."""
    if not isinstance(axes, str):
        if sizes:
            raise TypeError(
                f"sizes {', '.join(sizes)} belong to a pattern such as 'h w c -> c h w', but axes is "
                f"{checks.value_text(axes)}"
            )
        if isinstance(axes, (Layout, Shape)):
            raise TypeError(f"axes is {checks.type_text(axes)}: gl.pack takes layouts and shapes")
        given = range(source.ndim - 1, -1, -1) if axes is None else axes
        order = checks.permutation(
            "axes", given, source.ndim, f" for an array of shape {tuple(source.shape)}", from_end=True
        )
        dimensions, strides = tuple(source.shape[dim] for dim in order), tuple(source.strides[dim] for dim in order)
        shape = dimensions
    else:
        find = _rearranged if all(type(size) is int for size in sizes.values()) else _rearranged.__wrapped__
        dimensions, strides, shape = find(axes, tuple(source.shape), tuple(source.strides), tuple(sizes.items()))
    carrier = _carrier(source.dtype, dimensions)
    if out is None:
        result = out = maker.empty(shape, source.dtype, source)
    else:
        result = _opened_out(backend, source, shape, out)
    if 0 not in shape:
        copy(backend, source, strides, carrier, result)
    return out


def _opened_out(backend: Backend, source: Any, shape: tuple[int, ...], out: Any) -> Any:
    """`out` as an array of its backend, with every check."""
    out_backend, result = arrays.open_array(out, "out", writing=True)
    arrays.check_shape(result, shape, "out")
    if result.dtype != source.dtype:
        raise TypeError(f"out has dtype {result.dtype}, but array has {source.dtype}")
    check_no_self_overlap(result, "out")
    if backend is not out_backend or type(source) is not np.ndarray:
        arrays.check_same_device(backend, source, out_backend, result, ("array", "out"))
    arrays.check_no_overlap(backend, source, result, ("array", "out"), rule=SEPARATE)
    return result


@functools.lru_cache(maxsize=1024)  # saves 10 to 20 us a call
def _carrier(dtype: np.dtype, dimensions: tuple[int, ...]) -> Shape:
    """A shape of elements as wide as those of this dtype: a transpose moves bytes, whatever they mean."""
    if dtype.itemsize not in CARRIERS or dtype.hasobject:
        raise TypeError(
            f"array has dtype {dtype}, of {dtype.itemsize} bytes: elements of 1, 2, 4, 8 or 16 bytes other than "
            "Python objects can be moved"
        )
    return Shape(CARRIERS[dtype.itemsize], dimensions)


@functools.lru_cache(maxsize=1024)  # saves 30 to 60 us a call; not for sizes such as True or 2.0, which equal ints
def _rearranged(
    pattern: str, shape: tuple[int, ...], strides: tuple[int, ...], sizes: tuple[tuple[str, int], ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(sizes, byte strides) of the axes by name, in the order of the result, and the shape of the result."""
    before, after = _sides(pattern, len(shape))
    order = [name for group in after for name in group]
    if max(len(order), len(after)) > MAX_AXES:
        raise LayoutError(
            f"axes {checks.value_text(pattern)} has {max(len(order), len(after))} axes: {MAX_AXES} is the limit"
        )
    named, stepped = _taken_apart(pattern, before, shape, strides, dict(sizes))
    return (
        tuple(named[name] for name in order),
        tuple(stepped[name] for name in order),
        tuple(math.prod(named[name] for name in group) for group in after),
    )


def _sides(pattern: str, rank: int) -> tuple[Groups, Groups]:
    """Both sides of a pattern.  `...` becomes one name for each axis it stands for: ~0, ~1 and so on."""
    if "~" in pattern:  # reserved for the names that replace `...`
        raise LayoutError(f"axes {pattern!r} is not a pattern such as 'h w c -> c h w': it contains '~'")
    sides = pattern.split("->")
    if len(sides) != 2:
        arrows = "no" if len(sides) == 1 else len(sides) - 1
        raise LayoutError(
            f"axes {pattern!r} is not a pattern such as 'h w c -> c h w': it has {arrows} '->'{_meant(pattern, rank)}"
        )
    if re.search(r"\([^()]*\.\.\.", sides[0]):
        raise LayoutError(f"axes {pattern!r} splits ...: on the left, ... cannot be in parentheses")
    rest = " ".join(f"~{number}" for number in range(rank + 1 - len(_groups(sides[0], pattern, rank))))
    before, after = (_groups(side.replace("...", f" {rest} "), pattern, rank) for side in sides)
    left, right = ([name for group in groups for name in group] for groups in (before, after))
    for side, found in (("left", left), ("right", right)):
        twice = next((name for name, count in Counter(found).items() if count > 1), None)
        if twice is not None:
            raise LayoutError(f"axes {pattern!r} names {_shown(twice)} twice on the {side}")
    for one, other, side in ((left, right, "right"), (right, left, "left")):
        known = set(other)
        lost = next((name for name in one if name not in known), None)
        if lost:
            raise LayoutError(
                f"axes {pattern!r} has no {_shown(lost)} on the {side}: both sides name the same axes, since no "
                f"element is dropped or repeated{_meant(pattern, rank)}"
            )
    if len(before) != rank:
        raise LayoutError(
            f"axes {pattern!r} names {checks.counted(len(before), 'axis')} on the left: the array has {rank}"
            f"{_meant(pattern, rank)}"
        )
    return before, after


def _meant(pattern: str, rank: int) -> str:
    """A hint for a pattern without spaces, `hwc->chw`; for the text of a layout, which `pack` takes; else nothing."""
    if pattern.lstrip().startswith("{"):
        return "; gl.pack takes the text of a layout"
    sides = [re.sub(r"[\s,]", "", side) for side in pattern.split("->")]
    if len(sides) != 2 or not all(
        len(side) == rank and side.isalpha() and side.isascii() and len(set(side)) == rank for side in sides
    ):
        return ""
    spaced = " -> ".join(" ".join(side) for side in sides)
    return f"; spaces separate the names, write {spaced!r}" if set(sides[0]) == set(sides[1]) else ""


def _shown(name: str) -> str:
    return "..." if name.startswith("~") else name


def _groups(side: str, pattern: str, rank: int) -> Groups:
    """The axes of one side: a name is a list of one, parentheses are a list of names, and 1 is a list of none, which is
    an axis of size 1.
    """
    groups: Groups = []
    inside = False
    for token in _TOKEN.findall(side):
        if token in "()":
            if inside == (token == "("):
                problem = "has '(' inside parentheses" if inside else "has ')' without '('"
                raise LayoutError(f"axes {pattern!r} {problem}")
            inside = token == "("
            if inside:
                groups.append([])
        elif token != "1" and not _NAME.fullmatch(token):
            raise LayoutError(
                f"axes {pattern!r} is not a pattern such as 'h w c -> c h w': it contains {token!r}"
                f"{_meant(pattern, rank)}"
            )
        elif inside:
            groups[-1] += [token] * (token != "1")
        else:
            groups.append([token] * (token != "1"))
    if inside:
        raise LayoutError(f"axes {pattern!r} has '(' without ')'")
    return groups


def _taken_apart(
    pattern: str, groups: Groups, shape: Sequence[int], strides: Sequence[int], sizes: dict[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes and byte strides by name.  One size of each group may be unknown."""
    names = {name for group in groups for name in group}
    unused = next((name for name in sizes if name not in names), None)
    if unused:
        raise LayoutError(f"size {unused} belongs to no axis of {pattern!r}")
    sizes = {name: checks.count(f"size {name}", size) for name, size in sizes.items()}  # NumPy's own ints would wrap
    named: dict[str, int] = {}
    stepped: dict[str, int] = {}
    for axis, (group, size, stride) in enumerate(zip(groups, shape, strides)):
        known = [sizes[name] for name in group if name in sizes]
        unknown = [name for name in group if name not in sizes]
        product = math.prod(known)
        if len(unknown) > 1:
            raise LayoutError(
                f"axes {pattern!r} leaves the sizes of {' and '.join(unknown)} open: give all but one, such as "
                f"{unknown[0]}=..."
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
    return named, stepped
