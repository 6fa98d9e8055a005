"""Sphinx builds the pages of this folder and the API reference: `./ci/docs`."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import sys
import urllib.request
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import gpulayout  # noqa: E402
from gpulayout.version import __version__  # noqa: E402

project = "gpulayout"
author = "The gpulayout developers"
copyright = "2026, The gpulayout developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "*.ipynb"]
templates_path = ["_templates"]
highlight_language = "none"  # indented blocks show what a terminal prints; Python blocks name their language
nitpicky = True
# Single backticks in docstrings also hold arguments and values: those that name nothing stay plain code.
default_role = "py:obj"
nitpick_ignore_regex = [("py:obj", r"(?s).*")]

myst_heading_anchors = 3

autosummary_generate = True
# torch is a large download, and its mock cannot be the base of autograd's functions
autodoc_mock_imports = [] if importlib.util.find_spec("torch") else ["torch", "gpulayout.torch.gradients"]
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the Parameters sections give the types
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = f"gpulayout {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {
    "navbar_center": [],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
html_sidebars = {"**": ["contents.html"]}

INVENTORIES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "cupy": "https://docs.cupy.dev/en/stable/",
}


def _inventory(name: str, address: str) -> pathlib.Path | None:
    """The list of names of another project's documentation, downloaded once; None if it cannot be reached."""
    file = HERE / "_build" / "inventories" / f"{name}.inv"
    if not file.exists():
        try:
            with urllib.request.urlopen(f"{address}objects.inv", timeout=10) as answer:
                content = answer.read()
        except OSError as error:
            print(f"docs: names of {name} are not linked, {address} cannot be reached: {error}")
            return None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return file


# Without a network the pages are complete, but do not link to other projects.
intersphinx_mapping = {
    name: (address, str(file)) for name, address in INVENTORIES.items() if (file := _inventory(name, address))
}


def _pages(app: Any, page: str, source: list[str]) -> None:
    """The pages stay plain Markdown, which a forge can show; what Sphinx needs in addition is added here.

    The lists of links on the first page become the table of contents.  The blank line that ends an example for doctest
    is not shown.
    """
    source[0] = source[0].replace("\n\n```\n", "\n```\n")
    if page == "index":
        for heading, text in re.findall(r"^## (.+)\n((?:(?!## ).*\n)+)", source[0], flags=re.MULTILINE):
            names = re.findall(r"^- \[[^]]+\]\(([\w-]+)\.(?:md|rst)\)", text, flags=re.MULTILINE)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n" + "\n".join(names) + "\n```\n"


def _only_own(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Drop the text that enumerations and exceptions inherit from Python: it is not ours, and not numpydoc."""
    if isinstance(obj, type) and obj.__module__ == gpulayout.__name__ and obj.__dict__.get("__doc__") is None:
        lines.clear()


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _pages)
    app.connect("autodoc-process-docstring", _only_own, priority=100)
