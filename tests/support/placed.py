"""Moves between buffers and arrays, as tests write them: the pieces, or the one move of layouts without tiles."""

from gpulayout.moves import move
from gpulayout.moves.pieces import pieces
from gpulayout.moves.placement import Placement


def relayout_pieces(source, target):
    """From a buffer to a buffer."""
    return pieces(Placement.buffer(source), Placement.buffer(target))


def pack_pieces(strides, shape):
    """From an array with these byte strides to a buffer."""
    return pieces(Placement.array(shape, strides), Placement.buffer(shape))


def unpack_pieces(shape, strides):
    """From a buffer to an array with these byte strides."""
    return pieces(Placement.buffer(shape), Placement.array(shape, strides))


def relayout_move(source, target):
    """The only piece of a relayout."""
    return _only(relayout_pieces(source, target))


def pack_move(strides, shape):
    """The only piece of a pack."""
    return _only(pack_pieces(strides, shape))


def unpack_move(shape, strides):
    """The only piece of an unpack."""
    return _only(unpack_pieces(shape, strides))


def strided_move(shape, source_strides, target_strides, widths):
    """The move between two sets of byte strides; `widths` are the target's padded sizes."""
    return move.strided_move(
        shape, list(zip(range(shape.rank), shape.dimensions, widths, source_strides, target_strides))
    )


def _only(found):
    (piece,) = found
    assert piece[1:] == (0, 0)
    return piece.move
