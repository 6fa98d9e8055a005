"""Packed tensors of every entry of the catalogue: their bytes are those of `gl.pack`, and boxes are NumPy's slices."""

import itertools
import random

import numpy as np
import pytest

import gpulayout as gl
from gpulayout.catalogue.tensors import tensor_of
from tests.support.catalogue_cases import random_call
from tests.support.effort import ALL

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import (  # noqa: E402
    as_tensor,
    bytes_of,
    named,
    packed_bytes,
    random_box,
    random_values,
    same_bits,
    torch_type,
)

ENTRIES = gl.catalogue.entries()
CASES = 2_000 if ALL else 150  # over all entries


def cases(entry):
    """Random sizes, types and choices of an entry; all of them with `ci/test --all`."""
    rng = random.Random(f"packed tensors of {entry.name}")
    every = itertools.product(entry.types, *(choice.values for choice in entry.choices))
    wanted = set(every) if ALL else set()
    left = -(-CASES // len(ENTRIES))
    while left > 0 or wanted:
        _, dtype, choices, shape = random_call(entry, rng)
        if left > 0 or (dtype, *choices.values()) in wanted:
            wanted.discard((dtype, *choices.values()))
            left -= 1
            yield rng, dtype, choices, shape


def owner_s(entry, shape, choices):
    """The type and the sizes in which the owner keeps a shape; those of its buffer where the owner says none."""
    tensor = tensor_of(entry, shape, choices)
    if tensor is None:
        return torch_type(shape.buffer_dtype), (shape.buffer_length,)
    return torch_type(tensor.element_type.dtype), tensor.dimensions


def packed(plain, layout, shape):
    """The tensor after pack_, or new packed memory where the plain tensor has too few bytes."""
    before, address, storage = bytes_of(plain), plain.data_ptr(), plain.untyped_storage().data_ptr()
    if shape.nbytes <= plain.nbytes:
        assert gl.torch.pack_(plain, layout) is plain
        assert (plain.data_ptr(), plain.untyped_storage().data_ptr()) == (address, storage)
        return plain
    with pytest.raises(gl.LayoutError, match="empty_packed") as caught:
        gl.torch.pack_(plain, layout)
    assert "\n" not in str(caught.value)
    assert bytes_of(plain) == before and gl.torch.layout_of(plain) is None
    given = layout if isinstance(layout, gl.Shape) or layout.endswith("]") else f"{layout}{list(shape.dimensions)}"
    made = gl.torch.empty_packed(given, like=plain)
    zeros = np.zeros(shape.dimensions, shape.dtype)  # of bits
    assert bytes_of(made, shape.nbytes) == packed_bytes(zeros, shape)
    assert gl.torch.copy_(made, plain) is made
    return made


def check_boxes(tensor, values, shape, rng):
    """Writes and reads of boxes against NumPy's; returns the array after them."""
    for _ in range(3):
        box = random_box(shape.dimensions, rng)
        part = random_values(values[box].shape, shape, rng)
        given = as_tensor(part, shape)
        if rng.random() < 0.5 and given.ndim > 1:  # with other strides
            given = given.transpose(0, -1).contiguous().transpose(0, -1)
        gl.torch.copy_(tensor, given, at=box)
        values[box] = part
        assert bytes_of(tensor, shape.nbytes) == packed_bytes(values, shape), box
        box = random_box(shape.dimensions, rng)
        assert same_bits(gl.torch.read(tensor, at=box), values[box], shape), box
    assert gl.torch.layout_of(tensor) == shape


@pytest.mark.one_in(2)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_random_sizes(entry):
    for rng, dtype, choices, shape in cases(entry):
        values = random_values(shape.dimensions, shape, rng)
        plain = as_tensor(values, shape)
        kind, sizes, strides = plain.dtype, plain.shape, plain.stride()
        sized = rng.choice((None, shape.dimensions))
        layout = rng.choice((named(entry, dtype, choices, sized), shape))
        tensor = packed(plain, layout, shape)
        assert gl.torch.layout_of(tensor) == shape
        assert bytes_of(tensor, shape.nbytes) == packed_bytes(values, shape)
        found = tensor.dtype, tuple(tensor.shape)
        if layout is shape:  # which has no owner
            assert found == (torch_type(shape.buffer_dtype), (shape.buffer_length,))
        else:
            assert found == owner_s(entry, shape, choices) and tensor.is_contiguous()
        assert same_bits(gl.torch.read(tensor), values, shape)

        values = random_values(shape.dimensions, shape, rng)
        assert gl.torch.copy_(tensor, as_tensor(values, shape)) is tensor
        assert bytes_of(tensor, shape.nbytes) == packed_bytes(values, shape)
        check_boxes(tensor, values, shape, rng)

        address = tensor.data_ptr()
        assert gl.torch.unpack_(tensor) is tensor and tensor.data_ptr() == address
        assert (tensor.dtype, tensor.shape, tensor.stride()) == (kind, sizes, strides)
        assert same_bits(tensor, values, shape) and type(tensor) is torch.Tensor
        assert gl.torch.layout_of(gl.torch.pack_(tensor, layout)) == shape  # there is room, also where padding is


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.tensor], ids=lambda entry: entry.name)
def test_layouts_of_one_array_are_copied_into_each_other(entry):
    """copy_ from a packed tensor is a relayout."""
    rng = random.Random(f"relayouts of {entry.name}")
    _, dtype, choices, shape = random_call(entry, rng)
    other = shape.with_layout(
        gl.Layout(range(shape.rank), element_size_in_bits=shape.bits_per_element * shape.is_packed)
    )
    values = random_values(shape.dimensions, shape, rng)
    first = gl.torch.empty_packed(named(entry, dtype, choices, shape.dimensions))
    second = gl.torch.empty_packed(other)
    gl.torch.copy_(first, as_tensor(values, shape))
    assert gl.torch.copy_(second, first) is second
    assert bytes_of(second, other.nbytes) == packed_bytes(values, other) and gl.torch.layout_of(second) == other
    gl.torch.copy_(first, as_tensor(np.flip(values, 0), shape))
    gl.torch.copy_(first, second)
    assert bytes_of(first, shape.nbytes) == packed_bytes(values, shape) and gl.torch.layout_of(first) == shape


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_usual_sizes_are_packed_in_place(entry):
    """Sizes without padding, with one in front."""
    sizes = [2, *(min(size, 256 if len(entry.usual) < 3 else 32) for size in entry.usual)]
    shape = entry(*sizes)
    values = random_values(sizes, shape, random.Random(0))
    plain = as_tensor(values, shape)
    layout = named(entry, entry.types[0], {}) if shape.is_packed else entry.name
    assert gl.torch.pack_(plain, layout) is plain and gl.torch.layout_of(plain) == shape
    assert bytes_of(plain, shape.nbytes) == packed_bytes(values, shape)
