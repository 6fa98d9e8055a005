"""Small files of scientific formats that hold one array as plain bytes, written as their specifications say.

A writer gives the bytes of a file, the array in it in the machine's byte order, and what the header says, by the names
that docs/command-line.md uses.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class ForeignFile(NamedTuple):
    """A file that another program wrote."""

    content: bytes
    array: np.ndarray[Any, Any]
    fields: dict[str, Any]


def numbers(dtype: str, *sizes: int) -> np.ndarray[Any, Any]:
    """Numbers whose bytes differ in every place."""
    count = int(np.prod(sizes))
    return (np.arange(count) * 257 % 30011 - (0 if dtype[0] == "u" else 9000)).astype(dtype).reshape(sizes)


def fits() -> ForeignFile:
    """A header of two blocks of 2,880 bytes, an image of big-endian floats, zeros to the end of a block."""
    array = numbers("f4", 30, 41)
    values = {"SIMPLE": "T", "BITPIX": -32, "NAXIS": 2, "NAXIS1": 41, "NAXIS2": 30, **{f"KEY{n}": n for n in range(40)}}
    cards = "".join(f"{name:8}= {value:>20}".ljust(80) for name, value in values.items()) + "END".ljust(80)
    header = cards.ljust(-(-len(cards) // 2880) * 2880).encode()
    data = array.astype(">f4").tobytes()
    return ForeignFile(
        header + data + bytes(-len(data) % 2880), array, {"NAXIS1": 41, "NAXIS2": 30, "blocks": len(header)}
    )


def nifti(order: str) -> ForeignFile:
    """348 bytes of header and 4 that say that nothing extends it; the first dimension varies fastest."""
    array = numbers("i2", 5, 4, 3)
    header = bytearray(348)
    struct.pack_into(f"{order}i", header, 0, 348)
    struct.pack_into(f"{order}8h", header, 40, 3, 5, 4, 3, 1, 1, 1, 1)
    struct.pack_into(f"{order}2h", header, 70, 4, 16)
    struct.pack_into(f"{order}f", header, 108, 352.0)
    header[344:] = b"n+1\0"
    fields = {"x": 5, "y": 4, "z": 3, "vox_offset": 352, "its": "big" if order == ">" else "little"}
    return ForeignFile(bytes(header) + bytes(4) + array.astype(f"{order}i2").tobytes("F"), array, fields)


def envi(interleave: str) -> ForeignFile:
    """The binary file beside the .hdr, with `header offset = 10` and `byte order = 1`."""
    array = numbers("f4", 3, 4, 5)  # bands, lines, samples
    axes = {"bsq": (0, 1, 2), "bil": (1, 0, 2), "bip": (1, 2, 0)}[interleave]
    content = bytes(range(10)) + np.ascontiguousarray(array.transpose(axes)).astype(">f4").tobytes()
    fields = {"bands": 3, "lines": 4, "samples": 5, "header_offset": 10, "its": "big"}
    return ForeignFile(content, array, fields)


def netcdf() -> ForeignFile:
    """CDF-1 with two fixed-size variables of doubles; the first one has another behind it."""
    array, other = numbers("f8", 4, 5), numbers("f8", 5)

    def name(text: str) -> bytes:
        return struct.pack(">i", len(text)) + text.encode().ljust(-(-len(text) // 4) * 4, b"\0")

    def variables(begin: int) -> bytes:
        made = b""
        for text, dims, size, start in (
            ("sst", (0, 1), array.nbytes, begin),
            ("lon", (1,), other.nbytes, begin + array.nbytes),
        ):
            made += name(text) + struct.pack(f">i{len(dims)}i", len(dims), *dims) + bytes(8)
            made += struct.pack(">iii", 6, size, start)
        return made

    head = b"CDF\1" + struct.pack(">i", 0) + struct.pack(">ii", 10, 2)
    head += (
        name("lat") + struct.pack(">i", 4) + name("lon") + struct.pack(">i", 5) + bytes(8) + struct.pack(">ii", 11, 2)
    )
    begin = len(head + variables(0))
    content = head + variables(begin) + array.astype(">f8").tobytes() + other.astype(">f8").tobytes()
    return ForeignFile(content, array, {"lat": 4, "lon": 5, "begin": begin})


def mrc() -> ForeignFile:
    """1,024 bytes of header, an extended header, and floats; columns vary fastest."""
    array, extended = numbers("f4", 3, 4, 5), bytes(range(96))
    header = bytearray(1024)
    struct.pack_into("<4i", header, 0, 5, 4, 3, 2)
    struct.pack_into("<i", header, 92, len(extended))
    header[208:216] = b"MAP \x44\x44\0\0"
    fields = {"NX": 5, "NY": 4, "NZ": 3, "NSYMBT": len(extended), "its": "little"}
    return ForeignFile(bytes(header) + extended + array.astype("<f4").tobytes(), array, fields)


def pgm() -> ForeignFile:
    """P5 with a largest value above 255: two bytes for each pixel, the higher one first."""
    array = numbers("u2", 4, 6)
    header = b"P5\n# by a scanner\n6 4\n65535\n"
    fields = {"height": 4, "width": 6, "header": len(header)}
    return ForeignFile(header + array.astype(">u2").tobytes(), array, fields)


def dicom(order: str) -> ForeignFile:
    """A preamble, one element, Pixel Data with explicit VR, and trailing padding (FFFC,FFFC)."""
    array = numbers("u2", 2, 4, 6)
    data = array.astype(f"{order}u2").tobytes()
    rows = struct.pack(f"{order}HH2sHH", 0x0028, 0x0010, b"US", 2, 4)
    head = bytes(128) + b"DICM" + rows + struct.pack(f"{order}HH2sHI", 0x7FE0, 0x0010, b"OW", 0, len(data))
    tail = struct.pack(f"{order}HH2sHI", 0xFFFC, 0xFFFC, b"OB", 0, 8) + bytes(8)
    where = head.index(struct.pack(f"{order}HH", 0x7FE0, 0x0010))
    its = "big" if order == ">" else "little"
    fields = {"frames": 2, "rows": 4, "columns": 6, "element": where, "its": its}
    return ForeignFile(head + data + tail, array, fields)


def nrrd() -> ForeignFile:
    """An attached header of text, whose first axis varies fastest."""
    array = numbers("f4", 5, 4, 3)
    header = b"NRRD0004\ntype: float\ndimension: 3\nsizes: 5 4 3\nencoding: raw\nendian: big\n\n"
    fields = {"x": 5, "y": 4, "z": 3, "header": len(header), "its": "big"}
    return ForeignFile(header + array.astype(">f4").tobytes("F"), array, fields)


def tiff() -> ForeignFile:
    """`MM`: big-endian; one strip of pixels, and the directory behind it."""
    array = numbers("u2", 4, 6)
    data = array.astype(">u2").tobytes()
    entries = {256: 6, 257: 4, 258: 16, 259: 1, 262: 1, 273: 8, 277: 1, 278: 4, 279: len(data)}
    directory = struct.pack(">H", len(entries)) + b"".join(
        struct.pack(">HHII", tag, 4, 1, value) for tag, value in entries.items()
    )
    fields = {"height": 4, "width": 6, "StripOffsets": 8, "its": "big"}
    return ForeignFile(b"MM\0*" + struct.pack(">I", 8 + len(data)) + data + directory + bytes(4), array, fields)


def dump() -> ForeignFile:
    """Bytes before and after an array, such as the memory of a process has them."""
    array = numbers("i4", 4, 6)
    stream = io.BytesIO(bytes(4096))
    stream.seek(0, 2)
    stream.write(array.tobytes() + bytes(1000))
    return ForeignFile(stream.getvalue(), array, {"rows": 4, "columns": 6, "address": 4096})


FILES: dict[str, list[Callable[[], ForeignFile]]] = {
    "FITS": [fits],
    "NIfTI": [lambda: nifti("<"), lambda: nifti(">")],
    "ENVI, bsq": [lambda: envi("bsq")],
    "ENVI, bil": [lambda: envi("bil")],
    "ENVI, bip": [lambda: envi("bip")],
    "NetCDF": [netcdf],
    "MRC": [mrc],
    "PGM": [pgm],
    "DICOM": [lambda: dicom("<"), lambda: dicom(">")],
    "NRRD": [nrrd],
    "TIFF": [tiff],
    "memory dump": [dump],
}
