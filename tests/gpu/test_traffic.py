"""The sectors that a plan predicts match those counted in the kernels' own accesses."""

import json

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.kernel_numbers import SECTOR
from gpulayout.gpu.traffic import Requests, requests
from tests.kernels.test_trace import GLOBAL, TABLE, aligned_cases, awkward_cases
from tests.support.kernel_cases import WIDTHS, move_of


def excess(side):
    """Sectors touched, relative to the ideal."""
    return side.sectors / side.ideal


@pytest.mark.parametrize("width", WIDTHS)
def test_predicted_sectors_are_the_counted_ones(width):
    """Within an eighth; predictions leave out tails and edges.

    box_words.cu writes the single elements at both ends of a run later, which touches up to two sectors again.
    """
    table = json.loads(TABLE.read_text())
    for case in [*aligned_cases(width), *awkward_cases(width)]:
        row = table[f"{width} bytes, {case.name}"]
        for side, access in zip(requests(case.plan, case.source_phase, case.target_phase), GLOBAL):
            counted, least = row[access][1], excess(side)
            ends = 2 * SECTOR / side.run if case.plan.file == "box_words.cu" and access == GLOBAL[1] else 0
            assert 0.875 * counted <= least + ends and least <= 1.125 * counted, (case.name, access, side)


@pytest.mark.parametrize("run, start", [(1, 1), (3, 1), (12, 4), (32, 32), (48, 32), (128, 1), (256, 8)])
def test_sectors_of_runs_far_apart_by_brute_force(run, start):
    """Runs at random places, read by consecutive requests of 128 bytes."""
    rng = np.random.default_rng(run)
    places = 1024 * np.arange(3000) + rng.integers(32 // start, size=3000) * start
    bytes_in_order = (places[:, None] + np.arange(run)).reshape(-1)
    requested = bytes_in_order[: len(bytes_in_order) // 128 * 128].reshape(-1, 128)
    counts = [len(set(row)) for row in (requested // 32).tolist()]
    assert Requests(4, run, start, 10**6).sectors == pytest.approx(sum(counts) / len(counts), rel=0.03)


def test_one_run_of_any_length_is_read_and_written_in_whole_sectors():
    for shape in ("f32[1000001]", "u8[4099]", "f32[3]", "f32[]"):
        source, target = requests(kernel_plan(gl.plan(shape, shape).move))
        assert excess(source) == excess(target) == 1, shape


@pytest.mark.parametrize(
    "source, target",
    [
        ("f32[1,100]{1,0}", "f32[1,100]{0,1:PD(64,101)}"),
        ("u8[1,32]{1,0}", "u8[1,32]{0,1:PD(8,33)}"),
        ("u8[1,3]{1,0}", "u8[1,3]{1,0:PD(8,4)}"),
        ("u8[1,1,3,8]{0,3,1,2:PD(1,2,3,8)}", "u8[1,1,3,8]{3,1,0,2:PD(8,1,4,8)}"),
        ("u8[3,1,100]{0,1,2:PD(3,8,100)}", "u8[3,1,100]{2,1,0:PD(4,2,100)}"),
    ],
)
def test_a_request_touches_no_fewer_sectors_than_the_ideal_and_no_more_than_its_lanes(source, target):
    plan = kernel_plan(gl.plan(source, target).move)
    for side in requests(plan):
        assert side.ideal <= side.sectors <= 32, side


def test_a_request_touches_no_more_sectors_than_the_array_has():
    source, target = requests(kernel_plan(gl.plan("f32[6,7]", "f32[6,7]{0,1}").move))
    assert source.sectors <= 6 and target.sectors <= 6  # 168 bytes


def test_a_row_that_is_read_again_and_again_costs_its_requests():
    """7 times 96 bytes: 3 sectors in all, but each request of 512 bytes asks for 16."""
    source, _ = requests(kernel_plan(move_of(4, [(24, 24, 1, 1), (7, 7, 0, 24)])))
    assert (source.sectors, source.ideal) == (16, 16)


def test_the_next_run_is_not_the_same_one_again():
    """Rows of 12 floats, 52 bytes apart, each read 5 times."""
    source, _ = requests(kernel_plan(move_of(4, [(12, 12, 1, 1), (5, 5, 0, 12), (400, 400, 13, 60)])))
    assert (source.run, source.step) == (48, 52) and excess(source) > 1


def test_channels_that_are_read_and_dropped_count():
    plan = kernel_plan(gl.plan("u8[3000,4000,3]{2,1,0:PD(3000,4000,4)}", "{1,0,2}").move)
    source, _ = requests(plan)
    assert plan.family == "channels" and (source.sectors, source.ideal) == (16, 12)


def test_nothing_is_read_when_everything_is_padding():
    source, target = requests(kernel_plan(gl.plan("f32[0,512]", "f32[0,512]{1,0:PD(4,512)}").move))
    assert source is None and excess(target) == 1


def test_a_column_of_single_elements_costs_a_sector_each():
    plan = kernel_plan(move_of(4, [(4096, 4096, 64, 1)]))
    assert plan.family == "gather"
    source, target = requests(plan)
    assert (source.sectors, source.ideal, excess(target)) == (32, 4, 1)
