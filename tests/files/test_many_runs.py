"""Many runs at once, by the native engine: the same bytes and errors as one after the other by Python."""

import errno
import os
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.cpu import native
from gpulayout.files import engine, linux_files
from gpulayout.files.elements import Elements
from gpulayout.files.errors import FileError
from gpulayout.files.npy import Header
from gpulayout.moves.runs import Runs
from tests.support.effort import examples

PAGE = engine.PAGE
NONE = np.empty(0, np.uint8)
CONTENT = np.random.default_rng(0).integers(0, 255, 80 * PAGE + 123, np.uint8, endpoint=True)
needs_engine = pytest.mark.skipif(native.module() is None, reason="needs the native engine")


def source_of(stream, offset):
    header = Header("in.bin", np.dtype(np.uint8), (CONTENT.size - offset,), False, "a buffer")
    return Elements(header, offset, stream, NONE)


def target_of(stream, offset, nbytes):
    return Elements(Header("out.bin", np.dtype(np.uint8), (nbytes,), False), offset, stream, NONE)


def forget(path):
    """Drop a file from the page cache, as far as the system does so."""
    with open(path, "rb") as stream:
        os.fsync(stream.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def around_cache(path):
    """A descriptor around the page cache; the test is skipped where there is none."""
    forget(path)
    with open(path, "rb") as stream:
        descriptor = linux_files.open_around_cache(stream)
    return descriptor if descriptor >= 0 else pytest.skip("the file system has no way around its cache")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "in.bin"
    path.write_bytes(CONTENT.tobytes())
    return path


@needs_engine
@pytest.mark.parametrize("is_direct", [False, True])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_runs_are_read_wherever_the_pages_of_a_file_lie(path, is_direct, data):
    length = data.draw(st.one_of(st.integers(1, 2 * PAGE), st.integers(1, 40 * PAGE), st.just(2 * PAGE)))
    offset = data.draw(st.sampled_from([0, 128, PAGE, 5001]))
    last = CONTENT.size - offset - length
    starts = np.array(data.draw(st.lists(st.one_of(st.integers(0, last), st.just(last)), max_size=9)), np.int64)
    found = np.zeros(starts.size * length + 1, np.uint8)
    descriptor = around_cache(path) if is_direct else -1
    try:
        with open(path, "rb", buffering=0) as stream:
            file, places = stream.fileno(), starts + offset
            assert native.module().read_runs(file, descriptor, found.data, places, length) == starts.size
            again = np.zeros_like(found)
            source_of(stream, offset).read_runs(again.data, starts, length, descriptor)
    finally:
        if is_direct:
            os.close(descriptor)
    expected = [CONTENT[offset + start :][:length] for start in starts]
    assert np.array_equal(found, np.concatenate([*expected, [0]])) and np.array_equal(found, again)


@needs_engine
def test_places_that_are_no_numbers_in_memory_are_refused(path):
    odd = np.zeros(17, np.uint8)
    for places in (odd[1:9], odd[:9]):
        with open(path, "rb") as stream, pytest.raises(ValueError, match="places are int64"):
            native.module().read_runs(stream.fileno(), -1, np.empty(PAGE, np.uint8), places, 1)


@settings(max_examples=examples(60), deadline=None)
@given(
    offset=st.sampled_from([0, 128, PAGE - 1, 3 * PAGE]),
    lengths=st.lists(st.integers(2 * PAGE, 9 * PAGE), max_size=3),
    last=st.integers(1, 3 * PAGE),
    count=st.integers(1, 4),
    gap=st.integers(0, 2 * PAGE),
    native_engine=st.booleans(),
)
def test_blocks_that_continue_runs_write_all_of_them(
    tmp_path_factory, offset, lengths, last, count, gap, native_engine
):
    """Tails wait for the next block, and the last one, however short, writes its own."""
    lengths = [*lengths, last]
    pitch = sum(lengths) + gap
    blocks = [Runs(sum(lengths[:k]), length, ((count, pitch),)) for k, length in enumerate(lengths)]
    elements = np.resize(CONTENT, count * pitch)
    expected = np.zeros(offset + elements.size, np.uint8)
    for runs in blocks:
        runs.of(expected[offset:])[...] = runs.of(elements)
    path = tmp_path_factory.mktemp("runs") / "out.bin"
    path.write_bytes(bytes(expected.size))
    with native.chosen(native_engine), open(path, "r+b", buffering=0) as stream:
        write(target_of(stream, offset, elements.size), blocks, elements)
    assert np.array_equal(np.fromfile(path, np.uint8), expected)


def write(target, blocks, elements):
    """Write blocks of elements one after the other, as a move does."""
    writer = engine.BlockWriter(1)
    jobs = [SimpleNamespace(target=target, block=SimpleNamespace(target_runs=runs)) for runs in blocks]
    for job, following in zip(jobs, [*jobs[1:], None]):
        runs = job.block.target_runs
        writer.buffer(0, runs.nbytes)[: runs.nbytes] = runs.of(elements).reshape(-1)
        engine.wait_for(writer.begin(job, following, 0), lambda more: None)
    writer.threads.stop()


@needs_engine
@pytest.mark.parametrize("is_direct", [False, True])
@pytest.mark.parametrize("start, count", [(0, 2), (PAGE // 2, 3), (-3 * PAGE, 1), (-1, 1), (PAGE, 1)])
def test_a_file_that_ends_early_has_the_runs_before_and_an_error_for_the_next(tmp_path, is_direct, start, count):
    """`count` runs of 3 pages, the last of which begins at `start` from the end of the file, are not all there."""
    path = tmp_path / "in.bin"
    path.write_bytes(CONTENT[: 9 * PAGE + 7].tobytes())
    starts = np.array([0] * count + [9 * PAGE + 7 + start if start < 0 else 7 * PAGE + start], np.int64)
    found = np.zeros(starts.size * 3 * PAGE, np.uint8)
    descriptor = around_cache(path) if is_direct else -1
    with open(path, "rb", buffering=0) as stream:
        source = source_of(stream, 0)
        whole = starts[-1] + 3 * PAGE <= 9 * PAGE + 7
        done = native.module().read_runs(stream.fileno(), descriptor, found.data, starts, 3 * PAGE)
        assert done == count + whole and np.array_equal(found[: 3 * PAGE], CONTENT[: 3 * PAGE])
        if not whole:
            with pytest.raises(FileError, match=rf"in\.bin: .*shorter.* {9 * PAGE + 7} bytes"):
                source.read_runs(found.data, starts, 3 * PAGE, descriptor)
    if is_direct:
        os.close(descriptor)


@pytest.mark.parametrize("native_engine", [False, True])
def test_errors_of_the_system_name_the_file(tmp_path, native_engine):
    (tmp_path / "file").write_bytes(bytes(6 * PAGE))
    runs = Runs(0, 3 * PAGE, ((2, 3 * PAGE),))
    with native.chosen(native_engine):
        with open(tmp_path / "file", "rb", buffering=0) as stream, pytest.raises(OSError, match="out.bin") as caught:
            write(target_of(stream, 0, 6 * PAGE), [runs], CONTENT)
        assert caught.value.errno == errno.EBADF
        with open(tmp_path / "file", "wb", buffering=0) as stream, pytest.raises(OSError, match="in.bin") as caught:
            job = SimpleNamespace(source=source_of(stream, 0), block=SimpleNamespace(source_runs=runs), is_part=True)
            reader = engine.BlockReader(1)
            reader.buffer(0, runs.nbytes)
            engine.wait_for(reader.begin(job, 0), lambda more: None)
        reader.stop()
        assert caught.value.errno == errno.EBADF


@needs_engine
def test_memory_that_is_too_small_is_refused(tmp_path):
    module, places, page = native.module(), np.zeros(2, np.int64), bytearray(PAGE)
    with open(tmp_path / "file", "w+b", buffering=0) as stream:
        file = stream.fileno()
        for length in (PAGE // 2 + 1, 0, -1, 1 << 62):
            with pytest.raises(ValueError, match="memory has all runs"):
                module.read_runs(file, -1, page, places, length)
            with pytest.raises(ValueError, match="memory has all runs"):
                module.write_runs(file, page, places, length, bytearray(), False, False)
        for tails in ((False, True), (True, False)):
            with pytest.raises(ValueError, match="tails a page"):
                module.write_runs(file, bytes(2 * PAGE), places, PAGE, page, *tails)
        with pytest.raises(ValueError, match="as long as a page"):
            module.write_runs(file, page, places, PAGE // 2, bytearray(2 * PAGE), False, True)
        with pytest.raises(BufferError):
            module.read_runs(file, -1, bytes(page), places, 1)
        for place in (-1, 1 << 62):
            assert module.read_runs(file, -1, page, np.array([place]), 1) == 0
            assert module.write_runs(file, page, np.array([place]), 1, bytearray(), False, False) == 0


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="only Linux has a way around the page cache")
def test_only_files_that_are_not_in_memory_are_read_around_the_page_cache(path):
    os.close(around_cache(path))
    path.read_bytes()
    with open(path, "rb") as stream:
        assert linux_files.open_around_cache(stream) == -1
    (path.parent / "empty").touch()
    with open(path.parent / "empty", "rb") as stream:
        assert linux_files.open_around_cache(stream) == -1


@needs_engine
@pytest.mark.parametrize("problem", [None, "refused", "fails"])
def test_a_move_around_the_page_cache_gives_the_same_bytes_and_closes_the_file(tmp_path, monkeypatch, problem):
    begun, opened = os.open, []

    def open_file(name, flags, *mode, **folder):
        if flags & os.O_DIRECT:
            opened.append(name)
            if problem == "refused":
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            if problem == "fails":
                flags = flags & ~os.O_DIRECT | os.O_WRONLY
        return begun(name, flags, *mode, **folder)

    rows = np.arange(100 * 30_010, dtype=np.uint32).reshape(100, 30_010)
    np.save(tmp_path / "in.npy", rows)
    os.close(around_cache(tmp_path / "in.npy"))
    monkeypatch.setattr(os, "open", open_file)
    before = len(os.listdir("/proc/self/fd"))
    done = gl.relayout_file(tmp_path / "in.npy", tmp_path / "out.npy", target="{0,1}", max_bytes="16M")
    assert done.blocks[0] > 1 and len(opened) == 1 and len(os.listdir("/proc/self/fd")) == before
    assert np.array_equal(np.load(tmp_path / "out.npy"), rows)


@pytest.mark.parametrize("error", [OSError(19, "no such device"), ValueError("mmap length is greater than file size")])
def test_a_file_that_cannot_be_mapped_is_read_the_usual_way(tmp_path, monkeypatch, error):
    def refused(*given, **named):
        raise error

    monkeypatch.setattr(linux_files.mmap, "mmap", refused)
    (tmp_path / "file").write_bytes(bytes(5000))
    with open(tmp_path / "file", "rb") as stream:
        assert linux_files.open_around_cache(stream) == -1
