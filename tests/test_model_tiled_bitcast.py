"""Bitcasts of tiled shapes, against the place of every element."""
import functools
import itertools
import math

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import Layout, Shape
from gpulayout.model.tiling import slot_of
from gpulayout.model.walk import walk

TILES = [[], [(1,)], [(2,)], [(4,)], [(8,)], [(2, 2)], [(4, 4)], [(1, 4)], [(2, 4), (2, 1)], [(4,), (2,)], [(3,), (2,)], [(2, 2, 2)],
         [("*", 4)], [("*", 2)], [("*", 8), (4,)], [(2,), (3, 2)], [(2, 8)]]
DIMENSIONS = [(), (1,), (6,), (8,), (4, 8), (3, 8), (2, 12), (1, 8), (8, 1), (2, 3, 4), (2, 1, 8)]


@functools.cache
def places(shape):
    """Where every element lies, in row-major order."""
    found = slot_of(np.indices(shape.dimensions), shape) if shape.rank else slot_of((), shape)
    return np.asarray(found).reshape(-1)


def layouts(dimensions):
    for order, tiles in itertools.product(itertools.permutations(range(len(dimensions))), TILES):
        yield Layout(order, tiles=tiles)
    yield Layout(range(len(dimensions)), tiles=[(2, 2)], padded_dimensions=[size + 2 for size in dimensions])


def loops(found):
    """The places that a walk goes through."""
    at = np.zeros(1, np.int64)
    for extent, stride in found:
        at = (at[:, None] + np.arange(extent) * stride).reshape(-1)
    return at


@pytest.mark.parametrize("dimensions", DIMENSIONS, ids=str)
def test_a_walk_goes_through_the_places_of_the_elements_in_order(dimensions):
    shapes = [Shape("f32", dimensions, layout) for layout in layouts(dimensions)]
    walks = [walk(shape) for shape in shapes]
    for shape, found in zip(shapes, walks):
        assert found is None or np.array_equal(loops(found), places(shape)), shape
    assert sum(found is not None for found in walks) > len(walks) // 3


def test_shapes_are_bitcasts_exactly_when_all_places_agree():
    """No pair of other bytes is called the same.  The other way round only a tiling without a walk may be missed."""
    wide = [Shape("f32", dimensions, layout) for dimensions in DIMENSIONS if math.prod(dimensions) == 8 or len(dimensions) == 2
            for layout in layouts(dimensions)]
    kinds = {True: 0, False: 0}
    for one, other in itertools.product(wide, repeat=2):
        if one.element_count != other.element_count:
            continue
        same = one.buffer_size == other.buffer_size and np.array_equal(places(one), places(other))
        found = gl.reshape_is_bitcast(one, other)
        kinds[found] += 1
        assert found == same or (same and None in (walk(one), walk(other))), (one, other)
        if one.dimensions == other.dimensions:
            assert gl.is_bitcast(one, other) == found
    assert min(kinds.values()) > 500


@pytest.mark.parametrize("one, other, same", [
    ("f32[16,128]{1,0:T(8,128)}", "f32[16,128]", True), ("f32[16,256]{1,0:T(8,128)}", "f32[16,256]", False),
    ("f32[16,128]{1,0:T(8,128)S(1)}", "f32[16,128]", True),                            # the memory space is no matter
    ("f32[10]{0:T(1024)}", "f32[10]{0:L(1024)}", True), ("f32[10]{0:T(1024)}", "f32[10]{0:PD(1024)}", True),
    ("f32[10]{0:T(1024)}", "f32[10]", False), ("f32[10]{0:T(1024)}", "f32[10]{0:PV(one)L(1024)}", False),
    ("f32[6]{0:T(4)(3)}", "f32[6]{0:T(4)(3)}", True), ("f32[6]{0:T(4)(3)}", "f32[6]{0:T(3)(2)}", False),
    ("s4[8]{0:E(4)}", "s4[8]", False), ("s4[8]{0:E(4)}", "s4[8]{0:T(8)E(4)}", True), ("s4[8]{0:E(8)}", "s4[8]", True),
    ("f32[8]{0:SC(0:4)}", "f32[8]", False), ("f32[0,3]{1,0:T(2,2)}", "f32[0,3]{0,1}", True),
])
def test_what_else_counts(one, other, same):
    assert gl.is_bitcast(one, other) == gl.is_bitcast(other, one) == same


def test_tiles_that_change_nothing():
    assert gl.is_untiled("f32[2,4]{1,0:T(1,2)(1,1)}") and gl.is_untiled("f32[7]{0}") and not gl.is_untiled("f32[7]{0:T(2)}")


def test_decompositions_and_alignments_of_tiles_say_no():
    with pytest.raises(gl.LayoutError, match="tiled elements have no row-major order"):
        gl.decompose_bitcast("f32[16,128]{1,0:T(8,128)}", "f32[2048]")
    assert gl.align_layouts("f32[16,128]{1,0:T(8,128)}", (2048,)) is None
    assert str(gl.align_layouts("s4[6,4]{0,1:E(4)S(2)}", (2, 3, 4))) == "s4[2,3,4]{1,0,2:E(4)S(2)}"
    assert str(gl.with_descending_layout_and_same_physical_layout("f32[16,9]{0,1:T(8,128)}")) == "f32[9,16]{1,0:T(8,128)}"
