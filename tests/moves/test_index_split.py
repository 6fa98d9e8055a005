"""Linear indices of 64 bits: one division splits them into two numbers of 31 bits, which give all digits.

This is checked as a law of the planner, on the kernels with every cut of small shapes, and against Python's integers
around the powers of two where widths change.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.gpu.index_launch import index_table, low_part
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.parameters import reciprocal
from gpulayout.moves.index_program import convert_program, delinearize_program
from tests.support.division import multiplied
from tests.support.executors import simt_missing
from tests.support.index_cases import index_cases
from tests.support.simt import host_module

EDGE = 2**31
needs_compiler = pytest.mark.skipif(simt_missing() is not None, reason=str(simt_missing()))
extents = st.lists(
    st.one_of(
        st.integers(2, 40), st.sampled_from([2**k + d for k in range(2, 31) for d in (-1, 0, 1)]), st.just(EDGE + 7)
    ),
    min_size=1,
    max_size=7,
).filter(lambda sizes: math.prod(sizes) < 2**63)


# ---- the planner's cut ----------------------------------------------------------------------------------------------


def digits_of(linear, sizes, low_digits):
    """The digits as the kernel computes them: a 64-bit division, then 32-bit divisions, none for the last digit of a
    part.
    """
    places = math.prod(sizes[:low_digits])
    above = multiplied(linear, reciprocal(places, 64), 64)
    found = []
    for number, part in ((linear - above * places, sizes[:low_digits]), (above, sizes[low_digits:])):
        assert 0 <= number < EDGE
        for size in part[:-1]:
            rest = multiplied(number, reciprocal(size, 32), 32)
            found, number = [*found, number - rest * size], rest
        found += [number] if part else []
    return found


def check_cut(cut, sizes):
    """AssertionError unless the cut gives two parts below 2^31 with the digits of the index, or no cut exists."""
    low_digits = cut(sizes)
    cuts = [k for k in range(1, len(sizes) + 1) if math.prod(sizes[:k]) < EDGE and math.prod(sizes[k:]) < EDGE]
    assert low_digits == max(cuts, default=0)
    if not low_digits:
        return
    size, steps = math.prod(sizes), [math.prod(sizes[:k]) for k in range(len(sizes))]
    for linear in {
        0,
        1,
        size // 3,
        size - 2,
        size - 1,
        *(step * k + d for step in steps for k in (1, 2) for d in (-1, 0)),
    }:
        if 0 <= linear < size:
            found = digits_of(linear, sizes, low_digits)
            assert found == [linear // step % extent for step, extent in zip(steps, sizes)]
            assert sum(digit * step for digit, step in zip(found, steps)) == linear


@given(extents)
def test_a_cut_makes_two_parts_of_31_bits_that_hold_all_digits(sizes):
    check_cut(low_part, sizes)


@pytest.mark.parametrize(
    "sizes, low_digits",
    [
        ((EDGE - 1, EDGE - 1), 1),
        ((EDGE - 1, EDGE), 0),
        ((EDGE, 2), 0),
        ((2, EDGE), 0),
        ((2**30, 2, 5), 1),
        ((2**30 - 1, 2, 5), 2),
        ((7, 11, 13), 3),
        ((EDGE - 1, 1), 2),
        ((2**20, 2**20, 2**20), 0),
        ((2**15, 2**16, 2**31 - 1), 0),
        ((2**15, 2**16 - 1, 2**31 - 1), 2),
    ],
)
def test_cuts_at_the_edge(sizes, low_digits):
    assert low_part(sizes) == low_digits
    check_cut(low_part, sizes)


@pytest.mark.parametrize(
    "broken",
    [
        lambda sizes: max(k for k in range(len(sizes) + 1) if math.prod(sizes[:k]) <= EDGE),
        lambda sizes: next((k for k in range(len(sizes) + 1) if math.prod(sizes[k:]) < EDGE), 0),
        lambda sizes: len(sizes) // 2,
    ],
)
def test_a_broken_cut_is_caught(broken):
    with pytest.raises(AssertionError):
        for sizes in ((2**30, 2, 5), (7, 11, 13), (2**20, 2**20, 2**20)):
            check_cut(broken, sizes)


@pytest.mark.parametrize(
    "sizes, bits",
    [
        ((46341, 46340), (32, 32)),
        ((46341, 46341), (64, 32)),
        ((70001, 70003, 30000), (64, 32)),
        ((2, EDGE), (64, 64)),
        ((2**8, 2**24, 2**8), (64, 64)),
        ((1, EDGE - 1, 1, EDGE - 1, 1), (64, 32)),
    ],
)
def test_digits_are_taken_in_32_bits_where_a_cut_allows(sizes, bits):
    shape = gl.Shape("u8", sizes)
    for program in (
        delinearize_program(shape),
        convert_program(shape, gl.Shape("u8", sizes, gl.Layout.ascending(len(sizes)))),
    ):
        assert (program.index_bits, index_table(program).digit_bits) == bits


# ---- the kernels ----------------------------------------------------------------------------------------------------


def wrong_ones(change=lambda text: text, **forced):
    """The directions with wrong results."""
    found = set()
    for case in index_cases(np.int64, np.int64, **forced):
        record = case.record(change(kernel_text("index.cu")))
        buffers = [np.frombuffer(bytearray(buffer.initial()), np.uint8) for buffer in record.buffers]
        kernel = host_module.load(record.text, (record.kernel,), record.macros).kernel(record.kernel)
        kernel(record.grid, record.block, (*(buffer.ctypes.data for buffer in buffers), record.arguments[-1]))
        if not case.is_right([buffer.tobytes() for buffer in buffers]):
            found.add(case.direction)
    return found


@needs_compiler
@pytest.mark.parametrize("forced", [{"bits": 32}, *({"bits": 64, "low_digits": low} for low in range(4))], ids=str)
def test_every_index_of_a_small_shape_is_right_with_any_cut(forced):
    """In 32 bits, in 64, and split after the first, the second or the last of three digits."""
    assert wrong_ones(**forced) == set()


@needs_compiler
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("(unsigned)linear + above * (unsigned)table.minus_low", "(unsigned)linear"),
        ("(unsigned)table.shift)", "(unsigned)table.shift + 1)"),
        ("d + 1 == (int)table.low_digits", "d == (int)table.low_digits"),
        ("rest[k].low = rest[k].above;", ";"),
        ("coordinate[k] += rest[k].low * digit.minus_extent;", "coordinate[k] -= rest[k].low * digit.minus_extent;"),
    ],
)
def test_a_kernel_that_splits_wrong_is_caught(right, wrong):
    assert right in kernel_text("index.cu")
    assert wrong_ones(lambda text: text.replace(right, wrong), bits=64, low_digits=1) >= {
        "delinearize",
        "convert_linear",
    }


# Sizes around the limits of 31-bit parts, of 32-bit words, of the 53 bits of floats, and of what two parts hold.
HUGE = [
    (EDGE - 1,),
    (EDGE,),
    (EDGE + 1,),
    (46341, 46341),
    (3, 2**30 + 1),
    (65536, 65536),
    (65537, 65537),
    (641, 6700417),
    (2, 2**52 + 1),
    (2**18 + 1, 3, 2**17 - 1, 2**16 + 1),
    (2**26 - 1, 1, 2**27 + 1),
    (EDGE - 1, EDGE - 1),
    (2**30 + 1, 2**30 - 1, 2),
    (2**31, 2**31 - 1),
    (2**20 + 1, 2**21 - 1, 2**20 + 3),
    (2**15 + 1, 2**16 - 1, 2**15 - 1, 2**15 + 1),
]


def places_of(sizes):
    """Logical indices at all corners, in the middle, and on both sides of 2^31, 2^32, 2^53, 2^62."""
    found = set(itertools.product(*({0, 1, size // 2, size - 2, size - 1} for size in sizes)))
    for edge in (EDGE, 2**32, 2**53, 2**62):
        for linear in range(edge - 2, edge + 3):
            if linear < math.prod(sizes):
                found.add(tuple(int(linear // math.prod(sizes[d + 1 :]) % size) for d, size in enumerate(sizes)))
    return [place for place in sorted(found) if all(0 <= c < size for c, size in zip(place, sizes))][:1500]


def linear_of(index, sizes, minor_to_major):
    step, linear = 1, 0
    for dim in minor_to_major:
        linear, step = linear + index[dim] * step, step * sizes[dim]
    return linear


@pytest.mark.parametrize("sizes", HUGE)
def test_indices_of_huge_shapes_are_those_of_python_integers(executor, sizes):
    rank, places = len(sizes), places_of(sizes)
    orders = list(itertools.permutations(range(rank)))[::5] + [tuple(reversed(range(rank)))]
    for order in orders:
        shape, other = gl.Shape("u8", sizes, gl.Layout(order)), gl.Shape("u8", sizes, gl.Layout(order[::-1]))
        lines, turned = ([linear_of(place, sizes, layout) for place in places] for layout in (order, order[::-1]))
        index, given_lines = executor.array(np.array(places).T.copy()), executor.array(np.array(lines))
        assert executor.host(gl.linearize(index, shape)).tolist() == lines
        assert executor.host(gl.delinearize(given_lines, shape)).T.tolist() == [list(place) for place in places]
        assert executor.host(gl.convert_linear(given_lines, shape, other)).tolist() == turned
        for beyond in (math.prod(sizes), math.prod(sizes) + 2**32, -1):
            if beyond < 2**63:
                with pytest.raises(IndexError):
                    gl.delinearize(executor.array(np.array([0, beyond])), shape)
