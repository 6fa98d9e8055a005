"""What a kernel's machine code takes: registers, shared memory, loads under way, and executed instructions.

The numbers are counted in the code for sm_90 by `python -m tests.support.kernel_cost_table --write`, which runs it on
a few small moves and fits a row of kernel_costs.json to each variant.  They are those of 32-bit offsets.

Arithmetic on the way comes on top.  Its numbers are those of machine code for sm_90 too, executed with parameters that
neighbours share (tests/gpu/test_arithmetic_costs.py compares them).  A number that depends on the values is that of
usual ones.
"""

from __future__ import annotations

import functools
import json
import math
import pathlib
from typing import NamedTuple

from gpulayout.gpu.change import CHANGE_MACROS, is_wide, parts_of
from gpulayout.gpu.launch import KernelPlan
from gpulayout.moves.arithmetic import Arithmetic, Operation

TABLE = pathlib.Path(__file__).with_name("kernel_costs.json")
_NOT_IN_A_KEY = ("GPL_INDEX_BITS", "GPL_AXES", "GPL_WHOLE_ROWS", *CHANGE_MACROS)


class Cost(NamedTuple):
    """One variant of a kernel.

    registers      of a thread
    shared_bytes   of a block
    in_flight      bytes that a thread loads before it waits for them
    fixed, each    instructions of a warp, and for each of its accesses on an average side
    """

    registers: int
    shared_bytes: int
    in_flight: int
    fixed: float
    each: float

    def instructions(self, warps: float, accesses: float) -> float:
        """Warp instructions of a launch.

        >>> Cost(32, 0, 16, 100, 2.5).instructions(8, 64)
        960.0
        """
        return warps * self.fixed + accesses * self.each


def cost_of(plan: KernelPlan) -> Cost | None:
    """The row of a plan's variant, or of the one that is most like it: with the smallest ratios of its macros.

    None for a kernel that the table does not know.
    """
    file, words = words_of(key_of(plan))
    rows = {key: cost for key, cost in _table().items() if words_of(key)[0] == file}
    return rows[min(rows, key=lambda key: _apart(words_of(key)[1], words))] if rows else None


def copy_cost() -> Cost:
    """The row of the plain copy: aligned, 16 bytes at a time."""
    return _table()["copy.cu ELEMENT_BYTES=16 LOAD_BYTES=16"]


def key_of(plan: KernelPlan) -> str:
    """What a row is for: the file, and the macros except those that every kernel has in many values."""
    macros = sorted((name, value) for name, value in plan.macros if name not in _NOT_IN_A_KEY)
    return " ".join([plan.file, *(f"{name.removeprefix('GPL_')}={value}" for name, value in macros)])


def words_of(key: str) -> tuple[str, dict[str, int]]:
    """The file and the macros of a key.

    >>> words_of("rows.cu ELEMENT_BYTES=4 VECTOR_BYTES=16")
    ('rows.cu', {'ELEMENT_BYTES': 4, 'VECTOR_BYTES': 16})
    """
    file, *words = key.split()
    return file, {name: int(value) for name, value in (word.split("=") for word in words)}


def _apart(one: dict[str, int], other: dict[str, int]) -> float:
    logs = (math.log2((one.get(name, 0) + 1) / (other.get(name, 0) + 1)) for name in {*one, *other})
    return math.fsum(map(abs, logs))  # in any order the same, so that equal rows stay equal


@functools.cache
def _table() -> dict[str, Cost]:
    return {key: Cost(*numbers) for key, numbers in json.loads(TABLE.read_text(encoding="utf-8")).items()}


# ---- arithmetic on the way -------------------------------------------------------------------------------

STEPS: dict[Operation, float] = {"multiply": 1, "add": 1, "subtract": 1, "divide": 5, "round": 1}
_WIDE_STEPS = STEPS | {"divide": 25}
_WIDE_TYPES: dict[str, float] = {"f64": 0, "f32": 1}  # to read and to write
# To and from the float of the steps.  Types that are not here take the general way.
_READ: dict[str, float] = {"f32": 0, "f64": 0, "u8": 2, "s8": 2, "bf16": 1, "f16": 1.5, "f8e4m3fn": 3, "f8e5m2": 2}
_WRITE: dict[str, float] = {"f32": 0, "f64": 0, "u8": 2, "s8": 2, "bf16": 2, "f16": 2, "f8e4m3fn": 3, "f8e5m2": 6}
_INTEGER, _SHORT_FLOAT, _GENERAL = (3.0, 3.0), (6.0, 12.0), (25.0, 45.0)  # to read and to write


def arithmetic_instructions(arithmetic: Arithmetic) -> float:
    """Instructions of a thread that compute an element, beside those that move it.

    >>> from gpulayout.layout.element_type import ElementType
    >>> from gpulayout.moves.arithmetic import Step
    >>> steps = Step("multiply", 0), Step("add", 1)
    >>> arithmetic_instructions(Arithmetic(ElementType.U8, ElementType.F32, steps=steps))
    4
    """
    wide = is_wide(arithmetic)
    count = sum((_WIDE_STEPS if wide else STEPS)[step.operation] for step in arithmetic.steps)
    ends = zip((arithmetic.source.component, arithmetic.target.component), (_READ, _WRITE))
    for number, (element_type, listed) in enumerate(ends):
        if element_type.is_integral and element_type.itemsize <= 4 and not wide:
            usual = _INTEGER
        elif element_type.is_floating and element_type.itemsize <= 2 and not wide:
            usual = _SHORT_FLOAT
        else:
            usual = _GENERAL
        count += (_WIDE_TYPES if wide else listed).get(element_type, usual[number])
    return count * parts_of(arithmetic)
