"""Conversions do not depend on the floating-point mode of the thread that calls them, and leave it as it was."""

import contextlib
import ctypes
import itertools
import platform

import numpy as np
import pytest

import gpulayout as gl
from tests.support.element_conversions import ENGINES, conversions

NAMES = "f16", "f8e5m2", "f8e4m3fn", "f6e3m2fn", "f4e2m1fn", "f32", "bf16"
TINY, HALF, TENTH = np.float32(2.0**-140), np.float32(0.5), np.float32(0.1)
UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}  # FE_UPWARD of glibc


@pytest.fixture(params=ENGINES)
def engine(request):
    with conversions(request.param) as found:
        yield found


@contextlib.contextmanager
def flushing():
    """Subnormal numbers become zeros."""
    torch = pytest.importorskip("torch")
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextlib.contextmanager
def upward():
    """Numbers are rounded up."""
    if platform.machine() not in UPWARD:
        pytest.skip(f"the number of FE_UPWARD on {platform.machine()} is not known here")
    libm = ctypes.CDLL("libm.so.6")
    libm.fesetround(UPWARD[platform.machine()])
    try:
        yield
    finally:
        libm.fesetround(0)


def everything():
    """Casts of all codes of small floats to others, and steps on them, as bytes."""
    found = {}
    for source, target in itertools.permutations(NAMES, 2):
        kind = gl.ElementType(source)
        codes = np.arange(1 << min(8 * kind.itemsize, 16)).astype(f"u{kind.itemsize}").view(kind.dtype)
        for options in ({}, {"scale": TENTH, "shift": TENTH}, {"scale": TENTH, "divide": True}):
            result = gl.pack(codes, "C", dtype=target, **options)
            found[source, target, *options] = result.view(gl.ElementType(target).carrier).tobytes()
    return found


def mode():
    """What a few operations give tells the modes apart."""
    return float(TINY * HALF), float(TENTH + TENTH * TENTH), float(-TENTH - TENTH * TENTH)


@pytest.mark.parametrize("other", [flushing, upward])
def test_another_mode_changes_nothing_and_stays(engine, other):
    usual, expected = mode(), everything()
    with other():
        before = mode()
        found = everything()
        assert mode() == before != usual
    assert mode() == usual
    different = [key for key in expected if found[key] != expected[key]]
    assert not different
