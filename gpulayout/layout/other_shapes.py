"""Shapes that are not one array: tuples of shapes, tokens, opaque values and buffers.

They are read, printed and compared, so that whole programs can be; bytes are moved for the arrays in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, SupportsIndex, overload

from gpulayout.layout import checks
from gpulayout.layout.argument_hints import corrects, of_one_sequence
from gpulayout.layout.cached import cached_property
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.frozen import Frozen
from gpulayout.layout.shape import Shape

MAX_DEPTH = 64  # of tuples in tuples
_COMMENT_EVERY = 5  # elements of a tuple, as XLA prints them


@dataclass(frozen=True)
class TokenShape(Frozen):
    """A token: it orders effects and holds nothing."""

    proto_number: ClassVar[int] = 17
    nbytes: ClassVar[int] = 0
    element_count: ClassVar[int] = 0

    def text_without_layout(self) -> str:
        """`token[]`."""
        return "token[]"

    def __str__(self) -> str:
        return "token[]"


@dataclass(frozen=True)
class OpaqueShape(Frozen):
    """A value that only the runtime understands."""

    proto_number: ClassVar[int] = 14

    @property
    def nbytes(self) -> int:
        """LayoutError: nobody knows."""
        raise LayoutError("opaque[] has no size in bytes: only the runtime knows it")

    @property
    def element_count(self) -> int:
        """LayoutError: nobody knows."""
        raise LayoutError("opaque[] has no number of elements: only the runtime knows it")

    def text_without_layout(self) -> str:
        """`opaque[]`."""
        return "opaque[]"

    def __str__(self) -> str:
        return "opaque[]"


@dataclass(frozen=True, repr=False)
class BufferShape(Frozen):
    """A buffer that holds one array, and may be written to.

    >>> str(BufferShape(Shape("f32", (8, 16))))
    'b(f32[8,16]{1,0})'
    """

    shape: Shape
    proto_number: ClassVar[int] = 34

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Shape):
            raise LayoutTypeError(
                f"shape {self.shape!r} cannot be held by a buffer: it is {checks.type_text(self.shape)}, not a Shape"
            )

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self.shape.nbytes

    @property
    def element_count(self) -> int:
        """Logical elements of the array."""
        return self.shape.element_count

    def text_without_layout(self) -> str:
        """`b(f32[8,16])`."""
        return f"b({self.shape.text_without_layout()})"

    def __str__(self) -> str:
        return f"b({self.shape})"

    def __repr__(self) -> str:
        return f"BufferShape({self.shape!r})"


@corrects(of_one_sequence)
@dataclass(frozen=True, repr=False)
class TupleShape(Frozen):
    """Several shapes in order, tuples among them; it has a length, elements by number, and can be iterated over.

    shapes    the elements; () is the empty tuple.  LayoutError past 64 nested tuples

    >>> pair = TupleShape((Shape("f32", (2,)), TupleShape(())))
    >>> str(pair), len(pair), pair.nbytes
    ('(f32[2]{0}, ())', 2, 8)
    """

    shapes: tuple[AnyShape, ...]
    proto_number: ClassVar[int] = 13

    if TYPE_CHECKING:  # what a caller may write

        def __init__(self, shapes: Sequence[AnyShape]) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.shapes, (tuple, list)):
            raise LayoutTypeError(
                f"shapes {self.shapes!r} is not a sequence of shapes: it is {checks.type_text(self.shapes)}"
            )
        for entry, shape in enumerate(self.shapes):
            if not isinstance(shape, AnyShape):
                raise LayoutTypeError(f"shapes entry {entry} is not a shape: it is {checks.type_text(shape)}")
        self._set("shapes", tuple(self.shapes))
        if self.depth > MAX_DEPTH:
            raise LayoutError(f"shapes are {self.depth} nested tuples: {MAX_DEPTH} is the limit")

    @cached_property
    def depth(self) -> int:
        """How many tuples stand in one another, this one among them."""
        return 1 + max((shape.depth for shape in self.shapes if isinstance(shape, TupleShape)), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays in it, without any table of pointers.  XLA: `ByteSizeOfElementsRecursive` of its
        leaves.
        """
        return sum(shape.nbytes for shape in self.shapes)

    @property
    def element_count(self) -> int:
        """Logical elements of all arrays in it.  XLA: `ElementsInRecursive`."""
        return sum(shape.element_count for shape in self.shapes)

    def leaves(self) -> Iterator[Shape | TokenShape | OpaqueShape | BufferShape]:
        """All shapes in it that are not tuples, in order.  XLA: `FlattenTupleShape`."""
        for shape in self.shapes:
            if isinstance(shape, TupleShape):
                yield from shape.leaves()
            else:
                yield shape

    def text_without_layout(self) -> str:
        """The text without any layout: `(f32[2], u8[])`."""
        return self._text(lambda shape: shape.text_without_layout())

    def _text(self, one: Callable[[AnyShape], str]) -> str:
        """`, ` between the elements; from the sixth on every fifth says its number."""
        parts = (
            f"/*index={entry}*/{one(shape)}" if entry and entry % _COMMENT_EVERY == 0 else one(shape)
            for entry, shape in enumerate(self.shapes)
        )
        return f"({', '.join(parts)})"

    def __len__(self) -> int:
        return len(self.shapes)

    def __iter__(self) -> Iterator[AnyShape]:
        return iter(self.shapes)

    @overload
    def __getitem__(self, entry: SupportsIndex) -> AnyShape: ...

    @overload
    def __getitem__(self, entry: slice) -> TupleShape: ...

    def __getitem__(self, entry: SupportsIndex | slice) -> AnyShape:
        """One element, or the tuple of some of them: `pair[:1]`.  XLA: `GetTupleElementShape`, `SliceTuple`."""
        return TupleShape(self.shapes[entry]) if isinstance(entry, slice) else self.shapes[entry]

    def append(self, shape: AnyShape) -> TupleShape:
        """The tuple with one more element at the end.  XLA: `AppendShapeToTuple`."""
        return TupleShape((*self.shapes, shape))

    def __str__(self) -> str:
        """The text form, as XLA prints it: `(f32[2]{0}, u8[])`; the inverse of `parse_shape`."""
        return self._text(str)

    def __repr__(self) -> str:
        return f"TupleShape({self.shapes})"


AnyShape = Shape | TupleShape | TokenShape | OpaqueShape | BufferShape
