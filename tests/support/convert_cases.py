"""Moves with arithmetic for the GPU's own tests: dimensions in an order on each side, with gaps, and what the exact
model makes of them.
"""

import dataclasses
import functools

import numpy as np

from gpulayout.gpu import choose_kernel
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.run import launch_pieces
from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic, ConvertMove
from gpulayout.moves.move import Axis
from gpulayout.moves.pieces import Piece
from tests import reference_arithmetic as model
from tests.support.cast_kernels import FORMS
from tests.support.kernel_cases import BLOCK, forced_bits, forced_tiles
from tests.support.simt.record import FRESH, Buffer, Record, Struct


def strides_of(dims, order, itemsize, gap):
    """Byte strides; `order` is minor to major, and a negative size in `gap` reverses the most minor dimension."""
    strides, step = [0] * len(dims), itemsize
    for place, dim in enumerate(order):
        strides[dim] = step
        step *= dims[dim] + (abs(gap) if place == 0 else 0)
    if gap < 0:
        strides[order[0]] *= -1
    return strides


@dataclasses.dataclass(frozen=True)
class ConvertCase:
    """Elements of `dims` in one order and in another, both minor to major.

    per      for each parameter, the dimensions along which it changes
    gaps     elements between the rows of either side; below zero the rows run backwards
    phases   of both addresses
    """

    source: str
    target: str
    form: str
    dims: tuple
    source_order: tuple
    target_order: tuple
    per: tuple = ()
    gaps: tuple = (0, 0)
    phases: tuple = (0, 0)
    saturate: bool = True
    bits: int = 32

    @property
    def name(self):
        return (
            f"{self.source} to {self.target}, {self.form}, {self.dims} from {self.source_order} to {self.target_order}"
        )

    @functools.cached_property
    def arithmetic(self):
        return Arithmetic(
            ElementType(self.source), ElementType(self.target), self.saturate, FORMS.get(self.form, ()), self.form
        )

    @functools.cached_property
    def strides(self):
        sides = self.arithmetic.source.itemsize, self.arithmetic.target.itemsize
        orders = self.source_order, self.target_order
        return [strides_of(self.dims, order, size, gap) for order, size, gap in zip(orders, sides, self.gaps)]

    @functools.cached_property
    def parameters(self):
        random = np.random.default_rng(3)
        kind = self.arithmetic.compute.dtype
        return [
            (random.standard_normal([size if dim in per else 1 for dim, size in enumerate(self.dims)]) * 3).astype(kind)
            for per in self.per
        ]

    @functools.cached_property
    def move(self):
        steps = [[stride // array.itemsize for stride in array.strides] for array in self.parameters]
        return ConvertMove(
            tuple(
                Axis(self.dims[dim], self.dims[dim], *(side[dim] for side in self.strides)) for dim in self.target_order
            ),
            self.arithmetic,
            tuple(
                tuple(steps[p][dim] if dim in per else 0 for dim in self.target_order) for p, per in enumerate(self.per)
            ),
            (0,) * len(self.per),
            tuple((dim,) for dim in self.target_order),
        )

    @functools.cached_property
    def source_bytes(self):
        low, high = self.move.source_span
        return np.random.default_rng(5).integers(0, 256, high - low, np.uint8)

    @property
    def before(self):
        """Bytes from the lowest to the first element of both sides."""
        return -self.move.source_span[0], -self.move.target_span[0]

    @property
    def target_bytes(self):
        low, high = self.move.target_span
        return high - low

    def codes_of(self, memory, side):
        """The codes in the memory of a side, as an array of `dims` of parts: one, or two of a complex number."""
        kind = (self.arithmetic.source, self.arithmetic.target)[side]
        parts = kind.component
        count = kind.itemsize // parts.itemsize
        return np.ndarray(
            (*self.dims, count),
            parts.carrier,
            memory,
            self.before[side],
            (*self.strides[side], parts.itemsize),
        )

    def is_right(self, found):
        """Whether a target has the codes of the model, nans excepted, and kept its gaps."""
        expected = np.full(self.target_bytes, FRESH, np.uint8)
        wanted, made = self.codes_of(expected, 1), self.codes_of(found, 1)
        names = self.arithmetic.source.component.value, self.arithmetic.target.component.value
        kind = self.arithmetic.compute.value
        given = self.codes_of(self.source_bytes, 0)
        operands = [np.broadcast_to(array, self.dims) for array in self.parameters]
        for index in np.ndindex(given.shape):
            code = model.converted(
                int(given[index]),
                *names,
                self.saturate,
                self.arithmetic.steps,
                [model.decode(int(array[index[:-1]].view(f"u{array.itemsize}")), kind) for array in operands],
            )
            same_nan = model.is_nan(made[index], names[1]) and model.is_nan(made.dtype.type(code), names[1])
            wanted[index] = made[index] if same_nan else code
        return bool((found == expected).all())

    @functools.cached_property
    def plan(self):
        (piece,), _ = launch_pieces((Piece(self.move),))
        with forced_bits(self.bits), forced_tiles():
            return choose_kernel.kernel_plan.__wrapped__(piece.move, *self.phases)

    def record(self, text=None, **changes):
        """The launch, written down, with buffers of exact length."""
        plan = self.plan
        from_phase, to_phase = ((phase - before) % 16 for phase, before in zip(self.phases, self.before))
        content = self.source_bytes.tobytes()
        sides = [
            Buffer(len(content), from_phase, content, False, self.before[0]),
            Buffer(self.target_bytes, to_phase, offset=self.before[1]),
        ]
        parameters = plan.parameters
        if plan.operands:
            _, sizes = launch_pieces((Piece(self.move),))
            content = b"".join(array.ravel()[:size].tobytes() for array, size in zip(self.parameters, sizes))
            parameters = Struct(parameters, Buffer(len(content), 0, content, False))
        arguments = (*sides, parameters)
        record = Record(text or kernel_text(plan.file), dict(plan.macros), plan.kernel, plan.grid, (BLOCK,), arguments)
        return dataclasses.replace(record, **changes)


NHWC, NCHW = (3, 2, 1, 0), (2, 1, 3, 0)  # minor to major, of the dimensions n h w c
CASES = (
    # equal orders: one run, at equal and different phases, and rows
    ConvertCase("f32", "bf16", "cast", (300,), (0,), (0,)),
    ConvertCase("bf16", "f8e4m3fn", "cast", (300,), (0,), (0,)),
    ConvertCase("f32", "bf16", "cast", (301,), (0,), (0,), phases=(8, 6)),
    ConvertCase("u8", "f32", "scale and shift", (77,), (0,), (0,), ((0,), ()), phases=(3, 4)),
    ConvertCase("bf16", "f32", "cast", (9, 21), (1, 0), (1, 0), gaps=(3, 1), phases=(2, 4)),
    ConvertCase("s4", "f16", "dequantise", (6, 2, 8), (2, 1, 0), (2, 1, 0), ((0, 1), (0, 1))),
    ConvertCase("u8", "f32", "scale and shift", (5, 7, 12), (2, 1, 0), (2, 0, 1), ((2,), (1, 2))),
    ConvertCase("u8", "f32", "scale and shift", (18, 3, 8), (2, 0, 1), (2, 1, 0), ((2,), (0, 1))),
    ConvertCase("f32", "u8", "cast", (5, 70), (1, 0), (1, 0), gaps=(1, 3), phases=(4, 3)),
    ConvertCase("u8", "f32", "scale and shift", (5, 70), (1, 0), (1, 0), ((1,), (1,)), (1, 3), (3, 4)),
    # pixels and planes
    ConvertCase("f32", "u8", "scale and shift", (3, 124, 3), (1, 2, 0), (2, 1, 0), ((2,), (1,))),
    ConvertCase("u8", "f32", "normalise", (2, 4, 31, 3), NHWC, NCHW, ((), (3,), (3,))),
    ConvertCase("u8", "f32", "scale and shift", (330, 3), (1, 0), (0, 1), ((1,), (0, 1)), (0, 2)),
    ConvertCase("f32", "u8", "scale and shift", (330, 3), (0, 1), (1, 0), ((1,), (0, 1)), (2, 0)),
    ConvertCase("f32", "f16", "scale and shift", (221, 3), (1, 0), (0, 1), ((1,), (0, 1)), (0, 3), bits=64),
    ConvertCase("f16", "f32", "scale and shift", (221, 3), (0, 1), (1, 0), ((1,), (0, 1)), (3, 0), bits=64),
    # tiles: whole and cut, aligned and at any address, with steps along one axis and along both
    ConvertCase("f32", "f8e4m3fn", "cast", (64, 64), (1, 0), (0, 1), saturate=False),
    ConvertCase("u8", "f32", "scale and shift", (40, 68), (1, 0), (0, 1), ((1,), (0, 1))),
    ConvertCase("u8", "f32", "scale and shift", (50, 41), (1, 0), (0, 1), ((1,), (0,)), phases=(1, 4)),
    ConvertCase("f32", "s8", "quantise", (20, 17), (1, 0), (0, 1), ((0,), ()), gaps=(1, 3), phases=(4, 3)),
    ConvertCase("f16", "f8e5m2", "cast", (9, 18, 15), (2, 1, 0), (1, 2, 0)),
    ConvertCase("f32", "u8", "scale and shift", (50, 41), (1, 0), (0, 1), ((1,), (0, 1)), (3, 2), bits=64),
    ConvertCase("u8", "bf16", "scale and shift", (36, 70), (1, 0), (0, 1), ((1,), (1,)), (2, 4)),
    ConvertCase("f32", "u8", "quantise", (50, 41), (1, 0), (0, 1), ((0,), (0,)), (3, 2), bits=64),
    ConvertCase("s8", "f16", "dequantise", (36, 70), (1, 0), (0, 1), ((0,), ()), (2, 4)),
    ConvertCase("u8", "f32", "scale and shift", (41, 67), (1, 0), (0, 1), ((1,), (0, 1))),
    ConvertCase("u8", "f64", "scale and shift", (65, 33), (1, 0), (0, 1), ((1,), (0, 1))),
    ConvertCase("u8", "f16", "scale and shift", (35, 41), (1, 0), (0, 1), ((1,), (0, 1)), (0, 1)),
    ConvertCase("u8", "f64", "scale and shift", (540, 3), (1, 0), (0, 1), ((1,), (0, 1)), (7, 1)),
    ConvertCase("f32", "bf16", "scale and shift", (2, 33, 31), (2, 1, 0), (1, 2, 0), ((), ())),
    # several matrices in a tile, with steps from one to the next
    ConvertCase("u8", "f64", "scale and shift", (11, 8, 8), (2, 1, 0), (1, 2, 0), ((0,), (0, 2))),
    ConvertCase("u8", "f32", "scale and shift", (3, 32, 36), (2, 1, 0), (1, 2, 0), ((0, 2), (0,))),
    # boxes of many axes, with steps inside a box and from box to box
    ConvertCase("s8", "f32", "cast", (2,) * 9, (8, 7, 6, 5, 4, 3, 2, 1, 0), (7, 8, 5, 6, 3, 4, 1, 2, 0)),
    ConvertCase("u8", "bf16", "scale and shift", (2, 4, 7, 4, 3), (4, 3, 2, 1, 0), (3, 1, 4, 2, 0), ((4,), (4,))),
    ConvertCase("u8", "f64", "scale and shift", (2, 2, 60, 2, 4), (4, 3, 2, 1, 0), (3, 2, 4, 1, 0), ((2,), (2,))),
    ConvertCase(
        *("u8", "f32", "scale and shift", (2, 2, 2, 4, 7, 4, 3), (6, 5, 4, 3, 2, 1, 0), (5, 3, 6, 4, 2, 1, 0)),
        ((0, 2, 6), (1, 6)),
    ),
    # places one by one
    ConvertCase("s64", "f64", "scale and shift", (7, 20), (1, 0), (1, 0), ((), (0,)), gaps=(-2, 0), bits=64),
    ConvertCase("f64", "f8e4m3fn", "cast", (5, 6, 7), (2, 1, 0), (0, 1, 2), gaps=(-1, -2), saturate=False),
    ConvertCase("c64", "c128", "cast", (9, 11), (1, 0), (0, 1)),
    ConvertCase("c128", "c64", "cast", (13,), (0,), (0,), gaps=(-1, 0)),
    ConvertCase("c64", "c128", "cast", (5, 7), (1, 0), (1, 0), gaps=(1, 0), phases=(8, 0)),
    ConvertCase("c64", "c128", "cast", (35, 20), (1, 0), (0, 1), gaps=(1, 0), phases=(8, 0)),
    ConvertCase("c128", "c64", "cast", (19, 34), (1, 0), (0, 1), gaps=(0, 1), bits=64),
    ConvertCase("c128", "c64", "cast", (2, 3, 5, 2, 3, 2), (5, 4, 3, 2, 1, 0), (0, 2, 1, 4, 3, 5)),
    ConvertCase("c64", "c128", "cast", (100, 3), (1, 0), (0, 1)),
    # sizes of one, and none at all
    ConvertCase("u16", "f16", "cast", (), (), ()),
    ConvertCase("f16", "u4", "cast", (1, 3, 1), (2, 1, 0), (0, 1, 2)),
)
