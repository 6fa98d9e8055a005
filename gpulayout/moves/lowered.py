"""Lowered moves as values: steps of reshape, permute, pad and slice, which every array library can run.

`lowering` makes them.  Here they run by the array API; `lowered_run` has the operations of PyTorch and JAX.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.graph_constants import constant_in_graphs
from gpulayout.moves.lowered_run import PlainStep, PlainSteps, is_jax, is_torch, run_in_jax, run_in_torch

Sizes = tuple[int, ...]


class Reshape(NamedTuple):
    """The same elements in C order with other sizes, most major first."""

    sizes: Sizes

    def __str__(self) -> str:
        return f"reshape to {self.sizes}"


class Permute(NamedTuple):
    """Axis number `axes[k]` becomes axis k."""

    axes: Sizes

    def __str__(self) -> str:
        return f"permute {self.axes}"


class Pad(NamedTuple):
    """Elements behind the end of each axis, up to these sizes.

    fill   the bytes of each of them
    """

    sizes: Sizes
    fill: bytes

    def __str__(self) -> str:
        return f"pad to {self.sizes} with {'0' if not any(self.fill) else f'bytes {self.fill.hex()}'}"


class Slice(NamedTuple):
    """The first elements of each axis, so many."""

    sizes: Sizes

    def __str__(self) -> str:
        return f"slice to {self.sizes}"


Step = Reshape | Permute | Pad | Slice
_KINDS: dict[str, type[Step]] = {"reshape": Reshape, "permute": Permute, "pad": Pad, "slice": Slice}
Steps = tuple[Step, ...]


def _step(step: Step | tuple[Any, ...]) -> Step:
    """A step from itself, or from its name and its fields; LayoutError for anything else."""
    if isinstance(step, Reshape | Permute | Pad | Slice):
        return step
    name, *fields = step
    if name not in _KINDS or len(fields) != len(_KINDS[name]._fields):
        raise LayoutError(f"steps has {step}, which is no step: one of {', '.join(_KINDS)}, and its sizes or axes")
    return _KINDS[name](*fields)


def _as_tuple(step: Step) -> tuple[Any, ...]:
    """The inverse.  torch.compile makes variables of numbers in an object; these are constants again."""
    numbers = tuple([operator.index(number) for number in step[0]])
    if isinstance(step, Pad):
        return "pad", numbers, step.fill
    return ("permute" if isinstance(step, Permute) else "slice" if isinstance(step, Slice) else "reshape"), numbers


def sizes_after(step: Step, sizes: Sizes) -> Sizes:
    """The sizes of the result of a step."""
    return tuple([sizes[axis] for axis in step.axes]) if isinstance(step, Permute) else step.sizes


@dataclass(frozen=True)
class Lowered:
    """Steps of reshape, permute, pad and slice that make one array of another.  Made by `Plan.lower`; frozen.

    Call it with an array of any library that has the array API: NumPy, CuPy, PyTorch or JAX, also inside ``jax.jit``
    and ``torch.compile``.  The result may be a view of the array where the library's own reshape gives one.

    Attributes
    ----------
    element_type : ElementType
        Of both arrays.
    dimensions : tuple of int
        Sizes of the array that it takes, most major first.
    steps : tuple of Reshape, Permute, Pad or Slice
        In order.

    Notes
    -----
    As arguments, steps may be plain: ``("permute", (1, 0))``, ``("pad", (4, 2), b"\\0" * 4)``.

    Examples
    --------
    >>> import gpulayout as gl
    >>> import numpy as np
    >>> lowered = gl.plan("f32[2,3]", "{0,1:PD(2,4)}").lower()
    >>> print(lowered)
    f32[6]: reshape to (2, 3), permute (1, 0), pad to (4, 2) with 0, reshape to (8,)
    >>> lowered(np.arange(6, dtype=np.float32))
    array([0., 3., 1., 4., 2., 5., 0., 0.], dtype=float32)
    """

    element_type: ElementType
    dimensions: Sizes
    steps: Steps

    def __post_init__(self) -> None:
        object.__setattr__(self, "element_type", ElementType.of(self.element_type))
        object.__setattr__(self, "dimensions", tuple(self.dimensions))
        object.__setattr__(self, "steps", tuple([_step(step) for step in self.steps]))

    def __hash__(self) -> int:
        try:
            return hash((self.element_type, self.dimensions, self.steps))
        except AttributeError:  # some releases of torch.compile hash what is called, before it has attributes
            raise TypeError("an object without its steps is unhashable") from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles name no class but this one."""
        return Lowered, (self.element_type, self.dimensions, tuple([_as_tuple(step) for step in self.steps]))

    @property
    def result_dimensions(self) -> Sizes:
        """Sizes of the result, most major first."""
        sizes = self.dimensions
        for step in self.steps:
            sizes = sizes_after(step, sizes)
        return sizes

    def __str__(self) -> str:
        about = f"{self.element_type}[{','.join(map(str, self.dimensions))}]"
        return f"{about}: {', '.join(map(str, self.steps)) or 'nothing to do'}"

    def __call__(self, array: Any) -> Any:
        """Run the steps.

        Parameters
        ----------
        array : array
            Of these `dimensions` and this `element_type`, or of unsigned integers of its width.

        Raises
        ------
        LayoutError
            For an array of other sizes.
        """
        if tuple(array.shape) != self.dimensions:
            raise LayoutError(f"array has shape {tuple(array.shape)}, but these steps take {self.dimensions}")
        return run_lowered(self, array)


