"""Blocks between files: the same bytes as in memory, for every limit, and nothing left of a move that fails."""

import errno
import os
import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.cpu import native
from gpulayout.files import array_move, engine, route
from gpulayout.files.memory import block_limit

PAGE = engine.PAGE


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture(autouse=True)
def any_limit(monkeypatch):
    """Limits that make short runs are accepted: these tests are about small blocks."""
    monkeypatch.setattr(route, "LEAST_RUN", 0)


def moved(folder, source, target, *, memory, **options):
    """The bytes of the new file, those that `gl.relayout` gives, and the result."""
    plan = gl.plan(source, target)
    buffer = np.random.default_rng(0).integers(0, 255, plan.source.nbytes, np.uint8, endpoint=True)
    (folder / "in.bin").write_bytes(buffer.tobytes())
    done = gl.relayout_file(
        folder / "in.bin", folder / "out.bin", source=source, target=target, max_bytes=memory, overwrite=True, **options
    )
    expected = plan(buffer.view(plan.source.buffer_dtype))
    return (folder / "out.bin").read_bytes(), expected.tobytes(), done


@pytest.mark.parametrize(
    "source, target",
    [
        ("f32[70,90]", "{0,1}"),
        ("u8[300,500]{0,1}", "{1,0}"),
        ("f32[33,150]", "{1,0:T(8,128)}"),
        ("bf16[32,256]{1,0:T(8,128)(2,1)}", "{0,1}"),
        ("s4[40,60]{1,0:E(4)}", "{0,1:E(4)}"),
        ("u16[5,6,7,8]", "{0,3,1,2}"),
        ("f32[20,30]", "{0,1:PD(25,33)PV(lowest)}"),
        ("f32[0,3]", "{0,1}"),
        ("f32[0,3]", "{0,1:PD(2,4)}"),
        ("f64[]", "{}"),
    ],
)
@pytest.mark.parametrize("memory", [1 << 14, 1 << 16, 1 << 18, None])
@pytest.mark.parametrize("two", [False, True])
def test_a_file_gets_the_bytes_that_the_plan_gives_in_memory(folder, source, target, memory, two):
    try:
        found, expected, done = moved(folder, source, target, memory=memory, scratch=folder if two else None)
    except gl.LayoutError as error:
        assert "max_bytes" in str(error) and memory < 1 << 18
        return
    assert found == expected
    assert sorted(os.listdir(folder)) == ["in.bin", "out.bin"]
    assert done.bytes_written == len(expected) * len(done.blocks) or len(done.blocks) == 2


@pytest.mark.parametrize("target", ["{0,1,2}", "{2,1,0:T(8,128)}", "{1,2,0}", "{0,2,1:PD(40,30,50)}"])
@pytest.mark.parametrize("memory", [1 << 18, 1 << 20])
@pytest.mark.parametrize("two", [False, True])
def test_two_pairs_of_buffers_where_runs_are_long(folder, monkeypatch, target, memory, two):
    pairs = []
    monkeypatch.setattr(route, "LONG_RUN", 8)
    monkeypatch.setattr(
        array_move,
        "move_jobs",
        lambda *given, **named: (pairs.append(named["pairs"]), engine.move_jobs(*given, **named)),
    )
    found, expected, done = moved(folder, "f32[40,30,50]", target, memory=memory, scratch=folder if two else None)
    assert found == expected and pairs == [2] * len(done.blocks)
    whole = gl.plan("f32[40,30,50]", target).blocks(block_limit(memory))
    assert done.blocks[0] > len(whole) or len(whole) == 1 or len(done.blocks) == 2


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 200),
    columns=st.integers(1, 20_000),
    memory=st.integers(3 << 17, 3 << 21),
    header=st.booleans(),
    native_engine=st.booleans(),
)
def test_runs_that_blocks_continue_within_a_page(tmp_path_factory, rows, columns, memory, header, native_engine):
    """Runs of two pages and more leave their tails to the next block, wherever the pages of the file lie."""
    folder = tmp_path_factory.mktemp("runs")
    values = np.arange(rows * columns, dtype=np.uint32).reshape(columns, rows)
    np.save(folder / "in.npy", values)
    out = folder / ("out.npy" if header else "out.bin")
    with native.chosen(native_engine):
        gl.relayout_file(folder / "in.npy", out, target="{0,1}", max_bytes=memory)
    assert out.read_bytes()[128 if header else 0 :] == values.tobytes(order="F")


