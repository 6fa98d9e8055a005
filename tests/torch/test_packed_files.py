"""`save_packed` and `load_packed`: packed bytes go to a file and back as they are, and the notes are true."""

import json
import os

import numpy as np
import pytest

import gpulayout as gl
from tests.support.command_line import run
from tests.torch.packed_cases import KINDS, facts, in_two_files, model, packed, plain, same, tensor, values

torch = pytest.importorskip("torch")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.safetensors"


def raw(given):
    """The bytes of all tensors as they lie."""
    return {name: each.data.contiguous().view(-1).view(torch.uint8).numpy().tobytes() for name, each in states(given)}


def states(given):
    return [(name, torch.Tensor._make_subclass(torch.Tensor, each)) for name, each in given.state_dict().items()]


def parts(file):
    """The header of a file, and its bytes behind it, without the package."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def rewrite(file, change):
    """Change the header of a file, which keeps its bytes."""
    header, rest = parts(file)
    change(header)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + rest)


def plain_model(*kinds, seed=1):
    """The same model as `model` before anything was packed."""
    made = torch.nn.Module()
    made.blocks = torch.nn.ModuleList(torch.nn.Module() for _ in kinds)
    for block, kind in zip(made.blocks, kinds):
        block.weight = torch.nn.Parameter(tensor(kind, seed), requires_grad=False)
    made.head = torch.nn.Linear(2, 3).requires_grad_(False)
    return made


PACKED_IN_PLACE = [kind for kind in KINDS if kind != "padding"]


def test_the_file_has_the_packed_bytes_and_says_what_they_are(file):
    given = model(*KINDS)
    gl.torch.save_packed(given, file)
    header, content = parts(file)
    notes = header.pop("__metadata__")
    assert notes.pop("format") == "pt" and header.keys() == given.state_dict().keys()
    for number, kind in enumerate(KINDS):
        name = f"blocks.{number}.weight"
        begin, end = header[name]["data_offsets"]
        shape = gl.parse_shape(notes[f"gpulayout:{name}"])
        stored = np.frombuffer(content[begin:end], np.uint8)
        array = gl.unpack(stored.view(shape.buffer_dtype), shape)
        weight = given.blocks[number].weight
        if kind == "words":
            expected = gl.unpack(values(kind).reshape(-1).view(np.uint8), "gptq:qweight(dtype=u4)[32,64]")
        else:
            expected = values(kind).T if "turned" in kind else values(kind)
        assert np.array_equal(np.asarray(array).astype(expected.dtype), expected)
        assert end - begin == weight.numel() * weight.element_size()
        said = json.loads(notes[f"gpulayout-plain:{name}"])
        assert said["dtype"] == str(tensor(kind).dtype)[6:] and said["sizes"] == [*values(kind).shape]
    assert not any(key.endswith("head.weight") for key in notes)


def test_a_load_gives_every_tensor_its_bytes_in_place_and_a_second_one_changes_nothing(file):
    given = model(*KINDS)
    gl.torch.save_packed(given, file)
    for other in (model(*KINDS, seed=1), given):
        before = facts(other)
        for _ in range(2):
            assert gl.torch.load_packed(file, other) == ([], [])
            assert facts(other) == before and same(plain(other), plain(given))


def test_plain_parameters_become_packed_in_their_own_memory(file):
    given = model(*PACKED_IN_PLACE)
    gl.torch.save_packed(given, file)
    other = plain_model(*PACKED_IN_PLACE)
    objects = [block.weight for block in other.blocks]
    addresses = [each.data_ptr() for each in objects]
    for _ in range(2):
        gl.torch.load_packed(file, other)
        assert [block.weight for block in other.blocks] == objects or all(
            block.weight is each for block, each in zip(other.blocks, objects)
        )
        assert [each.data_ptr() for each in objects] == addresses
        assert [facts(other)[name][1:] for name in facts(other)] == [facts(given)[name][1:] for name in facts(given)]
        assert same(plain(other), plain(given))
    for block, kind in zip(other.blocks, PACKED_IN_PLACE):  # also what unpack_ needs is there
        gl.torch.unpack_(block.weight)
        assert type(block.weight) is torch.nn.Parameter and np.array_equal(block.weight.numpy(), values(kind))


def test_plain_parameters_of_the_packed_sizes_become_packed(file):
    given = model("codes", "words", "columns")
    gl.torch.save_packed(given, file)
    other = plain_model("codes", "words", "columns")
    for block, source in zip(other.blocks, given.blocks):
        block.weight = torch.nn.Parameter(torch.zeros(source.weight.shape, dtype=source.weight.dtype), False)
    gl.torch.load_packed(file, other)
    assert same(plain(other), plain(given))


def test_padding_needs_memory_of_its_own(file):
    given = model("padding")
    gl.torch.save_packed(given, file)
    other = plain_model("padding")
    with pytest.raises(
        gl.LayoutError,
        match=r"'blocks.0.weight' is f32\[3,5\].* of 128 bytes, and the model's tensor has 60: put gl.torch.empty_pack",
    ):
        gl.torch.load_packed(file, other)
    assert np.array_equal(other.blocks[0].weight.numpy(), values("padding", 1))
    other.blocks[0].weight = gl.torch.empty_packed(KINDS["padding"][2], like=other.blocks[0].weight)
    gl.torch.load_packed(file, other)
    assert same(plain(other), plain(given))
    gl.torch.unpack_(other.blocks[0].weight)  # the memory stays large enough
    gl.torch.load_packed(file, other)
    assert same(plain(other), plain(given)) and facts(other)["blocks.0.weight"][1] == facts(given)["blocks.0.weight"][1]


def test_another_layout_of_the_same_array_is_kept(file):
    given = model("columns", "codes", "codes, turned", "words")
    gl.torch.save_packed(given, file)
    other = plain_model("columns", "codes", "codes, turned", "words")
    layouts = "{1,0:T(3,4)}", "u4[16,64]{0,1:E(4)}", "u4[64,16]{1,0:E(4)}", "u4[32,64]{0,1:E(4)}"
    for block, layout in zip(other.blocks, layouts):
        source = "gptq:qweight(dtype=u4)" if block.weight.dtype == torch.int32 else None
        gl.torch.pack_(block.weight, layout, source=source)
    before = facts(other)
    gl.torch.load_packed(file, other)
    assert facts(other) == before and same(plain(other), plain(given))


def test_plain_tensors_of_a_file_are_packed_on_the_way(file):
    plain_one = plain_model(*KINDS, seed=0)
    gl.torch.save_packed(plain_one, file)
    assert parts(file)[0]["__metadata__"] == {"format": "pt"}
    given = model(*KINDS, seed=1)
    before = facts(given)
    gl.torch.load_packed(file, given)
    assert facts(given) == before and same(plain(given), plain(plain_one))
    other = plain_model(*KINDS, seed=2).double()
    gl.torch.load_packed(file, plain_model(*KINDS, seed=2))
    other.blocks[0].weight.data = torch.zeros(8, 6, dtype=torch.float64).t()
    gl.torch.load_packed(file, other)
    assert np.array_equal(other.blocks[0].weight.numpy(), values("columns").astype("f8"))


def test_tied_tensors_are_written_once(file):
    for tie in (lambda weight: weight, lambda weight: torch.nn.Parameter(weight.data, requires_grad=False)):
        given, other, untied = model("codes"), plain_model("codes"), plain_model("codes")
        for each in (given, other):
            each.tied, each.other = torch.nn.Module(), torch.nn.Module()
            each.tied.weight, each.other.weight = tie(each.blocks[0].weight), tie(each.head.weight)
        untied.tied, untied.other = torch.nn.Module(), torch.nn.Module()
        untied.tied.weight = torch.nn.Parameter(tensor("codes", 2), requires_grad=False)
        untied.other.weight = torch.nn.Parameter(torch.zeros(3, 2), requires_grad=False)
        gl.torch.save_packed(given, file, overwrite=True)
        header = parts(file)[0]
        assert header["__metadata__"]["tied.weight"] == "blocks.0.weight"
        assert header.keys() == {"__metadata__", "blocks.0.weight", "head.weight", "head.bias"}
        for target in (other, untied, given):
            for _ in range(2):
                assert gl.torch.load_packed(file, target) == ([], [])
                assert same(plain(target), plain(given))
                assert {each[1:] for each in facts(target).values()} == {each[1:] for each in facts(given).values()}
        assert other.tied.weight.data_ptr() == other.blocks[0].weight.data_ptr()


def test_tied_tensors_of_the_model_that_a_file_has_once(file):
    """As a file of another library may, which says nothing about it."""
    given, other = model("codes"), model("codes", seed=1)
    gl.torch.save_packed(given, file)
    for each in (given, other):
        each.tied = torch.nn.Module()
        each.tied.weight = torch.nn.Parameter(each.blocks[0].weight.data, requires_grad=False)
    assert gl.torch.load_packed(file, other) == ([], [])
    assert same(plain(other), plain(given))


def test_a_tied_tensor_with_the_name_of_other_metadata_is_written_again(file):
    given = torch.nn.Module()
    given.first = torch.nn.Parameter(torch.arange(3.0), requires_grad=False)
    given.format = given.first
    gl.torch.save_packed(given, file)
    assert parts(file)[0].keys() == {"__metadata__", "first", "format"}
    assert parts(file)[0]["__metadata__"] == {"format": "pt"}


def test_one_layout_behind_two_patterns_is_not_one_array(file):
    """A square array, straight in the file and turned in the model: the bytes mean other elements."""
    codes = torch.arange(64 * 64).reshape(64, 64).to(torch.uint8) % 16
    given, other = torch.nn.Module(), torch.nn.Module()
    for each, pattern in ((given, ""), (other, "n k -> k n; ")):
        each.weight = torch.nn.Parameter(codes.clone(), requires_grad=False)
        gl.torch.pack_(each.weight, pattern + "marlin:weights(dtype=u4)")
    gl.torch.save_packed(given, file)
    before = facts(other)
    gl.torch.copy_(other.weight, torch.zeros_like(codes))
    gl.torch.load_packed(file, other)
    assert torch.equal(gl.torch.read(other.weight), codes) and facts(other) == before
    # A file that does not say what the plain tensor is has the layout's bytes, as the model has it.
    rewrite(file, lambda header: header["__metadata__"].pop("gpulayout-plain:weight"))
    gl.torch.load_packed(file, other)
    assert torch.equal(gl.torch.read(other.weight), codes.t()) and facts(other) == before


def test_packed_floats_of_another_type_are_converted_and_codes_are_not(file):
    given, other = model("tiles"), model("tiles")
    other.blocks[0].weight = torch.nn.Parameter(torch.zeros(4, 8), requires_grad=False)
    gl.torch.pack_(other.blocks[0].weight, "{0,1}")
    gl.torch.save_packed(given, file)
    gl.torch.load_packed(file, other)
    assert np.array_equal(gl.torch.read(other.blocks[0].weight).numpy(), values("tiles").astype("f4"))
    other.blocks[0].weight = torch.nn.Parameter(torch.zeros(4, 8, dtype=torch.uint8), requires_grad=False)
    gl.torch.pack_(other.blocks[0].weight, "{0,1}")
    with pytest.raises(gl.LayoutError, match=r"of f16\[4,8\] in the file, and the model has u8\[4,8\]\{0,1\} of u8"):
        gl.torch.load_packed(file, other)


def test_the_format_s_library_reads_the_file(file):
    safetensors = pytest.importorskip("safetensors.torch")
    given = model("codes", "columns")
    given.strided = torch.nn.Parameter(torch.arange(6.0).view(2, 3).t(), requires_grad=False)
    gl.torch.save_packed(given, file)
    found = safetensors.load_file(file)
    assert found["blocks.0.weight"].dtype == torch.int32 and tuple(found["blocks.0.weight"].shape) == (1, 128)
    assert found["strided"].equal(given.strided)
    with safetensors.safe_open(file, "pt") as opened:
        assert opened.metadata()["gpulayout:blocks.0.weight"] == "marlin:weights[16,64]"


def test_the_command_line_shows_it_and_makes_plain_tensors_of_it(file, tmp_path):
    given = model("codes", "columns")
    gl.torch.save_packed(given, file)
    shown = run("show", file).output
    assert "marlin:weights[16,64]" in shown and "f32[6,8]{0,1}" in shown and "gpulayout-plain" not in shown
    unpacked = tmp_path / "plain.safetensors"
    run("unpack", file, unpacked)
    header, content = parts(unpacked)
    assert header["__metadata__"] == {"format": "pt"}
    begin, end = header["blocks.1.weight"]["data_offsets"]
    assert content[begin:end] == values("columns").tobytes() and header["blocks.1.weight"]["shape"] == [6, 8]
    other = model("codes", "columns", seed=1)
    gl.torch.load_packed(unpacked, other)
    assert same(plain(other), plain(given))


def test_files_that_the_package_has_made_of_checkpoints(file, tmp_path):
    """A model has words that are packed, or the codes that the file has in words."""
    given = plain_model("words", "words", seed=0)
    gl.torch.save_packed(given, file)
    made = tmp_path / "marlin.safetensors"
    gl.relayout_file(file, made, tensors={"blocks.*": "from=gptq:qweight(dtype=u4); marlin:weights"})
    other = plain_model("words", "words")
    gl.torch.pack_(other.blocks[0].weight, "marlin:weights(dtype=u4)", source="gptq:qweight(dtype=u4)")
    other.blocks[1].weight = torch.nn.Parameter(torch.zeros(32, 64, dtype=torch.uint8), requires_grad=False)
    for _ in range(2):
        gl.torch.load_packed(made, other)
        assert np.array_equal(gl.torch.read(other.blocks[0].weight).numpy(), values("words"))
        codes = gl.unpack(values("words").reshape(-1).view(np.uint8), "gptq:qweight(dtype=u4)[32,64]")
        assert np.array_equal(gl.torch.read(other.blocks[1].weight).numpy(), np.asarray(codes).astype("u1"))


def test_an_index_of_several_files(tmp_path):
    given = model("codes", "columns")
    index = in_two_files(given, tmp_path)
    other = model("codes", "columns", seed=1)
    assert gl.torch.load_packed(index, other) == ([], [])
    assert same(plain(other), plain(given))


def _set(key, value):
    return lambda header: header["__metadata__"].__setitem__(key, value)


def _side(**fields):
    said = {"dtype": "uint8", "sizes": [16, 64], **fields}
    return _set("gpulayout-plain:blocks.0.weight", json.dumps(said))


def _as_another(header):
    """One tensor has the note of the one before, which is true there."""
    notes = header["__metadata__"]
    for key in ("gpulayout:blocks.1.weight", "gpulayout-plain:blocks.1.weight"):
        notes[key] = notes[key.replace("1", "0")]


def _remove(key):
    return lambda header: header["__metadata__"].pop(key)


LIES = {
    "another size": (_set("gpulayout:blocks.0.weight", "marlin:weights[16,128]"), "a buffer of 1024 bytes, but the"),
    "another tensor's note": (_as_another, "a buffer of 512 bytes, but the"),
    "another type": (_set("gpulayout:blocks.0.weight", "marlin:weights(dtype=u8)[16,64]"), "a buffer of 1024 bytes"),
    "no layout": (_set("gpulayout:blocks.0.weight", "marlin:wieghts[16,64]"), "did you mean 'marlin:weights'"),
    "a tensor that is not there": (_set("gpulayout:more", "f32[2]"), "a note about a tensor that it lacks, 'more'"),
    "a plain tensor without a note": (_remove("gpulayout:blocks.0.weight"), "but no note, for 'blocks.0.weight'"),
    "plain sizes": (_side(sizes=[64, 16]), "what the file says of its plain tensor does not fit"),
    "huge sizes": (_side(sizes=[1 << 62, 1 << 62]), "does not fit"),
    "negative sizes": (_side(sizes=[-16, -64]), "is not a list of numbers"),
    "no sizes": (_side(sizes=None), "is not a list of numbers"),
    "strides with gaps": (_side(strides=[128, 1]), "does not fit"),
    "strides that overlap": (_side(strides=[0, 0]), "does not fit"),
    "too few strides": (_side(strides=[1]), "does not fit"),
    "plain type": (_side(dtype="float32"), "does not fit"),
    "an attribute of torch": (_side(dtype="load"), "does not fit"),
    "no type": (_side(dtype=3), "must be texts"),
    "axes": (_side(axes=[1, 0]), "does not fit"),
    "axes that are none": (_side(axes=[0, 0]), "are no order of axes"),
    "too many axes": (_side(axes=[0, 1, 2]), "does not fit"),
    "source": (_side(source="gptq:qweight(dtype=u4)"), "does not fit"),
    "another field": (_side(more=1), "has not the fields"),
    "no object": (_set("gpulayout-plain:blocks.0.weight", "[]"), "has not the fields"),
    "no JSON": (_set("gpulayout-plain:blocks.0.weight", "{"), "is not JSON"),
    "deep JSON": (_set("gpulayout-plain:blocks.0.weight", "[" * 100_000), "nested too deeply"),
}


@pytest.mark.parametrize("lie", LIES)
def test_notes_that_are_not_true_are_errors_before_a_byte_is_written(file, lie):
    gl.torch.save_packed(model("codes", "columns"), file)
    change, text = LIES[lie]
    rewrite(file, change)
    for other in (model("codes", "columns", seed=1), plain_model("codes", "columns")):
        before, held = facts(other), plain(other)
        with pytest.raises(ValueError) as caught:
            gl.torch.load_packed(file, other)
        assert str(caught.value).startswith(str(file)) and text in str(caught.value) and "\n" not in str(caught.value)
        assert len(str(caught.value)) < 2000
        assert facts(other) == before and same(plain(other), held)


def test_what_does_not_fit_is_listed_in_one_error_before_a_byte_is_written(file):
    gl.torch.save_packed(model("codes", "columns", "tiles", "words"), file)
    other = model("columns", "codes", "tiles")
    other.blocks[2].weight = torch.nn.Parameter(torch.zeros(8, 4), requires_grad=False)
    other.more = torch.nn.Linear(1, 1)
    before, held = facts(other), plain(other)
    with pytest.raises(gl.LayoutError) as caught:
        gl.torch.load_packed(file, other)
    message = str(caught.value)
    for text in (
        f"{file} does not fit Module, and nothing was loaded: missing are 'more.weight', 'more.bias'",
        "unexpected is 'blocks.3.weight'",
        "'blocks.0.weight' is marlin:weights[16,64] of u4[16,64] in the file, and the model has f32[6,8]{0,1} of f32",
        "'blocks.2.weight' is f16[4,8]{1,0:T(2,4)} in the file, which goes into float16[4,8] or float16[32], and the "
        "model has float32[8,4]",
    ):
        assert text in message
    assert "\n" not in message and facts(other) == before and same(plain(other), held)
    del other.more
    with pytest.raises(gl.LayoutError, match="does not fit"):
        gl.torch.load_packed(file, other, strict=False)


def test_plain_tensors_of_other_strides_and_autograd_s_version(file):
    given, other = plain_model("columns", "codes", seed=0), model("columns", "codes")
    other.blocks[0].weight = torch.nn.Parameter(torch.zeros(8, 6).t(), requires_grad=False)
    gl.torch.save_packed(given, file)
    versions = {name: each._version for name, each in other.named_parameters()}
    gl.torch.load_packed(file, other)
    assert same(plain(other), plain(given)) and other.blocks[0].weight.stride() == (1, 6)
    assert all(each._version > versions[name] for name, each in other.named_parameters())


def test_a_load_makes_memory_between_two_layouts_valid_again(file, monkeypatch):
    from gpulayout.torch import packing

    given, other = model("codes"), model("codes", seed=1)
    gl.torch.save_packed(given, file)

    def failed(*arguments, out, **options):
        out.zero_()
        raise RuntimeError("the device is lost")

    monkeypatch.setattr(packing, "relayout", failed)
    with pytest.raises(RuntimeError):
        gl.torch.unpack_(other.blocks[0].weight)
    monkeypatch.undo()
    with pytest.raises(gl.LayoutError, match="between two layouts"):
        gl.torch.read(other.blocks[0].weight)
    gl.torch.load_packed(file, other)
    assert same(plain(other), plain(given))


def test_plain_floats_of_a_file_do_not_become_codes(file):
    given = plain_model("columns", "codes")
    given.blocks[1].weight = torch.nn.Parameter(torch.ones(16, 64), requires_grad=False)
    gl.torch.save_packed(given, file)
    other = model("columns", "codes")
    held = plain(other)
    with pytest.raises(
        gl.LayoutError, match=r"'blocks.1.weight' is float32\[16,64\] .* plain tensor is uint8\[16,64\]"
    ):
        gl.torch.load_packed(file, other)
    assert same(plain(other), held)


def test_without_strict_names_may_differ(file):
    gl.torch.save_packed(model("codes", "columns"), file)
    other = model("codes", seed=1)
    other.more = torch.nn.Linear(1, 1, bias=False)
    assert gl.torch.load_packed(file, other, strict=False) == (["more.weight"], ["blocks.1.weight"])
    assert np.array_equal(gl.torch.read(other.blocks[0].weight).numpy(), values("codes"))


def test_memory_that_is_not_the_tensor_s_own_is_not_written(file):
    """A column of a larger array has gaps, in which other values lie."""
    given = torch.nn.Module()
    given.weight = packed("columns")
    gl.torch.save_packed(given, file)
    whole = torch.zeros(6, 16)
    other = torch.nn.Module()
    other.weight = torch.nn.Parameter(whole[:, :8], requires_grad=False)
    with pytest.raises(gl.LayoutError, match="has gaps between its elements"):
        gl.torch.load_packed(file, other)
    other.weight = torch.nn.Parameter(torch.zeros(6, 8))
    other.weight.grad = torch.zeros(6, 8)
    with pytest.raises(gl.LayoutError, match="'weight': .* has a gradient"):
        gl.torch.load_packed(file, other)
    assert not whole.any()


def test_a_file_that_is_cut_off_while_it_is_read_leaves_no_plain_tensor_of_packed_bytes(file, monkeypatch):
    from gpulayout.torch import file_tensors

    given, other = model("codes"), plain_model("codes")
    gl.torch.save_packed(given, file)
    read_at = file_tensors.read_at
    monkeypatch.setattr(file_tensors, "read_at", lambda *arguments: read_at(*arguments) - 1)
    with pytest.raises(ValueError, match="has become shorter while it was read"):
        gl.torch.load_packed(file, other, strict=False)
    with pytest.raises(gl.LayoutError, match="between two layouts: loading .* failed"):
        gl.torch.layout_of(other.blocks[0].weight)
    monkeypatch.undo()
    gl.torch.load_packed(file, other)
    assert same(plain(other), plain(given))


def test_memory_of_a_device_is_filled_and_read_in_parts(file, monkeypatch):
    """As on a GPU, but that the parts are copied to memory of the host."""
    from gpulayout.torch import file_tensors, packed_files

    for each in (file_tensors, packed_files):
        monkeypatch.setattr(each, "is_on_host", lambda memory: False)
    given = model(*KINDS)
    expected = file.with_name("expected.safetensors")
    gl.torch.save_packed(given, expected)
    for stage in (1, 100, 1 << 26):
        for each in (file_tensors, packed_files):
            monkeypatch.setattr(each, "STAGE", stage)
        gl.torch.save_packed(given, file, overwrite=True)
        assert file.read_bytes() == expected.read_bytes()
        for other in (model(*KINDS, seed=1), plain_model(*PACKED_IN_PLACE)):
            gl.torch.load_packed(file, other, strict=False)
            held = plain(given)
            assert all(np.array_equal(array, held[name]) for name, array in plain(other).items())


def test_a_model_without_memory_and_one_without_sizes(file):
    gl.torch.save_packed(torch.nn.Linear(4, 3), file)
    for other, text in (
        (torch.nn.Linear(4, 3, device="meta"), r"'weight' is on the meta device: .*model.to_empty\(device=...\)"),
        (torch.nn.LazyLinear(3), "'weight': .*no shape yet"),
    ):
        with pytest.raises(gl.LayoutError, match=text):
            gl.torch.load_packed(file, other)


class Counted(torch.nn.Module):
    """A module with extra state that a file can hold."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def get_extra_state(self):
        return torch.tensor([self.steps])

    def set_extra_state(self, state):
        self.steps = int(state)


