"""Text: what is printed reads back as the same value, and what XLA's grammar allows reads."""
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import ElementType, Layout, LayoutError, PaddingValue, Shape, ShapeTextError
from gpulayout.model import text_reader

NAMES = [name for name in PaddingValue if name is not PaddingValue.INVALID]


# ---- round trips ---------------------------------------------------------------------------------

def scalars(element_type):
    """Numbers that an element type can hold."""
    if element_type.kind == "bool":
        return st.booleans()
    if element_type.kind in ("signed", "unsigned"):
        bits = 8 * element_type.itemsize
        return st.integers(-2**(bits - 1), 2**(bits - 1) - 1) if element_type.kind == "signed" else st.integers(0, 2**bits - 1)
    special = st.sampled_from((0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 3.4028234663852886e38, 2.0**-149, 0.1))
    if element_type.kind == "complex":
        return st.builds(complex, special | st.floats(), special | st.floats())
    return special | st.floats(width=64) | st.floats(-8, 8)


@st.composite
def layouts(draw, dims, values):
    order = draw(st.permutations(range(len(dims))))
    widths = draw(st.none() | st.tuples(*(st.integers(size, 2**9) for size in dims)))
    return Layout(order, padded_dimensions=widths, padding_value=draw(st.none() | values))


@st.composite
def shapes(draw):
    """Any shape: every element type, order, padding and pad value."""
    element_type = draw(st.sampled_from(list(ElementType)))
    dims = tuple(draw(st.lists(st.integers(0, 2**8), max_size=6)))
    layout = draw(layouts(dims, st.sampled_from(NAMES) | scalars(element_type)))
    try:
        return Shape(element_type, dims, layout)
    except LayoutError:                              # a pad value past the type's range, or LOWEST of a complex type
        return Shape(element_type, dims, layout.replace(padding_value=None))


@given(shapes())
@settings(max_examples=600)
def test_a_shape_s_text_reads_back_as_the_same_shape(shape):
    found = gl.parse_shape(str(shape))
    assert found == shape and str(found) == str(shape) and hash(found) == hash(shape)
    assert found.padding_bytes == shape.padding_bytes


numbers = st.sampled_from(NAMES) | st.integers(-2**70, 2**70) | st.floats() | st.complex_numbers() | st.booleans()


@given(st.integers(0, 5).flatmap(lambda rank: layouts((0,) * rank, numbers)))
@example(Layout((), padded_dimensions=(), padding_value=complex(-math.nan, -math.inf)))
@example(Layout((0,), padding_value=2**1024 - 1))
@example(Layout((0,), padding_value=-1.7976931348623157e308 - 2.2250738585072014e-308j))
def test_a_layout_s_text_reads_back_as_the_same_layout(layout):
    found = gl.parse_layout(str(layout))
    assert found == layout and str(found) == str(layout) and hash(found) == hash(layout)


@pytest.mark.parametrize("text", [
    "f32[]", "f32[]{:PV(0.5)}", "f32[0]{0}", "f32[2,3]{1,0}", "f32[2,3]{0,1}", "pred[2]{0:PD(4)PV(1)}",
    "f32[2,3]{0,1:PD(3,5)}", "f32[2,3]{0,1:PV(lowest)}", "f32[2,3]{0,1:PD(3,5)PV(unknown)}", "c64[2]{0:PD(3)PV(1-2j)}",
    "f32[2]{0:PD(3)PV(-0.0)}", "f32[2]{0:PD(3)PV(-inf)}", "f32[2]{0:PD(3)PV(nan)}", "c128[2]{0:PD(3)PV(nan+infj)}",
    "u8[9223372036854775807]{0}",
])
def test_canonical_text_is_printed_as_it_was_read(text):
    assert str(gl.parse_shape(text)) == text


@pytest.mark.parametrize("text, canonical", [
    ("f32[2,3]", "f32[2,3]{1,0}"), ("f32 [ 2 , 3 ] { 0 , 1 }", "f32[2,3]{0,1}"), ("\tf32\n[2,\r3]", "f32[2,3]{1,0}"),
    ("f32[2,3]/*a*/{1,/* b\n */0} // the end", "f32[2,3]{1,0}"), ("f32[2,3]{1,0:}", "f32[2,3]{1,0}"),
    ("f32[]{:}", "f32[]"), ("f32[002,3]", "f32[2,3]{1,0}"), (f"f32[{'0' * 5000}2]", "f32[2]{0}"),
    ("f32[2]{0:PD(3)PV( 1e3 )}", "f32[2]{0:PD(3)PV(1000.0)}"), ("f32[2]{0:PD(3)PV(3)}", "f32[2]{0:PD(3)PV(3.0)}"),
    ("f32[2]{0: PD ( 3 ) PV (highest) }", "f32[2]{0:PD(3)PV(highest)}"), ("s8[2]{0:PV(1E1)}", "s8[2]{0:PV(10)}"),
    ("f32[2]{0:PV(INF)}", "f32[2]{0:PV(inf)}"), ("f32[2]{0:PV(-nan)}", "f32[2]{0:PV(nan)}"),
    ("f32[2]{0:PV(3.4028235e38)}", "f32[2]{0:PV(3.4028235e+38)}"),
])
def test_other_spellings_are_read_too(text, canonical):
    assert str(gl.parse_shape(text)) == canonical


