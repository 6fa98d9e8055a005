"""Errors in text, each with its full message and its position."""

import inspect

import numpy as np
import pytest

import gpulayout as gl
from gpulayout import LayoutError, ShapeTextError

ORDER = "PD PV D T L # * E S SC M"
PAD_NAMES = "zero, one, lowest, highest, unknown"
TEXT_ERRORS = [
    # (text, position, message without what follows "at character")
    ("", 0, "expected an element type"),
    ("x32[2]", 0, "'x32' is not one of XLA's element types"),
    ("F32[2]", 0, "'F32' is not one of XLA's element types (did you mean 'f32'?)"),
    ("int8[2]", 0, "'int8' is not one of XLA's element types (did you mean 's8'?)"),
    ("nonsense[2]", 0, "'nonsense' is not one of XLA's element types"),
    (
        "u12[2]",
        0,
        "'u12' is not one of XLA's element types: elements of 12 bits lie across bytes, which no layout describes: "
        "unpack them first (docs/video-frames.md has 10 and 12 bits)",
    ),
    ("  tuple[]", 2, "'tuple' is not one of XLA's element types"),
    ("f32", 3, "expected '[' (a scalar is f32[])"),
    ("f32(2)", 3, "expected '[' (as in f32[2,3])"),
    ("f32[", 4, "expected a dimension size"),
    ("f32[2", 5, "expected ']'"),
    ("f32[2,", 6, "expected a dimension size"),
    ("f32[2,]", 6, "expected a dimension size"),
    ("f32[,2]", 4, "expected a dimension size"),
    ("f32[2 3]", 6, "expected ']'"),
    ("f32[2.5]", 5, "expected ']'"),
    ("f32[1e3]", 5, "expected ']'"),
    ("f32[2_3]", 5, "expected ']'"),
    ("f32[+2]", 4, "expected a dimension size"),
    ("f32[-1]", 4, "a dimension size cannot be negative"),
    ("f32[\uff19]", 4, "expected a dimension size"),
    ("f32[\u0663]", 4, "expected a dimension size"),
    ("f32[<2]", 4, "expected a dimension size"),
    ("f32[<=]", 6, "expected a dimension size"),
    ("f32[< =2]", 4, "expected a dimension size"),
    ("f32[<=?]", 6, "expected a dimension size"),
    ("f32[?2]", 5, "expected ']'"),
    ("f32[<=-2]", 6, "a dimension size cannot be negative"),
    ("f32[2<=]", 5, "expected ']'"),
    ("token", 5, "expected '['"),
    ("token[2]", 6, "expected ']'"),
    ("opaque[3]", 7, "expected ']'"),
    ("token[]{0}", 7, "expected the end"),
    ("opaque_type[]", 0, "'opaque_type' is not one of XLA's element types"),
    ("(f32[2]", 7, "expected ')'"),
    ("(f32[2],)", 8, "expected an element type"),
    ("(,)", 1, "expected an element type"),
    (">f4[2,3]", 0, "expected a type without a byte order: f32[2,3], and for a file byte_order='big' beside it"),
    ("f32[2])", 6, "expected the end"),
    ("(f32[2]))", 8, "expected the end"),
    ("(f32[2] f32[2])", 8, "expected ')'"),
    ("b", 1, "expected '('"),
    ("b()", 2, "expected an element type"),
    ("b(s32[], f32[])", 7, "expected ')'"),
    ("b(token[])", 2, "'token' is not one of XLA's element types"),
    ("b(b(f32[2]))", 2, "'b' is not one of XLA's element types"),
    ("b((f32[2]))", 2, "expected an element type"),
    ("b(f32[2]", 8, "expected ')'"),
    ("f32[9223372036854775808]", 4, "a dimension size of 19 digits does not fit in 63 bits"),
    ("f32[000099999999999999999999]", 4, "a dimension size of 20 digits does not fit in 63 bits"),
    ("f32[2]\0", 6, "expected the end"),
    ("f32[2]]", 6, "expected the end"),
    ("f32[2]{0}x", 9, "expected the end"),
    ("f32[2]{", 7, "expected a dimension number"),
    ("f32[]{}", 6, "expected a dimension number"),
    ("f32[2,3]{}", 9, "expected a dimension number"),
    ("f32[2]{0", 8, "expected '}'"),
    ("f32[2]{0,}", 9, "expected a dimension number"),
    ("f32[2]{-1}", 7, "a dimension number cannot be negative"),
    ("f32[2]{0:", 9, "expected '}'"),
    ("f32[2]{0:X(3)}", 9, f"'X' is not a layout property: the properties are {ORDER}"),
    (f"f32[2]{{0:{'X' * 33}(3)}}", 9, f"'{'X' * 32}' is not a layout property: the properties are {ORDER}"),
    ("f32[2]{0:PV(1)PD(3)}", 14, f"layout property PD(...) occurs twice or out of order: the order is {ORDER}"),
    ("f32[2]{0:PD(3)PD(3)}", 14, f"layout property PD(...) occurs twice or out of order: the order is {ORDER}"),
    ("f32[2]{0:L(4)T(8)}", 13, f"layout property T(...) occurs twice or out of order: the order is {ORDER}"),
    ("f32[2]{0:S(1)E(32)}", 13, f"layout property E(...) occurs twice or out of order: the order is {ORDER}"),
    ("f32[2]{0:*(u8)#(u8)}", 14, f"layout property #(...) occurs twice or out of order: the order is {ORDER}"),
    ("f32[2]{0:P(f32[2])}", 9, "layout property P(...), the physical shape of a sparse array, is not supported"),
    ("f32[2]{0:T}", 10, "expected '('"),
    ("f32[2]{0:T()}", 11, "expected a tile size"),
    ("f32[2]{0:T(8,}", 13, "expected a tile size"),
    ("f32[2]{0:T(8,128}", 16, "expected ')'"),
    ("f32[2]{0:T(0)}", 11, "a tile size must be at least 1"),
    ("f32[2]{0:T(-1)}", 11, "a tile size cannot be negative"),
    ("f32[2]{0:T(8)(-1)}", 14, "a tile size cannot be negative"),
    ("f32[2]{0:T(2,*)}", 13, "'*' ends a tile: there is no more minor dimension to combine with"),
    ("f32[2]{0:T(*}", 11, "'*' ends a tile: there is no more minor dimension to combine with"),
    ("f32[2]{0:L(0)}", 11, "a tail padding alignment must be at least 1"),
    ("f32[2]{0:L(4,4)}", 12, "expected ')'"),
    ("f32[2]{0:#(s32)}", 11, "index_type 's32' is not one of u8, u16, u32, u64"),
    ("f32[2]{0:#(u32}", 14, "expected ')'"),
    ("f32[2]{0:*(3)}", 11, "expected an unsigned integer type"),
    ("f32[2]{0:E(-4)}", 11, "an element size cannot be negative"),
    ("f32[2]{0:E(4}", 12, "expected ')'"),
    ("u4[2]{0:E(4,)}", 12, "expected a bit order, little or big"),
    ("u4[2]{0:E(4,1)}", 12, "expected a bit order, little or big"),
    ("u4[2]{0:E(4,big,big)}", 15, "expected ')'"),
    ("u4[2]{0:E(4,middle)}", 12, "bit_order 'middle' is neither little nor big"),
    *[
        (f"u4[2]{{0:E(4,{word})}}", 12, f"bit_order {word!r} is neither little nor big: write E(4,big)")
        for word in ("msb", "MSB_first", "high", "Big", "BE", "bitorder")
    ],
    ("u1[2]{0:E(1,LSB_first)}", 12, "bit_order 'LSB_first' is neither little nor big: write E(1,little)"),
    *[
        (
            f"u4[2]{{0:E(4){name}}}",
            12,
            f"{name.partition('(')[0]!r} is not a layout property: write E(4,big) if elements begin in the high bits",
        )
        for name in ("MSB", "msb_first", "High", "BE", "BO(big)", "Bit_Order(big)", "big")
    ],
    (
        "u1[2]{0:E(1)LSB}",
        12,
        "'LSB' is not a layout property: write E(1,little) if elements begin in the low bits",
    ),
    ("u4[2]{0:E(4)BET(big)}", 12, f"'BET' is not a layout property: the properties are {ORDER}"),
    ("u8[2]{0:E(8)BE}", 12, f"'BE' is not a layout property: the properties are {ORDER}"),  # of bytes
    ("s16[2]{0:BO(big)}", 9, f"'BO' is not a layout property: the properties are {ORDER}"),
    ("u4[2]{0:E(big)}", 10, "expected an element size"),
    ("f32[2]{0:S(128)}", 11, "a memory space must be in 0..127"),
    ("f32[2]{0:S(-1)}", 11, "a memory space cannot be negative"),
    ("f32[2]{0:M(-5)}", 11, "a number of bytes cannot be negative"),
    ("f32[2]{0:SC()}", 12, "expected a physical dimension number"),
    ("f32[2]{0:SC(0)}", 13, "expected ':'"),
    ("f32[2]{0:SC(0:)}", 14, "expected a split index"),
    ("f32[2]{0:SC(0:1}", 15, "expected ')'"),
    ("f32[2]{0:SC}", 11, "expected '('"),
    ("f32[2]{0:D(C)}", 11, "expected 'D', the level of a dense dimension: sparse layouts are not supported"),
    ("f32[2]{0:D(D,D)}", 12, "expected ')'"),
    ("f32[2]{0:D()}", 11, "expected 'D', the level of a dense dimension: sparse layouts are not supported"),
    ("f32[2]{0:PD}", 11, "expected '('"),
    ("f32[2]{0:PD(", 12, "expected a padded dimension"),
    ("f32[2]{0:PD(-3)}", 12, "a padded dimension cannot be negative"),
    ("f32[2]{0:PD(3)PV", 16, "expected '('"),
    ("f32[2]{0:PD(3)PV(1", 18, "expected ')'"),
    ("f32[2]{0:PD(3)PV(low)}", 17, f"padding value 'low' is neither a number nor one of {PAD_NAMES}"),
    ("f32[2]{0:PD(3)PV()}", 17, f"padding value '' is neither a number nor one of {PAD_NAMES}"),
    ("f32[2]{0:PD(3)PV(invalid)}", 17, f"padding value 'invalid' is neither a number nor one of {PAD_NAMES}"),
    ("f32[2]{0:PD(3)PV(LOWEST)}", 17, f"padding value 'LOWEST' is neither a number nor one of {PAD_NAMES}"),
    ("f32[2]{0:PD(3)PV(1e999)}", 17, f"padding value '1e999' is neither a number nor one of {PAD_NAMES}"),
    ("f32[2]{0:PD(3)PV(0x10)}", 17, f"padding value '0x10' is neither a number nor one of {PAD_NAMES}"),
    ("f32[2]{0:PD(3)PV(1_0)}", 17, f"padding value '1_0' is neither a number nor one of {PAD_NAMES}"),
    ("f32[2]{0:PD(3)PV(\u0663)}", 17, f"padding value '\u0663' is neither a number nor one of {PAD_NAMES}"),
    ("f32[2]/* no end", 6, "a comment is not closed"),
    ("/*", 0, "a comment is not closed"),
    ("f32[2]/x", 6, "expected the end"),
]


