"""Launches moves with arithmetic: one launch for each piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from gpulayout.gpu.convert import launch_pieces
from gpulayout.gpu.runtime import Runtime, Start
from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.kinds import AnyMove, Pieces


class Launching(Protocol):
    """What `ConvertLaunches` needs of the backend."""

    runtime: Runtime

    def array(
        self, values: object, dtype: np.dtype | None, order: Literal["C", "F"] | None = None, like: Any = None
    ) -> Any: ...
    def is_capturing(self, device: int) -> bool: ...
    def start_of_move(self, move: AnyMove, source_phase: int, target_phase: int, device: int) -> Start: ...


class ConvertLaunches:
    """The launches of the pieces of one transfer with arithmetic: the GPU's `PreparedArithmetic`.

    Parameters are new in each call, in one array.  It may be given back as soon as everything is launched, because
    memory goes to work that comes later in the same stream.
    """

    MOST = 64  # kinds of calls that are kept: both addresses modulo 16, and the device; when full, all are dropped

    def __init__(self, backend: Launching, pieces: Pieces) -> None:
        self._backend = backend
        self._pieces, self._sizes = launch_pieces(pieces)
        self._starts: dict[tuple[int, int, int], list[Start]] = {}

    def convert(self, source: Any, target: Any, parameters: Sequence[np.ndarray]) -> None:
        """See `PreparedArithmetic.convert`.  All kernels are compiled before the first launch."""
        place = self._backend.runtime.place
        (source_address, _), (target_address, device) = place(source), place(target)
        if parameters and self._backend.is_capturing(device):
            raise BufferError(
                "a call with arithmetic cannot be captured in a CUDA graph if it has parameters, because their memory "
                "is given back after the call: run it before the capture"
            )
        starts = self._prepared(source_address % 16, target_address % 16, device)
        operands: list[int] = []
        if self._sizes:
            given = [parameter.ravel()[:size] for parameter, size in zip(parameters, self._sizes)]
            uploaded = self._backend.array(np.concatenate(given), None, "C", target)  # kept until all is launched
            operands = [place(uploaded)[0]]
        for (move, source_offset, target_offset), start in zip(self._pieces, starts):
            own = operands if isinstance(move, ConvertMove) else []
            start(source_address + source_offset, target_address + target_offset, *own)

    def _prepared(self, source_phase: int, target_phase: int, device: int) -> list[Start]:
        """The start of every launch between arrays at these addresses, given modulo 16."""
        key = source_phase, target_phase, device
        found = self._starts.get(key)
        if found is None:
            if len(self._starts) >= self.MOST:
                self._starts.clear()
            found = self._starts[key] = [
                self._backend.start_of_move(
                    move,
                    (source_phase + source_offset) % 16 if move.element_count else 0,
                    (target_phase + target_offset) % 16,
                    device,
                )
                for move, source_offset, target_offset in self._pieces
            ]
        return found
