"""In `explain`, the parts of a split dimension have their own names."""

import itertools
import math
import re

import pytest

import gpulayout as gl
from gpulayout.layout.stride_table import stride_table

SIZES = {"h": 2, "d": 3, "s": 4, "t": 5}


def axis_names(plan):
    """The label of each axis in the explanation, minor first in the target."""
    return re.findall(r"^ +axis \d+  (.+?): ", plan.explain(), re.MULTILINE)


@pytest.mark.parametrize("order", list(itertools.permutations("hdst")), ids="".join)
def test_an_axis_has_as_many_places_as_the_parts_in_its_label(order):
    plan = gl.plan("f32[6,20]", f"(h=2 d) (s=4 t) -> {' '.join(order)}")
    labels = axis_names(plan)
    for label, axis in zip(labels, plan.move.axes):
        assert "(" in label or math.prod(SIZES[name] for name in label.split("*")) == axis.extent
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
