"""One text language for targets: patterns, names, layouts and shapes mean the same wherever a target is taken."""

import itertools
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from tests.calls.test_transpose import numbered, rearrangements, text
from tests.support.command_line import failure, refusal, run


def sized(groups, sizes):
    """The left side of a pattern, with all sizes of split axes but the first in the text."""
    return " ".join(
        f"({' '.join([group[0], *(f'{name}={sizes[name]}' for name in group[1:])])})" if len(group) != 1 else group[0]
        for group in groups
    ).replace("()", "1")


def array_for(before, sizes):
    return numbered([math.prod(sizes[name] for name in group) for group in before], "int32")


@given(rearrangements())
def test_a_pattern_is_the_memory_of_the_transposed_array(found):
    before, after, sizes = found
    array = array_for(before, sizes) if all(before) else numbered((), "int32")
    pattern = f"{sized(before, sizes)} -> {text(after)}"
    expected = gl.transpose(array, pattern).ravel()
    assert np.array_equal(gl.transpose(array, f"{text(before)} -> {text(after)}", **sizes).ravel(), expected)
    assert np.array_equal(gl.pack(array, pattern), expected)
    plan = gl.plan(gl.Shape(array.dtype, array.shape), pattern)
    assert np.array_equal(plan(array.ravel()), expected)
    assert plan.target.nbytes == array.nbytes and plan.names is not None and len(plan.names) == array.ndim
    assert gl.plan(str(plan.source), str(plan.target)).target == plan.target  # the target has a text of its own


@given(rearrangements(), st.data())
def test_a_pattern_moves_a_buffer_of_any_layout(found, data):
    before, after, sizes = found
    array = array_for(before, sizes)
    order = data.draw(st.permutations(range(array.ndim)))
    widths = [size + data.draw(st.integers(0, 2)) for size in array.shape]
    source = gl.Shape(array.dtype, array.shape, gl.Layout(order, padded_dimensions=widths))
    pattern = f"{sized(before, sizes)} -> {text(after)}"
    buffer = gl.pack(array, source)
    expected = gl.transpose(array, pattern).ravel()
    assert np.array_equal(gl.relayout(buffer, source, pattern), expected)
    assert np.array_equal(gl.relayout_many([(buffer, source, pattern)])[0], expected)
    places = gl.convert_linear(np.arange(expected.size), gl.plan(source, pattern).target, source)
    assert np.array_equal(buffer[places], expected)


@pytest.mark.parametrize("pattern", ["h w c -> c h w", "h (w=2 v) c -> c v h w", "... c -> c ...", "1 w c -> c w 1"])
def test_patterns_on_every_executor(executor, pattern):
    array = numbered((1 if pattern[0] == "1" else 3, 4, 5), "float32")
    expected = gl.transpose(array, pattern).ravel()
    assert np.array_equal(executor.host(gl.pack(executor.array(array), pattern)), expected)
    moved = gl.relayout(executor.array(array.ravel()), gl.Shape(array.dtype, array.shape), pattern)
    assert np.array_equal(executor.host(moved), expected)


