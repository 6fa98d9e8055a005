"""docs/architecture.md: the files that it names exist, and no room is left out."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS = sorted(path.parent.name for path in (ROOT / "gpulayout").glob("*/__init__.py"))


def missing(page):
    """Names of files and folders in a page that are not there; those of the package may leave out `gpulayout/`."""
    named = re.findall(r"`([\w./-]+(?:/|\.(?:py|cuh?|md)))`", page)
    found = []
    for name in named:
        places = [
            ROOT / name,
            ROOT / "gpulayout" / name,
            ROOT / "kernels" / name,
            *(ROOT / "gpulayout" / room / name for room in ROOMS),
        ]
        if "NAME" not in name and not any(place.exists() for place in places):
            found.append(name)
    return found


def test_every_file_is_there():
    assert len(re.findall(r"`[^`]+`", PAGE)) > 50 and missing(PAGE) == []
    assert missing("`layout/no_such.py` and `no_such_room/`") == ["layout/no_such.py", "no_such_room/"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_in_the_list(room):
    assert f"| `{room}/` |" in PAGE
    assert (ROOT / "tests" / room).is_dir()
