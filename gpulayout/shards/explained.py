"""An exchange in words: how many messages and bytes, between whom, and whether fewer would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpulayout.choices.explain import Explanation
from gpulayout.layout.checks import counted
from gpulayout.layout.errors import LayoutError
from gpulayout.shards.messages import Message, volume
from gpulayout.shards.sharding import Sharding

MOST_LINKS = 8  # that are listed, the largest first


def explained(
    source: Sharding, target: Sharding, form: str | None, messages: Sequence[Message], stays: Sequence[Message]
) -> Explanation:
    """See `Exchange.explain`.

    form    of the arithmetic on the way; None for none
    stays   what a rank brings to itself
    """
    lines = [
        f"exchange of {source.shape} from {counted(source.ranks, 'rank')} to {target.ranks}",
        f"  messages {len(messages)}, of at most {_pairs(source, target)} pairs of ranks",
        f"  bytes    {_bytes(messages)} travel, the least possible; {_bytes(stays)} stay on their rank",
    ]
    if form is not None:
        where = Counter("before" if message.changes_first else "after" for message in messages)
        lines.append(f"  changed  {form}: " + ", ".join(f"{n} {what} they travel" for what, n in sorted(where.items())))
    if messages:
        lines += [
            f"  balance  {_balance('sends', messages, 'source')}; {_balance('receives', messages, 'target')}",
            f"  staging  {_staging(messages)}",
            f"  runs     {_runs(messages)}",
            *_links(messages),
        ]
    return Explanation("\n".join(lines))


def _bytes(messages: Iterable[Message]) -> str:
    return counted(sum(message.nbytes for message in messages), "byte")


def _pairs(source: Sharding, target: Sharding) -> int:
    """Pairs of different ranks of which one holds something before, and the other afterwards."""
    before, after = (
        {rank for rank, box in enumerate(side.boxes) if box is not None and volume(box)} for side in (source, target)
    )
    return len(before) * len(after) - len(before & after)


def _balance(verb: str, messages: Sequence[Message], end: str) -> str:
    """How much the busiest rank has to do, and how much a rank on average."""
    load: Counter[int] = Counter()
    for message in messages:
        load[getattr(message, end)] += message.nbytes
    rank, most = max(load.items(), key=lambda entry: (entry[1], -entry[0]))
    return f"rank {rank} {verb} most, {counted(most, 'byte')}, {most * len(load) / load.total():.2f} times the mean"


def _staging(messages: Sequence[Message]) -> str:
    """How many messages need no memory of their own on either side."""
    sent, landed = (
        sum(getattr(message, name) for message in messages) for name in ("sends_directly", "lands_directly")
    )
    return f"{sent} of {len(messages)} are sent from the buffer as it lies, {landed} land in the buffer as they travel"


def _runs(messages: Sequence[Message]) -> str:
    """The shortest run that an engine would copy which writes to the memory of other ranks."""
    try:
        listed = [(message, message.run_list()) for message in messages]
    except LayoutError:
        return "none: elements change on the way, or do not lie in whole bytes"
    message, runs = min(listed, key=lambda entry: entry[1].shortest)
    count = counted(sum(runs.count for _, runs in listed), "run")
    shortest = counted(runs.shortest, "byte")
    return f"{count} from buffer to buffer, the shortest {shortest}, rank {message.source} to rank {message.target}"


def _links(messages: Sequence[Message]) -> list[str]:
    largest = sorted(messages, key=lambda message: (-message.nbytes, message.source, message.target))
    lines = [
        f"  link     rank {message.source} to rank {message.target}: {counted(message.nbytes, 'byte')}, "
        f"{counted(len(message.boxes), 'box')}"
        for message in largest[:MOST_LINKS]
    ]
    rest = largest[MOST_LINKS:]
    if rest:
        lines.append(f"           and {counted(len(rest), 'other')}, of {rest[-1].nbytes} to {rest[0].nbytes} bytes")
    return lines
