"""Index conversion on a GPU: the launches of one program, each prepared for one kind of call and kept."""

from __future__ import annotations

import math
import operator
from typing import Any

from gpulayout.gpu.index_launch import index_launch
from gpulayout.gpu.runtime import NO_OFFENDER, Launch, Runtime, Start
from gpulayout.moves.index_program import IndexProgram

REFUSES_NONE = ("wrap", "clip")  # modes in which every index has a place
_form = operator.attrgetter("dtype", "shape", "strides")


class IndexLaunches:
    """One index conversion: `PreparedConversion` of the GPU.

    Calls are of one kind when mode, dtypes, shapes, strides, devices and alignments are the same.  All that the checks
    and the launch depend on is the same then, but for one thing, whether the arrays overlap, and that is looked at
    anew.
    """

    MOST = 16  # kinds that are kept, 1 to 5 KB each; with ever new ones it begins anew

    def __init__(self, program: IndexProgram, runtime: Runtime):
        self._program, self._runtime, self._place = program, runtime, runtime.place
        self._starts: dict[tuple, tuple[Start, int, int]] = {}

    def convert(self, given: Any, result: Any | None, mode: str, checked: bool = False) -> int | None:
        """See `PreparedConversion.convert`: one launch, and no flag and no synchronisation unless an index can be refused."""
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

    def _kind(self, given: Any, result: Any | None, mode: str) -> tuple[tuple, int, int]:
        """What calls of one kind have in common, and both addresses; without a result its address is 0."""
        from_address, device = self._place(given)
        if result is None:
            return (mode, from_address & 7, device, _form(given)), from_address, 0
        to_address, to_device = self._place(result)
        return (
            (mode, from_address & 7, device, _form(given), to_address & 7, to_device, _form(result)),
            from_address,
            to_address,
        )

    def _remember(self, kind: tuple, count: int, given: Any, result: Any | None, mode: str) -> tuple[Start, int, int]:
        """Prepare the launch for calls of a new kind."""
        for role, array in (("index" if self._program.direction == "linearize" else "linear", given), ("out", result)):
            phase = 0 if array is None else self._place(array)[0] % array.itemsize
            if phase:
                raise BufferError(
                    f"{role} address is {phase} past a multiple of {array.itemsize}: indices of {array.itemsize} bytes must "
                    f"be aligned to {array.itemsize}"
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
