"""The copies of a move that looks up every place: its index program says for each element where it comes from."""

from __future__ import annotations

import numpy as np

from gpulayout.moves.copies import Columns, Numbers, clipped, numbered
from gpulayout.moves.index_program import IndexProgram
from gpulayout.moves.lookup_move import LookupMove


class LookedUpCopies:
    """`Copies` of a look-up of whole bytes, to a buffer.

    of_target   the bytes of the target stand for those of the source too
    """

    def __init__(self, move: LookupMove, *, of_target: bool = False):
        self.move, self.of_target = move, of_target
        self.low, self.high, self.width = 0, move.place_count * move.itemsize, 1
        self.count = move.place_count

    def window(self, begins: Numbers, ends: Numbers) -> LookedUpWindow:
        """See `Copies.window`."""
        return LookedUpWindow(self, begins, ends)


class LookedUpWindow:
    """`CopyWindow` of a look-up.  `count` takes padding for elements."""

    def __init__(self, copies: LookedUpCopies, begins: Numbers, ends: Numbers):
        self._copies, self._begins, self._ends = copies, begins, ends
        size = copies.move.itemsize
        high = copies.move.place_count
        self._first = np.minimum(begins // size, high)
        self._counts = np.minimum((ends - 1) // size + 1, high) - self._first
        self.count = int(self._counts.sum())

    def columns(self) -> Columns:
        """See `CopyWindow.columns`."""
        size = self._copies.move.itemsize
        interval, number = numbered(self._counts)
        number += self._first[interval]
        source, is_element = looked_up(self._copies.move.program, number)
        source, number, interval = source[is_element], number[is_element] * size, interval[is_element]
        source = number if self._copies.of_target else source
        return clipped(source, number, np.full_like(number, size), self._begins[interval], self._ends[interval])


def looked_up(program: IndexProgram, places: Numbers) -> tuple[Numbers, Numbers]:
    """Where the elements of places lie in the source, and which places have one; the others have any number."""
    found, is_element = np.zeros_like(places), np.ones(places.shape, bool)
    registers: dict[int | None, Numbers] = {None: places}
    for _, terms, bound, register, _, adds in program.instructions:
        value = np.zeros_like(places)
        for term in terms:
            value += registers[term.register] // term.divisor * term.weight
        if bound is not None:
            is_element &= value < bound
        if register is not None:
            registers[register] = value
        for divisor, weight in adds:
            found += value // divisor * weight
    return found, is_element
