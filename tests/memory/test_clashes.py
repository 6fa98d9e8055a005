"""Which of many arrays share a byte: the law is that of sets of addresses, and slices of one array are told apart."""

import numpy as np
import pytest

from gpulayout.memory import clashes
from gpulayout.memory.clashes import clash


def bytes_of(array, memory):
    """The bytes of an array, as a set of places in the memory that it is a slice of."""
    places = np.arange(memory.nbytes).reshape(-1)
    first = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    offsets = np.zeros((), np.int64)
    for size, stride in zip(array.shape, array.strides):
        offsets = offsets[..., None] + np.arange(size) * stride
    within = offsets.reshape(-1, 1) + np.arange(array.itemsize) + first
    return {*places[within.ravel()].tolist()}


def found_in(arrays, writes):
    bounds = [np.lib.array_utils.byte_bounds(array) if array.size else (0, 0) for array in arrays]
    return clash(arrays, *zip(*bounds), writes)


def random_slice(rng, canvas):
    """A part of a canvas, with steps of both signs now and then."""
    cuts = []
    for size in canvas.shape:
        first, last = sorted(int(each) for each in rng.integers(0, size + 1, 2))
        step = int(rng.choice((1, 1, 1, 2, 3)))
        cuts.append(slice(first, last, step))
    part = canvas[tuple(cuts)]
    return part[tuple(slice(None, None, int(rng.choice((1, 1, -1)))) for _ in cuts)]


@pytest.mark.parametrize("seed", range(4))
def test_a_clash_is_a_shared_byte(seed):
    rng = np.random.default_rng(seed)
    clashed = 0
    for _ in range(300):
        sizes = [int(size) for size in rng.integers(1, 9, int(rng.integers(1, 4)))]
        memory = np.zeros(sizes, rng.choice(("u1", "f4", "c16")))
        arrays = [random_slice(rng, memory) for _ in range(int(rng.integers(1, 5)))]
        writes = [bool(rng.random() < 0.7) for _ in arrays]
        sets = [bytes_of(array, memory) for array in arrays]
        pairs = {
            (one, other)
            for other in range(len(arrays))
            for one in range(len(arrays))
            if one != other and writes[other] and sets[one] & sets[other]
        }
        found = found_in(arrays, writes)
        assert (found in pairs) if pairs else found is None, (memory.shape, arrays, writes)
        clashed += bool(pairs)
    assert 50 < clashed < 250


CANVAS = np.zeros((8, 3, 16, 24), np.float32)
WIDE = np.zeros((40, 2000), np.uint8)
TAKEN_APART = {
    "frames": [CANVAS[k] for k in range(8)],
    "cropped frames": [CANVAS[k, :, : 5 + k, : 20 - k] for k in range(8)],
    "channels": [CANVAS[:, c] for c in range(3)],
    "left and right": [CANVAS[..., :12], CANVAS[..., 12:]],
    "tiles of one frame": [CANVAS[0, :, y : y + 4, x : x + 6] for y in range(0, 16, 4) for x in range(0, 24, 6)],
    "tiles of all frames": [CANVAS[:, :, y : y + 4, x : x + 6] for y in range(0, 16, 4) for x in range(0, 24, 6)],
    "columns": [CANVAS[:, :, :, x] for x in range(24)],
    "many columns": [WIDE[:, x] for x in range(2000)],
    "columns, backwards": [CANVAS[:, :, ::-1, x] for x in range(24)],
    "even and odd": [CANVAS[..., ::2], CANVAS[..., 1::2]],
    "a row further down on the left": [CANVAS[0, 0, 4:, :10], CANVAS[0, 0, 1:, 10:]],
}


@pytest.mark.parametrize("name", TAKEN_APART)
def test_slices_that_lie_between_each_other_are_told_apart_without_pairs(name, monkeypatch):
    arrays = TAKEN_APART[name]
    monkeypatch.setattr(clashes, "share_bytes", lambda *_: pytest.fail("a pair was compared"))
    assert found_in(arrays, [True] * len(arrays)) is None


@pytest.mark.parametrize("name", TAKEN_APART)
def test_an_element_more_is_found_among_them(name):
    arrays = TAKEN_APART[name]
    for number in (0, len(arrays) - 1):
        last = arrays[number][(slice(-1, None),) * arrays[number].ndim]
        assert found_in([*arrays, last], [False] * len(arrays) + [True]) == (number, len(arrays))
        assert found_in([*arrays, last], [False] * len(arrays) + [False]) is None
        writes = [each == number for each in range(len(arrays))]
        assert found_in([*arrays, last], [*writes, False]) == (len(arrays), number)