@pytest.mark.parametrize("text, position, problem", TEXT_ERRORS, ids=lambda value: repr(value)[:30])
def test_invalid_text_says_where(text, position, problem):
    found = repr(text[position]) if position < len(text) else "the end"
    found += ", the invisible control character: remove it" * (found == r"'\x00'")
    with pytest.raises(ShapeTextError) as caught:
        gl.parse_shape(text)
    assert str(caught.value) == f"{problem}, at character {position} ({found}) of {text!r}"
    assert caught.value.position == position


def test_a_padding_value_that_is_too_long_is_named_as_that():
    with pytest.raises(
        ShapeTextError, match=r"^padding value '9{32}'\.\.\. has 321 characters: 320 is the limit, at character 17 "
    ):
        gl.parse_shape(f"f32[2]{{0:PD(3)PV({'9' * 321})}}")


@pytest.mark.parametrize(
    "text, position, problem",
    [
        ("f32[2,3]{0}", 8, "minor_to_major (0,) has 1 entry for f32[2,3]: the shape has 2 dimensions"),
        ("f32[2,3] {0,0}", 9, "minor_to_major (0, 0) is not an ordering of dimensions 0..1: dimension 0 appears twice"),
        (
            "f32[2]{0:PD(1)}",
            6,
            "padded_dimensions (1,) is smaller than dimensions (2,) for f32[2]{0:PD(1)}: dimension 0 needs at least 2",
        ),
        ("f32[2]{0:PD()}", 6, "padded_dimensions () has 0 entries: minor_to_major (0,) orders 1 dimension"),
        (
            "u8[2]{0:PD(3)PV(300)}",
            5,
            "padding_value 300 cannot be held by u8 for u8[2]{0:PD(3)PV(300)}: the range is 0..255",
        ),
        (
            "f32[2]{0:SC(0:5)}",
            6,
            "split_configs (0:5) cuts outside the array for f32[2]{0:SC(0:5)}: physical dimension 0 is "
            "dimension 0 of size 2",
        ),
        ("f32[2]{0:SC(7:1)}", 6, "split_configs (7:1) cuts physical dimension 7: there is 1 dimension"),
        ("f32[2]{0:SC(0:0)}", 11, "split_indices (0,) are not ascending from 1: entry 0 is 0"),
        (
            "f32[4294967296,4294967296]",
            0,
            "dimensions (4294967296, 4294967296) is too large for f32[4294967296,4294967296]{1,0}: "
            "73786976294838206464 bytes, the limit is 2^63-1",
        ),
    ],
)
def test_text_of_an_impossible_shape_says_why_and_where_it_begins(text, position, problem):
    with pytest.raises(ShapeTextError) as caught:
        gl.parse_shape(text)
    assert str(caught.value) == f"{problem}, at character {position} of {text!r}"
    assert caught.value.position == position


