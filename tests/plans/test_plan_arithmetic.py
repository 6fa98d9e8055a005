"""Plans with arithmetic: what they are as values, their blocks and passes, and what they say."""

import itertools
import pickle

import numpy as np
import pytest

import gpulayout as gl
from tests.support.arithmetic_cases import in_every_place
from tests.support.block_cases import smallest_limit

CASES = [  # source, target, keywords
    ("u8[6,8]", "f32[6,8]{0,1:PD(8,9)PV(7)}", {"scale": 0.3, "shift": np.arange(8)}),
    ("u8[6,8]", "{0,1}", {"dtype": "bf16", "scale": np.arange(6).reshape(3, 2), "shift": -1}),
    ("f32[6,8]", "s8[6,8]{0,1:L(50)}", {"scale": 3, "shift": np.arange(12).reshape(6, 2)}),
    ("f64[6,8]{0,1:PD(7,8)}", "f16[6,8]{1,0:T(2,4)(2,1)}", {"scale": np.arange(48).reshape(6, 8)}),
    ("u4[6,8]{1,0:E(4)}", "f32[6,8]{0,1}", {"scale": np.arange(1, 9), "shift": np.arange(3)[:, None]}),
    ("f32[6,8]", "u4[6,8]{0,1:T(2,2)E(4)}", {}),
    ("u8[2,4,6,3]", "n h w c -> n c h w", {"dtype": "f32", "scale": [1, 2, 3], "shift": 0.5}),
    ("s32[5]", "f32[5]", {"scale": 1 / 3, "shift": np.arange(5)}),
    ("s32[]", "f32[]", {"scale": 1 / 3}),
    ("u8[0,3]", "f32[0,3]{0,1:PD(4,5)}", {"scale": np.zeros((0, 3))}),
    ("f32[7,5]", "f32[7,5]{0,1}", {"scale": 2}),
    ("f8e4m3fn[7,9]", "bf16[7,9]{0,1:T(2,4)}", {"scale": np.arange(1, 10).reshape(3, 3), "block": (3, 4)}),
    ("f32[7,9]", "f8e4m3fn[7,9]", {"scale": np.arange(1, 4).reshape(3, 1), "block": 3, "divide": True}),
]
ids = [f"{source}-{target}" for source, target, _ in CASES]
each_case = pytest.mark.parametrize("source, target, options", CASES, ids=ids)


def planned(source, target, options):
    dtype = {"dtype": gl.parse_shape(target).element_type} if "[" in target else {}
    return gl.plan(source, target, **dtype | options)


def buffer_of(shape):
    codes = np.random.default_rng(1).integers(0, 100, shape.buffer_length)
    return codes.astype(shape.buffer_dtype)


def least(plan):
    """The bytes of the smallest block."""
    return smallest_limit(plan.source, plan.target, dtype=plan.target.element_type)