def test_extra_state_that_is_a_tensor(file):
    for wrap in (lambda module: module, torch.nn.Sequential):
        gl.torch.save_packed(wrap(Counted(7)), file, overwrite=True)
        other = Counted(0)
        gl.torch.load_packed(file, wrap(other))
        assert other.steps == 7
    given = Counted(7)
    given.get_extra_state = lambda: {"steps": 7}
    with pytest.raises(TypeError, match="^'_extra_state': extra state of a dict has no place .*torch.save takes it"):
        gl.torch.save_packed(given, file, overwrite=True)


def test_a_file_appears_whole_or_not_at_all(file, monkeypatch):
    from gpulayout.files.checkpoints import new_model

    given = model("codes", "columns")
    gl.torch.save_packed(given, file)
    before = file.read_bytes()
    with pytest.raises(FileExistsError, match="the file exists"):
        gl.torch.save_packed(model("codes", "columns", seed=1), file)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(new_model, "write_at", full)
    with pytest.raises(OSError, match="No space left"):
        gl.torch.save_packed(model("codes", "columns", seed=1), file, overwrite=True)
    assert file.read_bytes() == before and os.listdir(file.parent) == [file.name]


def test_mistakes_of_the_call(file, tmp_path):
    for call in (lambda given: gl.torch.save_packed(given, file), lambda given: gl.torch.load_packed(file, given)):
        with pytest.raises(TypeError, match="takes a model"):
            call({"weight": torch.zeros(2)})
    with pytest.raises(FileNotFoundError):
        gl.torch.load_packed(file, torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="there is no such file or folder"):
        gl.torch.load_packed(tmp_path / "model.txt", torch.nn.Linear(2, 2))
    given = torch.nn.Linear(2, 2)
    given.more = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex128))
    with pytest.raises(TypeError, match="^'more': safetensors files have no elements of torch.complex128"):
        gl.torch.save_packed(given, file)
    given.more = torch.nn.Parameter(torch.zeros(2, device="meta"))
    with pytest.raises(TypeError, match="^'more': .*meta device"):
        gl.torch.save_packed(given, file)
    assert not file.exists()
