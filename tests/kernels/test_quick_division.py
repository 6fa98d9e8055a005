"""The quick division of kernels/convert.cuh is the division of IEEE 754: by every divisor, for the hardest quotients.

A quotient that its three operations get wrong lies next to the middle between two floats.  Let x = A 2^-23 and
y = B 2^-23, with whole numbers of 24 bits, and u the last place of the quotient: 2^-24 if x < y, else 2^-23.

    r = 1 / y + d, |d| <= 2^-25, and q = x r is within 1.5 u (x < y) or 1 u of x / y
    the last sum, before it is rounded, is off by (q - x / y)(1 - y r), at most 3 u 2^-25 or 2 u 2^-25; and, if x < y,
    by another 2 u 2^-25, as x - q y may have a bit too many
    the middles are M 2^-25 or M 2^-24 with M odd, and x / y is k u / (2 B) off them, where A 2^25 or A 2^24 = B M + k

So only |k| <= 5 can go wrong.  For each B and k that equation has a few solutions, and all of them are tried.
"""

import numpy as np
import pytest

from tests.support.effort import ALL
from tests.support.sass.floats import fused_f32

MANTISSAS, PARTS = 1 << 23, 8


def quick(x, y):
    """As gpl_quick_quotient computes it."""
    r = np.float32(1) / y
    q = x * r
    return fused_f32(-fused_f32(q, y, -x), r, q)


def hard_numerators(divisors, k, shift):
    """(A, B) with A 2^shift = B M + k for odd M of 25 bits."""
    twos = (k & -k).bit_length() - 1
    fits = divisors[(divisors & (2 << twos) - 1) == 1 << twos]  # M is odd, so B has as many factors of 2 as k
    odd, bits = fits >> twos, shift - twos
    inverse = odd.copy()
    for _ in range(5):  # Newton: each time twice as many bits
        inverse = inverse * (2 - odd * inverse) & (1 << bits) - 1
    first = -(k >> twos) * inverse & (1 << bits) - 1
    pairs = []
    for middle in range(0, 1 << 25, 1 << bits):
        numerators = fits * (first + middle) + k >> shift
        assert (numerators << shift == fits * (first + middle) + k).all()
        inside = (first + middle >= 1 << 24) & (numerators >= MANTISSAS) & (numerators < 2 * MANTISSAS)
        pairs.append((numerators[inside], fits[inside]))
    return (np.concatenate(each) for each in zip(*pairs))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shift", (24, 25))
@pytest.mark.parametrize("part", range(PARTS))
def test_the_hardest_quotients_are_right(part, shift):
    divisors = np.arange(MANTISSAS + part * MANTISSAS // PARTS, MANTISSAS + (part + 1) * MANTISSAS // PARTS)
    for k in (*range(-5, 0), *range(1, 6)):
        a, b = hard_numerators(divisors, k, shift)
        assert a.size and ((a < b) == (shift == 25)).all()
        x, y = a.astype(np.float32), b.astype(np.float32)
        assert (quick(x, y) == x / y).all(), k


@pytest.mark.parametrize("part", range(PARTS))
def test_reciprocals_are_the_nearest(part):
    """From every float within one unit in the last place of 1 / y; only for y = 2 - 2^-23 it may be another one."""
    whole = np.arange(MANTISSAS + part * MANTISSAS // PARTS, MANTISSAS + (part + 1) * MANTISSAS // PARTS)
    y = (whole / MANTISSAS).astype(np.float32)
    right = np.float32(1) / y
    for step in range(-2, 3):  # below a power of two, units are half as large
        near = (right.view(np.int32) + step).view(np.float32)
        y_near, r_near = y[fits := np.abs(near - 1 / y.astype(np.float64)) <= 2.0**-24], near[fits]
        r = fused_f32(fused_f32(-y_near, r_near, np.float32(1)), r_near, r_near)
        assert set(y_near[r != right[fits]]) <= {np.float32(2 - 2.0**-23)}


def test_random_quotients_are_right():
    random = np.random.default_rng(1)
    x, y = (random.integers(MANTISSAS, 2 * MANTISSAS, 1 << (22 if ALL else 18)).astype(np.float32) for _ in range(2))
    assert (quick(x, y) == x / y).all()
    assert (x * (1 / y) != x / y).any()


def test_every_byte_and_many_divisors():
    """All bytes and 16-bit integers that code takes to be near, by divisors of every size in its range."""
    random = np.random.default_rng(2)
    x = np.concatenate([np.arange(256), random.integers(-(2**15), 2**16, 256)]).astype(np.float32)
    y = (random.uniform(1, 2, 512) * 2.0 ** random.integers(-10, 10, 512)).astype(np.float32)
    x, y = np.meshgrid(x, np.concatenate([y, np.float32([255, 2.0**-10, 2.0**10, 1, 127.5])]))
    assert np.array_equal(quick(x, y).view(np.uint32), (x / y).view(np.uint32))  # zeros too
