"""The table of formats in docs/command-line.md: each row, with the numbers of a file, moves that file's array."""

import os
import pathlib
import re
import sys

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import failure, run, run_piped
from tests.support.foreign_files import FILES, fits, netcdf, pgm, tiff

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "command-line.md"
OFFSETS = {  # what the column of offsets says, in the names of `tests.support.foreign_files`
    "FITS": "blocks",
    "NIfTI": "vox_offset",
    "ENVI": "header_offset",
    "NetCDF": "begin",
    "MRC": "1024 + NSYMBT",
    "PGM": "header",
    "DICOM": "element + 12",
    "NRRD": "header",
    "TIFF": "StripOffsets",
    "memory dump": "address",
}


def rows():
    """The cells of the table."""
    lines = PAGE.read_text().partition("| format | `--from` |")[2].splitlines()[2:]
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


ROWS = list(rows())
CASES = [(row, file) for row in ROWS for name, files in FILES.items() if row[0].startswith(name) for file in files]


def options(row, fields):
    """`--from`, `--offset`, `--byte-order` and the rest, as a user writes them with the numbers of a file."""
    name, shape, offset, order, besides = row
    known = next(what for start, what in OFFSETS.items() if name.startswith(start))
    assert all(word in offset or word in ("blocks", "header_offset", "header", "element", "address")
               for word in re.findall("[A-Za-z_]+", known))  # fmt: skip
    shape = re.sub(r"[A-Za-z]\w*", lambda word: str(fields.get(word[0], word[0])), shape.strip("`"))
    order = order.strip("`") if order == "`big`" else fields.get("its", sys.byteorder)
    given = {"--from": shape, "--offset": str(eval(known, {}, fields)), "--byte-order": order}
    return given, besides.strip("`")


def test_every_row_has_a_file_and_every_file_a_row():
    assert len(ROWS) == len(FILES) == 12
    assert all(any(row[0].startswith(name) for row in ROWS) for name in FILES)


@pytest.mark.parametrize("row, file", CASES, ids=[f"{row[0]}-{n}" for n, (row, _) in enumerate(CASES)])
def test_a_row_moves_the_array_of_its_file(row, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, array, fields = file()
    pathlib.Path("in.raw").write_bytes(content)
    given, besides = options(row, fields)
    words = [word for pair in given.items() for word in pair]
    if besides:
        assert "; --no-strict ignores " in failure("unpack", "in.raw", "out.npy", *words) and not os.path.exists(
            "out.npy"
        )
        words.append(besides)
    run("unpack", "in.raw", "out.npy", *words)
    np.testing.assert_array_equal(np.load("out.npy"), array, strict=True)
    run("relayout", "in.raw", "f.npy", "--to", "F", *words)
    np.testing.assert_array_equal(np.load("f.npy"), array, strict=True)
    assert np.load("f.npy").flags.f_contiguous
    keywords = {"source": given["--from"], "offset": int(given["--offset"]), "byte_order": given["--byte-order"]}
    keywords["strict"] = besides != "--no-strict"
    gl.relayout_file("in.raw", "python.npy", **keywords)
    np.testing.assert_array_equal(np.load("python.npy"), array, strict=True)
    layout = "{1,0:T(2,2)}" if array.ndim == 2 else "{0,2,1}"
    gl.relayout_file("in.raw", "tiled.bin", target=layout, **keywords)
    assert pathlib.Path("tiled.bin").read_bytes() == gl.pack(array, layout).tobytes()


@pytest.mark.parametrize("row, file", CASES[::3], ids=[row[0] for row, _ in CASES[::3]])
def test_a_row_moves_it_from_a_pipe(row, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, array, fields = file()
    given, besides = options(row, fields)
    words = [word for pair in given.items() for word in pair] + [besides] * bool(besides)
    run_piped("unpack", "-", "out.npy", "--raw", *words, data=content)
    np.testing.assert_array_equal(np.load("out.npy"), array, strict=True)


# ---- that the files are what they say --------------------------------------------------------------------------------


@pytest.mark.parametrize("write, order", [(fits, -1), (pgm, 1), (tiff, 1)])
def test_pillow_reads_the_same_array(write, order, tmp_path):
    module = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    content, array, _ = write()
    path = tmp_path / "image"
    path.write_bytes(content)
    with module.open(path) as image:
        assert np.array_equal(np.asarray(image)[::order], array)  # Pillow turns FITS upside down


def test_scipy_reads_the_same_array(tmp_path):
    module = pytest.importorskip("scipy.io", reason="SciPy is not installed")
    content, array, _ = netcdf()
    path = tmp_path / "a.nc"
    path.write_bytes(content)
    with module.netcdf_file(path, mmap=False) as data:
        assert np.array_equal(data.variables["sst"][:], array)
