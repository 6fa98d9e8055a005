"""transpose of Dask arrays gives what gl.transpose gives of the whole array, in any chunks."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from tests.calls.test_transpose import numbered, rearrangements, text

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def same(lazy, expected):
    """The chunks, dtype and kind that were promised come, and the elements are right."""
    assert (lazy.shape, lazy.dtype, lazy._meta.dtype) == (expected.shape, expected.dtype, expected.dtype)
    lazy.dask.validate()
    places = list(np.ndindex(lazy.numblocks))
    for place, block in zip(places, dask.compute(*(lazy.blocks[place] if place else lazy for place in places))):
        assert block.shape == tuple(sizes[at] for sizes, at in zip(lazy.chunks, place))
    assert np.asarray(lazy.compute()).tobytes() == expected.tobytes()


def is_bounded(lazy, source):
    """No chunk is larger than Dask's setting, or than the largest one of the source."""
    largest = max(dask.config.get("array.chunk-size"), math.prod(map(max, source.chunks)) * source.itemsize)
    return math.prod(map(max, lazy.chunks)) * lazy.itemsize <= largest


def layers(array):
    return [name.rpartition("-")[0] for name in array.dask.layers]


def groupings(names):
    """All ways to group names in this order."""
    for cuts in itertools.product((False, True), repeat=len(names) - 1):
        ends = [0, *(place for place, is_cut in enumerate(cuts, 1) if is_cut), len(names)]
        yield [names[start:end] for start, end in itertools.pairwise(ends)]


@pytest.mark.parametrize("before", list(groupings("abc")), ids=text)
def test_every_pattern_of_three_names(before):
    sizes = {"a": 2, "b": 3, "c": 2}
    array = numbered([math.prod(sizes[name] for name in group) for group in before])
    for order, length in itertools.product(itertools.permutations("abc"), (1, 2, 3, 4, 6)):
        source = da.from_array(array, chunks=length)
        for after in groupings(order):
            pattern = f"{text(before)} -> {text(after)}"
            with dask.config.set({"array.chunk-size": 4 * length}):
                lazy = gl.dask.transpose(source, pattern, **sizes)
                assert is_bounded(lazy, source), (pattern, length)
            assert np.array_equal(lazy.compute(), gl.transpose(array, pattern, **sizes)), (pattern, length)


@given(rearrangements(), st.data())
def test_patterns_and_chunks(found, data):
    before, after, sizes = found
    array = numbered([math.prod(sizes[name] for name in group) for group in before])
    ends = [sorted(data.draw(st.lists(st.integers(0, size), max_size=3))) for size in array.shape]
    chunks = tuple(tuple(np.diff([0, *cuts, size]).tolist()) for cuts, size in zip(ends, array.shape))
    source = da.from_array(array, chunks=chunks)
    with dask.config.set({"array.chunk-size": data.draw(st.sampled_from((4, 100, 10_000)))}):
        lazy = gl.dask.transpose(source, f"{text(before)} -> {text(after)}", **sizes)
        assert is_bounded(lazy, source)
    assert np.array_equal(lazy.compute(), gl.transpose(array, f"{text(before)} -> {text(after)}", **sizes))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "axes, sizes",
    [
        (None, {}),
        ((2, 0, 1), {}),
        ((-1, 0, 1), {}),
        (np.array([1, 0, 2]), {}),
        ("h w c -> c h w", {}),
        ("... c -> c ...", {}),
        ("h ... -> (...) h", {}),
        ("h w (c d) -> (d h) 1 (w c)", {"d": 2}),
        ("h (a 1 b) c -> b (c a) h", {"a": 5}),
    ],
)
@pytest.mark.parametrize("shape", [(4, 5, 6), (1, 5, 2), (0, 5, 2), (4, 0, 2)])
@pytest.mark.parametrize("chunks", [3, -1, 1])
def test_axes_as_gl_transpose_takes_them(axes, sizes, shape, chunks):
    if shape[1] == 0 and "a" in sizes:
        sizes = {"a": 0, "b": 1}
    array = numbered(shape)
    same(gl.dask.transpose(da.from_array(array, chunks=chunks), axes, **sizes), gl.transpose(array, axes, **sizes))


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float8_e4m3fn", "float64", "c16", "datetime64[s]", "S2", "V16"])
def test_every_kind_of_element(dtype):
    array = np.arange(24 * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype).reshape(4, 6)
    source = da.from_array(array, chunks=(2, 3))
    same(gl.dask.transpose(source, "h w -> w h"), gl.transpose(array, "h w -> w h"))
    same(gl.dask.transpose(source, "h (w d) -> (w h) d", d=2), gl.transpose(array, "h (w d) -> (w h) d", d=2))


