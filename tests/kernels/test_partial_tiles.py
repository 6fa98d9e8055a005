"""Tiles that an extent cuts are moved like whole ones: 16 bytes at a time, and all loads before the first is used.

The machine code of kernels/tile.cu is read, run on the CPU, and compared with the transpose of textbooks.
"""

import dataclasses
import pathlib
import re
import struct

import pytest

from gpulayout.gpu.kernel_numbers import FIXED_TILES
from gpulayout.gpu.kernel_source import kernel_text
from gpulayout.gpu.launch import Kernel
from tests.support import nvrtc
from tests.support.kernel_cases import BLOCK, WIDTHS, Case, move_of, tile_macros, transposed
from tests.support.sass.launches import taken

REASON = nvrtc.disassembler_missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
PEER = pathlib.Path(__file__).parent / "peers" / "textbook_transpose.cu"
ALL_PARTIAL = (16, 48, 704)  # of f32 with its last two dimensions turned: tiles of 64 x 64 have 48 rows


def loads_per_thread(width):
    tile_a, tile_b = FIXED_TILES[width]
    return tile_a * tile_b * width // 16 // BLOCK


def partial_tile(width, architecture, bits=32, *changes):
    """The accesses of a block whose tile is partial, in their order, in a move that is not ragged."""
    text = kernel_text("tile.cu")
    for right, wrong in (
        (r"const bool whole = [^;]*;", "const bool whole = false;"),
        *((re.escape(right), wrong.replace("\\", r"\\")) for right, wrong in changes),
    ):
        text, count = re.subn(right, wrong, text)
        assert count, right
    macros = {"GPL_ELEMENT_BYTES": width, "GPL_INDEX_BITS": bits, "GPL_AXES": 3} | tile_macros(width)[3]
    cubin = nvrtc.compiled(text, architecture, macros).cubin
    found = [instruction.split()[0] for instruction in nvrtc.instructions(cubin, "gpl_tile_vector")]
    return [opcode for opcode in found if opcode.split(".")[0] in ("LDG", "STG", "STS", "LDL", "STL")]


def is_right(accesses, width):
    """Every access is of 16 bytes, and chunks are loaded in groups, each before its first is stored."""
    loads = loads_per_thread(width)
    order = "".join({"LDG": "l", "STS": "s"}.get(opcode.split(".")[0], "") for opcode in accesses)
    groups = re.findall("l+s+", order)
    return (
        all(".128" in opcode for opcode in accesses)
        and sorted(groups) == sorted("l" * count + "s" * count for count in range(1, loads + 1))
        and sum(opcode.startswith("STG") for opcode in accesses) == loads
    )


@pytest.mark.one_in(4)
@pytest.mark.parametrize("architecture", ("sm_75", "sm_90", "sm_120"))
@pytest.mark.parametrize("width", WIDTHS)
def test_partial_tiles_move_16_bytes_at_a_time_and_load_before_they_store(width, architecture):
    for bits in (32, 64):
        accesses = partial_tile(width, architecture, bits)
        assert is_right(accesses, width), accesses


@pytest.mark.parametrize(
    "right, wrong",
    [
        (  # one chunk under way at a time
            "move);\n  }\n#pragma unroll\n  for (int k = 0; k < COUNT; ++k) {\n    const int place",
            "move);\n    __syncwarp();\n    const int place",
        ),
        (  # stores of 4 bytes
            "  gpl_put<16>(to, chunk);",
            "  to[0] = chunk.x, to[1] = chunk.y, to[2] = chunk.z, __syncwarp(), to[3] = chunk.w;",
        ),
        (  # loads of 4 bytes
            "chunk[k] = gpl_fetch<16>(from);",
            "chunk[k] = make_uint4(from[0], from[chunks.down], from[2 * chunks.down], from[3 * chunks.down]);",
        ),
    ],
)
def test_other_code_is_seen(right, wrong):
    assert not is_right(partial_tile(4, "sm_90", 32, (right, wrong)), 4)


