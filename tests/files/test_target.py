"""A new file of elements: what NumPy would save, complete or not at all, with its space taken before."""

import errno
import os

import numpy as np
import pytest

from gpulayout.files import elements, new_file
from gpulayout.files.elements import new_target
from gpulayout.files.npy import Header
from tests.support.unprivileged import unprivileged


@pytest.fixture(params=["pwritev", "one place for all threads"])
def system(request, monkeypatch):
    if request.param != "pwritev":
        monkeypatch.delattr(os, "pwritev")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.npy"


def header(dtype, dimensions, fortran_order=False):
    return Header("out.npy", np.dtype(dtype), dimensions, fortran_order)


def write(path, content, about, *, plain=False, overwrite=False):
    with new_target(path, about, plain=plain, overwrite=overwrite) as new:
        new.write_from(memoryview(content), 0)


@pytest.mark.parametrize("dtype, dimensions", [("f4", (2, 3)), ("u1", (0,)), ("c16", (3,)), ("V2", (4,)), ("i8", ())])
def test_a_new_file_is_what_numpy_would_save(path, dtype, dimensions, system):
    values = np.frombuffer(bytes(range(96)), dtype)[: int(np.prod(dimensions))].reshape(dimensions)
    write(path, values.tobytes(), header(dtype, dimensions))
    loaded = np.load(path, allow_pickle=False)
    assert (loaded.dtype, loaded.shape, loaded.tobytes()) == (np.dtype(dtype), dimensions, values.tobytes())
    np.save(path.with_name("numpy.npy"), values)
    assert path.read_bytes() == path.with_name("numpy.npy").read_bytes()


def test_a_file_in_fortran_order_is_what_numpy_would_save(path):
    values = np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    write(path, values.tobytes(order="F"), header("f4", (2, 3, 4), True))
    np.save(path.with_name("numpy.npy"), values)
    assert path.read_bytes() == path.with_name("numpy.npy").read_bytes()


@pytest.mark.parametrize("plain", [False, True])
def test_parts_are_written_in_any_order(path, plain, monkeypatch, system):
    monkeypatch.setattr(elements, "CHUNK", 3)
    content = bytes(range(24))
    with new_target(path, header("u1", (24,)), plain=plain, overwrite=False) as new:
        for start in (16, 0, 8):
            new.write_from(memoryview(content[start : start + 8]), start)
    assert path.read_bytes()[0 if plain else 128 :] == content


def test_the_name_appears_when_the_file_is_complete(path):
    with new_target(path, header("f4", (3,)), plain=False, overwrite=False):
        assert not path.exists()
    assert np.load(path).tolist() == [0, 0, 0] and os.listdir(path.parent) == ["out.npy"]


def test_the_space_is_taken_before_an_element_is_written(path, monkeypatch):
    taken = []
    reserve = new_file.reserve_space
    monkeypatch.setattr(new_file, "reserve_space", lambda stream, size: (taken.append(size), reserve(stream, size)))
    with new_target(path, header("f4", (1000,)), plain=False, overwrite=False) as new:
        assert taken == [4128] and os.fstat(new.stream.fileno()).st_size == 4128


def test_a_full_disk_is_an_error_that_names_the_output_and_leaves_nothing(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(new_file, "reserve_space", full)
    with pytest.raises(OSError) as caught:
        write(path, bytes(12), header("f4", (3,)))
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path) and os.listdir(path.parent) == []


def test_a_disk_that_fails_while_elements_are_written_is_an_error_that_names_the_output(path, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwritev", broken)
    with pytest.raises(OSError) as caught:
        write(path, bytes(12), header("f4", (3,)))
    assert str(caught.value) == f"[Errno {errno.EIO}] Input/output error: 'out.npy'" and os.listdir(path.parent) == []


@pytest.mark.parametrize("mask, mode", [(0o777, None), (0o022, 0o444)])
def test_elements_are_written_to_a_file_that_may_not_be_opened_again(mask, mode):
    """The umask, or the permissions of the replaced file, lock out the owner."""
    with unprivileged() as folder:
        path = folder / "out.npy"
        if mode is not None:
            path.write_bytes(b"old")
            path.chmod(mode)
        before = os.umask(mask)
        try:
            write(path, bytes([7, 7, 7]), header("u1", (3,)), overwrite=mode is not None)
        finally:
            os.umask(before)
        path.chmod(0o600)
        assert np.load(path).tolist() == [7, 7, 7]
