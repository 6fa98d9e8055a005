"""Shapes in the text of whole programs: which are found, where, and in how many steps."""

import pathlib
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.layout import text_reader
from gpulayout.xla import hlo
from tests.support.counted_pattern import CountedPattern
from tests.support.effort import examples
from tests.support.fuzz_readers import CORPUS
from tests.support.strategies import all_shapes

DUMPS = sorted((pathlib.Path(__file__).resolve().parents[1] / "data" / "hlo").glob("*.txt"))


def texts(text):
    """The parts of a text found to be shapes; each reads as its shape."""
    found = list(gl.xla.find_shapes(text))
    assert all(gl.parse_shape(text[one.start : one.end]) == one.shape for one in found)
    return [text[one.start : one.end] for one in found]


# ---- what counts as a shape -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        ("f32[2]", ["f32[2]"]),
        ("x=f32[2,3]{0,1:T(8,128)(2,1)S(1)}y", ["f32[2,3]{0,1:T(8,128)(2,1)S(1)}"]),
        ("f32[<=4,?]{1,0} token[] opaque[] pred[]", ["f32[<=4,?]{1,0}", "token[]", "opaque[]", "pred[]"]),
        ("f32 [ 2 ] { 0 }", ["f32 [ 2 ] { 0 }"]),
        ("f32[2]/* x */{0}", ["f32[2]/* x */{0}"]),
        ("f32[2] // f32[3]\n{0} s8[]", ["f32[2] // f32[3]\n{0}", "s8[]"]),
        # words
        ("%f32[2] my_f32[2] f32.1[2] a-f32[2] 2f32[2] \u00e9f32[2] F32[2] f33[2]", []),
        ("->f32[2]<f32[3]>", ["f32[2]", "f32[3]"]),
        # text that only begins like a shape
        ("f32[2", []),
        ("f32[2,]", []),
        ("f32[-1] f32[3]", ["f32[3]"]),
        ("f32[2]{0,0} f32[3]{9} f32[4]", ["f32[4]"]),
        ("f32[2]{0:X(8)} s8[]", ["s8[]"]),
        ("f32[2]{0:T(f32[3]", ["f32[3]"]),
        ("f32[2]{0:#(u8[3]", ["u8[3]"]),
        ("f32[2]{0:PV( f32[3] ", ["f32[3]"]),
        ("f32[2]{0:PV(f32[3])}", ["f32[3]"]),
        ("f32[9223372036854775808] f32[99999999999,99999999999]", []),
        # braces
        ("-> f32[2] {\n  %a = s8[] constant(1)", ["f32[2]", "s8[]"]),
        ("f32[2]{}", ["f32[2]"]),
        ("f32[]{:T(256)}", ["f32[]{:T(256)}"]),
        ("f32[2] { 1, 2 }", []),
        ("layout={f32[2]{0}}", ["f32[2]{0}"]),
        # tuples
        ("= (f32[2], s32[]) t", ["(f32[2], s32[])"]),
        ("= () ((), ())", ["()", "((), ())"]),
        ("= ((f32[2]), /*index=5*/u8[])", ["((f32[2]), /*index=5*/u8[])"]),
        ("= (f32[2], x)", ["f32[2]"]),
        ("= (f32[2], (s8[], u8[]), f32[3]{9})", ["f32[2]", "(s8[], u8[])"]),
        ("= (f32[2],) (, f32[3])", ["f32[2]", "f32[3]"]),
        ("= (f32[2]", ["f32[2]"]),
        ("= (((f32[2]) x", ["(f32[2])"]),
        ("= ((f32[2] f32[3]))", ["f32[2]", "f32[3]"]),
        ("= (f32[2], s32.a(f32[3], s8[]))", ["f32[2]", "f32[3]", "s8[]"]),
        # operands and parameters are not tuples
        ("add(f32[2] %a, f32[2] %b)", ["f32[2]", "f32[2]"]),
        ("call(f32[2], s32[]) after-all()", ["f32[2]", "s32[]"]),
        ("%f (a: f32[2]) -> (s32[], s8[])", ["f32[2]", "(s32[], s8[])"]),
        ("ENTRY %main () -> f32[]", ["f32[]"]),
        ("done((f32[2], s8[]) %x)", ["(f32[2], s8[])"]),
        ("={(f32[2], s8[])->(f32[3])}", ["f32[2]", "s8[]", "(f32[3])"]),
        ("={()->f32[3]}", ["f32[3]"]),
        ("= (f32[2], foo (f32[3], s8[]))", ["f32[2]", "f32[3]", "s8[]"]),
        ("= ((f32[2]), (), foo (f32[3], s8[]))", ["(f32[2])", "()", "f32[3]", "s8[]"]),
        ("main\n(f32[2])", ["f32[2]"]),
        # buffers
        ("= b(f32[2]{0})", ["b(f32[2]{0})"]),
        ("= (b(f32[2]), s8[])", ["(b(f32[2]), s8[])"]),
        ("b(f32[2] %x, s8[] %y)", ["f32[2]", "s8[]"]),
        ("= b(f32[2], s8[])", ["f32[2]", "s8[]"]),
        ("= b((f32[2]))", ["(f32[2])"]),
        ("= b(token[])", ["token[]"]),
        ("= (b f32[2])", ["f32[2]"]),
        ("= b()", []),
        # strings and comments
        ('op_name="f32[2]" s8[]', ["s8[]"]),
        (r'"f32[2]\"f32[3]" s8[]', ["s8[]"]),
        (r'"f32[2]\\" s8[]', ["s8[]"]),
        ('"f32[2]\nf32[3]', ["f32[3]"]),
        ('"f32[2]\\\nf32[3]', ["f32[3]"]),
        ('f32"x"[2] f32[2]"x"{0}', ["f32[2]"]),
        ("/* f32[2] */ s8[] // f32[3]\nu8[]", ["s8[]", "u8[]"]),
        ("/* f32[2]", ["f32[2]"]),
        ("/*/ f32[2] */ s8[]", ["s8[]"]),
        ('/* " */ f32[2] "', ["f32[2]"]),
        ('"/*" f32[2] */', ["f32[2]"]),
        ("*/ f32[2] /*", ["f32[2]"]),
    ],
)
def test_shapes_found_in_text(text, expected):
    assert texts(text) == expected