def test_an_array_without_axes():
    same(gl.dask.transpose(da.from_array(np.array(7))), np.array(7))
    same(gl.dask.transpose(da.from_array(np.array(7)), " -> 1"), np.array([7]))


# ---- chunks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape, chunks, pattern, sizes, expected",
    [
        ((4, 6), ((1, 3), (4, 2)), "h w -> w h", {}, ((4, 2), (1, 3))),
        ((4, 6), ((1, 0, 3), (4, 2)), "h w -> w h", {}, ((4, 2), (1, 0, 3))),
        ((24, 2), ((6, 18), (1, 1)), "(h w) c -> c h w", {"h": 4}, ((1, 1), (1, 3), (6,))),
        ((24,), ((2, 4) * 4,), "(h w) -> w h", {"h": 4}, ((2, 4), (1,) * 4)),
        ((4, 6, 2), ((1, 3), (6,), (2,)), "h w c -> c (h w)", {}, ((2,), (6, 18))),
        ((4, 6, 2), ((1,) * 4, (4, 2), (2,)), "h w c -> c (h w)", {}, ((2,), (4, 2) * 4)),
        ((8, 6), ((2,) * 4, (6,)), "(a b) w -> a (b w)", {"a": 4}, ((1,) * 4, (12,))),
    ],
)
def test_chunks_that_are_boxes_are_not_shuffled(shape, chunks, pattern, sizes, expected):
    array = numbered(shape)
    source = da.from_array(array, chunks=chunks)
    lazy = gl.dask.transpose(source, pattern, **sizes)
    assert layers(lazy)[1:] == ["transpose"] and lazy.chunks == expected and lazy.npartitions == source.npartitions
    same(lazy, gl.transpose(array, pattern, **sizes))


def test_other_chunks_are_made_boxes_first():
    image = da.zeros((64, 1000, 3), chunks=(32, 250, 3), dtype="u1")
    joined = gl.dask.transpose(image, "h w c -> c (h w)")
    assert joined.chunks == ((3,), (32_000, 32_000)) and layers(joined)[-1] == "transpose"
    with dask.config.set({"array.chunk-size": "30kB"}):
        assert gl.dask.transpose(image, "h w c -> c (h w)").chunks == ((3,), (8000,) * 8)
    rows = da.zeros((6000, 4), chunks=(1500, 4), dtype="u1")
    assert gl.dask.transpose(rows, "(h w) c -> c h w", w=1000).chunks == ((4,), (1,) * 6, (1000,))


def test_axes_that_change_places_within_one_are_split_first():
    """No chunks of (a b) but the whole array are chunks of (b a) too."""
    array = numbered((40 * 50,))
    source = da.from_array(array, chunks=100)
    with dask.config.set({"array.chunk-size": 400}):
        lazy = gl.dask.transpose(source, "(a b) -> (b a)", a=40)
    assert layers(lazy).count("transpose") == 2 and lazy.chunks == ((80,) * 25,)
    same(lazy, gl.transpose(array, "(a b) -> (b a)", a=40))


# ---- graphs and errors -----------------------------------------------------------------------------------------


def test_names_are_the_same_for_the_same_call_only():
    array = da.ones((36, 4), chunks=(18, 4), dtype="f4")
    calls = [
        lambda: gl.dask.transpose(array),
        lambda: gl.dask.transpose(array, "(a b) c -> a b c", a=2),
        lambda: gl.dask.transpose(array, "(a b) c -> a b c", a=4),
        lambda: gl.dask.transpose(array, "(a b) c -> (b a) c", a=4),
        lambda: gl.dask.transpose(array, "(a b) c -> (b a) c", a=9),
        lambda: gl.dask.transpose(array + 1),
    ]
    names = [call().name for call in calls]
    assert names == [call().name for call in calls] and len(set(names)) == len(names)
    assert gl.dask.transpose(array, "h w -> w h").name == gl.dask.transpose(array, (1, 0)).name == names[0]


