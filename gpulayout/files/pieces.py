"""The elements of an array whose bytes lie in many pieces of several files, read or written like those of `Elements`.

Tensors of files become one, or one becomes several.  The array that a plan reads is then a list of segments:

    stack                       a segment for each member
    join along the first axis   a segment for each part
    join along another axis     one segment, which takes a run of each part in turns
    in turns (interleave)       the same, of shorter runs
    a cut along another axis    one segment of one piece, whose runs have gaps
    parts in reverse order      one segment of one piece, with a negative stride

The bytes of the array are those of its segments, one after the other.  Those of a segment are rows: run 0 of each
piece, then run 1 of each piece, and so on.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import BinaryIO, NamedTuple

import numpy as np

from gpulayout.files.elements import NO_TAILS, Tails, became_shorter, moved_by_engine, read_at, write_at
from gpulayout.files.errors import FileError
from gpulayout.files.families import Family, Numbers, Portion, families_of, groups, portions
from gpulayout.files.npy import Header
from gpulayout.files.strided_runs import move_nest
from gpulayout.moves.runs import Runs


class FilePiece(NamedTuple):
    """Bytes of an open file that stand together in an array, run after run.

    name   what messages call them: the file and the tensor
    runs   their offsets are those in the file; strides may be negative
    """

    stream: BinaryIO
    name: str
    runs: Runs

    @property
    def span(self) -> tuple[int, int]:
        """The first byte in the file, and one past the last."""
        if not self.runs.nbytes:
            return 0, 0
        steps = [(count - 1) * stride for count, stride in self.runs.loops]
        first, last = (self.runs.offset + sum(way(step, 0) for step in steps) for way in (min, max))
        return first, last + self.runs.length


@dataclass(frozen=True)
class Pieces:
    """The elements of an array that lie in pieces of open files.  Threads may read and write them at the same time.

    header     what they are
    segments   of pieces with equally many runs each
    stream     None: there is not one file, as for `Elements` of a pipe
    """

    header: Header
    segments: tuple[tuple[FilePiece, ...], ...] = field(repr=False)
    stream: None = None

    def __post_init__(self) -> None:
        nbytes = sum(piece.runs.nbytes for segment in self.segments for piece in segment)
        counts = ({piece.runs.run_count for piece in segment if piece.runs.length} for segment in self.segments)
        if nbytes != self.header.nbytes or any(len(each) > 1 for each in counts):
            raise ValueError(f"{self.header.name}: pieces of {nbytes} bytes are not an array of {self.header.nbytes}")

    @cached_property
    def streams(self) -> tuple[BinaryIO, ...]:
        """All files, each once."""
        return tuple({id(piece.stream): piece.stream for segment in self.segments for piece in segment}.values())

    def read_runs(self, memory: memoryview, starts: np.ndarray, length: int, around: int = -1) -> None:
        """Fill `memory` with runs of one length, which begin at these bytes of the elements.

        around   is for an array in one file
        """
        self._move(memory, starts, length, writes=False)

    def write_runs(self, memory: memoryview, starts: np.ndarray, length: int, tails: Tails = NO_TAILS) -> None:
        """Write runs, as `read_runs` reads them.  `tails` are for an array in one file, whose pages they complete."""
        self._move(memory, starts, length, writes=True)

    # ---- all runs at once --------------------------------------------------------------------------------------------

    @cached_property
    def _families(self) -> list[Family]:
        return families_of([(piece.stream, piece.runs) for piece in segment] for segment in self.segments)

    @cached_property
    def _ends(self) -> Numbers:
        return np.array([family.end for family in self._families], np.int64)

    def _move(self, memory: memoryview, starts: Numbers, length: int, *, writes: bool) -> None:
        if not length:
            return
        call = self._write if writes else self._read
        for which, family, inside, begin, size in self._within_families(starts, length):
            for portion in portions(family, inside, size):
                view = _view(memory, starts.size, length, begin, portion)
                numbers = which[portion.which]
                same = _slice(numbers)
                if same is not None:
                    move_nest(portion.nest, view[same], call, writes=writes)
                elif writes:
                    move_nest(portion.nest, view[numbers], call, writes=True)  # a copy
                else:
                    read = np.empty((numbers.size, *view.shape[1:]), np.uint8)
                    move_nest(portion.nest, read, call, writes=False)
                    view[numbers] = read

    def _within_families(self, starts: Numbers, length: int) -> Iterator[tuple[Numbers, Family, Numbers, int, int]]:
        """Which runs lie in a family, the family, and where they begin in it; or else one run of which a part does.

        The last two are where the part begins in its run, and its bytes.
        """
        first = np.searchsorted(self._ends, starts, "right")
        is_whole = starts + length <= self._ends[first]
        every = np.arange(starts.size)
        for number, which in groups(first[is_whole], every[is_whole]):
            family = self._families[number]
            yield which, family, starts[which] - family.begin, 0, length
        for which in every[~is_whole].tolist():
            start, end = int(starts[which]), int(starts[which]) + length
            for family in self._families[first[which] :]:
                if family.begin >= end:
                    break
                low, high = max(start, family.begin), min(end, family.end)
                yield np.array([which]), family, np.array([low - family.begin]), low - start, high - low

    # ---- calls of the system -----------------------------------------------------------------------------------------

    # The native engine moves runs without Python's lock.  Those that it cannot move are for `read_at` and `write_at`,
    # which also say what is wrong with them.

    def _read(self, stream: BinaryIO, memory: memoryview, places: np.ndarray, length: int) -> None:
        done = moved_by_engine("read_runs", stream, -1, memory, places, length)
        for number, place in enumerate(places[done:].tolist(), done):
            with self._named(stream, place):
                count = read_at(stream, memory[number * length : (number + 1) * length], place, "")
            if count < length:
                raise self._too_short(stream)

    def _write(self, stream: BinaryIO, memory: memoryview, places: np.ndarray, length: int) -> None:
        done = moved_by_engine("write_runs", stream, memory, places, length, *NO_TAILS)
        for number, place in enumerate(places[done:].tolist(), done):
            with self._named(stream, place):
                write_at(stream, memory[number * length : (number + 1) * length], place, "")

    @contextlib.contextmanager
    def _named(self, stream: BinaryIO, place: int) -> Iterator[None]:
        """An OSError inside the `with` gets the name of a piece.  It is looked for only then: there may be many."""
        try:
            yield
        except OSError as error:
            names = (piece.name for piece in self._of(stream) if piece.span[0] <= place < piece.span[1])
            raise OSError(error.errno, error.strerror, next(names, self.header.name)) from error

    def _too_short(self, stream: BinaryIO) -> FileError:
        size = os.fstat(stream.fileno()).st_size
        piece = next((piece for piece in self._of(stream) if piece.span[1] > size), None)
        name, needed = (self.header.name, "more") if piece is None else (piece.name, piece.span[1])
        return became_shorter(stream, name, f"but its shape needs {needed}")

    def _of(self, stream: BinaryIO) -> Iterator[FilePiece]:
        return (piece for segment in self.segments for piece in segment if piece.stream is stream)


def _view(memory: memoryview, count: int, length: int, begin: int, portion: Portion) -> np.ndarray:
    """A portion of each of `count` runs in memory, `begin` bytes further on, with the axes of its nest."""
    nest = portion.nest
    shape = count, nest.starts.shape[1], *(count for count, _ in nest.loops), nest.length
    return np.ndarray(shape, np.uint8, memory, begin + portion.begin, (length, *portion.strides, 1))


def _slice(numbers: Numbers) -> slice | None:
    """The slice of these numbers, which grow; None where they are at different distances."""
    first, last = int(numbers[0]), int(numbers[-1])
    step = int(numbers[1]) - first if numbers.size > 1 else 1
    if last - first != step * (numbers.size - 1) or (numbers.size > 2 and (np.diff(numbers) != step).any()):
        return None
    return slice(first, last + 1, step)
