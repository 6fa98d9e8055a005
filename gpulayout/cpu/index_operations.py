"""An `IndexProgram` as operations on whole arrays: what the NumPy backend carries out, one pass over a block for each.

On a CPU a division by a known number is a multiplication, and all operations take about as long.  So what counts is how many
there are, and every sum of quotients is put together in the way that needs the fewest; see `host_sums`.  A quotient that
several sums need is computed once, and a number that is only added up is not computed itself.
"""
from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpulayout.moves.index_program import IndexProgram


@dataclass(frozen=True)
class HostProgram:
    """Operations on words of `bits` bits, and how many registers they need; the first `rows` are the rows of the result."""

    ops: tuple[HostOp, ...]
    registers: int
    rows: int
    bits: int


@functools.lru_cache(maxsize=4096)
def host_program(program: IndexProgram, bits: int, is_checked: bool, given_bytes: int, result_bytes: int) -> HostProgram:
    """The operations.

    bits          that linear indices need: 32 or 64
    is_checked    numbers are compared with their bounds
    given_bytes, result_bytes    of one index; a result of 0 bytes is not computed, one of a word is written where it is computed
    """
    is_whole = program.direction == "linearize" and all(quotient.step == 1 for step in program.steps for quotient in step.adds)
    if is_whole and given_bytes == result_bytes == 8:              # nothing is divided: narrow words are not worth two copies
        bits = 64
    writer = _Writer(program, bits)
    if result_bytes and program.direction != "delinearize":
        writer.write("store", writer.linear(), number=0)
    for position, step in enumerate(program.steps):
        if result_bytes and step.store is not None and program.direction == "delinearize":
            writer.write("store", writer.number(position), number=step.store)
        if is_checked and step.bound is not None and step.load is None:
            writer.check(position, step.bound)
    rows = 0 if 8 * result_bytes != bits else program.rank if program.direction == "delinearize" else 1
    ops, registers = with_registers(list(writer.nodes), rows)
    return HostProgram(ops, registers, rows, bits)


class _Part(NamedTuple):
    """number // step * weight; the number of a step of the program, by its position, or the given linear index, None."""

    number: int | None
    step: int
    weight: int


_Term = tuple[int, Callable[[], int]]         # a weight, and what writes the number that it is of


