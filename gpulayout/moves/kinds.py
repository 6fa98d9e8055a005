"""The four kinds of move, and the pieces that a transfer is made of."""

from __future__ import annotations

from typing import NamedTuple

from gpulayout.moves.convert_move import ConvertMove
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Move
from gpulayout.moves.packed_move import PackedMove

AnyMove = Move | PackedMove | LookupMove | ConvertMove


class Piece(NamedTuple):
    """A move between two buffers, and where it begins in them; offsets in bytes."""

    move: AnyMove
    source_offset: int = 0
    target_offset: int = 0


Pieces = tuple[Piece, ...]


class StridedPiece(NamedTuple):
    """A piece before it is joined with others and converted to whole bytes.

    Offsets and strides count bytes, or slots when a side is packed.
    """

    move: Move
    source_offset: int = 0
    target_offset: int = 0
