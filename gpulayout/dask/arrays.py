"""Dask arrays: what enters, what leaves, their shuffle, and arithmetic on the way.

A result is a graph with one task for each of its chunks.  A task calls a public function of the package with a chunk
and the text of a shape, so it takes a few hundred bytes on the way to a worker.  It also gets the arithmetic of that
call, with the numbers of its own chunk: of a scale of shape (4,), the first two for the first of two chunks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import dask.array as da
import numpy as np
from dask import config
from dask._task_spec import Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.utils import parse_bytes

from gpulayout.calls.transpose import transpose
from gpulayout.dask.slabs import Chunks, Sizes
from gpulayout.layout.checks import ByteCount, byte_count, number_text, type_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.requests.arithmetic import Asked, ElementChange

untyped: Any = da  # for calls of functions that Dask leaves untyped
Key: TypeAlias = "tuple[str | int, ...]"


def check_dask(array: object, role: str, function: str) -> None:
    """TypeError unless the argument is a Dask array, ValueError unless its size is known."""
    if not isinstance(array, da.Array):
        raise TypeError(f"{role} is {type_text(array)}, not a Dask array: gl.{function} takes other arrays")
    if any(math.isnan(size) for size in array.shape):
        raise ValueError(f"{role} has chunks of unknown size {array.shape}: call its compute_chunk_sizes() first")


def limit_of(chunk_size: ByteCount | None) -> int:
    """Bytes of the largest chunk; by default Dask's setting, which has Dask's units: 1 kB is 1000 bytes there.

    LayoutError unless there is at least one.
    """
    if chunk_size is None:
        name, limit = "Dask's setting array.chunk-size", parse_bytes(config.get("array.chunk-size"))
    else:
        name, limit = "chunk_size", byte_count("chunk_size", chunk_size)
    if limit < 1:
        raise LayoutError(f"{name} {number_text(limit)} is not at least one byte")
    return int(limit)


def empty_like(array: da.Array, dimensions: Iterable[int]) -> Any:
    """An array without elements of the kind that the chunks are, NumPy's or CuPy's, and of their dtype."""
    return np.empty_like(array._meta, shape=tuple(dimensions))


def new_array(
    what: str, tasks: Callable[[str], Mapping[Key, Task]], source: da.Array, chunks: Chunks, like: Any, *token: object
) -> da.Array:
    """The Dask array whose chunks are these tasks.

    what    the first part of its name, which Dask's dashboard shows
    tasks   makes the tasks for a name
    like    an array of the kind and dtype of the chunks
    token   what the tasks depend on besides the source and the chunks
    """
    name = f"{what}-{tokenize(source.name, chunks, *token)}"
    made = tasks(name)
    sources: list[Any] = [source] if any(task.dependencies for task in made.values()) else []  # none if all is padding
    graph = HighLevelGraph.from_collections(name, cast(Any, made), dependencies=sources)
    result: da.Array = untyped.Array(graph, name, chunks, meta=np.empty_like(like, shape=(0,) * len(chunks)))
    return result


def rechunked(array: Any, chunks: Chunks, limit: int | None = None) -> Any:
    """The array in other chunks, by Dask's own shuffle.

    limit   bytes of the largest chunk of the result
    On the way Dask joins small chunks, up to its setting `array.chunk-size`, so that it moves fewer and larger pieces.
    Here it joins at most four of the largest: 128 MiB at once are too many for workers of 1 GB.
    Dask's shuffle between workers cannot send the types of ml_dtypes, so they travel as unsigned integers.
    """
    if array.chunks == chunks:
        return array
    dtype, joined = array.dtype, limit_of(None)
    if limit is not None:
        joined = min(4 * limit, joined)
    if dtype.type.__module__ == np.generic.__module__:
        return array.rechunk(chunks, block_size_limit=joined)
    carrier = ElementType.of(dtype).carrier
    return _seen_as(_seen_as(array, carrier).rechunk(chunks, block_size_limit=joined), dtype)


def _seen_as(array: Any, dtype: np.dtype[Any]) -> Any:
    return array.map_blocks(_view, dtype, dtype=dtype, meta=array._meta.view(dtype))


def _view(chunk: Any, dtype: np.dtype[Any]) -> Any:
    return chunk.view(dtype)


# ---- arithmetic on the way -------------------------------------------------------------------------------------------


def change_of(asked: Asked, source: Shape, target: Shape) -> ElementChange | None:
    """The arithmetic from one array to another; None for a call that asks for none."""
    return asked.change(source, target.element_type) if asked else None


class ChunkChange:
    """The arithmetic on the chunks of an array of these dimensions; nothing if `change` is None."""

    def __init__(self, change: ElementChange | None, dimensions: Sizes, chunks: Chunks) -> None:
        self._change, self._dimensions = change, dimensions
        self._borders = [(0, *itertools.accumulate(sizes)) for sizes in chunks]

    def options(self, position: Sizes | None = None) -> dict[str, Any]:
        """The keywords for the chunk at a position of the grid; without one, those for no elements."""
        if self._change is None:
            return {}
        box: Sequence[tuple[int, int]] = ()
        if position is not None:
            box = [(borders[at], borders[at + 1]) for borders, at in zip(self._borders, position)]
        return self._change.part(self._dimensions, box).options | {"dtype": str(self._change.arithmetic.target)}

    @property
    def token(self) -> tuple[Any, ...]:
        """What tasks depend on."""
        if self._change is None:
            return ()
        arithmetic, parameters = self._change
        return (
            str(arithmetic.target),
            arithmetic.saturate,
            [step.operation for step in arithmetic.steps],
            [*map(tuple, parameters)],
        )


def changed_chunks(array: da.Array, change: ElementChange) -> da.Array:
    """The array with its elements changed, in the same chunks."""
    changes = ChunkChange(change, array.shape, array.chunks)
    order = tuple(range(array.ndim))

    def tasks(name: str) -> Mapping[Key, Task]:
        grid = itertools.product(*(range(len(sizes)) for sizes in array.chunks))
        return {
            (name, *at): Task((name, *at), transpose, TaskRef((array.name, *at)), order, **changes.options(at))
            for at in grid
        }

    like = transpose(empty_like(array, (0,) * array.ndim), order, **changes.options())
    return new_array("change", tasks, array, array.chunks, like, *changes.token)
