"""SVG as text: a sheet that grows with what is put on it, with one look for light and dark pages.

All numbers are whole pixels and nothing depends on the machine, so the same picture is the same bytes everywhere.

The look is rules of CSS, of which a picture holds those that it uses.  Colours are plain values, which slide programs
read; a page in dark mode overrides them.  A notebook puts the style of every picture into one page.  So all class names
begin with `gl-`, and no rule relies on its order: what one rule sets, only a rule with a more specific selector sets
again.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape

CHARACTER, SMALL_CHARACTER = 8, 7  # pixels of a character of text, rounded up, and of small text
COLORS = 6  # of cells, and of moves between them
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML
_HATCH = (
    '<defs><pattern id="{}" width="7" height="7" patternUnits="userSpaceOnUse">'
    '<rect class="gl-blank" width="7" height="7"/><path class="gl-hatch" d="M-1 8L8 -1M-1 1L1 -1M6 8L8 6"/>'
    "</pattern></defs>\n"
)


class Sheet:
    """Elements of a picture, and how far they reach."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.right = self.bottom = 0

    def reach(self, x: int, y: int) -> None:
        """Make the picture at least as large as this."""
        self.right, self.bottom = max(self.right, x), max(self.bottom, y)

    def text(self, x: int, y: int, text: str, kind: str = "gl-ink", anchor: str = "start") -> None:
        """A line of text with its base line at y; `kind` is its classes."""
        width = (SMALL_CHARACTER if "gl-small" in kind else 9 if "gl-title" in kind else CHARACTER) * len(text)
        self.reach(x + {"start": width, "middle": width // 2, "end": 0}[anchor], y + 4)
        where = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}"{where}>{clean(text)}</text>')

    def path(self, kind: str, data: str) -> None:
        """A path of lines; they must lie within what is reached otherwise."""
        if data:
            self.parts.append(f'<path class="{kind}" d="{data}"/>')

    def open(self, kind: str) -> None:
        """Begin a group."""
        self.parts.append(f'<g class="{kind}">')

    def close(self) -> None:
        """End a group."""
        self.parts.append("</g>")

    def cell(self, box: tuple[int, int, int, int], place: int, tip: str, text: str, color: int | None) -> None:
        """A box (x, y, width, height) with text in its middle, hatched without a color; pointing at it shows `tip`."""
        x, y, width, height = box
        self.reach(x + width, y + height)
        kind, ink, fill = (
            ("gl-padding", "gl-muted", ' fill="url(#)"') if color is None else (f"gl-c{color}", "gl-ink", "")
        )
        self.parts.append(
            f'<g class="gl-cell {kind}" data-place="{place}"><title>{clean(tip)}</title>'
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}"{fill}/>'
            f'<text class="{ink}" x="{x + width // 2}" y="{y + height // 2 + 5}">{clean(text)}</text></g>'
        )

    def svg(self, title: str, margin: int) -> str:
        """The whole picture.  `url(#)` in the parts becomes the name of the pattern of padding, this picture's own."""
        width, height = self.right + margin, self.bottom + margin
        body = "\n".join([f'<rect class="gl-page" width="{width}" height="{height}" rx="6"/>', *self.parts])
        if "url(#)" in body:
            name = f"gl-hatch-{zlib.crc32(body.encode()):08x}"
            body = _HATCH.format(name) + body.replace("url(#)", f"url(#{name})")
        start = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="gl-picture" role="img" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">'
        )
        return f"{start}\n<title>{clean(title)}</title>\n<style>{style(start + body)}</style>\n{body}\n</svg>\n"


def clean(text: str) -> str:
    """Text that an XML file can hold: `&`, `<` and `>` escaped, and what XML forbids replaced by U+FFFD.

    >>> clean("a<b>&c"), clean(chr(0)) == chr(0xFFFD)
    ('a&lt;b&gt;&amp;c', True)
    """
    return escape(_FORBIDDEN.sub("\ufffd", text), quote=False)


