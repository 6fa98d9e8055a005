"""Turns an `IndexProgram` into operations on whole arrays, each one pass of NumPy over a block.

NumPy divides by a constant with a multiplication, so all operations take about the same time and only their number
matters.  Every sum of quotients is computed with the fewest operations, and a quotient that several sums need is
computed once.  Each technique saves operations or passes; the second column names a conversion that needs it:

    sums written out: no coordinates between two linear indices    f32[512,300,700] to column-major
    numbers kept whole in sums when that is shorter                from f32[256,300]{0,1:T(2,*,8)}
    bit fields moved, `bit_fields`                                 places of bf16 T(8,128)(2,1), 64-bit
    quotients of sums, `divided`                                   to f32[4096,4096]{1,0:T(8,128)}
    weights factored, `chains`                                     places of f32[1000,3000] T(7,11)(3,1)
    bounds checked in place, `limit_in_place`                      places of f32[4096,3999] T(8,128)
    rows of the result computed in place                           places of a shape of rank 6
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.cpu.index_registers import HostOp, Node, with_registers
from gpulayout.cpu.index_sums import Limit, bit_fields, chains, divided, limit_in_place
from gpulayout.moves.index_program import IndexProgram


@dataclass(frozen=True)
class HostProgram:
    """Operations on words of `bits` bits, and the number of registers; the first `rows` registers are the result."""

    ops: tuple[HostOp, ...]
    registers: int
    rows: int
    bits: int


# Takes longer than all else in a call on a few indices.  An entry takes 1 to 3 KB.
@functools.lru_cache(maxsize=1024)
def host_program(
    program: IndexProgram, bits: int, is_checked: bool, given_bytes: int, result_bytes: int
) -> HostProgram:
    """The operations of an index program.

    bits           width of linear indices: 32 or 64
    is_checked     numbers are compared with their bounds
    given_bytes    of one given index
    result_bytes   of one resulting index; 0 computes no result, and a result as wide as a word is computed in place
    """
    # Narrow words are copied twice, once in each direction, which pays only where they make a division faster.
    if program.is_dot_product and given_bytes == result_bytes == 8:
        bits = 64
    writer = _NodeWriter(program, bits, is_checked and program.direction == "linearize")
    if result_bytes and program.direction != "delinearize":
        writer.write("store", writer.linear(), number=0)
    for position, instruction in enumerate(program.instructions):
        if result_bytes and instruction.store is not None and program.direction == "delinearize":
            writer.write("store", writer.number(position), number=instruction.store)
        if is_checked and instruction.load is not None:
            writer.number(position)
        elif is_checked and instruction.bound is not None:
            writer.check(position, instruction.bound)
    rows = 0 if 8 * result_bytes != bits else program.rank if program.direction == "delinearize" else 1
    ops, registers = with_registers(list(writer.nodes), rows)
    return HostProgram(ops, registers, rows, bits)


class _Addend(NamedTuple):
    """number // divisor * weight.  `number` is the position of an instruction, or None for the given linear index."""

    number: int | None
    divisor: int
    weight: int


_WeightedNode = tuple[int, Callable[[], int]]  # a weight, and a function that writes the node of its number


