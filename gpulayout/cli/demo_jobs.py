"""The work of `gpulayout demo`: real arrays, and jobs on them.

The peer of a job is the plain NumPy or CuPy code that does the same without this library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from gpulayout.api.indexing import delinearize, linearize
from gpulayout.api.packing import pack, unpack
from gpulayout.api.relayout import relayout
from gpulayout.layout.layout import Layout
from gpulayout.layout.padding import PaddingValue
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import AnyArray, Backend

PITCH = 32  # elements of padding at the end of each row of the matrix


@dataclass(frozen=True)
class Sizes:
    """How much the demo moves."""

    picture: tuple[int, int, int]
    matrix: tuple[int, int]
    indices: int
    repeats: int


FULL = Sizes((3000, 4000, 3), (4096, 4096), 1 << 22, 7)
QUICK = Sizes((60, 80, 3), (128, 128), 1 << 12, 3)


@dataclass(frozen=True)
class DemoJob:
    """One piece of work.

    run, peer   this library, and plain array code: each fills and returns its own array or tuple of rows
    nbytes      bytes read and written together
    """

    name: str
    peer_name: str
    run: Callable[[], AnyArray]
    peer: Callable[[], AnyArray]
    nbytes: int


def picture(dimensions: tuple[int, int, int]) -> NDArray[np.uint8]:
    """A picture, height x width x (red, green, blue): two ramps and a pattern."""
    height, width, _ = dimensions
    y, x = np.ogrid[:height, :width]
    pixels = np.empty(dimensions, np.uint8)
    pixels[..., 0] = y * 255 // height
    pixels[..., 1] = x * 255 // width
    pixels[..., 2] = (x ^ y) & 255
    return pixels


def matrix(dimensions: tuple[int, int]) -> NDArray[np.float32]:
    """A matrix of different numbers, for up to 2^24 elements."""
    return np.arange(dimensions[0] * dimensions[1], dtype=np.float32).reshape(dimensions)


def jobs(backend: Backend, xp: ModuleType, sizes: Sizes) -> Iterator[DemoJob]:
    """All jobs on one backend, made one at a time so that few arrays are alive.  `xp` is numpy or cupy."""
    pixels = backend.array(picture(sizes.picture), None)
    yield _to_planes(pixels, xp)
    yield _to_four_channels(pixels, xp)
    values = backend.array(matrix(sizes.matrix), None)
    yield _to_columns(values, xp)
    yield _to_padded_pitch(values, xp)
    yield _from_padded_pitch(values, xp)
    shape = Shape("u8", sizes.picture)
    # The step is coprime to the size: it visits distant places, and each once before any twice.
    places = xp.arange(sizes.indices, dtype=xp.int64) * 1_000_003 % shape.element_count
    yield _to_indices(places, shape, xp)
    yield _to_places(places, shape, xp)


def _to_planes(pixels: AnyArray, xp: ModuleType) -> DemoJob:
    target = Shape("u8", pixels.shape, Layout.from_major_to_minor((2, 0, 1)))

    def fill(planes: AnyArray) -> None:
        xp.copyto(planes, pixels.transpose(2, 0, 1))

    return _relayout_job("RGB to planes", "copyto", pixels, target, fill, xp)


def _to_four_channels(pixels: AnyArray, xp: ModuleType) -> DemoJob:
    """A fourth channel of padding that holds the highest u8, an opaque alpha."""
    wide = (*pixels.shape[:2], 4)
    target = Shape("u8", pixels.shape, Layout((2, 1, 0), padded_dimensions=wide, padding_value=PaddingValue.HIGHEST))

    def fill(channels: AnyArray) -> None:
        xp.copyto(channels[..., :3], pixels)
        channels[..., 3] = 255

    return _relayout_job("RGB to RGBA", "copyto, fill", pixels, target, fill, xp)


def _to_columns(values: AnyArray, xp: ModuleType) -> DemoJob:
    target = Shape("f32", values.shape, Layout.ascending(2))
    return _relayout_job("rows to columns", "copyto", values, target, lambda columns: xp.copyto(columns, values.T), xp)


def _relayout_job(
    name: str, peer_name: str, values: AnyArray, target: Shape, fill: Callable[[AnyArray], object], xp: ModuleType
) -> DemoJob:
    """The relayout of a C-ordered array; `fill` writes the same into an array whose C order is the target's buffer."""
    source = target.with_layout(None)
    out, expected = _two_buffers(target, xp)

    def peer() -> AnyArray:
        fill(expected.reshape([target.buffer_dimensions[dim] for dim in target.layout.major_to_minor]))
        return expected

    run = partial(relayout, values.reshape(-1), source, target, out=out)
    return DemoJob(name, peer_name, run, peer, source.nbytes + target.nbytes)


def _pitched(values: AnyArray) -> Shape:
    """The matrix with padding at the end of each row."""
    rows, columns = values.shape
    return Shape("f32", values.shape, Layout((1, 0), padded_dimensions=(rows, columns + PITCH)))


def _to_padded_pitch(values: AnyArray, xp: ModuleType) -> DemoJob:
    shape, columns = _pitched(values), values.shape[1]
    out, expected = _two_buffers(shape, xp)

    def peer() -> AnyArray:
        wide = expected.reshape(shape.buffer_dimensions)
        xp.copyto(wide[:, :columns], values)
        wide[:, columns:] = 0
        return expected

    return DemoJob(
        "pack to a pitch", "copyto, fill", partial(pack, values, shape, out=out), peer, values.nbytes + shape.nbytes
    )


def _from_padded_pitch(values: AnyArray, xp: ModuleType) -> DemoJob:
    shape, columns = _pitched(values), values.shape[1]
    buffer, out, expected = pack(values, shape), xp.empty_like(values), xp.empty_like(values)

    def peer() -> AnyArray:
        xp.copyto(expected, buffer.reshape(shape.buffer_dimensions)[:, :columns])
        return expected

    return DemoJob("unpack a pitch", "copyto", partial(unpack, buffer, shape, out=out), peer, 2 * values.nbytes)


# The peers of index conversion know only row-major order without padding, so the jobs use that.


def _to_indices(places: AnyArray, shape: Shape, xp: ModuleType) -> DemoJob:
    return DemoJob(
        "delinearize",
        "unravel_index",
        partial(delinearize, places, shape),
        partial(xp.unravel_index, places, shape.dimensions),
        places.nbytes * (1 + shape.rank),
    )


def _to_places(places: AnyArray, shape: Shape, xp: ModuleType) -> DemoJob:
    indices = delinearize(places, shape)
    return DemoJob(
        "linearize",
        "ravel_multi_index",
        partial(linearize, indices, shape),
        partial(xp.ravel_multi_index, tuple(indices), shape.dimensions, mode="raise"),
        places.nbytes * (1 + shape.rank),
    )


def _two_buffers(shape: Shape, xp: ModuleType) -> tuple[AnyArray, AnyArray]:
    """One buffer for this library and one for its peer."""
    return xp.empty(shape.buffer_size, shape.dtype), xp.empty(shape.buffer_size, shape.dtype)
