"""Casts in vectors of the native engine (cast_kernels.h) beside its first instruction set, whose loops are convert.cuh.

GPULAYOUT_TEST_ALL=1 casts all 2^32 f32.
"""

import functools
import itertools

import numpy as np
import pytest

from gpulayout.layout.element_type import ElementType
from gpulayout.moves.arithmetic import Arithmetic
from tests import reference_arithmetic as model
from tests.support.effort import ALL
from tests.support.element_conversions import conversions

FLOATS = ("f8e5m2", "f8e4m3fn", "bf16", "f16", "f32", "f64")
TYPES = tuple(ElementType(name) for name in (*FLOATS, "u8", "s8", "u16", "s16", "s32"))
F32 = ElementType.F32
STEP = 1 if ALL else 8191  # from one pattern of f32 to the next; an odd number, so all of their last bits come
CHUNK = 1 << 22


@pytest.fixture(params=("second", "third"))
def engine(request):
    """The name of an instruction set with vectors, where this processor has it."""
    with conversions(request.param):
        return request.param


def cast(name, values, source, target, saturate=True):
    """The codes of the target, as the engine with an instruction set writes them."""
    with conversions(name) as found:
        return found.cast(values, source, target, saturate).view(target.carrier)


def differ(found, expected, target):
    """Which codes are not the same, but for those of two nans."""
    different = found != expected
    if target.is_floating:
        with np.errstate(all="ignore"):
            nans = [np.isnan(codes.view(target.dtype).astype(np.float32)) for codes in (found, expected)]
        different &= ~(nans[0] & nans[1])
    return different


def asked(target):
    """The values of `saturate` that make a difference."""
    return (True, False) if target is ElementType.F8E4M3FN else (True,)


@pytest.mark.parametrize("target", [kind for kind in TYPES if kind is not F32], ids=str)
def test_f32_of_all_exponents(engine, target):
    for start in range(0, 1 << 32, CHUNK * STEP):
        codes = np.arange(start, min(start + CHUNK * STEP, 1 << 32), STEP, np.uint64).astype(np.uint32)
        for saturate in asked(target):
            expected = cast("first", codes, F32, target, saturate)
            bad = differ(cast(engine, codes, F32, target, saturate), expected, target)
            assert not bad.any(), (target, saturate, [hex(code) for code in codes[bad][:5]])


@functools.cache
def patterns(source):
    """All codes of up to two bytes; else those next to each power of two: as mantissas, with all exponents that matter
    to other types, or added to another power in an integer.
    """
    bits = 8 * source.itemsize
    if bits <= 16:
        return np.arange(1 << bits).astype(source.carrier)
    if source.is_floating:
        mantissa = model.float_of(source.value).mantissa_bits
        fields = {32: range(1 << 8), 64: (0, 1, *range(1023 - 160, 1023 + 140), 2046, 2047)}[bits]
        rests = {(1 << place) + near for place in range(mantissa) for near in (-1, 0, 1)}
        codes = {(field << mantissa) + rest % (1 << mantissa) for field in fields for rest in rests}
    else:
        powers = [1 << place for place in range(bits - 1)]
        codes = {one + other + near for one in powers for other in powers for near in (-1, 0, 1)}
    both = [code for one in codes for code in (one, one | 1 << (bits - 1))]
    return np.array(both, np.uint64).astype(source.carrier)


PAIRS = [pair for pair in itertools.permutations(TYPES, 2) if not (pair[0].is_integral and pair[1].is_integral)]


@pytest.mark.parametrize("source, target", PAIRS, ids=str)
def test_patterns_of_all_types(engine, source, target):
    codes = patterns(source)
    for saturate in asked(target):
        bad = differ(*(cast(name, codes, source, target, saturate) for name in (engine, "first")), target)
        assert not bad.any(), (saturate, [hex(code) for code in codes[bad][:5]])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source, target", PAIRS, ids=str)
def test_rows_of_every_length_at_every_address(engine, source, target):
    """The last elements of a row are fewer than a block has; nothing beyond them is written."""
    values = np.resize(np.random.default_rng(3).permutation(patterns(source)), 150)
    expected = cast("first", values, source, target)
    for length in range(1, 140):
        room = np.full(160 * target.itemsize, 0x5A, np.uint8)
        begin = length % 11 * target.itemsize + length % 3  # bytes
        out = room[begin : begin + length * target.itemsize].view(target.carrier)
        given = np.frombuffer(b"\0" * (length % 5) + values[:length].tobytes(), np.uint8)[length % 5 :]
        with conversions(engine) as found:
            found.convert(Arithmetic(source, target), given.view(source.carrier), (), out)
        assert not differ(out, expected[:length], target).any(), length
        room[begin : begin + length * target.itemsize] = 0x5A
        assert (room == 0x5A).all(), length


@pytest.mark.parametrize("source, target", [pair for pair in PAIRS if pair[0].itemsize == pair[1].itemsize], ids=str)
def test_rows_change_where_they_lie(engine, source, target):
    codes = patterns(source)[:1001]
    expected, place = cast("first", codes, source, target), codes.copy()
    with conversions(engine) as found:
        found.convert(Arithmetic(source, target), place, (), place.view(target.carrier))
    assert not differ(place.view(target.carrier), expected, target).any()
