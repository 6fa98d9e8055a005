"""Runs of bytes within a large buffer, against their definition loop by loop."""

import itertools

import numpy as np
import pytest

from gpulayout.moves.runs import Runs, runs_of
from tests.support.block_cases import bytes_of

SOME = [
    Runs(offset, length, loops)
    for offset, length in itertools.product((0, 3), (1, 2, 5))
    for loops in ((), ((1, 9),), ((3, 7),), ((2, 40), (3, 7)), ((2, 100), (1, 50), (4, 6)))
]


@pytest.mark.parametrize("runs", SOME, ids=str)
def test_starts_and_views_follow_the_loops(runs):
    memory = np.arange(256, dtype=np.uint8)
    wanted = bytes_of(runs)
    assert runs.starts().dtype == np.int64 and runs.starts().tolist() == wanted[:: runs.length]
    assert runs.run_count == len(wanted) // runs.length and runs.nbytes == len(wanted)
    view = runs.of(memory)
    assert view.shape == (*(count for count, _ in runs.loops), runs.length) and np.shares_memory(view, memory)
    assert view.reshape(-1).tolist() == wanted
    view[...] = 0
    assert np.flatnonzero(memory != np.arange(256)).tolist() == sorted(set(wanted) - {0})


@pytest.mark.parametrize("runs", [Runs(0, 0), Runs(7, 0, ((3, 5),))])
def test_no_bytes_are_no_runs(runs):
    assert runs.run_count == runs.nbytes == runs.starts().size == runs.of(np.empty(0, np.uint8)).size == 0
    assert runs.starts().dtype == np.int64


def test_memory_must_reach_the_last_byte():
    runs = Runs(4, 4, ((2, 30), (3, 8)))  # the last run is bytes 50 to 54
    assert runs.of(np.zeros(54, np.uint8)).shape == (2, 3, 4)
    with pytest.raises(BufferError, match="^memory has 53 bytes, but the last run ends at 54$"):
        runs.of(np.zeros(53, np.uint8))


@pytest.mark.parametrize("memory", [np.zeros(9, np.int8), np.zeros((3, 3), np.uint8), np.zeros(18, np.uint8)[::2]])
def test_memory_is_contiguous_bytes(memory):
    with pytest.raises(BufferError, match="runs are of 1-D uint8"):
        Runs(0, 1).of(memory)


def test_a_read_only_memory_has_a_read_only_view():
    memory = np.zeros(9, np.uint8)
    memory.flags.writeable = False
    assert not Runs(0, 2, ((3, 3),)).of(memory).flags.writeable


@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("offset", [0, 5])
def test_loops_become_the_longest_runs(bits, offset):
    """The places of a box are those of its loops, the most minor loop fastest; neighbours are one run."""
    for extents in itertools.product((1, 2, 3), repeat=3):
        for gaps in itertools.product((0, 1), repeat=3):
            levels, stride = [], 1 + gaps[0]
            for extent, gap in zip(extents, (*gaps[1:], 0)):
                levels.append((extent, stride))
                stride *= extent + gap
            places = [0]
            for extent, stride in levels:
                places = [place + step * stride for step in range(extent) for place in places]
            wanted = [(offset + place) * bits // 8 + byte for place in places for byte in range(bits // 8)]
            runs = runs_of(levels, offset, bits)
            assert bytes_of(runs) == wanted, levels
            ends = sum(after != before + 1 for before, after in zip(wanted, wanted[1:]))
            assert runs.run_count == ends + 1 or runs.length == wanted.index(wanted[-1]) + 1, levels
            joined = [a for a, b in zip(runs.loops, runs.loops[1:]) if a[1] == b[0] * b[1]]
            assert not joined, (levels, runs)


def test_packed_runs_end_with_the_last_byte():
    assert runs_of([(5, 1)], 0, 4) == Runs(0, 3)
    assert runs_of([(6, 1), (2, 10)], 20, 4) == Runs(10, 3, ((2, 5),))
