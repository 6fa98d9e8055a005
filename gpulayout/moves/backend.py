"""The interface of a backend: it executes plans and decides nothing.  All backends write the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from gpulayout.memory.foreign_memory import ForeignMemory
from gpulayout.moves.index_program import IndexProgram, Mode
from gpulayout.moves.pieces import Pieces
from gpulayout.moves.steps import Steps

AnyArray = Any  # a NumPy or a CuPy array; CuPy has no types
# Runs a call again without its checks, and returns the target, a new one for None; None if the checks are needed.
Again = Callable[[AnyArray, AnyArray | None], AnyArray | None]


class Make(NamedTuple):
    """How a call makes its target: `function(*arguments, **words)`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    words: dict[str, Any] | None = None


class Prepared(Protocol):
    """The pieces of a transfer, ready to run.  A backend prepares them once, so that no call has to plan again."""

    pieces: Pieces

    def execute(self, source: AnyArray, target: AnyArray, *, is_new: bool = False) -> None:
        """Execute all pieces.  Offsets are relative to the element of each array whose coordinates are all 0.

        Both arrays have passed every check; `is_new` means that the target was allocated for this call.
        """

    def known_call(
        self, source: Any, target: Any, make: Make | None, tensors: Any = None, writes: Any = None
    ) -> Again | None:
        """What runs a call again without checks, that passed them all and moved from `source` to `target`.

        It belongs to the caller that checked: other callers of the same plan take other arrays.  None if arrays like
        these cannot be recognised.

        make      None if the target was given, as others will be
        tensors   the engine's `Tensors`, if both are such; then writes(target) comes before a given target is written
        """


class PreparedArithmetic(Protocol):
    """Pieces with arithmetic, ready to run: moves of elements that change, and fills."""

    def with_parameters(self, parameters: Callable[[], Sequence[np.ndarray]]) -> Prepared:
        """The pieces with these parameters: arrays on the host, of the type of the steps, which nobody may change.

        `parameters` is called when their numbers are needed: on a CPU in every call.  The source and the target of a
        call may be the same memory, if each element has the same place in both.
        """


class PreparedSteps(Protocol):
    """The steps of a relayout in place, ready to run."""

    def execute(self, buffer: AnyArray, workspace: AnyArray) -> None:
        """Execute all steps on 1-D arrays of bytes.  Errors are raised before the first one."""


class PreparedJob(NamedTuple):
    """One relayout in a list of jobs.  Its error messages start with `label`, such as `job 3: `."""

    label: str
    prepared: Any  # what `prepare` returned on the backend that gets the job
    source: AnyArray
    target: AnyArray


class PreparedConversion(Protocol):
    """The program of an index conversion, ready to run: a backend prepares it once."""

    def convert(self, given: AnyArray, result: AnyArray | None, mode: Mode, checked: bool = False) -> int | None:
        """Convert index arrays; return the flat position of the first index that cannot be converted, or None.

        given     (...) for linear indices, (rank, ...) for logical ones, as `Backend.contiguous` returns it
        result    of the matching shape, C-contiguous; None checks only
        mode      only "raise" and "mark" look for indices that cannot be converted
        checked   True if an earlier call without a result found none
        """

    def again(self, given: AnyArray, result: AnyArray, mode: Mode) -> bool:
        """Execute a call without checks, if an equivalent call has passed them; else return False."""


class Lane(Protocol):
    """Memory on both sides, and a queue of copies between them and of launches.

    A lane does one thing after the other, beside the host and beside other lanes.  On a CPU it does each at once, and
    `host` and `device` are the same memory.
    """

    host: np.ndarray  # bytes, page-locked
    device: AnyArray  # bytes; it may be longer than `host`

    def running(self) -> AbstractContextManager[object]:
        """A context in which launches go to this lane."""

    def upload(self, places: slice) -> None:
        """Copy these bytes of `host` to the same places of `device`."""

    def download(self, places: slice) -> None:
        """Copy these bytes of `device` to the same places of `host`."""

    def wait(self) -> None:
        """Wait until everything that the lane got is done."""


