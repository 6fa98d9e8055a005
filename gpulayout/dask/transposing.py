"""`transpose` for Dask arrays: every chunk is one local call, after Dask's shuffle where axes need other chunks.

Axes with names are cut into pieces, so that every chunk of an array can be transposed alone.  An axis that is made of
several names, as "(h w)" is, has chunks that are boxes of them if its names are, major to minor: any number in single
indices, then one in pieces of any size, and the rest whole.  Rows of an image are chunks of (h w) for h in pieces and w
whole; pieces of its rows are, for h in single indices and w in pieces.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import dask.array as da
from dask._task_spec import Task, TaskRef

from gpulayout.calls import transpose as transposes
from gpulayout.dask.arrays import Key, changed_chunks, check_dask, empty_like, limit_of, new_array, rechunked
from gpulayout.dask.slabs import Chunks, Sizes
from gpulayout.layout import checks
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.requests.arithmetic import OPTIONS, Asked
from gpulayout.requests.reading import transpose_pattern

Group = Sequence[str]  # the names that one axis is made of, major to minor
Groups = tuple[Group, ...]
Pieces = Mapping[str, Sizes]  # for every name, the sizes of its pieces
Lengths = dict[str, int]


def transpose(array: da.Array, axes: str | Iterable[int] | None = None, /, **sizes: Any) -> da.Array:
    """Reorder the axes of a Dask array, chunk by chunk.  Nothing is computed yet.

    Parameters
    ----------
    array : dask.array.Array
        Array in any chunks of NumPy's or CuPy's, with elements of 1, 2, 4, 8 or 16 bytes.
    axes : str or sequence of int, optional
        A pattern such as ``"h w c -> c h w"``, or the old number of every new axis, as for `gpulayout.transpose`.  By
        default the axes are reversed.
    **sizes : int
        ``dtype=``, ``scale=`` and others, which change the elements on the way as in `gpulayout.transpose`; and
        sizes of the axes that a pattern splits, such as ``h=32``; the pattern can say them too: ``"(h=32 w) -> w h"``.
        One per split axis may be left out.

    Returns
    -------
    dask.array.Array
        Array in the shape of the result.  Each of its chunks is the transpose of one chunk of the same size.

    Raises
    ------
    LayoutError
        For a pattern or an order that does not fit the array.
    TypeError
        For an array that is not Dask's, elements of another size and Python objects.
    ValueError
        For chunks of unknown size.

    See Also
    --------
    pack : Order, padding and tiles, as a flat buffer.
    gpulayout.transpose : The same for an array in memory.

    Notes
    -----
    A permutation keeps the chunks and shuffles nothing.  So do splits and joins of axes where every chunk is a box of
    the named axes: for ``"(h w) c -> h w c"``, chunks that are whole rows.  Otherwise Dask's own `rechunk` makes such
    chunks first: it joins pieces of minor axes, and cuts major axes so that no chunk is larger than Dask's setting
    ``array.chunk-size``, or than the largest chunk of `array`.

    Examples
    --------
    >>> import dask.array as da
    >>> image = da.arange(24, chunks=6).reshape(4, 2, 3)
    >>> image.chunks, transpose(image, "h w c -> c h w").chunks
    (((1, 1, 1, 1), (2,), (3,)), ((3,), (1, 1, 1, 1), (2,)))
    >>> transpose(da.arange(6, chunks=3), "(h w) -> w h", h=2).compute()
    array([[0, 3],
           [1, 4],
           [2, 5]])
    """
    check_dask(array, "array", "transpose")
    if "out" in sizes and not isinstance(sizes["out"], Integral):  # else it is the size of an axis
        raise TypeError("transpose of a Dask array has no out: Dask calls return a new collection")
    if axes is None and "axes" in sizes:  # by keyword; beside a pattern it is the size of an axis of that name
        axes = sizes.pop("axes")
    options = {name: sizes.pop(name) for name in OPTIONS if name in sizes}
    asked, change = Asked(options), None
    if asked:  # else elements may be of types that the library does not know
        source = Shape(array.dtype, [int(size) for size in array.shape])
        change = asked.change(source, asked.target_type(source.element_type))
    before, after, lengths = _named(array, axes, sizes)
    if change is not None:
        array = changed_chunks(array, change)
    like = _meta(array, before, after)
    limit = max(limit_of(None), math.prod(map(max, array.chunks)) * array.dtype.itemsize)
    pieces: dict[str, Sizes] = {}
    for group, chunks in zip(before, array.chunks):
        pieces.update(zip(group, pieces_of_axis(tuple(lengths[name] for name in group), chunks)))
    wanted = boxes_of(pieces, after, limit // array.dtype.itemsize)
    if not are_boxes(wanted, before):  # no chunks suit both sides: the shuffle takes place among the named axes
        single = tuple((name,) for group in before for name in group)
        aligned = rechunked(array, chunks_of(pieces, before), limit)
        array, before = _moved(aligned, before, single, pieces, _meta(array, before, single)), single
    return _moved(rechunked(array, chunks_of(wanted, before), limit), before, after, wanted, like)


def _named(array: da.Array, axes: str | Iterable[int] | None, sizes: Lengths) -> tuple[Groups, Groups, Lengths]:
    """The names of every axis of the array and of the result, and their sizes."""
    shape = tuple(int(size) for size in array.shape)
    if isinstance(axes, str):
        pattern = transpose_pattern(axes, len(shape))
        return pattern.before, pattern.after, pattern.axis_sizes(shape, sizes)
    if sizes or isinstance(axes, (Layout, Shape)):
        in_memory: Any = transposes.transpose
        in_memory(empty_like(array, (0,) * len(shape)), axes, **sizes)  # raises its TypeError
    axis_numbers = range(len(shape) - 1, -1, -1) if axes is None else axes
    order = checks.permutation("axes", axis_numbers, len(shape), f" for an array of shape {shape}", from_end=True)
    names = tuple((str(dim),) for dim in range(len(shape)))
    return names, tuple(names[dim] for dim in order), {name: size for (name,), size in zip(names, shape)}


def _moved(array: Any, before: Groups, after: Groups, pieces: Pieces, like: Any) -> da.Array:
    """The array whose chunks are the transposes of those of `array`, which are boxes of the pieces."""
    pattern, new_names = _pattern(before, after), _new_names(before)
    split = [name for group in before if len(group) > 1 for name in group]

    def tasks(name: str) -> Mapping[Key, Task]:
        made: dict[Key, Task] = {}
        for block in _blocks(after, pieces):
            key: Key = (name, *_grid_position(after, block, pieces))
            source: Key = (array.name, *_grid_position(before, block, pieces))
            sizes: dict[str, Any] = {new_names[name]: pieces[name][block[name]] for name in split}
            made[key] = Task(key, transposes.transpose, TaskRef(source), pattern, **sizes)
        return made

    cuts = [pieces[name] for name in new_names]
    return new_array("transpose", tasks, array, chunks_of(pieces, after), like, pattern, cuts)


def _blocks(groups: Groups, pieces: Pieces) -> Iterator[dict[str, int]]:
    """The number of the piece of every name, for each chunk."""
    names = list(itertools.chain(*groups))
    for numbers in itertools.product(*(range(len(pieces[name])) for name in names)):
        yield dict(zip(names, numbers))


def _grid_position(groups: Groups, block: Mapping[str, int], pieces: Pieces) -> Sizes:
    """The position of a chunk along every axis."""
    numbers = []
    for group in groups:
        number = 0
        for name in group:
            number = number * len(pieces[name]) + block[name]
        numbers.append(number)
    return tuple(numbers)


def _pattern(before: Groups, after: Groups) -> str:
    """The pattern for single chunks: its names are short, and none stands for the axes of `...`.

    >>> _pattern((("~0",), ("head", "dim")), (("head",), ("dim", "~0")))
    '(a0) (a1 a2) -> (a1) (a2 a0)'
    """
    new_names = _new_names(before)
    return " -> ".join(
        " ".join(f"({' '.join(map(new_names.__getitem__, group))})" for group in side) for side in (before, after)
    )


def _new_names(groups: Groups) -> dict[str, str]:
    return {name: f"a{number}" for number, name in enumerate(itertools.chain(*groups))}


def _meta(array: da.Array, before: Groups, after: Groups) -> Any:
    """What the transpose of a chunk is: NumPy's array or CuPy's; or its TypeError for the elements."""
    ones: dict[str, Any] = dict.fromkeys(_new_names(before).values(), 1)
    return transposes.transpose(empty_like(array, (1,) * len(before)), _pattern(before, after), **ones)


# ---- how axes are cut ------------------------------------------------------------------------------------------------


def pieces_of_axis(sizes: Sizes, chunks: Sizes) -> Chunks:
    """The pieces of the names of an axis in these chunks; in chunks that are no larger, if these are not boxes.

    >>> pieces_of_axis((4, 6), (12, 6, 6)), pieces_of_axis((2, 6), (2, 4, 2, 4))
    (((2, 1, 1), (6,)), ((1, 1), (2, 4)))
    >>> pieces_of_axis((4, 6), (13, 11)), pieces_of_axis((4, 6), (5, 5, 5, 5, 4))
    (((2, 2), (6,)), ((1, 1, 1, 1), (3, 3)))
    """
    if len(sizes) == 1:
        return (chunks,)
    if not math.prod(sizes):
        return tuple((size,) for size in sizes)
    pieces: list[Sizes] = []
    lengths, rest = tuple(length for length in chunks if length), math.prod(sizes)
    for size in sizes:
        rest //= size  # elements of one index
        part = len(lengths) // size
        if len(lengths) == 1:
            pieces.append((size,))
        elif not any(length % rest for length in lengths):
            pieces.append(tuple(length // rest for length in lengths))
            lengths = (rest,)
        elif lengths == lengths[:part] * size:
            pieces.append((1,) * size)
            lengths = lengths[:part]
        else:
            largest = max(lengths)
            pieces.append(cut((size,), max(largest // rest, 1)))
            lengths = cut((rest,), largest)
    return tuple(pieces)


def cut(pieces: Sizes, most: int) -> Sizes:
    """The pieces, cut further where one is larger than `most`, into parts of about the same size.

    >>> cut((3, 8), 3)
    (3, 3, 3, 2)
    """
    smaller: list[int] = []
    for piece in pieces:
        parts = max(-(-piece // most), 1)
        smaller += [piece // parts + (number < piece % parts) for number in range(parts)]
    return tuple(smaller)


def are_boxes(pieces: Pieces, groups: Iterable[Group]) -> bool:
    """Whether every axis can be cut so: of two names of an axis the major one is in single indices, or the other whole.

    >>> are_boxes({"h": (2, 2), "w": (6,)}, ["hw"]), are_boxes({"h": (2, 2), "w": (6,)}, ["wh"])
    (True, False)
    """
    return all(
        _is_single(pieces[major]) or len(pieces[minor]) == 1
        for group in groups
        for major, minor in itertools.combinations(group, 2)
    )


def boxes_of(pieces: Pieces, groups: Sequence[Group], limit: int) -> dict[str, Sizes]:
    """Pieces that are boxes: minor names are made whole, then major ones are cut until a chunk has `limit` elements.

    >>> boxes_of({"h": (8, 8), "w": (3, 3)}, ["hw"], 1000), boxes_of({"h": (8, 8), "w": (3, 3)}, ["hw"], 24)
    ({'h': (8, 8), 'w': (6,)}, {'h': (4, 4, 4, 4), 'w': (6,)})
    """
    boxes = dict(pieces)
    for group in groups:
        for name in _after_single(boxes, group)[1:]:
            boxes[name] = (sum(boxes[name]),)
    while (largest := math.prod(max(sizes) for sizes in boxes.values())) > limit:
        leading = (name for group in groups for name in _after_single(boxes, group)[:1])
        name = max(leading, key=lambda name: max(boxes[name]))
        boxes[name] = cut(boxes[name], max(max(boxes[name]) * limit // largest, 1))
    return boxes


def chunks_of(pieces: Pieces, groups: Iterable[Group]) -> Chunks:
    """The chunks of axes whose names are in these pieces.

    >>> chunks_of({"h": (1, 1), "w": (2, 4), "c": (3,)}, ["hw", "c", ""])
    ((2, 4, 2, 4), (3,), (1,))
    """
    return tuple(tuple(map(math.prod, itertools.product(*(pieces[name] for name in group)))) for group in groups)


def _after_single(pieces: Pieces, group: Group) -> list[str]:
    """The names of an axis from the first one on that is not in single indices."""
    return list(itertools.dropwhile(lambda name: _is_single(pieces[name]), group))


def _is_single(sizes: Sizes) -> bool:
    return max(sizes) <= 1  # an empty piece is a chunk without elements in every box
