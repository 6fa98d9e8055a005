"""The copies of a program: which instructions are copies, what they move, how often, and where they come from."""

import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.xla.hlo_copies import HloCopies
from gpulayout.xla.hlo_program import HloRuns, runs_of, source_frames, source_line

HLO = pathlib.Path(__file__).resolve().parents[1] / "data" / "hlo"
TEXTS = {path.relative_to(HLO).as_posix(): path.read_text() for path in sorted(HLO.rglob("*.txt"))}
MODEL = TEXTS["dump/module_0000.jit_model.cpu_after_optimizations.txt"]


def one(instruction, before=""):
    """(opcode, from, to) of the copies of one instruction."""
    found = gl.xla.find_copies(f"{before}\n{instruction}")
    return [(copy.opcode, str(copy.source), str(copy.target)) for copy in found]


@pytest.mark.parametrize(
    "instruction, expected",
    [
        ("%b = f32[2,3]{0,1} copy(f32[2,3]{1,0} %a)", [("copy", "f32[2,3]{1,0}", "f32[2,3]{0,1}")]),
        ("b = f32[2,3]{0,1} copy(f32[2,3]{1,0} a)", [("copy", "f32[2,3]{1,0}", "f32[2,3]{0,1}")]),
        ("%b = f32[2,3]{1,0} copy(f32[2,3]{1,0} %a)", [("copy", "f32[2,3]{1,0}", "f32[2,3]{1,0}")]),
        (
            "%b = bf16[2,3]{1,0:T(8,128)(2,1)S(1)} copy(bf16[2,3]{0,1:T(8,128)(2,1)} %a)",
            [("copy", "bf16[2,3]{0,1:T(8,128)(2,1)}", "bf16[2,3]{1,0:T(8,128)(2,1)S(1)}")],
        ),
        (
            "%b = (f32[2,3]{1,0:S(1)}, f32[2,3]{0,1}, u32[]) copy-start(f32[2,3]{0,1} %a), x=0",
            [("copy-start", "f32[2,3]{0,1}", "f32[2,3]{1,0:S(1)}")],
        ),
        ("%b = f32[2,3]{1,0} copy-done(%a)", []),
        (
            "%b = f32[3,4,2]{2,1,0} transpose(f32[2,3,4]{2,1,0} %a), dimensions={1,2,0}",
            [("transpose", "f32[3,4,2]{1,0,2}", "f32[3,4,2]{2,1,0}")],
        ),
        ("%b = f32[3,2]{0,1} transpose(f32[2,3]{1,0} %a), dimensions={1,0}", []),
        (
            "%b = f32[3,4,2]{2,1,0} transpose(f32[2,3,4]{1,0,2} %a), dimensions={1,2,0}",
            [("transpose", "f32[3,4,2]{0,2,1}", "f32[3,4,2]{2,1,0}")],
        ),
        ("%b = f32[6]{0} reshape(f32[2,3]{1,0} %a)", []),
        ("%b = f32[3,2]{0,1} reshape(f32[6]{0} %a)", [("reshape", "f32[3,2]{1,0}", "f32[3,2]{0,1}")]),
        ("%b = f32[6]{0} reshape(f32[2,3]{0,1} %a)", [("reshape", "f32[2,3]{0,1}", "f32[6]{0}")]),
        ("%b = f32[2,3]{0,1} bitcast(f32[3,2]{1,0} %a)", []),
        ("%b = s32[2,3]{0,1} bitcast-convert(f32[2,3]{0,1} %a)", []),
        ("%b = f32[2,3]{0,1} add(f32[2,3]{1,0} %a, f32[2,3]{1,0} %a)", []),
        (
            "%b = (f32[2,3]{0,1}, s8[4]{0}) copy((f32[2,3]{1,0}, s8[4]{0}) %a)",
            [("copy", "f32[2,3]{1,0}", "f32[2,3]{0,1}"), ("copy", "s8[4]{0}", "s8[4]{0}")],
        ),
        ("%b = token[] copy(token[] %a)", []),
    ],
)
def test_what_is_a_copy_and_from_where_to_where(instruction, expected):
    assert one(instruction) == expected
    shape = re.search(r"\((\(.*\)|\S+) %?a[,)]", instruction)
    if shape:  # newer programs say the shape of an operand only where it is made
        operand = shape[1]
        assert (
            one(instruction.replace(f"{operand} %a", "%a").replace(f"{operand} a", "a"), f"%a = {operand} z()")
            == expected
        )