def test_a_task_takes_a_few_hundred_bytes():
    lazy = gl.dask.transpose(da.zeros((6400, 1000), chunks=(100, 1000)), "(long w) ... -> (... w) long", w=4)
    tasks = lazy.dask.layers[lazy.name].values()
    assert len(tasks) == 64 and max(len(pickle.dumps(task)) for task in tasks) < 400


def test_nothing_is_computed_before_it_is_asked_for():
    def fail(block):
        raise AssertionError("computed")

    array = da.zeros((40, 50), chunks=7, dtype="f4").map_blocks(fail, dtype="f4", meta=np.zeros((0, 0), "f4"))
    lazy = gl.dask.transpose(array, "(a b) c -> (b a c)", a=8)
    with pytest.raises(AssertionError, match="^computed$"):
        lazy.compute()


@pytest.mark.parametrize(
    "axes, sizes",
    [
        ((0, 1), {}),
        ((0, 1, 1), {}),
        ((0, 1, 3), {}),
        ((0, 1, 2.5), {}),
        (3, {}),
        ((2, 1, 0), {"h": 2}),
        (None, {"h": 2}),
        (gl.Layout((0, 1, 2)), {}),
        ("h w -> w h", {}),
        ("h w c", {}),
        ("h w c -> c h", {}),
        ("hwc -> chw", {}),
        ("(h w) ... -> ...", {}),
        ("(a b) w c -> a b w c", {}),
        ("(a b) w c -> a b w c", {"a": 3}),
        ("(a b) w c -> a b w c", {"a": 2, "d": 2}),
        ("(a b) w c -> a b w c", {"a": 2.0}),
        ("{0,1,2}", {}),
    ],
)
def test_errors_are_those_of_gl_transpose_before_anything_is_computed(axes, sizes):
    with pytest.raises((TypeError, ValueError)) as expected:
        gl.transpose(np.zeros((4, 5, 6)), axes, **sizes)
    with pytest.raises(expected.type) as found:
        gl.dask.transpose(da.zeros((4, 5, 6), chunks=3), axes, **sizes)
    assert (found.type, str(found.value)) == (expected.type, str(expected.value))


def test_dask_calls_have_no_out():
    array = da.zeros((4, 6), chunks=2)
    for out in (np.zeros((6, 4)), array.T, None):
        with pytest.raises(TypeError, match="^transpose of a Dask array has no out: Dask calls return a new"):
            gl.dask.transpose(array, "h w -> w h", out=out)
    split = gl.dask.transpose(array, "(out h) w -> w out h", out=2)  # an axis may be called so
    assert split.shape == (6, 2, 2)


def test_too_many_axes_and_elements_that_cannot_move():
    many = " ".join(f"a{number}" for number in range(70))
    with pytest.raises(gl.LayoutError, match="has 70 axes: 64 is the limit"):
        gl.dask.transpose(da.zeros(1), f"({many}) -> {many}", **dict.fromkeys(many.split(), 1))
    for dtype in ("O", "S3"):
        with pytest.raises(TypeError, match="^array has dtype"):
            gl.dask.transpose(da.from_array(np.zeros((2, 3), dtype), chunks=2))


def test_what_is_no_dask_array_of_known_size():
    with pytest.raises(TypeError, match="^array is .*, not a Dask array: gl.transpose takes other arrays"):
        gl.dask.transpose(np.zeros((2, 3)))
    array = da.zeros((4, 6), chunks=2)
    with pytest.raises(ValueError, match="^array has chunks of unknown size"):
        gl.dask.transpose(array[array[:, 0] > 1], "h w -> w h")


def test_sizes_in_the_text_and_axes_called_like_parameters():
    array = np.arange(24).reshape(6, 4)
    given = da.from_array(array, chunks=(2, 4))
    expected = array.reshape(2, 3, 4).transpose(2, 1, 0)
    for name in ("h", "array", "axes"):
        assert np.array_equal(gl.dask.transpose(given, f"({name}=2 b) c -> c b {name}").compute(), expected)
        assert np.array_equal(gl.dask.transpose(given, f"({name} b) c -> c b {name}", **{name: 2}).compute(), expected)
    assert np.array_equal(gl.dask.transpose(given, axes=(1, 0)).compute(), array.T)
