"""The shapes that the instructions of a program give: `%name = SHAPE opcode(...)`."""
from __future__ import annotations

import re
from collections.abc import Iterator

from gpulayout.model.hlo_text import FoundShape, Span, scan, visible, with_lines
from gpulayout.model.other_shapes import AnyShape, BufferShape, TupleShape
from gpulayout.model.shape import Shape

NO_MEMORY = {"tuple", "get-tuple-element", "bitcast"}        # they give other names to results that are there already
_OPCODE = re.compile(r"[ \t\r\n]*([A-Za-z][\w\-]*)\(")
_MOST_BLANKS = 16            # looked at between the equals sign and the shape


def find_results(text: str) -> Iterator[FoundShape]:
    """The results of a program's instructions, as `find_shapes` finds shapes; without those in `NO_MEMORY`.

    A text without any instruction, such as a report of what was allocated, gives all shapes in it.

    >>> text = "%a = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)  ROOT %t = (f32[8]{0}) tuple(%a)"
    >>> [(found.column, str(found.shape)) for found in find_results(text)]
    [(6, 'f32[8]{0}')]
    """
    seen = visible(text)
    spans = [(span, _opcode(seen, span)) for span in scan(seen)]
    if any(opcode for _, opcode in spans):
        spans = [(span, opcode) for span, opcode in spans if opcode and opcode not in NO_MEMORY]
    return with_lines(text, (span for span, _ in spans))


def _opcode(text: str, span: Span) -> str | None:
    """The opcode of the instruction that gives a shape; None for a shape that stands elsewhere."""
    if not text[max(span.start - _MOST_BLANKS, 0):span.start].rstrip().endswith("="):
        return None
    found = _OPCODE.match(text, span.end)
    return found and found[1]


def arrays(shape: AnyShape) -> list[Shape]:
    """The arrays in a shape: its leaves, buffers opened, without tokens and opaque values."""
    leaves = shape.leaves() if isinstance(shape, TupleShape) else [shape]
    opened = (leaf.shape if isinstance(leaf, BufferShape) else leaf for leaf in leaves)
    return [leaf for leaf in opened if isinstance(leaf, Shape)]
