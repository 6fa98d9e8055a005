"""A relayout in place: `out` is the memory of `buffer`, and a workspace is the only other memory.

`moves.ways_in_place` plans the steps.  Here they run, move after move, on the backend of the array.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, overload

import numpy as np

from gpulayout.arrays import arrays
from gpulayout.arrays.array_types import Out
from gpulayout.choices.backends import host_backend
from gpulayout.choices.explain import Explanation
from gpulayout.gpu.run import CudaBackend
from gpulayout.layout.checks import ByteCount, byte_count, counted
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import AnyArray, Backend, PreparedSteps
from gpulayout.moves.placement import Placement
from gpulayout.moves.steps import Steps
from gpulayout.moves.ways_in_place import ways_steps
from gpulayout.requests.reading import check_strict
from gpulayout.running.same_kind import on_memory

SHARE, LEAST = 20, 1 << 20  # the default workspace: one part in so many, and at least so many bytes


def default_limit(read: Placement, write: Placement) -> int:
    """The bytes of the workspace if the caller says none."""
    return max(read.shape.nbytes // SHARE, write.shape.nbytes // SHARE, LEAST)


def in_place(request: Any, max_bytes: ByteCount | None, kept: InPlace | None) -> InPlace:
    """The steps of a relayout between two buffers, see `Plan.in_place`; `kept` if it has the same limit."""
    limit = default_limit(request.read, request.write) if max_bytes is None else byte_count("max_bytes", max_bytes)
    if kept is not None and kept.limit == limit:
        return kept
    made = InPlace(request.read.shape, request.write.shape, limit, request)
    _ = made.steps  # LayoutError if there are none
    return made


@dataclass(frozen=True, repr=False)
class InPlace:
    """A relayout within one buffer, prepared once.  Made by `Plan.in_place`; call it with the buffer.

    Attributes
    ----------
    source, target : Shape
        The two shapes.
    limit : int
        The most bytes that the workspace may have.
    steps : tuple
        What is done on the CPU, in order; `print` shows it.  A GPU takes larger slabs.

    See Also
    --------
    relayout : Plans and runs in one call, with ``out=buffer``.

    Examples
    --------
    >>> import gpulayout as gl
    >>> gl.plan("f32[1000,600]", "{0,1}").in_place(240000)
    in place f32[1000,600]{1,0} -> f32[1000,600]{0,1}
      memory   240000 bytes, 10.0% of the buffer; on a GPU 240000, 10.0%
      moved    14400000 bytes: 3.00 times what a relayout to another buffer moves
        step 0  10 slabs of 240000 bytes, each to the place before
        step 1  100 blocks of 24000 bytes, moved along cycles
        step 2  10 slabs of 240000 bytes, each to the place before, the last one first

    A matrix and its transpose, in the same memory:

    >>> import numpy as np
    >>> matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> gl.plan("f32[2,3]", "{0,1}").in_place()(matrix.reshape(-1)).reshape(3, 2)
    array([[0., 3.],
           [1., 4.],
           [2., 5.]], dtype=float32)
    """

    source: Shape
    target: Shape
    limit: int
    request: Any = field(compare=False)  # a Request, whose file imports this one
    planned: dict[tuple[int, int], Steps] = field(
        default_factory=dict, compare=False
    )  # by what a backend moves at a time
    prepared: dict[Backend, PreparedSteps] = field(default_factory=dict, compare=False)

    @property
    def steps(self) -> Steps:
        """The steps on the CPU."""
        return self.steps_on(host_backend())

    def steps_on(self, backend: Backend) -> Steps:
        """The steps on a backend, which says how much it moves at a time."""
        kind = backend.slab_bytes, backend.slabs_at_once
        steps = self.planned.get(kind)
        if steps is None:
            steps = self.planned[kind] = self._steps(*kind)
        return steps

    def _steps(self, slab_bytes: int, slabs_at_once: int) -> Steps:
        return ways_steps(self.source, self.target, self.request.pieces, self.limit, slab_bytes, slabs_at_once)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer: of the longer shape."""
        return max(self.source.nbytes, self.target.nbytes)

    @property
    def workspace(self) -> int:
        """Bytes that are allocated on the CPU: for the workspace, and a bit for each block that moves along a cycle."""
        return _allocated(self.steps)

    @property
    def device_workspace(self) -> int:
        """The same on a GPU, whose slabs are larger; the bits for blocks are on the host."""
        return _allocated(self._steps(CudaBackend.slab_bytes, CudaBackend.slabs_at_once))

    @property
    def bytes_moved(self) -> int:
        """Bytes of the buffer that all steps read and write.  A relayout to another buffer moves those of both."""
        return sum(step.bytes_moved for step in self.steps)

    @overload
    def __call__(self, buffer: Out, *, out: None = None, strict: bool = True) -> Out: ...
    @overload
    def __call__(self, buffer: Any, *, out: Out, strict: bool = True) -> Out: ...
    def __call__(self, buffer: Any, *, out: Any = None, strict: bool = True) -> Any:
        """Relayout a buffer in place; returns it.

        Parameters
        ----------
        buffer : array
            1-D contiguous array of `source.buffer_length` elements; uint8 when elements are packed.
        out : array, optional
            Another array of the same memory; it is returned.
        strict : bool, optional
            False takes a longer buffer too, whose rest stays as it is.

        Raises
        ------
        TypeError, BufferError
            As `relayout` raises them, and if `out` is other memory.
        """
        out = buffer if out is None else out
        if strict is not True:
            check_strict(strict)
        request = self.request if strict else self.request.lenient

        def work(backend: Backend, array: AnyArray, out: Any, _: Any) -> Any:
            target = arrays.open_array(out, "out", writing=True)
            return request.run_in_place(backend, array, out, target, self.limit)

        return on_memory(buffer, "buffer", out, work)

    def run(self, backend: Backend, buffer: AnyArray, given: Any) -> None:
        """The same for an array that passed every check, as long as the longer shape, or longer.

        given   the caller's array to write
        """
        steps = self.steps_on(backend)
        if not steps:
            return
        prepared = self.prepared.get(backend) or self.prepared.setdefault(backend, backend.prepare_steps(steps))
        workspace = backend.empty((max(1, *(step.workspace for step in steps)),), np.dtype(np.uint8), buffer)
        arrays.will_be_written(given)
        with deferred_signals():
            prepared.execute(buffer.view(np.uint8)[: self.nbytes], workspace)

    def explain(self) -> Explanation:
        """Explain in text which steps are taken, how many bytes they move, and what workspace they take."""
        size = max(self.nbytes, 1)
        moved = self.bytes_moved
        needed = max(self.source.nbytes + self.target.nbytes, 1)
        times = f"{moved / needed:.2f} times what a relayout to another buffer moves"
        lines = [
            f"in place {self.source} -> {self.target}",
            f"  memory   {counted(self.workspace, 'byte')}, {self.workspace / size:.1%} of the buffer; on a GPU "
            f"{self.device_workspace}, {self.device_workspace / size:.1%}",
            f"  moved    {counted(moved, 'byte')}: {times}",
            *[f"    step {number}  {step}" for number, step in enumerate(self.steps)],
        ]
        return Explanation("\n".join(lines))

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "workspace": self.workspace,
            "device_workspace": self.device_workspace,
            "bytes_moved": self.bytes_moved,
            "steps": [{"kind": step.kind, "count": step.count, "bytes_each": step.part_bytes} for step in self.steps],
        }

    def __repr__(self) -> str:
        return str(self.explain())

    def __reduce__(self) -> tuple[Any, ...]:
        return _anew, (type(self.request), self.source, self.target, self.limit)


