"""What a plan explains about itself, and which kernel the named cases get."""

import itertools
import math
import re

import pytest

import gpulayout as gl
from gpulayout.choices.explain import explain
from gpulayout.cpu import native
from gpulayout.gpu.choose_kernel import kernel_plan
from gpulayout.gpu.devices import DEVICES, REFERENCE
from gpulayout.layout.patterns import dimension_labels
from gpulayout.layout.stride_table import stride_table
from tests.support.placed import pack_move, relayout_move


def explained(source, target):
    """The explanation for the reference device, whichever is at hand."""
    plan = gl.plan(source, target)
    return str(explain(plan.pieces, plan.source, plan.target, DEVICES[REFERENCE]))


# ---- text ----------------------------------------------------------------------------------------


def test_the_document_s_example(numpy_alone):
    assert (
        explained("f32[2,3]{1,0}", "f32[2,3]{0,1:PD(3,5)}")
        == f"""\
relayout f32[2,3]{{1,0}} -> f32[2,3]{{0,1:PD(3,5)}}
  read     24 bytes: 6 elements of 4 bytes
  written  60 bytes: 15 places, 9 of them padding (zeros, 60.0%)
  merged   2 dimensions into 2 axes, minor first in the target
    axis 0  y: 3 places (1 of them padding), a step is 12 bytes in the source, 4 in the target
    axis 1  x: 5 places (2 of them padding), a step is 4 bytes in the source, 12 in the target
  engine   {native.engine()}
  cpu      one np.copyto over 2 axes, padding filled first
  gpu      gather (gpl_gather in gather.cu), for buffers aligned to 16 bytes
    elements of 4 bytes, accesses of 4 bytes, 32-bit offsets, 1 block of 256 threads
    sectors of 32 bytes that a warp's request touches: read 1 (at least 1), written 2 (at least 2)
    model, not measured, for H100 SXM: the launch takes longer than moving the bytes
    why not faster: neighbours in the target are 12 bytes apart in the source, so whole rows cannot be copied
    why not faster: rows of 5 pixels would leave more than a fifth of all lanes idle, so a warp does not exchange \
channels between its registers
    why not faster: the runs of 5 and 3 elements are too short to fill 256 places of shared memory, so elements are \
moved one by one"""
    )


def test_places_are_counted_where_one_side_alone_is_packed():
    """The pieces at the edges of the tiles fill whole bytes."""
    assert "\n  written  32 bytes: 64 places, 29 of them padding (zeros, 45.3%)\n" in explained(
        "u4[7,5]{1,0}", "{1,0:T(4,4)E(4)}"
    )


def test_steps_of_packed_elements_are_places():
    text = explained("s4[3,4]{1,0:E(4)}", "{0,1:E(4)}")
    assert "    axis 0  y: 3 places, a step is 4 places in the source, 1 in the target\n" in text and "slot" not in text


def test_merged_and_dropped_dimensions_are_named():
    text = explained("f32[8,64,56,1,56]", "f32[8,64,56,1,56]{1,3,4,2,0}")
    assert "  merged   5 dimensions into 3 axes, minor first in the target; 1 of size 1 dropped\n" in text
    assert "    axis 0  d1: 64 places, a step is 12544 bytes in the source, 4 in the target\n" in text
    assert "    axis 1  d2*d4: 3136 places, a step is 4 bytes in the source, 256 in the target\n" in text
    assert "  written  6422528 bytes: 1605632 places, no padding\n" in text


@pytest.mark.parametrize(
    "value, shown",
    [
        ("", "zeros"),
        ("PV(zero)", "zero"),
        ("PV(lowest)", "lowest"),
        ("PV(2.5)", "2.5"),
        ("PV(unknown)", "unknown"),
        ("PV(-inf)", "-inf"),
    ],
)
def test_the_pad_is_named(value, shown):
    assert f": 4 places, 1 of them padding ({shown}, 25.0%)\n" in explained("f32[3]", f"f32[3]{{0:PD(4){value}}}")