def test_nested_tuples_are_found_up_to_the_limit():
    deep = "= " + "(" * 70 + "f32[2]" + ")" * 70
    assert texts(deep) == ["(" * 64 + "f32[2]" + ")" * 64]


def test_arrays_and_tuples_have_any_length():
    array = "f32[" + "1," * 50_000 + "1" + " " * 70_000 + "]"
    assert texts(f"= {array} s8[]") == [array, "s8[]"]
    [whole] = gl.xla.find_shapes(f"= ({', '.join(['f32[2]'] * 20000)})")
    assert len(whole.shape) == 20000


@pytest.mark.parametrize("text", [b"f32[2]", None, 2])
def test_text_is_a_str(text):
    with pytest.raises(TypeError, match="the text to find shapes in must be a str, not"):
        gl.xla.find_shapes(text)


# ---- where ----------------------------------------------------------------------------------------

BEFORE = st.sampled_from(
    (
        "= ",
        "  ROOT %a.1 = ",
        "={",
        "add(",
        "%main (p: ",
        ") -> ",
        ", ",
        '"f32[9]"',
        "/* f32[9] */ = ",
        "// s8[9]\n= ",
        "<",
        "'",
        "\r\n:",
    )
)
AFTER = st.sampled_from(
    (
        " ",
        "\n",
        " add(%b, %c)",
        ' metadata={op_name="jit(f)/f32[9]{0}" x=1}',
        " %x",
        ", index=3",
        "{...}",
        "} }",
        "\u2603",
        '"f32[9]\n',
        " {\n  %a",
    )
)
NOISE = st.text(st.characters(codec="utf-8", exclude_characters='"/[({>'), max_size=8)


@given(st.lists(st.tuples(NOISE, BEFORE, all_shapes(), AFTER), max_size=4))
@settings(max_examples=examples(60))
def test_every_shape_in_noise_is_found_at_its_place(parts):
    text, expected = "", []
    for noise, before, shape, after in parts:
        text += f"{noise}\n{before}"
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
        expected.append(gl.xla.FoundShape(shape, len(text), len(text) + len(str(shape)), line, column))
        text += f"{shape}{after}"
    assert list(gl.xla.find_shapes(text)) == expected


@pytest.mark.parametrize("text", CORPUS["text"])
def test_texts_that_are_shapes_are_found_whole(text):
    try:
        shape = gl.parse_shape(text)
    except gl.ShapeTextError:
        return
    assert [found.shape for found in gl.xla.find_shapes(f"\n= {text}\n")] == [shape]


