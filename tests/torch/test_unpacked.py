"""`unpacked`: whatever a loader does inside, every packed weight is plain there, and packed as it was after it."""

import itertools
import re

import numpy as np
import pytest

import gpulayout as gl
from tests.torch.packed_cases import KINDS, facts, model, packed, plain, same, tensor, values

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_plain_tensor_inside_and_packed_after(kind):
    given = model(kind)
    before, weight = facts(given), given.blocks[0].weight
    with gl.torch.unpacked(given) as inside:
        assert inside is given and given.blocks[0].weight is weight and type(weight) is torch.nn.Parameter
        assert weight.data_ptr() == before["blocks.0.weight"][0] and gl.torch.layout_of(weight) is None
        assert np.array_equal(weight.numpy(), values(kind)) and weight.dtype == tensor(kind).dtype
        weight.copy_(tensor(kind, 1))
    assert given.blocks[0].weight is weight and facts(given) == before
    assert np.array_equal(gl.torch.read(weight).numpy(), values(kind, 1))


# What a loader may do to a weight: it gets the module and plain values.
def _in_place(block, value):
    block.weight.copy_(value)


def _data(block, value):
    block.weight.data = value


def _parameter(block, value):
    block.weight = torch.nn.Parameter(value, requires_grad=False)


def _strided(block, value):
    block.weight = torch.nn.Parameter(value.repeat_interleave(2, -1)[..., ::2], requires_grad=False)


def _buffer(block, value):
    del block.weight
    block.register_buffer("weight", value)


def _attribute(block, value):
    del block.weight
    block.weight = value


def _assigned(block, value):
    block.load_state_dict({"weight": value}, assign=True)


def _other_module(block, value):
    fresh = torch.nn.Module()
    fresh.weight = torch.nn.Parameter(value, requires_grad=False)
    block.__class__, block.__dict__ = fresh.__class__, fresh.__dict__


def _nothing(block, value):
    pass


