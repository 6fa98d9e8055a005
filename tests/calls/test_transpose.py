"""gl.transpose against a loop over all elements, on every executor."""

import contextlib
import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl

DTYPES = ("bool", "int8", "float16", "float32", "float64", "complex128", "datetime64[s]", "S2", "V16")


def numbered(shape, dtype="int32"):
    """An array whose elements differ, as far as their width allows."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.arange(math.prod(shape)).reshape(shape) % 3 == 0
    wide = np.arange(math.prod(shape) * dtype.itemsize, dtype=np.uint32) * 2654435761 >> 24
    return wide.astype(np.uint8).view(dtype).reshape(shape)


def expected(array, before, after, sizes):
    """Element by element: `before` and `after` are lists of names for every axis, `sizes` by name."""
    names = list(sizes)
    result = np.empty([math.prod(sizes[name] for name in group) for group in after], array.dtype)
    for values in itertools.product(*(range(size) for size in sizes.values())):
        index = dict(zip(names, values))
        places = []
        for side in (before, after):
            place = []
            for group in side:
                number = 0
                for name in group:
                    number = number * sizes[name] + index[name]
                place.append(number)
            places.append(tuple(place))
        result[places[1]] = array[places[0]]
    return result


def text(groups):
    return " ".join(f"({' '.join(group)})" if len(group) != 1 else group[0] for group in groups)


@st.composite
def rearrangements(draw):
    """(before, after, sizes): up to five names, grouped differently on each side."""
    names = draw(st.lists(st.sampled_from("abcdexyz"), max_size=5, unique=True))
    sizes = {name: draw(st.sampled_from((1, 2, 3, 4, 5))) for name in names}
    sides = []
    for order in (names, draw(st.permutations(names))):
        groups, rest = [], list(order)
        while rest:
            count = draw(st.integers(1, len(rest)))
            groups.append(rest[:count])
            rest = rest[count:]
        sides.append(groups)
    return *sides, sizes


@given(rearrangements())
def test_patterns_move_every_element_where_its_names_say(found):
    before, after, sizes = found
    array = numbered([math.prod(sizes[name] for name in group) for group in before])
    result = gl.transpose(array, f"{text(before)} -> {text(after)}", **sizes)
    assert np.array_equal(result, expected(array, before, after, sizes)) and result.flags.c_contiguous


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))) + [(0, -1, 1, 2)])
def test_orders_of_numbers_are_those_of_numpy(executor, order):
    array = numbered((3, 4, 2, 5), "float32")
    result = gl.transpose(executor.array(array), order)
    assert (
        executor.host(result).tobytes() == np.ascontiguousarray(array.transpose(order)).tobytes()
        and result.shape == array.transpose(order).shape
    )


@pytest.mark.parametrize(
    "pattern, sizes",
    [
        ("h w c -> c h w", {}),
        ("(h w) k c -> c k w h", {"h": 2}),
        ("h w c d -> (d c) h w", {}),
        ("... c -> c ...", {}),
        ("a ... -> ... a", {}),
        ("h ... -> (...) h", {}),
    ],
)
def test_patterns_on_every_executor(executor, pattern, sizes):
    shape = (
        (4, 3, 5, 2)[: pattern.partition("->")[0].replace("(h w)", "h").count(" ")]
        if "..." not in pattern
        else (4, 3, 5)
    )
    array = numbered(shape)
    names = {"h w c -> c h w": (2, 0, 1), "... c -> c ...": (2, 0, 1), "a ... -> ... a": (1, 2, 0)}
    result = executor.host(gl.transpose(executor.array(array), pattern, **sizes))
    if pattern in names:
        assert np.array_equal(result, array.transpose(names[pattern]))
    elif "(...)" in pattern:
        assert np.array_equal(result, array.reshape(4, 15).T)
    elif "(h w)" in pattern:
        assert np.array_equal(result, array.reshape(2, 2, 3, 5).transpose(3, 2, 1, 0))
    else:
        assert np.array_equal(result, array.transpose(3, 2, 0, 1).reshape(10, 4, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_width_of_element_and_any_strides(dtype):
    array = numbered((4, 6, 10), dtype)
    for source in (
        array,
        array[::-1, ::2, 1::3],
        array.T,
        np.broadcast_to(array[:1], (7, 6, 10)),
        array[:0],
        array[0, 0, 0],
    ):
        result = gl.transpose(source)
        assert (
            result.tobytes() == np.ascontiguousarray(source.T).tobytes()
            and result.dtype == array.dtype
            and result.shape == source.T.shape
        )


def test_an_output_is_written_and_returned():
    array, out = numbered((3, 4)), np.zeros((4, 3), np.int32)
    assert gl.transpose(array, "a b -> b a", out=out) is out and np.array_equal(out, array.T)


def test_sizes_of_0_and_1():
    assert gl.transpose(np.zeros((0, 4), "f4"), "(a b) c -> c b a", a=3).shape == (4, 0, 3)
    assert gl.transpose(np.ones((2, 1), "f4"), "a 1 -> 1 a 1").shape == (1, 2, 1)
    assert gl.transpose(np.float32(3)[()] * np.ones(()), "->").shape == ()


@pytest.mark.parametrize(
    "axes, sizes, message",
    [
        ("h w c", {}, "axes 'h w c' is not a pattern such as 'h w c -> c h w': it has no '->'"),
        ("h w -> w h", {}, "axes 'h w -> w h' names 2 axes on the left: the array has 3"),
        (
            "h w c -> h w",
            {},
            "axes 'h w c -> h w' has no c on the right: both sides must name the same axes: no "
            "element is dropped or repeated",
        ),
        (
            "h w c -> h w c d",
            {},
            "axes 'h w c -> h w c d' has no d on the left: both sides must name the same axes: no "
            "element is dropped or repeated",
        ),
        ("h h c -> c h h", {}, "axes 'h h c -> c h h' names h twice on the left"),
        ("h (w c -> c h w", {}, "axes 'h (w c -> c h w' has '(' without ')'"),
        ("h w) c -> c h w", {}, "axes 'h w) c -> c h w' has ')' without '('"),
        ("(h (w c)) -> c h w", {}, "axes '(h (w c)) -> c h w' has '(' inside parentheses"),
        ("h (...) -> (...) h", {}, "axes 'h (...) -> (...) h' splits ...: on the left, ... cannot be in parentheses"),
        ("h ~0 c -> c ~0 h", {}, "axes 'h ~0 c -> c ~0 h' is not a pattern such as 'h w c -> c h w': it contains '~'"),
        (
            "h 2 c -> c 2 h",
            {},
            "axes 'h 2 c -> c 2 h' is not a pattern such as 'h w c -> c h w': a size needs a name, "
            "such as 'c=2' instead of '2'",
        ),
        ("... ... -> ...", {}, "axes '... ... -> ...' names ... twice on the left"),
        (
            "h w c -> c ...",
            {},
            "axes 'h w c -> c ...' has no h on the right: both sides must name the same axes: no "
            "element is dropped or repeated",
        ),
        (
            "h, w, c -> c h w",
            {},
            "axes 'h, w, c -> c h w' is not a pattern such as 'h w c -> c h w': it contains ','; spaces separate the "
            "names, write 'h w c -> c h w'",
        ),
        (
            "hwc->chw",
            {},
            "axes 'hwc->chw' has no hwc on the right: both sides must name the same axes: no element is dropped or "
            "repeated; spaces separate the names, write 'h w c -> c h w'",
        ),
        (
            "xyz->xyz",
            {},
            "axes 'xyz->xyz' names 1 axis on the left: the array has 3; spaces separate the names, write "
            "'x y z -> x y z'",
        ),
        (
            "hw->wh",
            {},
            "axes 'hw->wh' has no hw on the right: both sides must name the same axes: no element is "
            "dropped or repeated",
        ),
        (
            "{2,0,1}",
            {},
            "axes '{2,0,1}' is not a pattern such as 'h w c -> c h w': it has no '->'; gl.pack takes the text of a "
            "layout",
        ),
        (
            "(a b) w c -> a b w c",
            {},
            "axes '(a b) w c -> a b w c' leaves the sizes of a and b open: give all but one, such as '(a=8 b)'",
        ),
        (
            "(a b) w c -> a b w c",
            {"a": 3},
            "axes '(a b) w c -> a b w c' does not fit the array's shape (4, 5, 6): axis 0 of size 4 is not 3 x b",
        ),
        (
            "h w c -> c h w",
            {"h": 5},
            "axes 'h w c -> c h w' does not fit the array's shape (4, 5, 6): axis 0 of size 4 is not 5",
        ),
        ("h w c -> c h w", {"n": 5}, "size n is given, but axes 'h w c -> c h w' has no axis n"),
        ("1 w c -> c w", {}, "axes '1 w c -> c w' does not fit the array's shape (4, 5, 6): axis 0 of size 4 is not 1"),
        (
            (0, 1, 1),
            {},
            "axes (0, 1, 1) is not an ordering of dimensions 0..2 for an array of shape (4, 5, 6): dimension 1 appears "
            "twice",
        ),
    ],
)
def test_what_does_not_fit_is_refused(axes, sizes, message):
    with pytest.raises(gl.LayoutError) as error:
        gl.transpose(np.zeros((4, 5, 6), "f4"), axes, **sizes)
    assert str(error.value) == message


@pytest.mark.machine
@pytest.mark.parametrize(
    "axes, sizes",
    [
        (" ".join(f"a{number}" for number in range(20_000)) + " a19999 -> b", {}),
        ("(" * 200_000 + "->", {}),
        ("(" + "a" * 200_000 + "." * 200_000, {}),
        ("a" + "\u0301\u0316" * 60_000 + " b -> b a", {}),
    ],
    ids=["a name twice", "parentheses", "dots", "marks on a letter"],
)
def test_a_long_pattern_is_refused_at_once(axes, sizes):
    start = time.process_time()
    with pytest.raises(gl.LayoutError):
        gl.transpose(np.zeros((2, 3)), axes, **sizes)
    assert time.process_time() - start < 2


def test_other_errors():
    with pytest.raises(TypeError, match="^sizes h belong to a pattern"):
        gl.transpose(np.zeros((2, 3)), (1, 0), h=2)
    with pytest.raises(TypeError, match="^array has dtype object, of 8 bytes"):
        gl.transpose(np.zeros((2, 3), object))
    with pytest.raises(TypeError, match="^array has dtype .*, of 12 bytes"):
        gl.transpose(np.zeros((2, 3), "V12"))
    with pytest.raises(TypeError, match="^out has dtype float64, but array has float32: dtype=out.dtype converts the"):
        gl.transpose(np.zeros((2, 3), "f4"), out=np.zeros((3, 2)))
    with pytest.raises(BufferError, match="^out has shape"):
        gl.transpose(np.zeros((2, 3), "f4"), out=np.zeros((2, 3), "f4"))
    square = np.zeros((3, 3), "f4")
    with pytest.raises(BufferError, match="overlap in memory"):
        gl.transpose(square, out=square)


@pytest.mark.parametrize("kind", (np.int8, np.uint8, np.int16, np.int64))
def test_sizes_may_be_numpy_ints_of_any_width(kind):
    """Products of NumPy's own ints would wrap."""
    array = np.arange(320, dtype=np.int32)
    assert np.array_equal(
        gl.transpose(array, "(a b c) -> c b a", b=kind(16), c=kind(10)), array.reshape(2, 16, 10).transpose(2, 1, 0)
    )


