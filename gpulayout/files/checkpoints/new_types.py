"""The type and the dimensions that a rule wants in the header of the new file: `as=I32[K/16,N*2]`.

    type   := dtype ["[" [size ("," size)*] "]"]        dtype := a name of the format, such as BF16 or I32
    size   := term (("*" | "/") term)*                  term  := a whole number | the name of a size

Names are axes of the pattern's result, or the sizes of an entry of the catalogue; others stand for the dimensions of
the result, in the order in which they first occur.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from gpulayout.files.checkpoints.header import DTYPES, tensor_bytes
from gpulayout.layout.checks import clipped, counted, shown, value_text
from gpulayout.layout.element_type import ElementType
from gpulayout.layout.errors import LayoutError

_TYPE = re.compile(r"\s*(\w+)\s*(?:\[([^\[\]]*)\])?\s*", re.ASCII)
_SIZE = re.compile(r"\s*\w+(?:\s*[*/]\s*\w+)*\s*")
_TERM = re.compile(r"([*/]?)\s*(\w+)")
_MOST = 1 << 63


class HeaderType(NamedTuple):
    """A type with sizes that are still to be found.

    dtype   the format's name
    sizes   of each dimension: pairs of an operation, "*" or "/", and a number or a name; None for those of the result
    text    as a user wrote it
    """

    dtype: str
    sizes: tuple[tuple[tuple[str, str], ...], ...] | None
    text: str

    def dimensions(self, own: Sequence[int], nbytes: int, known: Mapping[str, int]) -> tuple[int, ...]:
        """The dimensions of a result; `LayoutError` where they are no whole numbers, or need other bytes.

        own     the dimensions of the result's array
        nbytes  the bytes that it has
        known   sizes by name
        """
        if self.sizes is None:
            return self._like(own, nbytes)
        dimensions = self.whole_sizes(own, known)
        needed = tensor_bytes(self.dtype, dimensions)
        if needed != nbytes:
            has = "does not end with a full byte" if needed is None else f"has {counted(needed, 'byte')}"
            raise LayoutError(
                f"{self._shown} is {self.dtype} of {shown(dimensions)}, which {has}, but the result has {nbytes}"
            )
        return dimensions

    def whole_sizes(self, own: Sequence[int], known: Mapping[str, int]) -> tuple[int, ...]:
        """The sizes alone; `LayoutError` where they are no whole numbers."""
        values = self._values(own, known)
        dimensions = []
        for terms in self.sizes or ():
            size = Fraction(1)
            for operation, term in terms:
                value = int(term) if term.isdecimal() else values[term]
                if operation == "/" and not value:
                    raise LayoutError(f"{self._shown} divides by 0")
                size = size / value if operation == "/" else size * value
            if size.denominator > 1 or size >= _MOST:
                one = "".join(f"{operation}{term}" for operation, term in terms)[1:]
                where = f" for {', '.join(f'{name}={size}' for name, size in values.items())}" if values else ""
                raise LayoutError(f"{self._shown}: {one} is {size}{where}, not a whole number of elements")
            dimensions.append(int(size))
        return tuple(dimensions)

    @property
    def _shown(self) -> str:
        return f"as {value_text(clipped(self.text, 80))}"

    def _like(self, own: Sequence[int], nbytes: int) -> tuple[int, ...]:
        """The dimensions of the array, but the last one, which has as many elements as the bytes are."""
        *others, last = own or (1,)
        rows = math.prod(others)
        bits = tensor_bytes(self.dtype, (8,)) or 0  # of one element
        if not own and nbytes * 8 == bits:
            return ()
        if own and rows and bits and nbytes * 8 % (rows * bits) == 0:
            return (*others, nbytes * 8 // (rows * bits))
        if not nbytes:
            return tuple(own)
        raise LayoutError(
            f"{self._shown}: the {counted(nbytes, 'byte')} of {shown(own)} are no {self.dtype} of {shown(others)} and "
            f"one size more: write the dimensions, as in {self.dtype}[{nbytes * 8 // max(bits, 1)}]"
        )

    def _values(self, own: Sequence[int], known: Mapping[str, int]) -> Mapping[str, int]:
        """The sizes of all names."""
        names = [*dict.fromkeys(term for terms in self.sizes or () for _, term in terms if not term.isdecimal())]
        if known.keys() >= {*names}:
            return {name: known[name] for name in names}
        alike = {*map(str.casefold, known)} & {*map(str.casefold, names)}  # K is likely meant as the k that there is
        if len(names) == len(own) and not alike:
            return dict(zip(names, own))
        unknown = next(name for name in names if name not in known)
        have = f"the names are {', '.join(known)}; or " if known else ""
        raise LayoutError(
            f"{self._shown} has the name {value_text(clipped(unknown, 40))}: {have}write {counted(len(own), 'name')}, "
            f"one for each dimension of {shown(own)}, or numbers"
        )


def header_type(text: object, origin: str) -> HeaderType:
    """What the text of `as` says; `LayoutError` for other text.

    >>> header_type("I32[K/16,N*2]", "a rule").dimensions((4096, 512), 1 << 20, {})
    (256, 1024)
    >>> header_type("f16", "a rule").dimensions((2, 8), 32, {})
    (2, 8)
    """
    said = f"{origin}: as {value_text(text)}"
    match = _TYPE.fullmatch(text) if isinstance(text, str) else None
    if match is None or not isinstance(text, str):
        raise LayoutError(f"{said} is not a type of the file with its dimensions, such as I32[K/16,N*2] or F16")
    dtype = dtype_named(match[1], said)
    if match[2] is None:
        return HeaderType(dtype, None, text)
    sizes = []
    for size in match[2].split(",") if match[2].strip() else ():
        if not _SIZE.fullmatch(size):
            raise LayoutError(f"{said}: {value_text(size.strip())} is not a size, such as 4096, N or K/16")
        terms = tuple((operation or "*", term) for operation, term in _TERM.findall(size))
        for _, term in terms:
            if term[0].isdigit() and not (term.isdecimal() and term.isascii() and len(term) < 20):
                raise LayoutError(f"{said}: {value_text(term)} is neither a number nor a name")
        sizes.append(terms)
    return HeaderType(dtype, tuple(sizes), text)


def dtype_named(name: Any, said: str) -> str:
    """The format's name of a type, from that or from the element type's own name."""
    if isinstance(name, str) and name.upper() in DTYPES:
        return name.upper()
    named = {str(kind): dtype for dtype, kind in DTYPES.items() if kind is not None}
    try:
        return named[str(ElementType.of(name))]
    except (TypeError, KeyError):
        raise LayoutError(f"{said}: {value_text(name)} is not one of {', '.join(DTYPES)}") from None
