"""Conversions do not depend on the floating-point mode of the thread that calls them."""

import itertools

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")


@pytest.fixture
def flushing():
    """A thread in which subnormal numbers become zeros."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    yield
    torch.set_flush_denormal(False)


NAMES = "f16", "f8e5m2", "f8e4m3fn", "f6e3m2fn", "f4e2m1fn", "f32", "bf16"


def everything():
    """Casts of all codes of small floats to others, as bytes."""
    found = {}
    for source, target in itertools.permutations(NAMES, 2):
        kind = gl.ElementType(source)
        codes = np.arange(1 << min(8 * kind.itemsize, 16)).astype(f"u{kind.itemsize}")
        result = gl.pack(codes.view(kind.dtype), "C", dtype=target, scale=0.5)
        found[source, target] = result.view(gl.ElementType(target).carrier).tobytes()
    return found


def test_subnormal_numbers_are_kept(flushing):
    assert np.float32(2.0**-140) * np.float32(0.5) == 0  # the mode is on
    found = everything()
    assert np.float32(2.0**-140) * np.float32(0.5) == 0  # and still is
    torch.set_flush_denormal(False)
    assert found == everything()
