"""Limits of memory that are refused: those that a larger one mends, with the least limit that is accepted."""

import os
import pathlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.files.least_memory import LEAST_RUN, MOST_BLOCKS, sensible_route
from gpulayout.files.memory import as_bytes
from tests.support import strategies
from tests.support.command_line import run

LEAST = re.compile(r"; the least limit is (\w+)")
WITH_SCRATCH = re.compile(r"; with a scratch folder (this memory|\w+) is enough$")
FOLDER = pathlib.Path("scratch")


def refusal(source, target, memory, scratch=None):
    """The message, after a check that every limit that it names is accepted."""
    plan = gl.plan(source, target)
    with pytest.raises(gl.LayoutError) as caught:
        sensible_route(plan, memory, scratch)
    check_advice(plan, memory, str(caught.value))
    return str(caught.value)


def check_advice(plan, memory, text, scratch=None):
    if least := LEAST.search(text):
        assert as_bytes(least[1]) > as_bytes(memory)
        sensible_route(plan, least[1], scratch)
    if other := WITH_SCRATCH.search(text):
        sensible_route(plan, memory if other[1] == "this memory" else other[1], FOLDER)


def test_a_limit_that_makes_millions_of_blocks_is_refused_with_the_least_one():
    assert refusal("f32[39000,39001]", "{0,1}", "1K") == (
        "max_bytes 1K is too small to relayout f32[39000,39001]{1,0} to f32[39000,39001]{0,1}: it makes 50706500 "
        "blocks, with runs of 20 bytes read and of 24 bytes written; the least limit is 512K"
    )
    assert len(sensible_route(gl.plan("f32[39000,39001]", "{0,1}"), "16M", None).passes[0]) < MOST_BLOCKS


def test_too_many_blocks_are_refused_though_their_runs_are_long():
    assert LEAST.search(refusal("f32[1000000000000]", "{0}", "10M"))[1] == "217M"


def test_a_scratch_folder_is_named_where_it_lets_less_memory_do():
    text = refusal("u8[30000,50000]{0,1}", "{1,0}", "1M")
    assert text.endswith("; with a scratch folder this limit is enough") and LEAST.search(text)
    assert "scratch" not in refusal("f32[39000,39001]", "{0,1}", "1K")
    with pytest.raises(gl.LayoutError) as caught:
        sensible_route(gl.plan("u8[30000,50000]{0,1}", "{1,0}"), "4K", FOLDER)
    assert "scratch" not in str(caught.value)


def test_a_limit_below_the_smallest_block_gets_the_same_advice():
    text = refusal("f32[1000,1000]{1,0:T(1000,1000)}", "{0,1}", "1M")
    assert text.startswith("max_bytes 1M, of which a block gets 262144 bytes, is too small") and text.endswith(
        "; the least limit is 8M"
    )
    text = refusal("u4[20001,20001]{1,0:E(4)}", "{0,1:E(4)}", "100M")
    assert text.endswith("; with a scratch folder this limit is enough")


def test_no_limit_is_named_if_none_helps():
    assert refusal("f32[60000,60000]{1,0:T(60000,60000)}", "{0,1}", "1M").endswith("takes 28800000000 bytes")


def test_runs_that_no_limit_makes_longer_are_accepted():
    """Rows of 12 bytes, between padding too long to be read."""
    (blocks,) = sensible_route(gl.plan("f32[1000000,3]{1,0:PD(1000000,20000)}", "{1,0}"), "1M", None).passes
    assert len(blocks) > 1 and blocks.source_run_bytes == 12


def test_without_a_limit_nothing_is_refused(monkeypatch):
    monkeypatch.setattr("gpulayout.files.memory.free_memory", lambda: 4000)
    (blocks,) = sensible_route(gl.plan("f32[3900,3901]", "{0,1}"), None, None).passes
    assert len(blocks) > MOST_BLOCKS


def test_blocks_in_memory_may_be_as_small_as_anyone_likes():
    assert len(gl.plan("f32[39000,39001]", "{0,1}").blocks(1024)) > 10_000_000


SIZES = st.lists(st.sampled_from([1, 2, 3, 5, 8, 60, 128, 700, 1023, 4096, 30_000]), max_size=4).map(tuple)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_limits_that_a_message_names_are_accepted_and_what_fits_is_never_refused(data):
    sizes = data.draw(SIZES)
    layouts = st.one_of(strategies.layouts(sizes), strategies.tiled_layouts(sizes))
    source, target = (gl.Shape("f32", sizes, data.draw(layouts)) for _ in range(2))
    plan = gl.plan(source, target)
    memory = data.draw(st.sampled_from([1, 300, 1 << 10, 5000, 1 << 16, 1 << 20, 3 << 20, 1 << 24, 1 << 31]))
    scratch = data.draw(st.sampled_from([None, FOLDER]))
    whole = source.nbytes + target.nbytes
    try:
        way = sensible_route(plan, memory, scratch)
    except gl.LayoutError as error:
        assert whole > memory
        check_advice(plan, memory, str(error), scratch)
        if "it makes" in str(error):
            assert LEAST.search(str(error))
        return
    for blocks in way.passes:
        assert len(blocks) <= max(MOST_BLOCKS, whole >> 30)
    sensible_route(plan, whole, scratch)


def test_the_command_line_refuses_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.zeros((900, 1100), np.float32))
    for more in ([], ["--dry-run"]):
        text = run("relayout", "in.npy", "out.npy", "--to", "F", "--memory", "16K", *more, code=1).stderr
        assert text.startswith("gpulayout: error: --memory 16K is too small to relayout") and text.count("\n") == 1
    assert os.listdir() == ["in.npy"]
    run("relayout", "in.npy", "out.npy", "--to", "F", "--memory", LEAST.search(text)[1])
    found = gl.relayout_file("in.npy", "again.npy", target="{0,1}", max_bytes=LEAST.search(text)[1])
    assert max(found.blocks) > 1 and LEAST_RUN == 512