# ---- against the definition -------------------------------------------------------------------------


def by_definition(text):
    """The shapes in a text without strings and comments: at each position, the longest part that reads."""
    found, at = [], 0
    while at < len(text):
        end = _longest(text, at)
        found += [text[at:end]] if end else []
        at = end or at + 1
    return found


def _longest(text, at):
    before = text[:at]
    if (
        re.search(r"[\w.%-]\Z", before)
        or (text[at] == "(" and re.search(r"[\w.%-]\s*\Z", before))
        or text[at].isspace()
    ):
        return 0
    for end in range(len(text), at, -1):
        if text[end - 1] in ")]}":
            try:
                shape = gl.parse_shape(text[at:end])
            except gl.ShapeTextError:
                continue
            rest = text[end:].lstrip()
            if isinstance(shape, gl.Shape) and re.match(r"\{\s*[-:0-9]", rest) and not text[at:end].endswith("}"):
                return 0
            return 0 if text[end - 1] == ")" and rest.startswith("->") else end
    return 0


PIECES = (
    "f32[2]",
    "f32[2]",
    "{0}",
    "{1}",
    "{",
    "}",
    "(",
    "(",
    ")",
    ")",
    ",",
    ", ",
    "b(",
    "->",
    "x",
    " ",
    "token[]",
    "%",
    "foo",
    "\n",
    "s8[",
    "]",
    "0",
    ":T(2)",
    "<=",
    "?",
    "= ",
)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("b (f32[2],f32[2])")
@example("(b(f32[2])->")
@example("(f32[2]{0} , (f32[2]) ,b(f32[2]) )-> (token[] )")
@settings(max_examples=examples(400))
def test_the_longest_part_that_reads_is_found(text):
    assert texts(text) == by_definition(text)


@given(st.text(alphabet='f32sbtoken[]{}(),:PDVTL#?<=0128-/*"\\. \n%>\u0663\ud800\0', max_size=80))
@settings(max_examples=examples(300))
def test_any_text_gives_shapes_in_order_and_nothing_else(text):
    end = 0
    for found in gl.xla.find_shapes(text):
        assert end <= found.start < found.end <= len(text)
        end = found.end


# ---- steps -----------------------------------------------------------------------------------------

SIZE = 40_000
REPEATED = (
    "(",
    ")",
    "[",
    "f32[",
    "f32[/*",
    '"',
    '"\\',
    '\\"',
    "/*",
    "*/",
    "/",
    "a",
    "f32",
    "f32 ",
    "f32[2]",
    "f32[2] ",
    "f32[2]{0:PV(",
    "f32[2]{0:PV(1)",
    "(f32[2],",
    "((f32[2],",
    "(f32[2],\n",
    "b(",
    "b (",
    "x (",
    "( ",
    "-",
    "%",
    "f32[1,",
    "f32[]{:T(1)",
    "f32[2]{",
    "f32[2]{0,",
    "\n",
    " ",
    "()",
    "(),",
    "((),",
    "->",
    "(f32[2])->",
    "token[",
    "token[],",
    "//",
    "// f32[2]\n",
    "\0",
    "\u0663",
    "f32[2]{0:#(",
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("piece", REPEATED)
def test_hostile_text_takes_steps_linear_in_its_length(piece, monkeypatch):
    """The patterns step over each character only a few times."""
    counted = {
        name: CountedPattern(getattr(module, name))
        for module, name in (
            (text_reader, "TOKEN"),
            (text_reader, "NO_PARENTHESES"),
            (hlo, "START"),
            (hlo, "HIDES"),
        )
    }
    for name, pattern in counted.items():
        monkeypatch.setattr(hlo if hasattr(hlo, name) else text_reader, name, pattern)
    for text in (piece * (SIZE // len(piece)), "= (" + piece * (SIZE // len(piece)) + ")"):
        for pattern in counted.values():
            pattern.characters = pattern.matches = 0
        assert all(found.start < found.end for found in gl.xla.find_shapes(text))
        assert sum(pattern.characters for pattern in counted.values()) <= 8 * len(text)
        assert sum(pattern.matches for pattern in counted.values()) <= 8 * len(text)


def test_a_long_text_of_one_line_has_every_position():
    text = "f32[2]{0} add(%a), " * 50_000
    found = list(gl.xla.find_shapes(text))
    assert len(found) == 50_000 and (found[-1].line, found[-1].column) == (1, len(text) - 19 + 1)
