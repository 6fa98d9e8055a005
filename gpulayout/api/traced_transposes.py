"""Transposes of traced arrays, whose sizes may stay open: split axes by a reshape, permute them, and join them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import refusal, refusing_in_graphs
from gpulayout.layout.patterns import read_pattern
from gpulayout.moves.lowered_run import PlainSteps, is_jax, run_in_jax, run_in_torch

# The names and sizes of the parts of an axis; None for the size that follows from the others.
Known = tuple[tuple[str, int | None], ...]


def transposed(array: Any, axes: Any, sizes: Mapping[str, int]) -> Any:
    """The result of `transpose`, in C order."""
    before, order, after, about = _arrangement(*_plain_axes(axes, sizes, array))
    parts = _split(array.shape, before, about) if before else array.shape
    steps: list[tuple[str, tuple[int, ...], None]] = []
    if before:
        steps.append(("reshape", tuple(parts), None))
    if order != tuple(range(len(order))):
        steps.append(("permute", order, None))
    if after:
        placed = [parts[part] for part in order]
        steps.append(("reshape", tuple([math.prod(placed[first:last]) for first, last in after]), None))
    if is_jax(array):
        return run_in_jax(tuple(steps), array)
    return run_in_torch(_as_planned, (tuple(steps),), array)


def _as_planned(steps: PlainSteps, as_integers: bool) -> PlainSteps:
    """The steps: they fill nothing, so they are the same for integers."""
    return steps


def _plain_axes(axes: Any, sizes: Mapping[str, int], array: Any) -> tuple[Any, int, dict[str, int]]:
    """Of `_arrangement`, all plain."""
    if axes is not None and not isinstance(axes, str):
        axes = tuple(axes)
    return axes, array.ndim, {name: operator.index(size) for name, size in sizes.items()}


def transpose_refusal(axes: Any, sizes: Mapping[str, int], array: Any) -> str:
    """Why a transpose cannot be, or nothing: torch.compile would not show an error that is raised inside of a graph."""
    arguments = _plain_axes(axes, sizes, array)
    reason = refusal("_arrangement", *arguments)
    if reason:
        return reason
    before, _, _, about = _arrangement(*arguments)
    if not _misfit(array.shape, before, about):
        return ""
    return _misfit([operator.index(size) for size in array.shape], before, about)  # open sizes are no text


@refusing_in_graphs
def _arrangement(
    axes: Any, rank: int, sizes: Mapping[str, int]
) -> tuple[tuple[Known, ...], tuple[int, ...], tuple[tuple[int, int], ...], str]:
    """What a transpose does, without the sizes of the array.

    The parts of each axis, () if none is split; the permutation of all parts; the first and last part of each axis of
    the result, () if none is joined; and the argument for messages.
    """
    if not isinstance(axes, str):
        axes = range(rank - 1, -1, -1) if axes is None else axes
        context = checks.Later(lambda: f" for an array of rank {rank}")
        return (), checks.permutation("axes", axes, rank, context, from_end=True), (), "axes"
    pattern = read_pattern(axes, rank)
    known = pattern.known(sizes)
    parts = [name for group in pattern.before for name in group]
    before = tuple([tuple([(name, known.get(name)) for name in group]) for group in pattern.before])
    for names in pattern.before:
        unknown = [name for name in names if name not in known]
        if len(unknown) > 1:
            raise LayoutError(pattern.open_sizes(unknown))
    if all(len(group) == 1 and group[0][1] is None for group in before):
        before = ()
    ends = [0]
    for group in pattern.after:
        ends.append(ends[-1] + len(group))
    after = tuple(zip(ends, ends[1:]))
    if all(last == first + 1 for first, last in after):
        after = ()
    return before, tuple([parts.index(name) for name in pattern.order]), after, pattern.shown


def _split(shape: Iterable[int], before: tuple[Known, ...], about: str) -> list[int]:
    """The size of every part; LayoutError where they do not make up their axis."""
    wrong = _misfit(shape, before, about)
    if wrong:
        raise LayoutError(wrong)
    found = []
    for size, group in zip(shape, before):
        product = _product(group)
        for _, part in group:
            found.append(part if part is not None else size // product if product else 0)
    return found


def _misfit(shape: Iterable[int], before: tuple[Known, ...], about: str) -> str:
    """The message about the first axis that its parts do not make up, or nothing."""
    for axis, (size, group) in enumerate(zip(shape, before)):
        product = _product(group)
        is_open = None in [part for _, part in group]
        if (size % product if product else size) if is_open else product != size:
            parts = " x ".join([name if part is None else str(part) for name, part in group])
            return (
                f"{about} does not fit the array's shape {tuple(shape)}: axis {axis} of size {size} is not {parts or 1}"
            )
    return ""


def _product(group: Known) -> int:
    """The product of the sizes that are known."""
    return math.prod([part for _, part in group if part is not None])
