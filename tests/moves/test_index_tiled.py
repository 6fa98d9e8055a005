"""Index conversion of tiled layouts: every place of many layouts against the reference model, on every executor."""

import functools
import itertools
import json
import math
import pathlib

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.moves.index_program import (
    MOST_INSTRUCTIONS,
    MOST_REGISTERS,
    MOST_TERMS,
    convert_program,
    delinearize_program,
    linearize_program,
)
from tests.support.command_line import run
from tests.support.effort import examples
from tests.support.index_cases import numbers_of
from tests.support.kernel_cases import forced_bits

ROWS = json.loads((pathlib.Path(__file__).resolve().parents[1] / "data" / "xla_vectors.json").read_text())["vectors"]
shared_fixture = settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])

# Tiles that divide and do not divide, nested, longer than the rank, with joined dimensions, and without effect.
TILES = [
    [(2,)],
    [(2, 2)],
    [(4, 2), (2, 1)],
    [(8,), (4,), (2, 1)],
    [(3,), (2,)],
    [(5, 3), (2, 2)],
    [(3, 4), (2, 3), (2,)],
    [(1,)],
    [("*", 4)],
    [("*", "*", 3)],
    [(2, "*", 3)],
    [(2, 2), ("*", 2)],
    [("*", 3), (2,)],
    [(2, 2, 2)],
    [(3, 2, 2), (1, "*", 4)],
    [(6, 4), ("*", "*", "*", 5)],
    [(7,), (3,), (2,)],
    [(4,), (2, 2), ("*", 2)],
]
SIZES = [
    (),
    (1,),
    (5,),
    (6,),
    (16,),
    (3, 5),
    (4, 8),
    (1, 7),
    (9, 2),
    (0, 3),
    (2, 3, 5),
    (3, 1, 4),
    (2, 2, 3, 3),
    (8, 8, 8),
]


@functools.cache
def grid():
    """All sizes with all tiles; orders, padded dimensions and tail padding change in a pattern."""
    shapes = []
    for number, (sizes, tiles) in enumerate(itertools.product(SIZES, [[], *TILES])):
        orders = list(itertools.permutations(range(len(sizes))))
        widths = tuple(size + (dim + number) % 3 for dim, size in enumerate(sizes)) if number % 4 == 1 else None
        layout = gl.Layout(
            orders[number % len(orders)],
            padded_dimensions=widths,
            tiles=tiles,
            tail_padding_alignment=(1, 1, 7, 16)[number % 4],
        )
        shapes.append(gl.Shape("u8", sizes, layout))
    return shapes


