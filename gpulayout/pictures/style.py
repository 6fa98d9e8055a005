"""How pictures look, on light and on dark pages: rules of CSS, of which a picture holds those that it uses.

Colours are plain values, which slide programs read; a page in dark mode overrides them.  A notebook puts the style of
every picture into one page.  So all class names begin with `gl-`, and no rule relies on its order: what one rule sets,
only a rule with a more specific selector sets again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

COLORS = 6  # of cells, and of moves between them

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
# The names in braces are those of a look.
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


def _look(
    page: str, ink: str, muted: str, line: str, accent: str, blank: str, fills: str, strokes: str
) -> dict[str, str]:
    """A name for every colour of a look."""
    numbered = {f"fill{number}": fill for number, fill in enumerate(fills.split())}
    numbered |= {f"stroke{number}": stroke for number, stroke in enumerate(strokes.split())}
    return {"page": page, "ink": ink, "muted": muted, "line": line, "accent": accent, "blank": blank} | numbered


_LIGHT = _look(
    page="#ffffff",
    ink="#1f2328",
    muted="#59636e",
    line="#b6bec7",
    accent="#0969da",
    blank="#f6f8fa",
    fills="#dbeafe #dcfce7 #fef3c7 #fce7f3 #e9e5fd #cff5f9",
    strokes="#2563eb #15803d #a16207 #be185d #6d28d9 #0e7490",
)
_DARK = _look(
    page="#0d1117",
    ink="#e6edf3",
    muted="#9aa4af",
    line="#5b6570",
    accent="#58a6ff",
    blank="#161b22",
    fills="#1d3b66 #164a2e #524012 #57243f #3c2f6b #104a52",
    strokes="#60a5fa #4ade80 #facc15 #f472b6 #a78bfa #22d3ee",
)


def style(body: str) -> str:
    """The rules for the classes that a picture's elements have.

    >>> style('<rect class="gl-page"/>')
    '.gl-page{fill:#ffffff}@media(prefers-color-scheme:dark){.gl-page{fill:#0d1117}}'
    """
    used = set(re.findall(r"gl-\w+", " ".join(re.findall(r'class="([^"]*)"', body))))
    light, dark = (_rules(_PAINTS, used, look) for look in (_LIGHT, _DARK))
    return f"{_rules(_FORMS, used, {})}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _rules(rules: Sequence[tuple[str, str]], used: set[str], look: Mapping[str, str]) -> str:
    """The rules of which some selector names only used classes, without its other selectors."""
    found = []
    for selectors, declarations in rules:
        kept = [selector for selector in selectors.split(",") if set(re.findall(r"gl-\w+", selector)) <= used]
        if kept:
            found.append(f"{','.join(kept)}{{{declarations.format_map(look) if look else declarations}}}")
    return "".join(found)
