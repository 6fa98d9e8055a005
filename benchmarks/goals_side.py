"""The CPU beside NumPy, PyTorch and JAX, with one thread and with all: the run that judges the CPU's figures.

NumPy copies in one thread, this library and PyTorch in as many as they are told, JAX in as many as there are cores.
"""

from __future__ import annotations

import functools
import gc
import os
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gpulayout as gl
from benchmarks.cases.case import Case
from benchmarks.cases.cpu import SMALL_CASES
from benchmarks.cases.cpu_goals import INDICES, PADDINGS, RELAYOUTS
from benchmarks.clock import Effort
from benchmarks.numpy_side import NumpySide
from benchmarks.peers import stages
from benchmarks.peers.agreement import agreeing
from benchmarks.peers.arrays import array_contenders, small_calls
from benchmarks.peers.contender import COPY, Contender, Prepared
from benchmarks.peers.inputs import input_and_output
from benchmarks.peers.jax_peer import JaxPeer
from benchmarks.peers.threaded_copy import ThreadedCopy
from benchmarks.peers.torch_peer import EagerTorch
from gpulayout.cpu.threads import VARIABLE, thread_count

QUIET = 5e-3  # seconds: a peer's threads spin for a while after their work, and hold a core
MOST_CORES = 8  # a call on each core of a large machine would take longer than what is measured


class GoalsSide(NumpySide):
    """This library, NumPy, and PyTorch and JAX if they are installed.

    counts   numbers of threads that are measured
    missing  the reason why each missing peer is missing
    """

    statistic, with_peers = "median", True
    cases: dict[str, Sequence[Case]] = {
        "small": SMALL_CASES,
        "relayout": RELAYOUTS,
        "padding": PADDINGS,
        "index": INDICES,
    }
    effort = full_effort = Effort(7, 2e-3, (1, 20))

    def __init__(self, counts: Sequence[int] = ()):
        self.before, self.missing = os.environ.get(VARIABLE), {}
        self.counts = tuple(counts) or (1, thread_count())
        self.notes = {
            "counts": list(self.counts),
            "listed": {section: len(cases) for section, cases in self.cases.items()},
        }
        os.environ.setdefault("JAX_PLATFORMS", "cpu")  # a GPU would be a different comparison
        self.torch, self.jax = (
            stages.optional(name, self.missing) if self.with_peers else None for name in ("torch", "jax")
        )
        if self.jax:
            self.jax.config.update("jax_enable_x64", True)  # otherwise elements of 8 bytes lose half their bytes
        self.copy = ThreadedCopy()

    def prepare(self, section: str, case: Case, stage: int = 0) -> Prepared:
        given, out = input_and_output(np, case, seed=1)
        pairs = [(given, out)]
        plain = small_calls(np, case, given, out) if section == "small" else array_contenders(np, case, pairs)
        both = section in ("small", "index")  # NumPy converts indices only into new memory
        found = self._beside(plain if both else [c for c in plain if c.output == "warm"])
        if section == "relayout":
            found += self._libraries(case, pairs, plain)
        kept, refused = agreeing(np, case, found, pairs)
        copies = self.copies(case) if section in ("relayout", "padding") else []
        return Prepared(
            [*copies, *kept], refused, self._scratch(case, given.reshape(-1)) if section == "relayout" else {}
        )

    def _beside(self, plain: Sequence[Contender]) -> list[Contender]:
        """NumPy in one thread, then ours with every number of threads."""
        return [*(_alone(c) for c in plain if not c.is_ours), *self._each(c for c in plain if c.is_ours)]

    def _libraries(self, case: Case, pairs: list[tuple], plain: Sequence[Contender]) -> list[Contender]:
        """For a relayout: PyTorch into warm memory, and JAX, which always allocates, beside ours into fresh memory."""
        found = []
        if self.torch:
            found += self._each(c for c in EagerTorch(self.torch)(case, pairs) if c.output == "warm")
        if self.jax:
            fresh = [c for c in plain if c.is_ours and c.output == "fresh"]
            found += self._each([*fresh, *map(_blocking, JaxPeer(self.jax)(case, pairs))], self.counts[-1:])
        return found

    def copies(self, case: Case) -> list[Contender]:
        """Plain copies that read and write as many bytes as the case: each thread copies one part."""
        source, target = np.ones((2, max(case.bytes_moved // 2, 1)), np.uint8)
        return [
            self._with(Contender(COPY, "copy", lambda i, count=count: self.copy(source, target, count)), count)
            for count in dict.fromkeys(self.counts)
        ]

    def release(self) -> None:
        gc.collect()
        if self.jax:
            self.jax.clear_caches()

    def close(self) -> None:
        if self.before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self.before

    def set_threads(self, count: int) -> None:
        """Set the number of threads of this library and of PyTorch."""
        os.environ[VARIABLE] = str(count)
        if self.torch:
            self.torch.set_num_threads(count)

    def _scratch(self, case: Case, buffer: np.ndarray) -> dict[str, Any]:
        plan, found = gl.plan(case.source, case.target), []
        for count in dict.fromkeys(self.counts):
            self.set_threads(count)
            found.append({"threads": count, "bytes": scratch_bytes(lambda: plan(buffer))})
        return {"scratch": found}

    def _each(self, contenders: Any, counts: Sequence[int] = ()) -> list[Contender]:
        """Each of them with every number of threads."""
        return [
            self._with(contender, count) for contender in contenders for count in dict.fromkeys(counts or self.counts)
        ]

    def _with(self, contender: Contender, count: int) -> Contender:
        return contender._replace(threads=count, ready=functools.partial(self._settle, contender, count))

    def _settle(self, contender: Contender, count: int) -> None:
        self.set_threads(count)
        _rest(contender)


def scratch_bytes(call: Callable[[], np.ndarray]) -> int:
    """The most memory that a call held at any time, beyond what was held before and its output."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        output = call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak - before - output.nbytes


def _alone(peer: Contender) -> Contender:
    """One thread, after the same pause as the others."""
    return peer._replace(threads=1, ready=functools.partial(_rest, peer))


def _rest(contender: Contender) -> None:
    """Prepare a sample.

    A hypervisor may take back memory that is free for seconds, and new memory then costs up to twenty times as much the
    first time: 134 MB in pages of 2 MB take 250 ms instead of 12.  So a contender that writes new memory first fills
    the memory that it is about to get.  One call is not enough: the kernel keeps freed memory in a list per core, so
    the next call finds the part that its other threads write only by chance.  It therefore makes a call on each core.
    """
    if contender.output == "fresh":
        contender.call(0)  # not yet bound to a core, because threads that it starts would be bound too
        _on_each_core(lambda: contender.call(0))
    time.sleep(QUIET)


def _on_each_core(work: Callable[[], Any]) -> None:
    """Call it with this thread on each core, or on the first MOST_CORES; not at all where threads can't be bound."""
    if not hasattr(os, "sched_setaffinity"):
        return
    usable = os.sched_getaffinity(0)
    try:
        for core in sorted(usable)[:MOST_CORES]:
            os.sched_setaffinity(0, {core})
            work()
    finally:
        os.sched_setaffinity(0, usable)


def _blocking(peer: Contender) -> Contender:
    """JAX's calls one after the other, each awaited, with outputs in the order of dimensions in which they are
    compared.
    """

    def call(i: int) -> np.ndarray:
        output = peer.call(i)
        peer.wait(output)
        seen = np.asarray(output)  # shares the memory
        if not seen.flags.c_contiguous:
            raise ValueError(f"the output has the strides {seen.strides}")
        return seen

    return peer._replace(call=call, wait=None)
