"""The benchmarks on a GPU: CuPy arrays and CUDA events, beside the libraries that peers/stages.py finds.

Everything runs on one stream of our own, which CuPy and PyTorch are told to use.  JAX does not expose its streams: it
is timed by wall clock over many calls.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import cupy

import gpulayout as gl
from benchmarks.cases.case import Case
from benchmarks.cases.convert import CONVERT_CASES, ConvertCase
from benchmarks.cases.curves import CURVES
from benchmarks.cases.gpu import GPU_CASES, GPU_SMALL_CASES, LEFT_OUT
from benchmarks.cases.ttc import TTC_CASES
from benchmarks.clock import Effort, EventClock, Samples, WallClock, take_turns
from benchmarks.peers import stages
from benchmarks.peers.agreement import agreeing
from benchmarks.peers.arrays import array_contenders, as_copy, small_calls
from benchmarks.peers.contender import OURS, Contender, Peer, Prepared, Refused, for_sweep, in_turn, reason_of
from benchmarks.peers.convert import result_on_host
from benchmarks.peers.inputs import input_and_output, scrambled
from benchmarks.peers.words import words

# in one sample of a small case: the launch queue holds about a thousand, so the host never waits
SMALL_CALLS = (500, 500)
HOST_SECONDS = 40e-6  # the most that one call takes; such copies cover it

# JAX would take most of the memory at once and never return it; torch.compile would start a pool of processes.
ENVIRONMENT = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3",
    "JAX_ENABLE_X64": "true",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}


class CudaSide:
    """How cases are prepared and timed on the current CUDA device."""

    name, statistic = "cupy", "median"
    cases: dict[str, Sequence[Case]] = {
        "small": GPU_SMALL_CASES,
        "cases": GPU_CASES,
        "ttc": TTC_CASES,
        "arithmetic": CONVERT_CASES,
    }
    with_peers, notes, left_out = True, {}, LEFT_OUT
    effort = Effort(5, 8e-3, (1, 50), SMALL_CALLS)
    full_effort = Effort(7, 20e-3, (2, 50), SMALL_CALLS)

    def __init__(self):
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.missing: dict[str, str] = {}
        self.torch, jax = (stages.on_gpu(name, self.missing) for name in ("torch", "jax"))
        if self.torch is not None:
            self.torch.cuda.set_stream(self.torch.cuda.ExternalStream(self.stream.ptr))
        self.stages = stages.load(self.torch, jax, self.missing)
        self.events = EventClock(cupy, self.stream, self._lead)
        self.wall = self.clock = WallClock(cupy.cuda.runtime.deviceSynchronize)
        self.host = WallClock(cupy.cuda.runtime.deviceSynchronize, host_only=True)
        self.l2_bytes = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["l2CacheSize"]
        self._make_lead(self.effort.lead_bytes)

    def why_not(self, case: Case) -> str | None:
        """Why a case cannot run here: the buffers that take turns, those of the plain copy, and four outputs must
        fit.
        """
        free = cupy.cuda.runtime.memGetInfo()[0]
        wanted = (2 * self._pairs(case) + 2) * case.bytes_allocated
        return None if wanted < 0.9 * free else f"needs {wanted >> 20} MiB of device memory, {free >> 20} are free"

    def _pairs(self, case: Case) -> int:
        """The number of buffer pairs that take turns: enough that the cache has dropped a pair before its next turn."""
        return max(1, -(-4 * self.l2_bytes // case.bytes_allocated)) if case.bytes_allocated > self.l2_bytes // 8 else 1

    def _make_lead(self, size: int) -> None:
        self._lead_buffers = tuple(cupy.ones(size, cupy.uint8) for _ in range(2))

    def _lead(self, calls: int) -> None:
        # Assumes copies at 4 TB/s.  An H200 reaches 4.3; the reserve in HOST_SECONDS covers that.
        target, source = self._lead_buffers
        for _ in range(math.ceil(calls * HOST_SECONDS / (2 * self.effort.lead_bytes / 4e12))):
            self._copy(source, target)

    def _copy(self, source: cupy.ndarray, target: cupy.ndarray) -> None:
        cupy.cuda.runtime.memcpyAsync(
            target.data.ptr, source.data.ptr, source.nbytes, cupy.cuda.runtime.memcpyDeviceToDevice, self.stream.ptr
        )

    def prepare(self, section: str, case: Case, stage: int = 0) -> Prepared:
        """The contenders of a stage, checked against each other; CuPy's own and the plain copies belong to the first
        stage.
        """
        pairs = [input_and_output(cupy, case, seed) for seed in range(self._pairs(case))]
        contenders, refused = (
            array_contenders(cupy, case, pairs) if section != "small" else self._small(case, *pairs[0]),
            [],
        )
        checked_alone = {contender.name for contender in contenders} - {OURS} if stage else set()
        for peer in self._peers(section, stage):
            try:
                contenders += peer(case, pairs)
            except Exception as error:
                refused.append(Refused(getattr(peer, "__name__", type(peer).__name__), reason_of(error)))
        self.stream.synchronize()
        known = _on_the_cpu(case, pairs[0][0]) if isinstance(case, ConvertCase) else None
        kept, disagreeing = agreeing(cupy, case, contenders, pairs, known)
        if section == "ttc" and not stage:
            kept = for_sweep(kept)
        copies = [] if stage or section == "small" else self.copies(case)
        return Prepared([*copies, *(c for c in kept if c.name not in checked_alone)], refused + disagreeing)

    def _peers(self, section: str, stage: int) -> Sequence[Peer]:
        if section == "small":
            return ()
        return self.stages[stage].converters if section == "arithmetic" else self.stages[stage].peers

    def copies(self, case: Case) -> list[Contender]:
        """Plain copies that read and write as many bytes: the driver's and our own kernel's.  The faster one counts."""
        count = max(case.bytes_moved // 2, 1)
        buffers = [
            (scrambled(cupy, -(-count // 4), seed).view(cupy.uint8)[:count], cupy.ones(count, cupy.uint8))
            for seed in range(self._pairs(case))
        ]
        plan = gl.plan(f"u8[{count}]", f"u8[{count}]")
        return [
            Contender("cudaMemcpyAsync", "copy", in_turn(buffers, self._copy)),
            Contender(f"{OURS} copy kernel", "copy", in_turn(buffers, lambda given, out: plan(given, out=out))),
        ]

    def _small(self, case: Case, given: cupy.ndarray, out: cupy.ndarray) -> list[Contender]:
        """Single small calls: how long each keeps the host busy."""
        contenders = small_calls(cupy, case, given, out)
        if self.torch is not None:
            view, to = (words(self.torch.from_dlpack, array) for array in as_copy(case, given, out))
            contenders.append(Contender("torch copy_", "call", lambda i: to.copy_(view)))
        return contenders

    def take(self, contenders: Sequence[Contender], effort: Effort) -> list[Samples]:
        if effort.lead_bytes != self._lead_buffers[0].nbytes:
            self._make_lead(effort.lead_bytes)
        if contenders[0].output == "call":
            return take_turns(contenders, lambda _: self.host, effort, "best")
        return take_turns(
            contenders, lambda contender: self.wall if contender.wait else self.events, effort, self.statistic
        )

    def release(self) -> None:
        """Give memory back before the next case."""
        self.stream.synchronize()
        cupy.get_default_memory_pool().free_all_blocks()
        if self.torch is not None:
            self.torch.cuda.empty_cache()

    def close(self) -> None:
        """Leave the process as it was: nothing to do."""


def _on_the_cpu(case: ConvertCase, given: cupy.ndarray) -> cupy.ndarray:
    """The words of the result that NumPy gives."""
    found = result_on_host(case, cupy.asnumpy(given))
    return cupy.asarray(found.view(f"u{found.itemsize}"))


class CudaCurves(CudaSide):
    """The same curves as on a CPU, beside CuPy and a plain copy; no peer compiles anything."""

    cases = CURVES

    def __init__(self):
        super().__init__()
        self.stages = self.stages[:1]
