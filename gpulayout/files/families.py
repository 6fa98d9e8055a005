"""Where the bytes of an array lie that files hold in many pieces: index arithmetic, for many runs of the array at once.

Segments that differ only in where their pieces begin are one family, such as the experts of a model: its rows are those
of all members, one after the other.  A strand of a family is the bytes of a row that one piece has, in all rows.

    row         0  1  2 | 3  4  5     two members of 3 rows
    strand 0    aa aa aa  dd dd dd    of 2 bytes, at column 0 of a row
    strand 1    b  b  b   e  e  e     of 1 byte, at column 2
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from gpulayout.files.strided_runs import Loops, Nest
from gpulayout.moves.runs import Runs

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


class Strand(NamedTuple):
    """The bytes of all rows that lie in one file.

    bases           where the first run of each member begins in the file
    loops, length   of a member's runs
    column          where they begin in a row
    """

    stream: BinaryIO
    bases: Numbers
    loops: Loops
    length: int
    column: int


class Family(NamedTuple):
    """Rows of bytes.

    begin, end   of its bytes in the array
    pitch        bytes of a row
    columns      where each strand ends in a row
    """

    begin: int
    end: int
    pitch: int
    strands: tuple[Strand, ...]
    columns: Numbers


class Portion(NamedTuple):
    """What one strand has of many runs of the array.

    which     the numbers of the runs
    nest      where it lies in the file; axis 0 of its `starts` is that of the runs
    begin     where it begins in memory, from the first byte of a run on
    strides   in memory, of the other axis of `starts` and of the loops
    """

    which: Numbers
    nest: Nest
    begin: int
    strides: tuple[int, ...]


# ---- families of segments --------------------------------------------------------------------------------------------


def families_of(segments: Iterable[Sequence[tuple[BinaryIO, Runs]]]) -> list[Family]:
    """The families of segments, each of which is the file and the runs of its pieces."""
    families: list[Family] = []
    begin = 0
    normal = (pieces for segment in segments if (pieces := _normal([piece for piece in segment if piece[1].nbytes])))
    for _, alike in itertools.groupby(normal, lambda pieces: [(id(file), runs[1:]) for file, runs in pieces]):
        family = _family([*alike], begin)
        families.append(family)
        begin = family.end
    return families


def _normal(pieces: Sequence[tuple[BinaryIO, Runs]]) -> list[tuple[BinaryIO, Runs]]:
    """The same bytes in as few pieces and loops as possible."""
    joined: list[tuple[BinaryIO, Runs]] = []
    for file, runs in pieces:
        runs = runs._replace(loops=_fewer(runs.loops))
        if joined:
            last_file, last = joined[-1]
            if last_file is file and last.loops == runs.loops and last.offset + last.length == runs.offset:
                joined[-1] = file, last._replace(length=last.length + runs.length)
                continue
        joined.append((file, runs))
    return [(file, _longer(runs)) for file, runs in joined] if len(joined) == 1 else joined


def _fewer(loops: Loops) -> Loops:
    """Loops of more than one run; one that goes on where the next inner one ends is one with it.

    >>> _fewer(((2, 24), (3, 8), (1, 5), (4, 1)))
    ((6, 8), (4, 1))
    """
    found: list[tuple[int, int]] = []
    for count, stride in loops:
        if count == 1:
            continue
        if found and found[-1][1] == count * stride:
            found[-1] = found[-1][0] * count, stride
        else:
            found.append((count, stride))
    return tuple(found)


def _longer(runs: Runs) -> Runs:
    """Runs of a single piece: those that follow each other are one."""
    *outer, (count, stride) = runs.loops or ((1, 0),)
    if stride != runs.length:
        return runs
    return Runs(runs.offset, count * runs.length, tuple(outer))


def _family(members: Sequence[Sequence[tuple[BinaryIO, Runs]]], begin: int) -> Family:
    """The family of members that are alike.  Where they begin at equal distances, they are one more loop."""
    bases = np.array([[runs.offset for _, runs in pieces] for pieces in members], np.int64)
    pieces, end = members[0], begin + len(members) * sum(runs.nbytes for _, runs in members[0])
    steps = np.diff(bases, axis=0)
    if len(steps) and (steps == steps[0]).all():
        loops = [((len(members), int(step)), *runs.loops) for step, (_, runs) in zip(steps[0], pieces)]
        pieces = _normal([(file, runs._replace(loops=outer)) for outer, (file, runs) in zip(loops, pieces)])
        bases = np.array([[runs.offset for _, runs in pieces]], np.int64)
    columns = np.cumsum([runs.length for _, runs in pieces])
    strands = [
        Strand(file, bases[:, number].copy(), runs.loops, runs.length, int(columns[number]) - runs.length)
        for number, (file, runs) in enumerate(pieces)
    ]
    return Family(begin, end, int(columns[-1]), tuple(strands), columns)


# ---- runs of the array -----------------------------------------------------------------------------------------------


def portions(family: Family, starts: Numbers, length: int) -> Iterator[Portion]:
    """Where runs of one length lie which begin at these bytes of a family and end in it."""
    row, column = np.divmod(starts, family.pitch)
    number = np.searchsorted(family.columns, column, "right")
    is_whole = column + length <= family.columns[number]
    every = np.arange(starts.size)
    for each, which in groups(number[is_whole], every[is_whole]):
        strand = family.strands[each]
        yield from _rows(strand, row[which], 1, (column[which] - strand.column, length), which, (0, 0))
    for first, which in groups(column[~is_whole], every[~is_whole]):
        for strand in family.strands:
            for skip, rows, left_out, size, begin in _overlaps(first, first + length, strand, family.pitch):
                shift = np.full(which.size, left_out)
                yield from _rows(strand, row[which] + skip, rows, (shift, size), which, (begin, family.pitch))


def groups(values: Numbers, which: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each value, and those of `which` that have it."""
    if not values.size:
        return
    if (values == values[0]).all():
        yield int(values[0]), which
        return
    order = np.argsort(values, kind="stable")
    ordered, which = values[order], which[order]
    bounds = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), values.size]
    for begin, end in itertools.pairwise(bounds):
        yield int(ordered[begin]), which[begin:end]


