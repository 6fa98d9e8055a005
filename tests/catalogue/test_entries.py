"""Every entry of the catalogue: its facts, and random sizes packed, unpacked and indexed against the model."""

import copy
import inspect
import pickle
import random
import re

import numpy as np
import pytest

import gpulayout as gl
from tests.support.catalogue_cases import random_call, reference_numbers, values_for
from tests.support.effort import ALL

ENTRIES = gl.catalogue.entries()
NAMES = [entry.name for entry in ENTRIES]
CASES = 10_000 if ALL else 400  # over all entries


def test_entries_are_sorted_and_found_by_name():
    assert NAMES == sorted(set(NAMES)) and all(gl.catalogue.find(entry.name) is entry for entry in ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_an_entry_says_whose_it_is_and_where_that_stands(entry):
    owner, name = entry.name.split(":")
    assert getattr(getattr(gl.catalogue, owner), name) is entry and owner in dir(gl.catalogue)
    assert entry.source.startswith("https://") and entry.judged_by and re.search(r"\d", entry.version)
    assert all(len(text) > 20 and text[0] != " " for text in (entry.summary, entry.about, entry.stored))
    assert len(entry.summary) <= 70 and not entry.summary.endswith(".") and entry.stored.endswith(".")
    assert all(size.meaning and size.multiple >= 1 for size in entry.sizes) and len(entry.usual) == len(entry.sizes)
    assert entry.refuses or all(size.multiple == 1 for size in entry.sizes)


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_its_usual_sizes_give_a_shape_of_each_type(entry):
    for dtype in entry.types:
        shape = entry(*entry.usual, dtype=dtype)
        assert shape.dimensions == entry.usual and shape.element_type == dtype
        assert shape.is_packed == shape.element_type.is_sub_byte


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_an_entry_is_one_object_in_pickles_and_copies(entry):
    assert pickle.loads(pickle.dumps(entry)) is entry and copy.deepcopy(entry) is entry
    assert entry.name.encode() not in pickle.dumps(entry) and b"gpulayout.catalogue" in pickle.dumps(entry)


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_help_shows_the_sizes_and_the_choices(entry):
    names = [*(size.name for size in entry.sizes), "dtype", *(choice.name for choice in entry.choices)]
    assert list(inspect.signature(entry).parameters) == names
    assert inspect.getdoc(entry).startswith(entry.summary) and entry.call in repr(entry)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_random_sizes_lie_where_the_model_says(entry):
    rng = random.Random(f"sizes of {entry.name}")
    for _ in range(-(-CASES // len(ENTRIES))):
        sizes, dtype, choices, shape = random_call(entry, rng)
        message = f"{entry.name} {sizes} {dtype} {choices}"
        numbers = reference_numbers(shape)
        values = values_for(shape)
        packed = gl.pack(values, shape)
        back = gl.unpack(packed, shape)
        np.testing.assert_array_equal(bits(back), bits(values), err_msg=message, strict=True)
        linear = np.flatnonzero(numbers >= 0)
        indices = np.array(np.unravel_index(numbers[linear], shape.dimensions))
        np.testing.assert_array_equal(gl.delinearize(linear, shape), indices, err_msg=message)
        np.testing.assert_array_equal(gl.linearize(indices, shape), linear, err_msg=message)
        check_bytes(packed, values, numbers, shape, message)


def bits(array):
    """The elements as unsigned integers: two nans are equal if their bits are."""
    return np.asarray(array).view(f"u{array.itemsize}")


def check_bytes(packed, values, numbers, shape, message):
    """The places of a packed buffer hold the elements that the model puts there, and zeros elsewhere."""
    elements = np.append(bits(values).reshape(-1), np.zeros(1, f"u{shape.itemsize}"))[numbers]
    if shape.is_packed:
        width = shape.bits_per_element
        lanes = np.pad(elements, (0, -len(elements) % (8 // width))).reshape(-1, 8 // width)
        elements = np.bitwise_or.reduce(lanes << np.arange(0, 8, width, dtype=np.uint8), axis=1)
    np.testing.assert_array_equal(np.asarray(packed).view(elements.dtype), elements, err_msg=message)
