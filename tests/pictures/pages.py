"""The pictures of docs/pictures.md: each shows what the name `picture` is in the examples above it."""

import doctest
import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def pictures():
    """{path: SVG} of every picture of the page, drawn by the examples above it."""
    found, names = {}, {}
    page = (DOCS / "pictures.md").read_text(encoding="utf-8")
    for text in re.split(r"(?<=\.svg\)\n)", page):
        for example in doctest.DocTestParser().get_examples(text.partition("![")[0]):
            if " = " in example.source or example.source.startswith("import "):
                exec(example.source, names)
        image = re.search(r"!\[[^]]+\]\((images/[\w-]+\.svg)\)", text)
        if image:
            found[DOCS / image[1]] = names["picture"].svg
    return found
