"""`state_dict` and `load_state_dict`: the checkpoint of a packed model is that of the plain one."""

import copy
import io
from collections import OrderedDict

import numpy as np
import pytest

import gpulayout as gl
from tests.torch.packed_cases import KINDS, facts, model, plain, same, tensor, values

torch = pytest.importorskip("torch")


def checkpoint(*kinds, seed=0):
    """The plain state of `model(*kinds)`."""
    state = {f"blocks.{number}.weight": tensor(kind, seed) for number, kind in enumerate(kinds)}
    return state | {"head.weight": torch.full((3, 2), float(seed)), "head.bias": torch.full((3,), float(seed))}


def arrays(state):
    return {name: each.numpy().copy() for name, each in state.items()}


def test_the_state_is_that_of_the_plain_model():
    given = model(*KINDS)
    state = gl.torch.state_dict(given)
    assert [*state] == [*given.state_dict()] and len(state) == len(KINDS) + 2
    assert repr(state) == f"PlainState of {len(state)} tensors"
    for number, kind in enumerate(KINDS):
        read = state[f"blocks.{number}.weight"]
        assert type(read) is torch.Tensor and np.array_equal(read.numpy(), values(kind))
        assert read.dtype == tensor(kind).dtype and read.data_ptr() != state[f"blocks.{number}.weight"].data_ptr()
    assert state["head.weight"].data_ptr() == given.head.weight.data_ptr()
    assert "head.weight" in state and "nothing" not in state
    with pytest.raises(KeyError):
        state["nothing"]


def test_it_reads_one_tensor_when_asked_for_it(monkeypatch):
    from gpulayout.torch import packed_models

    read, count = packed_models.read, []
    monkeypatch.setattr(packed_models, "read", lambda tensor: count.append(tensor) or read(tensor))
    state = gl.torch.state_dict(model("columns", "codes"))
    assert [*state.keys()] and not count
    items = iter(state.items())
    next(items)
    assert len(count) == 1
    next(items)
    assert len(count) == 2


def test_it_becomes_a_dict_that_is_saved_and_loaded_without_the_package():
    given = model(*KINDS)
    state = gl.torch.state_dict(given)
    memory = io.BytesIO()
    torch.save(state, memory)
    assert b"gpulayout" not in memory.getvalue()
    memory.seek(0)
    for found in (state.to_dict(), torch.load(memory, weights_only=True), copy.deepcopy(state)):
        assert type(found) is OrderedDict and same(arrays(found), plain(given))
    assert state.to_dict()._metadata == given.state_dict()._metadata


def test_tied_tensors_stay_tied_in_the_dict():
    given = model("codes")
    given.tied = torch.nn.Module()
    given.tied.weight = given.blocks[0].weight
    state = gl.torch.state_dict(given).to_dict()
    assert state["tied.weight"] is state["blocks.0.weight"]


@pytest.mark.parametrize("wrap", [dict, OrderedDict])
def test_loading_gives_every_tensor_its_values_in_place(wrap):
    given = model(*KINDS)
    before = facts(given)
    result = gl.torch.load_state_dict(given, wrap(checkpoint(*KINDS, seed=1)))
    assert result == ([], []) and result.missing_keys == [] and "matched" in repr(result)
    assert facts(given) == before and same(plain(given), arrays(checkpoint(*KINDS, seed=1)))


def test_a_state_comes_back_as_it_went():
    given, other = model(*KINDS), model(*KINDS, seed=1)
    gl.torch.load_state_dict(other, gl.torch.state_dict(given))
    assert same(plain(other), plain(given))
    again = model(*KINDS, seed=2)
    gl.torch.load_state_dict(again, given.state_dict())  # packed tensors
    assert same(plain(again), plain(given))


def test_packed_values_go_into_other_layouts_and_into_plain_tensors():
    given, other = model("columns"), model("tiles")
    other.blocks[0].weight = gl.torch.pack_(
        torch.nn.Parameter(tensor("columns", 1), requires_grad=False), "{1,0:T(2,4)}"
    )
    gl.torch.load_state_dict(other, given.state_dict())
    assert np.array_equal(gl.torch.read(other.blocks[0].weight).numpy(), values("columns"))
    other.blocks[0].weight = torch.nn.Parameter(tensor("columns", 2), requires_grad=False)
    gl.torch.load_state_dict(other, given.state_dict())
    assert np.array_equal(other.blocks[0].weight.numpy(), values("columns"))


def test_floats_of_another_type_are_converted():
    given = model("columns", "tiles")
    state = checkpoint("columns", "tiles", seed=1)
    gl.torch.load_state_dict(given, {name: each.double() for name, each in state.items()})
    assert same(plain(given), arrays(state))


def _missing(state):
    del state["blocks.1.weight"], state["head.bias"]
    return "missing are 'blocks.1.weight', 'head.bias'"


def _unexpected(state):
    state.update({f"more.{number}": torch.zeros(1) for number in range(7)})
    return "unexpected are 'more.0', 'more.1', 'more.2', 'more.3', 'more.4' and 2 more"


def _sizes(state):
    state["blocks.0.weight"] = torch.zeros(8, 6)
    return "'blocks.0.weight' is float32[8,6] and must be float32[6,8]"


def _packed_sizes(state):
    state["blocks.1.weight"] = torch.zeros(1, 128, dtype=torch.int32)
    return "'blocks.1.weight' is int32[1,128] and must be uint8[16,64]; these are the sizes of its packed bytes"


