"""The interface of a backend: it executes plans and decides nothing.  Two backends write the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpulayout.layout.shape import Shape
from gpulayout.memory.foreign_memory import ForeignMemory
from gpulayout.moves.index_program import IndexProgram
from gpulayout.moves.move import Pieces

Array = Any  # a NumPy or a CuPy array


class Prepared(Protocol):
    """What a backend made of the pieces of a transfer, so that no call has to look it up."""

    pieces: Pieces

    def carry_out(self, source: Array, target: Array, *, is_new: bool = False) -> None:
        """Carry out all pieces; offsets count from the element of each array whose coordinates are all 0.

        Both arrays passed every check; `is_new` says that the target is memory that was made for this call.
        """

    def again(self, source: Array, target: Array | None) -> Array | None:
        """Carry out a call that needs no check, for one like it was carried out before, and give back its target.

        A target of None is new memory.  None when the call has to go through the checks.
        """


class Job(NamedTuple):
    """One relayout of a list; `label` comes first in what is said against it: `job 3: `."""

    label: str
    prepared: Prepared
    source: Array
    target: Array


class Conversion(Protocol):
    """What a backend made of the program of an index conversion, so that no call has to look it up."""

    def convert(self, given: Array, result: Array | None, mode: str, checked: bool = False) -> int | None:
        """Convert index arrays and return the flat position of the first index that cannot be converted, or None.

        given, result   (...) for linear indices, (rank, ...) for logical ones; `given` as `Backend.contiguous` gives
        it, `result` C-contiguous A `result` of None only checks; `checked` says that this was done and found nothing.
        Modes other than "raise" and "mark" do not look for offenders.
        """

    def again(self, given: Array, result: Array, mode: str) -> bool:
        """Carry out a call that needs no check, for one like it was carried out before; False when it has to go through
        the checks.
        """


class Backend(Protocol):
    """The two implementations are `cpu.run.NumpyBackend` and `gpu.cupy_runtime.CupyBackend`, which has all that needs
    no CuPy from `gpu.run.CudaBackend`.
    """

    name: str
    max_operands: int  # index arrays that `linearize_broadcast` takes at most; 0 where there is none

    def foreign_memory(self, given: object) -> ForeignMemory:
        """What an array of another library says of its memory, which is this backend's; any exception when it is
        not.
        """

    def adopt(self, memory: ForeignMemory) -> Array:
        """An array of this backend over foreign memory, without a copy."""

    def array(
        self, values: object, dtype: np.dtype | None, order: str | None = None, like: Array | None = None
    ) -> Array:
        """A new array from plain Python values, on the device of `like` or the current one."""

    def on_device_of(self, array: Array) -> AbstractContextManager[object]:
        """Within this context, what arrays do by themselves runs on the device of this one."""

    def dtype_for(self, shape: Shape) -> np.dtype:
        """The dtype of a new buffer of the shape: its own, or the unsigned carrier of the same width."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: Array | None = None) -> Array:
        """An uninitialised array, C order, on the device of `like` or the current one."""

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """An array of zeros on the current device."""

    def device(self, array: Array) -> str:
        """Where an array lives: "cpu" or "cuda:0"."""

    def address(self, array: Array) -> int:
        """Address of the element with all coordinates 0."""

    def strided(self, array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """A view of the same memory with other strides, in bytes."""

    def contiguous(self, array: Array) -> Array:
        """The array as `Conversion.convert` reads it: where it has to be C-contiguous and is not, a copy that is."""

    def prepare(self, pieces: Pieces) -> Prepared:
        """What carries these pieces out, as often as wanted and from any thread."""

    def prepare_jobs(self, jobs: Sequence[Job]) -> Callable[[], None]:
        """What carries out all these jobs between arrays of one device; whatever can be refused is refused here."""

    def prepare_conversion(self, program: IndexProgram) -> Conversion:
        """What carries the program out, as often as wanted and from any thread."""

    linearize_broadcast: Callable[[IndexProgram, Sequence[Array], Array, str], int | None] | None
    """(program, operands, result, mode): `Conversion.convert` for one index array per dimension, of any shapes that broadcast, in one pass
    without copies.  The program is a dot product.  None for a backend to which they are given stacked."""
