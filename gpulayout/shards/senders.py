"""Who sends which box: for each box that a rank wants, boxes that others hold and that are the whole of it together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpulayout.layout.errors import LayoutError
from gpulayout.moves.placement import Box
from gpulayout.shards.messages import volume
from gpulayout.shards.sharding import Sharding, box_text

Pair = tuple[int, int]
Numbers = np.ndarray[Any, np.dtype[np.int64]]  # of boxes: the first coordinate in each dimension, and one past the last


def boxes_to_send(source: Sharding, target: Sharding) -> dict[Pair, tuple[Box, ...]]:
    """For pairs of ranks the boxes that the first one has to bring to the second, which may be the same."""
    holders: dict[Box, list[int]] = {}
    for rank, box in enumerate(source.boxes):
        if box is not None and volume(box):
            holders.setdefault(box, []).append(rank)
    distinct = list(holders)
    corners = np.array(distinct, np.int64).reshape(len(distinct), source.shape.rank, 2)
    are_apart = not _overlap(corners)
    sent = [0] * source.ranks
    found: dict[Pair, list[Box]] = {}
    for rank, box in enumerate(target.boxes):
        if box is None or not volume(box):
            continue
        near = _meeting(corners, box)
        parts = _parts(corners[near], box)
        if (not are_apart and _overlap(parts)) or sum(_volumes(parts)) != volume(box):
            covering = _covering(rank, box, [distinct[number] for number in near], holders, target)
        else:
            covering = zip(map(_box, parts.tolist()), [holders[distinct[number]] for number in near])
        for part, holding in covering:
            sender = rank if rank in holding else min(holding, key=lambda other: (sent[other], other))
            sent[sender] += volume(part) * (sender != rank)
            found.setdefault((sender, rank), []).append(part)
    return {pair: tuple(boxes) for pair, boxes in found.items()}


def _box(corners: list[list[int]]) -> Box:
    return tuple([(first, last) for first, last in corners])


def _parts(corners: Numbers, box: Box) -> Numbers:
    """What boxes have in common with one."""
    own = np.array(box, np.int64).reshape(-1, 2)
    return np.stack([np.maximum(corners[..., 0], own[:, 0]), np.minimum(corners[..., 1], own[:, 1])], axis=-1)


def _volumes(corners: Numbers) -> list[int]:
    volumes: list[int] = (corners[..., 1] - corners[..., 0]).prod(axis=1).tolist()
    return volumes


def _meeting(corners: Numbers, box: Box | Numbers) -> list[int]:
    """The numbers of the boxes that share elements with a box."""
    own = np.array(box, np.int64).reshape(-1, 2)
    meets = (corners[..., 0] < own[:, 1]) & (own[:, 0] < corners[..., 1])
    numbers: list[int] = np.flatnonzero(meets.all(axis=1)).tolist()
    return numbers


def _covering(
    rank: int, box: Box, near: Sequence[Box], holders: dict[Box, list[int]], target: Sharding
) -> Iterator[tuple[Box, list[int]]]:
    """Parts that are the whole box together, of boxes that overlap, and who holds each.

    LayoutError where nobody holds an element.
    """
    left = [box]
    for other in sorted(near, key=lambda other: (rank not in holders[other], other)):
        rest: list[Box] = []
        for piece in left:
            part = _common(piece, other)
            if volume(part) or not piece:
                yield part, holders[other]
                rest += _without(piece, part)
            else:
                rest.append(piece)
        left = rest
    if left:
        first = ",".join(str(begin) for begin in min([begin for begin, _ in piece] for piece in left))
        raise LayoutError(
            f"no rank of the source holds element [{first}] of {target.shape}, which is in box {box_text(box)} of rank "
            f"{rank} of the target: the boxes of the source leave it out"
        )


def _common(one: Box, other: Box) -> Box:
    return tuple([(max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other)])


def _overlap(corners: Numbers) -> bool:
    """Whether two of these boxes, none of which is empty, share an element."""
    return any(len(_meeting(corners[number + 1 :], box)) for number, box in enumerate(corners))


def _without(box: Box, part: Box) -> list[Box]:
    """What is left of a box without a part of it, in as few boxes as its sides need."""
    left, rest = [], list(box)
    for dim, ((first, last), (begin, end)) in enumerate(zip(box, part)):
        for piece in ((first, begin), (end, last)):
            if piece[0] < piece[1]:
                left.append((*rest[:dim], piece, *rest[dim + 1 :]))
        rest[dim] = (begin, end)
    return left
