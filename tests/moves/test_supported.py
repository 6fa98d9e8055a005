"""Every function refuses shapes that cannot be planned, before it allocates anything."""

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import LayoutError

INDEXING = {
    "linearize": lambda shape: gl.linearize((0, 0), shape),
    "delinearize": lambda shape: gl.delinearize(0, shape),
    "stride table": gl.stride_table,
    "convert": lambda shape: gl.convert_linear(0, shape, shape.with_layout(None)),
    "convert to": lambda shape: gl.convert_linear(0, shape.with_layout(None), shape),
}
MOVING = {
    "relayout": lambda shape: gl.plan(shape, shape.with_layout(None)),
    "relayout to": lambda shape: gl.plan(shape.with_layout(None), shape),
    "pack": lambda shape: gl.pack(np.zeros(shape.dimensions, shape.dtype), shape),
    "unpack": lambda shape: gl.unpack(np.zeros(1024, shape.dtype), shape),
    "view": lambda shape: gl.view(np.zeros(1024, shape.dtype), shape),
    "empty": gl.zeros,
}


@pytest.mark.parametrize("name", INDEXING)
def test_packed_elements_have_the_same_indices(name):
    assert INDEXING[name](gl.parse_shape("s4[3,5]{1,0:E(4)}")) == INDEXING[name](gl.parse_shape("s4[3,5]{1,0}"))


@pytest.mark.parametrize("name", INDEXING | MOVING)
def test_unbounded_sizes_are_refused(name):
    shape = gl.parse_shape("f32[3,?]")
    with pytest.raises(
        LayoutError, match=r"dimensions \(3, UNBOUNDED\) have no size for f32\[3,\?\]\{1,0\}: dimension 1 is unbounded"
    ):
        (INDEXING | MOVING | {"pack": lambda shape: gl.pack(np.zeros((3, 4), np.float32), shape)})[name](shape)


def test_dynamic_sizes_with_a_bound_are_moved_at_their_bound():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert gl.pack(array, "f32[<=2,3]{0,1}").tolist() == [0, 3, 1, 4, 2, 5]
    assert gl.linearize((1, 2), "f32[<=2,3]{0,1}") == 5
    assert (
        gl.unpack(gl.relayout(array.ravel(), "f32[2,3]", "f32[2,<=3]{0,1}"), "f32[<=2,<=3]{0,1}").tolist()
        == array.tolist()
    )


@pytest.mark.parametrize("tiles", ["(1)" * 128, "(2,2)" * 64, f"({'*,' * 127}1)", f"({'1,' * 20000}1)(1)"])
@pytest.mark.parametrize("name", MOVING)
def test_more_sizes_than_planning_can_nest_are_refused(name, tiles):
    with pytest.raises(LayoutError, match=r" tile sizes: 128 is the limit for a move$"):
        MOVING[name](gl.parse_shape(f"u8[0]{{0:T{tiles}}}"))


def test_the_largest_number_of_sizes_is_moved():
    array = np.arange(5, dtype=np.uint8)
    for tiles in ("(1)" * 127, f"({'*,' * 126}1)", f"({'1,' * 126}1)", "(1,1,1)(1,1)" + "(1)" * 122):
        shape = gl.parse_shape(f"u8[5]{{0:T{tiles}}}")
        assert (
            gl.pack(array, shape).tolist()
            == gl.unpack(array, shape).tolist()
            == gl.view(array, shape).tolist()
            == array.tolist()
        )
