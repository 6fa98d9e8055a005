"""`gpulayout show SHAPE --html FILE`: the file, and the page in a real headless Chromium.

The page's laws: pointing at a cell, or focusing it, lights exactly the cells of its place, in the grid and in memory,
and the line says what the library says about that place.  Nothing is loaded, nothing fails, and everything can be read
in light and in dark mode.
"""

import html
import itertools
import json
import re

import pytest

import gpulayout as gl
from gpulayout.pictures.figure import PAGE, figure_of
from gpulayout.pictures.page import note, page, plan_notes
from gpulayout.pictures.plan_picture import plan_figure
from tests.support import chromium
from tests.support.chromium import Screenshot, contrast
from tests.support.command_line import failure, refusal, run

SHAPES = ["f32[2,3]{0,1:PD(3,5)PV(lowest)}", "bf16[20,300]{1,0:T(8,128)(2,1)}", "u8[2,2,3]{1,2,0}", "s4[3,5]{0,1:E(4)}"]
PLANS = [("f32[2,3]", "{0,1:PD(3,5)}"), ("f32[64,100]", "{0,1}"), ("f32[2,3]{0,1:PD(3,5)}", "{1,0}")]
MODES = ("light", "dark")


def cells_of(figure):
    grid = [cell for panel in figure.panels if panel for row in panel.rows for cell in row]
    return [cell for cell in (*grid, *figure.strip) if cell]


# ---- the file ------------------------------------------------------------------------------------------------


def test_the_command_writes_one_file_that_nothing_replaces_unasked(tmp_path):
    path = tmp_path / "page.html"
    said = run("show", SHAPES[0], "--html", path).stdout
    assert said == f"{path}  {SHAPES[0]}  {path.stat().st_size} bytes; open it in a browser\n"
    before = path.read_bytes()
    assert failure("show", SHAPES[1], "--html", path) == f"{path}: the file exists; --overwrite replaces it"
    assert path.read_bytes() == before
    run("show", SHAPES[1], "--html", path, "--overwrite")
    assert path.read_bytes() == run("show", SHAPES[1], "--html", "-").stdout_bytes != before
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    "args, said",
    [
        (("f32[2]", "--html", "x.html", "--json"), "give one of --code, --html and --json"),
        (("--hlo", "x.txt", "--html", "x.html"), "--html needs a SHAPE or a FILE.npy"),
        (("f32[2]", "--overwrite"), "--overwrite needs --html FILE"),
        (("--html", "x.html"), "give either a SHAPE, a FILE.npy, a model or --hlo FILE"),
    ],
)
def test_wrong_options_are_refused(args, said):
    assert refusal("show", *args) == said


@pytest.mark.parametrize("text", [*SHAPES, "f32[]", "f32[0,3]", "f32[" + "1," * 80 + "1]"])
def test_any_shape_has_a_page_without_addresses(text):
    shape = gl.parse_shape(text)
    written = run("show", text, "--html", "-").stdout
    assert not re.search(r"(?:src|href)\s*=|@import|url\((?!#)", written)
    assert re.findall(r"https?://[^\"' ]+", written) == ["http://www.w3.org/2000/svg"]
    shown = re.search(r"<pre>(.*?)</pre>", written, re.DOTALL)[1]
    assert json.loads(shown)["shape"] == str(shape)


def test_facts_cannot_end_the_page():
    figure = figure_of(gl.parse_shape("f32[2]"))
    written = page(figure, {"name": "</pre><script>alert(1)</script>"})
    assert written.count("<script") == 2 and "alert(1)" in written and "<script>alert" not in written


@pytest.mark.parametrize("text", SHAPES)
def test_notes_are_what_the_library_says(text):
    shape = gl.parse_shape(text)
    figure = figure_of(shape, room=PAGE)
    for cell in cells_of(figure):
        index = gl.delinearize(cell.place, shape, padding="mark")
        bits = cell.place * (4 if shape.is_packed else 8 * shape.itemsize)
        byte = f"byte {bits // 8}" + (f" bit {bits % 8}" if shape.is_packed else "")
        known = "padding" if -1 in index else str([int(i) for i in index])
        assert note(figure, cell) == f"{known} -> place {cell.place}, {byte}"


# ---- in a browser --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with chromium.browser() as running:
        yield running


