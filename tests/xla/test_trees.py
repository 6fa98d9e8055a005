"""Tuples of shapes: walking the tree, and replacing parts of it."""

import pytest
from hypothesis import given, settings

import gpulayout as gl
from gpulayout import LayoutError, LayoutTypeError, Shape
from gpulayout.xla import BufferShape, OpaqueShape, TokenShape, TupleShape
from gpulayout.xla.trees import arrays
from tests.support.effort import examples
from tests.support.strategies import all_shapes

TREE = gl.parse_shape("((f32[2,3]{0,1}, s4[3]{0:E(4)}), token[], (), b(bf16[4]), opaque[])")
INDICES = [(), (0,), (0, 0), (0, 1), (1,), (2,), (3,), (4,)]


@settings(max_examples=examples(60), deadline=None)
@given(all_shapes())
def test_every_index_leads_to_its_shape(shape):
    found = list(gl.xla.subshapes(shape))
    assert found[0] == ((), shape) and [index for index, _ in found] == sorted(index for index, _ in found)
    assert all(gl.xla.subshape(shape, index) is part and gl.xla.index_is_valid(shape, index) for index, part in found)
    after = [index for index, _ in gl.xla.subshapes(shape, post_order=True)]
    assert sorted(after) == [index for index, _ in found]
    assert all(
        gl.xla.is_prefix(after[later], after[earlier]) == (after[later] == after[earlier][: len(after[later])])
        for later in range(len(after))
        for earlier in range(later)
    )
    assert not any(
        gl.xla.is_prefix(after[earlier], after[later]) for later in range(len(after)) for earlier in range(later)
    )
    leaves = [part for _, part in gl.xla.leaf_shapes(shape)]
    assert leaves == (list(shape.leaves()) if isinstance(shape, TupleShape) else [shape])
    assert [index for index, _ in found if gl.xla.is_leaf_index(shape, index)] == [
        index for index, _ in gl.xla.leaf_shapes(shape)
    ]
    assert gl.xla.map_arrays(lambda array: array, shape) == shape
    assert gl.xla.equal_structure(shape, shape) and gl.xla.shapes_compatible_kind(shape, shape)


def test_indices_of_a_tree():
    assert [index for index, _ in gl.xla.subshapes(TREE)] == INDICES
    assert [index for index, _ in gl.xla.subshapes(TREE, post_order=True)] == [
        (0, 0),
        (0, 1),
        (0,),
        (1,),
        (2,),
        (3,),
        (4,),
        (),
    ]
    assert [index for index, _ in gl.xla.leaf_shapes(TREE)] == [(0, 0), (0, 1), (1,), (3,), (4,)]
    assert [[str(array) for array in arrays(shape)] for _, shape in gl.xla.leaf_shapes(TREE)] == [
        ["f32[2,3]{0,1}"],
        ["s4[3]{0:E(4)}"],
        [],
        ["bf16[4]{0}"],
        [],
    ]
    assert (
        not gl.xla.index_is_valid(TREE, (5,))
        and not gl.xla.index_is_valid(TREE, (1, 0))
        and not gl.xla.index_is_valid(TREE, (-1,))
    )
    assert not gl.xla.is_leaf_index(TREE, (2,)) and gl.xla.is_leaf_index(TREE, (3,))


def test_arrays_of_a_shape():
    inner = gl.Shape("f32", (2,))
    assert arrays(gl.parse_shape("(f32[2], (b(f32[2]), token[]), opaque[])")) == [inner, inner] and arrays(inner) == [
        inner
    ]


@pytest.mark.parametrize(
    "index, message",
    [
        (
            (0, 2),
            "index (0, 2) leads nowhere in (((f32[]), token[])): the tuple at (0,) has 2 elements and no number 2",
        ),
        (
            (0, -1),
            "index (0, -1) leads nowhere in (((f32[]), token[])): the tuple at (0,) has 2 elements and no number -1",
        ),
        ((0, 1, 0), "index (0, 1, 0) leads nowhere in (((f32[]), token[])): token[] at (0, 1) is not a tuple"),
        (
            (1,),
            "index (1,) leads nowhere in (((f32[]), token[])): the tuple at () has 1 element and no number 1",
        ),
    ],
)
def test_an_index_that_leads_nowhere(index, message):
    tree = TupleShape((TupleShape((TupleShape((Shape("f32", ()),)), TokenShape())),))
    for function in (gl.xla.subshape, gl.xla.is_leaf_index, lambda *args: gl.xla.with_subshape(*args, TokenShape())):
        with pytest.raises(IndexError) as caught:
            function(tree, index)
        assert str(caught.value) == message


def test_a_value_that_is_not_a_shape_is_refused_at_once():
    with pytest.raises(TypeError, match="shape must be a shape or its text, not int"):
        gl.xla.subshapes(3)
    with pytest.raises(gl.ShapeTextError):
        gl.xla.subshapes("(f32[2]")


