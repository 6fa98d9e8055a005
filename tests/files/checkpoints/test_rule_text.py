"""How rules are written: quotes around values, and numbers."""

import re

import pytest

import gpulayout as gl
from gpulayout.files.checkpoints.rule_text import rule_of_text
from gpulayout.files.checkpoints.sibling_names import number


@pytest.mark.parametrize(
    "text, name, scale, options",
    [
        ("scale='a;b'; name=c", "c", "a;b", {}),
        ("name = \"c;d\" ; scale='a;b'", "c;d", "a;b", {}),
        ("name='c;d;e';shift=2;", "c;d;e", None, {"shift": 2.0}),
        ("name=o'clock; shift=.5; scale=it's", "o'clock", "it's", {"shift": 0.5}),
        ("i o -> o i; name='a\"b'", 'a"b', None, {}),
    ],
)
def test_a_semicolon_in_quotes_ends_no_part(text, name, scale, options):
    rule = rule_of_text(f"w={text}")
    assert rule.name.text == name
    assert {key: each.text for key, each in rule.siblings.items()} == ({} if scale is None else {"scale": scale})
    assert rule.options == options


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e-400", "0.5,1e999"])
def test_numbers_that_no_float_is_near_to(text):
    with pytest.raises(gl.LayoutError, match=re.escape(f"scale '{text}' is not a number")):
        rule_of_text(f"w=scale={text}")


@pytest.mark.parametrize("text", ["１", "0x10", "1 2", "１e3"])
def test_text_that_python_alone_reads_as_a_number_is_a_name(text):
    assert rule_of_text(f"w=scale={text}").siblings["scale"].text == text
    with pytest.raises(gl.LayoutError, match="block .* is not a whole number"):
        rule_of_text(f"w=scale=2; block={text}")
    with pytest.raises(ValueError):
        number(text)
