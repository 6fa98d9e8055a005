"""The benchmarks' lists: the 57 tensor transpositions, the kernels they get, and the goals."""

import math

import numpy as np
import pytest

import gpulayout as gl
from benchmarks.cases.build import large_transpose
from benchmarks.cases.case import IndexCase
from benchmarks.cases.cpu import CPU_CASES
from benchmarks.cases.gpu import GPU_CASES, GPU_SMALL_CASES, LEFT_OUT
from benchmarks.cases.select import quick
from benchmarks.cases.ttc import TRANSPOSITIONS, TTC_CASES, ttc_case, ttc_cases
from benchmarks.cases.wanted import transpose_goal
from benchmarks.peers.inputs import input_and_output
from benchmarks.record import kernel_of

BY_NAME = {case.name: case for case in GPU_CASES}

# ---- the 57 ------------------------------------------------------------------------------------------------


def test_the_57_are_19_orders_of_three_sizes_each_about_200_megabytes():
    assert len(TRANSPOSITIONS) == len(set(TRANSPOSITIONS)) == 57
    assert [len(dimensions) for dimensions, _ in TRANSPOSITIONS] == [2] * 3 + [3] * 9 + [4] * 15 + [5] * 15 + [6] * 15
    for dimensions, order in TRANSPOSITIONS:
        assert sorted(order) == list(range(len(dimensions))) and list(order) != sorted(order)
        assert 200e6 < 4 * math.prod(dimensions) < 245e6
    for first in range(0, 57, 3):
        trio = TRANSPOSITIONS[first : first + 3]
        assert len({order for _, order in trio}) == 1
        products = [math.prod(dimensions) for dimensions, _ in trio]
        assert max(products) < 1.2 * min(products)


# The order says the family: where dimension 0 stays, whole rows move.
FAMILIES = {order: "rows" if order[0] == 0 else "tile" for _, order in TRANSPOSITIONS}


@pytest.mark.parametrize("element_type", ["f32", "f64"])
@pytest.mark.parametrize("number", range(57))
def test_the_57_have_the_family_their_order_says(number, element_type):
    dimensions, order = TRANSPOSITIONS[number]
    plan = kernel_of(ttc_cases(element_type)[number])
    assert plan.family == FAMILIES[order], (dimensions, order, plan.reasons)


def test_a_case_of_the_57_counts_dimensions_from_the_most_minor():
    case = ttc_case("f32", (368, 64, 2307), (0, 2, 1), "TTC")
    assert case.dimensions == (2307, 64, 368) and case.order == (1, 0, 2)
    assert case.name == "f32 368,64,2307 order 0 2 1" and case.goal == 0.75
    with pytest.raises(ValueError, match="not one of the 57"):
        ttc_case("f32", (368, 64, 2308), (0, 2, 1), "TTC")


# ---- the instances -----------------------------------------------------------------------------------------

GATHERED = {"f32 63x70x1001, all backwards"}  # no kernel but the gather walks a contiguous axis backwards


@pytest.mark.parametrize("case", GPU_CASES, ids=lambda case: case.name)
def test_no_instance_is_gathered(case):
    plan = kernel_of(case)
    assert isinstance(case, IndexCase) if plan is None else (plan.family == "gather") == (case.name in GATHERED)


def test_names_are_unique_and_fit_the_table():
    for listed in (GPU_CASES, GPU_SMALL_CASES, CPU_CASES, TTC_CASES):
        assert len({case.name for case in listed}) == len(listed)
    assert [case.element_type for case in TTC_CASES] == ["f32"] * 57 + ["f64"] * 57
    assert max(len(case.name) for case in GPU_CASES) <= 44
    assert all("partial tiles" in why for why in LEFT_OUT.values())


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("c128 8192x8192", 0.95),
        ("u8 32768x8192", 0.92),
        ("f32 8191x8209, odd", 0.85),
        ("f16 16381x8209, odd", 0.75),
        ("u8 32749x8191, odd", 0.60),
        ("f32 50000000x3, to planes", 0.90),
        ("f32 100000000x2", None),
        ("f16 attention BSHD to BHSD 8x4096x32x128", 0.95),
        ("unpack s8 48 channels in 64, 1024x48x56x56", 0.92),
        ("pack u4 32768x32768", 0.92),
        ("u4 16385x65537, packed, odd", None),
        ("delinearize rank 6 int32", 0.88),
        ("f32 384,59,2320 order 2 1 0", 0.75),
        ("f64 3^18 reversed", None),
        ("f32 32x32", None),
    ],
)
def test_the_fraction_of_a_copy_that_is_wanted(name, goal):
    assert BY_NAME[name].goal == goal


def test_a_transpose_is_aligned_where_both_extents_are_whole_vectors():
    assert (
        transpose_goal(4, 8, 12),
        transpose_goal(4, 8, 13),
        transpose_goal(1, 17, 32),
        transpose_goal(4, 4, 1000),
    ) == (0.95, 0.85, 0.60, None)
    assert (
        large_transpose("n", "f64", 7, 100, 102).goal == 0.95 and large_transpose("n", "f64", 7, 100, 101).goal == 0.85
    )


