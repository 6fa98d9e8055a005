"""`load_packed(assign=True)`: tensors over the mapped file are what a load into memory gives, and the file stays."""

import contextlib
import copy
import functools
import io
import itertools
import json
import os
import pathlib
import pickle
import signal
import sys
import threading
import types

import numpy as np
import pytest

import gpulayout as gl
from tests.support.traced_lines import Trace
from tests.torch.packed_cases import KINDS, facts, in_two_files, model, packed, plain, same, tensor, values

torch = pytest.importorskip("torch")

from gpulayout.torch.mapped_bytes import FileSpan, mapped  # noqa: E402  # it needs torch


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.safetensors"


def plain_model(*kinds, device="meta", seed=1):
    """The same model as `model` before anything was packed."""
    made = torch.nn.Module()
    made.blocks = torch.nn.ModuleList(torch.nn.Module() for _ in kinds)
    for block, kind in zip(made.blocks, kinds):
        block.weight = torch.nn.Parameter(tensor(kind, seed).to(device), requires_grad=False)
    made.head = torch.nn.Linear(2, 3, device=device).requires_grad_(False)
    return made


def forms(given):
    """What tensors are, but for their addresses."""
    return {name: each[1:] for name, each in facts(given).items()}


def objects(given):
    return {**dict(given.named_parameters(remove_duplicate=False)), **dict(given.named_buffers())}


def started(file, *kinds):
    made = plain_model(*kinds)
    gl.torch.load_packed(file, made, assign=True)
    return made


