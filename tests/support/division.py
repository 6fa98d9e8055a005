"""Divisions as kernels compute them from the numbers of `gpulayout.gpu.parameters`, for 0 <= number < 2^(bits-1)."""


def divide(number, by, bits):
    """number // by.value, from a `divisor`."""
    return ((number * by.multiplier >> bits) + number) >> by.shift


def multiplied(number, by, bits):
    """number // by.value, from a `reciprocal`."""
    return (number * by.multiplier >> bits) >> by.shift