def _dtype(state):
    state["blocks.1.weight"] = torch.zeros(16, 64)
    return "'blocks.1.weight' is of torch.float32 and must be of torch.uint8"


def _plain_sizes(state):
    state["head.weight"] = torch.zeros(2, 3)
    return "'head.weight' is float32[2,3] and must be float32[3,2]"


def _no_tensor(state):
    state["blocks.0.weight"] = np.zeros((6, 8), np.float32)
    return "'blocks.0.weight' is an ndarray and not a tensor"


def _part(state):
    whole = gl.torch.pack_(torch.zeros(8, 8), "{0,1}")
    state["blocks.0.weight"] = whole[:48]
    return "'blocks.0.weight': tensor float32[48] is a part of the memory of f32[8,8]{0,1}"


def _packed_bytes_for_codes(state):
    state["blocks.1.weight"] = gl.torch.pack_(torch.zeros(16, 64, dtype=torch.uint8), "{0,1}")
    return "'blocks.1.weight' is u8[16,64]{0,1} of u8[16,64] and must be of u4[16,64]"


def _packed_for_a_plain_one(state):
    state["head.weight"] = gl.torch.pack_(torch.zeros(3, 2, dtype=torch.int64), "{0,1}")
    return "'head.weight' is of torch.int64 and must be of torch.float32"


PACKED = [_packed_bytes_for_codes, _packed_for_a_plain_one]
MISTAKES = [_missing, _unexpected, _sizes, _packed_sizes, _dtype, _plain_sizes, _no_tensor, _part, *PACKED]


@pytest.mark.parametrize("mistakes", [*((each,) for each in MISTAKES), (_unexpected, _sizes, _dtype, _plain_sizes)])
def test_mistakes_are_listed_in_one_error_before_a_byte_is_written(mistakes):
    given = model("columns", "codes")
    before, held = facts(given), plain(given)
    state = checkpoint("columns", "codes", seed=1)
    texts = [mistake(state) for mistake in mistakes]
    with pytest.raises(gl.LayoutError) as caught:
        gl.torch.load_state_dict(given, state)
    message = str(caught.value)
    assert message.startswith("state does not fit Module, and nothing was loaded: ") and "\n" not in message
    assert all(text in message for text in texts)
    assert facts(given) == before and same(plain(given), held)


def test_of_many_tensors_that_do_not_fit_the_first_are_listed():
    given = model(*["columns"] * 7)
    state = checkpoint(*["columns"] * 7)
    for number in range(7):
        state[f"blocks.{number}.weight"] = torch.zeros(number + 1)
    with pytest.raises(gl.LayoutError, match=r"'blocks.4.weight' is float32\[5\] .*; and 2 more do not fit$") as caught:
        gl.torch.load_state_dict(given, state)
    assert "blocks.5" not in str(caught.value)


def test_without_strict_names_may_differ_and_sizes_may_not():
    given = model("columns", "codes")
    state = checkpoint("columns", "codes", seed=1)
    del state["blocks.1.weight"], state["head.bias"]
    result = gl.torch.load_state_dict(given, {**state, "more": torch.zeros(1)}, strict=False)
    assert result == (["blocks.1.weight", "head.bias"], ["more"])
    assert np.array_equal(gl.torch.read(given.blocks[0].weight).numpy(), values("columns", 1))
    assert np.array_equal(gl.torch.read(given.blocks[1].weight).numpy(), values("codes"))
    state["blocks.0.weight"] = torch.zeros(2)
    with pytest.raises(gl.LayoutError, match="must be"):
        gl.torch.load_state_dict(given, state, strict=False)


class Counter(torch.nn.Module):
    """A module with extra state, and a buffer that is not part of its state."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scratch", torch.zeros(2), persistent=False)
        self.steps = 0

    def get_extra_state(self):
        return {"steps": self.steps}

    def set_extra_state(self, state):
        self.steps = state["steps"]


def test_extra_state_and_buffers_are_as_torch_has_them():
    given, other = model("columns"), model("columns", seed=1)
    for each in (given, other):
        each.counter = Counter()
    given.counter.steps = 7
    state = gl.torch.state_dict(given)
    assert state["counter._extra_state"] == {"steps": 7} and "counter.scratch" not in state
    gl.torch.load_state_dict(other, state)
    assert other.counter.steps == 7 and np.array_equal(gl.torch.read(other.blocks[0].weight), values("columns"))


def test_modules_see_the_version_of_the_state():
    class Versioned(torch.nn.Module):
        _version = 3

        def _load_from_state_dict(self, state, prefix, metadata, *rest):
            self.seen = metadata.get("version")
            super()._load_from_state_dict(state, prefix, metadata, *rest)

    given = model("columns")
    given.head = Versioned()
    for state in (gl.torch.state_dict(given), given.state_dict(), gl.torch.state_dict(given).to_dict()):
        given.head.seen = None
        gl.torch.load_state_dict(given, state)
        assert given.head.seen == 3


def test_mistakes_of_the_call():
    for call in (gl.torch.state_dict, lambda given: gl.torch.load_state_dict(given, {})):
        with pytest.raises(TypeError, match="takes a model"):
            call([torch.zeros(2)])
    with pytest.raises(TypeError, match="state is a list"):
        gl.torch.load_state_dict(torch.nn.Linear(2, 2), [])
