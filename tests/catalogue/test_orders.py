"""Entries that only put axes or halves in another order, against NumPy: every small size."""

import itertools

import numpy as np
import pytest

import gpulayout as gl

LETTERS = "LBHNC"  # of the logical array
CACHES = [entry for entry in gl.catalogue.entries() if sorted(entry.name.partition(":")[2]) == sorted(LETTERS)]


def test_all_six_names_are_there():
    assert [entry.name for entry in CACHES] == [
        f"vllm:{name}" for name in ("BHLNC", "BLHNC", "BLNHC", "LBHNC", "LBNHC", "LHBNC")
    ]


@pytest.mark.parametrize("entry", CACHES, ids=lambda entry: entry.name)
def test_the_letters_of_a_cache_are_its_order_in_memory(entry):
    axes = [LETTERS.index(letter) for letter in entry.name.partition(":")[2]]
    assert [size.meaning[0] for size in entry.sizes] == [*LETTERS]
    for sizes in itertools.product((1, 2, 3), repeat=5):
        values = np.arange(np.prod(sizes), dtype=np.int8).reshape(sizes)
        packed = gl.pack(values, f"{entry.name}(dtype=s8)")
        np.testing.assert_array_equal(packed, values.transpose(axes).reshape(-1))


def pairs(values, axis):
    """Element 0 of each half, element 1 of each half and so on."""
    gate, up = np.split(values, 2, axis)
    return np.stack([gate, up], axis + 1).reshape(values.shape)


def halves(values, axis):
    """The even elements, then the odd ones."""
    even, odd = (values[(slice(None),) * axis + (slice(first, None, 2),)] for first in (0, 1))
    return np.concatenate([even, odd], axis)


GATES = {
    "flashinfer:gated_rows": (pairs, 0),
    "transformers:row_pairs_to_halves": (halves, 0),
    "transformers:column_halves_to_pairs": (pairs, 1),
    "transformers:column_pairs_to_halves": (halves, 1),
}


@pytest.mark.parametrize("name", GATES)
def test_gate_and_up_change_between_halves_and_pairs(name):
    function, axis = GATES[name]
    for half, other in itertools.product(range(9), range(9)):
        sizes = (2 * half, other) if axis == 0 else (other, 2 * half)
        values = np.arange(2 * half * other, dtype=np.uint16).reshape(sizes).view(np.float16)
        packed = gl.pack(values, name)
        np.testing.assert_array_equal(packed.view("u2"), function(values, axis).reshape(-1).view("u2"))
        back = {pairs: halves, halves: pairs}[function](packed.reshape(sizes), axis)
        np.testing.assert_array_equal(back.view("u2"), values.view("u2"))


@pytest.mark.parametrize("name", GATES)
def test_an_odd_size_has_no_halves(name):
    axis = GATES[name][1]
    sizes = (3, 4) if axis == 0 else (4, 3)
    said = "rows" if axis == 0 else "columns"
    with pytest.raises(gl.LayoutError, match=f"cannot be: {said} 3 is not a multiple of 2; .*: {said} must be even"):
        gl.pack(np.zeros(sizes, np.float16), name)


def test_gpt_oss_finds_gate_in_the_even_columns():
    """As GptOssExperts does: experts of (inputs, gate and up)."""
    gate, up = np.random.default_rng(0).normal(size=(2, 3, 8, 6)).astype(np.float32)
    packed = gl.pack(np.concatenate([gate, up], -1), "transformers:column_halves_to_pairs").reshape(3, 8, 12)
    np.testing.assert_array_equal(packed[..., ::2], gate)
    np.testing.assert_array_equal(packed[..., 1::2], up)