class Opened:
    """A page in the browser, and what it asked for and complained about."""

    def __init__(self, browser, path, mode="light"):
        self.page = browser.new_page(color_scheme=mode, viewport={"width": 1100, "height": 900})
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri())
        self.cells = self.page.evaluate(
            """() => [...document.querySelectorAll("[data-place]")].map((cell, number) => {
                const box = cell.querySelector("rect").getBoundingClientRect();
                return {number, place: Number(cell.dataset.place), x: box.x, y: box.y, width: box.width,
                        height: box.height, grid: cell.closest(".gl-grid") !== null};
            })"""
        )

    def point_at(self, cell):
        self.page.mouse.move(cell["x"] + cell["width"] / 2, cell["y"] + cell["height"] / 2)

    def lit(self):
        """The numbers of the lit cells, and the line."""
        return self.page.evaluate(
            """() => [[...document.querySelectorAll("[data-place]")].flatMap((cell, number) =>
                cell.classList.contains("lit") ? [number] : []), document.querySelector("output").textContent]"""
        )

    def check(self, cell, notes):
        """Exactly the cells of this place are lit, and the line is its note."""
        same = [other["number"] for other in self.cells if other["place"] == cell["place"]]
        assert self.lit() == [same, notes[cell["place"]]], cell


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens the page of a shape; afterwards, checks that it asked for nothing and did not complain."""
    pages = []

    def open_page(*texts, mode="light"):
        path = tmp_path / f"{len(pages)}.html"
        run("show" if len(texts) == 1 else "explain", *texts, "--html", path)
        pages.append((Opened(browser, path, mode), path))
        return pages[-1][0]

    yield open_page
    for shown, path in pages:
        shown.page.close()
        assert shown.requests == [path.as_uri()] and shown.complaints == []


def notes_of(text):
    figure = figure_of(gl.parse_shape(text), room=PAGE)
    return {cell.place: note(figure, cell) for cell in cells_of(figure)}


@pytest.mark.parametrize("text", SHAPES)
def test_pointing_at_a_cell_lights_its_place_and_the_other_way_round(text, opened):
    page, notes = opened(text), notes_of(text)
    assert {cell["grid"] for cell in page.cells} == {True, False}
    for cell in page.cells[:: max(len(page.cells) // 40, 1)]:
        page.point_at(cell)
        page.check(cell, notes)
    both = [cell for cell in page.cells if sum(other["place"] == cell["place"] for other in page.cells) == 2]
    assert len(both) >= 20


@pytest.mark.parametrize("source, target", PLANS)
def test_pointing_at_a_place_of_a_plan_lights_where_its_element_comes_from_and_goes_to(source, target, opened):
    page, plan = opened(source, target), gl.plan(source, target)
    figure = plan_figure(plan.source, plan.target)
    notes = plan_notes(figure)
    count = sum(cell is not None for cell in figure.source.strip)
    source_cells, target_cells = page.cells[:count], page.cells[count:]
    for cell, drawn in zip(target_cells, filter(None, figure.target.strip), strict=True):
        page.point_at(cell)
        page.check(cell, notes)
        index = gl.delinearize(drawn.place, plan.target, padding="mark")
        partners = [other["place"] for other in source_cells if other["place"] == cell["place"]]
        assert partners == ([] if -1 in index else [gl.linearize(index, plan.source)])
        said = page.page.inner_text("output")
        if partners:
            index = [int(i) for i in index]
            width = plan.source.itemsize
            assert said == (
                f"{index} -> place {partners[0]}, byte {partners[0] * width} -> "
                f"target place {drawn.place}, byte {drawn.place * width}"
            )
        else:
            assert said.startswith("target: padding -> place ")


def test_a_plan_has_a_page_too(tmp_path):
    path = tmp_path / "plan.html"
    said = run("explain", *PLANS[0], "--html", path).stdout
    source, target = gl.plan(*PLANS[0]).source, gl.plan(*PLANS[0]).target
    assert said == f"{path}  {source} -> {target}  {path.stat().st_size} bytes; open it in a browser\n"
    shown = html.unescape(re.search(r"<pre>(.*?)</pre>", path.read_text(), re.DOTALL)[1])
    assert json.loads(shown) == json.loads(run("explain", *PLANS[0], "--json").stdout)
    assert failure("explain", *PLANS[0], "--html", path) == f"{path}: the file exists; --overwrite replaces it"
    assert refusal("explain", *PLANS[0], "--html", path, "--json") == "give one of --html and --json"
    assert refusal("explain", *PLANS[0], "--overwrite") == "--overwrite needs --html FILE"


def test_keys_walk_through_the_picture(opened):
    page, notes = opened(SHAPES[0]), notes_of(SHAPES[0])
    grid = {(index // 5, index % 5): cell for index, cell in enumerate(cell for cell in page.cells if cell["grid"])}
    strip = [cell for cell in page.cells if not cell["grid"]]

    def press(key, cell):
        page.page.keyboard.press(key)
        page.check(cell, notes)
        assert page.page.evaluate('document.activeElement.getAttribute("aria-label")') == notes[cell["place"]]

    press("Tab", grid[0, 0])
    press("ArrowRight", grid[0, 1])
    press("ArrowDown", grid[1, 1])
    press("ArrowLeft", grid[1, 0])
    press("ArrowUp", grid[0, 0])
    press("ArrowUp", grid[0, 0])  # nothing lies above
    press("Tab", strip[0])
    press("ArrowRight", strip[1])
    press("Shift+Tab", grid[0, 0])
    for row in (1, 2):
        press("ArrowDown", grid[row, 0])
    page.page.keyboard.press("ArrowDown")
    assert page.page.evaluate('document.activeElement.closest(".gl-strip") !== null')


TEXTS = """() => [...document.querySelectorAll("body *")].filter(e =>
    [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.checkVisibility() &&
    !e.closest("script, style, title")).map(e => {
  const svg = e.closest("svg"), cell = e.closest(".gl-cell"), style = getComputedStyle(e);
  const hatched = cell && cell.classList.contains("gl-padding") && !cell.classList.contains("lit");
  const behind = hatched ? getComputedStyle(svg.querySelector(".gl-blank")).fill
    : cell ? getComputedStyle(cell.querySelector("rect")).fill
    : svg ? getComputedStyle(svg.querySelector(".gl-page")).fill : getComputedStyle(document.body).backgroundColor;
  return [e.textContent, svg ? style.fill : style.color, behind];
})"""


@pytest.mark.parametrize("mode", MODES)
def test_everything_can_be_read(mode, opened):
    page = opened(SHAPES[1], mode=mode)
    page.page.evaluate('document.querySelector("details").open = true')
    page.point_at(page.cells[0])
    found = [
        (text, *(tuple(map(int, re.findall(r"\d+", color)[:3])) for color in colors))
        for text, *colors in page.page.evaluate(TEXTS)
    ]
    assert len(found) > 100
    low = [(text, ink, behind) for text, ink, behind in found if contrast(ink, behind) < 4.5]
    assert low == []
    pages = {behind for text, _, behind in found if text.startswith("Point at")}
    assert all((sum(color) < 150) == (mode == "dark") for color in pages) and len(pages) == 1


@pytest.mark.parametrize("mode", MODES)
def test_the_screenshot_shows_the_lit_places_and_only_them(mode, opened):
    """Pixels near the corner of every cell: a few plain colours, the lit one where it belongs, hatching on padding."""
    pytest.importorskip("matplotlib")
    page = opened(SHAPES[0], mode=mode)
    shape = gl.parse_shape(SHAPES[0])
    page.point_at(page.cells[5])  # element (1,0), place 1
    shot = Screenshot(page.page.screenshot())
    assert page.cells[5]["place"] == 1
    colors = {}
    for cell in page.cells:
        corner = itertools.product(range(4, 10), repeat=2)
        colors[cell["number"]] = {shot.color(cell["x"] + right, cell["y"] + down) for right, down in corner}
        is_element = -1 not in gl.delinearize(cell["place"], shape, padding="mark")
        assert (len(colors[cell["number"]]) == 1) == is_element, cell  # plain, or hatched
    lit = {(9, 105, 218)} if mode == "light" else {(121, 192, 255)}
    assert [number for number, color in colors.items() if color == lit] == [5, 16]
    assert len({frozenset(colors[number]) for number in (0, 1, 2)}) == 3  # a colour for each column in memory
