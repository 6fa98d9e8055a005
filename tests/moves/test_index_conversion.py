"""linearize, delinearize and convert_linear against the reference, on every executor."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpulayout as gl
from tests import reference
from tests.support import executors, strategies
from tests.support.effort import examples

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
PADDED = gl.parse_shape("f32[2,3]{0,1:PD(3,5)}")
shared_fixture = settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])


def small_shapes():
    """Every order of every shape up to rank 3 and of some of rank 4, dense and padded."""
    sizes = [
        (),
        (5,),
        (1,),
        *itertools.product((1, 2, 3), repeat=2),
        *itertools.product((1, 2, 3), repeat=3),
        (2, 3, 5, 2),
    ]
    for dimensions in sizes:
        for order in itertools.permutations(range(len(dimensions))):
            for widths in (None, tuple(size + dim % 2 + 1 for dim, size in enumerate(dimensions))):
                yield gl.Shape("f32", dimensions, gl.Layout(order, padded_dimensions=widths))


def all_indices(shape):
    """(rank, element count) in row-major order."""
    return np.indices(shape.dimensions).reshape(shape.rank, shape.element_count)


def places(shape):
    """The linear index of every element, row-major."""
    numbers = reference.numbers_by_numpy(shape.dimensions, shape.layout.minor_to_major, shape.layout.padded_dimensions)
    return np.argsort(numbers, kind="stable")[shape.buffer_size - shape.element_count :]


def test_linearize_and_delinearize_are_the_reference_and_inverses(executor):
    for shape in small_shapes():
        index = executor.array(all_indices(shape))
        linear = gl.linearize(index, shape)
        assert executor.host(linear).tolist() == places(shape).tolist(), shape
        back = gl.delinearize(linear, shape)
        assert back.dtype == np.int64 and executor.host(back).tolist() == all_indices(shape).tolist(), shape


def test_single_indices_are_plain_ints():
    for shape in small_shapes():
        for number, index in enumerate(reference.logical_indices(shape.dimensions)):
            linear = gl.linearize(index, shape)
            assert type(linear) is int and linear == places(shape)[number]
            assert gl.delinearize(linear, shape) == index
            assert gl.linearize(tuple(np.int32(i) for i in index), shape) == linear
            assert all(type(i) is int for i in gl.delinearize(np.int64(linear), shape))


def test_padding_is_marked_everywhere_and_only_there(executor):
    for shape in small_shapes():
        numbers = reference.numbers_by_numpy(
            shape.dimensions, shape.layout.minor_to_major, shape.layout.padded_dimensions
        )
        marked = executor.host(gl.delinearize(executor.array(np.arange(shape.buffer_size)), shape, padding="mark"))
        for place, number in enumerate(numbers):
            expected = all_indices(shape)[:, number].tolist() if number >= 0 else [-1] * shape.rank
            assert marked[:, place].tolist() == expected, (shape, place)


def test_convert_linear_is_delinearize_then_linearize(executor):
    for source in small_shapes():
        for order in itertools.permutations(range(source.rank)):
            target = source.with_layout(gl.Layout(order))
            given_places = executor.array(places(source))
            assert executor.host(gl.convert_linear(given_places, source, target)).tolist() == places(target).tolist()
            if source.element_count:
                assert gl.convert_linear(int(places(source)[-1]), source, target) == places(target)[-1]


@shared_fixture
@given(pair=strategies.pairs(max_elements=3000))
def test_random_shapes_up_to_rank_8(executor, pair):
    source, target = pair
    index, lines = all_indices(source), executor.array(places(source))
    assert executor.host(gl.linearize(executor.array(index), source)).tolist() == places(source).tolist()
    assert executor.host(gl.delinearize(lines, source)).tolist() == index.tolist()
    assert executor.host(gl.convert_linear(lines, source, target)).tolist() == places(target).tolist()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_any_integer_dtype_is_taken(executor, dtype):
    index = executor.array(all_indices(PADDED).astype(dtype))
    linear = gl.linearize(index, PADDED)
    assert executor.host(linear).tolist() == [0, 3, 6, 1, 4, 7]
    lines = executor.array(np.array([0, 3, 6, 1, 4, 7], dtype))
    assert executor.host(gl.delinearize(lines, PADDED)).tolist() == all_indices(PADDED).tolist()
    assert executor.host(gl.convert_linear(lines, PADDED, "f32[2,3]")).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_wrap_and_clip_bring_every_coordinate_inside(executor, dtype):
    limits = np.iinfo(dtype)
    values = sorted(
        {limits.min, limits.max, 0, 1, 2, 3, 4, 5, 7, limits.max - 1, *((-1, -2, -3, -4, -7) if limits.min else ())}
    )
    shape = gl.Shape("f32", (5, 3), gl.Layout((0, 1)))
    index = executor.array(np.array([values, values[::-1]], dtype))
    pairs = list(zip(values, values[::-1]))
    assert executor.host(gl.linearize(index, shape, mode="wrap")).tolist() == [a % 5 + 5 * (b % 3) for a, b in pairs]
    clipped = [min(max(a, 0), 4) + 5 * min(max(b, 0), 2) for a, b in pairs]
    assert executor.host(gl.linearize(index, shape, mode="clip")).tolist() == clipped
    assert [gl.linearize(pair, shape, mode="wrap") for pair in pairs] == [a % 5 + 5 * (b % 3) for a, b in pairs]
    assert [gl.linearize(pair, shape, mode="clip") for pair in pairs] == clipped


def test_index_arrays_of_any_shape_keep_it(executor):
    index = executor.array(all_indices(PADDED).reshape(2, 2, 3))
    linear = gl.linearize(index, PADDED)
    assert linear.shape == (2, 3)
    assert gl.delinearize(linear, PADDED).shape == (2, 2, 3)
    scalar = gl.linearize(executor.array(np.array([1, 2])), PADDED)
    assert scalar.shape == () and int(scalar) == 7
    assert gl.linearize(executor.array(np.zeros((0, 4), np.int64)), "f32[]").shape == (4,)
    assert gl.linearize(executor.array(np.zeros((2, 0), np.int64)), PADDED).shape == (0,)


def test_index_arrays_need_not_be_contiguous(executor):
    index = executor.array(np.ascontiguousarray(all_indices(PADDED).T)).T
    assert executor.host(gl.linearize(index, PADDED)).tolist() == [0, 3, 6, 1, 4, 7]
    lines = executor.array(np.array([0, 99, 3, 99, 6, 99]))[::2]
    assert executor.host(gl.delinearize(lines, PADDED)).tolist() == [[0, 0, 0], [0, 1, 2]]


def test_sequences_of_arrays_broadcast(executor):
    rows, columns = executor.array(np.arange(2, dtype=np.int32)[:, None]), executor.array(np.arange(3, dtype=np.uint8))
    assert executor.host(gl.linearize((rows, columns), PADDED)).tolist() == [[0, 3, 6], [1, 4, 7]]
    assert executor.host(gl.linearize((1, columns), PADDED)).tolist() == [1, 4, 7]
    assert executor.host(gl.linearize([rows, 2], PADDED)).tolist() == [[6], [7]]
    out = executor.array(np.zeros((2, 3), np.int32))
    assert gl.linearize((rows, columns), PADDED, out=out) is out
    assert executor.host(out).tolist() == [[0, 3, 6], [1, 4, 7]]


def test_nested_lists_go_to_the_default_backend():
    with gl.use_backend("numpy"):
        assert gl.linearize([[0, 1], [2, 2]], PADDED).tolist() == [6, 7]
        assert gl.delinearize([6, 7], PADDED).tolist() == [[0, 1], [2, 2]]


@pytest.mark.parametrize("dtype", ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"))
def test_results_go_into_out_of_any_integer_dtype(executor, dtype):
    out = executor.array(np.full(6, 99, dtype))
    assert gl.linearize(executor.array(all_indices(PADDED)), PADDED, out=out) is out
    assert executor.host(out).tolist() == [0, 3, 6, 1, 4, 7]
    index = executor.array(np.full((2, 6), 99, dtype))
    assert gl.delinearize(out, PADDED, out=index) is index
    assert executor.host(index).tolist() == all_indices(PADDED).tolist()
    row_major = executor.array(np.full(6, 99, dtype))
    assert gl.convert_linear(out, PADDED, "f32[2,3]", out=row_major) is row_major
    assert executor.host(row_major).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "text, dtype, last", [("u8[1,256]", "uint8", 255), ("u8[256,1]{0,1}", "uint8", 255), ("u8[1,128,1]", "int8", 127)]
)
def test_a_dtype_that_holds_every_place_need_not_hold_the_extents(executor, text, dtype, last):
    shape = gl.parse_shape(text)
    index = np.array([[0] * 2 if size == 1 else [0, last] for size in shape.dimensions])
    out = executor.array(np.full(2, 99, dtype))
    assert executor.host(gl.linearize(executor.array(index), shape, out=out)).tolist() == [0, last]


def test_many_indices_cross_every_block_boundary(executor):
    shape = gl.Shape("f32", (300, 7, 41), gl.Layout((1, 2, 0), padded_dimensions=(301, 8, 44)))
    index = all_indices(shape)
    linear = gl.linearize(executor.array(index), shape)
    assert (executor.host(linear) == places(shape)).all()
    assert (executor.host(gl.delinearize(linear, shape)) == index).all()
    target = gl.Shape("f32", (300, 7, 41))
    assert (executor.host(gl.convert_linear(linear, shape, target)) == np.arange(shape.element_count)).all()


# Shapes of more than 2^31 and 2^32 places: index conversion allocates nothing of that size.
@pytest.mark.parametrize(
    "dimensions", [(2**31 - 1,), (2**31,), (2**31 + 1,), (3, 2**31), (2**20, 2**20, 2**10), (131077, 65539)]
)
def test_huge_shapes_convert_exactly(executor, dimensions):
    for order in itertools.permutations(range(len(dimensions))):
        shape = gl.Shape("u8", dimensions, gl.Layout(order))
        target = shape.with_layout(gl.Layout(order[::-1]))
        corners = list(itertools.product(*({0, 1, size // 2, size - 1} for size in dimensions)))
        expected = [reference.place_of(corner, order, dimensions) for corner in corners]
        index = executor.array(np.array(corners).T.copy())
        linear = gl.linearize(index, shape)
        assert executor.host(linear).tolist() == expected
        assert executor.host(gl.delinearize(linear, shape)).T.tolist() == [list(corner) for corner in corners]
        converted = [reference.place_of(corner, order[::-1], dimensions) for corner in corners]
        assert executor.host(gl.convert_linear(linear, shape, target)).tolist() == converted


# ---- indices that cannot be converted, with full messages ------------------------------------------------

RAISING = [
    (
        lambda a: gl.linearize((2, 0), PADDED),
        "index (2, 0) is out of bounds for f32[2,3]{0,1:PD(3,5)}: coordinate 2 of dimension 0 is not in 0..1",
    ),
    (
        lambda a: gl.linearize((0, -1), PADDED),
        "index (0, -1) is out of bounds for f32[2,3]{0,1:PD(3,5)}: coordinate -1 of dimension 1 is not in 0..2",
    ),
    (lambda a: gl.linearize((0,), PADDED), "index has 1 coordinate, but f32[2,3]{0,1:PD(3,5)} has 2 dimensions"),
    (
        lambda a: gl.linearize(a([[0, 1, 0], [0, 3, 9]]), PADDED),
        "index (1, 3) at position 1 is out of bounds for f32[2,3]{0,1:PD(3,5)}: "
        "coordinate 3 of dimension 1 is not in 0..2",
    ),
    (
        lambda a: gl.linearize(a([[[0, 1], [-5, 0]], [[0, 1], [0, 0]]]), PADDED),
        "index (-5, 0) at position (1, 0) is out of bounds for f32[2,3]{0,1:PD(3,5)}: "
        "coordinate -5 of dimension 0 is not in 0..1",
    ),
    (
        lambda a: gl.linearize(a([[0], [0], [0]]), PADDED),
        "index has shape (3, 1), but f32[2,3]{0,1:PD(3,5)} has 2 dimensions: "
        "the first axis must be 2 (for points in rows, pass index.T)",
    ),
    (
        lambda a: gl.linearize((a([0, 1]), a([0, 1, 2])), PADDED),
        "index arrays of shapes (2,), (3,) do not broadcast for f32[2,3]{0,1:PD(3,5)}",
    ),
    (
        lambda a: gl.linearize(a([[1], [2]]), "f32[2,0]"),
        "index (1, 2) at position 0 is out of bounds for f32[2,0]{1,0}: "
        "coordinate 2 of dimension 1 is impossible, the dimension is empty",
    ),
    (
        lambda a: gl.linearize(a([[1], [2]]), "f32[2,0]", mode="wrap"),
        "index cannot be brought into f32[2,0]{1,0} with mode 'wrap': it has no elements",
    ),
    (
        lambda a: gl.linearize((1, 2), "f32[2,0]", mode="clip"),
        "index (1, 2) is out of bounds for f32[2,0]{1,0}: "
        "coordinate 2 of dimension 1 is impossible, the dimension is empty",
    ),
    (
        lambda a: gl.delinearize(15, PADDED),
        "linear index 15 is out of bounds for f32[2,3]{0,1:PD(3,5)}: its buffer has 15 places",
    ),
    (
        lambda a: gl.delinearize(-1, PADDED),
        "linear index -1 is out of bounds for f32[2,3]{0,1:PD(3,5)}: its buffer has 15 places",
    ),
    (
        lambda a: gl.delinearize(5, PADDED),
        "linear index 5 is padding of f32[2,3]{0,1:PD(3,5)}: coordinate 2 of dimension 0 is past the size 2",
    ),
    (
        lambda a: gl.delinearize(a([0, 1, 9]), PADDED),
        "linear index 9 at position 2 is padding of f32[2,3]{0,1:PD(3,5)}: "
        "coordinate 3 of dimension 1 is past the size 3",
    ),
    (
        lambda a: gl.delinearize(a([0, 15]), PADDED, padding="mark"),
        "linear index 15 at position 1 is out of bounds for f32[2,3]{0,1:PD(3,5)}: its buffer has 15 places",
    ),
    (
        lambda a: gl.delinearize(a([[-7]]), PADDED),
        "linear index -7 at position (0, 0) is out of bounds for f32[2,3]{0,1:PD(3,5)}: its buffer has 15 places",
    ),
    (
        lambda a: gl.convert_linear(a([0, 2]), PADDED, "f32[2,3]"),
        "linear index 2 at position 1 is padding of f32[2,3]{0,1:PD(3,5)}: "
        "coordinate 2 of dimension 0 is past the size 2",
    ),
    (
        lambda a: gl.delinearize(a([9, 1]), "u8[0]{0:PD(4)}"),
        "linear index 9 at position 0 is out of bounds for u8[0]{0:PD(4)}: its buffer has 4 places",
    ),
    (
        lambda a: gl.convert_linear(99, PADDED, "f32[2,3]"),
        "linear index 99 is out of bounds for f32[2,3]{0,1:PD(3,5)}: its buffer has 15 places",
    ),
]


@pytest.mark.parametrize("number", range(len(RAISING)))
def test_indices_that_do_not_exist_are_named(executor, number):
    call, message = RAISING[number]
    with pytest.raises(IndexError) as caught:
        call(lambda values: executor.array(np.array(values)))
    assert str(caught.value) == message


def test_nothing_is_written_when_an_index_is_bad(executor):
    for position in (0, 3, 5):
        index = all_indices(PADDED)
        index[0, position] = 2
        out = executor.array(np.full(6, 99))
        with pytest.raises(IndexError):
            gl.linearize(executor.array(index), PADDED, out=out)
        assert executor.host(out).tolist() == [99] * 6
        lines = np.array([0, 3, 6, 1, 4, 7])
        lines[position] = 2
        for call in (lambda o: gl.convert_linear(executor.array(lines), PADDED, "f32[2,3]", out=o),):
            with pytest.raises(IndexError):
                call(out)
        assert executor.host(out).tolist() == [99] * 6
        wide = executor.array(np.full((2, 6), 99))
        with pytest.raises(IndexError):
            gl.delinearize(executor.array(lines), PADDED, out=wide)
        assert executor.host(wide).tolist() == [[99] * 6] * 2


WRONG = [
    (
        lambda a: gl.linearize(a(np.zeros((2, 3))), PADDED),
        TypeError,
        "index has dtype float64: indices must be integers",
    ),
    (
        lambda a: gl.linearize(a(np.zeros((2, 3), bool)), PADDED),
        TypeError,
        "index has dtype bool: indices must be integers",
    ),
    (
        lambda a: gl.delinearize(a(np.zeros(3, np.float32)), PADDED),
        TypeError,
        "linear has dtype float32: indices must be integers",
    ),
    (
        lambda a: gl.linearize((a(np.zeros(3)), 1), PADDED),
        TypeError,
        "index[0] has dtype float64: indices must be integers",
    ),
    (
        lambda a: gl.linearize((1, 2), PADDED, mode="ignore"),
        ValueError,
        "mode 'ignore' is not one of 'raise', 'wrap', 'clip'",
    ),
    (lambda a: gl.delinearize(1, PADDED, padding="keep"), ValueError, "padding 'keep' is not one of 'raise', 'mark'"),
    (
        lambda a: gl.delinearize(a(np.zeros(3, int)), PADDED, out=a(np.zeros((2, 2), int))),
        BufferError,
        "out has shape (2, 2), but the result has shape (2, 3)",
    ),
    (
        lambda a: gl.delinearize(a(np.zeros(3, int)), PADDED, out=a(np.zeros((2, 3)))),
        TypeError,
        "out has dtype float64: linear and logical indices are native integers",
    ),
    (
        lambda a: gl.delinearize(a(np.zeros(3, int)), PADDED, padding="mark", out=a(np.zeros((2, 3), np.uint64))),
        TypeError,
        "out has dtype uint64, which cannot hold -1, the mark of padding",
    ),
    (
        lambda a: gl.linearize(a(np.zeros((1, 2), int)), "u8[300]", out=a(np.zeros(2, np.uint8))),
        TypeError,
        "out has dtype uint8, which cannot hold 299",
    ),
    (
        lambda a: gl.linearize(a(np.zeros((2, 3), int)), PADDED, out=a(np.zeros((3, 2), int))[:, 0]),
        BufferError,
        "out with strides (16,) is not C-contiguous",
    ),
    (
        lambda a: gl.convert_linear(a(np.zeros(3, int)), PADDED, "f32[3,2]"),
        gl.LayoutError,
        "target f32[3,2]{1,0} is not the same logical array as source f32[2,3]{0,1:PD(3,5)}: dimension 0 is 3, not 2",
    ),
    (
        lambda a: gl.linearize("abc", PADDED),
        TypeError,
        "index is a str: it must be a NumPy or CuPy array, or offer DLPack or __cuda_array_interface__; "
        "the index is the first argument",
    ),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_refused(executor, number):
    call, error, message = WRONG[number]
    with pytest.raises(error) as caught:
        call(executor.array)
    assert str(caught.value) == message


def test_overlapping_index_arrays_are_refused(executor):
    lines = executor.array(np.array([0, 3, 6, 1, 4, 7]))
    with pytest.raises(BufferError, match="^linear and out overlap in memory: out must be separate memory$"):
        gl.convert_linear(lines, PADDED, "f32[2,3]", out=lines)


@shared_fixture
@given(st.integers(-(2**63), 2**64 - 1))
def test_any_64_bit_number_is_refused_or_right(executor, value):
    dtype = np.int64 if value < 2**63 else np.uint64
    given_value = executor.array(np.array([value], dtype))
    if 0 <= value < 15 and value in (0, 1, 3, 4, 6, 7):
        assert executor.host(gl.delinearize(given_value, PADDED)).reshape(-1).tolist() == [value % 3, value // 3]
    else:
        with pytest.raises(IndexError):
            gl.delinearize(given_value, PADDED)


@pytest.mark.parametrize("mode", ("wrap", "clip"))
def test_unsigned_64_bit_operands_keep_their_value_beside_signed_ones(executor, mode):
    huge = executor.array(np.array([2**63 + 5, 1], np.uint64))
    small = executor.array(np.array([-1, 2], np.int8))
    expected = [((2**63 + 5) % 3) * 3 + 2, 5] if mode == "wrap" else [2 * 3 + 0, 5]
    assert executor.host(gl.linearize((huge, small), "f32[3,3]", mode=mode)).tolist() == expected


def test_an_unsigned_operand_past_2_63_is_named_as_it_is(executor):
    huge = executor.array(np.array([1, 2**63 + 5], np.uint64))
    small = executor.array(np.array([0, 2], np.int8))
    with pytest.raises(IndexError) as caught:
        gl.linearize((huge, small), "f32[3,3]", out=executor.array(np.zeros(2, np.int64)))
    assert str(caught.value) == (
        "index (9223372036854775813, 2) at position 1 is out of bounds for f32[3,3]{1,0}: "
        "coordinate 9223372036854775813 of dimension 0 is not in 0..2"
    )


def test_no_index_is_bad_where_there_are_none(executor):
    huge, none = executor.array(np.array(2**63 + 5, np.uint64)), executor.array(np.zeros(0, np.int8))
    for mode in ("raise", "wrap", "clip"):
        assert executor.host(gl.linearize((huge, none), "f32[3,3]", mode=mode)).shape == (0,)


def test_operands_without_dimensions_work(executor):
    one, two = executor.array(np.array(1)), executor.array(np.array(2))
    assert int(gl.linearize((one, two), "f32[2,3]")) == int(gl.linearize((one, 2), "f32[2,3]")) == 5
    with gl.use_backend("numpy"):
        assert gl.linearize(([0, 1], 1), "f32[2,3]").tolist() == [1, 4]


@pytest.mark.parametrize(
    "index",
    [
        (True, 1),
        (1, False),
        [True, False],
        (True, [1]),
        (0.5, 1),
        (1, 2.0),
        ("1", 0),
        (None, [1]),
        (np.float32(1), 0),
        (0, 1j),
    ],
)
def test_only_whole_numbers_are_coordinates(index):
    with pytest.raises(TypeError, match=r"^index\[[01]\] is .*, an? \w+: indices are whole numbers$"):
        gl.linearize(index, "f32[2,3]")


def test_coordinates_need_only_room_for_the_largest_coordinate(executor):
    out = executor.array(np.zeros((2, 1), np.int8))
    assert executor.host(gl.delinearize(executor.array(np.array([9999])), "f32[100,100]", out=out)).tolist() == [
        [99],
        [99],
    ]


def test_index_arrays_a_kernel_cannot_read_are_refused():
    if executors.simt_missing():
        pytest.skip(executors.simt_missing())
    raw = np.zeros(64, np.uint8)
    odd = raw[1 - raw.__array_interface__["data"][0] % 8 :][8:32].view(np.int64)
    with executors.HostExecutor("simt", executors.SimtBackend()).active():
        with pytest.raises(
            BufferError, match="^linear address is 1 past a multiple of 8: indices of 8 bytes must be aligned to 8$"
        ):
            gl.delinearize(odd, PADDED)
    assert gl.delinearize(odd, PADDED).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("dtype", (np.int8, np.uint8, np.int64, np.uint64))
@pytest.mark.parametrize("text", ("f32[3,1,5]", "f32[3,1,5]{0,2,1}", "f32[3,1,5]{2,1,0:T(2,4)}"))
def test_the_first_bad_index_is_named_whichever_coordinate_is_bad(executor, dtype, text):
    """Two bad indices, one of them bad in a coordinate that adds nothing to the place; with and without `out`."""
    for earlier, later in itertools.permutations(range(3), 2):
        for value in {5, np.iinfo(dtype).max, *([] if np.dtype(dtype).kind == "u" else [-1])}:
            index = np.zeros((3, 40), dtype)
            index[later, 31] = index[earlier, 7] = value
            bad = [0, 0, 0]
            bad[earlier] = int(value)
            for out in (None, executor.array(np.full(40, -9))):
                with pytest.raises(IndexError, match=re.escape(f"index {tuple(bad)} at position 7 ")):
                    gl.linearize(executor.array(index), text, out=out)
                assert out is None or (executor.host(out) == -9).all()


@pytest.mark.parametrize("dtype", (np.int8, np.int64))
def test_negative_coordinates_are_outside_sizes_above_their_type(executor, dtype):
    """-1 is 255 as an unsigned byte, which is below 300."""
    with pytest.raises(IndexError, match=re.escape("index (-1,) at position 1 ")):
        gl.linearize(executor.array(np.array([[0, -1]], dtype)), "f32[300]")