def test_dots_may_touch_a_name():
    array = numbered((2, 3, 4))
    assert np.array_equal(gl.transpose(array, "h... -> ...h"), array.transpose(1, 2, 0))
    assert gl.transpose(array[..., :1], "...1 -> 1...").shape == (1, 2, 3)


def test_sizes_and_ranks_beyond_all_limits():
    with pytest.raises(gl.LayoutError, match="does not fit the array's shape"):
        gl.transpose(np.arange(6), "(h w) -> w h", h=10**5000)
    with pytest.raises(gl.LayoutError, match="has 71 axes: 64 is the limit$"):
        gl.transpose(np.arange(6), "a -> a" + " 1" * 70)
    assert gl.transpose(np.arange(6), "a -> a" + " 1" * 63).shape == (6, *(1,) * 63)
    for count, limit in (
        (64, contextlib.nullcontext()),
        (65, pytest.raises(gl.LayoutError, match="has 65 axes: 64 is")),
    ):
        names = [f"a{number}" for number in range(count)]  # in one axis of each side
        text, sizes = f"({' '.join(names)}) -> ({' '.join(reversed(names))})", dict.fromkeys(names[1:], 1)
        with limit:
            assert gl.transpose(np.arange(6), text, **sizes).tolist() == [0, 1, 2, 3, 4, 5]


