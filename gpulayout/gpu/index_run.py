"""Index conversion on a GPU: the launches of one program, each prepared once per kind of call."""

from __future__ import annotations

import math
import operator
from typing import Any

from gpulayout.gpu.index_launch import index_launch
from gpulayout.gpu.runtime import NO_OFFENDER, Launch, Runtime, Start
from gpulayout.moves.index_program import IndexProgram

Kind = tuple[Any, ...]  # calls of one kind share a prepared launch
REFUSES_NONE = ("wrap", "clip")  # modes that accept every index
_form = operator.attrgetter("dtype", "shape", "strides")


class IndexLaunches:
    """The launches of one index conversion: the GPU's `PreparedConversion`.

    Calls are of one kind if mode, dtypes, shapes, strides, devices and alignments are the same.  Then everything that
    the checks and the launch depend on is the same too, except whether the arrays overlap, which every call checks.
    """

    MOST = 16  # kinds that are kept, 1 to 5 KB each; when full, all are dropped

    def __init__(self, program: IndexProgram, runtime: Runtime) -> None:
        self._program, self._runtime, self._place = program, runtime, runtime.place
        self._starts: dict[Kind, tuple[Start, int, int]] = {}

    @property
    def kinds_kept(self) -> int:
        """How many kinds of calls have a prepared launch."""
        return len(self._starts)

    def convert(self, given: Any, result: Any | None, mode: str, checked: bool = False) -> int | None:
        """See `PreparedConversion.convert`.  One launch; only modes that reject indices use a flag and synchronize.

        After an earlier check, the kernel still needs the flag, but nobody waits for it.
        """
        count = math.prod(given.shape[1:]) if self._program.direction == "linearize" else given.size
        if not count:
            return None
        kind, *addresses = self._kind(given, result, mode)
        start, _, _ = self._starts.get(kind) or self._remember(kind, count, given, result, mode)
        if mode in REFUSES_NONE:
            start(*addresses, 0)
            return None
        flag, flag_address = self._runtime.new_flag(kind[2])
        start(*addresses, flag_address)
        if checked:
            return None
        offender = self._runtime.read_flag(flag)
        return None if offender == NO_OFFENDER else offender

    def again(self, given: Any, result: Any, mode: str) -> bool:
        """See `PreparedConversion.again`."""
        if mode not in REFUSES_NONE:
            return False
        kind, from_address, to_address = self._kind(given, result, mode)
        found = self._starts.get(kind)
        if found is None:
            return False
        start, given_bytes, result_bytes = found
        if from_address < to_address + result_bytes and to_address < from_address + given_bytes:
            return False
        start(from_address, to_address, 0)
        return True

    def _kind(self, given: Any, result: Any | None, mode: str) -> tuple[Kind, int, int]:
        """The kind of a call, and both addresses; the address of a missing result is 0."""
        from_address, device = self._place(given)
        if result is None:
            return (mode, from_address & 7, device, _form(given)), from_address, 0
        to_address, to_device = self._place(result)
        return (
            (mode, from_address & 7, device, _form(given), to_address & 7, to_device, _form(result)),
            from_address,
            to_address,
        )

    def _remember(self, kind: Kind, count: int, given: Any, result: Any | None, mode: str) -> tuple[Start, int, int]:
        """Prepare and keep the launch for a new kind of call."""
        for role, array in (("index" if self._program.direction == "linearize" else "linear", given), ("out", result)):
            if array is None:
                continue
            width = array.itemsize
            phase = self._place(array)[0] % width
            if phase:
                raise BufferError(
                    f"{role} address is {phase} past a multiple of {width}: "
                    f"indices of {width} bytes must be aligned to {width}"
                )
        launch = index_launch(
            self._program,
            count,
            mode,
            (given.itemsize, given.dtype.kind == "i"),
            8 if result is None else result.itemsize,
        )
        start = self._runtime.prepare(kind[2], Launch(*launch, 3))
        if len(self._starts) >= self.MOST:
            self._starts.clear()
        found = self._starts[kind] = start, given.nbytes, 0 if result is None else result.nbytes
        return found
