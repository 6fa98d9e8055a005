"""The first warp's requests: their sectors, and that they fit the traffic model's average over all warps."""

import pytest

import gpulayout as gl
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.first_warp import first_warp, sectors_of
from gpulayout.gpu.traffic import LANES, requests
from tests.kernels.test_trace import aligned_cases
from tests.support.kernel_cases import WIDTHS


def mean_sectors(side):
    """Of the requests in which all lanes take part."""
    counts = [len(sectors_of(request)) for request in side if len(request) == LANES]
    return sum(counts) / len(counts)


@pytest.mark.parametrize("width", WIDTHS)
def test_requests_of_aligned_moves_touch_as_many_sectors_as_the_model_says(width):
    for case in aligned_cases(width):
        found = first_warp(case.plan)
        for side, model in zip(found, requests(case.plan)):
            assert mean_sectors(side) == model.sectors, case.name


@pytest.mark.parametrize(
    "source, target, reads, writes",
    [
        ("f32[2,3]", "{0,1:PD(3,5)}", [1], [2]),  # 24 bytes, and 60 with padding
        ("f32[64,64]", "{0,1}", [16] * 4, [16] * 4),
    ],
)
def test_sectors_of_named_moves(source, target, reads, writes):
    found = first_warp(kernel_plan(gl.plan(source, target).move))
    assert [[len(sectors_of(request)) for request in side] for side in found] == [reads, writes]


def test_every_element_of_a_small_array_is_moved_once():
    found = first_warp(kernel_plan(gl.plan("f32[2,3]", "{0,1:PD(3,5)}").move))
    assert [access.offset for access in found.reads[0]] == [0, 12, 4, 16, 8, 20]
    assert [access.offset for request in found.writes for access in request] == list(range(0, 60, 4))


@pytest.mark.parametrize(
    "source, target",
    [
        ("u8[999,998]", "{0,1}"),
        ("f32[200,33,31]", "{1,2,0}"),
        ("u8[3,3,3,3,3,3,3,3,3]", "{0,1,2,3,4,5,6,7,8}"),
        ("s4[64,64]{1,0:E(4)}", "{0,1:E(4)}"),
    ],
)
def test_kernels_that_are_not_followed_give_none(source, target):
    assert first_warp(kernel_plan(gl.plan(source, target).move)) is None
