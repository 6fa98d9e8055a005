"""No reader of text hangs: twice the text takes twice the steps, and its memory grows with it, or it is refused early.

Steps are counted, not timed, see `tests/support/read_steps.py`.  What C code does inside one call is not counted, but
for regular expressions; `python -m benchmarks.readers` shows it.
"""

import re
import tracemalloc

import pytest

from benchmarks import readers
from benchmarks.readers import READERS, Text, peak_bytes, read, texts
from gpulayout.files.checkpoints.maps import read_map
from tests.support.read_steps import RegexSteps, counted_expressions, steps_of

SIZE = 100  # characters
STEPS = 400  # that do not depend on the text, such as what an error makes
LONGER = 8  # a table of Python doubles its memory now and then, so memory is compared over more than twice the text
BYTES = 6_000_000  # what Python's own reader of numbers takes for a .npy header, which is never longer than 10,000


@pytest.mark.one_in(20)
@pytest.mark.parametrize("name", READERS)
def test_twice_the_text_takes_twice_the_steps(name):
    found = []
    with counted_expressions() as counter:
        for text in texts(name):
            read(name, text.of(40))  # what is made once, such as imports
            once, twice = (steps_of(lambda size=size: read(name, text.of(size)), counter) for size in (SIZE, 2 * SIZE))
            if twice > 2.2 * once + STEPS:
                found.append((text, once, twice))
    assert not found


@pytest.mark.one_in(20)
@pytest.mark.parametrize("name", READERS)
def test_a_longer_text_takes_as_much_more_memory(name):
    for text in texts(name):
        read(name, text.of(40))
        peaks = [peak_bytes(name, text.of(size)) for size in (1500, 1500 * LONGER)]
        assert peaks[1] <= 1.5 * LONGER * peaks[0] + BYTES, (text, peaks)


@pytest.mark.parametrize(
    "regex, text, power", [("a*b", "a", 1), (r"\s*a?\s*b", " ", 2), ("a*a*a*b", "a", 3), ("(a|b)*c", "ab", 1)]
)
def test_steps_of_expressions_grow_as_theirs_do(regex, text, power):
    """The counter sees what the tests above look for."""
    once, twice = (RegexSteps(re.compile(regex)).all(text * size) for size in (40, 80))
    assert 0.8 * 2**power < twice / once < 1.2 * 2**power


def test_a_slow_reader_is_found(monkeypatch):
    slow = re.compile(r"\s*a?\s*b")
    monkeypatch.setattr("gpulayout.layout.patterns._TOKEN", slow)
    with counted_expressions() as counter:
        once, twice = (steps_of(lambda size=size: read("pattern", " " * size + "a ->"), counter) for size in (40, 80))
    assert twice > 3 * once


def test_the_table_has_a_line_for_each_reader(capsys):
    assert readers.main(["bytes", "layout name", "--sizes", "100", "200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:11] for line in lines[-2:]] == ["bytes      ", "layout name"] and lines[-1].count(" ms") == 2


def test_a_word_that_is_no_reader_is_an_error(capsys):
    with pytest.raises(SystemExit):
        readers.main(["pattens"])
    assert "'pattens' is no reader: write one of pattern, layout, " in capsys.readouterr().err


@pytest.mark.parametrize("key", ["a." * 60 + "a", '"a b" . ' * 60 + "a", "'a'." * 60 + "a", "[" + "a." * 60 + "a]"])
def test_a_key_of_many_parts_is_refused_before_python_reads_it(key, tmp_path):
    (tmp_path / "a.toml").write_text(f"strict = true\n{key} = 1\n")
    with pytest.raises(ValueError, match="has 50 parts: a key of a map has one, or two"):
        read_map(tmp_path / "a.toml")


def test_a_small_index_takes_little_memory():
    tracemalloc.start()
    try:
        assert read("safetensors index", '{"weight_map":{"a":"a.safetensors"}}') == "read"
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_text_is_of_the_size_that_is_asked_for():
    assert Text("layout", "{_}", "1,").of(6) == "{1,1,1,}" and len(Text("layout", "_", "[[").of(1001)) == 1000
