"""Moves that look up every place, for the kernel's own tests: at addresses of every phase, with the expected result."""

import contextlib
import dataclasses
import functools
from unittest import mock

import numpy as np

import gpulayout as gl
from gpulayout.gpu import choose_kernel
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.moves import pieces
from gpulayout.moves.lookup_move import LookupMove
from tests.support import packed_reference
from tests.support.kept import forget_transfers
from tests.support.kernel_cases import BLOCK, forced_bits
from tests.support.placed import relayout_pieces
from tests.support.simt.record import Buffer, Record
from tests.support.tiled_cases import expected_buffer


@contextlib.contextmanager
def few_pieces(most=0):
    """Within this context moves of tiled layouts that need more than this number of pieces are looked up."""
    with mock.patch.multiple(pieces, LEAST_PIECES=most, MOST_PIECES=most):
        forget_transfers()
        try:
            yield
        finally:
            forget_transfers()


def content(shape):
    """The bytes of a buffer of this shape by the reference."""
    if shape.is_packed:
        return packed_reference.buffer(shape)
    if shape.element_type.bits < 8:  # an element in each byte
        one_each = gl.Shape("u8", shape.dimensions, shape.layout)
        values = packed_reference.values(shape.element_count, shape.element_type.bits).astype(np.uint8)
        return gl.pack(values.reshape(shape.dimensions), one_each)
    return expected_buffer(shape).view(np.uint8)


@dataclasses.dataclass(frozen=True)
class LookupCase:
    """A relayout between two shapes, at two addresses."""

    name: str
    source_text: str
    target_text: str
    phases: tuple = (0, 0)
    index_bits: int = 32

    @functools.cached_property
    def shapes(self):
        source = gl.parse_shape(self.source_text)
        return source, source.with_layout(gl.parse_layout(self.target_text))

    @functools.cached_property
    def move(self):
        with few_pieces(), forced_bits(self.index_bits):
            (piece,) = relayout_pieces(*self.shapes)
        assert type(piece.move) is LookupMove and piece[1:] == (0, 0)
        return piece.move

    @functools.cached_property
    def plan(self):
        with forced_bits(self.index_bits):
            return choose_kernel.kernel_plan.__wrapped__(self.move, *self.phases)

    @functools.cached_property
    def source(self):
        return content(self.shapes[0])

    @functools.cached_property
    def expected(self):
        return content(self.shapes[1])

    def record(self, text=None, **changes):
        """The launch, written down, with buffers of exact length."""
        source, target = (
            Buffer(len(self.source), self.phases[0], self.source.tobytes(), False),
            Buffer(len(self.expected), self.phases[1]),
        )
        return dataclasses.replace(
            Record(
                text or kernel_text(self.plan.file),
                dict(self.plan.macros),
                self.plan.kernel,
                self.plan.grid,
                (BLOCK,),
                (source, target, self.plan.parameters),
            ),
            **changes,
        )


PACKED = (
    ("s4[13,19]{1,0:T(8,8)(8,1)E(4)}", "{1,0:E(4)}"),
    ("s4[5,3,7]{0,2,1:T(2,4)E(4)}", "{2,0,1:PD(6,4,7)PV(lowest)L(9)E(4)}"),
    ("u4[300]{0:T(128)(8,2)E(4)}", "{0:PD(301)PV(highest)T(3)(2)E(4)}"),
    ("s4[131,67]{1,0:T(4,16)(4,1)E(4,big)}", "{0,1:E(4)}"),
    ("s4[4,6]{1,0:E(4)}", "{1,0:T(2,3)E(4,big)}"),
    ("s4[40,60]{1,0:E(4)}", "{1,0:T(*,7)(3)E(4)}"),
)
UNPACKED = (
    ("s32[30,17]{1,0:T(7,3)}", "{0,1:PV(-9)T(4,5)(2)L(16)}"),
    ("s32[9,5,26]{2,0,1:T(3)(2)}", "{1,2,0:T(2,*,4)(3)}"),
    ("s32[]{:T(3)}", "{:PV(5)T(2,2)}"),
    ("s32[12,1,1,70]{3,2,1,0:PD(12,2,1,70)T(8,16)}", "{0,1,2,3:T(3,3)}"),
)


def cases(texts, index_bits=(32, 64)):
    """Each pair at other phases."""
    width = gl.parse_shape(texts[0][0]).itemsize
    for number, (source, target) in enumerate(texts):
        for bits in index_bits:
            phases = (5 * number * width % 16, (3 * number + 1) * width % 16)
            yield LookupCase(f"{source} to {target}, {bits} bits", source, target, phases, bits)


def of_width(name, texts=UNPACKED):
    """The same pairs with elements of another type."""
    return [(source.replace("s32", name), target) for source, target in texts]
