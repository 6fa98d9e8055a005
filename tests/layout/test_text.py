"""Text: printed values parse to equal values, and everything in XLA's grammar parses."""

import collections
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout import Layout, Shape, ShapeTextError
from gpulayout.layout import checks, digits, text_reader
from gpulayout.layout.text import as_shape
from tests.support.counted_pattern import CountedPattern
from tests.support.effort import examples
from tests.support.random_shapes import COUNT, random_shapes
from tests.support.strategies import PAD_NAMES, all_shapes, any_layouts

# ---- round trips ---------------------------------------------------------------------------------


@given(all_shapes())
@settings(max_examples=examples(120))
def test_a_shape_s_text_reads_back_as_the_same_shape(shape):
    found = gl.parse_shape(str(shape))
    assert found == shape and str(found) == str(shape) and hash(found) == hash(shape) and repr(found) == repr(shape)
    if isinstance(shape, Shape):
        assert found.padding_bytes == shape.padding_bytes and gl.xla.parse_array_shape(str(shape)) == shape


numbers = st.sampled_from(PAD_NAMES) | st.integers(-(2**70), 2**70) | st.floats() | st.complex_numbers() | st.booleans()


def test_many_shapes_read_back_as_the_same_shapes():
    seen = collections.Counter()
    for shape in random_shapes(20261121):
        found = gl.parse_shape(str(shape))
        assert found == shape and str(found) == str(shape) and repr(found) == repr(shape)
        seen[type(shape)] += 1
    assert len(seen) == 5 and sum(seen.values()) == COUNT and seen[Shape] > COUNT // 2


@given(st.integers(0, 5).flatmap(lambda rank: any_layouts((10,) * rank, numbers)))
@example(Layout((), padded_dimensions=(), padding_value=complex(-math.nan, -math.inf)))
@example(Layout((0,), padding_value=2**1024 - 1))
@example(Layout((0,), padding_value=-1.7976931348623157e308 - 2.2250738585072014e-308j))
def test_a_layout_s_text_reads_back_as_the_same_layout(layout):
    found = gl.parse_layout(str(layout))
    assert found == layout and str(found) == str(layout) and hash(found) == hash(layout)


@pytest.mark.parametrize(
    "text",
    [
        "f32[]",
        "f32[]{:PV(0.5)}",
        "f32[0]{0}",
        "f32[2,3]{1,0}",
        "f32[2,3]{0,1}",
        "pred[2]{0:PD(4)PV(1)}",
        "f32[2,3]{0,1:PD(3,5)}",
        "f32[2,3]{0,1:PV(lowest)}",
        "f32[2,3]{0,1:PD(3,5)PV(unknown)}",
        "c64[2]{0:PD(3)PV(1-2j)}",
        "f32[2]{0:PD(3)PV(-0.0)}",
        "f32[2]{0:PD(3)PV(-inf)}",
        "f32[2]{0:PD(3)PV(nan)}",
        "c128[2]{0:PD(3)PV(nan+infj)}",
        "u8[9223372036854775807]{0}",
        "f32[2,3]{0,1:T(8,128)(2,1)E(4)S(1)}",
        "f32[]{:T(256)}",
        "s4[3]{0:PD(4)PV(-8)T(2)E(4)}",
        "u1[3,9]{0,1:PD(3,16)T(2)E(1,big)S(1)}",
        "bf16[123,456,789]{2,1,0:T(2,*,128)(2,1)}",
        "f32[2,3]{1,0:T(8,128)L(4)#(u32)*(u16)E(4)S(1)SC(0:1)(1:1,2)M(8)}",
        "f32[<=2,?,3]{2,1,0}",
        "()",
        "(f32[])",
        "((f32[1]{0}, f32[2]{0}), token[])",
        "opaque[]",
        "b(f32[2]{0:T(128)})",
        "(f32[1]{0}, f32[2]{0}, f32[3]{0}, f32[4]{0}, f32[5]{0}, /*index=5*/f32[6]{0}, u8[], u8[], u8[], u8[], "
        "/*index=10*/())",
    ],
)
def test_canonical_text_is_printed_as_it_was_read(text):
    assert str(gl.parse_shape(text)) == text


