"""The benchmarks on a GPU: CuPy arrays and CUDA events; CuPy, PyTorch and JAX are the peers, those that are installed.

Everything runs on one stream of our own, which CuPy and PyTorch are told to use.  JAX keeps its streams to itself: it is
timed by wall clock over many calls.
"""
from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

import gpulayout as gl
from benchmarks.cases import GPU_CASES, SMALL_CASES, Case, MoveCase
from benchmarks.clock import EventClock, Samples, WallClock, take_turns
from benchmarks.contender import OURS, Contender, array_contenders, check_equal, in_turn, input_and_output

LAUNCHES = (5, 50)           # in one sample: 50 where they take up to a millisecond
WORDS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}       # widths every peer has a type for


class CudaSide:
    """How cases are prepared and timed on the current CUDA device."""

    name = "cupy"
    cases: Sequence[Case] = GPU_CASES
    small_cases: Sequence[MoveCase] = SMALL_CASES

    def __init__(self):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        os.environ.setdefault("JAX_ENABLE_X64", "true")
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.torch, self.jax = (_optional(name) for name in ("torch", "jax"))
        if self.torch is not None:
            self.torch.cuda.set_stream(self.torch.cuda.ExternalStream(self.stream.ptr))
        self.events = EventClock(cupy, self.stream)
        self.wall = self.clock = WallClock(cupy.cuda.runtime.deviceSynchronize)
        self.host = WallClock(cupy.cuda.runtime.deviceSynchronize, host_only=True)
        self.l2_bytes = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["l2CacheSize"]

    def why_not(self, case: Case) -> str | None:
        """Why a case cannot run here: buffers that take turns, two fresh outputs and the plain copy must fit."""
        free = cupy.cuda.runtime.memGetInfo()[0]
        wanted = (self._pairs(case) + 3) * case.bytes_allocated
        return None if wanted < 0.9 * free else f"needs {wanted >> 20} MiB of device memory, {free >> 20} are free"

    def _pairs(self, case: Case) -> int:
        """So many buffer pairs that by the time one comes round again the cache has forgotten it."""
        return max(1, -(-4 * self.l2_bytes // case.bytes_allocated)) if case.bytes_allocated > self.l2_bytes // 8 else 1

    def prepare(self, case: Case) -> list[Contender]:
        """All contenders, checked against each other."""
        pairs = [input_and_output(cupy, case, seed) for seed in range(self._pairs(case))]
        contenders = array_contenders(cupy, case, pairs)
        if isinstance(case, MoveCase):
            if self.torch is not None:
                contenders += _torch_contenders(self.torch, case, pairs)
            if self.jax is not None:
                contenders += _jax_contenders(self.jax, case, pairs)
        self.stream.synchronize()
        check_equal(cupy, case, contenders, pairs)
        return contenders

    def ceilings(self, case: Case) -> list[Contender]:
        """Plain copies that read and write as many bytes: the driver's, and our own kernel's.  The faster one counts."""
        count = max(case.bytes_moved // 2, 1)
        buffers = [tuple(cupy.ones((2, count), cupy.uint8)) for _ in range(self._pairs(case))]
        plan = gl.plan(f"u8[{count}]", f"u8[{count}]")
        copy_async, kind = cupy.cuda.runtime.memcpyAsync, cupy.cuda.runtime.memcpyDeviceToDevice
        return [
            Contender("cudaMemcpyAsync", "copy", in_turn(
                buffers, lambda source, target: copy_async(target.data.ptr, source.data.ptr, count, kind, self.stream.ptr))),
            Contender(f"{OURS} copy kernel", "copy", in_turn(buffers, plan)),
        ]

    def prepare_small(self, case: MoveCase) -> list[Contender]:
        """Single small calls: how long the host is busy with each."""
        given, out = input_and_output(cupy, case, seed=1)
        buffer, source, target = given.reshape(-1), case.source, case.target
        plan = gl.plan(source, target)
        view = given.transpose(case.order) if case.order else given
        shaped = out.reshape(view.shape)
        contenders = [
            Contender("cupy.copyto", "call", lambda i: cupy.copyto(shaped, view)),
            Contender(f"{OURS} plan(buffer, out)", "call", lambda i: plan(buffer, out)),
            Contender(f"{OURS} relayout(buffer, source, target, out=out)", "call",
                      lambda i: gl.relayout(buffer, source, target, out=out)),
        ]
        if self.torch is not None:
            to, given = _words(self.torch.from_dlpack, shaped), _words(self.torch.from_dlpack, view)
            contenders.append(Contender("torch copy_", "call", lambda i: to.copy_(given)))
        return contenders

    def take(self, contenders: Sequence[Contender], rounds: int) -> list[Samples]:
        return take_turns(contenders, lambda contender: self.events if contender.on_stream else self.wall, rounds,
                          sample_seconds=50e-3, calls=LAUNCHES, statistic="median")

    def take_small(self, contenders: Sequence[Contender], rounds: int) -> list[Samples]:
        # The launch queue holds about a thousand: with fewer calls the host never waits for the device.
        return take_turns(contenders, lambda _: self.host, 4 * rounds, sample_seconds=5e-3, calls=(500, 500), statistic="best")

    def release(self) -> None:
        """Give memory back before the next case."""
        self.stream.synchronize()
        cupy.get_default_memory_pool().free_all_blocks()
        if self.torch is not None:
            self.torch.cuda.empty_cache()


def _optional(name: str) -> Any:
    """A module, or None when it is not installed or finds no GPU."""
    try:
        module = importlib.import_module(name)
        usable = module.cuda.is_available() if name == "torch" else any(d.platform == "gpu" for d in module.devices())
    except Exception:                # a peer that cannot start is a peer that is not there
        return None
    return module if usable else None


def _words(convert: Callable, array: Any) -> Any:
    """A CuPy array as a peer's, over the same memory, its elements as words of their width."""
    return convert(array.view(WORDS[array.dtype.itemsize]))


# ---- PyTorch -----------------------------------------------------------------------------------------------

def _torch_contenders(torch: Any, case: MoveCase, pairs: list[tuple]) -> list[Contender]:
    items = [(_words(torch.from_dlpack, given), _words(torch.from_dlpack, out)) for given, out in pairs]
    inside = tuple(slice(size) for size in case.dimensions)
    if case.kind == "relayout":
        order = case.order or tuple(range(len(case.dimensions)))
        views = [(given.permute(order), out.view([case.dimensions[dim] for dim in order])) for given, out in items]
    elif case.kind == "unpack":
        views = [(given.view(case.widths)[inside], out.view(case.dimensions)) for given, out in items]
    else:
        return _torch_pack(torch, case, items, inside)
    return [
        Contender("torch copy_", "warm", in_turn(views, lambda given, out: out.copy_(given))),
        Contender("torch contiguous", "fresh", in_turn(views, lambda given, _: given.contiguous())),
    ]


def _torch_pack(torch: Any, case: MoveCase, items: list[tuple], inside: tuple) -> list[Contender]:
    pad = _pad_word(case)
    margins = [number for size, width in zip(reversed(case.dimensions), reversed(case.widths)) for number in (0, width - size)]

    def fill_and_copy(given: Any, out: Any) -> Any:
        out.fill_(pad)
        out.view(case.widths)[inside].copy_(given)
        return out

    return [
        Contender("torch fill_ and copy_", "warm", in_turn(items, fill_and_copy)),
        Contender("torch pad", "fresh", in_turn(items, lambda given, _: torch.nn.functional.pad(given, margins, value=pad))),
    ]


def _pad_word(case: MoveCase) -> Any:
    """The padding element as a number of the word type."""
    return np.frombuffer(case.target.padding_bytes, WORDS[case.target.itemsize])[0].item()


# ---- JAX ---------------------------------------------------------------------------------------------------

def _jax_contenders(jax: Any, case: MoveCase, pairs: list[tuple]) -> list[Contender]:
    """The compiled function of XLA; it allocates its output, so it stands beside the fresh ones."""
    items = [(_words(jax.dlpack.from_dlpack, given),) for given, _ in pairs]
    work = jax.jit(functools.partial(_jax_work, jax.numpy, case))
    return [Contender("jax.jit", "fresh", in_turn(items, work), on_stream=False)]


def _jax_work(jnp: Any, case: MoveCase, given: Any) -> Any:
    if case.kind == "relayout":
        return jnp.transpose(given, case.order)
    if case.kind == "unpack":
        return given.reshape(case.widths)[tuple(slice(size) for size in case.dimensions)]
    margins = [(0, width - size) for size, width in zip(case.dimensions, case.widths)]
    return jnp.pad(given, margins, constant_values=_pad_word(case))
