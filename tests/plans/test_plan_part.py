"""`plan.part`: the plan for a box moves what the whole plan moves there, in buffers of its own."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl

LAYOUTS = (None, "{0,1}", "{1,0:PD(9,8)}", "{0,1:PD(7,7)PV(3)}", "{1,0:T(2,4)}", "{0,1:T(4)}", "{1,0:T(3,2)(2)}")


def slices(size):
    return st.tuples(st.integers(0, size), st.integers(0, size)).map(lambda ends: slice(min(ends), max(ends)))


@given(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS), slices(7), slices(6))
def test_a_part_moves_the_box_as_the_whole_would(source, target, rows, columns):
    """The elements of a box, packed alone in the source's layout, come out as the box of the logical array."""
    array = np.arange(42, dtype=np.int32).reshape(7, 6)
    whole = gl.plan(gl.Shape("s32", (7, 6), source), gl.Shape("s32", (7, 6), target))
    part = whole.part((rows, columns))
    assert part.source.dimensions == part.target.dimensions == array[rows, columns].shape
    buffer = part(gl.pack(array[rows, columns], part.source))
    assert gl.unpack(buffer, part.target).tolist() == array[rows, columns].tolist()
    assert buffer.tolist() == gl.pack(array[rows, columns], part.target).tolist()


def test_padding_belongs_to_the_boxes_that_reach_the_end():
    whole = gl.plan("f32[6,5]{1,0:PD(8,8)}", "{0,1:PD(6,7)}")
    assert str(whole.part((slice(0, 2), ...)).source) == "f32[2,5]{1,0:PD(2,8)}"
    assert str(whole.part((slice(2, 6), slice(0, 4))).source) == "f32[4,4]{1,0:PD(6,4)}"
    parts = [whole.part((slice(first, first + 2), ...)) for first in (0, 2, 4)]
    assert sum(part.source.nbytes for part in parts) == whole.source.nbytes
    assert whole.part(...) is whole


def test_parameters_have_the_numbers_of_the_box():
    scales = np.arange(1, 7, dtype=np.float32)
    whole = gl.plan("u8[4,6]", "{0,1}", dtype="f32", scale=scales, names="hw")
    array = np.arange(24, dtype=np.uint8).reshape(4, 6)
    part = whole.part((slice(1, 3), slice(2, 5)))
    found = gl.unpack(part(gl.pack(array[1:3, 2:5], part.source)), part.target)
    assert found.tolist() == (array * scales)[1:3, 2:5].tolist()
    assert part.names == ("h", "w") and pickle.loads(pickle.dumps(part)) == part
    blocks = gl.plan("f32[6,8]", "{0,1}", scale=np.array([[1.0, 2.0], [3.0, 4.0]]), block=(3, 4))
    part, ones = blocks.part((slice(2, 5), slice(3, 6))), np.ones((3, 3), np.float32)
    assert gl.unpack(part(ones.reshape(-1)), part.target).tolist() == [[1, 2, 2], [3, 4, 4], [3, 4, 4]]


@pytest.mark.parametrize(
    ("box", "error", "words"),
    [
        ((3, slice(None)), gl.LayoutError, r"box has the number 3 for axis 0 of .*: .* write slice\(3, 4\)"),
        ((-1,), gl.LayoutError, r"write slice\(5, 6\)"),
        ((-100,), gl.LayoutError, r"write slice\(0, 1\)"),
        ((slice(0, 2, 1.0),), gl.LayoutError, "step 1.0"),
        ((slice(None, None, 2),), gl.LayoutError, "box has a slice of step 2 for axis 0"),
        ((slice(None, None, -1),), gl.LayoutError, "step -1"),
        (((0, 2), (0, 3)), TypeError, "axis 0"),
        ([slice(0, 2)], TypeError, "axis 0"),
        ((slice(None),) * 3, IndexError, "3 axes"),
        ((..., ...), IndexError, "at most one"),
        (None, TypeError, "box has None for axis 0 of .*: write slices"),
        ((True,), TypeError, "box has True for axis 0"),
        ((slice(None, None, 0),), gl.LayoutError, "step 0"),
        ((slice("a"),), TypeError, "box has slice.* for axis 0 of .*: its ends are whole numbers"),
        ((slice(0.0, 2),), TypeError, "its ends are whole numbers"),
    ],
)
def test_what_is_no_box_is_an_error_that_says_what_to_write(box, error, words):
    with pytest.raises(error, match=words):
        gl.plan("f32[6,5]", "{0,1}").part(box)


def test_boxes_without_elements_and_without_dimensions():
    assert gl.plan("f32[6,5]", "{0,1}").part((slice(2, 2),))(np.zeros(0, np.float32)).size == 0
    assert gl.plan("f32[]", "f32[]").part(())(np.ones(1, np.float32)).tolist() == [1]
