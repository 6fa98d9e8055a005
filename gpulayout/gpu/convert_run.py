"""Launches moves with arithmetic, as gpu/convert.py plans them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from gpulayout.gpu.convert import PlannedLaunch, planned_pieces
from gpulayout.gpu.kernel_numbers import MOST_PARAMETERS
from gpulayout.gpu.runtime import Runtime, Start
from gpulayout.moves.kinds import AnyMove, Pieces

_ALIGNED = 16  # bytes; the temporary memory begins at a multiple


class Launching(Protocol):
    """What `ConvertLaunches` needs of the backend."""

    runtime: Runtime

    def empty(self, shape: tuple[int, ...], dtype: Any, like: Any = None) -> Any: ...
    def array(
        self, values: object, dtype: np.dtype | None, order: Literal["C", "F"] | None = None, like: Any = None
    ) -> Any: ...
    def is_capturing(self, device: int) -> bool: ...
    def start_of_move(self, move: AnyMove, source_phase: int, target_phase: int, device: int) -> Start: ...


class ConvertLaunches:
    """The launches of the pieces of one transfer with arithmetic: the GPU's `PreparedArithmetic`.

    Parameters and temporary memory are new in each call.  They may be given back as soon as everything is launched,
    because memory goes to work that comes later in the same stream.
    """

    MOST = 64  # kinds of calls that are kept: both addresses modulo 16, and the device; when full, all are dropped

    def __init__(self, backend: Launching, pieces: Pieces) -> None:
        self._backend = backend
        self._launches, temporary_bytes = planned_pieces(pieces)
        self._room = temporary_bytes and temporary_bytes + _ALIGNED - 1
        self._starts: dict[tuple[int, int, int], list[Start]] = {}

    def convert(self, source: Any, target: Any, parameters: Sequence[np.ndarray]) -> None:
        """See `PreparedArithmetic.convert`.  All kernels are compiled before the first launch."""
        backend, place = self._backend, self._backend.runtime.place
        (source_address, _), (target_address, device) = place(source), place(target)
        self._check_capture(device, parameters)
        starts = self._prepared(source_address % 16, target_address % 16, device)
        uploaded = [backend.array(parameter, None, "C", target) for parameter in parameters]
        temporary = backend.empty((self._room,), np.uint8, target) if self._room else None
        between = 0 if temporary is None else -(-place(temporary)[0] // _ALIGNED) * _ALIGNED
        for launch, start in zip(self._launches, starts):
            reading = between if launch.reads_temporary else source_address
            writing = between if launch.writes_temporary else target_address
            operands = [place(array)[0] + first * array.itemsize for array, first in zip(uploaded, launch.starts)]
            if launch.is_arithmetic:
                operands += [0] * (MOST_PARAMETERS - len(operands))
            start(reading + launch.source_offset, writing + launch.target_offset, *operands)

    def _check_capture(self, device: int, parameters: Sequence[np.ndarray]) -> None:
        """BufferError if a CUDA graph is captured and would hold memory that is given back after the call."""
        if (parameters or self._room) and self._backend.is_capturing(device):
            what = "parameters" if parameters else "temporary arrays"
            raise BufferError(
                f"a call with arithmetic cannot be captured in a CUDA graph if it has {what}, because their memory is "
                "given back after the call: run it before the capture"
            )

    def _prepared(self, source_phase: int, target_phase: int, device: int) -> list[Start]:
        """The start of every launch between arrays at these addresses, given modulo 16."""
        key = source_phase, target_phase, device
        found = self._starts.get(key)
        if found is None:
            if len(self._starts) >= self.MOST:
                self._starts.clear()
            found = self._starts[key] = [self._start(launch, *key) for launch in self._launches]
        return found

    def _start(self, launch: PlannedLaunch, source_phase: int, target_phase: int, device: int) -> Start:
        reading = 0 if launch.reads_temporary else source_phase
        writing = 0 if launch.writes_temporary else target_phase
        from_phase, to_phase = (reading + launch.source_offset) % 16, (writing + launch.target_offset) % 16
        move = launch.move
        return self._backend.start_of_move(move, from_phase if move.element_count else 0, to_phase, device)