@given(st.permutations(range(4)), st.permutations(range(4)), st.permutations(range(4)))
def test_a_transpose_is_the_relayout_of_its_result(permutation, before, after):
    """Bytes in the layout of `source` are those that the operand had."""
    sizes = (2, 3, 4, 5)
    operand = gl.Shape("f32", sizes, gl.Layout(before))
    result = gl.Shape("f32", [sizes[dim] for dim in permutation], gl.Layout(after))
    text = f"%b = {result} transpose({operand} %a), dimensions={{{','.join(map(str, permutation))}}}"
    found = gl.xla.find_copies(text)
    assert bool(found) == (not gl.xla.transpose_is_bitcast(operand, result, permutation))
    for copy in found:
        assert gl.xla.transpose_is_bitcast(operand, copy.source, permutation) and copy.target == result
        assert copy.is_relayout and copy.nbytes == 2 * result.nbytes and not copy.keeps_layout
        assert gl.plan(copy.source, copy.target).explain()


@pytest.mark.parametrize(
    "text",
    [
        "%b = f32[2,3]{0,1} copy(%a)",
        "%b = f32[2,3]{0,1} copy()",
        "%b = f32[2,3]{0,1} copy(f32[3,2]{0,1} %a)",
        "%b = f32[2,3]{0,1} copy(s32[2,3]{1,0} %a)",
        "%b = f32[?,3]{0,1} copy(f32[?,3]{1,0} %a)",
        "%b = f32[3,2]{1,0} transpose(f32[2,3]{1,0} %a), dimensions={1,1}",
        "%b = f32[3,2]{1,0} transpose(f32[2,3]{1,0} %a), dimensions={1,0,2}",
        "%b = (f32[2]{0}, s8[4]{0}) copy((f32[2]{0}) %a)",
        "%b = f32[2]{0,0} copy(f32[2]{0} %a)",
    ],
)
def test_a_copy_that_cannot_be_read_is_named(text):
    copies = HloCopies(f"%z = s8[2] z()\n{text}")
    assert copies.found == [] and copies.unread.total == 1 and copies.unread.first[0][0] == 2


# ---- fusions -------------------------------------------------------------------------------------------------------

FUSED = """%fused (p: f32[2,3]) -> f32[3,2] {
  %p = f32[2,3]{1,0} parameter(0)
BODY
}

ENTRY %main (a: f32[2,3]) -> f32[3,2] {
  %a = f32[2,3]{1,0} parameter(0)
  ROOT %f = RESULT fusion(%a), kind=kLoop, calls=%fused, metadata={op_name="jit(g)/h"}
}
"""
TURNED = "%t = f32[3,2]{1,0} transpose(%p), dimensions={1,0}"


@pytest.mark.parametrize(
    "body, roots, inside",
    [
        ("ROOT " + TURNED, 1, 0),
        (TURNED + "\n  ROOT %b = f32[6]{0} bitcast(%t)", 1, 0),
        (TURNED + "\n  ROOT %b = (f32[3,2]{1,0}, f32[2,3]{1,0}) tuple(%t, %p)", 1, 0),
        (TURNED + "\n %c = f32[3,2]{0,1} copy(%t)\n  ROOT %b = (f32[3,2]{1,0}, f32[3,2]{0,1}) tuple(%t, %c)", 2, 0),
        (TURNED + "\n  ROOT %n = f32[3,2]{1,0} negate(%t)", 0, 1),
        (TURNED + "\n  ROOT %n = f32[3,2]{1,0} copy(%t)", 1, 0),
        ("ROOT %n = f32[2,3]{1,0} copy(%p)", 0, 0),
        ("%u = f32[3,2]{0,1} transpose(%p), dimensions={1,0}\n  ROOT %n = f32[3,2]{1,0} copy(%u)", 1, 0),
        ("ROOT %t = f32[3,2]{1,0} bitcast(%t)", 0, 0),
    ],
)
def test_a_fusion_is_a_copy_if_its_result_is_one(body, roots, inside):
    result = "(f32[3,2]{1,0}, f32[3,2]{0,1})" if "tuple" in body else "f32[3,2]{1,0}"
    copies = HloCopies(FUSED.replace("BODY", "  " + body).replace("RESULT", result))
    assert len(copies.found) == roots and copies.inside_fusions == inside and not copies.unread.total
    for copy in copies.found:
        assert (copy.name, copy.is_fused, copy.computation, copy.line) == ("f", True, "main", len(body.split("\n")) + 7)
        assert (copy.op_name, copy.runs) == ("jit(g)/h", 1)