# Instructions of all threads per element, where three quarters of every tile exist.
MOST_INSTRUCTIONS = {1: 4, 2: 10, 4: 12, 8: 21, 16: 64}


@pytest.mark.parametrize("width", WIDTHS)
def test_partial_tiles_take_few_instructions_and_no_sector_in_vain(width):
    tile_a, tile_b = FIXED_TILES[width]
    found = taken(Case("partial", transposed(width, (2, 3 * tile_b // 4, 3 * tile_a), (0, 2, 1))))
    assert found.per_element <= MOST_INSTRUCTIONS[width], found.per_element
    assert found.counted.in_flight == -(-3 * loads_per_thread(width) // 4) * 16
    assert (found.sectors("read"), found.sectors("write"), found.conflicts) == (1, 1, 1)


def peer(case):
    """A case of matrices that are turned, with the transpose of textbooks instead of its plan."""
    matrices, rows, columns = ALL_PARTIAL
    tiles = -(-rows // 32)
    plan = dataclasses.replace(
        case.plan,
        kind=Kernel("tile", PEER.name, "textbook"),
        macros=(("ROW_TILES", tiles),),
        grid=(-(-columns // 32), tiles * matrices),
        parameters=struct.pack("<2I", rows, columns),
    )
    case = dataclasses.replace(case)
    object.__setattr__(case, "plan", plan)
    return case


def test_the_transpose_of_textbooks_is_beaten_where_every_tile_is_partial():
    case = Case("f32[16,48,704] turned", transposed(4, ALL_PARTIAL, (0, 2, 1)))
    ours, theirs = taken(case), taken(peer(case), text=PEER.read_text())
    assert ours.per_element <= 12 and 2 * ours.per_element <= theirs.per_element
    assert ours.counted.in_flight >= 3 * theirs.counted.in_flight
    for found in (ours, theirs):
        assert (found.sectors("read"), found.sectors("write"), found.conflicts) == (1, 1, 1)
    requests = {
        name: [
            sum(n for opcode, n in found.counted.opcodes.items() if opcode.startswith(name)) for name in ("LDG", "STG")
        ]
        for name, found in (("ours", ours), ("theirs", theirs))
    }
    assert all(3 * mine <= other for mine, other in zip(requests["ours"], requests["theirs"])), requests


@pytest.mark.parametrize("width", (1, 2, 4, 8))
def test_chunks_cut_by_a_bound_or_an_extent_are_right_in_machine_code(width):
    """Rows that end inside a chunk, with gaps behind them; places of pad on two sides."""
    (tile_a, tile_b), n = FIXED_TILES[width], 16 // width
    a, b = 2 * tile_a - 1, tile_b + 1
    wide_a, wide_b = -(-a // n) * n, -(-(b + n + 1) // n) * n
    cut = move_of(width, [(b, b, wide_a, 1), (a, a, 1, wide_b)])
    padded = move_of(width, [(b + n + 1, b, wide_a, 1), (a + 3, a, 1, wide_b), (3, 2, wide_a * b, wide_b * (a + 3))])
    for move in (cut, padded):
        assert taken(Case("cut", move)).per_element < 200


@pytest.mark.parametrize("width", (1, 2, 4, 8))
def test_chunks_that_a_bound_cuts_are_read_without_bank_conflicts(width):
    """A warp reads the cut chunks of rows that are N apart, all elements of a chunk in neighbouring lanes."""
    (tile_a, tile_b), n = FIXED_TILES[width], 16 // width
    a, b = 3 * tile_a + n // 2 + 1, 3 * tile_b
    found = taken(Case("cut", move_of(width, [(b, b, -(-a // n) * n, 1), (a, a, 1, b)])))
    traffic = found.counted.traffic
    assert found.conflicts == 1 and traffic["global read"].parts <= 1.2 * traffic["global read"].least
