"""Packed moves in square blocks of slots, on the CPU: rows of many blocks at once are swapped as kernels/bits_turn.cu swaps words."""
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from gpulayout.backends.numpy_views import Memory, word_of
from gpulayout.backends.threads import share
from gpulayout.planning.bits_host import HostBits
from gpulayout.planning.bits_move import BitsMove


def move_turned(move: BitsMove, plan: HostBits, reading: Memory, writing: Memory) -> None:
    """Carry out a move whose plan has blocks, tile by tile; the axes of arrays are those of the blocks, major first."""
    share(functools.partial(_turn_tiles, move, plan, reading, writing), plan.chunks(move), 1)


def _turn_tiles(move: BitsMove, plan: HostBits, reading: Memory, writing: Memory, first: int, last: int) -> None:
    turn, tile, unit = plan.turn, plan.tile, plan.turn.unit_bytes
    word = word_of(unit)
    pad = word.type(move.pad[0] * ((1 << 8 * unit) - 1) // ((1 << move.bits) - 1))
    steps = [[unit * axis[side] for axis in turn.axes] for side in (2, 3)]
    strides = [tuple(reversed(side)) for side in steps]
    scratch = np.empty((turn.side + 1, math.prod(tile)), word)
    corners = itertools.product(*(range(0, axis.extent, step) for axis, step in zip(turn.axes, tile)))
    for corner in itertools.islice(corners, first, last):
        sizes = [min(axis.extent - start, step) for axis, start, step in zip(turn.axes, corner, tile)]
        inside = [max(min(axis.bound - start, size), 0) for axis, start, size in zip(turn.axes, corner, sizes)]
        from_start, to_start = (sum(map(int.__mul__, corner, side)) for side in steps)
        places = [writing.view(word, tuple(sizes[::-1]), to_start + q * unit * turn.target_pitch, strides[1]) for q in range(turn.side)]
        if inside != sizes:
            for part in places:
                part[...] = pad
        if 0 in inside:
            continue
        *rows, spare = (_in_source_order(plane, inside) for plane in scratch)
        for p, row in enumerate(rows):
            row[...] = reading.view(word, tuple(inside[::-1]), from_start + p * unit * turn.source_pitch, strides[0])
        _turn(rows, move.bits, spare)
        part = tuple([slice(size) for size in reversed(inside)])
        for place, row in zip(places, rows):
            place[part] = row


def _in_source_order(memory: np.ndarray, minor_first: Sequence[int]) -> np.ndarray:
    """A dense array of these sizes, major first, the second minor axis of which, that of the source, has stride 1."""
    along_target, along_source, *others = minor_first
    dense = memory[:math.prod(minor_first)].reshape(*reversed(others), along_target, along_source)
    return dense.swapaxes(-1, -2)


def _turn(rows: Sequence[np.ndarray], bits: int, spare: np.ndarray) -> None:
    """Element q of the word in row p becomes element p of the word in row q, for each place of the rows: squares across the
    diagonal are swapped, of half the size each time."""
    half, word = len(rows) // 2, spare.dtype.type
    while half:
        shift = word(half * bits)
        lower = word(((1 << 8 * spare.itemsize) - 1) // ((1 << half * bits) + 1))
        for p in range(len(rows)):
            if not p & half:
                np.right_shift(rows[p], shift, out=spare)
                spare ^= rows[p + half]
                spare &= lower
                rows[p + half] ^= spare
                spare <<= shift
                rows[p] ^= spare
        half //= 2
