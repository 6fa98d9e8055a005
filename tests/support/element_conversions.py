"""Conversions of elements by NumPy and by the native engine with each of its instruction sets, for the same tests."""

import contextlib
import dataclasses

import numpy as np
import pytest

from gpulayout.cpu import native
from gpulayout.cpu.choose_plan import plan_of
from gpulayout.cpu.convert import convert_elements
from gpulayout.moves.arithmetic import Arithmetic, ConvertMove
from gpulayout.moves.move import Axis

SETS = ("first", "second", "third")  # instruction sets of the engine
ENGINES = ("numpy", *SETS)


@dataclasses.dataclass(frozen=True)
class Conversions:
    """What converts elements: `name` is one of ENGINES."""

    name: str

    def convert(self, arithmetic, values, parameters, out):
        """As `convert_elements`."""
        if self.name == "numpy":
            with np.errstate(all="ignore"):
                convert_elements(arithmetic, values, parameters, out)
            return
        if not values.size:
            return
        dimensions = [axis for axis in range(values.ndim) if values.shape[axis] > 1]
        dimensions.sort(key=lambda axis: abs(out.strides[axis]))
        shape, steps = values.shape, [values.strides, out.strides]
        axes = tuple(Axis(shape[axis], shape[axis], *(strides[axis] for strides in steps)) for axis in dimensions)
        strides = []
        for parameter in parameters:
            all_strides = np.broadcast_to(parameter, shape).strides
            strides.append(tuple(all_strides[axis] // parameter.itemsize for axis in dimensions))
        move = ConvertMove(axes, arithmetic, tuple(strides), (0,) * len(strides))
        sides = values.view(arithmetic.source.carrier), 0, out.view(arithmetic.target.carrier), 0
        plan_of(move).execute(*sides, list(parameters))

    def cast(self, values, source, target, saturate=True):
        """As `cast_values`."""
        out = np.empty(values.shape, target.dtype)
        self.convert(Arithmetic(source, target, saturate), values, (), out)
        return out


@contextlib.contextmanager
def conversions(name):
    """The conversions of one of ENGINES; skips the test where it cannot run."""
    if name == "numpy":
        with native.chosen(False):
            yield Conversions(name)
        return
    if isinstance(reason := native.loaded(), str):
        pytest.skip(reason)
    module, number = native.loaded(), SETS.index(name)
    sets = module.instruction_sets()
    if number >= len(sets):
        pytest.skip(f"this processor has only {', '.join(sets)}")
    module.use(number)
    try:
        with native.chosen(True):
            yield Conversions(name)
    finally:
        module.use(len(sets) - 1)
