"""The documentation as a site: every public name has a page, and every page is reached from the first one."""

import pathlib
import re

import pytest

import gpulayout

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def listed(page):
    """The names in the tables of a reference page."""
    return re.findall(r"^   (\w+)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize(
    "page, public",
    [
        ("reference.rst", set(gpulayout.__all__) - {"__version__", "catalogue", "interop", "xla"}),
        ("reference-xla.rst", set(gpulayout.xla.__all__)),
        ("reference-interop.rst", set(gpulayout.interop.__all__)),
        ("reference-catalogue.rst", set(gpulayout.catalogue.__all__)),
        (
            "reference-dask.rst",
            {"pack", "unpack", "relayout", "transpose", "linearize", "delinearize", "convert_linear"},
        ),
        ("reference-torch.rst", set(gpulayout.torch.__all__)),
    ],
)
def test_the_reference_lists_every_public_name_once(page, public):
    names = listed(page)
    assert len(names) == len(set(names)) and set(names) == public


def test_the_first_page_links_to_every_page():
    links = re.findall(r"^- \[[^]]+\]\(([\w.-]+)\)", (DOCS / "index.md").read_text(), flags=re.MULTILINE)
    pages = {path.name for path in DOCS.glob("*.*") if path.suffix in (".md", ".rst")} - {"index.md"}
    assert len(links) == len(set(links)) and set(links) == pages


def test_every_picture_is_there_and_the_readme_shows_one():
    shown = {page: re.findall(r"!\[[^]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8")) for page in DOCS.glob("*.md")}
    readme = DOCS.parent / "README.md"
    shown[readme] = re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme.read_text(encoding="utf-8"))
    assert shown[readme] and all((page.parent / name).is_file() for page, names in shown.items() for name in names)
    drawn = {path.name for path in (DOCS / "images").glob("*.svg")}
    assert drawn == {pathlib.Path(name).name for names in shown.values() for name in names}
