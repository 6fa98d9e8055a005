"""CuTe layouts as compilers and cute::print write them: each is the layout that the plain notation says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.interop import from_cute, to_cute
from tests.interop.test_cute import cute_texts


def type_of(notation, constant, tuple_name, close, namespace):
    """The C++ type of a layout in CuTe's notation."""

    def of(tree):
        tree = tree.replace(",", ", ").replace("(", f"{namespace}{tuple_name}<").replace(")", close)
        return re.sub("[0-9]+", lambda number: f"{namespace}{constant.format(number[0])}", tree)

    sizes, strides = map(of, notation.split(":"))
    return f"{namespace}Layout<{sizes},{strides}{close}"


SPELLINGS = [
    ("_{}", "Shape", ">", ""),
    ("C<{}>", "tuple", ">", ""),
    ("C<{}>", "tuple", " >", "cute::"),
    ("C<(int){}>", "tuple", ">", "cute::"),
    ("Int<{}>", "Stride", ">", "cute::"),
    ("integral_constant<int, {}>", "tuple", " >", "std::"),
    ("C<{}LL>", "tuple", "\n>", "cute::"),
]
NOTATIONS = ["():()", "6:1", "(4,8):(8,1)", "((2,2),3):((1,2),4)", "((2,4,2),(128,2)):((1,256,2048),(2,1024))"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_type_is_its_notation(notation, spelling):
    assert from_cute(type_of(notation, *spelling), "f32") == from_cute(notation, "f32")


@given(cute_texts(), st.sampled_from(SPELLINGS))
def test_random_layouts_are_read_as_types_and_as_printed(notation, spelling):
    shape = from_cute(notation, "u8")
    for text in (notation, to_cute(shape)):
        assert from_cute(type_of(text, *spelling), "u8") == from_cute(text, "u8") == shape
        assert from_cute(re.sub("([0-9]+)", r"_\1", text), "u8") == shape  # as cute::print writes it


@pytest.mark.parametrize(
    ("text", "notation"),
    [
        ("Layout<_4,_2>", "4:2"),
        ("Layout<Shape<_4,_8>>", "(4,8)"),
        ("Shape<_4,_8>", "(4,8)"),
        ("const cute::Layout<cute::tuple<cute::_4>, cute::tuple<cute::_1>> &", "(4):(1)"),
        ("cute::Layout<cute::Shape<cute::_4, cute::_8>, cute::Stride<cute::_8, cute::_1> >", "(4,8):(8,1)"),
    ],
)
def test_other_types_that_compilers_print(text, notation):
    assert from_cute(text, "f32") == from_cute(notation, "f32")
    if ":" in notation:
        sizes = from_cute(notation, "f32").dimensions
        assert gl.plan(gl.Shape("f32", sizes), f"cute:{text}").target == from_cute(notation, "f32")


def test_a_type_is_a_target_as_it_is_printed():
    assert str(gl.plan("f32[2,3]", "cute::Layout<cute::Shape<_2,_3>,Stride<_1,_2>>").target) == "f32[2,3]{0,1}"


AT_RUN_TIME = "is a number that is known only at run time: write its value, at character"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Layout<tuple<int,C<8>>,tuple<C<8>,C<1>>>", f"int {AT_RUN_TIME} 13"),
        ("Layout<tuple<C<2>,long long>,tuple<C<1>,C<2>>>", f"long long {AT_RUN_TIME} 18"),
        ("Layout<tuple<C<2>>,tuple<int64_t>>", f"int64_t {AT_RUN_TIME} 25"),
        ("Layout<tuple<unsigned int>,tuple<C<1>>>", f"unsigned int {AT_RUN_TIME} 13"),
        (
            "Layout<Shape<_4,foo>,Stride<_8,_1>>",
            "'foo' is neither a number, such as _4 or C<4>, nor Shape<...> or Stride<",
        ),
        ("Layout<Shape<_4,Shape>,Stride<_8,_1>>", "'Shape' is neither a number"),
        ("Layout<Shape<_4>,Stride<_1>,_3>", "Layout has 3 types, not a Shape and a Stride, at character 0"),
        ("Layout<>", "Layout has 0 types"),
        ("Layout<Shape<_4>,Stride<_1>", "expected '>', at character 27 (the end)"),
        ("Layout<Shape<_4>,Stride<_1>> x", "expected the end, at character 29 ('x')"),
        ("Layout<Shape<_4,$>,Stride<_1>>", "expected a type, at character 16 ('$')"),
        (
            "Layout<Shape<_4,_8>,Stride<_8>>",
            "the strides are not nested as the sizes are, at character 6 ('(') of '(4,8):",
        ),
        ("Layout<Shape<_4,_4>,Stride<E<0>,E<1>>>", "basis strides such as 1@0 are coordinates"),
        ("Layout<" * 50, "more than 34 levels of angle brackets"),
        ("Layout<Shape<_" + "9" * 30 + ">,Stride<_1>>", "a size of 30 digits does not fit in 63 bits"),
        ("Sw<3,4,3> o _0 o (_8,_64):(_64,_1)", "is swizzled or composed: a Layout has no swizzles, give sizes and "),
        (
            "cute::ComposedLayout<cute::Swizzle<3,4,3>,C<0>,Layout<_8,_1>>",
            "is swizzled or composed: a Layout has no swi",
        ),
        ("Layout<Shape<_2,_3>,Stride<_1,_0>>", "mode 1 has stride 0, so its elements share one place"),
    ],
)
def test_a_type_that_says_no_layout_is_refused(text, problem):
    with pytest.raises(gl.LayoutError) as caught:
        from_cute(text, "f32")
    assert problem in str(caught.value)
