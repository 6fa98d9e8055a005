"""Arithmetic on the way for Dask arrays: every chunk is changed by the local call that moves it.

A task gets the keywords of that call, with the numbers of its own chunk: of a scale of shape (4,), the first two for
the first of two chunks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import dask.array as da
from dask._task_spec import Task, TaskRef

from gpulayout.api.arithmetic import Asked, ElementChange, check_simple
from gpulayout.api.transpose import transpose
from gpulayout.dask.arrays import Key, empty_like, new_array
from gpulayout.dask.slabs import Chunks, Sizes
from gpulayout.layout.shape import Shape


def asked_of(options: Mapping[str, Any]) -> Asked:
    """What a call asks for; TypeError for keywords that Dask arrays do not take."""
    check_simple(options, "Dask arrays")
    return Asked(options)


def change_of(asked: Asked, source: Shape, target: Shape) -> ElementChange | None:
    """The arithmetic from one array to another; None for a call that asks for none."""
    return asked.change(source, target.element_type) if asked else None


class ChunkChange:
    """The arithmetic on the chunks of an array of these dimensions; nothing if `change` is None."""

    def __init__(self, change: ElementChange | None, dimensions: Sizes, chunks: Chunks) -> None:
        self._change, self._dimensions = change, dimensions
        self._borders = [(0, *itertools.accumulate(sizes)) for sizes in chunks]

    def options(self, place: Sizes | None = None) -> dict[str, Any]:
        """The keywords for the chunk at a place of the grid; without a place, those for no elements."""
        if self._change is None:
            return {}
        box: Sequence[tuple[int, int]] = ()
        if place is not None:
            box = [(borders[at], borders[at + 1]) for borders, at in zip(self._borders, place)]
        return self._change.part(self._dimensions, box).options | {"dtype": str(self._change.arithmetic.target)}

    @property
    def token(self) -> tuple[Any, ...]:
        """What tasks depend on."""
        if self._change is None:
            return ()
        arithmetic, parameters = self._change
        return str(arithmetic.target), [step.operation for step in arithmetic.steps], [*map(tuple, parameters)]


def changed_chunks(array: da.Array, change: ElementChange) -> da.Array:
    """The array with its elements changed, in the same chunks."""
    changes = ChunkChange(change, array.shape, array.chunks)
    order = tuple(range(array.ndim))

    def tasks(name: str) -> Mapping[Key, Task]:
        places = itertools.product(*(range(len(sizes)) for sizes in array.chunks))
        return {
            (name, *at): Task((name, *at), transpose, TaskRef((array.name, *at)), order, **changes.options(at))
            for at in places
        }

    like = transpose(empty_like(array, (0,) * array.ndim), order, **changes.options())
    return new_array("change", tasks, array, array.chunks, like, *changes.token)