@pytest.mark.parametrize(
    "source, target, lines",
    [
        (
            "f32[]",
            "f32[]",
            [
                "  read     4 bytes: 1 element of 4 bytes",
                "  merged   0 dimensions into 0 axes, minor first in the target",
                "  cpu      one np.copyto over 0 axes",
            ],
        ),
        ("u8[1]", "u8[1]", ["  read     1 byte: 1 element of 1 byte", "  written  1 byte: 1 place, no padding"]),
        (
            "f32[0,3]",
            "f32[0,3]{0,1}",
            [
                "  read     0 bytes: 0 elements of 4 bytes",
                "  written  0 bytes: 0 places, no padding",
                "  cpu      nothing to do",
                "  gpu      no launch: nothing to write",
            ],
        ),
        (
            "f32[0,3]",
            "f32[0,3]{0,1:PD(2,3)}",
            ["  written  24 bytes: 6 places, 6 of them padding (zeros, 100.0%)", "  cpu      one fill of 6 places"],
        ),
        (
            "f32[2,3]",
            "f32[2,3]{1,0:PD(2,4)}",
            ["  cpu      one np.copyto over 1 axis, padding filled first, runs of 12 bytes as one element"],
        ),
    ],
)
def test_plans_of_tiny_and_empty_arrays(numpy_alone, source, target, lines):
    found = explained(source, target).split("\n")
    for line in lines:
        assert line in found


@pytest.mark.parametrize(
    "source, target, said",
    [
        ("f32[1003,4001]", "{0,1}", "tile of 64 x 64 elements (minor in the target last)"),  # 32 along the 1003
        ("u8[1000,1000,3]", "{1,0,2}", "tile of 3 channels x 1024 pixels"),
        ("u8[3,1000,1000]", "{0,2,1}", "tile of 3 channels x 1024 pixels"),
        (
            "u8[9,300000]",
            "{0,1:PD(10,300000)}",
            "cache blocks of 13044 x 1 elements (minor in the target last), padding filled first;",
        ),
        ("u8[8,300000]", "{0,1}", "cache blocks of 15790 x 1 elements (minor in the target last);"),
        ("f32[40,40,40,41]", "{0,1,2,3}", "cache blocks of 41 x 40 x 1 x 14 elements"),
    ],
)
def test_sizes_of_tiles_are_listed_in_a_stated_order(numpy_alone, source, target, said):
    assert said in explained(source, target)


@pytest.mark.parametrize(
    "source, target, why",
    [
        ("f32[5,7]{1,0:PD(5,9)}", "{1,0}", "rows of 28 bytes are 36 bytes apart in the source"),
        ("f64[5,7]", "{1,0:PD(6,8)}", "rows of 56 bytes are padded to 64"),
    ],
)
def test_why_rows_are_not_a_single_run(source, target, why):
    assert f"{why}, so they cannot be copied as one run" in kernel_plan(gl.plan(source, target).move).reasons


def test_the_prompt_shows_an_explanation_as_text():
    explanation = gl.plan("f32[2,3]", "f32[2,3]{0,1}").explain()
    assert isinstance(explanation, str) and repr(explanation) == str(explanation) == "".join(explanation)


def test_dimensions_have_the_document_s_letters_up_to_rank_4():
    assert [dimension_labels(rank) for rank in range(6)] == [
        (),
        ("x",),
        ("y", "x"),
        ("z", "y", "x"),
        ("p", "z", "y", "x"),
        ("d0", "d1", "d2", "d3", "d4"),
    ]


# ---- the parts of a split dimension have their own names ------------------------------------------

PARTS = {"h": 2, "d": 3, "s": 4, "t": 5}


def axis_names(plan):
    """The label of each axis in the explanation, minor first in the target."""
    return re.findall(r"^ +axis \d+  (.+?): ", plan.explain(), re.MULTILINE)


