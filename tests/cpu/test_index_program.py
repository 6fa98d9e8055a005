"""Index conversion as operations on whole arrays: their number, and their results on Python's integers."""

import math
import operator
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.cpu.index_operations import host_program
from gpulayout.cpu.index_registers import UNUSED, Node, with_registers
from gpulayout.cpu.index_sums import bit_fields, chains, digits_of, divided, limit_in_place
from gpulayout.moves.index_builder import convert_program, delinearize_program, linearize_program

WORD = 2**32 - 1
VALUES = range(0, 5000, 7)


# ---- sums ------------------------------------------------------------------------------------------------------------


@st.composite
def sums(draw):
    """Terms (step, weight) of a sum of digits, like a coordinate of a place: other digits are in between."""
    terms, step, weight = {}, draw(st.sampled_from((1, 1, 2, 8, 3))), draw(st.sampled_from((1, 1, 1, 2, 3)))
    for _ in range(draw(st.integers(1, 4))):
        extent, counts, is_last = (
            draw(st.sampled_from((2, 2, 4, 8, 3, 6))),
            draw(st.booleans()),
            draw(st.integers(0, 3)) == 0,
        )
        if counts:
            terms[step] = terms.get(step, 0) + weight
            if not is_last:
                terms[step * extent] = terms.get(step * extent, 0) - weight * extent
            weight *= extent * draw(st.sampled_from((1, 1, 1, 2)))
        step *= extent
        if is_last:
            break
    return [(step, weight) for step, weight in sorted(terms.items()) if weight]


