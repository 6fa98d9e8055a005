"""pack, unpack, relayout and view of tiled layouts against the reference, on every executor.

NumPy and a GPU run all pairs; the host-compiled kernels run those whose launches need common variants only.
"""

import itertools
import math
import os
import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.many import JobMove, many_plan
from gpulayout.moves import regions
from tests.support.executors import guarded, guards_intact, source_buffer
from tests.support.placed import relayout_pieces
from tests.support.tiled_cases import TYPES, drawn_pair, expected_buffer, logical_array, numbers

# Kernel, element bytes, index bits, axes and other macros: 12 variants that suffice for nine of ten pairs of 4-byte
# elements.
COMMON = {
    ("gpl_many", 4, 32, 2, 44),
    ("gpl_many", 4, 32, 4, 29),
    ("gpl_rows", 4, 32, 1, 16, 16),
    ("gpl_copy", 4, 32, 1, 16),
    ("gpl_copy", 8, 32, 1, 16),
    ("gpl_copy", 16, 32, 1, 16),
    ("gpl_gather", 4, 32, 1),
    ("gpl_gather", 4, 32, 2),
    ("gpl_gather", 4, 32, 3),
    ("gpl_gather", 8, 32, 1),
    ("gpl_tile_nd", 4, 32, 2, 4, 4),
    ("gpl_many", 8, 32, 2, 44),
}

PAIRS = int(os.environ.get("GPULAYOUT_TEST_PAIRS", "0"))  # for a long run: pairs on every executor


def variants(pieces):
    """The kernel variants of a plan between buffers aligned to 16 bytes."""
    requests = tuple(
        JobMove("", piece.move, piece.source_offset % 16 if piece.move.element_count else 0, piece.target_offset % 16)
        for piece in pieces
    )
    plan = many_plan(requests) if len(pieces) > 1 else None
    alone = [kernel_plan(*requests[place][1:]) for place in (plan.alone if plan else (0,))]
    return {
        (launch.kernel, *(value for _, value in launch.macros))
        for launch in (*(plan.shared if plan else ()), *filter(None, alone))
    }


def pairs(executor, count, seed):
    """Pairs of every element size; for host-compiled kernels only 4 bytes, and only common variants."""
    rng = random.Random(f"{seed} {executor.name}")
    while count:
        source, target = drawn_pair(rng, 4 if executor.name == "simt" else rng.choice(tuple(TYPES)))
        if executor.name != "simt" or variants(relayout_pieces(source, target)) <= COMMON:
            yield source, target
            count -= 1


def check_relayout(executor, source, target):
    buffer = source_buffer(executor, expected_buffer(source))
    out, memory = guarded(executor, target.dtype, target.buffer_size)
    assert gl.relayout(buffer, source, target, out=out) is out
    assert executor.host(out).tobytes() == expected_buffer(target).tobytes(), (source, target)
    assert guards_intact(executor, memory, 0, target.nbytes), (source, target)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", range(4))