@pytest.mark.parametrize("order", list(itertools.permutations("hdst")), ids="".join)
def test_an_axis_has_as_many_places_as_the_parts_in_its_label(order):
    plan = gl.plan("f32[6,20]", f"(h=2 d) (s=4 t) -> {' '.join(order)}")
    labels = axis_names(plan)
    for label, axis in zip(labels, plan.move.axes):
        assert "(" in label or math.prod(PARTS[name] for name in label.split("*")) == axis.extent
    if len(stride_table(plan.target).digits) == len(order):  # no parts stay together in the target
        letters = "".join(re.findall("[a-z]", " ".join(reversed(labels))))
        assert letters == "".join(order) and not any(label.startswith("(") for label in labels if "*" not in label)


@pytest.mark.parametrize(
    "source, pattern, labels",
    [
        ("f32[32,16]", "(h=8 d) s -> h s d", ["d", "s", "h"]),
        ("f32[32,16]", "(h=8 d) s -> d s h", ["h", "d*s"]),
        ("f32[32,16]", "(h=8 d) s -> h d s", ["(h d)*s"]),  # nothing moves: one axis
        ("f32[32,16]", "(h=8 d) s -> s h d", ["(h d)", "s"]),  # both parts together
        ("f32[32,16]{0,1}", "(h=8 d) s -> h s d", ["d", "s", "h"]),
        ("s4[32,16]{1,0:E(4)}", "(h=8 d) s -> h s d", ["d", "s", "h"]),
        ("f32[32,16]", "(h=4 d=4 e) s -> d s h e", ["e", "h", "s", "d"]),
        ("f32[32,16]", "(h=4 d=4 e) s -> (d e) s h", ["(h d e)", "(h d e)*s"]),  # d and e share a digit of the target
    ],
)
def test_axes_are_called_by_the_parts_that_they_cover(source, pattern, labels):
    assert axis_names(gl.plan(source, pattern)) == labels


def test_packed_elements_that_move_in_whole_bytes_have_the_same_names():
    target = "s4[32,16]{1,0:T(4,16)(8,1,1,16)E(4)}"  # of the pattern (h=8 d) s -> d h s
    plan = gl.plan("s4[32,16]{1,0:E(4)}", target, names=["(h d)", "s"])
    assert plan.move.stride_unit == "byte" and axis_names(plan) == ["s", "h", "d"]


def test_tiles_of_the_source_do_not_change_the_names():
    plan = gl.plan("f32[32,16]{1,0:T(8,16)}", "(h=8 d) s -> h s d")
    assert set(axis_names(plan)) <= {"d", "s", "h", "h*s"}


# ---- which kernel --------------------------------------------------------------------------------

