"""The order of dimensions that wastes the least memory under the same tiles, compared with all orders."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import Layout, LayoutError, Shape
from gpulayout.layout.tile import reach
from gpulayout.xla import SplitConfig, least_padding
from tests.support.effort import examples
from tests.support.strategies import tiles


@pytest.mark.parametrize(
    "text, expected, nbytes",
    [
        ("f32[16,256]{0,1:T(8,128)}", "f32[16,256]{1,0:T(8,128)}", 16384),
        ("bf16[2048,1,2048,128]{0,1,3,2:T(4,128)(2,1)}", "bf16[2048,1,2048,128]{0,3,1,2:T(4,128)(2,1)}", 1 << 30),
        # {1,0,2} is equally good but changes two
        ("f32[16,128,128]{0,1,2:T(8,128)}", "f32[16,128,128]{2,1,0:T(8,128)}", 1 << 20),
        ("f32[3,200,7]{2,1,0:T(8,128)}", "f32[3,200,7]{1,2,0:T(8,128)}", 3 * 8 * 256 * 4),
        ("f32[16,256]{0,1:PD(128,256)T(8,128)}", "f32[16,256]{0,1:PD(128,256)T(8,128)}", 128 * 256 * 4),
        ("f32[16,256]{0,1:T(8,128)L(100000)}", "f32[16,256]{0,1:T(8,128)L(100000)}", 400000),
        ("s4[256,16]{1,0:T(64,128)E(4)}", "s4[256,16]{0,1:T(64,128)E(4)}", 64 * 256 // 2),
        ("f32[256,2,64]{1,2,0:T(*,128)}", "f32[256,2,64]{1,2,0:T(*,128)}", 256 * 128 * 4),
        ("f32[2,3]{0,1}", "f32[2,3]{0,1}", 24),
        ("f32[]{:T(128)}", "f32[]{:T(128)}", 512),
        ("f32[10]{0:T(8,128)}", "f32[10]{0:T(8,128)}", 4096),
        ("f32[0,5]{0,1:T(8,128)}", "f32[0,5]{0,1:T(8,128)}", 0),
        ("f32[<=16,256]{0,1:T(8,128)}", "f32[<=16,256]{1,0:T(8,128)}", 16384),
    ],
)
def test_the_least_wasteful_order(text, expected, nbytes):
    least = gl.xla.least_waste(gl.parse_shape(text))
    assert (str(least), least.nbytes) == (expected, nbytes)


exchanges = least_padding.exchanges


def in_every_order(shape):
    return [
        shape.with_layout(shape.layout.replace(minor_to_major=order))
        for order in itertools.permutations(range(shape.rank))
    ]


@st.composite
def tiled_shapes(draw, max_rank=5):
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=max_rank))
    widths = draw(st.none() | st.just([size + draw(st.sampled_from((0, 3))) for size in sizes]))
    layout = Layout(
        draw(st.permutations(range(len(sizes)))),
        tiles=draw(tiles()),
        padded_dimensions=widths,
        tail_padding_alignment=draw(st.sampled_from((1, 1, 50))),
    )
    return Shape("u8", sizes, layout)


@given(tiled_shapes())
@settings(max_examples=examples(150))
def test_no_order_needs_fewer_bytes(shape):
    least = gl.xla.least_waste(shape)
    assert least.nbytes == min(other.nbytes for other in in_every_order(shape))
    assert (
        least.with_layout(shape.layout) == shape
        and least.layout.replace(minor_to_major=shape.layout.minor_to_major) == shape.layout
    )
    assert least == shape or least.nbytes < shape.nbytes


@given(tiled_shapes(max_rank=7), st.integers(1, 60))
@settings(max_examples=examples(60))
def test_exchanges_never_need_more_bytes_and_terminate(shape, most):
    under = min(reach(shape.layout.tiles), shape.rank)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(least_padding, "MOST_SIZES", most)
        least = gl.xla.least_waste(shape)
    assert least.nbytes <= shape.nbytes and (least == shape or under)
    assert least.with_layout(shape.layout) == shape


def test_exchanges_one_after_another_find_a_better_order(monkeypatch):
    monkeypatch.setattr(least_padding, "MOST_SIZES", 30)
    shape = gl.parse_shape("f32[3,5,8,128]{0,1,2,3:T(8,128)}")  # 12 choices, 15 tries allowed
    assert gl.xla.least_waste(shape).nbytes == shape.unpadded_nbytes
    monkeypatch.setattr(least_padding, "MOST_SIZES", 23)  # 11 tries allowed, so exchanges: 5 at a time
    assert gl.xla.least_waste(shape).nbytes == shape.unpadded_nbytes < shape.nbytes


@pytest.mark.parametrize("touched, rank", [(2, 100), (3, 19), (4, 9), (5, 7)])
def test_the_ranks_up_to_which_the_answer_is_exact(touched, rank):
    assert math.perm(rank, touched) <= least_padding.MOST_SIZES // touched < math.perm(rank + 1, touched)


def test_a_bounded_number_of_orders_is_tried_of_many_dimensions(monkeypatch):
    """6002 * 6001 choices are too many.  The covered dimensions have few sizes, and each is expanded once."""
    tried = []
    monkeypatch.setattr(
        least_padding,
        "exchanges",
        lambda minor, order: (tried.append(found) or found for found in exchanges(minor, order)),
    )
    shape = Shape("u8", [1] * 6000 + [2, 200], Layout(range(6002), tiles=((8, 128),)))
    least = gl.xla.least_waste(shape)
    assert least.nbytes <= shape.nbytes and 0 < len(tried) <= least_padding.MOST_SIZES // 2


def test_splits_stay_with_their_dimension():
    shape = Shape(
        "f32",
        (16, 256),
        Layout((0, 1), tiles=((8, 128),), split_configs=(SplitConfig(0, (100,)), SplitConfig(1, (3, 8)))),
    )
    least = gl.xla.least_waste(shape)
    assert least.layout.split_configs == (SplitConfig(1, (100,)), SplitConfig(0, (3, 8)))
    assert (
        [gl.xla.max_split_size(least, dim) for dim in (0, 1)]
        == [gl.xla.max_split_size(shape, dim) for dim in (0, 1)]
        == [8, 156]
    )


def test_a_size_without_a_bound_has_no_answer():
    with pytest.raises(LayoutError, match=r"dimension 1 is unbounded"):
        gl.xla.least_waste(gl.parse_shape("f32[2,?]{0,1:T(8,128)}"))
