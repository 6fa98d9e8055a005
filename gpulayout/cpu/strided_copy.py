"""Executes and describes a strided copy: whole, in chunks, by channels or in cache blocks, together with its padding.

`strided_plan` decides which.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpulayout.cpu.cache_blocks import scratch_bytes
from gpulayout.cpu.grids import Box, Grid, boxes_of, grids_of
from gpulayout.cpu.short_records import ShortRecords
from gpulayout.cpu.thread_count import MOST_THREADS
from gpulayout.cpu.threads import share
from gpulayout.cpu.views import strided_view, word_of
from gpulayout.layout.cached import cached_property
from gpulayout.layout.checks import counted
from gpulayout.moves.move import Move, StridedPlaces
from gpulayout.moves.texts import tile_text


class Fill(NamedTuple):
    """Places that get the padding value.

    places   the places, axes as in the move, major first
    share    the fewest places along the major axis for a thread, if not filled by chunks; 0 uses no threads
    """

    places: StridedPlaces
    share: int


@dataclass(frozen=True)
class StridedPlan:
    """One copy, and fills of padding.  Threads share the work: places along one axis, or cache blocks.

    move           the move to execute
    threads        number of threads
    itemsize       bytes of an element as NumPy moves it: one or more contiguous elements of the move
    elements       all elements as one strided copy, axes major first
    by_channels    copy the places of the last axis one after the other
    records        copy the channels of short records with arithmetic; None copies them as they are
    cache_block    sizes of a cache block, major first; () copies without cache blocks
    scratch        strides of its scratch array in bytes, axes as in `elements`; () copies without one
    cut, fill_cut  the axis along which work without cache blocks is cut: its index in `elements`, and in the fills
    chunk          places along it that are filled and copied together; 0 takes a thread's whole share
    count          places along it, or number of cache blocks
    share          the fewest of them for a thread; 0 uses no threads
    fills          the places that get the padding value: chunk by chunk, but all at once with cache blocks
    fills_first    fill before the copy, because the fills cover elements too; else after it, while new memory is cached
    """

    move: Move
    threads: int
    itemsize: int
    elements: StridedPlaces
    by_channels: bool
    records: ShortRecords | None
    cache_block: tuple[int, ...]
    scratch: tuple[int, ...]
    cut: int
    fill_cut: int
    chunk: int
    count: int
    share: int
    fills: tuple[Fill, ...]
    fills_first: bool

    @property
    def most_threads(self) -> int:
        """The most threads that speed the move up."""
        return min(max(self.count // self.share, 1), MOST_THREADS) if self.share else 1

    @cached_property
    def _words(self) -> tuple[np.dtype, np.dtype, np.generic]:
        """The dtype of an element as NumPy moves it, that of the move's elements, and the pad."""
        word = word_of(self.move.itemsize)
        return word_of(self.itemsize), word, np.frombuffer(self.move.pad, word)[0]

    def execute(self, source: np.ndarray, source_offset: int, target: np.ndarray, target_offset: int) -> None:
        """Move between two arrays; offsets are bytes from the first element of each."""
        word, elements = self._words[0], self.elements
        reading = strided_view(source, word, elements.shape, source_offset, elements.source_strides)
        writing = strided_view(target, word, elements.shape, target_offset, elements.target_strides)
        fills = self._padding(target, target_offset) if self.fills else ()
        if self.cache_block:
            _copy_blocked(reading, writing, self, fills)
        elif self.chunk or self.share:
            share(functools.partial(_copy_part, reading, writing, self, fills), self.count, self.share, self.threads)
        elif fills or self.by_channels or self.records:
            _copy_whole(reading, writing, self, fills)
        else:
            writing[...] = reading  # a small move would feel the dispatch of np.copyto

    def _padding(self, target: np.ndarray, offset: int) -> list[_Padding]:
        _, word, pad = self._words
        return [
            _Padding(
                strided_view(target, word, places.shape, offset + places.target_offset, places.target_strides),
                pad,
                fill,
            )
            for fill in self.fills
            for places in [fill.places]
        ]

    def describe(self) -> str:
        """The plan in words."""
        text = f"one np.copyto over {counted(len(self.elements.shape), 'axis')}"
        if self.cache_block:
            text = f"cache blocks of {tile_text(self.cache_block)}" + ", through a scratch array" * bool(self.scratch)
        elif self.records:
            text = self.records.describe(self.elements.shape)
        elif self.by_channels:
            channels, axes = counted(self.elements.shape[-1], "channel"), counted(len(self.elements.shape), "axis")
            text = f"{channels} one after the other, over {axes}"
        if self.itemsize > self.move.itemsize:
            text += f", elements of {self.itemsize} bytes"
        text += f" and {counted(len(self.fills), 'fill')} of padding" if self.fills else ""
        text += f", {counted(-(-self.count // self.chunk), 'chunk')} one after the other" if self.chunk else ""
        return text + (f"; worth up to {self.most_threads} threads" if self.most_threads > 1 else "")

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values.  The copy can have fewer axes and larger elements than the move."""
        axes = zip(
            *(
                values[::-1]
                for values in (self.elements.shape, self.elements.source_strides, self.elements.target_strides)
            )
        )
        return {
            "element_bytes": self.itemsize,
            "axes": [dict(zip(("extent", "source_stride", "target_stride"), axis)) for axis in axes],
            "cache_block": self.cache_block[::-1] or None,
            "by_channels": self.by_channels,
            "arithmetic": self.records.arithmetic if self.records else None,
            "chunk_places": self.chunk,
            "threads": self.most_threads,
            "fills": [math.prod(fill.places.shape) for fill in self.fills],
            "fills_first": self.fills_first,
        }


class _Padding(NamedTuple):
    """Places of the target, and the element they get."""

    places: np.ndarray
    pad: np.generic
    fill: Fill


def _copy_whole(source: np.ndarray, target: np.ndarray, plan: StridedPlan, fills: Sequence[_Padding]) -> None:
    if plan.fills_first:
        for places, pad, _ in fills:
            places[...] = pad
    if plan.records:
        plan.records.copy(source, target)
    elif not plan.by_channels:
        target[...] = source
    else:
        for channel in range(source.shape[-1]):
            target[..., channel] = source[..., channel]
    if not plan.fills_first:
        for places, pad, _ in fills:
            places[...] = pad


def _copy_part(
    source: np.ndarray, target: np.ndarray, plan: StridedPlan, fills: Sequence[_Padding], first: int, last: int
) -> None:
    """Copy and fill between two coordinates of the axis that threads share, chunk by chunk."""
    before, fill_before = (slice(None),) * plan.cut, (slice(None),) * plan.fill_cut
    for start in range(first, last, plan.chunk or last - first):
        stop = min(start + (plan.chunk or last), last)
        part = (*before, slice(start, stop))
        padding = [_Padding(places[(*fill_before, slice(start, stop))], pad, fill) for places, pad, fill in fills]
        _copy_whole(source[part], target[part], plan, padding)


def _copy_blocked(source: np.ndarray, target: np.ndarray, plan: StridedPlan, fills: Sequence[_Padding]) -> None:
    """Copy cache blocks, shared by threads, and fill all padding before or after them."""
    grids = grids_of((source, target), plan.cache_block)
    boxes = boxes_of(grids)
    copy = functools.partial(
        share,
        functools.partial(_copy_blocks, grids, boxes),
        plan.count,
        plan.share,
        plan.threads,
        functools.partial(_scratch, plan, source.dtype),
    )
    fill = [
        functools.partial(share, functools.partial(_fill_part, places, pad), len(places), fill.share, plan.threads)
        for places, pad, fill in fills
    ]
    for work in (*fill, copy) if plan.fills_first else (copy, *fill):
        work()


def _fill_part(places: np.ndarray, pad: np.generic, first: int, last: int) -> None:
    places[first:last] = pad


def _scratch(plan: StridedPlan, word: np.dtype) -> tuple[np.ndarray, ...]:
    """The scratch array of a thread, if the plan has one."""
    if not plan.scratch:
        return ()
    memory = np.empty(scratch_bytes(plan.itemsize, plan.cache_block, plan.scratch), np.uint8)
    return (np.ndarray(plan.cache_block, word, memory, 0, plan.scratch),)


def _copy_blocks(
    grids: Sequence[Grid], boxes: Sequence[Box], first: int, last: int, scratch: np.ndarray | None = None
) -> None:
    """Copy some cache blocks: into a scratch array along the source, and out of it along the target; or directly."""
    if scratch is None:
        for k, at in boxes[first:last]:
            source, target = grids[k].arrays
            target[at] = source[at]
        return
    parts = [scratch[tuple([slice(size) for size in grid.sizes])] for grid in grids]
    for k, at in boxes[first:last]:
        source, target = grids[k].arrays
        parts[k][...] = source[at]
        target[at] = parts[k]