def _overlaps(begin: int, end: int, strand: Strand, pitch: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The bytes of a strand among those from column `begin` of row 0 on: its runs, and parts of the first and the last.

    Of each: the first row, how many rows, bytes of the run that are left out, how many there are, and where in memory.

    >>> [*_overlaps(3, 14, Strand(None, None, (), 2, 2), 4)]  # columns 2 and 3 of 4: 3, 6, 7, 10, 11
    [(1, 2, 0, 2, 3), (0, 1, 1, 1, 0)]
    """
    low, high = strand.column, strand.column + strand.length
    first, last = -((low - begin) // pitch), (end - high) // pitch + 1
    if first < last:
        yield first, last - first, 0, strand.length, first * pitch + low - begin
    for row in sorted({first - 1, last}):
        start, stop = max(begin, row * pitch + low), min(end, row * pitch + high)
        if start < stop:
            yield row, 1, start - row * pitch - low, stop - start, start - begin


def _rows(
    strand: Strand, first: Numbers, rows: int, run: tuple[Numbers, int], which: Numbers, memory: tuple[int, int]
) -> Iterator[Portion]:
    """The bytes of a strand in so many rows from each of some first ones on.

    run      how many bytes of the strand's runs are left out before them, and how many there are
    memory   where they begin in memory, and bytes from row to row
    """
    (shift, length), (begin, pitch) = run, memory
    for some, skip, starts, loops in _nests(strand.bases, strand.loops, first, rows):
        counts = [count for count, _ in loops]
        strides = tuple(pitch * math.prod(counts[axis:]) for axis in range(len(counts) + 1))
        nest = Nest(strand.stream, starts + shift[some][:, np.newaxis], loops, length)
        yield Portion(which[some], nest, begin + skip * pitch, strides)


def _nests(bases: Numbers, loops: Loops, first: Numbers, rows: int) -> Iterator[tuple[Numbers, int, np.ndarray, Loops]]:
    """So many runs of a strand from each of some first ones on, as loops.

    Of each nest: which of the first ones it is for, how many runs come before it, where it begins, and its loops.
    """
    every = np.arange(first.size)
    if not loops:
        yield every, 0, bases[first[:, np.newaxis] + np.arange(rows)], ()
        return
    (*upper_loops, (count, stride)) = loops
    outer = tuple(upper_loops)
    upper, digit = np.divmod(first, count)
    if rows <= count - int(digit.max()):
        yield every, 0, (_places(bases, outer, upper) + digit * stride)[:, np.newaxis], ((rows, stride),)
        return
    for value, which in groups(digit, every):
        above = upper[which]
        head = min(count - value, rows) if value else 0
        whole, tail = divmod(rows - head, count)
        if head:
            yield which, 0, (_places(bases, outer, above) + value * stride)[:, np.newaxis], ((head, stride),)
            above = above + 1
        if whole:
            for some, skip, starts, inner in _nests(bases, outer, above, whole):
                yield which[some], head + count * skip, starts, (*inner, (count, stride))
        if tail:
            yield which, rows - tail, _places(bases, outer, above + whole)[:, np.newaxis], ((tail, stride),)


def _places(bases: Numbers, loops: Loops, numbers: Numbers) -> Numbers:
    """Where runs begin, by their numbers."""
    places = np.zeros(numbers.size, np.int64)
    for count, stride in reversed(loops):
        numbers, digits = np.divmod(numbers, count)
        places += digits * stride
    return bases[numbers] + places