def test_repeated_numbers_of_axes_are_checked_again():
    """1.0 and True equal ints too."""
    array = numbered((4, 3))
    assert np.array_equal(gl.transpose(array, (1, 0)), array.T)
    assert np.array_equal(gl.transpose(array, [np.int8(-1), 0]), array.T)
    for axes in ((True, False), (1.0, 0), [True, 0]):
        with pytest.raises(TypeError, match="^axes .* is not all integers for an array of shape"):
            gl.transpose(array, axes)
    with pytest.raises(gl.LayoutError, match="for an array of shape"):
        gl.transpose(array[0], (1, 0))


def test_a_repeated_pattern_checks_its_sizes_again():
    """2.0 and True equal ints, so a cache would take them for the ints of an earlier call."""
    array = numbered((4, 3))
    pattern = "(a b) c -> c b a"
    assert np.array_equal(gl.transpose(array, pattern, a=2), gl.transpose(array, pattern, a=np.int64(2)))
    gl.transpose(array, pattern, a=1)
    for size in (2.0, True, "2", [2]):
        with pytest.raises(TypeError, match="size a"):
            gl.transpose(array, pattern, a=size)
    strided = numbered((8, 3))[::2]
    assert np.array_equal(gl.transpose(strided, pattern, a=2), gl.transpose(strided.copy(), pattern, a=2))