NAMES = {
    "C": "{3,2,1,0}",
    "F": "{0,1,2,3}",
    "torch:channels_last": "{1,3,2,0}",
    "cute:(2,3,4,5):(1,2,6,24)": "{0,1,2,3}",
    "named:NHWC:NCHW": "{1,3,2,0}",
    "named:nchw2c:nchw": "{3,2,1,0:T(2,1,1)}",
    "kCHW4": "{3,2,1,0:T(4,1,1)}",
    "HWC8": "{1,3,2,0:T(8)}",
    "kDLA_LINEAR": "{3,2,1,0:PD(2,3,4,16)}",
    "NCHW -> NHWC": "{1,3,2,0}",
    "n c h w -> n h w c": "{1,3,2,0}",
    "n (c=3 d) h w -> n c h w d": "{3,2,1,0}",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_the_same_layout_in_every_call(name, tmp_path):
    array, layout = numbered((2, 3, 4, 5), "float32"), NAMES[name]
    shape = gl.Shape(array.dtype, array.shape, "{2,3,1,0}")
    buffer, wanted = gl.pack(array, shape), gl.pack(array, layout)
    assert str(gl.plan(shape, name).target) == f"f32[2,3,4,5]{layout}"
    assert np.array_equal(gl.pack(array, name), wanted)
    assert np.array_equal(gl.relayout(buffer, shape, name), wanted)
    assert np.array_equal(gl.relayout_many([(buffer, shape, name)])[0], wanted)
    assert gl.convert_linear(7, shape, name) == gl.convert_linear(7, shape, layout)
    out = np.empty_like(wanted)
    assert gl.plan(shape, name)(buffer, out=out) is out and np.array_equal(out, wanted)
    np.save(tmp_path / "in.npy", array)
    gl.relayout_file(tmp_path / "in.npy", tmp_path / "out.npy", target=name)
    assert np.array_equal(np.load(tmp_path / "out.npy").ravel("K"), wanted)


def test_dask_takes_names_and_patterns():
    da = pytest.importorskip("dask.array")
    array = numbered((4, 6), "float32")
    for target in ("F", "a b -> b a", "a (b=2 c) -> c a b"):
        wanted = gl.pack(array, target)
        assert np.array_equal(gl.dask.pack(da.from_array(array, chunks=3), target).compute(), wanted)
        buffer = da.from_array(array.ravel(), chunks=7)
        assert np.array_equal(gl.dask.relayout(buffer, "f32[4,6]", target).compute(), wanted)


def test_the_command_line_takes_patterns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = numbered((4, 6, 3), "uint8")
    np.save("array.npy", array)
    for command in ("pack", "relayout"):
        for pattern in ("h w c -> c h w", "h (w=2 v) c -> v c h w"):
            run(command, "array.npy", "out.npy", "--to", pattern, "--overwrite")
            assert np.array_equal(np.load("out.npy").ravel(), gl.transpose(array, pattern).ravel())
    explained = run("explain", "u8[8,224,224,3]", "n h w c -> n c h w").stdout
    assert "-> u8[8,224,224,3]{2,1,3,0}" in explained and "axis 0  h*w:" in explained and "axis 1  c:" in explained
    assert json.loads(run("explain", "u8[4,6,3]", "h w c -> c h w", "--json").stdout)["target"] == "u8[4,6,3]{1,0,2}"
    assert "names 3 axes on the left: the array has 2" in failure("explain", "u8[4,6]", "h w c -> c h w")
    assert "has no c on the right" in refusal("pack", "no.npy", "out.npy", "--to", "h w c -> h w")


# ---- names of dimensions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["NCHW", "nchw", ["n", "c", "h", "w"]])
def test_names_of_the_dimensions_say_what_letters_mean(names):
    plan, shape = gl.plan, "f32[2,3,4,5]"
    assert str(plan(shape, "NHWC", names=names).target) == "f32[2,3,4,5]{1,3,2,0}"
    assert str(plan(shape, "nChw16c", names=names).target) == "f32[2,3,4,5]{3,2,1,0:T(16,1,1)}"
    assert plan(shape, "C", names=names).target == plan(shape, "C").target
    letters = "".join(names)
    assert "f32[2,3,4,5]{1,3,2,0}" in run("explain", shape, "NHWC", "--names", letters).stdout


@pytest.mark.parametrize("options", [{}, {"names": "abcd"}, {"names": "batch,c,h,w"}, {"names": "nchz"}])
def test_letters_without_such_names_are_refused(options):
    with pytest.raises(gl.ShapeTextError, match="write 'named:NHWC:NCHW' if the array's dimensions are N, C, H and W"):
        gl.plan("f32[2,3,4,5]", "NHWC", **options)


def test_a_pattern_names_the_dimensions_in_explain_and_pictures():
    plan = gl.plan("u8[2,4,4,3]", "n h w c -> n c h w")
    assert plan.names == ("n", "h", "w", "c") and "axis 0  h*w: 16 places" in plan.explain()
    split = gl.plan("f32[2,6,5]", "b (h=2 d) s -> b s h d")
    assert split.names == ("b", "(h d)", "s") and "(h d)" in split.explain()
    assert gl.plan("f32[2,3,4]", "... c -> c ...").names == ("d0", "d1", "c")


def test_names_can_be_given():
    for names in ("hw", "h w", ["h", "w"], ("h", "w")):
        plan = gl.plan("f32[4,6]", "{0,1}", names=names)
        assert plan.names == ("h", "w") and "axis 0  h: 4 places" in plan.explain()
    assert gl.plan("f32[4,6]", "a b -> b a", names="hw").names == ("h", "w")
    assert gl.plan("f32[4,6]", "{0,1}").names is None and "axis 0  y: 4" in gl.plan("f32[4,6]", "{0,1}").explain()
    assert "row ↓ 2" in gl.Shape("f32", (2, 3)).draw(names=["row", "column"]).text
    assert "column" in run("show", "f32[2,3]", "--names", "row column").stdout
    assert "axis 0  h: 4" in run("explain", "f32[4,6]", "{0,1}", "--names", "hw").stdout


def test_plans_with_names_are_values():
    plain, named = gl.plan("f32[4,6]", "{0,1}"), gl.plan("f32[4,6]", "{0,1}", names="hw")
    assert plain != named and named == gl.plan("f32[4,6]", "h w -> w h") and hash(named) == hash(named)
    assert eval(repr(named), {"plan": gl.plan}) == named == pickle.loads(pickle.dumps(named))
    assert named.blocks(96)[0].plan.names == ("h", "w")
    assert named.passes(192) == (named,)
    two = gl.plan("f32[3900,3901]", "h w -> w h").passes(1 << 20)
    assert len(two) == 2 and all(each.names == ("h", "w") for each in two)
    buffer = np.arange(24, dtype=np.float32)
    assert np.array_equal(plain(buffer), named(buffer))


@pytest.mark.parametrize(
    "names, message",
    [
        ("h", "names 'h' of f32[4,6]{1,0} has 1 name, but there are 2 dimensions: one name for each"),
        ("hh", "names 'hh' of f32[4,6]{1,0} has two dimensions called h"),
        (["h", ""], "names ['h', ''] of f32[4,6]{1,0}: the name of dimension 1 cannot be printed"),
        ("h\n", "the name of dimension 1 cannot be printed"),
        (3, "names 3 of f32[4,6]{1,0} is not text such as 'nhwc', nor a list of texts"),
        ([1, 2], "is not text such as 'nhwc'"),
    ],
)
def test_names_that_do_not_fit(names, message):
    for call in (
        lambda: gl.plan("f32[4,6]", "{0,1}", names=names),
        lambda: gl.Shape("f32", (4, 6)).draw(names=names),
    ):
        with pytest.raises(gl.LayoutError) as caught:
            call()
        assert message in str(caught.value)


def test_long_names_leave_a_picture_whole():
    lines = gl.Shape("f32", (2, 3)).draw(names=["x" * 5000, "y"]).text.splitlines()
    assert max(map(len, lines)) < 80


# ---- patterns that do not fit ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target, message",
    [
        ("h w -> w", "'h w -> w' has no h on the right"),
        ("h w c -> c h w", "'h w c -> c h w' names 3 axes on the left: the array has 2"),
        ("(a b) w -> a w b", "leaves the sizes of a and b open: give all but one, such as '(a=8 b)'"),
        ("(a=3 b) w -> a w b", "does not fit the array's shape (4, 6): axis 0 of size 4 is not 3 x b"),
        ("h=5 w -> w h", "axis 0 of size 4 is not 5"),
        ("h= w -> w h", "has no size after 'h=', such as h=8: it has 'w'"),
        ("=4 h w -> w h", "has '=' without a name before it"),
        ("(h=4)=4 w -> w h", "has '=' without a name before it"),
        ("h=4 w -> w h=5", "gives h two sizes, 4 and 5"),
        ("h 6 -> 6 h", "a size needs a name, such as 'c=6' instead of '6'"),
        ("h w -> w h -> h w", "it has 2 '->'"),
        ("h=99999999999999999999 w -> w h", "has no size after 'h='"),
        ("h=\u0664 w -> w h", "has no size after 'h='"),
        ("h,w -> w,h", "it contains ','; spaces separate the names, write 'h w -> w h'"),
        ("->", "names 0 axes on the left: the array has 2"),
    ],
)
def test_patterns_that_do_not_fit_are_refused_before_a_byte_is_written(target, message):
    array, out = numbered((4, 6), "float32"), np.full(24, 7, np.float32)
    for call in (
        lambda: gl.plan("f32[4,6]", target),
        lambda: gl.relayout(array, "f32[4,6]", target, out=out),
        lambda: gl.pack(array, target, out=out),
        lambda: gl.view(array, target),
        lambda: gl.transpose(array, target),
        lambda: gl.convert_linear(0, "f32[4,6]", target),
    ):
        with pytest.raises(gl.LayoutError) as caught:
            call()
        assert message in str(caught.value)
    assert (out == 7).all()