def test_a_fusion_has_no_more_copies_than_results():
    """As only broken texts have it."""
    body = "%c = f32[3,2]{0,1} copy(%t)\n  ROOT %b = (f32[3,2]{1,0}, f32[3,2]{0,1}) tuple(%t, %c)"
    copies = HloCopies(FUSED.replace("BODY", f"  {TURNED}\n  {body}").replace("RESULT", "f32[3,2]{1,0}"))
    assert [str(copy.target) for copy in copies.found] == ["f32[3,2]{1,0}"]


def test_programs_one_after_the_other_may_use_the_same_names():
    program = FUSED.replace("RESULT", "f32[3,2]{1,0}")
    first = program.replace("BODY", "  ROOT " + TURNED)
    second = program.replace("BODY", "  ROOT %n = f32[2,3]{1,0} negate(%p)")
    lines = [copy.line for copy in gl.xla.find_copies(first + second + first)]
    assert lines == [8, 8 + 2 * first.count("\n")]


# ---- how often, and from where -----------------------------------------------------------------------------------


def test_the_copies_of_a_compiled_model_say_where_they_are_made_and_how_often_they_run():
    found = {copy.name: copy for copy in gl.xla.find_copies(MODEL)}
    lines = MODEL.splitlines()
    for copy in found.values():
        assert f"%{copy.name} = " in lines[copy.line - 1] and str(copy.target) in MODEL
    assert [
        (copy.name, copy.runs, copy.in_loop, copy.source_line, copy.op_name)
        for copy in found.values()
        if copy.nbytes > 100
    ] == [
        ("copy.11", 5, True, "", ""),
        ("transpose_copy_fusion", None, True, "model.py:10", "jit(model)/while/body/transpose"),
        ("copy_bitcast_fusion.1", 1, False, "model.py:3", "jit(model)/transpose"),
        ("copy_bitcast_fusion", 1, False, "model.py:12", "jit(model)/transpose"),
    ]
    assert found["copy.11"].keeps_layout and not found["copy_bitcast_fusion"].keeps_layout


def test_a_compiled_function_of_today_is_read():
    jax = pytest.importorskip("jax")
    compiled = jax.jit(lambda x: jax.numpy.transpose(x, (2, 0, 1)).reshape(40, 6)).lower(
        jax.ShapeDtypeStruct((5, 6, 8), "float32")
    )
    copies = HloCopies(compiled.compile().as_text())
    assert [(str(copy.source), str(copy.target), copy.runs) for copy in copies.found] == [
        ("f32[8,5,6]{0,2,1}", "f32[8,5,6]{2,1,0}", 1)
    ]
    assert copies.found[0].op_name and copies.found[0].source_line.rpartition(":")[0].endswith(__file__.rsplit("/")[-1])


COPY = "%c = f32[2,3]{0,1} copy(f32[2,3]{1,0} %p)\n"
LOOP = """%inner (p: f32[2]) -> f32[2] {
  %c = f32[2,3]{0,1} copy(f32[2,3]{1,0} %p)
}
%test (p: f32[2]) -> pred[] {
  %c = f32[2,3]{0,1} copy(f32[2,3]{1,0} %p)
}
%outer (p: f32[2]) -> f32[2] {
  %w = f32[2] while(%p), condition=%test, body=%inner, backend_config={"known_trip_count":{"n":"7"}}
}
ENTRY %main (p: f32[2]) -> f32[2] {
  %w = f32[2] while(%p), condition=%none, body=%outer, TRIPS
  %v = f32[2] call(%p), to_apply=%outer
}
"""


@pytest.mark.parametrize(
    "trips, times", [('backend_config={"known_trip_count":{"n":"3"}}', (28, 32)), ("metadata={}", (None, None))]
)
def test_loops_in_loops_multiply_and_a_call_more_adds(trips, times):
    found = gl.xla.find_copies(LOOP.replace("TRIPS", trips))
    assert [(copy.computation, copy.runs, copy.in_loop) for copy in found] == [
        ("inner", times[0], True),
        ("test", times[1], True),
    ]


def test_what_a_loop_calls_is_in_the_loop():
    text = LOOP.replace("call(%p), to_apply=%outer", "negate(%p)").replace(
        "%w = f32[2] while(%p), condition=%test, body=%inner", "%w = f32[2] call(%p), to_apply=%inner"
    )
    trips = 'backend_config={"known_trip_count":{"n":"3"}}'
    found = [(copy.computation, copy.runs, copy.in_loop) for copy in gl.xla.find_copies(text.replace("TRIPS", trips))]
    assert found == [("inner", 3, True), ("test", None, False)]


