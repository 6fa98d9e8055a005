"""Reports of XLA's memory, and the lines of every text that were not read."""

import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.xla.hlo import visible
from gpulayout.xla.hlo_program import read_program
from gpulayout.xla.hlo_results import find_results

HLO = pathlib.Path(__file__).resolve().parents[1] / "data" / "hlo"
REPORTS = HLO / "reports"
TEXTS = {path.relative_to(HLO).as_posix(): path.read_text() for path in sorted(HLO.rglob("*.txt"))}


def read(text):
    """The kind of a text, (name, shape, line) of its results, and (line, text) of those shown that were not read."""
    results = find_results(text)
    found = [(name, str(one.shape), one.line) for name, one in results.found]
    return results.kind, found, [tuple(line) for line in results.unread.first]


def test_the_report_of_a_tpu_gives_each_allocation_once_with_the_name_of_its_label():
    kind, found, unread = read(TEXTS["reports/tpu.txt"])
    assert kind == "allocations" and found == [
        ("copy.4048", "s32[2097152,8,4]{2,1,0:T(8,128)}", 18),
        ("fusion.762", "bf16[32,4096,4096]{1,2,0:T(8,128)(2,1)}", 27),
        ("fusion.10.remat3", "f32[16384,1,4096]{2,1,0:T(2,128)}", 34),
    ]
    assert unread == [(41, "4. Size: 128.00M")]


def test_the_bytes_of_a_tpus_report_are_those_that_it_says():
    text = TEXTS["reports/tpu.txt"]
    said = [float(size) * 2 ** {"M": 20, "G": 30}[unit] for size, unit in re.findall(r"\. Size: ([\d.]+)([MG])", text)]
    unpadded = [
        float(size) * 2 ** {"M": 20, "G": 30}[unit] for size, unit in re.findall(r"Unp.*: ([\d.]+)([MG])", text)
    ]
    shapes = [gl.parse_shape(shape) for _, shape, _ in read(text)[1]]
    assert [shape.nbytes for shape in shapes] == said[:3] and [shape.unpadded_nbytes for shape in shapes] == unpadded


def test_the_report_of_a_gpu_gives_operations_and_parameters():
    assert read(TEXTS["reports/gpu.txt"]) == (
        "allocations",
        [
            ("concatenate", "f32[4096,128,3]{2,1,0}", 15),
            ("", "f32[256,128,3]{2,1,0}", 20),
            ("tuple", "(f32[4096,128,3]{2,1,0}, token[])", 26),
        ],
        [],
    )


def test_a_log_may_begin_its_lines_with_anything():
    kind, found, unread = read(TEXTS["reports/tpu_in_a_log.txt"])
    assert kind == "allocations" and unread == []
    assert [one[:2] for one in found] == [one[:2] for one in read(TEXTS["reports/tpu.txt"])[1][:2]]
    prefixed = "".join(f"(EngineCore pid=9) {line}\n" for line in TEXTS["reports/gpu.txt"].splitlines())
    assert read(prefixed)[1:] == read(TEXTS["reports/gpu.txt"])[1:]


def test_a_web_page_may_have_changed_the_rules_and_the_numbers():
    text = re.sub(r"=+\n\n +(\d)\. S", r"=== \1\\. S", TEXTS["reports/tpu.txt"])
    text = text.replace("1. Size", "1\\. Size")
    assert "=== 2\\. Size" in text and [one[:2] for one in read(text)[1]] == [
        one[:2] for one in read(TEXTS["reports/tpu.txt"])[1]
    ]


def test_an_assignment_with_its_peak_buffers_gives_the_values():
    text = TEXTS["dump/module_0000.jit_model.cpu_after_optimizations-buffer-assignment.txt"]
    both = text + TEXTS["reports/gpu.txt"].partition("Peak")[2]
    assert read(both) == read(text)


def test_the_values_of_a_buffer_assignment_are_those_with_memory_of_their_own():
    text = TEXTS["dump/module_0000.jit_model.cpu_after_optimizations-buffer-assignment.txt"]
    kind, found, unread = read(text)
    values = re.findall(r"value: <\d+ (\S+?)(?:\{.*?\})?( \(phi\))? @\d+> \(size=(\d+),.*?\): (.*)", text)
    own = [(name, shape, int(size)) for name, phi, size, shape in values if not phi and not shape.startswith("(")]
    assert kind == "values" and unread == [] and 20 < len(own) < len(values)
    assert [(name, shape, gl.parse_shape(shape).nbytes) for name, shape, _ in found] == own


# ---- what is left ----------------------------------------------------------------------------------------------------

ENTRY = "ENTRY %e (p: f32[4]) -> f32[4] {\n  %p = f32[4]{0} parameter(0)\n"