@pytest.mark.parametrize("names", list(itertools.permutations(["\u03c0", "\u00e9", "gr\u00f6\u00dfe"])))
def test_names_are_pythons_identifiers(names):
    array = numbered((2, 3, 4))
    pattern = f"\u03c0 e\u0301 gr\u00f6\u00dfe -> {' '.join(names)}"  # e and an accent are one letter, as in Python
    order = [("\u03c0", "\u00e9", "gr\u00f6\u00dfe").index(name) for name in names]
    assert np.array_equal(gl.transpose(array, pattern), array.transpose(order))
    assert gl.transpose(np.arange(6), "(\u00e9 b) -> b \u00e9", é=2).shape == (3, 2)


def test_axes_may_be_called_like_parameters():
    array = numbered((6, 4))
    expected = array.reshape(2, 3, 4).transpose(2, 1, 0)
    for name in ("array", "axes", "out", "shape", "buffer", "sizes", "in", "dtype"):
        assert np.array_equal(gl.transpose(array, f"({name}=2 b) c -> c b {name}"), expected)
        assert gl.view(array, f"({name}=2 b) c -> c b {name}").shape == (4, 3, 2)
        if name not in ("out", "in", "dtype"):
            assert np.array_equal(gl.transpose(array, f"({name} b) c -> c b {name}", **{name: 2}), expected)
            assert gl.view(array, f"({name} b) c -> c b {name}", **{name: 2}).shape == (4, 3, 2)
    assert np.array_equal(gl.transpose(array, axes=(1, 0)), array.T)
    assert np.array_equal(gl.transpose(array, axes="a b -> b a"), array.T)
    with pytest.raises(TypeError, match="^out is the number 2, not an array: .* write it in the pattern, as out=2$"):
        gl.transpose(array, "(out b) c -> c b out", out=2)
    with pytest.raises(gl.LayoutError, match="has an axis called dtype, and dtype= is arithmetic: write the size "):
        gl.transpose(array, "(dtype b) c -> c b dtype", dtype=2)


