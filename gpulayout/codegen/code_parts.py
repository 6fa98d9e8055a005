"""What generated code has in every language: a heading with the law and an example, the bodies of its functions, and
what becomes of elements.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpulayout.layout.checks import counted
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import is_big, stride_table
from gpulayout.moves.arithmetic import Arithmetic
from gpulayout.moves.index_program import IndexProgram, delinearize_program, linearize_program
from gpulayout.requests.arithmetic import OPTIONS, ElementChange

WIDTH = 112  # columns before indentation; what is longer goes on in the next line
_UINT32_VALUES = 2**32


class Dialect(NamedTuple):
    """How a language writes numbers.

    comment  what begins a comment
    divide   the operator of whole division
    bits     of unsigned numbers, 32 or 64; None where numbers have no fixed width
    """

    comment: str
    divide: str
    bits: int | None


def coordinates(shape: Shape) -> list[str]:
    """The names of the coordinates: i0, i1, ..."""
    return [f"i{dim}" for dim in range(shape.rank)]


def limit(shape: Shape) -> int:
    """No place from this number on holds an element."""
    return shape.buffer_size if shape.element_count else 0


def load(shape: Shape, dialect: Dialect) -> tuple[str, str] | None:
    """What the function `load` is, as a sentence, and its value: the bits of the packed element at `linear`.

    None unless elements are packed and none crosses a byte.
    """
    bits = shape.bits_per_element
    if bits not in (1, 2, 4):
        return None
    per_byte, times = 8 // bits, f" * {bits}" if bits > 1 else ""
    end, slot = "low", f"linear % {per_byte}"
    if is_big(shape):
        end, slot = "high", f"({per_byte - 1} - {slot})"
    value = f"buffer[linear {dialect.divide} {per_byte}] >> {slot}{times} & {2**bits - 1}"
    return f"The bits of a packed element.  Element 0 is in the {end} bits of byte 0.", value


def heading(shape: Shape, dialect: Dialect, call: str, example: str) -> str:
    """What the code is about, the law for tiles, and an example; as comments.

    call      what `offset` is called
    example   text with {linear} and {index} for those of the last element
    """
    dynamic = "; dynamic dimensions count with their bounds" if shape.is_dynamic else ""
    lines = [
        f"{shape}: {counted(shape.element_count, 'element')} in a buffer of {shape.buffer_size}.  "
        f"All numbers count elements{dynamic}."
    ]
    if shape.element_count:
        index = [size - 1 for size in shape.dimensions]
        linear, listed = stride_table(shape).linear_of(index), ", ".join(map(str, index))
        lines.append(f"{call}({listed}) is {linear}, and {example.format(linear=linear, index=listed)}.")
        lines += _law(shape, dialect)
    return "".join(f"{dialect.comment} {part}\n" for line in lines for part in wrapped(line, ""))


def wrapped(text: str, indent: str = "    ") -> list[str]:
    """The text in lines of at most `WIDTH` columns, where it has blanks; all but the first are indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def wrapped_code(text: str) -> list[str]:
    """The same for a declaration or statement; `index_t* out0,` and `size0 = 2,` are never split."""
    return [line.replace("\0", " ") for line in wrapped(re.sub(r" (?==|\w+[,;)])", "\0", text))]


def _law(shape: Shape, dialect: Dialect) -> list[str]:
    """For tiles, the digits of the linear index, and of the numbers that it needs besides the coordinates."""
    table = stride_table(shape)
    if table.is_strided:
        return []
    names = [*coordinates(shape), *(f"m{number}" for number in range(len(table.numbers)))]
    lines = ["The law (below, x % n may be x - x / n * n, and terms with the same quotient are added up):"]
    for result, digits in zip([*names[shape.rank :], "linear"], table.turning):
        terms = []
        for dim, step, extent, stride in digits:
            term = names[dim] + (f" {dialect.divide} {step}" if step != 1 else "")
            terms.append(term + (f" % {extent}" if extent else "") + (f" * {stride}" if stride != 1 else ""))
        lines.append(f"  {result} = {' + '.join(terms) or '0'}")
    return lines


# ---- bodies: an index program as assignments -------------------------------------------------------------------------
#
# `index_program` has the law.  f32[16,300]{1,0:T(8,128)} gives, with a quotient that occurs twice computed once:
#
#     offset   i0 * 128 + i0 / 8 * 2048 + i1 + i1 / 128 * 896
#     index    linear_by_3072 = linear / 3072
#              i0 = linear / 128 % 8 + linear_by_3072 * 8
#              i1 = linear % 128 + linear / 1024 * 128 - linear_by_3072 * 384
#
# x % n is written as a remainder if n is a power of two, or if nothing else needs x / n.  Otherwise x - x / n * n takes
# fewer instructions: compilers do not see that (linear / 3) / 5 and linear / 15 are the same quotient.


