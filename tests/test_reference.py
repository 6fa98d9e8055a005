"""The reference model itself, against the old shapes document's examples and a transposed NumPy array."""
import itertools

import numpy as np
import pytest

from tests import reference


@pytest.mark.parametrize("minor_to_major, widths, expected", [
    ((0, 1), None, "a d b e c f"),
    ((1, 0), None, "a b c d e f"),
    ((0, 1), (3, 5), "a d 0 b e 0 c f 0 0 0 0 0 0 0"),
])
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
                assert (reference.numbers_in_places(dimensions, order, padded)
                        == reference.numbers_by_numpy(dimensions, order, padded)).all()