class _Writer:
    """Nodes in the order in which they are computed; one that is there already is not computed again."""

    def __init__(self, program: IndexProgram, bits: int):
        self.steps, self.word = program.steps, (1 << bits) - 1
        self.nodes: dict[Node, int] = {}
        self.kept: dict[int, int] = {}
        slots: dict[int | None, int | None] = {None: None}
        self.sums = []
        for position, step in enumerate(program.steps):
            self.sums.append([_Part(slots[slot], *quotient) for slot, *quotient in step.terms])
            slots |= {} if step.slot is None else {step.slot: position}
        self.loads = [position for position, step in enumerate(program.steps) if step.load is not None]
        for position, step in enumerate(program.steps):
            if step.slot is not None:
                self.kept[position] = self.number(position)

    def write(self, kind: str, left: int | None = None, right: int | None = None, number: int | None = None) -> int:
        """The position of a node."""
        return self.nodes.setdefault(Node(kind, left, right, number), len(self.nodes))

    def number(self, position: int | None) -> int:
        """The number of a step; the given linear index where it is None."""
        if position in self.kept:
            return self.kept[position]
        if position is None or position in self.loads:
            return self.write("load", number=0 if position is None else self.loads.index(position))
        return self._sum(self.sums[position])

    def linear(self) -> int:
        """The linear index that comes out."""
        return self._sum([_Part(position, *quotient) for position, step in enumerate(self.steps) for quotient in step.adds])

    def check(self, position: int, bound: int) -> None:
        """Compare the number of a step with its bound, or its digits where they are in what it is made of."""
        ways = [lambda: self.write("past", self.number(position), number=bound)]
        terms = sorted(part[1:] for part in self.sums[position])
        limit = limit_in_place(terms, bound, self.word) if len({part.number for part in self.sums[position]}) == 1 else None
        if limit is not None:
            ways.append(lambda: self.write("past", self._in_place(self.sums[position][0].number, limit), number=limit.least))
        self._fewest(ways)

    def _in_place(self, number: int | None, limit: Limit) -> int:
        value = self.number(number)
        if limit.modulus:
            whole = self._times(self._quotient(number, limit.modulus), limit.modulus)
            value = self.write("subtract", value, whole)
        return value if limit.mask == self.word else self.write("mask", value, number=limit.mask)

    def _sum(self, parts: list[_Part]) -> int:
        """The sum, in the way that adds the fewest nodes."""
        return self._fewest([functools.partial(self._weighted, terms, is_cut)
                             for terms in (self._spelled_out(parts), parts) for is_cut in (True, False)])

    def _fewest(self, ways: Iterable[Callable[[], int]]) -> int:
        """What the way gives that adds the fewest nodes, the first of them; only its nodes stay."""
        before, found = self.nodes, []
        for way in ways:
            self.nodes = dict(before)
            found.append((way(), self.nodes))
        node, self.nodes = min(found, key=lambda tried: len(tried[1]))
        return node

    def _spelled_out(self, parts: Iterable[_Part]) -> list[_Part]:
        """The sum with quotients of the given linear index, and of numbers that are kept, in place of those of other numbers."""
        weights: dict[tuple, int] = {}
        for number, step, weight in parts:
            for term in self._terms(number, step):
                weights[term[:2]] = weights.get(term[:2], 0) + term.weight * weight
        return [_Part(*quotient, weight) for quotient, weight in weights.items() if weight]

    def _terms(self, number: int | None, step: int) -> list[_Part]:
        """A quotient of a number as a sum of quotients of what the number is made of, where there is one; else the quotient itself."""
        if number is not None and number not in self.kept and number not in self.loads:
            terms = sorted(self.sums[number], key=lambda term: term.step)
            if step == 1:
                return terms
            found = divided([term[1:] for term in terms], step) if len({term.number for term in terms}) == 1 else None
            if found is not None:
                return [_Part(terms[0].number, *quotient) for quotient in found]
        return [_Part(number, step, 1)]

    def _weighted(self, parts: list[_Part], is_cut: bool) -> int:
        """The sum of quotients times weights; `is_cut` when fields of bits may be moved instead."""
        terms: list[_Term] = []
        for number in dict.fromkeys(part.number for part in parts):
            quotients = sorted(part[1:] for part in parts if part.number == number)
            used, moves = bit_fields(quotients, self.word) if is_cut else (0, {})
            terms += [(weight, functools.partial(self._quotient, number, step)) for step, weight in quotients[used:]]
            terms += [(1, functools.partial(self._moved, number, shift, mask)) for shift, mask in sorted(moves.items(), reverse=True)]
        if not terms:
            return self.write("fill", number=0)
        totals = [(_sign(chain), functools.partial(self._factored, chain)) for chain in chains(terms)]
        total = self._factored(totals)
        return total if _sign(totals) > 0 else self._times(total, self.word)

    def _factored(self, chain: list[_Term]) -> int:
        """A chain's sum, computed from the largest weight to the smallest; negated, where no weight is positive."""
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
        factor &= self.word                                # words wrap: 7 * 2**32 + 5 times a number is 5 times it
        if factor == 1:
            return node
        if factor.bit_count() != 1:
            return self.write("multiply", node, number=factor)
        return self.write("shift_left", node, number=factor.bit_length() - 1)

    def _quotient(self, number: int | None, step: int) -> int:
        value = self.number(number)
        if step == 1:
            return value
        if step & (step - 1):
            return self.write("divide", value, number=step)
        return self.write("shift_right", value, number=step.bit_length() - 1)

    def _moved(self, number: int | None, shift: int, mask: int) -> int:
        """value >> shift & mask, to the left where the shift is negative; a mask that takes nothing away is left out."""
        value = self._quotient(number, 1 << shift) if shift > 0 else self._times(self.number(number), 1 << -shift)
        rest = self.word >> shift if shift > 0 else self.word << -shift & self.word
        return value if mask & rest == rest else self.write("mask", value, number=mask)


def _sign(chain: list[_Term]) -> int:
    return 1 if any(weight > 0 for weight, _ in chain) else -1


# ==== MERGED planning/host_registers
# Where the operations of a host program keep their results: in as few arrays as possible, so that a block stays in the cache.
# 
# An operation writes into the row of the result that it is for, else over an operand that nothing needs afterwards, else into an
# array that is free, else into a new one.

NO_VALUE = ("past", "store")


class Node(NamedTuple):
    """An operation on what the nodes at positions `left` and `right` give, or on `left` and a number.

    load          number-th of the given arrays
    fill          the number everywhere
    add, subtract                                           left with right
    divide, multiply, shift_right, shift_left, mask         left with the number
    past          left is not below the number: no element is there
    store         left is the number-th row of the result
    """

    kind: str
    left: int | None = None
    right: int | None = None
    number: int | None = None


class HostOp(NamedTuple):
    """A node with registers in place of positions, and the one it is written `into`."""

    kind: str
    into: int | None
    left: int | None
    right: int | None
    number: int | None


