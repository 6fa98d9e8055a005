"""The results of a program's instructions: each counted once, under the name of its instruction."""

import pathlib
import re

import pytest

import gpulayout as gl
from gpulayout.xla.hlo_results import NO_MEMORY, find_results
from gpulayout.xla.trees import arrays

DUMPS = sorted((pathlib.Path(__file__).resolve().parents[1] / "data" / "hlo").glob("*.txt"))
LINE = re.compile(r"  (ROOT )?%?([\w.-]+) = (.*?\]|.*?\}|\(.*?\)) ([a-z][\w-]*)\((.*)")


def instructions(text):
    """(computation, is root, name, shape, opcode, rest) of every line that is one, as these programs print them."""
    computation = None
    for line in text.splitlines():
        if begin := re.fullmatch(r"(?:ENTRY )?%?([\w.-]+) .*\{", line):
            computation = begin[1]
        if found := LINE.fullmatch(line):
            yield computation, bool(found[1]), found[2], gl.parse_shape(found[3]), found[4], found[5]


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_the_results_of_a_program_are_those_of_its_instructions(path):
    text = path.read_text()
    found = list(instructions(text))
    assert len(found) == len(re.findall(" = ", text)) > 4
    fused = {re.search(r"calls=%([\w.-]+)", rest)[1] for *_, opcode, rest in found if opcode == "fusion"}
    results = {(computation, name) for computation, is_root, name, *_ in found if is_root}
    for computation, _, name, _, opcode, rest in reversed(found):  # users come after what they use
        if (computation, name) in results and opcode in NO_MEMORY:
            results |= {(computation, operand) for operand in re.findall(r"%([\w.-]+)", rest)}
    assert [(name, one.shape) for name, one in find_results(text).found] == [
        (name, shape)
        for computation, _, name, shape, opcode, _ in found
        if opcode not in NO_MEMORY
        and not (computation in fused and ((computation, name) in results or opcode == "parameter"))
    ]
    everywhere = [one.shape for one in gl.xla.find_shapes(text)]
    assert len(everywhere) > len(found) and all(each[3] in everywhere for each in found)


def test_the_programs_have_the_cases_they_are_kept_for():
    assert [path.stem for path in DUMPS] == ["convolution", "loop", "packed", "tiled"]
    found = {path.stem: [one.found.shape for one in find_results(path.read_text()).found] for path in DUMPS}
    leaves = {name: [leaf for shape in shapes for leaf in arrays(shape)] for name, shapes in found.items()}
    assert any(isinstance(shape, gl.xla.TupleShape) for shape in found["loop"]) and any(
        leaf.is_packed for leaf in leaves["packed"]
    )
    assert any(leaf.is_tiled for leaf in leaves["tiled"]) and any(leaf.is_dynamic for leaf in leaves["tiled"])
    assert (
        gl.xla.TokenShape() in found["tiled"]
        and "f32[9,9]" in DUMPS[3].read_text()
        and gl.Shape("f32", (9, 9)) not in leaves["tiled"]
    )


def test_a_text_without_instructions_gives_all_its_shapes():
    report = "Size: 4.00G\nShape: bf16[2048,1]{0,1:T(4,128)(2,1)}\nShape: (s32[], token[])\n"
    found = list(find_results(report).found)
    assert [(name, one.line) for name, one in found] == [("", 2), ("", 3)] and len(arrays(found[1].found.shape)) == 1
    assert [(name, one.line) for name, one in find_results(report + "%a = f32[2] add(%b)").found] == [("a", 4)]


# ---- fusions -------------------------------------------------------------------------------------------------------

ENTRY = """
ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  ROOT %f = RESULT fusion(f32[8]{0} %a), kind=kLoop, calls=%fused, metadata={op_name="x"}
}
"""


def names(body, result="f32[8]{0}", begin="%fused (p: f32[8]) -> f32[8] {"):
    """The instructions that count in a program of one fusion with this body."""
    text = f"HloModule m\n\n{begin}\n{body}\n}}\n{ENTRY.replace('RESULT', result)}"
    return [name for name, _ in find_results(text).found]


@pytest.mark.parametrize(
    "body, counted",
    [
        ("  %p = f32[8] parameter(0)\n  ROOT %r = f32[8] negate(%p)", []),
        ("  %p = f32[8] parameter(0)\n  %s = f32[8] sine(%p)\n  ROOT %r = f32[8] negate(%s)", ["s"]),
        ("  p = f32[8] parameter(0)\n  s = f32[8] sine(p)\n  ROOT r = f32[8] bitcast(s)", []),
        ("  %s = f32[8] sine()\n  %t = f32[8] sine()\n  ROOT %r = (f32[8], f32[8]) tuple(f32[8]{0} %s, %t)", []),
        (
            "  %s = f32[8] sine()\n  %b = s32[8] bitcast(%s)\n  %c = f32[8] cosine()\n  ROOT %r = (s32[8]) tuple(%b)",
            ["c"],
        ),
        ("  ROOT %r = f32[8] bitcast(%r)", []),
        ("  %main = f32[8] sine()\n  ROOT %r = f32[8] bitcast(%p)", ["main"]),
        ("  ROOT %r = f32[8] negate(%s)\n  %s = f32[8] sine()", ["s"]),
        ("  %r.1 = f32[8] sine()\n  ROOT %r = f32[8] bitcast(%r.10)\n  %r.10 = f32[8] cosine()", ["r.1"]),
    ],
)
def test_operands_and_results_of_a_fusion_count_once(body, counted):
    assert names(body) == [*counted, "a", "f"]


@pytest.mark.parametrize(
    "begin", ["fused {", "%fused (p: (f32[8], s32[])) -> (f32[8], f32[8]) {  ", "\t%fused (p: f32[8]) -> f32[8] {\r"]
)
def test_computations_are_known_however_they_begin(begin):
    assert names("  %s = f32[8] sine(%p)\n  ROOT %r = f32[8] negate(%s)", begin=begin) == ["s", "a", "f"]


def test_roots_and_parameters_of_other_computations_count():
    for other in ("%fused.1 (p: f32[8]) -> f32[8] {", "%add {", "ENTRY %other {"):
        body = "  %p = f32[8] parameter(0)\n  ROOT %r = f32[8] negate(%p)"
        assert names(body, begin=other) == ["p", "r", "a", "f"]


def test_a_fusion_of_several_results_counts_as_a_tuple():
    body = "  %s = f32[8] sine()\n  %t = f32[8] cosine()\n  ROOT %r = (f32[8], f32[8]) tuple(%s, %t)"
    text = f"%fused () -> (f32[8], f32[8]) {{\n{body}\n}}\n{ENTRY.replace('RESULT', '(f32[8]{0}, f32[8]{0})')}"
    assert sum(leaf.nbytes for _, found in find_results(text).found for leaf in arrays(found.shape)) == 3 * 32


def test_a_name_is_a_whole_word_before_the_equals_sign():
    text = "ROOT %a.b-c_1 = f32[2] add()\n/* %no */ x = f32[3] add() = f32[4] add()\n%" + "n" * 5000 + " = f32[5] add()"
    found = [name for name, _ in find_results(text).found]
    assert found[:3] == ["a.b-c_1", "x", ""] and 900 < len(found[3]) < 1100 and set(found[3]) == {"n"}
