"""Bytes that are under way at once on a multiprocessor, in every kernel: `python -m tests.support.sass --in-flight`.

Memory answers a load after hundreds of cycles, so its speed needs many bytes under way.  At most there are

    bytes of a thread from its first load to its first wait x 256 threads x resident blocks

A copy of 32 KB on a multiprocessor is as fast as one of 256 KB on an H100; newer devices want 48 KB.  Blocks that stand
at a barrier, or store, load nothing, so a kernel with a barrier wants more.  One that reads less than it writes wants
less: a byte unpacked to 8 needs 2/9 of what a copy needs.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

from gpulayout.gpu.cost_model import resident_blocks
from gpulayout.gpu.devices import DEVICES, REFERENCE
from tests.support.bits_cases import BitsCase
from tests.support.index_cases import index_cases, tiled_index_cases
from tests.support.kernel_cases import Case, move_of, transposed
from tests.support.lookup_cases import LookupCase
from tests.support.sass import budgets
from tests.support.sass.launches import run
from tests.support.simt.record import Record

LIMIT, LIMIT_WITH_BARRIER = 48, 64  # KB
_BLOCKS = 12  # that are executed, or a few more
_BUDGETS = ("768x768 turned", "16,48,704 turned, all partial", "639x833 turned", "200,33,31 turned, all partial")
_BUDGETS += ("1000x17 turned", "8^6 reversed", "3^11 reversed", "128,64 rows of 256 bytes swapped")
_BUDGETS += ("rows padded, shifted", "copied", "pixels of 3 to planes", "planes to pixels of 3")
_NAMES = {1: "u8", 2: "f16", 4: "f32", 8: "f64", 16: "c128"}


class Launched(NamedTuple):
    """A launch that stands for a variant of a kernel: the places that it moves, and how it is recorded."""

    name: str
    file: str
    places: int
    record: Callable[[], Record]


class Found(NamedTuple):
    """What a launch takes: `instructions` for each place, and KB under way on a multiprocessor.

    share   bytes of the source, relative to half of those on both sides; 1 at most
    """

    registers: int
    in_flight: int
    blocks: int
    has_barrier: bool
    instructions: float
    sectors: tuple[float, float]
    share: float

    @property
    def kilobytes(self):
        return self.in_flight * 256 * self.blocks / 1024

    @property
    def limit(self):
        return self.share * (LIMIT_WITH_BARRIER if self.has_barrier else LIMIT)


def launches():
    """One launch of every kernel and variant, in the order of element sizes."""
    for width, name in _NAMES.items():
        kept = [case for case in budgets.moves(width) if case.name.removeprefix(f"{name} ") in _BUDGETS]
        for case in kept + list(_more(width, name)):
            yield Launched(case.name, case.plan.file, math.prod(a.extent for a in case.move.axes), case.record)
    for case in _packed():
        yield Launched(case.name, case.plan.file, math.prod(axis[0] for axis in case.axes), case.record)
    for case in (
        LookupCase("f32 looked up", "f32[60,70]{1,0:T(7,3)}", "{0,1:T(4,5)(2)}"),
        LookupCase("u4 looked up", "u4[131,67]{1,0:T(4,16)(4,1)E(4)}", "{0,1:E(4)}"),
    ):
        yield Launched(case.name, case.plan.file, math.prod(case.shapes[0].dimensions), case.record)
    for case in itertools.chain(index_cases(), tiled_index_cases()):
        words = f"s32 {case.direction}, {'digits' if case.launch.file == 'index.cu' else 'a program'}"
        yield Launched(words, case.launch.file, case.given.shape[-1], case.record)


def _more(width, name):
    """Variants that the moves of the budgets don't have."""
    yield Case(f"{name} 117,2,3,31,45 turned", transposed(width, (117, 2, 3, 31, 45), (2, 1, 3, 4, 0)))
    yield Case(f"{name} short rows", move_of(width, [(15, 15, 1, 1), (64, 64, 1920, 15), (128, 128, 15, 960)]))
    yield Case(f"{name} copied, shifted", move_of(width, [(50000, 50000, 1, 1)]), 0, width % 16)
    yield Case(f"{name} pixels of 16 to planes", transposed(width, (1 << 14, 16), (1, 0)))
    yield Case(f"{name} planes to pixels of 16", transposed(width, (16, 1 << 14), (1, 0)))
    yield Case(f"{name} every second", move_of(width, [(60000, 60000, 2, 1)]))