# ---- running ---------------------------------------------------------------------------------------------------------


def run_lowered(lowered: Lowered, array: Any) -> Any:
    """The result of the steps, as an array of the library of `array`; its sizes are right."""
    if is_torch(array):
        steps = tuple([_as_tuple(step) for step in lowered.steps])
        return run_in_torch(_plain_steps, (lowered.element_type, steps), array)
    if is_jax(array):
        return run_in_jax(_jax_steps(lowered), array)
    return _run_by_array_api(lowered, array)


@functools.lru_cache(maxsize=1024)  # as planning is kept
def _jax_steps(lowered: Lowered) -> PlainSteps:
    return tuple([_plain(step, lambda fill: fill) for step in lowered.steps])


@constant_in_graphs
def _plain_steps(element_type: ElementType, steps: Any, as_integers: bool) -> PlainSteps:
    return plain_steps(Lowered(element_type, (), steps), as_integers)


def plain_steps(lowered: Lowered, as_integers: bool) -> PlainSteps:
    """The steps as plain tuples, with Python's own numbers."""

    def number(fill: bytes) -> Any:
        if as_integers:
            return int.from_bytes(fill, sys.byteorder, signed=len(fill) == 2)
        dtype = lowered.element_type.dtype
        value = np.frombuffer(fill, dtype)[0]
        return value.item() if dtype.type.__module__ == "numpy" else float(value)

    return tuple([_plain(step, number) for step in lowered.steps])


def _plain(step: Step, number: Callable[[bytes], Any]) -> PlainStep:
    """A step as its name, its sizes or axes, and what `number` makes of the bytes that fill."""
    return type(step).__name__.lower(), step[0], number(step.fill) if isinstance(step, Pad) else None


def _run_by_array_api(lowered: Lowered, array: Any) -> Any:
    xp = array.__array_namespace__() if hasattr(array, "__array_namespace__") else np
    for step in lowered.steps:
        if isinstance(step, Permute):
            array = xp.permute_dims(array, step.axes)
        elif isinstance(step, Reshape):
            array = xp.reshape(array, step.sizes)
        elif isinstance(step, Slice):
            array = array[tuple([slice(0, size) for size in step.sizes])]
        else:
            array = _padded(xp, array, step)
    return array


def _padded(xp: Any, array: Any, step: Pad) -> Any:
    """The array API has no pad: join the array and constants, axis by axis."""
    number = np.frombuffer(step.fill, array.dtype)[0]
    for axis, size in enumerate(step.sizes):
        if size > array.shape[axis]:
            sizes = (*array.shape[:axis], size - array.shape[axis], *array.shape[axis + 1 :])
            array = xp.concat([array, xp.full(sizes, number, dtype=array.dtype)], axis=axis)
    return array
