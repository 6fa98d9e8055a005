"""Messages in rounds, so that little memory is needed for bytes that have to be packed, or unpacked.

Round k carries piece k of every message.  A rank holds the bytes of two rounds: while one is under way, it packs the
next.  So a piece may have half of `max_bytes` over the number of a rank's messages; where the two ranks of a message
differ, the smaller of the two counts.  This follows from the exchange and `max_bytes` alone, so both of them cut a
message in the same places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpulayout.layout.checks import counted, number_text
from gpulayout.layout.errors import LayoutError
from gpulayout.moves.placement import Box
from gpulayout.shards.messages import Message, volume

ALIGNMENT = 16  # bytes; packed pieces begin at multiples of it


class Round(NamedTuple):
    """What a rank sends and receives at once: no more than one piece of each of its messages."""

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]


def most_of_a_piece(counts: Sequence[int], max_bytes: int | None) -> list[int | None]:
    """For each rank the bytes that a piece of its messages may have; LayoutError for too small a `max_bytes`.

    counts   for each rank how many messages it sends and receives
    """
    if max_bytes is None:
        return [None] * len(counts)
    busiest = max(range(len(counts)), key=counts.__getitem__)
    least = 2 * ALIGNMENT * counts[busiest]
    if max_bytes < least:
        raise LayoutError(
            f"max_bytes is {number_text(max_bytes)}, but rank {busiest} sends and receives "
            f"{counted(counts[busiest], 'message')}: write at least {least}"
        )
    return [max_bytes // 2 // count // ALIGNMENT * ALIGNMENT if count else None for count in counts]


def rounds_of(
    rank: int, sends: Sequence[Message], receives: Sequence[Message], most: Sequence[int | None]
) -> list[Round]:
    """The rounds of a rank.  Each begins with the rank after its own, so that not all send to the same one."""
    ranks = len(most)
    going = sorted(sends, key=lambda message: (message.target - rank) % ranks)
    coming = sorted(receives, key=lambda message: (rank - message.source) % ranks)
    pieces = [[_pieces(message, most) for message in messages] for messages in (going, coming)]
    count = max(map(len, [*pieces[0], *pieces[1]]), default=0)
    return [Round(*[tuple([cut[k] for cut in side if k < len(cut)]) for side in pieces]) for k in range(count)]


def _pieces(message: Message, most: Sequence[int | None]) -> list[Message]:
    """A message as several, none of which has more bytes than its ranks have memory for."""
    limits = [limit for limit in (most[message.source], most[message.target]) if limit is not None]
    if not limits or message.nbytes <= min(limits) or (message.sends_directly and message.lands_directly):
        return [message]
    limit = min(limits)
    pieces: list[Message] = []
    boxes: list[Box] = []
    left = limit
    for part in message.parts:
        order = part.wire.layout.minor_to_major[::-1]
        for box in _cut(part.box, order, limit * 8 // part.wire.bits_per_element):
            nbytes = -(-volume(box) * part.wire.bits_per_element // 8)
            if nbytes > left:
                pieces.append(message.of(tuple(boxes)))
                boxes, left = [], limit
            boxes.append(box)
            left -= nbytes
    return [*pieces, message.of(tuple(boxes))]


def _cut(box: Box, order: Sequence[int], most: int) -> Iterator[Box]:
    """Boxes of at most so many elements, cut along the most major dimensions, so that runs of bytes stay runs.

    >>> list(_cut(((0, 3), (0, 4)), (0, 1), 8)), list(_cut(((0, 1), (0, 4)), (0, 1), 3))
    ([((0, 2), (0, 4)), ((2, 3), (0, 4))], [((0, 1), (0, 3)), ((0, 1), (3, 4))])
    """
    if volume(box) <= most:
        yield box
        return
    dim = next(dim for dim in order if box[dim][1] - box[dim][0] > 1)
    first, last = box[dim]
    rows = max(most // (volume(box) // (last - first)), 1)
    for begin in range(first, last, rows):
        yield from _cut((*box[:dim], (begin, min(begin + rows, last)), *box[dim + 1 :]), order, most)