def shift(file, count):
    """Let the tensors of a file begin so many bytes later."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    file.write_bytes((size + count).to_bytes(8, "little") + content[8 : 8 + size] + b" " * count + content[8 + size :])


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(9))
def test_a_start_gives_what_a_load_into_memory_gives(file, offset):
    """Wherever the tensors begin in the file, and whatever the model was."""
    given = model(*KINDS)
    gl.torch.save_packed(given, file)
    shift(file, offset)
    before = file.read_bytes()
    for other in (plain_model(*KINDS), plain_model(*KINDS, device="cpu"), model(*KINDS, seed=1)):
        for _ in range(2):
            old = objects(other)
            assert gl.torch.load_packed(file, other, assign=True) == ([], [])
            assert forms(other) == forms(given) and same(plain(other), plain(given))
            assert all(each is not old[name] for name, each in objects(other).items())
            assert not any(each.data_ptr() % each.element_size() for each in objects(other).values())
        for block, kind in zip(other.blocks, KINDS):  # also what unpack_ needs is there
            gl.torch.unpack_(block.weight)
            assert type(block.weight) is torch.nn.Parameter and np.array_equal(block.weight.numpy(), values(kind))
    assert file.read_bytes() == before


def calls(kind):
    """What may be done with a packed tensor, and the values that it has then."""
    new, old = tensor(kind, 5), values(kind)
    return {
        "copy_": (lambda each: gl.torch.copy_(each, new), values(kind, 5)),
        "unpack_": (gl.torch.unpack_, old),
        "zeros": (lambda each: gl.torch.unpack_(each).zero_(), np.zeros_like(old)),
        "bytes": (lambda each: each.untyped_storage().fill_(0), None),
    }


@pytest.mark.parametrize("call", calls("codes"))
def test_no_write_reaches_the_file_another_tensor_or_another_model(file, call):
    given = model(*KINDS)
    gl.torch.save_packed(given, file)
    before, held = file.read_bytes(), plain(given)
    other, third = started(file, *KINDS), started(file, *KINDS)
    for number, kind in enumerate(KINDS):
        function, expected = calls(kind)[call]
        name = f"blocks.{number}.weight"
        function(other.blocks[number].weight)
        held[name] = plain(other)[name] if expected is None else expected
        assert same(plain(other), held)
    assert same(plain(third), plain(given)) and file.read_bytes() == before


def test_whole_models_are_reloaded_and_saved_over_the_file_that_is_mapped(file):
    given, later = model(*KINDS), model(*KINDS, seed=3)
    gl.torch.save_packed(given, file)
    other, third = started(file, *KINDS), started(file, *KINDS)
    addresses = facts(other)
    with gl.torch.unpacked(other):
        other.load_state_dict(gl.torch.state_dict(later).to_dict())
    assert facts(other) == addresses and same(plain(other), plain(later))
    gl.torch.load_packed(file, other)
    assert facts(other) == addresses and same(plain(other), plain(given))
    gl.torch.load_state_dict(other, gl.torch.state_dict(later))
    assert facts(other) == addresses and same(plain(other), plain(later))
    if sys.platform != "win32":  # where nothing takes the place of a file that is mapped
        gl.torch.save_packed(other, file, overwrite=True)
        assert same(plain(third), plain(given)) and same(plain(other), plain(later))
        assert same(plain(started(file, *KINDS)), plain(later))
        file.unlink()
        assert same(plain(third), plain(given))


def test_copies_have_notes_and_pickles_have_the_tensor_alone(file):
    given = model(*KINDS)
    given.more = torch.nn.Linear(200, 200)
    gl.torch.save_packed(given, file)
    other = plain_model(*KINDS)
    other.more = torch.nn.Linear(200, 200, device="meta")
    gl.torch.load_packed(file, other, assign=True)
    copies = copy.deepcopy(other), pickle.loads(pickle.dumps(other)), copy.deepcopy(other).to("cpu")
    for each in copies:
        assert forms(each) == forms(given) and same(plain(each), plain(given))
    stream = io.BytesIO()
    torch.save(other.head.weight, stream)
    assert len(stream.getvalue()) < 10_000
    assert forms(other.to("meta")) == forms(given)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_spans_share_no_memory(file, count):
    """All spans of few bytes, whatever they have in common: each is like a copy of its bytes."""
    content = bytes(range(5))
    file.write_bytes(content)
    spans = [(begin, end) for begin in range(5) for end in range(begin + 1, 6)]
    shard_contents = types.SimpleNamespace(start=2, tensors=(types.SimpleNamespace(end=3),))
    with file.open("rb") as stream:
        shard = types.SimpleNamespace(path=file, stream=stream, contents=shard_contents)
        for chosen in itertools.product(spans, repeat=count):
            made = mapped([FileSpan(shard, *each) for each in chosen])
            expected = [bytearray(content[begin:end]) for begin, end in chosen]
            for number, each in enumerate(made):
                each.add_(10 * number + 1)
                expected[number] = bytearray(value + 10 * number + 1 for value in expected[number])
                assert [bytearray(one.numpy()) for one in made] == expected
    assert file.read_bytes() == content


# ---- what takes the place of what ------------------------------------------------------------------------------------


class Weight(torch.nn.Parameter):
    """A parameter of an engine, with attributes."""


def test_classes_attributes_and_gradients_are_those_of_the_model(file):
    given = torch.nn.Module()
    given.codes, given.rows, given.plain = packed("codes"), packed("tiles"), torch.nn.Parameter(torch.ones(2))
    given.register_buffer("count", torch.arange(3))
    gl.torch.save_packed(given, file)
    other = torch.nn.Module()
    for name, kind in (("codes", "codes"), ("rows", "tiles")):
        data = tensor(kind).to("meta")
        setattr(other, name, Weight(data, requires_grad=name == "rows"))
        getattr(other, name).weight_loader = name
    other.plain = torch.nn.Parameter(torch.empty(2, device="meta"))
    other.plain.weight_loader = "plain"
    other.register_buffer("count", torch.empty(3, dtype=torch.int64, device="meta"))
    other.register_buffer("left_out", torch.empty(3, device="meta"), persistent=False)
    for _ in range(2):
        gl.torch.load_packed(file, other, assign=True)
        assert [*dict(other.named_parameters())] == ["codes", "rows", "plain"]
        assert [isinstance(each, Weight) for each in other.parameters()] == [True, True, False]
        assert [each.requires_grad for each in other.parameters()] == [False, True, True]
        assert [each.weight_loader for each in other.parameters()] == ["codes", "rows", "plain"]
        assert type(other.count) is torch.Tensor and other.count.tolist() == [0, 1, 2] and other.left_out.is_meta
        assert all(each.is_leaf and isinstance(each, torch.nn.Parameter) for each in other.parameters())
    (other.plain * 3).sum().backward()
    with torch.no_grad():
        other.plain -= other.plain.grad
    assert other.plain.tolist() == [-2, -2]
    assert type(gl.torch.unpack_(other.codes)) is Weight and other.codes.weight_loader == "codes"


def ways_to_tie(weight):
    return weight, torch.nn.Parameter(weight.data, requires_grad=False)


@pytest.mark.parametrize("way", [0, 1], ids=["one object", "one memory"])
@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("written", ["tied", "twice"])
def test_ties(file, way, device, written):
    """Of the model they stay, as objects or as memory.  Those of the file alone make none."""
    given = model("codes")
    given.tied, given.other = torch.nn.Module(), torch.nn.Module()
    given.tied.weight, given.other.weight = given.blocks[0].weight, given.head.weight
    if written == "twice":
        given.tied.weight, given.other.weight = packed("codes"), torch.nn.Parameter(given.head.weight.data.clone())
    gl.torch.save_packed(given, file)
    tied, untied = plain_model("codes", device=device), plain_model("codes", device=device)
    for each in (tied, untied):
        each.tied, each.other = torch.nn.Module(), torch.nn.Module()
        each.tied.weight = ways_to_tie(each.blocks[0].weight)[way]
        each.other.weight = ways_to_tie(each.head.weight)[way]
    untied.tied.weight = torch.nn.Parameter(tensor("codes").to(device), requires_grad=False)
    untied.other.weight = torch.nn.Parameter(torch.empty(3, 2, device=device), requires_grad=False)
    for each in (tied, untied):
        for _ in range(2):
            assert gl.torch.load_packed(file, each, assign=True) == ([], [])
            assert same(plain(each), plain(given)) and forms(each) == forms(given)
        pairs = (each.blocks[0].weight, each.tied.weight), (each.head.weight, each.other.weight)
        for one, other in pairs:
            assert (one is other) == (each is tied and way == 0)
            assert (one.data_ptr() == other.data_ptr()) == (each is tied)
        gl.torch.copy_(pairs[0][0], tensor("codes", 7))
        pairs[1][0].data.fill_(7)
        for name, array in plain(each).items():
            is_written = name in ("blocks.0.weight", "head.weight") or (each is tied and name != "head.bias")
            new = values("codes", 7) if array.dtype == np.uint8 else np.full((3, 2), 7, np.float32)
            assert np.array_equal(array, new if is_written else plain(given)[name])


def test_an_index_of_several_files(tmp_path):
    given = model("codes", "columns")
    index = in_two_files(given, tmp_path)
    other = started(index, "codes", "columns")
    assert same(plain(other), plain(given)) and forms(other) == forms(given)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems promise no memory for maps, or always do")
def test_a_file_larger_than_the_memory_of_the_machine(file):
    sizes = dict(line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    size = sum(1024 * int(sizes[name].split()[0]) for name in ("MemTotal", "SwapTotal")) + (1 << 30)
    header = json.dumps({"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(file, 8 + len(header) + size)  # with a hole, which takes no room
    other = with_weight(torch.nn.Parameter(torch.empty(size, dtype=torch.uint8, device="meta"), False))
    gl.torch.load_packed(file, other, assign=True)
    other.weight[-1] = 7
    assert len(other.weight) == size and other.weight[:9].tolist() == [0] * 9 and other.weight[-1] == 7
    with file.open("rb") as stream:
        assert stream.seek(-1, os.SEEK_END) and stream.read() == b"\0"


def test_files_that_the_package_has_made_of_checkpoints(file, tmp_path):
    """A model has words that are packed, or the codes that the file has in words."""
    given = plain_model("words", "words", device="cpu", seed=0)
    gl.torch.save_packed(given, file)
    made = tmp_path / "marlin.safetensors"
    gl.relayout_file(file, made, tensors={"blocks.*": "from=gptq:qweight(dtype=u4); marlin:weights"})
    other = plain_model("words", "words", device="cpu")
    gl.torch.pack_(other.blocks[0].weight, "marlin:weights(dtype=u4)", source="gptq:qweight(dtype=u4)")
    codes = np.asarray(gl.unpack(values("words").reshape(-1).view(np.uint8), "gptq:qweight(dtype=u4)[32,64]"))
    other.blocks[1].weight = torch.nn.Parameter(torch.empty(32, 64, dtype=torch.uint8, device="meta"), False)
    for _ in range(2):
        gl.torch.load_packed(made, other, assign=True)
        assert np.array_equal(gl.torch.read(other.blocks[0].weight).numpy(), values("words"))
        assert np.array_equal(gl.torch.read(other.blocks[1].weight).numpy(), codes.astype("u1"))
    assert np.array_equal(gl.torch.unpack_(other.blocks[1].weight).numpy(), codes.astype("u1"))


class Counted(torch.nn.Linear):
    """A module with extra state that a file can hold."""

    steps = 7

    def get_extra_state(self):
        return torch.tensor([self.steps])

    def set_extra_state(self, state):
        assert not self.weight.is_meta
        self.steps = int(state)


def test_extra_state_and_modules_that_keep_lists_of_their_parameters(file):
    given = torch.nn.ModuleList([Counted(2, 3), torch.nn.LSTM(2, 3)])
    gl.torch.save_packed(given, file)
    other = torch.nn.ModuleList([Counted(2, 3, device="meta"), torch.nn.LSTM(2, 3, device="meta")])
    other[0].steps = 0
    gl.torch.load_packed(file, other, assign=True)
    assert other[0].steps == 7
    step = torch.ones(4, 2)
    assert torch.equal(other[1](step)[0], given[1](step)[0])


def test_parameters_and_buffers_stay_what_they_are(file):
    """Also a parameter that is a buffer, and a plain tensor that is a parameter."""
    given = torch.nn.Module()
    given.register_buffer("buffer", torch.nn.Parameter(torch.ones(2), requires_grad=False))
    given.register_buffer("packed", packed("codes"))
    given.plain = torch.nn.Parameter(torch.ones(3))
    given._parameters["plain"] = torch.full((3,), 2.0)
    gl.torch.save_packed(given, file)
    other = copy.deepcopy(given)
    gl.torch.load_packed(file, other, assign=True)
    assert [*other._buffers] == ["buffer", "packed"] and [*other._parameters] == ["plain"]
    assert forms(other) == forms(given) and same(plain(other), plain(given))
    assert all(each is not objects(given)[name] for name, each in objects(other).items())


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_the_tensors_of_a_script(file):
    given = torch.nn.Sequential(torch.nn.Linear(2, 3))
    gl.torch.save_packed(given, file)
    script = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 3)))
    gl.torch.load_packed(file, script, assign=True)
    assert torch.equal(script(torch.ones(1, 2)), given(torch.ones(1, 2)))


def test_tensors_and_models_without_elements_and_a_default_device(file):
    given, other = torch.nn.Module(), torch.nn.Module()
    for each, device in ((given, "cpu"), (other, "meta")):
        each.nothing = torch.nn.Parameter(torch.empty(0, 3, device=device))
        each.tied = each.nothing
        each.scalar = torch.nn.Parameter(torch.full((), 5.0, device=device))
    gl.torch.save_packed(given, file)
    with torch.device("meta"):
        assert gl.torch.load_packed(file, other, assign=True) == ([], [])
    assert other.nothing.shape == (0, 3) and not other.nothing.is_meta and other.scalar.item() == 5
    gl.torch.save_packed(torch.nn.Module(), file, overwrite=True)
    assert gl.torch.load_packed(file, torch.nn.Module(), assign=True) == ([], [])


def test_without_strict_what_is_missing_stays(file):
    gl.torch.save_packed(model("codes", "columns"), file)
    other = plain_model("codes")
    other.more = torch.nn.Linear(1, 1, bias=False, device="meta")
    kept = other.more.weight
    result = gl.torch.load_packed(file, other, strict=False, assign=True)
    assert result == (["more.weight"], ["blocks.1.weight"]) and other.more.weight is kept
    assert np.array_equal(gl.torch.read(other.blocks[0].weight).numpy(), values("codes"))


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_listed_in_one_error_and_nothing_is_replaced(file):
    gl.torch.save_packed(model("codes", "columns", "tiles", "words"), file)
    other = plain_model("codes", "columns", "tiles")
    other.blocks[0].weight = torch.nn.Parameter(torch.empty(16, 32, dtype=torch.uint8, device="meta"), False)
    other.blocks[1].weight = torch.nn.Parameter(tensor("columns"), requires_grad=False)
    gl.torch.pack_(other.blocks[1].weight, "{1,0:T(2,4)}")
    other.blocks[2].weight = torch.nn.Parameter(torch.empty(4, 8, device="meta"), False)
    other.head.weight = torch.nn.Parameter(torch.empty(3, 2, device="meta", dtype=torch.bfloat16))
    other.head.bias = torch.nn.Parameter(torch.empty(2, device="meta"))
    other.more = torch.nn.Linear(1, 1)
    old = objects(other)
    with pytest.raises(gl.LayoutError) as caught:
        gl.torch.load_packed(file, other, assign=True)
    for text in (
        f"{file} does not fit Module, and nothing was loaded: missing are 'more.weight', 'more.bias'",
        "unexpected is 'blocks.3.weight'",
        "'blocks.0.weight' is marlin:weights[16,64] in the file, which goes into uint8[16,64] or int32[1,128], and the "
        "model has uint8[16,32]",
        "'blocks.1.weight' is f32[6,8]{0,1} in the file, and the model has f32[6,8]{1,0:T(2,4)}: leave out assign=True",
        "'blocks.2.weight' is f16[4,8]{1,0:T(2,4)} in the file, which goes into float16[4,8] or float16[32], and the "
        "model has float32[4,8]",
        "'head.weight' is float32[3,2] in the file, and the model has bfloat16[3,2]",
        "'head.bias' is float32[3] in the file, and the model has float32[2]",
    ):
        assert text in str(caught.value)
    assert "\n" not in str(caught.value) and all(each is old[name] for name, each in objects(other).items())


def with_weight(weight):
    made = torch.nn.Module()
    made.weight = weight
    return made


def floats(**options):
    return torch.nn.Parameter(torch.zeros(64, 64, dtype=torch.float8_e4m3fn, **options))


FP8 = "marlin:weights(dtype=f8e4m3fn)"
MISFITS = {  # models of one weight that a file of such floats does not fit, and why
    r"'weight': tensor .* requires a gradient, and marlin:weights.* is of torch.int32": floats,
    r"'weight': .*no shape yet": lambda: torch.nn.parameter.UninitializedParameter(device="meta"),
    r"'weight' is marlin:weights.*: leave out assign=True": lambda: packed("columns"),
}


@pytest.mark.parametrize("text", MISFITS)
def test_one_tensor_that_does_not_fit(file, text):
    gl.torch.save_packed(with_weight(gl.torch.pack_(floats().requires_grad_(False), FP8)), file)
    other = with_weight(MISFITS[text]())
    kept = other.weight
    with pytest.raises(gl.LayoutError, match=text):
        gl.torch.load_packed(file, other, assign=True)
    assert other.weight is kept


def test_plain_tensors_do_not_replace_packed_ones_nor_those_that_a_state_computes(file):
    gl.torch.save_packed(with_weight(torch.nn.Parameter(torch.ones(6, 8))), file)
    with pytest.raises(gl.LayoutError, match=r"is float32\[6,8\] in the file, and the model has f32.*: leave out"):
        gl.torch.load_packed(file, with_weight(packed("columns")), assign=True)
    other = with_weight(torch.nn.Parameter(torch.zeros(6, 8)))
    other.register_state_dict_post_hook(lambda _, state, *more: state.update(weight=other.weight.detach()))
    with pytest.raises(gl.LayoutError, match="'weight' is no parameter or buffer, but made by state_dict"):
        gl.torch.load_packed(file, other, assign=True)
    assert not other.weight.any()


def test_a_file_that_becomes_shorter_before_it_is_mapped(file, monkeypatch):
    from gpulayout.torch import packed_files

    gl.torch.save_packed(model("codes", "columns"), file)
    other = plain_model("codes", "columns")
    old = objects(other)
    monkeypatch.setattr(packed_files, "check_fits", lambda *arguments: os.truncate(file, 100))
    with pytest.raises(ValueError, match="the file has become shorter while it was read: it has 100 bytes, and"):
        gl.torch.load_packed(file, other, assign=True)
    assert all(each is old[name] for name, each in objects(other).items())


# ---- all or none -----------------------------------------------------------------------------------------------------


def replaced(given, old):
    """Whether all tensors are new; None if some are."""
    found = {each is not old[name] for name, each in objects(given).items()}
    return found.pop() if len(found) == 1 else None


class Watched(torch.nn.Module):
    """A module that calls a function when it has got a weight."""

    told = None

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if self.told is not None and name == "weight":
            self.told(value)


def watched(*kinds):
    """A model without memory, whose modules are watched."""
    made = plain_model(*kinds)
    for number, block in enumerate(made.blocks):
        made.blocks[number] = Watched()
        made.blocks[number].weight = block.weight
    return made


def test_a_module_that_takes_no_other_tensor_leaves_all_as_they_were(file):
    given = model("codes", "columns", "tiles")
    gl.torch.save_packed(given, file)
    other = watched("codes", "columns", "tiles")
    old = objects(other)

    def told(value):
        if not value.is_meta:
            raise RuntimeError("the module is closed")

    other.blocks[1].__dict__["told"] = told
    with pytest.raises(RuntimeError, match="the module is closed"):
        gl.torch.load_packed(file, other, assign=True)
    assert replaced(other, old) is False
    del other.blocks[1].told
    gl.torch.load_packed(file, other, assign=True)
    assert replaced(other, old) is True and same(plain(other), plain(given))


in_main_thread = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals are handled in the main thread"
)


@in_main_thread
@pytest.mark.parametrize("calls", [(1,), (1, 2), (2, 3), (0, 1, 2, 3)])
def test_ctrl_c_again_and_again_while_tensors_are_replaced(file, calls):
    given = model("codes", "columns", "tiles")
    gl.torch.save_packed(given, file)
    other, times, count = watched("codes", "columns", "tiles"), {*calls}, itertools.count()
    old = objects(other)
    for block in other.blocks:
        block.__dict__["told"] = lambda value: next(count) in times and signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        gl.torch.load_packed(file, other, assign=True)
    assert replaced(other, old) is not None
    times.clear()
    gl.torch.load_packed(file, other, assign=True)
    assert same(plain(other), plain(given))


@in_main_thread
def test_ctrl_c_at_any_line_replaces_all_or_none(file):
    kinds = "codes", "columns"
    given = model(*kinds)
    gl.torch.save_packed(given, file)

    def stopped_at(number, other):
        """Lines that were run; Ctrl-C comes before one of them."""
        trace = Trace("torch" + os.sep, number, functools.partial(signal.raise_signal, signal.SIGINT))
        with contextlib.suppress(KeyboardInterrupt):
            trace.run(functools.partial(gl.torch.load_packed, file, other, assign=True))
        return trace.lines

    count, found = stopped_at(-1, plain_model(*kinds)), set()
    for number in {*range(0, count, count // 20), *range(count - 20, count + 1)}:
        other = plain_model(*kinds)
        old = objects(other)
        stopped_at(number, other)
        found.add(replaced(other, old))
    assert found == {False, True}
    gl.torch.load_packed(file, other, assign=True)
    assert same(plain(other), plain(given))
