"""Passes and limits of moves between files; nothing is moved."""

import pathlib

import pytest

import gpulayout as gl
from gpulayout.files.route import PACKED_BLOCK, route

GIB = 1 << 30


def test_two_passes_need_a_folder_for_scratch():
    plan = gl.plan("f32[39000,39001]", "{0,1}")
    assert len(route(plan, 64 << 20, None).passes) == 1
    way = route(plan, 64 << 20, pathlib.Path("scratch"))
    assert len(way.passes) == 2 and way.scratch == pathlib.Path("scratch")
    assert way.bytes_written == plan.bytes_written + way.passes[0].plan.target.nbytes
    assert route(plan, GIB, pathlib.Path("scratch")).scratch is None


def test_blocks_of_packed_elements_are_small_since_a_signal_waits_for_them():
    for source, target in (("u4[60000,60000]", "{0,1:E(4)}"), ("u4[60000,60000]{1,0:E(4)}", "{0,1}")):
        (blocks,) = route(gl.plan(source, target), GIB, None).passes
        assert PACKED_BLOCK // 2 < blocks.block_bytes <= PACKED_BLOCK
    (blocks,) = route(gl.plan("u4[60000,60000]", "{0,1}"), GIB, None).passes
    assert blocks.block_bytes > PACKED_BLOCK


def test_a_larger_block_of_packed_elements_is_better_than_none():
    plan = gl.plan("u4[20001,20001]{1,0:E(4)}", "{0,1:E(4)}")  # rows and columns end inside a byte: one block
    (blocks,) = route(plan, GIB, None).passes
    assert len(blocks) == 1 and blocks.block_bytes > PACKED_BLOCK
    with pytest.raises(gl.LayoutError, match="two passes through a scratch file take less memory"):
        route(plan, PACKED_BLOCK, None)
    assert len(route(plan, PACKED_BLOCK, pathlib.Path("scratch")).passes) == 2


def test_an_error_names_two_passes_only_if_they_help():
    plan = gl.plan("f32[1000,1000]{1,0:T(1000,1000)}", "{0,1}")
    with pytest.raises(gl.LayoutError, match="8000000 bytes$"):
        route(plan, 1 << 20, None)