def _packed():
    """Packed elements: unpacked, packed, in short and in padded rows, and turned."""
    for bits in (1, 2, 4):
        for pair in ((bits, 8), (8, bits)):
            yield BitsCase(f"{pair[0]} bits to {pair[1]}", ((1 << 16, 1 << 16, 1, 1),), 1 << 16, 0, pair)
        short = (11, 9, 1, 1), (5000, 5000, 9, 11)
        yield BitsCase(f"{bits} bits to 8, short rows", short, 55000, 0, (bits, 8))
        gaps = (1000, 1000, 1, 1), (50, 50, 1001, 1024)
        yield BitsCase(f"{bits} bits to gaps", gaps, 50 * 1000, 0, (bits, bits), (0, 1))
        side = 32 // bits
        tiles = (side, side, 2048, 1), (2048, 2048, 1, side), (2, 2, side * 2048, side * 2048)
        yield BitsCase(f"{bits} bits into tiles", tiles, 2 * side * 2048, 0, (bits, bits))
        turned = (8 * side, 8 * side, 16 * side, 1), (16 * side, 16 * side, 1, 8 * side)
        yield BitsCase(f"{bits} bits turned", turned, 8 * 16 * side * side, 0, (bits, bits))
        if bits > 1:
            wide = (32 * side, 32 * side, 32 * side, 1), (32 * side, 32 * side, 1, 32 * side)
            yield BitsCase(f"{bits} bits turned, in vectors", wide, (32 * side) ** 2, 0, (bits, bits))
        odd = (255, 255, 383, 1), (383, 383, 1, 255)
        yield BitsCase(f"{bits} bits turned, odd", odd, 255 * 383, 0, (bits, bits))


def found(launched, architecture="sm_90"):
    """Execute some blocks of a launch, of all columns of its tiles."""
    record = launched.record()
    blocks = math.prod(record.grid)
    every = next(step for step in range(max(blocks // _BLOCKS, 1), 0, -1) if step == 1 or math.gcd(step, blocks) == 1)
    result = run(record, architecture, every)
    counted, executed = result.counted, len(range(0, blocks, every))
    sides = [counted.traffic[f"global {side}"] for side in ("read", "write")]
    source, target = map(len, result.buffers[:2])
    return Found(
        result.registers,
        counted.in_flight,
        resident_blocks(result.registers, result.shared_bytes, DEVICES[REFERENCE]),
        "BAR" in counted.opcodes,
        32 * counted.issued * blocks / executed / launched.places,
        tuple(side.parts / max(side.least, 1) for side in sides),
        min(2 * source / (source + target), 1),
    )


def table(architecture="sm_90", only=""):
    """The lines of the table; * for those below their limit."""
    yield f"{'launch':34} {'kernel':16} barrier regs blocks flight  KB/SM limit  instr   read  write"
    for launched in launches():
        if only in launched.name:
            took = found(launched, architecture)
            (read, write), mark = took.sectors, "*" if took.kilobytes < took.limit else " "
            yield (
                f"{launched.name:34} {launched.file:16} {'yes' if took.has_barrier else '-':7} {took.registers:4} "
                f"{took.blocks:6} {took.in_flight:6} {took.kilobytes:6.0f} {took.limit:4.0f}{mark} "
                f"{took.instructions:6.2f} {read:6.3f} {write:6.3f}"
            )
