"""A move: one pass over the target that gives every place its source element, or the pad.

Each axis is a loop over the target, minor first.  Strides are in bytes, so any strided array can be a side:

    Axis(extent, bound, source_stride, target_stride)
      target[c * target_stride] = source[c * source_stride]  while c < bound, the pad for bound <= c < extent

f32[2,3]{1,0} to f32[2,3]{0,1} padded to (3, 5) is
    Axis(3, 2, 12, 4), Axis(5, 3, 4, 12)            15 places, 6 of them elements
Pack, unpack and relayout are all moves and differ only in their strides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from gpulayout.layout import checks
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.frozen import Frozen, cached_property
from gpulayout.layout.shape import Shape

# NumPy's limit, and what fits the 4 KB of kernel parameters.  No move reaches it: every axis has at least two places,
# and no shape has 2^63 bytes, so there are at most 62 axes.
MAX_AXES = 64
MOST_SIZES = 128  # dimensions and tile sizes together: planning nests one loop in the other

T = TypeVar("T")


def keeps_hash(of: type[T]) -> type[T]:
    """A frozen dataclass whose instances compute their hash once: calls and launches look them up."""
    kept = cached_property(of.__hash__)
    kept.__set_name__(of, "_kept_hash")
    of._kept_hash = kept  # type: ignore[attr-defined]
    of.__hash__ = lambda self: self._kept_hash  # type: ignore[method-assign, attr-defined]
    return of


class Axis(NamedTuple):
    """One loop of a move; strides in bytes."""

    extent: int
    bound: int
    source_stride: int
    target_stride: int

    @property
    def is_padded(self) -> bool:
        return self.bound < self.extent


class BaseMove(Frozen):
    """What moves of all kinds share."""

    place_bits: Any  # bits of a place in the source, and in the target
    place_count: Any  # places of the target that are written, padding included
    element_count: Any  # elements that are read; each is written once

    stride_unit: ClassVar[str] = "byte"  # the unit of the strides
    has_loops: ClassVar[bool] = True  # the axes describe the whole move

    @property
    def is_padded(self) -> bool:
        """True when some places are padding."""
        return bool(self.element_count < self.place_count)

    @property
    def bytes_read(self) -> int:
        return int(-(-self.element_count * self.place_bits[0] // 8))

    @property
    def bytes_written(self) -> int:
        return int(-(-self.place_count * self.place_bits[1] // 8))


class LoopMove(BaseMove):
    """A move whose axes are loops over places."""

    axes: tuple[Axis, ...]

    @cached_property
    def place_count(self) -> int:
        return math.prod(axis.extent for axis in self.axes)

    @cached_property
    def element_count(self) -> int:
        return math.prod(axis.bound for axis in self.axes)

    @cached_property
    def source_span(self) -> tuple[int, int]:
        """Byte offsets from the first element of the source: lowest read, and one past the highest."""
        return span([(axis.bound, axis.source_stride) for axis in self.axes], self.place_bits[0] // 8)

    @cached_property
    def target_span(self) -> tuple[int, int]:
        """Byte offsets from the first place of the target: lowest written, and one past the highest."""
        return span([(axis.extent, axis.target_stride) for axis in self.axes], self.place_bits[1] // 8)


@keeps_hash
@dataclass(frozen=True)
class Move(LoopMove):
    """A coalesced move: everything that a backend needs to know.  Immutable and hashable.

    axes        minor first in the target; empty for a single element
    itemsize    bytes of one element
    pad         bytes of one padding element
    dimensions  the logical dimensions that each axis covers, minor first
    """

    axes: tuple[Axis, ...]
    itemsize: int
    pad: bytes
    dimensions: tuple[tuple[int, ...], ...]

    @property
    def place_bits(self) -> tuple[int, int]:
        return 8 * self.itemsize, 8 * self.itemsize


def coalesce(
    axes: Sequence[Axis], dimensions: Sequence[tuple[int, ...]] | None = None
) -> tuple[tuple[Axis, ...], tuple[tuple[int, ...], ...]]:
    """The same loops in as few axes as possible, and the given dimensions that each of them covers.

    An axis merges with the more minor one below it when the lower has no padding (extent == bound) and the upper steps
    exactly over it on both sides (stride == lower stride * lower extent).  The source stride of an axis with at most
    one element is never used, so it always fits.  Axes of one place are dropped.  Every place of the target keeps its
    source element, or stays padding.

    >>> coalesce([Axis(4, 4, 8, 8), Axis(3, 2, 32, 32)])
    ((Axis(extent=12, bound=8, source_stride=8, target_stride=8),), ((0, 1),))
    """
    names = [(i,) for i in range(len(axes))] if dimensions is None else list(dimensions)
    joined: list[Axis] = []
    made_of: list[tuple[int, ...]] = []
    for axis, name in zip(axes, names):
        if axis.extent == axis.bound == 1:
            continue
        below = joined[-1] if joined else None
        if (
            below
            and not below.is_padded
            and axis.target_stride == below.target_stride * below.extent
            and (axis.bound <= 1 or axis.source_stride == below.source_stride * below.extent)
        ):
            joined[-1] = Axis(below.extent * axis.extent, below.extent * axis.bound, *below[2:])
            made_of[-1] += name
        else:
            joined.append(axis)
            made_of.append(name)
    return tuple(joined), tuple(made_of)


def strided_move(shape: Shape, loops: Sequence[tuple[int, int, int, int, int]]) -> Move:
    """The move of the logical array `shape` between two sets of strides.

    loops   of each: the dimension, its coordinates, its places in the target, and the strides in both
    """
    places = math.prod(width for _, _, width, _, _ in loops)
    if not shape.element_count:  # the target is empty or only padding
        everything = Axis(places, 0, 0, shape.itemsize)
        return Move((everything,), shape.itemsize, shape.padding_bytes, (tuple(range(shape.rank)),))
    order = sorted(loops, key=lambda loop: (abs(loop[4]), loop[2]))
    # The stride of a dimension of size 1 is never used, and arrays report arbitrary values there.
    axes = [Axis(width, size, source if size > 1 else 0, target) for _, size, width, source, target in order]
    joined, made_of = coalesce(axes, [(dim,) for dim, *_ in order])
    return Move(joined, shape.itemsize, shape.padding_bytes, made_of)


def check_storable(shape: Shape) -> None:
    """LayoutError unless the bytes of the buffer can be moved."""
    shape.validate_layout()
    count = shape.rank + sum(map(len, shape.layout.tiles))
    if shape.is_tiled and count > MOST_SIZES:
        raise LayoutError(f"{shape} has {count} dimensions and tile sizes: {MOST_SIZES} is the limit for a move")


def check_same_array(source: Shape, target: Shape) -> None:
    """LayoutError unless both shapes describe the same logical array."""
    check_same_dimensions(source, target)
    if source.element_type is not target.element_type:
        raise LayoutError(
            f"target {target} is not the same logical array as source {source}: the element type is "
            f"{target.element_type}, not {source.element_type}; dtype='{target.element_type}' converts the elements "
            "on the way"
        )


def check_same_dimensions(source: Shape, target: Shape) -> None:
    """LayoutError unless both shapes have the same dimensions."""
    if source.dimensions == target.dimensions:
        return
    difference = f"it has {checks.counted(target.rank, 'dimension')}, not {source.rank}"
    if source.rank == target.rank:
        sizes = enumerate(zip(source.dimensions, target.dimensions))
        difference = next(f"dimension {dim} is {other}, not {size}" for dim, (size, other) in sizes if size != other)
    raise LayoutError(f"target {target} is not the same logical array as source {source}: {difference}")


def span(loops: Sequence[tuple[int, int]], itemsize: int) -> tuple[int, int]:
    """The byte offsets that loops of (extent, stride) reach: the lowest, and one past the highest."""
    if any(extent == 0 for extent, _ in loops):
        return 0, 0
    reaches = [(extent - 1) * stride for extent, stride in loops]
    return sum(min(reach, 0) for reach in reaches), sum(max(reach, 0) for reach in reaches) + itemsize


def tile_text(major_first: Sequence[int]) -> str:
    """The sizes of a tile; the last one runs along the target's minor axis."""
    return f"{' x '.join(map(str, major_first))} elements (minor in the target last)"