def with_registers(nodes: Sequence[Node], rows: int) -> tuple[tuple[HostOp, ...], int]:
    """Operations for all nodes that are needed, and the number of registers.

    rows    registers 0..rows-1 are rows of the result: what is stored there is computed there, when it is computed at all

    Registers of given arrays may be the caller's memory, and are written by nothing else.
    """
    needed = _needed(nodes)
    last_use = {operand: position for position in needed for operand in nodes[position][1:3] if operand is not None}
    direct = _rows_written_directly(nodes, rows, last_use)
    place: dict[int, int] = {}
    free: dict[bool, list[int]] = {True: [], False: []}             # those of given arrays, and the others
    ops, count = [], rows
    for position in needed:
        kind, left, right, number = nodes[position]
        if kind == "store" and direct.get(left) == number:
            continue
        dying = [operand for operand in dict.fromkeys((left, right)) if operand is not None and last_use[operand] == position]
        for operand in dying:
            if place[operand] >= rows:
                free[nodes[operand].kind == "load"].append(place[operand])
        operands = (None if left is None else place[left], None if right is None else place[right])
        if kind not in NO_VALUE:
            pool = free[kind == "load"]
            if position in direct:
                place[position] = direct[position]
            elif pool:
                place[position] = pool.pop()
            else:
                place[position], count = count, count + 1
        ops.append(HostOp(kind, place.get(position), *operands, number))
    return tuple(ops), count


def _needed(nodes: Sequence[Node]) -> list[int]:
    """Positions of the nodes that something comes of."""
    needed: set[int] = set()
    for position in reversed(range(len(nodes))):
        if nodes[position].kind in NO_VALUE or position in needed:
            needed |= {position, *(operand for operand in nodes[position][1:3] if operand is not None)}
    return sorted(needed)


def _rows_written_directly(nodes: Sequence[Node], rows: int, last_use: dict[int, int]) -> dict[int, int]:
    """The row that a node's operation writes; given arrays, and rows that equal another, are copied.

    A row takes a running total from its first operation on: for every node in it, one operand that only that node needs.
    """
    found: dict[int, int] = {}
    for kind, left, _, number in nodes:
        if kind == "store" and rows and nodes[left].kind != "load":
            found.setdefault(left, number)
    for total, row in list(found.items()):
        while total is not None:
            found[total] = row
            total = next((operand for operand in nodes[total][1:3] if operand is not None and nodes[operand].kind != "load" and
                          operand not in found and last_use[operand] == total), None)
    return found


# ==== MERGED planning/host_sums
# Sums of quotients in few operations: quotients that are fields of bits are moved, the others factored by their weights.
# 
# A sum of value // step * weight whose steps divide each other is a sum of digits, each with a weight of its own: the quotient's, and
# what the steps below left over.  The columns of f32[4096,4096]{1,0:T(8,128)} are two digits of the place:
# 
#     place - place // 128 * 128 + place // 1024 * 128 - place // 32768 * 4096 == place % 128 * 1 + place // 1024 % 32 * 128
# 
# Digits are fields of bits when steps and weights are powers of two, and the sum moves them.  Those that move equally far take one
# shift and one mask, whatever lies between them:
# 
#     column = place & 127 | place >> 3 & 3968

class Digit(NamedTuple):
    """value // step % extent * weight; an extent of 0 is no limit."""

    step: int
    extent: int
    weight: int