# ---- views -----------------------------------------------------------------------------------------------------


@given(rearrangements())
def test_a_view_by_pattern_is_the_transpose_or_an_error(found):
    before, after, sizes = found
    array = array_for(before, sizes)
    pattern = f"{sized(before, sizes)} -> {text(after)}"
    expected = gl.transpose(array, pattern)
    try:
        seen = gl.view(array, pattern)
    except gl.LayoutError as error:
        split = expected.reshape([sizes[name] for group in after for name in group])
        assert "not evenly spaced" in str(error) and split.size  # only a join can fail
        return
    assert np.shares_memory(seen, array) or not array.size
    assert np.array_equal(seen, expected)
    seen[...] = 0
    assert not array.any()


def test_a_view_fails_exactly_where_numpy_would_copy():
    array = numbered((2, 3, 4, 5))
    for order in itertools.permutations("abcd"):
        turned = array.transpose(["abcd".index(name) for name in order])
        for cut in range(3):
            groups = [*order[:cut], f"({order[cut]} {order[cut + 1]})", *order[cut + 2 :]]
            shape = [*turned.shape[:cut], turned.shape[cut] * turned.shape[cut + 1], *turned.shape[cut + 2 :]]
            copies = not np.shares_memory(turned.reshape(shape), array)
            try:
                assert np.array_equal(gl.view(array, f"a b c d -> {' '.join(groups)}"), turned.reshape(shape))
                assert not copies
            except gl.LayoutError:
                assert copies


def test_views_of_tensors_and_strided_arrays():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(2 * 6 * 5).reshape(2, 6, 5)
    seen = gl.view(tensor[:, ::2], "b (h d) s -> b h d s", h=3)
    assert isinstance(seen, torch.Tensor) and seen.shape == (2, 3, 1, 5) and seen.data_ptr() == tensor.data_ptr()
    assert torch.equal(seen.reshape(2, 3, 5), tensor[:, ::2])
    array = numbered((4, 6))[::-1, ::2]
    assert np.array_equal(gl.view(array, "a b -> b a"), array.T)
    assert gl.view(array[:0], "a b -> (b a)").shape == (0,)
    assert gl.view(np.broadcast_to(array[:1], (3, 3)), "a b -> b a").strides == (array.strides[1], 0)


def test_a_pattern_that_takes_too_large_tiles_names_the_call_that_takes_it():
    names = [f"b{number}" for number in range(12)]
    pattern = f"({' '.join(f'{name}=2' for name in names)}) -> {' '.join(reversed(names))}"
    with pytest.raises(gl.LayoutError, match=": gl.transpose takes this pattern, for the N-d array$"):
        gl.plan("u8[4096]", pattern)
    array = np.arange(4096)
    assert np.array_equal(gl.transpose(array, pattern), array.reshape([2] * 12).T)


def test_axes_of_size_1_have_strides_in_a_view():
    torch = pytest.importorskip("torch")
    assert gl.view(np.zeros((1, 5)), "a b -> b 1 a").strides == (8, 8, 40)
    assert gl.view(np.zeros((2, 1, 1)), "a b c -> (b c) a (1)").strides == (8, 8, 8)
    for pattern in ("a -> a", "a -> (a)", "a -> a 1", "(a b) -> (b a)"):
        seen = gl.view(torch.ones(1), pattern, **({"a": 1} if "b" in pattern else {}))
        assert seen.view(torch.uint8).numel() == 4  # torch asks for a last stride of one element


def test_sizes_belong_to_a_pattern():
    with pytest.raises(TypeError, match="^sizes h belong to a pattern"):
        gl.view(np.zeros(6, np.float32), "f32[2,3]", h=2)
    assert gl.view(np.zeros(6, np.float32), shape="f32[2,3]").shape == (2, 3)
