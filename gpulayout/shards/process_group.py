"""A process group of torch.distributed as an exchange uses it: who is in it, bytes to and from a rank, waiting, errors.

A thread of its own waits for gloo, because torch hears no signal while it waits: so Ctrl-C ends a call.  Waiting for
NCCL only puts the current stream behind its messages.
"""

from __future__ import annotations

import contextlib
import datetime
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from gpulayout.layout.checks import clipped, value_text
from gpulayout.layout.errors import LayoutError

WAITER = "gpulayout waits for gloo"  # the name of the thread
SECONDS, GRACE = 0.25, 5  # of a wait, after which another one begins; of the last, for a connection that is closed
_PROBE, _NEVER = 2**31 - 1, 2**31 - 2  # tags of a byte that nobody receives, and of one that nobody sends
locks: dict[str, threading.Lock] = {}  # by the names of groups


class Transfer(NamedTuple):
    """Bytes under way: torch's work, the other rank, whether they come from it, and the memory, kept until then."""

    work: Any
    rank: int
    comes: bool
    memory: Any


class Waiter:
    """A thread that waits for transfers one after the other, in the order in which it hears of them."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Transfer | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def wait_for(self, transfer: Transfer) -> None:
        """Add a transfer.  It and its memory are kept until its end."""
        if self._thread is None:
            # It refers to no more than the queues, and never keeps the interpreter from ending.
            queues = self._asked, self._answers
            self._thread = threading.Thread(target=_wait_for_each, args=queues, daemon=True, name=WAITER)
            self._thread.start()
        self._asked.put(transfer)

    def next(self, is_lost: Callable[[], bool]) -> None:
        """Return at the end of the next transfer, or raise its error.

        is_lost   whether the connection is closed: gloo does not always say so of bytes that leave.  It is asked after
                  one wait, two, four and so on.
        """
        waits = 0
        while True:
            # A signal that comes just before the wait is seen after it, so no wait is long.
            with contextlib.suppress(queue.Empty):
                error = self._answers.get(timeout=SECONDS)
                break
            waits += 1
            if waits & (waits - 1) == 0 and is_lost():
                error = RuntimeError("the connection is closed")
                with contextlib.suppress(queue.Empty):  # all bytes may have come, or left, before it was
                    error = self._answers.get(timeout=GRACE)
                break
        if error is not None:
            raise error

    def end(self) -> None:
        """Let the thread end after all transfers."""
        self._asked.put(None)


def _wait_for_each(asked: queue.SimpleQueue[Transfer | None], answers: queue.SimpleQueue[Exception | None]) -> None:
    while (transfer := asked.get()) is not None:
        try:
            transfer.work.wait()
            answers.put(None)
        except Exception as error:
            answers.put(error)


class ProcessGroup:
    """One rank's view of a group: see the head of this file."""

    def __init__(self, group: Any):
        if not dist.is_available() or not dist.is_initialized():
            raise LayoutError("group: this process is in none: call torch.distributed.init_process_group first")
        # Of a group that a process is not in, torch gives it this number.
        if not isinstance(group, (dist.ProcessGroup, type(None))) and group is not dist.GroupMember.NON_GROUP_MEMBER:
            raise TypeError(
                f"group is {value_text(group)}: write a torch.distributed.ProcessGroup, or None for all ranks"
            )
        self.rank = dist.get_rank(group)
        if self.rank < 0:
            raise LayoutError("group: this process is not a member of it, and only its members call exchange.run")
        self.group = dist.group.WORLD if group is None else group
        self.size = dist.get_world_size(group)
        self.devices = _devices(self.group)  # {"cpu": "gloo"}
        self.lock = locks.setdefault(self.group.group_name, threading.Lock())
        self._waiter = Waiter()

    def __enter__(self) -> ProcessGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self._waiter.end()

    @property
    def device(self) -> Any:
        """Where memory lies that no array of the caller says a device for."""
        return torch.device("cpu") if "cpu" in self.devices else torch.device("cuda", torch.cuda.current_device())

    def gathered(self, said: bytes) -> list[bytes]:
        """What every rank says, each as many bytes."""
        own = torch.frombuffer(bytearray(said), dtype=torch.uint8).to(self.device)
        gathered = torch.empty((self.size, len(said)), dtype=torch.uint8, device=self.device)
        try:
            work = dist.all_gather([*gathered], own, group=self.group, async_op=True)
            self._wait(self._begun(Transfer(work, self.rank, True, gathered)))
        except BaseException as error:  # Ctrl-C too
            if not isinstance(error, RuntimeError):
                self.give_up()
                raise
            every = "; every rank of the group calls exchange.run" if _is_late(error) else ""
            why = f"the ranks could not agree, nothing was sent: {self._why(error)}{every}"
            self.give_up()
            raise ConnectionError(why) from error
        return [bytes(row.tolist()) for row in gathered.cpu()]

    def begin(self, wires: Iterable[tuple[Any, int, bool]], tag: int) -> list[Transfer]:
        """Begin to send or receive: memory as a tensor of bytes, the other rank, and whether the bytes come from it.

        gloo's messages begin one by one, as `wires` makes them; NCCL's begin together, so that none waits for another.
        """
        together: list[Transfer] = []
        for memory, rank, comes in wires:
            call = dist.irecv if comes else dist.isend
            if memory.is_cuda:
                operation = dist.P2POp(call, memory, group=self.group, group_peer=rank)
                together.append(Transfer(operation, rank, comes, memory))
                continue
            peer = {"group_src" if comes else "group_dst": rank}
            try:
                work = call(memory, group=self.group, tag=tag, **peer)
            except RuntimeError as error:
                raise self._broken(rank, comes, error) from error
            together.append(self._begun(Transfer(work, rank, comes, memory)))
        if together and together[0].memory.is_cuda:
            works = dist.batch_isend_irecv([transfer.work for transfer in together])
            # One work for the whole batch, or one for each message.
            works = works * len(together) if len(works) == 1 else works
            return [transfer._replace(work=work) for transfer, work in zip(together, works)]
        return together

    def wait(self, transfer: Transfer) -> None:
        """Return once the bytes are there, or have left; for NCCL, once the current stream will wait for them.

        Transfers are waited for in the order in which they began.
        """
        try:
            self._wait(transfer)
        except RuntimeError as error:
            raise self._broken(transfer.rank, transfer.comes, error) from error

    def give_up(self) -> None:
        """Close gloo's connections of the group: nothing arrives any more, and no rank waits for this one in vain.

        gloo closes all of them where a message is late, so one that never comes is waited for.  It cannot be one from a
        rank that has ended, so every rank gets its turn.
        """
        if self.devices.get("cpu") != "gloo":
            return
        byte = torch.empty(1, dtype=torch.uint8)
        for rank in range(self.size):
            if rank != self.rank:
                with contextlib.suppress(RuntimeError):
                    late = dist.irecv(byte, group=self.group, group_src=rank, tag=_NEVER)
                    late.wait(datetime.timedelta(milliseconds=1))

    def _begun(self, transfer: Transfer) -> Transfer:
        if not transfer.memory.is_cuda:
            self._waiter.wait_for(transfer)
        return transfer

    def _wait(self, transfer: Transfer) -> None:
        if transfer.memory.is_cuda:
            transfer.work.wait()
        else:
            self._waiter.next(lambda: transfer.rank != self.rank and self._is_closed(transfer.rank))

    def _broken(self, rank: int, comes: bool, error: RuntimeError) -> ConnectionError:
        what = f"no message came from rank {rank}" if comes else f"no message reached rank {rank}"
        rest = "out is incomplete, and this process group is of no more use"
        return ConnectionError(f"{what}: {self._why(error)}; {rest}")

    def _why(self, error: RuntimeError) -> str:
        """What happened, in a line: torch's own error follows as the cause."""
        if _is_late(error):
            return "the group's timeout passed"
        closed = [rank for rank in range(self.size) if rank != self.rank and self._is_closed(rank)]
        if not closed:
            return clipped(str(error).split("\n", 1)[0], 200)
        return f"the connection to rank {', '.join(map(str, closed))} is closed, whose process has ended or given up"

    def _is_closed(self, rank: int) -> bool:
        """Whether gloo can no longer send to a rank; NCCL does not say."""
        if self.devices.get("cpu") != "gloo":
            return False
        try:
            dist.isend(torch.zeros(1, dtype=torch.uint8), group=self.group, group_dst=rank, tag=_PROBE)
        except RuntimeError:
            return True
        return False


def _devices(group: Any) -> dict[str, str]:
    """{kind of device: backend} of a group."""
    config: str = dist.get_backend_config(group)
    pairs: Sequence[list[str]] = [part.split(":") for part in config.split(",")]
    return {pair[0]: pair[-1] for pair in pairs}


def _is_late(error: RuntimeError) -> bool:
    return "imed out" in str(error) or "timeout" in str(error)