def test_relayout_turns_one_reference_buffer_into_the_other(executor, part):
    """5,000 random pairs: 3,200 with NumPy, 1,800 with the kernels."""
    for number, (source, target) in enumerate(
        pairs(executor, PAIRS // 4 or (800 if executor.name == "numpy" else 450), part)
    ):
        if executor.name == "simt":
            executor.backend.runtime.order, executor.backend.runtime.seed = number % 3, number + 1
        check_relayout(executor, source, target)


def test_pack_takes_any_strides_and_unpack_writes_any_strides(executor):
    for number, (shape, _) in enumerate(pairs(executor, 150, "pack")):
        rank = shape.rank
        steps = [(1, 2, -1)[(number + dim) % 3] for dim in range(rank)]
        whole = np.ones(
            [size * abs(step) for size, step in zip(shape.dimensions, steps)], shape.dtype, order="CF"[number % 2]
        )
        part = (..., *(slice(None, None, step) for step in steps))
        whole[part] = logical_array(shape)
        around = executor.array(whole)
        strided = around[part]
        out, memory = guarded(executor, shape.dtype, shape.buffer_size)
        gl.pack(strided, shape, out=out)
        assert executor.host(out).tobytes() == expected_buffer(shape).tobytes(), shape
        assert guards_intact(executor, memory, 0, shape.nbytes), shape
        strided[...] = 0
        assert gl.unpack(out, shape, out=strided) is strided
        assert executor.host(around).tobytes() == whole.tobytes(), shape  # the bytes between are unchanged
        assert executor.host(gl.unpack(out, shape)).tobytes() == logical_array(shape).tobytes(), shape


def small_shapes():
    """Rank 1 under one and two tiles, rank 2 under one, all sizes and orders; scalars."""
    for size, first, second in itertools.product(range(8), (1, 2, 3, 4, 5), (None, 1, 2, 3)):
        yield (size,), (0,), [(first,)] + ([(second,)] if second else [])
    for rows, columns, tile in itertools.product(
        (1, 2, 3, 5), (1, 3, 4), ((2, 2), (1, 3), (3, 2), ("*", 4), (2, 1, 2))
    ):
        yield (rows, columns), (0, 1), [tile]
        yield (rows, columns), (1, 0), [tile, (2, 1)]
    yield from (((), (), [tile]) for tile in ((1,), (4,), (2, 3)))


def test_every_small_tiling_is_packed_and_unpacked(executor):
    done = 0
    for dimensions, order, tiles in small_shapes():
        shape = gl.Shape("s32", dimensions, gl.Layout(order, tiles=[gl.Tile(tile) for tile in tiles], padding_value=-5))
        dense = shape.with_layout(None)
        if executor.name == "simt" and not (
            variants(relayout_pieces(dense, shape)) | variants(relayout_pieces(shape, dense)) <= COMMON
        ):
            continue
        packed = gl.pack(executor.array(logical_array(shape)), shape)
        assert executor.host(packed).tobytes() == expected_buffer(shape).tobytes(), shape
        assert executor.host(gl.unpack(packed, shape)).tobytes() == logical_array(shape).tobytes(), shape
        done += 1
    assert done > 200


def places(piece):
    """(byte offset in the source, -1 for padding; byte offset in the target) of every place of a piece."""
    source, target, inside = np.array(piece.source_offset), np.array(piece.target_offset), np.array(True)
    for axis in piece.move.axes:
        steps = np.arange(axis.extent)
        source = source[..., None] + steps * axis.source_stride
        target = target[..., None] + steps * axis.target_stride
        inside = inside[..., None] & (steps < axis.bound)
    return np.where(inside, source, -1).reshape(-1), target.reshape(-1)


def test_the_pieces_write_every_place_once_from_its_element():
    rng = random.Random("pieces")
    several = 0
    for _ in range(600):
        source, target = drawn_pair(rng, 2)
        pieces = relayout_pieces(source, target)
        assert len(pieces) > 1 or pieces[0][1:] == (0, 0)
        several += len(pieces) > 1
        found = [np.concatenate(side) for side in zip(*map(places, pieces))]
        assert sorted(found[1]) == list(range(0, target.nbytes, 2)), (source, target)
        numbered = np.append(numbers(source), -1)[np.where(found[0] < 0, -1, found[0] // 2)]
        assert (numbered == numbers(target)[found[1] // 2]).all(), (source, target)
    assert several > 300


# Layouts of TPUs: tiles that divide each other and the array make one permutation.
ONE_MOVE = [
    ("f32[8192,8192]", "{1,0:T(8,128)}", "gpl_rows"),
    ("f32[8192,8192]", "{0,1:T(8,128)}", "gpl_tile_nd"),
    ("bf16[8192,8192]", "{1,0:T(8,128)(2,1)}", "gpl_channels"),
    ("s8[8192,8192]", "{1,0:T(8,128)(4,1)}", "gpl_channels"),
    ("f32[64,1024,1024]", "{2,1,0:T(8,128)}", "gpl_rows"),
    ("f32[4096]", "{0:T(1024)}", "gpl_copy"),
    ("f32[100,1000]", "{1,0:T(1,128)}", "gpl_rows"),
    ("bf16[2,3,1024]", "{2,1,0:T(2,*,128)}", "gpl_rows"),
]


@pytest.mark.parametrize("dense, tiled, kernel", ONE_MOVE, ids=[f"{dense} {tiled}" for dense, tiled, _ in ONE_MOVE])
@pytest.mark.parametrize("direction", ("to tiles", "from tiles"))
def test_tiles_that_divide_are_one_move(dense, tiled, kernel, direction):
    source, target = gl.parse_shape(dense), gl.parse_shape(dense.partition("{")[0] + tiled)
    found = relayout_pieces(source, target) if direction == "to tiles" else relayout_pieces(target, source)
    plan = kernel_plan(found[0].move)
    assert len(found) == 1 and plan.kernel == kernel, found
    assert plan.vector_bytes >= 4 and math.prod(plan.grid) > 1 or kernel in ("gpl_copy", "gpl_rows")


@pytest.mark.parametrize(
    "matrix, tiles, digits, order",
    [
        ("f32[2048,4096]", "T(8,128)", (256, 8, 32, 128), (0, 2, 1, 3)),
        ("bf16[4096,4096]", "T(8,128)(2,1)", (512, 4, 2, 32, 128), (0, 3, 1, 4, 2)),
        ("s8[4096,8192]", "T(8,128)(4,1)", (512, 2, 4, 64, 128), (0, 3, 1, 4, 2)),
    ],
)
def test_whole_tiles_are_the_same_loops_as_the_permutation_without_tiles(matrix, tiles, digits, order):
    dense, tiled = gl.parse_shape(matrix), gl.parse_shape(f"{matrix}{{1,0:{tiles}}}")
    split = gl.Shape(dense.element_type, digits)
    permuted = split.with_layout(gl.Layout.from_major_to_minor(order))
    for with_tiles, without in (((dense, tiled), (split, permuted)), ((tiled, dense), (permuted, split))):
        (piece,), (other,) = relayout_pieces(*with_tiles), relayout_pieces(*without)
        assert piece.move.axes == other.move.axes and piece[1:] == other[1:]


def test_tilings_that_divide_each_other_are_one_move():
    shape = gl.parse_shape("bf16[4096,4096]{1,0:T(8,128)}")
    assert len(relayout_pieces(shape, gl.parse_shape("bf16[4096,4096]{1,0:T(8,128)(2,1)}"))) == 1
    assert len(relayout_pieces(shape, gl.parse_shape("bf16[4096,4096]{0,1:T(32,256)(4,1)}"))) == 1
    assert (
        len(
            relayout_pieces(
                gl.parse_shape("u8[1000,1001,1003]"), gl.parse_shape("u8[1000,1001,1003]{2,1,0:T(*,*,1024)}")
            )
        )
        == 1
    )


def test_padding_after_joined_dimensions_is_found_without_their_coordinates(monkeypatch):
    cuts, cut_at_multiples = [], regions.cut_at_multiples
    monkeypatch.setattr(regions, "cut_at_multiples", lambda *given: cuts.append(given) or cut_at_multiples(*given))
    source, target = (gl.parse_shape(f"u8[50,51,53]{layout}") for layout in ("", "{2,1,0:T(*,*,1024)}"))
    (piece,) = relayout_pieces(source, target)
    assert piece.move.place_count == target.buffer_size and len(cuts) < 20


def test_arrays_of_more_than_two_to_the_32_elements_are_cut_at_their_tiles():
    """65537 = 8192 * 8 + 1 = 512 * 128 + 1: whole tiles, a row, a column, a corner, and a slab of padding."""
    source, target = gl.parse_shape("f32[65537,65537]"), gl.parse_shape("f32[65537,65537]{1,0:T(8,128)}")
    pieces = relayout_pieces(source, target)
    assert sum(piece.move.bytes_written for piece in pieces) == target.nbytes == 4 * 65544 * 65664
    assert (
        sum(piece.move.bytes_read for piece in pieces) == source.nbytes and kernel_plan(pieces[0].move).index_bits == 64
    )
    corner = next(piece for piece in pieces if piece.source_offset == source.nbytes - 4)
    assert corner.target_offset == 4 * (8192 * 513 + 512) * 1024 and corner.move.element_count == 1


def test_a_partial_tile_is_a_piece_with_its_padding():
    """1000 columns are 7 tiles of 128 and 104 columns of an eighth tile, whose 24 places of padding join them."""
    pieces = relayout_pieces(gl.parse_shape("f32[1000,1000]"), gl.parse_shape("f32[1000,1000]{1,0:T(8,128)}"))
    assert [piece.move.axes[0][:2] for piece in pieces] == [(128, 128), (128, 104)]
    assert sum(piece.move.place_count for piece in pieces) == 1000 * 1024
    alone = relayout_pieces(gl.parse_shape("f32[10,20]"), gl.parse_shape("f32[10,20]{1,0:T(8,128)}"))
    assert [axis[:2] for axis in alone[0].move.axes] == [(128, 20), (16, 10)] and len(alone) == 1


def test_tail_padding_is_filled(executor):
    packed = gl.pack(executor.array(np.arange(1, 6, dtype=np.int32)), "s32[5]{0:PV(-1)L(8)}")
    assert executor.host(packed).tolist() == [1, 2, 3, 4, 5, -1, -1, -1]
    assert executor.host(gl.unpack(packed, "s32[5]{0:L(8)}")).tolist() == [1, 2, 3, 4, 5]


def test_relayout_many_takes_tiled_and_other_layouts(executor):
    pair = ("s32[5,7]{1,0:T(2,4)}", "s32[5,7]{0,1:PV(9)T(3,2)}")
    shapes = [pair, ("s32[6,5]", "s32[6,5]{0,1}"), pair[::-1], ("s32[0,3]{1,0:T(2,2)}", "s32[0,3]")]
    jobs = [
        (executor.array(expected_buffer(source)), source, target)
        for source, target in ((gl.parse_shape(a), gl.parse_shape(b)) for a, b in shapes)
    ]
    if executor.name == "simt":
        executor.backend.runtime.launches.clear()
    for (_, _, target), found in zip(jobs, gl.relayout_many(jobs)):
        assert executor.host(found).tobytes() == expected_buffer(target).tobytes(), target
    if executor.name == "simt":
        assert [kernel for kernel, _ in executor.backend.runtime.launches] == ["gpl_many"]


@pytest.mark.parametrize(
    "text, strides",
    [
        ("f32[3,5]{1,0:T(1,8)}", (32, 4)),
        ("f32[3,5]{0,1:T(4)}", (4, 16)),
        ("f32[7,128]{1,0:T(8,128)}", (512, 4)),
        ("f32[5]{0:T(2)}", (4,)),
        ("f32[16,3]{1,0:T(8,4)}", (16, 4)),
        ("f32[]{:T(128)}", ()),
        ("f32[1,5]{1,0:T(8,128)}", (0, 4)),
        ("f32[2,3,4]{2,1,0:T(*,4)}", (48, 16, 4)),
        ("f32[0,300]{1,0:T(8,128)}", (4096, 4)),
    ],
)
def test_tiles_with_one_stride_per_dimension_can_be_viewed(executor, text, strides):
    shape = gl.parse_shape(text)
    seen = gl.view(executor.array(expected_buffer(shape)), shape)
    used = [found for found, size in zip(seen.strides, shape.dimensions) if size > 1 and shape.element_count]
    assert used == [stride for stride, size in zip(strides, shape.dimensions) if size > 1 and shape.element_count]
    assert np.ascontiguousarray(executor.host(seen)).tobytes() == logical_array(shape).tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "f32[3,5]{1,0:T(2,2)}",
        "f32[16,129]{1,0:T(8,128)}",
        "f32[9,3]{1,0:T(8,4)(2,1)}",
        "f32[6]{0:T(3)(2)}",
        "f32[3,5]{1,0:T(*,2)(2)}",
    ],
)
def test_a_view_of_other_tiles_is_refused_or_right(text):
    shape = gl.parse_shape(text)
    tiles = "".join(map(str, shape.layout.tiles))
    place = {number: place for place, number in enumerate(numbers(shape).tolist()) if number >= 0}
    grid = np.array([place[number] for number in range(shape.element_count)]).reshape(shape.dimensions)
    even = all((np.diff(grid, axis=axis) == np.diff(grid, axis=axis).flat[0]).all() for axis in range(shape.rank))
    buffer = expected_buffer(shape)
    if even:
        assert gl.view(buffer, shape).tobytes() == logical_array(shape).tobytes()
    else:
        with pytest.raises(gl.LayoutError) as error:
            gl.view(buffer, shape)
        assert str(error.value) == (
            f"tiles {tiles} of {shape} have no single stride per dimension: neighbours are not the same distance apart "
            "inside and across tiles; use gl.unpack to copy the array"
        )


def test_explain_says_how_many_pieces_there_are():
    text = str(gl.plan("f32[1000,1000]", "{1,0:T(8,128)}").explain())
    assert "  pieces   2 copies, in 2 launches on a GPU: tiles are cut where the dimensions or other tiles end" in text
    assert (
        "the rest describes the largest piece, 87.5% of the bytes written" in text
        and "24000 of them padding (zeros, 2.3%)" in text
    )
    text = str(gl.plan("f32[1000,1000]", "{1,0:T(8,128)L(1048576)}").explain())
    # The smaller copy and the fill share a launch.
    assert "2 copies and 1 fill of 98304 bytes of padding, in 2 launches" in text
    assert "pieces" not in str(gl.plan("f32[1024,1024]", "{1,0:T(8,128)}").explain())


def test_rows_that_begin_at_different_places_of_a_tile_are_pieces_each():
    """100 combined rows of 10007 elements under tiles of 1024."""
    source, target = gl.parse_shape("s32[100,10007]{1,0:T(*,1024)}"), gl.parse_shape("s32[100,10007]{0,1}")
    assert len(relayout_pieces(source, target)) == 100
    assert gl.relayout(expected_buffer(source), source, target).tobytes() == expected_buffer(target).tobytes()


def test_nothing_is_written_when_a_piece_cannot_be_reached():
    memory = np.zeros(4 * 24 + 8, np.uint8)
    out = memory[2 : 2 + 4 * 24].view(np.float32)
    with pytest.raises(BufferError, match="out"):
        gl.relayout(np.arange(15, dtype=np.float32), "f32[3,5]", "{1,0:T(2,2)}", out=out[:23])
    assert not memory.any()