def lines(segments: Iterable[tuple[int, int, int, int]]) -> str:
    """The data of a path of horizontal and vertical segments (x, y, x, y); those that touch become one.

    >>> lines([(0, 0, 5, 0), (5, 0, 9, 0), (0, 0, 0, 4)])
    'M0 0H9M0 0V4'
    """
    rows: dict[tuple[bool, int], list[tuple[int, int]]] = {}
    for x, y, to_x, to_y in segments:
        key, span = ((True, x), (y, to_y)) if y != to_y else ((False, y), (x, to_x))
        rows.setdefault(key, []).append(span)
    data = ""
    for (is_vertical, at), spans in sorted(rows.items()):
        joined: list[tuple[int, int]] = []
        for low, high in sorted(spans):
            if joined and low <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], high)
            else:
                joined.append((low, high))
        data += "".join(f"M{at} {low}V{high}" if is_vertical else f"M{low} {at}H{high}" for low, high in joined)
    return data


# ---- the look ------------------------------------------------------------------------------------------------

_FORMS = (
    (".gl-picture text", "font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"),
    (".gl-picture text.gl-title", "font-size:15px;font-weight:600"),
    (".gl-picture text.gl-small", "font-size:11px"),
    (".gl-cell text", "text-anchor:middle"),
    (".gl-padding text", "stroke-width:3px;paint-order:stroke"),
    (".gl-line,.gl-arrow,.gl-tile1,.gl-tile2,.gl-hatch", "fill:none"),
    (".gl-arrow", "stroke-width:2"),
    (".gl-sector", "stroke-width:3"),
    (".gl-tile1", "stroke-width:3;stroke-linecap:square"),
    (".gl-tile2", "stroke-width:1.5"),
)
# The names in braces are those of colours.
_PAINTS = (
    (".gl-page", "fill:{page}"),
    (".gl-ink", "fill:{ink}"),
    (".gl-muted,.gl-heads", "fill:{muted}"),
    (".gl-accent", "fill:{accent}"),
    (".gl-line,.gl-sector", "stroke:{muted}"),
    (".gl-arrow", "stroke:{accent}"),
    (".gl-tile1,.gl-tile2", "stroke:{ink}"),
    (".gl-hatch", "stroke:{line}"),
    (".gl-blank", "fill:{blank}"),
    (".gl-cell rect,.gl-swatch", "stroke:{line}"),
    (".gl-padding text", "stroke:{blank}"),
    *((f".gl-c{number} rect", f"fill:{{fill{number}}}") for number in range(COLORS)),
    *((f".gl-move{number}", f"stroke:{{stroke{number}}}") for number in range(COLORS)),
)


# The colours of a light look and of a dark one, by name.
_COLORS = {
    "page": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "muted": ("#59636e", "#9aa4af"),
    "line": ("#b6bec7", "#5b6570"),
    "accent": ("#0969da", "#58a6ff"),
    "blank": ("#f6f8fa", "#161b22"),
    "fill0": ("#dbeafe", "#1d3b66"),
    "fill1": ("#dcfce7", "#164a2e"),
    "fill2": ("#fef3c7", "#524012"),
    "fill3": ("#fce7f3", "#57243f"),
    "fill4": ("#e9e5fd", "#3c2f6b"),
    "fill5": ("#cff5f9", "#104a52"),
    "stroke0": ("#2563eb", "#60a5fa"),
    "stroke1": ("#15803d", "#4ade80"),
    "stroke2": ("#a16207", "#facc15"),
    "stroke3": ("#be185d", "#f472b6"),
    "stroke4": ("#6d28d9", "#a78bfa"),
    "stroke5": ("#0e7490", "#22d3ee"),
}


def style(body: str) -> str:
    """The rules for the classes that a picture's elements have.

    >>> style('<rect class="gl-page"/>')
    '.gl-page{fill:#ffffff}@media(prefers-color-scheme:dark){.gl-page{fill:#0d1117}}'
    """
    used = set(re.findall(r"gl-\w+", " ".join(re.findall(r'class="([^"]*)"', body))))
    light, dark = (_rules(_PAINTS, used, dict(zip(_COLORS, colors))) for colors in zip(*_COLORS.values()))
    return f"{_rules(_FORMS, used)}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _rules(rules: Sequence[tuple[str, str]], used: set[str], colors: Mapping[str, str] | None = None) -> str:
    """The rules of which some selector names only used classes, without its other selectors."""
    text = ""
    for selectors, declarations in rules:
        kept = [selector for selector in selectors.split(",") if set(re.findall(r"gl-\w+", selector)) <= used]
        if kept:
            text += f"{','.join(kept)}{{{declarations.format_map(colors) if colors else declarations}}}"
    return text
