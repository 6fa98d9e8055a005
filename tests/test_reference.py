"""The reference model itself, against the old shapes document's examples and a transposed NumPy array."""

import itertools

import numpy as np
import pytest

from tests import reference


@pytest.mark.parametrize(
    "minor_to_major, widths, expected",
    [
        ((0, 1), None, "a d b e c f"),
        ((1, 0), None, "a b c d e f"),
        ((0, 1), (3, 5), "a d 0 b e 0 c f 0 0 0 0 0 0 0"),
    ],
)
def test_the_reference_gives_the_documents_strips(minor_to_major, widths, expected):
    letters = [*"abcdef", "0"]
    numbers = reference.numbers_in_places((2, 3), minor_to_major, widths)
    assert " ".join(letters[number] for number in numbers) == expected


def test_the_reference_without_padding_is_a_transposed_array():
    dimensions = (2, 3, 5)
    for order in itertools.permutations(range(3)):
        numbers = np.arange(30).reshape(dimensions).transpose(order[::-1]).reshape(-1)
        assert reference.numbers_in_places(dimensions, order).tolist() == numbers.tolist()


def test_payloads_tell_elements_apart():
    for itemsize in (2, 4, 8, 16):
        assert len({row.tobytes() for row in reference.payload(1000, itemsize)}) == 1000
    assert len({row.tobytes() for row in reference.payload(251, 1)}) == 251


def test_padding_is_the_pad_and_nothing_else():
    found = reference.buffer_bytes((2,), (0,), (4,), 2, b"\xab\xcd")
    assert found == b"\x00\x00\x01\x00\xab\xcd\xab\xcd"


def test_both_references_agree():
    for rank in range(5):
        for order in itertools.permutations(range(rank)):
            dimensions, widths = (2, 1, 3, 2)[:rank], (2, 3, 4, 3)[:rank]
            for padded in (None, widths):
                assert (
                    reference.numbers_in_places(dimensions, order, padded)
                    == reference.numbers_by_numpy(dimensions, order, padded)
                ).all()


@pytest.mark.parametrize(
    "dimensions, tiles, tail, expected",
    [
        # The documented figures of T(2,2) and T(2,4)(2,1), a sub-tile that does not divide its tile, a tail, a scalar.
        ((3, 5), [(2, 2)], 1, [0, 1, 5, 6, 2, 3, 7, 8, 4, -1, 9, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, -1, -1, -1]),
        ((2, 4), [(2, 4), (2, 1)], 1, [0, 4, 1, 5, 2, 6, 3, 7]),
        ((6,), [(3,), (2,)], 1, [0, 1, 2, -1, 3, 4, 5, -1]),
        ((5,), [], 4, [0, 1, 2, 3, 4, -1, -1, -1]),
        ((), [(3,)], 1, [0, -1, -1]),
        ((0, 3), [(2, 2)], 8, []),
        ((2, 3), [("*", 4)], 1, [0, 1, 2, 3, 4, 5, -1, -1]),
        ((3,), [(2, 2)], 1, [0, 1, -1, -1, 2, -1, -1, -1]),
    ],
)
def test_the_reference_of_tiles_by_hand(dimensions, tiles, tail, expected):
    order = tuple(reversed(range(len(dimensions))))
    assert reference.tiled_numbers(dimensions, order, tiles=tiles, tail=tail).tolist() == expected


def test_the_reference_of_tiles_without_tiles_is_the_reference_of_padding():
    for order in itertools.permutations(range(3)):
        assert np.array_equal(
            reference.tiled_numbers((2, 3, 2), order, (2, 5, 3)),
            reference.numbers_in_places((2, 3, 2), order, (2, 5, 3)),
        )
