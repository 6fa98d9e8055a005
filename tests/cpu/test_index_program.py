"""Index programs on the CPU, by the native engine and by NumPy, against the reference and Python's integers."""

import contextlib
import dataclasses
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu import native
from gpulayout.cpu.caches import machine_caches
from gpulayout.cpu.index import HostConversion, steps_of
from gpulayout.moves.index_program import (
    IndexProgram,
    Instruction,
    Quotient,
    Term,
    convert_program,
    delinearize_program,
    linearize_program,
)
from tests.support.index_cases import numbers_of

INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
WIDE = 2**40  # a reach that needs words of 64 bits


@pytest.fixture(params=["native", "numpy", *(f"native {number}" for number in range(3))])
def engine(request):
    """What converts indices: the engine, with its best instruction set or a given one, or NumPy."""
    with native.chosen(request.param != "numpy"):
        if request.param != "numpy" and native.missing():
            pytest.skip(native.missing())
        with contextlib.ExitStack() as stack:
            if number := request.param[len("native ") :] if request.param.startswith("native ") else "":
                sets = native.module().instruction_sets()
                if int(number) >= len(sets):
                    pytest.skip("this machine has no such instruction set")
                native.module().use(int(number))
                stack.callback(native.module().use, len(sets) - 1)
            yield request.param


def converted(program, given, dtype=np.int64, mode="raise", checked=False):
    """(the offender, the result)."""
    rows = (program.rank,) if program.direction == "delinearize" else ()
    result = np.full((*rows, given.shape[-1]), 99, dtype)
    return HostConversion(program).convert(given, result, mode, checked), result


# ---- every place -----------------------------------------------------------------------------------------------------

SHAPES = [
    "f32[16,300]{1,0:T(8,128)}",
    "bf16[13,21]{1,0:T(8,4)(2,1)}",
    "f32[9,11]{1,0:T(4,8)(3,1)}",
    "f32[6]{0:T(3)(2)}",
    "f32[5,7]{0,1:T(4,3)(2)L(50)}",
    "f32[3,5,7]{2,0,1:T(2,*,3)}",
    "u32[]{:T(4)}",
    "f32[7,1,9]{0,2,1:T(2,4,2)}",
    "f32[4,6,40]{2,1,0:T(4,16)}",
    "f32[12,12]{1,0:T(4,4)(2,2)}",
    "f32[2,0]{1,0:T(2,2)}",
    "f32[5,6,7]{0,2,1:PD(5,6,8)}",
    "f32[13,9,11,2]{2,0,1,3}",
    "f32[3,1,5]",
    "f32[]",
    "f32[3,0,2]",
]


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("reach", [None, WIDE], ids=["its own words", "words of 64 bits"])
def test_every_place_and_every_element_is_converted(engine, text, reach):
    shape = gl.parse_shape(text)
    dense = shape.with_layout(None)
    numbers = np.asarray(numbers_of(shape)).ravel()
    places, padding = np.flatnonzero(numbers >= 0), np.flatnonzero(numbers < 0)
    logical = np.indices(shape.dimensions).reshape(shape.rank, shape.element_count)[:, numbers[places]]
    there, back, to_dense, from_dense = (
        dataclasses.replace(program, reach=reach or program.reach)
        for program in (
            linearize_program(shape),
            delinearize_program(shape),
            convert_program(shape, dense),
            convert_program(dense, shape),
        )
    )
    for program, given, expected in (
        (there, logical, places),
        (back, places, logical),
        (to_dense, places, numbers[places]),
        (from_dense, numbers[places], places),
    ):
        for dtype in (np.int64, np.uint16):
            offender, found = converted(program, given, dtype)
            assert offender is None and found.tolist() == expected.tolist()
    for program in (back, to_dense):
        everything = np.arange(len(numbers))
        assert converted(program, everything)[0] == (padding[0] if len(padding) else None)
        marked = converted(program, everything, mode="mark")[1]
        assert (marked[..., padding] == -1).all()
        assert (marked[..., places] == (logical if program is back else numbers[places])).all()


# ---- divisions -------------------------------------------------------------------------------------------------------

NEAR = [2**power + more for power in (31, 32, 62, 63) for more in (-3, -2, -1, 0, 1, 2)]
DIVISORS = [*range(1, 4097), *(divisor for divisor in NEAR if divisor < 2**63)]