@pytest.mark.parametrize(
    "text, canonical",
    [
        ("f32[2,3]", "f32[2,3]{1,0}"),
        ("f32 [ 2 , 3 ] { 0 , 1 }", "f32[2,3]{0,1}"),
        ("\tf32\n[2,\r3]", "f32[2,3]{1,0}"),
        ("f32[2,3]/*a*/{1,/* b\n */0} // the end", "f32[2,3]{1,0}"),
        ("f32[2,3]{1,0:}", "f32[2,3]{1,0}"),
        ("f32[]{:}", "f32[]"),
        ("f32[002,3]", "f32[2,3]{1,0}"),
        (f"f32[{'0' * 5000}2]", "f32[2]{0}"),
        ("f32[2]{0:PD(3)PV( 1e3 )}", "f32[2]{0:PD(3)PV(1000.0)}"),
        ("f32[2]{0:PD(3)PV(3)}", "f32[2]{0:PD(3)PV(3.0)}"),
        ("f32[2]{0: PD ( 3 ) PV (highest) }", "f32[2]{0:PD(3)PV(highest)}"),
        ("s8[2]{0:PV(1E1)}", "s8[2]{0:PV(10)}"),
        ("f32[2]{0:PV(INF)}", "f32[2]{0:PV(inf)}"),
        ("f32[2]{0:PV(-nan)}", "f32[2]{0:PV(nan)}"),
        ("f32[2]{0:PV(3.4028235e38)}", "f32[2]{0:PV(3.4028235e+38)}"),
        ("f32[2]{0:L(1)E(0)S(0)M(0)}", "f32[2]{0}"),
        ("f32[1,2,3]{0,1,2: T ( 2, * , 128 ) ( 02,1 ) }", "f32[1,2,3]{0,1,2:T(2,*,128)(2,1)}"),
        ("f32[2]{0:D(D)T(8)}", "f32[2]{0:T(8)}"),
        ("f32[2]{0:T(*/**/,/* */2)}", "f32[2]{0:T(*,2)}"),
        ("f32[ <= 5 , ? ]", "f32[<=5,?]{1,0}"),
        ("((),())", "((), ())"),
        ("( f32 [ ] , token [ ] )//", "(f32[], token[])"),
        ("b ( f32[2] )", "b(f32[2]{0})"),
        ("f32[2,3]{1,0: # ( u32 ) * ( u16 ) SC ( 1 : 1 , 2 ) }", "f32[2,3]{1,0:#(u32)*(u16)SC(1:1,2)}"),
    ],
)
def test_other_spellings_are_read_too(text, canonical):
    assert str(gl.parse_shape(text)) == canonical


def test_a_scalar_prints_no_empty_layout_and_a_layout_does():
    assert str(Shape("f32", ())) == "f32[]" and str(Layout(())) == "{}"
    assert gl.parse_layout("{}") == Layout(()) and gl.parse_layout(" { : } ") == Layout(())


# ---- hostile text --------------------------------------------------------------------------------

