"""Comments name where a measured time comes from, or give the reason without a figure."""

import io
import pathlib
import re
import tokenize

import pytest

ROOT = pathlib.Path(__file__).parents[2]
COST = re.compile(r"\b([Ss]aves?|[Tt]akes?|took|[Cc]osts?|less|longer|faster|slower)\b")
FIGURE = re.compile(r"\d(\.\d+)? ?(us|µs|ns|ms|s|seconds?|microseconds?|milliseconds?|MB a second|%)(?!\w)")
SOURCE = re.compile(r"benchmarks|docs/|doi ")


def bare_timings(source):
    """The comment lines, and lines of docstrings, that state a measured time in a text that names no source."""
    texts = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING and token.string.startswith('"""'):
            texts.append(token.string)
        elif token.type == tokenize.COMMENT:
            texts.append(token.string)
    return [
        line.strip()
        for text in texts
        if not SOURCE.search(text)
        for line in text.splitlines()
        if COST.search(line) and FIGURE.search(line)
    ]


def test_no_comment_of_the_package_states_a_time_without_its_source():
    files = {path: bare_timings(path.read_text()) for path in sorted((ROOT / "gpulayout").rglob("*.py"))}
    assert len(files) > 100
    assert {str(path): lines for path, lines in files.items() if lines} == {}


@pytest.mark.parametrize(
    "text, is_bare",
    [
        ("x = 1  # saves 5 us a call", True),
        ("x = 1  # read in place: a copy takes 22 % longer", True),
        ("x = 1  # one thread writes 660 MB a second, two take less", True),
        ("x = 1  # saves 5 us a call, `python -m benchmarks.call_costs`", False),
        ("x = 1  # that of Windows has steps of 16 ms", False),
        ("x = 1  # takes 3 KB", False),
    ],
)
def test_a_time_without_a_source_is_found(text, is_bare):
    assert bool(bare_timings(text)) is is_bare