@st.composite
def shapes(draw, most_elements=512, most_places=20000):
    """Any shape with tiles, padded dimensions and tail padding."""
    sizes = []
    for _ in range(draw(st.integers(0, 5))):
        most = min(most_elements // math.prod(max(size, 1) for size in sizes), 40)
        sizes.append(0 if draw(st.integers(0, 20)) == 7 else draw(st.integers(1, max(most, 1))))
    tiles = []
    for _ in range(draw(st.integers(0, 3))):
        tile = draw(st.lists(st.sampled_from((1, 2, 2, 3, 4, 5, 8, 16, "*")), max_size=4)) + [
            draw(st.sampled_from((1, 2, 3, 4, 7, 8, 16)))
        ]
        tiles.append(tile)
    widths = [size + draw(st.sampled_from((0, 0, 1, 3))) for size in sizes] if draw(st.booleans()) else None
    layout = gl.Layout(
        draw(st.permutations(range(len(sizes)))),
        padded_dimensions=widths,
        tiles=tiles,
        tail_padding_alignment=draw(st.sampled_from((1, 1, 2, 5, 64))),
    )
    shape = gl.Shape("u8", sizes, layout)
    assume(shape.buffer_size <= most_places)
    return shape


def test_a_size_of_0_is_also_drawn_in_major_dimensions():
    drawn = []
    given(shape=shapes())(shared_fixture(lambda shape: drawn.append(shape.dimensions)))()
    assert sum(0 in dimensions[:-1] for dimensions in drawn) >= 2


def all_indices(shape):
    return np.indices(shape.dimensions).reshape(shape.rank, shape.element_count)


def places_of(shape):
    """(the number in every place, the place of every element)."""
    numbers = numbers_of(shape)
    assert len(numbers) == shape.buffer_size
    return numbers, np.argsort(numbers, kind="stable")[len(numbers) - shape.element_count :]


def check_all_places(executor, shape):
    """Both directions for every element and every place."""
    numbers, places = places_of(shape)
    index = all_indices(shape)
    found = executor.host(gl.linearize(executor.array(index), shape))
    assert (found == places).all(), shape
    assert (executor.host(gl.delinearize(executor.array(places), shape)) == index).all(), shape
    marked = executor.host(gl.delinearize(executor.array(np.arange(shape.buffer_size)), shape, padding="mark"))
    assert (marked == np.where(numbers >= 0, index[:, numbers] if shape.element_count else -1, -1)).all(), shape


# ---- exhaustive and random --------------------------------------------------------------------------------------


def test_every_place_of_the_grid_is_the_reference_s(executor):
    for shape in grid():
        check_all_places(executor, shape)


def test_single_indices_and_the_table_are_the_reference_s():
    for shape in grid():
        numbers, places = places_of(shape)
        table, index = gl.stride_table(shape), all_indices(shape).T.tolist()
        for number, place in enumerate(places.tolist()):
            assert gl.linearize(index[number], shape) == table.linear_of(index[number]) == place
            assert gl.delinearize(place, shape) == table.index_of(place) == tuple(index[number])
        for place, number in enumerate(numbers.tolist()):
            assert table.is_padding(place) == (number < 0), (shape, place)
            if number < 0:
                assert gl.delinearize(place, shape, padding="mark") == (-1,) * shape.rank
                with pytest.raises(IndexError, match="^linear index .* is padding of "):
                    gl.delinearize(place, shape)


@shared_fixture
@given(shape=shapes())
def test_every_place_of_random_shapes_is_the_reference_s(executor, shape):
    check_all_places(executor, shape)


@shared_fixture
@given(shape=shapes(), data=st.data())
def test_conversion_between_random_tilings_keeps_the_elements(executor, shape, data):
    other = shape.with_layout(
        gl.Layout(data.draw(st.permutations(range(shape.rank))), tiles=data.draw(st.sampled_from([[], *TILES])))
    )
    assume(other.buffer_size <= 50000)
    for source, target in ((shape, other), (other, shape)):
        given_places, expected = places_of(source)[1], places_of(target)[1]
        found = gl.convert_linear(executor.array(given_places), source, target)
        assert (executor.host(found) == expected).all(), (source, target)
        if shape.element_count:
            assert gl.convert_linear(int(given_places[-1]), source, target) == expected[-1]


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row["op"] in ("tiled_index", "tiled_delinearize", "tiled_memory")],
    ids=lambda row: row["id"],
)
def test_xla_s_own_answers(executor, row):
    case = row["in"]
    shape = gl.Shape(
        "u8",
        case["dims"],
        gl.Layout(case["minor_to_major"], tiles=case["tiles"], tail_padding_alignment=case.get("tail", 1)),
    )
    if row["op"] == "tiled_index":
        index = executor.array(np.array(case["index"], np.int64).reshape(-1, 1))
        assert gl.linearize(case["index"], shape) == row["out"] and executor.host(
            gl.linearize(index, shape)
        ).tolist() == [row["out"]]
    elif row["op"] == "tiled_delinearize":
        found = executor.host(gl.delinearize(executor.array(np.array([case["linear"]])), shape, padding="mark"))
        assert found[:, 0].tolist() == (row["out"] or [-1] * shape.rank)
    else:
        index = executor.host(gl.delinearize(executor.array(np.arange(shape.buffer_size)), shape, padding="mark"))
        numbers = np.ravel_multi_index(np.maximum(index, 0), case["dims"]) if shape.buffer_size else np.zeros(0, int)
        assert np.where(index[0] < 0, case["pad_shown"], numbers).tolist() == row["out"]


# ---- types, modes, widths -----------------------------------------------------------------------------------------

