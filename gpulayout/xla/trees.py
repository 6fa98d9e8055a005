"""Tuples of shapes as trees: walking them, and replacing parts of them.

An index names a shape in the tree: the element numbers on the way to it, outermost first.

    ((f32[2], s8[3]), token[])        () is the whole, (0,) the inner tuple, (0, 1) is s8[3], (1,) is the token

A leaf is any shape that is not a tuple.  A buffer is a leaf: the array that it holds has no index of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutTypeError
from gpulayout.layout.other_shapes import AnyShape, TupleShape
from gpulayout.layout.text import as_any_shape

Index = tuple[int, ...]


def subshapes(shape: AnyShape | str, *, post_order: bool = False) -> Iterator[tuple[Index, AnyShape]]:
    """Every shape in a tree, with its index.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.
    post_order : bool, optional
        Yield a tuple after its elements instead of before them.

    Yields
    ------
    (index, shape) : tuple of int, shape
        The whole tree has index ().

    Notes
    -----
    XLA: `ForEachSubshape`, `ForEachSubshapePostOrder` and the like.

    Examples
    --------
    >>> [index for index, _ in subshapes("((f32[2], s8[3]), token[])")]
    [(), (0,), (0, 0), (0, 1), (1,)]
    """
    return _visit(as_any_shape(shape), post_order)


def _visit(shape: AnyShape, post_order: bool) -> Iterator[tuple[Index, AnyShape]]:
    if not post_order:
        yield (), shape
    if isinstance(shape, TupleShape):
        for entry, part in enumerate(shape):
            for index, found in _visit(part, post_order):
                yield (entry, *index), found
    if post_order:
        yield (), shape


def leaf_shapes(shape: AnyShape | str) -> list[tuple[Index, AnyShape]]:
    """Every shape in a tree that is not a tuple, with its index.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.

    Returns
    -------
    list of (tuple of int, shape)
        In order.

    Notes
    -----
    XLA: `GetLeafShapes`; the length of the result is `GetLeafCount`.

    Examples
    --------
    >>> [(index, str(leaf)) for index, leaf in leaf_shapes("((f32[2], ()), token[])")]
    [((0, 0), 'f32[2]{0}'), ((1,), 'token[]')]
    """
    return [(index, found) for index, found in subshapes(shape) if not isinstance(found, TupleShape)]


def subshape(shape: AnyShape | str, index: Iterable[int]) -> AnyShape:
    """The shape at an index of a tree.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.
    index : iterable of int
        Element numbers, outermost first.  Negative numbers do not count from the end.

    Returns
    -------
    Shape, TupleShape, TokenShape, OpaqueShape or BufferShape

    Raises
    ------
    IndexError
        If the index leads nowhere; the message names the first bad number.

    Notes
    -----
    XLA: `GetSubshape`, `TryGetSubshape`.

    Examples
    --------
    >>> str(subshape("((f32[2], s8[3]), token[])", (0, 1)))
    's8[3]{0}'
    """
    shape = as_any_shape(shape)
    index = checks.whole_numbers("index", index, f" for {shape}")
    found = shape
    for depth, entry in enumerate(index):
        if not isinstance(found, TupleShape):
            raise IndexError(
                f"index {checks.shown(index)} leads nowhere in {shape}: {found} at {checks.shown(index[:depth])} "
                "is not a tuple"
            )
        if not 0 <= entry < len(found):
            raise IndexError(
                f"index {checks.shown(index)} leads nowhere in {shape}: the tuple at {checks.shown(index[:depth])} has "
                f"{checks.counted(len(found), 'element')} and no number {checks.number_text(entry)}"
            )
        found = found[entry]
    return found


def index_is_valid(shape: AnyShape | str, index: Iterable[int]) -> bool:
    """True when a tree has a shape at an index.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.
    index : iterable of int
        Element numbers, outermost first.

    Returns
    -------
    bool

    Notes
    -----
    XLA: `IndexIsValid`.

    Examples
    --------
    >>> index_is_valid("(f32[2], s8[3])", (1,)), index_is_valid("(f32[2], s8[3])", (1, 0))
    (True, False)
    """
    try:
        subshape(shape, index)
    except IndexError:
        return False
    return True


def is_leaf_index(shape: AnyShape | str, index: Iterable[int]) -> bool:
    """True when the shape at an index is not a tuple.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.
    index : iterable of int
        Element numbers, outermost first.

    Returns
    -------
    bool

    Raises
    ------
    IndexError
        If the index leads nowhere.

    Notes
    -----
    XLA: `IsLeafIndex`.

    Examples
    --------
    >>> is_leaf_index("(f32[2], (s8[3]))", (0,)), is_leaf_index("(f32[2], (s8[3]))", (1,))
    (True, False)
    """
    return not isinstance(subshape(shape, index), TupleShape)


def is_prefix(prefix: Iterable[int], index: Iterable[int]) -> bool:
    """True when an index begins with another: the shape at `index` is the shape at `prefix`, or lies inside it.

    Parameters
    ----------
    prefix, index : iterable of int
        Indices of one tree.

    Returns
    -------
    bool

    Notes
    -----
    XLA: `IsPrefix`.

    Examples
    --------
    >>> is_prefix((0,), (0, 1)), is_prefix((0, 1), (0,)), is_prefix((), (3,))
    (True, False, True)
    """
    prefix, index = checks.whole_numbers("prefix", prefix), checks.whole_numbers("index", index)
    return index[: len(prefix)] == prefix


def with_subshape(shape: AnyShape | str, index: Iterable[int], new: AnyShape | str) -> AnyShape:
    """A tree with another shape at an index.

    Parameters
    ----------
    shape : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        A shape of any kind or its text.
    index : iterable of int
        Element numbers, outermost first; () replaces the whole.
    new : Shape, TupleShape, TokenShape, OpaqueShape, BufferShape or str
        The shape to put there.

    Returns
    -------
    Shape, TupleShape, TokenShape, OpaqueShape or BufferShape
        A new tree.

    Raises
    ------
    IndexError
        If the index leads nowhere.

    Notes
    -----
    XLA: `UpdateTupleShape`, `GetMutableSubshape`.

    Examples
    --------
    >>> str(with_subshape("((f32[2], s8[3]), token[])", (0, 1), "u8[]"))
    '((f32[2]{0}, u8[]), token[])'
    """
    shape, new = as_any_shape(shape), as_any_shape(new, "new")
    index = checks.whole_numbers("index", index, f" for {shape}")
    subshape(shape, index)
    return _with_subshape(shape, index, new)


def _with_subshape(shape: AnyShape, index: Index, new: AnyShape) -> AnyShape:
    if not (index and isinstance(shape, TupleShape)):
        return new
    first, *rest = index
    inner = _with_subshape(shape.shapes[first], tuple(rest), new)
    return TupleShape((*shape.shapes[:first], inner, *shape.shapes[first + 1 :]))


def maybe_tuple_shape(shapes: Iterable[AnyShape | str]) -> AnyShape:
    """The tuple of several shapes, or a single shape itself.

    Parameters
    ----------
    shapes : iterable of shapes or str
        Shapes of any kind or their texts.

    Returns
    -------
    Shape, TupleShape, TokenShape, OpaqueShape or BufferShape

    Raises
    ------
    TypeError
        If an entry is not a shape, or `shapes` is one text.

    Notes
    -----
    XLA: `MakeMaybeTupleShape`.

    Examples
    --------
    >>> str(maybe_tuple_shape(["f32[2]"])), str(maybe_tuple_shape([]))
    ('f32[2]{0}', '()')
    """
    if isinstance(shapes, str):
        raise LayoutTypeError(f"shapes {checks.value_text(shapes)} is one text: give a sequence of shapes")
    found = tuple(as_any_shape(shape, f"shapes entry {entry}") for entry, shape in enumerate(shapes))
    return found[0] if len(found) == 1 else TupleShape(found)
