"""Boxes of a layout: where it may be cut, and how large a box must be for runs of a wanted length."""

import pytest

import gpulayout as gl
from gpulayout.moves.boxes import boxes

ALIGNED = [
    ("f32[32,512]{1,0:T(8,128)}", (8, 128)),
    ("f32[32,512]{0,1:T(8,128)}", (32, 8)),  # dimension 0 is shorter than the tile: never cut
    ("bf16[32,512]{1,0:T(8,128)(2,1)}", (8, 128)),
    ("u8[7]{0:T(4)(2,2)}", (7,)),
    ("u8[24]{0:T(3)(2)}", (3,)),
    ("u8[12,6]{1,0:T(*,4)}", (2, 6)),  # two rows of 6 are three tiles of 4
    ("u8[12,8]{1,0:T(*,4)}", (1, 4)),
    ("u8[6,6]{1,0:T(*,6)}", (1, 6)),
    ("u8[40]{0:T(8)(*,5)}", (40,)),
    ("s4[6,5]{1,0:E(4)}", (2, 5)),  # every second row begins inside a byte
    ("s4[6,8]{1,0:E(4)}", (1, 2)),
    ("u1[64]{0:E(1)}", (8,)),
    ("f32[5,1]", (1, 1)),
    ("f32[]", ()),
]


@pytest.mark.parametrize("text, align", ALIGNED)
def test_where_dimensions_may_be_cut(text, align):
    assert boxes(gl.parse_shape(text)).align == align


LONG = ["u8[100,6]{1,0:T(*,4)}", "u8[30,20]{1,0}", "u8[30,20]{0,1:T(4,8)}", "s4[40,16]{1,0:E(4)}", "u8[9,8,7]{1,2,0}"]


@pytest.mark.parametrize("text", LONG)
def test_the_smallest_box_for_runs_of_a_length(text):
    side = boxes(gl.parse_shape(text))
    assert side.shape == gl.parse_shape(text)
    box_of = lambda sizes: [(0, min(size, width)) for size, width in zip(sizes, side.widths)]  # noqa: E731
    for wanted in range(1, side.nbytes(box_of(side.widths)) + 1):
        sizes = side.sizes_for(wanted)
        assert side.runs(box_of(sizes)).length >= wanted, (wanted, sizes)
        for dim, (size, align) in enumerate(zip(sizes, side.align)):
            if size > align:
                less = [*sizes[:dim], size - align, *sizes[dim + 1 :]]
                assert side.runs(box_of(less)).length < wanted, (wanted, sizes, less)


@pytest.mark.parametrize("text", LONG)
def test_boxes_side_by_side_fill_the_buffer(text):
    """Cut at one place in each dimension, the boxes have all bytes of the buffer, each once."""
    side = boxes(gl.parse_shape(text))
    for dim, width in enumerate(side.widths):
        for cut in range(side.align[dim], width, side.align[dim]):
            whole = [(0, each) for each in side.widths]
            found = []
            for interval in ((0, cut), (cut, width)):
                runs = side.runs([*whole[:dim], interval, *whole[dim + 1 :]])
                found += [start + byte for start in runs.starts().tolist() for byte in range(runs.length)]
            assert sorted(found) == list(range(side.shape.nbytes)), (dim, cut)
