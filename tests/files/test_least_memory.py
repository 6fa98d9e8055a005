"""Limits of memory that are refused: those that a larger one mends, with the least limit that is accepted."""

import os
import pathlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.files.memory import as_bytes
from gpulayout.files.route import LEAST_RUN, MOST_BLOCKS, sensible_route
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
        "max_bytes '1K' is too little to relayout f32[39000,39001]{1,0} to f32[39000,39001]{0,1}: it makes 50706500 "
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
    assert text.startswith("max_bytes '1M' leaves 262144 bytes for a block, too few to relayout") and text.endswith(
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
        assert text.startswith("gpulayout: error: --memory 16K is too little to relayout") and text.count("\n") == 1
    assert os.listdir() == ["in.npy"]
    run("relayout", "in.npy", "out.npy", "--to", "F", "--memory", LEAST.search(text)[1])
    found = gl.relayout_file("in.npy", "again.npy", target="{0,1}", max_bytes=LEAST.search(text)[1])
    assert max(found.blocks) > 1 and LEAST_RUN == 512


@pytest.mark.parametrize("given", [8, "8", "0.01K", "9B", "1M", 1 << 20, None])
def test_errors_name_the_limit_as_the_caller_wrote_it(monkeypatch, given):
    """Not the share of it that a block gets, unless it is called that."""
    monkeypatch.setattr("gpulayout.files.memory.free_memory", lambda: 4000)
    with pytest.raises(gl.LayoutError) as caught:
        sensible_route(gl.plan("f32[3000,3000]{1,0:T(3000,3000)}", "{0,1}"), given, None)
    text, shown = str(caught.value), "free memory" if given is None else f"max_bytes {given!r}"
    assert re.match(rf"{re.escape(shown)} leaves \d+ bytes? for a block, too few to relayout f32", text), text
    assert "max_bytes" not in text.removeprefix("max_bytes ")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", ["8", "0.01K", "9B"])
@pytest.mark.parametrize("command", ["relayout", "pack", "unpack", "dry run", "explain", "explain as JSON"])
def test_the_command_line_names_its_option_and_the_text(tmp_path, monkeypatch, command, text):
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.zeros((900, 1100), np.float32))
    np.save("flat.npy", np.zeros(990_000, np.float32))
    given = {
        "relayout": ("relayout", "in.npy", "out.npy", "--to", "F"),
        "pack": ("pack", "in.npy", "out.npy", "--to", "F"),
        "unpack": ("unpack", "flat.npy", "out.npy", "--from", "f32[900,1100]{0,1}"),
        "dry run": ("relayout", "in.npy", "out.npy", "--to", "F", "--dry-run"),
        "explain": ("explain", "f32[900,1100]", "F"),
        "explain as JSON": ("explain", "f32[900,1100]", "F", "--json"),
    }[command]
    found = run(*given, "--memory", text, code=1)
    assert re.match(rf"gpulayout: error: --memory {re.escape(text)} leaves 2 bytes for a block, too few", found.stderr)
    assert "max_bytes" not in found.stderr and found.stdout == ""
    assert sorted(os.listdir()) == ["flat.npy", "in.npy"]
    for wrong in ("8x", "0", "-1", ""):
        said = run(*given, "--memory", wrong, code=2).stderr
        assert f"Invalid value for '--memory': {wrong!r} is not a number of bytes such as 128M or 1.5G" in said
