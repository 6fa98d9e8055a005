"""Launches moves with arithmetic: one launch for each piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from gpulayout.gpu.convert import launch_pieces
from gpulayout.gpu.move_run import Launching, MoveLaunches
from gpulayout.gpu.runtime import Start
from gpulayout.gpu.uploads import Parameters, Uploads
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.pieces import Pieces


class Uploading(Launching, Protocol):
    """What `ConvertLaunches` needs of the backend."""

    uploads: Uploads


class ConvertLaunches:
    """The launches of the pieces of transfers that differ only in parameters: the GPU's `PreparedArithmetic`."""

    MOST = 64  # kinds of calls that are kept: both addresses modulo 16, and the device; when full, all are dropped

    def __init__(self, backend: Uploading, pieces: Pieces) -> None:
        self.backend = backend
        self.pieces, self.sizes = launch_pieces(pieces)
        self._starts: dict[tuple[int, int, int], list[Start]] = {}

    def with_parameters(self, parameters: Callable[[], Sequence[np.ndarray]]) -> BoundLaunches:
        """See `PreparedArithmetic.with_parameters`."""
        return BoundLaunches(self, parameters)

    def starts(self, source_phase: int, target_phase: int, device: int) -> list[Start]:
        """The start of every launch between arrays at these addresses, given modulo 16."""
        key = source_phase, target_phase, device
        found = self._starts.get(key)
        if found is None:
            if len(self._starts) >= self.MOST:
                self._starts.clear()
            found = self._starts[key] = [
                self.backend.start_of_move(
                    move,
                    (source_phase + source_offset) % 16 if move.element_count else 0,
                    (target_phase + target_offset) % 16,
                    device,
                )
                for move, source_offset, target_offset in self.pieces
            ]
        return found


class BoundLaunches(MoveLaunches):
    """The launches of one transfer with arithmetic, whose parameters every device gets once."""

    def __init__(self, shared: ConvertLaunches, parameters: Callable[[], Sequence[np.ndarray]]) -> None:
        super().__init__(shared.backend, shared.pieces)
        self._shared = shared

        def values() -> np.ndarray:
            return np.concatenate([given.ravel()[:size] for given, size in zip(parameters(), shared.sizes)])

        self._parameters = Parameters(values, shared.backend.uploads, shared.backend.runtime) if shared.sizes else None

    def _start(self, from_address: int, to_address: int, device: int) -> Start:
        """See `MoveLaunches._start`.  All kernels are compiled before the first launch."""
        parameters = self._parameters
        if parameters is not None:
            parameters.stream(device)  # no capture
        starts = self._shared.starts(from_address & 15, to_address & 15, device)
        if parameters is None and len(starts) == 1 and self.pieces[0][1:] == (0, 0):
            return starts[0]
        launches = [
            (start, source_offset, target_offset, int(isinstance(move, ConvertMove)))
            for (move, source_offset, target_offset), start in zip(self.pieces, starts)
        ]

        def start_all(source: int, target: int) -> None:
            copy = parameters.on(device) if parameters else ()  # held until all is launched
            for start, source_offset, target_offset, operands in launches:
                start(source + source_offset, target + target_offset, *copy[:operands])

        return start_all
