"""What generated code has in every language: a heading with the law and an example, and the bodies of its functions."""

from __future__ import annotations

import re
import textwrap

from gpulayout.api.code_body import Body, Dialect, body_of
from gpulayout.layout.checks import counted
from gpulayout.layout.shape import Shape
from gpulayout.layout.stride_table import is_big, stride_table
from gpulayout.moves.index_program import delinearize_program, linearize_program

WIDTH = 112  # columns before indentation; what is longer goes on in the next line


def coordinates(shape: Shape) -> list[str]:
    """The names of the coordinates: i0, i1, ..."""
    return [f"i{dim}" for dim in range(shape.rank)]


def limit(shape: Shape) -> int:
    """No place from this number on holds an element."""
    return shape.buffer_size if shape.element_count else 0


def bodies(shape: Shape, dialect: Dialect) -> tuple[Body, Body]:
    """The bodies of `offset` and `index`.  Without elements there is nothing to find, and everything is 0."""
    if not shape.element_count:
        zeros = tuple((each, "0") for each in coordinates(shape))
        return Body((), "0", (), frozenset()), Body(zeros, "", (), frozenset())
    there, back = linearize_program(shape, for_kernel=False), delinearize_program(shape, for_kernel=False)
    return body_of(there, dialect), body_of(back, dialect)


def has_load(shape: Shape) -> bool:
    """True when elements are packed and none crosses a byte."""
    return shape.bits_per_element in (1, 2, 4)


def load(shape: Shape, dialect: Dialect) -> str:
    """The bits of the packed element at `linear`.  Element 0 is in the low bits of byte 0, or in the high ones."""
    bits = shape.bits_per_element
    per_byte, times = 8 // bits, f" * {bits}" if bits > 1 else ""
    place = f"linear % {per_byte}"
    if is_big(shape):
        place = f"({per_byte - 1} - {place})"
    return f"buffer[linear {dialect.divide} {per_byte}] >> {place}{times} & {2**bits - 1}"


def load_text(shape: Shape) -> str:
    """What the function `load` is, as a sentence."""
    return f"The bits of a packed element.  Element 0 is in the {'high' if is_big(shape) else 'low'} bits of byte 0."


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
        linear, given = stride_table(shape).linear_of(index), ", ".join(map(str, index))
        lines.append(f"{call}({given}) is {linear}, and {example.format(linear=linear, index=given)}.")
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