class Body(NamedTuple):
    """What a function computes.

    assignments   names and their values, in order
    total         the resulting linear index; "" when the program gives none
    bounds        the place has no element unless each of these names is below its number
    used          names that values depend on
    """

    assignments: tuple[tuple[str, str], ...]
    total: str
    bounds: tuple[tuple[str, int], ...]
    used: frozenset[str]


def bodies(shape: Shape, dialect: Dialect) -> tuple[Body, Body]:
    """The bodies of `offset` and `index`.  Without elements there is nothing to find, and everything is 0."""
    if not shape.element_count:
        zeros = tuple((name, "0") for name in coordinates(shape))
        return Body((), "0", (), frozenset()), Body(zeros, "", (), frozenset())
    there, back = linearize_program(shape, for_kernel=False), delinearize_program(shape, for_kernel=False)
    return body_of(there, dialect), body_of(back, dialect)


class _Part(NamedTuple):
    """name // divisor % modulus * weight, one term of a sum.  Without a remainder, `modulus` is 0."""

    name: str
    divisor: int
    modulus: int
    weight: int


def body_of(program: IndexProgram, dialect: Dialect) -> Body:
    """The program as text.  A coordinate is called i0, i1, ..., the given linear index `linear`."""
    names, sizes, total = ["linear"], {"linear": program.size}, []
    registers: dict[int | None, str] = {None: "linear"}
    sums: dict[str, list[_Part]] = {}
    for position, step in enumerate(program.instructions):
        dim = step.store if step.load is None else step.load
        name = f"n{position}" if dim is None else f"i{dim}"
        if step.load is None:
            sums[name] = [_Part(registers[term.register], term.divisor, 0, term.weight) for term in step.terms]
        names.append(name)
        sizes[name] = step.bound or _size(sums[name], sizes)
        if step.register is not None:
            registers[step.register] = name
        total += [_Part(name, add.divisor, 0, add.weight) for add in step.adds]
    writer = _Writer(dialect, sizes, [*sums.values(), total])
    assignments = []
    for name in names:
        if name in sums:
            assignments.append((name, writer.text(sums[name])))
        assignments += writer.quotients(name)
    bounds = [(name, step.bound) for name, step in zip(names[1:], program.instructions) if name in sums and step.bound]
    return Body(tuple(assignments), writer.text(total), tuple(bounds), frozenset(writer.names))


