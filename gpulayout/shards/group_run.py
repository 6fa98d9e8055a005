"""An exchange on torch.distributed: each process of a group runs it with the buffer of its rank.

look at everything      the buffers, the memory for what is packed: nothing is sent before
agree                   the ranks tell each other what they run, and what is wrong
round 0                 begins: receives first, then each message as soon as it is packed
what stays              is copied meanwhile
round k + 1, round k    one begins, then the other is waited for and unpacked
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from gpulayout.arrays import arrays
from gpulayout.layout.checks import byte_count, counted, type_text, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.shards.agreement import answer, check_answers
from gpulayout.shards.buffers import flat, new_buffer
from gpulayout.shards.messages import Message
from gpulayout.shards.process_group import ProcessGroup, Transfer
from gpulayout.shards.rounds import ALIGNMENT, Round
from gpulayout.shards.sharding import Sharding
from gpulayout.version import __version__


class RankPart(NamedTuple):
    """What a rank needs to carry out its part, all of it checked.

    source, target   its buffers, flat; None for none
    result           what the call returns
    is_new           `target` was made for this call
    rounds           its messages
    staging          for even and for odd rounds, the memory for what is packed and for what is to be unpacked
    """

    source: Any
    target: Any
    result: Any
    is_new: bool
    rounds: list[Round]
    staging: list[tuple[Any, Any]]


class UnderWay(NamedTuple):
    """A round that has begun: what comes, and where its bytes land; all transfers, first those that come."""

    coming: list[tuple[Message, Any]]
    transfers: list[Transfer]


def run(exchange: Any, buffer: Any, group: Any, out: Any, max_bytes: Any, check: bool) -> Any:
    """See `Exchange.run`."""
    if not isinstance(check, bool):
        raise TypeError(f"check is {value_text(check)}: it is True or False")
    with ProcessGroup(group) as processes:
        is_free = processes.lock.acquire(blocking=False)
        if not is_free:
            processes.lock.acquire()  # to tell the other ranks, once they can be told
        try:
            ready, problem = _prepared_or_problem(exchange, processes, buffer, out, max_bytes, is_free)
            if check:
                _agree(processes, _answer(exchange, ready, problem, max_bytes), problem)
            if ready is None:
                assert problem is not None
                raise problem
            return _carried_out(exchange, processes, ready, _tag(exchange, max_bytes))
        finally:
            processes.lock.release()


# ---- before anything is sent -----------------------------------------------------------------------------------------


def _prepared_or_problem(
    exchange: Any, processes: ProcessGroup, buffer: Any, out: Any, max_bytes: Any, is_free: bool
) -> tuple[RankPart | None, Exception | None]:
    try:
        if not is_free:
            raise LayoutError("group: two threads of this process run exchanges on it at once: give each its own group")
        return _prepared(exchange, processes, buffer, out, max_bytes), None
    except Exception as error:  # whatever it is, the other ranks must not wait for this one
        return None, error
    except BaseException:  # Ctrl-C: this rank says nothing more
        processes.give_up()
        raise


def _prepared(exchange: Any, processes: ProcessGroup, buffer: Any, out: Any, max_bytes: Any) -> RankPart:
    rank = processes.rank
    if processes.size != exchange.ranks:
        raise LayoutError(
            f"group has {counted(processes.size, 'rank')}, but the exchange has {exchange.ranks}: write None as the "
            "box of a rank that holds nothing"
        )
    source = _own(buffer, exchange.source, rank, "buffer", processes)
    target = _own(out, exchange.target, rank, "out", processes)
    shard = exchange.shard(rank, exchange.target)
    if is_new := target is None and shard is not None:
        like = torch.empty(0, dtype=torch.uint8, device=processes.device) if source is None else source
        target = new_buffer(shard, like)
    elif source is not None and target is not None:
        _check_pair(source, target)
    rounds = exchange.rounds(rank, max_bytes)
    staging = [_staging(rounds[parity::2], source, target) for parity in range(2)]
    return RankPart(source, target, target if is_new else out, is_new, rounds, staging)


def _own(buffer: Any, side: Sharding, rank: int, role: str, processes: ProcessGroup) -> Any:
    """The rank's buffer, flat; None for none.  LayoutError, TypeError or BufferError for one that does not suit."""
    shard = side.shards[rank] if rank < side.ranks else None
    if buffer is None:
        if shard is not None and role == "buffer" and shard.element_count:
            raise LayoutError(f"buffer is None, but rank {rank} of {side!r} holds {shard}")
        return None
    if shard is None:
        raise LayoutError(f"{role} is an array, but rank {rank} of {side!r} holds nothing: write None")
    if isinstance(buffer, torch.Tensor) and buffer.requires_grad and torch.is_grad_enabled():
        raise TypeError(f"{role} requires a gradient, which messages do not carry: pass {role}.detach()")
    array = flat(buffer, shard, role, writing=role == "out")
    if not isinstance(array, (np.ndarray, torch.Tensor)):
        raise TypeError(f"{role} is {type_text(buffer)}: write a tensor, such as torch.from_dlpack({role})")
    kind = _kind(array)
    if processes.devices.get(kind) is None or (kind == "cuda" and processes.devices[kind] == "gloo"):
        carries = ", ".join(sorted(set(processes.devices.values())))
        raise BufferError(f"{role} is in memory of {kind}, which the group's {carries} does not carry")
    return array


def _kind(array: Any) -> str:
    """The kind of device of an array, as torch calls it."""
    return str(array.device.type) if isinstance(array, torch.Tensor) else "cpu"