def borders(divisor, bits):
    """Numbers just below, at and above multiples of a divisor, and the largest words."""
    most = 2**bits - 1
    multiples = {1, 2, 3, 7, 641, *(max(most >> shift, 1) // divisor for shift in (0, 1, 2, bits // 2))}
    numbers = {multiple * divisor + more for multiple in multiples for more in (-1, 0, 1)} | {most - 1, most, most >> 1}
    return sorted(number for number in numbers if 0 <= number <= most)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("bits", [32, 64])
def test_quotients_are_exact_at_the_borders(engine, bits):
    for divisor in DIVISORS:
        instruction = Instruction(None, (Term(None, divisor, 1),), None, None, 0, ())
        program = IndexProgram("delinearize", (instruction,), 1, 2**62, WIDE if bits == 64 else 1)
        numbers = borders(divisor, bits)
        _, found = converted(program, np.array(numbers, f"u{bits // 8}"), f"u{bits // 8}", checked=True)
        assert found.tolist() == [[number // divisor for number in numbers]], divisor


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_coordinates_are_wrapped_and_clipped_at_the_borders(engine, dtype):
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    for bound in (*range(1, 300), 641, *(each for each in NEAR if each < 2**63)):
        program = IndexProgram(
            "linearize", (Instruction(0, (), bound, None, None, (Quotient(1, 1),)),), 1, bound, bound
        )
        numbers = {low, low + 1, -1, 0, 1, high - 1, high, *borders(bound, 63), *(-each for each in borders(bound, 63))}
        numbers = sorted(number for number in numbers if low <= number <= high)
        given = np.array([numbers], dtype)
        assert converted(program, given, mode="wrap")[1].tolist() == [number % bound for number in numbers]
        clipped = [min(max(number, 0), bound - 1) for number in numbers]
        assert converted(program, given, mode="clip")[1].tolist() == clipped
        outside = [place for place, number in enumerate(numbers) if not 0 <= number < bound]
        assert converted(program, given)[0] == min(outside, default=None)


# ---- arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_arrays_have_any_type_strides_and_address(engine, dtype):
    shape = gl.parse_shape("f32[7,9]{0,1:T(2,4)}")
    count = 2500
    logical = np.array([np.arange(count) % 7, np.arange(count) * 5 % 9])
    wanted = gl.stride_table(shape).linear_of(logical)
    for rows in (
        np.ascontiguousarray(logical.T, dtype).T,
        np.repeat(logical, 3, 1).astype(dtype)[:, 1::3],
        logical.astype(dtype)[:, ::-1][:, ::-1],
        shifted(logical.astype(dtype)),
    ):
        result = shifted(np.zeros(count, dtype))
        assert gl.linearize(rows, shape).tolist() == wanted.tolist()
        assert gl.linearize(rows, shape, out=result) is result and result.tolist() == wanted.tolist()
    for linear in (
        wanted.astype(dtype)[::-1][::-1],
        shifted(wanted.astype(dtype)),
        wanted.astype(dtype).reshape(5, -1),
    ):
        assert gl.delinearize(linear, shape).reshape(2, -1).tolist() == logical.tolist()
        result = shifted(np.zeros((2, *linear.shape), dtype))
        assert gl.delinearize(linear, shape, out=result).reshape(2, -1).tolist() == logical.tolist()


def shifted(values):
    """A copy one byte past an aligned address."""
    room = np.zeros(values.nbytes + 1, np.uint8)
    copy = room[1:].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


@pytest.mark.one_in(2)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("reach", [None, WIDE], ids=["its own words", "words of 64 bits"])
def test_the_lowest_offender_is_found_wherever_blocks_begin(engine, threads, reach):
    """Blocks of the engine have 256 or 128 indices, the first has fewer; those of NumPy 2^15."""
    shape = gl.parse_shape("f32[300,500]{1,0:PD(300,512)}")
    there, back = linearize_program(shape), delinearize_program(shape)
    if reach:
        there, back = (dataclasses.replace(program, reach=reach) for program in (there, back))
    count = 600_000
    logical = np.array([np.arange(count) % 300, np.arange(count) % 500], np.int32)
    linear = logical[0] * 512 + logical[1]
    with gl.use_threads(threads):
        for first in (0, *range(126, 130), *range(248, 258), 2**15, 299_999, count - 1):
            for later in {first, min(first + 1, count - 1), count - 1}:
                bad, padded = logical.copy(), linear.copy()
                bad[1, first], bad[0, later] = 500, -1
                padded[first], padded[later] = 505, 300 * 512 if later > first else 505
                assert converted(there, bad)[0] == converted(back, padded)[0] == first
                assert HostConversion(there).convert(bad, None, "raise") == first
                assert HostConversion(back).convert(padded, None, "raise") == first
                assert HostConversion(back).convert(padded, None, "mark") == (later if later > first else None)


@pytest.mark.parametrize("text", ["f32[1000,3000]{1,0:T(8,128)}", "f32[1000,3000]{0,1:PD(1001,3000)}"])
def test_scratch_arrays_have_the_size_of_a_block_for_any_number_of_indices(text, engine):
    """An array for all three million indices would be 12 or 24 MB."""
    shape, linear = gl.parse_shape(text), np.zeros(3_000_000, np.int32)
    index, back = np.empty((2, linear.size), np.int64), np.empty(linear.size, np.int64)
    with gl.use_threads(1):
        tracemalloc.start()
        try:
            gl.delinearize(linear, shape, out=index)
            gl.linearize(index, shape, out=back)
            assert tracemalloc.get_traced_memory()[1] <= 8 << 20
        finally:
            tracemalloc.stop()


# ---- the engine's own type -------------------------------------------------------------------------------------------

# Steps: kind, into, base, number, divisor, weight, side, bound, checks
READ = (0, 1, 0, 0, 1, 1, 0, 5, True)
WRITE = (3, 0, 0, 1, 1, 1, 0, 0, False)
PLAIN = (READ, WRITE)


@pytest.fixture
def made():
    """The engine's type."""
    with native.chosen(True):
        if native.missing():
            pytest.skip(native.missing())
        yield native.module().IndexProgram


@pytest.mark.parametrize(
    "arguments, error",
    [
        ((PLAIN, 16, -1), ValueError),
        (((READ, (4, *WRITE[1:])), 32, -1), ValueError),
        ((((-1, *READ[1:]), WRITE), 32, -1), ValueError),
        ((((0, 0, *READ[2:]), WRITE), 32, -1), ValueError),
        ((((1, 1 << 12, *READ[2:]), WRITE), 32, -1), ValueError),
        (((READ, (3, 0, 0, -1, *WRITE[4:])), 32, -1), ValueError),
        (((READ, (1, 2, 0, 1, 0, 1, 0, 0, False)), 32, -1), ValueError),
        (((READ, (1, 2, 0, 1, 1 << 32, 1, 0, 0, False)), 32, -1), ValueError),
        (((READ, (*WRITE[:6], -1, 0, False)), 32, -1), ValueError),
        ((PLAIN, 32, 5), ValueError),
        (("text", 32, -1), TypeError),
        (((READ[:-1], WRITE), 32, -1), TypeError),
        (((READ, (3, 0, "a", *WRITE[3:])), 32, -1), TypeError),
        ((7, 32, -1), TypeError),
    ],
)
def test_what_is_no_program_is_refused(made, arguments, error):
    with pytest.raises(error):
        made(*arguments)


def test_arrays_that_do_not_fit_the_program_are_refused(made):
    program = made(PLAIN, 32, -1)
    good, result = np.zeros(3, np.int64), np.full((1, 3), 7, np.int64)
    for given, out, mode in (
        (good.astype(float), result, 0),
        (good, result[:, :2].copy(), 0),
        (good[None][:0], result, 0),
        (good[None, None], result, 0),
        (good, result.astype(float), 0),
        (good, result, 4),
    ):
        with pytest.raises(ValueError, match="arrays of integers that fit the program"):
            program.convert(given, out, mode, 0, 1)
    with pytest.raises(ValueError, match="a look-up"):
        program.look_up(good, result, 8, 8, False, False, False, b"\0", 1)
    assert (result == 7).all() and program.convert(good, result, 0, 0, 1) is None and not result.any()


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8], ids=str)
@pytest.mark.parametrize("number", range(3))
def test_coordinates_are_written_around_the_caches_at_any_place_of_a_line(made, number, dtype):
    sets = native.module().instruction_sets()
    if number >= len(sets):
        pytest.skip("this machine has no such instruction set")
    steps = steps_of(delinearize_program(gl.parse_shape("f32[7,9]")))
    native.module().use(number)
    native.module().set_caches(0, 0, 0)  # around which all is written
    try:
        program = made(steps, 32, -1)
        for count in (1, 7, 8, 9, 63, 64, 65, 127, 300, 1000):
            linear = np.arange(count) % 63
            for start in (0, 1, 3, 8, 33, 63):
                room = np.full(2 * count * np.dtype(dtype).itemsize + 192, 0x5C, np.uint8)
                begin = -room.__array_interface__["data"][0] % 64 + start
                end = begin + 2 * count * np.dtype(dtype).itemsize
                result = room[begin:end].view(dtype).reshape(2, count)
                assert program.convert(linear, result, 0, 0, 1) is None
                assert result.tolist() == [(linear // 9).tolist(), (linear % 9).tolist()]
                assert (room[:begin] == 0x5C).all() and (room[end:] == 0x5C).all()
    finally:
        native.module().use(len(sets) - 1)
        native.module().set_caches(*machine_caches())


MANY_THREADS = """
import numpy as np, gpulayout as gl
linear = np.arange(3_000_000)
gl.use_threads(600)
found = gl.convert_linear(linear, "f32[1500,2000]", "{0,1}")
assert (found == linear % 2000 * 1500 + linear // 2000).all()
"""


def test_more_threads_may_be_asked_for_than_take_part():
    """In a process of its own, whose helpers end with it."""
    done = subprocess.run([sys.executable, "-c", MANY_THREADS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_bounds_that_no_word_reaches(engine):
    """The buffer has no places, and a dimension more than 2^32."""
    with pytest.raises(IndexError, match="its buffer has 0 places"):
        gl.delinearize(np.array([0]), "f32[8589934597,0]{0,1:PD(8589934598,0)}")