def digits_of(terms: Sequence[tuple[int, int]]) -> list[Digit]:
    """The digits of a sum of terms (step, weight) by step, as long as the steps divide each other; then come terms that are left.

    >>> digits_of([(128, 1), (1024, -8), (32768, 8)])
    [Digit(step=128, extent=8, weight=1), Digit(step=1024, extent=32, weight=0), Digit(step=32768, extent=0, weight=8)]
    """
    digits: list[Digit] = []
    for step, weight in terms:
        if digits:
            below = digits[-1]
            if step % below.step:
                break
            digits[-1] = below._replace(extent=step // below.step)
            weight += below.weight * digits[-1].extent
        digits.append(Digit(step, 0, weight))
    return digits


def bit_fields(terms: Sequence[tuple[int, int]], word: int) -> tuple[int, dict[int, int]]:
    """How many terms (step, weight), in the order of their steps, do nothing but move bits, and what moves: masks by shifts.

    A field is value >> shift & mask, with a negative shift to the left; `word` is the word of ones.

    >>> bit_fields([(1, 1), (128, -128), (1024, 128), (32768, -4096)], 2**32 - 1)
    (4, {0: 127, 3: 3968})
    >>> bit_fields([(1, 1), (128, -128), (1024, 128), (24576, -3072)], 2**32 - 1)
    (3, {0: 127, 3: 4294967168})
    """
    fields = list(itertools.takewhile(_moves_bits, digits_of(terms)))
    moves: dict[int, int] = {}
    for number, (step, extent, weight) in enumerate(fields, 1):
        if weight:
            shift = step.bit_length() - weight.bit_length()
            field = (extent * weight if number < len(fields) else word + 1) - weight       # the last one has no end
            moves[shift] = moves.get(shift, 0) | field & word
    return len(fields), moves


def _moves_bits(digit: Digit) -> bool:
    return digit.weight >= 0 and not digit.step & (digit.step - 1) and not digit.weight & (digit.weight - 1)


def divided(terms: Sequence[tuple[int, int]], divisor: int) -> list[tuple[int, int]] | None:
    """The sum of terms (step, weight) by step, divided, as such a sum; None where its digits tell of none.

    Rows and columns in f32[4096,4096]{1,0:T(8,128)}, in tiles of 8 and 128:

    >>> divided([(128, 1), (1024, -8), (32768, 8)], 8), divided([(1, 1), (128, -128), (1024, 128), (32768, -4096)], 128)
    ([(32768, 1)], [(1024, 1), (32768, -32)])
    """
    digits, found, below = digits_of(terms), [], 0
    if len(digits) < len(terms):
        return None
    for step, extent, weight in digits:
        if weight % divisor == 0:
            found.append(Digit(step, extent, weight // divisor))
            continue
        cut = divisor // weight
        if weight < 0 or divisor % weight or extent % cut and extent > cut:
            return None
        below += (min(extent or cut, cut) - 1) * weight
        if not 0 < extent <= cut:
            found.append(Digit(step * cut, extent // cut, 1))
    return _terms_of(found) if below < divisor else None


def _terms_of(digits: Sequence[Digit]) -> list[tuple[int, int]]:
    weights: dict[int, int] = {}
    for step, extent, weight in digits:
        weights[step] = weights.get(step, 0) + weight
        if extent:
            weights[step * extent] = weights.get(step * extent, 0) - weight * extent
    return [(step, weight) for step, weight in sorted(weights.items()) if weight]


class Limit(NamedTuple):
    """value % modulus & mask >= least; a modulus of 0 is none."""

    modulus: int
    mask: int
    least: int


def limit_in_place(terms: Sequence[tuple[int, int]], bound: int, word: int) -> Limit | None:
    """Where the sum of terms (step, weight) by step is not below a bound, told by its digits where they are; None where they cannot.

    They are as good as the sum when they stand in the same order, and what lies between them is masked away.  A column of
    f32[4096,3999]{1,0:T(8,128)} is padding, 3999 being 31 * 128 + 31, when place & 31 * 1024 + 127 >= 31 * 1024 + 31:

    >>> limit_in_place([(1, 1), (128, -128), (1024, 128), (32768, -4096)], 3999, 2**32 - 1)
    Limit(modulus=0, mask=31871, least=31775)
    """
    digits, limit, weight = digits_of(terms), Limit(0, 0, 0), 1
    if len(digits) < len(terms):
        return None
    while digits and not digits[-1].weight:
        digits.pop()
    for number, (step, extent, digit_weight) in enumerate(digits, 1):
        if digit_weight not in (0, weight) or step & (step - 1):
            return None
        if digit_weight:
            is_last = number == len(digits)                       # the only one whose extent is not a power of two, or no limit
            end = 0 if is_last and extent & (extent - 1) else step * extent
            part = bound // weight if is_last else bound // weight % extent
            limit = Limit(0 if end else step * extent, limit.mask | (end or word + 1) - step, limit.least + part * step)
            weight *= extent
    return limit if digits and limit.least <= word else None


def chains(terms: Sequence[tuple]) -> list[list[tuple]]:
    """The terms (weight, ...) in lists whose weights divide the one before: (a * (x / y) + b) * y is a * x + b * y.

    >>> chains([(31744, "row // 8"), (128, "row"), (896, "column // 128"), (1, "column")])
    [[(31744, 'row // 8'), (128, 'row'), (1, 'column')], [(896, 'column // 128')]]
    """
    found: list[list[tuple]] = []
    for term in sorted(terms, key=lambda term: -abs(term[0])):
        chain = next((chain for chain in found if chain[-1][0] % term[0] == 0), None)
        if chain is None:
            found.append([term])
        else:
            chain.append(term)
    return found