def _allocated(steps: Steps) -> int:
    """Bytes that steps allocate one after the other."""
    return max((step.workspace + step.bitmap_bytes for step in steps), default=0)


def _anew(kind: Any, source: Shape, target: Shape, limit: int) -> InPlace:
    made: InPlace = kind(Placement.buffer(source), Placement.buffer(target), None).in_place(limit)
    return made


# ---- signals wait while an array is between two layouts --------------------------------------------------------------

# Python runs handlers in the main thread, between any two instructions.  So a handler that only takes notes stands in
# for each of the program's own, and those are called afterwards.  Signals that Python does not handle act at once.
#
# `signal.signal` also sets what the system does with a signal: it always takes away SA_RESTART, which a program gives
# with `signal.siginterrupt(number, False)`, and Python cannot tell whether it was there.  So the system's side of every
# signal is read before, as bytes that only the C library understands, and put back each time.
#
# Blocking signals instead would not do: the system gives a signal to any thread that does not block it, and Python then
# runs the handler in the main thread all the same.

Handler = Callable[[int, "FrameType | None"], Any]

ROOM = 1 << 10  # bytes; a struct sigaction has 16 to 152


@functools.cache
def _numbers() -> tuple[int, ...]:
    return tuple(signal.valid_signals())  # it makes an enumeration member of each: too slow for every small call


@functools.cache
def _sigaction() -> Callable[..., int] | None:
    """The function of the C library; None where there is none, as on Windows, which restarts nothing."""
    return None if sys.platform == "win32" else getattr(ctypes.CDLL(None), "sigaction", None)


def _system_side(number: int) -> ctypes.Array[ctypes.c_char]:
    """What the system does with a signal."""
    action = ctypes.create_string_buffer(ROOM)
    if sigaction := _sigaction():
        sigaction(number, None, action)
    return action


def _set(number: int, handler: Handler, system_side: ctypes.Array[ctypes.c_char]) -> None:
    """Change Python's handler of a signal, and leave what the system does with it."""
    signal.signal(number, handler)
    if sigaction := _sigaction():
        sigaction(number, system_side, None)


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """A context in which no signal handler runs.  Those of signals that arrive run when it ends, each once.

    Other threads than the main one need nothing: no handler interrupts them.
    """
    # Not threading.current_thread: it takes a KeyError that a handler raises for a thread that it does not know.
    if threading.get_ident() != threading.main_thread().ident:
        yield
        return
    handlers: dict[int, Handler] = {}
    for number in _numbers():
        handler = signal.getsignal(number)
        if callable(handler):  # and no default action
            handlers[number] = handler
    system = {number: _system_side(number) for number in handlers}
    arrived: dict[int, FrameType | None] = {}
    late: list[BaseException] = []
    try:
        for each in handlers:
            _set(each, arrived.setdefault, system[each])
        yield
    finally:
        away = dict(handlers)
        while away:  # the handler of a signal that arrives now may raise
            try:
                for each in [*away]:
                    _set(each, away[each], system[each])
                    del away[each]
            except BaseException as error:
                late.append(error)
        for each, frame in arrived.items():
            try:
                handlers[each](each, frame)
            except BaseException as error:
                late.append(error)
        if late:
            raise late[0]
