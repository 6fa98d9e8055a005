"""Process groups of torch.distributed for tests: gloo on this machine, its ranks forked from one process.

That process imports torch once and forks the ranks of every group, because importing it takes longer than a test.
"""

import contextlib
import dataclasses
import datetime
import os
import pathlib
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
HANG = 120  # seconds after which a group is a hang: its ranks are killed
LENGTH = struct.Struct("<Q")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a rank: the value of its function, or its error, or the signal that killed it."""

    value: Any = None
    error: str | None = None  # "LayoutError: ..."
    place: str = ""  # its traceback
    killed: int | None = None
    seconds: float = 0.0  # the function alone


class Ranks:
    """The process that forks ranks.  A context manager.

    >>> from tests.support import gloo_ranks
    >>> with gloo_ranks.Ranks() as ranks:                                # doctest: +SKIP
    ...     ranks.values(2, gloo_ranks.rank_and_size)
    [(0, 2), (1, 2)]
    """

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from tests.support.gloo_ranks import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def run(self, size, function, *arguments, timeout=None):
        """The outcomes of `function(*arguments)` on each rank of a new group.

        function   one at the top of a module
        timeout    seconds; then the function gets a group with this timeout as its last argument
        """
        _put(self.process.stdin, (size, function, arguments, timeout))
        return _get(self.process.stdout)

    def values(self, size, function, *arguments, timeout=None):
        """The same where no rank may fail: the values alone."""
        outcomes = self.run(size, function, *arguments, timeout=timeout)
        for rank, outcome in enumerate(outcomes):
            assert outcome.error is None and outcome.killed is None, f"rank {rank}: {outcome.error}\n{outcome.place}"
        return [outcome.value for outcome in outcomes]


def rank_and_size():
    """A function for ranks: who they are."""
    import torch.distributed as dist

    return dist.get_rank(), dist.get_world_size()


def _put(stream, value):
    data = pickle.dumps(value)
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def _get(stream):
    length = stream.read(LENGTH.size)
    if len(length) < LENGTH.size:
        raise EOFError("no value came")
    return pickle.loads(stream.read(*LENGTH.unpack(length)))


def serve():
    """Fork ranks for each request on stdin, and write their outcomes to stdout."""
    import torch
    import torch.distributed  # noqa: F401

    import gpulayout as gl

    torch.set_num_threads(1)
    gl.plan("f32[2,3]", "{0,1}")  # before the first fork: the engine is loaded once
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what ranks print is no outcome
    with contextlib.suppress(EOFError):
        while True:
            _put(answers, _outcomes(*_get(requests)))


def _outcomes(size, function, arguments, timeout):
    """Fork the ranks of one group, and gather what becomes of them."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [_fork(rank, size, folder, function, arguments, timeout) for rank in range(size)]
        outcomes, end = [], time.monotonic() + HANG
        for process, report, _ in ranks:
            came, _, _ = select.select([report], [], [], max(0.0, end - time.monotonic()))
            if not came:
                os.kill(process, signal.SIGKILL)
            with contextlib.suppress(EOFError):
                outcomes.append(_get(report))
                continue
            outcomes.append(None)
        for _, _, leave in ranks:  # a rank that left before would break the connections of those still at work
            with contextlib.suppress(BrokenPipeError):
                leave.write(b".")
                leave.close()
        statuses = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process, _, _ in ranks]
        for _, report, _ in ranks:
            report.close()
    return [outcome or Outcome(killed=-status) for outcome, status in zip(outcomes, statuses)]


def _fork(rank, size, folder, function, arguments, timeout):
    """One rank: its process, what it reports, and what to close so that it leaves."""
    report_end, report = os.pipe()
    wait_end, leave = os.pipe()
    process = os.fork()
    if process:
        os.close(report)
        os.close(wait_end)
        return process, os.fdopen(report_end, "rb"), os.fdopen(leave, "wb")
    try:
        os.close(leave)
        with os.fdopen(report, "wb") as stream:
            outcome = _rank(rank, size, folder, function, arguments, timeout)
            _put(stream, outcome)
        if outcome.error is None:  # one that failed leaves at once, as a program does
            os.read(wait_end, 1)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _rank(rank, size, folder, function, arguments, timeout):
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # the machine's own name may have no address
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=HANG),
    )
    if timeout is not None:
        arguments = *arguments, dist.new_group(timeout=datetime.timedelta(seconds=timeout))
    dist.barrier()  # all are connected before one may die
    start = time.perf_counter()
    try:
        value, error, place = function(*arguments), None, ""
    except BaseException as raised:
        value, error, place = None, f"{type(raised).__name__}: {raised}", traceback.format_exc()
    return Outcome(value, error, place, seconds=time.perf_counter() - start)
