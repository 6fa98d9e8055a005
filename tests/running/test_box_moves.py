"""Boxes between two layouts, and the workspace of boxes that one pass cannot move."""

import random
import tracemalloc

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.catalogue.names import layout_of_name
from gpulayout.choices.backends import host_backend
from gpulayout.moves import pieces
from gpulayout.moves.placement import Placement
from gpulayout.running.request import request
from gpulayout.running.running import read_box, write_box
from tests.support.box_cases import can_hold, found, random_box, random_buffer, random_elements, same_elements, written
from tests.support.random_shapes import random_shapes


def catalogue_shape(name, dimensions):
    shape = gl.Shape("u4", dimensions)
    return shape.with_layout(layout_of_name(name, dimensions, shape.element_type))


def check_between(part_shape, shape, box, rng):
    """A part in a layout of its own is written to a box, and read from it again."""
    buffer, elements = random_buffer(rng, shape), random_elements(rng, shape, part_shape.dimensions)
    expected = written(shape, buffer, elements, box)
    part = gl.pack(elements, part_shape)
    assert write_box(part, part_shape, buffer, shape, box) is buffer
    assert buffer.view(np.uint8).tobytes() == expected.tobytes(), (part_shape, shape, box)
    read = read_box(buffer, shape, box, part_shape)
    assert read.tobytes() == part.tobytes(), (part_shape, shape, box)


def part_shapes(shapes, rng):
    """Pairs of a shape and a box of a second one, with the first one's layout where it can have it."""
    shapes = [shape for shape in shapes if can_hold(shape, 4000)]
    by_rank = {}
    for shape in shapes:
        for other in by_rank.get((shape.rank, shape.element_type), ())[-2:]:
            box = random_box(rng, shape.dimensions)
            sizes = tuple(part.stop - part.start for part in box)
            layout = other.layout.replace(padded_dimensions=None, split_configs=())
            yield gl.Shape(shape.element_type, sizes, layout), shape, box
        by_rank.setdefault((shape.rank, shape.element_type), []).append(shape)


@pytest.mark.parametrize("most", [None, 0, 2])
def test_boxes_between_layouts_of_every_kind(most, monkeypatch, plans_anew):
    if most is not None:  # then most boxes go cell by cell
        monkeypatch.setattr(pieces, "LEAST_PIECES", most)
        monkeypatch.setattr(pieces, "MOST_PIECES", most)
    rng = np.random.default_rng(3)
    count = 0
    for part, shape, box in part_shapes(random_shapes(3, 1000, tuples=False), rng):
        if can_hold(part):
            check_between(part, shape, box, rng)
            count += 1
    assert count > 60


def test_words_of_a_checkpoint_go_to_a_box_of_a_kernels_weights():
    rng = np.random.default_rng(2)
    shape = catalogue_shape("marlin:weights(dtype=u4)", (64, 192))
    for first, last in ((0, 64), (64, 128), (128, 192)):
        box = slice(0, 64), slice(first, last)
        check_between(catalogue_shape("gptq:qweight(dtype=u4)", (64, 64)), shape, box, rng)
    check_between(catalogue_shape("gptq:qweight(dtype=u4)", (32, 64)), shape, (slice(3, 35), slice(5, 69)), rng)


@pytest.mark.parametrize("layout", ["{1,0:E(4)}", "{0,1:E(4,big)}", "{1,0:T(16,64)E(4)}"])
@pytest.mark.parametrize("begin", [0, 3])
def test_the_workspace_is_bounded(layout, begin):
    """Of boxes of whole bytes and of others: arithmetic on packed elements needs dense arrays."""
    rng, shape = np.random.default_rng(4), gl.Shape("u4", (512, 1025), layout)
    box, options = (slice(begin, begin + 496), slice(begin, begin + 960)), {"scale": 0.25, "zero_point": 8}
    buffer, part = random_buffer(rng, shape), rng.normal(size=(496, 960)).astype(np.float32)
    codes = gl.pack(part, gl.Shape("u4", part.shape), **options).reshape(part.shape)
    expected = written(shape, buffer, codes, box)
    limit = 1 << 17
    write_box(np.zeros_like(part), None, buffer, shape, box, options, max_bytes=limit)  # which plans, and keeps plans
    tracemalloc.start()
    write_box(part, None, buffer, shape, box, options, max_bytes=limit)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert buffer.tobytes() == expected.tobytes()
    assert most < 1.5 * limit < codes.nbytes / 2, most
    back = read_box(buffer, shape, box, None, None, {"dtype": "f32", **options}, max_bytes=limit)
    assert (back == (codes.astype(np.float32) - 8) * np.float32(0.25)).all()


def test_only_the_borders_of_a_box_need_a_workspace():
    shape = gl.parse_shape("u4[64,256]{1,0:T(16,64)E(4)}")
    write = Placement.part_of(shape, ((1, 63), (3, 252)))
    cells = request(write.dense, write).prepared_by(host_backend()).cells
    at_once = [cell.box for cell in cells if cell.write is None]
    assert ((15, 47), (61, 189)) in at_once  # all whole tiles
    assert all(cell.read is None for cell in cells)


def test_a_limit_below_the_smallest_cell_is_an_error_before_a_byte_is_written():
    shape, buffer = "u4[65,65]{1,0:E(4)}", np.zeros(2113, np.uint8)
    with pytest.raises(gl.LayoutError, match="max_bytes 64 is too small for a box of u4.65,65.*takes .* bytes"):
        write_box(np.ones((3, 3), np.uint8).astype(gl.ElementType.U4.dtype), None, buffer, shape, np.s_[:3, :3], {}, 64)
    assert not buffer.any()


def test_dimensions_and_types_of_a_part_have_to_be_those_of_the_box():
    buffer = np.zeros(24, np.float32)
    with pytest.raises(gl.LayoutError, match="dimension 1 is 2, not 3"):
        write_box(np.ones(6, np.float32), "f32[2,3]", buffer, "f32[4,6]", np.s_[:2, :2])
    with pytest.raises(gl.LayoutError, match="element type"):
        write_box(np.ones(4, np.int32), "s32[2,2]", buffer, "f32[4,6]", np.s_[:2, :2])
    with pytest.raises(BufferError, match="share|overlap"):
        write_box(buffer[:4], "f32[2,2]", buffer, "f32[4,6]", np.s_[:2, :2])
    assert not buffer.any()
    write_box(np.ones(4, np.int32), "s32[2,2]{0,1}", buffer, "f32[4,6]", np.s_[:2, :2], {"dtype": "f32"})
    assert buffer.sum() == 4


def test_random_cells_hold_what_they_held():
    """Cells of all sizes: limits from the smallest cell up."""
    rng, numbers = np.random.default_rng(5), random.Random(5)
    shape = gl.parse_shape("u2[23,37]{1,0:T(4,8)(2,1)E(2)}")
    for _ in range(60):
        box, limit = random_box(rng, shape.dimensions), numbers.choice([400, 600, 1000, 3000])
        buffer, part = random_buffer(rng, shape), random_elements(rng, shape, np.empty((23, 37))[box].shape)
        elements, expected = found(shape, buffer, box), written(shape, buffer, part, box)
        assert same_elements(shape, read_box(buffer, shape, box, max_bytes=limit), elements)
        write_box(part, None, buffer, shape, box, max_bytes=limit)
        assert buffer.tobytes() == expected.tobytes()