def value_of(terms, value):
    return sum(value // step * weight for step, weight in terms)


@given(terms=sums())
def test_a_sum_is_the_sum_of_its_digits(terms):
    for value in VALUES:
        assert value_of(terms, value) == sum(
            (value // step % extent if extent else value // step) * weight for step, extent, weight in digits_of(terms)
        )


@given(terms=sums())
def test_bit_fields_equal_their_terms(terms):
    used, moves = bit_fields(terms, WORD)
    for value in VALUES:
        moved = sum((value >> shift if shift > 0 else value << -shift) & mask for shift, mask in moves.items())
        assert moved & WORD == value_of(terms[:used], value) & WORD


@given(terms=sums(), divisor=st.sampled_from((2, 3, 4, 6, 8, 16)))
def test_a_divided_sum_is_the_quotient(terms, divisor):
    found = divided(terms, divisor)
    assert found is None or all(value_of(found, value) == value_of(terms, value) // divisor for value in VALUES)


@given(terms=sums(), bound=st.integers(1, 700))
def test_a_limit_in_place_is_reached_when_the_sum_reaches_the_bound(terms, bound):
    limit = limit_in_place(terms, bound, WORD)
    if limit is not None:
        for value in VALUES:
            place = (value % limit.modulus if limit.modulus else value) & limit.mask
            assert (place >= limit.least) == (value_of(terms, value) >= bound)


def test_columns_in_tiles_are_divided_and_limited_in_place_for_any_number_of_tiles():
    for tiles in (24, 32):
        column = [(1, 1), (128, -128), (1024, 128), (1024 * tiles, -128 * tiles)]
        assert divided(column, 128) == [(1024, 1), (1024 * tiles, -tiles)]
        assert divided(column, 256) == ([(2048, 1), (1024 * tiles, -tiles // 2)])
        assert limit_in_place(column, 2900, WORD).modulus == (24 * 1024 if tiles == 24 else 0)
    assert divided([(1, 1), (3, -3), (6, 3)], 2) is None and limit_in_place([(3, 1)], 5, WORD) is None
    assert divided([(4, 1), (6, 1)], 1) is None  # steps that do not divide each other
    assert divided([(1, 1), (4, -3), (16, -4)], 2) is None  # value % 4 + value // 4 % 4: two odd digits carry


def test_chains_hold_every_term_once_and_divide():
    terms = [(weight, number) for number, weight in enumerate((896, -128, 1, -31744, 128, 7, -1))]
    found = chains(terms)
    assert sorted(term for chain in found for term in chain) == sorted(terms)
    assert all(above[0] % below[0] == 0 for chain in found for above, below in zip(chain, chain[1:]))


# ---- programs --------------------------------------------------------------------------------------------------------

OPERATIONS = {
    "add": operator.add,
    "subtract": operator.sub,
    "divide": operator.floordiv,
    "multiply": operator.mul,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
    "mask": operator.and_,
}


def executed(host, given, rank, bits):
    """(the result of one index, whether a number exceeds its bound).  Asserts that only loads write the registers of
    given values.
    """
    registers, rows, padding = [None] * host.registers, [None] * rank, False
    loaded = set()
    for kind, into, left, right, number in host.ops:
        if kind in ("load", "fill"):
            registers[into] = given[number] if kind == "load" else number
            loaded |= {into} if kind == "load" else set()
        elif kind == "past":
            padding |= registers[left] >= number
        elif kind == "store":
            rows[number] = registers[left]
        else:
            assert into not in loaded
            registers[into] = OPERATIONS[kind](registers[left], number if right is None else registers[right]) % 2**bits
    return [found if row is None else row for row, found in zip(rows, registers[: host.rows] + [None] * rank)], padding


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
    "f32[3,1,5]",
    "f32[]",
    "f32[3,0,2]",
]


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("is_direct", (True, False))
def test_every_place_and_every_element_is_converted(text, is_direct):
    shape = gl.parse_shape(text)
    table, dense = gl.stride_table(shape), gl.stride_table(shape.with_layout(None))
    back, there = delinearize_program(shape), linearize_program(shape)
    to_dense = convert_program(shape, shape.with_layout(None))
    from_dense = convert_program(shape.with_layout(None), shape)
    for bits in (32, 64):
        result_bytes = bits // 8 if is_direct else 2
        checks = host_program(back, bits, True, 4, 0)
        tells, converts = (host_program(program, bits, True, 4, result_bytes) for program in (back, to_dense))
        finds, fills = (host_program(program, bits, False, 4, result_bytes) for program in (there, from_dense))
        assert (
            not checks.rows and tells.rows == (shape.rank if is_direct else 0) and {checks.bits, finds.bits} == {bits}
        )
        for place in range(shape.buffer_size):
            is_padding = table.is_padding(place)
            index, padded = executed(tells, [place], shape.rank, bits)
            assert executed(checks, [place], shape.rank, bits)[1] == padded == is_padding, place
            if not is_padding:
                assert tuple(index) == table.index_of(place)
                linear = dense.linear_of(index)
                assert executed(converts, [place], 1, bits) == ([linear], False)
                assert executed(finds, index, 1, bits)[0] == [place] == executed(fills, [linear], 1, bits)[0]


def count(program):
    return sum(op.kind not in ("load", "outside") for op in host_program(program, 32, True, 4, 4).ops)


def test_tiles_of_powers_of_two_move_bits():
    """9 operations for 4 digits, 12 for 5: one or two per digit, and one for all but the first of each coordinate."""
    for text, wanted in (("f32[4096,4096]{1,0:T(8,128)}", 9), ("bf16[4096,4096]{1,0:T(8,128)(2,1)}", 12)):
        program = delinearize_program(gl.parse_shape(text))
        kinds = {op.kind for op in host_program(program, 32, True, 4, 4).ops}
        assert count(program) == wanted and kinds == {"load", "shift_right", "mask", "add"}


def test_coordinates_are_checked_as_they_are_read():
    """Dimension 1 has one coordinate, which adds nothing to the place, and is checked too."""
    program = linearize_program(gl.parse_shape("f32[300,1,700]{0,1,2}"))
    checked, unchecked = ([op.kind for op in host_program(program, 64, flag, 8, 8).ops] for flag in (True, False))
    assert checked == ["load", "outside", "multiply", "load", "outside", "add", "load", "outside"]
    assert unchecked == ["load", "multiply", "load", "add"]


def test_a_check_computes_no_result():
    whole, cut = (delinearize_program(gl.parse_shape(f"f32[4096,{size}]{{1,0:T(8,128)}}")) for size in (4096, 3999))
    assert host_program(whole, 32, True, 4, 0).ops == ()
    assert [op.kind for op in host_program(cut, 32, True, 4, 0).ops] == ["load", "mask", "past"]
    in_24_tiles = delinearize_program(gl.parse_shape("f32[4096,2999]{1,0:T(8,128)}"))
    kinds = [op.kind for op in host_program(in_24_tiles, 32, True, 4, 0).ops]
    assert kinds == ["load", "divide", "multiply", "subtract", "mask", "past"]


def test_conversions_do_not_compute_coordinates():
    shape = gl.parse_shape("f32[4096,4096]{1,0:T(8,128)}")
    dense, narrow = shape.with_layout(None), shape.with_layout(gl.Layout((1, 0), tiles=[(16, 64)]))
    assert [count(convert_program(*pair)) for pair in ((shape, dense), (dense, shape), (shape, narrow))] == [7, 7, 13]


def test_weights_are_factored():
    """row * 128 + row // 8 * 31744 + column + column // 128 * 896: 3 sums, 2 quotients and 3 weights, 8 operations."""
    assert count(linearize_program(gl.parse_shape("f32[4096,4096]{1,0:T(8,128)}"))) == 8


def test_layouts_without_tiles_are_programs_too():
    """Each dimension but the last takes a quotient, a product and a difference, unless bits are moved."""
    shape = gl.parse_shape("f32[5,6,7]{0,2,1:PD(5,6,8)}")
    there, back = (
        host_program(program(shape), 32, False, 4, 4) for program in (linearize_program, delinearize_program)
    )
    assert [op.kind for op in back.ops] == [
        "load",
        "divide",
        "multiply",
        "subtract",
        "divide",
        "shift_left",
        "subtract",
    ]
    assert [op.kind for op in there.ops] == ["load", "shift_left", "load", "add", "multiply", "load", "add"]


def test_numbers_that_are_not_divided_keep_their_width():
    untiled, tiled = (linearize_program(gl.parse_shape(text)) for text in ("f32[16,256]", "f32[16,256]{1,0:T(8,128)}"))
    for given_bytes, result_bytes, wanted in ((8, 8, 64), (4, 8, 32), (8, 4, 32)):
        assert host_program(untiled, 32, False, given_bytes, result_bytes).bits == wanted
        assert host_program(tiled, 32, False, given_bytes, result_bytes).bits == 32


def test_operands_that_are_needed_later_are_not_overwritten():
    nodes = [
        Node("load", number=0),
        Node("shift_right", 0, number=3),
        Node("mask", 1, number=7),
        Node("add", 1, 2),
        Node("add", 3, 0),
        Node("multiply", 0, number=9),
        Node("store", 4, number=0),
        Node("store", 4, number=1),
        Node("store", 0, number=2),
    ]
    ops, count_of_registers = with_registers(nodes, 3)
    assert count_of_registers == 5 and all(op.kind != "multiply" for op in ops)  # its result is not used
    assert [(op.kind, op.into) for op in ops] == [
        ("load", 3),
        ("shift_right", 0),
        ("mask", 4),
        ("add", 0),
        ("add", 0),
        ("store", UNUSED),
        ("store", UNUSED),
    ]
    ops, count_of_registers = with_registers(nodes, 0)
    assert count_of_registers == 3 and [op.into for op in ops] == [0, 1, 2, 2, 2, UNUSED, UNUSED, UNUSED]


def test_a_row_that_another_row_needs_is_not_overwritten():
    nodes = [
        Node("load", number=0),
        Node("shift_right", 0, number=3),
        Node("store", 1, number=0),
        Node("add", 1, 0),
        Node("store", 3, number=1),
    ]
    assert [(op.kind, op.into) for op in with_registers(nodes, 2)[0]] == [("load", 2), ("shift_right", 0), ("add", 1)]


def test_the_largest_programs_are_small():
    shape = gl.Shape("u8", (5,) * 8, gl.Layout(tuple(range(8)), tiles=[(3,) * 8, (2,) * 8]))
    host = host_program(delinearize_program(shape), 32, True, 4, 4)
    assert math.prod(shape.dimensions) < shape.buffer_size and len(host.ops) < 130 and host.registers - host.rows < 32


@pytest.mark.parametrize("text", ["f32[1000,3000]{1,0:T(8,128)}", "f32[1000,3000]{0,1:PD(1001,3000)}"])
def test_scratch_arrays_have_the_size_of_a_block_for_any_number_of_indices(text, monkeypatch):
    """Half a MB each.  An array for all three million indices would be 12 or 24 MB."""
    monkeypatch.setenv("GPULAYOUT_NUM_THREADS", "1")
    shape, linear = gl.parse_shape(text), np.zeros(3_000_000, np.int32)
    index, back = np.empty((2, linear.size), np.int64), np.empty(linear.size, np.int64)
    tracemalloc.start()
    try:
        gl.delinearize(linear, shape, out=index)
        gl.linearize(index, shape, out=back)
        assert tracemalloc.get_traced_memory()[1] <= 8 << 20
    finally:
        tracemalloc.stop()
