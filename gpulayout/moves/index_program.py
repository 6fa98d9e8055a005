"""Index conversion of tiled layouts: a short list of sums of quotients.

A digit of a value, value // step % extent, is a difference of two quotients,

    value // step % extent == value // step - value // (step * extent) * extent

so whatever is put together from digits is a sum of `value // step * weight`: the linear index of coordinates, every coordinate
of a linear index, and the numbers in between.  A quotient that is always 0 is left out.  f32[16,256]{1,0:T(8,128)} has the
digits (dim 1, step 1, extent 128, stride 1), (0, 1, 8, 128), (1, 128, 2, 1024), (0, 8, 2, 2048), so

    linear = row * 128 + row // 8 * 1024 + column + column // 128 * 896                      (9, 130) -> 3202
    column = linear - linear // 128 * 128 + linear // 1024 * 128 - linear // 2048 * 256      3202 -> 130

The values of a place that holds no element may be past their sizes, and one that may is checked against its bound.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulayout.layout.cached import cached_property
from gpulayout.layout.digits import Digit, StrideTable
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.frozen import Frozen
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import stride_table
from gpulayout.moves.index_width import index_bits
from gpulayout.moves.move import check_same_array

MOST_STEPS, MOST_TERMS, MOST_SLOTS = 56, 112, 16        # 4 KB of kernel parameters; slots are a thread's own memory
MOST_VALUES = 256                                       # dimensions and numbers, most of which need no step


class Term(NamedTuple):
    """value // step * weight.  The value is the given linear index, where `slot` is None, or the number kept in a slot."""

    slot: int | None
    step: int
    weight: int


class Quotient(NamedTuple):
    """number // step * weight, of the number at hand."""

    step: int
    weight: int


class Step(NamedTuple):
    """One number: where it comes from, what it must stay below, and what it is good for.

    load     the row of given coordinates it is read from; None for the sum of `terms`
    bound    the place holds no element when the number is not below; None for numbers that always are
    slot     where it is kept for later steps, if anywhere
    store    the row of coordinates it is a result for, if any; of a move that looks places up, its stride in the target
    adds     what it adds to the linear index that comes out
    """

    load: int | None
    terms: tuple[Term, ...]
    bound: int | None
    slot: int | None
    store: int | None
    adds: tuple[Quotient, ...]


@dataclass(frozen=True)
class IndexProgram(Frozen):
    """One direction of index conversion, as steps that are carried out one after the other.

    size     places of the buffer a linear index may point into
    reach    the largest linear index that can come in or go out, plus one
    """

    direction: str
    steps: tuple[Step, ...]
    rank: int
    size: int
    reach: int

    file = "index_program.cu"

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:              # kept: programs are looked up in every call
        return hash((self.direction, self.steps, self.rank, self.size, self.reach))

    @property
    def kernel(self) -> str:
        return f"gpl_{self.direction}_program"

    @property
    def index_bits(self) -> int:
        """32 when linear indices on both sides fit 31 bits, else 64."""
        return index_bits(self.reach)

    @property
    def has_bounds(self) -> bool:
        """True when a sum may be past its bound: some places hold no element."""
        return any(step.bound is not None and step.load is None for step in self.steps)

    @property
    def slots(self) -> int:
        """How many numbers are kept at once."""
        return 1 + max((step.slot for step in self.steps if step.slot is not None), default=-1)


def shape_program(direction: str, shape: Shape) -> IndexProgram:
    """Logical index to linear index, or back."""
    table, builder = _checked_table(shape), _Builder()
    if direction == "linearize":
        sums = builder.put_together(table, [builder.loaded(dim, size) for dim, size in enumerate(table.dimensions)])
    else:
        sums = {}
        for dim, value in enumerate(builder.taken_apart(table)):
            value.store = dim
    return _checked(IndexProgram(direction, builder.steps(sums), shape.rank, shape.buffer_size, shape.buffer_size), shape)


def convert_program(source: Shape, target: Shape) -> IndexProgram:
    """Linear index in `source` to linear index in `target`; LayoutError unless both describe the same logical array."""
    check_same_array(source, target)
    builder, tables = _Builder(), (_checked_table(source), _checked_table(target))
    sums = builder.put_together(tables[1], builder.taken_apart(tables[0]))
    return _checked(IndexProgram("convert_linear", builder.steps(sums), source.rank, source.buffer_size,
                                 max(source.buffer_size, target.buffer_size)), source)


def place_program(numbered: Shape, source: Shape | Sequence[int], unit: int, apart: Sequence[int], reach: int) -> IndexProgram:
    """From the number of every place of `numbered` to the place in a source, which is a buffer or an array.

    source   a shape, whose places are counted in `unit`s, or the strides of an array
    apart    strides of the array that the elements of `numbered` go to, if it has its own: each step stores a multiple of one
    reach    how far apart places are on any side
    """
    builder = _Builder()
    coordinates = builder.taken_apart(_checked_table(numbered))
    if isinstance(source, Shape):
        sums = {term: unit * weight for term, weight in builder.put_together(_checked_table(source), coordinates).items()}
    else:
        sums = {(value, 1): stride for value, stride in zip(coordinates, source) if stride}
    for value, stride in zip(coordinates, apart):
        value.store = stride or None
    return _checked(IndexProgram("lookup", builder.steps(sums), numbered.rank, numbered.buffer_size, max(reach, numbered.buffer_size)), numbered)


