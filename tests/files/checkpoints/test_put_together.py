"""Tensors of several parts and several files, where a mistake is likely: each case as an independent model has it."""

import ml_dtypes
import numpy as np
import pytest

import gpulayout as gl
from tests.support.model_cases import Case, problems, relayout
from tests.support.model_files import NEEDS_SAFETENSORS

pytestmark = NEEDS_SAFETENSORS
A = np.arange(24, dtype=np.float32).reshape(6, 4)
WORDS = np.arange(24, dtype=np.int32).reshape(6, 4) * 0x1357_9BDF
ONES, MORE = (np.arange(2, 8, dtype=np.float32).reshape(6, 1) * number for number in (1, 10))
INSIDE = {"join": "x,y", "along": "n", "name": "z", "to": "(d=2 n) i -> i n d"}
JOIN = {"join": "x,y", "along": 1, "name": "z", "scale": "{name}_s"}
SPLIT = {"split": r"w{number}", "along": 1}
E8M0 = np.array([[1.0], [0.5], [2.0]] * 2, ml_dtypes.float8_e8m0fnu)
FOURS = np.ones((4, 3), ml_dtypes.float4_e2m1fn)
TURNS, JOIN_TURNS = np.ones((2, 3), np.uint8), {"join": "x,y", "along": 1, "interleave": True, "name": "z"}
CASES = {
    "a join inside of a dimension, of parts that are themselves of two files": (
        [{"x": A, "y": A + 50}, {"x": A[:2] + 100, "y": A[:4] + 200}],
        {"x": INSIDE},
    ),
    "the same with shares": (
        [{"x": A[:4], "y": A + 50}, {"x": A[:4] + 100, "y": A[:2] + 200}],
        {"x": {**INSIDE, "shard": "1/2"}},
    ),
    "parts in turns, each of two files": (
        [{"x": A, "y": A[:2] + 50}, {"x": A[:2] + 100, "y": A + 200}],
        {"x": {"join": "x,y", "along": 0, "interleave": True, "name": "z", "shard": "1/2"}},
    ),
    "pieces without elements": (
        [{"x": A[:0], "y": A}, {"x": A, "y": A[:0]}],
        {"x": INSIDE},
    ),
    "packed pieces without elements": (
        [{"x": WORDS[:0]}, {"x": WORDS}],
        {"x": {"from": "u4", "along": 0, "to": "a b -> b a", "dtype": "f32"}},
    ),
    "scales of pieces in other shards than their tensors": (
        [[{"w": A}, {"w_s": ONES}], [{"w_s": MORE}, {"w": A}]],
        {"w": {"along": 0, "scale": "{name}_s"}, "w_s": {"drop": True}},
    ),
    "scales of types that have no common one": (
        [{"x": A, "x_s": E8M0, "y": A, "y_s": np.array([[3]] * 6, np.int8)}],
        {"x": JOIN},
    ),
    "one tensor for each index of an axis": ([{"w": A}], {"w": SPLIT}),
    "one tensor for each index of an axis of a pattern": (
        [{"w": A}],
        {"w": {**SPLIT, "to": "a b -> b a", "along": "a"}},
    ),
    "a new name without characters": ([{"w": A}], {"(.*)w": {"name": r"\1", "to": "a b -> b a"}}),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_the_model_says(tmp_path, name):
    inputs, rules = CASES[name]
    assert problems(tmp_path, Case(inputs, rules, "mapping", False, None, None)) == []


@pytest.mark.parametrize(
    "inputs, rules, message",
    [
        ([{"w": A}, {"w": A}], {"w": {"keep": True, "along": 0}}, "says keep, and something else as well"),
        ([{"w": A}, {"w": A}], {"w": SPLIT}, "how many pieces tensor 'w' of shape .6, 4. of 2 inputs has"),
        ([{"w": A, "s": ONES}, {"s": ONES}], {"w": {"scale": "s"}, "s": {"along": 1}}, "'s' is in pieces, by"),
        ([{"w": A, "s": ONES}], {"w": {"scale": "s"}, "s": {"to": "a b c -> c b a"}}, "does not fit: tensor 's' is"),
        ([{"x": FOURS, "y": FOURS}], {"x": {"join": "x,y", "along": 1, "name": "z"}}, "a row ends within a byte"),
        ([{"x": FOURS}, {"x": FOURS}], {"x": {"along": 1, "to": "a b -> b a"}}, "a row ends within a byte"),
        ([{"x": TURNS, "y": TURNS}], {"x": {**JOIN_TURNS, "from": "u4"}}, "a row ends within a byte"),
        ([{"w": A}], {"w": {"drop": A}}, "drop is .*: it must be true or false"),
        ([{"w": A}], {"w": {"join": A, "along": 0, "name": "z"}}, "is not text"),
        ([{"w": A}], {"w": {"name": "a\\\nb"}}, r"has \\\\n, which means nothing"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, inputs, rules, message):
    with pytest.raises(gl.LayoutError, match=message) as caught:
        relayout(tmp_path, Case(inputs, rules, "mapping", False, None, None))
    assert "\n" not in str(caught.value) and [*(tmp_path / "out").iterdir()] == []
