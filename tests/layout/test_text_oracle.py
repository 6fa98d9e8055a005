"""Text, equality and sizes against real XLA.

Tables below list the texts that XLA accepts by mistake or crashes on.  Everything else must agree.
"""

import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulayout as gl
from tests.support import fuzz_readers, oracle, proto_strategies
from tests.support.effort import examples


@settings(max_examples=examples(60))
@given(proto_strategies.shapes("xla"))
def test_xla_reads_what_this_library_prints_and_prints_it_the_same(shape):
    assert str(oracle.shape(str(shape))) == str(shape)
    assert gl.parse_shape(str(oracle.shape(shape.text_without_layout()))) == gl.parse_shape(shape.text_without_layout())


@settings(max_examples=examples(60))
@given(st.data())
def test_shapes_are_equal_where_xla_calls_them_equal(data):
    first = data.draw(proto_strategies.arrays("xla"))
    changes = [
        first,
        first.with_layout(first.layout.replace(dynamic_shape_metadata_prefix_bytes=8)),
        first.with_layout(None),
        first.with_layout(first.layout.replace(tail_padding_alignment=3)),
        first.with_layout(first.layout.replace(tiles=())),
        first.with_layout(first.layout.replace(memory_space=2)),
        first.with_layout(first.layout.replace(split_configs=())),
        first.with_layout(first.layout.replace(element_size_in_bits=0, bit_order="little")),
        first.with_layout(first.layout.replace(index_type="u8")),
        first.replace(dynamic_dimensions=None),
        data.draw(proto_strategies.arrays("xla")),
    ]
    one = oracle.shape(str(first))
    for second in changes:
        other = oracle.shape(str(second))
        assert (first == second) == (one == other), f"{first} and {second}"
        assert first != second or hash(first) == hash(second)


# ---- texts that print differently ------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "f32 [ 2 , 3 ] { 1 , 0 }",
        "f32[2,3] /*c*/ {1,0}",
        "f32[2,3] // c\n{1,0}",
        "f32[2,3]{1,0:}",
        "f32[2,3]{1,0: L( 4 )}",
        "f32[002,3]",
        "( f32[2] , /*index=1*/ s32[ ] )",
        "b( f32[4] )",
        "token [ ]",
        "f32[2,3]{1,0:L(1)E(0)S(0)M(0)}",
        "f32[<=5,?]",
        "f32[0]",
        "()",
    ],
)
def test_other_ways_to_write_are_read_alike(text):
    assert str(gl.parse_shape(text)) == str(oracle.shape(text))


def test_damaged_text_that_is_read_is_read_alike():
    """XLA only gets texts that this library parses: others may end its process.

    Three differences are known.  Padding belongs to this library.  XLA validates arrays inside tuples and buffers, so
    it refuses index types there but not in other arrays.  XLA's text ends at a NUL, which is allowed in a comment here.
    """
    rng, corpus, read = random.Random(7), fuzz_readers.corpus("text"), 0
    for _ in range(4000):
        text = fuzz_readers.change_text(rng.choice(corpus), rng, corpus)
        try:
            shape = gl.parse_shape(text)
        except gl.LayoutError:
            continue
        index_types_inside = not isinstance(shape, gl.Shape) and ("#(" in str(shape) or "*(" in str(shape))
        if "PD(" not in text and "PV(" not in text and "\0" not in text and not index_types_inside:
            read += 1
            assert str(oracle.shape(text)) == str(shape), text
    assert read > 200


def test_xla_validates_arrays_only_inside_others():
    for text in ("f32[2]{0:#(u32)}", "f32[2]{0:*(u32)}"):
        assert str(oracle.shape(text)) == str(gl.parse_shape(text)) == text
        assert str(gl.parse_shape(f"({text})")) == f"({text})"
        with pytest.raises(ValueError, match="XLA refuses"):
            oracle.shape(f"({text})")


# ---- what is refused -----------------------------------------------------------------------------------

