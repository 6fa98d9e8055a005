"""What a GPU would run for each entry at its usual sizes, and that a stack of arrays is one move."""

import pathlib
import re

import pytest

import gpulayout as gl

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "catalogue.md"
ENTRIES = gl.catalogue.entries()
PLAIN = {"gather", "lookup"}  # a place at a time


def moves(shape):
    """What `explain` says of packing and of unpacking, from and to row-major order with elements as wide."""
    order = gl.Layout.descending(shape.rank).replace(element_size_in_bits=shape.layout.element_size_in_bits)
    plain = shape.with_layout(order)
    return [gl.plan(plain, shape).explain(), gl.plan(shape, plain).explain()]


def kernel(text):
    """The family of the kernel that an explanation names."""
    return re.search(r"^  gpu +(\w+) ", str(text), flags=re.MULTILINE)[1]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_no_place_is_looked_up(entry):
    for dtype in entry.types:
        for shape in (entry(*entry.usual, dtype=dtype), entry(8, *entry.usual, dtype=dtype)):
            assert not PLAIN & set(map(kernel, moves(shape))), shape


def test_the_page_lists_entries_whose_elements_move_one_by_one():
    found = {
        entry.name
        for entry in ENTRIES
        for dtype in entry.types
        if any("moved one by one" in str(text) for text in moves(entry(*entry.usual, dtype=dtype)))
    }
    listed = PAGE.read_text(encoding="utf-8").partition("**One by one.**")[2].partition("\n\n")[0]
    assert found == set(re.findall(r"`(\w+:\w+)`", listed))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_stack_is_cut_no_finer_than_one_array(entry):
    """Also where the first size ends inside a tile; only the number of bytes in a fill grows."""
    first, *others = entry.usual
    sizes = (first - 1 if entry.sizes[0].multiple == 1 else first, *others)
    counts = []
    for stack in ((), (512,)):
        pieces = re.search(r"^  pieces +(\d+ \w+(?: and \d+ \w+)?)", str(moves(entry(*stack, *sizes))[0]), re.MULTILINE)
        counts.append(pieces and pieces[1].replace("copies", "copy").replace("fills", "fill"))
    assert counts[0] == counts[1]
