"""The ways in which new weights reach a served model that is packed: each a function of the model and a checkpoint."""

import itertools

import numpy as np

import gpulayout as gl
from tests.support.served_models import (
    SLOTS,
    Served,
    load,
    pack,
    part_tensors,
    tensor_of,
    whole_array,
    whole_tensor,
)


def whole(model, given):
    """Every parameter at once, fused by the caller."""
    for name in SLOTS:
        gl.torch.copy_(model.get_parameter(name), whole_tensor(name, given))


def boxes(model, given, each=lambda: None):
    """q, k and v, gate and up, and every expert: each where it belongs; `each` is called before."""
    for name in SLOTS:
        for tensor, box in part_tensors(name, given):
            each()
            gl.torch.copy_(model.get_parameter(name), tensor, at=box or None)


def cut(model, given, cuts):
    """Boxes between the cuts of each axis, in a random order."""
    rng = np.random.default_rng(1)
    for name, slot in SLOTS.items():
        parameter, array = model.get_parameter(name), whole_array(name, given)
        spans = [cuts(slot, axis, rng) for axis in range(array.ndim)]
        found = [tuple(map(slice, *zip(*pairs))) for pairs in itertools.product(*spans)]
        for number in rng.permutation(len(found)):
            box = found[number]
            gl.torch.copy_(parameter, tensor_of(np.ascontiguousarray(array[box]), slot), at=box)


def shards(model, given):
    """Four shards of the first axis but experts, as four ranks would send them."""

    def quarters(slot, axis, rng):
        size = slot.sizes[axis]
        ends = [0, size] if axis != len(slot.sizes) - 2 or size < 128 else [*range(0, size + 1, size // 4)]
        return list(itertools.pairwise(ends))

    cut(model, given, quarters)


def odd_boxes(model, given):
    """Boxes that end within tiles, words and bytes; those of a word's inputs end between words."""

    def anywhere(slot, axis, rng):
        size, step = slot.sizes[axis], 32 if slot.source and axis == 0 else 1
        ends = rng.choice(np.arange(1, size // step), min(2, size // step - 1), replace=False) * step
        return list(itertools.pairwise([0, *sorted(ends.tolist()), size]))

    cut(model, given, anywhere)


def state_dict(model, given):
    """The checkpoint of a plain model of the same names."""
    gl.torch.load_state_dict(model, Served(given).state_dict())


def loader(model, given):
    """The engine's own loader, while the model is plain."""
    with gl.torch.unpacked(model):
        load(model, given)


def packed(model, given):
    """Weights that another engine has packed alike."""
    other = pack(Served(given))
    for name in SLOTS:
        gl.torch.copy_(model.get_parameter(name), other.get_parameter(name))


def back_and_forth(model, given):
    """Plain for good, loaded, packed again."""
    for parameter in model.slots().values():
        gl.torch.unpack_(parameter)
    load(model, given)
    for name, parameter in model.slots().items():
        gl.torch.pack_(parameter, SLOTS[name].layout, source=SLOTS[name].source)


WAYS = {each.__name__: each for each in (whole, boxes, shards, odd_boxes, state_dict, loader, packed, back_and_forth)}
