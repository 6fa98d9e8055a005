"""Lists of runs from pieces: which moves have them, and what the keywords of such a list mean.

A move has runs if it copies whole bytes.  Elements that change on the way, or shift within bytes, have none.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

from gpulayout.layout.checks import INT64_MAX, ByteCount, byte_count, counted, value_text
from gpulayout.layout.errors import LayoutError
from gpulayout.layout.shape import Shape
from gpulayout.moves.arithmetic import ConvertMove
from gpulayout.moves.copies import Copies, NestedCopies, nests_of
from gpulayout.moves.gaps import Gaps
from gpulayout.moves.looked_up_copies import LookedUpCopies
from gpulayout.moves.lookup_move import LookupMove
from gpulayout.moves.move import Move
from gpulayout.moves.packed_move import PackedMove
from gpulayout.moves.page_tables import page_tables
from gpulayout.moves.paged_turns import paged_turns
from gpulayout.moves.pieces import Piece, Pieces
from gpulayout.moves.run_cut import UNCUT, RunCut
from gpulayout.moves.run_list import RunList, RunRows
from gpulayout.moves.run_stream import RunStream
from gpulayout.moves.run_turns import FoundRuns, runs_of


class Fills(NamedTuple):
    """The padding of a target: runs of bytes, and what fills them.  Made by `Plan.fills`.

    Attributes
    ----------
    runs : array
        int64, with a row of target byte and bytes for each run, in the order of the target; no two could be one.
    value : bytes
        One padding element, which fills each run from its first byte on, as often as it fits; of packed elements a
        byte of them.

    Examples
    --------
    >>> import gpulayout as gl
    >>> gl.plan("u8[2,3]", "{1,0:PD(2,5)PV(7)}").fills()
    Fills(runs=array([[3, 2],
           [8, 2]]), value=b'\\x07')
    """

    runs: RunRows
    value: bytes


def run_list(
    pieces: Pieces,
    source: Shape,
    target: Shape,
    *,
    longest: ByteCount | None = None,
    align: ByteCount | None = None,
    least: ByteCount | None = None,
    pages: Any = None,
    page_bytes: Any = None,
) -> RunList:
    """The runs that pieces copy between two buffers of these shapes, also where the pieces are those of boxes in them.

    See `Plan.runs` for the keywords.  LayoutError for pieces that are not copies of whole bytes, for tables that are
    none of these buffers, and for `least`.
    """
    cut, moves = _cut(longest, align), _copied(pieces, source, target)
    tables = page_tables(pages, source, target, page_bytes)
    if isinstance(moves, LookupMove):
        listed = RunList(FoundRuns(RunStream(LookedUpCopies(moves), *tables), cut))
    elif tables != (None, None):
        nests = nests_of(moves)
        turns = paged_turns(nests, cut, *tables)
        listed = RunList(turns or FoundRuns(RunStream(NestedCopies(nests), *tables), cut))
    else:
        listed = RunList(runs_of(nests_of(moves), cut))
    _check_least(listed, least, source, target)
    return listed


def fill_list(
    pieces: Pieces,
    source: Shape,
    target: Shape,
    *,
    longest: ByteCount | None = None,
    align: ByteCount | None = None,
    least: ByteCount | None = None,
    pages: Any = None,
    page_bytes: Any = None,
) -> Fills:
    """The bytes of a target that pieces fill with padding, if they write a whole buffer of it."""
    moves = _copied(pieces, source, target)
    value = _fill_value(pieces, target)
    cut, (_, table) = _cut(longest, align, value), page_tables(pages, source, target, page_bytes)
    if table is not None and table.size % len(value):
        raise LayoutError(f"pages of {table.size} bytes cut padding elements of {len(value)} bytes in {target}")
    written: Copies
    if isinstance(moves, LookupMove):
        written = LookedUpCopies(moves, of_target=True)
    else:
        written = NestedCopies(nests_of(moves, of_target=True))
    listed = RunList(FoundRuns(RunStream(Gaps(written, target.nbytes), table, table), cut))
    _check_least(listed, least, source, target)
    return Fills(listed.filled((1, 2)), value)


def _copied(pieces: Pieces, source: Shape, target: Shape) -> list[Piece[Move]] | LookupMove:
    """The pieces that copy elements, or the one that looks them up; LayoutError if one does more than copy bytes."""
    moves, of = list[Piece[Move]](), f"{source} to {target} has no list of runs"
    if not pieces:
        raise LayoutError(
            f"{of} for this box: its elements begin inside bytes, or tiles cut it into too many parts; take a box that "
            "begins and ends between tiles and bytes, or pack it with at= and send those bytes"
        )
    for piece in pieces:
        move = piece.move
        if isinstance(move, ConvertMove):
            raise LayoutError(
                f"{of}: {move.arithmetic.form} changes elements on the way; list the runs of a plan without it, and "
                "change elements before or after"
            )
        if isinstance(move, LookupMove) and move.source_bits == move.target_bits >= 8 and len(pieces) == 1:
            return move
        if isinstance(move, Move):
            moves.append(cast("Piece[Move]", piece))
        elif move.element_count:
            raise LayoutError(f"{of}: {_not_copies(move)}; call the plan instead")
    return moves


def _not_copies(move: PackedMove | LookupMove) -> str:
    """Why a move of packed elements is no copy of bytes."""
    if move.source_bits != move.target_bits:
        return f"elements of {move.source_bits} bits become elements of {move.target_bits} bits"
    if move.source_big != move.target_big:
        return "the bits of each byte change their order"
    return f"elements of {move.bits} bits begin or end inside bytes"


def _fill_value(pieces: Pieces, target: Shape) -> bytes:
    """What fills the padding."""
    for move, *_ in pieces:
        if isinstance(move, PackedMove) and any(move.pad):
            raise LayoutError(
                f"{target} has no list of fills: padding of {counted(move.bits, 'bit')} ends inside the last byte; "
                "call the plan instead"
            )
    return next((move.pad for move, *_ in pieces if not isinstance(move, ConvertMove)), target.padding_bytes)


def _cut(longest: ByteCount | None, align: ByteCount | None, value: bytes = b"") -> RunCut:
    """How runs are cut; those of padding between elements of this value."""
    if longest is None:
        if align is not None:
            raise LayoutError(f"align {value_text(align)} needs longest=: it says where runs are cut that are longer")
        return UNCUT
    most = byte_count("longest", longest)
    unit = 1 if align is None else byte_count("align", align)
    if most < 1 or unit < 1:
        field, number = ("longest", most) if most < 1 else ("align", unit)
        raise LayoutError(f"{field} {number} is less than 1 byte")
    if most < unit:
        raise LayoutError(f"longest {most} is less than align {unit}: a run between two cuts has at least {unit} bytes")
    if value:
        unit = math.lcm(unit, len(value))
        if most < unit:
            raise LayoutError(
                f"longest {most} would cut padding elements of {len(value)} bytes: it must be at least {unit}"
            )
    return RunCut(min(most, INT64_MAX), min(unit, INT64_MAX))


def _check_least(listed: RunList, least: ByteCount | None, source: Shape, target: Shape) -> None:
    """LayoutError that names the shortest run, if it is shorter than `least`."""
    fewest = 0 if least is None else byte_count("least", least)
    if fewest > 0 and listed.count and listed.shortest < fewest:
        places = "source byte {}, target byte {}".format(*listed.shortest_at)
        raise LayoutError(
            f"least {fewest} is more than the shortest run of {source} to {target}, which has "
            f"{counted(listed.shortest, 'byte')} at {places}: call the plan, or take least={listed.shortest}"
        )