def _size(parts: Sequence[_Part], sizes: dict[str, int]) -> int:
    """A number above every value of a sum for an element."""
    return 1 + sum((sizes[part.name] - 1) // part.divisor * part.weight for part in parts if part.weight > 0)


class _Writer:
    """Writes sums, and the quotients that they need more than once.

    sizes   above the largest value of each name
    """

    def __init__(self, dialect: Dialect, sizes: dict[str, int], sums: Sequence[list[_Part]]) -> None:
        self.dialect, self.sizes = dialect, sizes
        uses = Counter((part.name, part.divisor) for parts in sums for part in parts)
        self.names = {name for name, _ in uses}
        self.shared = {quotient for quotient, count in uses.items() if count > 1}
        remaining = Counter((part.name, part.divisor) for parts in sums for part in self._with_remainders(parts))
        self.kept = {
            (name, divisor)
            for (name, divisor), count in remaining.items()
            if not _is_power_of_two(divisor) and (count > 1 or dialect.bits == 64)
        }

    def quotients(self, name: str) -> list[tuple[str, str]]:
        """The quotients of a name that are kept, smallest divisor first.

        A GPU divides 64 bits in some 12 instructions and 32 bits in 3.  So values that fit are divided in 32 bits, and
        once a quotient of a larger value fits, it is divided in the value's place: a value's digits are a mixed radix,
        so that each divisor divides the next.
        """
        quotients, size, source, below = [], self.sizes[name], name, 1
        for divisor in sorted(divisor for of, divisor in self.kept if of == name):
            is_narrow = self.dialect.bits == 64 and (size - 1) // below < _UINT32_VALUES
            quotient = f"{name}_by_{divisor}"
            cast = "(unsigned int)" if is_narrow else ""
            quotients.append((quotient, f"{cast}{source} {self.dialect.divide} {divisor // below}"))
            if self.dialect.bits == 64 and _UINT32_VALUES < size and (size - 1) // divisor < _UINT32_VALUES:
                source, below = quotient, divisor
        return quotients

    def text(self, parts: list[_Part]) -> str:
        """A sum; what is subtracted comes last, so that no partial sum is negative."""
        written = ""
        for part in sorted(self._with_remainders(parts), key=lambda part: part.weight < 0):
            text = part.name if part.divisor == 1 else f"{part.name} {self.dialect.divide} {part.divisor}"
            if (part.name, part.divisor) in self.kept:
                text = f"{part.name}_by_{part.divisor}"
            text += f" % {part.modulus}" if part.modulus else ""
            text += f" * {abs(part.weight)}" if abs(part.weight) != 1 else ""
            written += f" {'-' if part.weight < 0 else '+'} {text}"
        return written.removeprefix(" + ") or "0"

    def _with_remainders(self, parts: list[_Part]) -> list[_Part]:
        """The same sum with remainders where they cost nothing: x - x // 8 * 8 as x % 8."""
        merged, rest = [], list(parts)
        while rest:
            part = rest.pop(0)
            for other in rest:
                modulus = other.divisor // part.divisor
                is_remainder = other == (part.name, part.divisor * modulus, 0, -part.weight * modulus)
                is_shared = (part.name, other.divisor) in self.shared
                if is_remainder and (_is_power_of_two(modulus) or not is_shared):
                    rest.remove(other)
                    part = part._replace(modulus=modulus)
                    break
            merged.append(part)
        return merged


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


# ---- what `convert` does, in any language ----------------------------------------------------------------------------

# `convert` takes an element of the source and the numbers of the parameter arrays that apply to it.  A parameter with
# one number for the whole array is a constant in the text.
#
#     u8[8,3] to f32, scale 0.5, a shift for each column:    convert(x, shift) is x * scale + shift

SYMBOLS = {"multiply": "*", "add": "+", "subtract": "-", "divide": "/"}


class Operand(NamedTuple):
    """An operand of the steps.

    constant   its number if it is the same for all elements; else None, and the caller passes it
    position   of the number for an element in the plan's array, as text
    """

    name: str
    constant: float | None
    position: str = ""


class ConvertFunction(NamedTuple):
    """The arithmetic of a plan, and its parameters in order."""

    arithmetic: Arithmetic
    parameters: tuple[Operand, ...]

    @property
    def arguments(self) -> list[Operand]:
        """The parameters that a caller passes, in the order of the keywords: scale before zero_point."""
        arguments = [operand for operand in self.parameters if operand.constant is None]
        return sorted(arguments, key=lambda operand: OPTIONS.index(operand.name))

    @property
    def constants(self) -> list[tuple[str, float]]:
        """The names and numbers of the other ones."""
        return [(operand.name, operand.constant) for operand in self.parameters if operand.constant is not None]

    @property
    def steps(self) -> Iterator[tuple[str, str]]:
        """For each step its symbol and the name of its operand; ("", "") rounds to the nearest integer."""
        for operation, number in self.arithmetic.steps:
            yield ("", "") if number is None else (SYMBOLS[operation], self.parameters[number].name)

    @property
    def formula(self) -> str:
        """The steps as one line, such as (x - mean) / std."""
        text = "x"
        for symbol, name in self.steps:
            operand = f"({text})" if symbol in "*/" and ("+" in text or "-" in text) else text
            text = f"{operand} {symbol} {name}" if name else f"rint({text})"
        return text


def conversion_of(change: ElementChange, source: Shape) -> ConvertFunction:
    """What a plan does to an element of this source.

    TypeError for complex numbers, LayoutError for constants that have no literal.
    """
    arithmetic = change.arithmetic
    if arithmetic.source.is_complex:
        raise TypeError(
            f"convert from {arithmetic.source} to {arithmetic.target}: generated code converts real numbers; for the "
            f"parts, write the code of a plan from {arithmetic.source.component} to {arithmetic.target.component}"
        )
    operands = []
    for name, values, blocks in change.parameters:
        if values.size != 1:
            operands.append(Operand(name, None, _position(values.shape, blocks)))
        elif math.isfinite(values.item()):
            operands.append(Operand(name, values.item()))
        else:
            raise LayoutError(f"{name} is {values.item()}: generated code has finite constants")
    return ConvertFunction(arithmetic, tuple(operands))


def _position(sizes: tuple[int, ...], blocks: tuple[int, ...]) -> str:
    """Where the number for element (i0, i1, ...) stands in an array of these sizes; `/` rounds down."""
    terms, stride = [], 1
    for dim, (size, block) in reversed([*enumerate(zip(sizes, blocks))]):
        if block:
            terms.append(f"i{dim}" + (f" / {block}" if block > 1 else "") + (f" * {stride}" if stride > 1 else ""))
        stride *= size
    return " + ".join(reversed(terms)) or "0"


def comment_of(conversion: ConvertFunction, has_values: frozenset[ElementType]) -> list[str]:
    """What `convert` does, in paragraphs.

    has_values   the types that the language has; an element of another type is its code
    """
    sides = source, target = conversion.arithmetic.source, conversion.arithmetic.target
    steps = f", each step rounded to {conversion.arithmetic.compute}" if conversion.arithmetic.steps else ""
    lines = [f"An element of {source} as one of {target}: {conversion.formula}{steps}, and the result to {target}."]
    codes = [str(side) for side in dict.fromkeys(sides) if side not in has_values]
    if codes:
        low = ", in the low bits" if any(side.bits < 8 or side.value.startswith("f6e") for side in sides) else ""
        lines.append(f"Elements of {' and of '.join(codes)} are codes: the bits of one, as an unsigned integer{low}.")
    for name, _, position in conversion.arguments:
        lines.append(
            f"{name}: for element (i0, i1, ...) of the source, number {position} of the array that the plan took."
        )
    return lines
