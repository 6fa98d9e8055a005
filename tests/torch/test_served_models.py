"""A served model whose weights are packed: loaded once, and reloaded in every way that there is.

Its kernels read memory by the laws of layouts in NumPy, so a weight in a wrong place is a wrong number: see
`tests/support/served_models.py`.
"""

import numpy as np
import pytest

import gpulayout as gl

torch = pytest.importorskip("torch")

from tests.support import reloads, served_laws  # noqa: E402  # they need torch
from tests.support.served_logits import logits  # noqa: E402
from tests.support.served_models import (  # noqa: E402
    PACKED,
    SLOTS,
    Served,
    addresses,
    checkpoint,
    in_checkpoint,
    in_memory,
    pack,
    served,
    whole_array,
    whole_tensor,
)


def check_serves(model, given):
    """The model has all weights of a checkpoint, bit for bit, and its logits."""
    read = in_memory(model)
    for name in SLOTS:
        wanted = whole_array(name, given)
        assert read(name).tobytes() == wanted.tobytes(), name
    assert np.array_equal(logits(read), logits(in_checkpoint(given)))


def test_each_part_of_the_checkpoint_counts():
    """The logits of the plain model change with the first and the last part of any slot: none can be left out."""
    given, other = checkpoint(0), checkpoint(1)
    kept = logits(in_checkpoint(given))
    for name, slot in SLOTS.items():
        parts = [part for part, _ in slot.parts] or [name]
        for part in {parts[0], parts[-1]}:
            changed = np.abs(logits(in_checkpoint({**given, part: other[part]})) - kept).max()
            assert changed > 1e-3, part


def test_each_layout_counts():
    """A kernel that takes a packed weight for a plain one finds other numbers."""
    given = checkpoint(0)
    for name in PACKED:
        slot = SLOTS[name]
        places = served_laws.places(slot.law, slot.sizes)
        assert not np.array_equal(places.ravel(), np.arange(places.size)), name
        array = whole_array(name, given)
        room = np.zeros(places.max() + 1, array.dtype)
        room[places] = array
        assert room[: array.size].tobytes() != array.tobytes(), name


def test_a_plain_model_becomes_a_served_one_in_its_own_memory():
    given = checkpoint(0)
    model = Served(given)
    before, tensors = addresses(model), dict(model.named_parameters())
    pack(model)
    for name, tensor in tensors.items():
        if not SLOTS[name].longer:
            assert model.get_parameter(name) is tensor and tensor.data_ptr() == before[name], name
        if SLOTS[name].layout:
            assert isinstance(model.get_parameter(name), torch.nn.Parameter), name
            assert gl.torch.layout_of(model.get_parameter(name)) is not None, name
    assert model.get_parameter("lm_head.weight") is model.get_parameter("embed.weight")
    check_serves(model, given)


@pytest.mark.parametrize("way", reloads.WAYS)
def test_new_weights_reach_the_kernels(way):
    """Twice, by every way; addresses, and so graphs that were captured, stay."""
    model = served(0)
    before, tensors = addresses(model), dict(model.named_parameters())
    layouts = {name: gl.torch.layout_of(parameter) for name, parameter in model.slots().items()}
    for seed in (1, 2):
        reloads.WAYS[way](model, checkpoint(seed))
        check_serves(model, checkpoint(seed))
        assert addresses(model) == before
        assert all(model.get_parameter(name) is tensor for name, tensor in tensors.items())
        assert {name: gl.torch.layout_of(parameter) for name, parameter in model.slots().items()} == layouts


def test_all_ways_one_after_the_other():
    """One model for all of them: none leaves anything behind that another one trips over."""
    model = served(0)
    for seed, way in enumerate((*reloads.WAYS.values(), *reversed(reloads.WAYS.values())), 1):
        way(model, checkpoint(seed))
        check_serves(model, checkpoint(seed))


def test_a_part_alone_changes_nothing_else():
    """LoRA is merged into v, or one expert is exchanged: each part of the model by itself."""
    given, other = checkpoint(0), checkpoint(1)
    model = served(0)
    for name, slot in SLOTS.items():
        for number in range(0, len(slot.parts), 5):
            part, box = slot.parts[number]
            given[part] = other[part]
            array = np.ascontiguousarray(whole_array(name, other)[box])
            gl.torch.copy_(model.get_parameter(name), reloads.tensor_of(array, slot), at=box)
            assert in_memory(model)(name).tobytes() == whole_array(name, given).tobytes(), part
    check_serves(model, given)


def test_a_served_model_gives_its_checkpoint_back():
    """`state_dict`, `read` of whole tensors and of parts: what was loaded last, in the checkpoint's form."""
    model, given = served(0), checkpoint(1)
    gl.torch.load_state_dict(model, Served(given).state_dict())
    state = gl.torch.state_dict(model)
    assert set(state) == {*SLOTS, "lm_head.weight"}
    for name, slot in SLOTS.items():
        wanted = whole_tensor(name, given)
        for found in (state[name], gl.torch.read(model.get_parameter(name))):
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            assert torch.equal(found.view(torch.uint8), wanted.view(torch.uint8)), name
        for part, box in slot.parts:
            found = gl.torch.read(model.get_parameter(name), at=box)
            assert torch.equal(found.view(torch.uint8), wanted[box].contiguous().view(torch.uint8)), part
    gl.torch.load_state_dict(model, state)
    check_serves(model, given)