def test_nested_tuples_have_a_limit():
    deepest = "(" * 64 + ")" * 64
    assert str(gl.parse_shape(deepest)) == deepest
    with pytest.raises(ShapeTextError) as caught:
        gl.parse_shape("(" * 5000)
    assert caught.value.position == 64
    assert str(caught.value).startswith("more than 64 nested tuples, at character 64 ('(') of ")
    with pytest.raises(LayoutError) as caught:
        gl.xla.TupleShape((gl.parse_shape(deepest),))
    assert str(caught.value) == "shapes are 65 nested tuples: the limit is 64"


@pytest.mark.parametrize("text", ["(f32[2])", "token[]", "opaque[]", "b(f32[2])", "()"])
def test_only_arrays_are_laid_out(text):
    with pytest.raises(ShapeTextError) as caught:
        gl.relayout(np.zeros(2, np.float32), text, "f32[2]")
    assert str(caught.value) == f"expected the shape of one array, at character 0 ({text[0]!r}) of {text!r}"
    with pytest.raises(TypeError, match="^source must be a Shape or its text, not "):
        gl.plan(gl.parse_shape(text), "f32[2]")


def test_every_function_of_a_shape_takes_its_text_and_refuses_other_types():
    parameters = {
        name: [*inspect.signature(value).parameters.values()]
        for name, value in (vars(gl) | vars(gl.xla)).items()
        if name in (*gl.__all__, *gl.xla.__all__) and inspect.isfunction(value)
    }
    doors = {
        name: found
        for name, found in parameters.items()
        if found and found[0].annotation in ("Shape", "Shape | str", "ShapeLike")
    }
    assert len(doors) > 20 and {"least_waste", "is_bitcast", "plan"} <= set(doors)
    for name, (first, *others) in doors.items():
        positional = [parameter for parameter in others if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        needed = [None for parameter in positional if parameter.default is parameter.empty]
        with pytest.raises(TypeError, match=f"^{first.name} must be a Shape or its text, not TokenShape"):
            getattr(gl if name in gl.__all__ else gl.xla, name)(gl.xla.TokenShape(), *needed)
        with pytest.raises(ShapeTextError, match="^expected the shape of one array, "):
            getattr(gl if name in gl.__all__ else gl.xla, name)("token[]", *needed)


def test_layout_text_is_checked_too():
    with pytest.raises(ShapeTextError) as caught:
        gl.parse_layout(" {1,2}")
    assert str(caught.value) == (
        "minor_to_major (1, 2) is not an ordering of dimensions 0..1: dimension 2 does not exist, "
        "at character 1 of ' {1,2}'"
    )


@pytest.mark.parametrize(
    "ones, position, shown",
    [
        (200, 404, f"...{'1,' * 30}x]"),
        (20, 44, f"f32[{'1,' * 20}x]"),
        (57, 118, f"f32[{'1,' * 57}x]"),
    ],
)
def test_long_text_is_shown_around_the_place(ones, position, shown):
    with pytest.raises(ShapeTextError) as caught:
        gl.parse_shape("f32[" + "1," * ones + "x]")
    assert str(caught.value) == f"expected a dimension size, at character {position} ('x') of '{shown}'"


def test_long_text_is_cut_off_on_both_sides():
    with pytest.raises(ShapeTextError) as caught:
        gl.parse_shape("f32[" + "1," * 100 + "x" + ",1" * 100 + "]")
    assert str(caught.value) == f"expected a dimension size, at character 204 ('x') of '...{'1,' * 30}x{',1' * 29},...'"


@pytest.mark.parametrize("value, name", [(None, "NoneType"), (b"f32[2]", "bytes"), (3, "int")])
def test_only_text_is_read(value, name):
    with pytest.raises(TypeError) as caught:
        gl.parse_shape(value)
    assert str(caught.value) == f"shape text must be a str, not {name}"


NAMES = (
    "names are C, F, torch:contiguous_format, torch:channels_last, torch:channels_last_3d, cute:SIZES:STRIDES, "
    "named:NHWC:NCHW, those of TensorRT, such as kCHW32, and those of the catalogue, such as cublas:block_scales"
)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: gl.pack(np.zeros((2, 3), "f4"), "NHWC"),
            "'NHWC' is neither a layout, such as {1,0}, nor a pattern, such as 'h w c -> c h w', nor the name of one: "
            f"{NAMES}; write 'named:NHWC:NCHW' if the array's dimensions are N, C, H and W",
        ),
        (
            lambda: gl.pack(np.zeros((2, 3), "f4"), "c h w"),
            "'c h w' is neither a layout, such as {1,0}, nor a pattern, such as 'h w c -> c h w', nor the name of one: "
            f"{NAMES}",
        ),
        (
            lambda: gl.zeros("{0,1}"),
            "shape '{0,1}' is only a layout: write the whole shape, such as 'f32[2,3]{0,1}'",
        ),
        (
            lambda: gl.plan(" {0,1}", "{1,0}"),
            "source ' {0,1}' is only a layout: write the whole shape, such as 'f32[2,3]{0,1}'",
        ),
    ],
)
def test_text_of_another_kind_is_named(call, message):
    with pytest.raises(ShapeTextError) as caught:
        call()
    assert str(caught.value) == message and caught.value.position == 0