def test_a_shape_is_put_into_a_tree_at_every_index():
    for place in INDICES:
        changed = gl.xla.with_subshape(TREE, place, "u8[7]")
        assert str(gl.xla.subshape(changed, place)) == "u8[7]{0}"
        for index, part in gl.xla.subshapes(TREE):
            if not gl.xla.is_prefix(index, place) and not gl.xla.is_prefix(place, index):
                assert gl.xla.subshape(changed, index) is part
    assert str(TREE) == "((f32[2,3]{0,1}, s4[3]{0:E(4)}), token[], (), b(bf16[4]{0}), opaque[])"


def test_tuples_are_cut_and_appended_to():
    assert str(TREE[1:4]) == "(token[], (), b(bf16[4]{0}))" and TREE[4] == OpaqueShape() and TREE[5:] == TupleShape(())
    assert str(TREE[:2].append(TokenShape())[1:]) == "(token[], token[])"
    assert gl.xla.maybe_tuple_shape([TREE]) is TREE and gl.xla.maybe_tuple_shape(["f32[]", TREE[1]]) == gl.parse_shape(
        "(f32[], token[])"
    )
    with pytest.raises(LayoutTypeError, match=r"shapes 'f32\[2\]' is one text: give a sequence of shapes"):
        gl.xla.maybe_tuple_shape("f32[2]")
    with pytest.raises(TypeError, match="shapes entry 1 must be a shape or its text, not int"):
        gl.xla.maybe_tuple_shape(["f32[]", 3])


@pytest.mark.parametrize(
    "entry, kind",
    [
        (3, "an int"),
        ("f32[2]", "a str, write gl.parse_shape('f32[2]')"),
        (None, "a NoneType"),
        ([], "a list"),
    ],
)
def test_entries_of_a_tuple_are_shapes(entry, kind):
    with pytest.raises(LayoutTypeError) as caught:
        TupleShape((Shape("f32", ()), entry))
    assert str(caught.value) == f"shapes entry 1 is not a shape: it is {kind}"


def test_elements_of_all_arrays_are_counted():
    assert TREE[:4].element_count == 6 + 3 + 4 and TREE[:4].nbytes == 24 + 2 + 8
    assert TokenShape().nbytes == TokenShape().element_count == 0
    with pytest.raises(LayoutError, match=r"opaque\[\] has no size in bytes: only the runtime knows it"):
        OpaqueShape().nbytes
    with pytest.raises(LayoutError, match=r"opaque\[\] has no number of elements: only the runtime knows it"):
        TREE.element_count


# ---- all arrays together ---------------------------------------------------------------------------


def test_arrays_are_changed_at_every_depth():
    assert str(gl.xla.map_arrays(Shape.with_default_order, TREE)) == (
        "((f32[2,3]{1,0}, s4[3]{0:E(4)}), token[], (), b(bf16[4]{0}), opaque[])"
    )
    assert str(gl.xla.update_element_size_in_bits("(s4[3], b(u2[3]), f32[2]{0:E(32)}, pred[2])", True)) == (
        "(s4[3]{0:E(4)}, b(u2[3]{0:E(2)}), f32[2]{0}, pred[2]{0})"
    )
    assert (
        str(gl.xla.update_element_size_in_bits("(s4[3]{0:E(4)S(1)}, u8[2]{0:E(8)})", False))
        == "(s4[3]{0:S(1)}, u8[2]{0})"
    )


def test_questions_about_all_arrays():
    assert (
        gl.xla.has_element_type(TREE, "bf16")
        and gl.xla.has_element_type(TREE, "s4")
        and not gl.xla.has_element_type(TREE, "f16")
    )
    assert gl.xla.has_custom_element_size_in_bits(TREE) and not gl.xla.has_custom_element_size_in_bits(
        "(f32[], b(s4[3]))"
    )
    assert gl.xla.has_custom_element_size_in_bits("b(f32[2]{0:E(32)})") and not gl.xla.has_custom_element_size_in_bits(
        "token[]"
    )


def test_layouts_of_a_tree_are_checked_and_the_bad_one_is_named():
    gl.xla.validate_layouts(TREE)
    with pytest.raises(LayoutError) as caught:
        gl.xla.validate_layouts("(f32[2], (token[], b(f32[2]{0:E(4)})))")
    assert str(caught.value) == (
        "element_size_in_bits 4 is not a storage size of f32 for f32[2]{0:E(4)}: f32 takes 32 bits. Elements of 4 bits "
        "are s4, u4, f4e2m1fn: a move converts to them with dtype='s4', dtype='u4' or dtype='f4e2m1fn'; "
        "it is at (1, 1) of (f32[2]{0}, (token[], b(f32[2]{0:E(4)})))"
    )
    with pytest.raises(LayoutError) as caught:
        gl.xla.validate_layouts("f32[2]{0:E(4)}")
    assert str(caught.value).endswith("or dtype='f4e2m1fn'")