CASES = {
    # name: (source, target, kernel, bytes of an element of the plan)
    "contiguous": ("f32[1000,1000]{1,0}", "f32[1000,1000]{1,0}", "gpl_copy", 16),
    "contiguous, odd count": ("f32[333,3]{1,0}", "f32[333,3]{1,0}", "gpl_copy", 4),
    "contiguous in another order": ("u8[64,32,16]{0,1,2}", "u8[64,32,16]{0,1,2}", "gpl_copy", 16),
    "size-1 dimensions moved about": ("f32[1,640,1,640]{3,2,1,0}", "f32[1,640,1,640]{0,3,1,2}", "gpl_copy", 16),
    "one element": ("f32[]", "f32[]", "gpl_copy", 4),
    "NCHW to NHWC": ("f32[8,64,56,56]{3,2,1,0}", "f32[8,64,56,56]{1,3,2,0}", "gpl_tile_vector", 4),
    "NHWC to NCHW": ("f32[8,56,56,64]{3,2,1,0}", "f32[8,56,56,64]{2,1,3,0}", "gpl_tile_vector", 4),
    "NCHW to NHWC with 3 channels": ("f32[8,3,224,224]{3,2,1,0}", "f32[8,3,224,224]{1,3,2,0}", "gpl_channels", 4),
    "attention heads (0,2,1,3)": ("bf16[8,1024,16,64]{3,2,1,0}", "bf16[8,1024,16,64]{3,1,2,0}", "gpl_rows", 16),
    "attention heads of odd size": ("bf16[8,1024,16,63]{3,2,1,0}", "bf16[8,1024,16,63]{3,1,2,0}", "gpl_rows", 2),
    "rows of a padded pitch": ("f32[1000,1000]{1,0}", "f32[1000,1000]{1,0:PD(1000,1024)}", "gpl_rows", 4),
    "rows out of a padded pitch": ("f32[1000,1000]{1,0:PD(1000,1024)}", "f32[1000,1000]{1,0}", "gpl_rows", 16),
    "only padding": ("f32[0,5]{1,0}", "f32[0,5]{1,0:PD(4,5)}", "gpl_rows", 4),
    "2-D, aligned": ("f32[4096,4096]{1,0}", "f32[4096,4096]{0,1}", "gpl_tile_vector", 4),
    "2-D, aligned, 1 byte": ("u8[4096,4096]{1,0}", "u8[4096,4096]{0,1}", "gpl_tile_vector", 1),
    "2-D, aligned, 2 bytes": ("bf16[4096,4096]{1,0}", "bf16[4096,4096]{0,1}", "gpl_tile_vector", 2),
    "2-D, aligned, 8 bytes": ("f64[4096,4096]{1,0}", "f64[4096,4096]{0,1}", "gpl_tile_vector", 8),
    "2-D, aligned, 16 bytes": ("c128[4096,4096]{1,0}", "c128[4096,4096]{0,1}", "gpl_tile_vector", 16),
    "2-D, odd": ("f32[4095,4097]{1,0}", "f32[4095,4097]{0,1}", "gpl_tile_any", 4),
    "2-D, into an aligned padded pitch": (
        "f32[4096,4096]{1,0}",
        "f32[4096,4096]{0,1:PD(4100,4096)}",
        "gpl_tile_vector",
        4,
    ),
    "2-D, narrow": ("f32[100000,3]{1,0}", "f32[100000,3]{0,1}", "gpl_channels", 4),
    "2-D, tiny": ("f32[2,3]{1,0}", "f32[2,3]{0,1}", "gpl_gather", 4),
    "runs of 16 bytes are one element": ("f32[512,512,4]{2,1,0}", "f32[512,512,4]{2,0,1}", "gpl_tile_vector", 16),
    "runs of 8 bytes are one element": ("u8[512,512,8]{2,1,0}", "u8[512,512,8]{2,0,1}", "gpl_tile_vector", 8),
    "runs of 12 bytes are not one element": ("f32[512,512,3]{2,1,0}", "f32[512,512,3]{2,0,1}", "gpl_rows", 4),
    "3-D, reversed": ("f32[128,96,160]{2,1,0}", "f32[128,96,160]{0,1,2}", "gpl_tile_vector", 4),
    "all short": ("f32[8,8,8,8,8,8]", "f32[8,8,8,8,8,8]{0,1,2,3,4,5}", "gpl_tile_nd", 4),
    "all short and few": ("f32[2,2,2,2,2]{4,3,2,1,0}", "f32[2,2,2,2,2]{0,1,2,3,4}", "gpl_gather", 4),
}
FAMILIES = {
    "gpl_copy": "copy",
    "gpl_rows": "rows",
    "gpl_channels": "channels",
    "gpl_tile_vector": "tile",
    "gpl_tile_any": "tile",
    "gpl_tile_nd": "tile",
    "gpl_gather": "gather",
}


@pytest.mark.parametrize("name", CASES)
def test_named_cases_get_their_kernel(name):
    source, target, kernel, element_bytes = CASES[name]
    plan = kernel_plan(gl.plan(source, target).move)
    assert (plan.kernel, plan.family, plan.element_bytes) == (kernel, FAMILIES[kernel], element_bytes)
    assert f"  gpu      {plan.family} ({kernel} in {plan.file}), for buffers aligned to 16 bytes\n" in explained(
        source, target
    )
    for reason in plan.reasons:
        assert f"\n    why not faster: {reason}" in explained(source, target)