def limits_of(plan):
    most = plan.source.nbytes + plan.target.nbytes + 1
    return range(max(least(plan), 1), most + 1, max(most // 12, 1))


@each_case
def test_blocks_write_every_byte_of_the_whole(source, target, options):
    plan = planned(source, target, options)
    buffer = buffer_of(plan.source)
    wanted = plan(buffer)
    for limit in limits_of(plan):
        out = np.full(plan.target.nbytes, 0xAB, np.uint8).view(plan.target.buffer_dtype)
        for block in plan.blocks(limit):
            block(buffer, out=out)
        assert out.tobytes() == wanted.tobytes(), limit


@each_case
def test_passes_change_elements_once(source, target, options):
    plan = planned(source, target, options)
    buffer = buffer_of(plan.source)
    for limit in limits_of(plan):
        parts = plan.passes(limit)
        made = buffer
        for part in parts:
            made = part(made)
        assert made.tobytes() == plan(buffer).tobytes()
        assert [part.change is None for part in parts].count(False) == 1
        if len(parts) == 2:
            narrow = min(plan.source.bits_per_element, plan.target.bits_per_element)
            assert parts[0].target.bits_per_element in (narrow, 8)


def test_both_ways_have_two_passes_somewhere():
    """The case above is empty without them: narrow elements go through the scratch file."""
    for source, target, kept in (
        ("u8[600,800]", "f32[600,800]{0,1}", "u8"),
        ("f32[600,800]", "u8[600,800]{0,1}", "u8"),
    ):
        parts = gl.plan(source, target, dtype=target.partition("[")[0]).passes(40000)
        assert [part.target.element_type for part in parts] == [kept, target.partition("[")[0]]


@each_case
def test_a_stream_is_the_whole(source, target, options):
    plan = planned(source, target, options)
    buffer = buffer_of(plan.source)
    out = np.zeros(plan.target.buffer_length, plan.target.buffer_dtype)
    plan.stream(buffer, out=out, max_bytes=max(2 * least(plan), 300))
    assert out.tobytes() == plan(buffer).tobytes()


@pytest.mark.parametrize(
    "options",
    [
        {"unit": True},
        {"unit": True, "std": 2},
        {"unit": True, "mean": 2},
        {"mean": 2},
        {"mean": 1, "std": [3, 4]},
        {"std": 255},
        {"scale": 2},
        {"shift": 2},
        {"scale": 2, "shift": [0.5, 1]},
        {"scale": 2, "zero_point": [3, 7]},
        {"scale": 2, "dtype": "f8e4m3fn", "saturate": False},
        {"scale": 2, "divide": True},
        {"scale": [2, 3], "divide": False},
        {"scale": [[2], [3]], "block": 2},
        {"scale": [[2], [3]], "shift": [3, 7], "block": (2, 1), "divide": True},
    ],
    ids=str,
)
def test_a_plan_is_made_again_from_public_names(options):
    for source, more in (("u8", {}), ("f32", {"dtype": "s8"})):
        if source == "f32" and not {*options} <= {"scale", "zero_point", "divide", "block"}:
            continue
        plan = gl.plan(f"{source}[3,2]", "{0,1}", **{"dtype": "f32", **options, **more})
        pickled = pickle.dumps(plan)
        assert pickle.loads(pickled) == plan and b"gpulayout.plans" not in pickled


@each_case
def test_a_plan_is_a_value(source, target, options):
    plan = planned(source, target, options)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan == planned(source, target, options) and hash(again) == hash(plan)
    assert repr(again) == repr(plan) and repr(plan).endswith(f" with {plan.change.arithmetic.form}")
    assert again(buffer_of(plan.source)).tobytes() == plan(buffer_of(plan.source)).tobytes()
    assert not any(values.flags.writeable for values in again.change.values)
    others = [gl.plan("u8[3]", "f32[3]", dtype="f32", **each) for each in ({}, {"scale": 2}, {"scale": 3})]
    assert len({plan, *others}) == 4


@each_case
def test_every_plan_is_explained_and_drawn(source, target, options):
    plan = planned(source, target, options)
    text = str(plan.explain(max_bytes=1 << 20))
    assert f"\n  read     {plan.bytes_read} byte" in text and f"\n  written  {plan.bytes_written} byte" in text
    assert f"\n  changed  {plan.change.arithmetic.form} from {plan.source.element_type} " in text
    assert f"to {plan.target.element_type}\n" in text and "bitcast" not in text
    assert f"{plan.change.arithmetic.form} from" in str(plan.draw()) and "<svg" in plan.draw().svg
    assert ("\n  before   " in text) == plan.source.is_packed


def test_the_steps_are_explained():
    plan = gl.plan("u8[6,8]", "f32[6,8]{0,1:PD(8,8)}", dtype="f32", scale=2, shift=np.arange(8))
    assert str(plan.explain()).splitlines()[:9] == [
        "relayout u8[6,8]{1,0} -> f32[6,8]{0,1:PD(8,8)}",
        "  read     48 bytes: 48 elements of 1 byte",
        "  written  256 bytes: 64 places, 16 of them padding (zeros, 25.0%)",
        "  changed  scale and shift from u8 in f32: multiply by 1 number, add 8 numbers; to f32",
        "  pieces   1 copy and 1 fill of 64 bytes of padding, in 2 launches on a GPU: cut at tiles, padding and blocks",
        "    the rest describes the largest piece, 75.0% of the bytes written",
        "  merged   2 dimensions into 2 axes, minor first in the target",
        "    axis 0  y: 6 places, a step is 8 bytes in the source, 4 in the target",
        "    axis 1  x: 8 places, a step is 1 byte in the source, 32 in the target",
    ]
    assert "\n    elements of 1 byte become 4 bytes, reads of 1 byte, writes of 4 bytes" in str(plan.explain())
    assert "\n    scale and shift on the way from u8 to f32, about 4 instructions for each element\n" in str(
        plan.explain()
    )
    packed = str(gl.plan("u4[5,3]{1,0:E(4)}", "{0,1}", dtype="f32").explain())
    assert "\n  changed  cast from u4 to f32\n" in packed
    assert "\n  before   the source becomes a dense array of u4, 15 bytes, by 1 piece\n" in packed


@pytest.mark.one_in(4)
@pytest.mark.parametrize("block", [None, 3, (4, 5), (1, 7)])
@pytest.mark.parametrize("kinds", [*itertools.product(("one", "each", "block"), repeat=2)], ids="-".join)
def test_a_part_of_a_parameter_has_the_numbers_of_its_box(kinds, block):
    sizes, blocks = [], block if isinstance(block, tuple) else (block, block)
    for kind, own, size in zip(kinds, (6, 8), blocks):
        sizes.append({"one": 1, "each": own, "block": -(-own // size) if size else own // 2}[kind])
    parameter = np.arange(int(np.prod(sizes)), dtype=np.float32).reshape(sizes)
    change = gl.plan("u8[6,8]", "F", dtype="f32", scale=parameter, block=block).change
    whole = in_every_place(parameter, (6, 8), block)
    for rows, columns in itertools.product(itertools.combinations(range(7), 2), itertools.combinations(range(9), 2)):
        part = change.part((6, 8), (rows, columns))
        box = whole[slice(*rows), slice(*columns)]
        (found,) = part.parameters
        assert (in_every_place(found.values, box.shape, found.blocks) == box).all() and found.values.flags.c_contiguous
        again = gl.plan(gl.Shape("u8", box.shape), "F", **part.options).change
        assert again.key == part.key


def test_a_part_with_blocks_of_two_sizes_is_asked_for_again():
    """Neither `block` says both, so their sizes must divide the box."""
    given = {"scale": np.arange(12).reshape(3, 4), "shift": np.arange(4).reshape(2, 2)}
    change = gl.plan("u8[6,8]", "F", dtype="f32", **given).change
    for rows, columns in itertools.product(itertools.combinations(range(7), 2), itertools.combinations(range(9), 2)):
        part = change.part((6, 8), (rows, columns))
        dimensions = rows[1] - rows[0], columns[1] - columns[0]
        assert gl.plan(gl.Shape("u8", dimensions), "F", **part.options).change.key == part.key
