""".npy files: headers that are checked before an element is read, and elements as NumPy stored them."""

import codecs
import io
import os
import re
import tracemalloc

import numpy as np
import pytest

from gpulayout.files.elements import open_source
from gpulayout.files.errors import FileError
from gpulayout.files.npy import read_header


def npy_bytes(array: np.ndarray, **options) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def header(text: str, *, version: bytes = b"\x01\x00", body: bytes = b"") -> bytes:
    length = len(text.encode()).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + text.encode() + body


def elements(path) -> bytes:
    with open_source(path) as source:
        content = bytearray(source.header.nbytes)
        source.read_into(memoryview(content), 0)
    return bytes(content)


def refusal(path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_header(path)
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
    found = read_header(path)
    assert (found.dtype, found.dimensions) == (array.dtype, array.shape)
    assert found.fortran_order == (array.flags.f_contiguous and not array.flags.c_contiguous)
    assert elements(path) == array.tobytes(order="A")


def test_both_header_versions_are_read(path):
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n"
    for version in (b"\x01\x00", b"\x02\x00"):
        path.write_bytes(header(text, version=version, body=b"abc"))
        assert elements(path) == b"abc"


def test_a_header_from_python_2_is_read_without_a_warning(path):
    path.write_bytes(header("{'descr': '|u1', 'fortran_order': False, 'shape': (3L,), }\n", body=b"abc"))
    assert read_header(path).dimensions == (3,)


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


WHOLE = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
SHAPES = """(2, 3|(x,)|(2,3)+(1,)|__import__('os')|range(3)|f(3)|a.b|a[0]|-(1,)|lambda: 1|[i for i in x]|2 if x else 3
(2, 3) or 1|not 1|x := 3|f'{1}'|*a|~1|1 < 2|10**9|yield 1|await x|{**x}|(2,)*3|@|'|\\|0777|2j|{2, 3}|None|...|b'a'
(2, 'x')|[2, 3]|2|(1e5,)|('2',)"""
DESCRS = """f4|['<f4']|[('a',)]|('<f4',)|''|None|3|x.y|np.float32|'<f44'|[1]|-x|x[0]|(1, 2, 3)|b'<f4'|'('
{'names': ['a'], 'formats': ['<f4']}|'x,b'"""
ORDERS = "0|'no'|None|x|not x|1|f()|[]|a.b"
OTHERS = (
    """x|1|{1: 2}|{'descr'}|{x: 1}|{**x}|(|f(|1 +|import os|a=1|{'a': 1}.x|{}; x|\ufeff|#|\t|lambda: {}|[{}]|\u00e9|"""
)
HOSTILE = [
    *(WHOLE.replace("(2, 3)", each) for line in SHAPES.splitlines() for each in line.split("|")),
    *(WHOLE.replace("'<f4'", each) for line in DESCRS.splitlines() for each in line.split("|")),
    *(WHOLE.replace("False", each) for each in ORDERS.split("|")),
    *OTHERS.split("|"),
    *(opening * 300 for opening in "([{'-~"),
    "1+" * 500 + "1",
    "9" * 5000,
    f"\ufeff{WHOLE}",
    f"{WHOLE}\0",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_the_message_about_a_hostile_header_is_plain(path, text):
    """Nothing of Python's parser or of addresses, and the same twice."""
    said = refusal(path, header(text, body=b"\0" * 24))
    ways = "|".join(
        (
            "header .* is not a Python dictionary of plain values",
            "header .* does not have the keys descr, fortran_order and shape, and no others",
            "shape .* is not a tuple of integers",
            "fortran_order .* is neither True nor False",
            "descr .* is not a dtype of NumPy",
        )
    )
    assert re.fullmatch(f"not a .npy file that can be read: its ({ways})", said), said
    for word in ("object at 0x", "ast.", "malformed", "Error", "unpack"):
        assert word not in said.replace(text[:90], "")
    assert said == refusal(path, header(text, body=b"\0" * 24)) and len(said) < 250


@pytest.mark.parametrize("length", range(8, 40))
def test_a_header_that_is_cut_is_told_so(path, length):
    content = header(WHOLE + "\n", body=b"\0" * 24)[:length]
    assert refusal(path, content) == "not a .npy file that can be read: it ends inside its header"


@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_a_byte_order_mark_before_a_header_is_named(path, mark):
    said = refusal(path, mark + header(WHOLE + "\n", body=b"\0" * 24))
    assert "(a byte order mark, which text editors write: this is no copy of the bytes)" in said


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPX\x01\x00",
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


def test_fields_are_refused(path):
    assert "has fields" in refusal(path, npy_bytes(np.zeros(3, [("a", "<f4")])))


def test_big_endian_numbers_are_described_and_their_bytes_are_read_as_they_are(path):
    array = np.arange(3, dtype=">f4")
    np.save(path, array)
    assert read_header(path).dtype == ">f4"
    assert elements(path) == array.tobytes()
    with open_source(path) as source:
        assert (source.header.dtype, source.header.swapped) == (np.float32, True)


def test_elements_without_bytes_are_refused(path):
    for count in ("3", "10" + "0" * 30):
        assert (
            refusal(path, header(f"{{'descr': '|V0', 'fortran_order': False, 'shape': ({count},), }}\n"))
            == "its elements (|V0) take no bytes"
        )


def test_elements_are_those_of_the_file_whose_header_was_read(path, tmp_path):
    """Another file may take the name at any time."""
    np.save(path, np.arange(6, dtype=np.uint8))
    with open_source(path) as source:
        np.save(tmp_path / "new.npy", np.arange(100, 200, dtype=np.uint8))
        os.replace(tmp_path / "new.npy", path)
        part = bytearray(3)
        source.read_into(memoryview(part), 2)
    assert part == bytes([2, 3, 4])


def test_a_pipe_is_refused_without_waiting_for_it(path):
    os.mkfifo(path)
    with pytest.raises(FileError, match="not a regular file"):
        read_header(path)


def test_a_header_that_asks_for_gigabytes_is_refused_before_it_is_read(path):
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little"))
        file.truncate(1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match="its header has 4294967295 bytes, more than 10000$"):
            read_header(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