def test_all_kernels_are_named():
    assert {kernel for _, _, kernel, _ in CASES.values()} == set(FAMILIES)


ENDINGS = re.compile(", so (they cannot be copied as one run|whole rows cannot be copied|elements are .* one by one)$")


def test_a_kernel_below_the_fastest_of_its_kind_has_a_reason():
    for name, (source, target, kernel, _) in CASES.items():
        plan = kernel_plan(gl.plan(source, target).move)
        if kernel in ("gpl_gather", "gpl_tile_any", "gpl_tile_nd"):
            assert plan.reasons, name
        if plan.vector_bytes == 16 and kernel == "gpl_copy" and plan.element_bytes == 16:
            assert not plan.reasons, name
        if plan.family != "copy":
            assert any(ENDINGS.search(reason) for reason in plan.reasons), name


def test_every_reason_is_a_sentence_with_its_consequence():
    """What is the case, and what the kernel does because of it."""
    moves = [gl.plan(source, target).move for source, target, _, _ in CASES.values()]
    packed = [gl.plan("u4[9,7]{1,0:E(4)}", target).move for target in ("{1,0}", "{0,1:E(4)}", "{1,0:PD(9,8)E(4)}")]
    plans = [kernel_plan(move) for move in (*moves, *packed)]
    reasons = [reason for plan in plans for reason in plan.reasons]
    assert len(set(reasons)) > 15
    assert [reason for reason in reasons if ", so " not in reason or ": " in reason.partition(", so ")[0]] == []


def test_only_another_bit_order_is_the_reason():
    """Every run begins and ends with a byte; a packed element only changes its place within it."""
    big = gl.parse_layout("{1,0:E(2)}").replace(bit_order="big")
    said = "the bit orders of source and target differ, so elements of 2 bits change places within their bytes"
    assert explained("u2[3,8]{1,0:E(2)}", big).count(f"    why not faster: {said}") == 1
    assert "the bit orders" not in explained("u2[3,8]{1,0:E(2)}", "{0,1:E(2)}")


def test_a_source_of_every_second_element_gets_no_tile():
    shape = gl.parse_shape("f32[64,64]{0,1}")
    plan = kernel_plan(pack_move((512, 8), shape))
    assert plan.kernel == "gpl_gather" and plan.reasons[-1] == (
        "no axis of the source is contiguous, so elements are read one by one"
    )


@pytest.mark.parametrize("phase, kernel", [(0, "gpl_tile_vector"), (4, "gpl_tile_any")])
def test_an_unaligned_address_rules_out_vector_accesses(phase, kernel):
    shape = gl.parse_shape("f32[4096,4096]{0,1}")
    move = relayout_move(shape.with_layout(None), shape)
    assert kernel_plan(move, 0, phase).kernel == kernel_plan(move, phase, 0).kernel == kernel


def test_kernel_plans_are_frozen_hashable_values():
    move = gl.plan("f32[64,64]", "f32[64,64]{0,1}").move
    assert kernel_plan(move) is kernel_plan(move) and hash(kernel_plan(move)) == hash(kernel_plan(move, 0, 0))
    assert kernel_plan(move) != kernel_plan(move, 4, 0)
    with pytest.raises(AttributeError):
        kernel_plan(move).family = "copy"


@pytest.mark.parametrize(
    "source, target, said",
    [
        ("f32[2,0]", "f32[2,0]{1,0:PD(2,3)T(2,2,2)}", "  merged   2 dimensions into 1 axis,"),
        ("u4[1,0]", "u4[1,0]{1,0:PD(4,5)T(8)(1,4)E(4)}", "    axis 0  -: "),
        ("u4[0]{0:E(4)}", "u4[0]{0:T(8)E(4)}", "  cpu      nothing to do"),
        ("u4[0]{0:T(8)E(4)}", "u4[0]", "  gpu      no launch: nothing to write"),
    ],
)
def test_tiled_targets_without_elements_are_explained(source, target, said):
    assert said in explained(source, target) and "of size 1 dropped" not in explained(source, target)