def test_a_layout_as_a_sequence_is_written_out():
    with pytest.raises(
        TypeError, match=r"^target must be a Shape, a Layout or text, not tuple: write gl\.Layout\(\(0, 1\)\)$"
    ):
        gl.plan("f32[2,3]", (0, 1))
    with pytest.raises(
        gl.LayoutTypeError,
        match=r": it is a list, write gl\.Layout\(\(0, 1\)\)$|: it is a list, write gl\.Layout\(\[0, 1\]\)$",
    ):
        gl.Shape("f32", (2, 3), [0, 1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: gl.Shape("f32", (), pitch=256),
        lambda: gl.Shape("f32", ()).with_pitch(6),
        lambda: gl.Shape("f32", (), "{:T(128)}").with_pitch(256),
        lambda: gl.Shape("f32", (), gl.Layout((), tiles=[(2**62,)])),
        lambda: gl.Shape("f32", (), gl.Layout((0,))),
        lambda: gl.unpack(np.zeros(1, "f4"), gl.Shape("f32", (), gl.Layout((), element_size_in_bits=4))),
        lambda: gl.pack(np.zeros(3, "f4"), gl.Shape("f32", ())),
        lambda: gl.linearize((1,), gl.Shape("f32", ())),
        lambda: gl.delinearize(3, gl.Shape("f32", ())),
        lambda: gl.plan("f32[]", "f32[2]"),
    ],
)
def test_the_scalars_in_messages_have_no_empty_layout(call):
    """XLA's text of a scalar has no empty layout: it refuses f32[]{}."""
    with pytest.raises((ValueError, TypeError, IndexError, BufferError)) as caught:
        call()
    assert "f32[]" in str(caught.value) and "{}" not in str(caught.value)


