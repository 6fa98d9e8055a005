"""Layouts and shapes as values: equality, hashes, immutability, pickle and copy."""

import base64
import copy
import dataclasses
import itertools
import json
import os
import pathlib
import pickle
import pickletools
import subprocess
import sys

import pytest

import gpulayout as gl
from gpulayout import Layout, Shape
from gpulayout.requests.shape_arguments import as_target

TEXTS = (
    "f32[]",
    "f32[2,3]{1,0}",
    "bf16[2,3]{0,1}",
    "f32[2,3]{0,1:PD(3,5)}",
    "f32[2,3]{0,1:PD(3,5)PV(lowest)}",
    "f32[2,3]{0,1:PD(3,5)PV(nan)}",
    "c64[2,3]{0,1:PD(3,5)PV(-0-0j)}",
    "pred[0]{0:PD(2)PV(1)}",
    "f32[1,3]{1,0}",
    "f32[1,3]{0,1}",
    "f32[2,3]{0,1:T(2,*,4)(2,1)L(4)#(u32)*(u16)E(32)S(1)SC(0:1)(1:1)}",
    "f32[<=2,3]{1,0}",
    "f32[?,3]{1,0}",
    "s4[2,3]{1,0:E(4)}",
    "s4[2,3]{1,0}",
)
ROUND_TRIPS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "old pickle": lambda value: pickle.loads(pickle.dumps(value, 2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": dataclasses.replace,
}


def test_equality_is_structural():
    for one, other in itertools.product(TEXTS, repeat=2):
        first, second = gl.parse_shape(one), gl.parse_shape(other)
        assert (first == second) == (one == other)
        assert (first.layout == second.layout) == (str(first.layout) == str(second.layout))
        if one == other:
            assert hash(first) == hash(second) and hash(first.layout) == hash(second.layout)
    assert gl.parse_shape("f32[2]") != "f32[2]{0}" and Layout((0,)) != (0,)
    assert gl.parse_shape("f32[2]") != gl.parse_shape("f32[2]").layout


@pytest.mark.parametrize(
    "first, second, options, equal",
    [
        ("f32[2,3]", "f32[2,3]{0,1}", {}, False),
        ("f32[2,3]", "f32[2,3]{0,1}", {"ignore": "layout"}, True),
        ("f32[2,3]", "f32[3,2]", {"ignore": ("layout", "element_type")}, False),
        ("f32[2,3]", "f32[2,3]{0,1}", {"ignore": "layout_except_minor_to_major"}, False),
        ("f32[2,3]{0,1}", "f32[2,3]{0,1:PD(3,3)}", {}, False),
        ("f32[2,3]{0,1}", "f32[2,3]{0,1:PD(3,3)PV(1)}", {"ignore": "layout_except_minor_to_major"}, True),
        ("f32[2,3]", "s32[2,3]", {}, False),
        ("f32[2,3]", "s32[2,3]", {"ignore": "element_type"}, True),
        ("f32[2,3]", "s32[2,3]{0,1}", {"ignore": "element_type"}, False),
        ("f32[2,3]", "f8e5m2[2,3]", {"ignore": "float_precision"}, True),
        ("f32[2,3]", "s32[2,3]", {"ignore": "float_precision"}, False),
        ("s32[2,3]", "s8[2,3]", {"ignore": "float_precision"}, False),
        ("c64[2,3]", "c128[2,3]", {"ignore": "float_precision"}, False),
        ("f32[2,3]", "c64[2,3]", {"ignore": "float_precision"}, False),
    ],
)
def test_shapes_are_equal_except_for_ignored_parts(first, second, options, equal):
    first, second = gl.parse_shape(first), gl.parse_shape(second)
    assert gl.xla.shapes_equal(first, second, **options) == gl.xla.shapes_equal(second, first, **options) == equal
    assert gl.xla.shapes_compatible(first, second) == (first.with_layout(None) == second.with_layout(None))


@pytest.mark.parametrize("how", ROUND_TRIPS)
@pytest.mark.parametrize("text", TEXTS)
def test_copies_are_equal(how, text):
    shape = gl.parse_shape(text)
    if "?" not in text:
        shape.physical_dimensions, shape.nbytes  # values computed before
    for value in (shape, shape.layout):
        copied = ROUND_TRIPS[how](value)
        assert copied == value and hash(copied) == hash(value) and str(copied) == str(value)
        assert type(copied) is type(value)
    assert ROUND_TRIPS[how](shape).padding_bytes == shape.padding_bytes


def test_a_shape_pickled_in_another_process_is_found_in_a_dictionary_here():
    """Hashes of text differ from process to process, so a pickle must not contain one."""
    script = (
        "import gpulayout as gl, pickle, sys; "
        "sys.stdout.buffer.write(pickle.dumps([*map(gl.parse_shape, sys.argv[1:])]))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script, *TEXTS],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        known = {gl.parse_shape(text): text for text in TEXTS}
        layouts = {gl.parse_shape(text).layout for text in TEXTS}
        found = pickle.loads(done.stdout)
        assert [known[shape] for shape in found] == list(TEXTS)
        assert all(shape.layout in layouts for shape in found)


def test_plans_survive_pickle_as_the_same_cached_plan():
    plan = gl.plan("f32[2,3]{1,0}", "f32[2,3]{0,1}")
    assert pickle.loads(pickle.dumps(plan)) is plan


PICKLES = json.loads((pathlib.Path(__file__).resolve().parents[1] / "data" / "pickles.json").read_text())


@pytest.mark.parametrize("text", PICKLES)
def test_a_pickle_of_an_earlier_version_is_read(text):
    """Pickles outlive the modules that define classes, so they name only what is public."""
    value, pickled = eval(text, {"gl": gl}), base64.b64decode(PICKLES[text])
    assert pickle.loads(pickled) == value
    for written in (pickled, pickle.dumps(value, 2), pickle.dumps(value)):
        named = [
            part for _, found, _ in pickletools.genops(written) if isinstance(found, str) for part in found.split(" ")
        ]
        modules = {part for part in named if part.startswith("gpulayout")}
        assert modules <= {"gpulayout", "gpulayout.xla"}


@pytest.mark.parametrize(
    "value, field",
    [
        (Layout((0, 1)), "minor_to_major"),
        (Layout((0, 1)), "padding_value"),
        (Shape("f32", (2, 3)), "dimensions"),
        (Shape("f32", (2, 3)), "layout"),
        (Shape("f32", (2, 3)), "new"),
    ],
)
def test_fields_cannot_be_set_or_deleted(value, field):
    before = str(value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(value, field)
    assert str(value) == before


def test_a_value_does_not_follow_the_list_it_was_made_from():
    order, widths, dims = [0, 1], [3, 5], [2, 3]
    shape = Shape("f32", dims, Layout(order, padded_dimensions=widths))
    order[:], widths[:], dims[:] = [1, 0], [9, 9], [9, 9]
    assert str(shape) == "f32[2,3]{0,1:PD(3,5)}"


def test_repr_can_be_evaluated():
    names = {name: getattr(gl, name) for name in gl.__all__} | vars(gl.xla) | {"nan": float("nan")}
    for text in TEXTS:
        if text.startswith("c"):
            continue  # Python parses its own -0-0j as 0j
        shape = gl.parse_shape(text)
        assert eval(repr(shape), names) == shape


def test_caches_distinguish_layouts_that_compare_equal():
    """Layouts that differ only in their metadata prefix are equal, but caches must not confuse them."""
    like = Shape("f32", (2, 3))
    for text in ("{0,1}", "{0,1:M(8)}", "{0,1}", "{0,1:M(16)}"):
        layout = gl.parse_layout(text)
        assert layout == Layout((0, 1)) and hash(layout) == hash(Layout((0, 1)))
        assert str(as_target(layout, like)) == str(as_target(text, like)) == f"f32[2,3]{text}"


def test_replace_changes_one_field():
    layout = Layout((0, 1), padded_dimensions=(3, 5), padding_value=1)
    assert layout.replace(padding_value=None) == Layout((0, 1), padded_dimensions=(3, 5))
    assert layout.replace(padded_dimensions=None, minor_to_major=(1, 0)) == Layout((1, 0), padding_value=1)
