"""Packed moves in square blocks of slots, on the CPU: rows of many blocks at once are swapped as kernels/bits_turn.cu swaps words."""
from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from gpulayout.backends.threads import share
from gpulayout.planning.bits_host import HostBits
from gpulayout.planning.bits_move import BitsMove

View = Callable[[tuple[int, ...], int, tuple[int, ...]], np.ndarray]          # (shape, offset, strides) of bytes -> an array over them


def move_turned(move: BitsMove, plan: HostBits, reading: View, writing: View) -> None:
    """Carry out a move whose plan has blocks, tile by tile; the axes of arrays are those of the blocks, major first."""
    share(functools.partial(_turn_tiles, move, plan, reading, writing), plan.chunks(move), 1)


def _turn_tiles(move: BitsMove, plan: HostBits, reading: View, writing: View, first: int, last: int) -> None:
    turn, tile = plan.turn, plan.tile
    pad = move.pad[0] * (255 // ((1 << move.bits) - 1))
    scratch = np.empty((turn.side + 1, math.prod(tile)), np.uint8)
    corners = itertools.product(*(range(0, axis.extent, step) for axis, step in zip(turn.axes, tile)))
    for corner in itertools.islice(corners, first, last):
        sizes = [min(axis.extent - start, step) for axis, start, step in zip(turn.axes, corner, tile)]
        inside = [max(min(axis.bound - start, size), 0) for axis, start, size in zip(turn.axes, corner, sizes)]
        from_start, to_start = (sum(map(int.__mul__, corner, steps)) for steps in plan.strides)
        places = [writing(tuple(sizes[::-1]), to_start + q * turn.target_pitch, plan.strides[1][::-1]) for q in range(turn.side)]
        if inside != sizes:
            for part in places:
                part[...] = pad
        if 0 in inside:
            continue
        *rows, spare = (_in_source_order(plane, inside) for plane in scratch)
        for p, row in enumerate(rows):
            row[...] = reading(tuple(inside[::-1]), from_start + p * turn.source_pitch, plan.strides[0][::-1])
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
    """Element q of the byte in row p becomes element p of the byte in row q, for each place of the rows: squares across the
    diagonal are swapped, of half the size each time."""
    half = len(rows) // 2
    while half:
        shift = half * bits
        lower = 255 // ((1 << shift) + 1)
        for p in range(len(rows)):
            if not p & half:
                np.right_shift(rows[p], shift, out=spare)
                spare ^= rows[p + half]
                spare &= lower
                rows[p + half] ^= spare
                spare <<= shift
                rows[p] ^= spare
        half //= 2