def test_a_name_that_is_no_type_is_not_taken_for_one():
    for text in ("abc(2)", "f32", "7"):
        with pytest.raises(gl.ShapeTextError) as caught:
            gl.parse_layout(text)
        assert "brackets" not in str(caught.value)
    with pytest.raises(gl.ShapeTextError, match=r"a shape has its sizes in brackets, as in 'f32\[2,3\]'$"):
        gl.parse_layout("f32(2,3)")


@pytest.mark.parametrize(
    "character, name",
    [
        ("\ufeff", "byte order mark"),
        ("\u200b", "zero width space"),
        ("\xa0", "no-break space"),
        ("\u2028", "line separator"),
        ("\0", "control character"),
        ("\x1b", "control character"),
    ],
)
@pytest.mark.parametrize("place", ["{}f32[2,3]", "f32{}[2,3]", "f32[2,{}3]", "f32[2,3]{}", "f32[2,3]{{{}0,1}}"])
@pytest.mark.parametrize(
    "read",
    [gl.parse_shape, gl.xla.parse_any_shape, gl.zeros, lambda text: gl.parse_layout(text.removeprefix("f32[2,3]"))],
)
def test_an_invisible_character_is_named(read, place, character, name):
    text = place.format(character)
    if read not in (gl.parse_shape, gl.xla.parse_any_shape, gl.zeros) and "{" not in text:
        return  # no layout at all, and told so
    with pytest.raises(ShapeTextError, match=f", the invisible {name}: remove it") as caught:
        read(text)
    assert caught.value.position < len(text) and character not in str(caught.value)


@pytest.mark.parametrize("name", ["abc" + "3" * 60 + "!", "named" + "99d" * 40 + ":NHWC", "NHWC" + "8c" * 60 + "-"])
def test_names_with_many_digits_are_refused_at_once(name):
    """The time that their letters and digits take to be told apart must not double with each of them."""
    with pytest.raises(LayoutError):
        gl.pack(np.zeros((2, 3)), name)
