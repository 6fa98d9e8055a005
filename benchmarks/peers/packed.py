"""Plain code to pack, unpack and transpose elements of 1 and 4 bits, with shifts and masks of NumPy or CuPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

from benchmarks.cases.case import MoveCase
from benchmarks.peers.contender import Contender, in_turn


def plain_ways(xp: ModuleType, case: MoveCase, pairs: list[tuple]) -> list[Contender]:
    """Shifts on single elements and on two at once, into warm and into fresh memory; bits have functions of their
    own.
    """
    if case.bits == 1:
        name = "packbits" if case.packed == "target" else "unpackbits"
        work = getattr(xp, name)
        return [
            Contender(f"{xp.__name__}.{name}", "fresh", in_turn(pairs, lambda given, _: work(given, bitorder="little")))
        ]
    held, size = _Held(xp, case), case.target.nbytes
    found = []
    for name, pack, unpack in (
        ("shifts of bytes", _pack_bytes, _unpack_bytes),
        ("shifts of words", _pack_words, _unpack_words),
    ):
        work = _work(case, pack, unpack)
        for output, call in (
            ("warm", lambda given, out, work=work: work(xp, given, out, held)),
            ("fresh", lambda given, _, work=work: work(xp, given, xp.empty(size, xp.uint8), _Held(xp, case))),
        ):
            found.append(Contender(f"{xp.__name__} {name}", output, in_turn(pairs, call)))
    return found


class _Held:
    """Memory for the plain code of a u4 case.

    words           two bytes for each packed one
    before, after   "both": one element per byte, before and after the transpose; an even number of them
    """

    def __init__(self, xp: ModuleType, case: MoveCase):
        count = -(-math.prod(case.dimensions) // 2)
        self.words = xp.empty(count, xp.uint16)
        self.before, self.after = (xp.empty(2 * count, xp.uint8) if case.packed == "both" else None for _ in range(2))


def _work(case: MoveCase, pack: Callable, unpack: Callable) -> Callable:
    """The function that packs, the one that unpacks, or one that unpacks, transposes and packs again."""
    if case.packed != "both":
        return pack if case.packed == "target" else unpack
    count, dimensions = math.prod(case.dimensions), case.dimensions
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
    """0x00A3 | 0x0A30 is 0x0AB3, and masking with 0x0F0F leaves 0x0A03."""
    words = out.view(xp.uint16)
    xp.copyto(words, given)
    xp.left_shift(words, 4, out=held.words)
    xp.bitwise_or(words, held.words, out=words)
    xp.bitwise_and(words, 0x0F0F, out=words)
    return out
