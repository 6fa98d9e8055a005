"""The machine code of index conversion: so few instructions that memory is the limit, and no division routine."""

import re

import pytest

from gpulayout.gpu.kernel_numbers import ITEMS
from gpulayout.gpu.kernel_source import kernel_text
from tests.support import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.disassembler_missing() is not None, reason=str(nvrtc.disassembler_missing()))

DIRECTIONS = ("linearize", "delinearize", "convert_linear")

# Instructions of a thread per index and byte that it reads or writes.  At full memory speed a GPU can issue 15.6 per
# byte of an element, which is read and written; two thirds of that is realistic.
MOST_PER_BYTE = 15.6 / 2 * 0.65


def usual_path(text):
    """Only the path of threads that have all their indices, all valid; without padding."""
    for pattern, instead in (
        (r"^ *else .*(<false>|gpl_write_marked).*$", ""),
        (r"if \(table\.padded\) .*$", ""),
        (r"^  if \(bad\) bad = .*<false>.*$", ""),
        (r"^  if \(bad\) gpl_report.*$", "  if (bad) return;"),
        (r"\bif \(GPL_HAS_ALL[^;]*?\) (?=\w)", ""),
    ):
        text, count = re.subn(pattern, instead, text, flags=re.MULTILINE)
        assert count, pattern
    return text


def index_instructions(direction, rank, index_bytes, architecture="sm_90", digit_bits=32, change=usual_path):
    macros = {
        "GPL_INDEX_BITS": 8 * index_bytes,
        "GPL_DIGIT_BITS": digit_bits,
        "GPL_AXES": rank,
        "GPL_IN_BYTES": index_bytes,
        "GPL_IN_SIGNED": 1,
        "GPL_OUT_BYTES": index_bytes,
    }
    cubin = nvrtc.compiled(change(kernel_text("index.cu")), architecture, macros).cubin
    return [
        kind
        for kind in (each.split()[0].split(".")[0] for each in nvrtc.instructions(cubin, f"gpl_{direction}"))
        if kind != "NOP"
    ]


def index_bytes_moved(direction, rank, index_bytes):
    return index_bytes * (2 if direction == "convert_linear" else rank + 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90", "sm_120"))
@pytest.mark.parametrize("index_bytes", (4, 8))
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_an_index_takes_no_more_instructions_than_its_bytes_leave_time_for(direction, index_bytes, architecture):
    """Indices of 8 bytes are 64-bit linear indices, which are split.  Neither width calls a division routine."""
    for rank in (3, 6):
        found = index_instructions(direction, rank, index_bytes, architecture)
        assert "CALL" not in found and "LDL" not in found
        assert len(found) / ITEMS <= MOST_PER_BYTE * index_bytes_moved(direction, rank, index_bytes), rank


@pytest.mark.parametrize(
    "direction, index_bytes, most",
    [
        ("linearize", 4, (32, 57)),
        ("linearize", 8, (44, 74)),
        ("delinearize", 4, (28, 51)),
        ("delinearize", 8, (48, 81)),
        ("convert_linear", 4, (24, 38)),
        ("convert_linear", 8, (43, 67)),
    ],
)
def test_an_index_takes_few_instructions(direction, index_bytes, most):
    """The counts on one architecture, for 3 and for 6 digits."""
    for rank, limit in zip((3, 6), most):
        assert len(index_instructions(direction, rank, index_bytes)) / ITEMS <= limit, rank


def test_only_wrapped_coordinates_are_divided_by_a_routine():
    for direction in DIRECTIONS:
        found = index_instructions(direction, 6, 8, change=lambda text: text)
        assert ("CALL" in found) == (direction == "linearize")


def test_digits_in_64_bits_would_take_too_many_instructions():
    found = index_instructions("convert_linear", 6, 8, digit_bits=64)
    assert len(found) / ITEMS > MOST_PER_BYTE * index_bytes_moved("convert_linear", 6, 8)