@pytest.mark.parametrize(
    "text, unread",
    [
        (ENTRY + "  %a = f32[2]{0,0} add(%p, %p)\n}", [(3, "%a = f32[2]{0,0} add(%p, %p)")]),
        (ENTRY + "  %a = f9[2]{0} add(%p, %p)\n}", [(3, "a = f9[2]{0} add(%p, %p)")]),
        (ENTRY + "  %a = (f32[2], f32[) tuple(%p, %p)\n}", [(3, "%a = (f32[2], f32[) tuple(%p, %p)")]),
        (ENTRY + "  %a = f32[2]{0}\n}\nShape: s8[3] s8[4]", [(3, "%a = f32[2]{0}"), (5, "Shape: s8[3] s8[4]")]),
        (ENTRY + "  ROOT %a = f32[4]{0} add(f32[4]{0} %p,\n   f32[4]{0} %p)\n}", []),
        (ENTRY + '  ROOT %a = f32[4]{0} add(%p), metadata={op_name="f32[2]{0,0}"} // s8[\n}', []),
        ("HloModule m, entry_computation_layout={(f32[4])->f32[4]}\n\n" + ENTRY + "}", []),
        (ENTRY + "}\n(f32 and,\n s8[3])", [(5, "s8[3])")]),
        ("f32[2]{0,0} s8[2] and\n\n f32[-1]", [(1, "f32[2]{0,0} s8[2] and"), (3, "f32[-1]")]),
        (
            "1. Size: 1G\nShape: f32[2]\n s8[9]\n2. Size: 9\n Shape: f32[",
            [(3, "s8[9]"), (4, "2. Size: 9"), (5, "Shape: f32[")],
        ),
        (
            "Buffer 1:\n Shape: f32[2]\n Shape: f32[3]\n%a = f32[3] add()",
            [(3, "Shape: f32[3]"), (4, "%a = f32[3] add()")],
        ),
        ("Buffer 1:\n Shape: f32[2] in s8[9]", []),
        ("value: <1 a @0> (size=4,offset=0): s8[4]\n s8[5]", [(2, "s8[5]")]),
        ("value: <1 a @0> (size=4,offset=0): s8[4] in s8[9]", []),
        ("value: <1 a @0> (size=4,offset=0): s8[4]\n from instruction: %a = s8[5] add()", []),
    ],
)
def test_lines_with_a_shape_that_gave_nothing_are_named(text, unread):
    kind, found, shown = read(text)
    if kind == "program" and "  %a = f9" in text:
        shown = [(line, one.removeprefix("%")) for line, one in shown]
    assert shown == unread and found
    assert find_results(text).unread.total == len(unread)


def test_many_lines_are_counted_and_three_are_shown_cut():
    unread = find_results("x" * 500 + " f32[" + "9" * 900 + "]\n" + "f32[2]{0,0}\n" * 700).unread
    assert unread.total == 701 and [line.line for line in unread.first] == [1, 2, 3]
    assert unread.first[0].text.startswith("f32[999") and len(unread.first[0].text) == 80


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_left_of_real_texts(name):
    results = find_results(TEXTS[name])
    assert results.unread.total == (name == "reports/tpu.txt") and any(results.found)


PROGRAMS = sorted(name for name in TEXTS if "report" not in name and "assignment" not in name)
LIKE_INSTRUCTION = re.compile(r"[ \t]*(?:ROOT[ \t]+)?%?[\w.\-]+[ \t]*=[ \t]*(?:\(|[a-z]\w*\[).", re.ASCII)


def mangled(name, data, pieces):
    """A text from which a piece is lost, and into which another one is put."""
    text = TEXTS[name][:9000]
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 60)))
    return text[:begin] + data.draw(st.sampled_from(pieces)) + text[end:]


@given(st.sampled_from(PROGRAMS), st.data())
def test_every_line_of_a_mangled_program_that_looks_like_an_instruction_is_read_or_kept(name, data):
    text = mangled(name, data, ["", " ", "\n", "f32[", "{0,0}", "(", "x = ", "%y = s8[3] z("])
    seen = visible(text)
    program = read_program(text, seen)
    line_of = lambda position: seen.count("\n", 0, position) + 1  # noqa: E731
    read_lines = {line_of(each.start) for each in program.instructions} | {*map(line_of, program.unread)}
    like = {number for number, line in enumerate(seen.split("\n"), 1) if LIKE_INSTRUCTION.match(line)}
    assert like <= read_lines and program.unread == sorted(program.unread)


@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_mangled_text_gives_results_in_order_and_every_allocation_once(name, data):
    text = mangled(name, data, ["", "\n", "f32[", "{0,0}", '"', "/*", "Shape: ", "x = ", "1. Size:"])
    results = find_results(text)
    found = list(results.found)
    lines = [one.found.line for one in found]
    assert lines == sorted(lines) and len(results.unread.first) == min(results.unread.total, 3)
    shown = [line.line for line in results.unread.first]
    assert shown == sorted({*shown}) and all(line.text for line in results.unread.first)
    if results.kind == "allocations":
        heads = re.findall(r"(?m)(?:^|(?<=[ \t]))(?:\d+\. Size:|Buffer \d+:(?=[ \t]*$))", visible(text))
        assert len(found) <= len(heads) <= len(found) + results.unread.total
