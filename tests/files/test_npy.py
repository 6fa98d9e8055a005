""".npy files: the checks before a byte is mapped, and files that NumPy reads back."""

import errno
import io
import os

import numpy as np
import pytest

from gpulayout.files import npy as files
from gpulayout.files.errors import FileError
from gpulayout.files.npy import new_npy, open_npy
from tests.support.unprivileged import unprivileged


def npy_bytes(array: np.ndarray, **options) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def header(text: str, *, version: bytes = b"\x01\x00", body: bytes = b"") -> bytes:
    length = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + text.encode() + body


def refusal(path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        open_npy(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "array.npy"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
        np.array(5),
        np.zeros((0, 3)),
        np.array([True, False]),
        np.arange(3) + 1j,
    ],
)
def test_the_header_and_elements_of_a_saved_array_come_back(path, array):
    np.save(path, array)
    found = open_npy(path)
    assert (found.dtype, found.dimensions) == (array.dtype, array.shape)
    assert found.fortran_order == (array.flags.f_contiguous and not array.flags.c_contiguous)
    assert found.elements.tolist() == array.ravel(order="K").tolist()


def test_elements_are_mapped_read_only(path):
    np.save(path, np.arange(10))
    elements = open_npy(path).elements
    assert isinstance(elements, np.memmap) and not elements.flags.writeable


def test_both_header_versions_are_read(path):
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n"
    for version in (b"\x01\x00", b"\x02\x00"):
        path.write_bytes(header(text, version=version, body=b"abc"))
        assert open_npy(path).elements.tobytes() == b"abc"


def test_a_header_from_python_2_is_read_without_a_warning(path):
    path.write_bytes(header("{'descr': '|u1', 'fortran_order': False, 'shape': (3L,), }\n", body=b"abc"))
    assert open_npy(path).dimensions == (3,)


def test_every_truncation_is_refused(path):
    whole = npy_bytes(np.arange(6, dtype=np.float32))
    for length in range(len(whole)):
        refusal(path, whole[:length])


def test_a_size_that_differs_from_the_header_is_refused_with_both_numbers(path):
    whole = npy_bytes(np.arange(6, dtype=np.float32))
    for content in (whole[:-1], whole + b"\0"):
        assert (
            refusal(path, content)
            == f"the file has {len(content)} bytes, but its header (<f4 of dimensions (6,)) needs 152"
        )


@pytest.mark.parametrize(
    "dimensions",
    [
        "(4611686018427387904,)",
        "(4294967296, 4294967296)",
        "(1 << 99,)",
        f"({10**30},)",
        "(3, -1)",
        "(-3,)",
        "(True,)",
        "(2.0,)",
        f"({'1,' * 65})",
        "3",
        "'ab'",
        "((1, 2),)",
    ],
)
def test_impossible_dimensions_are_refused_before_anything_is_allocated(path, dimensions):
    refusal(path, header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {dimensions}, }}\n", body=b"\0" * 12))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[" * 5000,
        "(" * 90 + ")" * 90,
        "__import__('os').system('true')",
        "{'descr': '<f4'}",
        "\0" * 64,
        "{'descr': '<f4', 'fortran_order': 3, 'shape': (3,), }",
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': ',' , 'fortran_order': False, 'shape': (3,), }",
        "x" * 20000,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'a': 1}",
    ],
)
def test_a_hostile_header_is_refused_in_one_line(path, text):
    assert refusal(path, header(text, body=b"\0" * 12))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPX\x01\x00",
        b"PK\x03\x04" + b"\0" * 60,
        b"\x80\x04N.",
        b"\x93NUMPY\x09\x00" + b"\0" * 60,
    ],
)
def test_a_file_that_is_not_npy_is_refused(path, content):
    assert refusal(path, content).startswith("not a .npy file that can be read: ")


def test_objects_are_refused_and_never_unpickled(path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(path) + ".exploded",)

    message = refusal(path, npy_bytes(np.array([Bomb()], object), allow_pickle=True))
    assert message == "it holds Python objects, which are never unpickled"
    assert not os.path.exists(str(path) + ".exploded")


def test_fields_and_big_endian_numbers_are_refused(path):
    assert "has fields" in refusal(path, npy_bytes(np.zeros(3, [("a", "<f4")])))
    assert (
        refusal(path, npy_bytes(np.zeros(3, ">f4")))
        == "its dtype >f4 is big-endian: convert it to native byte order first"
    )


def test_elements_without_bytes_are_refused(path):
    for count in ("3", "10" + "0" * 30):
        assert (
            refusal(path, header(f"{{'descr': '|V0', 'fortran_order': False, 'shape': ({count},), }}\n"))
            == "its elements (|V0) take no bytes"
        )


def test_elements_are_those_of_the_file_whose_header_was_read(path, tmp_path):
    """Another file may take the name at any time."""
    np.save(path, np.arange(6))
    found = open_npy(path)
    np.save(tmp_path / "new.npy", np.arange(100, 200))
    os.replace(tmp_path / "new.npy", path)
    assert found.elements.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_pipe_is_refused_without_waiting_for_it(path):
    os.mkfifo(path)
    with pytest.raises(FileError, match="not a regular file"):
        open_npy(path)


# ---- writing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, dimensions", [("f4", (2, 3)), ("u1", (0,)), ("c16", (3,)), ("V2", (4,)), ("i8", ())])
def test_a_new_file_is_what_numpy_would_save(path, dtype, dimensions):
    values = np.frombuffer(bytes(range(96)), dtype)[: int(np.prod(dimensions))]
    with new_npy(path, np.dtype(dtype), dimensions, overwrite=False) as elements:
        elements[:] = values
    loaded = np.load(path, allow_pickle=False)
    assert (loaded.dtype, loaded.shape, loaded.tobytes()) == (np.dtype(dtype), dimensions, values.tobytes())


def test_the_name_appears_when_the_file_is_complete(path):
    with new_npy(path, np.dtype("f4"), (3,), overwrite=False):
        assert not path.exists()
    assert np.load(path).tolist() == [0, 0, 0] and os.listdir(path.parent) == ["array.npy"]


def test_a_full_disk_is_an_error_that_names_the_output_and_leaves_nothing(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "reserve_space", full)
    with pytest.raises(OSError) as caught, new_npy(path, np.dtype("f4"), (3,), overwrite=False):
        pass
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path) and os.listdir(path.parent) == []


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
            with new_npy(path, np.dtype("u1"), (3,), overwrite=mode is not None) as elements:
                elements[:] = 7
        finally:
            os.umask(before)
        path.chmod(0o600)
        assert np.load(path).tolist() == [7, 7, 7]