def _check_pair(source: Any, target: Any) -> None:
    (backend, read), (other, written) = arrays.open_array(source, "buffer"), arrays.open_array(target, "out")
    arrays.check_same_device(backend, read, other, written, ("buffer", "out"))
    arrays.check_no_overlap(backend, read, written, ("buffer", "out"), other)


def _staging(rounds: Sequence[Round], source: Any, target: Any) -> tuple[Any, Any]:
    """Memory for what these rounds pack and for what they have to unpack, one after the other."""
    sent = max([_aligned([m for m in each.sends if not m.sends_directly]) for each in rounds], default=0)
    come = max([_aligned([m for m in each.receives if not m.lands_directly]) for each in rounds], default=0)
    return (
        new_buffer(Shape("u8", (sent,)), source) if sent else None,
        new_buffer(Shape("u8", (come,)), target) if come else None,
    )


def _aligned(messages: Sequence[Message]) -> int:
    return sum(-(-message.nbytes // ALIGNMENT) * ALIGNMENT for message in messages)


def _agree(processes: ProcessGroup, said: bytes, problem: Exception | None) -> None:
    """Raise what is wrong: with this rank if anything is, else with the first of the others."""
    try:
        answers = processes.gathered(said)
    except ConnectionError:
        if problem is None:
            raise
    if problem is not None:
        raise problem
    check_answers(answers)


def _answer(exchange: Any, ready: RankPart | None, problem: Exception | None, max_bytes: Any) -> bytes:
    """What this rank tells the others."""
    facts = {
        "version of gpulayout": __version__.encode(),
        "source": _text_of(exchange.source),
        "target": _text_of(exchange.target),
        "arithmetic": exchange.digest,
        "max_bytes": _limit_text(max_bytes),
    }
    if ready is not None and (ready.rounds or ready.target is not None):
        facts["kind of device"] = _kind(ready.source if ready.target is None else ready.target).encode()
    return answer(facts, problem)


@functools.lru_cache(64)
def _text_of(side: Sharding) -> bytes:
    return hashlib.sha256(str(side).encode()).digest()


def _limit_text(max_bytes: Any) -> bytes:
    try:
        return b"none" if max_bytes is None else str(byte_count("max_bytes", max_bytes)).encode()
    except Exception:  # which is the rank's problem
        return b""


def _tag(exchange: Any, max_bytes: Any) -> int:
    """A number for gloo, which then never takes a message of another exchange for one of this."""
    digest = hashlib.sha256(exchange.digest + _limit_text(max_bytes)).digest()
    return int.from_bytes(digest[:3], "little")


# ---- the messages ----------------------------------------------------------------------------------------------------


def _carried_out(exchange: Any, processes: ProcessGroup, ready: RankPart, tag: int) -> Any:
    try:
        _carry_out(exchange, processes, ready, tag)
    except BaseException:  # Ctrl-C too
        processes.give_up()
        raise
    return ready.result


def _carry_out(exchange: Any, processes: ProcessGroup, ready: RankPart, tag: int) -> None:
    if ready.target is not None and not ready.is_new:
        arrays.will_be_written(ready.target)
        exchange.fill_padding(processes.rank, ready.target)
    under_way = [_begun(processes, ready, 0, tag)] if ready.rounds else []
    if (local := exchange.local(processes.rank)) is not None:
        local.copy(ready.source, ready.target)
    for number in range(1, len(ready.rounds)):
        under_way.append(_begun(processes, ready, number, tag))
        _finish(processes, ready, under_way.pop(0))
    for last in under_way:
        _finish(processes, ready, last)


def _begun(processes: ProcessGroup, ready: RankPart, number: int, tag: int) -> UnderWay:
    this, (packed, landed) = ready.rounds[number], ready.staging[number % 2]
    coming = []
    for message, memory in _with_memory(this.receives, landed, [m.lands_directly for m in this.receives]):
        coming.append((message, message.receive_view(ready.target) if memory is None else memory))

    def wires() -> Iterator[tuple[Any, int, bool]]:
        for message, memory in coming:
            yield _tensor(memory), message.source, True
        for message, memory in _with_memory(this.sends, packed, [m.sends_directly for m in this.sends]):
            yield _tensor(message.pack(ready.source, memory)), message.target, False

    return UnderWay(coming, processes.begin(wires(), tag))


def _with_memory(messages: Sequence[Message], memory: Any, direct: Sequence[bool]) -> Iterator[tuple[Message, Any]]:
    """Messages, and the part of the staging memory for each; None for those that need none."""
    begin = 0
    for message, needs_none in zip(messages, direct):
        yield message, None if needs_none else memory[begin : begin + message.nbytes]
        begin += 0 if needs_none else _aligned([message])


def _tensor(data: Any) -> Any:
    """Bytes as a tensor over the same memory.  torch would warn of an array that cannot be written."""
    if isinstance(data, np.ndarray) and not data.flags.writeable:
        memory = (ctypes.c_uint8 * data.size).from_address(data.ctypes.data)
        memory.array = data  # type: ignore[attr-defined]  # which keeps it alive
        return torch.frombuffer(memory, dtype=torch.uint8)
    return torch.as_tensor(data)


def _finish(processes: ProcessGroup, ready: RankPart, under_way: UnderWay) -> None:
    coming, transfers = under_way
    for (message, memory), transfer in zip(coming, transfers):
        processes.wait(transfer)
        if not message.lands_directly:
            message.unpack(memory, ready.target)
    for transfer in transfers[len(coming) :]:
        processes.wait(transfer)
