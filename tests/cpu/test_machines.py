"""Plans differ between processors, and the bytes do not: on 18 machines, of six kinds of caches and three numbers of
cores.

Arrays are small here.  The limits below which a move is not worth a plan or a thread are lowered, so each machine makes
the plans of large arrays for them.
"""

import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.cpu import blocks, lookup, run
from gpulayout.cpu.choose_plan import plan_of
from tests import reference_arithmetic as model
from tests.cpu.test_plan import pack_and_back, random_array
from tests.support import packed_reference, tiled_cases

MOVES = [
    ((150, 141), (1, 0), None),  # blocks with edges on both sides
    ((128, 128), (1, 0), (130, 150)),  # rows a power of two apart, with padding around them
    ((256, 256), (1, 0), (258, 270)),
    ((3, 120, 60), (0, 2, 1), None),  # a block covers parts of two axes
    ((6, 5, 7, 13, 9), (4, 3, 2, 1, 0), None),  # over several axes on both sides
    ((6, 5, 7, 13, 9), (2, 4, 0, 3, 1), (6, 6, 7, 14, 10)),
    ((32, 16, 64), (2, 0, 1), None),
    ((3, 20_000), (1, 0), None),  # a few channels
    ((3, 20_000), (1, 0), (4, 20_005)),
    ((4, 64, 64, 3), (0, 3, 1, 2), None),  # and back
    ((70, 64, 3), (1, 0, 2), None),  # short contiguous runs
]
ELEMENT_TYPES = ("u8", "bf16", "f32", "c128")


@pytest.fixture(autouse=True)
def work_for_many_threads(monkeypatch):
    """Moves of some microseconds are planned as if they took milliseconds, in chunks of some hundred elements."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(blocks, "SHARE_BYTES", 4096)
    monkeypatch.setattr(lookup, "CHUNK", 512)


def shape_of(element_type, dimensions, order, widths) -> gl.Shape:
    return gl.Shape(element_type, dimensions, gl.Layout.from_major_to_minor(order, padded_dimensions=widths))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
def test_moves_give_the_bytes_of_the_definition(element_type, each_machine, monkeypatch):
    made = []
    monkeypatch.setattr(run, "plan_of", lambda move, threads: made.append(threads) or plan_of(move, threads))
    for move in MOVES:
        shape = shape_of(element_type, *move)
        pack_and_back(random_array(shape), shape)
    assert max(made) == each_machine.cores


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source, target", [("f32", "s8"), ("u8", "f16"), ("bf16", "f8e4m3fn")])
def test_moves_with_arithmetic_give_the_values_of_the_definition(source, target, each_machine):
    values = np.random.default_rng(5).integers(0, 100, (7, 36, 41, 3))
    array = values.astype(gl.ElementType(source).dtype)
    for axes in ((3, 2, 1, 0), (0, 3, 1, 2), (2, 1, 3, 0)):
        found = gl.transpose(array, axes, dtype=target, scale=0.5)
        exact = model.expected_codes((values * 0.5).transpose(axes).ravel(), target)
        assert found.tobytes() == exact.astype(f"u{found.itemsize}").tobytes(), axes


@pytest.mark.parametrize(
    "source, target",
    [
        ("s4[64,80]{1,0:E(4)}", "{0,1:E(4)}"),
        ("u4[31,21]{1,0:E(4)}", "{1,0:T(3,5)E(4)}"),  # places looked up
        ("u2[16,12,30]{2,1,0:E(2)}", "{1,2,0:E(2)}"),
    ],
)
def test_packed_elements_give_the_bytes_of_the_definition(source, target, each_machine):
    plan = gl.plan(source, target)
    assert plan(packed_reference.buffer(plan.source)).tolist() == packed_reference.buffer(plan.target).tolist()


@pytest.mark.parametrize("itemsize", [1, 4, 16])
def test_tiles_give_the_bytes_of_the_definition(itemsize, each_machine):
    rng = random.Random(itemsize)
    for source, target in (tiled_cases.drawn_pair(rng, itemsize) for _ in range(10)):
        found = gl.relayout(tiled_cases.expected_buffer(source), source, target)
        assert found.tobytes() == tiled_cases.expected_buffer(target).tobytes(), (source, target)
