"""A page with a picture that answers: point at a cell and its place in memory lights up, and the other way round.

One file with the picture and a few lines of script.  It loads nothing: its content security policy forbids it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping

from gpulayout.pictures.figure import Cell, Figure
from gpulayout.pictures.legend import place_text
from gpulayout.pictures.plan_picture import PlanFigure, numbers_of, plan_svg
from gpulayout.pictures.shape_svg import shape_svg
from gpulayout.pictures.svg import clean
from gpulayout.version import __version__

# Pointing at a cell, or focusing it, lights all cells with its number.  One cell of each part of the picture takes part
# in the Tab order; arrow keys go to the nearest cell in their direction, and from the grid down into the strip.
SCRIPT = """
"use strict";
const cells = [...document.querySelectorAll("[data-place]")];
const line = document.querySelector("output");
const notes = JSON.parse(document.getElementById("notes").textContent);
const arrows = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
const part = cell => cell.closest(".gl-grid, .gl-strip, .gl-source, .gl-target");

function light(place) {
  for (const cell of cells) cell.classList.toggle("lit", cell.dataset.place === place);
  line.textContent = notes[place];
}

function middle(cell) {
  const box = cell.querySelector("rect").getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}

function next(cell, [right, down]) {
  const [x, y] = middle(cell);
  let nearest = null, least = Infinity;
  for (const other of cells) {
    const [u, v] = middle(other), ahead = (u - x) * right + (v - y) * down;
    const far = ahead + 8 * Math.abs((u - x) * down + (v - y) * right);
    if (ahead > 1 && far < least) [nearest, least] = [other, far];
  }
  return nearest;
}

function enter(cell) {
  for (const other of cells) if (part(other) === part(cell)) other.tabIndex = other === cell ? 0 : -1;
}

for (const cell of cells) {
  cell.querySelector("title").remove();  // the line says the same
  cell.setAttribute("role", "img");
  cell.setAttribute("aria-label", notes[cell.dataset.place]);
  cell.addEventListener("pointerenter", () => light(cell.dataset.place));
  cell.addEventListener("focus", () => light(cell.dataset.place));
  cell.addEventListener("keydown", event => {
    const found = arrows[event.key] && next(cell, arrows[event.key]);
    if (arrows[event.key]) event.preventDefault();
    if (found) enter(found), found.focus();
  });
}
for (const group of new Set(cells.map(part))) enter(group.querySelector("[data-place]"));
document.querySelector("svg").setAttribute("role", "group");  // its cells can be read one by one
"""

_STYLE = """
:root{color-scheme:light dark}
body{margin:16px;background:#fff;color:#1f2328;font:15px/1.5 system-ui,sans-serif}
code,pre,output{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}
main{overflow-x:auto}
output{display:block;position:sticky;bottom:0;padding:8px 16px;border-top:1px solid #b6bec7;min-height:1.5em}
output{background:#fff}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
[data-place]{cursor:pointer;outline:none}
.gl-cell.lit rect{fill:#0969da;stroke:#0550ae;stroke-width:2}
.gl-cell.lit text{fill:#fff;stroke:none;font-weight:600}
[data-place]:focus rect{stroke:#1f2328;stroke-width:3}
@media(prefers-color-scheme:dark){
body,output{background:#0d1117;color:#e6edf3}
output{border-color:#5b6570}
.gl-cell.lit rect{fill:#79c0ff;stroke:#cae8ff}
.gl-cell.lit text{fill:#0d1117}
[data-place]:focus rect{stroke:#e6edf3}
}
"""


def page(figure: Figure, facts: Mapping[str, object]) -> str:
    """The page of a shape's picture, as HTML; the facts stand below it as JSON."""
    notes = {cell.place: note(figure, cell) for cell in (*figure.grid_cells, *figure.strip_cells)}
    shape = str(figure.shape)
    return _html(shape, shape_svg(figure), notes, facts, f"gpulayout show '{shape}' --html FILE")


def plan_page(figure: PlanFigure, facts: Mapping[str, object]) -> str:
    """The page of a plan's picture, as HTML; `facts` as in `page`."""
    shapes = str(figure.source.shape), str(figure.target.shape)
    command = f"gpulayout explain '{shapes[0]}' '{shapes[1]}' --html FILE"
    return _html(" -> ".join(shapes), plan_svg(figure), plan_notes(figure), facts, command)


def plan_notes(figure: PlanFigure) -> dict[int, str]:
    """What the page says about every cell, by the numbers that `plan_picture.numbers_of` gives them."""
    notes = {cell.place: f"source: {note(figure.source, cell)}" for cell in figure.source.strip_cells}
    numbers = numbers_of(figure)
    notes |= {numbers[cell.place]: f"target: {note(figure.target, cell)}" for cell in figure.target.strip_cells}
    cells = {cell.place: cell for cell in figure.source.strip_cells}
    for target, source in figure.source_of.items():
        notes[source] = f"{note(figure.source, cells[source])} -> target {place_text(figure.target.shape, target)}"
    return notes


def _html(title: str, svg: str, notes: Mapping[int, str], facts: Mapping[str, object], command: str) -> str:
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"  # no other script runs
    in_script = json.dumps(notes).replace("<", "\\u003c")  # nothing in a script element may end it
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{clean(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<p>Point at an element or at a place in memory, or press Tab and the arrow keys.</p>
<main>
{svg}</main>
<output>&nbsp;</output>
<details>
<summary>As text and JSON</summary>
<p><code>{clean(title)}</code></p>
<pre>{clean(json.dumps(facts, indent=1, default=str))}</pre>
<p>Drawn by gpulayout {__version__}: <code>{clean(command)}</code></p>
</details>
<script type="application/json" id="notes">{in_script}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def note(figure: Figure, cell: Cell) -> str:
    """What the page says about a place: the index of its element, its number, and its byte.

    >>> from gpulayout.pictures.figure import figure_of
    >>> from gpulayout.layout.text import parse_shape
    >>> figure = figure_of(parse_shape("f32[2,3]{0,1:PD(3,5)}"))
    >>> [note(figure, cell) for cell in figure.strip if cell][1:3]
    ['[1, 0] -> place 1, byte 4', 'padding -> place 2, byte 8']
    """
    return f"{list(cell.index) if cell.is_element else 'padding'} -> {place_text(figure.shape, cell.place)}"
