"""Relayout: bytes in one layout become bytes in another, in one pass."""

from __future__ import annotations

from typing import Any

from gpulayout.api.explain import Explanation, explain
from gpulayout.api.kept import KEYS, Kept
from gpulayout.api.sides import BufferSide
from gpulayout.api.transfer import Transfer
from gpulayout.layout.arguments import as_shape
from gpulayout.layout.layout import Layout
from gpulayout.layout.shape import Shape
from gpulayout.moves.backend import Array
from gpulayout.moves.move import Move
from gpulayout.moves.pieces import relayout_pieces


class Plan:
    """A relayout that was thought through once and can be carried out many times.

    source, target   the two shapes
    pieces           moves between parts of both buffers, the largest copy first; frozen values that can be printed,
                     compared and hashed.  One, unless tiles are cut
    move             the coalesced loops of the first piece

    transfer         carries it out, and keeps what backends prepared for it

    >>> import numpy as np
    >>> p = plan("s32[2,3]{1,0}", "s32[2,3]{0,1:PD(3,5)}")
    >>> p(np.arange(1, 7, dtype=np.int32))
    array([1, 4, 0, 2, 5, 0, 3, 6, 0, 0, 0, 0, 0, 0, 0], dtype=int32)
    >>> p.bytes_read, p.bytes_written
    (24, 60)
    """

    __slots__ = ("source", "target", "pieces", "bytes_read", "bytes_written", "transfer")

    def __init__(self, source: Shape, target: Shape):
        pieces = relayout_pieces(source, target)
        transfer = Transfer(BufferSide(source), BufferSide(target), pieces)
        read, written = (sum(getattr(piece.move, name) for piece in pieces) for name in ("bytes_read", "bytes_written"))
        for name, value in zip(self.__slots__, (source, target, pieces, read, written, transfer)):
            object.__setattr__(self, name, value)

    @property
    def move(self) -> Move:
        return self.pieces[0].move

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of a plan cannot be changed: plans are shared and frozen")

    def __call__(self, buffer: Any, out: Any = None) -> Array:
        """A buffer in the target layout: `out`, or a new one where `buffer` lives.

        buffer   1-D, contiguous, at least `source.buffer_size` elements; packed elements are uint8, `source.nbytes` or
        more out      the same for the target; only its first `target.nbytes` bytes are written

        Raises as `relayout` does.
        """
        return self.transfer(buffer, out)

    def explain(self) -> Explanation:
        """What was merged, which kernel was chosen and why not a faster one, and the bytes, as text.

        The GPU part assumes buffers aligned to 16 bytes, as allocators give them.
        """
        return explain(self.pieces, self.source, self.target)

    def __eq__(self, other: object) -> bool:
        return (self.source, self.target) == (other.source, other.target) if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.source, self.target))

    def __repr__(self) -> str:
        return f"plan({str(self.source)!r}, {str(self.target)!r})"

    def __reduce__(self):
        return plan, (self.source, self.target)


_plans = Kept()  # by pairs of shapes, and by the texts and layouts that stood for them


def plan(source: Shape | str, target: Shape | Layout | str) -> Plan:
    """The plan that turns a buffer of `source` into a buffer of `target`; both describe the same logical array.

    Shapes may be given as text; the target may be a layout alone, `{0,1}`.

    Plans are cached, so asking again costs a dictionary look-up.  LayoutError when element types or dimensions differ,
    and for layouts that cannot be moved; `relayout` says which.

    >>> to_tiles = plan("f32[16,256]", "{1,0:T(8,128)}")
    >>> to_tiles.bytes_written, len(to_tiles.pieces)
    (16384, 1)
    """
    if type(source) in KEYS and type(target) in KEYS and (found := _plans.get((source, target))):
        return found
    asked, source = (source, target), as_shape(source, "source")
    target = as_shape(target, "target", like=source)
    found = _plans.get((source, target))
    if found is None:
        found = Plan(source, target)
        _plans.keep((source, target), found, len(found.pieces))
    if asked != (source, target):
        _plans.keep(asked, found)
    return found


def relayout(buffer: Any, source: Shape | str, target: Shape | Layout | str, *, out: Any = None) -> Array:
    """A buffer of `source` as a buffer of `target`, in one pass, padding filled.

    buffer   1-D array of `source.buffer_size` elements or more: NumPy, CuPy, or foreign memory through DLPack or
             `__cuda_array_interface__`; it stays on its device.  Of packed elements, `E(4)`, it is bytes: uint8
    source   a shape or its text; target likewise, or a layout alone: `{0,1}`
    out      where to write, on the same device; it is returned as it was given

    TypeError for a wrong dtype, BufferError for a buffer that is too small, not contiguous, read-only (out), on
    another device or overlapping; LayoutError when the shapes are not the same logical array.

    >>> import numpy as np
    >>> relayout(np.arange(6, dtype=np.float32), "f32[2,3]{1,0}", "f32[2,3]{0,1}")
    array([0., 3., 1., 4., 2., 5.], dtype=float32)
    """
    return plan(source, target)(buffer, out)