def _checked_table(shape: Shape) -> StrideTable:
    """The stride table; LayoutError where it has so many numbers that making the program, in quadratic time, is not worth it."""
    table = stride_table(shape)
    if len(table.sizes) > MOST_VALUES:
        raise LayoutError(f"{shape} has {len(table.sizes)} dimensions and numbers: {MOST_VALUES} is the limit for index conversion of "
                          "tiled layouts")
    return table


def _checked(program: IndexProgram, shape: Shape) -> IndexProgram:
    terms = sum(len(step.terms) + len(step.adds) for step in program.steps)
    for count, limit, what in ((len(program.steps), MOST_STEPS, "numbers"), (terms, MOST_TERMS, "quotients"),
                               (program.slots, MOST_SLOTS, "numbers at once")):
        if count > limit:
            raise LayoutError(f"{shape} needs {count} {what}: {limit} is the limit for index conversion of tiled layouts")
    return program


# ---- how a program is made -------------------------------------------------------------------------------------

@dataclass(eq=False)
class _Value:
    """A number of the program; `terms` are weights by (value, step), and a value of None is the given linear index."""

    size: int
    load: int | None = None
    terms: dict[tuple[_Value | None, int], int] = field(default_factory=dict)
    is_checked: bool = False
    store: int | None = None


class _Builder:
    """Values in the order in which they are computed."""

    def __init__(self):
        self.values: list[_Value] = []

    def loaded(self, dim: int, size: int) -> _Value:
        """A given coordinate."""
        return self._new(_Value(size, load=dim, is_checked=True))

    def put_together(self, table: StrideTable, coordinates: Iterable[_Value]) -> dict:
        """The terms of the linear index; the table's numbers are computed on the way."""
        values = list(coordinates)
        for digits, size in zip(table.numbers, table.sizes[len(table.dimensions):]):
            values.append(self._new(_Value(size, terms=_pieces(digits, values))))
        return _pieces(table.digits, values)

    def taken_apart(self, table: StrideTable) -> list[_Value]:
        """The coordinates of the given linear index.  Numbers come first, the last of them before all others."""
        values = [_Value(size) for size in table.sizes]
        rank, largest = len(table.dimensions), [0] * len(values)
        numbers = [(value, value.size, digits) for value, digits in zip(values[rank:], table.numbers)]
        for number, size, digits in [(None, table.buffer_size, table.digits), *numbers]:
            for digit in digits:
                _add_quotients(values[digit.dim].terms, (number, size), digit.stride, digit.extent, digit.step)
                largest[digit.dim] += (digit.extent - 1) * digit.step
        for value, most in zip(values, largest):
            value.is_checked = most >= value.size
        self.values += values[rank:][::-1] + values[:rank]
        return values[:rank]

    def steps(self, sums: dict) -> tuple[Step, ...]:
        """The steps, with a slot for every number that later ones need; one that nobody needs any more frees its slot."""
        self._write_sums_out()
        places = {value: place for place, value in enumerate(self.values)}
        last_use = {of: place for value, place in places.items() for of, _ in value.terms}
        adds = {value: tuple(sorted(Quotient(step, weight) for (of, step), weight in sums.items() if of is value)) for value in places}
        slots: dict[_Value, int] = {}
        found = []
        for value, place in places.items():
            if value.load is None and not (value.is_checked or value.store is not None or adds[value] or value in last_use):
                continue
            terms = [Term(slots.get(of), step, weight) for (of, step), weight in value.terms.items()]
            terms.sort(key=lambda term: (term.slot is not None, term))
            slots = {kept: slot for kept, slot in slots.items() if last_use[kept] > place}
            if value in last_use:
                slots[value] = min(set(range(len(slots) + 1)) - set(slots.values()))
            found.append(Step(value.load, tuple(terms), value.size if value.is_checked else None, slots.get(value), value.store,
                              adds[value]))
        return tuple(found)

    def _new(self, value: _Value) -> _Value:
        self.values.append(value)
        return value

    def _write_sums_out(self) -> None:
        """Where a number is only ever needed whole, the terms that it is made of take its place, and it needs no slot."""
        for value in self.values:
            users = [user for user in self.values if any(of is value for of, _ in user.terms)]
            if value.load is None and all(step == 1 for user in users for of, step in user.terms if of is value):
                for user in users:
                    weight = user.terms.pop((value, 1))
                    for term, other in value.terms.items():
                        _add(user.terms, term, weight * other)


def _pieces(digits: Sequence[Digit], values: Sequence[_Value]) -> dict:
    """The terms of a number with these digits."""
    terms: dict = {}
    for digit in digits:
        value = values[digit.dim]
        _add_quotients(terms, (value, value.size), digit.step, digit.extent, digit.stride)
    return terms


def _add_quotients(terms: dict, value: tuple[_Value | None, int], step: int, extent: int, weight: int) -> None:
    """Add value // step % extent * weight, as quotients; one of a step that the value does not reach is 0."""
    number, size = value
    _add(terms, (number, step), weight if step < size else 0)
    _add(terms, (number, step * extent), -extent * weight if step * extent < size else 0)


def _add(terms: dict, term: tuple[_Value | None, int], weight: int) -> None:
    weight += terms.pop(term, 0)
    if weight:
        terms[term] = weight
