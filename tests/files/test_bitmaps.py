"""Bitmaps: a header, then rows of bits, the first one in the highest bit of a byte, each row in whole bytes."""

import struct

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import failure, run

SIZES = [(1, 1), (5, 10), (3, 16), (7, 31), (4, 32), (9, 77)]  # rows, and dots in a row


def dots(rows, width):
    return np.random.default_rng(width).integers(0, 2, (rows, width)).astype(np.uint8)


def pbm(image):
    """Its header, with a comment as GIMP writes one, and its rows."""
    rows, width = image.shape
    return f"P4\n# a comment\n{width} {rows}\n".encode(), np.packbits(image, axis=1).tobytes()


def bmp(image):
    """Two headers, a palette of black and white, and the rows from the bottom up, padded to 4 bytes."""
    rows, width = image.shape
    packed = np.packbits(image, axis=1)
    padded = np.pad(packed, [(0, 0), (0, -packed.shape[1] % 4)])
    body = padded[::-1].tobytes()
    header = struct.pack("<2sIHHI", b"BM", 62 + len(body), 0, 0, 62)
    header += struct.pack("<IiiHHIIiiII", 40, width, rows, 1, 1, 0, len(body), 0, 0, 2, 2)
    return header + b"\0\0\0\0\xff\xff\xff\0", body


def shape(rows, width, unit):
    """The shape of rows whose widths are multiples of so many bits."""
    return f"u1[{rows},{width}]{{1,0:PD({rows},{-(-width // unit) * unit})E(1,big)}}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verb", [["relayout", "--unpack"], ["unpack"]])
@pytest.mark.parametrize("rows, width", SIZES)
def test_a_pbm_file_is_read_behind_its_header(verb, rows, width, folder):
    image = dots(rows, width)
    header, body = pbm(image)
    (folder / "dots.pbm").write_bytes(header + body)
    run(*verb, "dots.pbm", "dots.npy", "--from", shape(rows, width, 8), "--offset", len(header))
    assert np.array_equal(np.load("dots.npy"), image)
    run("pack", "dots.npy", "rows.bin", "--to", shape(rows, width, 8))
    assert (folder / "rows.bin").read_bytes() == body


@pytest.mark.parametrize("rows, width", SIZES)
def test_a_bmp_file_is_read_upside_down(rows, width, folder):
    """No layout turns the order of rows round; NumPy does, as a view."""
    image = dots(rows, width)
    (folder / "dots.bmp").write_bytes(b"".join(bmp(image)))
    gl.relayout_file("dots.bmp", "dots.npy", source=shape(rows, width, 32), offset=62)
    assert np.array_equal(np.load("dots.npy")[::-1], image)
    assert gl.pack(image[::-1], shape(rows, width, 32)).tobytes() == bmp(image)[1]


@pytest.mark.parametrize("kind, offset, unit, lit", [("ppm", 9, 8, 0), ("bmp", 62, 32, 1)])
def test_files_of_pillow_are_read(kind, offset, unit, lit, folder):
    """It writes black as 1 in PBM, and white as 1 in BMP."""
    images = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    image = dots(13, 45)
    images.fromarray(image * 255).convert("1").save(folder / "dots", format=kind)
    run("unpack", "dots", "dots.npy", "--from", shape(13, 45, unit), "--offset", offset)
    found = np.load("dots.npy").view(np.uint8)
    assert np.array_equal(found[:: -1 if kind == "bmp" else 1], image if lit else 1 - image)


def test_a_large_bitmap_is_turned_in_two_passes(folder):
    image = dots(1200, 2001)
    header, body = pbm(image)
    (folder / "dots.pbm").write_bytes(header + body)
    limits = {"source": shape(1200, 2001, 8), "offset": len(header), "max_bytes": "150K", "scratch": "."}
    done = gl.relayout_file("dots.pbm", "turned.bin", target="{0,1:PD(1200,2001)E(1)}", **limits)
    assert len(done.blocks) == 2 and min(done.blocks) > 1
    wanted = np.packbits(image.T, bitorder="little").tobytes()
    assert (folder / "turned.bin").read_bytes() == wanted


def test_rows_of_other_bytes_do_not_fit(folder):
    """A BMP file read with rows as PBM pads them."""
    (folder / "dots.bmp").write_bytes(b"".join(bmp(dots(5, 10))))
    said = failure("unpack", "dots.bmp", "dots.npy", "--from", shape(5, 10, 8), "--offset", 62)
    assert said.startswith("dots.bmp: the file has 82 bytes, but a buffer of u1[5,10]{1,0:PD(5,16)E(1,big)} behind a ")