def test_layouts_are_copied_to_a_tree_of_the_same_structure():
    target = "((u8[7,8], u8[9]), token[], (), b(u8[1]), opaque[])"
    copied = gl.xla.copy_layout_between_shapes(TREE, target)
    assert str(copied) == "((u8[7,8]{0,1}, u8[9]{0:E(4)}), token[], (), b(u8[1]{0}), opaque[])"
    assert gl.xla.layouts_in_shapes_equal(copied, TREE) and not gl.xla.layouts_in_shapes_equal(target, TREE)
    assert gl.xla.layouts_in_shapes_equal(target, TREE, ignore="layout_except_minor_to_major") is False
    assert gl.xla.layouts_in_shapes_equal(
        "(s4[3]{0:E(4)}, (u8[]))", "(u8[4], (u8[]))", ignore="layout_except_minor_to_major"
    )


@pytest.mark.parametrize(
    "source, target, message",
    [
        (
            "(f32[2])",
            "(f32[2], f32[2])",
            "layouts of (f32[2]{0}) cannot be copied to (f32[2]{0}, f32[2]{0}): "
            "(f32[2]{0}) has a different structure from (f32[2]{0}, f32[2]{0})",
        ),
        (
            "(f32[2])",
            "(token[])",
            "layouts of (f32[2]{0}) cannot be copied to (token[]): f32[2]{0} has a different structure from token[]",
        ),
        (
            "f32[1,2,3]{2,0,1}",
            "f32[2,3]",
            "minor_to_major (2, 0, 1) has 3 entries for f32[2,3]: the shape has 2 dimensions",
        ),
    ],
)
def test_layouts_that_cannot_be_copied(source, target, message):
    with pytest.raises(LayoutError) as caught:
        gl.xla.copy_layout_between_shapes(source, target)
    assert str(caught.value) == message


# ---- comparisons -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first, second, compatible, without_type, without_precision, kind",
    [
        ("(f32[2,3], token[])", "(f32[2,3]{0,1}, token[])", True, True, True, True),
        ("(f32[2,3], token[])", "(bf16[2,3], token[])", False, True, True, True),
        ("(f32[2,3])", "(s32[2,3])", False, True, False, True),
        ("f32[<=4]", "f32[4]", True, True, True, True),
        ("f32[2,3]", "f32[3,2]", False, False, False, True),
        ("f32[2]", "f32[2,1]", False, False, False, False),
        ("(f32[2])", "f32[2]", False, False, False, False),
        ("token[]", "opaque[]", False, False, False, False),
    ],
)
def test_compatible_shapes(first, second, compatible, without_type, without_precision, kind):
    assert gl.xla.shapes_compatible(first, second) == compatible
    assert gl.xla.shapes_compatible(first, second, ignore="element_type") == without_type
    assert gl.xla.shapes_compatible(first, second, ignore="float_precision") == without_precision
    assert gl.xla.shapes_compatible_kind(first, second) == kind


def test_buffers_are_of_another_kind_unless_they_are_ignored():
    assert not gl.xla.shapes_compatible_kind("b(f32[2])", "u8[3]")
    assert gl.xla.shapes_compatible_kind("b(f32[2])", "u8[3]", ignore="buffer")
    assert not gl.xla.shapes_compatible_kind("b(f32[2])", "u8[3,1]", ignore="buffer")


def test_arrays_are_compared_by_one_part():
    assert gl.xla.same_dimensions("f32[2,?]", "u8[2,5]{0,1}") and not gl.xla.same_dimensions("f32[2,?]", "u8[3,5]")
    assert not gl.xla.same_dimensions("f32[2]", "f32[2,2]") and gl.xla.same_dimensions("f32[]", "s8[]")
    assert gl.xla.same_rank("f32[2,3]", "f32[7,7]") and not gl.xla.same_rank("f32[2]", "f32[]")
    assert gl.xla.same_element_type("f32[2]", "f32[]") and not gl.xla.same_element_type(
        "f32[2]", "s32[2]", ignore="float_precision"
    )
    for function in (gl.xla.same_dimensions, gl.xla.same_rank, gl.xla.same_element_type):
        with pytest.raises(TypeError, match="first must be a Shape or its text, not TupleShape"):
            function(TREE, "f32[2]")


def test_structures_of_tuples():
    assert gl.xla.equal_structure("(f32[], (f32[2], ()))", "(b(u8[]), (token[], ()))")
    for other in ("(f32[], f32[2], ())", "((f32[2], ()), f32[])", "(f32[], (f32[2], f32[]))", "f32[]", "(f32[])"):
        assert not gl.xla.equal_structure("(f32[], (f32[2], ()))", other)
    assert gl.xla.equal_structure(BufferShape(Shape("f32", ())), "token[]") and not gl.xla.equal_structure(
        "()", "token[]"
    )
