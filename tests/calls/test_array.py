"""`Array`: a buffer with its shape.  Every law holds for the buffer that the reference model lays out."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from tests import reference
from tests.support import strategies
from tests.support.effort import examples

LAYOUTS = (
    "{1,0}", "{0,1}", "{0,1:PD(3,5)}", "{1,0:PD(4,3)}", "{1,0:T(2,2)}", "{0,1:T(2,4)(2,1)}", "{1,0:T(*,4)}",
    "{1,0:T(4)L(16)}", "{0,1:T(3)(2)}",
)  # fmt: skip
SIZES = (2, 3)


def numbers(shape):
    """Distinct elements of a shape."""
    return (np.arange(shape.element_count) % 120 + 1).reshape(shape.dimensions).astype(shape.dtype)


def model(shape):
    """(the logical array, its buffer as the reference model lays it out; padding is 0)."""
    layout, logical = shape.layout, numbers(shape)
    tiles = [tuple("*" if entry is gl.COMBINE else entry for entry in tile.dimensions) for tile in layout.tiles]
    places = reference.tiled_numbers(
        shape.dimensions, layout.minor_to_major, layout.padded_dimensions or None, tiles, layout.tail_padding_alignment
    )
    table = np.concatenate([logical.reshape(-1), np.zeros(1, shape.dtype)])
    return logical, table[places]


def arrays_of(sizes=SIZES, dtype="s32", layouts=LAYOUTS):
    """(logical array, Array) for every layout."""
    for layout in layouts:
        shape = gl.parse_shape(f"{dtype}[{','.join(map(str, sizes))}]{layout}")
        logical, buffer = model(shape)
        yield logical, gl.Array(buffer, shape)


KEYS = (
    0, -1, (1, 2), (-2, -3), slice(None), (slice(None), 1), (slice(None, None, -1), slice(None, None, -2)), ...,
    (..., -1), (0, ...), (slice(1, 1), slice(None)), (slice(5, 0, -1), 2), (), (slice(-9, 9), slice(2, 0, -1)),
    (np.int8(1), np.uint64(2)),
)  # fmt: skip


def test_logical_is_the_array_that_the_reference_laid_out():
    for logical, array in arrays_of():
        found = array.logical()
        assert np.array_equal(found, logical) and found.shape == SIZES and found.dtype == np.int32, array
        assert np.array_equal(gl.unpack(array), logical)


def test_logical_is_a_view_where_strides_say_the_layout():
    for _, array in arrays_of():
        strided = array.layout_shape.layout.tiles == () or "T(*,4)" in str(array.layout_shape)
        if array.layout_shape.layout.tiles == ():
            assert np.shares_memory(array.logical(), array.buffer), array
        elif str(array.layout_shape.layout) == "{1,0:T(2,2)}":
            assert not strided and not np.shares_memory(array.logical(), array.buffer)


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_elements_are_those_of_the_logical_array(key):
    for logical, array in arrays_of():
        found, expected = array[key], logical[key]
        assert np.array_equal(found, expected) and np.shape(found) == np.shape(expected), (array, key)
        assert np.asarray(found).dtype == np.int32


@pytest.mark.parametrize("key", [*KEYS, (..., slice(-2, None, -1)), (slice(0, None, -1), slice(1, None, -2))], ids=repr)
def test_elements_of_tensors_are_those_of_the_logical_array(key):
    torch = pytest.importorskip("torch")
    for logical, array in arrays_of():
        found = gl.Array(torch.from_numpy(array.buffer), array.layout_shape)[key]
        assert type(found) is torch.Tensor and np.array_equal(found, logical[key]) and found.shape == logical[key].shape


def test_every_element_of_packed_types():
    for kind, bits in (("u4", 4), ("s4", 4), ("u2", 2), ("s2", 2), ("u1", 1), ("s1", 1)):
        logical = (np.arange(35).reshape(5, 7) % 5 % 2**bits).astype(gl.ElementType(kind).dtype)
        for layout in ("{1,0:E(%d)}", "{0,1:T(2,4)E(%d)}", "{0,1:PD(6,9)E(%d)}"):
            array = gl.asarray(logical, layout % bits)
            assert array.buffer.dtype == np.uint8
            for key in (*itertools.product(range(5), range(7)), (slice(None, None, -2), slice(1, 6, 3)), ..., (3,)):
                found = array[key]
                assert np.array_equal(found, logical[key]) and np.shape(found) == np.shape(logical[key]), (array, key)
                assert found.dtype == logical.dtype and type(found) is type(logical[key])


def test_slices_with_numbers_beyond_64_bits():
    huge = 10**20
    for logical, array in arrays_of():
        for key in (
            slice(None, None, huge),
            slice(huge, -huge, -huge),
            (..., slice(1, huge, huge)),
            slice(-huge, 0, huge),
        ):
            assert np.array_equal(array[key], logical[key]) and array[key].shape == logical[key].shape, (array, key)


def test_arrays_of_any_rank():
    for sizes in ((), (1,), (7,), (0, 3), (2, 3, 4), (1, 1, 1, 1, 1)):
        shape = gl.Shape("f32", sizes)
        array = gl.Array(np.arange(shape.element_count, dtype=np.float32), shape)
        expected = array.buffer.reshape(sizes)
        assert np.array_equal(array.logical(), expected) and np.array_equal(array[...], expected)
        assert np.array_equal(gl.asarray(expected).buffer, expected)
        if sizes:
            assert len(array) == sizes[0]
            assert [part.tolist() for part in array] == expected.tolist()
    for call in (len, list):
        with pytest.raises(TypeError, match=r"len\(\) of a gl\.Array without dimensions"):
            call(gl.Array(np.zeros(1), "f64[]"))


@settings(max_examples=examples(60))
@given(st.data())
def test_random_layouts_and_keys_on_numpy(data):
    source, target = data.draw(strategies.pairs(max_rank=4, max_elements=300))
    logical = numbers(source)
    array = gl.asarray(logical, source)
    key = tuple(
        data.draw(st.integers(-size, size - 1) | st.slices(size) if size else st.slices(size))
        for size in source.dimensions[: data.draw(st.integers(0, source.rank))]
    )
    assert np.array_equal(array[key], logical[key])
    moved = array.to(target)
    assert moved.layout_shape == target and moved == array and np.array_equal(moved.logical(), logical)
    assert np.array_equal(moved[key], logical[key])
    assert np.array_equal(moved.buffer, gl.pack(logical, target)) or target == source


def test_moves_on_every_executor(executor):
    logical = numbers(gl.Shape("f32", (20, 30)))
    for source, target in itertools.permutations(("{1,0}", "{0,1:PD(21,30)}", "{1,0:T(8,16)}", "{0,1:T(4,8)(2,1)}"), 2):
        array = gl.Array(executor.array(gl.pack(logical, source)), gl.parse_shape(f"f32[20,30]{source}"))
        moved = array.to(target)
        assert type(moved) is gl.Array and type(moved.buffer) is type(array.buffer)
        assert np.array_equal(executor.host(moved.buffer), gl.pack(logical, target))
        assert np.array_equal(executor.host(moved.logical()), logical)
        for key in ((3, -1), (slice(None, 5), 2), (slice(None, None, -7), slice(20, 3, -4))):
            assert np.array_equal(executor.host(moved[key]), logical[key])
        assert moved == array and gl.relayout(array, target) == moved
        assert np.array_equal(executor.host(gl.unpack(moved)), logical)


# ---- making ------------------------------------------------------------------------------------------------------


def test_nothing_is_copied_to_make_one():
    for memory in (np.arange(6.0), np.asfortranarray(np.ones((2, 3))), np.ones((4, 6))[:, :3], np.float32(1)):
        array = gl.asarray(memory)
        assert array.buffer is memory and array.layout_shape == gl.shape_of(memory) and array == gl.asarray(memory)
    array = gl.Array(memory := np.arange(6.0), "f64[2,3]{0,1}")
    assert array.buffer is memory and np.shares_memory(array.logical(), memory)


def test_asarray_copies_only_to_pack():
    matrix = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert gl.asarray(matrix, "F").buffer is matrix and gl.asarray(matrix, "{0,1}").buffer is matrix
    tiles = gl.asarray(matrix, "{1,0:T(2,2)}")
    assert np.array_equal(tiles.buffer, gl.pack(matrix, "{1,0:T(2,2)}")) and gl.asarray(tiles) is tiles
    assert gl.asarray(tiles, "{1,0:T(2,2)}") is tiles and gl.asarray(tiles, "C").layout_shape == gl.Shape("f64", (2, 3))
    repeated = np.broadcast_to(np.arange(3.0), (2, 3))  # no layout has its strides
    assert np.array_equal(gl.asarray(repeated, "{0,1}").logical(), repeated)
    with pytest.raises(gl.LayoutError, match="strides"):
        gl.asarray(repeated)
    with gl.use_backend("numpy"):  # a list lives nowhere
        assert np.array_equal(gl.asarray([[1, 2], [3, 4]], "u8[2,2]{0,1}").buffer, [1, 3, 2, 4])
    for values in ([1, 2], 3.5):
        with pytest.raises(TypeError, match="numpy.asarray"):
            gl.asarray(values)


def test_a_buffer_that_does_not_fit_is_an_error():
    flat = np.arange(6, dtype=np.float32)
    for buffer, shape, error, words in (
        (flat, "f32[2,4]", BufferError, "has 6 elements, but .* needs 8"),
        (flat, "f64[2,3]", TypeError, "has dtype float32"),
        (flat.astype(">f4"), "f32[2,3]", TypeError, "big-endian"),
        (flat[::2], "f32[3]", BufferError, "contiguous"),
        (flat.reshape(2, 3), "f32[2,3]{0,1}", BufferError, "not a buffer of"),
        (flat.reshape(3, 2), "f32[2,3]", BufferError, "not a buffer of"),
        (flat, "{0,1}", gl.LayoutError, "only a layout"),
        (flat, "f32[2,3]{0}", gl.LayoutError, "minor_to_major"),
        (flat, "f32[?,3]", gl.LayoutError, "unbounded"),
        ([1.0], "f64[1]", TypeError, "array"),
        (None, "f32[1]", TypeError, "array"),
        (gl.Array(flat, "f32[6]"), "f32[6]", TypeError, "logical"),
        (flat, "f32[5]", BufferError, "has 6 elements, but .* has 5: pass buffer.:5.$"),
        (flat.view(np.uint8)[:4], "u4[2,3]{1,0:T(2,2)E(4)}", None, ""),
    ):
        if error is None:
            gl.Array(buffer, shape)
            continue
        with pytest.raises(error, match=words):
            gl.Array(buffer, shape)


def test_it_is_frozen_and_has_no_hash():
    array = gl.asarray(np.eye(2))
    for change in (
        lambda: setattr(array, "buffer", None),
        lambda: delattr(array, "shape"),
        lambda: setattr(array, "x", 1),
    ):
        with pytest.raises(AttributeError, match="gl.Array"):
            change()
    with pytest.raises(TypeError, match="unhashable"):
        hash(array)


# ---- in place of buffer and shape ----------------------------------------------------------------------------------


def test_calls_take_one_in_place_of_buffer_and_shape():
    logical, array = next(arrays_of(layouts=("{0,1:PD(3,5)}",)))
    shape, target = array.layout_shape, "{1,0:T(2,2)}"
    expected = gl.relayout(array.buffer, shape, target)
    for found in (
        gl.relayout(array, target), gl.relayout(array, shape, target), gl.relayout(array, "{0,1:PD(3,5)}", target),
        gl.relayout(array, target=target), gl.plan(shape, target)(array), array.to(target),
    ):  # fmt: skip
        assert type(found) is gl.Array and str(found.layout_shape) == "s32[2,3]{1,0:T(2,2)}"
        assert np.array_equal(found.buffer, expected)
    assert np.array_equal(gl.unpack(array, shape), logical) and np.shares_memory(gl.view(array), array.buffer)
    assert gl.view(array, "a b -> b a").shape == (3, 2) and gl.shape_of(array) is shape
    assert gl.unpack(array, out=(out := np.zeros((2, 3), np.int32))) is out and np.array_equal(out, logical)


def test_out_may_be_one():
    logical, array = next(arrays_of())
    out = gl.Array(np.zeros(6, np.int32), "s32[2,3]{0,1}")
    assert array.to("{0,1}", out=out) is out and out == array
    assert gl.relayout(array, "{0,1}", out=out) is out
    with pytest.raises(gl.LayoutError, match="out is a gl.Array of"):
        array.to("{0,1:PD(2,4)}", out=out)
    memory = np.zeros(6, np.int32)
    assert array.to("{0,1}", out=memory).buffer is memory
    flat = gl.Array(np.arange(6.0), "f64[2,3]")
    assert flat.to("{0,1}", out=flat.buffer, max_bytes="1M").buffer is flat.buffer


def test_a_shape_that_differs_is_an_error_before_a_byte_moves():
    _, array = next(arrays_of())
    for wrong in ("{0,1}", "s32[3,2]", "f32[2,3]", "{1,0:PD(2,4)}"):
        out = np.full(6, 77, np.int32)
        for call in (
            lambda: gl.relayout(array, wrong, "{0,1}", out=out),
            lambda: gl.unpack(array, wrong, out=out.reshape(2, 3)),
            lambda: gl.view(array, wrong),
            lambda: gl.plan("s32[2,3]{0,1}", "{1,0}")(array, out=out),
        ):
            with pytest.raises((gl.LayoutError, BufferError), match=r"gl\.Array"):
                call()
        assert (out == 77).all()
    with pytest.raises(TypeError, match="target is missing"):
        gl.relayout(array)
    for call in (lambda: gl.relayout(array.buffer, "{0,1}"), lambda: gl.unpack(array.buffer)):
        with pytest.raises(TypeError, match=r"gl\.Array"):
            call()
    for call in (gl.pack, gl.transpose):
        with pytest.raises(TypeError, match=r"\.logical\(\)"):
            call(array, "{0,1}" if call is gl.pack else None)


def test_arithmetic_on_the_way():
    array = gl.asarray(np.arange(6, dtype=np.uint8).reshape(2, 3), "{1,0:T(2,2)}")
    found = array.to("{0,1}", dtype="f32", scale=0.5)
    assert found.layout_shape == gl.parse_shape("f32[2,3]{0,1}")
    assert np.array_equal(found.logical(), np.arange(6).reshape(2, 3) / 2)
    assert array.to("{1,0:T(2,2)}") is array and array.to(array.layout_shape.layout, dtype="s8").dtype == np.int8


# ---- equality, and what other libraries see ------------------------------------------------------------------------


def test_equality_is_of_elements_whatever_the_layouts_are():
    for (_, one), (_, other) in itertools.product(arrays_of(), repeat=2):
        assert one == other and not one != other
        changed = other.buffer.copy()
        place = gl.linearize((1, 2), other.layout_shape)
        changed[place] += 1
        assert one != gl.Array(changed, other.layout_shape)
        padded = other.buffer.copy()
        padded[~gl.stride_table(other.layout_shape).is_element(np.arange(len(padded)))] = 99
        assert one == gl.Array(padded, other.layout_shape)
    assert one != gl.asarray(np.zeros((3, 2), np.int32)) and one != one.to(one.layout_shape.layout, dtype="f32")
    nans = gl.asarray(np.array([np.nan, 0.0]))
    assert nans != nans and gl.asarray(np.array([0.0])) == gl.asarray(np.array([-0.0]))


def test_numpy_takes_one_as_the_logical_array():
    for logical, array in arrays_of():
        assert np.array_equal(np.asarray(array), logical) and np.array_equal(np.array(array, np.float64), logical)
        assert not np.shares_memory(np.array(array, copy=True), array.buffer)
        is_view = np.shares_memory(array.logical(), array.buffer)
        if is_view:
            assert np.shares_memory(np.asarray(array), array.buffer)
            assert np.shares_memory(np.array(array, copy=False), array.buffer)
            assert np.array_equal(np.from_dlpack(array), logical) and array.__dlpack_device__() == (1, 0)
        else:
            with pytest.raises(ValueError, match="copy"):
                np.array(array, copy=False)
            with pytest.raises(BufferError, match=r"\.logical\(\)"):
                np.from_dlpack(array)


def test_what_it_says_of_itself():
    array = gl.asarray(np.zeros((1000, 1000)), "{1,0:T(8,128)}")
    assert repr(array) == f"Array('f64[1000,1000]{{1,0:T(8,128)}}', {array.nbytes} bytes, numpy.ndarray on cpu)"
    assert array.nbytes == array.layout_shape.nbytes == array.buffer.nbytes and array.device == "cpu"
    assert array.dtype == np.float64 and array._repr_svg_() == array.layout_shape.draw().svg
    assert repr(gl.Array.holding(None, array.layout_shape)).endswith("bytes, NoneType)")


def test_copies_and_pickles_are_equal_and_hold_public_names_only():
    for _, array in (*arrays_of(), (None, gl.asarray(np.ones((4, 6))[:, :3])), (None, gl.asarray(np.eye(3).T))):
        text = pickle.dumps(array)
        assert (
            pickle.loads(text) == array
            and pickle.loads(text).layout_shape == array.layout_shape
            and b"gpulayout.calls" not in text
        )
        deep = copy.deepcopy(array)
        assert deep == array and not np.shares_memory(deep.buffer, array.buffer) and copy.copy(array) is array


def test_indices_that_are_none_are_errors():
    _, array = next(arrays_of(layouts=("{1,0:T(2,2)}",)))
    for key, error, words in (
        ((2, 0), IndexError, "index 2 is out of bounds for axis 0 of .*, whose size is 2"),
        ((0, -4), IndexError, "index -4 is out of bounds for axis 1 of .*, whose size is 3"),
        ((0, 0, 0), IndexError, "3 axes"),
        ((..., ...), IndexError, "at most one"),
        (None, TypeError, r"None: index the N-d array, \.logical\(\)"),
        (True, TypeError, "bool"),
        (1.5, TypeError, "float"),
        ([0, 1], TypeError, "list"),
        (np.array([0, 1]), TypeError, "ndarray"),
        (slice(None, None, 0), ValueError, "zero"),
    ):
        with pytest.raises(error, match=words):
            array[key]


# ---- the other calls -----------------------------------------------------------------------------------------------


def test_many_jobs_may_have_one_each():
    first, second = (array for _, array in itertools.islice(arrays_of(), 1, 3))
    plain = np.arange(4.0)
    out = gl.Array(np.zeros(6, np.int32), "s32[2,3]")
    found = gl.relayout_many(
        [(first, "{1,0:T(2,2)}"), (plain, "f64[2,2]", "{0,1}"), (second, second.layout_shape, "{1,0}")],
        out=[None, None, out],
    )
    assert found[0] == first.to("{1,0:T(2,2)}") and type(found[0]) is gl.Array and found[2] is out and out == second
    assert np.array_equal(found[1], [0, 2, 1, 3])
    for job, error, words in (
        ((first,), TypeError, "job 1: .* 1 part"),
        ((first, "{1,0}", "{0,1}"), gl.LayoutError, "job 1: .*gl.Array"),
    ):
        out.buffer[:] = 7
        with pytest.raises(error, match=words):
            gl.relayout_many([(second, "{1,0}"), job], out=[out, None])
        assert (out.buffer == 7).all()


def test_index_conversion_takes_one_as_the_shape():
    for _, array in arrays_of():
        places = gl.linearize(np.indices(SIZES).reshape(2, -1), array)
        assert np.array_equal(places, gl.linearize(np.indices(SIZES).reshape(2, -1), array.layout_shape))
        assert np.array_equal(gl.delinearize(places, array), gl.delinearize(places, array.layout_shape))
        other = gl.Array(np.zeros(6), "f64[2,3]").to("{0,1}", dtype="s32")
        assert gl.convert_linear(0, array, other) == gl.convert_linear(0, array, "{0,1}") == 0


def test_a_file_is_written_from_one(tmp_path):
    for number, (logical, array) in enumerate(arrays_of()):
        done = gl.relayout_file(array, tmp_path / f"{number}.npy", target="{0,1}")
        assert done.source == array.layout_shape and np.array_equal(np.load(tmp_path / f"{number}.npy"), logical)
        gl.relayout_file(array, tmp_path / f"{number}.raw", target=array.layout_shape)
        found = np.fromfile(tmp_path / f"{number}.raw", np.int32)
        assert gl.Array(found, array.layout_shape) == array and np.array_equal(found, array.buffer)
        with pytest.raises(gl.LayoutError, match=r"gl\.Array"):
            gl.relayout_file(array, tmp_path / "none.npy", source="s32[3,2]", target="{0,1}")
        assert not (tmp_path / "none.npy").exists()
    gl.relayout_file(gl.asarray(np.ones((4, 6))[:, :3]), tmp_path / "gaps.npy", dtype="u8", scale=3)
    assert (np.load(tmp_path / "gaps.npy") == np.full((4, 3), 3, np.uint8)).all()


def test_dask_cuts_one_into_chunks():
    pytest.importorskip("dask.array", reason="the extra `dask` is not installed")
    for target in ("{0,1}", "{1,0:T(2,2)}"):
        logical, array = next(arrays_of((12, 8), layouts=("{1,0:T(4,4)}",)))
        moved = gl.dask.relayout(array, target, chunk_size=128)
        assert moved.npartitions > 1 and np.array_equal(moved.compute(), array.to(target).buffer)
        found = gl.dask.unpack(array, chunk_size=128)
        assert found.npartitions > 1 and np.array_equal(found.compute(), logical)
    assert np.array_equal(gl.dask.unpack(array, array.layout_shape).compute(), logical)
    for call in (lambda: gl.dask.unpack(array, "{0,1}"), lambda: gl.dask.relayout(array, "{0,1}", "{1,0}")):
        with pytest.raises(gl.LayoutError, match=r"gl\.Array"):
            call()


@pytest.mark.parametrize("target", ["cuda", "cuda:0", "cpu", "bf16", "f32", np.dtype("f4")])
def test_to_takes_layouts_not_devices_or_element_types(target):
    with pytest.raises(
        TypeError, match=r"^target .* is (a device|an element type), and to\(\) changes the layout of f32"
    ):
        gl.asarray(np.zeros((2, 3), np.float32)).to(target)


@pytest.mark.parametrize("call", [lambda x: gl.pack(x, "C"), gl.transpose])
def test_calls_of_arrays_with_strides_do_not_advise_to_pass_the_buffer(call):
    with pytest.raises(TypeError, match=r"^array is an Array: pass its N-d array, \.logical\(\)$"):
        call(gl.asarray(np.zeros((2, 3), np.float32), "{1,0:T(2,2)}"))


@pytest.mark.parametrize("options", [{}, {"dtype": "f16"}], ids=str)
def test_a_target_of_a_wrong_type_is_an_error_with_every_option(options):
    with pytest.raises(TypeError, match="^target must be a Shape, a Layout or text, not tuple: write gl.Layout"):
        gl.asarray(np.zeros((2, 3), np.float32)).to((1, 0), **options)


@pytest.mark.parametrize("call", [lambda x, t, **o: x.to(t, **o), lambda x, t, **o: gl.relayout(x, t, **o)])
def test_a_repeated_call_of_an_array_reads_what_differs(call):
    one, other = gl.asarray(np.arange(6.0).reshape(2, 3)), gl.asarray(np.arange(12.0).reshape(3, 4))
    for _ in range(3):
        for array in (one, other):
            for options in ({}, {"dtype": "f32"}, {"scale": 2.0}, {"scale": 3.0}, {"dtype": "f32", "scale": 2.0}):
                moved = call(array, "{0,1}", **options)
                expected = array.logical() * options.get("scale", 1)
                assert moved.layout_shape == gl.Shape(options.get("dtype", "f64"), array.shape, "{0,1}")
                assert np.array_equal(moved.logical(), expected)
