"""Shardings: boxes by mesh axes and by hand, layouts of shards, and what is refused."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import gpulayout as gl


def rows(*cuts):
    return [slice(*each) for each in itertools.pairwise(cuts)]


def test_boxes_are_written_as_they_would_index_the_array():
    held = gl.Sharding("f32[6,4]", [slice(0, 4), (..., slice(-1, None)), ..., None, (slice(2, 2), slice(1, 3))])
    assert held.boxes == (((0, 4), (0, 4)), ((0, 6), (3, 4)), ((0, 6), (0, 4)), None, ((2, 2), (1, 3)))
    assert [str(shard) for shard in held.shards] == [
        "f32[4,4]{1,0}",
        "f32[6,1]{1,0}",
        "f32[6,4]{1,0}",
        "None",
        "f32[0,2]{1,0}",
    ]
    assert held.ranks == 5


def test_shards_have_the_layout_of_the_array_or_one_of_their_own():
    tiled = gl.Sharding("bf16[64,256]{1,0:T(8,128)}", rows(0, 32, 64))
    assert str(tiled.shards[1]) == "bf16[32,256]{1,0:T(8,128)}"
    pages = gl.Sharding("f16[2,64,8,16]", [(..., slice(0, 4), slice(None))], "l (p n=16) h c -> l p h n c")
    assert pages.shards[0] == gl.plan("f16[2,64,4,16]", "l (p n=16) h c -> l p h n c").target
    mixed = gl.Sharding("f32[4,6]{0,1}", rows(0, 2, 4), [None, "C"])
    assert [str(shard) for shard in mixed.shards] == ["f32[2,6]{0,1}", "f32[2,6]{1,0}"]


@pytest.mark.parametrize("size", range(8))
@pytest.mark.parametrize("parts", range(1, 6))
def test_one_axis_cuts_as_numpy_slices_of_equal_length(size, parts):
    held = gl.Sharding.by_mesh(f"f32[3,{size}]", {"x": parts}, (None, "x"))
    each = -(-size // parts)
    assert [box[1] for box in held.boxes] == [
        (min(part * each, size), min(part * each + each, size)) for part in range(parts)
    ]


def test_ranks_of_a_mesh_are_numbered_along_its_last_axis_first():
    held = gl.Sharding.by_mesh("f32[4,6]", {"a": 2, "b": 3}, ("a", "b"))
    assert held.boxes == tuple(
        ((2 * a, 2 * a + 2), (2 * b, 2 * b + 2)) for a, b in itertools.product(range(2), range(3))
    )
    both = gl.Sharding.by_mesh("f32[12]", {"a": 2, "b": 3}, (("b", "a"),))
    assert [box[0][0] for box in both.boxes] == [(b * 2 + a) * 2 for a, b in itertools.product(range(2), range(3))]
    scalar = gl.Sharding.by_mesh("f32[]", {"a": 2}, ())
    assert scalar.boxes == ((), ())


def test_shardings_are_values():
    one, other = (gl.Sharding("f32[6,4]", rows(0, 4, 6)) for _ in range(2))
    assert one == other and hash(one) == hash(other) and one is not other
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
    assert one != gl.Sharding("f32[6,4]", rows(0, 4, 6), "F") and one != 3
    with pytest.raises(AttributeError, match="make another one"):
        one.boxes = ()
    with pytest.raises(AttributeError):
        del one.boxes
    assert str(one).splitlines()[2] == "  rank 1  [4:6, 0:4]  f32[2,4]{1,0}"


def test_boxes_and_shards_of_a_sharding_make_another_one():
    cut = gl.Sharding.by_mesh("f32[7,4]", {"dp": 2, "tp": 3}, ("tp", "dp"), "F")
    assert gl.Sharding(cut.shape, cut.boxes, cut.shards) == cut
    after = gl.Sharding(cut.shape, [None] * 4 + [*cut.boxes], [None] * 4 + [*cut.shards])
    assert after.boxes == (None,) * 4 + cut.boxes and after.shards == (None,) * 4 + cut.shards
    assert gl.Sharding("f32[]", gl.Sharding("f32[]", [...]).boxes).boxes == ((),)


REFUSED = {
    "a box of a larger array": (gl.LayoutError, ["f32[4]", [((0, 5),)]], r"boxes\[0\]: box has \(0, 5\) for axis 0"),
    "a box of an array of more axes": (gl.LayoutError, ["f32[4]", [((0, 4), (0, 1))]], "has 2 axes, and f32.* has 1"),
    "a box that ends before it begins": (gl.LayoutError, ["f32[4]", [((3, 2),)]], "first <= last <= 4"),
    "a box with a third number": (gl.LayoutError, ["f32[4]", [((0, 4, 1),)]], "write a slice, or"),
    "a box of every second row": (LookupError, ["f32[4]", [slice(0, 4, 2)]], "step 2"),
    "a number": (gl.LayoutError, ["f32[4]", [slice(0, 2), 2]], r"boxes\[1\]: box has the number 2.*slice\(2, 3\)"),
    "a box beyond the end": (gl.LayoutError, ["f32[8]", [slice(0, 8), slice(8, 12)]], r"boxes\[1\].*its size is 8"),
    "a box before the start": (gl.LayoutError, ["f32[8]", [slice(-9, 4)]], r"slice\(-9, 4, None\) for axis 0 of"),
    "ends the wrong way round": (gl.LayoutError, ["f32[8]", [slice(4, 2)]], r"slice\(4, 2, None\)"),
    "too many slices": (IndexError, ["f32[4]", [(slice(0), slice(0))]], r"boxes\[0\]"),
    "no list": (TypeError, ["f32[4]", slice(0, 2)], "write a list with a box for each rank"),
    "no boxes": (gl.LayoutError, ["f32[4]", []], "boxes of .* is empty"),
    "a size that is not known": (gl.LayoutError, ["f32[<=4]", [...]], "sizes that are not known"),
    "no shape": (gl.ShapeTextError, ["{0,1}", [...]], "only a layout"),
    "a layout of another rank": (gl.LayoutError, ["f32[4]", [...], "{1,0}"], r"layout of rank 0, box \[0:4\]"),
    "a shape of other sizes": (gl.LayoutError, ["f32[4]", rows(0, 3, 4), "f32[3]"], r"rank 1.*is no f32\[1\]"),
    "another type": (gl.LayoutError, ["f32[4]", [...], "f16[4]"], r"is no f32\[4\]"),
    "too few layouts": (gl.LayoutError, ["f32[4]", rows(0, 3, 4), ["{0}"]], "layouts has 1 entry"),
    "layouts by name": (TypeError, ["f32[4]", [...], {0: "{0}"}], "layouts is"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_sharding_is_refused_with_what_to_write(name):
    kind, arguments, words = REFUSED[name]
    with pytest.raises(gl.LayoutError if kind is LookupError else kind, match=words):
        gl.Sharding(*arguments)


REFUSED_MESHES = {
    "an axis that the mesh lacks": (gl.LayoutError, [{"x": 2}, ("y",)], r"spec\[0\] has 'y'.*axes \('x',\)"),
    "an axis twice": (gl.LayoutError, [{"x": 2}, ("x", "x")], "dimensions 0 and 1"),
    "more entries than dimensions": (gl.LayoutError, [{"x": 2}, (None, None, "x")], "3 entries"),
    "two axes over a size they do not divide": (gl.LayoutError, [{"x": 2, "y": 2}, (("x", "y"),)], "cut it in differ"),
    "a name alone": (TypeError, [{"x": 2}, "x"], "spec is 'x'"),
    "an axis without ranks": (gl.LayoutError, [{"x": 0}, ("x",)], "at least one rank"),
    "a size that is not a number": (TypeError, [{"x": True}, ("x",)], "a name and a whole number"),
    "an entry that is an array without dimensions": (TypeError, [{"x": 2}, np.array(1)], "an entry for each dimension"),
    "more ranks than there can be": (gl.LayoutError, [{"x": 2**40, "y": 10**30}, ("x",)], "more than 16777216 ranks"),
    "no mapping": (TypeError, [[2, 4], ("x",)], "names and sizes"),
}


@pytest.mark.parametrize("name", REFUSED_MESHES)
def test_what_is_no_mesh_is_refused_with_what_to_write(name):
    kind, arguments, words = REFUSED_MESHES[name]
    with pytest.raises(kind, match=words):
        gl.Sharding.by_mesh("f32[6,4]", *arguments)


def test_a_mesh_may_have_many_axes():
    mesh = {f"axis {number}": 1 for number in range(100)}
    assert gl.Sharding.by_mesh("f32[6,4]", mesh, ("axis 99",)).boxes == (((0, 6), (0, 4)),)


def test_sizes_may_be_beyond_all_memory():
    held = gl.Sharding.by_mesh("u8[4611686018427387904]", {"x": 4}, ("x",))
    assert held.boxes[3] == ((3 << 60, 4 << 60),)
    assert np.iinfo(np.int64).max > held.boxes[3][0][1]