def test_every_write_but_the_last_ends_at_a_page(folder, monkeypatch, numpy_alone):
    ends = []
    write = engine.Elements.write_from
    monkeypatch.setattr(
        engine.Elements,
        "write_from",
        lambda self, part, start: (ends.append(self.offset + start + len(part)), write(self, part, start))[1],
    )
    values = np.arange(16_001 * 90, dtype=np.uint32).reshape(16_001, 90)
    np.save(folder / "in.npy", values)
    done = gl.relayout_file(folder / "in.npy", folder / "out.npy", target="{0,1}", max_bytes=12 << 20)
    rows = {128 + 64_004 * (number + 1) for number in range(90)}
    assert done.blocks[0] > 2 and all(end % PAGE == 0 or end in rows for end in ends)
    assert np.array_equal(np.load(folder / "out.npy"), values)


def test_long_runs_are_moved_in_pieces(folder, monkeypatch):
    monkeypatch.setattr(engine, "PIECE", 1000)
    found, expected, done = moved(folder, "f32[300,40]", "{1,0}", memory=None)
    assert found == expected and done.blocks == (1,)


def test_progress_ends_with_all_bytes(folder):
    seen = []
    *_, done = moved(folder, "f32[70,90]", "{0,1}", memory=3 << 14, progress=lambda *each: seen.append(each))
    assert [total for _, total in seen] == [2 * 4 * 70 * 90] * len(seen)
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] == done.bytes_read + done.bytes_written


def test_two_passes_give_what_one_gives_and_say_their_traffic(folder):
    one = moved(folder, "f32[500,700]", "{0,1}", memory=3 << 17)
    two = moved(folder, "f32[500,700]", "{0,1}", memory=3 << 17, scratch=folder)
    assert one[0] == two[0] == one[1]
    assert len(one[2].blocks) == 1 and len(two[2].blocks) == 2
    assert two[2].bytes_read + two[2].bytes_written >= 2 * (one[2].bytes_read + one[2].bytes_written)


def test_an_exception_in_between_leaves_neither_files_nor_threads(folder):
    class Stop(Exception):
        pass

    def stop(done, total):
        raise Stop

    before = threading.active_count()
    with pytest.raises(Stop):
        moved(folder, "f32[700,900]", "{0,1}", memory=3 << 18, progress=stop, scratch=folder)
    assert os.listdir(folder) == ["in.bin"] and threading.active_count() == before


def test_a_source_that_becomes_shorter_is_an_error_with_numbers(folder):
    np.save(folder / "in.npy", np.zeros((700, 900), np.float32))

    def shorten(done, total):
        os.truncate(folder / "in.npy", 100_000)

    with pytest.raises(ValueError, match=r"in\.npy: .*shorter.* 100000"):
        gl.relayout_file(folder / "in.npy", folder / "out.npy", target="{0,1}", max_bytes=3 << 17, progress=shorten)
    assert os.listdir(folder) == ["in.npy"]


def test_a_full_disk_is_an_error_that_names_the_file(folder, monkeypatch, numpy_alone):
    def full(descriptor, parts, place):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(OSError, match=re.escape(str(folder / "out.bin"))) as caught:
        moved(folder, "f32[700,900]", "{0,1}", memory=3 << 18)
    assert caught.value.errno == errno.ENOSPC and os.listdir(folder) == ["in.bin"]


def test_a_scratch_folder_without_room_is_an_error_that_names_it(folder, monkeypatch):
    reserve = os.posix_fallocate

    def full(descriptor, start, size):
        if not os.fstat(descriptor).st_nlink:  # the scratch file has no name
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(descriptor, start, size)

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="scratch file in"):
        moved(folder, "f32[500,700]", "{0,1}", memory=3 << 17, scratch=folder)
    assert os.listdir(folder) == ["in.bin"]