LOADERS = [_in_place, _data, _parameter, _strided, _buffer, _attribute, _assigned, _other_module, _nothing]
ENDS = [None, ValueError("the file is cut off"), KeyboardInterrupt(), SystemExit(3)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("load", LOADERS)
def test_what_a_loader_puts_in_its_place_gets_the_same_memory(kind, load):
    for end in ENDS:
        given = model(kind)
        before = facts(given)
        try:
            with gl.torch.unpacked(given):
                load(given.blocks[0], tensor(kind, 1))
                if end is not None:
                    raise end
        except BaseException as error:
            assert error is end and not hasattr(error, "__notes__")
        weight = given.blocks[0].weight
        found = weight.data_ptr(), str(gl.torch.layout_of(weight)), weight.dtype, tuple(weight.shape)
        assert found == before["blocks.0.weight"]
        assert np.array_equal(gl.torch.read(weight).numpy(), values(kind, 0 if load is _nothing else 1))


def test_a_view_of_its_own_memory_with_other_strides():
    given, square = torch.nn.Module(), np.arange(36, dtype="f4").reshape(6, 6)
    given.weight = torch.nn.Parameter(torch.from_numpy(square.copy()), requires_grad=False)
    gl.torch.pack_(given.weight, "{1,0:T(2,3)}")
    before = facts(given)
    with gl.torch.unpacked(given):
        given.weight.data = given.weight.data.t()
    assert facts(given) == before and np.array_equal(gl.torch.read(given.weight).numpy(), square.T)


def _wrong_sizes(block):
    block.weight = torch.nn.Parameter(block.weight[:2].clone(), requires_grad=False)
    return "after the block and stays plain: it was .*, whose plain tensor is "


def _wrong_dtype(block):
    block.weight = torch.nn.Parameter(block.weight.bool(), requires_grad=False)
    return r"it is bool\[.*\] after the block and stays plain"


def _gone(block):
    del block.weight
    return "no tensor has this name after the block"


def _none(block):
    block.weight = None
    return "no tensor has this name after the block"


def _meta(block):
    block.weight = torch.nn.Parameter(block.weight.to("meta"), requires_grad=False)
    return "meta device"


MISTAKES = [_wrong_sizes, _wrong_dtype, _gone, _none, _meta]


@pytest.mark.parametrize("mistakes", [*itertools.combinations(MISTAKES, 2)])
def test_mistakes_are_named_and_all_others_are_packed(mistakes):
    kinds = ["columns", "codes", "tiles", "words"]
    for end in (None, RuntimeError("the loader failed")):
        given = model(*kinds)
        before, texts = facts(given), []
        with pytest.raises(Exception) as caught:
            with gl.torch.unpacked(given):
                for number, mistake in zip((1, 2), mistakes):
                    texts.append((f"blocks.{number}.weight", mistake(given.blocks[number])))
                if end is not None:
                    raise end
        messages = [*getattr(caught.value, "__notes__", ())]
        if end is None:
            messages.insert(0, str(caught.value))
            assert type(caught.value) is gl.LayoutError
        else:
            assert caught.value is end
        assert len(messages) == 2
        for message, (name, text) in zip(messages, texts):
            assert re.search(f"'{name}'.*{text}", message) and "\n" not in message
        after = facts(given)
        assert [after[f"blocks.{number}.weight"] for number in (0, 3)] == [
            before[f"blocks.{number}.weight"] for number in (0, 3)
        ]


def test_what_is_packed_by_hand_inside_stays_as_it_is():
    given = model("columns", "columns")
    with gl.torch.unpacked(given):
        gl.torch.pack_(given.blocks[0].weight, "{1,0:T(2,4)}")
        given.blocks[1].weight = torch.nn.Parameter(tensor("columns", 1), requires_grad=False)
        gl.torch.pack_(given.blocks[1].weight, "{1,0:T(3,2)}")
    layouts = [gl.torch.layout_of(block.weight).layout for block in given.blocks]
    assert [*map(str, layouts)] == ["{1,0:T(2,4)}", "{1,0:T(3,2)}"]
    assert np.array_equal(gl.torch.read(given.blocks[1].weight).numpy(), values("columns", 1))


def test_of_tied_tensors_one_may_be_packed_by_hand():
    for number in (0, 1):
        given = model("codes")
        given.tied = torch.nn.Module()
        given.tied.weight = _same_memory(given.blocks[0].weight)
        before = facts(given)
        with gl.torch.unpacked(given):
            gl.torch.pack_((given.blocks[0].weight, given.tied.weight)[number], KINDS["codes"][2])
        assert facts(given) == before
        assert np.array_equal(gl.torch.read(given.tied.weight).numpy(), values("codes"))


def test_tied_weights_that_are_replaced_one_by_one():
    given = model("codes")
    given.tied = torch.nn.Module()
    given.tied.weight = given.blocks[0].weight
    before = facts(given)
    with gl.torch.unpacked(given):
        _parameter(given.blocks[0], tensor("codes", 1))
        _parameter(given.tied, tensor("codes", 2))
    after = facts(given)
    assert after["blocks.0.weight"] == before["blocks.0.weight"]  # the first gets the memory
    assert after["tied.weight"][1:] == before["tied.weight"][1:]
    for number, block in enumerate((given.blocks[0], given.tied), 1):
        assert np.array_equal(gl.torch.read(block.weight).numpy(), values("codes", number))


def test_a_gradient_of_plain_sizes_is_a_mistake():
    given = model("columns", "codes")
    before = facts(given)
    with pytest.raises(TypeError, match="^'blocks.0.weight': .* has a gradient of its plain sizes"):
        with gl.torch.unpacked(given):
            given.blocks[0].weight = torch.nn.Parameter(tensor("columns", 1))
            given.blocks[0].weight.sum().backward()
    assert facts(given)["blocks.1.weight"] == before["blocks.1.weight"]


def test_what_failed_by_hand_inside_is_between_two_layouts_after_it(monkeypatch):
    from gpulayout.torch import packing

    given, layout = model("columns", "codes"), KINDS["columns"][2]
    before = facts(given)

    def failed(*arguments, out, **options):
        out.zero_()
        raise RuntimeError("the device is lost")

    with pytest.raises(gl.LayoutError, match="^'blocks.0.weight': .*between two layouts"), gl.torch.unpacked(given):
        monkeypatch.setattr(packing, "relayout", failed)
        with pytest.raises(RuntimeError):
            gl.torch.pack_(given.blocks[0].weight, layout)
        monkeypatch.undo()
    weight = given.blocks[1].weight
    assert (weight.data_ptr(), str(gl.torch.layout_of(weight))) == before["blocks.1.weight"][:2]


def test_a_move_that_fails_half_way_is_said_and_stays_said(monkeypatch):
    """The weight is not taken for packed, nor for plain, and the other one is packed."""
    from gpulayout.torch import packing

    given = model("columns", "codes")
    before = facts(given)

    def failed(*arguments, **options):
        result = relayout(*arguments, **options)
        if "f32" in str(arguments[1]):
            raise RuntimeError("the device is lost")
        return result

    relayout = packing.relayout
    with pytest.raises(RuntimeError, match="^'blocks.0.weight': the device is lost"), gl.torch.unpacked(given):
        monkeypatch.setattr(packing, "relayout", failed)
    monkeypatch.undo()
    with pytest.raises(gl.LayoutError, match="between two layouts"):
        gl.torch.layout_of(given.blocks[0].weight)
    with pytest.raises(gl.LayoutError, match="^'blocks.0.weight': .*between two layouts"), gl.torch.unpacked(given):
        pass
    weight = given.blocks[1].weight
    assert (weight.data_ptr(), str(gl.torch.layout_of(weight))) == before["blocks.1.weight"][:2]


def _same_object(weight):
    return weight


def _same_memory(weight):
    return torch.nn.Parameter(weight.data, requires_grad=False)


@pytest.mark.parametrize("tie", [_same_object, _same_memory])
@pytest.mark.parametrize("kind", ["columns", "codes", "words", "padding"])
def test_tied_weights_are_unpacked_once_and_stay_tied(kind, tie):
    for load in (_nothing, _in_place, _parameter):
        given = model(kind)
        given.tied = torch.nn.Module()
        given.tied.weight = tie(given.blocks[0].weight)
        before = facts(given)
        with gl.torch.unpacked(given):
            for block in (given.blocks[0], given.tied):
                assert gl.torch.layout_of(block.weight) is None
                assert np.array_equal(block.weight.numpy(), values(kind))
            assert given.tied.weight.data_ptr() == given.blocks[0].weight.data_ptr()
            load(given.tied, tensor(kind, 1))
        after = facts(given)
        number = 0 if load is _nothing else 1
        assert np.array_equal(gl.torch.read(given.tied.weight).numpy(), values(kind, number))
        if load is _parameter:  # no longer tied: the first one keeps the memory
            assert after["blocks.0.weight"] == before["blocks.0.weight"]
            assert after["tied.weight"][1:] == before["tied.weight"][1:]
            assert after["tied.weight"][0] != before["tied.weight"][0]
            assert np.array_equal(gl.torch.read(given.blocks[0].weight).numpy(), values(kind))
        else:
            assert after == before


@pytest.mark.parametrize("kind", ["columns", "codes", "words", "padding"])
def test_a_buffer_of_the_packed_bytes_is_one_after_it(kind):
    """Kernels may take another dtype than the owner of the layout: it is no tied weight."""
    given = model(kind)
    given.bytes = torch.nn.Buffer(given.blocks[0].weight.data.view(-1).view(torch.uint8))
    before, sizes = facts(given), given.bytes.shape
    for load in (_nothing, _in_place, _parameter):
        with gl.torch.unpacked(given):
            load(given.blocks[0], tensor(kind, 1))
        assert (given.bytes.dtype, given.bytes.shape) == (torch.uint8, sizes)
        assert gl.torch.layout_of(given.bytes) == gl.torch.layout_of(given.blocks[0].weight)
        if load is not _parameter:
            assert facts(given) == before
    assert np.array_equal(gl.torch.read(given.blocks[0].weight).numpy(), values(kind, 1))


def test_buffers_too_also_those_that_are_not_persistent():
    given = torch.nn.Module()
    given.register_buffer("kept", gl.torch.pack_(tensor("codes"), KINDS["codes"][2]))
    given.register_buffer("cache", gl.torch.pack_(tensor("columns"), "{0,1}"), persistent=False)
    before = facts(given)
    with gl.torch.unpacked(given):
        assert {name: str(gl.torch.layout_of(each)) for name, each in given.named_buffers()} == {
            "kept": "None",
            "cache": "None",
        }
        given.cache = tensor("columns", 1)
    assert facts(given) == before and np.array_equal(gl.torch.read(given.cache).numpy(), values("columns", 1))


def test_an_iterable_of_tensors():
    tensors = [packed("columns"), torch.zeros(3), packed("codes")]
    layouts = [str(gl.torch.layout_of(each)) for each in tensors]
    with gl.torch.unpacked(each for each in tensors) as inside:
        assert [*map(id, inside)] == [*map(id, tensors)]
        assert [gl.torch.layout_of(each) for each in tensors] == [None] * 3
        tensors[0].data = tensor("columns", 1)
    assert [str(gl.torch.layout_of(each)) for each in tensors] == layouts
    assert np.array_equal(gl.torch.read(tensors[0]).numpy(), values("columns", 1))


def test_mistakes_of_the_call():
    weight = packed("columns")
    for given, text in (
        (weight, "write unpacked"),
        ({"weight": weight}, "not dict|not a dict"),
        (3, "unpacked takes a model or several tensors"),
        ([weight, None], "tensor 1 that unpacked gets is a NoneType"),
    ):
        with pytest.raises(TypeError, match=text):
            with gl.torch.unpacked(given):
                pass
    part = torch.nn.Module()
    part.whole, part.row = weight, torch.nn.Parameter(weight[:8], requires_grad=False)
    with pytest.raises(gl.LayoutError, match="^'row': .*part of the memory"):
        with gl.torch.unpacked(part):
            pass
    assert gl.torch.layout_of(weight) is not None


def test_where_one_cannot_be_unpacked_none_is():
    given = model("columns", "codes")
    small = torch.zeros(4, 256, dtype=torch.int32)
    given.blocks[1].weight = torch.nn.Parameter(
        gl.torch.mark_packed_(small, "marlin:weights(dtype=u4)"), requires_grad=False
    )
    before, held = facts(given), plain(given)
    with pytest.raises(gl.LayoutError, match=r"^'blocks.1.weight': .*gl.torch.read\(tensor\)"):
        with gl.torch.unpacked(given):
            raise AssertionError("not reached")
    assert facts(given) == before and same(plain(given), held)


@pytest.mark.parametrize("load", [_in_place, _parameter])
@pytest.mark.parametrize("calls", range(1, 5))
def test_ctrl_c_while_weights_are_packed_again(monkeypatch, calls, load):
    """It is raised when all are packed, whichever call it comes in, before the move or after it."""
    from gpulayout.torch import packed_weights

    pack_as = packed_weights.pack_as
    for after in (False, True):
        counted = iter(range(1, 99))

        def interrupted(tensor, note, max_bytes, counted=counted, after=after):
            number = next(counted)
            if number == calls and not after:
                raise KeyboardInterrupt
            pack_as(tensor, note, max_bytes)
            if number == calls:
                raise KeyboardInterrupt

        given = model("columns", "codes", "words", "tiles")
        before = facts(given)
        with pytest.raises(KeyboardInterrupt), gl.torch.unpacked(given):
            for block, kind in zip(given.blocks, ("columns", "codes", "words", "tiles")):
                load(block, tensor(kind, 1))
            monkeypatch.setattr(packed_weights, "pack_as", interrupted)
        monkeypatch.undo()
        assert facts(given) == before
        assert all(
            np.array_equal(gl.torch.read(block.weight).numpy(), values(kind, 1))
            for block, kind in zip(given.blocks, ("columns", "codes", "words", "tiles"))
        )


def test_ctrl_c_comes_before_mistakes(monkeypatch):
    """What ends a program is raised, and what is wrong with weights stands beside it."""
    from gpulayout.torch import packed_weights

    given = model("columns", "codes")
    before, pack_as = facts(given), packed_weights.pack_as
    stops = iter([KeyboardInterrupt("stopped")])

    def interrupted(*arguments):
        for stop in stops:
            raise stop
        return pack_as(*arguments)

    with pytest.raises(KeyboardInterrupt, match="stopped") as caught, gl.torch.unpacked(given):
        _gone(given.blocks[0])
        monkeypatch.setattr(packed_weights, "pack_as", interrupted)
    assert caught.value.__notes__ == [
        "'blocks.0.weight': no tensor has this name after the block, which was f32[6,8]{0,1}"
    ]
    assert facts(given)["blocks.1.weight"] == before["blocks.1.weight"]


def test_a_plain_model_stays_as_it_is():
    given = torch.nn.Linear(3, 2)
    before = facts(given)
    with gl.torch.unpacked(given):
        assert facts(given) == before
    assert facts(given) == before