# ---- words of capitals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["".join(order) for order in itertools.permutations("NCHW")])
def test_a_word_of_capitals_names_an_axis_by_every_letter(word):
    array = numbered((2, 3, 4, 5))
    expected = array.transpose(["NCHW".index(letter) for letter in word])
    assert np.array_equal(gl.transpose(array, f"NCHW -> {word}"), expected)
    assert np.array_equal(gl.transpose(array, f"NCHW->{word}", N=2, W=5), expected)
    assert np.array_equal(gl.pack(array, f"NCHW->{word}"), expected.ravel())


def test_one_word_is_the_name_of_one_axis():
    line, table = numbered((6,)), numbered((2, 3))
    assert np.array_equal(gl.transpose(line, "AB -> AB"), line)
    assert np.array_equal(gl.transpose(table, "AB -> AB"), table)
    assert np.array_equal(gl.transpose(table, "AB c -> c AB"), table.T)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("NCHW -> NHW", "axes 'NCHW -> NHW' has no C on the right"),
        ("NCHW -> NHWD", "axes 'NCHW -> NHWD' has no C on the right"),
        ("NCCW -> NWCC", "axes 'NCCW -> NWCC' names C twice on the left"),
        ("CHW -> HWC", "axes 'CHW -> HWC' names 3 axes on the left: the array has 4"),
        ("NCHW -> nhwc", "axes 'NCHW -> nhwc' has no NCHW on the right"),
        ("NCHW -> NH(WC)", "axes 'NCHW -> NH(WC)' has no NCHW on the right"),
        ("NHWC", "axes 'NHWC' is not a pattern such as 'h w c -> c h w': it has no '->'; write 'NCHW -> NHWC' if the "),
    ],
)
def test_words_that_no_letters_make_right_are_refused(pattern, problem):
    with pytest.raises(gl.LayoutError) as caught:
        gl.transpose(numbered((2, 3, 4, 5)), pattern)
    assert str(caught.value).startswith(problem)
