"""Shapes that are not one array: tuples of shapes, tokens, opaque values and buffers.

They are parsed, printed and compared, as whole programs need.  Only the arrays in them can be moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, SupportsIndex, overload

from gpulayout.layout import checks
from gpulayout.layout.argument_hints import corrects, of_one_sequence
from gpulayout.layout.errors import LayoutError, LayoutTypeError
from gpulayout.layout.frozen import Frozen, cached_property
from gpulayout.layout.shape import Shape

MAX_DEPTH = 64  # of nested tuples
_COMMENT_EVERY = 5  # a comment numbers every fifth element of a tuple, as in XLA


@dataclass(frozen=True)
class TokenShape(Frozen):
    """A token: it orders side effects and holds no data.  XLA: `TOKEN`.

    Examples
    --------
    >>> str(TokenShape()), TokenShape().nbytes
    ('token[]', 0)
    """

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
    """A value that only the runtime understands.  XLA: `OPAQUE_TYPE`.

    Examples
    --------
    >>> str(OpaqueShape())
    'opaque[]'
    """

    proto_number: ClassVar[int] = 14

    @property
    def nbytes(self) -> int:
        """Always raises LayoutError: only the runtime knows the size."""
        raise LayoutError("opaque[] has no size in bytes: only the runtime knows it")

    @property
    def element_count(self) -> int:
        """Always raises LayoutError: only the runtime knows the number."""
        raise LayoutError("opaque[] has no number of elements: only the runtime knows it")

    def text_without_layout(self) -> str:
        """`opaque[]`."""
        return "opaque[]"

    def __str__(self) -> str:
        return "opaque[]"


@dataclass(frozen=True, repr=False)
class BufferShape(Frozen):
    """A buffer that holds one array and may be written to.  XLA: `BUFFER`.

    Parameters
    ----------
    shape : Shape
        The array.

    Examples
    --------
    >>> from gpulayout import Shape
    >>> str(BufferShape(Shape("f32", (8, 16))))
    'b(f32[8,16]{1,0})'
    """

    shape: Shape
    proto_number: ClassVar[int] = 34

    def __post_init__(self) -> None:
        if not isinstance(self.shape, Shape):
            raise LayoutTypeError(
                f"shape {checks.value_text(self.shape)} cannot be held by a buffer: it is "
                f"{checks.type_text(self.shape)}, not a Shape"
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


@corrects(of_one_sequence, shapes="Sequence[AnyShape]")
@dataclass(frozen=True, repr=False)
class TupleShape(Frozen):
    """A tuple of shapes, which may be tuples themselves.  It has a length, and can be indexed, sliced and iterated.

    Parameters
    ----------
    shapes : sequence of shapes
        The elements; () is the empty tuple.

    Raises
    ------
    LayoutError
        An element is not a shape, or more than 64 tuples are nested.

    Notes
    -----
    XLA: `TUPLE`.

    Examples
    --------
    >>> from gpulayout import Shape
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
                f"shapes {checks.value_text(self.shapes)} is not a sequence of shapes: it is "
                f"{checks.type_text(self.shapes)}"
            )
        for entry, shape in enumerate(self.shapes):
            if not isinstance(shape, AnyShape):
                hint = (
                    f", write gl.parse_shape({checks.value_text(shape)})"
                    if isinstance(shape, str) and "[" in shape
                    else ""
                )
                raise LayoutTypeError(f"shapes entry {entry} is not a shape: it is {checks.type_text(shape)}{hint}")
        self._set("shapes", tuple(self.shapes))
        if self.depth > MAX_DEPTH:
            raise LayoutError(f"shapes are {self.depth} nested tuples: the limit is {MAX_DEPTH}")

    @cached_property
    def depth(self) -> int:
        """The number of nested tuples, this one included."""
        return 1 + max((shape.depth for shape in self.shapes if isinstance(shape, TupleShape)), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays in it, without tables of pointers.  XLA: `ByteSizeOfElementsRecursive` of its leaves."""
        return sum(shape.nbytes for shape in self.shapes)

    @property
    def element_count(self) -> int:
        """Logical elements of all arrays in it.  XLA: `ElementsInRecursive`."""
        return sum(shape.element_count for shape in self.shapes)

    def leaves(self) -> Iterator[Shape | TokenShape | OpaqueShape | BufferShape]:
        """The shapes in it that are not tuples, in order.  XLA: `FlattenTupleShape`."""
        for shape in self.shapes:
            if isinstance(shape, TupleShape):
                yield from shape.leaves()
            else:
                yield shape

    def text_without_layout(self) -> str:
        """The text without any layout: `(f32[2], u8[])`."""
        return self._text(lambda shape: shape.text_without_layout())

    def _text(self, one: Callable[[AnyShape], str]) -> str:
        """The elements with `, ` between them; a comment numbers every fifth one, from the sixth on."""
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
        """One element, or the tuple of a slice: `pair[:1]`.  XLA: `GetTupleElementShape`, `SliceTuple`."""
        return TupleShape(self.shapes[entry]) if isinstance(entry, slice) else self.shapes[entry]

    def append(self, shape: AnyShape) -> TupleShape:
        """The tuple with one more element at the end.  XLA: `AppendShapeToTuple`."""
        return TupleShape((*self.shapes, shape))

    def __str__(self) -> str:
        """The text form, `(f32[2]{0}, u8[])`, as XLA prints it: the inverse of `gpulayout.xla.parse_any_shape`."""
        return self._text(str)

    def __repr__(self) -> str:
        return f"TupleShape({self.shapes})"


AnyShape = Shape | TupleShape | TokenShape | OpaqueShape | BufferShape