class _NodeWriter:
    """Collects nodes in the order in which they are computed.  Equal nodes are computed once."""

    def __init__(self, program: IndexProgram, bits: int, checks_loads: bool):
        self.instructions, self.word, self.checks_loads = program.instructions, (1 << bits) - 1, checks_loads
        self.nodes: dict[Node, int] = {}
        self.kept: dict[int, int] = {}
        holds: dict[int | None, int | None] = {None: None}  # the position of the number that a register holds
        self.sums = []
        for position, instruction in enumerate(self.instructions):
            self.sums.append([_Addend(holds[register], *quotient) for register, *quotient in instruction.terms])
            holds |= {} if instruction.register is None else {instruction.register: position}
        self.loads = [
            position for position, instruction in enumerate(self.instructions) if instruction.load is not None
        ]
        for position, instruction in enumerate(self.instructions):
            if instruction.register is not None:
                self.kept[position] = self.number(position)

    def write(self, kind: str, left: int | None = None, right: int | None = None, number: int | None = None) -> int:
        """The position of a node; adds it unless it exists."""
        return self.nodes.setdefault(Node(kind, left, right, number), len(self.nodes))

    def number(self, position: int | None) -> int:
        """The node of an instruction's number; a position of None is the given linear index."""
        if position in self.kept:
            return self.kept[position]
        if position is None or position in self.loads:
            number = 0 if position is None else self.loads.index(position)
            node = self.write("load", number=number)
            if self.checks_loads:  # at once: what a check has read into the cache is then computed with
                self.write("outside", node, number=number)
            return node
        return self._sum(self.sums[position])

    def linear(self) -> int:
        """The node of the resulting linear index."""
        return self._sum(
            [
                _Addend(position, *quotient)
                for position, instruction in enumerate(self.instructions)
                for quotient in instruction.adds
            ]
        )

    def check(self, position: int, bound: int) -> None:
        """Compare the number of an instruction with its bound, or compare its digits in place."""
        ways = [lambda: self.write("past", self.number(position), number=bound)]
        terms = sorted(part[1:] for part in self.sums[position])
        limit = (
            limit_in_place(terms, bound, self.word) if len({part.number for part in self.sums[position]}) == 1 else None
        )
        if limit is not None:
            ways.append(
                lambda: self.write("past", self._in_place(self.sums[position][0].number, limit), number=limit.least)
            )
        self._fewest(ways)

    def _in_place(self, number: int | None, limit: Limit) -> int:
        value = self.number(number)
        if limit.modulus:
            whole = self._times(self._quotient(number, limit.modulus), limit.modulus)
            value = self.write("subtract", value, whole)
        return value if limit.mask == self.word else self.write("mask", value, number=limit.mask)

    def _sum(self, parts: list[_Addend]) -> int:
        """The node of the sum, computed in the way that adds the fewest nodes."""
        return self._fewest(
            [
                functools.partial(self._weighted, terms, is_cut)
                for terms in (self._spelled_out(parts), parts)
                for is_cut in (True, False)
            ]
        )

    def _fewest(self, ways: Iterable[Callable[[], int]]) -> int:
        """The result of the first way that adds the fewest nodes.  Only the nodes of that way are kept."""
        before, found = self.nodes, []
        for way in ways:
            self.nodes = dict(before)
            found.append((way(), self.nodes))
        node, self.nodes = min(found, key=lambda tried: len(tried[1]))
        return node

    def _spelled_out(self, parts: Iterable[_Addend]) -> list[_Addend]:
        """The sum in quotients of the given linear index and of kept numbers only."""
        weights: dict[tuple[int | None, int], int] = {}
        for number, divisor, weight in parts:
            for term in self._terms(number, divisor):
                weights[term[:2]] = weights.get(term[:2], 0) + term.weight * weight
        return [_Addend(*quotient, weight) for quotient, weight in weights.items() if weight]

    def _terms(self, number: int | None, divisor: int) -> list[_Addend]:
        """A quotient of a number as a sum of quotients of the number's terms, if there is one; else the quotient."""
        if number is not None and number not in self.kept and number not in self.loads:
            terms = sorted(self.sums[number], key=lambda term: term.divisor)
            if divisor == 1:
                return terms
            found = (
                divided([term[1:] for term in terms], divisor) if len({term.number for term in terms}) == 1 else None
            )
            if found is not None:
                return [_Addend(terms[0].number, *quotient) for quotient in found]
        return [_Addend(number, divisor, 1)]

    def _weighted(self, parts: list[_Addend], is_cut: bool) -> int:
        """The node of a sum of quotients times weights; with `is_cut`, bit fields are moved where possible."""
        terms: list[_WeightedNode] = []
        for number in dict.fromkeys(part.number for part in parts):
            quotients = sorted(part[1:] for part in parts if part.number == number)
            used, moves = bit_fields(quotients, self.word) if is_cut else (0, {})
            terms += [
                (weight, functools.partial(self._quotient, number, divisor)) for divisor, weight in quotients[used:]
            ]
            terms += [
                (1, functools.partial(self._moved, number, shift, mask))
                for shift, mask in sorted(moves.items(), reverse=True)
            ]
        if not terms:
            return self.write("fill", number=0)
        totals: list[_WeightedNode] = [
            (_sign(chain), functools.partial(self._factored, chain)) for chain in chains(terms)
        ]
        total = self._factored(totals)
        return total if _sign(totals) > 0 else self._times(total, self.word)

    def _factored(self, chain: list[_WeightedNode]) -> int:
        """The node of a chain's sum, from the largest weight to the smallest; negated when no weight is positive."""
        (before, first), *others = chain
        total, is_negated = first(), before < 0
        for weight, value in others:
            total = self._times(total, abs(before // weight))
            if (weight < 0) == is_negated:
                total = self.write("add", total, value())
            elif is_negated:
                total, is_negated = self.write("subtract", value(), total), False
            else:
                total = self.write("subtract", total, value())
            before = weight
        return self._times(total, abs(before))

    def _times(self, node: int, factor: int) -> int:
        factor &= self.word  # words wrap: in 32 bits, a factor of 7 * 2**32 + 5 acts as 5
        if factor == 1:
            return node
        if factor.bit_count() != 1:
            return self.write("multiply", node, number=factor)
        return self.write("shift_left", node, number=factor.bit_length() - 1)

    def _quotient(self, number: int | None, divisor: int) -> int:
        value = self.number(number)
        if divisor == 1:
            return value
        if divisor & (divisor - 1):
            return self.write("divide", value, number=divisor)
        return self.write("shift_right", value, number=divisor.bit_length() - 1)

    def _moved(self, number: int | None, shift: int, mask: int) -> int:
        """value >> shift & mask; a negative shift is to the left, and a mask that clears no bit is left out."""
        value = self._quotient(number, 1 << shift) if shift > 0 else self._times(self.number(number), 1 << -shift)
        rest = self.word >> shift if shift > 0 else self.word << -shift & self.word
        return value if mask & rest == rest else self.write("mask", value, number=mask)


def _sign(chain: list[_WeightedNode]) -> int:
    return 1 if any(weight > 0 for weight, _ in chain) else -1
