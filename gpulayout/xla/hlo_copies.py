"""The copies that a compiled program makes: instructions that write an array again, in another layout or place.

These are copies:

  - copy and copy-start
  - a transpose or reshape that is no bitcast.  It is a relayout of the same array: the layout of its operand is written
    for the dimensions of its result.  The operand of a reshape keeps its own dimensions if no layout fits the others
  - a fusion whose result, or one of whose results, is such a copy of something in it, behind bitcasts
  - a dynamic or static slice, a pad and the like are none, whatever else they do

A copy elsewhere in a fusion is an order in which the fusion reads, and writes nothing: these are only counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpulayout.layout.dynamic import UNBOUNDED
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.other_shapes import AnyShape
from gpulayout.layout.shape import Shape
from gpulayout.xla.bitcast import is_bitcast
from gpulayout.xla.decompose import align_layouts
from gpulayout.xla.hlo import LineCounter, scan, unread_lines, visible
from gpulayout.xla.hlo_program import (
    OP_NAME,
    WORD,
    HloComputation,
    HloInstruction,
    calls_and_fusions,
    read_program,
    runs_of,
    source_frames,
    source_line,
)
from gpulayout.xla.trees import arrays

_OPCODES = {"copy", "copy-start", "transpose", "reshape"}
_DIMENSIONS = re.compile(r"\bdimensions=\{([0-9, ]*)\}")


@dataclass(frozen=True, slots=True)
class FoundCopy:
    """A copy that a program makes.

    Attributes
    ----------
    name : str
        The instruction.
    opcode : str
        What copies: "copy", "copy-start", "transpose" or "reshape".
    is_fused : bool
        True if the instruction is a fusion, and `opcode` that of its root.
    source, target : Shape
        What is read and what is written.  Their dimensions are equal, except for a reshape that is no relayout.
    line : int
        The line of the instruction, from 1.
    computation : str
        The computation that it is in; "" if the text does not say it.
    runs : int or None
        How often the program runs it; None if the text does not say it.
    in_loop : bool
        True in the body of a loop, or in what that calls.
    op_name : str
        The operation in the Python program, such as "jit(f)/transpose"; "" if the text does not say it.
    source_line : str
        Where it stands there, such as "model.py:12"; "" if the text does not say it.

    Examples
    --------
    >>> copy, = find_copies("%b = f32[2,3]{0,1} copy(f32[2,3]{1,0} %a)")
    >>> str(copy.source), str(copy.target), copy.nbytes
    ('f32[2,3]{1,0}', 'f32[2,3]{0,1}', 48)
    """

    name: str
    opcode: str
    is_fused: bool
    source: Shape
    target: Shape
    line: int
    computation: str
    runs: int | None
    in_loop: bool
    op_name: str
    source_line: str

    @property
    def nbytes(self) -> int:
        """Bytes that are read and written when it runs once, padding included."""
        return self.source.nbytes + self.target.nbytes

    @property
    def is_relayout(self) -> bool:
        """True if source and target are layouts of one array: False for some reshapes."""
        return self.source.dimensions == self.target.dimensions

    @property
    def keeps_layout(self) -> bool:
        """True if the target has the same bytes as the source."""
        return is_bitcast(self.source, self.target)


def find_copies(text: str) -> list[FoundCopy]:
    """The copies, transposes and reshapes of a compiled program that move bytes.

    Parameters
    ----------
    text : str
        An HLO dump.  A text without instructions has no copies.

    Returns
    -------
    list of FoundCopy
        In the order of the text.  help("gpulayout.xla.hlo_copies") says what counts.  Copies whose operand is not in
        the text, or has no bound, are left out.

    See Also
    --------
    gpulayout.xla.find_shapes : All shapes of a program.

    Examples
    --------
    >>> text = "%t = f32[3,2]{1,0} transpose(f32[2,3]{1,0} %a), dimensions={1,0}, metadata={op_name=\\"jit(f)/t\\"}"
    >>> for copy in find_copies(text):
    ...     print(copy.name, copy.source, copy.target, copy.op_name)
    t f32[3,2]{0,1} f32[3,2]{1,0} jit(f)/t
    """
    if not isinstance(text, str):
        raise TypeError(f"the text to find copies in must be a str, not {type(text).__name__}")
    return HloCopies(text).found


_Move = tuple[str, Shape, Shape]  # what moves an array, an opcode, and what it reads and writes


class HloCopies:
    """The copies of a program, how many layout changes only take place inside fusions, and the lines not read.

    A copy is not read if its operand is not in the text, or if a dimension has no bound.  A text without instructions
    is no program.  `passed` gets the positions in the text up to which it has been read.
    """

    def __init__(self, text: str, passed: Callable[[int], None] = lambda position: None) -> None:
        self._program = read_program(text, visible(text), passed)
        self._computations = self._program.computations()
        self._calls, self._fusions = calls_and_fusions(self._computations)
        self._fused = {*self._fusions.values()}
        self._of_roots: dict[int, list[_Move]] = {}
        self._unread = {*self._program.unread}
        self.is_program = bool(self._program.instructions)
        self.found = list(self._copies())
        self.unread = unread_lines(text, sorted(self._unread))
        self.inside_fusions = sum(map(self._other_moves, self._fused))

    def _copies(self) -> Iterator[FoundCopy]:
        """All of them, in the order of the text."""
        lines, frames = LineCounter(self._program.text), source_frames(self._program.text)
        runs = runs_of(self._calls, {number for number, each in enumerate(self._computations) if each.is_entry})
        for number, computation in enumerate(self._computations):
            for each in computation.inside if number not in self._fused else ():
                if each.start in self._fusions:
                    moves = self._root_moves(self._fusions[each.start])[: len(arrays(each.span.shape))]
                else:
                    moves = self._moves(computation, each, also_same=True)
                for opcode, source, target in moves:
                    lines.go(each.start)
                    attributes = self._program.rest_with_strings(each)
                    op_name = OP_NAME.search(attributes)
                    yield FoundCopy(
                        self._program.name(each),
                        opcode,
                        each.opcode == "fusion",
                        source,
                        target,
                        lines.number,
                        computation.name,
                        *runs[number],
                        op_name[1] if op_name else "",
                        source_line(attributes, frames),
                    )

    def _other_moves(self, number: int) -> int:
        """How many layout changes there are in a fusion that are not those of its results."""
        computation = self._computations[number]
        return sum(len(self._moves(computation, each)) for each in computation.inside) - len(self._root_moves(number))

    def _root_moves(self, number: int) -> list[_Move]:
        """The layout changes that give the results of a fusion, which many instructions may name."""
        if number not in self._of_roots:
            results = self._computations[number].from_roots(self._renamed)
            self._of_roots[number] = [
                move for each in results for move in self._moves(self._computations[number], each)
            ]
        return self._of_roots[number]

    def _renamed(self, computation: HloComputation, each: HloInstruction) -> list[HloInstruction]:
        """What an instruction that moves nothing gives as its own result."""
        is_renaming = each.opcode in _OPCODES | {"bitcast", "tuple"} and not self._moves(computation, each)
        return self._operands(computation, each) if is_renaming else []

    def _moves(self, computation: HloComputation, each: HloInstruction, *, also_same: bool = False) -> list[_Move]:
        """The arrays that an instruction copies into another layout, or also into the same."""
        if each.opcode not in _OPCODES:
            return []
        source = self._operand_shape(computation, each)
        before, after = arrays(source) if source is not None else [], arrays(each.span.shape)
        if each.opcode == "copy-start":  # its result: the target, the source, and a context
            after = after[: len(before)]
        if not before or len(before) != len(after):
            self._unread.add(each.start)
            return []
        found = []
        for one, other in zip(before, after):
            relayout = self._as_relayout(each, one, other)
            if relayout is None:
                self._unread.add(each.start)
            elif also_same and each.opcode.startswith("copy") or not is_bitcast(relayout, other):
                found.append((each.opcode, relayout, other))
        return found

    def _as_relayout(self, each: HloInstruction, source: Shape, target: Shape) -> Shape | None:
        """The operand for the dimensions of the result; None if they contradict each other or have no bound."""
        if UNBOUNDED in (*source.dimensions, *target.dimensions) or source.element_type is not target.element_type:
            return None
        try:
            if each.opcode == "transpose":
                dimensions = _DIMENSIONS.search(self._program.rest(each))
                source = source.permute_dimensions(map(int, WORD.findall(dimensions[1]))) if dimensions else source
            elif each.opcode == "reshape" and source.element_count == target.element_count:
                return align_layouts(source, target.dimensions) or source
            return source if source.dimensions == target.dimensions else None
        except (LayoutError, ValueError):
            return None

    def _operand_shape(self, computation: HloComputation, each: HloInstruction) -> AnyShape | None:
        """The shape of the first operand, which stands before it in older programs."""
        operands = self._program.rest(each).partition("(")[2].lstrip()
        written = next(scan(operands.partition("%")[0]), None)
        if written is not None and written.start == 0:
            return written.shape
        named = self._operands(computation, each)
        return named[0].span.shape if named else None

    def _operands(self, computation: HloComputation, each: HloInstruction) -> list[HloInstruction]:
        """The instructions of a computation whose results one of them takes."""
        return computation.named_in(self._program.rest(each).partition("(")[2].partition("), ")[0])