@pytest.mark.parametrize(
    ("name", "moved", "allocated"),
    [
        ("f32 8192x8192", 2 * 8192**2 * 4, 2 * 8192**2 * 4),
        ("pack f32 8191x8191 in 8191x8192", 4 * 8191 * (8191 + 8192), 4 * 8191 * (8191 + 8192)),
        ("unpack f32 8191x8191 in 8191x8192", 4 * 8191 * 8191 * 2, 4 * 8191 * (8191 + 8192)),
        ("linearize rank 3 int32", 2**31, 2**31),
        ("f32 255x10x24x35 out of rows of 40", 2 * 4 * 255 * 10 * 24 * 35, 4 * 255 * 10 * 24 * (40 + 35)),
        ("pack u4 32768x32768", 2**30 + 2**29, 2**31 + 2**29),
        ("unpack u1 32768x32768", 2**30 + 2**27, 2**31 + 2**27),
        ("u4 32768x32768, packed", 2**30, 2**32),
        ("u4 16385x65537, packed, odd", 16385 * 65537 + 1, 4 * 16385 * 65537 + 1),
    ],
)
def test_the_bytes_of_a_case_are_those_read_and_those_written_once(name, moved, allocated):
    assert (BY_NAME[name].bytes_moved, BY_NAME[name].bytes_allocated) == (moved, allocated)


def test_a_case_with_tiles_is_a_permutation_for_the_peers():
    there, back = (case for case in GPU_CASES if case.group == "tiles" and case.element_type == "f16")
    assert (
        str(there.target) == str(back.source) == "f16[8192,8192]{1,0:T(8,128)(2,1)}"
        and str(there.source) == "f16[8192,8192]{1,0}"
    )
    assert (
        there.dimensions == (1024, 4, 2, 64, 128)
        and there.goal == back.goal == 0.85
        and there.bytes_moved == 4 * 8192**2
    )
    for case in quick([there, back]):
        given = np.arange(math.prod(case.dimensions), dtype=np.uint16).view(np.float16)
        moved = gl.relayout(given, case.source, case.target)
        assert moved.tobytes() == given.reshape(case.dimensions).transpose(case.order).tobytes()


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("pack u4 8192x4096", "u4[8192,4096]{1,0}", "u4[8192,4096]{1,0:E(4)}"),
        ("unpack u1 8192x4096", "u1[8192,4096]{1,0:E(1)}", "u1[8192,4096]{1,0}"),
        ("u4 4097x8193, packed, odd", "u4[4097,8193]{1,0:E(4)}", "u4[4097,8193]{0,1:E(4)}"),
        ("u4 8192x4096 T(8,128)(8,1)E(4), to tiles", "u4[8192,4096]{1,0:E(4)}", "u4[8192,4096]{1,0:T(8,128)(8,1)E(4)}"),
        (
            "u4 8192x4096 T(8,128)(8,1)E(4), from tiles",
            "u4[8192,4096]{1,0:T(8,128)(8,1)E(4)}",
            "u4[8192,4096]{1,0:E(4)}",
        ),
    ],
)
def test_packed_cases_are_relayouts(name, source, target):
    case = next(case for case in CPU_CASES if case.name == name)
    assert (str(case.source), str(case.target)) == (source, target) and kernel_of(case).family == "bits"


@pytest.mark.parametrize("listed", [GPU_CASES, CPU_CASES, TTC_CASES], ids=["GPU", "CPU", "TTC"])
def test_quick_cases_are_small_and_of_the_same_kind(listed):
    for case, small in zip(listed, quick(listed)):
        assert type(small) is type(case) and (small.name, small.order) == (case.name, case.order)
        assert small.bytes_allocated < 2e6
        assert "packed, odd" not in case.name or math.prod(small.dimensions) % 2


@pytest.mark.parametrize(
    ("name", "matrices"),
    [
        ("f32 8192x8192", (1, 8192, 8192)),
        ("f16 NCHW to NHWC 256x64x56x56", (256, 64, 3136)),
        ("f16 65536x100x6 to 6x100x65536", None),
        ("f16 attention BSHD to BHSD 8x4096x32x128", None),
        ("f16 attention K transposed 8x32x4096x128", (256, 4096, 128)),
        ("pack f32 8191x8191 in 8191x8192", None),
        ("u4 32768x32768, packed", None),
        ("f64 3^18 cyclic", (1, 3**17, 3)),
    ],
)
def test_which_cases_are_matrices(name, matrices):
    assert BY_NAME[name].as_matrices() == matrices


# ---- the inputs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", ["f32", "f64"])
def test_where_a_peer_computes_the_inputs_are_ordinary_numbers(element_type):
    given, _ = input_and_output(np, large_transpose("n", element_type, 300, 400), seed=3)
    size = np.abs(given)
    assert np.isfinite(given).all() and size.max() < 2 and size.min() > np.finfo(given.dtype).tiny
    assert len(np.unique(given)) == given.size


def test_unpacked_elements_lie_in_the_low_bits_and_packed_ones_everywhere():
    for bits, name in ((4, "u4"), (1, "u1")):
        unpacked, packed = (
            input_and_output(np, case, seed=1) for case in quick(GPU_CASES) if case.name[-14:] == f"{name} 32768x32768"
        )
        assert (
            unpacked[0].shape == packed[1].shape == (unpacked[1].size * 8 // bits,)
            and packed[0].shape == unpacked[1].shape
        )
        assert len(np.unique(unpacked[0])) == 2**bits == unpacked[0].max() + 1 and len(np.unique(packed[0])) == 256


def test_a_strided_case_gets_a_view_into_a_larger_array():
    cut, rows, flipped = (quick([case])[0] for case in GPU_CASES if case.group == "strided")
    given, out = input_and_output(np, cut, seed=1)
    assert given.shape == cut.dimensions and given.strides[-2] == 4 * cut.cut_from[-1] and out.size == given.size
    assert [step > 0 for step in input_and_output(np, rows, seed=1)[0].strides] == [False, False, True]
    assert all(step < 0 for step in input_and_output(np, flipped, seed=1)[0].strides)
