"""The names that `ignore` takes: each leaves out one part."""

import dataclasses
from typing import get_args

import pytest

import gpulayout as gl
from gpulayout import Layout, LayoutError, LayoutTypeError
from gpulayout.xla.compare import LayoutPart, ShapePart

# A value of every part of the layout that differs from the plain one.
PLAIN = gl.parse_layout("{1,0:PD(2,3)E(4)}")
CHANGED = {
    "padded_dimensions": (4, 3),
    "padding_value": "lowest",
    "tiles": ((2, 2),),
    "tail_padding_alignment": 8,
    "element_size_in_bits": 2,
    "bit_order": "big",
    "memory_space": 1,
    "split_configs": [(1, (1,))],
    "index_type": "u32",
    "pointer_type": "u32",
}
# One pair of shapes for every other part, which differ in nothing else.
PAIRS = {
    "layout": ("f32[2,3]", "f32[2,3]{0,1}"),
    "layout_except_minor_to_major": ("f32[2,3]", "f32[2,3]{1,0:T(2,2)S(1)}"),
    "element_type": ("f32[2]", "s8[2]"),
    "float_precision": ("f32[2]", "bf16[2]"),
    "dynamic_dimensions": ("f32[<=2]", "f32[2]"),
    "dimensions": ("f32[2]", "f32[3]"),
    "buffer": ("b(f32[2])", "f32[2]"),
}


def test_every_field_of_a_layout_but_the_order_has_a_name():
    fields = {field.name for field in dataclasses.fields(Layout)}
    assert set(get_args(LayoutPart)) == fields - {"minor_to_major"} | {"layout_except_minor_to_major"}
    assert set(get_args(ShapePart)) == set(get_args(LayoutPart)) | set(PAIRS)
    assert set(CHANGED) == fields - {"minor_to_major", "dynamic_shape_metadata_prefix_bytes"}  # M is never compared


@pytest.mark.parametrize("name", CHANGED)
def test_a_name_leaves_out_one_field_of_the_layout(name):
    other = PLAIN.replace(**{name: CHANGED[name]})
    wider = {"bit_order": {"element_size_in_bits"}}.get(name, set())
    assert not gl.xla.layouts_equal(PLAIN, other)
    for field in CHANGED:
        assert gl.xla.layouts_equal(PLAIN, other, ignore=field) == (field in {name} | wider)
    assert gl.xla.layouts_equal(PLAIN, other, ignore=tuple(CHANGED))
    assert gl.xla.layouts_equal(PLAIN, other, ignore="layout_except_minor_to_major")
    assert not gl.xla.layouts_equal("{0,1}", "{1,0}", ignore=(*CHANGED, "layout_except_minor_to_major"))


@pytest.mark.parametrize("name", PAIRS)
def test_a_name_leaves_out_one_part_of_a_shape(name):
    first, second = PAIRS[name]
    wider = {"layout_except_minor_to_major": {"layout"}, "float_precision": {"element_type"}}.get(name, set())
    assert not gl.xla.shapes_equal(first, second)
    for part in PAIRS:
        assert gl.xla.shapes_equal(first, second, ignore=part) == (part in {name} | wider), part
        assert gl.xla.shapes_equal(f"({first})", f"({second})", ignore=[part]) == (part in {name} | wider), part
    assert gl.xla.shapes_equal(first, second, ignore={name, "tiles"})


@pytest.mark.parametrize(
    "function, arguments, kind, message",
    [
        (
            gl.xla.is_bitcast,
            {"ignore": "dimensions"},
            LayoutError,
            "ignore 'dimensions' of is_bitcast is not one of 'element_type'",
        ),
        (
            gl.xla.same_element_type,
            {"ignore": ["float_precision", 3]},
            LayoutError,
            "ignore 3 of same_element_type is not one of 'float_precision'",
        ),
        (
            gl.xla.shapes_equal,
            {"ignore": True},
            LayoutTypeError,
            "ignore True is neither a name nor an iterable of names: it is a bool",
        ),
        (gl.xla.is_bitcast, {"ignored": "x"}, TypeError, "is_bitcast() got an unexpected keyword argument 'ignored'"),
        (
            gl.xla.same_element_type,
            {"ignore_element_type": True},
            TypeError,
            "same_element_type() got an unexpected keyword argument 'ignore_element_type'",
        ),
    ],
)
def test_what_cannot_be_ignored_is_refused(function, arguments, kind, message):
    with pytest.raises(kind) as caught:
        function("f32[2]", "f32[2]", **arguments)
    assert str(caught.value) == message


def test_an_unknown_part_of_a_layout_is_refused_with_all_names():
    with pytest.raises(
        LayoutError, match=r"^ignore 'minor_to_major' of layouts_equal is not one of 'layout_except"
    ) as caught:
        gl.xla.layouts_equal("{0}", "{0}", ignore="minor_to_major")
    assert all(repr(name) in str(caught.value) for name in CHANGED)


@pytest.mark.parametrize("value", [1, None, gl.parse_shape("f32[2]")])
def test_only_layouts_are_compared_as_layouts(value):
    with pytest.raises(LayoutTypeError, match="^first .* is not a Layout or its text: it is an? "):
        gl.xla.layouts_equal(value, value)