LinearizeBroadcast = Callable[[IndexProgram, Sequence[AnyArray], AnyArray, Mode], "int | None"]
"""(program, operands, result, mode): `PreparedConversion.convert` for one index array per dimension.

The arrays may have any shapes that broadcast, and are read in one pass without copies.  The program is a dot product.
"""


class Backend(Protocol):
    """What a backend must do.

    The two implementations are `cpu.run.NumpyBackend` and `gpu.cupy_runtime.CupyBackend`.  `gpu.run.CudaBackend` holds
    the parts of the latter that do not need CuPy.
    """

    name: str
    is_one_device: bool  # all arrays of this backend are on the same device
    max_operands: int  # the most index arrays that `linearize_broadcast` takes; 0 without it
    slab_bytes: int  # of a slab or a part that a relayout in place moves at a time; larger ones gain nothing
    slabs_at_once: int  # so many of them move at the same time, if the workspace has room for them

    def foreign_memory(self, given: object) -> ForeignMemory:
        """The memory of another library's array.  May raise any exception if this backend cannot use that memory."""

    def adopt(self, memory: ForeignMemory) -> AnyArray:
        """Foreign memory as an array of this backend, without a copy."""

    def array(
        self,
        values: object,
        dtype: np.dtype | None,
        order: Literal["C", "F"] | None = None,
        like: AnyArray | None = None,
    ) -> AnyArray:
        """A new array of plain Python values, on the device of `like` or else on the current one."""

    def on_device_of(self, array: AnyArray) -> AbstractContextManager[object]:
        """A context in which array operations run on the device of this array."""

    def held(self, dtype: np.dtype) -> np.dtype:
        """The dtype of this backend's arrays of such elements: the same, or the unsigned integer of its width."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, like: AnyArray | None = None) -> AnyArray:
        """An uninitialised array in C order, on the device of `like` or else on the current one."""

    def temporary(self, shape: tuple[int, ...], dtype: np.dtype, like: AnyArray) -> AnyArray:
        """As `empty`, for memory that is given back after the call.  BufferError where that is too early."""

    def zeros(self, length: int, dtype: np.dtype, align: int) -> AnyArray:
        """A 1-D array of zeros on the current device, at an address that is a multiple of `align` bytes."""

    def device(self, array: AnyArray) -> str:
        """Where an array lives: "cpu" or "cuda:0"."""

    def address(self, array: AnyArray) -> int:
        """The address of the element whose coordinates are all 0."""

    def strided(self, array: AnyArray, shape: tuple[int, ...], strides: tuple[int, ...]) -> AnyArray:
        """A view of the same memory with other strides, in bytes."""

    def contiguous(self, array: AnyArray) -> AnyArray:
        """The array as `PreparedConversion.convert` reads it: a C-contiguous copy where the backend needs one."""

    def prepare(self, pieces: Pieces) -> Prepared:
        """These pieces, ready to run any number of times and from any thread."""

    def prepare_arithmetic(self, pieces: Pieces) -> PreparedArithmetic:
        """These pieces, some of which are `ConvertMove`s, ready to run any number of times and from any thread."""

    def prepare_jobs(self, jobs: Sequence[PreparedJob]) -> Callable[[], None]:
        """A function that executes all these jobs, on arrays of one device.  Errors are raised here, before it runs."""

    def lanes(
        self, count: int, host_bytes: int, device_bytes: int, like: AnyArray | None = None
    ) -> AbstractContextManager[Sequence[Lane]]:
        """So many lanes, on the device of `like` or else on the current one; MemoryError if there is no room.

        They begin after what the current stream has got so far.  However the context ends, it waits for all of them.
        """

    def prepare_steps(self, steps: Steps) -> PreparedSteps:
        """The steps of a relayout in place, ready to run any number of times and from any thread."""

    def prepare_conversion(self, program: IndexProgram) -> PreparedConversion:
        """The program, ready to run any number of times and from any thread."""

    @property
    def linearize_broadcast(self) -> LinearizeBroadcast | None:
        """None for a backend that needs the index arrays stacked."""