REFUSED_BY_BOTH = [
    "f32[2,3]{}",
    "f32[]{}",
    "f32[-1]",
    "f32[<=-1]",
    "f32[< =3]",
    "f32[2,3]{1,0}x",
    "(f32[2],)",
    "(,)",
    "b((f32[2]))",
    "b(token[])",
    "tuple[]",
    "buffer[]",
    "opaque_type[]",
    "invalid[]",
    "F32[2]",
    "f32[02,+3]",
    "f32[1_0]",
    "f32[9223372036854775808]",
    "f32[2,3]{1,0",
    "f32[2",
    "f32[2]{0}/*",
    "f32[2]]",
    "f32[2,]",
    "f32[,2]",
    "f32[2,3]{1,0,}",
    "f32[2,3]{0}",
    "f32[2,3]{:T(2)}",
    "f32[2,3]{:}",
    *(
        f"f32[2,3]{{1,0:{properties}}}"
        for properties in (
            "E(4)E(4)",
            "S(1)E(4)",
            "SC()",
            "P(f32[2])",
            "T(8,128)(2,1)T(1)",
            "*(u32)#(u32)",
            "T((8,128))",
            "T(8,128),E(4)",
        )
    ),
]


@pytest.mark.parametrize("text", REFUSED_BY_BOTH)
def test_text_that_both_refuse(text):
    with pytest.raises(ValueError, match="XLA refuses"):
        oracle.shape(text)
    with pytest.raises(gl.ShapeTextError):
        gl.parse_shape(text)


# What XLA accepts by mistake, and how it prints it.
ONLY_XLA = {
    "f32[2,3]{0,2}": "f32[2,3]{0,2}",
    "f32[2,3]{1,1}": "f32[2,3]{1,1}",
    "f32[2,3]{-1,0}": "f32[2,3]{-1,0}",
    "f32[4294967296,4294967296]": "f32[4294967296,4294967296]{1,0}",
    **{
        f"f32[2,3]{{1,0:{text}}}": f"f32[2,3]{{1,0{read and ':'}{read}}}"
        for text, read in {
            "T(8,128": "T(8,128)",
            "T(8,": "T(8)",
            "E(4": "E(4)",
            "SC(0:1": "SC(0:1)",
            "#(u32": "#(u32)",
            "T()": "T()",
            "T(0)": "T(0)",
            "T(2,*)": "T(2,*)",
            "E(-4)": "E(-4)",
            "SC(7:1)": "SC(7:1)",
            "SC(0:5)": "SC(0:5)",
            "#(s32)": "#(s32)",
            "S(128)": "S(-128)",
            "S(300)": "S(44)",
            "S(-3)": "S(-3)",
            "M(-5)": "",
            "D(D,C)": "",
            "SC(0:2,1)": "SC(0:2,1)",
            "SC(0:)": "SC(0:)",
            "*(f32)": "*(invalid)",
            "#(pred)": "#(invalid)",
            "S(9223372036854775808)": "",
            "T(9223372036854775807,9223372036854775807)": "T(9223372036854775807,9223372036854775807)",
        }.items()
    },
}


@pytest.mark.parametrize("text", ONLY_XLA)
def test_text_that_only_xla_accepts(text):
    assert str(oracle.shape(text)) == ONLY_XLA[text]
    with pytest.raises(gl.ShapeTextError):
        gl.parse_shape(text)


@pytest.mark.parametrize("text", ["f32[2,3]{1,0:T(-1)}", "f32[2,3]{1,0:L(0)}", "token[2]"])
def test_text_that_crashes_xla(text):
    script = f"from jaxlib import _hlo; _hlo.Shape({text!r})"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode < 0
    with pytest.raises(gl.ShapeTextError):
        gl.parse_shape(text)


def test_xla_has_no_limit_of_depth():
    text = "(" * 65 + "f32[]" + ")" * 65
    assert str(oracle.shape(text)) == text
    with pytest.raises(gl.ShapeTextError, match="more than 64 nested tuples"):
        gl.parse_shape(text)
