"""Division by multiplication: exact for every number and divisor that the kernels use, and no step wraps."""

import itertools

import pytest

from gpulayout.gpu.parameters import divisor, reciprocal
from tests.support.division import divide, multiplied


def check(number, value, bits):
    by = divisor(value, bits)
    assert 0 <= by.multiplier < 2**bits and 0 <= by.shift < bits and by.value == value
    upper_half = number * by.multiplier >> bits
    assert upper_half + number < 2**bits  # the sum the kernels form does not wrap
    assert divide(number, by, bits) == number // value, (number, value)
    without_sum = reciprocal(value, bits)
    assert 0 <= without_sum.multiplier < 2**bits and 0 <= without_sum.shift < bits
    if value > 1 or number == 0:
        assert multiplied(number, without_sum, bits) == number // value, (number, value)


@pytest.mark.parametrize("bits", [2, 3, 4, 6, 8])
def test_every_pair_of_small_numbers(bits):
    for number, value in itertools.product(range(2 ** (bits - 1)), range(1, 2 ** (bits - 1))):
        check(number, value, bits)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_numbers_at_the_boundaries(bits):
    """The largest numbers, and those next to multiples of the divisor, where a rounding error would show first."""
    top = 2 ** (bits - 1) - 1
    near_powers = [2**k + d for k in range(bits) for d in (-1, 0, 1)]
    values = {value for value in (*range(1, 40), *near_powers, top // 2, top // 3, top - 1, top) if 1 <= value <= top}
    for value in values:
        last = top // value * value
        middle = top // 2 // value * value
        for number in {0, 1, value - 1, value, value + 1, 2 * value, middle - 1, middle, last - 1, last, top - 1, top}:
            if 0 <= number <= top:
                check(number, value, bits)


def test_the_limit_without_a_sum_is_real():
    """From 2^(bits-1) on, some numbers are divided wrong."""
    by = reciprocal(7, 8)
    assert [number for number in range(2**8) if multiplied(number, by, 8) != number // 7][0] >= 2**7


def test_the_limit_is_real():
    """With one bit more the sum overflows a word, so the bound n < 2^(bits-1) is necessary."""
    by = divisor(7, 32)
    number = 2**32 - 1
    assert (number * by.multiplier >> 32) + number >= 2**32
