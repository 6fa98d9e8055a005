"""A source gives the bytes of its elements at any place, and says with numbers what is wrong with its file."""

import io
import os
import threading

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.files import elements
from gpulayout.files.elements import open_source
from gpulayout.files.errors import FileError
from gpulayout.files.plain_bytes import PlainBytes

SHAPE = gl.parse_shape("u8[4,6]{0,1}")
CONTENT = bytes(range(24))


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def read(source, start, count):
    part = bytearray(count)
    source.read_into(memoryview(part), start)
    return bytes(part)


@pytest.fixture(params=["preadv", "one place for all threads"])
def system(request, monkeypatch):
    if request.param != "preadv":
        monkeypatch.delattr(os, "preadv")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "in.bin"


@pytest.mark.parametrize("header", [True, False])
def test_every_part_of_the_elements_is_what_the_file_holds(header, path, system):
    path.write_bytes(npy(np.frombuffer(CONTENT, np.uint8)) if header else CONTENT)
    with open_source(path, SHAPE) as source:
        assert (source.offset, source.header.nbytes) == (128 if header else 0, 24)
        for start in range(25):
            for stop in range(start, 25):
                assert read(source, start, stop - start) == CONTENT[start:stop]


def test_a_part_larger_than_one_call_of_the_system_reads_is_read_whole(path, monkeypatch, system):
    monkeypatch.setattr(elements, "CHUNK", 5)
    path.write_bytes(CONTENT)
    with open_source(path, SHAPE) as source:
        assert read(source, 1, 22) == CONTENT[1:23]


def test_threads_read_at_the_same_time(path, system):
    content = np.random.default_rng(0).bytes(1 << 16)
    path.write_bytes(content)
    wrong = []
    with open_source(path, gl.parse_shape(f"u8[{len(content)}]")) as source:

        def check(number):
            for start in range(number, len(content) - 64, 97):
                if read(source, start, 64) != content[start : start + 64]:
                    wrong.append(start)

        threads = [threading.Thread(target=check, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


@pytest.mark.parametrize("header", [True, False])
def test_a_file_that_becomes_shorter_is_an_error_with_numbers(header, path, system):
    """A map of it would kill the process."""
    content = npy(np.frombuffer(CONTENT, np.uint8)) if header else CONTENT
    path.write_bytes(content)
    with open_source(path, SHAPE) as source:
        assert read(source, 20, 4) == CONTENT[20:]
        os.truncate(path, len(content) - 1)
        assert read(source, 20, 3) == CONTENT[20:23]
        with pytest.raises(FileError) as caught:
            read(source, 20, 4)
        os.truncate(path, 3)
        with pytest.raises(FileError, match=f"it has 3 bytes, but .* needs {len(content)}"):
            read(source, 20, 4)
    needed = "its header (|u1 of dimensions (24,))" if header else "a buffer of u8[4,6]{0,1}"
    assert str(caught.value) == (
        f"{path}: the file has become shorter while it was read: it has {len(content) - 1} bytes, but {needed} "
        f"needs {len(content)}"
    )


def test_an_error_of_the_system_names_the_file(path, monkeypatch):
    def broken(*_):
        raise OSError(5, "Input/output error")

    path.write_bytes(CONTENT)
    with open_source(path, SHAPE) as source:
        monkeypatch.setattr(os, "preadv", broken)
        with pytest.raises(OSError) as caught:
            read(source, 0, 4)
    assert str(caught.value) == f"[Errno 5] Input/output error: '{path}'"


# ---- what a file is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["in", "in.bin", "in.dat", "in.f32", "npy", "in.npy.bin", "in.png"])
def test_with_a_shape_a_file_of_another_name_than_npy_is_plain_bytes(name, tmp_path):
    (tmp_path / name).write_bytes(CONTENT)
    with open_source(tmp_path / name, SHAPE) as source:
        assert (source.header.dimensions, source.header.dtype, read(source, 0, 24)) == ((24,), np.uint8, CONTENT)
    with pytest.raises(FileError, match="not a .npy file that can be read"), open_source(tmp_path / name):
        pass


@pytest.mark.parametrize("name", ["in.npy", "in.NPY", ".npy"])
def test_a_file_named_npy_is_plain_bytes_only_if_told_so(name, tmp_path):
    (tmp_path / name).write_bytes(CONTENT)
    with pytest.raises(FileError, match="not a .npy file that can be read"), open_source(tmp_path / name, SHAPE):
        pass
    with open_source(tmp_path / name, SHAPE, PlainBytes(raw=True)) as source:
        assert read(source, 0, 24) == CONTENT


def test_plain_bytes_that_begin_as_npy_does_are_never_taken_for_elements_of_another_place(path):
    """A .npy file of any name keeps its meaning.  Plain bytes cannot look like one of the right size: they would have
    to hold the header and all elements."""
    for beginning in (npy(np.zeros(24, np.uint8)), b"\x93NUMPY", b"\x93NUMPY\x01\x00"):
        content = beginning[:24].ljust(24, b"\0")
        path.write_bytes(content)
        with pytest.raises(FileError) as caught, open_source(path, SHAPE):
            pass
        assert caught.value.advice == "; plain bytes need --raw"
        with open_source(path, SHAPE, PlainBytes(raw=True)) as source:
            assert read(source, 0, 24) == content


@pytest.mark.parametrize("change", [-24, -1, 1])
def test_plain_bytes_of_another_size_are_refused_with_both_numbers(change, path):
    path.write_bytes(bytes(24 + change))
    with pytest.raises(FileError) as caught, open_source(path, SHAPE):
        pass
    size = "1 byte" if change == -23 else f"{24 + change} bytes"
    left = ": 1 byte would be left over" * (change > 0)
    assert str(caught.value) == f"{path}: the file has {size}, but a buffer of u8[4,6]{{0,1}} needs 24{left}"
    assert caught.value.advice == "; --no-strict ignores it" * (change > 0)
