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


# ---- what one of several ranks holds ---------------------------------------------------------------------------------

RANKS = 4
FORMS = {  # of gate and up together, and of down: dtype, layout, law, elements in memory
    "Marlin": [
        (np.uint8, "n k -> k n; marlin:weights(dtype=u4)", served_laws.outputs_first(served_laws.marlin), "u4"),
        (np.uint8, "n k -> k n; marlin:weights(dtype=u4)", served_laws.outputs_first(served_laws.marlin), "u4"),
    ],
    "FlashInfer": [
        (np.float32, "flashinfer:gate_up", served_laws.gate_up, "f32"),
        (np.float32, "flashinfer:shuffle_matrix_a", served_laws.shuffled, "f32"),
    ],
    "tiles": [
        (np.float32, "{1,0:T(8,128)}", served_laws.tiles_8_128, "f32"),
        (np.float32, "{0,1}", served_laws.column_major, "f32"),
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_each_rank_takes_its_shards(form):
    """Tensor-parallel: a rank's gate_up has its rows of gate above its rows of up, and its down has columns of down.

    Each comes as a view of the checkpoint's tensor.  All ranks together give the result of the whole layer; numbers are
    small integers, so that sums are exact in any order.
    """
    hidden, inner = 128, 512
    rows = inner // RANKS
    forms = FORMS[form]
    sizes = (2 * rows, hidden), (hidden, rows)
    ranks = [
        [gl.torch.pack_(torch.zeros(each, dtype=torch.from_numpy(np.zeros(0, dtype)).dtype), layout)
         for each, (dtype, layout, _, _) in zip(sizes, forms)]
        for _ in range(RANKS)
    ]  # fmt: skip
    x = np.random.default_rng(3).integers(-2, 3, (5, hidden)).astype(np.float64)
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        gate, up = (rng.integers(0, 16, (inner, hidden)).astype(forms[0][0]) for _ in range(2))
        down = rng.integers(0, 16, (hidden, inner)).astype(forms[1][0])
        total = 0
        for number, (gate_up, narrow) in enumerate(ranks):
            mine = slice(number * rows, (number + 1) * rows)
            gl.torch.copy_(gate_up, torch.from_numpy(gate)[mine], at=slice(0, rows))
            gl.torch.copy_(gate_up, torch.from_numpy(up)[mine], at=(slice(rows, 2 * rows), ...))
            gl.torch.copy_(narrow, torch.from_numpy(down)[:, mine])
            first, second = (
                served_laws.in_memory(tensor, law, each, held).astype(np.float64)
                for tensor, each, (_, _, law, held) in zip((gate_up, narrow), sizes, forms)
            )
            total = total + (x @ first[:rows].T) * (x @ first[rows:].T) @ second.T
        wanted = (x @ gate.T.astype(np.float64)) * (x @ up.T.astype(np.float64)) @ down.T.astype(np.float64)
        assert np.array_equal(total, wanted)


@pytest.mark.parametrize("number", [16, 255])
@pytest.mark.parametrize("place", [(0, 1), (700, 500), (2047, 1023)])
def test_a_code_that_does_not_fit_is_found_in_a_part_of_a_larger_tensor(place, number):
    """Before a byte is written, wherever it is."""
    codes = torch.zeros(2048, 1024, dtype=torch.uint8)
    weight = gl.torch.pack_(codes.clone(), "marlin:weights(dtype=u4)")
    codes[place] = number
    for value, box in ((codes[:, 1:], (..., slice(1, None))), (codes.T.contiguous().T[:, 1:], (..., slice(1, None)))):
        with pytest.raises(gl.LayoutError, match=f"code of {number}"):
            gl.torch.copy_(weight, value, at=box)
    assert not gl.torch.read(weight).any()