def test_a_scalar_prints_no_empty_layout_and_a_layout_does():
    assert str(Shape("f32", ())) == "f32[]" and str(Layout(())) == "{}"
    assert gl.parse_layout("{}") == Layout(()) and gl.parse_layout(" { : } ") == Layout(())


# ---- hostile text --------------------------------------------------------------------------------

LONG = text_reader.MAX_LENGTH
HOSTILE = {
    "open brackets": "[" * LONG, "open braces": "f32[2]" + "{" * (LONG - 6),
    "open parentheses": "f32[2]{0:PV" + "(" * (LONG - 11), "closed parentheses": "f32[2]{0:PV(" + ")" * (LONG - 12),
    "commas": "f32[" + "," * (LONG - 4), "minus signs": "f32[" + "-" * (LONG - 4),
    "open comments": "/*" * (LONG // 2), "slashes": "f32[2] " + "/ " * (LONG // 2 - 4), "small comments": "/**/" * (LONG // 4),
    "line comments": "//\n" * (LONG // 3), "stars": "/*" + "*" * (LONG - 2), "blanks": " " * LONG, "a name": "a" * LONG,
    "a number": "f32[" + "9" * (LONG - 4), "zeros": "f32[" + "0" * (LONG - 4),
    "dimensions": "f32[" + "9," * (LONG // 2 - 4) + "9]",
    "large dimensions": "f32[" + "9223372036854775807," * (LONG // 20 - 1) + "1]",
    "dimensions in order": "f32[" + "1," * 8000 + "1]{" + ",".join(map(str, range(8000))) + ",0}",
    "a pad value": "f32[2]{0:PV(" + "1" * (LONG - 14) + ")}", "null characters": "\0" * LONG,
    "letters with accents": "\u0301" * LONG,
}


def test_hostile_text_is_as_long_as_text_may_be():
    assert all(LONG // 2 < len(text) <= LONG for text in HOSTILE.values())


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_in_one_short_line(name):
    with pytest.raises(ShapeTextError) as caught:
        gl.parse_shape(HOSTILE[name])
    message = str(caught.value)
    assert len(message) < 1000 and "\n" not in message
    assert 0 <= caught.value.position <= LONG


class CountedPattern:
    """A regular expression that counts the characters it stepped over and the matches it made."""

    def __init__(self, pattern):
        self.pattern, self.matches, self.characters = pattern, 0, 0

    def match(self, text, position):
        found = self.pattern.match(text, position)
        self.matches += 1
        self.characters += len(found.group()) if found else len(text) - position
        return found


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_takes_a_number_of_steps_linear_in_the_text(name, monkeypatch):
    """Every character is stepped over once; a match that fails ends the reading, so it may look at all that is left."""
    counted = CountedPattern(text_reader._TOKEN)
    monkeypatch.setattr(text_reader, "_TOKEN", counted)
    with pytest.raises(ShapeTextError):
        gl.parse_shape(HOSTILE[name])
    assert counted.characters <= 2 * LONG and counted.matches <= LONG + 1


def test_text_may_not_be_longer_than_the_limit():
    with pytest.raises(ShapeTextError) as caught:
        gl.parse_shape(" " * (LONG + 1))
    assert str(caught.value) == "shape text of 65537 characters is longer than 65536" and caught.value.position == LONG


@given(st.text(alphabet="f32sbpred[]{}(),:PDVT0123456789-/*. \n\u0663\uff11\0", max_size=60))
@settings(max_examples=400)
def test_any_text_gives_a_shape_or_says_where_it_ends(text):
    for parse in (gl.parse_shape, gl.parse_layout):
        try:
            assert parse(str(parse(text))) == parse(text)
        except ShapeTextError as error:
            assert 0 <= error.position <= len(text)


@given(shapes(), st.data())
def test_damaged_text_gives_a_shape_or_says_where_it_ends(shape, data):
    text = str(shape)
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(("", "(", ")", "{", "0", ",", "-", "x"))) + text[at + 1:]
    try:
        gl.parse_shape(damaged)
    except ShapeTextError as error:
        assert 0 <= error.position <= len(damaged)