LONG = 1 << 16
HOSTILE = {
    "open brackets": "[" * LONG,
    "open braces": "f32[2]" + "{" * (LONG - 6),
    "open parentheses": "f32[2]{0:PV" + "(" * (LONG - 11),
    "closed parentheses": "f32[2]{0:PV(" + ")" * (LONG - 12),
    "commas": "f32[" + "," * (LONG - 4),
    "minus signs": "f32[" + "-" * (LONG - 4),
    "open comments": "/*" * (LONG // 2),
    "slashes": "f32[2] " + "/ " * (LONG // 2 - 4),
    "small comments": "/**/" * (LONG // 4),
    "line comments": "//\n" * (LONG // 3),
    "stars": "/*" + "*" * (LONG - 2),
    "blanks": " " * LONG,
    "a name": "a" * LONG,
    "a number": "f32[" + "9" * (LONG - 4),
    "zeros": "f32[" + "0" * (LONG - 4),
    "dimensions": "f32[" + "9," * (LONG // 2 - 4) + "9]",
    "large dimensions": "f32[" + "9223372036854775807," * (LONG // 20 - 1) + "1]",
    "dimensions in order": "f32[" + "1," * 8000 + "1]{" + ",".join(map(str, range(8000))) + ",0}",
    "a pad value": "f32[2]{0:PV(" + "1" * (LONG - 14) + ")}",
    "null characters": "\0" * LONG,
    "letters with accents": "\u0301" * LONG,
    "tiles": "f32[2]{0:T" + "(2)" * (LONG // 3 - 4),
    "tiles too large": "f32[2]{0:T" + "(9223372036854775807)" * (LONG // 21 - 2) + "}",
    "long tiles": "f32[2]{0:T(" + "*," * (LONG // 4) + "2)(" + "9," * (LONG // 4 - 12) + "2)}",
    "stars in a tile": "f32[2]{0:T(" + "*," * (LONG // 2 - 6),
    "split configurations": "f32[2]{0:SC" + "(0:1)" * (LONG // 5 - 5) + "}",
    "split indices": "f32[2]{0:SC(0:1" + ",2" * (LONG // 2 - 9) + ")}",
    "open tuples": "(" * LONG,
    "empty tuples": "(" + "()," * (LONG // 3 - 1),
    "tokens": "(" + "token[]," * (LONG // 8 - 1),
    "arrays": "(" + "f32[2]," * (LONG // 7 - 1),
    "buffers": "b(" * (LONG // 2),
    "dynamic sizes": "f32[" + "?," * (LONG // 2 - 3),
    "bounds": "f32[" + "<=" * (LONG // 2 - 2),
}


def test_hostile_text_is_long():
    assert all(LONG // 2 < len(text) <= LONG for text in HOSTILE.values())


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_in_one_short_line(name):
    with pytest.raises(ShapeTextError) as caught:
        gl.parse_shape(HOSTILE[name])
    message = str(caught.value)
    assert len(message) < 1000 and "\n" not in message
    assert 0 <= caught.value.position <= LONG


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", HOSTILE)
def test_reading_takes_a_number_of_steps_linear_in_the_text(name, monkeypatch):
    """The reader steps over every character once.  A match that fails ends it, so that match may scan the rest."""
    counted = [CountedPattern(getattr(text_reader, pattern)) for pattern in ("TOKEN", "NO_PARENTHESES")]
    monkeypatch.setattr(text_reader, "TOKEN", counted[0])
    monkeypatch.setattr(text_reader, "NO_PARENTHESES", counted[1])
    with pytest.raises(ShapeTextError):
        gl.parse_shape(HOSTILE[name])
    assert (
        sum(pattern.characters for pattern in counted) <= 2 * LONG
        and sum(pattern.matches for pattern in counted) <= LONG + 2
    )


def test_sizes_that_are_too_large_together_are_not_written_out():
    """Exact products of all sizes would take quadratic time."""
    assert checks.product([9] * 100_000) == 9**81 > 2**256
    sizes = digits.cuts((1,), (gl.Tile((9,) * 5000), gl.Tile((gl.COMBINE,) * 9999 + (2,)))).sizes
    assert math.prod(sizes) > 2**256 and max(map(int.bit_length, sizes)) < 300
    with pytest.raises(
        gl.LayoutError,
        match=r"^dimensions \(9, .*, \.\.\.\) is too large for .*: at least 2\^253 bytes, the limit is 2\^63-1$",
    ):
        Shape("f32", (9,) * 100)


def test_reading_many_split_configurations_never_prints_the_layout(monkeypatch):
    """Printing the layout for each of them would take quadratic time."""
    text = f"u8[{','.join('?' * 50)}]{{{','.join(map(str, range(50)))}:SC{''.join(f'({dim}:1)' for dim in range(50))}}}"
    printed = []
    monkeypatch.setattr(gl.Layout, "__str__", lambda layout: printed.append(1) or "")
    assert len(gl.parse_shape(text).layout.split_configs) == 50 and not printed


@pytest.mark.parametrize(
    "shape",
    [
        gl.xla.TupleShape([Shape("f32", (2,))] * 8000),
        Shape("u8", (1,) * 20_000, Layout.ascending(20_000)),
        Shape("u8", (20_000,), Layout((0,), split_configs=[(0, range(1, 20_000))])),
        Shape("u8", (2,), Layout((0,), tiles=[(1,) * 33_000])),
    ],
    ids=["tuple", "dimensions", "split indices", "tiles"],
)
def test_text_of_any_length_reads_back_as_the_same_shape(shape):
    text = str(shape)
    assert len(text) > LONG and gl.parse_shape(text) == shape


def test_the_shapes_of_long_texts_are_not_kept():
    """1024 of them would fill the memory.  The shapes of short texts are kept."""
    short, long = ("u8[" + "1," * count + "2]" for count in (10, 500))
    assert as_shape(short) is as_shape(short) and as_shape(long) is not as_shape(long)


@given(st.text(alphabet="f32sbpred[]{}(),:PDVTLESCM#?<=0123456789-/*. \n\u0663\uff11\0", max_size=60))
@settings(max_examples=examples(400))
def test_any_text_gives_a_shape_or_says_where_it_ends(text):
    for parse in (gl.parse_shape, gl.parse_layout):
        try:
            assert parse(str(parse(text))) == parse(text)
        except ShapeTextError as error:
            assert 0 <= error.position <= len(text)


@given(all_shapes(), st.data())
def test_damaged_text_gives_a_shape_or_says_where_it_ends(shape, data):
    text = str(shape)
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(("", "(", ")", "{", "0", ",", "-", "x"))) + text[at + 1 :]
    try:
        gl.parse_shape(damaged)
    except ShapeTextError as error:
        assert 0 <= error.position <= len(damaged)
