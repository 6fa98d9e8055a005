"""Pictures as SVG: valid XML without anything foreign, every cell once, the same bytes everywhere, and never large."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulayout as gl
from gpulayout.pictures.figure import PAGE, figure_of
from gpulayout.pictures.svg import SMALL_CHARACTER, Sheet, lines
from tests.pictures.test_figure import SHAPES, big_shapes, grid_cells, strip_cells
from tests.support.strategies import any_shapes

SVG = "{http://www.w3.org/2000/svg}"
LARGEST = 150_000  # bytes of any picture


def parsed(svg):
    return ElementTree.fromstring(svg.encode("utf-8"))


def cells(root, kind):
    """The cells of the grid or the strip: (place, text, whether it is padding)."""
    group = root.find(f"{SVG}g[@class='gl-{kind}']")
    return [
        (int(cell.get("data-place")), cell.find(f"{SVG}text").text, "gl-padding" in cell.get("class"))
        for cell in group.iter(f"{SVG}g")
        if "gl-cell" in cell.get("class", "")
    ]


@pytest.mark.parametrize("text", SHAPES)
def test_the_cells_are_those_of_the_figure(text):
    shape = gl.parse_shape(text)
    picture, figure = parsed(shape.draw().svg), figure_of(shape)
    assert cells(picture, "grid") == [(cell.place, str(cell.place), not cell.is_element) for cell in grid_cells(figure)]
    strip = cells(picture, "strip")
    assert [(place, padding) for place, _, padding in strip] == [
        (cell.place, not cell.is_element) for cell in figure.strip
    ]
    assert [text for _, text, padding in strip if not padding] == [
        ",".join(map(str, gl.delinearize(place, shape))) or "()" for place, _, padding in strip if not padding
    ]


def test_names_stand_in_the_grid_and_in_memory_as_the_document_prints_them():
    picture = parsed(gl.parse_shape("f32[2,3]{0,1:PD(3,5)}").draw(elements="abcdef").svg)
    assert "".join(text for _, text, _ in cells(picture, "strip")) == "ad0be0cf0000000"
    assert [text for _, text, _ in cells(picture, "grid")][:6] == ["a 0", "b 3", "c 6", "9", "12", "d 1"]


def covered(root, kind):
    """The unit segments (x, y, horizontal) that the paths of a class cover."""
    found = set()
    for path in root.iter(f"{SVG}path"):
        if path.get("class") == kind:
            for x, y, way, end in re.findall(r"M(\d+) (\d+)([HV])(\d+)", path.get("d")):
                x, y, end = int(x), int(y), int(end)
                found |= {(at, y, True) for at in range(x, end)} if way == "H" else set()
                found |= {(x, at, False) for at in range(y, end)} if way == "V" else set()
    return found


@pytest.mark.parametrize(
    "text", [*SHAPES, "u8[8,8]{1,0:T(4,4)(2,2)}", "u8[9,9]{0,1:T(4,2)(2,1)}", "u8[5,200]{0,1:T(2,9)}"]
)
def test_the_lines_of_tiles_run_between_tiles(text):
    shape = gl.parse_shape(text)
    root, figure = parsed(shape.draw().svg), figure_of(shape, room=PAGE)
    tiles = [covered(root, f"gl-tile{level}") for level in (1, 2)]
    for kind, cells in (("grid", grid_cells(figure)), ("strip", strip_cells(figure))):
        rects = [box(rect) for rect in root.iterfind(f"{SVG}g[@class='gl-{kind}']/{SVG}g[@data-place]/{SVG}rect")]
        corners = {rect[:2]: cell for rect, cell in zip(rects, cells, strict=True)}
        for (x, y, width, height), cell in zip(rects, cells):
            for step, (across, down) in enumerate(((width, 0), (0, height))):
                other = corners.get((x + across, y + down))
                if other and (kind == "grid" or not step):
                    middle = (x + across, y + height // 2, False) if across else (x + width // 2, y + down, True)
                    level = figure.border(cell, other)
                    assert [middle in lines for lines in tiles] == [level == 1, level == 2]
            if kind == "strip" and figure.blocks:
                for side, place in ((x, cell.place), (x + width, cell.place + 1)):
                    begins = place % figure.blocks[0] == 0 or place == shape.buffer_size
                    assert ((side, y + height // 2, False) in tiles[0]) == begins
    assert bool(tiles[0]) == bool(figure.blocks)


def test_exactly_the_padding_is_hatched():
    for text in SHAPES:
        root = parsed(gl.parse_shape(text).draw().svg)
        patterns = {pattern.get("id") for pattern in root.iter(f"{SVG}pattern")}
        for cell in root.iterfind(f".//{SVG}g[@data-place]"):
            fill = cell.find(f"{SVG}rect").get("fill")
            assert (fill is not None) == ("gl-padding" in cell.get("class"))
            assert fill is None or fill.removeprefix("url(#").removesuffix(")") in patterns


@pytest.mark.parametrize(
    "text, strip, words",
    [
        ("s8[1]{0:PD(2)PV(lowest)}", "-128", "padding: lowest (-128)"),
        ("f32[1]{0:PD(2)PV(lowest)}", "-inf", "padding: lowest (-inf)"),
        ("f32[1]{0:PD(2)PV(2.5)}", "2.5", "padding: 2.5"),
        ("f32[1]{0:PD(2)}", "0", "padding: 0 (no value given)"),
        ("f32[1]{0:PD(2)PV(unknown)}", "0", "padding: unknown (0 is written)"),
        ("c64[1]{0:PD(2)PV(1+2j)}", "1+2j", "padding: 1+2j"),
        ("s64[1]{0:PD(2)PV(highest)}", "92233…", "padding: highest (9223372036854775807)"),
        ("pred[1]{0:PD(2)PV(one)}", "True", "padding: one (True)"),
    ],
)
def test_padding_is_shown_with_its_value(text, strip, words):
    svg = gl.parse_shape(text).draw().svg
    assert cells(parsed(svg), "strip")[1][1:] == (strip, True) and words in svg


def test_bytes_are_marked_below_packed_elements():
    svg = gl.parse_shape("u4[5]{0:E(4)}").draw().svg
    assert re.findall(r">byte (\d+)<", svg) == ["0", "1", "2"]
    assert ">byte " not in gl.parse_shape("u4[5]").draw().svg


def test_pointing_at_a_cell_says_where_it_is():
    svg = gl.parse_shape("f32[2,3]{0,1:PD(3,5)}").draw().svg
    assert svg.count("<title>index (1,2), place 7, byte 28</title>") == 2
    assert svg.count("<title>padding, place 14, byte 56</title>") == 2
    assert "place 3, byte 1 bit 4" in gl.parse_shape("u4[5]{0:E(4)}").draw().svg


def test_the_arrow_is_beside_the_fastest_dimension():
    for text, across in (("f32[2,3]{1,0}", True), ("f32[2,3]{0,1}", False)):
        arrow = re.search(r'class="gl-arrow" d="M\d+ \d+(.)', gl.parse_shape(text).draw().svg)
        assert arrow[1] == ("H" if across else "V")
    assert "z: 3, fastest" in gl.parse_shape("f32[2,3,4,4]{1,3,2,0}").draw().svg


def test_the_order_is_that_before_tiles():
    shown = {text: gl.parse_shape(text).draw().svg for text in ("f32[4,4]", "bf16[16,256]{1,0:T(8,128)(2,1)}")}
    assert [re.findall("minor to major.*?(?=<)", svg) for svg in shown.values()] == [
        ["minor to major: x, y"],
        ["minor to major, before tiles: x, y"],
    ]


def test_titles_of_narrow_panels_stand_apart():
    root = parsed(gl.Shape("u8", (2,) * 20 + (1,) * 44).draw().svg)
    found = [text for text in root.iter(f"{SVG}text") if "=" in text.text or text.text == "all 0"]
    starts = [int(text.get("x")) for text in found]
    assert len(found) > 3 and len({text.get("y") for text in found}) == 1
    ends = [start + SMALL_CHARACTER * len(text.text) for start, text in zip(starts, found)]
    assert all(end < start for end, start in zip(ends, starts[1:]))


def test_nothing_in_a_picture_is_foreign_or_runs():
    svg = gl.parse_shape("bf16[64,512]{1,0:T(8,128)(2,1)}").draw().svg
    names = {element.tag.removeprefix(SVG) for element in parsed(svg).iter()}
    assert names <= {"svg", "title", "style", "defs", "pattern", "rect", "path", "g", "text"}
    assert not re.search(r"href|@import|<script| on\w+=|url\((?!#)", svg) and svg.count("http") == 1


def rules(css):
    """(selector, property) of every declaration."""
    return [
        (selector, declaration.partition(":")[0])
        for selectors, declarations in re.findall(r"([^{}]+)\{([^{}]*)\}", css)
        for selector in selectors.split(",")
        for declaration in declarations.split(";")
    ]


def looks():
    """The rules of all kinds of pictures, in light and in dark mode."""
    svgs = [gl.parse_shape(text).draw().svg for text in SHAPES]
    svgs += [gl.plan("f32[64,64]", "f32[64,64]{0,1}").draw().svg, gl.parse_shape("f32[64]{0:PD(99)}").draw().svg]
    parts = [parsed(svg).find(f"{SVG}style").text.split("@media(prefers-color-scheme:dark){") for svg in svgs]
    light, dark = ({rule for part in parts for rule in rules(part[number])} for number in (0, 1))
    return light, dark, svgs


def test_every_colour_has_another_one_in_dark_mode():
    light, dark, _ = looks()
    colors = {(selector, name) for selector, name in light if name in ("fill", "stroke")}
    assert len(dark) > 20 and colors - dark <= {
        (selector, "fill") for selector in (".gl-line", ".gl-arrow", ".gl-tile1", ".gl-tile2", ".gl-hatch")
    }


def test_pictures_on_one_page_do_not_change_each_other():
    light, dark, svgs = looks()
    assert all(selector.startswith(".gl-") for selector, _ in light | dark)
    elements = {
        (element.tag.removeprefix(SVG), element.get("class", ""), parent.get("class", ""))
        for svg in svgs
        for parent in parsed(svg).iter()
        for element in parent
    }
    for tag, own, outer in elements:
        found = [(weight, name) for selector, name in light if (weight := weight_of(selector, tag, own, outer))]
        assert len(set(found)) == len(found), (tag, own, outer)


def weight_of(selector, tag, own, outer):
    """How specific a selector is that an element matches, or None."""
    *ancestors, last = selector.split(" ")
    name, *classes = last.split(".")
    ancestors = [ancestor.removeprefix(".") for ancestor in ancestors]
    matches = name in ("", tag) and set(classes) <= set(own.split())
    if not matches or not set(ancestors) <= {*outer.split(), "gl-picture"}:
        return None
    return len(classes) + len(ancestors), bool(name)


def test_a_picture_has_the_rules_that_it_uses():
    plain, padded = (gl.parse_shape(text).draw().svg for text in ("f32[2,3]", "f32[2,3]{1,0:PD(3,5)}"))
    assert "gl-hatch" not in plain and "gl-move" not in padded and ".gl-hatch" in padded and "<pattern" in padded


@pytest.mark.parametrize("name", ["<script>", "a&b", "]]>", '"', "\0", "\ud800", "\uffff", "é…", "\x1b[31m", "\u202e"])
def test_hostile_names_stay_text(name):
    picture = gl.parse_shape("f32[2]").draw(elements=[name, "x" * 5000])
    texts = [text for _, text, _ in cells(parsed(picture.svg), "strip")]
    assert texts[0] == re.sub("[\0\ud800\uffff\x1b\u202e]", "\ufffd", name)[:8] and len(texts[1]) == 8


def test_pictures_are_the_same_bytes_in_every_process():
    script = f"import gpulayout as gl; [print(gl.parse_shape(text).draw().svg) for text in {SHAPES!r}]"
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def box(element):
    return tuple(int(element.get(name)) for name in ("x", "y", "width", "height"))


@given(any_shapes() | big_shapes().filter(bool))
def test_every_picture_is_valid_small_and_inside_its_frame(shape):
    svg = shape.draw().svg
    assert len(svg.encode()) < LARGEST
    root = parsed(svg)
    width, height = int(root.get("width")), int(root.get("height"))
    assert root.get("viewBox") == f"0 0 {width} {height}" and width < 1100 and height < 3000
    for rect in root.iterfind(f".//{SVG}g//{SVG}rect"):
        x, y, across, down = box(rect)
        assert 0 <= x <= x + across <= width and 0 <= y <= y + down <= height
    for text in root.iter(f"{SVG}text"):
        assert 0 <= int(text.get("x")) <= width and 0 <= int(text.get("y")) <= height


@given(any_shapes())
def test_no_two_cells_overlap(shape):
    boxes = sorted(box(rect) for rect in parsed(shape.draw().svg).iterfind(f".//{SVG}g[@data-place]/{SVG}rect"))
    for one, other in zip(boxes, boxes[1:]):
        if one[0] == other[0]:
            assert one[1] + one[3] <= other[1]


@pytest.mark.parametrize(
    "text",
    [
        "c128[12,10,8]{1,0,2:T(*,*,8,4)L(1000)}",  # the largest of many thousand random shapes
        "c128[100,200,12]{1,0,2:PD(200,300,12)T(3,3,2)L(1000)}",
        "c128[3,3,3,3,3,100,200,12]{6,5,7,4,3,2,1,0:T(8,128)}",
        f"f32[{','.join('2' * 60)}]",
        "u8[32768,32768,32768,32768]{0,1,2,3}",
        "u8[4611686018427387904]",
        "u8[16,16]",
    ],
)
def test_pictures_of_the_worst_shapes_are_below_the_limit(text):
    assert len(gl.parse_shape(text).draw().svg.encode()) < LARGEST


def test_names_of_many_bytes_stay_below_the_limit():
    shape = gl.parse_shape("c128[12,10,8]{1,0,2:T(*,*,8,4)L(1000)}")
    assert len(shape.draw(elements=["&" * 50] * shape.element_count).svg.encode()) < LARGEST


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 3), st.booleans())))
def test_joined_lines_cover_what_the_segments_cover(segments):
    ends = [(x, y, x + size * across, y + size * (not across)) for x, y, size, across in segments]

    def points(found):
        return {(across, at, point) for across, at, low, high in found for point in range(low, high)}

    paths = re.findall(r"M(\d+) (\d+)([HV])(\d+)", lines(ends))
    joined = [
        (kind == "H", int(y), int(x), int(end)) if kind == "H" else (False, int(x), int(y), int(end))
        for x, y, kind, end in paths
    ]
    given_ = [(True, y, x, to_x) if y == to_y else (False, x, y, to_y) for x, y, to_x, to_y in ends]
    assert points(joined) == points(given_) and len(joined) <= len(ends)


def test_a_sheet_grows_with_its_texts():
    sheet = Sheet()
    sheet.text(10, 20, "abc")
    assert (sheet.right, sheet.bottom) == (34, 24)
    sheet.text(10, 20, "abc", "gl-small gl-ink", "end")
    assert parsed(sheet.svg("<title>", 6)).get("width") == "40"