NESTED = gl.parse_shape("bf16[9,11]{1,0:T(4,8)(3,1)}")  # tiles that do not divide each other
DTYPES = ("int8", "uint16", "int32", "uint64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_integer_dtype_is_taken_and_given(executor, dtype):
    shape = gl.parse_shape("u8[6,7]{0,1:T(4,4)(3)L(8)}")
    assert shape.buffer_size <= 127
    places, index = places_of(shape)[1], all_indices(shape)
    linear = executor.array(np.zeros(42, dtype))
    assert gl.linearize(executor.array(index.astype(dtype)), shape, out=linear) is linear
    assert executor.host(linear).tolist() == places.tolist()
    back = executor.array(np.zeros((2, 42), dtype))
    assert executor.host(gl.delinearize(linear, shape, out=back)).tolist() == index.tolist()
    row_major = executor.array(np.zeros(42, dtype))
    assert executor.host(gl.convert_linear(linear, shape, "u8[6,7]", out=row_major)).tolist() == list(range(42))


@pytest.mark.parametrize("dtype", ("int32", "int64"))
def test_given_arrays_stay_and_results_of_their_width_are_the_reference_s(executor, dtype):
    """Words of the same width are read, and results written, in place."""
    for shape in [shape for shape in grid()[::3] if shape.element_count]:
        numbers, places = places_of(shape)
        index = all_indices(shape)
        marks = np.where(numbers >= 0, index[:, numbers], -1)
        for values, convert, expected in (
            (index, lambda given, out: gl.linearize(given, shape, out=out), places),
            (places, lambda given, out: gl.delinearize(given, shape, out=out), index),
            (
                places,
                lambda given, out: gl.convert_linear(given, shape, shape.with_layout(None), out=out),
                np.arange(len(places)),
            ),
            (
                np.arange(shape.buffer_size),
                lambda given, out: gl.delinearize(given, shape, padding="mark", out=out),
                marks,
            ),
        ):
            array = executor.array(values.astype(dtype))
            before, out = executor.host(array).copy(), executor.array(np.full(expected.shape, 99, dtype))
            assert (executor.host(convert(array, out)) == expected).all(), shape
            assert (executor.host(array) == before).all(), shape


@pytest.mark.parametrize("mode", ("wrap", "clip"))
def test_coordinates_are_brought_inside_first(executor, mode):
    index = np.random.default_rng(1).integers(-50, 50, (2, 3000))
    sizes = np.array(NESTED.dimensions)[:, None]
    inside = index % sizes if mode == "wrap" else np.clip(index, 0, sizes - 1)
    expected = places_of(NESTED)[1][np.ravel_multi_index(inside, NESTED.dimensions)]
    assert (executor.host(gl.linearize(executor.array(index), NESTED, mode=mode)) == expected).all()
    assert [gl.linearize(point, NESTED, mode=mode) for point in index.T[:50].tolist()] == expected[:50].tolist()


def test_operands_broadcast(executor):
    rows, columns = executor.array(np.arange(9)[:, None]), executor.array(np.arange(11, dtype=np.int32))
    found = executor.host(gl.linearize((rows, columns), NESTED))
    assert (found.reshape(-1) == places_of(NESTED)[1]).all()
    out = executor.array(np.zeros((9, 11), np.int64))
    assert gl.linearize((rows, columns), NESTED, mode="wrap", out=out) is out and (executor.host(out) == found).all()


def test_many_indices_cross_every_block_boundary(executor):
    shape = gl.Shape(
        "f32", (301, 7, 43), gl.Layout((1, 2, 0), padded_dimensions=(303, 8, 44), tiles=[(16, 8), (4, 4), (3,)])
    )
    target = shape.with_layout(gl.Layout((2, 1, 0), tiles=[(8, "*", 128), (2, 1)]))
    index, places = all_indices(shape), places_of(shape)[1]
    linear = gl.linearize(executor.array(index), shape)
    assert (executor.host(linear) == places).all()
    assert (executor.host(gl.delinearize(linear, shape)) == index).all()
    assert (executor.host(gl.convert_linear(linear, shape, target)) == places_of(target)[1]).all()


HUGE = [(2**31 - 8,), (2**28 + 3, 5), (2**31,), (2**20, 2**13), (2**17 + 1, 3, 2**15 - 1), (70001, 70003)]


@pytest.mark.parametrize("sizes", HUGE)
@pytest.mark.parametrize("tiles", [[(8, 128), (2, 1)], [(5,), (2,)], [("*", 1024), (3,)], [(2**18, 2**15)]], ids=str)
def test_places_past_2_31_are_exact(executor, sizes, tiles):
    """Against the definition in Python's integers: cut by every tile, then row-major."""
    order = tuple(range(len(sizes)))
    shape = gl.Shape("u8", sizes, gl.Layout(order, tiles=tiles))
    points = [*itertools.product(*({0, 1, size // 3, size // 2 + 1, size - 1} for size in sizes))]
    expected = [slot_by_definition(point, shape) for point in points]
    linear = gl.linearize(executor.array(np.array(points).T.copy()), shape)
    assert executor.host(linear).tolist() == expected
    assert executor.host(gl.delinearize(linear, shape)).T.tolist() == [list(point) for point in points]
    dense = shape.with_layout(None)
    assert executor.host(gl.convert_linear(linear, shape, dense)).tolist() == [
        gl.linearize(point, dense) for point in points
    ]


def slot_by_definition(point, shape):
    entries = [(point[dim], shape.buffer_dimensions[dim]) for dim in shape.layout.major_to_minor]
    for tile in shape.layout.tiles:
        entries = [(0, 1)] * (len(tile) - len(entries)) + entries
        kept, taken = entries[: -len(tile)], entries[-len(tile) :]
        outer, inner, (joined, room) = [], [], (0, 1)
        for (value, size), cut in zip(taken, tile):
            joined, room = joined * size + value, room * size
            if isinstance(cut, int):
                outer.append((joined // cut, -(-room // cut)))
                inner.append((joined % cut, cut))
                joined, room = 0, 1
        entries = kept + outer + inner
    return functools.reduce(lambda place, entry: place * entry[1] + entry[0], entries, 0)


def test_weights_wider_than_the_words_wrap(executor):
    """-133 quotients of the place times a stride of 34603008 exceed 2^32, although no place of either buffer does."""
    source = gl.parse_shape("u8[8,5,256,33]{1,0,3,2:T(128,128,16)(2,7,2)(16,*,16)}")
    target = source.with_layout(gl.parse_layout("{1,2,3,0:T(2,16)(4,128,2)L(16)}"))
    index = executor.array(np.array([[0, 7, 3, 7], [0, 4, 2, 4], [0, 255, 100, 0], [0, 32, 7, 31]]))
    places = gl.linearize(index, source)
    assert (
        executor.host(gl.convert_linear(places, source, target)).tolist()
        == executor.host(gl.linearize(index, target)).tolist()
    )


def test_the_widest_numbers_work_for_small_shapes_too(executor):
    """64-bit numbers, which shapes of more than 2^31 places need, for all places of small shapes."""
    with forced_bits(64):
        for text in ("f32[301,5]{1,0:T(8,128)(2,1)}", "f32[30,7]{0,1:T(4,3)(2)L(50)}", "f32[3,5,7]{2,0,1:T(2,*,3)}"):
            shape = gl.parse_shape(text)
            assert linearize_program(shape).index_bits == delinearize_program(shape).index_bits == 64
            check_all_places(executor, shape)


# ---- indices that cannot be converted -----------------------------------------------------------------------------

CHAIN, SCALAR = "f32[6]{0:T(3)(2)}", "u32[]{:T(4)}"
RAISING = [
    (
        lambda a: gl.linearize(a([[0, 6]]), CHAIN),
        "index (6,) at position 1 is out of bounds for f32[6]{0:T(3)(2)}: coordinate 6 of dimension 0 is not in 0..5",
    ),
    (
        lambda a: gl.linearize(a([[0, 1], [-1, 2]]), "f32[3,5]{1,0:T(2,2)}"),
        "index (0, -1) at position 0 is out of bounds for f32[3,5]{1,0:T(2,2)}: "
        "coordinate -1 of dimension 1 is not in 0..4",
    ),
    (
        lambda a: gl.delinearize(a([0, 3, 7]), CHAIN),
        "linear index 3 at position 1 is padding of f32[6]{0:T(3)(2)}: the tiles leave it empty",
    ),
    (
        lambda a: gl.delinearize(a([8]), CHAIN),
        "linear index 8 at position 0 is out of bounds for f32[6]{0:T(3)(2)}: its buffer has 8 places",
    ),
    (
        lambda a: gl.delinearize(a([1]), SCALAR),
        "linear index 1 at position 0 is padding of u32[]{:T(4)}: the tiles leave it empty",
    ),
    (
        lambda a: gl.delinearize(a([0, 9]), "f32[3,5]{1,0:T(2,2)}"),
        "linear index 9 at position 1 is padding of f32[3,5]{1,0:T(2,2)}: "
        "coordinate 5 of dimension 1 is past the size 5",
    ),
    (
        lambda a: gl.delinearize(a([5]), "f32[5]{0:L(8)}"),
        "linear index 5 at position 0 is padding of f32[5]{0:L(8)}: coordinate 5 of dimension 0 is past the size 5",
    ),
    (
        lambda a: gl.convert_linear(a([0, 6, 3]), CHAIN, "f32[6]"),
        "linear index 3 at position 2 is padding of f32[6]{0:T(3)(2)}: the tiles leave it empty",
    ),
    (
        lambda a: gl.delinearize(a([0, 7, 9]), CHAIN),
        "linear index 7 at position 1 is padding of f32[6]{0:T(3)(2)}: the tiles leave it empty",
    ),
    (
        lambda a: gl.convert_linear(a([8, 3]), CHAIN, "f32[6]"),
        "linear index 8 at position 0 is out of bounds for f32[6]{0:T(3)(2)}: its buffer has 8 places",
    ),
    (
        lambda a: gl.delinearize(a([0, 5, -1]), "f32[5]{0:L(8)}"),
        "linear index 5 at position 1 is padding of f32[5]{0:L(8)}: coordinate 5 of dimension 0 is past the size 5",
    ),
    (
        lambda a: gl.convert_linear(a([5, 8]), "f32[5]{0:L(8)}", "f32[5]"),
        "linear index 5 at position 0 is padding of f32[5]{0:L(8)}: coordinate 5 of dimension 0 is past the size 5",
    ),
    (
        lambda a: gl.delinearize(a([0, 7, 9]), CHAIN, padding="mark"),
        "linear index 9 at position 2 is out of bounds for f32[6]{0:T(3)(2)}: its buffer has 8 places",
    ),
    (
        lambda a: gl.delinearize(a([0, -1]), SCALAR, padding="mark"),
        "linear index -1 at position 1 is out of bounds for u32[]{:T(4)}: its buffer has 4 places",
    ),
    (
        lambda a: gl.linearize(a([[0], [0]]), "f32[2,0]{1,0:T(2,2)}"),
        "index (0, 0) at position 0 is out of bounds for f32[2,0]{1,0:T(2,2)}: "
        "coordinate 0 of dimension 1 is impossible, the dimension is empty",
    ),
]


@pytest.mark.parametrize("number", range(len(RAISING)))
def test_indices_that_do_not_exist_are_named(executor, number):
    call, message = RAISING[number]
    with pytest.raises(IndexError) as caught:
        call(lambda values: executor.array(np.array(values)))
    assert str(caught.value) == message


def test_nothing_is_written_when_an_index_is_bad(executor):
    shape, places = gl.parse_shape(CHAIN), [0, 1, 2, 4, 5, 6]
    for position, wrong in itertools.product((0, 2, 5), (3, 7, 8, -1)):
        lines = places.copy()
        lines[position] = wrong
        index = [0, 1, 2, 3, 4, 5]
        index[position] = wrong + 3 if wrong >= 0 else wrong
        for call, rows in (
            (lambda out: gl.delinearize(executor.array(np.array(lines)), shape, out=out), (1, 6)),
            (lambda out: gl.convert_linear(executor.array(np.array(lines)), shape, "f32[6]", out=out), (6,)),
            (lambda out: gl.linearize(executor.array(np.array([index])), shape, out=out), (6,)),
        ):
            out = executor.array(np.full(rows, 99))
            with pytest.raises(IndexError):
                call(out)
            assert (executor.host(out) == 99).all()


def test_nothing_is_written_when_a_place_to_be_marked_is_out_of_bounds(executor):
    for text in (CHAIN, "f32[5]{0:PD(8)}"):
        out = executor.array(np.full((1, 3), 99))
        with pytest.raises(IndexError, match="at position 2 is out of bounds"):
            gl.delinearize(executor.array(np.array([0, 1, 8])), text, padding="mark", out=out)
        assert (executor.host(out) == 99).all()


def test_results_that_do_not_fit_are_refused_by_size(executor):
    with pytest.raises(TypeError, match="^out has dtype uint8, which cannot hold 1023$"):
        gl.linearize(
            executor.array(np.zeros((1, 1), np.int64)), "f32[3]{0:T(8,128)}", out=executor.array(np.zeros(1, np.uint8))
        )
    small = executor.array(np.zeros((1, 1), np.uint8))  # wide enough for the coordinate, for any size of the buffer
    assert executor.host(gl.delinearize(executor.array(np.array([2])), "f32[3]{0:T(8,128)}", out=small)).tolist() == [
        [2]
    ]


def test_the_command_line_converts_tiled_indices_and_names_what_tiles_leave_empty():
    assert run("index", "bf16[16,256]{1,0:T(8,128)(2,1)}", "9,130").stdout == "9,130 -> 3077    (byte 6154)\n"
    assert run("index", "s4[3,5]{1,0:T(2,2)E(4)}", "--linear", "17").stdout == "17 -> 2,3    (byte 8, from bit 4 on)\n"
    assert (
        run("index", CHAIN, "--linear", "4", "3", code=1).stdout
        == "4 -> 3    (byte 16)\n3 -> padding: the tiles leave it empty\n"
    )
    found = json.loads(run("index", SCALAR, "--linear", "1", "--json", code=1).stdout)
    assert found == [{"index": None, "linear": 1, "byte_offset": 4, "bit_offset": 0, "padding": True}]


# ---- plans -----------------------------------------------------------------------------------------------------------


def test_dividing_tiles_need_few_quotients_and_nothing_kept():
    """One quotient per digit in one direction, one or two in the other."""
    shape = gl.parse_shape("bf16[16,256]{1,0:T(8,128)(2,1)}")
    there, back = linearize_program(shape), delinearize_program(shape)
    assert [each.adds for each in there.instructions] == [((1, 1), (2, 254), (8, 1024)), ((1, 2), (128, 768))]
    assert all(each.bound is None for each in back.instructions) and not back.has_bounds
    assert [len(each.terms) for each in back.instructions] == [5, 4]
    assert there.registers == back.registers == convert_program(shape, shape.with_layout(None)).registers == 0


def test_only_numbers_that_can_exceed_their_size_are_checked():
    back = delinearize_program(gl.parse_shape("f32[16,300]{1,0:T(8,128)}")).instructions
    assert [(each.store, each.bound) for each in back] == [(0, None), (1, 300)]
    # A number of joined dimensions is not checked.
    there = linearize_program(gl.parse_shape("f32[9,5,26]{2,1,0:T(*,4)(3)}")).instructions
    assert {each.bound is None for each in there if each.load is None} == {True}
    assert [each.bound for each in there if each.load is not None] == [9, 5, 26]


@pytest.mark.parametrize(
    "rank, tile, needed",
    [
        (40, [(3,) * 20, (2,) * 20], f"119 quotients: {MOST_TERMS}"),
        (17, [("*",) * 16 + (3,)], f"17 numbers at once: {MOST_REGISTERS}"),
        (57, [("*",) * 56 + (3,)], f"58 numbers: {MOST_INSTRUCTIONS}"),
    ],
)
def test_programs_too_long_for_a_launch_are_refused(rank, tile, needed):
    shape = gl.Shape("u8", (2,) * rank, gl.Layout(tuple(range(rank)), tiles=tile))
    plan = delinearize_program if "quotients" in needed else linearize_program
    with pytest.raises(gl.LayoutError) as caught:
        plan(shape)
    assert str(caught.value) == f"{shape} needs {needed} is the limit for index conversion of tiled layouts"


@pytest.mark.parametrize(
    "call",
    [
        lambda shape: gl.linearize(np.zeros((shape.rank, 3), int), shape),
        lambda shape: gl.delinearize(np.zeros(3, int), shape),
        lambda shape: gl.convert_linear(np.zeros(3, int), shape, shape.with_layout(None)),
        lambda shape: gl.convert_linear(np.zeros(3, int), shape.with_layout(None), shape),
    ],
    ids=["linearize", "delinearize", "convert", "convert to"],
)
def test_too_many_dimensions_are_refused_before_the_program_is_built(call):
    shape = gl.Shape("u8", [1] * 257, gl.Layout(range(257), tiles=((2,),)))
    with pytest.raises(
        gl.LayoutError, match="257 dimensions and numbers: 256 is the limit for index conversion of tiled layouts$"
    ):
        call(shape)


def test_many_dimensions_of_size_1_need_no_instructions():
    shape = gl.Shape("u8", [1] * 250 + [6], gl.Layout(range(250, -1, -1), tiles=((2, 4), (2, 1))))
    assert gl.convert_linear(np.arange(6), shape.with_layout(None), shape).tolist() == [0, 2, 4, 6, 8, 10]
