"""Who takes part where the CPU's figures are judged, and with how many threads.

NumPy copies in one thread, this library and PyTorch in as many as they are told, JAX in as many as there are cores.
"""
from __future__ import annotations

import functools
import importlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.cases import Case, MoveCase
from benchmarks.contender import OURS, Contender, array_contenders, reason_of
from benchmarks.peers_jax import JaxPeer
from benchmarks.peers_torch import EagerTorch
from gpulayout.cpu.threads import VARIABLE

COPY, TORCH, JAX = "numpy.copyto of one run", "torch copy_", "jax.jit"
QUIET = 5e-3                     # seconds: threads of a peer wait for more work in a loop for a while, and hold a core


class GoalPeers:
    """This library, NumPy, and those of PyTorch and JAX that are installed.

    counts   numbers of threads that are measured
    missing  by name, why a peer is not there
    """

    def __init__(self, counts: Sequence[int]):
        self.counts, self.missing = tuple(dict.fromkeys(counts)), {}
        os.environ.setdefault("JAX_PLATFORMS", "cpu")                        # on a GPU it would be another contest
        self.torch, self.jax = self._module("torch"), self._module("jax")
        if self.jax:
            self.jax.config.update("jax_enable_x64", True)                   # or elements of 8 bytes would lose half of them
        self._others: dict[int, ThreadPoolExecutor] = {}

    def relayout(self, case: MoveCase, pairs: list[tuple]) -> list[Contender]:
        """Warm: ours and PyTorch with every number of threads, and NumPy.  Fresh: ours with the most, and JAX."""
        plain = array_contenders(np, case, pairs)
        found = [*self._ours(plain, "warm"), _one(plain, "warm")]
        if self.torch:
            found += [self._with(contender, count) for contender in EagerTorch(self.torch)(case, pairs)
                      if contender.output == "warm" for count in self.counts]
        if self.jax:
            found += [*self._ours(plain, "fresh", self.counts[-1:]),
                      *(self._with(_blocking(peer), self.counts[-1]) for peer in JaxPeer(self.jax)(case, pairs))]
        return found

    def padding(self, case: MoveCase, pairs: list[tuple]) -> list[Contender]:
        """Ours with every number of threads, and the plain way."""
        plain = array_contenders(np, case, pairs)
        return [*self._ours(plain, "warm"), _one(plain, "warm")]

    def index(self, case: Case, pairs: list[tuple]) -> list[Contender]:
        """Ours with every number of threads, into warm and into fresh memory; NumPy's functions always allocate."""
        plain = array_contenders(np, case, pairs)
        return [*self._ours(plain, "warm"), *self._ours(plain, "fresh"), _one(plain, "fresh")]

    def small(self, contenders: Sequence[Contender]) -> list[Contender]:
        """NumPy once, all others with every number of threads."""
        peer, *ours = contenders
        return [_alone(peer), *(self._with(contender, count) for contender in ours for count in self.counts)]

    def copies(self, case: Case) -> list[Contender]:
        """Plain copies that read and write as many bytes as the case: each thread copies one part."""
        source, target = np.ones((2, max(case.bytes_moved // 2, 1)), np.uint8)
        return [self._with(Contender(COPY, "copy", lambda i, count=count: self._copy(source, target, count)), count)
                for count in self.counts]

    def release(self) -> None:
        """Give memory back before the next case."""
        if self.jax:
            self.jax.clear_caches()

    def set_threads(self, count: int) -> None:
        """So many threads for everyone who can be told."""
        os.environ[VARIABLE] = str(count)
        if self.torch:
            self.torch.set_num_threads(count)

    def _module(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except Exception as error:       # broken installations fail in any way they like
            self.missing[name] = reason_of(error)
            return None

    def _ours(self, plain: Sequence[Contender], output: str, counts: Sequence[int] = ()) -> list[Contender]:
        ours = next(contender for contender in plain if contender.name == OURS and contender.output == output)
        return [self._with(ours, count) for count in counts or self.counts]

    def _with(self, contender: Contender, count: int) -> Contender:
        return contender._replace(threads=count, ready=functools.partial(self._settle, contender, count))

    def _settle(self, contender: Contender, count: int) -> None:
        self.set_threads(count)
        _rest(contender)

    def _copy(self, source: np.ndarray, target: np.ndarray, count: int) -> None:
        if count == 1:
            return np.copyto(target, source)
        if count not in self._others:
            self._others[count] = ThreadPoolExecutor(count - 1)
        ends = [len(source) * part // count for part in range(count + 1)]
        parts = [slice(*both) for both in zip(ends, ends[1:])]
        running = [self._others[count].submit(np.copyto, target[part], source[part]) for part in parts[1:]]
        np.copyto(target[parts[0]], source[parts[0]])
        for each in running:
            each.result()


def _one(plain: Sequence[Contender], output: str) -> Contender:
    """NumPy's way with this kind of output."""
    return _alone(next(contender for contender in plain if contender.name != OURS and contender.output == output))


def _alone(peer: Contender) -> Contender:
    """In one thread; a pause before it, as before everyone else."""
    return peer._replace(threads=1, ready=functools.partial(_rest, peer))


def _rest(contender: Contender) -> None:
    """What goes before every sample.

    Under a hypervisor that takes back what is free for seconds, new memory costs up to six times as much the first time.  So a
    contender that writes new memory does it once before, and gets back the memory that it has just freed.
    """
    if contender.output == "fresh":
        contender.call(0)
    time.sleep(QUIET)


def _blocking(peer: Contender) -> Contender:
    """JAX's calls one after the other, each until its output is there, in the order of dimensions that it is compared in."""
    def call(i: int) -> np.ndarray:
        output = peer.call(i)
        peer.wait(output)
        seen = np.asarray(output)        # of the same memory
        if not seen.flags.c_contiguous:
            raise ValueError(f"the output lies in memory with the strides {seen.strides}")
        return seen

    return peer._replace(call=call, wait=None)
