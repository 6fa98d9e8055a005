"""Random tensors, and families of them: what models for tests are made of."""

from dataclasses import dataclass, field

import numpy as np

from tests.support.model_elements import ELEMENTS, HEADER
from tests.support.model_pattern import Along

FLOATS = ("F32", "BF16", "F16", "F64")
PLAIN = [name for name in HEADER if name != "F4"]


@dataclass
class Cut:
    """How files may hold pieces of a tensor.

    along, to, stacked    the axis, with the pattern that may name it
    unit                  a piece has a multiple of so many places
    parts                 of a split: each piece has as much of every part
    """

    along: object
    to: str | None = None
    stacked: bool = False
    unit: int = 1
    parts: tuple = ()

    def axis(self, array):
        return Along(self.along, array.ndim, self.to, stacked=self.stacked)

    def edges(self, random, array, count):
        """Where the pieces begin and end; None if there are none."""
        size = self.axis(array).size(array)
        if count == 1 or any(each % count for each in self.parts):
            return None
        if self.parts:
            return [size // count * number for number in range(count + 1)]
        places = np.arange(0 if chance(random, 0.1) else self.unit, size, self.unit)
        if len(places) < count - 1:
            return None
        return [0, *sorted(int(each) for each in random.choice(places, count - 1, replace=False)), size]


@dataclass
class Family:
    """Tensors, and the rules for them.

    cuts      the tensors of which each file may hold a piece
    follows   the tensors that are cut as another is: scales as their weight
    scale     the type of the scales, and how many there are
    """

    tensors: dict = field(default_factory=dict)
    rules: dict = field(default_factory=dict)
    cuts: dict = field(default_factory=dict)
    follows: dict = field(default_factory=dict)
    scale: tuple = ()

    @property
    def has_along(self):
        return any("along" in rule or "along" in str(rule.get("shard")) for rule in self.rules.values())


# ---- arrays ---------------------------------------------------------------------------------------


def pick(random, values):
    return values[int(random.integers(0, len(values)))]


def chance(random, share):
    return random.random() < share


def random_array(random, dtype, shape):
    """Numbers that every type holds well: no nan, no infinity, no large ones."""
    element = ELEMENTS[HEADER[dtype]]
    if element.kind in "biu":
        return random.integers(0, 2 if dtype == "BOOL" else 100, shape).astype(element)
    if dtype == "F8_E8M0":
        return (2.0 ** random.integers(-4, 5, shape)).astype(element)
    return (random.integers(-48, 49, shape) / 8).astype(element)


def random_words(random, dtype, shape):
    """Any bits."""
    element = ELEMENTS[HEADER[dtype]]
    count = int(np.prod(shape)) * element.itemsize
    return np.frombuffer(random.bytes(count), element).reshape(shape)


def some_shape(random, rank, most=7):
    return tuple(int(size) for size in random.integers(1, most, rank))
