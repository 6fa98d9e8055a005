"""Files of packed tensors of every entry of the catalogue: their bytes are those of `gl.pack`, and they come back."""

import json
import random

import numpy as np
import pytest

import gpulayout as gl
from tests.support.catalogue_cases import random_call
from tests.support.effort import ALL

torch = pytest.importorskip("torch")

from tests.support.packed_tensors import (  # noqa: E402
    as_tensor,
    bytes_of,
    named,
    packed_bytes,
    random_values,
    same_bits,
)

CASES = 30 if ALL else 4  # of each entry


def case(entry, rng):
    """A parameter with random values and a packed layout behind a random pattern, and what NumPy says of it.

    Returns it plain, the text of its layout, its values in the packed array's order, the packed shape, and the order.
    """
    _, dtype, choices, shape = random_call(entry, rng)
    axes = rng.sample(range(shape.rank), shape.rank)  # of the plain tensor, for each of the packed array
    values = random_values(shape.dimensions, shape, rng)
    back = np.argsort(axes)
    plain = as_tensor(values.transpose(back), shape)
    if rng.random() < 0.3:  # other strides
        order = rng.sample(range(shape.rank), shape.rank)
        plain = plain.permute(order).contiguous().permute(np.argsort(order).tolist())
    names = [f"n{axis}" for axis in range(shape.rank)]
    pattern = f"{' '.join(names)} -> {' '.join(names[axis] for axis in axes)}; "
    text = named(entry, dtype, choices) if rng.random() < 0.7 else str(shape)
    return plain, (pattern if axes != sorted(axes) else "") + text, values, shape, back


def model(plain, layouts, *, packed):
    """A model of these weights; those that are to be packed have room for padding."""
    made = torch.nn.Module()
    for number, (tensor, layout) in enumerate(zip(plain, layouts)):
        room = torch.zeros(tensor.untyped_storage().nbytes() * 64 + 65536, dtype=torch.uint8)
        over = room[: tensor.nbytes].view(tensor.dtype).as_strided(tensor.shape, tensor.stride())
        weight = torch.nn.Parameter(over.copy_(tensor), requires_grad=False)
        setattr(made, f"w{number}", weight)
        if packed:
            try:
                gl.torch.pack_(weight, layout)
            except gl.LayoutError as error:
                assert "empty_packed" in str(error)
    return made


@pytest.mark.one_in(5)
@pytest.mark.parametrize("entry", gl.catalogue.entries(), ids=lambda entry: entry.name)
def test_every_layout_goes_to_a_file_and_comes_back(entry, tmp_path):
    rng = random.Random(f"files of {entry.name}")
    plain, layouts, values, shapes, backs = zip(*(case(entry, rng) for _ in range(CASES)))
    given = model(plain, layouts, packed=True)
    file = tmp_path / "model.safetensors"
    gl.torch.save_packed(given, file)
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, content = json.loads(content[8 : 8 + size]), content[8 + size :]
    zeros = [torch.zeros_like(each) for each in plain]
    targets = model(zeros, layouts, packed=True), model(zeros, layouts, packed=False)
    for target in targets:
        for _ in range(2):
            addresses = [each.data_ptr() for each in target.parameters()]
            assert gl.torch.load_packed(file, target) == ([], [])
            assert [each.data_ptr() for each in target.parameters()] == addresses
    started = model(zeros, layouts, packed=False).to("meta")
    assert gl.torch.load_packed(file, started, assign=True) == ([], [])
    targets = (*targets, started)
    for number, (array, shape, back) in enumerate(zip(values, shapes, backs)):
        name, weight = f"w{number}", getattr(given, f"w{number}")
        layout = gl.torch.layout_of(weight)
        if layout is not None:
            begin, end = header[name]["data_offsets"]
            assert content[begin:end] == packed_bytes(array, shape)
            assert gl.parse_shape(header["__metadata__"][f"gpulayout:{name}"]) == shape
        for target in targets:
            found = getattr(target, name)
            assert gl.torch.layout_of(found) == layout and found.dtype == weight.dtype and found.shape == weight.shape
            assert bytes_of(found) == bytes_of(weight) or (target is started and layout is None)  # in C order
            assert same_bits(gl.torch.read(found), array.transpose(back), shape)
            if layout is not None:
                gl.torch.unpack_(found)
                assert found.stride() == plain[number].stride() and same_bits(found, array.transpose(back), shape)