@pytest.mark.parametrize(
    "call, runs",
    [
        ("f32[2] call(%p), to_apply=%f", (1, False)),
        ("f32[2] conditional(%p), true_computation=%f, false_computation=%g", (None, False)),
        ("f32[2] conditional(%p), branch_computations={%g, %f}", (None, False)),
        ("f32[2] reduce(%p), to_apply=%f", (None, False)),
        ("((f32[2]), f32[2]) async-start(%p), calls=%f", (1, False)),
        ("f32[2] while(%p), condition=%g, body=%f", (None, True)),
        ("f32[2] negate(%p)", (None, False)),
    ],
)
def test_runs_of_what_an_instruction_calls(call, runs):
    text = f"%f (p: f32[2]) -> f32[2] {{\n{COPY}}}\nENTRY %main (p: f32[2]) -> f32[2] {{\n  %r = {call}\n}}"
    (copy,) = gl.xla.find_copies(text)
    assert (copy.runs, copy.in_loop) == runs
    (copy,) = gl.xla.find_copies(COPY)
    assert (copy.runs, copy.in_loop, copy.computation) == (1, False, "")


def test_circles_and_chains_of_calls_end():
    circle = [[(1, HloRuns(1, True))], [(0, HloRuns(1, False))], [(1, HloRuns(1, False))]]
    assert [each.times for each in runs_of(circle, {2})] == [None, None, 1]
    deep = [[(n + 1, HloRuns(2, False))] * 2 for n in range(50_000)] + [[]]
    runs = runs_of(deep, {0})
    assert runs[3] == HloRuns(64, False) and runs[-1] == HloRuns(None, False)


@pytest.mark.parametrize(
    "tables, attributes, expected",
    [
        ("", 'metadata={op_name="a" source_file="dir/m.py" source_line=12}', "dir/m.py:12"),
        ("", 'metadata={source_file="m.py"}', "m.py"),
        ("", "metadata={stack_frame_id=1}", ""),
        ("", "", ""),
        ("StackFrames\n1 {file_location_id=2 parent_frame_id=1}\n", "stack_frame_id=1", ""),
        (
            'FileNames\n1 "a.py"\n2 "b \\" c.py"\n\nFileLocations\n7 {file_name_id=2 function_name_id=1 line=34 end'
            "_line=4}\n\nStackFrames\n3 {file_location_id=7 parent_frame_id=3}\n4 {file_location_id=8}\n",
            "metadata={stack_frame_id=3}",
            'b \\" c.py:34',
        ),
    ],
)
def test_the_line_of_the_source(tables, attributes, expected):
    assert source_line(attributes, source_frames(f"HloModule m\n\n{tables}")) == expected


@pytest.mark.parametrize("text", [b"%a = f32[2] copy(f32[2] %b)", None])
def test_the_text_is_a_str(text):
    with pytest.raises(TypeError, match="^the text to find copies in must be a str, not "):
        gl.xla.find_copies(text)


# ---- hostile texts -------------------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_mangled_program_gives_copies_in_order_that_can_be_explained(name, data):
    text = TEXTS[name]
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 80)))
    piece = data.draw(
        st.sampled_from(["", "\n", "copy(", "{0,1}", '"', "/*", "}\n", "ENTRY ", "body=%region_0.2", "ROOT "])
    )
    copies = HloCopies(text[:begin] + piece + text[end:])
    lines = [copy.line for copy in copies.found]
    assert lines == sorted(lines) and copies.inside_fusions >= 0
    for copy in copies.found:
        assert (
            gl.parse_shape(str(copy.source)) == copy.source and copy.source.element_count == copy.target.element_count
        )
        assert copy.runs is None or copy.runs >= 0


@pytest.mark.parametrize(
    "piece",
    [
        COPY,
        "%c = f32[2] copy(%c)\n",
        "}\n%f {\n",
        "%w = f32[2] while(), body=%f\n",
        "ROOT %t = f32[2] fusion(), calls=%f\n",
    ],
)
def test_many_lines_take_time_that_grows_with_them(piece):
    """Five thousand: steps that grow with the square would not end."""
    copies = HloCopies("%f (p: f32[2]) -> f32[2] {\n" + piece * 5_000 + "}\n")
    assert len(copies.found) + copies.unread.total == (5_000 if " copy(" in piece else 0)
