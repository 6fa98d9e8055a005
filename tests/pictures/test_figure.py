"""What a picture shows: every element once in the grid and once in the strip, borders where tiles begin, and a bound on
its size.
"""

import itertools

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.pictures.figure import figure_of

SMALL = [
    "f32[2,3]{0,1:PD(3,5)}",
    "u8[3,5]{1,0:T(2,2)}",
    "u8[3,6]{1,0:T(*,4)}",
    "u8[6]{0:T(3)(2)}",
    "u8[2,3,4]{1,2,0}",
    "u4[2,5]{1,0:T(2,3)E(4)}",
    "f32[]",
    "u8[5]{0:L(8)}",
]


def cells_of(figure):
    return [cell for panel in figure.panels for row in panel.rows for cell in row]


@pytest.mark.parametrize("text", SMALL)
def test_every_element_is_once_in_the_grid_and_once_in_the_strip(text):
    shape = gl.parse_shape(text)
    figure = figure_of(shape)
    expected = {
        index: gl.linearize(index, shape) if index else 0
        for index in itertools.product(*(range(size) for size in shape.dimensions))
    }
    grid = [(cell.index, cell.place) for cell in cells_of(figure) if cell.is_element]
    strip = [(tuple(map(int, cell.index)), cell.place) for cell in figure.strip if cell.is_element]
    assert len(grid) == len(strip) == len(expected)
    assert dict(grid) == dict(strip) == expected
    assert [cell.place for cell in figure.strip] == list(range(shape.buffer_size))


def test_the_pictures_padding_is_the_buffers():
    shape = gl.parse_shape("s8[2,3]{0,1:PD(3,5)PV(lowest)}")
    buffer = gl.pack(np.ones((2, 3), np.int8), shape)
    assert [not cell.is_element for cell in figure_of(shape).strip] == (buffer == -128).tolist()
