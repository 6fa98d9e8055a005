"""Elements of 1 and 4 bits: packing them, unpacking them, moving them packed; and the plain ways to write the same.

The lists are made here, for a CPU and a GPU alike.  Everything is uint8, on both sides: a byte holds one element, or the packed
ones, element 0 in its lowest bits.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

from benchmarks.goals import PACKING
from gpulayout import Layout, Shape, Tile


@dataclass(frozen=True)
class PackedCase:
    """A relayout whose elements lie packed on one side or on both.

    packed      "target": it packs; "source": it unpacks; "both"
    dimensions  of the array; of one with tiles the digits (rows of tiles, rows, columns of tiles, columns), from tiles in the order
                in which they lie there
    order       the target's dimensions or digits, most major first; None keeps them
    tiling      "to" or "from": a matrix into whole tiles whose columns lie together, as in T(8,128)(8,1)E(4), or out of them
    goal        the fraction of a plain copy that is wanted on a GPU
    """

    name: str
    element_type: str
    packed: str
    dimensions: tuple[int, ...]
    order: tuple[int, ...] | None = None
    tiling: str = ""
    goal: float | None = None
    group: str = "packed"
    kind: ClassVar[str] = "relayout"

    @property
    def bits(self) -> int:
        """Of an element: 4 of u4."""
        return int(self.element_type[1:])

    @property
    def source(self) -> Shape:
        """The buffer before: C order, or the tiles of a matrix."""
        return self._shape("source", None)

    @property
    def target(self) -> Shape:
        """The buffer after."""
        return self._shape("target", self.order)

    def _shape(self, side: str, order: tuple[int, ...] | None) -> Shape:
        bits = self.bits if self.packed in (side, "both") else 0
        if not self.tiling:
            order = order or range(len(self.dimensions))
            return Shape(self.element_type, self.dimensions, Layout.from_major_to_minor(order, element_size_in_bits=bits))
        digits = self.dimensions if self.tiling == "to" else [self.dimensions[dim] for dim in self.order]
        above, rows, beside, columns = digits
        tiles = (Tile((rows, columns)), Tile((rows, 1))) if (side == "target") == (self.tiling == "to") else ()
        return Shape(self.element_type, (above * rows, beside * columns), Layout((1, 0), tiles=tiles, element_size_in_bits=bits))

    @property
    def element_count(self) -> int:
        return math.prod(self.dimensions)

    @property
    def bytes_moved(self) -> int:
        """Bytes read and bytes written: packed ones where the elements are packed."""
        return self.source.nbytes + self.target.nbytes

    @property
    def bytes_allocated(self) -> int:
        """One input, one output, and what the plain ways hold between: words of two bytes, and elements before and after a transpose."""
        return self.bytes_moved + self.element_count * (3 if self.packed == "both" else 1)


def packed_cases(matrix: tuple[int, int], odd: tuple[int, int]) -> list[PackedCase]:
    """Matrices of u4 packed and unpacked, transposed while they are packed, put into tiles and taken out; and u1.

    matrix   a multiple of (8, 128)
    odd      of another one, whose last byte is half full: powers of two and 1, so that they stay odd when they are halved
    """
    rows, columns = matrix
    size = f"{rows}x{columns}"
    tiled = f"u4 {size} T(8,128)(8,1)E(4)"
    found = [PackedCase(f"{kind} {element_type} {size}", element_type, packed, matrix, goal=PACKING)
             for element_type in ("u4", "u1") for kind, packed in (("pack", "target"), ("unpack", "source"))]
    return found + [
        PackedCase(f"u4 {size}, packed", "u4", "both", matrix, (1, 0)),
        PackedCase(f"u4 {odd[0]}x{odd[1]}, packed, odd", "u4", "both", odd, (1, 0)),
        PackedCase(f"{tiled}, to tiles", "u4", "both", (rows // 8, 8, columns // 128, 128), (0, 2, 3, 1), "to"),
        PackedCase(f"{tiled}, from tiles", "u4", "both", (rows // 8, columns // 128, 128, 8), (0, 3, 1, 2), "from"),
    ]


# ---- the plain ways ------------------------------------------------------------------------------------------

def plain_ways(xp: ModuleType, case: PackedCase) -> list[tuple[str, str, Callable]]:
    """(name, "warm" or "fresh", function of input and output) of each, with NumPy or CuPy."""
    if case.bits == 1:
        return [_bits(xp, case)]
    held = _Held(xp, case)
    found = []
    for name, *both in (("shifts of bytes", _pack_bytes, _unpack_bytes), ("shifts of words", _pack_words, _unpack_words)):
        work = _work(case, *both)
        found += [(f"{xp.__name__} {name}", "warm", lambda given, out, work=work: work(xp, given, out, held)),
                  (f"{xp.__name__} {name}", "fresh",
                   lambda given, _, work=work: work(xp, given, xp.empty(case.target.nbytes, xp.uint8), _Held(xp, case)))]
    return found


class _Held:
    """Memory of the plain ways of a u4 case.

    words           two bytes for each packed one
    before, after   "both": the elements one in a byte, before and after the transpose; an even number of them
    """

    def __init__(self, xp: ModuleType, case: PackedCase):
        count = -(-case.element_count // 2)
        self.words = xp.empty(count, xp.uint16)
        self.before, self.after = (xp.empty(2 * count, xp.uint8) if case.packed == "both" else None for _ in range(2))


def _bits(xp: ModuleType, case: PackedCase) -> tuple[str, str, Callable]:
    name = "packbits" if case.packed == "target" else "unpackbits"
    work = getattr(xp, name)
    return f"{xp.__name__}.{name}", "fresh", lambda given, _: work(given, bitorder="little")


def _work(case: PackedCase, pack: Callable, unpack: Callable) -> Callable:
    """What packs, what unpacks, or unpacking, transposing and packing again."""
    if case.packed != "both":
        return pack if case.packed == "target" else unpack
    count, dimensions = case.element_count, case.dimensions
    sizes = [dimensions[dim] for dim in case.order]

    def turn(xp: ModuleType, given: Any, out: Any, held: _Held) -> Any:
        unpack(xp, given, held.before, held)
        xp.copyto(held.after[:count].reshape(sizes), held.before[:count].reshape(dimensions).transpose(case.order))
        held.after[count:] = 0
        return pack(xp, held.after, out, held)
    return turn


def _pack_bytes(xp: ModuleType, given: Any, out: Any, held: _Held) -> Any:
    """low | high << 4: 3 and 10 become 0xA3."""
    xp.left_shift(given[1::2], 4, out=out)
    return xp.bitwise_or(out, given[0::2], out=out)


def _unpack_bytes(xp: ModuleType, given: Any, out: Any, held: _Held) -> Any:
    xp.bitwise_and(given, 15, out=out[0::2])
    xp.right_shift(given, 4, out=out[1::2])
    return out


def _pack_words(xp: ModuleType, given: Any, out: Any, held: _Held) -> Any:
    """Two elements at once, contiguous: 0x0A03 | 0x0A03 >> 4 is 0x0AA3, whose low byte is 0xA3."""
    words = given.view(xp.uint16)
    xp.right_shift(words, 4, out=held.words)
    xp.bitwise_or(words, held.words, out=held.words)
    xp.copyto(out, held.words, casting="unsafe")
    return out


def _unpack_words(xp: ModuleType, given: Any, out: Any, held: _Held) -> Any:
    """0x00A3 | 0x0A30 is 0x0AB3, of which 0x0F0F leaves 0x0A03."""
    words = out.view(xp.uint16)
    xp.copyto(words, given)
    xp.left_shift(words, 4, out=held.words)
    xp.bitwise_or(words, held.words, out=words)
    xp.bitwise_and(words, 0x0F0F, out=words)
    return out
