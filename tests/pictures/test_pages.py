"""The pictures in docs/ are those that the examples beside them draw, byte for byte."""

import pytest

from tests.pictures.pages import DOCS, pictures

DRAWN = pictures()


def test_the_page_has_pictures():
    stored = {path for kind in ("layout", "plan") for path in (DOCS / "images").glob(f"{kind}-*.svg")}
    assert set(DRAWN) == stored and len(DRAWN) >= 7


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.name)
def test_the_picture_is_what_the_example_draws(path):
    assert path.read_bytes() == DRAWN[path].encode(), "python -m tests.pictures draws them again"
